"""Crafted files, sealed with right checksums: no traceback, little time and memory, no paint.

What `inspect` prints is taken from the program's own entry, in this process; a sample runs in
processes of their own, whose memory the operating system limits.
"""

import contextlib
import io
import os
import subprocess
import sys
import time
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest
import typer

import crafted_files
from suffice.cli import main
from suffice.errors import SufficeError
from suffice.owner.parties.contribution import PartyContribution
from suffice.releases.codec import load

SECONDS = 2.0
MEGABYTES, TIMES = 50, 20
RELEASES = sorted(crafted_files.FOLDER.glob("*.suffice"))


def shown(monkeypatch, path: Path, *more: str) -> tuple[int, str]:
    """Return exit code and everything that ``suffice inspect`` prints; an exception is no exit."""
    monkeypatch.setattr(sys, "argv", ["suffice", "inspect", str(path), *more])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main.run()
        except SystemExit as end:
            return int(end.code or 0), printed.getvalue()
    return 0, printed.getvalue()


def read(monkeypatch, path: Path, ending: str) -> str:
    """Read a file as its reader does, print what is printed of it, and return that."""
    if ending == ".part":
        try:
            PartyContribution.load(path)
        except SufficeError as error:
            return str(error)
        return ""
    return shown(monkeypatch, path)[1] + shown(monkeypatch, path, "--json")[1]


def strange(printed: str) -> set[str]:
    """Return the characters that must not reach a terminal."""
    return {letter for letter in printed if letter != "\n" and not letter.isprintable()}


def worst_of(
    monkeypatch, tmp_path: Path, count: int, part: int = 0, parts: int = 1
) -> tuple[float, float, int]:
    """Return the longest time, the most memory and how many files of a part were accepted."""
    monkeypatch.setattr(main, "app", typer.main.get_command(main.app))  # built once, not per file
    for original in RELEASES:
        shown(monkeypatch, original)  # what is imported once is not the file's doing
    slowest, largest, accepted = (0.0, ""), (0.0, ""), 0
    for name, ending, data in islice(crafted_files.crafted(count), part, None, parts):
        path = tmp_path / f"crafted{ending}"
        path.write_bytes(data)
        start = time.process_time()
        printed = read(monkeypatch, path, ending)
        seconds = (time.process_time() - start) / (1 if ending == ".part" else 2)  # words, and JSON
        tracemalloc.start()
        read(monkeypatch, path, ending)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not strange(printed), name
        assert seconds < SECONDS, f"{name}: {seconds:.1f} s for {len(data)} bytes"
        assert peak < MEGABYTES * 2**20 + TIMES * len(data), f"{name}: {peak / 2**20:.0f} MB"
        slowest = max(slowest, (seconds, f"{name}, {len(data)} bytes"))
        largest = max(largest, (peak / 2**20, f"{name}, {len(data)} bytes"))
        accepted += "suffice: " not in printed
    print(f"{count} files, {accepted} accepted; slowest {slowest}; largest {largest} MB")  # noqa: T201
    return slowest[0], largest[0], accepted


@pytest.mark.parametrize("part", range(3))  # workers share them; `make audit` reads 2,000 files
def test_crafted_files_cost_what_they_weigh_and_paint_nothing(monkeypatch, tmp_path, part):
    _, _, accepted = worst_of(monkeypatch, tmp_path, 150, part, 3)
    assert 2 < accepted < 33  # of 50: some get through to what is printed, most do not


@pytest.mark.audit
def test_two_thousand_crafted_files(monkeypatch, tmp_path):
    worst_of(monkeypatch, tmp_path, 2000)


PROCESS = """
import contextlib, io, resource, sys
from suffice.cli.main import run
def inspect(path):
    sys.argv = ["suffice", "inspect", path]
    try:
        run()
    except SystemExit as end:
        return end.code
original, crafted, allowed = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()):
    inspect(original)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
most = int(status["VmSize"].split()[0]) * 1024 + int(allowed)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
sys.exit(inspect(crafted))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux here")
@pytest.mark.parametrize("name", [item[0] for item in crafted_files.together()])
def test_files_of_old_holes_stay_within_a_limit_of_the_operating_system(tmp_path, name):
    (make,) = (item[2] for item in crafted_files.together() if item[0] == name)
    data = make()
    path = tmp_path / "crafted.suffice"
    path.write_bytes(data)
    allowed = MEGABYTES * 2**20 + TIMES * len(data)
    original = crafted_files.FOLDER / "mean-operator.suffice"
    command = [sys.executable, "-c", PROCESS, str(original), str(path), str(allowed)]
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=one_thread, check=False
    )
    assert "Traceback" not in done.stderr
    assert "memory" not in done.stderr
    assert done.returncode in (0, 3)
    assert not strange(done.stdout + done.stderr)


def test_every_untouched_file_is_sealed_as_it_was():
    for path in RELEASES:
        data = path.read_bytes()
        again = crafted_files.Container.read(data).sealed()
        assert load(again) == load(data).unsigned(), path.name
