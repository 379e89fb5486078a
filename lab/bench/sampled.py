"""Models of sampled rows against the model of the same release.

    python lab/bench/sampled.py --data DIR [--splits 4] [--epsilon 1] [--peers mst,aim]
        [--columns 15]

Logistic regression and boosted trees are trained on 20,000 rows that `suffice.sample` draws from
moments of ranks, and measured on new rows with true labels. So are they on rows of MST or AIM
(McKenna et al. 2021, 2022; dpmm in an environment of its own) at the same promise. Numbers are cut
at 16 quantiles of the same public rows for them, and drawn evenly within: quantiles, like the grid
of a release, are public. The seconds are those of one release or fit, and of the rows. --columns
keeps those columns alone that vary most with the labels, in public rows: all methods get the same.
"""

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from harness import claim
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

import suffice
from suffice.learner.moments import MomentClassifier
from suffice.owner.moments import Moments
from suffice.papers.reproduction import split

_ROWS = 20_000
_CUTS = 16  # of a number's range, for MST and AIM


def on_a_grid(public: pd.DataFrame, private: pd.DataFrame) -> tuple[np.ndarray, list[Any]]:
    """Return the cells of private rows as places on a grid, and the grid of each column.

    Of texts it is the list of them; of numbers public quantiles, which end at the extremes.
    """
    codes, grids = [], []
    for name in private.columns:
        if private[name].dtype == object:
            every = [*sorted({*private[name].dropna(), *public[name].dropna()}), "?"]
            grids.append(every)
            codes.append(private[name].fillna("?").map({t: k for k, t in enumerate(every)}))
        else:
            edges = np.unique(np.nanquantile(public[name], np.linspace(0, 1, _CUTS + 1)))
            edges = edges if len(edges) > 1 else np.array([edges[0], edges[0] + 1])
            grids.append(edges)
            inner = np.searchsorted(edges[1:-1], private[name], side="right")
            codes.append(inner)
    return np.column_stack(codes).astype(np.int64), grids


def peer_rows(method: str, data: tuple, epsilon: float, seed: int) -> tuple[Any, Any, float]:
    """Return rows and labels that dpmm generates, and its seconds."""
    from peers.environments import asked

    public, private, labels = data
    codes, grids = on_a_grid(public, private)
    classes, own = np.unique(labels, return_inverse=True)
    sizes = [len(grid) - (not isinstance(grid, list)) for grid in grids] + [len(classes)]
    answer = asked(
        "dpmm", method, codes=np.column_stack([codes, own]), sizes=np.array(sizes),
        epsilon=epsilon, delta=1e-6, rows=_ROWS, seed=seed,
    )  # fmt: skip
    rows, rng = np.array(answer["rows"]), np.random.default_rng(seed)
    columns = {}
    for name, grid, places in zip(private.columns, grids, rows.T, strict=False):
        if isinstance(grid, list):
            columns[name] = np.array(grid, dtype=object)[places]
        else:
            columns[name] = grid[places] + rng.random(_ROWS) * np.diff(grid)[places]
    return pd.DataFrame(columns), classes[rows[:, -1]], answer["seconds"]


def accuracies(
    name: str, seed: int, epsilon: float, folder: Path, peers: Sequence[str], *, most: int | None
) -> list[float]:
    """Return the accuracy of the release's own model, of logistic regression and of trees.

    Behind them are those of each peer, and the seconds of all.
    """
    data = split(name, seed, folder)
    rows, labels = data.rows.slice(0, _ROWS), data.labels[:_ROWS]
    count = min(2000, len(rows) // 5)
    if most is not None:  # of tables of numbers
        cells = rows.slice(0, count).to_pandas().rank()
        apart = cells.corrwith(pd.Series(labels[:count] == labels[0])).abs()
        kept = set(apart.nlargest(most).index)
        rows = rows.select([name for name in rows.column_names if name in kept])
    started = time.perf_counter()
    owner = Moments(epsilon, 1e-6, standardize=rows.slice(0, count), map="ranks")
    release = owner.release(rows.slice(count), labels[count:], ledger=None)
    sampled = suffice.sample(release, _ROWS, seed)
    seconds = [time.perf_counter() - started]
    tests = data.test_rows.select(rows.column_names)
    found = [float(MomentClassifier().fit_release(release).score(tests, data.test_labels))]
    texts = [f.name for f in sampled.schema if pa.types.is_string(f.type)]
    objects = dict.fromkeys(texts, object)
    own, new = sampled.to_pandas(), data.test_rows.to_pandas()
    drawn = own.pop("label")
    new = new[own.columns].astype(objects)
    found += _scores(own.astype(objects), drawn, new, data.test_labels, texts)
    frame = rows.to_pandas()[own.columns].astype(objects)
    for peer in peers:
        cut = (frame[:count], frame[count:], labels[count:])
        *generated, spent = peer_rows(peer, cut, epsilon, seed)
        found += _scores(*generated, new, data.test_labels, texts)
        seconds.append(spent)
    return [*found, *seconds]


def _scores(own: pd.DataFrame, drawn: Any, new: pd.DataFrame, labels: Any, texts: list) -> list:
    """Return the accuracy of logistic regression and of trees of these rows, on new ones."""
    found = []
    for model in (LogisticRegression(max_iter=300), HistGradientBoostingClassifier()):
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
            (QuantileTransformer(), make_column_selector(dtype_include="number")),
        )
        trained = make_pipeline(columns, model).fit(own, drawn)
        found.append(float(trained.score(new, labels)))
    return found


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Measure and print; return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data sets")
    parser.add_argument("--splits", type=int, default=4, help="train-test splits per data set")
    parser.add_argument("--epsilon", type=float, default=1.0, help="epsilon per record")
    parser.add_argument("--sets", default="magic,spambase,adult", help="data sets, with commas")
    parser.add_argument("--columns", type=int, help="how many columns are kept; default: all")
    parser.add_argument("--peers", default="", help="mst, aim or both, with commas")
    asked = parser.parse_args(words)
    claims = []
    peers = [peer for peer in asked.peers.split(",") if peer]
    heads = ["fit", *(f"{who}, {model}" for who in ("sampled rows", *peers)
                      for model in ("logistic", "trees"))]  # fmt: skip
    heads += [f"{who}, seconds" for who in ("sampled rows", *peers)]
    print(f"| table | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in asked.sets.split(","):
        with warnings.catch_warnings():  # rows that occur twice, public and private
            warnings.simplefilter("ignore")
            seeds = range(asked.splits)
            where, most = (asked.epsilon, asked.data, peers), asked.columns
            found = np.array([accuracies(name, seed, *where, most=most) for seed in seeds])
        means, errors = found.mean(axis=0), found.std(axis=0) / len(found) ** 0.5
        cells = (f"{m:.3f} +- {e:.3f}" for m, e in zip(means, errors, strict=True))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        claims.append(
            claim(f"{name}: fit less sampled rows", float(means[0] - means[1:3].max()), 0.03)
        )
    return claims


if __name__ == "__main__":
    main()
