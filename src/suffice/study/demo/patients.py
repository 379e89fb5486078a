"""The patients of the service's demo: one invented table with two private label columns."""

import numpy as np
import pyarrow as pa

__all__ = ["PATIENT_COLUMNS", "invented_patients"]

PATIENT_COLUMNS = ("age", "size", "nodes", "stage")  # the public ones
_PATIENTS = 600
_SICK, _BACK = (0.03, 0.6, 0.5, 0.4), (0.01, 0.3, 0.2, 0.9)  # log-odds of one more of each column


def invented_patients(seed: int = 0) -> pa.Table:
    """Return 600 patients whom nobody ever met; the same seed gives the same patients.

    Columns are age, size, nodes and stage, and the labels diagnosis and relapse (0 or 1). Labels
    follow a logistic model of the centred columns, so a learner finds something.

    Parameters
    ----------
    seed
        Seed of the random numbers.

    Examples
    --------
    >>> invented_patients().column_names
    ['age', 'size', 'nodes', 'stage', 'diagnosis', 'relapse']
    """
    rng = np.random.default_rng(seed)
    columns = np.column_stack(
        [
            rng.integers(25, 90, _PATIENTS),
            rng.lognormal(0.7, 0.5, _PATIENTS).round(2),
            rng.poisson(2.0, _PATIENTS),
            rng.integers(1, 5, _PATIENTS),
        ]
    )
    table = pa.table(dict(zip(PATIENT_COLUMNS, columns.T, strict=True)))
    for name, weights in (("diagnosis", _SICK), ("relapse", _BACK)):
        odds = (columns - columns.mean(axis=0)) @ np.array(weights)
        labels = (rng.random(_PATIENTS) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        table = table.append_column(name, pa.array(labels))
    return table
