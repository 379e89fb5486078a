"""The commands that once laundered data-dependent scales, and what they say now."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from suffice.privacy.guarantee import Protection
from suffice.releases.codec import load
from suffice.tables.pipeline import UNKNOWN

FILES = Path(__file__).parents[1] / "fixtures"
RECORD = ("--epsilon", "1", "--delta", "1e-6", "--unit", "record", "--count", "8", "--no-ledger")
RADOS = ("release", "rados", "rows.parquet", "--label", "sick", *RECORD)
OPERATOR = (
    "release",
    "mean-operator",
    "--map",
    "none",
    "rows.parquet",
    "--label",
    "sick",
    "--epsilon",
    "1",
)
FREE = (*OPERATOR, "--no-ledger")


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch) -> Path:
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=300) for j in range(3)}
    table = pa.table({**columns, "sick": rng.integers(0, 2, 300)})
    pq.write_table(table, tmp_path / "rows.parquet")
    pq.write_table(table.slice(0, 100), tmp_path / "part.parquet")
    others = {f"x{j}": rng.normal(size=100) for j in range(3)}
    pq.write_table(pa.table(others), tmp_path / "public.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_like_does_not_launder_the_scales_of_private_rows(suffice):
    suffice(*RADOS, "--standardize", "rows", "--unprotected", "-o", "a.suffice")
    like = (*RADOS, "--pipeline-from", "a.suffice", "-o", "b.suffice")
    refused = suffice(*like, code=4)
    assert "the scaling of its columns comes from private rows" in refused
    assert "use --unprotected (Python: unprotected=True)" in refused
    assert not Path("b.suffice").exists()
    assert "Not differentially private" in suffice(*like, "--unprotected")
    assert load("b.suffice").guarantee.kind is Protection.DATA_DEPENDENT
    once_more = (*RADOS, "--pipeline-from", "b.suffice", "-o", "c.suffice")
    assert "comes from private rows" in suffice(*once_more, code=4)


def test_like_launders_neither_through_an_operator_nor_a_model(suffice):
    suffice(*RADOS, "--standardize", "rows", "--unprotected", "-o", "a.suffice")
    operator = (*FREE, "--noise", "laplace", "--pipeline-from", "a.suffice", "-o", "o.suffice")
    assert "comes from private rows" in suffice(*operator, code=4)
    suffice(*operator, "--unprotected")
    suffice("fit", "o.suffice", "--rows", "rows.parquet", "-o", "model.suffice")
    for file in ("o.suffice", "model.suffice"):
        refused = suffice(*RADOS, "--pipeline-from", file, "-o", "c.suffice", code=4)
        assert "comes from private rows" in refused
        assert "private rows" in suffice("inspect", file)


def test_scales_of_unknown_origin_count_as_private_rows(suffice):
    pq.write_table(pyarrow.csv.read_csv(FILES / "clinic.csv"), "rows.parquet")
    release = load(FILES / "mean-operator.suffice")
    replace(release, pipeline=replace(release.pipeline, origin=UNKNOWN)).save("a.suffice")
    like = ("--pipeline-from", "a.suffice", "-o", "b.suffice")
    assert "nobody stated where the scaling" in suffice(*RADOS, *like, code=4)
    assert "nobody stated where the scaling" in suffice(*FREE, *like, code=4)
    assert not Path("b.suffice").exists()
    suffice(*FREE, *like, "--unprotected")
    assert "unknown (nobody stated it)" in suffice("inspect", "b.suffice")


def test_parties_take_over_where_a_pipeline_came_from(suffice):
    suffice(*RADOS, "--standardize", "rows", "--unprotected", "-o", "a.suffice")
    like = ("--aux", "public.parquet", "--pipeline-from", "a.suffice")
    records = ("rows.parquet", "--label", "sick", "--method", "soft")
    suffice("contribute", *records, *like, "-o", "p.part")
    words = ("aggregate", "p.part", *like, "--enrolled", "3", "--epsilon", "1", "--delta", "1e-5")
    words = (*words, "--method", "soft", "--penalty-weight", "1", "--private-aux", "--no-ledger")
    refused = suffice(*words, "-o", "m.suffice", code=4)
    assert "comes from private rows" in refused
    suffice(*words, "-o", "m.suffice", "--unprotected")
    kinds = [guarantee.kind for guarantee in load("m.suffice").guarantees]
    assert kinds == [Protection.DATA_DEPENDENT] * 2  # about a party, and about an auxiliary row


def test_inspect_says_where_the_scaling_comes_from(suffice):
    suffice(*RADOS, "--range", "-5,5", "-o", "a.suffice")
    assert "scaling from   declared" in suffice("inspect", "a.suffice")
    suffice(*RADOS, "--standardize", "public.parquet", "-o", "b.suffice")
    (rows_hash,) = load("b.suffice").pipeline.origin.rows
    printed = suffice("inspect", "b.suffice")
    assert "scaling from   public rows" in printed
    assert rows_hash in "".join(printed.split())
    suffice(*RADOS, "--pipeline-from", "b.suffice", "-o", "c.suffice")
    assert load("c.suffice").guarantee.kind is Protection.GLOBAL


@pytest.mark.parametrize("table", ["part.parquet", "public.parquet"])
def test_shared_rows_are_told_on_stderr_and_decide_nothing(streams, table):
    printed, notes = streams(*RADOS, "--standardize", table, "--json", "-o", "a.suffice")
    warning = (
        "suffice: warning: 100 of the 100 rows that were used for scaling are also in the private"
    )
    assert (warning in notes) == (table == "part.parquet")
    assert "warning" not in printed
    assert load("a.suffice").guarantee.kind is Protection.GLOBAL
