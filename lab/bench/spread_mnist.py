"""Learning from randomised digits: how much of the gap to the true prior a learned prior closes.

    python lab/bench/spread_mnist.py --data DIR --seeds 10

Barber 2020, Figure 3 and Section 6.1, as `suffice reproduce` computes them (the study has the
details), held against what we claim: accuracy on clean digits never below naive training, at least
half of the gap between it and the true prior closed at p_f = .2 to .4, and with Gaussian noise
95.0 % at variance .1 and 94.0 % at .5.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import claim, machine

from suffice.papers.reproduce import document, reproduce

ENTRIES = ("spread-mnist", "spread-gaussian")
PERCENT = {0.1: 95.0, 0.5: 94.0}


def means(values: dict, name: str) -> np.ndarray:
    return np.array([np.mean(runs) for runs in values["accuracies"][name]])


def judged(flips: dict, gaussian: dict) -> list[dict]:
    """Print every claim and return them: percent right that are missing, none at most."""
    found = []
    learned, naive, true = (100 * means(flips, name) for name in ("learned", "naive", "true"))
    for p, gain, gap in zip(flips["p_f"], learned - naive, true - naive, strict=True):
        found.append(claim(f"p_f = {p:g}: naive less learned", float(-gain), 0.0))
        if p > 0.1:
            name = f"p_f = {p:g}: half of the gap less what is closed of it"
            found.append(claim(name, float(gap / 2 - gain), 0.0))
    for variance, accuracy in zip(gaussian["variances"], means(gaussian, "learned"), strict=True):
        name = f"variance {variance:g}: {PERCENT[variance]:g} less percent right"
        found.append(claim(name, PERCENT[variance] - 100 * float(accuracy), 0.0))
    return found


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print accuracies and claims, and write lab/bench/results/spread_mnist.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(arguments)
    results = reproduce(
        ENTRIES,
        folder=options.data,
        seeds=options.seeds,
        progress=lambda done, total, what: print(f"{done}/{total} {what}", flush=True),
    )
    for result in results.values():
        for table in result.tables:
            print(table.title, *(" | ".join(row) for row in table.rows), sep="\n  ")
    claims = judged(*(results[name].values for name in ENTRIES))
    output = Path(__file__).parent / "results" / "spread_mnist.json"
    output.parent.mkdir(exist_ok=True)
    written = {"machine": machine(), "claims": claims, **document(results)}
    output.write_text(json.dumps(written, indent=2) + "\n")
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
