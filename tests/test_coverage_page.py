"""Every interval of the library is in docs/coverage.md, and the suite behind it can find faults."""

import ast
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import suffice
from suffice.releases.kinds import KINDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text()


def intervals_of(source: str) -> set[str]:
    """Return Class.name of methods and attributes that are intervals, and of ends of intervals."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        for item in ast.walk(node):
            name = ""
            if isinstance(item, ast.FunctionDef):
                name = item.name
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                name = item.target.id if item.target.id in ("low", "high") else ""
            elif isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
                name = item.attr
            is_interval = name.endswith(("interval", "intervals", "interval_", "intervals_"))
            if not name.startswith("_") and (is_interval or name in ("low", "high")):
                names.add(f"{node.name}.{name}")
    return names


def every_interval() -> set[str]:
    names = set()
    for path in (ROOT / "src" / "suffice" / "learner").rglob("*.py"):
        names |= intervals_of(path.read_text())
    # A mixin has no users of its own: its intervals are those of the classifier.
    names = {name.replace("FiguredModel.", "FactoredClassifier.") for name in names}
    for kind in KINDS.values():
        names |= {f"{kind.name}.{d}" for d in kind.details if d.endswith(("_low", "_high"))}
    return names


def test_the_search_finds_methods_attributes_and_ends():
    source = """
class Learner:
    low: float
    other: int
    def coef_interval(self): ...
    def fit(self):
        self.accuracy_interval_ = 1
        low = 2
class _Private:
    high: float
"""
    expected = {"Learner.low", "Learner.coef_interval", "Learner.accuracy_interval_"}
    assert intervals_of(source) == expected


def test_every_interval_is_on_the_page():
    names = every_interval()
    assert len(names) >= 10
    missing = sorted(name for name in names if f"`{name}`" not in PAGE)
    assert not missing, (
        f"measure them in lab/bench/coverage.py, and name them in the page: {missing}"
    )


def test_every_plan_is_on_the_page():
    plans = {n for n in suffice.__all__ if n.startswith("plan_") or n == "advise"}
    assert not sorted(name for name in plans if f"`{name}`" not in PAGE)


@pytest.fixture(scope="module")
def suite():
    spec = importlib.util.spec_from_file_location(
        "coverage_suite", ROOT / "lab" / "bench" / "coverage.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_suite"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["coverage_suite"]


def gaussian_line(suite, factor: float):
    def draw(seed: int):
        x = np.random.default_rng(seed).normal(size=5)
        return suite.within(x - 1.96 * factor, 0.0, x + 1.96 * factor)

    return suite.Line("an interval", "a table", "a setting", 0.95, draw)


def test_the_suite_tells_right_intervals_from_narrow_ones(suite):
    """Fixed seeds: intervals that are right, and others of 0.7 times the width."""
    right, narrow = (suite.measure(gaussian_line(suite, factor)) for factor in (1.0, 0.7))
    assert right.verdict == "yes"
    assert right.count == 5 * right.draws
    assert narrow.verdict == narrow.cells[-1] == "too seldom"
    assert narrow.covered < 0.9 < right.covered


def chances(suite, level: float, coverage: float) -> dict[str, float]:
    """Return how often each verdict comes of draws of one interval: exact, by numbers of misses."""
    verdicts, open_states = {"yes": 0.0, "too seldom": 0.0}, {0: 1.0}
    for draws in range(1, suite.MOST_DRAWS + 1):
        after: dict[int, float] = {}
        for misses, chance in open_states.items():
            after[misses] = after.get(misses, 0.0) + chance * coverage
            after[misses + 1] = after.get(misses + 1, 0.0) + chance * (1 - coverage)
        open_states = {}
        for misses, chance in after.items():
            verdict = suite.verdict_of([0.0] * misses + [1.0] * (draws - misses), level)
            if verdict == suite.TOO_FEW:
                open_states[misses] = chance
            else:
                verdicts[verdict] += chance
        if sum(open_states.values()) < 1e-5:
            break
    return verdicts


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_how_often_the_suite_is_wrong(suite, level):
    """What the page states: an interval that is right, and one that is short by a tenth."""
    right, short = (chances(suite, level, coverage) for coverage in (level, level - suite.GAP))
    assert right["too seldom"] <= suite.MOST_FALSE_ALARMS == 1e-3
    assert right["yes"] > 0.998
    assert short["yes"] <= suite.MOST_MISSED == 0.1
    assert short["too seldom"] > 0.9


def test_a_forecast_holds_each_time_or_too_seldom(suite):
    assert suite.verdict_of([1.0] * 22, 1.0) == "yes"
    assert suite.verdict_of([1.0] * 21, 1.0) == suite.TOO_FEW
    assert suite.verdict_of([1.0] * 10 + [0.0], 1.0) == "too seldom"


def test_intervals_of_one_draw_are_no_more_evidence_than_one(suite):
    """Five intervals that hold or fail together count as one draw of one interval."""

    def draw(seed: int):
        held = np.full(5, np.random.default_rng(seed).random() < 0.95)
        return suite.Outcome(held, np.ones(5))

    together = suite.measure(suite.Line("i", "t", "s", 0.95, draw))
    assert together.draws >= 21
    assert together.count == 5 * together.draws


def test_a_point_never_covers(suite):
    assert suite.within([0.5, 0.5], 0.5, [0.5, 0.6]).held.tolist() == [False, True]
    assert not suite.within([0.5], 0.5, [0.5 + 3e-13]).held.any()


def test_absent_intervals_are_not_counted(suite):
    nothing = suite.Outcome(np.array([0.0]), np.array([np.nan]))
    measured = suite.measure(suite.Line("i", "t", "s", 0.95, lambda _: nothing))
    assert (measured.count, measured.draws, measured.verdict) == (0, suite.DRAWS_WITHOUT, "-")
    assert measured.cells[4] == "none given"


def test_a_run_goes_on_where_another_ended(suite, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite, "STORE", tmp_path / "results" / "coverage.json")
    calls = []

    def lines(folder):
        assert folder is None
        line = gaussian_line(suite, 1.0)
        calls.append(line.key)
        yield line

    monkeypatch.setattr(suite, "PARTS", {"one": lines})
    page = tmp_path / "page.md"
    page.write_text("before\n" + "\n".join(suite.MARKS) + "\nafter\n")
    assert suite.main(["--page", str(page)]) == 0
    first = page.read_text()
    assert "| `an interval` | a table |" in first
    assert first.startswith("before")
    assert first.endswith("after\n")
    other = first.replace("| a table |", "| another table |")
    page.write_text(other)  # a line of another store stays
    assert suite.main(["--page", str(page)]) == 0
    lines = set(other.splitlines()) | set(first.splitlines())
    assert set(page.read_text().splitlines()) == lines
    monkeypatch.setattr(suite, "measure", lambda _: pytest.fail("it is stored already"))
    suite.main([])
    assert "0 of 1 lines cover too seldom" in capsys.readouterr().out
