"""Methods that protect whole records, on one split: rivals by numpy noise, ours by releases.

All see the same private rows, scaled and clipped by the same public rows. Rivals get rows of length
1 with a constant; each may have several settings, of which the best is taken in hindsight. Ours are
the public classes as a user calls them, with one setting.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from rival_adassp import adassp
from rival_descent import GradientNoise, descend
from rival_objective import gaussian_objective, least_penalty, pure_objective
from scipy.special import expit

sys.path.append(str(Path(__file__).parent / "peers"))
from environments import asked, is_installed

from suffice.learner.moments.classifier import MomentClassifier
from suffice.learner.rados.ridge import RadoRidge
from suffice.learner.rows import design_matrix
from suffice.owner.moments.mechanism import Moments
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.overlap import SharedRowsWarning
from suffice.owner.rados.mechanism import Rados
from suffice.owner.source import Source
from suffice.study.data_sets import Split
from suffice.tables.maps import most_outputs
from suffice.tables.pipeline import Pipeline

__all__ = ["METHODS", "RecordSplit"]

DELTA = 1e-6
_CLIP = 0.2  # quantile of public row lengths, that of Moments
_CONSTANTS = (0.1, 0.3, 1.0)  # weight of the constant beside rows of length 1
_STEPS = (10, 30, 100)
_RATES = (1.0, 3.0, 10.0, 30.0, 100.0)
_PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # times the least
_MOST_PUBLIC = 2000
_PRODUCTS, _MOST_PRODUCTS = "ranks+polynomial:2", 300

Rows = tuple[np.ndarray, np.ndarray]  # private, test
Predictions = Iterator[tuple[str, int, np.ndarray]]  # setting, draw, probabilities of class 1


@dataclass(frozen=True, eq=False)
class RecordSplit:
    """Private and public rows of one split, and its test rows."""

    public: pa.Table
    private: pa.Table
    labels: np.ndarray
    test_rows: pa.Table
    test_labels: np.ndarray

    @classmethod
    def of(cls, data: Split) -> "RecordSplit":
        """Take the first rows as public: the order of a split is random."""
        count = min(_MOST_PUBLIC, len(data.labels) // 5)
        private = data.rows.slice(count)
        labels = data.labels[count:]
        return cls(data.rows.slice(0, count), private, labels, data.test_rows, data.test_labels)

    @cached_property
    def pipeline(self) -> Pipeline:
        """Scales and clipping of Moments, as it takes them from the public rows."""
        moments = Moments(1.0, DELTA, standardize=self.public)
        return moments.private_rows(Source(self.private, self.labels)).pipeline

    def mapped(self, feature_map: str) -> Pipeline:
        """Return the same after a map that is fitted to the public rows."""
        mapped = MeanOperator(1.0, map=feature_map, clip=_CLIP, intercept=0.0, missing="mean")
        return mapped.public_rows(self.public).pipeline

    @cached_property
    def rado_pipeline(self) -> Pipeline:
        """The same for rados, with an intercept and all categories: one that is new is an error."""
        names = [f.name for f in self.private.schema if pa.types.is_dictionary(f.type)]
        tables = pa.concat_tables([self.public, self.private, self.test_rows])
        categories = {n: sorted(tables[n].unique().drop_null().to_pylist()) for n in names}
        rados = Rados(
            standardize=self.public, clip=_CLIP, missing="mean", categories=categories,
            epsilon=1.0, delta=DELTA, unit="record",
        )  # fmt: skip
        return rados.private_rows(self.private).pipeline

    @cached_property
    def signs(self) -> np.ndarray:
        """The private labels as -1 and +1."""
        return 2.0 * self.labels - 1

    def unit_rows(self, pipeline: Pipeline) -> Rows:
        """Return private and test rows, of length 1 at most."""
        tables = (self.private, self.test_rows)
        private, test = (design_matrix(t, pipeline, new=True) / pipeline.bound for t in tables)
        return private, test

    @cached_property
    def rows(self) -> Rows:
        """Private and test rows, scaled and clipped alone."""
        return self.unit_rows(self.pipeline)

    @cached_property
    def ranks(self) -> Rows:
        """The same of ranks."""
        return self.unit_rows(self.mapped("ranks"))


def _with_constant(both: Rows, weight: float) -> Rows:
    """Return private and test rows with a constant beside them, of length 1 at most together."""
    length = np.hypot(1.0, weight)
    private, test = (np.column_stack([rows, np.full(len(rows), weight)]) / length for rows in both)
    return private, test


def _adassp(data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    for weight in _CONSTANTS:
        rows, test = _with_constant(data.rows, weight)
        for draw in range(draws):
            scores = test @ adassp(rows, data.signs, epsilon, DELTA, rng)
            yield f"constant {weight:g}", draw, np.clip((1 + scores) / 2, 1e-3, 1 - 1e-3)


def _objective(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator, *, pure: bool = False
) -> Predictions:
    for weight in _CONSTANTS:
        rows, test = _with_constant(data.rows, weight)
        for factor in _PENALTIES:
            penalty = factor * least_penalty(epsilon)
            for draw in range(draws):
                if pure:
                    theta = pure_objective(rows, data.signs, epsilon, penalty, rng)
                else:
                    promise = (epsilon, DELTA)
                    theta = gaussian_objective(rows, data.signs, promise, penalty, rng)
                yield f"constant {weight:g}, penalty {factor:g}", draw, expit(test @ theta)


def _pure_objective(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _objective(data, epsilon, draws, rng, pure=True)


def _descent(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator, *, ranks: bool = False
) -> Predictions:
    for weight in _CONSTANTS:
        rows, test = _with_constant(data.ranks if ranks else data.rows, weight)
        for steps in _STEPS:
            noise = GradientNoise(epsilon, DELTA, steps, rng)
            theta = descend(rows, data.signs, noise, rates=_RATES, draws=draws)
            for rate, of_rate in zip(_RATES, theta, strict=True):
                for draw, coefficients in enumerate(of_rate):
                    setting = f"T {steps}, rate {rate:g}, constant {weight:g}"
                    yield setting, draw, expit(test @ coefficients)


def _descent_of_ranks(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _descent(data, epsilon, draws, rng, ranks=True)


def _diffprivlib(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Run in an environment of its own; its noise is its own as well."""
    del rng
    rows, test = data.rows
    arrays = {"rows": rows, "labels": data.labels, "test_rows": test}
    answer = asked("diffprivlib", "probabilities", **arrays, epsilon=epsilon, draws=draws)
    for setting, predictions in answer.items():
        for draw, probabilities in enumerate(predictions):
            yield setting, draw, np.array(probabilities)


def _rados(data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    del rng  # releases draw from the operating system
    mechanism = Rados(epsilon=epsilon, delta=DELTA, unit="record", pipeline=data.rado_pipeline)
    for draw in range(draws):
        release = mechanism.release(data.private, data.labels, ledger=None)
        model = RadoRidge().fit_release(release, data.public)  # its probabilities need rows
        yield "", draw, model.predict_proba(data.test_rows)[:, 1]


def _moments(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator,
    feature_map: str | None = None,
) -> Predictions:  # fmt: skip
    del rng
    pipeline = data.pipeline if feature_map is None else data.mapped(feature_map)
    mechanism = Moments(epsilon, DELTA, pipeline=pipeline)
    for draw in range(draws):
        release = mechanism.release(data.private, data.labels, ledger=None)
        model = MomentClassifier().fit_release(release)
        yield "", draw, model.predict_proba(data.test_rows)[:, 1]


def _moments_of_ranks(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _moments(data, epsilon, draws, rng, "ranks")


def _moments_of_products(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Take ranks and their products; nothing of tables with too many columns."""
    if most_outputs(_PRODUCTS, data.rows[0].shape[1]) <= _MOST_PRODUCTS:
        yield from _moments(data, epsilon, draws, rng, _PRODUCTS)


Method = Callable[[RecordSplit, float, int, np.random.Generator], Predictions]

METHODS: Mapping[str, Method] = {
    "adassp": _adassp,
    "objective": _objective,
    "objective, pure": _pure_objective,
    **({"diffprivlib": _diffprivlib} if is_installed("diffprivlib") else {}),
    "descent": _descent,
    "descent of ranks": _descent_of_ranks,
    "rados": _rados,
    "moments": _moments,
    "moments of ranks": _moments_of_ranks,
    "moments of ranks, degree 2": _moments_of_products,
}

warnings.filterwarnings("ignore", category=SharedRowsWarning)  # rows that are equal by chance
