"""A request for rados, and which of its parts can be combined."""

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
    """A request, with everything about the rows that is known before they are read.

    Parameters
    ----------
    rows : PrivateRows
        The private table and its pipeline.
    size : int
        Number of rows; public.
    count : int
        Number of rados.
    signs : str
        hadamard or iid.
    classes : tuple
        The two classes; the last is positive.
    support : int, optional
        Number of records in each rado.
    protect : tuple of str
        Two-valued columns that are protected when read alone.
    truncate : float, optional
        Epsilon per rado at which ``protect`` truncates.
    attributes : tuple of str
        Columns that unit attribute protects.
    epsilon, delta : float
        What the noise may cost; no noise without epsilon.
    unit : Unit, optional
        What epsilon protects.
    noise_on : str
        sums or records.
    """

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
        subsets = HadamardSubsets if self.signs == "hadamard" else FreeSubsets
        return subsets(self.coordinates, self.count, step)


def check_request(request: RadoRequest) -> None:
    """Raise where the parts of a request cannot be combined, with what to change."""
    uniform = request.support is None and not request.protect
    rules = [
        (request.count >= 1, "--count must be a positive integer."),
        (
            request.signs == "iid" or request.count >= 2,
            "A single rado needs --signs iid: structured signs are balanced over several.",
        ),
        (
            request.signs == "iid" or uniform,
            "--signs hadamard cannot be used with --support or --protect. Use --signs iid.",
        ),
        (
            request.support is None or 1 <= request.support < request.size,
            f"--support must lie between 1 and {request.size - 1}: some rows in, some out.",
        ),
        (
            not request.protect or (request.unit is None and request.noise_on == "sums"),
            "--protect cannot be used with --unit or --noise-on: it adds no noise. Remove one.",
        ),
        (
            not request.protect or request.support is None,
            "--protect cannot be used with --support. Remove one.",
        ),
        (
            not request.protect or request.delta > 0,
            "--protect needs a --delta above 0, for example 1e-6.",
        ),
        (
            request.truncate is None or len(request.protect) == 1,
            "--truncate works with exactly one protected column (--protect).",
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
            "--unit and --noise-on need an --epsilon, for example 1.",
        ),
        (
            not noisy or unit is not None,
            "--epsilon needs to know what it protects. Add --unit label, record or attribute.",
        ),
        (unit is not Unit.PARTY, "--unit must be label, record or attribute."),
        (
            request.noise_on == "sums" or unit is Unit.RECORD,
            "--noise-on records protects records. Use it with --unit record.",
        ),
        (
            unit is not Unit.LABEL or request.support is None,
            (
                "--unit label does not protect labels with --support: differences of rados would"
                " carry no noise (docs/errata.md). Use --unit record, or remove --support."
            ),
        ),
        (
            unit in {None, Unit.LABEL} or request.delta > 0,
            "Noise for this unit is Gaussian. It needs a --delta above 0, for example 1e-6.",
        ),
        (
            (unit is Unit.ATTRIBUTE) == bool(request.attributes),
            (
                "--unit attribute needs the protected columns (--attribute COLUMN; Python:"
                " attributes=...), and --attribute needs --unit attribute."
            ),
        ),
        (
            unit is not Unit.ATTRIBUTE or request.rows.pipeline.map is None,
            "--unit attribute cannot be used with a feature map, which mixes columns.",
        ),
    ]
