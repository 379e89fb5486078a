"""Measurements of rivals as lines of JSON: a run goes on where another ended."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

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
    """Return accuracy, log loss and calibration error of probabilities of class 1."""
    p = np.clip(np.asarray(probabilities, dtype=float), 1e-12, 1 - 1e-12)
    bins = np.minimum((p * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, labels - p, minlength=_BINS)
    return {
        "accuracy": float(((p > 0.5) == labels).mean()),
        "log_loss": float(-np.where(labels == 1, np.log(p), np.log1p(-p)).mean()),
        "calibration": float(np.abs(gaps).sum() / len(p)),
    }


class Store:
    """Measurements in memory, and in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.measurements: list[Measurement] = []
        self._draws: dict[tuple[str, int, float, str], int] = {}
        if path is not None and path.exists():
            lines = path.read_text().splitlines()
            self._keep([Measurement(**json.loads(line)) for line in lines])

    def draws(self, data_set: str, split: int, epsilon: float, method: str) -> int:
        """Return how many draws there are; all settings of a draw are added together."""
        return self._draws.get((data_set, split, epsilon, method), 0)

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements, all of them or none."""
        added = list(measurements)
        self._keep(added)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write("".join(json.dumps(asdict(m)) + "\n" for m in added))

    def _keep(self, added: list[Measurement]) -> None:
        self.measurements += added
        for m in added:
            key = (m.data_set, m.split, m.epsilon, m.method)
            self._draws[key] = max(self._draws.get(key, 0), m.draw + 1)
