"""What clipping rows costs without noise, and what it saves with it.

    python lab/bench/clipping.py --data DIR --seeds 3

Per data set and quantile of the rows' norms: test accuracy on exact labels (penalty by
cross-validation) and of automatic releases at epsilon .1. "default" is what the library takes.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from harness import machine

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


def main() -> None:
    """Print one line per data set and write lab/bench/results/clipping.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", default="spambase,wine-white,magic,banknote,higgs,adult")
    options = parser.parse_args()
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
