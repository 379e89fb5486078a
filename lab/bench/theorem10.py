"""How often Theorem 10 of Patrini et al. 2016 holds at delta = .05: as printed, and corrected.

`python lab/bench/theorem10.py` prints the table of docs/errata.md. No claim about speed.
"""

import numpy as np

DELTA, DRAWS, BLOCKS = 0.05, 10_000, 10


def coverage(dimension: int, radius: float) -> float:
    """Return how often the norm of Laplace noise of scale one stays below ``radius``."""
    rng = np.random.default_rng(dimension)
    inside = [
        np.mean(np.linalg.norm(rng.laplace(size=(DRAWS, dimension)), axis=1) <= radius)
        for _ in range(BLOCKS)
    ]
    return float(np.mean(inside))


def main() -> None:
    from suffice.learner.intervals import noise_norm
    from suffice.releases.release import Covariance

    print("| d | printed: log(d/delta) | exact quantile |\n|---|---|---|")
    for dimension in (5, 20, 100):
        printed = np.log(dimension / DELTA)
        exact = noise_norm(Covariance("identity", 2.0), "laplace", (dimension,), DELTA)
        shares = (coverage(dimension, radius) for radius in (printed, exact))
        print(f"| {dimension} | {' | '.join(f'{share:.3f}' for share in shares)} |")


if __name__ == "__main__":
    main()
