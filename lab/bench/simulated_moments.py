"""Noise of a release of moments without a release: for benches and tests that need many draws."""

import math
from dataclasses import replace

import numpy as np

from suffice.learner.moments import MomentNumbers
from suffice.privacy.events import gaussian_multiplier
from suffice.privacy.moments import default_weights


def with_simulated_noise(
    exact: MomentNumbers, epsilon: float, delta: float, rng: np.random.Generator
) -> MomentNumbers:
    """Return exact numbers with the noise that a release of them would have."""
    multiplier, width = gaussian_multiplier(epsilon, delta), len(exact.mean)
    weights = default_weights(exact.classes, multiplier, int(exact.rows))
    deviation = multiplier * weights.sensitivity / exact.rows
    products = np.triu(rng.normal(size=(width, width)) * deviation / math.sqrt(2), 1)
    squares = rng.normal(size=width) * deviation
    # The numbers of two classes are half of what is released: e = (y + 1) / 2.
    half = 0.5 if exact.classes == 2 else 1.0
    operator_noise = half * deviation / weights.operator
    proportions_noise = half * deviation / weights.proportions
    operator = rng.normal(size=exact.operator.shape) * operator_noise
    proportions = rng.normal(size=exact.classes) * proportions_noise
    if exact.classes == 2:
        proportions[0] = -proportions[1]
    else:
        operator -= operator.mean(axis=1, keepdims=True)
        operator_noise *= math.sqrt(1 - 1 / exact.classes)
    return replace(
        exact,
        second=exact.second + products + products.T + np.diag(squares),
        mean=exact.mean + rng.normal(size=width) * deviation / weights.mean,
        operator=exact.operator + operator,
        proportions=exact.proportions + proportions,
        second_noise=deviation,
        mean_noise=deviation / weights.mean,
        operator_noise=operator_noise,
        proportions_noise=proportions_noise,
    )
