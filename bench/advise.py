"""How good the advice of `suffice advise` is: every candidate is run, and the advised one compared.

    python bench/advise.py --data ../shared/data [--store bench/results/advise.jsonl]

12 tables x labels, records, attributes x epsilon 0.1 and 1, delta = 1e-6. At most 15,000 rows of a
table, so that one core needs some ten minutes. The rule of advise reads public rows alone; its
constants were chosen on CHOSEN_ON, and HELD_OUT were measured afterwards. A run with the same
--store goes on where another ended.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from advise_runs import KINDS, Situation
from rival_store import Measurement, Store, measure

from suffice.owner.advice.candidates import Candidate
from suffice.study.data_sets import split

CHOSEN_ON = ("magic", "spambase", "adult", "uci-har", "wine-white", "banknote")
HELD_OUT = ("abalone", "covertype", "ijcnn1", "mnist-7v9", "higgs", "eeg")
EPSILONS = (0.1, 1.0)
_SPLITS = 2
_SLOW = ("randomised labels, trees", "randomised records")
_WIDE, _SMALL = 200, 5_000  # columns, rows


def draws_of(candidate: Candidate, epsilon: float, data: Situation, seed: int) -> int:
    """Return how many releases of a candidate are made on a split: more where noise is large."""
    if candidate.name in _SLOW:
        return int(seed == 0)
    rows = data.split.rows
    if rows.num_columns > _WIDE:
        return 2 if epsilon < 1 else 1
    small = rows.num_rows < _SMALL
    return (20 if small else 6) if epsilon < 1 else (6 if small else 2)


def run_cell(store: Store, data: Situation, where: tuple[str, int, str, float]) -> None:
    """Measure what is missing of all candidates of one kind of privacy at one epsilon."""
    name, seed, private, epsilon = where
    for candidate in data.candidates(private, epsilon):
        method = f"{method_kind(private, candidate)}: {candidate.name}"
        draws = draws_of(candidate, epsilon, data, seed)
        first = store.draws(name, seed, epsilon, method)
        if first >= draws:
            continue
        start = time.process_time()
        store.add(
            Measurement(name, seed, epsilon, method, setting, first + draw,
                        **measure(probabilities, data.split.test_labels))
            for setting, draw, probabilities in data.probabilities(
                private, candidate, draws - first
            )
        )  # fmt: skip
        seconds = time.process_time() - start
        print(f"  {name}, split {seed}, epsilon {epsilon:g}, {method}: {seconds:.1f} s",
              file=sys.stderr, flush=True)  # fmt: skip


def method_kind(private: str, candidate: Candidate) -> str:
    """Return the kind of privacy a candidate is stored under: moments serve two of them."""
    shared = private == "attributes" and candidate.name != "randomised records"
    return "records" if shared else private


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Measure what the store lacks, print the tables and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default=",".join((*CHOSEN_ON, *HELD_OUT)))
    parser.add_argument("--store", type=Path, help="JSON lines of what was measured")
    options = parser.parse_args(arguments)
    store = Store(options.store)
    for name in options.sets.split(","):
        for seed in range(_SPLITS):
            data = Situation.of(split(name, seed, options.data))
            for private in KINDS:
                for epsilon in EPSILONS:
                    run_cell(store, data, (name, seed, private, epsilon))
    return []


if __name__ == "__main__":
    main(sys.argv[1:])
