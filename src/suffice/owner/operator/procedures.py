"""How a mean operator leaves: as sums with noise, or as labels that are randomised one by one."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from suffice.owner.mechanism import Procedure
from suffice.owner.operator.candidates import Candidate
from suffice.owner.operator.exact import ExactLabels, ExactSums, LabelledPass
from suffice.owner.operator.form import operator_columns
from suffice.owner.public_rows import PublicTable
from suffice.owner.publish import PrivateIdentity
from suffice.owner.scaling import as_scaled
from suffice.owner.source import OwnerReport
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import Noise, calibrated_noise
from suffice.privacy.response import Response
from suffice.release.artifact import Part, Release
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes

__all__ = ["NoisySums", "RandomisedLabels", "operator_procedure"]

L = TypeVar("L", bound=LabelledPass)
_UNSEEN = Assumption(
    "rows, their order, features and classes were not chosen by looking at labels",
    "declared by the owner",
)


@dataclass(frozen=True, eq=False)
class _LabelProcedure(Procedure[L], Generic[L]):
    """What both ways share: public rows, private labels, a price per label.

    ``asked`` are the epsilon, the delta and the mechanism of the request; ``best`` is the candidate
    that public rows predict to be best.
    """

    public: PublicTable
    classes: Classes
    asked: tuple[float, float, str]
    best: Candidate

    @abstractmethod
    def event(self, exact: L) -> Event:
        """Return what one label costs, by the reach of the public rows."""

    def deviation(self, exact: L) -> float:
        """Return the root mean square of the noise per coordinate, as predicted."""
        del exact
        return self.best.deviation

    @property
    def coordinates(self) -> int:
        """The number of coordinates of the statistic."""
        return len(self.public.rows.pipeline.outputs) * operator_columns(len(self.classes))

    def report(self, exact: L) -> OwnerReport | None:
        """Return how many labels are of no class, where that is no error."""
        if not exact.outside:
            return None
        line = (
            f"{exact.outside} of {exact.count} labels are missing or outside the classes; they"
            " count as none."
        )
        return OwnerReport((line,), facts={"outside": exact.outside})

    def guarantees(self, exact: L) -> tuple[Guarantee, ...]:
        """Return the one promise, per label."""
        event = self.event(exact)
        guarantee = Guarantee(
            unit=Unit.LABEL,
            event=event,
            delta=0.0 if event.pure else self.asked[1],
            public=("the feature columns of every row", "the number of rows", "the class list"),
            assumptions=(_UNSEEN,),
        )
        return (as_scaled(guarantee, self.public.rows.pipeline.origin),)

    def parameters(self, exact: L) -> Mapping[str, Any]:
        """Return the public description of the request."""
        epsilon, delta, mechanism = self.asked
        return {
            "kind": self.kind,
            "mechanism": mechanism,
            "epsilon": epsilon,
            "delta": delta,
            "classes": list(self.classes),
            "rows": exact.row_set(None).hash,
            "pipeline": self.public.rows.pipeline.digest(),
        }

    def identity(self, exact: L, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of the labels."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: L, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""
        arrays, details, noise = self._drawn(exact)
        rows = exact.row_set(self.public.found_at)
        return Release(
            kind=self.kind,
            arrays=arrays,
            details={"classes": list(self.classes), **details},
            parts=(Part(rows, guarantees),),
            pipeline=self.public.rows.pipeline,
            noise=noise,
        )

    @abstractmethod
    def _drawn(self, exact: L) -> tuple[dict[str, np.ndarray], dict[str, Any], Covariance]:
        """Return the arrays and details of the release, and the covariance of its noise."""


class NoisySums(_LabelProcedure[ExactSums]):
    """The mean operator as sums with noise, even or in a shape."""

    kind = "mean-operator"

    def accumulator(self, *, identified: bool) -> ExactSums:
        """Return empty sums."""
        del identified
        return ExactSums(self.public.rows, self.classes, self.best.shape)

    def noise(self, exact: ExactSums) -> Noise:
        """Return the noise, fitted to the reach of the rows that were read: a public number."""
        return calibrated_noise(self.best.mechanism, exact.sensitivity, *self.asked[:2])

    def event(self, exact: ExactSums) -> Event:
        """Return what one label costs."""
        return self.noise(exact).event

    def deviation(self, exact: ExactSums) -> float:
        """Return the root mean square of the noise per coordinate of the mean."""
        covariance = self._covariance(exact)
        spread = (
            1.0 if covariance.array is None else float((covariance.array**2).sum(axis=1).mean())
        )
        return math.sqrt(covariance.variance * spread)

    def _covariance(self, exact: ExactSums) -> Covariance:
        variance, shape = self.noise(exact).variance * exact.unit**2, exact.shape
        if shape is None:
            return Covariance("identity", variance)
        return Covariance("factor", variance, np.ascontiguousarray(shape.back()))

    def _drawn(self, exact: ExactSums) -> tuple[dict[str, np.ndarray], dict[str, Any], Covariance]:
        arrays = {"mean_operator": exact.noisy(self.noise(exact))}
        details = {"mechanism": self.best.mechanism, "step": exact.step}
        return arrays, details, self._covariance(exact)


class RandomisedLabels(_LabelProcedure[ExactLabels]):
    """The labels themselves, each randomised; the learner derives the mean operator."""

    kind = "label-responses"

    def accumulator(self, *, identified: bool) -> ExactLabels:
        """Return an empty list of labels."""
        del identified
        return ExactLabels(self.public.rows, self.classes)

    @cached_property
    def response(self) -> Response:
        """The most faithful response within epsilon."""
        return Response.from_epsilon(len(self.classes), self.asked[0])

    def event(self, exact: ExactLabels) -> Event:
        """Return what one label costs."""
        del exact
        return self.response.event

    def _drawn(
        self, exact: ExactLabels
    ) -> tuple[dict[str, np.ndarray], dict[str, Any], Covariance]:
        answers = exact.randomised(self.response)
        arrays = {"answers": answers, "channel": self.response.matrix}
        return arrays, {"mechanism": "response"}, Covariance("none")


def operator_procedure(
    public: PublicTable, classes: Classes, asked: tuple[float, float, str], best: Candidate
) -> NoisySums | RandomisedLabels:
    """Return the procedure of a candidate."""
    if best.mechanism == "response":
        return RandomisedLabels(public, classes, asked, best)
    return NoisySums(public, classes, asked, best)
