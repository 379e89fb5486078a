"""Anchors: a ledger that was put back from a copy starts frozen, and draws nothing twice."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from database_servers import dumped, postgresql_server, rolled_back
from suffice.errors import BurntRequestError, LedgerError, ParameterError, StorageError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.ledger import LostEntriesError
from suffice.owner.ledger.store import Mark
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(0.1))]
TRIES = 30

_PROGRAM = """
import pathlib, sys
kept = pathlib.Path({kept!r})
if sys.argv[1] == "write":
    kept.write_text(sys.stdin.read())
else:
    print(kept.read_text() if kept.exists() else "", end="")
"""


def ask(name: str) -> Request:
    return Request(name, {}, "data")


def drawn(ledger: Ledger, name: str) -> bytes | None:
    """Return the bytes of a request, drawn now unless they are stored; None if it is refused."""
    try:
        stored = ledger.debit("d", PROMISE, ask(name))
    except LedgerError:
        assert ledger.frozen
        return None
    if stored is None:
        stored = os.urandom(16)
        ledger.finish("d", name, stored)
    return stored


@pytest.fixture(params=["file", "command"])
def anchor(request, tmp_path) -> str:
    if request.param == "file":
        return str(tmp_path / "kept")
    program = tmp_path / "keep.py"
    program.write_text(_PROGRAM.format(kept=str(tmp_path / "kept")))
    return f"command:{sys.executable} {program}"


# ------------------------------------------------------------------ forward only


def test_the_anchor_is_at_the_charge_before_noise_may_be_drawn(place, anchor):
    ledger = Ledger(place("l"), {"d": Budget(1.0)}, anchor=anchor)
    assert ledger.anchor.read().entries == 1
    for name in "ab":
        assert ledger.debit("d", PROMISE, ask(name)) is None
        entries = ledger.log()
        last = entries[-1]
        assert last.kind == "debit"
        assert ledger.anchor.read() == Mark(entries[0].facts["ledger"], last.number, last.digest)
        ledger.finish("d", name, b"x")
    assert Ledger(place("l"), anchor=anchor).frozen == ""


def test_a_kill_between_charge_and_anchor_freezes_nothing_and_is_caught_up(place, monkeypatch):
    ledger = Ledger(place("l"), {"d": Budget(1.0)})
    monkeypatch.setattr(Ledger, "_advance_anchor", lambda *_: None)
    ledger.debit("d", PROMISE, ask("a"))
    monkeypatch.undo()
    ledger._release_claim("d", "a")  # as the end of the process does
    again = Ledger(place("l"))
    assert again.frozen == ""
    with pytest.raises(BurntRequestError):
        again.debit("d", PROMISE, ask("a"))
    assert again.debit("d", PROMISE, ask("b")) is None
    assert again.anchor.read().entries == len(again.log())


def test_an_anchor_that_cannot_be_written_burns_the_charge(place, tmp_path, monkeypatch):
    ledger = Ledger(place("l"), {"d": Budget(1.0)}, anchor=tmp_path / "kept")

    def full(*_, **__):
        raise StorageError("kept cannot be written: No space left on device.")

    with monkeypatch.context() as patched:
        patched.setattr("suffice.owner.ledger.store.write_whole", full)
        with pytest.raises(StorageError, match=r"No space left.*stays charged"):
            ledger.debit("d", PROMISE, ask("a"))
    assert [entry.state for entry in ledger.history()] == ["burnt"]
    with pytest.raises(BurntRequestError):
        ledger.debit("d", PROMISE, ask("a"))
    assert drawn(ledger, "b") is not None


def test_processes_and_threads_that_charge_at_once_move_the_anchor_forward_only(place):
    Ledger(place("l"), {"d": Budget(2.0)})
    ledgers = [Ledger(place("l")) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        names = [f"r{k}" for k in range(12)]
        assert None not in list(pool.map(drawn, ledgers * 3, names))
    log = ledgers[0].log()
    last = max(entry.number for entry in log if entry.kind == "debit")
    assert last <= ledgers[0].anchor.read().entries <= len(log)
    assert Ledger(place("l")).frozen == ""


# ------------------------------------------------------------------ copies


def restored(folder: Path, number: int) -> list[Ledger]:
    """Put an old copy of a ledger back, after a draw from the ledger."""
    path, copy = folder / f"l{number}", folder / f"copy{number}"
    ledger = Ledger(path, {"d": Budget(1.0)})
    shutil.copy(path, copy)
    assert drawn(ledger, "a")
    shutil.copy(copy, path)
    return [ledger, Ledger(path), Ledger(path)]


def moved(folder: Path, number: int) -> list[Ledger]:
    """Copy a ledger to where its anchor is not found, with a draw that the copy does not know."""
    path = folder / f"l{number}"
    ledger = Ledger(path, {"d": Budget(1.0)}, anchor=folder / f"kept{number}")
    copy = shutil.copy(path, folder / f"copy{number}")
    assert drawn(ledger, "a")
    (folder / f"kept{number}").unlink()
    return [Ledger(copy)]


@pytest.mark.parametrize("way", [restored, moved])
def test_a_copied_file_gets_no_second_draw(tmp_path, way):
    for number in range(TRIES):
        for ledger in way(tmp_path, number):
            assert drawn(ledger, "a") is None
            assert ledger.frozen


def test_of_two_copies_of_a_file_one_goes_on_and_draws_once(tmp_path):
    for number in range(TRIES):
        path = tmp_path / f"l{number}"
        Ledger(path, {"d": Budget(1.0)})
        twins = [Ledger(path), Ledger(shutil.copy(path, tmp_path / f"copy{number}"))]
        with ThreadPoolExecutor(2) as pool:
            draws = list(pool.map(drawn, twins, "aa"))
        assert draws.count(None) == 1


def test_of_two_copies_that_charge_at_the_same_moment_one_is_burnt(tmp_path, monkeypatch):
    """Both have found the anchor where they left it, and their entries say the same."""
    Ledger(tmp_path / "l", {"d": Budget(1.0)})
    twins = [Ledger(tmp_path / "l"), Ledger(shutil.copy(tmp_path / "l", tmp_path / "copy"))]
    both, advance = threading.Barrier(2, timeout=60), Ledger._advance_anchor

    def advance_together(*charge):
        both.wait()
        advance(*charge)

    monkeypatch.setattr(Ledger, "_advance_anchor", advance_together)
    monkeypatch.setattr("suffice.owner.ledger.log.utc_now", lambda: "2026-11-17T14:30:00Z")
    with ThreadPoolExecutor(2) as pool:
        draws = list(pool.map(drawn, twins, "aa"))
    assert draws.count(None) == 1
    states = [[entry.state for entry in twin.history()] for twin in twins]
    assert sorted(states) == [["burnt"], ["released"]]


def test_a_rolled_back_postgresql_directory_gets_no_second_draw(tmp_path):
    with postgresql_server() as url:
        addresses = [f"{url}#r{k}" for k in range(TRIES)]
        for address in addresses:
            Ledger(address, {"d": Budget(1.0)})
        with rolled_back(url, tmp_path / "data"):
            assert all(drawn(Ledger(address), "a") for address in addresses)
        for address in addresses:
            assert drawn(Ledger(address), "a") is None


def test_a_data_only_restore_gets_no_second_draw(postgres_url):
    for number in range(TRIES):
        schema = f"only{number}"
        address = f"{postgres_url}#{schema}"
        ledger = Ledger(address, {"d": Budget(1.0)})
        copy = dumped(postgres_url, schema, "--data-only")
        assert drawn(ledger, "a")
        with psycopg.connect(postgres_url) as db:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            tables = [f"{schema}.{name}" for (name,) in db.execute(query, (schema,))]
            db.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
            db.execute("SET session_replication_role = replica")  # in any order
            for statement in copy:
                db.execute(statement)
        assert drawn(ledger, "a") is None  # the process that was there
        assert drawn(Ledger(address), "a") is None


def test_a_disk_that_is_put_back_with_its_anchor_is_noticed_with_a_checkpoint_only(tmp_path, keys):
    """What no anchor can notice: the docs say so."""
    path, kept = tmp_path / "l", tmp_path / "kept"
    ledger = Ledger(path, {"d": Budget(1.0)}, anchor=kept)
    drawn(ledger, "a")
    copies = [shutil.copy(file, f"{file}.copy") for file in (path, kept)]
    drawn(ledger, "b")
    checkpoint = ledger.checkpoint(keys[0])
    for copy, file in zip(copies, (path, kept), strict=True):
        shutil.copy(copy, file)
    assert Ledger(path).frozen == ""
    with pytest.raises(LostEntriesError):
        Ledger(path).verify(checkpoint)


# ------------------------------------------------------------------ the way on


def test_a_ledger_that_moves_is_frozen_until_its_owner_says_that_it_is_the_only_copy(
    place, tmp_path, monkeypatch
):
    first = drawn(Ledger(place("l"), {"d": Budget(1.0)}), "a")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    there = Ledger(place("l"))
    with pytest.raises(LedgerError, match=r"anchor is missing.*suffice ledger recover"):
        there.debit("d", PROMISE, ask("b"))
    assert there.debit("d", PROMISE, ask("a")) == first  # stored bytes cost nothing
    there.recover()
    assert drawn(there, "b")
    monkeypatch.undo()
    assert Ledger(place("l")).frozen == ""  # an anchor that is behind is no trouble


def test_lost_entries_are_not_the_only_copy(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger(path, {"d": Budget(1.0)})
    copy = shutil.copy(path, tmp_path / "copy")
    drawn(ledger, "a")
    shutil.copy(copy, path)
    again = Ledger(path)
    with pytest.raises(LostEntriesError, match="not the only copy"):
        again.recover()
    assert again.recover(released={}) == 0
    (facts,) = [entry.facts for entry in again.log() if entry.kind == "recovered"]
    assert (facts["compared"], facts["entries_lost"]) == ("anchor", 1)
    assert drawn(Ledger(path), "b")


def test_a_recovered_ledger_may_have_its_anchor_in_another_place(place, tmp_path):
    ledger = Ledger(place("l"), {"d": Budget(1.0)})
    with pytest.raises(LedgerError, match="another place"):
        Ledger(place("l"), anchor="none")
    ledger.recover(anchor=tmp_path / "kept")
    assert Ledger(place("l")).anchor.shown_place == str(tmp_path / "kept")
    assert drawn(Ledger(place("l")), "a")
    assert (tmp_path / "kept").exists()


def test_without_an_anchor_nothing_is_noticed_and_that_is_said(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger(path, {"d": Budget(1.0)}, anchor="none")
    copy = shutil.copy(path, tmp_path / "copy")
    drawn(ledger, "a")
    shutil.copy(copy, path)
    assert drawn(Ledger(path), "a")
    assert Ledger(path).anchor.kind == "none"


# ------------------------------------------------------------------ places that do not work


@pytest.mark.parametrize(
    "content", ["", "nonsense", "suffice anchor 1 " + "0" * 32 + " 1 " + "0" * 64]
)
def test_an_anchor_that_makes_no_sense_freezes(tmp_path, content):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)}, anchor=tmp_path / "kept")
    (tmp_path / "kept").write_text(content)
    assert ledger.frozen == "its anchor cannot be read"
    assert drawn(ledger, "a") is None
    ledger.recover()
    assert drawn(ledger, "a")


@pytest.mark.parametrize(
    "place_of_anchor", ["missing/folder/kept", "command:false", "command:nosuchprogram"]
)
def test_a_new_ledger_whose_anchor_cannot_be_written_is_not_made(
    tmp_path, monkeypatch, place_of_anchor
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"--anchor none goes without"):
        Ledger("l", {"d": Budget(1.0)}, anchor=place_of_anchor)
    assert not Ledger("l", {"d": Budget(1.0)}, anchor="none").frozen


def test_a_program_that_only_a_ledger_names_is_not_run(tmp_path, monkeypatch):
    """A ledger may be a stranger's file, which somebody only wants to look at."""
    program, ran = tmp_path / "keep.py", tmp_path / "ran"
    program.write_text(f"import pathlib; pathlib.Path({str(ran)!r}).touch()")
    anchor = f"command:{sys.executable} {program}"
    Ledger(tmp_path / "l", {"d": Budget(1.0)}, anchor=anchor)
    ran.unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    for words in (["inspect"], ["ledger", "show"], ["ledger", "verify"]):
        subprocess.run([sys.executable, "-m", "suffice", *words, str(tmp_path / "l")], check=False)
    ledger = Ledger(tmp_path / "l")
    assert "you name it on this computer" in ledger.frozen
    assert drawn(ledger, "a") is None
    assert not ran.exists()
    ledger.recover(anchor=anchor)
    assert ran.exists()


@pytest.mark.parametrize("words", ["", "command:", "command:'open"])
def test_an_anchor_without_a_place_is_refused(tmp_path, words):
    with pytest.raises(ParameterError):
        Ledger(tmp_path / "l", {"d": Budget(1.0)}, anchor=words)


@pytest.mark.parametrize("home", ["/nonexistent", "/dev/null"])
def test_a_user_without_a_home_is_told_what_to_choose(tmp_path, home):
    environment = {**os.environ, "HOME": home, "XDG_STATE_HOME": ""}
    words = [sys.executable, "-m", "suffice", "ledger", "init", str(tmp_path / "l")]
    words += ["--dataset", "d", "--epsilon", "1"]
    if home == "/nonexistent" and os.geteuid() == 0:
        environment["HOME"] = "/proc/nonexistent"  # where not even this user can make a folder
    refused, made = (
        subprocess.run(
            [*words, *more], env=environment, capture_output=True, text=True, check=False
        )
        for more in ([], ["--anchor", "none"])
    )
    assert refused.returncode == 6
    assert "--anchor none goes without" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert made.returncode == 0, made.stderr
    assert "It has no anchor" in made.stdout
