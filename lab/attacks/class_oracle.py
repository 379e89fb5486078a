"""The class oracle: a learner names the classes, and the existence of an answer reveals a label.

The attacker leaves one class out. There was an answer if, and only if, nobody had that class. Now
the ledger declares the classes of a data set, and all others are refused before a label is read.
Whatever the labels are, the learner sees the same.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from run import Rate

from suffice.errors import SufficeError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.guarantee import Budget

_CLASSES = ("healthy", "ill", "rare")
_ROWS = 30


def _answer(rows: np.ndarray, labels: np.ndarray, ledger: Ledger | None) -> str:
    """Return what the learner sees of a request with two of the three classes."""
    operator = MeanOperator(1.0, mechanism="laplace", classes=_CLASSES[:2], map=None)
    dataset = None if ledger is None else "d"
    try:
        operator.release(rows, np.array(_CLASSES)[labels], ledger=ledger, dataset=dataset)
    except SufficeError as error:
        return f"{type(error).__name__} {error}" if ledger is not None else "refused"
    return "answered"


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often the learner sees whether anybody is of the rare class."""
    rng = np.random.default_rng(0)
    old = current = 0
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(trials):
            rows, labels = rng.normal(size=(_ROWS, 3)), rng.integers(0, 2, _ROWS)
            other = labels.copy()
            other[rng.integers(_ROWS)] = 2
            old += _answer(rows, labels, None) != _answer(rows, other, None)
            answers = []
            for side, side_labels in (
                ("a", labels),
                ("b", other),
            ):  # a ledger each, of the same name
                (Path(folder) / f"{trial}{side}").mkdir()
                path = Path(folder) / f"{trial}{side}" / "d.ledger"
                ledger = Ledger(path, {"d": Budget(10.0)}, {"d": _CLASSES}, anchor="none")
                answers.append(_answer(rows, side_labels, ledger))
            current += answers[0] != answers[1]
    yield Rate("classes of the learner (old)", old, trials, "1: a closed hole")
    yield Rate("classes of the ledger (now)", current, trials, "0")
