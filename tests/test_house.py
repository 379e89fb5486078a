"""The house stays as small as it was measured (``python lab/house.py --crossings`` prints it).

Crossings, doubles, constants, protocols, lone importers and single-use functions may only fall.
Lines and modules rise by what a change adds, in the commit that adds it. Functions crossed have
five to spare: on one core, or in another folder, a few others run.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "lab" / "house.py"
LIMITS = {
    "lines": 74_150,
    "modules": 185,
    "lone": 22,
    "protocols": 6,
    "constants": 459,
    "constants_learner": 66,
    "once": 425,
    "names": 0,
    "doubles": 16,
    "release mean-operator files": 35,
    "release mean-operator functions": 403,
    "fit files": 37,
    "fit functions": 330,
    "grant files": 38,
    "grant functions": 439,
    "release moments files": 27,
    "release moments functions": 254,
}


def _script():
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = _script()


@pytest.fixture(scope="module")
def measured() -> dict[str, int]:
    words = [sys.executable, str(SCRIPT), "--crossings"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rooms = re.compile(r"^(\w+) +(\d+)$", re.MULTILINE)
    walks = re.compile(r"^(.+?) +(\d+) files, (\d+) functions$", re.MULTILINE)
    numbers = {name: int(value) for name, value in rooms.findall(printed)}
    for name, files, functions in walks.findall(printed):
        numbers |= {f"{name} files": int(files), f"{name} functions": int(functions)}
    return numbers


def test_everything_that_is_limited_is_measured(measured):
    assert measured.keys() == LIMITS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_no_number_of_the_house_rises(measured, name):
    assert measured[name] <= LIMITS[name]


# --- the measures can fail

BLOCK = """
def add(rows, labels, total):
    for row, label in zip(rows, labels):
        if label == 1 and row is not None:
            total[row] = total[row] + 3 * label
        else:
            total[row] = total[row] - 2 * label
    return total[0] + total[1]
"""


def test_a_double_is_found_under_other_names():
    renamed = BLOCK.replace("total", "sums").replace("row", "line").replace("3", "5")
    assert house.doubles({"a.py": BLOCK, "b.py": renamed}) == ["a.py:2 ~ b.py:2"]
    assert house.doubles({"a.py": BLOCK, "b.py": "x = 1\n"}) == []


def test_constants_protocols_and_single_uses_are_counted():
    source = """
from typing import Protocol
LIMIT = 2**10
RATE: float = -0.5
NAME = "x"
class Part(Protocol): ...
def _once(): ...
def _twice(): ...
def f():
    _once(), _twice(), _twice()
"""
    sources = {"learner/a.py": source}
    assert house.numeric_constants(sources) == ["learner/a.py:LIMIT", "learner/a.py:RATE"]
    assert house.protocols(sources) == ["learner/a.py:Part"]
    assert house.private_functions_used_once(sources) == ["learner/a.py:_once"]


def test_lone_importers_and_repeated_names_are_found():
    sources = {
        "owner/a.py": "from suffice.owner.x.plan import f",
        "owner/x/plan.py": "",
        "owner/plan.py": "",
        "cli/b.py": "from suffice.owner import plan",
        "cli/c.py": "from suffice.owner import plan",
    }
    assert house.lone_importers(sources) == ["owner/x/plan.py"]
    assert house.repeated_names(sources) == ["owner: plan.py"]


def test_a_function_counts_as_crossed_only_if_it_runs(monkeypatch):
    monkeypatch.setattr(house, "SRC", Path(__file__).parent)
    found = {code.co_name for code in house.crossed(_outer)}
    assert {"_outer", "_inner"} <= found
    assert "_idle" not in found


def _outer():
    _inner()


def _inner(): ...


def _idle(): ...
