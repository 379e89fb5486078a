"""Run the benchmarks listed here; print what was measured and write it to lab/bench/results/.

    python lab/bench/run.py [NAME ...] [--data DIR] [--against OLD.json]

Benchmarks that need data sets are left out without --data. Peers run in environments of their own,
which the first run makes (lab/bench/peers/). --against prints what changed since another run. Exit
code 1 if a claim is missed, or a benchmark claims nothing.
"""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Bench(NamedTuple):
    """A module with ``main``, the words it is called with, and whether it needs --data."""

    module: str
    words: tuple[str, ...] | None = None
    data: bool = False


BENCHMARKS = {
    "mean_operator": Bench("mean_operator"),
    "public_pass": Bench("public_pass"),
    "csv_reading": Bench("csv_reading"),
    "streamed_fit": Bench("streamed_fit"),
    "startup": Bench("startup", ()),
    "serve_demo": Bench("serve_demo"),
    "engines": Bench("engines", ()),
    "databases": Bench("databases", ()),
    "service": Bench("service", ()),
    "answering": Bench("answering", ()),
    "growth": Bench("growth", ()),
    "crowded": Bench("crowded", ()),
    "response": Bench("response"),
    "learner": Bench("learner"),
    "spread_solver": Bench("spread_solver"),
    "spread_consistency": Bench("spread_consistency", ("--most", "100000", "--repeats", "20")),
    "radoboost": Bench("radoboost"),
    "rados": Bench("rados"),
    "moments": Bench("moments", ("--parts", "cost")),
    "regression": Bench("regression", ("--draws", "100"), data=True),
    "sampled": Bench("sampled", (), data=True),
    "moments_accuracy": Bench("moments", ("--parts", "accuracy,intervals,quality"), data=True),
    "proportions": Bench("proportions", ("--draws", "400")),
    "local_training": Bench("parties", ("--parts", "training")),
    "ratio_memory": Bench("class_ratio", ("--parts", "memory")),
    "multi_freq_ldpy": Bench("compare_multi_freq_ldpy"),
    "spread_mnist": Bench("spread_mnist", ("--seeds", "4"), data=True),
    "label_noise": Bench("label_noise", (), data=True),
    "label_privacy": Bench("label_privacy", ("--epsilons", "0.1,1"), data=True),
    "probabilities": Bench("probabilities", (), data=True),
    "ratio": Bench("class_ratio", ("--parts", "adult,intervals,mnist"), data=True),
    "natural_bags": Bench("natural_bags", ("--repeats", "8"), data=True),
    "quapy": Bench("compare_quapy", (), data=True),
    "diffprivlib": Bench("compare_diffprivlib", ("--seeds", "1"), data=True),
    "llp_table": Bench("llp_table", data=True),
    "majority": Bench("majority", (), data=True),
    "ridge": Bench("ridge", ("--draws", "2"), data=True),
    "merged_owners": Bench("merged_owners", (), data=True),
    "parties": Bench("parties", ("--parts", "har,kdd99", "--trials", "5"), data=True),
    "advise": Bench("advise", (), data=True),
    "many_classes": Bench("many_classes", ("--sets", "letters-8,mnist-8,har-5"), data=True),
    "record_rivals": Bench("rivals", ("--promise", "record"), data=True),
    "label_rivals": Bench(
        "rivals",
        ("--promise", "label", "--draws", "1", "--splits", "2", "--epsilons", "0.1,1"),
        data=True,
    ),
}


def run(bench: Bench, data: Path | None) -> list[dict]:
    """Return the claims of one benchmark: at least one, or nothing was found out."""
    main = importlib.import_module(bench.module).main
    if bench.words is None:
        claims = main()
    else:
        claims = main((*bench.words, *(("--data", str(data)) if bench.data else ())))
    return claims or [{"name": f"{bench.module} claims something", "value": 0, "met": False}]


def changes(now: dict, then: dict) -> Iterator[str]:
    """Yield one line per claim that both runs measured."""
    before = {claim["name"]: claim["value"] for claims in then.values() for claim in claims}
    for claims in now.values():
        for claim in claims:
            if claim["name"] in before:
                yield f"{before[claim['name']]:10.3f} -> {claim['value']:10.3f}  {claim['name']}"


def main() -> int:
    """Measure, print and write; return the exit code, 1 if a claim was missed."""
    sys.path[:0] = [str(HERE), str(HERE / "peers")]
    from harness import machine

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--data", type=Path, help="the folder with the public data sets")
    parser.add_argument("--against", type=Path, help="the JSON of another run")
    options = parser.parse_args()
    if options.data is not None:  # for those that use real rows where there are some
        os.environ["SUFFICE_DATA"] = str(options.data)
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    used, results = machine(), {}
    print(", ".join(f"{name} {value}" for name, value in used.items()))
    for name in options.names or BENCHMARKS:
        if BENCHMARKS[name].data and options.data is None:
            print(f"left out: {name} (it needs --data DIR)")
            continue
        print(f"{name}:", flush=True)
        results[name] = run(BENCHMARKS[name], options.data)
    path = HERE / "results" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": used, "results": results}, indent=2) + "\n")
    if options.against is not None:
        print(*changes(results, json.loads(options.against.read_text())["results"]), sep="\n")
    missed = sum(not claim["met"] for claims in results.values() for claim in claims)
    print(f"{missed} claims missed; written to {path}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
