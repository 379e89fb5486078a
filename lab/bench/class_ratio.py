"""Class ratios from sets with known or released proportions: errors, intervals, memory.

    OMP_NUM_THREADS=1 python lab/bench/class_ratio.py --data ../shared/data [--parts adult,memory]

adult: two sets of 600 rows at 10 and 90 % (Iyer et al. 2016, Figure 2, without its two extra sets),
    tests of 600 at .1 to .9: the error of either method against classifying and counting, and the
    intervals, with known and with private proportions.
gaussians: intervals for three overlapping classes that are drawn at the test's shares.
mnist: ten sets of 3000 at epsilon = delta = .05: what the mechanism that "auto" takes is worth to
    the ratios, beside the Laplace mechanism.
memory: one million rows of 50 columns from a Parquet file.

lab/bench/peers/compare_quapy.py compares with learners that see every label, and has the speed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import claim, machine
from mean_operator import own_peak

from suffice.learner.problem import design_matrix
from suffice.learner.ratio.estimator import ClassRatio
from suffice.owner.proportions import LabelProportions
from suffice.papers.bags import ProportionSVM, classify_and_count, mean_map_classifier

RESULT = Path(__file__).parent / "results" / "class_ratio.json"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
METHODS = ("mmd", "likelihood", "auto")
_LONG, _WIDE, _BATCH = 1_000_000, 50, 50_000
_DRAWS = 3  # of the noise on the same sets


@dataclass(frozen=True, eq=False)
class Case:
    """Sets to learn from, with the labels behind them, and sets to be asked about."""

    rows: Any
    bags: np.ndarray
    labels: np.ndarray
    tests: list[Any]
    truth: np.ndarray

    @property
    def classes(self) -> list[int]:
        """The labels there are."""
        return list(range(self.truth.shape[1]))

    @property
    def proportions(self) -> np.ndarray:
        """The true proportions (M, K) of the sets."""
        many, classes = self.bags.max() + 1, self.truth.shape[1]
        counts = np.zeros((many, classes))
        np.add.at(counts, (self.bags, self.labels), 1)
        return counts / counts.sum(axis=1, keepdims=True)

    def known(self, method: str = "auto") -> ClassRatio:
        """Return the learner of the true proportions."""
        model = ClassRatio(method=method)
        return model.fit_proportions(self.rows, self.bags, self.proportions, classes=self.classes)

    def private(self, mechanism: LabelProportions, method: str = "auto") -> ClassRatio:
        """Return the learner of released proportions."""
        owner = replace(mechanism, classes=self.classes)
        release = owner.release(self.rows, self.labels, bags=self.bags, ledger=None)
        return ClassRatio(method=method).fit_release(release, self.rows, bags=self.bags)

    def errors(self, estimates: np.ndarray) -> np.ndarray:
        """Return the L1 error of each test's ratios."""
        return np.abs(estimates - self.truth).sum(axis=1)


class Pool:
    """Rows of each class, drawn without replacement."""

    def __init__(self, labels: np.ndarray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        members = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
        self._left = [rng.permutation(rows) for rows in members]

    def take(self, size: int, shares: np.ndarray) -> np.ndarray:
        """Return rows of a set of these shares, rounded to rows."""
        ends = np.rint(size * np.cumsum(shares)).astype(int)
        taken = []
        for k, count in enumerate(np.diff(ends, prepend=0)):
            if count > len(self._left[k]):
                raise SystemExit(f"too few rows of class {k}.")
            taken.append(self._left[k][:count])
            self._left[k] = self._left[k][count:]
        return np.concatenate(taken)


def table_of(folder: Path, name: str) -> tuple[pa.Table, np.ndarray]:
    """Return the rows and labels of a data set."""
    table = pq.read_table(folder / f"{name}.parquet")
    return table.drop_columns(["label", "split"]).combine_chunks(), table["label"].to_numpy()


def adult(folder: Path, repeats: int) -> Iterator[Case]:
    """Yield repeats of Figure 2's sets on Adult."""
    rows, labels = table_of(folder, "adult")
    truth = np.column_stack([1 - np.array(SHARES), SHARES])
    for seed in range(repeats):
        pool = Pool(labels, seed)
        skewed = ([0.9, 0.1], [0.1, 0.9])
        sets = np.concatenate([pool.take(600, proportions) for proportions in skewed])
        tests = [rows.take(pool.take(600, proportions)) for proportions in truth]
        yield Case(rows.take(sets), np.repeat([0, 1], 600), labels[sets], tests, truth)


def mnist(folder: Path, repeats: int) -> Iterator[Case]:
    """Yield repeats of ten sets of 3000 digits, each digit 55 % of one and 5 % of the others.

    The tests are as skewed, towards a digit each; 3000 rows of one digit are half of all.
    """
    rows, labels = table_of(folder, "mnist")
    images = np.column_stack([column.to_numpy() for column in rows.columns]).astype(np.float32)
    skewed = 0.05 + 0.5 * np.eye(10)
    for seed in range(repeats):
        pool = Pool(labels, seed)
        sets = np.concatenate([pool.take(3000, proportions) for proportions in skewed])
        truth = skewed[[0, 3, 6, 9]]
        tests = [images[pool.take(3000, proportions)] for proportions in truth]
        yield Case(images[sets], np.repeat(np.arange(10), 3000), labels[sets], tests, truth)


def gaussians(repeats: int) -> Iterator[Case]:
    """Yield repeats of three overlapping classes; the truth is the share among the test's rows."""
    centres = np.array([[0.0, 0.0], [1.8, 0.0], [0.0, 1.8]])
    skewed = np.array([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.4, 0.3, 0.3]])
    test_proportions = np.array(
        [[0.8, 0.1, 0.1], [0.1, 0.3, 0.6], [0.34, 0.33, 0.33], [0.02, 0.49, 0.49]]
    )
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        labels = np.concatenate([rng.choice(3, 500, p=proportions) for proportions in skewed])
        rows = centres[labels] + rng.normal(size=(2000, 2))
        tested = [rng.choice(3, 500, p=proportions) for proportions in test_proportions]
        tests = [centres[codes] + rng.normal(size=(500, 2)) for codes in tested]
        truth = np.array([np.bincount(codes, minlength=3) / 500 for codes in tested])
        yield Case(rows, np.repeat(np.arange(4), 500), labels, tests, truth)


def counted(case: Case, pipeline: Any) -> dict[str, np.ndarray]:
    """Return the ratios of two classifiers from proportions that classify every row."""
    rows, proportions = design_matrix(case.rows, pipeline), case.proportions
    tests = [design_matrix(test, pipeline, new=True) for test in case.tests]
    machines = {
        "mean-map": mean_map_classifier(rows, case.bags, proportions, [0, 1]),
        "proportion-svm": ProportionSVM().fit(rows, case.bags, proportions),
    }
    return {
        name: np.array([classify_and_count(machine, test, [0, 1]) for test in tests])
        for name, machine in machines.items()
    }


def adult_errors(folder: Path, repeats: int) -> tuple[dict, list[dict]]:
    """Return the mean error of every method at every share, and the claim on the extremes."""
    errors: dict[str, list] = {}
    for case in adult(folder, repeats):
        models = {name: case.known(name) for name in METHODS}
        estimates = {name: model.quantify(case.tests) for name, model in models.items()}
        estimates |= counted(case, models["mmd"].pipeline_)
        for name, ratios in estimates.items():
            errors.setdefault(name, []).append(case.errors(ratios))
    means = {name: np.mean(runs, axis=0).tolist() for name, runs in errors.items()}
    for name, values in means.items():
        cells = " ".join(f"{value:.4f}" for value in values)
        print(f"Adult, L1 at shares {SHARES}: {name:15s} {cells}  mean {np.mean(values):.4f}")
    ours, base = means["auto"], means["mean-map"]
    claims = [
        claim(f"Adult, share {SHARES[i]}: auto / classify and count", ours[i] / base[i], 0.5)
        for i in (0, -1)
    ]
    return means, claims


def coverage(name: str, fitted: Iterator[tuple[Case, ClassRatio]]) -> tuple[dict, list[dict]]:
    """Return the share of 95 % intervals that hold the truth, class by class, and their widths."""
    inside, half, off = [], [], []
    for case, model in fitted:
        ends = model.interval(case.tests)
        inside.append((ends[:, 0] <= case.truth) & (case.truth <= ends[:, 1]))
        half.append((ends[:, 1] - ends[:, 0]) / 2)
        off.append(np.abs(model.quantify(case.tests) - case.truth))
    held = np.concatenate(inside).mean(axis=0)
    width = float(np.mean(half) / np.mean(off))
    print(f"{name}: coverage by class {held.round(3)}, by test {np.mean(inside, axis=(0, 2))}")
    claims = [
        claim(f"{name}: intervals without the truth, worst class", float(1 - held.min()), 0.1),
        claim(f"{name}: half-width / mean absolute error", width, 4.0),
    ]
    return {"coverage": held.tolist(), "half-width": width}, claims


def intervals(name: str, cases: list[Case], methods: tuple[str, ...]) -> tuple[dict, list[dict]]:
    """Return coverage with known proportions, and with private ones at epsilon 1."""
    results, claims = {}, []
    for method in methods:
        kinds = {
            "known": (lambda case, method=method: case.known(method)),
            "epsilon 1": (
                lambda case, method=method: case.private(LabelProportions(epsilon=1.0), method)
            ),
        }
        for kind, fit in kinds.items():
            title = f"{name}, {method}, {kind}"
            results[title], more = coverage(title, ((case, fit(case)) for case in cases))
            claims += more
    return results, claims


def mnist_errors(folder: Path, repeats: int) -> tuple[dict, list[dict]]:
    """Return mean errors with the proportions of "auto", of Laplace, and with the true ones."""
    errors: dict[str, list] = {}
    for case in mnist(folder, repeats):
        for method, (mechanism, delta) in product(
            ("mmd", "auto"), (("auto", 0.05), ("laplace", 0.0))
        ):
            owner = LabelProportions(epsilon=0.05, delta=delta, mechanism=mechanism)
            for _ in range(_DRAWS):
                model = case.private(owner, method)
                error = case.errors(model.quantify(case.tests)).mean()
                errors.setdefault(f"{method}, {mechanism} noise", []).append(error)
        known = case.errors(case.known().quantify(case.tests)).mean()
        errors.setdefault("auto, no noise", []).append(known)
    means = {name: float(np.mean(runs)) for name, runs in errors.items()}
    print("MNIST, mean L1:", ", ".join(f"{name} {value:.4f}" for name, value in means.items()))
    return {"means": means, "draws": errors}, [
        claim(
            f"MNIST (.05, .05), method {method}: auto / laplace",
            means[f"{method}, auto noise"] / means[f"{method}, laplace noise"],
            0.6,
        )
        for method in ("mmd", "auto")
    ]


def write_long(path: Path) -> np.ndarray:
    """Write rows of two classes in row groups, their set beside them; return the proportions."""
    rng = np.random.default_rng(0)
    counts = np.zeros((2, 2))
    names = [f"f{j}" for j in range(_WIDE)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("set", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(_LONG // _BATCH):
            sets = rng.integers(0, 2, _BATCH)
            labels = (rng.random(_BATCH) < np.where(sets, 0.9, 0.1)).astype(int)
            rows = rng.standard_normal((_BATCH, _WIDE)) + 0.2 * labels[:, None]
            np.add.at(counts, (sets, labels), 1)
            columns = [pa.array(rows[:, j], pa.float32()) for j in range(_WIDE)]
            writer.write_table(pa.table([*columns, pa.array(sets, pa.int8())], schema=schema))
    return counts / counts.sum(axis=1, keepdims=True)


def fit_long(path: str, proportions: str) -> None:
    """Learn from the long file and ask about it; print the answer, seconds and this peak."""
    start = time.perf_counter()
    model = ClassRatio().fit_proportions(path, "set", json.loads(proportions), classes=[0, 1])
    ratios = model.quantify(path)
    print(json.dumps([ratios.tolist(), time.perf_counter() - start, own_peak()]))


def memory() -> tuple[dict, list[dict]]:
    """Return the peak of a process that learns from the long file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.parquet"
        proportions = json.dumps(write_long(path).tolist())
        code = "import sys, class_ratio as c; c.fit_long(sys.argv[1], sys.argv[2])"
        done = subprocess.run(
            [sys.executable, "-c", code, path, proportions],
            cwd=Path(__file__).parent, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
    ratios, seconds, peak = json.loads(done.stdout)
    print(f"1M x {_WIDE}: ratios {ratios}, {seconds:.0f} s, peak {peak:.0f} MB")
    return {"seconds": seconds, "peak": peak}, [claim("1M x 50, peak in GB", peak / 1024, 1.0)]


def recorded(part: str, work: Callable[[], tuple[dict, list[dict]]], path: Path) -> list[dict]:
    """Return the claims of one part, which takes its place among the others in the results."""
    results, claims = work()
    path.parent.mkdir(exist_ok=True)
    others = json.loads(path.read_text()) if path.exists() else {}
    mine = {"machine": machine(), "found": results, "claims": claims}
    path.write_text(json.dumps({**others, part: mine}, indent=2) + "\n")
    return claims


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print every claim and write lab/bench/results/class_ratio.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--parts", default="adult,intervals,gaussians,mnist,memory")
    options = parser.parse_args(arguments)
    parts = {
        "adult": lambda: adult_errors(options.data, options.repeats),
        "intervals": lambda: intervals(
            "Adult", list(adult(options.data, options.repeats)), METHODS[:3:2]
        ),
        "gaussians": lambda: intervals("Gaussians", list(gaussians(options.repeats)), METHODS[:2]),
        "mnist": lambda: mnist_errors(options.data, min(options.repeats, 3)),
        "memory": memory,
    }
    return [
        claim for part in options.parts.split(",") for claim in recorded(part, parts[part], RESULT)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
