"""The records of a service in both stores: state changes happen once, and a lease is held alone."""

import inspect
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import mint
from suffice.privacy.guarantee import Budget
from suffice.service.records import ServiceRecords, State
from suffice.service.settings import Limits

NUMBERS = itertools.count()
ONE = Limits(waiting_proposals=1)  # of each data set


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "l")
    return f"{request.getfixturevalue('postgres_url')}#records{next(NUMBERS)}"


@pytest.fixture
def ledger(place) -> Ledger:
    return Ledger(place, {"d": Budget(1.0)})


@pytest.fixture
def records(ledger) -> ServiceRecords:
    return ServiceRecords(ledger)


@pytest.fixture
def sender(records) -> str:
    token, _ = mint("learner", holder="Ada")
    records.add_token(token)
    return token.id


def test_a_proposal_is_filed_once_for_all_who_send_it(records, sender):
    other, _ = mint("learner", holder="Bo")
    records.add_token(other)
    for token in (sender, other.id, sender):
        assert records.add_proposal("d", "p", b"\x00body", token, ONE)
    assert not records.add_proposal("d", "q", b"body", sender, ONE)
    assert records.add_proposal("e", "q", b"body", sender, ONE)
    (stored,) = records.proposals("d")
    assert (stored.body, stored.state, stored.answer) == (b"\x00body", State.RECEIVED, None)
    assert records.proposal("d", "p") == stored
    assert records.proposal("d", "q") is None
    sent = [(d, p) for d in "de" for p in "pq" if records.has_sent(sender, d, p)]
    assert sent == [("d", "p"), ("e", "q")]
    assert records.senders("d", "p") == [f"Ada ({sender})", f"Bo ({other.id})"]


def test_only_who_saw_the_present_state_changes_it(records, ledger, sender):
    records.add_proposal("d", "p", b"body", sender, ONE)
    received = records.proposal("d", "p")
    assert records.move(received, State.WAITING)
    assert not records.move(received, State.WAITING)  # another server was faster
    waiting = records.proposal("d", "p")
    assert records.move(waiting, State.APPROVED)
    entries = len(ledger.log())
    # An owner who refuses what another owner has granted meanwhile, at another server, comes late.
    assert not records.answer(waiting, b"refused", None, (Kind.REFUSAL, {"answer": "refused"}))
    assert len(ledger.log()) == entries
    approved = records.proposal("d", "p")
    assert records.next_to_work_on("d") == approved
    assert records.answer(approved, b"granted", b"\xff", (Kind.GRANT, {"answer": "granted"}))
    assert not records.answer(approved, b"another", None)
    assert records.proposal("d", "p").answer == b"granted"
    assert records.proposal("d", "p").release == b"\xff"
    assert records.next_to_work_on("d") is None
    assert ledger.log()[-1].facts == {"dataset": "d", "answer": "granted"}
    assert records.add_proposal("d", "q", b"body", sender, ONE)  # an answered one does not wait


def test_the_oldest_open_proposal_is_next(records, sender):
    for name in "cab":
        records.add_proposal("d", name, b"body", sender, Limits())
    assert [p.digest for p in records.proposals("d")] == ["c", "a", "b"]
    for name in "cab":
        proposal = records.next_to_work_on("d")
        assert proposal.digest == name
        records.move(proposal, State.WAITING)
    assert records.next_to_work_on("d") is None


def test_a_page_holds_what_its_reader_may_see_in_order(records, sender):
    other, _ = mint("learner", holder="Bo")
    records.add_token(other)
    for name in "cab":
        records.add_proposal("d", name, b"body", sender, Limits())
    records.add_proposal("d", "z", b"body", other.id, Limits())
    records.add_proposal("d", "a", b"body", other.id, Limits())

    def page(token: str | None, after: str | None = None, most: int = 9) -> str:
        return "".join(p.digest for p in records.page("d", token, after=after, most=most))

    assert [page(None), page(sender), page(other.id), page("nobody")] == ["cabz", "cab", "az", ""]
    assert [page(None, most=2), page(None, "a"), page(other.id, "a")] == ["ca", "bz", "z"]


def test_a_lease_is_held_alone_and_for_one_data_set(place, records):
    other = ServiceRecords(Ledger(place))
    with records.lease("d") as first, other.lease("d") as second, other.lease("e") as elsewhere:
        assert (first, second, elsewhere) == (True, False, True)
    with other.lease("d") as later:
        assert later


HOLDER = """
import sys, time
from suffice.owner.ledger import Ledger
from suffice.service.records import ServiceRecords
with ServiceRecords(Ledger(sys.argv[1])).lease("d") as free:
    print(free, flush=True)
    time.sleep(600)
"""


def test_the_lease_of_a_server_that_was_killed_is_free(place, records):
    command = [sys.executable, "-c", HOLDER, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        with records.lease("d") as free:
            assert not free
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    for _ in range(1000):  # a database notices a lost connection a moment later
        with records.lease("d") as free:
            if free:
                return
        time.sleep(0.02)
    raise AssertionError


def test_the_desk_writes_its_own_tables_alone():
    """Charges, budgets and the log are the ledger's; the proof of the ledger relies on it."""
    source = Path(inspect.getsourcefile(ServiceRecords)).read_text()
    tables = re.findall(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", source)
    assert {*tables} == {"sessions", "proposals", "senders", "leases"}
    assert not re.search(r"\b(DROP|ALTER|CREATE|PRAGMA|TRUNCATE|REPLACE)\b", source)


def test_an_unknown_token_is_an_error_and_a_strange_one_is_unknown(records, sender):
    for identity in ("nobody", "", "\x00", "\udcff", "a'b"):
        assert records.token(identity) is None
        with pytest.raises(ParameterError, match="no token of this id"):
            records.revoke_token(identity)
    assert records.token(sender).holder == "Ada"
