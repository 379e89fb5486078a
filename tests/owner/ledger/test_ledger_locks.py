"""One file is one ledger, and whoever is at work on a request is known by a lock that they hold."""

import fcntl
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spenders import PRELOADED
from suffice.errors import BudgetError, BurntRequestError, LedgerError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.store import whole_file
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(0.1))]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)


def ask(name: str) -> Request:
    return Request(name, {}, "data")


@pytest.fixture
def address(place) -> str:
    """Return what a ledger in either store is opened by."""
    Ledger(place("l"), {"d": Budget(1.0)})
    return place("l")


@pytest.fixture
def path(tmp_path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    Ledger(folder / "l", {"d": Budget(1.0)})
    return folder / "l"


def started(target, *arguments):
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def wait_for(what) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ------------------------------------------------------------------ who is at work


def wait_for_state(address: str, state: str) -> None:
    """Wait, since a database server takes a moment to notice that somebody has gone."""
    wait_for(lambda: [entry.state for entry in Ledger(address).history()] == [state])


def pay_and_die(path: str) -> None:
    Ledger(path).debit("d", PROMISE, ask("a"))
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_payer_that_was_killed_is_burnt_at_once_and_written_down_by_who_asks(address):
    process = started(pay_and_die, address)
    process.join()
    wait_for_state(address, "burnt")
    began = time.monotonic()
    with pytest.raises(BurntRequestError, match="The charge stays"):
        Ledger(address).debit("d", PROMISE, ask("a"))
    assert time.monotonic() - began < 5
    with Ledger(address)._store.reading() as records:
        assert [charge.state for charge in records.charges()] == ["burnt"]


def test_the_lock_of_a_payer_that_was_killed_is_swept(path):
    started(pay_and_die, str(path)).join()
    Ledger(path)
    assert [file.name for file in path.parent.iterdir()] == ["l"]


def pay_slowly(path: str, go, paid) -> None:
    ledger = Ledger(path)
    ledger.debit("d", PROMISE, ask("a"))
    paid.set()
    go.wait()
    ledger.finish("d", "a", b"drawn")


def test_who_asks_elsewhere_waits_for_a_slow_payer_and_gets_the_same_bytes(address):
    go, paid = CONTEXT.Event(), CONTEXT.Event()
    process = started(pay_slowly, address, go, paid)
    paid.wait()
    assert [entry.state for entry in Ledger(address).history()] == ["pending"]
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(Ledger(address).debit, "d", PROMISE, ask("a")) for _ in range(3)]
        time.sleep(0.5)
        assert not any(answer.done() for answer in answers)
        go.set()
        assert [answer.result() for answer in answers] == [b"drawn"] * 3
    process.join()
    assert [entry.state for entry in Ledger(address).history()] == ["released"]


def test_host_and_process_id_play_no_part(address, monkeypatch):
    """A payer in another container has our own id or none that exists here, and another name."""
    go, paid = CONTEXT.Event(), CONTEXT.Event()
    process = started(pay_slowly, address, go, paid)
    paid.wait()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    monkeypatch.setattr(os, "kill", lambda *_: (_ for _ in ()).throw(ProcessLookupError))
    assert [entry.state for entry in Ledger(address).history()] == ["pending"]
    monkeypatch.undo()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    monkeypatch.setattr(os, "kill", lambda *_: None)  # its id was given to somebody else
    wait_for_state(address, "burnt")


def test_a_late_finish_is_refused_once_the_request_was_declared_burnt(path):
    payer = Ledger(path)
    payer.debit("d", PROMISE, ask("a"))
    for file in path.parent.glob("l-claim-*"):  # as if the lock was lost: a disk put back
        file.unlink()
    with pytest.raises(BurntRequestError):
        Ledger(path).debit("d", PROMISE, ask("a"))
    with pytest.raises(BurntRequestError, match="Do not use this output"):
        payer.finish("d", "a", b"late")
    assert [entry.state for entry in Ledger(path).history()] == ["burnt"]


def test_a_child_process_does_not_hold_on_to_what_its_parent_held(path):
    ledger = Ledger(path)
    ledger.debit("d", PROMISE, ask("a"))
    ready, stay = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        ready.send("forked")
        ready.poll(60)
        os._exit(0)
    assert stay.recv() == "forked"
    assert Ledger(path).history()[0].state == "pending"
    for claim in ledger._claims.values():
        claim.lock_file.close()  # as the operating system does when the parent is killed
    assert Ledger(path).history()[0].state == "burnt"
    stay.send("go")
    os.waitpid(child, 0)


def test_a_ledger_that_is_forgotten_with_an_open_request_lets_go(address):
    Ledger(address).debit("d", PROMISE, ask("a"))
    wait_for_state(address, "burnt")


def test_threads_of_one_process_share_a_ledger(address):
    ledger, held_states = Ledger(address), []

    def spend(number: int) -> None:
        try:
            if ledger.debit("d", PROMISE, ask(f"r{number % 14}")) is None:
                ledger.finish("d", f"r{number % 14}", b"x")
                held_states.append(number)
        except BudgetError:
            pass

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(28)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held_states) == 10
    assert ledger.balances()[0].spent <= 1.0


# ------------------------------------------------------------------ one file, one name


def test_a_file_with_two_names_is_refused_by_both(path, tmp_path):
    os.link(path, tmp_path / "second")
    for name in (path, tmp_path / "second"):
        with pytest.raises(LedgerError, match="Keep one name"):
            Ledger(name)
    (tmp_path / "second").unlink()
    Ledger(path)


def test_a_name_that_is_made_while_a_ledger_is_used_stops_it(path, tmp_path):
    ledger = Ledger(path)
    os.link(path, tmp_path / "second")
    with pytest.raises(LedgerError, match="hard links"):
        ledger.debit("d", PROMISE, ask("a"))


@pytest.fixture
def mounted(path, tmp_path):
    other = tmp_path / "mounted one"
    other.touch()
    done = subprocess.run(["mount", "--bind", path, other], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no bind mount can be made here: {done.stderr.decode().strip()}")
    yield other
    subprocess.run(["umount", other], check=True)


def test_a_file_that_is_mounted_by_itself_is_refused(path, mounted):
    with pytest.raises(LedgerError, match="Mount its folder, not the file"):
        Ledger(mounted)
    Ledger(path)


def test_a_symbolic_link_is_the_same_ledger(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    ledger, other = Ledger(path), Ledger(link)
    ledger.debit("d", PROMISE, ask("a"))
    assert other.history()[0].state == "pending"
    ledger.finish("d", "a", b"x")
    assert other.debit("d", PROMISE, ask("a")) == b"x"
    assert {file.name for file in path.parent.iterdir()} == {"l"}


def test_nothing_lives_beside_the_file_between_transactions(path, tmp_path):
    """What is copied or moved is all of it: no log under another name waits to be merged."""
    ledger = Ledger(path)
    ledger.debit("d", PROMISE, ask("a"))
    ledger.finish("d", "a", b"x")
    assert [file.name for file in path.parent.iterdir()] == ["l"]
    path.rename(tmp_path / "moved")
    assert [entry.state for entry in Ledger(tmp_path / "moved").history()] == ["released"]


def test_a_ledger_waits_for_who_holds_its_file(path):
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(Ledger, path)
            time.sleep(0.3)
            assert not waiting.done()
            fcntl.flock(file, fcntl.LOCK_UN)
            waiting.result(timeout=30)


def test_whoever_uses_a_ledger_holds_its_file_alone(path):
    """Not even a shared lock is left for others, and all of it is let go afterwards."""
    with path.open("rb") as file:
        with whole_file(path), pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def spend(path: str, name: str, out: str, start) -> None:
    start.wait()
    try:
        ledger = Ledger(path)
        if ledger.debit("d", PROMISE, ask(name)) is None:
            ledger.finish("d", name, os.urandom(8))
            Path(out).write_text(path)
    except (BudgetError, LedgerError):
        return


def storm(paths: list[Path], folder: Path, spenders: int) -> int:
    """Let spenders loose, each on one of the names; return how many were let pay."""
    start = CONTEXT.Event()
    processes = [
        started(spend, str(paths[i % len(paths)]), f"r{i}", str(folder / f"paid{i}"), start)
        for i in range(spenders)
    ]
    time.sleep(0.5)
    start.set()
    for process in processes:
        process.join(timeout=240)
        assert process.exitcode == 0
    return len(list(folder.glob("paid*")))


@pytest.mark.parametrize("spenders", [16, pytest.param(200, marks=pytest.mark.audit)])
def test_spenders_through_two_hard_links_are_refused(path, tmp_path, spenders):
    os.link(path, tmp_path / "second")
    paid = storm([path, tmp_path / "second"], tmp_path, spenders)
    print(f"{spenders} spenders, two hard links: {paid} paid of 10 that fit")  # noqa: T201
    assert paid == 0
    (tmp_path / "second").unlink()
    assert Ledger(path).balances()[0].spent == 0


@pytest.mark.parametrize("spenders", [16, pytest.param(200, marks=pytest.mark.audit)])
def test_spenders_through_a_bind_mount_never_overspend(path, tmp_path, mounted, spenders):
    paid = storm([path, mounted], tmp_path, spenders)
    balance = Ledger(path).balances()[0]
    print(f"{spenders} spenders, bind mount: {paid} paid of 10, {balance.spent:.2f} spent")  # noqa: T201
    assert paid == balance.debits == min(10, spenders // 2)
    assert balance.spent <= 1.0
    assert {file.read_text() for file in tmp_path.glob("paid*")} == {str(path)}


def test_the_lock_alone_keeps_two_names_from_overspending(path, tmp_path, monkeypatch):
    """Without the check for names: the inode's lock, and a journal that is gone, suffice."""
    monkeypatch.setattr("suffice.owner.ledger.store._check_one_name", lambda *_, **__: None)
    second = tmp_path / "second"
    os.link(path, second)
    paid = 0
    for number in range(24):
        ledger = Ledger((path, second)[number % 2])
        try:
            ledger.debit("d", PROMISE, ask(f"r{number}"))
        except BudgetError:
            continue
        paid += 1
        ledger.finish("d", f"r{number}", b"x")
    assert paid == 10
