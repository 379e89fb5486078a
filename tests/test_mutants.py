"""The data of `make mutants` cannot rot: places, replacements and tests are there.

And the runner tells killed from broken and from survived, with mutants of a small package.
"""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "mutants"
LIVED = (
    "pipeline-rounding-removed",
    "absent-class-exactly-zero",
    "parity-of-labels-in-step",
    "sign-of-a-zero-by-labels",
)


@pytest.fixture
def module(monkeypatch):
    monkeypatch.syspath_prepend(str(MUTANTS))
    yield importlib.import_module
    for path in MUTANTS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_every_mutant_has_a_name_and_its_place_stands_once(module):
    """`plant` raises where a text is gone or stands twice, changes nothing or is no Python."""
    run, mutant = module("run"), module("mutant")
    every = run.every_mutant()
    names = [one.name for one in every]
    assert len(names) == len(set(names)) >= 60
    assert set(LIVED) <= set(names)
    for one in every:
        assert mutant.plant(one, ROOT / "src" / "suffice")
        assert one.reveals.endswith(".")


def test_every_module_of_mutants_is_listed(module):
    files = {path.stem for path in MUTANTS.glob("*.py")} - {"run", "mutant"}
    assert files == set(module("run").MODULES)


def test_the_tests_that_have_to_notice_are_there(module):
    """Not the digests of proofs, which notice every change of a covered line, sound or not."""
    known: dict[str, set[str]] = {}
    for one in module("run").every_mutant():
        assert one.tests
        for test in one.tests:
            file, *inside = test.split("::")
            assert file != "test_proofs.py"
            path = ROOT / "tests" / file
            assert path.exists(), f"{one.name}: {test}"
            if inside and file not in known:
                tree = ast.walk(ast.parse(path.read_text()))
                kinds = (ast.FunctionDef, ast.ClassDef)
                known[file] = {node.name for node in tree if isinstance(node, kinds)}
            wanted = {name.partition("[")[0] for name in inside}
            assert wanted <= known.get(file, set()), f"{one.name}: {test}"


def test_a_place_that_is_gone_doubled_or_unchanged_is_refused(module, tmp_path):
    mutant = module("mutant")
    (tmp_path / "a.py").write_text("x = 1\ny = 2\nz = 2\n")
    asked = {"tests": ("test_mutants.py",), "reveals": "Nothing."}
    for text, replacement, says in (
        ("x = 3", "x = 4", "stands 0 times"),
        ("= 2", "= 3", "stands 2 times"),
        ("x = 1", "x = 1", "changes nothing"),
    ):
        stale = mutant.Mutant("m", "a.py", text, replacement, **asked)
        with pytest.raises(mutant.StaleMutantError, match=says):
            mutant.plant(stale, tmp_path)
    gone = mutant.Mutant("m", "b.py", "x", "y", **asked)
    with pytest.raises(mutant.StaleMutantError, match="no file"):
        mutant.plant(gone, tmp_path)


def test_the_runner_tells_killed_from_survived_and_broken(module, tmp_path, capsys, monkeypatch):
    run, mutant = module("run"), module("mutant")
    tree = tmp_path / "tree"
    (tree / "src" / "suffice").mkdir(parents=True)
    (tree / "tests").mkdir()
    (tree / "src" / "suffice" / "__init__.py").write_text("")
    (tree / "src" / "suffice" / "a.py").write_text("def noise(x):\n    return x + 1\n")
    (tree / "tests" / "test_a.py").write_text(
        "from suffice.a import noise\n\n\ndef test_noise():\n    assert noise(1) != 1\n"
    )
    monkeypatch.setattr(run, "ROOT", tree)
    asked = {"tests": ("test_a.py",), "reveals": "It gives x away."}
    outcomes = run.try_all(
        [
            mutant.Mutant("killed", "a.py", "x + 1", "x", **asked),
            mutant.Mutant("survived", "a.py", "x + 1", "x + 2", **asked),
            mutant.Mutant("no-import", "a.py", "def noise", "def silence", **asked),
        ],
        workers=1,
    )
    assert [one.verdict for one in outcomes] == ["killed", "SURVIVED", "broken"]
    assert "test_a.py::test_noise" in capsys.readouterr().out
    (tree / "tests" / "test_a.py").write_text("def test_noise():\n    assert False\n")
    with pytest.raises(SystemExit, match="without any mutant"):
        run.try_all([mutant.Mutant("any", "a.py", "x + 1", "x", **asked)], workers=1)


@pytest.mark.parametrize(
    ("code", "line", "verdict"),
    [
        (0, "1 passed", "SURVIVED"),
        (1, "FAILED tests/test_a.py::test_noise - assert 1 != 1", "killed"),
        (1, "FAILED tests/test_a.py::test_noise", "killed"),
        (1, "FAILED tests/test_a.py::test_noise - NameError: name 'y' is not defined", "broken"),
        (2, "ERROR tests/test_a.py - ImportError: cannot import name 'noise'", "broken"),
        (4, "ERROR: not found: test_b.py", "broken"),
        (5, "no tests ran", "broken"),
        (-1, "it took too long", "broken"),
        (-11, "Fatal Python error: Segmentation fault", "broken"),
    ],
)
def test_only_a_test_that_fails_kills(module, code, line, verdict):
    assert module("run").verdict_of(code, line) == verdict


def test_an_unknown_name_is_refused(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        module("run").main()
    assert ended.value.code == 2
    assert "no mutant is called nonsense" in capsys.readouterr().err
