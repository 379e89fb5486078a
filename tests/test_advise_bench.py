"""lab/bench/advise.py compares what was advised with the best candidate, split by split."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "lab" / "bench"


@pytest.fixture
def bench(monkeypatch):
    """Return lab/bench/advise.py; nothing of lab/bench/ stays imported."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("advise")
    for name in set(sys.modules) - before:
        if name in {"harness", "advise", "advise_runs"} or name.startswith("rival"):
            del sys.modules[name]


def test_candidates_are_compared_on_common_splits(bench):
    own = {0: np.array([0.5, 0.7]), 1: np.array([0.9])}
    assert bench._difference(own, own) == (0.0, 0.0)
    difference, error = bench._difference({0: np.array([0.8])}, own)
    assert difference == pytest.approx(0.2)  # split 1, where the other was not run, is left out
    assert error == pytest.approx(np.sqrt(0.01 / 2))


def cell(bench, name: str, lost: float):
    return bench.Cell(name, "labels", 1.0, "a", 0.8, "b", lost, 0.001)


def test_the_share_within_one_point_is_judged_on_all_tables_and_on_those_held_out(bench, capsys):
    every = (*bench.CHOSEN_ON, *bench.HELD_OUT)
    cells = [cell(bench, name, 0.0) for name in every for _ in range(6)]
    assert [claim["met"] for claim in bench.judge(cells)] == [True, True]
    out = [c for c in cells if c.data_set in bench.HELD_OUT]
    worse = [cell(bench, c.data_set, 0.02) for c in out[:8]]
    cells = [c for c in cells if c not in out] + worse + out[8:]
    all_cells, held_out = bench.judge(cells)
    assert (all_cells["met"], held_out["met"]) == (True, False)
    assert all_cells["value"] == pytest.approx(100 * 8 / len(cells))
    assert held_out["value"] == pytest.approx(100 * 8 / 36)
    assert "held out: 78 % of 36 within one point" in capsys.readouterr().out
