"""How a mean operator is released: as sums with noise, or as labels randomised one by one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from suffice.owner.labelled import Contents, LabelProcedure
from suffice.owner.operator.candidates import Candidate
from suffice.owner.operator.exact import ExactLabels, ExactSums
from suffice.owner.public_rows import PublicTable
from suffice.privacy.events import Event
from suffice.privacy.noise import Noise, calibrated_noise
from suffice.privacy.response import Response
from suffice.release.covariance import Covariance

__all__ = ["NoisySums", "RandomisedLabels", "operator_procedure"]


@dataclass(frozen=True, eq=False)
class NoisySums(LabelProcedure[ExactSums]):
    """The mean operator as sums with noise, even or in a shape.

    ``best`` is the candidate that public rows predict to be best.
    """

    kind = "mean-operator"
    best: Candidate

    def accumulator(self, *, identified: bool) -> ExactSums:
        """Return empty sums."""
        rows, shape = self.public.rows, self.best.shape
        return ExactSums(rows, self.classes, shape, identified=identified)

    def noise(self, exact: ExactSums) -> Noise:
        """Return the noise, fitted to the reach of the rows that were read: a public number."""
        epsilon, delta = self.request["epsilon"], self.request["delta"]
        return calibrated_noise(self.best.mechanism, exact.sensitivity, epsilon, delta)

    def event(self, exact: ExactSums) -> Event:
        """Return what one label costs."""
        return self.noise(exact).event

    def deviation(self, exact: ExactSums) -> float:
        """Return the root mean square of the noise per coordinate of the mean."""
        width = len(self.public.rows.pipeline.outputs)
        return math.sqrt(float(self._covariance(exact).diagonal(width).mean()))

    def _covariance(self, exact: ExactSums) -> Covariance:
        variance, shape = self.noise(exact).variance * exact.unit**2, exact.shape
        if shape is None:
            return Covariance("identity", variance)
        return shape.covariance(variance)

    def contents(self, exact: ExactSums) -> Contents:
        """Return the operator with noise."""
        arrays = {"mean_operator": exact.noisy(self.noise(exact))}
        details = {"mechanism": self.best.mechanism, "step": exact.step}
        return arrays, details, self._covariance(exact)


@dataclass(frozen=True, eq=False)
class RandomisedLabels(LabelProcedure[ExactLabels]):
    """The labels themselves, each randomised; the learner derives the mean operator."""

    kind = "label-responses"
    best: Candidate

    def accumulator(self, *, identified: bool) -> ExactLabels:
        """Return an empty list of labels."""
        return ExactLabels(self.public.rows, self.classes, identified=identified)

    @cached_property
    def response(self) -> Response:
        """The most faithful response within epsilon."""
        return Response.from_epsilon(len(self.classes), self.request["epsilon"])

    def deviation(self, exact: ExactLabels) -> float:
        """Return the predicted noise: it depends on the rows, and the forecast's figure stands."""
        del exact
        return self.best.deviation

    def event(self, exact: ExactLabels) -> Event:
        """Return what one label costs."""
        del exact
        return self.response.event

    def contents(self, exact: ExactLabels) -> Contents:
        """Return the randomised labels."""
        answers = exact.randomised(self.response)
        arrays = {"answers": answers, "channel": self.response.matrix}
        return arrays, {"mechanism": "response"}, Covariance("none")


def operator_procedure(
    public: PublicTable, request: Mapping[str, Any], best: Candidate
) -> NoisySums | RandomisedLabels:
    """Return the procedure of a candidate."""
    if best.mechanism == "response":
        return RandomisedLabels(public, request, best)
    return NoisySums(public, request, best)
