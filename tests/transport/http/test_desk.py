"""The records of a service in both stores: state changes happen once, and turns are taken alone."""

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
from suffice.service.records import Desk, State
from suffice.service.settings import Limits

NUMBERS = itertools.count()
ONE = Limits(waiting_proposals=1)  # of each data set


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "l")
    return f"{request.getfixturevalue('postgres_url')}#desk{next(NUMBERS)}"


@pytest.fixture
def ledger(place) -> Ledger:
    return Ledger(place, {"d": Budget(1.0)})


@pytest.fixture
def desk(ledger) -> Desk:
    return Desk(ledger)


@pytest.fixture
def sender(desk) -> str:
    token, _ = mint("learner", holder="Ada")
    desk.add_token(token)
    return token.id


def test_a_proposal_is_filed_once_for_all_who_send_it(desk, sender):
    other, _ = mint("learner", holder="Bo")
    desk.add_token(other)
    for token in (sender, other.id, sender):
        assert desk.file("d", "p", b"\x00body", token, ONE)
    assert not desk.file("d", "q", b"body", sender, ONE)
    assert desk.file("e", "q", b"body", sender, ONE)
    (filed,) = desk.proposals("d")
    assert (filed.body, filed.state, filed.answer) == (b"\x00body", State.RECEIVED, None)
    assert desk.filed("d", "p") == filed
    assert desk.filed("d", "q") is None
    sent = [(d, p) for d in "de" for p in "pq" if desk.has_sent(sender, d, p)]
    assert sent == [("d", "p"), ("e", "q")]
    assert desk.senders("d", "p") == [f"Ada ({sender})", f"Bo ({other.id})"]


def test_only_who_saw_the_present_state_changes_it(desk, ledger, sender):
    desk.file("d", "p", b"body", sender, ONE)
    received = desk.filed("d", "p")
    assert desk.move(received, State.WAITING)
    assert not desk.move(received, State.WAITING)  # another server was faster
    waiting = desk.filed("d", "p")
    assert desk.move(waiting, State.APPROVED)
    entries = len(ledger.log())
    # An owner who refuses what another owner has granted meanwhile, at another server, comes late.
    assert not desk.answer(waiting, b"refused", None, (Kind.REFUSAL, {"answer": "refused"}))
    assert len(ledger.log()) == entries
    approved = desk.filed("d", "p")
    assert desk.next_to_work_on("d") == approved
    assert desk.answer(approved, b"granted", b"\xff", (Kind.GRANT, {"answer": "granted"}))
    assert not desk.answer(approved, b"another", None)
    assert desk.filed("d", "p").answer == b"granted"
    assert desk.filed("d", "p").release == b"\xff"
    assert desk.next_to_work_on("d") is None
    assert ledger.log()[-1].facts == {"dataset": "d", "answer": "granted"}
    assert desk.file("d", "q", b"body", sender, ONE)  # an answered one does not wait


def test_the_oldest_open_proposal_is_next(desk, sender):
    for name in "cab":
        desk.file("d", name, b"body", sender, Limits())
    assert [p.digest for p in desk.proposals("d")] == ["c", "a", "b"]
    for name in "cab":
        proposal = desk.next_to_work_on("d")
        assert proposal.digest == name
        desk.move(proposal, State.WAITING)
    assert desk.next_to_work_on("d") is None


def test_a_page_holds_what_its_reader_may_see_in_order(desk, sender):
    other, _ = mint("learner", holder="Bo")
    desk.add_token(other)
    for name in "cab":
        desk.file("d", name, b"body", sender, Limits())
    desk.file("d", "z", b"body", other.id, Limits())
    desk.file("d", "a", b"body", other.id, Limits())

    def page(token: str | None, after: str | None = None, most: int = 9) -> str:
        return "".join(p.digest for p in desk.page("d", token, after=after, most=most))

    assert [page(None), page(sender), page(other.id), page("nobody")] == ["cabz", "cab", "az", ""]
    assert [page(None, most=2), page(None, "a"), page(other.id, "a")] == ["ca", "bz", "z"]


def test_a_turn_is_taken_alone_and_for_one_data_set(place, desk):
    other = Desk(Ledger(place))
    with desk.turn("d") as first, other.turn("d") as second, other.turn("e") as elsewhere:
        assert (first, second, elsewhere) == (True, False, True)
    with other.turn("d") as later:
        assert later


HOLDER = """
import sys, time
from suffice.owner.ledger import Ledger
from suffice.service.records import Desk
with Desk(Ledger(sys.argv[1])).turn("d") as free:
    print(free, flush=True)
    time.sleep(600)
"""


def test_the_turn_of_a_server_that_was_killed_is_free(place, desk):
    command = [sys.executable, "-c", HOLDER, place]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        with desk.turn("d") as free:
            assert not free
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    for _ in range(1000):  # a database notices a lost connection a moment later
        with desk.turn("d") as free:
            if free:
                return
        time.sleep(0.02)
    raise AssertionError


def test_the_desk_writes_its_own_tables_alone():
    """Charges, budgets and the log are the ledger's; the proof of the ledger relies on it."""
    source = Path(inspect.getsourcefile(Desk)).read_text()
    tables = re.findall(r"(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", source)
    assert {*tables} == {"sessions", "proposals", "senders", "turns"}
    assert not re.search(r"\b(DROP|ALTER|CREATE|PRAGMA|TRUNCATE|REPLACE)\b", source)


def test_an_unknown_token_is_an_error_and_a_strange_one_is_unknown(desk, sender):
    for identity in ("nobody", "", "\x00", "\udcff", "a'b"):
        assert desk.token(identity) is None
        with pytest.raises(ParameterError, match="no token of this id"):
            desk.revoke_token(identity)
    assert desk.token(sender).holder == "Ada"
