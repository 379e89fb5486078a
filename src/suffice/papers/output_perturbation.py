"""From the papers: a classifier of many parties that leaves itself, with noise on its parameters.

Hamm, Cao, Belkin (2016), Algorithms 2 and 1, and parameter averaging (Pathak et al. 2010). The risk
with penalty (lam/2) ||theta||^2 is lam-strongly convex, so that data sets whose gradients differ by
at most G everywhere have minimisers at most G/lam apart (Chaudhuri et al. 2011, Corollary 8). The
solver stops at a gradient of norm g, within g/lam of the minimiser: 2 g/lam is added.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from suffice.engines.sums import lattice_step
from suffice.errors import OptimisationError, ParameterError
from suffice.models.problem import LOSSES, FactoredProblem
from suffice.owner.mean_operator import gradient_change
from suffice.owner.parties.contribution import (
    FITTED_ON_ROWS,
    VOTE,
    from_codes,
    operator_weights,
    parameter_radius,
    reach,
)
from suffice.owner.parties.ensemble import PartyProcedure, Round
from suffice.owner.parties.gathering import largest_parameters
from suffice.releases.release import RowSet

_CERTIFICATE_SHARE = 5e-4  # of the largest change of the gradient, to which the risk is solved
_REACHABLE_GRADIENT = 1e-8  # per coordinate: what floats can be solved to
_LATTICE_BITS = 32  # of the sensitivity on the grid of released parameters
_MAX_ITER = 20_000


class _ReleasedModel(PartyProcedure):
    """A linear classifier that leaves itself; of its quality nothing is known without labels."""

    kind = "model"
    _lam: float

    def details(self) -> dict[str, Any]:
        """Return the details of a model file."""
        return {
            "learner": "FactoredClassifier",
            "loss": "logistic",
            "lam": self._lam,
            "risk": None,
            "risk_low": None,
            "risk_high": None,
            "parameter_bound": None,
            "coefficient_deviations": None,
        }


class Distilled(_ReleasedModel):
    """The classifier of least risk under soft labels, or under labels of the ``majority``.

    With the logistic loss l(z) - l(-z) = -z, so that the gradient moves by half of what the mean
    operator does, and with softmax by all of it:

        soft: R/(lam M), sqrt2 R/(lam M);    majority: R/lam, sqrt2 R/lam,

    R = min(mean ||x_i||, sqrt(lambda_max(X^T X / N))). The paper has R = 1 for ||x|| <= 1, and
    twice the logistic constants (Theorems 1 and 3). With ``private`` auxiliary rows one of them may
    change too: R is the pipeline's norm bound B, and soft's constant becomes
    (N + 2M - 1)/(N lam M) B, that of the majority the same with M = 1 (the paper's factor
    (N + M - 1)/N is right for its own base only).
    """

    def __init__(self, public: Round, lam: float, *, majority: bool = False) -> None:
        if not (math.isfinite(lam) and lam > 0):
            raise ParameterError(
                "The penalty weight must be above 0: set --penalty-weight (Python: lam=...)."
            )
        if public.asked.private_auxiliary and public.auxiliary.fitted:
            raise ParameterError(FITTED_ON_ROWS)
        super().__init__(public)
        self._majority, self._lam = majority, lam
        self.statistic = "votes" if majority else "operator"
        moved = self._gradient_change(1 if majority else public.enrolled.count)
        self.certificate = max(
            _CERTIFICATE_SHARE * moved, _REACHABLE_GRADIENT * math.sqrt(public.dimension)
        )
        distance = (moved + 2 * self.certificate) / lam
        self.unit = lattice_step(distance, _LATTICE_BITS)
        two = (distance / self.unit + math.sqrt(public.dimension)) * (1 + 1e-9)
        self.noise = public.noise_within(two)

    def _gradient_change(self, parties: int) -> float:
        """Return how far one party (and one private row) moves the gradient of the risk."""
        auxiliary = self.public.auxiliary
        factor = gradient_change(len(self.public.classes))
        if not self.public.asked.private_auxiliary:
            return factor * reach(auxiliary.codes, None) * auxiliary.step / parties
        count, width = auxiliary.codes.shape
        bound = auxiliary.pipeline.norm_bound + math.sqrt(width) * auxiliary.step / 2  # on the grid
        change: float = factor * bound * (count + 2 * parties - 1) / (count * parties)
        return change

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return np.rint(self._minimiser(total) / self.unit).astype(np.int64)

    def contents(self, noisy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the parameters."""
        return {"coefficients": noisy * self.unit}, self.details()

    def row_set(self, arrays: Mapping[str, np.ndarray]) -> RowSet:
        """Return the name of the auxiliary rows; of private ones the released model's name."""
        if not self.public.asked.private_auxiliary:
            return super().row_set(arrays)
        released = arrays["coefficients"]
        content = hashlib.sha256(b"private auxiliary rows\0" + released.tobytes())
        return RowSet(self.public.auxiliary.count, "sha256:" + content.hexdigest())

    def _minimiser(self, total: np.ndarray) -> np.ndarray:
        """Return a point where the gradient's norm is certified, or raise."""
        problem = self._problem(total)
        # The solver may stop at ten times its tolerance, in every entry.
        tol = self.certificate / (20 * math.sqrt(self.public.dimension))
        theta = problem.solve(self._lam, tol=tol, max_iter=_MAX_ITER).parameters
        gradient = float(np.linalg.norm(problem.risk(theta, self._lam)[1]))
        if not gradient + _float_error(problem, theta, self._lam) <= self.certificate:
            raise OptimisationError(
                f"The solver did not reach its certificate of {self.certificate:.2g} (gradient"
                f" {gradient:.2g}, before rounding errors). Use a larger --penalty-weight"
                " (Python: lam=...)."
            )
        return theta

    def _problem(self, total: np.ndarray) -> FactoredProblem:
        """Return the risk under soft labels, or under the labels of the majority."""
        auxiliary, classes = self.public.auxiliary, len(self.public.classes)
        parties = self.public.enrolled.count
        if self._majority:
            labels = total.argmax(axis=1)  # of a tie the class that was declared first
            total, parties = auxiliary.sums(operator_weights(from_codes(labels, classes))), 1
        sums = total * (auxiliary.step / (VOTE * auxiliary.count * parties))
        return FactoredProblem(
            auxiliary.codes * auxiliary.step,
            operator=sums[0] if classes == 2 else np.ascontiguousarray(sums.T),
            loss=LOSSES["logistic"] if classes == 2 else None,
        )


def _float_error(problem: FactoredProblem, theta: np.ndarray, lam: float) -> float:
    """Return more than floats can lose of the gradient's norm (privacy/proofs/parties.md).

    X^T slopes sums N terms; a slope errs by a few units of its own, and by those of its score, a
    sum of d terms, as the slopes of both losses change by no more than the scores do.
    """
    rows, unit = problem.rows.matrix, 2.0**-52
    lengths = np.linalg.norm(rows, axis=1)
    size = float(np.linalg.norm(theta))
    few = 64 + theta.size // len(theta)
    summed = (len(rows) + few) * float(lengths.mean())
    scored = (rows.shape[1] + few) * float((lengths**2).mean()) * size
    rest = few * (float(np.linalg.norm(problem.operator)) + lam * size)
    error: float = unit * (summed + scored + rest)
    return error


class Averaged(_ReleasedModel):
    """The mean of the parties' own parameters (Pathak et al. 2010).

    Each party's are held to the ball of radius B/lam (sqrt2 B/lam for softmax), which holds every
    minimiser at penalty ``lam`` on rows of norm B; one party moves the mean by at most twice that
    over M, whatever it sends.
    """

    statistic = "parameters"

    def __init__(self, public: Round, lam: float) -> None:
        super().__init__(public)
        self._lam, classes = lam, len(public.classes)
        two = 2 * largest_parameters(public.auxiliary, classes, lam)
        self.noise = public.noise_within(two)
        step = lattice_step(parameter_radius(public.auxiliary, classes, lam))
        self.unit = step / public.enrolled.count

    def contents(self, noisy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the parameters."""
        mean = noisy * self.unit
        released = np.ascontiguousarray(mean[0] if self.public.columns == 1 else mean.T)
        return {"coefficients": released}, self.details()


def procedure_of(method: str, public: Round, lam: float) -> PartyProcedure:
    """Return the procedure of a method of the papers: soft, majority-model or average."""
    if method == "average":
        return Averaged(public, lam)
    return Distilled(public, lam, majority=method == "majority-model")
