"""Class sums: what a party's own records add to the mean operator, held to a ball.

A party with few records cannot vote for classes that it lacks. Its records can still be summed by
class. In public white coordinates z = T x every row has about the same length, so that all rows are
scaled to length one, u = z / ||z||, and n rows in different classes have a sum of norm sqrt(n). A
party's sum is scaled down to that norm if it is longer. One party then moves the sum over parties
by at most 2 sqrt(n), whatever it holds (privacy/proofs/parties.md).
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.operator.form import operator_columns
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.noise import whitened_shape

__all__ = ["MOST_SAMPLES", "ClassSums", "check_samples", "choose_method"]

_STEPS = 2**30  # of the length of one row
MOST_SAMPLES = 2**20


def check_samples(samples: object) -> int:
    """Return the declared number of records of each party, or raise."""
    if not isinstance(samples, int) or isinstance(samples, bool) or not 0 < samples <= MOST_SAMPLES:
        raise ParameterError(
            "Class sums need the public number of records of each party, from 1 to"
            f" {MOST_SAMPLES:,}. Set --samples (Python: samples=...)."
        )
    return samples


def choose_method(classes: int, samples: int) -> str:
    """Return what to release of parties with this many records: class sums or the operator.

    Votes come from classifiers that know a party's own classes only: with few records per class
    most votes are for a wrong one. With many, votes are as good, and 1/M is less noise than
    2/(M sqrt(n)). Up to two records per class, class sums were the better on every table that was
    tried (docs/parties.md).
    """
    return "class-sums" if samples <= 2 * classes else "operator"


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Computes one party's class sums, in integers of norm at most ``most``.

    Everything here is public: it is the same for all parties, whatever they hold.

    Parameters
    ----------
    auxiliary : AuxiliaryRows
        The public rows, which set the white coordinates.
    classes : int
        The number of classes.
    samples : int
        The declared number n of records of each party. A party may have more or fewer.
    """

    auxiliary: AuxiliaryRows
    classes: int
    samples: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a sum: one line for two classes, else one for each class."""
        return operator_columns(self.classes), len(self.auxiliary.pipeline.outputs)

    @property
    def radius(self) -> float:
        """The norm that sums are scaled down to, in steps: sqrt(n) rows."""
        return math.sqrt(self.samples) * _STEPS

    @property
    def most(self) -> float:
        """The norm as floats compute it, in steps, up to which sums are accepted."""
        return self.radius * (1 + self._floats)

    @property
    def reach(self) -> float:
        """The norm, in steps, that no accepted sum exceeds, whatever floats have lost."""
        return self.radius * (1 + 2 * self._floats)

    @property
    def _floats(self) -> float:
        """More than floats can lose of a norm, relative to it (privacy/proofs/parties.md)."""
        return (math.prod(self.shape) + 64) * 2.0**-50

    @cached_property
    def whitening(self) -> np.ndarray:
        """T, which takes rows in steps to white coordinates; the identity if they are too many."""
        shape = whitened_shape(self.auxiliary.codes)
        width = len(self.auxiliary.pipeline.outputs)
        return np.eye(width) if shape is None else np.asarray(shape.matrix / 2.0**shape.bits)

    @cached_property
    def unit(self) -> float:
        """What a step of a sum is worth in white coordinates: the mean length of public rows."""
        lengths = np.linalg.norm(self.auxiliary.codes @ self.whitening.T, axis=1)
        return float(lengths.mean()) / _STEPS

    @cached_property
    def grid(self) -> str:
        """The name of the integers: of the public rows, the number of records and the steps."""
        named = f"class sums\0{self.auxiliary.grid}\0{self.samples}\0{_STEPS}"
        return "sha256:" + hashlib.sha256(named.encode()).hexdigest()

    def of(self, rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the sum of one party: of rows in public coordinates, with class codes.

        Only this party's rows are in any product of matrices, so that what it sends does not
        depend on other parties' records.
        """
        sums = np.zeros(self.shape, dtype=np.int64)
        steps = self._unit_rows(rows)
        if self.classes == 2:
            sums[0] = (steps * np.where(codes == 1, 1, -1)[:, None]).sum(axis=0)
        else:
            np.add.at(sums, codes, steps)
        size = float(np.linalg.norm(sums.astype(np.float64)))
        if size <= self.radius:
            return sums
        return np.trunc(sums * (self.radius / size)).astype(np.int64)

    def _unit_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in white coordinates, each of length one, in integer steps."""
        white = (rows / self.auxiliary.step) @ self.whitening.T
        lengths = np.linalg.norm(white, axis=1, keepdims=True)
        shares = white / np.where(lengths > 0, lengths, 1.0)
        return np.asarray(np.rint(shares * _STEPS).astype(np.int64))
