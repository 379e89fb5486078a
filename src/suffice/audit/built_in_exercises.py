"""The exercises of the mechanisms that the package has."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.exercises import (
    AUXILIARY_DATASET,
    FEATURES,
    NAMES,
    PARTIES,
    RANGES,
    WARDS,
    Changed,
    Exercise,
)
from suffice.audit.public_part import Handed
from suffice.owner.labelled import Preprocessing
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.rados import Rados
from suffice.tables.pipeline import Pipeline

_NO_NAMES = {"numpy": "whose record it is, and its label, are columns with names"}
_ENROLLED = {
    "party": "party",
    "enrolled": PARTIES,
    "auxiliary": lambda handed: handed.auxiliary,
}


@cache
def _agreed() -> Pipeline:
    """Return the pipeline of other public rows, agreed on before anybody saw protected ones."""
    rows = np.random.default_rng(0).normal(size=(len(NAMES), 50))
    table = pa.table(dict(zip(NAMES, rows, strict=True)))
    return MeanOperator(1.0).public_rows(table).pipeline


def _operator(name: str, **options: Any) -> Exercise:
    return Exercise(name, {"epsilon": 0.5, "delta": 1e-6, **options})


def _proportions(name: str, **options: Any) -> Exercise:
    bags = {"bags": lambda handed: handed.column("ward")}
    return Exercise(name, {"epsilon": 1.0, "delta": 1e-6, **options}, bags, columns=NAMES)


def _rados(unit: str, changed: Changed, **options: Any) -> Exercise:
    declared = {"ranges": RANGES, "categories": {"ward": WARDS}}
    request = {"count": 8, "epsilon": 1.0, "delta": 1e-6, "unit": unit, **declared}
    name = ", ".join([f"per {unit}", *(f"noise on {target}" for target in options.values())])
    return Exercise(name, {**request, **options}, changed=changed, most_classes=2)


def _own_scales(handed: Handed) -> Pipeline:
    """Return the pipeline of a release that shows the scales of these private rows."""
    columns = [name for name in FEATURES if handed.has(name)]
    labels = {"label": "label"} if handed.form.named else {"y": handed.column("label")}
    unprotected_rados = Rados(count=8, standardize="rows", clip=0.9, classes=handed.classes)
    inputs = {"features": columns, "ledger": None, "unprotected": True, **labels}
    return unprotected_rados.release(handed.data, **inputs).pipeline


def _moments(name: str, classes: int, **options: Any) -> Exercise:
    declared = {"ranges": RANGES, "categories": {"ward": WARDS}}
    asked = {"epsilon": 1.0, "delta": 1e-6, **declared, **options}
    return Exercise(name, asked, changed=Changed.RECORD, most_classes=classes, any_cells=True)


def _laundered() -> Exercise:
    options = {"count": 8, "epsilon": 1.0, "delta": 1e-6, "unit": "record", "pipeline": _own_scales}
    return Exercise(
        "scaled by private rows", options, changed=Changed.RECORD, most_classes=2, command=False,
        refused=True,
    )  # fmt: skip


def _parties(method: str, *, two: bool = False, **more: Any) -> Exercise:
    options = {"epsilon": 1.0, "delta": 1e-6, "method": method, "lam": 1e-2, **more}
    most = 2 if two else 3
    return Exercise(
        method, options, _ENROLLED, changed=Changed.PARTY, columns=(), most_classes=most,
        without=_NO_NAMES,
    )  # fmt: skip


def _protected_rows(method: str) -> Exercise:
    scaled = {"preprocessing": lambda _: Preprocessing(pipeline=_agreed())}
    return replace(
        _parties(method, two=True),
        name=f"{method}, protected auxiliary rows",
        options={**_parties(method).options, "private_auxiliary": True},
        inputs={**_ENROLLED, **scaled, "auxiliary_dataset": AUXILIARY_DATASET},
        changed=Changed.AUXILIARY,
        command=False,
    )


EXERCISES: Mapping[str, tuple[Exercise, ...]] = {
    "mean-operator": (
        *(_operator(name, mechanism=name) for name in ("laplace", "gaussian", "knorm", "response")),
        _operator("chosen", mechanism="auto"),
        _operator("random features", mechanism="gaussian", map="rff:16"),
        _operator("landmarks", mechanism="laplace", map="nystroem:12"),
        _operator("declared categories", mechanism="laplace", categories={"ward": WARDS}),
    ),
    "responses": (
        Exercise(
            "every cell",
            {
                "label_flip": 0.25,
                "states": {"ward": WARDS},
                "ranges": RANGES,
                "feature_flip": {"ward": 0.3},
                "feature_noise": 1e8,
            },
            changed=Changed.RECORD,
        ),
    ),
    "rados": (
        _rados("label", Changed.LABEL),
        _rados("record", Changed.RECORD),
        _rados("record", Changed.RECORD, noise_on="records"),
        _laundered(),
    ),
    "moments": (_moments("declared ranges", 3), _moments("missing as zero", 2, missing="zero")),
    "proportions": (
        _proportions("chosen"),
        _proportions("laplace", mechanism="laplace"),
        _proportions("gaussian", mechanism="gaussian"),
        _proportions("laplace prior", mechanism="laplace-prior"),
    ),
    "bags": (Exercise("by skew", {"skew": 0.7}), Exercise("by epsilon", {"epsilon": 0.5})),
    "parties": (
        _parties("operator"),
        _parties("class-sums", samples=4),
        _parties("vote-table"),
        _parties("soft", two=True),
        _parties("average", two=True),
        _protected_rows("soft"),
    ),
}
