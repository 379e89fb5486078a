"""Addresses with a scheme: read like files on disk, and never shown with their secrets."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from builders import clinic_table
from suffice.errors import StorageError, TableError
from suffice.owner.mean_operator import MeanOperator
from suffice.tables.files import Place, TableFile
from suffice.tables.sources import column_names, open_table, row_count

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    """Return a file system in memory; its addresses begin with fsspec+memory://."""
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def put(memory, path: str, table: pa.Table) -> None:
    with memory.open(path, "wb") as file:
        pq.write_table(table, file)


def test_a_table_at_an_address_is_the_same_table(memory, tmp_path):
    clinic = clinic_table()
    for k in range(3):
        put(memory, f"/clinic/{k}.parquet", clinic.slice(40 * k, 40))
    put(memory, "/clinic/_temporary/9.parquet", clinic)
    put(memory, "/clinic/.hidden.parquet", clinic)
    pq.write_table(clinic, tmp_path / "clinic.parquet")
    remote, local = open_table("fsspec+memory://clinic"), open_table(tmp_path / "clinic.parquet")
    assert remote.schema == local.schema
    names = column_names("fsspec+memory://clinic")
    assert pa.Table.from_batches(remote.batches(names)).equals(clinic)
    assert [part.rows for part in remote.parts()] == [40, 40, 40]
    operator = MeanOperator(1.0, mechanism="laplace", map=None)
    first = operator.release("fsspec+memory://clinic", label="sick", ledger=None)
    second = operator.release(tmp_path / "clinic.parquet", label="sick", ledger=None)
    assert first.parts == second.parts
    assert first.pipeline.digest() == second.pipeline.digest()


def test_a_file_at_an_address_is_read_alone(memory):
    put(memory, "/one.parquet", clinic_table(7))
    assert row_count(open_table("fsspec+memory://one.parquet")) == 7


def test_addresses_of_this_machine_are_paths(tmp_path):
    assert TableFile(f"file://{tmp_path}/a.parquet").place == tmp_path / "a.parquet"
    assert TableFile("some/where.parquet").place == Path("some/where.parquet")
    assert TableFile(tmp_path).place == tmp_path
    assert isinstance(TableFile("fsspec+memory://x").place, Place)


@pytest.mark.parametrize(
    "address",
    [
        "nothing://user:password@host/place?key=secret",
        "s3://user:password@bucket/place?endpoint_override=127.0.0.1:9&scheme=http&secret=secret",
        "s3://user:password@[bucket/place?secret",
        "fsspec+nothing://user:password@host/place?secret",
    ],
)
def test_no_secret_of_an_address_is_in_a_message(address):
    with pytest.raises((TableError, StorageError)) as raised:
        open_table(address)
    for secret in ("user", "password", "secret"):
        assert secret not in str(raised.value)


def test_what_cannot_be_read_there_says_so(memory):
    with pytest.raises(StorageError, match=r"memory://nowhere does not exist"):
        open_table("fsspec+memory://nowhere")
    put(memory, "/broken.parquet", clinic_table())
    memory.store["/broken.parquet"].truncate(200)
    with pytest.raises(TableError, match="not a readable table"):
        open_table("fsspec+memory://broken.parquet")
    with memory.open("/table.csv", "wb") as file:
        pa.csv.write_csv(clinic_table(), file)
    for reader in (open_table, column_names):
        with pytest.raises(TableError, match="Save the table as Parquet"):
            reader("fsspec+memory://table.csv")
