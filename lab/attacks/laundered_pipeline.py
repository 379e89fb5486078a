"""The laundered pipeline: scales of private rows, used again by a release that is called private.

The owner publishes unprotected rados that show the scales of private rows, and then private ones
that use these scales again. The attacker knows all records but one, of which there are two
candidates. The old code forgot where scales came from; the current code knows it and refuses.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from run import Rate

from suffice.errors import UnprotectedError
from suffice.owner.rados import Rados
from suffice.releases.release import Release
from suffice.tables.pipeline import DECLARED, Pipeline

_ROWS = 60


def _scales(rows: np.ndarray, labels: np.ndarray) -> Pipeline:
    unprotected = Rados(count=8, standardize="rows", clip=0.9)
    return unprotected.release(rows, labels, ledger=None, unprotected=True).pipeline


def _released(rows: np.ndarray, labels: np.ndarray, pipeline: Pipeline) -> Release | None:
    rados = Rados(count=8, epsilon=1.0, delta=1e-6, unit="record", pipeline=pipeline)
    try:
        return rados.release(rows, labels, ledger=None)
    except UnprotectedError:
        return None


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often a release that was called private reveals the right candidate."""
    rng = np.random.default_rng(0)
    old = current = 0
    for _ in range(trials):
        rows, labels = rng.normal(size=(2, _ROWS, 3)), rng.integers(0, 2, _ROWS)
        rows[1, 1:] = rows[0, 1:]  # two candidates for the first record
        truth = int(rng.integers(2))
        scales = [_scales(candidate, labels) for candidate in rows]
        forgotten = replace(scales[truth], origin=DECLARED)  # as in the old code
        release = _released(rows[truth], labels, forgotten)
        guesses = [
            k for k in (0, 1) if release and release.pipeline.mean.tobytes() == _mean(scales[k])
        ]
        old += guesses == [truth]
        current += _released(rows[truth], labels, scales[truth]) is not None
    yield Rate("origin forgotten (old): the record is revealed", old, trials, "1: a closed hole")
    yield Rate("origin inherited (now): a release is made", current, trials, "0")


def _mean(pipeline: Pipeline) -> bytes:
    return pipeline.mean.tobytes()
