"""Replaying a ledger: the same request, other names for it, an old copy of the file.

The attacker wants the noise averaged away. All must fail but one: an old copy of the ledger
together with its anchor. A checkpoint in other hands notices that each time.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from run import Rate

from suffice.errors import BudgetError, LedgerError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Checkpoint
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.guarantee import Budget
from suffice.releases.release import encode
from suffice.releases.signing import generate_keys

_AFFORDABLE = 2
_ROWS = np.random.default_rng(0).normal(size=(50, 3))
_LABELS = (_ROWS[:, 0] > 0).astype(int)


def _ask(path: Path, request: str | None = None) -> bytes | None:
    mechanism = MeanOperator(1.0, mechanism="laplace", map=None)
    try:
        release = mechanism.release(
            _ROWS, _LABELS, ledger=Ledger(path), dataset="d", request=request
        )
    except (BudgetError, LedgerError):
        return None
    return encode(release)


def rates(trials: int) -> Iterator[Rate]:
    """Yield how many new draws of noise exceed what the budget allows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.ledger"
        Ledger(path, {"d": Budget(float(_AFFORDABLE))}, anchor=path.with_suffix(".anchor"))
        answers = {_ask(path) for _ in range(trials)}
        yield Rate("the same request again: a second draw", len(answers) - 1, trials, "0")
        many = {_ask(path, f"request {k}") for k in range(trials)} - {None}
        beyond = len(answers | many) - _AFFORDABLE
        yield Rate("other names: draws beyond the budget", beyond, trials, "0")
        fresh, anchor = Path(folder) / "b.ledger", Path(folder) / "b.anchor"
        Ledger(fresh, {"d": Budget(float(_AFFORDABLE))}, anchor=anchor)
        copy = shutil.copy(fresh, Path(folder) / "copy")
        copied_anchor = shutil.copy(anchor, Path(folder) / "copy.anchor")
        first, again, draws, unnoticed = _ask(fresh), set(), set(), 0
        key, _ = generate_keys(Path(folder) / "officer")
        for _ in range(trials):
            shutil.copy(copy, fresh)
            again.add(_ask(fresh))
        yield Rate("an old copy restored: a new draw", len(again - {first, None}), trials, "0")
        for _ in range(trials):
            shutil.copy(copy, fresh)
            shutil.copy(copied_anchor, anchor)
            draws.add(_ask(fresh))
            checkpoint = Ledger(fresh).checkpoint(key)
            shutil.copy(copy, fresh)
            shutil.copy(copied_anchor, anchor)
            _ask(fresh)
            unnoticed += _continues(fresh, checkpoint)
        with_anchor = "the same with its anchor: a new draw"
        yield Rate(with_anchor, len(draws - {None}), trials, "1: a known hole")
        yield Rate("the same, and the checkpoint does not notice", unnoticed, trials, "0")


def _continues(path: Path, checkpoint: Checkpoint) -> bool:
    try:
        Ledger(path).verify(checkpoint)
    except LedgerError:
        return False
    return True
