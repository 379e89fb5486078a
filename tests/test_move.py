"""Modules move with everything that names them, and a plan that cannot be carried out says why."""

import subprocess
import sys
from pathlib import Path

import pytest

MOVE = Path(__file__).parents[1] / "lab" / "move.py"
FILES = {
    "src/suffice/__init__.py": '"""The package."""\n',
    "src/suffice/tables/__init__.py": '"""Tables."""\n',
    "src/suffice/tables/cells.py": (
        '"""Cells."""\n\nimport math\n\n__all__ = ["cell"]\n\n_MOST = 3  # of all\n\n\n'
        "def cell(x):\n    return math.floor(x) + _MOST\n"
    ),
    "src/suffice/tables/sheets.py": (
        '"""Sheets."""\n\nfrom suffice.tables import cells\n\n__all__ = ["sheet"]\n\n'
        "_MOST = 4\n\n\n"
        "def sheet(x):\n    from suffice.tables.cells import cell\n\n"
        "    return cell(x) + cells.cell(x) + cells._MOST + _MOST\n"
    ),
    "src/suffice/owner.py": (
        '"""The owner."""\n\nfrom suffice.tables import cells, sheets\n'
        "from suffice.tables.cells import _MOST\n\n\n"
        "def both(x):\n    return cells.cell(x), sheets.sheet(x), _MOST\n"
    ),
    "page.md": "`suffice.tables.cells:cell`, `tables/cells.py`, not `suffice.tables.cells2`\n",
}
PLAN = """
tables.book = tables.sheets tables.cells
    "Sheets and their cells."
    tables.cells._MOST -> _MOST_CELLS
"""


@pytest.fixture
def house(tmp_path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def moved(house: Path, plan: str, *words: str) -> subprocess.CompletedProcess[str]:
    (house / "a.plan").write_text(plan)
    line = [sys.executable, str(MOVE), str(house / "a.plan"), "--root", str(house), *words]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def answer(house: Path) -> str:
    script = "from suffice.owner import both; print(both(1.5))"
    line = [sys.executable, "-S", "-c", script]
    environment = {"PYTHONPATH": str(house / "src")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_modules_become_one_and_everything_that_names_them_follows(house):
    before = answer(house)
    assert moved(house, PLAN).stdout == ""
    assert answer(house) == before
    assert not (house / "src/suffice/tables/cells.py").exists()
    book = (house / "src/suffice/tables/book.py").read_text()
    assert book.startswith('"""Sheets and their cells."""')
    assert book.index("def cell(") < book.index("def sheet(")
    assert "_MOST_CELLS = 3  # of all" in book
    assert "import _MOST_CELLS" in (house / "src/suffice/owner.py").read_text()
    page = (house / "page.md").read_text()
    assert page == "`suffice.tables.book:cell`, `tables/book.py`, not `suffice.tables.cells2`\n"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (PLAN.replace("    tables.cells._MOST -> _MOST_CELLS\n", ""), "_MOST is in tables.cells"),
        ("owner = owner tables.cells", "cycle: "),
    ],
)
def test_what_stands_in_the_way_is_said_and_nothing_moves(house, plan, reason):
    before = {path: path.read_text() for path in house.rglob("*.py")}
    done = moved(house, plan)
    assert (done.returncode, reason in done.stdout) == (1, True), done.stdout
    assert {path: path.read_text() for path in house.rglob("*.py")} == before


def test_a_check_moves_nothing(house):
    assert moved(house, PLAN, "--check").returncode == 0
    assert (house / "src/suffice/tables/cells.py").exists()
