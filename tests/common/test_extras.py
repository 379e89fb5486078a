"""Each role installs what it needs: a package that is missing is named with its extra."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from suffice import errors

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
BLOCK = """
import sys
for name in {gone!r}:
    sys.modules[name] = None
"""
HEAVY = ("dp_accounting", "matplotlib", "mpmath", "numba", "opendp", "pyarrow", "scipy", "sklearn")


def run(gone, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-c", BLOCK.format(gone=[*gone]) + code]
    done = subprocess.run(words, check=False, env=env, capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def command(*words: str) -> str:
    return f"sys.argv[:] = ['suffice', *{list(words)!r}]\nfrom suffice.cli.main import run\nrun()\n"


def test_the_base_inspects_and_verifies_without_what_other_roles_need():
    path, key = str(FIXTURES / "signed.suffice"), str(FIXTURES / "key.pub")
    assert "per label" in run(HEAVY, command("inspect", path, "--explain"))
    assert "unaltered" in run(HEAVY, command("verify", path, "--key", key))


def test_a_command_of_another_role_says_which_extra_to_install():
    model, rows = str(FIXTURES / "model.suffice"), str(FIXTURES / "public.csv")
    said = run(HEAVY, command("predict", model, rows, "-o", "unused.csv"))
    assert said.count("\n") == 1
    assert "pip install 'suffice[learner]'" in said


def test_python_says_it_too():
    code = """
import suffice as sf
for make in ({calls}):
    try:
        make()
    except sf.errors.MissingPackageError as error:
        print(error)
"""
    model = str(FIXTURES / "model.suffice")
    calls = f"lambda: sf.Moments, lambda: sf.load({model!r}).predict([[0.0]])"
    said = run(HEAVY, code.format(calls=calls)).splitlines()
    assert len(said) == 2
    assert all("pip install 'suffice[" in line for line in said)
    release = "sf.MeanOperator(1.0, map=None).release([[1.0], [2.0]], [0, 1], ledger=None)"
    (line,) = run(["opendp"], code.format(calls=f"lambda: {release},")).splitlines()[-1:]
    assert line == "This needs opendp, which is not installed. Run pip install 'suffice[owner]'."


def test_every_package_of_a_role_is_known_by_its_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for package, extra in errors._EXTRAS.items():
        known = {"sklearn": "scikit-learn"}.get(package, package.replace("_", "-"))
        role = "tables" if extra == errors._ROLES else extra
        if known == "threadpoolctl":
            role = "owner"
        assert any(line.startswith(f"{known}>=") for line in extras[role]), package
    with pytest.raises(ModuleNotFoundError), errors.missing_packages():
        raise ModuleNotFoundError("of somebody else", name="elsewhere")
