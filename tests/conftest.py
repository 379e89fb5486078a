"""Fixtures of all tests: noise that repeats itself, a small table, a release."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

import seeds
from builders import clinic_table, make_release
from skipped import pytest_sessionfinish, pytest_unconfigure  # noqa: F401  # hooks
from suffice.releases.release import Release

settings.register_profile("suffice", deadline=None, derandomize=True)
settings.load_profile("suffice")


seeds.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Seed the noise of every test by its name, unless its mark says how it may fail by chance."""
    with seeds.noise_of(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request) -> Iterator[object]:
    """Seed a fixture that several tests share by its own name: any of them may be the first."""
    if fixturedef.scope == "function":
        return (yield)
    name = f"{request.node.nodeid}::{fixturedef.argname}[{request.param_index}]"
    with seeds.seeded(name):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[object]:
    """Seed what a module draws while it is imported."""
    with seeds.seeded(collector.nodeid):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note how often each test fails by chance, before any is left out."""
    config.stash[seeds.RATES] = {item.nodeid: seeds.chance_of(item) for item in items}


def pytest_report_collectionfinish(items: list[pytest.Item]) -> str:
    """Say how often one of these tests fails by chance."""
    return f"false alarms: {sum(map(seeds.chance_of, items)):.2g} of runs"


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the anchors of ledgers out of the home folder of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def small_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the tables of the demo, three times smaller."""
    from suffice.demo.story import clinic_network, write_tables

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
