"""Learning from an operator against scikit-learn learning from labels (claim: no slower).

The same mapped rows, objective, and largest entry of the gradient at the end, on one thread. Real
rows come from the folder SUFFICE_DATA where it is set, else random ones of the same shape.
Beside it: fits of 10 and 100 classes against 2, a penalty that is chosen against cross-validation,
predictions, and what the tuning of trees on randomised labels costs, in fits.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from harness import claim
from harness import ratio_of as clocked_ratio_of
from threadpoolctl import threadpool_limits

ratio_of = partial(clocked_ratio_of, clock=time.process_time)
FOLDER = os.environ.get("SUFFICE_DATA")
# Each: the file, the classes kept of it, and rows x coordinates where there is no file.
SHAPES = {
    "magic": ("magic", 2, (19_020, 11)),
    "adult": ("adult", 2, (32_561, 109)),
    "mnist 7v9": ("mnist", 2, (12_214, 785)),
    "uci har": ("uci_har_train", 6, (7_352, 562)),
}
LAMS = (1e-1, 1e-2, 1e-3)
TOL = 1e-5


def random_rows(shape: tuple[int, int], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return correlated rows and labels that a linear model gets right about four times in five."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((shape[1], shape[1])) * np.arange(1, shape[1] + 1) ** -0.5
    rows = rng.standard_normal(shape) @ spread / np.sqrt(shape[1])
    scores = rows @ rng.standard_normal((shape[1], classes))
    noise = rng.gumbel(scale=0.5 * scores.std(), size=scores.shape)
    return rows, (scores + noise).argmax(axis=1)


def real_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows as the library's own pipeline maps them, and their labels."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from suffice.engines.engine import fold
    from suffice.engines.summary import PublicSummary, fit_pipeline
    from suffice.learner.problem import design_matrix
    from suffice.tables.sources import open_table

    table = pq.read_table(Path(FOLDER) / f"{name}.parquet")
    if "split" in table.column_names:
        table = table.filter(pc.equal(table["split"], "train"))
    if name == "mnist":
        table = table.filter(pc.is_in(table["label"], pa.array([7, 9], table["label"].type)))
    labels = np.unique(table["label"].to_numpy(), return_inverse=True)[1]
    table = table.drop([n for n in ("label", "split", "subject") if n in table.column_names])
    source = open_table(table)
    names = tuple(source.schema.names)
    summary = fold(source.batches(names), PublicSummary(source.schema)).result()
    categories = {
        n: sorted(set(table[n].to_pylist()))
        for n in names
        if pa.types.is_dictionary(table.schema.field(n).type)
    }
    pipeline = fit_pipeline(
        summary, names, categories=categories, missing="error", clip=1.0, intercept=1.0
    )
    return design_matrix(table, pipeline), labels


def problem_of(rows: np.ndarray, labels: np.ndarray, classes: int):
    from suffice.models.problem import LOSSES, FactoredProblem

    if classes == 2:
        return FactoredProblem(rows, rows.T @ (2.0 * labels - 1) / len(rows), LOSSES["logistic"])
    return FactoredProblem(rows, rows.T @ np.eye(classes)[labels] / len(rows), None)


def peer_of(problem, rows: np.ndarray, labels: np.ndarray, lam: float) -> Callable[[], object]:
    """Return scikit-learn's fit with the loosest tolerance that reaches our gradient."""
    from sklearn.linear_model import LogisticRegression

    peer = LogisticRegression(
        C=1 / (lam * len(rows)), fit_intercept=False, tol=8 * TOL, max_iter=10_000
    )
    while True:
        coef = peer.fit(rows, labels).coef_
        theta = coef[0] if problem.operator.ndim == 1 else coef.T
        if np.abs(problem.risk(theta, lam)[1]).max() <= TOL:
            return lambda: peer.fit(rows, labels)
        peer.set_params(tol=peer.tol / 2)


def main() -> list[dict]:
    results = []
    with threadpool_limits(1):
        for name, (file, classes, shape) in SHAPES.items():
            rows, labels = real_rows(file) if FOLDER else random_rows(shape, classes)
            for lam in LAMS:
                problem = problem_of(rows, labels, classes)
                found = problem.solve(lam, tol=TOL, max_iter=10_000)
                assert np.abs(problem.risk(found.parameters, lam)[1]).max() <= TOL
                peer = peer_of(problem, rows, labels, lam)
                ratio = ratio_of(
                    lambda p=problem, q=lam: p.solve(q, tol=TOL, max_iter=10_000), peer, times=7
                )
                kind = "real" if FOLDER else "random"
                results.append(claim(f"fit / scikit-learn, {kind} {name}, lam {lam:g}", ratio, 1.0))
        results += whole_fits()
    return results


def whole_fits() -> list[dict]:
    """Return the claims about fits and predictions as a user calls them."""
    import warnings

    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

    import suffice as sf

    warnings.simplefilter("ignore")
    fits, results = {}, []
    for classes in (2, 10, 100):
        rows, labels = random_rows((100_000, 30), classes)
        owner = sf.MeanOperator(epsilon=1.0, delta=1e-6, classes=list(range(classes)), map=None)
        release = owner.release(rows, labels, ledger=None)
        fits[classes] = lambda r=release, x=rows: sf.FactoredClassifier().fit_release(r, x)
    for classes, most in ((10, 3.0), (100, 25.0)):
        ratio = ratio_of(fits[classes], fits[2], times=3)
        results.append(claim(f"fit of {classes} classes / of 2, 100,000 x 30", ratio, most))
    rows, labels = random_rows((200_000, 30), 2)
    few = slice(20_000)
    tuned = LogisticRegressionCV(Cs=10, cv=5)
    auto = ratio_of(
        lambda: sf.FactoredClassifier().fit(rows[few], labels[few]),
        lambda: tuned.fit(rows[few], labels[few]),
        times=3,
    )
    results.append(claim("fit that chooses lam / LogisticRegressionCV(10 x 5)", auto, 0.8))
    ours = sf.FactoredClassifier(lam=0.01).fit(rows[few], labels[few])
    peer = LogisticRegression().fit(rows[few], labels[few])
    ratio = ratio_of(lambda: ours.predict(rows), lambda: peer.predict(rows))
    results.append(claim("predict of 200,000 rows / LogisticRegression", ratio, 2.0))
    owner = sf.MeanOperator(epsilon=1.0, delta=1e-6, classes=[0, 1], map=None)
    plain = sf.FactoredClassifier().fit_release(
        owner.release(rows[few], labels[few], ledger=None), rows[few]
    )
    ratio = ratio_of(lambda: plain.predict(rows), lambda: peer.predict(rows))
    results.append(claim("predict from a release / LogisticRegression", ratio, 2.0))
    owner = sf.MeanOperator(epsilon=1.0, mechanism="response", classes=[0, 1])
    release = owner.release(rows[few], labels[few], ledger=None)
    trees = sf.NoisyLabelClassifier().fit_release(release, rows[few])
    answers = release.arrays["answers"]
    one = clone(trees.estimator_)
    ratio = ratio_of(
        lambda: sf.NoisyLabelClassifier().fit_release(release, rows[few]),
        lambda: one.fit(rows[few], answers),
        times=3,
    )
    results.append(claim("trees on randomised labels / one fit of them", ratio, 8.0))
    return results


if __name__ == "__main__":
    main()
