"""Label proportions: test AUC of mean maps on three sets, after Patrini et al. 2014, section 5.

Bags are k-means clusters, quantile bins of one feature, or random with skewed proportions (the
homogeneous case that the mean map assumes). Four folds; penalties, graph weights and scales are
chosen by cross-validation over bags from the risk of held-out bags under the labels that fit the
model best among those with the bags' proportions, so that no method but the oracle sees a label.
Claims: LMM and AMM-min beat the mean map and training on bag majorities, on average. Run as
`python lab/bench/run.py llp_table --data DIR`, or this file with SUFFICE_DATA=DIR.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from harness import claim
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from suffice.errors import ParameterError
from suffice.learner.weak import BagMoments, MeanMap, bags_of
from suffice.models.problem import LOSSES, FactoredProblem
from suffice.papers.bags import (
    AlternatingMeanMap,
    LaplacianMeanMap,
    alternate,
    consistent_labels,
)

DATA = Path(os.environ.get("SUFFICE_DATA", "data"))
RESULT = Path(__file__).parent / "results" / "llp.json"
SETS = {"magic": "fLength", "spambase": "capital_run_length_total", "adult": "age"}
KINDS = ("clusters", "feature", "skewed")
COUNTS = (4, 16, 64)
ROWS, FOLDS, INNER = 4000, 4, 3
LAMS = (1e-3, 1e-2, 1e-1, 1.0)
GAMMAS = (1e-3, 1e-2, 1e-1, 1.0)
SCALES = (0.25, 1.0, 4.0)  # of v^{G,s}, times the median distance of bag means


@dataclass(frozen=True, eq=False)
class Task:
    """Rows in bags; ``signs`` is for scoring, forming bags and the oracle."""

    rows: np.ndarray
    signs: np.ndarray
    codes: np.ndarray

    def bags(self) -> BagMoments:
        shares = np.bincount(self.codes, self.signs > 0) / np.bincount(self.codes)
        return bags_of(self.rows, self.codes, shares, 2)

    def only(self, kept: np.ndarray) -> "Task":
        inside = np.isin(self.codes, kept)
        codes = np.unique(self.codes[inside], return_inverse=True)[1]
        return Task(self.rows[inside], self.signs[inside], codes)


def load(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return shuffled numeric columns, signs and the column that feature bags are cut along."""
    frame = pq.read_table(DATA / f"{name}.parquet").to_pandas()
    signs = np.where(frame.pop("label") == 1, 1.0, -1.0)
    numeric = frame.select_dtypes("number")
    order = np.random.default_rng(0).permutation(len(frame))[:ROWS]
    cut = list(numeric.columns).index(SETS[name])
    return numeric.to_numpy(dtype=np.float64)[order], signs[order], cut


def prepared(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised rows, clipped at three deviations, with an intercept."""
    centre, scale = train.mean(axis=0), train.std(axis=0)
    scale[scale == 0] = 1.0

    def mapped(raw: np.ndarray) -> np.ndarray:
        return np.column_stack([np.clip((raw - centre) / scale, -3, 3), np.ones(len(raw))])

    return mapped(train), mapped(test)


def bag_codes(kind: str, count: int, raw: np.ndarray, task: Task) -> np.ndarray:
    rng = np.random.default_rng(count)
    if kind == "clusters":
        codes = KMeans(count, n_init=3, random_state=0).fit_predict(task.rows)
    elif kind == "feature":
        inner = np.quantile(raw, np.arange(1, count) / count)
        codes = np.searchsorted(np.unique(inner), raw, side="left")
    else:  # a bag's share of either class is Dirichlet, whatever the rows look like
        both = rng.dirichlet(np.ones(count), 2)
        codes = np.where(
            task.signs > 0,
            rng.choice(count, len(raw), p=both[0]),
            rng.choice(count, len(raw), p=both[1]),
        )
    return np.unique(codes, return_inverse=True)[1]


def fitted(rows: np.ndarray, operator: np.ndarray, lam: float) -> np.ndarray:
    problem = FactoredProblem(rows, operator, LOSSES["logistic"])
    return problem.solve(lam, tol=1e-5, max_iter=5000).parameters


def linear(
    task: Task, bags: BagMoments, lam: float, method: MeanMap | LaplacianMeanMap
) -> np.ndarray:
    weights = method.weights(bags)
    return fitted(task.rows, bags.means.T @ (weights[:, 1] - weights[:, 0]), lam)


def alternating(task: Task, bags: BagMoments, lam: float, method: AlternatingMeanMap) -> np.ndarray:
    weights = method.start.weights(bags)
    first = bags.means.T @ (weights[:, 1] - weights[:, 0])
    operator, _ = alternate(task.rows, bags, first, replace(method, lam=lam))
    return fitted(task.rows, operator, lam)


def majority(task: Task, bags: BagMoments, lam: float, method: None) -> np.ndarray:
    del method
    signs = np.where(bags.shares[:, 1] >= 0.5, 1.0, -1.0)[bags.codes]
    return fitted(task.rows, task.rows.T @ signs / len(signs), lam)


def oracle(task: Task, bags: BagMoments, lam: float, method: None) -> np.ndarray:
    del bags, method
    return fitted(task.rows, task.rows.T @ task.signs / len(task.signs), lam)


def gaussian(task: Task) -> list[LaplacianMeanMap]:
    means = task.bags().means
    median = np.median([np.linalg.norm(a - b) for a, b in product(means, means) if a is not b])
    return [LaplacianMeanMap("gaussian", s * median, g) for s, g in product(SCALES, GAMMAS)]


def bag_risk(theta: np.ndarray, task: Task) -> float:
    """Return the logistic risk, summed over rows, under the best labels that fit the bags."""
    bags, scores = task.bags(), task.rows @ theta
    signs = consistent_labels(scores, bags, worst=False)
    return float(np.logaddexp(0, -signs * scores).sum())


def folds_of_bags(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = np.random.default_rng(1).permutation(count)
    for k in range(INNER):
        yield np.delete(order, np.s_[k::INNER]), order[k::INNER]


def chosen(fit, task: Task, methods: list) -> tuple[np.ndarray, object]:
    """Return the model with the options of least risk on held-out bags, and its method."""
    options = list(product(LAMS, methods))
    errors = np.zeros(len(options))
    for kept, held in folds_of_bags(task.codes.max() + 1):
        train, test = task.only(kept), task.only(held)
        bags = train.bags()
        for i, (lam, method) in enumerate(options):
            try:
                errors[i] += bag_risk(fit(train, bags, lam, method), test)
            except ParameterError:  # bags too much alike to tell classes apart
                errors[i] += np.inf
    lam, method = options[int(errors.argmin())]
    return fit(task, task.bags(), lam, method), method


def aucs(task: Task, test: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the test AUC of every method."""
    fits = {
        "majority": (majority, [None]),
        "MM": (linear, [MeanMap()]),
        "LMM-none": (linear, [LaplacianMeanMap("none")]),
        "LMM-G": (linear, [LaplacianMeanMap("gaussian", 1.0, g) for g in GAMMAS]),
        "LMM-Gs": (linear, gaussian(task)),
        "LMM-nc": (linear, [LaplacianMeanMap("normalised-cut", None, g) for g in GAMMAS]),
        "oracle": (oracle, [None]),
    }
    models, used = {}, {}
    for name, (fit, methods) in fits.items():
        models[name], used[name] = chosen(fit, task, methods)
    for labelling, start in product(("min", "max"), ("MM", "LMM-Gs")):
        method = AlternatingMeanMap(labelling, start=used[start])
        name = f"AMM{labelling}-{start}"
        models[name], _ = chosen(alternating, task, [method])
    return {name: float(roc_auc_score(truth, test @ theta)) for name, theta in models.items()}


def cells(name: str) -> Iterator[dict]:
    """Yield one line of the table per kind and number of bags."""
    raw, signs, cut = load(name)
    for kind, count in product(KINDS, COUNTS):
        begun, scores = time.perf_counter(), []
        for train, test in StratifiedKFold(FOLDS).split(raw, signs):
            rows, test_rows = prepared(raw[train], raw[test])
            bare = Task(rows, signs[train], np.zeros(len(rows), dtype=int))
            task = replace(bare, codes=bag_codes(kind, count, raw[train, cut], bare))
            scores.append(aucs(task, test_rows, signs[test]))
        mean = {key: round(float(np.mean([s[key] for s in scores])), 4) for key in scores[0]}
        seconds = round(time.perf_counter() - begun, 1)
        yield {"set": name, "bags": kind, "count": count, "auc": mean, "seconds": seconds}


def main() -> list[dict]:
    table = []
    for line in chain.from_iterable(map(cells, SETS)):
        if not table:
            print(f"{'set':<9} {'bags':<8} count", *(f"{key:>13}" for key in line["auc"]))
        table.append(line)
        scores = (f"{value:13.4f}" for value in line["auc"].values())
        print(f"{line['set']:<9} {line['bags']:<9} {line['count']:>4}", *scores, flush=True)
    mean = {
        key: round(float(np.mean([line["auc"][key] for line in table])), 4)
        for key in table[0]["auc"]
    }
    print(f"{'mean':<24}", *(f"{value:13.4f}" for value in mean.values()))
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"table": table, "mean": mean}, indent=2) + "\n")
    return [
        claim(f"mean AUC of {worse} less that of {better}", mean[worse] - mean[better], 0.0)
        for better, worse in product(("LMM-Gs", "AMMmin-LMM-Gs"), ("MM", "majority"))
    ]


if __name__ == "__main__":
    sys.exit(any(not line["met"] for line in main()))
