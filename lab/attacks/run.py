"""Run attacks on releases made as any owner makes them, and print how often each succeeds.

    python lab/attacks/run.py [NAME ...] [--trials N]

Every attack is a module next to this one with ``rates(trials)``: lines of what was attacked, how
often the attack succeeded, and what is expected. Where the library has a defence, the same attack
is tried against it. docs/known-holes.md says what follows from each.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import NamedTuple

ATTACKS = {
    "averaged_responses": 400,
    "rado_records": 40,
    "dp_feat_joint": 10,
    "dirichlet_sigma": 300,
    "ledger_replay": 30,
    "swapped_release": 400,
    "csv_cut": 30,
    "laundered_pipeline": 30,
    "class_oracle": 30,
}  # and how often each is tried


class Rate(NamedTuple):
    """How often an attack succeeded, and in words what is expected."""

    target: str
    successes: int
    trials: int
    expected: str


def main() -> None:
    """Print one table per attack."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ATTACKS)}; default: all")
    parser.add_argument("--trials", type=int, help="how often each is tried")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ATTACKS)
    if unknown:
        parser.error(f"no attack is called {', '.join(sorted(unknown))}")
    if arguments.trials is not None and arguments.trials < 1:
        parser.error("--trials must be at least 1")
    for name in arguments.names or ATTACKS:
        attack = importlib.import_module(name)
        print(f"{name}: {attack.__doc__.partition(chr(10))[0]}")
        for rate in attack.rates(arguments.trials or ATTACKS[name]):
            share = rate.successes / rate.trials
            print(f"  {share:7.3f}  of {rate.trials:5d}  {rate.target} ({rate.expected})")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
