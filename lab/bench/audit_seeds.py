"""How often the auditor is right: `suffice audit all` over many seeds.

`python lab/bench/audit_seeds.py [--seeds 10] [--store FILE] [--one-process] [KIND ...]` prints, for
every case, how often it was flagged and how tight its bound was, least, median and most, and says
whether no sound mechanism was flagged and every broken copy was in every run. Every finding is
stored as it is made, a line of JSON each: run it again with the same file, and it goes on where it
stopped. No claim about speed.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

TIGHT = 0.85  # of the claim, that the bound must reach on average where outputs are cheap
CHEAP = (
    "mean-operator laplace", "mean-operator gaussian", "label-responses, 2 classes",
    "label-responses, 3 classes", "responses, a label", "responses, an attribute, laplace",
    "participant, a choice", "participant, a number, laplace", "proportions laplace, 2 classes",
    "proportions laplace, 3 classes", "proportions gaussian", "parties, operator, gaussian",
)  # fmt: skip

Results = dict[tuple[int, str], dict[str, Any]]


def main() -> None:
    from suffice.audit.registry import selected

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--store", type=Path, default=Path("audit-seeds.jsonl"))
    parser.add_argument("--one-process", action="store_true")
    options = parser.parse_args()
    names = list(selected(tuple(options.kinds)))
    results = read_results(options.store)
    for seed in range(options.seeds):
        run_seed(seed, names, results, options.store, workers=1 if options.one_process else None)
    done = [seed for seed in range(options.seeds) if all((seed, name) in results for name in names)]
    missed = show(names, done, results)
    sys.exit(bool(missed))


def read_results(store: Path) -> Results:
    """Return the findings of a file; a last line that was cut off is left out."""
    results: Results = {}
    for line in store.read_text().splitlines() if store.exists() else ():
        try:
            finding = json.loads(line)
        except json.JSONDecodeError:
            continue
        results[finding["seed"], finding["name"]] = finding
    return results


def run_seed(
    seed: int, names: list[str], results: Results, store: Path, *, workers: int | None
) -> None:
    """Audit the cases that this seed has no finding of yet, and store each at once.

    The share of each bound in the probability of failure is that of a run of all of them.
    """
    from suffice.audit.auditor import FAILURE, Finding, audit

    missing = [name for name in names if (seed, name) not in results]
    start = time.perf_counter()

    def keep(done: int, total: int, finding: Finding) -> None:
        del done, total
        stored = {"seed": seed, **finding.to_json()}
        results[seed, finding.name] = stored
        with store.open("a") as file:
            file.write(json.dumps(stored) + "\n")

    share = FAILURE * len(missing) / len(names)
    audit(missing, seed=seed, failure=share, workers=workers, progress=keep)
    strange = [name for name in names if not as_expected(results[seed, name])]
    took = f"{time.perf_counter() - start:.0f} s for {len(missing)} cases"
    print(f"seed {seed}: {took}; not as it should be: {strange or 'nothing'}", flush=True)


def as_expected(finding: dict[str, Any]) -> bool:
    return bool(finding["violated"] == finding["broken"])


def show(names: list[str], seeds: list[int], results: Results) -> list[str]:
    """Print the table, and return the cases that missed a goal."""
    from suffice.audit.auditor import FAILURE

    print(f"\n| case | flagged of {len(seeds)} | tightness: least | median | most |")
    print("|---|---|---|---|---|")
    missed = []
    for name in names:
        found = [results[seed, name] for seed in seeds]
        tightness = [finding["tightness"] for finding in found]
        figures = min(tightness), statistics.median(tightness), max(tightness)
        flagged = sum(finding["violated"] for finding in found)
        print(f"| {name} | {flagged} | {' | '.join(f'{x:.2f}' for x in figures)} |")
        loose = name in CHEAP and statistics.mean(tightness) < TIGHT
        if loose or not all(map(as_expected, found)):
            missed.append(name)
    print(f"\n{len(names)} cases, {FAILURE:g} a run. Goals missed: {missed or 'none'}.")
    return missed


if __name__ == "__main__":
    main()
