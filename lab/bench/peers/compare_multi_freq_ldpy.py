"""Our randomised response beside multi-freq-ldpy's: one answer per person, and shares from them.

    python lab/bench/peers/compare_multi_freq_ldpy.py

The same states, the same epsilon, pure; processor seconds of one thread, one run. Its answers come
from numpy's generator in floating point, ours from the operating system's and integers alone.
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from environments import asked  # noqa: E402
from harness import claim  # noqa: E402

from suffice.learner.frequencies import estimate_frequencies  # noqa: E402
from suffice.privacy.response import Response  # noqa: E402
from suffice.releases.columns import Flips  # noqa: E402

PEOPLE, STATES, EPSILON, REPEATS = 200_000, 32, 1.0, 5


def ours(states: np.ndarray) -> tuple[float, np.ndarray]:
    """Return seconds for all answers, and the shares that follow from them."""
    response = Response.from_epsilon(STATES, EPSILON)
    start = time.process_time()
    answers = response.randomise(states)
    took = time.process_time() - start
    noise = Flips(STATES, table=tuple(map(tuple, response.matrix.tolist())))
    return took, estimate_frequencies(answers, noise).shares


def main() -> list[dict]:
    """Print times and errors; return the claims."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(STATES, 0.3))
    ours(np.zeros(10, dtype=np.uint8))  # compiles
    times, errors = [], {"ours": [], "MI": [], "IBU": []}
    for _ in range(REPEATS):
        states = rng.choice(STATES, PEOPLE, p=truth).astype(np.uint8)
        true = np.bincount(states, minlength=STATES) / PEOPLE
        took, shares = ours(states)
        peer = asked("multi_freq_ldpy", states=states, count=STATES, epsilon=EPSILON)
        times.append(took / peer["seconds"])
        for name, found in {"ours": shares, "MI": peer["MI"], "IBU": peer["IBU"]}.items():
            errors[name].append(np.abs(np.array(found) - true).sum())
    means = {name: float(np.mean(one)) for name, one in errors.items()}
    print(f"{PEOPLE:,} people, {STATES} states, epsilon {EPSILON:g}, L1 errors of shares: {means}")
    best = min(means["MI"], means["IBU"])
    return [
        claim("randomised response / multi-freq-ldpy's time", float(np.median(times)), 0.1),
        claim("L1 error of shares / the better of its estimators", means["ours"] / best, 1.1),
    ]


if __name__ == "__main__":
    main()
