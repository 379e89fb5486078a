"""Few rows, much noise: against the larger class, before and now, and whether risk intervals cover.

    python bench/majority.py --data DIR [--parts small,large] [--releases 40] [--delta 0]

Small: the owner releases each whole table, and the accuracy is that on its labels. Loss and gain
are means over releases of max(0, larger - accuracy) and of max(0, accuracy - larger), then over
tables and epsilons, in points; larger is the accuracy of always predicting the larger class.
Coverage: a risk interval should hold the risk on fresh labels. So labels are drawn from a logistic
regression on the exact ones, once for each release; the risk is their expectation. Large: the
accuracy on held-out rows, in points, of the same releases. Before: even noise for the intercept, a
projection alone, and the risk of a model that follows all of the noise.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import claim
from sklearn.linear_model import LogisticRegression

from suffice.learner.operator.evidence import Evidence, interval
from suffice.learner.operator.factored import FactoredClassifier
from suffice.learner.rows import design_matrix
from suffice.owner.operator.candidates import Candidates, choose
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.source import PublicSource
from suffice.release.artifact import Release
from suffice.study.data_sets import split

SMALL = ("haberman", "breast", "wine-red", "transfusion", "sonar", "ionosphere", "adult-2%")
LARGE = {"spambase": 0, "magic": 0, "adult": 10_000, "mnist-7v9": 6_000}  # at most so many rows
EPSILONS = (0.05, 0.1, 0.3)
_RARE_ROWS, _RARE = 5_000, 0.02


def whole_table(name: str, folder: Path) -> tuple[pa.Table, np.ndarray]:
    """Return all rows of a small table; of adult 5,000 rows, 2 % of them positive."""
    if name != "adult-2%":
        return split(name, 0, folder).all_rows
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
        self.public = MeanOperator(1.0, missing="mean").public(PublicSource(rows))
        self.matrix = design_matrix(rows, self.public.rows.pipeline, new=True)
        teacher = LogisticRegression(C=1.0, max_iter=1000)
        self.chance = teacher.fit(self.matrix, labels).predict_proba(self.matrix)[:, 1]

    def release(self, labels: np.ndarray, epsilon: float, *, before: bool) -> Release:
        """Return a fresh release, with the same noise for every coordinate as before."""
        mechanism = "auto"
        if before:
            every = Candidates(self.public.rows, 2).every("auto", epsilon, self.delta)
            mechanism = choose(every).mechanism
        owner = MeanOperator(epsilon, self.delta, mechanism=mechanism, missing="mean")
        return owner.release(self.rows, labels, ledger=None)

    def learner(self, release: Release, *, before: bool) -> FactoredClassifier:
        """Return the model of a release."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = FactoredClassifier(shrink=False if before else "auto")
            return learner.fit_release(release, self.rows)

    def lead(self, epsilon: float, *, before: bool) -> float:
        """Return the accuracy above that of the larger class, in points."""
        release = self.release(self.labels, epsilon, before=before)
        learner = self.learner(release, before=before)
        right = ((self.matrix @ learner.theta_ > 0) == self.labels).mean()
        return 100 * float(right - max(self.labels.mean(), 1 - self.labels.mean()))

    def covers(self, epsilon: float, rng: np.random.Generator, *, before: bool) -> bool:
        """Return whether the interval holds the risk on fresh labels."""
        labels = (rng.random(len(self.chance)) < self.chance).astype(int)
        learner = self.learner(self.release(labels, epsilon, before=before), before=before)
        kept = learner._fitted_evidence  # noqa: SLF001  # its risk as it was computed before
        plain = Evidence(kept.problems, kept.models, kept.lam, kept.noise)
        low, high = interval(*plain.risk, 0.95) if before else learner.risk_interval_
        scores = self.matrix @ learner.theta_
        risk = np.logaddexp(0, scores) - self.chance * scores
        return bool(low <= risk.mean() <= high)


def small(asked: argparse.Namespace) -> list[dict]:
    """Print loss, gain and coverage of each table at each epsilon."""
    figures = {}
    for name in asked.sets.split(","):
        table = Table(*whole_table(name, asked.data), asked.delta)
        for epsilon in EPSILONS:
            line = []
            for before in (True, False) if asked.before else (False,):
                rng = np.random.default_rng(0)
                leads = np.array(
                    [table.lead(epsilon, before=before) for _ in range(asked.releases)]
                )
                covered = [table.covers(epsilon, rng, before=before) for _ in range(asked.releases)]
                found = (
                    np.maximum(-leads, 0).mean(),
                    np.maximum(leads, 0).mean(),
                    np.mean(covered),
                )
                figures.setdefault(before, []).append(found)
                line.append(
                    "{}: lost {:.2f}, gained {:.2f}, covered {:.2f}".format(
                        "before" if before else "now", *found
                    )
                )
            print(
                f"{name} {epsilon:g} ({len(table.labels) * epsilon:.0f})",
                "; ".join(line),
                flush=True,
            )
    for before, found in figures.items():
        print("before" if before else "now", np.mean(found, axis=0).round(3))
    lost, gained, covered = np.mean(figures[False], axis=0)
    return [
        claim("points lost against the larger class on small tables", float(lost), 0.6),
        claim("2.0 less the points gained on small tables", 2.0 - float(gained), 0.0),
        claim("risk intervals that do not cover on small tables", 1 - float(covered), 0.07),
    ]


def large(asked: argparse.Namespace) -> list[dict]:
    """Print how many points of accuracy are lost against before, on held-out rows."""
    claims = []
    for name, most in LARGE.items():
        data = split(name, 0, asked.data)
        rows, labels = data.rows.slice(0, most or None), data.labels[: most or None]
        table = Table(rows, labels, asked.delta)
        new_rows = design_matrix(data.test_rows, table.public.rows.pipeline, new=True)
        for epsilon, limit in ((0.1, 1.0), (0.3, 0.3), (1.0, 0.3)):
            releases = [table.release(labels, epsilon, before=False) for _ in range(asked.draws)]
            rights = []
            for before in (True, False):
                models = [table.learner(release, before=before) for release in releases]
                guesses = [new_rows @ model.theta_ > 0 for model in models]
                rights.append(100 * float(np.mean(np.array(guesses) == data.test_labels)))
            print(f"{name} {epsilon:g}: before {rights[0]:.2f}, now {rights[1]:.2f}", flush=True)
            claims.append(
                claim(f"points lost on {name} at {epsilon:g}", rights[0] - rights[1], limit)
            )
    return claims


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default="small,large")
    parser.add_argument("--sets", default=",".join(SMALL))
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--no-before", dest="before", action="store_false")
    asked = parser.parse_args(words)
    parts = {"small": small, "large": large}
    return [found for part in asked.parts.split(",") for found in parts[part](asked)]


if __name__ == "__main__":
    main()
