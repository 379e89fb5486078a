"""How far released proportions are from the true ones, mechanism by mechanism.

    python lab/bench/proportions.py [--draws 2000]

First the setting of Iyer et al. 2016, Section 4.1 (m = 1000, five classes, epsilon = delta = .05,
four classes of 5 %), with the library's own noise. Then 60 settings, each at skewed and at even
classes, with simulated noise of the same law: what "auto" takes against the best mechanism that has
a global guarantee.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from harness import claim, machine

from suffice.models.simplex import nearest_proportions
from suffice.owner.proportions import (
    MECHANISMS,
    CountNoise,
    bag_sizes,
    best_count_noise,
    count_noise,
)
from suffice.privacy.dirichlet import largest_sigma
from suffice.privacy.guarantee import Protection

SIZES = (300, 1000, 10_000)
CLASSES = (2, 3, 5, 10)
PRICES = ((0.05, 0.05), (0.1, 1e-3), (0.2, 1e-2), (0.5, 1e-5), (1.0, 1e-5))
RARE = 0.05


def counts_of(size: int, classes: int, *, even: bool) -> np.ndarray:
    """Return the counts of a set: even, or the paper's, all classes but the last rare."""
    share = 1 / classes if even else RARE
    counts = np.full(classes, round(size * share))
    counts[-1] = size - counts[:-1].sum()
    return counts


def l1(noisy: np.ndarray, counts: np.ndarray) -> float:
    """Return the mean L1 distance of proportions after the projection."""
    size = counts.sum()
    return float(np.abs(nearest_proportions(noisy / size) - counts / size).sum(axis=1).mean())


def library_distortion(name: str, counts: np.ndarray, price: tuple, draws: int) -> float:
    """Return the mean distortion of the library's own draws."""
    sets = bag_sizes([int(counts.sum())] * draws, len(counts))
    return l1(count_noise(name, sets, *price).draw(np.tile(counts, (draws, 1))), counts)


def simulated(name: str, noise: CountNoise, counts: np.ndarray, price: tuple, draws: int) -> float:
    """Return the mean distortion of simulated draws of the same law; infinite where none exists."""
    rng = np.random.default_rng(0)
    size, classes = counts.sum(), len(counts)
    if name == "scaled-dirichlet":
        sigma = largest_sigma(counts, *price)
        drawn = None if sigma is None else size * rng.dirichlet(sigma * counts, draws)
    elif name == "scaled-dirichlet-bounded":
        total = size + classes * noise.kappa
        drawn = total * rng.dirichlet(noise.sigma * (counts + noise.kappa), draws) - noise.kappa
    elif name == "gaussian":
        drawn = counts + rng.normal(0, noise.scale, (draws, classes))
    else:
        laplace = noise if name == "laplace" else noise.laplace
        added = rng.laplace(
            0, laplace.scale, (draws, 1 if laplace.noise_on_first_count_only else classes)
        )
        drawn = counts + (
            np.hstack([added, -added]) if laplace.noise_on_first_count_only else added
        )
        if name == "laplace-prior":
            prior = np.maximum(nearest_proportions(drawn / size) * size, 1e-9)
            drawn = size * np.array([rng.dirichlet(p) for p in prior])
    return np.inf if drawn is None else l1(drawn, counts)


def settings() -> Iterator[tuple[int, int, tuple[float, float]]]:
    """Yield the 60 settings: size, classes, (epsilon, delta)."""
    yield from product(SIZES, CLASSES, PRICES)


def compared(size: int, classes: int, price: tuple, draws: int, *, even: bool) -> dict:
    """Return the distortion of every mechanism at one setting, and what auto takes."""
    counts, sets = counts_of(size, classes, even=even), bag_sizes([size], classes)
    chosen, _ = best_count_noise(sets, *price)
    distortions, sound = {}, []
    for name in MECHANISMS:
        mechanism = count_noise(name, sets, *price)
        distortions[name] = simulated(name, mechanism, counts, price, draws)
        if mechanism.kind is Protection.GLOBAL:
            sound.append(name)
    best = min(sound, key=distortions.__getitem__)
    ratio = distortions[chosen] / distortions[best]
    unsound = distortions["scaled-dirichlet"] / distortions[chosen]
    return {
        "auto": chosen,
        "best": best,
        "ratio": ratio,
        "unsound": unsound,
        "distortion": distortions,
    }


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print both parts and write lab/bench/results/proportions.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=2000)
    draws = parser.parse_args(arguments).draws
    counts = counts_of(1000, 5, even=False)
    own = {n: library_distortion(n, counts, (0.05, 0.05), min(draws, 400)) for n in MECHANISMS}
    own["gaussian"] = library_distortion("gaussian", counts, (0.05, 0.05), 5 * draws)
    print("m = 1000, c = 5, (.05, .05):", ", ".join(f"{n} {d:.4f}" for n, d in own.items()))
    chosen, _ = best_count_noise(bag_sizes([1000], 5), 0.05, 0.05)
    results = {"paper": own, "auto": chosen, "claims": []}
    results["claims"].append(claim("distortion of auto at the paper's setting", own[chosen], 0.030))
    for even in (False, True):
        rows = [compared(*setting, draws, even=even) for setting in settings()]
        for (size, classes, (epsilon, delta)), row in zip(settings(), rows, strict=True):
            cells = " ".join(f"{d:8.4f}" for d in row["distortion"].values())
            line = f"m {size:6d} c {classes:2d} ({epsilon:g}, {delta:g})".ljust(32)
            print(f"{line} {cells}  {row['auto']:9s} {row['ratio']:.3f}")
        shape = "even" if even else "skewed"
        worst = max(row["ratio"] for row in rows)
        results["claims"].append(claim(f"auto over the best, 60 settings, {shape}", worst, 1.05))
        gain = min(row["unsound"] for row in rows)
        print(f"least ratio of scaled-dirichlet (not private) to auto: {gain:.3f}")
        results[shape] = rows
    output = Path(__file__).parent / "results" / "proportions.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"machine": machine(), "draws": draws, **results}))
    return results["claims"]


if __name__ == "__main__":
    main(sys.argv[1:])
