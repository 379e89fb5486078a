"""Cases: what learners make of every kind of release, through files and through Python.

Their numbers come out of linear algebra, so that another machine may have other last digits.
"""

import csv
import dataclasses
import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow.csv

import suffice as sf
from golden.record import parts_of, plain
from golden.releases import COMMANDS, make_release
from golden.stage import Stage

__all__ = ["estimators", "models"]

EFFORT = ("iterations", "gradient")  # what a machine did, and not what it found
ROWS = "--rows rows.csv"
# The release (kind/case), and what `suffice fit` is told beside it, by case.
FITS: dict[str, tuple[str, str]] = {
    "mean-operator, laplace": ("mean-operator/laplace", ROWS),
    "mean-operator, gaussian": ("mean-operator/gaussian", ROWS),
    "mean-operator, knorm": ("mean-operator/knorm", ROWS),
    "mean-operator, ranks": ("mean-operator/ranks", ROWS),
    "mean-operator, three classes": ("mean-operator/three classes, laplace", ROWS),
    "mean-operator, square loss": ("mean-operator/laplace", f"{ROWS} --loss square"),
    "mean-operator, matsushita loss": ("mean-operator/laplace", f"{ROWS} --loss matsushita"),
    "mean-operator, l1": ("mean-operator/laplace", f"{ROWS} --penalty l1 --penalty-weight 0.01"),
    "mean-operator, elastic net": (
        "mean-operator/laplace",
        f"{ROWS} --penalty elastic-net --penalty-weight 0.01",
    ),
    "labels, corrected": ("mean-operator/response", ROWS),
    "labels, three classes": ("mean-operator/three classes, response", ROWS),
    "labels, logistic": ("mean-operator/response", f"{ROWS} --estimator logistic"),
    "records, codes": ("responses/labels", ""),
    "records, gaussian": ("responses/records, gaussian", ""),
    "records, laplace": ("responses/records, laplace", ""),
    "rados, of labels": ("rados/labels", ""),
    "rados, of records": ("rados/records", ""),
    "rados, boosted": ("rados/labels", "--loss logistic"),
    "moments": ("moments/public scale", ""),
    "moments, ranks": ("moments/ranks", ""),
    "moments, three classes": ("moments/three classes", ""),
    "bags": ("bags/epsilon", ROWS),
    "parties, operator": ("parties/operator, even", "--rows aux.csv"),
    "parties, class sums": ("parties/class-sums~", "--rows aux.csv"),
    "parties, votes": ("parties/vote-table", "--rows aux.csv"),
}  # fmt: skip


def _words(name: str) -> list[str]:
    """Return the options of a release, with so little noise that there is something to learn."""
    kind, case = name.split("/")
    return re.sub(r"--epsilon \S+", "--epsilon 20", COMMANDS[kind][case]).split()


def _made(stage: Stage, name: str) -> str:
    """Return the file of a release; one that was made is not made again."""
    file = f"{name.replace('/', ' ')}.suffice"
    if not (stage.folder / file).exists():
        kind, _ = name.split("/")
        make_release(stage, name, kind, "clinic.csv", *_words(name), "--no-ledger")
    return file


def models(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each model: its file, its coefficients, what it predicts and how well."""
    stage.key()
    for case, (name, options) in FITS.items():
        yield case, _model(stage, "fit", _made(stage, name), *options.split())
    like = _made(stage, "mean-operator/laplace")
    words = ("mean-operator", "other.csv", *_words("mean-operator/laplace"), "--no-ledger")
    words = (*words, "--pipeline-from", like)
    make_release(stage, "mean-operator/other", *words, output="other.suffice")
    rows = ("--rows", "rows.csv", "--rows", "other rows.csv")
    yield "merged", _model(stage, "fit", like, "other.suffice", *rows)


def _model(stage: Stage, *words: str) -> dict[str, Any]:
    told = stage.json(*words, "--force", "-o", "model.suffice")
    manifest, arrays, _ = parts_of(stage.read("model.suffice"))
    stage.run("predict", "model.suffice", "test.csv", "--force", "-o", "predicted.csv")
    predicted = list(csv.DictReader(io.StringIO(stage.read("predicted.csv").decode())))
    columns = {name: [_cell(row[name]) for row in predicted[:8]] for name in predicted[0]}
    label = "course" if "a" in manifest["details"]["classes"] else "sick"
    inspected = stage.json("inspect", "model.suffice", "--explain")
    return plain(
        {
            "fit": {name: value for name, value in told.items() if name not in EFFORT},
            "arrays": {name: array.ravel()[:64] for name, array in sorted(arrays.items())},
            "inspect": {name: value for name, value in inspected.items() if name != "payload"},
            "predicted": columns,
            "score": stage.json("score", "model.suffice", "test.csv", "--label", label),
        }
    )


def _cell(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def estimators(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what Python's estimators tell beyond the files: intervals and their likes."""
    stage.key()
    rows = pyarrow.csv.read_csv("rows.csv").to_pandas()
    people = pyarrow.csv.read_csv("test.csv").to_pandas()
    table = pyarrow.csv.read_csv("clinic.csv").to_pandas()

    def load(name: str) -> Any:
        return sf.load(_made(stage, name))

    for case in ("laplace", "three classes, gaussian"):
        fitted = sf.FactoredClassifier().fit_release(load(f"mean-operator/{case}"), rows)
        yield f"factored, {case}", _told(
            fitted, people, coef=fitted.coef_interval(),
            intercept=fitted.intercept_interval(),
            sampling=fitted.coef_interval(0.8, sampling=True),
        )  # fmt: skip
    fitted = sf.NoisyLabelClassifier("logistic").fit_release(load("mean-operator/response"), rows)
    yield "noisy labels", _told(fitted, people)
    trees = sf.NoisyLabelClassifier(settings=[{"max_iter": 4}], folds=2)
    yield "boosted trees", _told(trees.fit_release(load("mean-operator/response"), rows), people)
    fitted = sf.MomentClassifier().fit_release(load("moments/public scale"))
    intervals = dataclasses.asdict(fitted.coefficient_intervals())
    yield "moments", _told(fitted, people, **intervals)
    for name, estimator in (("ridge", sf.RadoRidge()), ("boost", sf.RadoBoost(rounds=50))):
        fitted = estimator.fit_release(load("rados/labels"))
        yield f"rado {name}", _told(fitted, people)
    fitted = sf.SpreadClassifier().fit_release(load("responses/records, gaussian"))
    yield "spread", _told(fitted, people)
    fitted = sf.VoteClassifier().fit_release(
        load("parties/vote-table"), pyarrow.csv.read_csv("aux.csv").to_pandas()
    )
    yield "votes", plain({"predicted": fitted.predict(people)[:8]})
    new = people[["age", "dose", "ward"]]
    for method in ("moments", "likelihood", "mmd"):
        ratio = sf.ClassRatio(method=method).fit_release(
            load("proportions/laplace"), table, bags=table["year"]
        )
        found = {"ratio": ratio.quantify(new), "interval": ratio.interval(new, draws=20)}
        yield f"ratio, {method}", plain(found)


def _told(fitted: Any, rows: Any, **intervals: Any) -> dict[str, Any]:
    record = {
        "coefficients": getattr(fitted, "coef_", None),
        "intercept": getattr(fitted, "intercept_", None),
        "predicted": fitted.predict(rows)[:8],
        "probabilities": fitted.predict_proba(rows)[:8],
        "intervals": intervals,
    }
    return plain({key: value for key, value in record.items() if value is not None})
