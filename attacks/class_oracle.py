"""The class oracle: a learner names the classes, and whether there is an answer tells a label.

The attacker proposes classes that leave one out: an answer existed if, and only if, nobody is of
that class. Ours knows the classes of a data set from its ledger, and refuses all others before a
label is read; whatever the labels are, the learner sees the same.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from run import Rate

from suffice.errors import SufficeError
from suffice.owner.ledger import Ledger
from suffice.owner.operator.mechanism import MeanOperator
from suffice.privacy.guarantee import Budget

_CLASSES = ("healthy", "ill", "rare")
_ROWS = 30


def _answer(rows: np.ndarray, labels: np.ndarray, ledger: Ledger | None) -> str:
    """Return what the learner sees of a request with two of the three classes."""
    operator = MeanOperator(1.0, mechanism="laplace", classes=_CLASSES[:2])
    dataset = None if ledger is None else "d"
    try:
        operator.release(rows, np.array(_CLASSES)[labels], ledger=ledger, dataset=dataset)
    except SufficeError as error:
        return f"{type(error).__name__} {error}" if ledger is not None else "refused"
    return "answered"


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the learner sees whether anybody is of the rare class."""
    rng = np.random.default_rng(0)
    old = ours = 0
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(trials):
            rows, labels = rng.normal(size=(_ROWS, 3)), rng.integers(0, 2, _ROWS)
            other = labels.copy()
            other[rng.integers(_ROWS)] = 2
            old += _answer(rows, labels, None) != _answer(rows, other, None)
            seen = []
            for side, given in (("a", labels), ("b", other)):  # a ledger each, of the same name
                (Path(folder) / f"{trial}{side}").mkdir()
                path = Path(folder) / f"{trial}{side}" / "d.ledger"
                ledger = Ledger(path, {"d": Budget(10.0)}, {"d": _CLASSES})
                seen.append(_answer(rows, given, ledger))
            ours += seen[0] != seen[1]
    yield Rate("classes of the learner (old)", old, trials, "1: a closed hole")
    yield Rate("classes of the ledger (ours)", ours, trials, "0")
