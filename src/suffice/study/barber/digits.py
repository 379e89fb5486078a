"""Sevens and nines of MNIST for studies of corrupted records, and corruption by simulation.

What is drawn here is numpy's and can never end in a release: an owner draws in `owner.responses`.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.study.data_sets import split

__all__ = ["STATES", "Digits", "Sample", "flipped", "read_digits"]

STATES = 256


@dataclass(frozen=True, eq=False)
class Sample:
    """Pixels of digits to learn from and of others to test on, and which of them are nines."""

    pixels: np.ndarray
    labels: np.ndarray
    test_pixels: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True, eq=False)
class Digits:
    """Holds all sevens and nines: pixels 0..255 by row, and which are nines."""

    names: tuple[str, ...]
    pixels: np.ndarray
    labels: np.ndarray

    @property
    def side(self) -> int:
        """The length of a picture's side."""
        side = math.isqrt(len(self.names))
        if side**2 != len(self.names):
            raise TableError(f"{len(self.names)} pixels make no square picture.")
        return side

    def first(self, label: int) -> np.ndarray:
        """Return the pixels of one digit of this class."""
        return self.pixels[self.labels.argmax() if label else self.labels.argmin()]

    def table(self, values: np.ndarray) -> pa.Table:
        """Return pixels, on whatever scale, as a table with the names of the file."""
        return pa.table(dict(zip(self.names, values.T, strict=True)))

    def sample(self, rng: np.random.Generator, train: int, test: int | None) -> Sample:
        """Return ``train`` digits of each class and ``test`` others of each, None for the rest."""
        picks = [rng.permutation(np.flatnonzero(self.labels == k)) for k in (0, 1)]
        end = None if test is None else train + test
        if min(map(len, picks)) < train + (1 if test is None else test):
            raise TableError(f"there are too few digits for {train} and {test or 1} of each class.")
        learn = np.concatenate([pick[:train] for pick in picks])
        held = np.concatenate([pick[train:end] for pick in picks])
        return Sample(self.pixels[learn], self.labels[learn], self.pixels[held], self.labels[held])


def read_digits(folder: Path) -> Digits:
    """Return the sevens and nines of both parts of MNIST."""
    data = split("mnist-7v9", 0, folder)
    rows = pa.concat_tables([data.rows, data.test_rows])
    pixels = np.column_stack([column.to_numpy() for column in rows.columns])
    labels = np.concatenate([data.labels, data.test_labels])
    return Digits(tuple(rows.column_names), pixels.astype(np.int64), labels)


def flipped(codes: np.ndarray, p: float, rng: np.random.Generator, states: int) -> np.ndarray:
    """Return every code as it is, or with probability ``p`` as any of the other states."""
    moved = (codes + rng.integers(1, states, codes.shape)) % states
    return np.where(rng.random(codes.shape) < p, moved, codes)
