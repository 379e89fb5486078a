"""The examples in docstrings run, and print what they say.

`tests/test_docs.py` does the same for the Python block of the README.
"""

import doctest
import importlib
import pkgutil

import pytest

import suffice

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(suffice.__path__, "suffice.")
    if not info.name.endswith("__main__")
)


def run_examples(module) -> tuple[int, str]:
    """Return how many examples the docstrings of a module have, and what is wrong with them."""
    attempted, report = 0, []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
        runner.run(test, out=report.append, clear_globs=True)
        attempted += runner.tries
    return attempted, "".join(report)


@pytest.mark.parametrize("name", ["suffice", *MODULES])
def test_the_examples_of_a_module_print_what_they_say(name, tmp_path, monkeypatch):
    """In a folder of their own: an example may write files."""
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} needs a library that is not installed: {error.name}")
    assert run_examples(module)[1] == ""


def test_a_wrong_example_is_noticed():
    module = type(doctest)("planted")
    module.__doc__ = ">>> 1 + 1\n3\n"
    attempted, report = run_examples(module)
    assert attempted == 1
    assert "Expected:\n    3\nGot:\n    2\n" in report


def test_there_are_examples_to_run():
    counts = [
        run_examples(importlib.import_module(f"suffice.tables.{name}"))[0]
        for name in ("files", "databases")
    ]
    assert all(counts)
