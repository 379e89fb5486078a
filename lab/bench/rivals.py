"""Rivals at the same guarantee: records or labels at (epsilon, 1e-6), replace-one, paired.

    python lab/bench/rivals.py --promise record --data ../shared/data --store results/record.jsonl
    python lab/bench/rivals.py --promise label --table --store lab/bench/rivals_label.jsonl

Same splits, same public rows. ``label``: the owner protects labels of public rows. ``local``: each
person randomises their own label, once. Nothing of these two is picked in hindsight. ``record``: of
a rival the best setting is taken in hindsight, by its mean test accuracy in the cell; ours are
automatic. Rivals' noise is numpy's: a simulation, never a release. A run with the same --store goes
on where another ended; the store says with which commit and machine. diffprivlib runs in an
environment of its own, which the first run makes (lab/bench/peers); "objective, pure" is its
algorithm. The last table is that of docs/accuracy.md, and --table prints it alone from the store.
"""

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from harness import claim
from rival_data import any_split, has_many_classes
from rival_store import Measurement, Store, measure
from rival_table import Cells

from suffice.papers.reproduction import Split

_MOST_ROWS = {
    "record": 20_000,
    "label": 100_000,
    "local": 100_000,
}  # of training rows, private and public
_MOST_TEST_ROWS = 10_000
_SMALL = 0.3  # up to this epsilon every draw is made, beyond it a quarter of them
_RECORD_RIVALS = ("adassp", "objective", "objective, pure", "diffprivlib", "rados")
_PUBLIC_DESCENT = "descent, public rule"
_ONE_ROUND = ("response", "response, trees", "lp-1st")  # of people who randomise their own labels
_TWO_STAGES = ("lp-2st", "lp-2st, corrected", "lp-2st, trees")
_LABEL_RIVALS = (*_ONE_ROUND, *_TWO_STAGES, "alibi", "kernel operator")
_OURS_BY_RECORD = ("moments", "moments of ranks", "moments of ranks, degree 2")
_OURS_LOCALLY = ("noisy labels, logistic", "noisy labels")
_OURS_BY_LABEL = (
    "default", "operator", "operator of ranks", "operator of ranks, degree 2", *_OURS_LOCALLY,
)  # fmt: skip
# The last table, which is that of docs/accuracy.md.
_RECORD_TITLES = {
    "diffprivlib": "diffprivlib",
    "adassp": "AdaSSP",
    "objective": "objective perturbation",
    "descent": "gradient descent with noise",
    _PUBLIC_DESCENT: "the same, without hindsight",
    "rados": "suffice rados",
    "moments": "suffice moments",
    "moments of ranks": "suffice moments, `ranks`",
}
_LABEL_TITLES = {
    "response": "randomised response, logistic",
    "response, trees": "randomised response, trees",
    "lp-1st": "LP-1ST",
    "lp-2st": "LP-2ST",
    "lp-2st, corrected": "LP-2ST, its answers corrected",
    "lp-2st, trees": "LP-2ST, trees",
    "alibi": "ALIBI",
    "kernel operator": "kernel operator",
    "operator": "suffice mean operator",
    "operator of ranks": "suffice mean operator, `ranks`",
    "operator of ranks, degree 2": "suffice mean operator, `ranks+polynomial:2`",
    "noisy labels, logistic": "suffice randomised labels, logistic",
    "noisy labels": "suffice randomised labels, trees",
    "default": "suffice without options",
    "exact labels": "boosted trees of exact labels",
    "larger class": "always the larger class",
}
# What must be reached: method, data set, epsilon, least accuracy.
_RECORD_LEAST = (
    ("moments of ranks", "spambase", 0.3, 0.895),
    ("moments of ranks", "magic", 0.3, 0.815),
    ("rados", "adult", 0.3, 0.81),
    ("rados", "adult", 1.0, 0.81),
)
_LABEL_LEAST = (
    ("noisy labels", "magic", 1.0, 0.850),
    ("noisy labels", "ijcnn1", 1.0, 0.965),
    ("noisy labels", "adult", 1.0, 0.850),
    ("noisy labels", "covertype", 1.0, 0.81),
    ("operator of ranks, degree 2", "magic", 0.1, 0.825),
    ("operator of ranks", "spambase", 0.1, 0.880),
    *(("default", "magic", e, least) for e, least in ((1.0, 0.860), (0.1, 0.832))),
    *(("default", "spambase", e, least) for e, least in ((1.0, 0.927), (0.1, 0.885))),
    *(("default", "adult", e, least) for e, least in ((1.0, 0.857), (0.1, 0.840))),
    *(("default", "ijcnn1", e, least) for e, least in ((1.0, 0.965), (0.1, 0.930))),
    *(("default", "mnist", e, least) for e, least in ((1.0, 0.93), (0.1, 0.85))),
    *(("default", "covertype", e, least) for e, least in ((1.0, 0.80), (0.1, 0.74))),
    *(("default", "wine-white", e, least) for e, least in ((1.0, 0.747), (0.1, 0.720))),
    ("default", "uci-har", 1.0, 0.997),
)
_MOST_CALIBRATION = 0.05
_ONE_POINT = 0.01


@dataclass(frozen=True)
class _Promise:
    """What is protected: the methods, how they take a split, how they are judged and titled."""

    methods: dict[str, Callable[..., Any]]
    prepare: Callable[[Any], Any]
    judge: Callable[[Cells], list[dict]]
    titles: dict[str, str]


def _promise(name: str) -> _Promise:
    if name == "record":
        from rival_record import METHODS, RecordSplit

        return _Promise(dict(METHODS), RecordSplit.of, judge_records, _RECORD_TITLES)
    from rival_label import LOCAL, METHODS, LabelSplit

    if name == "label":
        return _Promise(dict(METHODS), LabelSplit.of, judge_labels, _LABEL_TITLES)
    titles = {method: _LABEL_TITLES[method] for method in LOCAL}
    local = {method: METHODS[method] for method in LOCAL}
    return _Promise(local, LabelSplit.of, judge_locals, titles)


def first_rows(data: Split, most: int) -> Split:
    """Return a split of at most so many training rows; the order of a split is random."""
    train, test = slice(most), slice(_MOST_TEST_ROWS)
    return Split(
        data.rows.slice(0, most),
        data.labels[train],
        data.test_rows.slice(0, _MOST_TEST_ROWS),
        data.test_labels[test],
    )


def run_cell(
    store: Store, method: tuple[str, Callable[..., Any]], data: Any, where: tuple[str, int, float],
    draws: int,
) -> None:  # fmt: skip
    """Measure what is missing of one method on one split at one epsilon."""
    name, function = method
    data_set, seed, epsilon = where
    first = store.draws(data_set, seed, epsilon, name)
    if first >= draws:
        return
    start = time.process_time()
    key = zlib.crc32(f"{data_set}|{epsilon:g}|{name}".encode())
    rng = np.random.default_rng([seed, key, first])  # simulations only
    store.add(
        Measurement(data_set, seed, epsilon, name, setting, first + draw,
                    **measure(probabilities, data.test_labels))
        for setting, draw, probabilities in function(data, epsilon, draws - first, rng)
    )  # fmt: skip
    seconds = time.process_time() - start
    print(f"  {data_set}, split {seed}, epsilon {epsilon:g}, {name}: {seconds:.1f} CPU s",
          file=sys.stderr, flush=True)  # fmt: skip


def judge_records(cells: Cells) -> list[dict]:
    """Print the tables per record, and return the claims."""
    descents = ("descent", _PUBLIC_DESCENT, "descent of ranks")
    cells.print_means((*_RECORD_RIVALS, *descents, *_OURS_BY_RECORD))
    cells.print_means((*descents, *_OURS_BY_RECORD), "log_loss")
    claims = []
    for own_method in _OURS_BY_RECORD[:2]:
        print(f"\n## {own_method}")
        gaps = cells.print_differences(own_method, _RECORD_RIVALS)
        descent = cells.print_differences(own_method, ["descent"])
        losses = [d for d in cells.print_differences(own_method, ["descent"], "log_loss")
                  if d.cell[1] <= _SMALL]  # fmt: skip
        if gaps:
            worse = sum(d.difference < -0.003 - 2 * d.error for d in gaps)
            claims += [
                claim(f"{own_method}: cells of {len(gaps)} clearly below noisy rivals", worse,
                      0.15 * len(gaps)),
                claim(f"{own_method}: most points below noisy rivals",
                      -100 * min(d.difference for d in gaps), 1.0),
            ]  # fmt: skip
        if descent:
            below = [-100 * d.difference for d in descent]
            claims += [
                claim(f"{own_method}: median points below gradient descent", median(below), 0.3),
                claim(f"{own_method}: most points below gradient descent", max(below), 2.0),
            ]
        if losses:
            most = max(d.difference for d in losses)
            name = f"{own_method}: log loss above gradient descent's, epsilon <= {_SMALL:g}, worst"
            claims.append(claim(name, most, 0.01))
    cells.print_differences("moments of ranks", ["descent of ranks"])
    by_rule = [-100 * d.difference for d in cells.print_differences("moments", [_PUBLIC_DESCENT])]
    if by_rule:
        name = "moments: median points below gradient descent by a public rule"
        claims.append(claim(name, median(by_rule), 0.0))
    return claims + _reached(cells, _RECORD_LEAST)


def judge_labels(cells: Cells) -> list[dict]:
    """Print the tables per label, and return the claims: ours, and whether LP-2ST is needed."""
    claims = _judge_against(cells, _OURS_BY_LABEL, _LABEL_RIVALS)
    two_stages = [cells.print_differences(method, ["operator"]) for method in _TWO_STAGES]
    for epsilon in sorted({epsilon for _, epsilon in cells.cells}):
        ahead = {d.cell[0] for of_method in two_stages for d in of_method
                 if d.cell[1] == epsilon and has_many_classes(d.cell[0])
                 and d.difference > _ONE_POINT}  # fmt: skip
        if any(has_many_classes(name) for name, own in cells.cells if own == epsilon):
            name = f"epsilon {epsilon:g}: many-class sets with LP-2ST a point ahead of the operator"
            claims.append(claim(name, len(ahead), 1))
    return claims + _reached(cells, _LABEL_LEAST)


def judge_locals(cells: Cells) -> list[dict]:
    """Print the tables of labels that people randomise themselves, and return the claims."""
    return _judge_against(cells, _OURS_LOCALLY, _ONE_ROUND)


def _judge_against(cells: Cells, ours: Sequence[str], rivals: Sequence[str]) -> list[dict]:
    cells.print_means((*rivals, *ours))
    cells.print_means((*rivals, *ours), "log_loss")
    claims = []
    for own_method in ours:
        cells.print_differences(own_method, rivals)
    for cell in cells.cells:
        own = [d for o in ours if (d := cells.difference(cell, o, rivals))]
        if own:
            behind = -100 * max(d.difference for d in own)
            name = f"{cell[0]}, epsilon {cell[1]:g}: points the best of ours (hindsight) is below"
            claims.append(claim(name, behind, 0.3))
        error = cells.best(cell, "noisy labels", "calibration")
        if cell[1] == 1.0 and error is not None:
            name = f"{cell[0]}, epsilon 1: calibration error of noisy labels"
            claims.append(claim(name, error[0], _MOST_CALIBRATION))
    return claims


def _reached(cells: Cells, least: Sequence[tuple[str, str, float, float]]) -> list[dict]:
    """Return whether accuracies that were promised are reached, for the cells that were run."""
    claims = []
    for method, data_set, epsilon, limit in least:
        best = cells.best((data_set, epsilon), method)
        if best is not None:
            name = f"{data_set}, epsilon {epsilon:g}, {method}: percent wrong"
            claims.append(claim(name, 100 * (1 - best[0]), 100 * (1 - limit)))
    return claims


def measure_all(promise: _Promise, store: Store, options: argparse.Namespace) -> None:
    """Measure what the store lacks."""
    names = options.methods.split(";") if options.methods else list(promise.methods)
    most = options.rows or _MOST_ROWS[options.promise]
    for data_set in filter(None, options.sets.split(",")):
        for seed in range(options.splits):
            data = promise.prepare(first_rows(any_split(data_set, seed, options.data), most))
            # Other rows are another cell.
            stored = f"{data_set} ({options.rows:,} rows)" if options.rows else data_set
            for epsilon in map(float, options.epsilons.split(",")):
                draws = options.draws if epsilon <= _SMALL else max(1, options.draws // 4)
                for name in names:
                    method = (name, promise.methods[name])
                    run_cell(store, method, data, (stored, seed, epsilon), draws)


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Measure what the store lacks, print the tables and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--promise", choices=tuple(_MOST_ROWS), required=True)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default="magic,wine-white,abalone,spambase,adult")
    parser.add_argument("--epsilons", default="0.1,0.3,1,3")
    parser.add_argument("--draws", type=int, default=20, help="per split; beyond .3 a quarter")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, help="most training rows, default: 20,000 or 100,000")
    parser.add_argument("--methods", help="separated by ;, default: all")
    parser.add_argument("--store", type=Path, help="JSON lines of what was measured")
    parser.add_argument("--table", action="store_true", help="print the last table of the store")
    options = parser.parse_args(arguments)
    promise, store = _promise(options.promise), Store(options.store)
    claims = []
    if not options.table:
        measure_all(promise, store, options)
        what = "labels" if options.promise != "record" else "records"
        print(f"{what} protected at (epsilon, 1e-6), neighbours replace one; {options.promise}")
        claims = promise.judge(Cells(store.measurements))
    Cells(store.measurements).print_summary(promise.titles)
    for run in store.runs:
        versions = ", ".join(f"{name} {value}" for name, value in run["machine"].items())
        print(f"\nmeasured at {run['commit']} with {versions}")
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
