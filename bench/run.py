"""Run every benchmark; print ratios measured in this run and write them to bench/results/."""

import importlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = ("mean_operator", "response", "learner", "spread_solver", "radoboost", "rados")


def main() -> None:
    sys.path.insert(0, str(HERE))
    from harness import machine

    used = machine()
    print(", ".join(f"{name} {value}" for name, value in used.items()))
    wanted = sys.argv[1:] or BENCHMARKS
    results = {name: importlib.import_module(name).main() for name in wanted}
    path = HERE / "results" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": used, "results": results}, indent=2) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
