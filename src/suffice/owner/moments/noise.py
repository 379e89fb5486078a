"""Gaussian noise on all blocks of second moments together, each with a deviation of its own.

Every number is an integer. Dividing each coordinate by its own deviation gives the case of
``privacy/proofs/gaussian.md``; ``privacy/proofs/moments.md`` says how.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suffice.engines.moments import LONGEST_CODE, MomentTotals
from suffice.errors import ParameterError
from suffice.privacy import calibrate
from suffice.privacy.events import Gaussian
from suffice.privacy.moments import BlockWeights, default_weights
from suffice.privacy.noise import LARGEST_SUM, GaussianNoise, Sensitivity

__all__ = ["BlockNoise", "MomentNoise", "block_sizes", "calibrated_moments", "moments_noise"]

_TAIL_RADIUS = 14.0  # deviations: a coordinate beyond counts as a failure, 2 e^(-98)
_LEAST_SIGMA = 2.0**24  # steps of a deviation: below, integers are multiplied by a power of two


@dataclass(frozen=True)
class BlockNoise:
    """The noise of one block.

    Attributes
    ----------
    shift : int
        The block's integers are multiplied by 2^shift before noise is added.
    noise : GaussianNoise
        The noise on the multiplied integers, with the event of all blocks together.
    unit : float
        What one step of the multiplied integers is worth, in rows of length 1.
    """

    shift: int
    noise: GaussianNoise
    unit: float

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the sum, in rows of length 1."""
        return self.noise.scale * self.unit

    def add(self, exact: np.ndarray) -> np.ndarray:
        """Return a block of exact integers with fresh noise, in rows of length 1."""
        return self.noise.add(np.asarray(exact, dtype=np.int64) << self.shift) * self.unit


@dataclass(frozen=True)
class MomentNoise:
    """The noise of a release of moments, and what one record costs.

    Attributes
    ----------
    event : Gaussian
        The privacy loss of all blocks together.
    weights : BlockWeights
        The weights that the deviations follow from.
    blocks : mapping of str to BlockNoise
        The noise of the blocks ``diagonal``, ``products``, ``mean``, ``operator``, ``counts``.
    """

    event: Gaussian
    weights: BlockWeights
    blocks: Mapping[str, BlockNoise]

    def add(self, exact: MomentTotals) -> dict[str, np.ndarray]:
        """Return the sums of all blocks with fresh noise, in rows of length 1.

        The sums of products are a symmetric matrix, each product noised once.
        """
        width = len(exact.mean)
        upper = np.triu_indices(width, 1)
        second = np.diag(self.blocks["diagonal"].add(np.diagonal(exact.second)))
        if width > 1:
            second[upper] = self.blocks["products"].add(exact.second[upper])
            second.T[upper] = second[upper]
        return {
            "second": second,
            "mean": self.blocks["mean"].add(exact.mean),
            "operator": self.blocks["operator"].add(exact.operator),
            "counts": self.blocks["counts"].add(exact.counts),
        }


def block_sizes(width: int, classes: int) -> dict[str, int]:
    """Return how many numbers each block has; a block without numbers is left out."""
    columns = 1 if classes == 2 else classes
    sizes = {
        "diagonal": width,
        "products": width * (width - 1) // 2,
        "mean": width,
        "operator": columns * width,
        "counts": columns,
    }
    return {name: size for name, size in sizes.items() if size}


def _reaches(weights: BlockWeights) -> dict[str, float]:
    """Return what the weighted reach of 1 is worth in the integers of each block."""
    # The operator of three classes or more is summed K times, so that it is an integer.
    times = 1 if weights.classes == 2 else weights.classes
    return {
        "diagonal": float(LONGEST_CODE**2),
        "products": LONGEST_CODE**2 / math.sqrt(2),
        "mean": LONGEST_CODE / weights.mean,
        "operator": times * LONGEST_CODE / weights.operator,
        "counts": 1 / weights.proportions,
    }


def _units(classes: int) -> dict[str, float]:
    """Return what one integer of each block is worth, in rows of length 1."""
    times = 1 if classes == 2 else classes
    square, linear = float(LONGEST_CODE) ** -2, 1 / LONGEST_CODE
    return {
        "diagonal": square, "products": square, "mean": linear,
        "operator": linear / times, "counts": 1.0,
    }  # fmt: skip


def moments_noise(width: int, rows: int, weights: BlockWeights, multiplier: float) -> MomentNoise:
    """Return the noise of ``multiplier`` sensitivities on moments of this shape.

    Raises
    ------
    ParameterError
        If sums of so many rows would not fit into 64-bit integers.
    """
    reaches, units = _reaches(weights), _units(weights.classes)
    sizes = block_sizes(width, weights.classes)
    scale = multiplier * weights.sensitivity
    shifts = {name: _shift(scale * reaches[name]) for name in sizes}
    sigmas = {name: float(math.ceil(scale * reaches[name] * 2.0 ** shifts[name])) for name in sizes}
    reach = _TAIL_RADIUS + 1 / multiplier
    slack = sum(size * reach**2 / (24 * sigmas[name] ** 2) for name, size in sizes.items())
    tail = sum(sizes.values()) * 2 * math.exp(-(_TAIL_RADIUS**2) / 2)
    # Float rounding of scale, and of the sensitivity, is far below 1e-12.
    event = Gaussian(multiplier * (1 - 1e-12), slack, tail)
    blocks = {}
    for name, size in sizes.items():
        if rows * 2.0 ** shifts[name] / units[name] >= LARGEST_SUM:
            raise ParameterError("there are too many rows for one release; release in parts.")
        noise = GaussianNoise(Sensitivity(1, 1.0, size), event, sigmas[name])
        blocks[name] = BlockNoise(shifts[name], noise, units[name] * 2.0 ** -shifts[name])
    return MomentNoise(event, weights, blocks)


def _shift(sigma: float) -> int:
    """Return the least shift at which a deviation of ``sigma`` steps has enough of them."""
    return max(0, math.ceil(math.log2(_LEAST_SIGMA / sigma)))


def calibrated_moments(
    width: int, classes: int, rows: int, epsilon: float, delta: float
) -> MomentNoise:
    """Return the least noise on moments that costs at most ``epsilon`` at ``delta``.

    Parameters
    ----------
    width : int
        The number of coordinates of a row.
    classes : int
        The number of classes.
    rows : int
        The number of records: the weights of the blocks depend on it.
    epsilon, delta : float
        What the release may cost each record.

    Examples
    --------
    >>> noise = calibrated_moments(width=10, classes=2, rows=1000, epsilon=1.0, delta=1e-6)
    >>> noise.event.epsilon(1e-6) <= 1.0
    True
    """
    epsilon = calibrate.check_epsilon(epsilon)
    delta = calibrate.check_delta(delta, positive=True)
    multiplier = calibrate.gaussian_multiplier(epsilon, delta)
    weights = default_weights(classes, multiplier, rows)
    noise = moments_noise(width, rows, weights, multiplier)
    while noise.event.epsilon(delta) > epsilon:
        if delta <= 2 * noise.event.tail:
            raise ParameterError(f"delta must exceed {2 * noise.event.tail:.2g} in this dimension.")
        multiplier *= 1 + max(1e-10, 4 * noise.event.slack / epsilon)
        noise = moments_noise(width, rows, weights, multiplier)
    return noise
