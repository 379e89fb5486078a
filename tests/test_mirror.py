"""Test modules have names of their own, and no test depends on which other test ran before it."""

import ast
import symtable
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp")  # a generator expression may run later
GENERATORS = ("default_rng", "RandomState", "Random", "Generator")


def repeated_names(tests: Path) -> list[str]:
    """Return the names of several test modules: pytest imports them by name, without folders."""
    names = Counter(path.name for path in tests.rglob("test_*.py"))
    return sorted(name for name, number in names.items() if number > 1)


def shared_generators(source: str) -> list[str]:
    """Return the functions that draw from a generator of their module: order would matter."""
    made = {
        target.id
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and _makes_a_generator(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    table = symtable.symtable(source, "tests", "exec")
    return [
        f"{scope.get_name()}: {symbol.get_name()}"
        for scope in _functions(table)
        for symbol in scope.get_symbols()
        if symbol.is_global() and symbol.get_name() in made
    ]


def _makes_a_generator(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in GENERATORS


def _functions(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield the scopes that run after the import: not the comprehensions of the module itself."""
    for inner in table.get_children():
        at_import = table.get_type() == "module" and inner.get_name() in COMPREHENSIONS
        if inner.get_type() == "function" and not at_import:
            yield inner
        yield from _functions(inner)


def test_names_of_test_modules_are_unique(tmp_path):
    assert repeated_names(TESTS) == []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_same.py").touch()
    assert repeated_names(tmp_path) == ["test_same.py"]


def test_no_test_draws_from_a_generator_that_others_draw_from():
    shared = {
        str(path.relative_to(TESTS)): shared_generators(path.read_text())
        for path in TESTS.rglob("*.py")
    }
    assert len(shared) > 200
    assert {path: names for path, names in shared.items() if names} == {}


def test_a_shared_generator_is_found():
    made = "import numpy as np\nrng = np.random.default_rng(0)\nX = rng.normal(size=3)\n"
    assert shared_generators(made + "def test_x():\n    rng.normal()") == ["test_x: rng"]
    assert shared_generators(made + "f = lambda: [rng.normal() for _ in X]")
    assert shared_generators(made + "def test_x(rng):\n    rng.normal()") == []
    assert shared_generators(made + "def test_x():\n    rng = 3\n    return rng") == []
