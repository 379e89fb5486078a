"""How far one party can move a sum over parties, and the noise that hides it."""

import math

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.operator.form import label_change, operator_columns
from suffice.owner.operator.shaping import MOST_SHAPED, Shape, whitening
from suffice.owner.parties.auxiliary import VOTE
from suffice.privacy.noise import GaussianNoise, KNormNoise, Noise, Sensitivity

__all__ = [
    "mechanism_name",
    "operator_sensitivity",
    "party_noise",
    "reach",
    "whitened_shape",
]

_MOST_KNORM = 100_000  # numbers: each is drawn to hundreds of bits, which takes minutes by then
_FLOOR = 2.0**-20  # of the largest variance: directions with less are whitened to this only


def reach(codes: np.ndarray, shape: Shape | None) -> float:
    """Return R with ||sum_i z_i w_i^T||_F <= N R whenever every ||w_i|| <= 1, z = A x / 2^bits.

    R = min(mean ||z_i||, sqrt(lambda_max(Z^T Z / N))), rounded up by more than floats can lose
    (privacy/proofs/parties.md). Without a shape z = x.
    """
    count, width = codes.shape
    unit, slack = 2.0**-50, 0.0
    rows = codes
    if shape is not None:
        rows = codes @ (shape.matrix / 2.0**shape.bits).T
        size = float(np.linalg.norm(codes)) * float(np.linalg.norm(shape.matrix / 2.0**shape.bits))
        slack = (width + 4) * unit * size / math.sqrt(count)  # of Z, per root of N, 2-norm
    squares = np.einsum("ij,ij->i", rows, rows)
    more = (count + width + 64) * unit
    mean = float(np.sqrt(squares).mean()) * (1 + more)
    energy = float(squares.sum()) / count
    largest = float(np.linalg.eigvalsh(rows.T @ rows / count)[-1]) + more * energy
    bound: float = (min(mean, math.sqrt(largest)) + slack) * (1 + 64 * unit)
    return bound


def party_noise(mechanism: str, sensitivity: Sensitivity, epsilon: float, delta: float) -> Noise:
    """Return the noise of a mechanism, "auto": Gaussian where delta allows it."""
    if mechanism == "auto":
        mechanism = "gaussian" if delta > 0 else "knorm"
    if mechanism == "gaussian":
        return GaussianNoise.calibrated(sensitivity, epsilon, delta)
    if mechanism == "knorm":
        if sensitivity.dimension > _MOST_KNORM:
            raise ParameterError(
                "This release has too many numbers for K-norm noise. Set a --delta above 0 to use"
                " Gaussian noise."
            )
        return KNormNoise.calibrated(sensitivity, epsilon)
    raise ParameterError("mechanism must be one of auto, gaussian, knorm.")


def whitened_shape(codes: np.ndarray) -> Shape | None:
    """Return the shape of noise that is even in whitened coordinates, T = (S + floor I)^(-1/2).

    Votes can move the operator by (1/M) sqrt(lambda_max(T S T)) times a constant, so that among all
    T with the eigenvectors of S this one has the least noise in *every* direction: noise variance
    1/g_j along an eigenvector costs max_j s_j g_j, which g_j = 1/s_j makes one for all. Even noise
    has the variance of the largest s_j everywhere. None where there are too many coordinates.
    """
    if codes.shape[1] > MOST_SHAPED:
        return None
    values, vectors = np.linalg.eigh(codes.T @ codes / len(codes))
    return Shape.of(whitening(np.maximum(values, 0.0), vectors, _FLOOR * float(values[-1]), 1.0))


def operator_sensitivity(codes: np.ndarray, shape: Shape | None, classes: int) -> Sensitivity:
    """Return how far one party moves the (shaped) integer sum of operators, for any votes.

    2 VOTE N R for two classes, sqrt(2) VOTE N R for more, R = `reach`; where there is a shape, one
    step per coordinate more for its rounding (privacy/proofs/parties.md).
    """
    dimension = codes.shape[1] * operator_columns(classes)
    two = label_change(classes) * VOTE * len(codes) * reach(codes, shape)
    two += 0.0 if shape is None else math.sqrt(dimension)
    return Sensitivity(math.ceil(math.sqrt(dimension) * two), two, dimension)


def mechanism_name(noise: Noise) -> str:
    """Return the name of the mechanism behind some noise."""
    return "gaussian" if isinstance(noise, GaussianNoise) else "knorm"
