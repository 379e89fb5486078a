"""Are stated probabilities right? Log loss against a constant, and calibration, learner by learner.

    OMP_NUM_THREADS=1 python lab/bench/probabilities.py --data DIR [--sets magic,tweets]
        [--learners moments] [--epsilons 0.1,1] [--draws 3] [--store FILE] [--page docs/learner.md]

Every draw is another shuffle of the table and another release, of at most 8,000 private rows. The
constant states the class proportions of the test rows. Rules: wherever the mean accuracy is above
that of the larger class, the mean log loss is below the constant's; at epsilon 1 the expected
calibration error is at most 0.06 on tables of 5,000 private rows or more. A learner may refuse
probabilities. Tables that rules and limits were chosen on are judged apart from all others.
Lines are stored as they are measured, so that a run goes on where another ended.
"""

import argparse
import json
import logging
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import claim
from probability_tables import CHOSEN, HELD_OUT, MANY_CLASSES, TABLES, Data, read

import suffice as sf
from suffice.learner.scoring import predictions_of
from suffice.learner.weak import KnownProportions

STORE = Path(__file__).parent / "results" / "probabilities.jsonl"
MARKS = ("<!-- table of lab/bench/probabilities.py -->", "<!-- end of table -->")
_PARTIES, _AUXILIARY = 600, 1_000
_BAGS = 20
_DELTA = 1e-6
_LARGEST_ERROR, _LARGE = 0.06, 5_000  # at epsilon 1, and from how many private rows on


def of_operator(data: Data, epsilon: float, loss: str, mechanism: str = "auto") -> Any:
    """Return the linear model of a noisy mean operator, or of randomised labels."""
    pure = mechanism in {"laplace", "response"}
    owner = sf.MeanOperator(
        epsilon, 0.0 if pure else _DELTA, mechanism=mechanism, classes=data.classes, map=None
    )
    release = owner.release(data.rows, data.labels, ledger=None)
    return sf.FactoredClassifier(loss=loss).fit_release(release, data.rows)


def of_labels(data: Data, epsilon: float, learner: Any) -> Any:
    """Return a model of randomised labels and their public rows."""
    owner = sf.MeanOperator(epsilon, mechanism="response", classes=data.classes)
    return learner.fit_release(owner.release(data.rows, data.labels, ledger=None), data.rows)


def of_moments(data: Data, epsilon: float) -> Any:
    """Return the model of noisy second moments; the first rows are public, for the scales."""
    public, private, labels = _public_and_private(data)
    mechanism = sf.Moments(epsilon, _DELTA, standardize=public, classes=data.classes)
    return sf.MomentClassifier().fit_release(mechanism.release(private, labels, ledger=None))


def _public_and_private(data: Data) -> tuple[pa.Table, pa.Table, np.ndarray]:
    count = min(2000, len(data.labels) // 5)
    return data.rows.slice(0, count), data.rows.slice(count), data.labels[count:]


def of_rados(data: Data, epsilon: float, learner: Any, unit: str, rows: str | None) -> Any:
    """Return the model of subset sums: alone, or with the public or the scored rows."""
    public, private, labels = _public_and_private(data)
    mechanism = sf.Rados(
        epsilon=epsilon, delta=_DELTA, unit=unit, standardize=public, clip=0.2, missing="mean"
    )
    release = mechanism.release(private, labels, ledger=None)
    passed = {"public": public, "scored": data.test_rows, None: None}[rows]
    return learner.fit_release(release, *(() if passed is None else (passed,)))


def of_records(data: Data, epsilon: float) -> Any:
    """Return the model of randomised records: labels at epsilon, columns with noise 0.14."""
    count = len(data.classes)
    flip = (count - 1) / (count - 1 + np.exp(epsilon))
    ranges = dict.fromkeys(data.rows.column_names, (0.0, 1.0))
    mechanism = sf.RandomizedResponse(
        label_flip=flip, ranges=ranges, feature_noise=0.02, classes=data.classes
    )
    return sf.SpreadClassifier().fit_release(mechanism.release(data.rows, data.labels, ledger=None))


def of_parties(data: Data, epsilon: float, method: str) -> Any:
    """Return the model of 600 parties, from 1,000 public rows, or a fifth of few."""
    count = min(_AUXILIARY, len(data.labels) // 5)
    auxiliary, private = data.rows.slice(0, count), data.rows.slice(count)
    table = private.append_column("label", pa.array(data.labels[count:]))
    enrolled = min(_PARTIES, len(private) // 3)
    parties = [f"party {row % enrolled}" for row in range(len(private))]
    ensemble = sf.PrivateEnsemble(epsilon, _DELTA, method=method, classes=data.classes)
    release = ensemble.release(
        table.append_column("party", pa.array(parties)),
        label="label",
        party="party",
        auxiliary=sf.AuxiliaryRows.read(auxiliary),
        enrolled=enrolled,
        ledger=None,
    )
    learner = sf.VoteClassifier() if method == "vote-table" else sf.FactoredClassifier()
    return learner.fit_release(release, auxiliary)


def of_bags(data: Data, epsilon: float) -> Any:
    """Return the model of class proportions of 20 bags by label, with the noise of a count."""
    rng = np.random.default_rng(len(data.labels))
    shares = rng.dirichlet(np.ones(len(data.classes)), _BAGS)
    chance = shares[:, data.labels] / shares[:, data.labels].sum(axis=0)
    bags = (rng.random(len(data.labels)) > np.cumsum(chance, axis=0)).sum(axis=0)
    bags = np.unique(np.minimum(bags, _BAGS - 1), return_inverse=True)[1]
    counts = np.zeros((bags.max() + 1, len(data.classes)))
    np.add.at(counts, (bags, data.labels), 1.0)
    noisy = np.maximum(counts + rng.laplace(scale=2 / epsilon, size=counts.shape), 1e-9)
    source = KnownProportions(bags, noisy / noisy.sum(axis=1, keepdims=True), data.classes)
    return sf.FactoredClassifier().fit_weak(_matrix(data.rows), source)


def _matrix(rows: pa.Table) -> np.ndarray:
    return np.column_stack([column.to_numpy() for column in rows.columns])


Learn = Callable[[Data, float], Any]
_TREES = {"settings": [{"max_leaf_nodes": 15, "max_iter": 60}], "folds": 3}
TWO_CLASSES: dict[str, Learn] = {
    "rados of records, ridge": lambda d, e: of_rados(d, e, sf.RadoRidge(), "record", None),
    "rados of records, ridge, public rows": lambda d, e: of_rados(
        d, e, sf.RadoRidge(), "record", "public"
    ),
    "rados of records, ridge, scored rows": lambda d, e: of_rados(
        d, e, sf.RadoRidge(), "record", "scored"
    ),
    "rados of records, boosting, scored rows": lambda d, e: of_rados(
        d, e, sf.RadoBoost(), "record", "scored"
    ),
    "rados of labels, ridge": lambda d, e: of_rados(d, e, sf.RadoRidge(), "label", None),
    "rados of labels, boosting, scored rows": lambda d, e: of_rados(
        d, e, sf.RadoBoost(), "label", "scored"
    ),
}
LEARNERS: dict[str, Learn] = {
    "mean operator, logistic": lambda d, e: of_operator(d, e, "logistic"),
    "mean operator by Laplace, logistic": lambda d, e: of_operator(d, e, "logistic", "laplace"),
    "mean operator, square": lambda d, e: of_operator(d, e, "square"),
    "mean operator, matsushita": lambda d, e: of_operator(d, e, "matsushita"),
    "randomised labels, linear": lambda d, e: of_operator(d, e, "logistic", "response"),
    "randomised labels, noisy-label logistic": lambda d, e: of_labels(
        d, e, sf.NoisyLabelClassifier("logistic")
    ),
    "randomised labels, noisy-label trees": lambda d, e: of_labels(
        d, e, sf.NoisyLabelClassifier(**_TREES)
    ),
    "randomised labels, spread": lambda d, e: of_labels(d, e, sf.SpreadClassifier()),
    "randomised records, spread": of_records,
    "moments": of_moments,
    **TWO_CLASSES,
    "parties, operator": lambda d, e: of_parties(d, e, "operator"),
    "parties, votes": lambda d, e: of_parties(d, e, "vote-table"),
    "class proportions of bags": of_bags,
}
FIGURES = ("accuracy", "larger_class", "log_loss", "constant_log_loss", "ece")


def stored(path: Path) -> list[dict]:
    """Return the lines that were measured before."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured(
    names: Sequence[str], learners: Sequence[str], epsilons: Sequence[float], draws: int,
    options: argparse.Namespace,
) -> Iterator[dict]:  # fmt: skip
    """Yield the figures of every learner on every table, those first that are stored."""
    lines = stored(options.store)
    yield from lines
    done = {(line["set"], line["epsilon"], line["learner"], line["draw"]) for line in lines}
    options.store.parent.mkdir(exist_ok=True)
    for name in names:
        for draw in range(draws):
            data = None
            for epsilon in epsilons:
                for learner in learners:
                    many = learner in TWO_CLASSES and name in MANY_CLASSES
                    if many or (name, epsilon, learner, draw) in done:
                        continue
                    data = data or read(name, draw, options.data)
                    line = {"set": name, "epsilon": epsilon, "learner": learner, "draw": draw}
                    line |= {"rows": len(data.labels), **figures_of(data, epsilon, learner)}
                    with options.store.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    yield line


def figures_of(data: Data, epsilon: float, learner: str) -> dict[str, float]:
    """Return the figures of one model; without log loss and ECE if it refuses probabilities."""
    model = LEARNERS[learner](data, epsilon)
    rows = _matrix(data.test_rows) if learner.endswith("bags") else data.test_rows
    figures = predictions_of(model, rows, data.test_labels).to_json()
    return {key: figures[key] for key in FIGURES if key in figures}


class Cell:
    """All draws of a learner on a table at one epsilon."""

    def __init__(self, lines: Sequence[dict]) -> None:
        self.lines = [line for line in lines if "ece" in line]
        self.refused = len(lines) - len(self.lines)
        self.name = f"{lines[0]['set']} at {lines[0]['epsilon']:g}"
        self.rows = lines[0]["rows"]

    def mean(self, figure: str) -> float:
        """Return the mean of a figure over draws that give probabilities."""
        return float(np.mean([line[figure] for line in self.lines]))

    @property
    def excess(self) -> float | None:
        """The log loss above the constant's; None if the accuracy is not above the larger class."""
        if not self.lines or self.mean("accuracy") <= self.mean("larger_class"):
            return None
        return self.mean("log_loss") - self.mean("constant_log_loss")


def cells_of(lines: Sequence[dict], learner: str, names: Sequence[str]) -> dict:
    """Return the cells of a learner, by table and epsilon."""
    by_cell = defaultdict(list)
    for line in lines:
        if line["learner"] == learner and line["set"] in names:
            by_cell[line["set"], line["epsilon"]].append(line)
    return {key: Cell(group) for key, group in by_cell.items()}


PARTS = {
    "tables used for choosing": CHOSEN,
    "other tables": HELD_OUT,
    "three classes or more": MANY_CLASSES,
}


@dataclass(frozen=True)
class Verdict:
    """What came of a learner on the tables of one part, cell by cell."""

    part: str
    learner: str
    cells: Sequence[Cell]
    excesses: dict[str, float]
    errors: dict[str, float]

    @classmethod
    def of(cls, lines: Sequence[dict], part: str, learner: str) -> "Verdict":
        """Return the verdict on the lines of a learner and a part."""
        cells = cells_of(lines, learner, list(PARTS[part]))
        large = [
            cell
            for (_, epsilon), cell in cells.items()
            if epsilon == 1 and cell.lines and cell.rows >= _LARGE
        ]
        return cls(
            part,
            learner,
            list(cells.values()),
            {cell.name: cell.excess for cell in cells.values() if cell.excess is not None},
            {cell.name: cell.mean("ece") for cell in large},
        )

    @property
    def row(self) -> str:
        """The verdict as a line of a table."""
        given = sum(bool(cell.lines) for cell in self.cells)
        misses = _above(self.excesses, 0.0)
        errors = _above(self.errors, _LARGEST_ERROR)
        cells = (
            self.learner,
            self.part,
            f"{given} of {len(self.cells)}",
            f"{len(misses)} of {len(self.excesses)}" + (f": {', '.join(misses)}" if misses else ""),
            f"{max(self.errors.values()):.3f}" if self.errors else "-",
            ", ".join(errors) or "-",
        )
        return f"| {' | '.join(cells)} |"


def _above(values: dict[str, float], limit: float) -> list[str]:
    return [f"{name} {value:.3f}" for name, value in values.items() if value > limit]


def judged(lines: Sequence[dict]) -> list[dict]:
    """Print and return the claims, learner by learner; one that refuses everywhere has none."""
    claims = []
    for part in PARTS:
        for learner in LEARNERS:
            verdict = Verdict.of(lines, part, learner)
            for what, values, limit in (
                ("log loss above the constant's", verdict.excesses, 0.0),
                ("calibration error", verdict.errors, _LARGEST_ERROR),
            ):
                if values:
                    text = f"{part}, {learner}: {what}, worst of {len(values)}"
                    misses = _above(values, limit)
                    text += f"; {', '.join(misses)}" if misses else ""
                    claims.append(claim(text, max(values.values()), limit))
    return claims


HEADERS = (
    "learner", "tables", "cells with probabilities", "log loss above the constant's",
    "largest ECE at epsilon 1", "above 0.06",
)  # fmt: skip


def write_page(lines: Sequence[dict], page: Path) -> None:
    """Write all verdicts into a page, between its marks."""
    verdicts = [Verdict.of(lines, part, learner) for learner in LEARNERS for part in PARTS]
    rows = [f"| {' | '.join(HEADERS)} |", f"|{'---|' * len(HEADERS)}"]
    rows += [verdict.row for verdict in verdicts if verdict.cells]
    before, _, rest = page.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    page.write_text("\n".join([before + MARKS[0], "", *rows, "", MARKS[1] + after]))


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print one line per claim; write lab/bench/results/probabilities.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(TABLES), help="tables, with commas")
    parser.add_argument("--learners", default=";".join(LEARNERS), help="learners, with semicolons")
    parser.add_argument("--epsilons", default="0.1,0.3,1,3", help="epsilons, with commas")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--page", type=Path, help="write the table into this page")
    options = parser.parse_args(arguments)
    logging.getLogger("suffice").setLevel(logging.ERROR)
    epsilons = [float(text) for text in options.epsilons.split(",")]
    with warnings.catch_warnings():  # rows that occur twice, public and private
        warnings.simplefilter("ignore")
        names, learners = options.sets.split(","), options.learners.split(";")
        lines = list(measured(names, learners, epsilons, options.draws, options))
    if options.page is not None:
        write_page(lines, options.page)
    return judged(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
