"""What happened once, as frozen values; the cost is computed from them, never the other way round.

A law for this file: an event is never removed, a parameter is added only with a default that keeps
the old meaning, and no meaning ever changes. Ledgers and release files hold these for years. What
happened several times is a `suffice.privacy.accounting.Composed`, under the same law.

Each event stands for a pair of distributions that *dominates* its mechanism: no neighbouring data
sets are easier to tell apart than that pair. ``privacy/proofs/`` holds the arguments.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.privacy import calibrate

# Beyond these the exact curve has no digits left, and a Gaussian hides nothing, or everything.
_LEAST_MULTIPLIER, _MOST_MULTIPLIER = 1e-6, 1e12


@dataclass(frozen=True)
class Event(ABC):
    """A privacy loss that was, or would be, incurred once."""

    name: ClassVar[str]

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that holds with ``delta``; infinite where none does."""

    @property
    def pure(self) -> bool:
        """Whether it has a finite epsilon at delta = 0."""
        return math.isfinite(self.epsilon(0.0))

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON values; floats survive the trip exactly."""
        return {"event": self.name, **asdict(self)}


@dataclass(frozen=True)
class Pure(Event):
    """Any mechanism whose likelihood ratio never exceeds e^bound.

    Attributes
    ----------
    bound
        The epsilon at delta = 0.

    Examples
    --------
    >>> Pure(1.0).epsilon(0.0)
    1.0
    """

    bound: float
    name: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        calibrate.check_epsilon(self.bound)

    def epsilon(self, delta: float) -> float:
        """Return ln(e^bound (1 - delta) - delta): that of two-state randomised response."""
        # hockey-stick of (p, 1-p) against (1-p, p): delta = p - e^eps (1-p), p = e^b / (1 + e^b)
        inner = 1 - delta - delta * math.exp(-self.bound)
        return max(0.0, self.bound + math.log(inner)) if inner > 0 else 0.0


@dataclass(frozen=True)
class Laplace(Pure):
    """Laplace noise of scale sensitivity / bound: delta is 0, and composition costs less.

    Attributes
    ----------
    bound
        The epsilon at delta = 0.
    """

    name: ClassVar[str] = "laplace"

    def epsilon(self, delta: float) -> float:
        """Return bound + 2 ln(1 - delta), the hockey-stick of two Laplace densities inverted."""
        # delta(eps) = 1 - e^((eps - bound)/2) for 0 <= eps <= bound
        return max(0.0, self.bound + 2 * math.log1p(-delta)) if delta < 1 else 0.0


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise, on a rounding grid if ``slack`` is positive.

    The grid raises epsilon by 2 slack, and delta by the factor e^slack plus tail.

    Attributes
    ----------
    multiplier
        The standard deviation of the noise, in sensitivities.
    slack
        A bound on the log-ratio between the noise on the grid and rounded continuous noise.
    tail
        The probability of the set outside which that bound holds.

    Examples
    --------
    >>> round(Gaussian(4.0).epsilon(1e-6), 3)
    1.061
    """

    multiplier: float
    slack: float = 0.0
    tail: float = 0.0
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        if not _LEAST_MULTIPLIER <= self.multiplier <= _MOST_MULTIPLIER:
            raise ParameterError(
                f"A Gaussian event needs a noise multiplier from {_LEAST_MULTIPLIER:g} to"
                f" {_MOST_MULTIPLIER:g}."
            )
        if not (0 <= self.slack < 1 and 0 <= self.tail < 1):
            raise ParameterError("Slack and tail of a Gaussian event must lie in [0, 1).")

    def epsilon(self, delta: float) -> float:
        """Return Balle & Wang's exact epsilon, with what the lattice adds."""
        continuous = (delta - self.tail) * math.exp(-self.slack)
        if continuous <= 0:
            return math.inf
        return calibrate.gaussian_epsilon(continuous, self.multiplier) + 2 * self.slack


@dataclass(frozen=True)
class Approximate(Event):
    """A mechanism of which only one pair of epsilon and delta is known.

    Attributes
    ----------
    bound
        The epsilon.
    at_delta
        The delta.
    """

    bound: float
    at_delta: float
    name: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        calibrate.check_epsilon(self.bound)
        calibrate.read_delta(self.at_delta)

    def epsilon(self, delta: float) -> float:
        """Return what the known point implies: infinite loss with at_delta, else a pure loss."""
        if delta < self.at_delta:
            return math.inf
        return Pure(self.bound).epsilon((delta - self.at_delta) / (1 - self.at_delta))


@dataclass(frozen=True)
class Unbounded(Event):
    """No bound on the privacy loss at all."""

    name: ClassVar[str] = "unbounded"

    def epsilon(self, delta: float) -> float:  # noqa: ARG002  # the same for every delta
        """Return infinity."""
        return math.inf


_KINDS: dict[str, type[Event]] = {
    kind.name: kind for kind in (Pure, Laplace, Gaussian, Approximate, Unbounded)
}


def single_event(fields: dict[str, Any]) -> Event:
    """Return the event, not a composed one, of which `Event.to_json` wrote these ``fields``."""
    parameters = dict(fields)
    name = parameters.pop("event", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnsupportedFileError(
            "The file states a privacy event that this version of suffice does not know."
        )
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in parameters.values()):
        raise CorruptFileError(f"The parameters of a {kind.name} event must be numbers.")
    try:
        return kind(**{key: float(value) for key, value in parameters.items()})
    except (TypeError, OverflowError, ParameterError) as error:
        raise CorruptFileError(f"The parameters of a {kind.name} event are not valid.") from error
