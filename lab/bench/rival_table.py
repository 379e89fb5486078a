"""Tables of what was measured of rivals: means, and ours less the best rival, cell by cell.

A cell is a data set at an epsilon. Of a method with several settings the one of the best mean in
the cell is taken, with a look at the test labels. Differences are paired: draws are averaged within
a split, and the standard error is that of the mean over splits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np
from rival_store import Measurement

__all__ = ["Cells", "Difference"]

_SIGN = {"accuracy": 1.0, "log_loss": -1.0, "calibration": -1.0}


@dataclass(frozen=True)
class Difference:
    """Ours less the best rival in one cell."""

    cell: tuple[str, float]
    rival: str
    setting: str
    own_mean: float
    rival_mean: float
    difference: float
    error: float

    def line(self) -> str:
        """Return a row of a table."""
        name, epsilon = self.cell
        rival = f"{self.rival} ({self.setting})" if self.setting else self.rival
        return (
            f"| {name} | {epsilon:g} | {self.own_mean:.4f} | {self.rival_mean:.4f} |"
            f" {self.difference:+.4f} ± {self.error:.4f} | {rival} |"
        )


class Cells:
    """Measurements by cell, method and setting."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self._groups: dict[tuple[tuple[str, float], str], dict[str, list[Measurement]]] = {}
        for m in measurements:
            group = self._groups.setdefault((m.cell, m.method), {})
            group.setdefault(m.setting, []).append(m)

    @property
    def cells(self) -> list[tuple[str, float]]:
        """All cells, in the order of measurement by data set, then by epsilon."""
        names = list(dict.fromkeys(cell[0] for cell, _ in self._groups))
        return sorted({cell for cell, _ in self._groups}, key=lambda c: (names.index(c[0]), c[1]))

    def _by_split(
        self, cell: tuple[str, float], method: str, setting: str, figure: str
    ) -> dict[int, np.ndarray]:
        values: dict[int, list[float]] = {}
        for m in self._groups[cell, method][setting]:
            values.setdefault(m.split, []).append(getattr(m, figure))
        return {split: np.array(of_split) for split, of_split in values.items()}

    def best(
        self, cell: tuple[str, float], method: str, figure: str = "accuracy"
    ) -> tuple[float, str] | None:
        """Return the best mean of a method in a cell and its setting; None if it was not run."""
        settings = self._groups.get((cell, method))
        if not settings:
            return None
        means = {
            setting: mean(v.mean() for v in self._by_split(cell, method, setting, figure).values())
            for setting in settings
        }
        setting = max(means, key=lambda name: _SIGN[figure] * means[name])
        return means[setting], setting

    def value(
        self, cell: tuple[str, float], method: str, figure: str = "accuracy"
    ) -> tuple[float, float] | None:
        """Return the best mean of a method in a cell, and its standard error over splits."""
        best = self.best(cell, method, figure)
        if best is None:
            return None
        return best[0], _error(list(self._by_split(cell, method, best[1], figure).values()))

    def difference(
        self,
        cell: tuple[str, float],
        own_method: str,
        rivals: Sequence[str],
        figure: str = "accuracy",
    ) -> Difference | None:
        """Return ours less the best of ``rivals``; None where one of both sides was not run."""
        own = self.best(cell, own_method, figure)
        others = [(best, r) for r in rivals if (best := self.best(cell, r, figure)) is not None]
        if own is None or not others:
            return None
        (theirs, setting), rival = max(others, key=lambda pair: _SIGN[figure] * pair[0][0])
        left = self._by_split(cell, own_method, own[1], figure)
        right = self._by_split(cell, rival, setting, figure)
        both = sorted(set(left) & set(right))
        if not both:
            return None
        gaps = [left[s].mean() - right[s].mean() for s in both]
        if len(both) > 1:
            error = float(np.std(gaps, ddof=1) / len(both) ** 0.5)
        else:
            error = float(np.hypot(_error([left[both[0]]]), _error([right[both[0]]])))
        return Difference(cell, rival, setting, own[0], theirs, float(np.mean(gaps)), error)

    def print_means(self, methods: Sequence[str], figure: str = "accuracy") -> None:
        """Print one row per cell, one column per method."""
        columns = [m for m in methods if any(self.best(c, m) for c in self.cells)]
        if not columns:
            return
        print(f"\n{figure.replace('_', ' ')}, mean ± standard error over splits\n")
        print(f"| set | epsilon | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 2)}")
        for cell in self.cells:
            values = [self.value(cell, method, figure) for method in columns]
            texts = ["" if v is None else f"{v[0]:.3f} ± {v[1]:.3f}" for v in values]
            print(f"| {cell[0]} | {cell[1]:g} | {' | '.join(texts)} |")

    def print_summary(
        self, titles: Mapping[str, str], epsilons: Sequence[float] = (0.1, 0.3, 1.0)
    ) -> None:
        """Print one row per method, by its title, and one column per data set."""
        names = list(dict.fromkeys(name for name, _ in self.cells))
        epsilons = [e for e in epsilons if any(e == cell[1] for cell in self.cells)]
        texts = " / ".join(f"{epsilon:g}" for epsilon in epsilons)
        print(f"\naccuracy at epsilon {texts}\n")
        print(f"| method | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
        errors = []
        for method, title in titles.items():
            rows = [[self.value((name, e), method) for e in epsilons] for name in names]
            if not any(value for row in rows for value in row):
                continue
            errors += [value[1] for row in rows for value in row if value]
            cells = (" / ".join(f"{v[0]:.3f}" if v else "-" for v in row) for row in rows)
            print(f"| {title} | {' | '.join(cells)} |")
        if errors:
            print(f"\nstandard errors: median {np.median(errors):.3f}, at most {max(errors):.3f}")

    def print_differences(
        self, own_method: str, rivals: Sequence[str], figure: str = "accuracy"
    ) -> list[Difference]:
        """Print and return ours less the best rival in each cell that has both."""
        every = (self.difference(cell, own_method, rivals, figure) for cell in self.cells)
        differences = [difference for difference in every if difference is not None]
        if differences:
            print(
                f"\n{own_method} less the best of {', '.join(rivals)}: {figure.replace('_', ' ')}\n"
            )
            print("| set | epsilon | ours | rival | difference | best rival, in hindsight |")
            print("|---|---|---|---|---|---|")
            for difference in differences:
                print(difference.line())
        return differences


def _error(values: list[np.ndarray]) -> float:
    """Return the standard error of a mean over splits, or over the draws of a single one."""
    means = np.array([v.mean() for v in values]) if len(values) > 1 else values[0]
    return float(np.std(means, ddof=1) / len(means) ** 0.5) if len(means) > 1 else 0.0
