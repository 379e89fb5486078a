"""What is asked of rados, and what of it goes together."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.rados.pipeline import PrivateRows
from suffice.owner.rados.signs import ChosenSubsets, FreeSubsets, HadamardSubsets, Subsets
from suffice.privacy.guarantee import Unit
from suffice.tables.labels import Classes

__all__ = ["NoisePlace", "RadoRequest", "RadoUnit", "Signs", "check_request"]


class Signs(StrEnum):
    """How the random signs of rados are drawn."""

    AUTO = "auto"
    HADAMARD = "hadamard"
    IID = "iid"


class NoisePlace(StrEnum):
    """Where noise per record is added: to the sums, or to every record before it is summed."""

    SUMS = "sums"
    RECORDS = "records"


class RadoUnit(StrEnum):
    """What the noise on rados can protect."""

    LABEL = "label"
    RECORD = "record"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True)
class RadoRequest:
    """What is asked for, with everything about the rows that is known before they are read."""

    rows: PrivateRows
    size: int
    count: int
    signs: str
    classes: Classes = (0, 1)
    support: int | None = None
    protect: tuple[str, ...] = ()
    truncate: float | None = None
    attributes: tuple[str, ...] = ()
    epsilon: float | None = None
    delta: float = 0.0
    unit: Unit | None = None
    noise_on: str = "sums"

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a rado."""
        return len(self.rows.pipeline.outputs)

    @property
    def epsilon_delta(self) -> tuple[float, float]:
        """(epsilon, delta), where noise is added."""
        assert self.epsilon is not None  # noqa: S101  # for the type checker: checked before
        return self.epsilon, self.delta

    def subsets(self, step: float) -> Subsets:
        """Return fresh subsets, not drawn yet."""
        if self.support is not None:
            sizes = np.full(self.count, self.support)
            return ChosenSubsets(self.coordinates, sizes, step, self.size)
        drawn = HadamardSubsets if self.signs == "hadamard" else FreeSubsets
        return drawn(self.coordinates, self.count, step)


def check_request(request: RadoRequest) -> None:
    """Raise where the parts of a request do not go together, with what to change."""
    uniform = request.support is None and not request.protect
    rules = [
        (request.count >= 1, "count must be a positive integer."),
        (
            request.signs == "iid" or request.count >= 2,
            "one rado alone needs signs='iid': structured signs are balanced over several.",
        ),
        (
            request.signs == "iid" or uniform,
            "hadamard signs are for uniform rados only; use 'iid'.",
        ),
        (
            request.support is None or 1 <= request.support < request.size,
            f"support must lie between 1 and {request.size - 1}: some rows in, some out.",
        ),
        (
            not request.protect or (request.unit is None and request.noise_on == "sums"),
            (
                "protect (DP-Feat) changes which rados are drawn and goes with no noise: leave unit"
                " and noise_on out, or protect out."
            ),
        ),
        (not request.protect or request.support is None, "protect and support exclude each other."),
        (
            not request.protect or request.delta > 0,
            "protect needs delta > 0, where its cost is read.",
        ),
        (
            request.truncate is None or len(request.protect) == 1,
            "truncate holds one protected column.",
        ),
    ]
    broken = [message for holds, message in [*rules, *_noise_rules(request)] if not holds]
    if broken:
        raise ParameterError(broken[0])


def _noise_rules(request: RadoRequest) -> list[tuple[bool, str]]:
    """Return the rules for noise: what must hold, and what to change where it does not."""
    if request.protect:
        return []
    unit, noisy = request.unit, request.epsilon is not None
    return [
        (
            noisy or (unit is None and request.noise_on == "sums"),
            "a unit or noise on records needs an epsilon.",
        ),
        (
            not noisy or unit is not None,
            "say what epsilon protects: unit 'label', 'record' or 'attribute' (--unit).",
        ),
        (unit is not Unit.PARTY, "the unit must be label, record or attribute."),
        (
            request.noise_on == "sums" or unit is Unit.RECORD,
            "noise on records protects records: unit must be 'record'.",
        ),
        (
            unit is not Unit.LABEL or request.support is None,
            (
                "with a fixed support, noise that all rados share does not protect labels: their"
                " differences carry none of it (docs/errata.md). Use unit 'record'."
            ),
        ),
        (
            unit in {None, Unit.LABEL} or request.delta > 0,
            "noise on many numbers is Gaussian and needs delta > 0.",
        ),
        (
            (unit is Unit.ATTRIBUTE) == bool(request.attributes),
            (
                "name the protected columns (attributes=..., --attribute) with unit 'attribute',"
                " and only with it."
            ),
        ),
        (
            unit is not Unit.ATTRIBUTE or request.rows.pipeline.map is None,
            "an attribute cannot be protected through a feature map, which spreads it.",
        ),
    ]
