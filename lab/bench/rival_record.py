"""Methods that protect whole records, on one split: rivals by numpy noise, ours by releases.

All see the same private rows, scaled and clipped by the same public rows. Rivals get rows of length
1 with a constant; each may have several settings, of which the best is taken in hindsight. Ours
have one setting. Rados are releases. Moments are computed once per split; a draw adds the noise of
a release to them (`with_simulated_noise`), which a test compares with that of real releases.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from rival_adassp import LinearStatistics, adassp
from rival_descent import GradientNoise, descend, public_rate
from rival_objective import gaussian_terms, least_penalty, minimise, pure_terms
from scipy.special import expit

sys.path.append(str(Path(__file__).parent / "peers"))
from environments import asked
from simulated_moments import with_simulated_noise

from suffice.learner.moments import learn_rule, plain_numbers
from suffice.learner.problem import design_matrix
from suffice.learner.rados import RadoRidge
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.moments import Moments
from suffice.owner.rados import Rados
from suffice.owner.scaling import SharedRowsWarning
from suffice.owner.source import Source
from suffice.papers.reproduction import Split
from suffice.tables.pipeline import Pipeline, most_outputs

__all__ = ["METHODS", "RecordSplit"]

DELTA = 1e-6
_CLIP = 0.2  # quantile of public row lengths, that of Moments
_CONSTANTS = (0.1, 0.3, 1.0)  # weight of the constant beside rows of length 1
_LIKELY_CONSTANTS = (0.3, 1.0)  # of slower rivals
_CONSTANT, _PUBLIC_STEPS = 0.3, 30  # where nothing is picked in hindsight
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
        return rados.private_rows(Source(self.private)).pipeline

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
    def public_unit_rows(self) -> np.ndarray:
        """The public rows, scaled and clipped alone."""
        return np.asarray(design_matrix(self.public, self.pipeline, new=True) / self.pipeline.bound)

    @cached_property
    def ranks(self) -> Rows:
        """Private and test rows of ranks."""
        return self.unit_rows(self.mapped("ranks"))

    @cached_property
    def products(self) -> Rows:
        """Private and test rows of ranks and their products."""
        return self.unit_rows(self.mapped(_PRODUCTS))


def _with_constant(both: Rows, weight: float) -> Rows:
    """Return private and test rows with a constant beside them, of length 1 at most together."""
    length = np.hypot(1.0, weight)
    private, test = (np.column_stack([rows, np.full(len(rows), weight)]) / length for rows in both)
    return private, test


def _adassp(data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    for weight in _CONSTANTS:
        rows, test = _with_constant(data.rows, weight)
        exact = LinearStatistics.of(rows, data.signs)
        for draw in range(draws):
            scores = test @ adassp(exact, epsilon, DELTA, rng)
            yield f"constant {weight:g}", draw, np.clip((1 + scores) / 2, 1e-3, 1 - 1e-3)


def _objective(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator, *, pure: bool = False
) -> Predictions:
    penalties = np.repeat(_PENALTIES, draws) * least_penalty(epsilon)
    for weight in (_CONSTANT,) if pure else _LIKELY_CONSTANTS:
        rows, test = _with_constant(data.rows, weight)
        width = rows.shape[1]
        if pure:
            linear = pure_terms(epsilon, penalties, width, rng)
        else:
            linear = gaussian_terms(epsilon, DELTA, penalties, width, rng)
        theta = minimise(rows, data.signs, linear, penalties)
        for index, coefficients in enumerate(theta.T):
            setting = f"constant {weight:g}, penalty {_PENALTIES[index // draws]:g}"
            yield setting, index % draws, expit(test @ coefficients)


def _pure_objective(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _objective(data, epsilon, draws, rng, pure=True)


def _descent(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator, *, ranks: bool = False
) -> Predictions:
    for weight in (_CONSTANT,) if ranks else _LIKELY_CONSTANTS:
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


def _public_descent(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Take the rate by a public rule: nothing in it is picked in hindsight."""
    rows, test = _with_constant(data.rows, _CONSTANT)
    public, _ = _with_constant((data.public_unit_rows, test[:0, :-1]), _CONSTANT)
    noise = GradientNoise(epsilon, DELTA, _PUBLIC_STEPS, rng)
    rate = public_rate(noise, len(rows), public)
    for draw, theta in enumerate(descend(rows, data.signs, noise, rates=(rate,), draws=draws)[0]):
        yield "", draw, expit(test @ theta)


def _diffprivlib(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Run in an environment of its own; its noise is its own as well."""
    del rng
    rows, test = data.rows
    answer = asked("diffprivlib", "coefficients", rows=rows, labels=data.labels,
                   epsilon=epsilon, draws=draws)  # fmt: skip
    for setting, models in answer.items():
        for draw, (*weights, constant) in enumerate(models):
            yield setting, draw, expit(test @ np.array(weights) + constant)


def _rados(data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    del rng  # releases draw from the operating system
    mechanism = Rados(epsilon=epsilon, delta=DELTA, unit="record", pipeline=data.rado_pipeline)
    for draw in range(draws):
        release = mechanism.release(data.private, data.labels, ledger=None)
        model = RadoRidge().fit_release(release, data.public)  # its probabilities need rows
        yield "", draw, model.predict_proba(data.test_rows)[:, 1]


def _moments(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator,
    both: Rows | None = None,
) -> Predictions:  # fmt: skip
    rows, test = data.rows if both is None else both
    exact = plain_numbers(rows, data.labels, 2)
    for draw in range(draws):
        noisy = with_simulated_noise(exact, epsilon, DELTA, rng)
        rule = learn_rule(noisy)
        yield "", draw, expit(test @ rule.weights[:, 0] + rule.at_zero[0])


def _moments_of_ranks(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _moments(data, epsilon, draws, rng, data.ranks)


def _moments_of_products(
    data: RecordSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Take ranks and their products; nothing of tables with too many columns."""
    if most_outputs(_PRODUCTS, data.rows[0].shape[1]) <= _MOST_PRODUCTS:
        yield from _moments(data, epsilon, draws, rng, data.products)


Method = Callable[[RecordSplit, float, int, np.random.Generator], Predictions]

METHODS: Mapping[str, Method] = {
    "adassp": _adassp,
    "objective": _objective,
    "objective, pure": _pure_objective,
    "diffprivlib": _diffprivlib,
    "descent": _descent,
    "descent, public rule": _public_descent,
    "descent of ranks": _descent_of_ranks,
    "rados": _rados,
    "moments": _moments,
    "moments of ranks": _moments_of_ranks,
    "moments of ranks, degree 2": _moments_of_products,
}

warnings.filterwarnings("ignore", category=SharedRowsWarning)  # rows that are equal by chance
