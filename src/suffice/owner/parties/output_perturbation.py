"""A classifier of many parties that leaves itself with noise: soft, vote and average.

Hamm, Cao, Belkin (2016), Algorithms 2 and 1, and parameter averaging (Pathak et al. 2010). The risk
with penalty (lam/2) ||theta||^2 is lam-strongly convex, so that data sets whose gradients differ by
at most G everywhere have minimisers at most G/lam apart (Chaudhuri et al. 2011, Corollary 8). The
solver stops at a gradient of norm g, within g/lam of the minimiser: 2 g/lam is added.
"""

import hashlib
import math

import numpy as np

from suffice.errors import OptimisationError, ParameterError
from suffice.models.losses import LOSSES
from suffice.models.problem import FactoredProblem
from suffice.owner.operator_form import gradient_change
from suffice.owner.parties.auxiliary import VOTE
from suffice.owner.parties.contribution import parameter_radius, parameter_step
from suffice.owner.parties.gathering import largest_parameters
from suffice.owner.parties.noise import reach
from suffice.owner.parties.releases import Round
from suffice.owner.parties.votes import from_codes, operator_weights
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.noise import Sensitivity
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance

__all__ = ["Averaged", "Distilled"]

_SHARE = 5e-4  # of the largest change of the gradient, to which the risk is solved
_REACHABLE = 1e-8  # per coordinate: what floats can be solved to
_LATTICE = 2.0**-32  # of the sensitivity, rounded: the step of released parameters
_MAX_ITER = 20_000


class Distilled:
    """The classifier of least risk under soft labels ("soft") or majority labels ("vote").

    With the logistic loss l(z) - l(-z) = -z, so that the gradient moves by half of what the mean
    operator does, and with softmax by all of it:

        soft: R/(lam M), sqrt2 R/(lam M);    vote: R/lam, sqrt2 R/lam,

    R = min(mean ||x_i||, sqrt(lambda_max(X^T X / N))). The paper has R = 1 for ||x|| <= 1, and
    twice the logistic constants (Theorems 1 and 3). With ``private`` auxiliary rows one of them may
    change too: R is the pipeline's norm bound B, and soft's constant becomes
    (N + 2M - 1)/(N lam M) B, vote's the same with M = 1 (the paper's factor (N + M - 1)/N is right
    for its own base only).
    """

    def __init__(self, method: str, public: Round, lam: float, *, private: bool) -> None:
        if not (math.isfinite(lam) and lam > 0):
            raise ParameterError("lam must be a positive number.")
        if private and public.auxiliary.fitted:
            raise ParameterError(
                "the pipeline was fitted on the auxiliary rows, which shows them: give one that was"
                " declared or fitted on public rows (pipeline=..., --like FILE)."
            )
        self._method, self._public, self._lam, self._private = method, public, lam, private
        moved = self._gradient_change(1 if method == "vote" else public.enrolled.count)
        self.certificate = max(_SHARE * moved, _REACHABLE * math.sqrt(public.dimension))
        distance = (moved + 2 * self.certificate) / lam
        self._step = 2.0 ** math.ceil(math.log2(distance)) * _LATTICE
        two = (distance / self._step + math.sqrt(public.dimension)) * (1 + 1e-9)
        most = math.ceil(math.sqrt(public.dimension) * two)
        self.noise = public.noise(Sensitivity(most, two, public.dimension))

    def _gradient_change(self, parties: int) -> float:
        """Return how far one party (and one private row) moves the gradient of the risk."""
        auxiliary = self._public.auxiliary
        factor = gradient_change(len(self._public.classes))
        if not self._private:
            return factor * reach(auxiliary.codes, None) * auxiliary.step / parties
        count, width = auxiliary.codes.shape
        bound = auxiliary.pipeline.norm_bound + math.sqrt(width) * auxiliary.step / 2  # on the grid
        return factor * bound * (count + 2 * parties - 1) / (count * parties)

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on the parameters."""
        return Covariance("identity", self.noise.variance * self._step**2)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return np.rint(self._minimiser(total) / self._step).astype(np.int64)

    def draw(
        self, total: np.ndarray, guarantees: tuple[Guarantee, ...], found_at: str | None
    ) -> Release:
        """Return the model, with fresh noise."""
        released = self.noise.add(self.integers(total)) * self._step
        part = Part(self._rows(released, found_at), guarantees)
        return _model(self._public, released, self._lam, part, self.covariance())

    def _rows(self, released: np.ndarray, found_at: str | None) -> RowSet:
        """Return the name of the auxiliary rows; of private ones the released model's name."""
        if not self._private:
            return self._public.auxiliary.row_set(ordered=False, found_at=found_at)
        content = hashlib.sha256(b"private auxiliary rows\0" + released.tobytes())
        return RowSet(self._public.auxiliary.count, "sha256:" + content.hexdigest())

    def _minimiser(self, total: np.ndarray) -> np.ndarray:
        """Return a point where the gradient's norm is certified, or raise."""
        problem = self._problem(total)
        # The solver may stop at ten times its tolerance, in every entry.
        tol = self.certificate / (20 * math.sqrt(self._public.dimension))
        theta = problem.solve(self._lam, tol=tol, max_iter=_MAX_ITER).parameters
        gradient = float(np.linalg.norm(problem.risk(theta, self._lam)[1]))
        if not gradient + _float_error(problem, theta, self._lam) <= self.certificate:
            raise OptimisationError(
                f"the solver stopped at a gradient of {gradient:.2g}, short of its certificate"
                f" {self.certificate:.2g}; raise lam."
            )
        return theta

    def _problem(self, total: np.ndarray) -> FactoredProblem:
        """Return the risk under soft labels, or under the labels of the majority."""
        auxiliary, classes = self._public.auxiliary, len(self._public.classes)
        parties = self._public.enrolled.count
        if self._method == "vote":
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
    rows, unit = problem.rows, 2.0**-52
    lengths = np.linalg.norm(rows, axis=1)
    size = float(np.linalg.norm(theta))
    few = 64 + theta.size // len(theta)
    summed = (len(rows) + few) * float(lengths.mean())
    scored = (rows.shape[1] + few) * float((lengths**2).mean()) * size
    return unit * (summed + scored + few * (float(np.linalg.norm(problem.operator)) + lam * size))


class Averaged:
    """The mean of the parties' own parameters (Pathak et al. 2010).

    Each party's are held to the ball of radius B/lam (sqrt2 B/lam for softmax), which holds every
    minimiser at penalty ``lam`` on rows of norm B; one party moves the mean by at most twice that
    over M, whatever it sends.
    """

    def __init__(self, public: Round, lam: float) -> None:
        self._public, self._lam, classes = public, lam, len(public.classes)
        self._step = parameter_step(parameter_radius(public.auxiliary, classes, lam))
        two = 2 * largest_parameters(public.auxiliary, classes, lam)
        most = math.ceil(math.sqrt(public.dimension) * two)
        self.noise = public.noise(Sensitivity(most, two, public.dimension))
        self._unit = self._step / public.enrolled.count

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on the parameters."""
        return Covariance("identity", self.noise.variance * self._unit**2)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total

    def draw(
        self, total: np.ndarray, guarantees: tuple[Guarantee, ...], found_at: str | None
    ) -> Release:
        """Return the model, with fresh noise."""
        mean = self.noise.add(self.integers(total)) * self._unit
        released = np.ascontiguousarray(mean[0] if self._public.columns == 1 else mean.T)
        rows = self._public.auxiliary.row_set(ordered=False, found_at=found_at)
        part = Part(rows, guarantees)
        return _model(self._public, released, self._lam, part, self.covariance())


def _model(
    public: Round, coefficients: np.ndarray, lam: float, part: Part, noise: Covariance
) -> Release:
    """Return a model file; of its quality nothing is known without labels."""
    figures = dict.fromkeys(("risk", "risk_low", "risk_high", "parameter_bound"))
    named = {"learner": "FactoredClassifier", "loss": "logistic"}
    return Release(
        kind="model",
        arrays={"coefficients": coefficients},
        details={"classes": list(public.classes), **named, "lam": lam, **figures},
        parts=(part,),
        pipeline=public.auxiliary.pipeline,
        noise=noise,
    )
