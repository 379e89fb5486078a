"""What is asked of rados, and what of it goes together."""

from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.rados.pipeline import PrivateRows
from suffice.owner.rados.signs import ChosenSubsets, FreeSubsets, HadamardSubsets, Subsets
from suffice.privacy.guarantee import Unit

__all__ = ["Task", "check_task"]


@dataclass(frozen=True)
class Task:
    """What is asked for, with everything about the rows that is known before they are read."""

    rows: PrivateRows
    size: int
    count: int
    signs: str
    support: int | None = None
    protect: tuple[str, ...] = ()
    truncate: float | None = None
    attributes: tuple[str, ...] = ()
    epsilon: float | None = None
    delta: float = 0.0
    unit: Unit | None = None
    noise: str = "joint"

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a rado."""
        return len(self.rows.pipeline.outputs)

    @property
    def asked(self) -> tuple[float, float]:
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


def check_task(task: Task) -> None:
    """Raise where the parts of a task do not go together, with what to change."""
    uniform = task.support is None and not task.protect
    rules = [
        (task.count >= 1, "count must be a positive integer."),
        (
            task.signs == "iid" or task.count >= 2,
            "one rado alone needs signs='iid': structured signs are balanced over several.",
        ),
        (task.signs == "iid" or uniform, "hadamard signs are for uniform rados only; use 'iid'."),
        (
            task.support is None or 1 <= task.support < task.size,
            f"support must lie between 1 and {task.size - 1}: some rows in, some out.",
        ),
        (
            not task.protect or (task.unit is None and task.noise == "joint"),
            (
                "protect (DP-Feat) changes which rados are drawn and goes with no noise: leave unit"
                " and noise out, or protect out."
            ),
        ),
        (not task.protect or task.support is None, "protect and support exclude each other."),
        (not task.protect or task.delta > 0, "protect needs delta > 0, where its cost is read."),
        (task.truncate is None or len(task.protect) == 1, "truncate holds one protected column."),
    ]
    broken = [message for holds, message in [*rules, *_noise_rules(task)] if not holds]
    if broken:
        raise ParameterError(broken[0])


def _noise_rules(task: Task) -> list[tuple[bool, str]]:
    """Return the rules for noise: what must hold, and what to change where it does not."""
    if task.protect:
        return []
    unit, noisy = task.unit, task.epsilon is not None
    return [
        (
            noisy or (unit is None and task.noise == "joint"),
            "a unit or noise on edges needs an epsilon.",
        ),
        (
            not noisy or unit is not None,
            "say what epsilon protects: unit 'label', 'record' or 'attribute' (--unit).",
        ),
        (unit is not Unit.PARTY, "the unit must be label, record or attribute."),
        (
            task.noise == "joint" or unit is Unit.RECORD,
            "noise on edges protects records: unit must be 'record'.",
        ),
        (
            unit is not Unit.LABEL or task.support is None,
            (
                "with a fixed support, noise that all rados share does not protect labels: their"
                " differences carry none of it (docs/errata.md). Use unit 'record'."
            ),
        ),
        (
            unit in {None, Unit.LABEL} or task.delta > 0,
            "noise on many numbers is Gaussian and needs delta > 0.",
        ),
        (
            (unit is Unit.ATTRIBUTE) == bool(task.attributes),
            (
                "name the protected columns (attributes=..., --attribute) with unit 'attribute',"
                " and only with it."
            ),
        ),
        (
            unit is not Unit.ATTRIBUTE or task.rows.pipeline.map is None,
            "an attribute cannot be protected through a feature map, which spreads it.",
        ),
    ]
