"""``suffice release rados`` and ``suffice plan rados`` as people meet them."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.releases.codec import load

FIRST = ("release", "rados", "rows.parquet", "--label", "sick", "-o", "r.suffice")
FREE = (*FIRST, "--no-ledger")
DECLARED = ("--range", "-3,3", "--range", "hiv=0,1", "--categories", "ward=north,south")


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    rng = np.random.default_rng(0)
    columns = {
        "ward": rng.choice(["north", "south"], 300),
        "size": rng.normal(size=300),
        "hiv": rng.integers(0, 2, 300),
        "sick": rng.integers(0, 2, 300),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    pq.write_table(pa.table(columns).slice(0, 100), tmp_path / "public.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("desk")
def test_plain_rados_leave_only_if_that_is_said_aloud(suffice):
    refused = suffice(*FREE, code=4)
    assert "--unprotected" in refused
    assert not Path("r.suffice").exists()
    printed = suffice(*FREE, "--unprotected")
    assert "No protection. A reader may be able to work out any record exactly." in printed
    release = load("r.suffice")
    assert release.kind == "rados"
    assert release.details["count"] == 150
    assert release.details["signs"] == "hadamard"
    printed = suffice("inspect", "r.suffice")
    assert "subset sums (rados)" in printed


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("words", "promised"),
    [
        ("--epsilon 1 --unit label", ("label", "joint", "shared")),
        ("--epsilon 1 --delta 1e-6 --unit record", ("record", "joint", "matrix")),
        (
            "--epsilon 1 --delta 1e-6 --unit attribute --attribute size",
            ("attribute", "joint", "matrix"),
        ),
        (
            "--epsilon 1 --delta 1e-6 --unit record --noise-on records --support 20",
            ("record", "joint", "edges"),
        ),
        ("--protect hiv --delta 1e-3", ("attribute", "marginal", "dp-feat")),
        (
            "--protect hiv --delta 1e-3 --truncate 1",
            ("attribute", "marginal", "dp-feat-truncated"),
        ),
    ],
)
def test_each_way_states_its_promise(suffice, words, promised):
    options = (*DECLARED, "--count", "8", *words.split(), "--json")
    if promised[1] == "marginal":
        assert "column hiv shows when read alone" in suffice(*FREE, *options, code=4)
        assert not Path("r.suffice").exists()
        options = (*options, "--unprotected")
    (promise,) = json.loads(suffice(*FREE, *options))["guarantees"]
    mechanism = load("r.suffice").details["mechanism"]
    assert (promise["unit"], promise["scope"], mechanism) == promised
    assert promise["kind"] == "global"
    assert promise["epsilon"] <= 1.0


@pytest.mark.usefixtures("desk")
def test_scales_come_from_a_public_table_or_from_the_rows(suffice):
    label = ("--epsilon", "1", "--unit", "label", "--count", "4")
    suffice(*FREE, *label, "--standardize", "public.parquet")
    assert load("r.suffice").guarantee.protected
    own = (*FREE, *label, "--standardize", "rows", "--force")
    assert "--unprotected" in suffice(*own, code=4)
    assert "Not differentially private" in suffice(*own, "--unprotected")


@pytest.mark.usefixtures("desk")
def test_a_ledger_pays_and_the_same_request_gets_the_same_file(suffice):
    init = ("ledger", "init", "l", "--dataset", "d", "--epsilon", "1", "--unit", "label")
    suffice(*init)
    words = (*FIRST, *DECLARED, "--epsilon", "1", "--unit", "label", "--ledger", "l")
    words = (*words, "--dataset", "d", "--count", "4")
    suffice(*words)
    first = Path("r.suffice").read_bytes()
    suffice(*words, "--force")
    assert Path("r.suffice").read_bytes() == first
    assert "would exceed the budget" in suffice(*words, "--request", "two", "--force", code=4)


@pytest.mark.usefixtures("desk")
def test_two_owners_share_a_pipeline(suffice):
    suffice(*FREE, "--unprotected", "--count", "4")
    words = ("release", "rados", "public.parquet", "--label", "sick", "-o", "s.suffice")
    like = ("--no-ledger", "--unprotected", "--pipeline-from", "r.suffice", "--count", "4")
    suffice(*words, *like)
    from suffice.releases.merge import merge

    assert merge([load("r.suffice"), load("s.suffice")]).rows == 400


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--epsilon", "1", "--unit", "label"), "If it holds texts, declare them (--categories"),
        (("--epsilon", "1", *DECLARED), "needs to know what it protects"),
        (("--unit", "person", *DECLARED), "must be one of label, record, attribute; got 'person'"),
        (
            ("--unit", "party", "--epsilon", "1", *DECLARED),
            "must be one of label, record, attribute; got 'party'",
        ),
        (("--range", "0,1", "--range", "0,2"), "--range has two values"),
        (("--range", "size=1"), "two numbers, LO,HI, for example 0,100"),
        (("--signs", "hadamard", "--support", "5"), "Use --signs iid"),
        (
            ("--protect", "hiv", "--epsilon", "1", "--unit", "label", *DECLARED),
            "adds no noise",
        ),
    ],
)
def test_a_wrong_call_is_one_line(suffice, words, reason):
    error = suffice(*FREE, "--unprotected", *words, code=2)
    assert reason in error
    assert error.count("\n") == 1
    assert not Path("r.suffice").exists()


@pytest.mark.usefixtures("desk")
def test_the_plan_says_what_noise_would_drown(suffice):
    words = ("plan", "rados", "rows.parquet", "--label", "sick", "--epsilon", "1", *DECLARED)
    printed = suffice(*words)
    assert "too noisy" in printed
    assert "sums is" in printed
    plan = json.loads(suffice(*words, "--count", "16", "--json"))
    assert [option["unit"] for option in plan["options"][:2]] == ["label", "record"]
    assert plan["options"][1]["count"] == 16
