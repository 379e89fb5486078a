"""A table that nobody prepared: what a newcomer is told, step by step, until there is a model."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suffice.cli.main import app
from suffice.errors import SufficeError


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Return a folder with texts for labels, missing cells, a date, and accents."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    rows = 1200
    age, bmi = rng.integers(18, 90, rows).astype(float), rng.normal(26, 4, rows).round(1)
    smoker = rng.choice(["yes", "no", "former"], rows, p=[0.2, 0.5, 0.3])
    odds = 0.08 * (age - 50) + 0.2 * (bmi - 26) + 2 * (smoker == "yes")
    table = pd.DataFrame(
        {
            "patient id": np.arange(rows),
            "Age": age,
            "BMI": bmi,
            "smoker": smoker,
            "city": rng.choice(["Bern", "Genève", "Zürich"], rows),
            "admitted": pd.date_range("2020-01-01", periods=rows, freq="7h").strftime("%Y-%m-%d"),
            "Outcome": np.where(odds + rng.logistic(size=rows) > 0.5, "ill", "healthy"),
        }
    )
    table.loc[rng.random(rows) < 0.05, "BMI"] = np.nan
    table.loc[rng.random(rows) < 0.02, "smoker"] = None
    table.iloc[:900].to_csv("patients.csv", index=False)
    table.iloc[900:].to_csv("later.csv", index=False)


def refused(*words: str) -> str:
    with pytest.raises(SufficeError) as stopped:
        CliRunner().invoke(app, list(words), catch_exceptions=False)
    return str(stopped.value)


@pytest.mark.usefixtures("desk")
def test_each_refusal_says_what_to_change_until_it_works():
    release = ["release", "mean-operator", "patients.csv", "--epsilon", "2", "-o", "p.suffice"]
    assert "has 'patient id', 'Age'" in refused(*release, "--label", "outcome", "--no-ledger")
    release += ["--label", "Outcome"]
    assert "--no-ledger" in refused(*release)
    release += ["--no-ledger"]
    assert "'admitted'" in (said := refused(*release))
    assert "--features" in said
    release += ["--features", "Age,BMI,smoker,city"]
    assert "--missing" in refused(*release)
    release += ["--missing", "mean"]
    assert "--classes" in refused(*release)
    release += ["--classes", "healthy,ill"]
    for words in (
        release,
        ["inspect", "p.suffice"],
        ["fit", "p.suffice", "--rows", "patients.csv", "-o", "m.suffice"],
        ["score", "m.suffice", "later.csv", "--label", "Outcome"],
    ):
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    accuracy, larger = float(done.stdout.split()[1]), float(done.stdout.split()[-1].rstrip(")"))
    assert accuracy > larger + 0.1  # about .80 against .55; six standard errors are .14
