"""diffprivlib's LogisticRegression on exported splits, with every setting that it is offered.

Runs inside its own environment (../environments.py makes it): python fit.py [coefficients]
SPLIT.npz OUTPUT.json. It protects whole records, at epsilon per record; data_norm = 1 is a public
bound. With "coefficients" (lab/bench/rivals.py) the split holds rows of length 1, one epsilon and a
number of draws, and what leaves are the coefficients of every draw.
"""

import json
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression
from sklearn.exceptions import ConvergenceWarning

EPSILONS = (0.1, 1.0, 10.0)
STRENGTHS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # its C
LIKELY_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # where the best of all of them lay
LENGTHS = ("clipped", "unit")  # rows as ours, within a norm of one; or each stretched to one
INTERCEPTS = ("coordinate", "own")  # our intercept's coordinate, or its fit_intercept


def prepared(rows: np.ndarray, bound: float, length: str, intercept: str) -> np.ndarray:
    """Return rows of norm at most one; the last coordinate of ``rows`` is the intercept's.

    ``bound`` is the public bound on the norm of the others.
    """
    if intercept == "own":
        rows = rows[:, :-1] / bound
    if length == "unit":
        return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None]
    return rows


def accuracies(split: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the test accuracy of every setting at every epsilon."""
    found = {}
    for length, intercept in product(LENGTHS, INTERCEPTS):
        rows = prepared(split["rows"], split["bound"], length, intercept)
        test = prepared(split["test_rows"], split["bound"], length, intercept)
        for strength, epsilon in product(STRENGTHS, EPSILONS):
            model = LogisticRegression(
                epsilon=epsilon,
                data_norm=1.0,
                C=strength,
                fit_intercept=intercept == "own",
                max_iter=1000,
            )
            model.fit(rows, split["labels"])
            key = f"{epsilon:g}|{length}|{intercept}|{strength:g}"
            found[key] = float(model.score(test, split["test_labels"]))
    return found


def coefficients(split: dict[str, np.ndarray]) -> dict[str, list[list[float]]]:
    """Return the coefficients of every setting and draw, the intercept last."""
    models: dict[str, list[list[float]]] = {}
    for strength in LIKELY_STRENGTHS:
        for _ in range(int(split["draws"])):
            model = LogisticRegression(
                epsilon=float(split["epsilon"]), data_norm=1.0, C=strength, max_iter=200
            )
            model.fit(split["rows"], split["labels"])
            draw = [*model.coef_[0].tolist(), float(model.intercept_[0])]
            models.setdefault(f"C {strength:g}", []).append(draw)
    return models


def main() -> None:
    """Write the accuracies, or the coefficients, of one split."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    *words, split, output = sys.argv[1:]
    compute = coefficients if words == ["coefficients"] else accuracies
    with np.load(split) as file:
        result = compute({name: file[name].astype(np.float64) for name in file.files})
    Path(output).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
