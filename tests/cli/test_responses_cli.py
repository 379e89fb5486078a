"""``suffice release responses`` as people meet it: one call, one file, one line per error."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.errors import CorruptFileError
from suffice.releases.codec import load

FIRST = ("release", "responses", "rows.parquet", "--label", "sick", "-o", "r.suffice")
WORDS = (
    *FIRST, "--flip", "sick=0.2", "--no-ledger", "--categories", "ward=north,south",
    "--range", "size=-1,1", "--noise-variance", "0.5", "--flip", "0.25",
    "--categories", "0..3",
)  # fmt: skip


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    rng = np.random.default_rng(0)
    columns = {
        "ward": rng.choice(["north", "south"], 50),
        "size": rng.normal(size=50),
        "a": rng.integers(0, 4, 50),
        "b": rng.integers(0, 4, 50),
        "sick": rng.integers(0, 2, 50),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("desk")
def test_a_mixed_table_leaves_as_declared(suffice):
    printed = suffice(*WORDS)
    assert "Protects each label" in printed
    assert "per attribute" in printed
    assert "per record" in printed
    release = load("r.suffice")
    columns = release.details["columns"]
    assert [column["name"] for column in columns] == ["ward", "size", "a", "b"]
    assert columns[0]["states"] == ["north", "south"]
    assert columns[1] == {
        "name": "size",
        "range": [-1, 1],
        "noise": {"kernel": "gaussian", "variance": 0.5},
    }
    assert columns[2]["integers"] == columns[3]["integers"] == [0, 3]
    assert release.rows == 50


@pytest.mark.usefixtures("desk")
def test_programs_read_three_promises(suffice):
    pure = (*WORDS, "--noise", "laplace", "--json")
    told = json.loads(suffice(*pure))
    assert [promise["unit"] for promise in told["guarantees"]] == ["label", "attribute", "record"]
    assert told["guarantees"][0]["epsilon"] == pytest.approx(np.log(4))
    shown = json.loads(suffice("inspect", "r.suffice", "--json"))
    assert shown["kind"] == "responses"
    printed = suffice("inspect", "r.suffice")
    assert (
        "ward: 2 possible values, changed with probability 0.25; size: -1 to 1, laplace noise,"
        in printed
    )


@pytest.mark.usefixtures("desk")
def test_a_ledger_pays_and_the_same_request_gets_the_same_file(suffice):
    init = ("ledger", "init", "l", "--dataset", "d", "--epsilon", "1")
    suffice(*init)
    words = (
        *FIRST, "--features", "a,b", "--epsilon", "1", "--categories", "0..3",
        "--flip", "0.5", "--ledger", "l", "--dataset", "d",
    )  # fmt: skip
    suffice(*words)
    first = Path("r.suffice").read_bytes()
    suffice(*words, "--force")
    assert Path("r.suffice").read_bytes() == first
    refused = suffice(*words, "--request", "again", "--force", code=4)
    assert "would exceed the budget" in refused


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--categories", "0..2"), "--categories has two values"),
        (("--range", "0,1"), "both possible values and a range"),
        (("--range", "a=0"), "two numbers, LO,HI, for example 0,100"),
        (("--categories", "ward="), "--categories takes COLUMN=VALUE"),
        (("--categories", "ward=x,y"), "names a column twice"),
        (("--categories", "nose=x,y"), "'nose' is declared, but it is not a feature"),
        (("--flip", "ward=0.5"), "not near 1 / "),
        (("--epsilon", "1"), "label_flip or label_epsilon"),
        (("--noise", "uniform"), "must be one of gaussian, laplace; got 'uniform'"),
    ],
)
def test_a_wrong_call_is_one_line(suffice, words, reason):
    error = suffice(*WORDS, *words, code=2)
    assert reason in error
    assert error.count("\n") == 1
    assert not Path("r.suffice").exists()


@pytest.mark.usefixtures("desk")
def test_noise_on_numbers_is_refused_where_there_are_none(suffice):
    told = ("--features", "ward", "--categories", "ward=x,y", "--flip", "0.1")
    words = (*FIRST, "--flip", "sick=0.2", *told, "--noise-variance", "1", "--no-ledger")
    assert "--noise-variance cannot be used without numbers" in suffice(*words, code=2)


@pytest.mark.usefixtures("desk")
def test_columns_without_a_domain_are_named(suffice):
    words = (*FIRST, "--flip", "sick=0.2", "--flip", "0.1", "--no-ledger")
    error = suffice(*words, code=2)
    assert "Column 'ward' has no declared possible values or range" in error


@pytest.mark.usefixtures("desk")
def test_an_altered_file_is_noticed(suffice):
    suffice(*WORDS)
    data = bytearray(Path("r.suffice").read_bytes())
    data[-200] ^= 1
    with pytest.raises(CorruptFileError):
        load(bytes(data))


def test_records_alone_are_enough_for_frequencies_and_a_model(desk, suffice):
    """5,000 records whose label follows one column; clean rows are scored."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 4, 5000), rng.integers(0, 4, 5000)
    table = pa.table({"a": a, "b": b, "sick": (a >= 2).astype(int)})
    pq.write_table(table, desk / "rows.parquet")
    words = (*FIRST, "--flip", "sick=0.2", "--flip", "0.2", "--categories", "0..3")
    suffice(*words, "--no-ledger")
    shares = json.loads(suffice("frequencies", "r.suffice", "--json"))
    assert [column["name"] for column in shares["columns"]] == ["label", "a", "b"]
    assert shares["columns"][0]["frequencies"] == pytest.approx([0.5, 0.5], abs=0.08)
    printed = suffice("frequencies", "r.suffice")
    assert "95 % interval" in printed
    fitted = json.loads(suffice("fit", "r.suffice", "-o", "m", "--json"))
    assert fitted["classes"] == [0, 1]
    score = suffice("score", "m", "rows.parquet", "--label", "sick", "--json")
    assert json.loads(score)["accuracy"] > 0.95
    assert "likelihood" in suffice("fit", "r.suffice", "-o", "n")


@pytest.mark.usefixtures("desk")
def test_a_release_about_public_rows_is_not_fitted_without_them(suffice):
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "rows.parquet",
        "--label",
        "sick",
        "--no-ledger",
    )
    suffice(*words, "--epsilon", "1", "--features", "a,b", "-o", "s")
    assert "--rows" in suffice("fit", "s", "-o", "m", code=2)
