"""Queries of real databases, a PostgreSQL server among them, as tables of a release."""

import gc
import sqlite3
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi

import suffice as sf
from database_servers import postgresql_server, store, written
from seeds import seeded
from suffice.errors import ParameterError, StorageError, SufficeError, TableError
from suffice.tables.sources import column_names, open_table

DATABASES = ("sqlite", "duckdb", "postgresql")
SECRET = "hunter2"
CLASSES = ("a", "b")
FEATURES = ["x", "few", "ward"]


@pytest.fixture(scope="session")
def server():
    with postgresql_server() as url:
        yield url


@pytest.fixture
def url(request, tmp_path):
    """Return the address of an empty database of the kind that the test asks for."""
    kind = request.param
    return request.getfixturevalue("server") if kind == "postgresql" else f"{kind}:///{tmp_path}/t"


each = pytest.mark.parametrize("url", DATABASES, indirect=True)


def people(rows: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(3)
    columns = {
        "id": rng.permutation(rows),
        "x": rng.normal(size=rows) * 1e3,
        "few": rng.integers(0, 3, rows),
        "ward": rng.choice(["north", "süd"], rows),
        "bag": rng.choice(["u", "v"], rows),
        "label": rng.choice(CLASSES, rows),
    }
    return pa.table(columns)


def in_order(table: pa.Table, tmp_path) -> str:
    path = tmp_path / "rows.parquet"
    pq.write_table(table.sort_by("id"), path)
    return path


def public_part(release) -> tuple:
    return release.pipeline.digest(), release.parts, release.details, repr(release.noise)


def read(data, names, **declared) -> pa.Table:
    table = open_table(data, **declared)
    return pa.Table.from_batches(table.batches(names))


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


# --- the same release as from a file


@each
def test_a_query_gives_the_public_part_of_a_file_of_the_same_rows(url, tmp_path):
    store(people(), url)
    path = in_order(people(), tmp_path)
    query = sf.Query(url, "select * from t -- all of them\n;", order_by=("id",))
    inputs = {"label": "label", "features": FEATURES, "ledger": None}
    for mechanism in (
        sf.MeanOperator(1.0, classes=CLASSES, map=None),
        sf.MeanOperator(1.0, classes=CLASSES, mechanism="response"),
    ):
        parts = [public_part(mechanism.release(data, **inputs)) for data in (path, query)]
        assert parts[0] == parts[1]
    bags = [
        sf.LabelProportions(1.0, classes=CLASSES).release(data, bags="bag", **inputs)
        for data in (path, query)
    ]
    assert public_part(bags[0]) == public_part(bags[1])


@each
def test_exact_statistics_are_those_of_a_file(url, tmp_path):
    """With the same noise every byte is the same: labels and rows were read as they are."""
    from suffice.releases.release import encode

    store(people(), url)
    mechanism = sf.MeanOperator(1.0, classes=CLASSES, map=None)
    statistics = []
    for data in (in_order(people(), tmp_path), sf.Query(url, "select * from t", ("id",))):
        with seeded(5):
            release = mechanism.release(data, label="label", features=FEATURES, ledger=None)
        statistics.append(encode(release))
    assert statistics[0] == statistics[1]


@each
def test_batches_have_one_size_and_only_what_was_asked_for(url, monkeypatch):
    from suffice.tables import table as tables_table

    monkeypatch.setattr(tables_table, "BATCH_ROWS", 700)
    store(people(), url)
    table = open_table(sf.Query(url, "select * from t", ["id"]), text=["label"])
    batches = list(table.batches(["ward", "x"]))
    assert [batch.num_rows for batch in batches] == [700] * 4 + [200]
    assert batches[0].schema.names == ["ward", "x"]
    assert table.parts() == [table]
    assert table.rows is None
    assert pa.Table.from_batches(batches).equals(
        people().sort_by("id").select(["ward", "x"]).cast(batches[0].schema)
    )


@each
def test_awkward_names_are_names(url):
    names = ['say "x"', "two words", "Größe", "select", "c0", "x;--"]
    store(pa.table({name: [2.0 + k, 1.0] for k, name in enumerate(names)}), url)
    query = sf.Query(url, "select * from t", ("c0", 'say "x"'))
    assert column_names(query) == names
    assert read(query, names).to_pydict() == {n: [1.0, 2.0 + k] for k, n in enumerate(names)}


@each
def test_a_column_that_is_not_there_is_named(url):
    store(pa.table({"x": [1.0], "label": ["a"]}), url)
    with pytest.raises(TableError, match="no column 'nope'"):
        list(open_table(sf.Query(url, "select * from t")).batches(["nope"]))
    with pytest.raises(TableError, match="no column 'nope' to order rows by"):
        _ = open_table(sf.Query(url, "select * from t", ("nope",))).schema


# --- types


def test_types_of_postgresql(server):
    written(
        server,
        "drop table if exists kinds",
        "drop type if exists mood",
        "create type mood as enum ('good', 'bad')",
        "create table kinds (i smallint, n numeric, b boolean, v varchar(9), c char(4), m mood,"
        " u uuid, d date, ts timestamp, ti time, j json, a int[], iv interval)",
        "insert into kinds values (1, 0.1, true, 'v', 'c', 'good',"
        " '00000000-0000-0000-0000-000000000001', '2020-01-02', '2020-01-02 03:04', '05:06',"
        " '{}', '{1}', '1 day'), (2, null, null, null, null, null, null, 'infinity', 'infinity',"
        " null, null, null, null)",
    )
    query = sf.Query(server, "select * from kinds", ("i",))
    schema = open_table(query).schema
    texts = dict.fromkeys("vcmu", pa.string())
    kinds = {"n": pa.float64(), "b": pa.bool_(), "d": pa.date32(), "ts": pa.timestamp("us")} | texts
    assert {name: schema.field(name).type for name in kinds} == kinds
    first, second = read(query, [*kinds, "ti"]).to_pylist()
    assert (first["n"], first["c"], first["m"], str(first["d"])) == (0.1, "c", "good", "2020-01-02")
    assert {second[name] for name in kinds} == {None}  # an infinite date is missing
    for name in ("j", "a", "iv"):
        with pytest.raises(TableError, match="neither numbers nor categories"):
            sf.MeanOperator(1.0, map=None).release(query, label="b", features=[name], ledger=None)
        with pytest.raises(TableError, match="Cast it in the query"):
            list(open_table(query).batches([name]))


def nearest(text: str) -> float:
    return float(text)  # Python rounds a decimal correctly


def test_numerics_of_postgresql_are_rounded_once_and_never_fail(server):
    top = Fraction(2) ** 1024 - Fraction(2) ** 970
    texts = [
        "0.1", "9007199254740993", "123456789012345678.905", "-1e-5", "4.9e-324", "2.4e-324",
        "1e400", "-1e400", "1e-400", "0", str(int(top)), str(int(top) - 1), "Infinity", "NaN",
    ]  # fmt: skip
    rows = ", ".join(f"({k}, '{text}'::numeric)" for k, text in enumerate(texts))
    query = sf.Query(server, f"select * from (values {rows}) as v (k, n)", ("k",))
    for declared in ({}, {"numbers": ["n"]}):
        got = read(query, ["n"], **declared)["n"].to_numpy()
        np.testing.assert_array_equal(got, [nearest(text) for text in texts])


def test_types_of_duckdb(tmp_path):
    url = f"duckdb:///{tmp_path}/t.duckdb"
    exact = "123456789012345.6785"  # DuckDB's own cast to double divides, and rounds twice
    written(
        url,
        f"create table t as select 1 as i, {exact}::decimal(24, 4) as n, 'a'::enum('a', 'b') as e,"
        " date '2020-01-02' as d, 5::hugeint as h, '{}'::json as j, [1] as l, interval 1 day as iv,"
        " 'a'::enum('a', 'b') as label",
    )
    query = sf.Query(url, "select * from t")
    schema = open_table(query).schema
    kinds = {"n": pa.float64(), "e": pa.string(), "d": pa.date32(), "h": pa.float64()}
    assert {name: schema.field(name).type for name in kinds} == kinds
    assert read(query, ["n"])["n"].to_pylist() == [float(Decimal(exact))]
    for name in ("j", "l", "iv"):
        with pytest.raises(TableError, match="neither numbers nor categories"):
            sf.MeanOperator(1.0, map=None).release(
                query, label="label", features=[name], ledger=None
            )


def test_a_type_of_sqlite_comes_from_its_first_65536_rows(tmp_path):
    url = f"sqlite:///{tmp_path}/t.db"
    for after, kind in ((65_535, pa.float64()), (65_536, pa.int64())):
        store(pa.table({"id": range(after + 1)}), url)
        sql = f"select id, case when id < {after} then id else 0.5 end as x from t"
        query = sf.Query(url, sql, ("id",))
        table = open_table(query)
        assert table.schema.field("x").type == kind
        if kind == pa.float64():
            assert sum(len(batch) for batch in table.batches(["x"])) == after + 1
            continue
        with pytest.raises(TableError, match="Cast it in the query") as error:
            list(table.batches(["x"]))
        one_line(error)


def test_an_empty_query_has_columns_without_values(tmp_path):
    url = f"sqlite:///{tmp_path}/t.db"
    written(url, "create table t (x real, label text)")
    with pytest.raises(TableError, match="the table has no rows"):
        sf.MeanOperator(1.0, map=None).release(
            sf.Query(url, "select * from t"), label="label", ledger=None
        )


# --- private cells


ODD_CELLS = [
    "'a'", "'b'", "1", "0", "0.30000000000000004", "1.0", "9e999", "null", "''", "x'ff'",
    "x'61'", "cast(x'ff61' as text)", "printf('%.20000c', 'a')", "9223372036854775807",
    "char(0) || 'a'", "'1e400'",
]  # fmt: skip


@pytest.mark.parametrize("cell", ODD_CELLS)
@pytest.mark.parametrize("row", [0, 66_000])
def test_no_private_cell_of_sqlite_is_an_error_or_moves_a_type(cell, row, tmp_path):
    url = f"sqlite:///{tmp_path}/t.db"
    others = "null" if row else "'a'"  # the driver infers a type from 65,536 rows
    rows = row + 2
    sql = (
        f"with recursive k(id) as (select 0 union all select id + 1 from k where id < {rows - 1})"
        f" select id, case when id = {row} then {cell} else {others} end as cell from k"
    )
    written(url, "create table t (x)")
    query = sf.Query(url, sql, ("id",))
    labels = read(query, ["cell"], text=["cell"])
    numbers = read(query, ["cell"], numbers=["cell"])
    assert (labels.schema, numbers.schema) == (
        pa.schema([("cell", pa.string())]), pa.schema([("cell", pa.float64())]),
    )  # fmt: skip
    assert labels.num_rows == numbers.num_rows == rows
    with sqlite3.connect(":memory:") as memory:
        kind = memory.execute(f"select typeof({cell})").fetchone()[0]
        as_real = memory.execute(f"select cast({cell} as real)").fetchone()[0]
    memory.close()
    number = numbers["cell"][row].as_py()
    assert number == (as_real if kind in {"integer", "real"} else None)


def test_labels_of_sqlite_are_spelt_as_everywhere(tmp_path):
    url = f"sqlite:///{tmp_path}/t.db"
    store(pa.table({"id": [0]}), url)
    sql = " union all ".join(f"select {k} as id, {cell} as y" for k, cell in enumerate(ODD_CELLS))
    texts = read(sf.Query(url, sql, ("id",)), ["y"], text=["y"])["y"].to_pylist()
    assert texts == [
        "a", "b", "1", "0", "0.30000000000000004", "1", "inf", None, "", None, None, "ÿa", None,
        "9223372036854775807", "\0a", "1e400",
    ]  # fmt: skip


@each
@pytest.mark.parametrize("kind", ["text", "integer", "real", "boolean"])
def test_labels_of_any_type_are_those_of_a_file(url, kind, tmp_path):
    cells = {"text": ["1", "0", None], "integer": [1, 0, None], "real": [1.0, 0.0, None]}
    cells["boolean"] = [True, False, None]
    table = pa.table({"id": range(6), "x": np.arange(6.0), "label": cells[kind] * 2})
    store(table, url)
    path = in_order(table, tmp_path)
    codes = []
    for data in (path, sf.Query(url, "select * from t", ("id",))):
        from suffice.tables.columns import label_codes

        labels = read(data, ["label"], text=["label"])["label"].combine_chunks()
        codes.append(label_codes(labels, (0, 1), outside="none").tolist())
    assert codes[0] == codes[1] == [1, 0, -1] * 2


def test_private_dates_and_texts_of_postgresql_never_fail(server):
    cells = "'infinity'", "'-infinity'", "'294276-12-31'", "'4713-01-01 BC'"
    sql = " union all ".join(f"select {k} as id, timestamp {c} as t" for k, c in enumerate(cells))
    query = sf.Query(server, sql, ("id",))
    assert read(query, ["t"], text=["t"])["t"].to_pylist()[:2] == ["infinity", "-infinity"]
    assert read(query, ["t"], numbers=["t"])["t"].null_count == 3
    long = "select repeat('a', 20000) as y union all select 'b'"
    assert set(read(sf.Query(server, long), ["y"], text=["y"])["y"].to_pylist()) == {None, "b"}


# --- order


@each
def test_what_needs_an_order_is_refused_before_a_row_is_read(url, tmp_path, monkeypatch):
    from suffice.tables.databases import QueryTable

    store(people(30), url)
    query = sf.Query(url, "select * from t")
    inputs = {"label": "label", "features": FEATURES}
    ledger = sf.Ledger(tmp_path / "ledger", {"d": sf.Budget(3.0)})
    monkeypatch.setattr(QueryTable, "batches", lambda *_: pytest.fail("it was read"))
    operator = sf.MeanOperator(1.0, classes=CLASSES, map=None)
    with pytest.raises(TableError, match=r"--read order-by=COLUMN \(Python: Query\(..., order_by"):
        operator.release(query, ledger=ledger, dataset="d", **inputs)
    with pytest.raises(TableError, match="--read order-by"):
        operator.release(query, ["a", "b"] * 15, features=FEATURES, ledger=None)
    with pytest.raises(TableError, match="--read order-by"):
        sf.LabelProportions(1.0, classes=CLASSES).release(query, bags="bag", ledger=None, **inputs)
    responses = sf.RandomizedResponse(
        classes=CLASSES, label_flip=0.2, states={"few": (0, 1, 2)}, feature_flip=0.2
    )
    with pytest.raises(TableError, match="--read order-by"):
        responses.release(query, label="label", features=["few"], ledger=None)


@each
def test_labels_in_order_need_an_order_and_sums_do_not(url):
    store(people(300), url)
    query = sf.Query(url, "select * from t")
    inputs = {"label": "label", "features": FEATURES, "ledger": None}
    assert sf.MeanOperator(1.0, classes=CLASSES, map=None).release(query, **inputs).rows == 300
    with pytest.raises(TableError, match="--read order-by"):
        sf.MeanOperator(1.0, classes=CLASSES, mechanism="response").release(query, **inputs)


def test_nothing_private_orders_rows(tmp_path):
    url = f"duckdb:///{tmp_path}/t.duckdb"
    store(people(30), url)
    by_label = sf.Query(url, "select * from t", ("label",))
    with pytest.raises(TableError, match="private label, 'label'"):
        sf.MeanOperator(1.0, classes=CLASSES, map=None).release(
            by_label, label="label", features=FEATURES, ledger=None
        )
    responses = sf.RandomizedResponse(
        classes=CLASSES, label_flip=0.2, states={"few": (0, 1, 2)}, feature_flip=0.2
    )
    with pytest.raises(TableError, match="private column, 'few'"):
        responses.release(
            sf.Query(url, "select * from t", ("few", "id")),
            label="label", features=["few"], ledger=None,
        )  # fmt: skip
    by_key = sf.Query(url, "select * from t", ("id",))
    assert responses.release(by_key, label="label", features=["few"], ledger=None).rows == 30


@each
def test_a_learner_reads_a_query(url, tmp_path):
    store(people(), url)
    path = in_order(people(), tmp_path)
    release = sf.MeanOperator(8.0, classes=CLASSES, map=None).release(
        path, label="label", features=FEATURES, ledger=None
    )
    query = sf.Query(url, "select id, x, few, ward from t", ("id",))
    models = [sf.FactoredClassifier().fit_release(release, data) for data in (path, query)]
    np.testing.assert_array_equal(models[0].theta_, models[1].theta_)
    np.testing.assert_array_equal(models[0].predict(path), models[0].predict(query))
    with pytest.raises(TableError, match="--read order-by"):
        models[0].predict(sf.Query(url, query.sql))


# --- nothing is written, nothing is told


@each
@pytest.mark.parametrize(
    "sql",
    [
        "delete from t",
        "drop table t",
        "select 1 as a; delete from t",
        "select 1 as a) as q; delete from t; select * from (select 1 as a",
        "with gone as (delete from t returning *) select * from gone",
        f"select '{SECRET}' as a from nowhere",
        f"select {SECRET} from t",
        f"select 'it is {SECRET}",
        "insert into t select * from t",
        "",
    ],
)
def test_what_is_not_one_select_does_nothing_and_gives_one_line(url, sql):
    store(people(30), url)
    with pytest.raises(SufficeError) as error:
        sf.Query(url, sql).names()
    assert SECRET not in one_line(error)
    with pytest.raises(SufficeError) as error:
        read(sf.Query(url, sql), ["a"])
    assert SECRET not in one_line(error)
    assert read(sf.Query(url, "select * from t"), ["x"]).num_rows == 30


def test_a_function_that_writes_is_refused_by_the_server(server):
    store(people(30), server)
    written(
        server,
        "create or replace function gone() returns int language plpgsql as"
        " $$ begin delete from t; return 1; end $$",
    )
    with pytest.raises(TableError) as error:
        read(sf.Query(server, "select gone() as a"), ["a"])
    assert "delete" not in one_line(error)
    assert read(sf.Query(server, "select * from t"), ["x"]).num_rows == 30


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/clinic?application_name={SECRET}",
        f"postgres://me:{SECRET}@127.0.0.1:1,127.0.0.1:2/clinic",
        f"postgresql://me:{SECRET}@/clinic?host=/nowhere",
        f"postgresql://me:{SECRET}@127.0.0.1:no/clinic",
        f"oracle://me:{SECRET}@127.0.0.1/clinic",
        f"sqlite://me:{SECRET}@/clinic",
    ],
)
def test_a_password_never_shows(url):
    query = sf.Query(url, f"select '{SECRET}'")
    assert SECRET not in str(query) + repr(query)
    for call in (query.names, lambda: open_table(query).schema):
        with pytest.raises((StorageError, ParameterError)) as error:
            call()
        assert SECRET not in one_line(error)


def test_a_password_is_in_no_release_and_no_ledger(server, tmp_path):
    store(people(60), server)
    with_password = server.replace("postgres:@", f"postgres:{SECRET}@")  # the socket asks for none
    assert SECRET in with_password
    query = sf.Query(with_password, f"select t.*, '{SECRET}' as s from t", ("id",))
    ledger = sf.Ledger(tmp_path / "ledger", {"d": sf.Budget(3.0)})
    released = sf.MeanOperator(1.0, classes=CLASSES, map=None).release(
        query, label="label", features=FEATURES, ledger=ledger, dataset="d"
    )
    from suffice.releases.release import encode

    stored_bytes = encode(released) + b"".join(f.read_bytes() for f in tmp_path.iterdir())
    assert SECRET.encode() not in stored_bytes
    again = sf.MeanOperator(1.0, classes=CLASSES, map=None).release(
        query, label="label", features=FEATURES, ledger=ledger, dataset="d"
    )
    assert encode(again) == encode(released)  # known again, and paid for once


def test_addresses_of_files(tmp_path, monkeypatch):
    store(pa.table({"x": [1.0]}), f"sqlite:///{tmp_path}/t.db")
    monkeypatch.chdir(tmp_path)
    for url in (
        "sqlite:///t.db",
        f"sqlite:///{tmp_path}/t.db",
        f"sqlite:////{str(tmp_path)[1:]}/t.db",
    ):
        assert sf.Query(url, "select * from t").names() == ["x"]
    for url in ("sqlite:///", "sqlite:///:memory:", "sqlite:///t.db?mode=rw", "duckdb:///"):
        with pytest.raises(ParameterError, match="a fourth /"):
            sf.Query(url, "select * from t").names()
    with pytest.raises(StorageError, match="does not exist"):
        sf.Query("sqlite:///none.db", "select 1").names()
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("this is no database, by far")
    for kind in ("sqlite", "duckdb"):
        with pytest.raises(SufficeError) as error:
            sf.Query(f"{kind}:///text.db", "select 1 as a").names()
        one_line(error)


def test_without_the_packages_one_line_says_what_to_install():
    code = (
        "import sys, importlib.util as u; f = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n in ('duckdb', 'adbc_driver_manager') else f(n, *a)\n"
        "import suffice as sf\n"
        "try: sf.Query('duckdb:///t', 'select 1').names()\n"
        "except sf.errors.ParameterError as e: print(e)\n"
        "print([m for m in sys.modules if m.startswith(('adbc', 'duckdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'suffice[database]'" in done.stdout
    assert done.stdout.endswith("[]\n")


# --- one snapshot


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_every_pass_sees_the_rows_of_the_first(url):
    if url.startswith("sqlite"):
        written(url, "pragma journal_mode = wal")
    store(people(30), url)
    query = sf.Query(url, "select * from t", ("id",))
    table = open_table(query)
    before = pa.Table.from_batches(table.batches(["x"]))
    written(url, "delete from t where id < 10", "update t set x = 0")
    typed = open_table(table, text=["label"])
    assert pa.Table.from_batches(typed.batches(["x"])).equals(before)
    assert read(query, ["x"]).num_rows == 20


def test_nobody_writes_to_a_duckdb_file_between_passes(tmp_path):
    url = f"duckdb:///{tmp_path}/t.duckdb"
    store(people(30), url)
    table = open_table(sf.Query(url, "select * from t"))
    list(table.batches(["x"]))
    code = "import sys, duckdb; duckdb.connect(sys.argv[1])"
    words = [sys.executable, "-c", code, f"{tmp_path}/t.duckdb"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert b"lock" in done.stderr
    del table
    gc.collect()
    subprocess.run(words, check=True)


def test_a_connection_ends_with_its_table(server):
    store(people(30), server)
    table = open_table(sf.Query(server, "select * from t"))
    list(table.batches(["x"]))
    count = "select count(*) as n from pg_stat_activity where state = 'idle in transaction'"
    assert open_connections(server, count) == 1
    del table
    gc.collect()
    assert open_connections(server, count) == 0


def open_connections(server, count) -> int:
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute(count)
        return cursor.fetchone()[0]


@each
def test_a_pass_that_was_left_does_not_bar_the_next(url):
    store(people(), url)
    table = open_table(sf.Query(url, "select a.* from t a, (select 1 from t limit 100) b"))
    for _ in table.batches(["x"]):
        break
    gc.collect()
    first = table.batches(["x"])
    next(first)
    with pytest.raises(TableError, match="two passes over one query"):
        next(table.batches(["x"]))
    first.close()
    assert sum(len(batch) for batch in table.batches(["few"])) == 300_000
