"""The command line as people and programs meet it: real processes, one line per error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli_reference import reference

ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1"}


def suffice(*words: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "suffice", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


RELEASE = (
    "release",
    "mean-operator",
    "--map",
    "none",
    "clinic.parquet",
    "--label",
    "sick",
    "--epsilon",
    5,
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """Make a folder with the owner's table and a signed, paid release."""
    from builders import clinic_table

    folder = tmp_path_factory.mktemp("desk")
    table = clinic_table(rows=600)
    pq.write_table(table, folder / "clinic.parquet")
    pq.write_table(table.drop_columns(["sick"]), folder / "public.parquet")
    suffice("keygen", "owner", cwd=folder)
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", 10, "--delta", "1e-5", cwd=folder)
    words = (*RELEASE, "--ledger", "l", "--dataset", "d", "--sign", "owner.key", "-o", "r.suffice")
    done = suffice(*words, cwd=folder)
    assert "Weakly protects each label" in done.stdout
    assert done.stderr == ""
    return folder


# The noise is that of a process. Accuracies were .941 with a deviation of .002: for one of .8 the
# noise would have to be as long as the signal, 100 times its scale or more, e^-100 x 100^5 / 5!.
@pytest.mark.chance(1e-30)
def test_the_whole_way_from_release_to_score(desk):
    suffice("verify", "r.suffice", "--key", "owner.pub", cwd=desk)
    suffice("fit", "r.suffice", "--rows", "public.parquet", "-o", "m.suffice", cwd=desk)
    suffice("predict", "m.suffice", "public.parquet", "-o", "p.csv", cwd=desk)
    predicted = pa.csv.read_csv(desk / "p.csv")
    assert predicted.column_names == ["prediction", "probability of 0", "probability of 1"]
    done = suffice("score", "m.suffice", "clinic.parquet", "--label", "sick", "--json", cwd=desk)
    scores = json.loads(done.stdout)
    truth = pq.read_table(desk / "clinic.parquet")["sick"].to_numpy()
    assert scores["accuracy"] == np.mean(predicted["prediction"].to_numpy() == truth)
    assert scores["accuracy"] > 0.8
    printed = suffice("score", "m.suffice", "clinic.parquet", "--label", "sick", cwd=desk).stdout
    assert printed.startswith("accuracy 0.")


def test_inspect_speaks_english_and_json(desk):
    text = suffice("inspect", "r.suffice", cwd=desk).stdout
    for word in ("mean operator", "Weakly protects each label", "600", "knorm", "by key"):
        assert word in text
    data = json.loads(suffice("inspect", "r.suffice", "--json", cwd=desk).stdout)
    assert data["kind"] == "mean-operator"
    assert data["parts"][0]["guarantees"][0]["epsilon"] <= 5
    assert "Weakly protects each label" in data["sentences"][0]
    assert len(data["signed_by"]) == 64


def test_the_ledger_shows_what_is_left_and_what_happened(desk):
    balances = json.loads(suffice("ledger", "show", "l", "--json", cwd=desk).stdout)
    assert balances[0] | {"spent": 5, "left": 5, "debits": 1} == balances[0]
    history = json.loads(suffice("ledger", "history", "l", "--json", cwd=desk).stdout)
    assert history[0]["state"] == "released"
    assert [charge["unit"] for charge in history[0]["charges"]] == ["label"]
    assert "label" in suffice("ledger", "show", "l", cwd=desk).stdout
    assert "released" in suffice("ledger", "history", "l", cwd=desk).stdout


def test_the_same_release_again_costs_nothing_and_is_the_same(desk):
    words = (*RELEASE, "--ledger", "l", "--dataset", "d", "-o", "again.suffice")
    suffice(*words, cwd=desk)
    first = json.loads(suffice("inspect", "r.suffice", "--json", cwd=desk).stdout)
    again = json.loads(suffice("inspect", "again.suffice", "--json", cwd=desk).stdout)
    assert first["payload"] == again["payload"]
    assert json.loads(suffice("ledger", "show", "l", "--json", cwd=desk).stdout)[0]["debits"] == 1


def test_a_file_that_exists_is_written_over_only_with_force(desk):
    words = (*RELEASE, "--ledger", "l", "--dataset", "d", "-o", "kept.suffice")
    suffice(*words, cwd=desk)
    first = (desk / "kept.suffice").read_bytes()
    done = suffice(*words, "--request", "new", cwd=desk, code=6)  # before it would be paid
    line = "suffice: kept.suffice exists. Write to another file, or use --force.\n"
    assert done.stderr == line
    assert json.loads(suffice("ledger", "show", "l", "--json", cwd=desk).stdout)[0]["debits"] == 1
    suffice(*words, "--force", cwd=desk)
    assert (desk / "kept.suffice").read_bytes() == first
    before = (desk / "l").read_bytes()
    fit = ("fit", "kept.suffice", "--rows", "public.parquet", "-o", "l", "--force")
    assert "never overwritten" in suffice(*fit, cwd=desk, code=6).stderr
    assert (desk / "l").read_bytes() == before


def test_two_owners_releases_are_fitted_together(desk):
    from builders import clinic_table

    other = clinic_table(rows=300, seed=1)
    pq.write_table(other, desk / "other.parquet")
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "other.parquet",
        "--label",
        "sick",
        "--epsilon",
        5,
    )
    suffice(*words, "--pipeline-from", "r.suffice", "--no-ledger", "-o", "o.suffice", cwd=desk)
    suffice(
        *("fit", "r.suffice", "o.suffice", "--rows", "clinic.parquet"),
        *("--rows", "other.parquet", "-o", "both.suffice"),
        cwd=desk,
    )
    text = suffice("inspect", "both.suffice", cwd=desk).stdout
    assert "owner 1: per label" in text
    assert "owner 2: rows" in text


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((*RELEASE, "-o", "x"), 2, "Choose a ledger"),
        ((*RELEASE, "--ledger", "l", "--no-ledger", "-o", "x"), 2, "Choose a ledger"),
        ((*RELEASE, "--ledger", "l", "-o", "x"), 2, "--dataset"),
        ((*RELEASE[:-1], 0, "--no-ledger", "-o", "x"), 2, "epsilon must be"),
        ((*RELEASE[:-1], "inf", "--no-ledger", "-o", "x"), 2, "epsilon must be"),
        ((*RELEASE, "--noise", "gaussian", "--no-ledger", "-o", "x"), 2, "delta above 0"),
        ((*RELEASE, "--classes", "a,b", "--no-ledger", "-o", "x"), 2, "classes"),
        ((*RELEASE, "--categories", "ward", "--no-ledger", "-o", "x"), 2, "COLUMN="),
        ((*RELEASE, "--features", "height", "--no-ledger", "-o", "x"), 2, "no column 'height'"),
        ((*RELEASE, "--no-ledger", "-o", "no/x"), 6, "cannot be written"),
        ((*RELEASE, "--ledger", "gone", "--dataset", "d", "-o", "x"), 5, "does not exist"),
        ((*RELEASE, "--ledger", "l", "--dataset", "e", "-o", "x"), 5, "no data set"),
        ((*RELEASE[:-1], 9, "--ledger", "l", "--dataset", "d", "-o", "x"), 4, "would exceed"),
        (
            (
                "release",
                "mean-operator",
                "--map",
                "none",
                "gone.csv",
                *RELEASE[5:],
                "--no-ledger",
                "-o",
                "x",
            ),
            6,
            "gone",
        ),
        (("inspect", "clinic.parquet"), 3, "not a suffice release"),
        (("inspect", "nothing.suffice"), 6, "cannot be read"),
        (("verify", "r.suffice", "--key", "owner.key"), 3, "public key"),
        (("keygen", "owner"), 6, "never overwritten"),
        (("predict", "r.suffice", "public.parquet", "-o", "x.csv"), 2, "is not a model"),
        (("fit", "r.suffice", "--rows", "r.suffice", "-o", "x"), 2, "of one kind: Parquet"),
        (("ledger", "init", "l", "--dataset", "d", "--epsilon", 99), 5, "other budgets"),
        (("ledger", "init", "l2", "--dataset", "d", "--epsilon", 1, "--unit", "cat"), 2, "unit"),
    ],
)
def test_an_error_is_one_line_with_the_exit_code_of_its_class(desk, words, code, says):
    done = suffice(*words, cwd=desk, code=code)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("suffice: ")
    assert says in done.stderr
    assert not (desk / "x").exists()


def test_a_table_with_text_where_numbers_belong_never_shows_a_cell(desk):
    (desk / "odd.csv").write_text("age,sick\n1,0\nSECRET,1\n2,1\n")
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "odd.csv",
        "--label",
        "sick",
        "--epsilon",
        1,
    )
    suffice(*words, "--no-ledger", "-o", "odd.suffice", cwd=desk)  # a column of categories
    (desk / "worse.csv").write_text("age,sick\n1,0\n2\n3,SECRET\n")
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "worse.csv",
        "--label",
        "sick",
        "--epsilon",
        1,
    )
    done = suffice(*words, "--no-ledger", "-o", "x", cwd=desk, code=2)
    assert "SECRET" not in done.stderr


def test_wrong_usage_is_explained(desk):
    done = suffice("fly", cwd=desk, code=2)
    assert "fly" in done.stderr
    assert suffice("--version", cwd=desk).stdout.startswith("suffice 0.")
    assert "mean-operator" in suffice("release", "--help", cwd=desk).stdout


def test_shell_completion_is_there(desk, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "completion" in suffice("--show-completion", "bash", cwd=desk).stdout


def test_every_command_and_parameter_is_explained():
    text = reference()
    assert text.count("## `suffice ") >= 11
    for line in text.splitlines():
        if line.startswith("| `"):
            assert line.split("|")[2].strip(), line


def test_the_reference_on_disk_is_the_one_of_this_program():
    path = Path(__file__).parents[2] / "docs" / "cli.md"
    assert path.read_text() == reference(), "run make docs"
