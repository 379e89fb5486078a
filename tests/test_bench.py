"""Every benchmark with a claim is listed, is called as it asks to be, and fails if it is missed."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[1] / "bench"
SHARED = {"harness", "run"}


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


@pytest.mark.parametrize("met", [True, False])
def test_a_missed_claim_is_an_exit_code(runner, tmp_path, monkeypatch, met):
    made = ModuleType("made_up")
    made.main = lambda: [{"name": "one", "value": 1.0, "limit": 2.0, "met": met}]
    monkeypatch.setitem(sys.modules, "made_up", made)
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    monkeypatch.setattr(sys, "argv", ["run.py"])
    monkeypatch.setattr(runner, "BENCHMARKS", {"made_up": runner.Bench("made_up")})
    monkeypatch.setattr(runner, "HERE", tmp_path)
    assert runner.main() == (0 if met else 1)
    assert len(list((tmp_path / "results").iterdir())) == 1
    sys.modules.pop("harness", None)
