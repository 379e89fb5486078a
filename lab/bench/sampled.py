"""Models of sampled rows against the model of the same release.

    python lab/bench/sampled.py --data DIR [--splits 4] [--epsilon 1]

Logistic regression and boosted trees are trained on 20,000 rows that `suffice.sample` draws from
moments of ranks, and measured on new rows with true labels. MST and AIM are not compared here.
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
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


def accuracies(name: str, seed: int, epsilon: float, folder: Path) -> list[float]:
    """Return the accuracy of the release's own model, of logistic regression and of trees."""
    data = split(name, seed, folder)
    rows, labels = data.rows.slice(0, _ROWS), data.labels[:_ROWS]
    count = min(2000, len(rows) // 5)
    owner = Moments(epsilon, 1e-6, standardize=rows.slice(0, count), map="ranks")
    release = owner.release(rows.slice(count), labels[count:], ledger=None)
    found = [float(MomentClassifier().fit_release(release).score(data.test_rows, data.test_labels))]
    sampled = suffice.sample(release, _ROWS, seed)
    texts = [f.name for f in sampled.schema if pa.types.is_string(f.type)]
    own, new = sampled.to_pandas(), data.test_rows.to_pandas()
    drawn = own.pop("label")
    new = new[own.columns].astype(dict.fromkeys(texts, object))
    own = own.astype(dict.fromkeys(texts, object))
    for model in (LogisticRegression(max_iter=300), HistGradientBoostingClassifier()):
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
            (QuantileTransformer(), make_column_selector(dtype_include="number")),
        )
        trained = make_pipeline(columns, model).fit(own, drawn)
        found.append(float(trained.score(new, data.test_labels)))
    return found


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Measure and print; return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data sets")
    parser.add_argument("--splits", type=int, default=4, help="train-test splits per data set")
    parser.add_argument("--epsilon", type=float, default=1.0, help="epsilon per record")
    parser.add_argument("--sets", default="magic,spambase,adult", help="data sets, with commas")
    asked = parser.parse_args(words)
    claims = []
    print("| table | fit | sampled rows, logistic | sampled rows, trees |\n|---|---|---|---|")
    for name in asked.sets.split(","):
        with warnings.catch_warnings():  # rows that occur twice, public and private
            warnings.simplefilter("ignore")
            seeds = range(asked.splits)
            found = np.array([accuracies(name, s, asked.epsilon, asked.data) for s in seeds])
        means, errors = found.mean(axis=0), found.std(axis=0) / len(found) ** 0.5
        cells = (f"{m:.3f} +- {e:.3f}" for m, e in zip(means, errors, strict=True))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        claims.append(
            claim(f"{name}: fit less sampled rows", float(means[0] - means[1:].max()), 0.03)
        )
    return claims


if __name__ == "__main__":
    main()
