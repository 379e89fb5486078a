"""The data of `make mutants` cannot rot: places, replacements and tests are there.

And the runner tells killed from broken and from survived, with mutants of a small package.
"""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "lab" / "mutants"
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


OF_A = """
from mutant import Mutant

MUTANTS = tuple(
    Mutant(name, "a.py", text, replacement, ("test_a.py",), "It gives x away.")
    for name, text, replacement in (
        ("exact", "x + 1", "x"), ("more", "x + 1", "x + 2"), ("lost", "def noise", "def silence")
    )
)
"""


def test_the_runner_tells_killed_from_survived_and_broken(tmp_path):
    """In a package of its own, whose tests notice one fault of three."""
    for name, text in {
        "src/suffice/__init__.py": "",
        "src/suffice/a.py": "def noise(x):\n    return x + 1\n",
        "tests/test_a.py": "from suffice.a import noise\n\n\n"
        "def test_noise():\n    assert noise(1) != 1\n",
        "lab/mutants/of_a.py": OF_A,
        **{
            f"lab/mutants/{name}.py": (MUTANTS / f"{name}.py").read_text()
            for name in ("run", "mutant")
        },
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        asked = [
            sys.executable,
            str(tmp_path / "lab" / "mutants" / "run.py"),
            *words,
            "--workers",
            "1",
        ]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    done = run()
    assert done.returncode == 1, done.stderr
    table = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert [table[name][0] for name in ("exact", "more", "lost")] == [
        "killed",
        "SURVIVED",
        "broken",
    ]
    assert "test_a.py::test_noise" in table["exact"]
    assert "SURVIVED more: It gives x away.\n  should have noticed: test_a.py" in done.stdout
    assert "3 tried, 1 killed" in done.stdout
    (tmp_path / "src/suffice/a.py").write_text("def noise(x):\n    return x + 1 - 1\n")
    done = run("exact")
    assert done.returncode == 1
    assert "the tests fail without any mutant" in done.stderr


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
