"""How moments leave: one joint draw of Gaussian noise on exact integers, after the charge."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from suffice.errors import TableError
from suffice.owner.mechanism import Procedure
from suffice.owner.moments.exact import MomentPass
from suffice.owner.moments.noise import MomentNoise
from suffice.owner.overlap import warn_of_same_rows
from suffice.owner.publish import PrivateIdentity
from suffice.owner.rados.guarantees import noise_guarantee
from suffice.owner.rados.pipeline import PrivateRows
from suffice.owner.source import OwnerReport
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.strict_json import canonical
from suffice.tables.labels import Classes

__all__ = ["NoisyMoments", "moment_arrays"]


def moment_arrays(
    noise: MomentNoise, sums: Mapping[str, np.ndarray], rows: int, bound: float
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return noisy sums as means of rows of length ``bound``, and their noise by name.

    The means of three classes or more sum to zero over classes before noise. So the mean of the
    noise over classes is subtracted: it holds nothing else.
    """
    deviations = {name: block.deviation / rows for name, block in noise.blocks.items()}
    two = noise.weights.classes == 2
    operator = sums["operator"].T / rows * bound
    counts = sums["counts"] / rows
    arrays = {
        "second_moments": sums["second"] / rows * bound**2,
        "mean": sums["mean"] / rows * bound,
        "operator": operator[:, 0] if two else operator - operator.mean(axis=1, keepdims=True),
        "proportions": np.array([1 - counts[0], 1 + counts[0]]) / 2 if two else counts,
    }
    spread = {
        "second_noise": deviations["diagonal"] * bound**2,
        "mean_noise": deviations["mean"] * bound,
        "operator_noise": deviations["operator"] * bound,
        "proportions_noise": deviations["counts"] / (2 if two else 1),
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, spread


@dataclass(frozen=True, eq=False)
class NoisyMoments(Procedure[MomentPass]):
    """Second moments, means, means by class and class proportions, with Gaussian noise.

    Attributes
    ----------
    rows : PrivateRows
        The private table with its pipeline.
    size : int
        The number of records, which is public.
    classes : tuple
        The declared classes.
    noise : MomentNoise
        The noise, calibrated before a record is read.
    epsilon, delta : float
        What the release may cost each record.
    """

    kind = "moments"
    rows: PrivateRows
    size: int
    classes: Classes
    noise: MomentNoise
    epsilon: float
    delta: float

    def accumulator(self, *, identified: bool) -> MomentPass:
        """Return empty sums."""
        return MomentPass(self.rows, self.classes, identified=identified or self._reused)

    @property
    def _reused(self) -> bool:
        """Whether the pipeline was given and names the rows that it was fitted on."""
        return bool(self.rows.named_rows)

    def check(self, exact: MomentPass) -> None:
        """Raise if there are no rows, or other rows than were counted: nothing is charged."""
        super().check(exact)
        if exact.count != self.size:
            raise TableError(
                "The table changed while it was read. Nothing was charged. Release from a copy that"
                " nobody writes to."
            )

    def report(self, exact: MomentPass) -> OwnerReport | None:
        """Tell the owner, and nobody else, which labels and cells counted as none."""
        if self._reused:
            warn_of_same_rows(exact.content.decode(), self.rows.named_rows)
        lines = [
            f"column {name!r}: {cells:,} cells hold a category that was not declared; they count"
            " as none."
            for name, cells in sorted(exact.unknown.items())
        ]
        if exact.outside:
            lines.append(
                f"{exact.outside:,} of {exact.count:,} labels are missing or not in the class list;"
                " they count as none. List all classes with --classes (Python: classes=...)."
            )
        facts = {"outside": exact.outside, "unknown": dict(exact.unknown)}
        return OwnerReport(tuple(lines), facts=facts) if lines else None

    @cached_property
    def _guarantee(self) -> Guarantee:
        return noise_guarantee(Unit.RECORD, self.noise.event, self.delta, origin=self.rows.origin)

    def guarantees(self, exact: MomentPass) -> tuple[Guarantee, ...]:
        """Return the guarantee per record: it was known before a record was read."""
        del exact
        return (self._guarantee,)

    def parameters(self, exact: MomentPass) -> Mapping[str, Any]:
        """Return the public description of the request."""
        del exact
        return {
            "kind": self.kind,
            "unit": str(Unit.RECORD),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "records": self.size,
            "classes": list(self.classes),
            "ranges": {name: list(limits) for name, limits in self.rows.ranges.items()},
            "pipeline": self.rows.pipeline.digest(),
        }

    def identity(self, exact: MomentPass, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of labels and cells."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: MomentPass, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release with fresh noise; rows are named by what leaves, not what stays."""
        sums = self.noise.add(exact.result())
        arrays, spread = moment_arrays(self.noise, sums, self.size, self.rows.pipeline.bound)
        details = {"classes": list(self.classes), "mechanism": "gaussian", **spread}
        content = hashlib.sha256(b"moments\0" + canonical(details))
        for name in sorted(arrays):
            content.update(arrays[name].tobytes())
        rows = RowSet(self.size, "sha256:" + content.hexdigest())
        return Release(
            kind=self.kind,
            arrays=arrays,
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=self.rows.pipeline,
            noise=Covariance("identity", spread["operator_noise"] ** 2),
        )
