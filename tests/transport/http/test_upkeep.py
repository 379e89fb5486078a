"""What happens to a service over the years: other keys, other tokens, a ledger from a backup."""

import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from in_process import Reader, settle_all
from served import make_clinic, running

from suffice.errors import ServiceError, SignatureError
from suffice.protocol.messages import Answer
from suffice.protocol.remote import Remote
from suffice.releases.signing import generate_keys, verify
from suffice.service import workers
from suffice.service.oversight import entry_words
from suffice.service.records import State, StoredProposal
from suffice.service.settings import Settings


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


def test_a_frozen_ledger_returns_what_it_holds_and_charges_after_recovery(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    before, after = clinic.proposal("before"), clinic.proposal("after")
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", "0"],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        url = re.search(r"http://[\d.]+:\d+", process.stdout.readline()).group()
        remote = Remote(url, clinic.tokens["learner"], clinic.folder / "clinic.pub")
        _, release = remote.propose(before, "diagnosis")
        with clinic.ledger._store.writing() as records:  # as PostgreSQL does after a restore
            records.freeze("it was restored")
        assert remote.propose(before, "diagnosis")[1] == release
        with pytest.raises(ServiceError, match="not answered yet"):
            remote.propose(after, "diagnosis", wait=0)
        end = time.monotonic() + 120  # a guard against hanging, not a measurement
        while "is frozen: it was restored" not in (tmp_path / "log").read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert clinic.charges("diagnosis") == 1
        clinic.ledger.recover(clinic.ledger.checkpoint(clinic.folder / "clinic.key"))
        assert remote.propose(after, "diagnosis")[1] is not None
    finally:
        process.terminate()
        process.communicate()
    assert clinic.charges("diagnosis") == 2


def test_an_archived_proposal_gets_its_old_bytes_or_word_of_the_archive(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    asked, large = clinic.proposal("long ago"), clinic.proposal("too much", epsilon=0.9)
    settle_all(clinic, {"diagnosis": [asked, large]})
    learner = Reader(clinic, clinic.tokens["learner"])
    owner = Reader(clinic, clinic.tokens["owner"])
    place = "/v1/datasets/diagnosis/proposals"
    paths = [f"{place}/{asked.digest}", f"{place}/{asked.digest}/release"]
    paths.append(f"{place}/{large.digest}")
    before = [learner.get(path).content for path in paths]
    file = clinic.folder / "2026.archive"
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    archive = clinic.ledger.archive(file, clinic.folder / "clinic.key", tomorrow)
    assert (archive.releases, archive.proposals) == (1, 2)
    assert [learner.get(path).content for path in paths] == before
    assert learner.post(place, asked.encode()).content == before[0]
    file.rename(tmp_path / "elsewhere")
    for answer in (*map(learner.get, paths), learner.post(place, asked.encode())):
        assert answer.status_code == 410
        assert "archived" in answer.json()["detail"]
    at_work = workers.answer_proposal(Settings.load(clinic.folder), _received(asked))
    assert "archived" in Answer.load(at_work.answer).reasons[0]
    assert clinic.charges("diagnosis") == 1
    assert owner.export().content.datasets[0].proposals == ()
    clinic.ledger.verify()
    (tmp_path / "elsewhere").rename(file)
    assert [learner.get(path).content for path in paths] == before
    words = entry_words(clinic.ledger.log()[-1])
    assert words.startswith("1 releases and 2 proposals are in a file")


def _received(proposal) -> StoredProposal:
    """Return a proposal as it is stored when it arrives."""
    now = datetime.now(UTC)
    return StoredProposal("diagnosis", proposal.digest, proposal.encode(), now, State.RECEIVED)
