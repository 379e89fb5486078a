"""Noisy second moments: accuracy against the figures that were aimed at, and what a release costs.

    python lab/bench/moments.py --data DIR [--parts accuracy,intervals,quality,cost,choose]

Accuracy: scales come from min(2000, n/5) public rows that are disjoint from the private ones;
everything else is automatic. The figures to compare with are prototypes' (delta = 1e-6), measured
on other splits: they vary by up to 0.06 at epsilon 0.1. Cost: the exact pass over 200,000 x 100
numbers against X^T X in BLAS, and whole releases of 300 and 785 columns against OpenDP's bare draw
of as much Gaussian noise. Quality: whether the learner's own estimates cover. Choose: how its
constants were chosen, on tables that are none of these.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import claim, ratio_of
from moment_choice import print_choice
from moment_quality import print_quality
from simulated_moments import with_simulated_noise

from suffice.engines.sums import MomentSums, RowCodes
from suffice.learner.moments import (
    MomentClassifier,
    plain_numbers,
    ridge_intervals,
)
from suffice.learner.problem import design_matrix
from suffice.owner.moments import Moments
from suffice.owner.source import Source
from suffice.papers.reproduction import split
from suffice.tables.pipeline import Column, Pipeline

EPSILONS = (0.1, 0.3, 1.0, 3.0)
AIMED_AT = {
    "magic": (0.784, 0.790, 0.791, 0.791),
    "wine-white": (0.694, 0.727, 0.747, 0.755),
    "abalone": (0.741, 0.751, 0.767, 0.771),
    "spambase": (0.823, 0.884, 0.906, 0.918),
    "adult": (0.827, 0.841, 0.843, 0.845),
}
_MOST_ROWS = {"adult": 20_000}


def accuracies(name: str, splits: int, draws: int, folder: Path) -> np.ndarray:
    """Return accuracy and log loss, (splits, draws, epsilons, 2)."""
    found = np.zeros((splits, draws, len(EPSILONS), 2))
    for seed in range(splits):
        data = split(name, seed, folder)
        rows, labels = data.rows, data.labels
        rows, labels = rows.slice(0, _MOST_ROWS.get(name)), labels[: _MOST_ROWS.get(name)]
        count = min(2000, len(rows) // 5)
        public, private = rows.slice(0, count), rows.slice(count)
        for draw in range(draws):
            for k, epsilon in enumerate(EPSILONS):
                mechanism = Moments(epsilon, 1e-6, standardize=public)
                with warnings.catch_warnings():  # rows that occur twice, public and private
                    warnings.simplefilter("ignore")
                    release = mechanism.release(private, labels[count:], ledger=None)
                    model = MomentClassifier().fit_release(release)
                    chance = model.predict_proba(data.test_rows)
                own = chance[np.arange(len(chance)), data.test_labels]
                right = float((chance.argmax(axis=1) == data.test_labels).mean())
                loss = float(-np.log(np.maximum(own, 1e-12)).mean())
                found[seed, draw, k] = right, loss
    return found


def accuracy(asked: argparse.Namespace) -> list[dict]:
    """Print one line per data set."""
    claims = []
    for name in asked.sets.split(","):
        found = accuracies(name, asked.splits, asked.draws, asked.data)
        flat = found.reshape(-1, len(EPSILONS), 2)
        means, errors = flat.mean(axis=0), flat[:, :, 0].std(axis=0) / len(flat) ** 0.5
        cells = "  ".join(
            f"{epsilon:g}: {mean[0]:.3f} +- {error:.3f} (aim {aim:.3f}), log loss {mean[1]:.3f};"
            for epsilon, mean, error, aim in zip(
                EPSILONS, means, errors, AIMED_AT[name], strict=True
            )
        )
        print(name, cells, flush=True)
        short = float(np.max(np.array(AIMED_AT[name]) - means[:, 0] - 2 * errors))
        claims.append(claim(f"accuracy of moments below its aim on {name}", short, 0.02))
    return claims


def coverage(name: str, folder: Path, draws: int = 100) -> float:
    """Return how often 90 % intervals of coefficients cover those of exact moments."""
    data = split(name, 0, folder)
    rows = data.rows.slice(0, _MOST_ROWS.get(name))
    public = rows.slice(0, min(2000, len(rows) // 5))
    mechanism = Moments(1.0, 1e-6, standardize=public)
    pipeline = mechanism.private_rows(Source(rows)).pipeline
    exact = plain_numbers(
        design_matrix(rows, pipeline, new=True) / pipeline.bound, data.labels[: len(rows)], 2
    )
    rng = np.random.default_rng(0)
    hits = []
    for epsilon in EPSILONS:
        for _ in range(draws):
            noisy = with_simulated_noise(exact, epsilon, 1e-6, rng)
            found = ridge_intervals(noisy, pipeline.outputs, 0.9)
            penalty = found.penalty * np.eye(len(exact.mean))
            matrix = exact.second - np.outer(exact.mean, exact.mean) + penalty
            shift = float(exact.proportions[1]) - 0.5
            target = 2 * np.linalg.solve(matrix, exact.operator[:, 0] - shift * exact.mean)
            hits.append(np.mean((found.low <= target) & (target <= found.high)))
    return float(np.mean(hits))


def intervals(asked: argparse.Namespace) -> list[dict]:
    """Print how often intervals cover, on each data set."""
    claims = []
    for name in asked.sets.split(","):
        found = coverage(name, asked.data)
        print(f"{name}: 90 % intervals cover {found:.3f}", flush=True)
        claims.append(claim(f"90 % intervals off by, on {name}", abs(found - 0.9), 0.03))
    return claims


def _pass_over(columns: np.ndarray, labels: np.ndarray, batch: int = 16_384) -> list[dict]:
    width, rows = columns.shape
    names = tuple(Column(f"x{j}") for j in range(width))
    zero, one = np.zeros(width), np.ones(width)
    codes = RowCodes(Pipeline(names, "mean", zero, one, 8.0, 0.0, zero))
    starts = range(0, rows, batch)
    batches = [np.ascontiguousarray(columns[:, s : s + batch]) for s in starts]

    def exact() -> None:
        sums = MomentSums(width, 2)
        for start, part in zip(starts, batches, strict=True):
            sums.update((codes.of(part), labels[start : start + batch]))

    by_rows = np.ascontiguousarray(columns.T)
    exact()
    ratio = ratio_of(exact, lambda: by_rows.T @ by_rows, 9)
    return [claim("exact pass of moments over X^T X, 200,000 x 100", ratio, 2.0)]


def cost() -> list[dict]:
    """Print what the exact pass and whole releases cost."""
    rng = np.random.default_rng(0)
    claims = _pass_over(rng.normal(size=(100, 200_000)), rng.integers(0, 2, 200_000))
    for width, most in ((300, 1.8), (785, 1.5)):
        X, y = rng.uniform(-1, 1, (2_000, width)), rng.integers(0, 2, 2_000)
        mechanism, draw = Moments(1.0, 1e-6, ranges=(-1, 1)), bare_draw(width * (width + 1) // 2)
        ratio = ratio_of(lambda m=mechanism, X=X, y=y: m.release(X, y, ledger=None), draw, 3)
        claims.append(claim(f"release of moments / OpenDP's draw, d = {width}", ratio, most))
    return claims


def bare_draw(count: int) -> Callable[[], object]:
    """Return OpenDP's draw of so many Gaussian integers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=count), dp.l2_distance(T=float)
    draw, zeros = dp.m.make_gaussian(*space, scale=1e6), np.zeros(count, dtype=np.int64)
    return lambda: draw(zeros)


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Measure and print; return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the shared data sets")
    parser.add_argument("--parts", default="accuracy,intervals,cost", help="what to measure")
    parser.add_argument("--splits", type=int, default=2, help="train-test splits per data set")
    parser.add_argument("--draws", type=int, default=2, help="releases per split and epsilon")
    parser.add_argument("--sets", default=",".join(AIMED_AT), help="data sets, with commas")
    asked = parser.parse_args(words)
    parts = asked.parts.split(",")
    if {"accuracy", "intervals", "quality", "choose"} & {*parts} and asked.data is None:
        parser.error("all parts but cost need --data")
    if "choose" in parts:
        print_choice(asked.data, asked.splits, asked.draws)
    claims = accuracy(asked) if "accuracy" in parts else []
    claims += intervals(asked) if "intervals" in parts else []
    if "quality" in parts:
        sets = asked.sets.split(",")
        lacking = print_quality(asked.data, sets, asked.splits, asked.draws)
        claims.append(claim("coverage that intervals of expected accuracy lack", lacking, 0.0))
    return claims + (cost() if "cost" in parts else [])


if __name__ == "__main__":
    main()
