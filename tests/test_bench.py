"""Every benchmark claims something that can be missed, is listed, and fails if it is missed."""

import ast
import importlib.util
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "lab" / "bench"
SHARED = {"harness", "run"}
TIMES = re.compile(r"\b(milliseconds?|seconds?|minutes?|hours?|days?)\b")


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_run", BENCH / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source(module: str) -> ast.Module:
    found = [path for path in (BENCH, BENCH / "peers") if (path / f"{module}.py").exists()]
    return ast.parse((found[0] / f"{module}.py").read_text())


def test_every_script_with_a_claim_is_listed(runner):
    scripts = {p.stem for p in BENCH.glob("*.py") if "claim(" in p.read_text()} - SHARED
    assert len(scripts) >= 13
    assert scripts <= {bench.module for bench in runner.BENCHMARKS.values()}


def test_every_listed_script_takes_the_words_it_is_given_and_runs_alone(runner):
    for bench in runner.BENCHMARKS.values():
        tree = source(bench.module)
        (main,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "main")
        assert len(main.args.args) == (bench.words is not None), bench.module
        assert "__name__ == '__main__'" in ast.unparse(tree), bench.module


def faults_of(tree: ast.AST) -> list[str]:
    """Return what keeps the claims of a benchmark from being missed."""
    optional = {
        call
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.For | ast.IfExp) and "against" in _condition(node)
        for call in ast.walk(node)
    }
    named = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    claims = [n for n in named if isinstance(n.func, ast.Name) and n.func.id == "claim"]
    faults = [] if any(call not in optional for call in claims) else ["no claim in every run"]
    for call in claims:
        name, _, limit = (ast.unparse(argument) for argument in call.args)
        if re.search(r"\binf(inity)?\b|\b1e[3-9]\d\d", limit, re.IGNORECASE):
            faults.append(f"no limit: {name}")
        if TIMES.search(name):
            faults.append(f"the clock of one machine: {name}")
    return faults


def _condition(node: ast.If | ast.For | ast.IfExp) -> str:
    return ast.unparse(node.iter if isinstance(node, ast.For) else node.test)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("claim('a / b', 1.0, 2.0)", ""),
        ("claim('a / b', x, np.inf)", "no limit"),
        ("claim('a / b', x, float('inf'))", "no limit"),
        ("claim('a / b', x, 1e999)", "no limit"),
        ("claim('seconds of a release', x, 3.0)", "the clock"),
        ("claim(f'{name}: minutes of it', x, 3.0)", "the clock"),
        ("print('a / b', x)", "no claim"),
        ("if options.against is not None:\n    claim('a / b', x, 1.0)", "no claim"),
        ("for k in limits if options.against else ():\n    claim('a / b', x, 1.0)", "no claim"),
    ],
)
def test_a_claim_that_cannot_be_missed_is_found(text, fault):
    faults = faults_of(ast.parse(text))
    assert [found.startswith(fault) for found in faults] == [True] * bool(fault)


def test_every_benchmark_has_a_claim_that_can_be_missed(runner):
    modules = {bench.module for bench in runner.BENCHMARKS.values()}
    assert {name: faults for name in modules if (faults := faults_of(source(name)))} == {}


def test_a_limit_that_cannot_be_missed_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    claim = importlib.import_module("harness").claim
    for limit in (math.inf, math.nan):
        with pytest.raises(ValueError, match="can never be missed"):
            claim("a / b", 1.0, limit)
    assert claim("a / b", 1.0, 2.0)["met"]
    assert not claim("a / b", math.nan, 2.0)["met"]
    sys.modules.pop("harness", None)


def test_limits_are_what_the_readme_prints(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    costs = importlib.import_module("label_privacy").printed_costs()
    for name in ("label_privacy", "harness"):
        sys.modules.pop(name, None)
    assert set(costs) == {1.0, 0.1, 0.05}
    text = (BENCH.parents[1] / "docs" / "accuracy.md").read_text()
    assert f"epsilon = 1 costs at most {costs[1.0]:g} percentage points of accuracy" in text


@pytest.mark.parametrize("met", [True, False, None])
def test_a_missed_claim_is_an_exit_code_and_so_is_none(runner, tmp_path, monkeypatch, met):
    made = ModuleType("made_up")
    made.main = lambda: (
        [] if met is None else [{"name": "one", "value": 1.0, "limit": 2.0, "met": met}]
    )
    monkeypatch.setitem(sys.modules, "made_up", made)
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    monkeypatch.setattr(sys, "argv", ["run.py"])
    monkeypatch.setattr(runner, "BENCHMARKS", {"made_up": runner.Bench("made_up")})
    monkeypatch.setattr(runner, "HERE", tmp_path)
    assert runner.main() == (0 if met else 1)
    assert len(list((tmp_path / "results").iterdir())) == 1
    sys.modules.pop("harness", None)
