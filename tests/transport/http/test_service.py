"""The service as a learner and an owner meet it: a real server, real workers, real kills."""

import os
import signal
import time
from dataclasses import dataclass

import httpx
import pytest
from served import Clinic, make_clinic, running, workers_of

from suffice.errors import ParameterError, ServiceError
from suffice.protocol.messages import Countered, Granted, Refused
from suffice.protocol.remote import Remote
from suffice.releases.release import encode


@pytest.fixture(scope="module")
def clinic(tmp_path_factory) -> Clinic:
    return make_clinic(tmp_path_factory.mktemp("service") / "clinic")


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@dataclass(frozen=True)
class Client:
    """Somebody with a token; every request has its own connection."""

    url: str
    token: str

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=self._headers, timeout=60)

    def post(self, path: str, content: bytes) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", content=content, headers=self._headers, timeout=60)

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def remote_of(clinic: Clinic, url: str, role: str = "learner") -> Remote:
    return Remote(url, clinic.tokens[role], clinic.folder / "clinic.pub")


def test_a_proposal_is_granted_once_and_its_bytes_stay(clinic, url):
    remote, proposal = remote_of(clinic, url), clinic.proposal("granted once")
    before = clinic.charges("diagnosis")
    answers = [remote.propose(proposal, "diagnosis") for _ in range(3)]
    assert all(isinstance(answer, Granted) for answer, _ in answers)
    assert len({encode(release) for _, release in answers}) == 1
    assert clinic.charges("diagnosis") == before + 1


def test_too_large_an_epsilon_is_countered_and_not_charged(clinic, url):
    before = clinic.charges("diagnosis")
    answer, release = remote_of(clinic, url).propose(clinic.proposal(epsilon=4.0), "diagnosis")
    assert isinstance(answer, Countered)
    assert answer.terms.epsilon == 0.5
    assert release is None
    assert clinic.charges("diagnosis") == before


def test_foreign_rows_are_refused_with_a_fixed_sentence(clinic, url, tmp_path):
    lines = (clinic.folder / "rows.csv").read_text().splitlines()
    (tmp_path / "rows.csv").write_text("\n".join([*lines[:-1], "33,9.5,1"]))
    from suffice.protocol.grant import propose

    proposal = propose(tmp_path / "rows.csv", epsilon=0.1)
    answer, _ = remote_of(clinic, url).propose(proposal, "diagnosis")
    assert isinstance(answer, Refused)
    assert answer.reasons == ("the rows of the proposal are not those of the data set",)


def wait_for(client: Client, place: str, state: str) -> None:
    for _ in range(600):
        if client.get(place).json().get("state") == state:
            return
        time.sleep(0.1)
    raise AssertionError(state)


def test_an_owner_decides_by_hand(clinic, url):
    learner, owner = (Client(url, clinic.tokens[role]) for role in ("learner", "owner"))
    granted, refused = clinic.proposal("yes"), clinic.proposal("no")
    for proposal in (granted, refused):
        place = "/v1/datasets/smoker/proposals"
        assert learner.post(place, content=proposal.encode()).status_code == 202
        wait_for(learner, f"{place}/{proposal.digest}", "waiting")
        assert learner.get(f"{place}/{proposal.digest}/release").status_code == 404
        assert learner.post(f"{place}/{proposal.digest}/decision", content=b"{}").status_code == 403
    assert clinic.charges("smoker") == 0
    decision = f"{place}/{{}}/decision"
    refusal = b'{"grant": false, "reason": "ask next year"}'
    assert owner.post(decision.format(refused.digest), content=refusal).status_code == 200
    assert (
        owner.post(decision.format(granted.digest), content=b'{"grant": true}').status_code == 202
    )
    assert owner.post(decision.format(refused.digest), content=refusal).status_code == 409
    remote = remote_of(clinic, url)
    answer, release = remote.propose(granted, "smoker")
    assert isinstance(answer, Granted)
    assert release is not None
    answer, _ = remote.propose(refused, "smoker")
    assert answer == Refused(refused.digest, ("ask next year",))
    assert clinic.charges("smoker") == 1


def test_a_learner_sees_its_own_proposals_alone(clinic, url):
    proposal = clinic.proposal("mine")
    remote_of(clinic, url).propose(proposal, "diagnosis")
    other = Client(url, clinic.new_token("learner"))
    narrow = Client(url, clinic.new_token("learner", ("smoker",)))
    place = f"/v1/datasets/diagnosis/proposals/{proposal.digest}"
    for client in (other, narrow):
        assert client.get(place).status_code == 404
        assert client.get(f"{place}/release").status_code == 404
    assert other.get("/v1/datasets/diagnosis/proposals").json() == []
    assert narrow.get("/v1/datasets/diagnosis/proposals").status_code == 404
    assert [d["name"] for d in narrow.get("/v1/datasets").json()] == ["smoker"]
    # Who has the same proposal may have the same answer: it says nothing more.
    assert other.post(place.rpartition("/")[0], content=proposal.encode()).status_code == 200


def test_tokens_that_are_not_good_open_nothing(clinic, url):
    text = clinic.new_token("learner")
    identity = text.split("_")[1]
    assert Client(url, text).get("/v1/datasets").status_code == 200
    clinic.records.revoke_token(identity)
    for bad in (text, text[:-1], f"suffice_{identity}_", "suffice__", "x" * 500, "x"):
        response = Client(url, bad).get("/v1/datasets")
        assert response.status_code == 401
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["www-authenticate"] == "Bearer"
    with pytest.raises(ServiceError, match="answered 401"):
        Remote(url, text).datasets()
    with pytest.raises(ParameterError, match="not a token"):
        Remote(url, "x")


@pytest.mark.parametrize("victim", ["server", "worker"])
def test_a_kill_in_mid_grant_loses_no_answer_and_charges_once(tmp_path, victim):
    clinic = make_clinic(tmp_path / "clinic")
    proposal = clinic.proposal("killed")
    with running(clinic) as (url, process):
        learner = Client(url, clinic.tokens["learner"])
        sent = learner.post("/v1/datasets/diagnosis/proposals", content=proposal.encode())
        assert sent.status_code == 202
        for _ in range(200):  # until the worker of this data set is at work
            if victim == "server" or workers_of(process):
                break
            time.sleep(0.05)
        for pid in [process.pid] if victim == "server" else workers_of(process):
            os.kill(pid, signal.SIGKILL)
        if victim == "worker":
            answer, _ = remote_of(clinic, url).propose(proposal, "diagnosis")
    if victim == "server":
        with running(clinic) as (url, _):
            answer, _ = remote_of(clinic, url).propose(proposal, "diagnosis")
    assert isinstance(answer, Granted | Refused)
    assert clinic.charges("diagnosis") <= 1
    assert isinstance(answer, Granted) == (clinic.ledger.history()[0].state == "released")


def test_more_proposals_than_may_wait_are_turned_away(tmp_path):
    clinic = make_clinic(tmp_path / "clinic", most=3)
    with running(clinic) as (url, _):
        learner = Client(url, clinic.tokens["learner"])
        proposals = [clinic.proposal(f"study {k}") for k in range(6)]
        place = "/v1/datasets/smoker/proposals"
        codes = [learner.post(place, content=p.encode()).status_code for p in proposals]
        assert codes == [202] * 3 + [429] * 3
        answers = [learner.get(f"{place}/{p.digest}").status_code for p in proposals]
        assert answers == [202] * 3 + [404] * 3
