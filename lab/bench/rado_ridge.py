"""RadoRidge per record: what subtracting the known noise brings, and what unlabelled rows bring.

    python lab/bench/rado_ridge.py --data ../shared/data --splits 3 --draws 4

On the same releases: accuracy with the noise left in the second moments, without it, and with
public rows that have no labels, for which log loss and calibration error are printed as well.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rival_record import DELTA, RecordSplit
from rival_store import measure
from rivals import first_rows

from suffice.learner.rado_moments import moments_of
from suffice.learner.rados import RadoRidge
from suffice.owner.rados import Rados
from suffice.papers.reproduction import split

_COLUMNS = ("noise left in", "subtracted", "with rows", "log loss", "calibration")


def with_noise_left_in(release) -> RadoRidge:
    """Return the model of second moments from which nothing is subtracted."""
    model = RadoRidge()
    model._learn_from((release,))  # noqa: SLF001  # what the public way mends
    moments = replace(moments_of(release), second_noise=None)
    return model._fit_moments(moments, None)  # noqa: SLF001  # the same


def figures(data: RecordSplit, epsilon: float, draws: int) -> Iterator[list[float]]:
    """Yield one number per column, for each release."""
    mechanism = Rados(epsilon=epsilon, delta=DELTA, unit="record", pipeline=data.rado_pipeline)
    for _ in range(draws):
        release = mechanism.release(data.private, data.labels, ledger=None)
        with_rows = RadoRidge().fit_release(release, data.public)
        models = (with_noise_left_in(release), RadoRidge().fit_release(release), with_rows)
        scores = (model.decision_function(data.test_rows) for model in models)
        accuracies = [float(((score > 0) == data.test_labels).mean()) for score in scores]
        quality = measure(with_rows.predict_proba(data.test_rows)[:, 1], data.test_labels)
        yield [*accuracies, quality["log_loss"], quality["calibration"]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per data set and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="magic,wine-white,abalone,spambase,adult")
    parser.add_argument("--epsilons", default="0.1,0.3,1,3")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args(arguments)
    print("data set | epsilon |", " | ".join(_COLUMNS), "| constant's log loss")
    for name in options.sets.split(","):
        parts = [
            RecordSplit.of(first_rows(split(name, seed, options.data), 20_000))
            for seed in range(options.splits)
        ]
        share = float(np.mean([part.test_labels.mean() for part in parts]))
        constant = -share * np.log(share) - (1 - share) * np.log(1 - share)
        for epsilon in map(float, options.epsilons.split(",")):
            rows = [row for part in parts for row in figures(part, epsilon, options.draws)]
            cells = (f"{value:.3f}" for value in (*np.mean(rows, axis=0), constant))
            print(f"{name} | {epsilon:g} |", " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
