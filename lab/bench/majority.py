"""Few rows, much noise: against the larger class, before and now, and whether risk intervals cover.

    python lab/bench/majority.py --data DIR [--parts small,large] [--releases 40] [--runs 1]
        [--delta 0]

Small: the owner releases each whole table, and the accuracy is that on its labels. Loss and gain
are means over releases of max(0, larger - accuracy) and of max(0, accuracy - larger), then over
tables and epsilons, in points; larger is the accuracy of always predicting the larger class.
Held out: the same of releases of three quarters of a table, on the last quarter, split anew for
each release; larger is then the larger class of the three quarters.
Coverage: a risk interval should hold the risk on fresh labels. So labels are drawn from a logistic
regression on the exact ones, once for each release; the risk is their expectation. Large: the
accuracy on held-out rows, in points, of the same releases. Before: even noise for the intercept, a
projection alone, and the risk of a model that follows all of the noise.

Standard errors are over releases. With --store FILE every release is kept as one line of JSON, and
none is measured twice. --sets takes other tables too; those of OTHER were never used to choose
anything but where docs/learner.md says so.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import claim
from sklearn.linear_model import LogisticRegression

from suffice.learner.intervals import Evidence, interval
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.owner.mean_operator import Candidates, MeanOperator, choose
from suffice.owner.source import PublicSource
from suffice.papers.reproduction import split
from suffice.releases.release import Release

SMALL = ("haberman", "breast", "wine-red", "transfusion", "sonar", "ionosphere", "adult-2%")
LARGE = {"spambase": 0, "magic": 0, "adult": 10_000, "mnist-7v9": 6_000}  # at most so many rows
EPSILONS = (0.05, 0.1, 0.3)
_RARE_ROWS, _RARE = 5_000, 0.02
_HELD = 0.25


def whole_table(name: str, folder: Path) -> tuple[pa.Table, np.ndarray]:
    """Return all rows of a small table; of adult 5,000 rows, 2 % of them positive.

    A name with a number behind a colon, for example magic:500, is that many rows of a large one.
    """
    name, _, count = name.partition(":")
    if name != "adult-2%":
        rows, labels = split(name, 0, folder).all_rows
        return (rows.slice(0, int(count)), labels[: int(count)]) if count else (rows, labels)
    rows, labels = split("adult", 0, folder).all_rows
    positive = round(_RARE * _RARE_ROWS)
    taken = [
        np.flatnonzero(labels == label)[:count]
        for label, count in ((0, _RARE_ROWS - positive), (1, positive))
    ]
    taken = np.random.default_rng(0).permutation(np.concatenate(taken))
    return rows.take(taken), labels[taken]


class Table:
    """One table of public rows, and how a release of it is made and learnt from."""

    def __init__(self, rows: pa.Table, labels: np.ndarray, delta: float) -> None:
        self.rows, self.labels, self.delta = rows, labels, delta
        self.public = MeanOperator(1.0, missing="mean", map=None).public(PublicSource(rows))
        self.matrix = self.design(rows)

    def design(self, rows: pa.Table) -> np.ndarray:
        """Return rows in the coordinates of a model."""
        return design_matrix(rows, self.public.rows.pipeline, new=True)

    @cached_property
    def chance(self) -> np.ndarray:
        """How likely each row is positive, by a logistic regression on the exact labels."""
        teacher = LogisticRegression(C=1.0, max_iter=1000)
        return teacher.fit(self.matrix, self.labels).predict_proba(self.matrix)[:, 1]

    def parted(self, seed: int) -> tuple["Table", pa.Table, np.ndarray]:
        """Return three quarters of the rows, and the last quarter with its labels."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        held, rest = np.split(order, [round(_HELD * len(order))])
        part = Table(self.rows.take(rest), self.labels[rest], self.delta)
        return part, self.rows.take(held), self.labels[held]

    def release(self, labels: np.ndarray, epsilon: float, *, before: bool) -> Release:
        """Return a fresh release, with the same noise for every coordinate as before."""
        mechanism = "auto"
        if before:
            every = Candidates(self.public.rows, 2).every("auto", epsilon, self.delta)
            mechanism = choose(every).mechanism
        owner = MeanOperator(epsilon, self.delta, mechanism=mechanism, missing="mean", map=None)
        return owner.release(self.rows, labels, ledger=None)

    def learner(self, release: Release, *, before: bool) -> FactoredClassifier:
        """Return the model of a release."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = FactoredClassifier(denoise=not before)
            return learner.fit_release(release, self.rows)

    def lead(
        self, epsilon: float, *, before: bool, rows: np.ndarray, labels: np.ndarray
    ) -> tuple[float, bool]:
        """Return the accuracy above the larger class's on ``rows``, in points; is it a constant."""
        release = self.release(self.labels, epsilon, before=before)
        learner = self.learner(release, before=before)
        right = float(((rows @ learner.theta_ > 0) == labels).mean())
        larger = float((labels == (self.labels.mean() > 0.5)).mean())
        return 100 * (right - larger), learner.intercept_only_

    def covers(self, epsilon: float, rng: np.random.Generator, *, before: bool) -> bool:
        """Return whether the interval holds the risk on fresh labels."""
        labels = (rng.random(len(self.chance)) < self.chance).astype(int)
        learner = self.learner(self.release(labels, epsilon, before=before), before=before)
        kept = learner._fitted_evidence  # noqa: SLF001  # its risk as it was computed before
        plain = Evidence(kept.problems, kept.models, kept.lam, kept.noise)
        low, high = interval(*plain.risk[:2], 0.95) if before else learner.risk_interval_
        scores = self.matrix @ learner.theta_
        risk = np.logaddexp(0, scores) - self.chance * scores
        return bool(low <= risk.mean() <= high)

    def measured(self, epsilon: float, release: int, *, before: bool) -> dict:
        """Return the figures of one release."""
        whole, constant = self.lead(epsilon, before=before, rows=self.matrix, labels=self.labels)
        part, rows, labels = self.parted(release)
        held, _ = part.lead(epsilon, before=before, rows=part.design(rows), labels=labels)
        covered = self.covers(epsilon, np.random.default_rng(release), before=before)
        return {"lead": whole, "held": held, "covered": covered, "constant": bool(constant)}


class Store:
    """Figures of releases by what they are of, kept in a file of JSON lines if one is named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self._figures = {json.dumps(key): figures for key, figures in map(json.loads, lines)}

    def get(self, key: list) -> dict | None:
        """Return the figures that were kept."""
        return self._figures.get(json.dumps(key))

    def keep(self, key: list, figures: dict) -> dict:
        """Keep figures, and return them."""
        self._figures[json.dumps(key)] = figures
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps([key, figures]) + "\n")
        return figures


def summary(lines: list[dict]) -> np.ndarray:
    """Return loss, gain, both on held-out rows, and coverage: means, and standard errors."""
    leads, held = (np.array([line[name] for line in lines]) for name in ("lead", "held"))
    covered = np.array([line["covered"] for line in lines], dtype=float)
    columns = [np.maximum(-leads, 0), np.maximum(leads, 0)]
    columns += [np.maximum(-held, 0), np.maximum(held, 0), covered]
    means = [column.mean() for column in columns]
    return np.array(
        [means, [c.std(ddof=1) / np.sqrt(len(c)) if len(c) > 1 else 0 for c in columns]]
    )


def sentence(figures: np.ndarray) -> str:
    """Return a summary in words."""
    words = ("lost {}, gained {}", "held out lost {}, gained {}", "covered {}")
    numbers = [f"{mean:.2f} ({error:.2f})" for mean, error in figures.T]
    return "; ".join(words).format(*numbers)


def together(cells: list[np.ndarray]) -> np.ndarray:
    """Return the mean over cells, with the standard error of that mean."""
    stacked = np.array(cells)
    errors = np.sqrt((stacked[:, 1] ** 2).sum(axis=0)) / len(stacked)
    return np.array([stacked[:, 0].mean(axis=0), errors])


def small(asked: argparse.Namespace) -> list[dict]:
    """Print loss, gain and coverage of each table at each epsilon."""
    store, cells = Store(asked.store), {}
    versions = (True, False) if asked.before else (False,)
    for name in asked.sets.split(","):
        table = Table(*whole_table(name, asked.data), asked.delta)
        for epsilon in EPSILONS:
            for before in versions:
                lines = []
                for i in range(asked.releases * asked.runs):
                    key = [name, epsilon, asked.delta, before, i]
                    figures = store.get(key)
                    if figures is None:
                        figures = store.keep(key, table.measured(epsilon, i, before=before))
                    lines.append(figures)
                for run in range(asked.runs):
                    part = lines[run * asked.releases : (run + 1) * asked.releases]
                    cells.setdefault((before, run), []).append(summary(part))
                constants = np.mean([line["constant"] for line in lines])
                print(
                    f"{name} {epsilon:g} ({len(table.labels) * epsilon:.0f})",
                    "before:" if before else "now:",
                    f"{sentence(summary(lines))}; constant {constants:.2f}",
                    flush=True,
                )
    for (before, run), found in cells.items():
        print("before" if before else "now", f"run {run + 1}:", sentence(together(found)))
    claims = []
    for run in range(asked.runs):
        (lost, gained, _, _, covered), _ = together(cells[False, run])
        label = f" on small tables, run {run + 1}"
        claims += [
            claim("points lost against the larger class" + label, float(lost), 0.6),
            claim("2.0 less the points gained" + label, 2.0 - float(gained), 0.0),
            claim("risk intervals that do not cover" + label, 1 - float(covered), 0.07),
        ]
    return claims


def large(asked: argparse.Namespace) -> list[dict]:
    """Print how many points of accuracy are lost against before, on held-out rows."""
    claims = []
    for name in asked.large.split(","):
        most = LARGE[name]
        data = split(name, 0, asked.data)
        rows, labels = data.rows.slice(0, most or None), data.labels[: most or None]
        table = Table(rows, labels, asked.delta)
        new_rows = table.design(data.test_rows)
        for epsilon, limit in ((0.1, 1.0), (0.3, 0.3), (1.0, 0.3)):
            rights = np.zeros((2, asked.draws))
            for draw in range(asked.draws):
                release = table.release(labels, epsilon, before=False)
                for before in (True, False):
                    model = table.learner(release, before=before)
                    right = ((new_rows @ model.theta_ > 0) == data.test_labels).mean()
                    rights[0 if before else 1, draw] = 100 * right
            lost = rights[0] - rights[1]
            error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.nan
            print(
                f"{name} {epsilon:g}: before {rights[0].mean():.2f}, now {rights[1].mean():.2f},"
                f" lost {lost.mean():.2f} ({error:.2f})",
                flush=True,
            )
            claims.append(claim(f"points lost on {name} at {epsilon:g}", float(lost.mean()), limit))
    return claims


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default="small,large")
    parser.add_argument("--sets", default=",".join(SMALL))
    parser.add_argument("--large", default=",".join(LARGE))
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--no-before", dest="before", action="store_false")
    asked = parser.parse_args(words)
    parts = {"small": small, "large": large}
    return [found for part in asked.parts.split(",") for found in parts[part](asked)]


if __name__ == "__main__":
    main()
