"""Consistency: the error of the parameters against the number of corrupted records.

    python lab/bench/spread_consistency.py --most 1000000 --repeats 3

Records are drawn from the model (a logistic regression of features of three sorts), labels flipped
with probability .2, features randomised. With the spread likelihood the error falls like N^-1/2;
naive training, whitening and reconstruction (Barber 2020, Section 4.3, Appendix B) keep theirs.
Printed: ||theta^ - theta|| / ||theta||, and the slope of its logarithm in log N.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import claim, machine
from scipy.special import expit

from suffice.learner.spread import SpreadClassifier
from suffice.learner.spread_likelihood import Corrupted, coordinates
from suffice.papers.barber import flipped
from suffice.papers.spread import spread_baselines
from suffice.releases.columns import Added, Flips, SpreadColumn

_KEEP, _LABEL_KEEP = 0.7, 0.8
_STATES, _COLUMNS = 4, 4
_RANGE, _VARIANCE = 3.0, 0.5
_MIXING = np.linalg.qr(np.random.default_rng(7).normal(size=(_COLUMNS, _COLUMNS)))[0]

Drawn = tuple[tuple[SpreadColumn, ...], np.ndarray, np.ndarray, np.ndarray]


def independent(count: int, rng: np.random.Generator) -> Drawn:
    """Return discrete columns that know nothing of each other: columns, clean, corrupted, theta."""
    return _discrete(rng.binomial(_STATES - 1, 0.4, size=(count, _COLUMNS)), rng)


def dependent(count: int, rng: np.random.Generator) -> Drawn:
    """Return discrete columns with a common cause."""
    common = rng.normal(size=(count, 1))
    raw = 0.8 * common + 0.6 * rng.normal(size=(count, _COLUMNS))
    return _discrete(np.clip(np.floor(raw + _STATES / 2), 0, _STATES - 1).astype(np.int64), rng)


def gaussian(count: int, rng: np.random.Generator) -> Drawn:
    """Return correlated Gaussian columns with Gaussian noise."""
    noise = Added(-_RANGE, _RANGE, "gaussian", _VARIANCE)
    columns = tuple(SpreadColumn(f"f{j}", None, noise) for j in range(_COLUMNS))
    values = rng.normal(size=(count, _COLUMNS)) * np.linspace(0.4, 1.0, _COLUMNS) @ _MIXING.T
    dirty = values + np.sqrt(_VARIANCE) * rng.normal(size=values.shape)
    return columns, values / _RANGE, dirty, 3 * np.array([2.0, -1.0, 1.0, 0.0])


def _discrete(clean: np.ndarray, rng: np.random.Generator) -> Drawn:
    noise = Flips(_STATES, keep=_KEEP)
    columns = tuple(SpreadColumn(f"f{j}", tuple(range(_STATES)), noise) for j in range(_COLUMNS))
    rows = coordinates(columns[0])[clean, 0]
    return columns, rows, flipped(clean, 1 - _KEEP, rng, _STATES), np.array([2.0, -1.0, 1.0, 0.0])


def errors(draw: Callable[..., Drawn], count: int, seed: int) -> dict[str, float]:
    """Return the relative error of every method on one sample."""
    rng = np.random.default_rng([seed, count])
    columns, rows, dirty, weights = draw(count, rng)
    theta = np.append(weights, 0.5)
    labels = (rng.random(count) < expit(rows @ weights + 0.5)).astype(np.int64)
    codes = flipped(labels, 1 - _LABEL_KEEP, rng, 2)
    channel = Flips(2, keep=_LABEL_KEEP).matrix
    records = Corrupted(columns, tuple(dirty.T))
    found = dict(spread_baselines(records, codes, channel))
    for name, prior in (("spread", "learned"), ("spread, independent prior", "marginals")):
        model = SpreadClassifier(prior=prior, lam=0.0)
        found[name] = model.fit_corrupted(records, codes, channel, (0, 1))
    size = np.linalg.norm(theta)
    return {name: float(np.linalg.norm(m.theta_ - theta) / size) for name, m in found.items()}


def study(draw: Callable[..., Drawn], counts: list[int], repeats: int) -> dict[str, list[float]]:
    """Return the root mean square error of every method at every number of records."""
    table: dict[str, list[float]] = {}
    for count in counts:
        runs = [errors(draw, count, seed) for seed in range(repeats)]
        for name in runs[0]:
            rms = float(np.sqrt(np.mean([run[name] ** 2 for run in runs])))
            table.setdefault(name, []).append(rms)
    return table


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print one table per sort of features and write lab/bench/results/spread_consistency.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    counts = [n for n in (10_000, 100_000, 1_000_000) if n <= options.most]
    if len(counts) < 2:
        parser.error("a slope needs --most 100000 or more")
    results, claims = {}, []
    for draw in (independent, dependent, gaussian):
        table = results[draw.__name__] = study(draw, counts, options.repeats)
        print(f"{draw.__name__}: N = {counts}")
        for name, figures in table.items():
            slope = float(np.polyfit(np.log(counts), np.log(figures), 1)[0])
            print(f"  {name:28s}", " ".join(f"{v:.4f}" for v in figures), f" slope {slope:.2f}")
            if name == "spread":
                claims.append(claim(f"slope of the spread error, {draw.__name__}", slope, -0.4))
            elif name in {"naive", "reconstruction"}:
                claims.append(claim(f"fall of {name}, {draw.__name__}", -slope, 0.1))
    output = Path(__file__).parent / "results" / "spread_consistency.json"
    output.parent.mkdir(exist_ok=True)
    found = {"machine": machine(), "counts": counts, "errors": results, "claims": claims}
    output.write_text(json.dumps(found, indent=2))
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
