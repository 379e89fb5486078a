"""QuaPy's EMQ and KDEyML on exported sets whose every row has its label, and our adapter in QuaPy.

Runs inside its own environment (../compare_quapy.py makes it): python fit.py TASK SETS.npz
OUTPUT.json.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import quapy as qp
from adapter import QuaPyClassRatio, ae, nkld, rae
from quapy.method.aggregative import EMQ, KDEyML
from sklearn.linear_model import LogisticRegression

Sets = dict[str, np.ndarray]


def classifier() -> LogisticRegression:
    """Return scikit-learn's own settings, with iterations enough to converge."""
    return LogisticRegression(max_iter=3000)


QUANTIFIERS: dict[str, Callable[[], object]] = {
    "EMQ": lambda: EMQ(classifier()),
    "EMQ calibrated": lambda: EMQ(classifier(), val_split=5, calib="bcts", on_calib_error="backup"),
    "KDEyML": lambda: KDEyML(classifier()),
}


def ratios(sets: Sets) -> dict[str, list]:
    """Return the ratios of every test, (cases, tests, K), by each quantifier."""
    estimates: dict[str, list] = {name: [] for name in QUANTIFIERS}
    for case in range(int(sets["cases"])):
        for name, make in QUANTIFIERS.items():
            model = make().fit(sets[f"rows{case}"], sets[f"labels{case}"])
            estimates[name].append([model.predict(test).tolist() for test in sets[f"tests{case}"]])
    return estimates


def speed(sets: Sets) -> dict[str, float]:
    """Return the seconds of this process that KDEyML takes for fit and quantify, once."""
    start = time.process_time()
    model = KDEyML(LogisticRegression()).fit(sets["rows"], sets["labels"])
    fitted = time.process_time()
    results = model.predict(sets["test"])
    took = time.process_time()
    return {"fit": fitted - start, "quantify": took - fitted, "ratios": results.tolist()}


def adapter(sets: Sets) -> dict[str, float]:
    """Return our errors as QuaPy's own protocol measures them, and how far our scores differ."""
    train = qp.data.LabelledCollection(sets["rows"], sets["labels"])
    test = qp.data.LabelledCollection(sets["test"], sets["test_labels"])
    protocol = qp.protocol.APP(test, sample_size=200, n_prevalences=5, repeats=2, random_state=0)
    results = {}
    for name, model in (("ours", QuaPyClassRatio()), ("KDEyML", KDEyML(classifier()))):
        model.fit(*train.Xy)
        results[name] = float(qp.evaluation.evaluate(model, protocol, error_metric="mae"))
    searched = qp.model_selection.GridSearchQ(
        QuaPyClassRatio(), {"method": ["mmd", "likelihood"]}, protocol, refit=False, n_jobs=1
    ).fit(*train.Xy)
    results["method picked by GridSearchQ"] = searched.best_params_["method"]
    p, q, eps = np.array([0.1, 0.2, 0.7]), np.array([0.2, 0.3, 0.5]), 0.005
    theirs = (qp.error.ae(p, q), qp.error.rae(p, q, eps), qp.error.nkld(p, q, eps))
    own = (ae(p, q), rae(p, q, eps), nkld(p, q, eps))
    results["scores differ by"] = float(np.abs(np.subtract(theirs, own)).max())
    return results


def main() -> None:
    """Do one task."""
    warnings.simplefilter("ignore")
    task, path, output = sys.argv[1:]
    with np.load(path) as file:
        sets = dict(file)
    results = {"ratios": ratios, "speed": speed, "adapter": adapter}[task](sets)
    Path(output).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
