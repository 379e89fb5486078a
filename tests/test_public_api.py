"""What the package offers, listed and equal to what is there."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import suffice

HEAVY = ("sklearn", "numba", "pyarrow", "opendp", "scipy", "numpy", "matplotlib", "dp_accounting")


def modules() -> list[str]:
    packages = pkgutil.walk_packages(suffice.__path__, "suffice.")
    return [info.name for info in packages if not info.name.endswith("__main__")]


def test_every_public_name_exists_and_is_listed():
    for name in suffice.__all__:
        assert getattr(suffice, name) is not None
    assert dir(suffice) == sorted(suffice.__all__)
    assert set(suffice._HOMES) | {"__version__", "errors"} == set(suffice.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        suffice.Nonsense  # noqa: B018


@pytest.mark.parametrize("name", [n for n in modules() if n.count(".") > 1])
def test_a_module_lists_what_it_defines_for_others(name):
    """`__all__` holds only names that exist, and every public function or class is in it."""
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    tree = ast.parse(Path(module.__file__).read_text())
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    if module.__file__.endswith("__init__.py"):
        assert not defined
        return
    assert listed is not None
    assert all(hasattr(module, item) for item in listed)
    commands = name.startswith("suffice.cli.")  # typer registers these itself
    assert commands or defined <= set(listed), defined - set(listed)


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
