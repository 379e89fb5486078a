"""What several tests share: a repeatable private stream, a small table, releases of every kind."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

from suffice.owner.mean_operator import MeanOperator
from suffice.privacy import randomness
from suffice.release.artifact import Release

settings.register_profile("suffice", deadline=None, derandomize=True)
settings.load_profile("suffice")


@pytest.fixture
def seeded():
    """Make `suffice.privacy.randomness` repeat itself; the only way to do so."""
    with randomness._seeded_for_tests(20_160_131):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def clinic_table(rows: int = 120, seed: int = 0) -> pa.Table:
    """Return public measurements and a private diagnosis that depends on them."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, rows)
    dose = rng.normal(3.0, 1.0, rows).astype(np.float32)
    ward = rng.choice(["north", "south", "west"], rows)
    sick = (age + 10 * dose + rng.normal(0, 5, rows) > 80).astype(np.int64)
    return pa.table({"age": age, "dose": dose, "ward": ward, "sick": sick})


@pytest.fixture
def clinic() -> pa.Table:
    return clinic_table()


@pytest.fixture
def clinic_file(tmp_path: Path, clinic: pa.Table) -> Path:
    path = tmp_path / "clinic.parquet"
    pq.write_table(clinic, path)
    return path


def make_release(classes: int = 2, rows: int = 60, seed: int = 0, **options) -> Release:
    """Return a fresh release of random rows: a mean operator, or as ``mechanism`` says."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    y = rng.integers(0, classes, rows)
    options = {"epsilon": 1.0, "mechanism": "laplace", **options}
    mechanism = MeanOperator(classes=tuple(range(classes)), **options)
    return mechanism.release(X, y, ledger=None)


@pytest.fixture
def release() -> Release:
    return make_release()
