"""What the package offers, listed and equal to what is there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import suffice

HEAVY = ("sklearn", "numba", "pyarrow", "opendp", "scipy", "numpy", "matplotlib", "dp_accounting")


def test_every_public_name_exists_and_is_listed():
    for name in suffice.__all__:
        assert getattr(suffice, name) is not None
    assert dir(suffice) == sorted(suffice.__all__)
    assert set(suffice._HOMES) | {"__version__", "errors"} == set(suffice.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        suffice.Nonsense  # noqa: B018


def test_packages_define_nothing_and_modules_repeat_no_list_of_names():
    """What others may use has no underscore; only packages that pass names on list them."""
    for path in Path(suffice.__path__[0]).rglob("*/*.py"):
        body = ast.parse(path.read_text()).body
        if path.name == "__init__.py":
            assert not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in body), path
        elif path.name != "sklearn_names.py":
            assert "__all__ = " not in path.read_text(), path


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_the_package_loads_nothing_heavy():
    loaded = run(f"import sys, suffice; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_the_command_line_says_its_version_without_loading_anything_heavy():
    code = (
        "import sys\nfrom suffice.cli.main import app\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert run(code).strip() == "[]"


def test_the_participant_needs_the_standard_library_only(tmp_path):
    """The file runs alone, in isolated mode, without site-packages."""
    source = Path(suffice.__path__[0]) / "participant.py"
    (tmp_path / "participant.py").write_text(source.read_text())
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import participant;"
        "r = participant.Randomizer(['yes', 'no'], 0.75); print(r.answer('q', 'yes'))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in ("yes", "no")
