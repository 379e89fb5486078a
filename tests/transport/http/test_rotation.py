"""Keys and tokens are exchanged while a service lives: what still works, and what does not."""

import httpx
import pytest
from served import make_clinic, running

from suffice.errors import SignatureError
from suffice.release.signing import generate_keys, verify
from suffice.transport.remote import Remote


def test_another_key_signs_what_is_granted_from_now_on(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    old, new = clinic.folder / "clinic.pub", clinic.folder / "clinic-2.pub"
    before, after = clinic.proposal("before"), clinic.proposal("after")
    with running(clinic) as (url, _):
        _, first = Remote(url, clinic.tokens["learner"], old).propose(before, "diagnosis")
    generate_keys(clinic.folder / "clinic-2")
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text().replace('"clinic.key"', '"clinic-2.key"'))
    with running(clinic) as (url, _):
        trusting_old = Remote(url, clinic.tokens["learner"], old)
        assert trusting_old.propose(before, "diagnosis")[1] == first
        with pytest.raises(SignatureError, match="another key"):
            trusting_old.propose(after, "diagnosis")
        _, second = Remote(url, clinic.tokens["learner"], new).propose(after, "diagnosis")
    verify(second, new)
    assert clinic.charges("diagnosis") == 2


def test_a_revoked_token_ends_at_once_with_the_sessions_that_it_began(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    with running(clinic) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        owner = {"Authorization": f"Bearer {clinic.tokens['owner']}"}
        wish = {"role": "officer", "holder": "Eve"}
        made = client.post("/v1/tokens", headers=owner, json=wish).raise_for_status().json()
        officer = {"Authorization": f"Bearer {made['token']}"}
        assert client.post("/login", data={"token": made["token"]}).status_code == 303
        assert client.get("/").status_code == 200
        assert client.get("/v1/datasets", headers=officer).status_code == 200
        client.delete(f"/v1/tokens/{made['id']}", headers=owner).raise_for_status()
        assert client.get("/").status_code == 303
        assert client.get("/v1/datasets", headers=officer).status_code == 401
        assert client.post("/login", data={"token": made["token"]}).status_code == 403
