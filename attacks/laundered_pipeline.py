"""The laundered pipeline: scales of private rows, used again by a release that is called private.

The owner publishes rados that show the scales of private rows, said aloud, and then others per
record, scaled "like that file". The attacker knows all records but one, of which there are two
candidates. The old way forgot where scales came from; ours inherits it, and refuses.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from run import Rate

from suffice.errors import UnprotectedError
from suffice.owner.rados.mechanism import Rados
from suffice.release.artifact import Release
from suffice.tables.pipeline import Pipeline
from suffice.tables.provenance import DECLARED

_ROWS = 60


def _scales(rows: np.ndarray, labels: np.ndarray) -> Pipeline:
    plain = Rados(count=8, standardize="rows", clip=0.9)
    return plain.release(rows, labels, ledger=None, unprotected=True).pipeline


def _released(rows: np.ndarray, labels: np.ndarray, pipeline: Pipeline) -> Release | None:
    rados = Rados(count=8, epsilon=1.0, delta=1e-6, unit="record", pipeline=pipeline)
    try:
        return rados.release(rows, labels, ledger=None)
    except UnprotectedError:
        return None


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the right candidate is told by a release that was called private."""
    rng = np.random.default_rng(0)
    old = ours = 0
    for _ in range(trials):
        rows, labels = rng.normal(size=(2, _ROWS, 3)), rng.integers(0, 2, _ROWS)
        rows[1, 1:] = rows[0, 1:]  # two candidates for the first record
        truth = int(rng.integers(2))
        scales = [_scales(candidate, labels) for candidate in rows]
        forgotten = replace(scales[truth], origin=DECLARED)  # what the old way made of it
        seen = _released(rows[truth], labels, forgotten)
        guesses = [k for k in (0, 1) if seen and seen.pipeline.mean.tobytes() == _mean(scales[k])]
        old += guesses == [truth]
        ours += _released(rows[truth], labels, scales[truth]) is not None
    yield Rate("origin forgotten (old): the record is told", old, trials, "1: a closed hole")
    yield Rate("origin inherited (ours): a release leaves", ours, trials, "0")


def _mean(pipeline: Pipeline) -> bytes:
    return pipeline.mean.tobytes()
