"""Cases: releases of tables in memory, through the public names of the package."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.csv

import seeds
import suffice as sf
from golden.record import release_record
from golden.stage import Stage
from silence import silent

__all__ = ["frames"]

NAMES = ["age", "dose", "ward"]
WARDS = {"ward": ["north", "south", "west"]}


def frames(_: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield one kind over every sort of table in memory, and every kind over data frames."""
    table = pyarrow.csv.read_csv("clinic.csv")
    frame, public = table.to_pandas(), pyarrow.csv.read_csv("aux.csv").to_pandas()
    X, y = frame[NAMES], frame["sick"]
    numbers = frame[["age", "dose"]].to_numpy()
    operator = sf.MeanOperator(epsilon=1.0, mechanism="laplace", map=None)
    file = sf.TableFile("clinic.csv")
    makers: dict[str, Callable[[], sf.Release]] = {
        "mean-operator: pandas": lambda: operator.release(X, y, ledger=None),
        "mean-operator: pandas by name": lambda: operator.release(
            frame, label="sick", features=NAMES, ledger=None
        ),
        "mean-operator: polars": lambda: operator.release(
            pl.from_arrow(table), label="sick", features=NAMES, ledger=None
        ),
        "mean-operator: arrow": lambda: operator.release(
            table, label="sick", features=NAMES, ledger=None
        ),
        "mean-operator: a file": lambda: operator.release(
            file, label="sick", features=NAMES, ledger=None
        ),
        "mean-operator: numpy": lambda: operator.release(numbers, y.to_numpy(), ledger=None),
        "responses": lambda: sf.RandomizedResponse(
            label_flip=0.25, states=WARDS, ranges={"age": (0, 100), "dose": (0, 10)},
            feature_flip=0.2, feature_noise=400.0,
        ).release(X, y, ledger=None),
        "rados": lambda: sf.Rados(
            epsilon=1.0, delta=1e-6, unit="record", count=8, standardize=public
        ).release(X, y, ledger=None),
        "moments": lambda: sf.Moments(epsilon=1.0, delta=1e-6, standardize=public).release(
            X, y, ledger=None
        ),
        "proportions": lambda: sf.LabelProportions(epsilon=1.0, mechanism="laplace").release(
            X, y, frame["year"], ledger=None
        ),
        "bags": lambda: sf.assign_bags(X, y, epsilon=1.0, ledger=None),
        "parties": lambda: _votes(public),
    }  # fmt: skip
    for case, make in makers.items():
        with seeds.seeded(f"memory/{case}"):
            make().save("seeded.suffice")
        with silent(f"memory/{case}") as draws:
            make().save("silent.suffice")
        files = (Path(f"{noise}.suffice").read_bytes() for noise in ("seeded", "silent"))
        yield case, release_record(*files, draws, exact=True)


def _votes(public: Any) -> sf.Release:
    """Return what four parties vote together on public rows."""
    auxiliary = sf.AuxiliaryRows.read(public)
    votes = [(np.arange(len(public)) + party) % 2 for party in range(4)]
    parts = [sf.PartyContribution.of(f"p{i}", v, auxiliary) for i, v in enumerate(votes)]
    ensemble = sf.PrivateEnsemble(epsilon=4.0, delta=1e-5, noise_shape="even")
    return ensemble.aggregate(parts, auxiliary, enrolled=6, ledger=None).release
