"""A release is stopped before and after every statement by which its ledger writes, one by one.

`proofs/ledger.md` goes through the places where a program can stop. Here they are enumerated: each
statement but those that read raises once, in SQLite and in PostgreSQL, before it is executed or
after, COMMIT among them, so that it is also open whether it took place. What must hold: noise that
was drawn is charged, one charge has one draw, and who asks again gets the stored bytes or none.
"""

import itertools
import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import psycopg
import pytest

from suffice.errors import ArchivedRequestError, BurntRequestError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.guarantee import Budget
from suffice.privacy.noise import Noise
from suffice.releases.release import encode

X = np.array([[0.0, 1.0], [1.0, 0.5], [0.5, 0.25], [2.0, 1.0]])
Y = np.array([0, 1, 0, 1])
NEXT_DAY = datetime.now(UTC) + timedelta(days=1)
READING = ("SELECT", "PRAGMA")  # to stop there is to stop before the next one that writes


class Stopped(BaseException):
    """The end of a program, wherever it is."""


@dataclass
class Stop:
    """Raises at one statement: number ``at``, before it is executed or ``after``."""

    at: int
    after: bool
    statements: int = 0
    reached: str = ""

    def execute(self, execute, statement, *values):
        word = statement.split()[0]
        self.statements += word not in READING
        if self.statements != self.at or word in READING:
            return execute(statement, *values)
        self.reached = word
        if self.after:
            execute(statement, *values)
        raise Stopped


@pytest.fixture
def draws(monkeypatch) -> list[int]:
    """Return a list that grows with every draw of noise."""
    draws: list[int] = []
    add = Noise.add

    def counted(noise, exact):
        draws.append(1)
        return add(noise, exact)

    monkeypatch.setattr(Noise, "add", counted)
    return draws


def release(ledger: Ledger) -> bytes:
    mechanism = MeanOperator(epsilon=0.5, mechanism="laplace", map=None)
    return encode(mechanism.release(X, Y, ledger=ledger, dataset="d"))


def stopped(path, stop: Stop, monkeypatch, work=release):
    """Return what a piece of work that is stopped returns: None, unless it was not reached."""
    ledger = Ledger(path)
    connect, postgres_execute = sqlite3.connect, psycopg.Connection.execute

    class Stopping(sqlite3.Connection):
        def execute(self, *arguments):
            return stop.execute(super().execute, *arguments)

    def stopping(self, *arguments):
        return stop.execute(partial(postgres_execute, self), *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Stopping, **k))
        patched.setattr(psycopg.Connection, "execute", stopping)
        try:
            return work(ledger)
        except Stopped:
            return None


def end_of(ledger: Ledger, draws: list[int]) -> str:
    """Return what became of a release that was stopped, after asking for it again."""
    charges = ledger.history()
    assert len(draws) <= len(charges) <= 1
    try:
        again = release(ledger)
    except BurntRequestError:
        end = "burnt"
    else:
        end = "stored" if charges else "never charged"
        assert ledger.released("d", again)
    assert len(draws) <= 1 == len(ledger.history())
    assert [entry.state for entry in ledger.history()] == [
        "burnt" if end == "burnt" else "released"
    ]
    assert ledger.balances()[0].spent == pytest.approx(0.5)
    return end


def test_every_place_where_a_release_can_stop(place, draws, monkeypatch):
    def blank(name: str) -> str:
        Ledger(place(name), {"d": Budget(1.0)})
        return place(name)

    ends, reached = Counter(), set()
    first = Stop(0, after=False)  # never: it counts the statements
    assert stopped(blank("whole"), first, monkeypatch) is not None
    for at, after in itertools.product(range(1, first.statements + 1), (False, True)):
        path, stop = blank(f"at{at}{after}".lower()), Stop(at, after)
        draws.clear()
        handed = stopped(path, stop, monkeypatch)
        assert handed is None
        reached.add((stop.reached, after))
        ends[end_of(Ledger(path), draws)] += 1
    assert {("COMMIT", False), ("COMMIT", True), ("INSERT", True), ("UPDATE", True)} <= reached
    assert ends.keys() == {"never charged", "burnt", "stored"}


def test_every_place_where_archiving_can_stop(place, tmp_path, keys, draws, monkeypatch):
    """Bytes are in the ledger or in an archive that the log names, and come back from there."""
    handed, paths = {}, {}

    def blank(name: str) -> str:
        ledger = Ledger(place(name), {"d": Budget(1.0)}, anchor=tmp_path / f"{name}.anchor")
        handed[name], paths[name] = release(ledger), tmp_path / f"{name}.archive"
        return place(name)

    def archive(name: str, stop: Stop):
        return stopped(
            blank(name), stop, monkeypatch, lambda one: one.archive(paths[name], keys[0], NEXT_DAY)
        )

    first, ends = Stop(0, after=False), Counter()
    assert archive("whole", first) is not None
    for at, after in itertools.product(range(1, first.statements + 1), (False, True)):
        name = f"at{at}{after}".lower()
        assert archive(name, Stop(at, after)) is None
        ledger, drawn = Ledger(place(name)), len(draws)
        assert release(ledger) == handed[name]
        ledger.verify()
        assert len(draws) == drawn
        paths[name].unlink(missing_ok=True)
        try:
            assert release(ledger) == handed[name]
            ends["in the ledger"] += 1
        except ArchivedRequestError:
            ends["in the archive"] += 1
        assert len(draws) == drawn
    assert ends.keys() == {"in the ledger", "in the archive"}


def test_noise_before_the_charge_would_be_noticed(tmp_path, draws, monkeypatch):
    """The same stops, with a release that draws before it pays: some leave a draw uncharged."""
    debit = Ledger.debit

    def late(self, *arguments, **keywords):
        draws.append(1)
        return debit(self, *arguments, **keywords)

    monkeypatch.setattr(Ledger, "debit", late)
    for at in range(1, 40):
        path = tmp_path / f"late{at}"
        Ledger(path, {"d": Budget(1.0)})
        assert stopped(path, Stop(at, after=False), monkeypatch) is None
        if len(draws) > len(Ledger(path).history()):
            return
        draws.clear()
    raise AssertionError
