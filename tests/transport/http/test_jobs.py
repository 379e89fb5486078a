"""What becomes of a proposal that fails: an answer that gives no reason, or another try."""

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
from suffice.service.settings import Settings


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


@pytest.mark.parametrize("error", [PendingRequestError, LedgerError, StorageError])
def test_a_ledger_that_cannot_be_used_now_is_asked_again(clinic, monkeypatch, error):
    with pytest.raises(error):
        failed(clinic, monkeypatch, error("busy"))
