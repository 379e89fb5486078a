"""Measurements of rivals as lines of JSON: a run goes on where another ended.

A line with a commit and a machine stands above the measurements of each run.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import commit, machine

__all__ = ["Measurement", "Store", "measure"]

_BINS = 10  # of the calibration error


@dataclass(frozen=True)
class Measurement:
    """The test figures of one model: a method with a setting, on a split, at epsilon, one draw."""

    data_set: str
    split: int
    epsilon: float
    method: str
    setting: str
    draw: int
    accuracy: float
    log_loss: float
    calibration: float

    @property
    def cell(self) -> tuple[str, float]:
        """The data set and epsilon that methods are compared at."""
        return self.data_set, self.epsilon


def measure(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return accuracy, log loss and calibration error of probabilities of class 1, or of each.

    The calibration error is that of class 1 of two, and of the likeliest class of more.
    """
    stated = np.asarray(probabilities, dtype=float)
    if stated.ndim == 1:
        stated = np.column_stack([1 - stated, stated])
    stated = np.clip(stated, 1e-12, 1 - 1e-12)
    predicted, own = stated.argmax(axis=1), stated[np.arange(len(labels)), labels]
    is_right = predicted == labels
    two = stated.shape[1] == 2
    p, happened = (stated[:, 1], labels == 1) if two else (stated.max(axis=1), is_right)
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, happened - p, minlength=_BINS)
    return {
        "accuracy": float(is_right.mean()),
        "log_loss": float(-np.log(own).mean()),
        "calibration": float(np.abs(gaps).sum() / len(p)),
    }


class Store:
    """Measurements in memory, and in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.measurements: list[Measurement] = []
        self.runs: list[dict[str, Any]] = []  # commits and machines
        self._draws: dict[tuple[str, int, float, str], int] = {}
        self._run: dict[str, Any] = {}  # this one, once it has measured something
        if path is not None and path.exists():
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.runs = [line for line in lines if "commit" in line]
            self._keep([Measurement(**line) for line in lines if "commit" not in line])

    def draws(self, data_set: str, split: int, epsilon: float, method: str) -> int:
        """Return how many draws there are; all settings of a draw are added together."""
        return self._draws.get((data_set, split, epsilon, method), 0)

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements, all of them or none."""
        added = list(measurements)
        self._keep(added)
        lines = [asdict(m) for m in added]
        if added and not self._run:
            self._run = {"commit": commit(), "machine": machine()}
            self.runs.append(self._run)
            lines.insert(0, self._run)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write("".join(json.dumps(line) + "\n" for line in lines))

    def _keep(self, added: list[Measurement]) -> None:
        self.measurements += added
        for m in added:
            key = (m.data_set, m.split, m.epsilon, m.method)
            self._draws[key] = max(self._draws.get(key, 0), m.draw + 1)
