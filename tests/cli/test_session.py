"""A session in Python: what it releases is charged to one ledger, however often it is started."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.errors import BudgetError, LedgerError, ParameterError

STARTED = {"private": "labels", "label": "ill", "budget": 2.0, "classes": ("no", "yes")}


@pytest.fixture
def table(tmp_path, monkeypatch, rng) -> Path:
    X = rng.normal(size=(600, 3))
    ill = np.where(X @ [1.0, 1.0, 0.0] > 0, "yes", "no")
    lines = [",".join([*(f"{x:.3f}" for x in row), y]) for row, y in zip(X, ill, strict=True)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["age,dose,score,ill", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.filterwarnings("ignore:There is too much noise:UserWarning")
def test_a_restarted_notebook_is_no_new_budget(table, capsys):
    first = sf.Session("visits.csv", **STARTED)
    assert "columns.json" in capsys.readouterr().out  # what it wrote, and what to fill in
    assert first.advise().best.name
    assert first.spent == 0
    release = first.release(epsilon=1)
    assert 0 < first.spent <= 1
    assert first.release(epsilon=1) == release  # the same request: the same bytes, no charge
    assert first.left == pytest.approx(2 - first.spent)
    model = first.model()
    assert {*model.predict(sf.TableFile(table))} <= {"no", "yes"}
    code = "import suffice as sf; s = sf.Session('visits.csv'); s.release(1); print(s.spent)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=table.parent
    )
    assert float(done.stdout) == first.spent
    again = sf.Session("visits.csv", **STARTED)
    assert again.spent == first.spent
    with pytest.raises(BudgetError, match="budget"):
        again.release(epsilon=5)
    for other in ({"budget": 3.0}, {"delta": 1e-7}):
        with pytest.raises(BudgetError, match="no new budget"):
            sf.Session("visits.csv", **{**STARTED, **other})
    with pytest.raises(ParameterError, match="labels are private"):
        sf.Session("visits.csv", private="records")
    assert again.spent == first.spent


def test_what_is_moved_missing_or_the_same_under_another_name_is_refused(table):
    sf.Session("visits.csv", **STARTED)
    with pytest.raises(ParameterError, match="Make a release first"):
        sf.Session("visits.csv").model()
    with pytest.raises(BudgetError, match="the same records"):
        sf.Session("visits.csv", private="records", label="age", budget=2.0)
    (table.parent / "elsewhere").mkdir()
    moved = table.rename(table.parent / "elsewhere" / "visits.csv")
    with pytest.raises(BudgetError, match="was moved"):
        sf.Session(moved, **STARTED)
    moved.rename(table)
    Path("suffice.ledger").rename("gone.ledger")
    with pytest.raises(LedgerError, match="is missing"):
        sf.Session("visits.csv")
    assert not Path("suffice.ledger").exists()
    Path("gone.ledger").rename("suffice.ledger")
    assert sf.Session("visits.csv").spent == 0


@pytest.mark.usefixtures("table")
def test_a_first_start_says_what_it_needs_and_what_is_open():
    with pytest.raises(ParameterError, match="Say what is private once"):
        sf.Session("visits.csv")
    with pytest.raises(ParameterError, match="in a file"):
        sf.Session([[1.0, 2.0]], **STARTED)
    assert not Path("suffice.toml").exists()
    session = sf.Session("visits.csv", private="records", label="ill", budget=2.0)
    with pytest.raises(ParameterError, match=r"columns\.json line \d+ \(age\)"):
        session.release(epsilon=1)
    sheet = Path("columns.json").read_text()
    unknown = '"minimum": null, "maximum": null, "categories": null'
    filled = sheet.replace(unknown, '"minimum": -3, "maximum": 3')
    filled = filled.replace('"categories": null', '"categories": ["no", "yes"]')
    Path("columns.json").write_text(filled)
    assert session.project.classes() == ("no", "yes")  # the sheet is read as it is now
    session.project.check_filled(["age", "dose", "score"], {})
    assert session.spent == 0


@pytest.mark.usefixtures("table")
def test_a_notebook_shows_the_budget_from_the_left():
    session = sf.Session("visits.csv", **STARTED)
    view = session._repr_html_()
    assert "<script" not in view
    assert view.count("text-align:left") == 11
    assert "left" in str(session)
    assert repr(session) == "<Session ill: 2 of epsilon 2, delta 1e-5 left>"
