"""What becomes of a proposal that fails: an answer that gives no reason, or another try."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from served import make_clinic

from suffice.errors import (
    LedgerError,
    PendingRequestError,
    RequestConflictError,
    StorageError,
    UnitError,
)
from suffice.owner.ledger.tokens import utc_now
from suffice.protocol.messages import Answer, Countered, Proposal, Refused
from suffice.service import workers
from suffice.service.operation import LogLine, Troubles
from suffice.service.records import ServiceRecords, State, StoredProposal
from suffice.service.settings import Limits, Settings


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("jobs") / "clinic")


def answered(clinic, dataset: str, proposal: Proposal, state: State) -> workers.Outcome:
    stored = StoredProposal(dataset, proposal.digest, proposal.encode(), utc_now(), state)
    return workers.answer_proposal(Settings.load(clinic.folder), stored)


def failed(clinic, monkeypatch, error: Exception) -> workers.Outcome:
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(workers, "_opened", fail)
    return answered(clinic, "diagnosis", clinic.proposal(), State.APPROVED)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("label 7"), MemoryError(), RequestConflictError("x")],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_is_an_answer_without_a_reason(clinic, monkeypatch, error):
    outcome = failed(clinic, monkeypatch, error)
    answer = Answer.load(outcome.answer)
    assert isinstance(answer, Refused)
    assert answer.reasons == ("the service cannot answer this proposal; ask the owner",)
    assert outcome.release is None


def test_a_kind_without_a_budget_of_its_unit_is_refused_in_words(clinic, monkeypatch):
    outcome = failed(clinic, monkeypatch, UnitError("x"))
    (reason,) = Answer.load(outcome.answer).reasons
    assert reason == "the data set has no budget for what a release of this kind protects"


def test_what_a_policy_refuses_is_in_the_log_also_where_owners_decide(clinic):
    proposal = clinic.proposal("far too much", epsilon=4.0)
    for _ in range(2):  # two servers may look at it
        outcome = answered(clinic, "smoker", proposal, State.RECEIVED)
        assert isinstance(Answer.load(outcome.answer), Countered)
    refusals = [entry for entry in clinic.ledger.log() if entry.kind == "refusal"]
    assert [entry.facts["proposal"] for entry in refusals] == [proposal.digest]


def test_a_budget_that_was_raised_behind_a_running_service_grants_nothing(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")

    def ask(purpose: str) -> workers.Outcome:
        return answered(clinic, "diagnosis", clinic.proposal(purpose), State.APPROVED)

    granted = ask("first")
    assert granted.release is not None
    with clinic.ledger.store.writing() as records:
        records.db.execute("UPDATE budgets SET epsilon = '5.0'")
    for purpose in ("second", "third", "fourth"):
        with pytest.raises(LedgerError, match=r"disagree|frozen"):
            ask(purpose)
    workers._opened.cache_clear()  # as a restart does
    with pytest.raises(LedgerError, match=r"disagree|frozen"):
        ask("after a restart")
    assert clinic.charges("diagnosis") == 1


def test_a_surprise_does_not_end_the_work_on_a_data_set(clinic, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("label 7")

    monkeypatch.setattr(ServiceRecords, "next_to_work_on", fail)
    room = workers.Workers(Settings.load(clinic.folder), clinic.records, Troubles())
    assert not room._work_once("diagnosis", None)
    assert [LogLine().format(record).count("label 7") for record in caplog.records] == [0]


def test_a_proposal_that_cannot_be_answered_now_keeps_no_other_waiting(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    for purpose in ("first", "second"):
        token, proposal = clinic.new_token("learner").split("_")[1], clinic.proposal(purpose)
        clinic.records.add_proposal(
            "diagnosis", proposal.digest, proposal.encode(), token, Limits()
        )

    class Busy:
        def answer(self, stored: StoredProposal) -> workers.Outcome:
            if stored.proposal.purpose == "first":
                raise StorageError("busy")
            return workers.Outcome(Refused(stored.digest, ("alive",)).encode())

    room = workers.Workers(Settings.load(clinic.folder), clinic.records, Troubles())
    worked = [room._work_once("diagnosis", Busy()) for _ in range(3)]
    assert worked == [False, True, False]
    assert clinic.records.counts("diagnosis") == {"refused": 1, "received": 1}


@pytest.mark.parametrize("error", [PendingRequestError, LedgerError, StorageError])
def test_a_ledger_that_cannot_be_used_now_is_asked_again(clinic, monkeypatch, error):
    with pytest.raises(error):
        failed(clinic, monkeypatch, error("busy"))


def shot(settings, stored: StoredProposal) -> workers.Outcome:
    """Answer a proposal as a worker does, or die of it."""
    deaths, _, purpose = stored.proposal.purpose.partition(" ")
    reached = settings.key.with_name(f"{purpose} {deaths}")
    lines = reached.read_text() if reached.exists() else ""
    reached.write_text(f"{lines}.")
    if len(lines) < int(deaths):
        os.kill(os.getpid(), signal.SIGKILL)
    return workers.Outcome(Refused(stored.digest, ("alive",)).encode())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_proposal_that_kills_its_worker_is_refused_in_the_end_and_others_go_first(
    tmp_path, monkeypatch
):
    """Nine deaths may be chance: whoever shoots workers loses no grant. Ten are the proposal's."""
    monkeypatch.setattr(workers, "_answer_in_worker", shot)
    pools = []

    def forked(_) -> ProcessPoolExecutor:
        pools.append(ProcessPoolExecutor(1, get_context("fork")))
        return pools[-1]

    monkeypatch.setattr(workers._Worker, "_new_pool", forked)
    clinic = make_clinic(tmp_path / "clinic")
    settings, records = Settings.load(clinic.folder), clinic.records
    other = clinic.new_token("learner").split("_")[1]
    sent = {}
    for purpose, token in (
        ("99 deadly", clinic.tokens["learner"].split("_")[1]),
        ("9 unlucky", other),
        ("0 lucky", clinic.new_token("learner").split("_")[1]),
    ):
        sent[purpose] = clinic.proposal(purpose).digest
        body = clinic.proposal(purpose).encode()
        records.add_proposal("diagnosis", sent[purpose], body, token, Limits())
    room = workers.Workers(settings, records, Troubles())
    worker = workers._Worker(settings)
    order = []
    while (proposal := room._records.next_to_work_on("diagnosis")) is not None:
        for pid in list(pools[-1]._processes or ()) if len(order) == 3 else ():
            os.kill(pid, signal.SIGKILL)  # before it looks at anything: nobody's fault
        room._work_once("diagnosis", worker)
        order.append(proposal.proposal.purpose)
    worker.close()
    reasons = {p: Answer.load(records.proposal("diagnosis", d).answer).reasons[0]
               for p, d in sent.items()}  # fmt: skip
    assert reasons == {"99 deadly": workers._CANNOT, "9 unlucky": "alive", "0 lucky": "alive"}
    assert order[:3] == ["99 deadly", "9 unlucky", "0 lucky"]
    assert order.count("0 lucky") == 1
    assert len((clinic.folder / "deadly 99").read_text()) == 10
    assert {order.count("99 deadly"), order.count("9 unlucky")} == {10, 11}  # one was shot idle
