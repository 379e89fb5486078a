"""The command ``suffice simulate parties``."""

import json

import pytest
from typer.testing import CliRunner

from builders import clinic_table
from suffice.cli.main import app
from suffice.errors import ParameterError, StorageError


@pytest.fixture
def records(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "clinic.parquet"
    pq.write_table(clinic_table(rows=400), path)
    return path


def run(*words: object):
    return CliRunner().invoke(app, [str(word) for word in ("simulate", "parties", *words)])


def test_a_table_is_simulated_drawn_and_told(records, tmp_path):
    page = tmp_path / "page.html"
    options = ["--label", "sick", "--parties", 20, "--trials", 1, "--epsilons", "50,1", "-o", page]
    done = run(records, *options, "--methods", "operator,soft")
    assert done.exit_code == 0, done.output
    for word in ("operator", "soft", "batch", "indiv", "epsilon 50"):
        assert word in done.output
    assert "1 / epsilon" in page.read_text()
    done = run(records, *options, "--methods", "operator", "--force", "--json")
    values = json.loads(done.stdout)
    assert values["epsilons"] == [50.0, 1.0]
    assert values["parties"] == [20]
    assert values["accuracies"]["operator"][0][0] > 0.6


def test_parties_may_come_from_a_column(records, tmp_path):
    page = tmp_path / "page.html"
    words = ["--label", "sick", "--party", "ward", "--trials", 1, "--epsilons", 5, "-o", page]
    done = run(records, *words, "--methods", "average", "--json")
    assert json.loads(done.stdout)["parties"] == [3]


def test_a_wrong_seed_and_a_missing_folder_are_told_at_once(records, tmp_path):
    words = [records, "--label", "sick", "--parties", 20]
    done = run(*words, "--seed", -1, "-o", tmp_path / "page.html")
    assert isinstance(done.exception, ParameterError)
    assert "--seed must be 0 or more" in str(done.exception)
    done = run(*words, "-o", tmp_path / "no" / "page.html")
    assert isinstance(done.exception, StorageError)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parties", 5, "--epsilons", "1,x"], "Expected numbers with commas"),
        (["--parties", 5, "--methods", "magic"], "one or more of"),
        ([], "either from a column or from random numbers"),
        (["--parties", 5, "--aux-share", 0.9, "--test-share", 0.2], "their sum below 1"),
    ],
)
def test_what_makes_no_sense_is_refused(records, tmp_path, words, message):
    done = run(records, "--label", "sick", *words, "-o", tmp_path / "page.html")
    assert isinstance(done.exception, ParameterError)
    assert message in str(done.exception)
