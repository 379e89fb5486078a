"""What leaves of many parties' votes: their mean operator, or their table, with noise."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.operator_form import operator_columns
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.noise import (
    mechanism_name,
    operator_sensitivity,
    party_noise,
    whitened_shape,
)
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.noise import LARGEST_SUM, Noise, Sensitivity
from suffice.release.artifact import Part, Release
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes

__all__ = ["OperatorWay", "Round", "VotesWay", "Way"]

_VOTE_STEPS = 2**16  # steps of noise per step of a vote: the lattice must be fine


@dataclass(frozen=True, eq=False)
class Round:
    """What is public about one aggregation: rows, classes, enrolled parties, and its price."""

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    mechanism: str
    epsilon: float
    delta: float

    @property
    def columns(self) -> int:
        """The number of columns of an operator or a model: one for two classes."""
        return operator_columns(len(self.classes))

    @property
    def dimension(self) -> int:
        """The number of entries of an operator or a model."""
        return self.columns * len(self.auxiliary.pipeline.outputs)

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """Return the noise that keeps the price."""
        return party_noise(self.mechanism, sensitivity, self.epsilon, self.delta)


class Way(Protocol):
    """One way to release a sum over parties; its noise is calibrated before the sum is seen."""

    noise: Noise

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on each column."""

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""

    def draw(
        self, total: np.ndarray, guarantees: tuple[Guarantee, ...], found_at: str | None
    ) -> Release:
        """Return the release, with fresh noise."""


class OperatorWay:
    """The mean operator of soft labels, with noise that is whitened or even."""

    def __init__(self, public: Round, form: str) -> None:
        if form not in ("whitened", "even"):
            raise ParameterError("the noise of the operator is whitened or even.")
        self._public, codes = public, public.auxiliary.codes
        self._shape = whitened_shape(codes) if form == "whitened" else None
        sensitivity = operator_sensitivity(codes, self._shape, len(public.classes))
        if public.enrolled.count * sensitivity.l2 >= LARGEST_SUM:
            raise ParameterError("there are too many parties for one sum; aggregate in groups.")
        self.noise = public.noise(sensitivity)
        self._unit = public.auxiliary.step / (VOTE * len(codes) * public.enrolled.count)

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on each column of the operator."""
        variance = self.noise.variance * self._unit**2
        if self._shape is None:
            return Covariance("identity", variance)
        return Covariance("factor", variance, np.ascontiguousarray(self._shape.back()))

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total if self._shape is None else self._shape.apply(total)

    def draw(
        self, total: np.ndarray, guarantees: tuple[Guarantee, ...], found_at: str | None
    ) -> Release:
        """Return the release, with fresh noise."""
        noisy = self.noise.add(self.integers(total))
        sums = (noisy if self._shape is None else noisy @ self._shape.back().T) * self._unit
        operator = sums[0] if len(sums) == 1 else sums.T
        auxiliary = self._public.auxiliary
        return Release(
            kind="mean-operator",
            arrays={"mean_operator": np.ascontiguousarray(operator)},
            details={
                "classes": list(self._public.classes),
                "mechanism": mechanism_name(self.noise),
                "step": auxiliary.step,
            },
            parts=(Part(auxiliary.row_set(ordered=False, found_at=found_at), guarantees),),
            pipeline=auxiliary.pipeline,
            noise=self.covariance(),
        )


class VotesWay:
    """The table of mean votes per auxiliary row, with noise.

    One party's rows are shares of one vote. Two such rows differ by sqrt(2) at most in the 2-norm
    and by 2 in the 1-norm; N of them by sqrt(2 N) and 2 N.
    """

    def __init__(self, public: Round) -> None:
        self._public, count = public, public.auxiliary.count
        step = VOTE * _VOTE_STEPS
        two = math.sqrt(2.0 * count) * (1 + 1e-15) * step
        self.noise = public.noise(Sensitivity(2 * count * step, two, count * len(public.classes)))
        self._unit = 1 / (step * public.enrolled.count)

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on each vote."""
        return Covariance("identity", self.noise.variance * self._unit**2)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total * _VOTE_STEPS

    def draw(
        self, total: np.ndarray, guarantees: tuple[Guarantee, ...], found_at: str | None
    ) -> Release:
        """Return the release, with fresh noise."""
        auxiliary = self._public.auxiliary
        return Release(
            kind="votes",
            arrays={"votes": self.noise.add(self.integers(total)) * self._unit},
            details={
                "classes": list(self._public.classes),
                "mechanism": mechanism_name(self.noise),
                "enrolled": self._public.enrolled.count,
            },
            parts=(Part(auxiliary.row_set(ordered=True, found_at=found_at), guarantees),),
            pipeline=auxiliary.pipeline,
            noise=self.covariance(),
        )
