"""The joint attack on DP-Feat: whoever knows other columns can solve for the protected one.

This is why its guarantee is marginal. The attacker knows the labels and one more
measurement of each row.
"""

from collections.abc import Iterator

import numpy as np
from rado_attacks import joint_success
from run import Rate


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the whole protected column of a table was recovered."""
    rng = np.random.default_rng(0)

    def people(rows: int) -> tuple[np.ndarray, np.ndarray]:
        measurement = rng.normal(size=rows)
        return np.column_stack([measurement, rng.integers(0, 2, rows)]), rng.integers(0, 2, rows)

    for success in joint_success((16, 20), (8, 12, 16), people, trials=trials, delta=0.01):
        yield Rate(
            f"{success.rows} rows, {success.count} rados",
            round(success.tables * trials),
            trials,
            f"its marginal epsilon is {success.epsilon:.1f}",
        )
