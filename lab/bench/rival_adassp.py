"""AdaSSP: ridge regression from noisy X'X and X'y, its penalty by a noisy least eigenvalue.

Wang, "Revisiting differentially private linear regression", UAI 2018, Algorithm 2. Here for
replace-one neighbours, with three Gaussian releases that are composed exactly instead of epsilon/3
each, which is less noise. Labels are -1 and +1, rows (with their constant) have length 1 at most.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rival_gaussian import composed_multiplier, simulated_symmetric

__all__ = ["SENSITIVITIES", "LinearStatistics", "adassp"]

SENSITIVITIES = {"eigenvalue": 1.0, "products": math.sqrt(2), "operator": 2.0}
_FAILURE = 0.05  # probability with which the penalty may be too small, the paper's


@dataclass(frozen=True, eq=False)
class LinearStatistics:
    """The exact statistics of rows and signs: a draw adds noise to them and needs no row."""

    products: np.ndarray
    operator: np.ndarray
    least: float

    @classmethod
    def of(cls, rows: np.ndarray, signs: np.ndarray) -> "LinearStatistics":
        """Compute them; the last coordinate of rows is the constant."""
        products = rows.T @ rows
        return cls(products, rows.T @ signs, float(np.linalg.eigvalsh(products)[0]))


def adassp(
    exact: LinearStatistics, epsilon: float, delta: float, rng: np.random.Generator
) -> np.ndarray:
    """Return the coefficients of one draw."""
    multiplier = composed_multiplier(epsilon, delta, times=len(SENSITIVITIES))
    sigma: Mapping[str, float] = {name: multiplier * s for name, s in SENSITIVITIES.items()}
    width = len(exact.operator)
    least = exact.least + rng.normal(0, sigma["eigenvalue"])
    # The paper shifts the eigenvalue down, so that it is too large with probability rho / 2 only.
    tail = math.sqrt(2 * math.log(2 / _FAILURE))
    least = max(least - tail * sigma["eigenvalue"], 0.0)
    spread = math.sqrt(width * math.log(2 * width**2 / _FAILURE))
    penalty = max(0.0, spread * sigma["products"] - least)
    noisy = exact.products + simulated_symmetric(rng, width, sigma["products"])
    operator = exact.operator + rng.normal(0, sigma["operator"], width)
    return np.linalg.lstsq(noisy + penalty * np.eye(width), operator, rcond=None)[0]
