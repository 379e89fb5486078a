"""One release, two data sets: both are charged or neither, whoever is killed when.

Real processes, real kills: one is shot in the middle of a debit, one after it, many at any moment.
"""

import multiprocessing
import os
import random
import signal
import threading

import pytest

from spenders import PRELOADED
from suffice.errors import BurntRequestError, PrivacyError
from suffice.owner.ledger import DatasetCharge, Ledger, Request
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

OWN = Guarantee(unit=Unit.PARTY, event=Laplace(0.1))
ROWS = Guarantee(unit=Unit.RECORD, event=Laplace(0.1))


class Deadly(tuple[Guarantee, ...]):
    """Guarantees that kill whoever begins to read them."""

    __slots__ = ()

    def __iter__(self):
        os.kill(os.getpid(), signal.SIGKILL)
        return super().__iter__()


def debits(ledger: Ledger) -> dict[str, int]:
    return {balance.dataset: balance.debits for balance in ledger.balances()}


def two(path: str) -> Ledger:
    crowds = {f"crowd {i}": {Unit.PARTY: Budget(1.0)} for i in range(2)}
    return Ledger(path, {**crowds, "rows": {Unit.RECORD: Budget(0.75)}})


def ask(ledger: Ledger, crowd: int, name: str, rows: tuple = (ROWS,), data: str = "") -> object:
    request = Request(name, {}, data or f"parties {crowd}")
    also = [DatasetCharge("rows", rows, "the rows")]
    return ledger.debit(f"crowd {crowd}", [OWN], request, also)


def shot_in_the_middle(path: str) -> None:
    ask(Ledger(path), 0, "a", Deadly((ROWS,)))


def shot_once_paid(path: str) -> None:
    ask(Ledger(path), 0, "a")
    os.kill(os.getpid(), signal.SIGKILL)


def run(target, *arguments) -> None:
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_process_shot_between_the_two_charges_leaves_neither(place):
    path = place("l")
    ledger = two(path)
    run(shot_in_the_middle, path)
    assert debits(ledger) == {"crowd 0": 0, "crowd 1": 0, "rows": 0}
    assert ledger.history() == []
    assert ask(ledger, 0, "a", data="other parties") is None  # nor is the name bound to its data
    assert debits(ledger) == {"crowd 0": 1, "crowd 1": 0, "rows": 1}


def test_a_process_shot_after_the_debit_has_charged_both(place):
    path = place("l")
    ledger = two(path)
    run(shot_once_paid, path)
    assert debits(ledger) == {"crowd 0": 1, "crowd 1": 0, "rows": 1}
    assert [entry.state for entry in ledger.history()] == ["burnt"]
    with pytest.raises(BurntRequestError):
        ask(ledger, 0, "a")


def spend(path: str, number: int, start) -> None:
    start.wait()
    if number % 3 == 0:
        delay = random.random() * 0.2
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
    ledger = Ledger(path)
    try:
        ask(ledger, number % 2, f"r{number}")
        ledger.finish(f"crowd {number % 2}", f"r{number}", b"drawn")
    except PrivacyError:
        pass
    if number % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def test_crowds_that_pay_at_once_never_overspend_their_rows(place):
    path = place("l")
    ledger = two(path)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    start = context.Event()
    spenders = [context.Process(target=spend, args=(path, i, start)) for i in range(15)]
    for process in spenders:
        process.start()
    start.set()
    for number, process in enumerate(spenders):
        process.join(timeout=240)
        assert process.exitcode == (0 if number % 3 else -signal.SIGKILL)
    charges = debits(ledger)
    assert charges["rows"] == charges["crowd 0"] + charges["crowd 1"] == len(ledger.history())
    assert charges["rows"] == 7  # ten live long enough to ask, and seven fit
    assert all(balance.spent <= 1.0 for balance in ledger.balances())
