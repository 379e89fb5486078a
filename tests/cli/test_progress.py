"""Bars: on a terminal only, on stderr, and every pass over the rows is counted from zero."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.cli.output import RowCounter, progress, steps
from suffice.cli.releases import count_rows_of
from suffice.engines.engine import Computing, begin_pass
from suffice.owner.mean_operator import MeanOperator


class Bar:
    """Remembers what a bar would show."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, int, int | None]] = []

    def add_task(self, *_: str, **__: object) -> int:
        return 0

    def update(self, _: int, *, description: str, completed: int, total: int | None, **__) -> None:
        self.shown.append((description, completed, total))


def test_the_rows_of_each_pass_are_counted_from_zero_and_never_beyond_their_number():
    bar = Bar()
    counter = RowCounter(bar, "reading")
    for rows in ([60, 40], [60, 40], [60, 60]):
        begin_pass(counter)
        for number in rows:
            counter(number)
    assert ("reading", 100, None) in bar.shown
    assert ("reading, pass 2", 60, 100) in bar.shown
    assert ("reading, pass 2", 100, 100) in bar.shown
    assert ("reading, pass 3", 120, None) in bar.shown  # another table: no end is known
    assert all(total is None or done <= total for _, done, total in bar.shown)
    begin_pass(None)
    begin_pass([].append)  # counts rows only


def test_a_release_reads_its_rows_in_passes_of_their_own():
    bar = Bar()
    rows = np.random.default_rng(0).normal(size=(200, 2))
    release = MeanOperator(1.0, mechanism="laplace", map=None).release
    release(rows, [0, 1] * 100, ledger=None, progress=RowCounter(bar, "reading"))
    assert max(done for _, done, _ in bar.shown) == 200
    assert bar.shown[-1][0] == "reading, pass 2"


def test_rows_that_are_predicted_are_counted():
    bar = Bar()
    table = count_rows_of(pa.table({"x": range(70)}), RowCounter(bar, "predicting"))
    for _ in range(2):
        assert sum(batch.num_rows for batch in table.batches(["x"])) == 70
    assert bar.shown[-1] == ("predicting, pass 2", 70, 70)
    assert count_rows_of("t.csv", None) == "t.csv"


def test_nothing_is_shown_where_nobody_watches(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress("reading") as count_rows:
        assert count_rows is None
    with steps("auditing") as show_step:
        show_step(1, 2, "a case")
    assert Computing(progress=None).progress is None


def test_a_terminal_sees_the_pass_on_stderr_and_stdout_stays_clean(tmp_path):
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(300))
    (tmp_path / "t.csv").write_text("x,sick\n" + rows)
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "t.csv",
        "--label",
        "sick",
        "--epsilon",
        "1",
    )
    master, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "suffice", *words, "--no-ledger", "-o", "r", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        check=True,
    )
    os.close(terminal)
    printed = b""
    while True:
        try:
            part = os.read(master, 2**16)
        except OSError:
            break
        printed += part
        if not part:
            break
    os.close(master)
    assert b"reading" in printed
    assert b"pass 2" in printed
    assert b"300 rows" in printed
    assert done.stdout.startswith(b"{")
    assert Path(tmp_path / "r").exists()
