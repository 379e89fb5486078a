"""Fixtures of all tests: a repeatable private stream, a small table, a release."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from builders import clinic_table, make_release
from suffice.privacy import randomness
from suffice.release.artifact import Release

settings.register_profile("suffice", deadline=None, derandomize=True)
settings.load_profile("suffice")


@pytest.fixture
def seeded():
    """Make `suffice.privacy.randomness` repeat itself; the only way to do so."""
    with randomness._seeded_for_tests(20_160_131):
        yield


@pytest.fixture(scope="session")
def small_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the tables of the demo, three times smaller."""
    from suffice.study.demo.network import clinic_network, write_tables

    folder = tmp_path_factory.mktemp("small")
    write_tables(clinic_network(smaller=3), folder)
    return folder


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Start a PostgreSQL server, one for all tests of this process, on a socket of its own."""
    from database_servers import postgresql_server

    with postgresql_server() as url:
        yield url


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def clinic() -> pa.Table:
    return clinic_table()


@pytest.fixture
def clinic_file(tmp_path: Path, clinic: pa.Table) -> Path:
    path = tmp_path / "clinic.parquet"
    pq.write_table(clinic, path)
    return path


@pytest.fixture
def release() -> Release:
    return make_release()
