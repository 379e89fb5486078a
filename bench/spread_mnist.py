"""Learning from randomised digits: Barber 2020, Figure 3, penalties chosen on corrupted data.

    python bench/spread_mnist.py --data DIR --seeds 10

MNIST 7 against 9, 250 of each to learn from and 900 of each, clean, to test on. With probability p
a label becomes the other one and a pixel any other of 256 states. Compared: logistic regression on
what was observed; the spread likelihood with the paper's learned prior (marginals), with ours
(correlations), and with the true marginals, which nobody has.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import machine

from suffice.learner.spread.classifier import SpreadClassifier
from suffice.learner.spread.posterior import Corrupted, coordinates
from suffice.release.spread import Flips, SpreadColumn

_STATES = 256
_TRAIN, _TEST = 250, 900


def digits(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of sevens and nines, and which are nines."""
    table = pq.read_table(folder / "mnist.parquet")
    table = table.filter(pc.is_in(table["label"], pc.cast([7, 9], table["label"].type)))
    pixels = np.column_stack([table[f"f{j}"].to_numpy() for j in range(784)])
    return pixels.astype(np.int64), (table["label"].to_numpy() == 9).astype(np.int64)


def study(pixels: np.ndarray, nines: np.ndarray, p: float, seed: int) -> dict[str, float]:
    """Return the clean test accuracy of every method on one sample."""
    rng = np.random.default_rng(seed)
    picks = [rng.permutation(np.flatnonzero(nines == k)) for k in (0, 1)]
    train = np.concatenate([pick[:_TRAIN] for pick in picks])
    test = np.concatenate([pick[_TRAIN : _TRAIN + _TEST] for pick in picks])
    clean = pixels[train]
    moved = (clean + rng.integers(1, _STATES, clean.shape)) % _STATES
    dirty = np.where(rng.random(clean.shape) < p, moved, clean)
    labels = np.where(rng.random(len(train)) < p, 1 - nines[train], nines[train])
    noise = Flips(_STATES, keep=1 - p)
    columns = tuple(SpreadColumn(f"f{j}", tuple(range(_STATES)), noise) for j in range(784))
    values = coordinates(columns[0])[:, 0]
    known = np.column_stack([values[pixels[test]], np.ones(len(test))])
    records, channel = Corrupted(columns, tuple(dirty.T)), Flips(2, keep=1 - p).matrix
    true = [np.bincount(column, minlength=_STATES) / len(clean) for column in clean.T]
    found = {
        name: SpreadClassifier(prior=prior).fit_corrupted(records, labels, channel, (0, 1))
        for name, prior in (("marginals", "marginals"), ("learned", "learned"), ("true", true))
    }
    faithful = tuple(replace(c, noise=Flips(_STATES, keep=1 - 1e-12)) for c in columns)
    found["naive"] = SpreadClassifier(prior="flat").fit_corrupted(
        replace(records, columns=faithful), labels, np.eye(2), (0, 1)
    )
    truth = nines[test] == 1
    return {name: float(np.mean((known @ m.coef_ > 0) == truth)) for name, m in found.items()}


def main() -> None:
    """Print one line per p and write bench/results/spread_mnist.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    asked = parser.parse_args()
    pixels, nines = digits(asked.data)
    results = {}
    for p in (0.1, 0.2, 0.3, 0.4):
        runs = [study(pixels, nines, p, seed) for seed in range(asked.seeds)]
        results[p] = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        print(p, " ".join(f"{name} {value:.4f}" for name, value in results[p].items()), flush=True)
    output = Path(__file__).parent / "results" / "spread_mnist.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"machine": machine(), "seeds": asked.seeds, "p": results}))


if __name__ == "__main__":
    main()
