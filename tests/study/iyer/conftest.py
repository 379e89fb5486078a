"""Rows of classes that are easy to tell apart."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

EACH = 420


@pytest.fixture
def blobs(rng) -> Callable[[int], tuple[pa.Table, np.ndarray]]:
    """Return rows of so many classes that two columns tell apart, the third their place, labels."""

    def draw(classes: int) -> tuple[pa.Table, np.ndarray]:
        labels = rng.permutation(np.repeat(np.arange(classes), EACH))
        angles = 2 * np.pi * labels / classes
        columns = {
            "f0": 2 * np.cos(angles) + rng.normal(size=len(labels)),
            "f1": 2 * np.sin(angles) + rng.normal(size=len(labels)),
            "place": np.arange(len(labels), dtype=np.float64),
        }
        return pa.table(columns), labels

    return draw
