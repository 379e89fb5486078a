"""How often the auditor is right: `suffice audit --all` over many seeds.

`python bench/audit_seeds.py [SEEDS] [KIND ...]` prints, for every case, how often it was flagged
and how tight its bound was, and says whether no sound mechanism was flagged and every broken twin
was in 19 runs of 20. No claim about speed.
"""

import sys
import time
from collections import defaultdict

LEAST = 0.95  # of the runs, in which a twin must be found out
TIGHT = 0.85  # of the claim, that the bound must reach where outputs are cheap
CHEAP = (
    "mean-operator laplace", "mean-operator gaussian", "label-responses, 2 classes",
    "label-responses, 3 classes", "responses, a label", "responses, an attribute, laplace",
    "participant, a choice", "participant, a number, laplace", "proportions laplace, 2 classes",
    "proportions laplace, 3 classes", "proportions gaussian", "parties, operator, gaussian",
)  # fmt: skip


def main() -> None:
    from suffice.audit.auditor import FAILURE, audit
    from suffice.audit.registry import selected

    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    names = list(selected(tuple(sys.argv[2:])))
    found = defaultdict(list)
    for seed in range(seeds):
        start = time.perf_counter()
        for finding in audit(names, seed=seed):
            found[finding.name].append(finding)
        strange = [name for name, all_ in found.items() if not all_[-1].expected]
        took = time.perf_counter() - start
        print(f"seed {seed}: {took:.0f} s; not as it should be: {strange or 'nothing'}", flush=True)
    print(f"\n| case | flagged of {seeds} | tightness: mean | least |\n|---|---|---|---|")
    missed = []
    for name, findings in found.items():
        flagged = sum(finding.violated for finding in findings)
        tightness = [finding.tightness for finding in findings]
        mean = sum(tightness) / seeds
        print(f"| {name} | {flagged} | {mean:.2f} | {min(tightness):.2f} |")
        good = flagged >= LEAST * seeds if findings[0].broken else flagged == 0
        if not good or (name in CHEAP and mean < TIGHT):
            missed.append(name)
    print(f"\n{len(names)} cases, {FAILURE:g} a run. Goals missed: {missed or 'none'}.")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
