"""Swapping releases in transit: changed bytes, other people's files, other files of the owner.

The attacker stands between owner and learner. `load` and `verify` must refuse the first two, and
rows that do not belong to a release are refused by whoever fits it. A signature says who, not
which: another release of the same owner, of the same rows, passes.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from run import Rate

from suffice.errors import SufficeError
from suffice.learner.operator import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.codec import decode
from suffice.releases.release import Release, encode
from suffice.releases.signing import generate_keys, sign, verify

_RNG = np.random.default_rng(0)
_ROWS, _OTHERS = _RNG.normal(size=(2, 60, 3))
_LABELS = (_ROWS[:, 0] > 0).astype(int)


def _release(rows: np.ndarray, labels: np.ndarray) -> Release:
    return MeanOperator(1.0, mechanism="laplace", map=None).release(rows, labels, ledger=None)


def _accepted(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except SufficeError:
        return False
    return True


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the learner accepts what the attacker sent."""
    with tempfile.TemporaryDirectory() as folder:
        key, public = generate_keys(Path(folder) / "owner")
        stranger, _ = generate_keys(Path(folder) / "stranger")
        data = encode(sign(_release(_ROWS, _LABELS), key))

        def changed() -> None:
            copy = bytearray(data)
            copy[_RNG.integers(len(copy))] ^= 1 << int(_RNG.integers(8))
            verify(decode(bytes(copy)), public)

        accepted = sum(_accepted(changed) for _ in range(trials))
        yield Rate("one bit changed", accepted, trials, "0")
        few = min(trials, 20)
        forged = [_release(_ROWS, 1 - _LABELS) for _ in range(few)]
        accepted = sum(_accepted(lambda r=r: verify(r, public)) for r in forged)
        yield Rate("somebody else's release, unsigned", accepted, few, "0")
        accepted = sum(_accepted(lambda r=r: verify(sign(r, stranger), public)) for r in forged)
        yield Rate("somebody else's release, signed by them", accepted, few, "0")

        def other_rows() -> None:
            release = sign(_release(_OTHERS, _LABELS), key)
            verify(release, public)
            FactoredClassifier().fit_release(release, _ROWS)

        accepted = sum(_accepted(other_rows) for _ in range(few))
        yield Rate("the owner's release of other rows", accepted, few, "0")

        def older() -> None:
            release = sign(_release(_ROWS, 1 - _LABELS), key)
            verify(release, public)
            FactoredClassifier().fit_release(release, _ROWS)

        accepted = sum(_accepted(older) for _ in range(few))
        yield Rate("the owner's release of other labels", accepted, few, "1: a known hole")
