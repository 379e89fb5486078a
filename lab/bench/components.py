"""Moments of principal components that public rows show above the noise, against all columns.

    python lab/bench/components.py --data ../shared/data --splits 2 --draws 4

Accuracy, log loss and the number of coordinates, at (epsilon, 1e-6) per record.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rival_record import DELTA, RecordSplit
from rival_store import measure
from rivals import first_rows

from suffice.learner.moments import MomentClassifier
from suffice.owner.moments import Moments, components_above_noise
from suffice.papers.reproduction import split


def figures(data: RecordSplit, epsilon: float, draws: int, *, ranks: bool) -> dict[str, np.ndarray]:
    """Return accuracy, log loss and coordinates of each release, by map."""
    chosen = components_above_noise(data.public, len(data.labels), epsilon, DELTA, ranks=ranks)
    pipelines = {
        "all": data.mapped("ranks") if ranks else data.pipeline,
        "components": data.mapped(chosen),
    }
    rows: dict[str, list[tuple[float, float, int]]] = {name: [] for name in pipelines}
    for name, pipeline in pipelines.items():
        mechanism = Moments(epsilon, DELTA, pipeline=pipeline)
        for _ in range(draws):
            release = mechanism.release(data.private, data.labels, ledger=None)
            model = MomentClassifier().fit_release(release)
            quality = measure(model.predict_proba(data.test_rows)[:, 1], data.test_labels)
            rows[name].append((quality["accuracy"], quality["log_loss"], len(pipeline.outputs)))
    return {name: np.array(values) for name, values in rows.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per data set, columns or ranks, and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="spambase,mnist-7v9,uci-har")
    parser.add_argument("--epsilons", default="0.1,0.3")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--ranks", action="store_true")
    options = parser.parse_args(arguments)
    print("data set | epsilon | map | accuracy | standard error | log loss | coordinates")
    for name in options.sets.split(","):
        for epsilon in map(float, options.epsilons.split(",")):
            parts = [
                figures(
                    RecordSplit.of(first_rows(split(name, seed, options.data), 20_000)),
                    epsilon,
                    options.draws,
                    ranks=options.ranks,
                )
                for seed in range(options.splits)
            ]
            for map_name in parts[0]:
                rows = np.vstack([part[map_name] for part in parts])
                error = rows[:, 0].std(ddof=1) / np.sqrt(len(rows))
                mean = rows.mean(axis=0)
                print(
                    f"{name} | {epsilon:g} | {map_name} | {mean[0]:.3f} | {error:.3f} |"
                    f" {mean[1]:.3f} | {mean[2]:.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
