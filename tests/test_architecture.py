"""The house as it is drawn: no cycle, no stale drawing, no folder without a word."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from suffice.audit import exercises
from suffice.audit import registry as audits
from suffice.learner import fit as learners
from suffice.owner import mechanism as mechanisms
from suffice.releases import kinds

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "architecture.md"


def _script():
    spec = importlib.util.spec_from_file_location("import_graph", DOCS / "import_graph.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _script()


@pytest.fixture(scope="module")
def graph():
    return script.imports(script.modules())


def made(**sources: str) -> dict[str, set[str]]:
    """Return the graph of a package `suffice` with these modules; __ stands for a dot."""
    return script.imports({name.replace("__", "."): source for name, source in sources.items()})


# --- cycles


def test_there_is_no_cycle_between_modules_or_folders(graph):
    assert len(graph) == len([*(DOCS.parent / "src" / "suffice").rglob("*.py")])
    assert script.cycles(graph) == []
    assert script.cycles(script.folders(graph)) == []


@pytest.mark.parametrize(
    "back",
    [
        "import suffice.owner.a",
        "def f():\n    from suffice.owner.a import g",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from suffice.owner import a",
        "class C:\n    def f(self):\n        import suffice.owner.a as a",
    ],
)
def test_a_cycle_is_found_wherever_the_import_stands(back):
    here = made(
        owner="",
        owner__a="from suffice.releases.b import x",
        releases="",
        releases__b=back,
        errors="",
    )
    assert script.cycles(here) == [["owner.a", "releases.b"]]
    assert script.cycles(script.folders(here)) == [["owner", "releases"]]


def test_a_package_that_its_own_module_asks_for_is_a_cycle():
    here = made(
        learner="from suffice.learner.a import f", learner__a="from suffice.learner import g"
    )
    assert script.cycles(here) == [["learner", "learner.a"]]


def test_longer_cycles_are_found_and_others_left_out():
    chain = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"a"}}
    assert script.cycles(chain) == [["a", "b", "c"]]


def test_names_lead_to_the_modules_that_define_them():
    lines = (
        "import numpy, suffice",
        "from suffice import errors",
        "from suffice.tables import maps",
        "from suffice.tables.maps import f",
    )
    sources = dict.fromkeys(("", "errors", "tables", "tables.maps", "owner"), "")
    here = script.imports({**sources, "owner.x": "\n".join(lines)})
    assert here["owner.x"] == {"", "errors", "tables.maps"}


# --- the drawing


def test_the_drawing_and_the_table_are_those_of_the_code(graph):
    assert script.stale(script.folders(graph)) == []


def test_a_stale_drawing_and_a_stale_table_are_noticed(graph, tmp_path):
    page, picture = tmp_path / "architecture.md", tmp_path / "imports.svg"
    page.write_text(PAGE.read_text())
    picture.write_text(script.PICTURE.read_text())
    between = script.folders(graph)
    assert script.stale(between, page, picture) == []
    more = {**between, "kernels": {"basics"}}
    assert script.stale(more, page, picture) == ["architecture.md", "imports.svg"]
    picture.unlink()
    assert script.stale(between, page, picture) == ["imports.svg"]


def test_check_says_what_is_stale_and_writes_nothing(tmp_path, monkeypatch, capsys):
    assert script.main(["--check"]) == 0
    page = tmp_path / "architecture.md"
    page.write_text(PAGE.read_text().replace("| `models` |", "| `models` | owner,"))
    real = script.stale
    monkeypatch.setattr(script, "stale", lambda graph: real(graph, page))
    before = page.read_text()
    assert script.main(["--check"]) == 1
    assert "architecture.md is stale" in capsys.readouterr().out
    assert page.read_text() == before


def test_arrows_point_down_and_boxes_do_not_touch(graph):
    between = script.folders(graph)
    height = script.layers(between)
    assert all(height[one] > height[other] for one in between for other in between[one])
    assert height["owner"] == height["learner"]  # side by side, as the wall has it
    svg = script.drawing(between)
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="(\d+)" height="(\d+)"', svg)
    assert len(boxes) == len(between)
    places = [tuple(map(float, box)) for box in boxes]
    for i, (x, y, width, high) in enumerate(places):
        for a, b, *_ in places[i + 1 :]:
            assert abs(x - a) >= width or abs(y - b) >= high
    assert all(f">{name}</text>" in svg for name in between)


def test_shortcuts_are_left_out_and_nothing_else():
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert script.without_shortcuts(graph) == {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}


# --- the page


def test_every_folder_and_module_at_the_top_is_described():
    text = PAGE.read_text()
    table = text[: text.index(script.BEGIN)]
    doors = ("__init__.py", "__main__.py", "_version.py", "__pycache__")
    for path in sorted(script.SRC.iterdir()):
        if path.name not in doors and (path.is_dir() or path.suffix == ".py"):
            name = f"`{path.name}/`" if path.is_dir() else f"`{path.name}`"
            assert re.search(rf"^\|[^|]*{re.escape(name)}[^|]*\| \w", table, re.MULTILINE), name


def test_what_the_page_names_is_there():
    """Files with the names beside them in the tables, and every file in the text."""
    text = PAGE.read_text()
    for path in set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)):
        root = DOCS.parent if path.startswith(("tests/", "docs/", "src/")) else script.SRC
        assert (root / path).exists(), path
    named = re.findall(r"`((?:\w+/)+\w+\.py)` `([\w.]+)`", text)
    assert len(named) >= 12
    for path, name in named:
        source = (script.SRC / path).read_text()
        for part in name.split("."):
            assert re.search(rf"\b(?:class|def) {part}\b", source), (path, name)


def test_the_order_of_a_release_is_the_one_on_the_page():
    text = PAGE.read_text()
    life = text[text.index("## How a release is made") :]
    steps = ["public(source)", "choose(public)", "accumulator()", "guarantees(exact)"]
    places = [life.index(f"| `{step}") for step in [*steps, "Ledger.debit", "draw(", "encode"]]
    assert places == sorted(places)
    walk = inspect.getsource(mechanisms.make_release)
    calls = [
        "mechanism.public(",
        "mechanism.choose(",
        "procedure.accumulator",
        "procedure.guarantees(",
    ]
    places = [walk.index(call) for call in calls]
    assert places == sorted(places)


def test_the_outline_of_a_mechanism_can_be_registered(monkeypatch):
    outline, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    monkeypatch.setattr(mechanisms, "_MECHANISMS", dict(mechanisms._MECHANISMS))
    monkeypatch.setattr(audits, "_REGISTERED", dict(audits._REGISTERED))
    monkeypatch.setattr(learners, "_LEARNING", dict(learners._LEARNING))
    monkeypatch.setattr(exercises, "_REGISTERED", dict(exercises._REGISTERED))
    names = {"__name__": "outline"}
    monkeypatch.setitem(sys.modules, "outline", type(sys)("outline"))
    exec(compile(outline, "outline", "exec"), names)
    assert mechanisms.mechanism_of("class-counts") is names["ClassCounts"]
    assert kinds.kind_named("class-counts") is names["KIND"]
    assert learners.learning_from("class-counts") is names["LEARNER"]
    for name in ("Counts", "NoisyCounts", "ClassCounts"):
        assert not inspect.isabstract(names[name]), name
    monkeypatch.undo()
    audits.read_again()


def test_the_outline_of_a_penalty_gives_value_slopes_and_curvature(rng, monkeypatch):
    _, outline = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"__name__": "outline"}
    monkeypatch.setitem(sys.modules, "outline", type(sys)("outline"))
    exec(compile(outline, "outline", "exec"), names)
    huber = names["Huber"]("huber")
    theta, weights, step = 0.05 + 0.2 * np.arange(5), rng.random(5) + 0.5, 1e-6
    value, slopes, curvature = huber.smooth_part(theta, weights)
    bent = np.where(theta <= 0.3, theta**2 / 2, 0.3 * (theta - 0.15))
    assert value == pytest.approx(weights @ bent)
    assert slopes == pytest.approx(weights * np.minimum(theta, 0.3))
    above = huber.smooth_part(theta + step, weights)[1]
    assert curvature == pytest.approx((above - slopes) / step, abs=1e-6)


def test_every_decision_has_its_parts_and_is_on_the_list():
    index = (DOCS / "decisions" / "index.md").read_text()
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert len(pages) >= 11
    for page in pages:
        if page.stem != "index":
            text = page.read_text()
            parts = ("# ", "**Context.**", "**Decision.**", "**What follows**", "**Not done")
            places = [text.index(part) for part in parts]
            assert places == sorted(places), page.name
            assert 10 <= len(text.splitlines()) <= 25, page.name
            assert f"]({page.name})" in index
            assert f"\n{page.stem}\n" in index


# --- counts


def test_numbers_are_counted(tmp_path, capsys):
    package = tmp_path / "suffice"
    (package / "owner").mkdir(parents=True)
    (package / "owner" / "__init__.py").touch()
    (package / "errors.py").write_text("def f():\n" + "    x = 1\n" * 40)  # one line too many
    (package / "owner" / "a.py").write_text("from suffice import errors\nimport suffice.owner.b\n")
    (package / "owner" / "b.py").write_text("def f():\n    import suffice.errors\n")
    assert script.numbers(package) == {
        "modules": 3,
        "lines": 45,
        "modules with one importer": 1,
        "functions over 40 lines": 1,
    }
    assert script.main(["--numbers"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("modules with one importer", "functions over 40 lines"))
