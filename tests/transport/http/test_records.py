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

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import mint
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import propose
from suffice.protocol.messages import Granted, Refused, digest_of
from suffice.releases.release import encode
from suffice.releases.signing import generate_keys, sign
from suffice.service.records import ServiceRecords, State
from suffice.service.settings import Limits

NUMBERS = itertools.count()
ONE = Limits(waiting_proposals=1)  # of each data set
ROWS = np.arange(12.0).reshape(6, 2)
ASKED = propose(ROWS, epsilon=0.1)
BODY = ASKED.encode()
RELEASE = MeanOperator(0.1, classes=(0, 1)).release(ROWS, np.arange(6) % 2, ledger=None)


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
        assert records.add_proposal("d", "p", BODY, token, ONE)
    assert not records.add_proposal("d", "q", BODY, sender, ONE)
    assert records.add_proposal("e", "q", BODY, sender, ONE)
    (listed,) = records.page("d", None, most=9)
    stored = records.proposal("d", "p")
    assert (stored.body, stored.state, stored.answer) == (BODY, State.RECEIVED, None)
    assert (listed.digest, listed.state) == ("p", "received")
    assert records.proposal("d", "q") is None
    sent = [(d, p) for d in "de" for p in "pq" if records.has_sent(sender, d, p)]
    assert sent == [("d", "p"), ("e", "q")]
    assert listed.senders == (f"Ada ({sender})", f"Bo ({other.id})")


def test_only_who_saw_the_present_state_changes_it(records, ledger, sender, tmp_path):
    records.add_proposal("d", "p", BODY, sender, ONE)
    received = records.proposal("d", "p")
    assert records.move(received, State.WAITING)
    assert not records.move(received, State.WAITING)  # another server was faster
    waiting = records.proposal("d", "p")
    assert records.move(waiting, State.APPROVED)
    entries = len(ledger.log())
    # An owner who refuses what another owner has granted meanwhile, at another server, comes late.
    refused = Refused(ASKED.digest, ("no",)).encode()
    assert not records.answer(waiting, refused, None, (Kind.REFUSAL, {"answer": "refused"}))
    assert len(ledger.log()) == entries
    approved = records.proposal("d", "p")
    assert records.next_to_work_on("d") == approved
    ledger.debit("d", RELEASE.guarantees, Request(ASKED.request, {}))
    ledger.finish("d", ASKED.request, encode(RELEASE))
    generate_keys(tmp_path / "clinic")
    signed = encode(sign(RELEASE, tmp_path / "clinic.key"))
    granted = Granted(ASKED.digest, digest_of(signed)).encode()
    assert records.answer(approved, granted, signed, (Kind.GRANT, {"answer": "granted"}))
    assert not records.answer(approved, refused, None)
    assert records.proposal("d", "p").answer == granted
    assert records.release(records.proposal("d", "p")) == signed
    assert records.counts("d") == {"granted": 1}
    assert records.next_to_work_on("d") is None
    assert ledger.log()[-1].facts == {"dataset": "d", "answer": "granted"}
    assert records.add_proposal("d", "q", BODY, sender, ONE)  # an answered one does not wait


def test_the_oldest_open_proposal_is_next(records, sender):
    for name in "cab":
        records.add_proposal("d", name, BODY, sender, Limits())
    assert [p.digest for p in records.page("d", None, most=9)] == ["c", "a", "b"]
    assert [p.digest for p in records.newest("d", 2)] == ["b", "a"]
    for name in "cab":
        proposal = records.next_to_work_on("d")
        assert proposal.digest == name
        records.move(proposal, State.WAITING)
    assert records.next_to_work_on("d") is None


def test_tokens_take_turns(records, sender):
    other, _ = mint("learner", holder="Bo")
    records.add_token(other)
    for name in "abc":
        records.add_proposal("d", name, b"body", sender, Limits())
    for name in "xy":
        records.add_proposal("d", name, b"body", other.id, Limits())
    order = []
    while (proposal := records.next_to_work_on("d")) is not None:
        order.append(proposal.digest)
        records.move(proposal, State.WAITING)
        records.end_turn(proposal)
    assert order == ["a", "x", "b", "y", "c"]
    assert records.next_to_work_on("e") is None


def test_a_flood_delays_another_token_by_one_turn(records, sender):
    other, _ = mint("learner", holder="Bo")
    records.add_token(other)
    for number in range(50):
        records.add_proposal("d", f"flood {number}", b"body", sender, Limits())
    first = records.next_to_work_on("d")
    records.move(first, State.WAITING)
    records.end_turn(first)
    records.add_proposal("d", "mine", b"body", other.id, Limits())
    assert records.next_to_work_on("d").digest == "mine"


def test_a_page_holds_what_its_reader_may_see_in_order(records, sender):
    other, _ = mint("learner", holder="Bo")
    records.add_token(other)
    for name in "cab":
        records.add_proposal("d", name, BODY, sender, Limits())
    records.add_proposal("d", "z", BODY, other.id, Limits())
    records.add_proposal("d", "a", BODY, other.id, Limits())

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


def test_who_agreed_is_read_after_what_others_have_read(
    place, ledger, records, sender, monkeypatch
):
    """While it waits, another thread of the process reads further in the log: no copy, no alarm."""

    class Waiting:
        def __enter__(self) -> None:
            Ledger(place).record_answer("d", Kind.REFUSAL, {"answer": "refused"})
            with ledger.store.reading() as now:
                ledger._replay.catch_up(now)

        def __exit__(self, *_) -> None:
            pass

    records.add_proposal("d", ASKED.digest, BODY, sender, ONE)
    records.move(records.proposal("d", ASKED.digest), State.WAITING)
    by, _ = mint("owner", holder="Ada, 1 of here")
    records.add_token(by)
    assert records.agree(records.proposal("d", ASKED.digest), by, ", 1 of here")
    monkeypatch.setattr(ledger, "_catching_up", Waiting())
    assert records.agreed("d", ASKED.digest) == [by.holder]


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
