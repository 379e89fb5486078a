"""Many spenders at once, some killed by SIGKILL: never overspent, never two answers to one request.

Real processes, real kills: some are shot at any moment, some shortly after they have paid.
"""

import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from spenders import PRELOADED
from suffice.errors import BurntRequestError, PendingRequestError, PrivacyError
from suffice.owner.ledger import Ledger, Request
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

COST = 0.1
GUARANTEE = Guarantee(unit=Unit.LABEL, event=Laplace(COST))


def shoot_after(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()


def spend(path: str, name: str, out: str, doom: str, start) -> None:
    """Ask once, as `publish` does; write down the bytes that were handed out."""
    start.wait()
    if doom == "any moment":
        shoot_after(random.random() * 0.3)
    ledger = Ledger(path)
    try:
        stored = ledger.debit("d", [GUARANTEE], Request(name, {}, "data"))
    except (PrivacyError, BurntRequestError):
        if doom:
            os.kill(os.getpid(), signal.SIGKILL)
        return
    if doom == "once paid":
        shoot_after(random.random() * 0.02)
    if stored is None:
        time.sleep(random.random() * 0.01)  # drawing noise takes a moment
        stored = os.urandom(16)
        ledger.finish("d", name, stored)
    Path(out).write_bytes(stored)
    if doom:
        os.kill(os.getpid(), signal.SIGKILL)


def storm(path: str, folder: Path, spenders: int, names: int, budget: float) -> dict[str, int]:
    """Let ``spenders`` loose on ``names`` requests, kill 30 % of them, and check the ledger."""
    ledger = Ledger(path, {"d": Budget(budget)})
    rng = random.Random(4)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    start = context.Event()
    processes = []
    for i in range(spenders):
        doom = {0: "any moment", 1: "once paid", 2: "once paid"}.get(i % 10, "")
        name = f"r{rng.randrange(names)}"
        process = context.Process(
            target=spend, args=(path, name, str(folder / f"{i}.{name}"), doom, start)
        )
        process.start()
        processes.append((process, doom))
    time.sleep(0.5)
    start.set()
    for process, doom in processes:
        process.join(timeout=240)
        # Whoever was not shot got an answer, or was refused: no lock, no snapshot was in its way.
        assert process.exitcode == (-signal.SIGKILL if doom else 0)
    return check(ledger, folder, budget) | {"killed": sum(bool(doom) for _, doom in processes)}


def check(ledger: Ledger, folder: Path, budget: float) -> dict[str, int]:
    balance = ledger.balances()[0]
    history = ledger.history()
    assert balance.spent <= budget
    assert balance.debits == len(history) <= round(budget / COST)
    assert len({entry.request for entry in history}) == len(history)
    assert {entry.state for entry in history} <= {"released", "burnt"}
    answers: dict[str, set[bytes]] = {}
    for file in folder.glob("*.r*"):
        if data := file.read_bytes():
            answers.setdefault(file.suffix[1:], set()).add(data)
    assert all(len(versions) == 1 for versions in answers.values())
    released = {entry.request for entry in history if entry.state == "released"}
    assert set(answers) <= released
    for name in released:  # whoever asks again gets what was handed out
        again = ledger.debit("d", [GUARANTEE], Request(name, {}, "data"))
        assert answers.get(name, {again}) == {again}
    burnt = sum(entry.state == "burnt" for entry in history)
    return {"debits": len(history), "burnt": burnt}


def test_a_dozen_spenders_with_kills(place, tmp_path):
    outcome = storm(place("l"), tmp_path, spenders=20, names=14, budget=1.0)
    assert outcome["killed"] == 6
    assert outcome["debits"] == 10  # eleven are asked for by those that live long enough; ten fit


@pytest.mark.audit
def test_two_hundred_spenders_with_a_third_killed(place, tmp_path):
    outcome = storm(place("l"), tmp_path, spenders=200, names=150, budget=6.0)
    print(f"200 spenders: {outcome}")  # noqa: T201
    assert outcome["killed"] == 60
    assert outcome["burnt"] > 0
    assert outcome["debits"] == 60


def burn(path: str) -> None:
    Ledger(path).debit("d", [GUARANTEE], Request("a", {}, "data"))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_killed_between_debit_and_output_leaves_a_burnt_debit(place):
    path = place("ledger")
    ledger = Ledger(path, {"d": Budget(1.0)})
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=burn, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert [entry.state for entry in ledger.history()] == ["burnt"]
    assert ledger.balances()[0].spent == COST
    with pytest.raises(BurntRequestError):
        ledger.debit("d", [GUARANTEE], Request("a", {}, "data"))


def test_a_slow_draw_is_not_taken_for_a_lost_one(place, monkeypatch):
    monkeypatch.setattr("suffice.owner.ledger.ledger._PENDING_SECONDS", 0.1)
    ledger, request = Ledger(place("ledger"), {"d": Budget(1.0)}), Request("a", {}, "data")
    assert ledger.debit("d", [GUARANTEE], request) is None
    with pytest.raises(PendingRequestError, match="Try again later, under the same name"):
        ledger.debit("d", [GUARANTEE], request)
    ledger.finish("d", "a", b"drawn")
    assert ledger.debit("d", [GUARANTEE], request) == b"drawn"
    assert ledger.balances()[0].debits == 1
