"""The joint attack on DP-Feat: a protected column is solved for beside the columns that are known.

Its guarantee is marginal, says so, and this is why. The attacker knows the labels and one more
measurement of each row.
"""

from collections.abc import Iterator

import numpy as np
from run import Rate

from suffice.audit.rado_attacks import joint_success


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the whole protected column of a table was recovered."""
    rng = np.random.default_rng(0)

    def people(rows: int) -> tuple[np.ndarray, np.ndarray]:
        known = rng.normal(size=rows)
        return np.column_stack([known, rng.integers(0, 2, rows)]), rng.integers(0, 2, rows)

    for found in joint_success((16, 20), (8, 12, 16), people, trials=trials, delta=0.01):
        yield Rate(
            f"{found.rows} rows, {found.count} rados",
            round(found.tables * trials),
            trials,
            f"its marginal epsilon is {found.epsilon:.1f}",
        )
