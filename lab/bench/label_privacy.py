"""What label privacy costs in accuracy: automatic releases and models against non-private ones.

    python lab/bench/label_privacy.py --data ../shared/data --seeds 10

Per data set: the same learner without noise, its penalty tuned by cross-validation; everything
automatic at several epsilons; every single mechanism at epsilon .1; the larger class. Claims: in no
data set does label privacy cost more than docs/accuracy.md shows in the worst of them, beyond
three standard errors of the seeds.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import claim, machine

from suffice.owner.mean_operator import MECHANISMS
from suffice.papers.patrini import private_accuracy, without_noise
from suffice.papers.reproduction import split

_EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
_MUST = ("spambase", "wine-white", "magic", "adult", "ijcnn1", "uci-har", "mnist-7v9")
_PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def printed_costs() -> dict[float, float]:
    """Return the points that label privacy costs at most by docs/accuracy.md, by epsilon."""
    head, _, *rows = re.search(
        r"^\| data set \| exact labels .*?\n\n", _PAGE.read_text(), re.DOTALL | re.MULTILINE
    )[0].splitlines()[:-1]
    names = [cell.strip() for cell in head.strip("|").split("|")]
    found: dict[float, float] = {}
    for row in rows:
        cells = dict(zip(names, row.strip("|").split("|"), strict=True))
        for name in names:
            if name.startswith("epsilon"):
                lost = round(100 * (float(cells["exact labels"]) - float(cells[name])), 1)
                epsilon = float(name.removeprefix("epsilon"))
                found[epsilon] = max(found.get(epsilon, lost), lost)
    return found


def study(name: str, seeds: int, folder: Path, epsilons: list[float]) -> dict[str, object]:
    """Return mean accuracies over the seeds."""
    found: dict[str, list[float]] = {}
    chosen: dict[str, list[str]] = {}
    for seed in range(seeds):
        data = split(name, seed, folder)
        found.setdefault("majority", []).append(data.majority)
        found.setdefault("without noise", []).append(without_noise(data))
        for epsilon in epsilons:
            value, mechanism = private_accuracy(data, epsilon)
            found.setdefault(f"auto {epsilon:g}", []).append(value)
            chosen.setdefault(f"{epsilon:g}", []).append(mechanism)
        for mechanism in MECHANISMS:
            value, _ = private_accuracy(data, 0.1, mechanism)
            found.setdefault(f"{mechanism} 0.1", []).append(value)
    return {
        "means": {key: float(np.mean(values)) for key, values in found.items()},
        "least": {key: float(np.min(values)) for key, values in found.items()},
        "lost": {
            f"{epsilon:g}": list(
                100 * np.subtract(found["without noise"], found[f"auto {epsilon:g}"])
            )
            for epsilon in epsilons
        },
        "chosen": chosen,
    }


def judged(results: dict[str, dict]) -> list[dict]:
    """Print and return the claims: points that label privacy clearly costs in the worst set."""
    found = []
    for epsilon, most in printed_costs().items():
        lost = [
            of["lost"][f"{epsilon:g}"] for of in results.values() if f"{epsilon:g}" in of["lost"]
        ]
        if lost:
            errors = [np.std(points, ddof=1) / len(points) ** 0.5 for points in lost]
            costs = [
                np.mean(points) - 3 * error for points, error in zip(lost, errors, strict=True)
            ]
            name = f"points that epsilon {epsilon:g} clearly costs, worst of {len(lost)} data sets"
            found.append(claim(name, float(max(costs)), most))
    return found


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print one line per data set and write lab/bench/results/label_privacy.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default=",".join(_MUST))
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in _EPSILONS))
    options = parser.parse_args(arguments)
    results, epsilons = {}, [float(e) for e in options.epsilons.split(",")]
    for name in options.sets.split(","):
        results[name] = study(name, options.seeds, options.data, epsilons)
        means = results[name]["means"]
        print(name, " ".join(f"{key} {value:.4f}" for key, value in means.items()), flush=True)
    output = Path(__file__).parent / "results" / "label_privacy.json"
    output.parent.mkdir(exist_ok=True)
    claims = judged(results)
    found = {"machine": machine(), "seeds": options.seeds, "sets": results, "claims": claims}
    output.write_text(json.dumps(found))
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
