"""Are stated probabilities right? Log loss against a constant, and calibration, learner by learner.

    python bench/probabilities.py --data ../shared/data [--sets magic,adult] [--epsilons 0.1,1]

Each learner gets a release of at most 15,000 private rows of real tables and is tested on others.
The constant states the class proportions of the test rows. Claims: at every epsilon the log loss is
below the constant's wherever the accuracy is above that of the larger class; at epsilon 1 the
expected calibration error is at most 0.06. A learner may refuse probabilities instead. Then it is
counted as refused, and no claim is made.
"""

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import claim, machine

import suffice as sf
from suffice.learner.scoring import predictions_of
from suffice.study.data_sets import split

SETS = ("magic", "adult", "ijcnn1", "eeg", "higgs")
_MOST_ROWS, _MOST_TEST, _PARTIES = 15_000, 8_000, 1_000
_DELTA = 1e-6
_LARGEST_ERROR = 0.06  # at epsilon 1


@dataclass(frozen=True)
class Data:
    """Private training rows with labels, and test rows with labels, numbers without gaps."""

    rows: pa.Table
    labels: np.ndarray
    test_rows: pa.Table
    test_labels: np.ndarray


def of_operator(data: Data, epsilon: float, loss: str, mechanism: str = "auto") -> Any:
    """Return the linear model of a noisy mean operator, or of randomised labels."""
    owner = sf.MeanOperator(epsilon=epsilon, delta=_DELTA, mechanism=mechanism)
    release = owner.release(data.rows, data.labels, ledger=None)
    return sf.FactoredClassifier(loss=loss).fit_release(release, data.rows)


def of_labels(data: Data, epsilon: float, learner: Any) -> Any:
    """Return a model of randomised labels and their public rows."""
    owner = sf.MeanOperator(epsilon=epsilon, mechanism="response")
    return learner.fit_release(owner.release(data.rows, data.labels, ledger=None), data.rows)


def of_moments(data: Data, epsilon: float) -> Any:
    """Return the model of noisy second moments; the first rows are public, for the scales."""
    count = min(2000, len(data.labels) // 5)
    mechanism = sf.Moments(epsilon, _DELTA, standardize=data.rows.slice(0, count))
    release = mechanism.release(data.rows.slice(count), data.labels[count:], ledger=None)
    return sf.MomentClassifier().fit_release(release)


def of_records(data: Data, epsilon: float) -> Any:
    """Return the model of randomised records: labels at epsilon, columns with noise 0.14."""
    flip = 1 / (1 + np.exp(epsilon))
    ranges = dict.fromkeys(data.rows.column_names, (0.0, 1.0))
    mechanism = sf.RandomizedResponse(label_flip=flip, ranges=ranges, feature_noise=0.02)
    return sf.SpreadClassifier().fit_release(mechanism.release(data.rows, data.labels, ledger=None))


def of_parties(data: Data, epsilon: float, method: str) -> Any:
    """Return the model of parties with ten records each, from 1,500 public rows."""
    auxiliary, private = data.rows.slice(0, 1500), data.rows.slice(1500, 10 * _PARTIES)
    table = private.append_column("label", pa.array(data.labels[1500 : 1500 + len(private)]))
    parties = [f"party {row % _PARTIES}" for row in range(len(private))]
    release = sf.PrivateEnsemble(epsilon=epsilon, delta=_DELTA, method=method).release(
        table.append_column("party", pa.array(parties)),
        label="label",
        party="party",
        auxiliary=sf.AuxiliaryRows.read(auxiliary),
        enrolled=_PARTIES,
        ledger=None,
    )
    learner = sf.VoteClassifier() if method == "vote-table" else sf.FactoredClassifier()
    return learner.fit_release(release, auxiliary)


Learn = Callable[[Data, float], Any]
LEARNERS: dict[str, Learn] = {
    "mean operator, logistic": lambda data, e: of_operator(data, e, "logistic"),
    "mean operator, square": lambda data, e: of_operator(data, e, "square"),
    "mean operator, matsushita": lambda data, e: of_operator(data, e, "matsushita"),
    "randomised labels, linear": lambda data, e: of_operator(data, e, "logistic", "response"),
    "randomised labels, noisy-label logistic": lambda data, e: of_labels(
        data, e, sf.NoisyLabelClassifier("logistic")
    ),
    "randomised labels, noisy-label trees": lambda data, e: of_labels(
        data, e, sf.NoisyLabelClassifier(settings=[{"max_leaf_nodes": 15, "max_iter": 60}], folds=3)
    ),
    "randomised labels, spread": lambda data, e: of_labels(data, e, sf.SpreadClassifier()),
    "randomised records, spread": of_records,
    "moments": of_moments,
    "parties, operator": lambda data, e: of_parties(data, e, "operator"),
    "parties, votes": lambda data, e: of_parties(data, e, "vote-table"),
}


def read(name: str, folder: Path) -> Data:
    """Return a data set, its numbers between 0 and 1: cut at their 2 % and 98 % quantiles."""
    whole = split(name, 0, folder)
    numeric = [
        name
        for name, kind in zip(whole.rows.column_names, whole.rows.schema.types, strict=True)
        if not (pa.types.is_dictionary(kind) or pa.types.is_string(kind))
    ]
    train, test = {}, {}
    for column in numeric:
        low, high = np.nanquantile(whole.rows[column].to_numpy(), [0.02, 0.98])
        if high > low:
            for table, part in ((train, whole.rows), (test, whole.test_rows)):
                cells = np.nan_to_num(part[column].to_numpy().astype(float), nan=low)
                table[column] = np.clip((cells - low) / (high - low), 0, 1)
    rows, test_rows = pa.table(train), pa.table(test)
    return Data(
        rows.slice(0, _MOST_ROWS),
        whole.labels[:_MOST_ROWS],
        test_rows.slice(0, _MOST_TEST),
        whole.test_labels[:_MOST_TEST],
    )


def measured(names: Sequence[str], epsilons: Sequence[float], folder: Path) -> Iterator[dict]:
    """Yield the figures of every learner on every set, and print them."""
    for name in names:
        data = read(name, folder)
        for epsilon in epsilons:
            for learner, learn in LEARNERS.items():
                model = learn(data, epsilon)
                found = predictions_of(model, data.test_rows, data.test_labels).to_json()
                kept = ("accuracy", "larger_class", "log_loss", "constant_log_loss", "ece")
                figures = {key: found[key] for key in kept if key in found}
                cells = "  ".join(f"{key} {value:.3f}" for key, value in figures.items())
                refused = "" if "ece" in found else "  refused"
                print(f"{name} {epsilon:g} {learner}: {cells}{refused}", flush=True)
                yield {"set": name, "epsilon": epsilon, "learner": learner, **figures}


def judged(figures: Sequence[dict]) -> list[dict]:
    """Print and return the claims, learner by learner; one that refuses everywhere has none."""
    claims = []
    for learner in LEARNERS:
        own = [line for line in figures if line["learner"] == learner and "ece" in line]
        better = [line for line in own if line["accuracy"] > line["larger_class"]]
        if better:
            worst = max(line["log_loss"] - line["constant_log_loss"] for line in better)
            name = f"{learner}: log loss above the constant's, worst of {len(better)}"
            claims.append(claim(name, worst, 0.0))
        errors = [line["ece"] for line in own if line["epsilon"] == 1]
        if errors:
            name = f"{learner}: calibration error at epsilon 1, worst of {len(errors)}"
            claims.append(claim(name, max(errors), _LARGEST_ERROR))
    return claims


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print one line per learner and set; write bench/results/probabilities.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS), help="data sets, with commas")
    parser.add_argument("--epsilons", default="0.1,1", help="epsilons, with commas")
    options = parser.parse_args(arguments)
    logging.getLogger("suffice").setLevel(logging.ERROR)
    epsilons = [float(text) for text in options.epsilons.split(",")]
    with warnings.catch_warnings():  # rows that occur twice, public and private
        warnings.simplefilter("ignore")
        figures = list(measured(options.sets.split(","), epsilons, options.data))
    claims = judged(figures)
    output = Path(__file__).parent / "results" / "probabilities.json"
    output.parent.mkdir(exist_ok=True)
    output.write_text(json.dumps({"machine": machine(), "figures": figures, "claims": claims}))
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
