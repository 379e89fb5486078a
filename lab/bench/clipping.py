"""What clipping rows costs without noise, and what it saves with it.

    python lab/bench/clipping.py --data DIR --seeds 3
    python lab/bench/clipping.py --data DIR --shares

``--shares`` prints how many public rows are shortened: of plain rows, which were the default once,
and by default at epsilon .1 and 1. Otherwise, per data set and quantile of the rows' norms: test
accuracy on exact labels (penalty by cross-validation) and of automatic releases at epsilon .1.
"default" is what the library takes of plain rows.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from harness import machine

from suffice.owner.mean_operator import MeanOperator
from suffice.papers.patrini import private_accuracy, without_noise
from suffice.papers.reproduction import split

_CLIPS = {"1": 1.0, ".95": 0.95, ".5": 0.5, "default": None}


def study(name: str, seeds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Return mean accuracies, exact and private, for every quantile."""
    data = [split(name, seed, folder) for seed in range(seeds)]
    return {
        label: {
            "exact": float(np.mean([without_noise(part, clip=clip) for part in data])),
            "private": float(np.mean([private_accuracy(part, 0.1, clip=clip)[0] for part in data])),
        }
        for label, clip in _CLIPS.items()
    }


def shares(name: str, folder: Path) -> str:
    """Return a line: the share of clipped rows of plain rows, and by default with its map."""
    rows = split(name, 0, folder).rows
    plain = MeanOperator(1.0, 1e-6, missing="mean", map=None).public_rows(rows).pipeline
    cells = [f"plain {plain.clipped:.0%}"]
    for epsilon in (0.1, 1.0):
        own = MeanOperator(epsilon, 1e-6, missing="mean").public_rows(rows).pipeline
        kind = "plain" if own.map is None else own.map.kind
        cells.append(f"epsilon {epsilon:g}: {kind} {own.clipped:.0%}")
    return f"{name}: {len(rows):,} rows, {', '.join(cells)}"


def main() -> None:
    """Print one line per data set and write lab/bench/results/clipping.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", default="spambase,wine-white,magic,banknote,higgs,adult")
    parser.add_argument("--shares", action="store_true", help="print shares of clipped rows alone")
    options = parser.parse_args()
    if options.shares:
        for name in options.sets.split(","):
            print(shares(name, options.data), flush=True)
        return
    results = {}
    for name in options.sets.split(","):
        results[name] = study(name, options.seeds, options.data)
        cells = (f"{k} {v['exact']:.4f}/{v['private']:.4f}" for k, v in results[name].items())
        print(name, "exact/private:", "  ".join(cells), flush=True)
    output = Path(__file__).parent / "results" / "clipping.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"machine": machine(), "seeds": options.seeds, "sets": results}))


if __name__ == "__main__":
    main()
