"""Speed of the spread solver: against importance sampling, and against logistic regression.

Claims: the closed-form solver is at least 20 times faster than importance sampling (Barber 2020,
5.1) with the fewest draws that reach the same held-out likelihood (mean of three fits), and takes
at most 5 times as long as scikit-learn's logistic regression on the same rows at the same penalty.
One thread, one run; records drawn from the model, and MNIST 7 against 9 where SUFFICE_DATA names
the folder of mnist.parquet.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import claim, ratio_of
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from suffice.learner.spread import SpreadClassifier
from suffice.learner.spread_likelihood import Corrupted, SpreadLikelihood, clean_features
from suffice.papers.barber import flipped, read_digits
from suffice.papers.spread import as_observed, expectation_maximisation, sampled_records
from suffice.releases.columns import Flips, SpreadColumn

FOLDER = os.environ.get("SUFFICE_DATA")
FLIP = 0.2
LAM = 1e-2
DRAWS = (2, 5, 10, 20, 50, 100)
JUDGES = 50  # draws per held-out record
CLOSE = 1e-4  # nats per record
SEEDS = 3


def drawn_records() -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return pixels, classes, the number of states, and how many rows to learn from.

    Pixels are drawn one by one from those of scikit-learn's digits, labels from a logistic model.
    """
    rng = np.random.default_rng(2)
    pixels = load_digits().data.astype(np.int64)
    picks = rng.integers(0, len(pixels), (4500, pixels.shape[1]))
    records = np.take_along_axis(pixels, picks, axis=0)
    scores = (records / 8 - 1) @ rng.normal(scale=0.5, size=pixels.shape[1])
    labels = rng.random(len(records)) < expit(scores - np.median(scores))
    return records, labels.astype(np.int64), 17, 500


def large_digits() -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return the same of MNIST, as in the paper's Figure 3."""
    digits = read_digits(Path(FOLDER))
    order = np.random.default_rng(0).permutation(len(digits.pixels))[:1000]
    return digits.pixels[order].astype(np.int64), digits.labels[order].astype(np.int64), 256, 500


def held_out(coef: np.ndarray, draws: np.ndarray, codes: np.ndarray) -> float:
    """Return the log likelihood of a held-out label, its clean record integrated by sampling."""
    positive = expit(draws @ coef).mean(axis=0)
    chance = FLIP + (1 - 2 * FLIP) * positive
    return float(np.log(np.where(codes == 1, chance, 1 - chance)).mean())


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the seconds that a fit takes, and its weights."""
    start = time.perf_counter()
    theta = work()
    return time.perf_counter() - start, theta


def compare(name: str, pixels: np.ndarray, labels: np.ndarray, states: int, size: int) -> list:
    """Print both claims on one data set."""
    rng = np.random.default_rng(1)
    dirty, codes = flipped(pixels, FLIP, rng, states), flipped(labels, FLIP, rng, 2)
    noise, channel = Flips(states, keep=1 - FLIP), Flips(2, keep=1 - FLIP).matrix
    columns = tuple(SpreadColumn(f"f{j}", tuple(range(states)), noise) for j in range(len(dirty.T)))
    training, others = (Corrupted(columns, tuple(part.T)) for part in (dirty[:size], dirty[size:]))
    judges = sampled_records(others, "marginals", JUDGES, rng)

    def fit() -> np.ndarray:
        model = SpreadClassifier(prior="marginals", lam=LAM)
        return model.fit_corrupted(training, codes[:size], channel, (0, 1)).theta_

    def sampled(draws: int, rng: np.random.Generator) -> np.ndarray:
        records = sampled_records(training, "marginals", draws, rng)
        known = clean_features(training, "marginals")
        likelihood = SpreadLikelihood(known, codes[:size], channel)
        return expectation_maximisation(records, likelihood, LAM, tol=1e-5)

    ours = min(timed(fit)[0] for _ in range(5))
    goal = held_out(fit(), judges, codes[size:])
    for draws in DRAWS:
        runs = [
            timed(lambda n=draws, s=seed: sampled(n, np.random.default_rng(s)))
            for seed in range(SEEDS)
        ]
        theirs = float(np.mean([seconds for seconds, _ in runs]))
        reached = float(np.mean([held_out(coef, judges, codes[size:]) for _, coef in runs]))
        print(f"     {draws:4d} draws: {reached:.4f} (ours {goal:.4f}), {theirs / ours:.1f} times")
        if reached >= goal - CLOSE:
            break
    rows = as_observed(training).mean
    without_noise = LogisticRegression(
        C=1 / (LAM * size), fit_intercept=False, tol=1e-5, max_iter=1000
    )
    slower = ratio_of(fit, lambda: without_noise.fit(rows, codes[:size]))
    return [
        claim(f"{name}: closed form / importance sampling at {draws} draws", ours / theirs, 1 / 20),
        claim(f"{name}: spread / scikit-learn's logistic regression", slower, 5.0),
    ]


def main() -> list[dict]:
    """Print the claims and return them."""
    with threadpool_limits(1):
        claims = compare("records of the model", *drawn_records())
        if FOLDER:
            claims += compare("mnist 7v9", *large_digits())
    return claims


if __name__ == "__main__":
    main()
