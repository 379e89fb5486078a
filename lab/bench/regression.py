"""Regressions from moments: how often intervals cover, and how far predictions are off.

    python lab/bench/regression.py --data DIR [--parts coverage,error,line] [--draws 400]
        [--unit record]

Coverage: a table is the population, and records are drawn from it with replacement. What intervals
must hold are least squares, R^2, means, variances and correlations of the whole table, with rows
shortened and the target cut to its range. Public parts are those of a real release; its arrays get
Gaussian noise of the deviations that it states, drawn by numpy. The width is over that of a plain
interval without noise. With --unit label rows are public, and the target alone is private.

Error: mean squared error on new rows over that of the mean, against AdaSSP (Wang 2018) at the same
promise, and diffprivlib's LinearRegression, which is pure and protects records that are added or
removed (an environment of its own; --peers). Rivals get the same rows, shortened alike, and the
same range of the target. Part "line" has one feature per table: there OpenDP's Theil-Sen runs too.
"""

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import claim
from rival_adassp import LinearStatistics, adassp

from suffice.errors import ParameterError
from suffice.learner.moments import MomentRegressor, describe
from suffice.learner.problem import design_matrix
from suffice.owner.moments import Moments
from suffice.releases.release import Release

EPSILONS = (0.3, 1.0, 3.0)
# The target, its range, and the features: columns that a statistics office would name.
TABLES: dict[str, tuple[str, tuple[float, float], tuple[str, ...]]] = {
    "wine_white": (
        "label", (0, 10),
        ("volatile_acidity", "residual_sugar", "sulphates", "pH", "alcohol"),
    ),
    "abalone": ("label", (0, 30), ("Height", "Shucked_weight", "Shell_weight")),
    "adult": (
        "hours_per_week", (0, 100),
        ("age", "education_num", "capital_gain", "capital_loss", "sex"),
    ),
    "magic": (
        "fDist", (0, 500),
        ("fLength", "fWidth", "fSize", "fConc", "fAsym", "fM3Long", "fM3Trans", "fAlpha"),
    ),
    "covertype": (
        "Elevation", (1800, 3900),
        ("Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology",
         "Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon",
         "Horizontal_Distance_To_Fire_Points"),
    ),
}  # fmt: skip
# The same with one feature, the most that OpenDP's Theil-Sen takes: table/feature.
LINES = {
    f"{name}/{feature}": (*TABLES[name][:2], (feature,))
    for name, feature in (
        ("wine_white", "alcohol"), ("abalone", "Shell_weight"), ("adult", "age"),
        ("magic", "fLength"), ("covertype", "Slope"),
    )
}  # fmt: skip
_EVERY = {**TABLES, **LINES}
_MOST_ROWS = 50_000
_DELTA = 1e-6


def table_of(name: str, folder: Path) -> tuple[pa.Table, pa.Table]:
    """Return public and private rows of a table: features and the target."""
    target, _, features = _EVERY[name]
    table = pq.read_table(folder / f"{name.partition('/')[0]}.parquet").select([*features, target])
    order = np.random.default_rng(0).permutation(len(table))[:_MOST_ROWS]
    count = min(2000, len(order) // 5)
    return table.take(order[:count]).drop_columns(target), table.take(order[count:])


def released(
    name: str, public: pa.Table, private: pa.Table, epsilon: float, unit: str = "record"
) -> Release:
    """Return a real release, whose public parts are used."""
    target, limits, _ = _EVERY[name]
    owner = Moments(epsilon, _DELTA, unit=unit, standardize=public, ranges={target: limits})
    with warnings.catch_warnings():  # rows that occur twice, public and private
        warnings.simplefilter("ignore")
        return owner.release(private, target=target, ledger=None)


def numbers_of(name: str, release: Release, rows: pa.Table) -> np.ndarray:
    """Return the coordinates of rows, of length 1 at most, and the target between -1 and 1."""
    target, (low, high), features = _EVERY[name]
    mapped = design_matrix(rows.select(list(features)), release.pipeline, new=True)
    scaled = (2 * rows[target].to_numpy().astype(float) - low - high) / (high - low)
    return np.column_stack([mapped / release.pipeline.bound, np.clip(scaled, -1, 1)])


def with_moments(release: Release, numbers: np.ndarray, rng: np.random.Generator | None) -> Release:
    """Return the release of these numbers, with simulated noise or without any."""
    bound, details, width = release.pipeline.bound, release.details, numbers.shape[1] - 1
    second, mean = numbers.T @ numbers / len(numbers), numbers.mean(axis=0)
    arrays = {
        "second_moments": second[:-1, :-1] * bound**2,
        "mean": mean[:-1] * bound,
        "operator": second[:-1, -1] * bound,
        "target_moments": np.array([mean[-1], second[-1, -1]]),
    }
    if rng is not None:
        upper = np.triu(rng.normal(size=(width, width)) / math.sqrt(2), 1)
        noise = upper + upper.T + np.diag(rng.normal(size=width))
        arrays["second_moments"] = (
            arrays["second_moments"] + details.get("second_noise", 0.0) * noise
        )
        for key, stated in (("mean", "mean_noise"), ("operator", "operator_noise")):
            arrays[key] = arrays[key] + details.get(stated, 0.0) * rng.normal(size=width)
        sizes = np.array([details["target_noise"], details["target_square_noise"]])
        arrays["target_moments"] = arrays["target_moments"] + sizes * rng.normal(size=2)
    return replace(release, arrays={k: np.ascontiguousarray(v) for k, v in arrays.items()})


def _tiny(release: Release) -> Release:
    """Return the release as if it had next to no noise, and very many records."""
    details = {k: v * 1e-9 if k.endswith("_noise") else v for k, v in release.details.items()}
    return replace(release, details=details)


def coverage(name: str, folder: Path, draws: int, unit: str) -> list[dict]:
    """Print how often intervals cover on one table, and return the claims."""
    public, private = table_of(name, folder)
    claims = []
    for epsilon in EPSILONS:
        release = released(name, public, private, epsilon, unit)
        population = numbers_of(name, release, private)
        exact = _tiny(with_moments(release, population, None))
        truth, figures = MomentRegressor().fit_release(exact), describe(exact)
        true, base = truth.coefficient_intervals(), np.ones(1)
        moving = true.high > true.low  # all but references
        # Even residuals, and no noise: what a textbook prints.
        base = (true.high - true.low)[moving] / math.sqrt(2)
        rng, size = np.random.default_rng(1), len(population)
        hits, widths, r2, means, variances, correlations = [], [], [], [], [], []
        for _ in range(draws):
            sample = population[rng.integers(size, size=size)]
            noisy = with_moments(release, sample, rng)
            found = describe(noisy)
            means.append(_within(found.means, figures.means[:, 0]))
            variances.append(_within(found.variances, figures.variances[:, 0]))
            off = np.triu_indices(len(found.names), 1)
            seen = found.correlations[off][~np.isnan(found.correlations[off][:, 0])]
            known = figures.correlations[off][~np.isnan(found.correlations[off][:, 0]), 0]
            correlations.append(_within(seen, known) if len(seen) else np.nan)
            model = MomentRegressor().fit_release(noisy)
            try:
                table = model.coefficient_intervals()
            except ParameterError:
                continue
            hits.append(((table.low <= true.estimate) & (true.estimate <= table.high))[moving])
            widths.append(np.median((table.high - table.low)[moving] / base))
            low, high = model.r2_interval_
            r2.append(low <= truth.r2_ <= high)
        covered = float(np.mean(hits)) if hits else math.nan
        print(
            f"| {name} | {size:,} x {population.shape[1] - 1} | {epsilon:g} | {covered:.3f}"
            f" | {float(np.mean(hits, axis=0).min()) if hits else math.nan:.3f}"
            f" | {float(np.median(widths)) if widths else math.nan:.1f}"
            f" | {1 - len(hits) / draws:.2f} | {float(np.mean(r2)) if r2 else math.nan:.3f}"
            f" | {np.mean(means):.3f} | {np.mean(variances):.3f}"
            f" | {np.nanmean(correlations):.3f} |",
            flush=True,
        )
        if len(hits) >= draws / 10:
            claims.append(claim(f"coverage that {name} lacks at {epsilon:g}", 0.93 - covered, 0.0))
    return claims


def _within(found: np.ndarray, truth: np.ndarray) -> float:
    """Return how often intervals (n, 3) hold the truth (n,)."""
    return float(np.mean((found[:, 1] <= truth) & (truth <= found[:, 2])))


def errors(name: str, folder: Path, splits: int, *, peers: bool) -> tuple[int, int]:
    """Print errors over that of the mean; return in how many cells ours is the best, and of all."""
    public, private = table_of(name, folder)
    good = 0
    for epsilon in EPSILONS:
        found: dict[str, list[float]] = {}
        for seed in range(splits):
            rng = np.random.default_rng(seed)
            order = rng.permutation(len(private))
            test, train = (
                private.take(order[: len(order) // 5]),
                private.take(order[len(order) // 5 :]),
            )
            release = released(name, public, train, epsilon)
            new, old = numbers_of(name, release, test), numbers_of(name, release, train)
            base = float(np.mean((new[:, -1] - old[:, -1].mean()) ** 2))

            def note(rival: str, predicted: np.ndarray, base=base, new=new, found=found) -> None:
                error = np.mean((new[:, -1] - np.clip(predicted, -1, 1)) ** 2) / base
                found.setdefault(rival, []).append(float(error))

            _, (low, high), features = _EVERY[name]
            ours = MomentRegressor().fit_release(release).predict(test.select(list(features)))
            note("moments", (2 * ours - low - high) / (high - low))
            # The constant takes half of the squared length, which is shared by rows of length 1.
            wide = [
                np.column_stack([x[:, :-1], np.ones(len(x))]) / math.sqrt(2) for x in (old, new)
            ]
            theta = adassp(LinearStatistics.of(wide[0], old[:, -1]), epsilon, _DELTA, rng)
            note("adassp", wide[1] @ theta)
            plain = np.linalg.lstsq(wide[0], old[:, -1], rcond=None)[0]
            note("exact", wide[1] @ plain)
            asked_ones = ["diffprivlib_regression"] if peers else []
            if peers and len(features) == 1:
                asked_ones.append("opendp_theil_sen")
            for peer in asked_ones:
                from peers.environments import asked

                answer = asked(
                    peer, epsilon=epsilon, rows=old[:, :-1],
                    target=old[:, -1], test_rows=new[:, :-1], seed=seed,
                )  # fmt: skip
                note(peer, np.array(answer["predicted"]))
        rivals = [rival for rival in found if rival not in ("moments", "exact")]
        ahead = True
        for rival in rivals:
            apart = np.array(found["moments"]) - np.array(found[rival])
            ahead &= bool(apart.mean() <= apart.std(ddof=1) / math.sqrt(splits))
        good += ahead
        cells = "; ".join(
            f"{rival} {np.mean(e):.3f} +- {np.std(e) / math.sqrt(splits):.3f}"
            for rival, e in found.items()
        )
        print(f"{name} epsilon {epsilon:g}: {cells}{'' if ahead else '  BEHIND'}", flush=True)
    return good, len(EPSILONS)


def main(words: Sequence[str] | None = None) -> list[dict]:
    """Measure and print; return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the shared data sets")
    parser.add_argument("--parts", default="coverage,error", help="what to measure")
    parser.add_argument("--draws", type=int, default=400, help="samples per table and epsilon")
    parser.add_argument(
        "--unit", default="record", choices=("record", "label"), help="what is protected"
    )
    parser.add_argument("--splits", type=int, default=10, help="train-test splits per table")
    parser.add_argument("--sets", default=",".join(TABLES), help="tables, with commas")
    parser.add_argument("--peers", action="store_true", help="also ask diffprivlib and OpenDP")
    asked = parser.parse_args(words)
    claims: list[dict] = []
    names, parts = asked.sets.split(","), asked.parts.split(",")
    if "coverage" in parts:
        print("| table | rows x features | epsilon | covered | least | width | without | R^2"
              " | means | variances | correlations |\n|" + "---|" * 11)  # fmt: skip
        for name in names:
            claims += coverage(name, asked.data, asked.draws, asked.unit)
    lines = [line for line in LINES if line.partition("/")[0] in names]
    for part, kept in (("error", names), ("line", lines)):
        if part in parts:
            counts = [errors(name, asked.data, asked.splits, peers=asked.peers) for name in kept]
            good, cells = (sum(numbers) for numbers in zip(*counts, strict=True))
            claims.append(claim(f"cells of {part} behind a rival, part", 1 - good / cells, 0.2))
    return claims


if __name__ == "__main__":
    main()
