"""Small pictures in the layout of mnist.parquet."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

EACH = 40


@pytest.fixture(scope="session")
def draw_pictures() -> Callable[..., pa.Table]:
    """Return what makes pictures of sevens, nines and threes: nines are bright on top."""

    def draw(rng: np.random.Generator, side: int = 3) -> pa.Table:
        digits = np.repeat([7, 9, 3], EACH)
        pixels = rng.integers(0, 60, size=(len(digits), side**2))
        pixels[digits == 9, :side] += 150
        columns = {f"f{j}": column.astype(np.uint8) for j, column in enumerate(pixels.T)}
        parts = pa.array(rng.choice(["train", "test"], len(digits))).dictionary_encode()
        return pa.table({**columns, "label": digits.astype(np.int8), "split": parts})

    return draw


@pytest.fixture(scope="module")
def folder(tmp_path_factory, draw_pictures):
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(draw_pictures(np.random.default_rng(0)), folder / "mnist.parquet")
    return folder
