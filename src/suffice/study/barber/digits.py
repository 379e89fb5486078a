"""Sevens and nines of MNIST for studies of corrupted records, and corruption by simulation.

Numpy draws this noise, which can never end in a release: an owner draws in `owner.responses`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.errors import TableError
from suffice.learner.spread.posterior import Prior
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.release.spread import Flips
from suffice.study.data_sets import split

__all__ = [
    "LABEL_FLIP",
    "STATES",
    "Corrupt",
    "Corruption",
    "DigitSample",
    "Digits",
    "add_noise",
    "flip_pixels",
    "flipped",
    "read_digits",
]  # fmt: skip

STATES = 256
LABEL_FLIP = 0.2  # where pixels get Gaussian noise
_WIDE = np.array([0.0, 10.0])  # mean and variance of the paper's prior of a pixel


@dataclass(frozen=True, eq=False)
class DigitSample:
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
            raise TableError(f"{len(self.names)} pixels do not make a square picture.")
        return side

    def first(self, label: int) -> np.ndarray:
        """Return the pixels of one digit of this class."""
        return np.asarray(self.pixels[self.labels.argmax() if label else self.labels.argmin()])

    def table(self, values: np.ndarray) -> pa.Table:
        """Return pixels, on whatever scale, as a table with the names of the file."""
        return pa.table(dict(zip(self.names, values.T, strict=True)))

    def sample(self, rng: np.random.Generator, train: int, test: int | None) -> DigitSample:
        """Return ``train`` digits of each class and ``test`` others of each, None for the rest."""
        picks = [rng.permutation(np.flatnonzero(self.labels == k)) for k in (0, 1)]
        end = None if test is None else train + test
        if min(map(len, picks)) < train + (1 if test is None else test):
            raise TableError(f"there are too few digits for {train} and {test or 1} of each class.")
        training = np.concatenate([pick[:train] for pick in picks])
        testing = np.concatenate([pick[train:end] for pick in picks])
        return DigitSample(
            self.pixels[training],
            self.labels[training],
            self.pixels[testing],
            self.labels[testing],
        )


def read_digits(folder: Path) -> Digits:
    """Return the sevens and nines of both parts of MNIST."""
    rows, labels = split("mnist-7v9", 0, folder).all_rows
    pixels = np.column_stack([column.to_numpy() for column in rows.columns])
    return Digits(tuple(rows.column_names), pixels.astype(np.int64), labels)


def flipped(codes: np.ndarray, p: float, rng: np.random.Generator, states: int) -> np.ndarray:
    """Return every code as it is, or with probability ``p`` as any of the other states."""
    moved = (codes + rng.integers(1, states, codes.shape)) % states
    return np.where(rng.random(codes.shape) < p, moved, codes)


@dataclass(frozen=True, eq=False)
class Corruption:
    """One sample of digits on the scale of its mechanism, and its corrupted copy."""

    mechanism: RandomizedResponse
    rows: np.ndarray  # clean, to learn from
    cells: np.ndarray  # their corrupted copy
    test_rows: np.ndarray
    codes: np.ndarray  # corrupted labels
    channel: np.ndarray
    priors: Mapping[str, Prior]


Corrupt = Callable[[DigitSample, float, np.random.Generator], Corruption]


def flip_pixels(sample: DigitSample, p: float, rng: np.random.Generator) -> Corruption:
    """Send labels and pixels through flips of probability ``p`` (Section 6)."""
    truth = [np.bincount(column, minlength=STATES) for column in sample.pixels.T]
    return Corruption(
        RandomizedResponse(label_flip=p, states=range(STATES), feature_flip=p),
        sample.pixels,
        flipped(sample.pixels, p, rng, STATES),
        sample.test_pixels,
        flipped(sample.labels, p, rng, 2),
        Flips(2, keep=1 - p).matrix,
        {"true": truth, "learned": "learned", "marginals": "marginals", "flat": "flat"},
    )


def add_noise(sample: DigitSample, variance: float, rng: np.random.Generator) -> Corruption:
    """Add noise to pixels between 0 and 1, and flip labels (Section 6.1)."""
    rows, test_rows = sample.pixels / (STATES - 1), sample.test_pixels / (STATES - 1)
    return Corruption(
        RandomizedResponse(label_flip=LABEL_FLIP, ranges=(0.0, 1.0), feature_noise=variance),
        rows,
        rows + rng.normal(scale=np.sqrt(variance), size=rows.shape),
        test_rows,
        flipped(sample.labels, LABEL_FLIP, rng, 2),
        Flips(2, keep=1 - LABEL_FLIP).matrix,
        {"learned": "learned", "marginals": "marginals", "flat": [_WIDE] * rows.shape[1]},
    )
