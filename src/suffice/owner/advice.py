"""What an owner asks: what is private, how strongly it must be protected, and what is public."""

import csv
import io
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.engines.summary import Summary, fit_pipeline
from suffice.errors import ParameterError
from suffice.options import REQUIRED, check_choices, data_option, option, privacy_option
from suffice.owner.forecast import EQUAL, SIGNALS, Plan, check_balance
from suffice.owner.labelled import PublicRows, public_summary
from suffice.owner.mean_operator import Candidates, MeanOperator, choose, mechanisms_at
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism
from suffice.owner.moments import CLIP, Moments, calibrated_moments
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.owner.source import PublicSource, Source
from suffice.privacy.calibrate import check_promise, gaussian_multiplier
from suffice.privacy.words import round_up
from suffice.release.columns import Added
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.databases import Query
from suffice.tables.files import TableFile
from suffice.tables.labels import Classes, check_classes
from suffice.tables.maps import most_outputs
from suffice.tables.sources import Without, column_names, open_declared, open_table, row_count
from suffice.tables.table import Table

__all__ = [
    "ENOUGH_LABELS",
    "MAPS",
    "Advice",
    "Assessment",
    "Candidate",
    "Private",
    "Question",
    "Spectrum",
    "TableFacts",
    "advise",
    "answer",
    "assessed",
    "candidates",
    "cell_epsilon",
    "column_roles",
    "commands",
    "effective_labels",
    "heavy_tails",
    "merit",
    "randomised_records",
    "ranked",
    "ranks_help",
    "reasons",
    "table_facts",
    "without_label",
]


class Private(StrEnum):
    """What must not be seen."""

    LABELS = "labels"
    RECORDS = "records"
    ATTRIBUTES = "attributes"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an owner asks.

    Parameters
    ----------
    private : {"labels", "records", "attributes"}
        What is private: the labels of public rows, whole records, or each single value.
    epsilon : float
        Epsilon of each label, record or value.
    delta : float
        Delta; 0 rules out releases with Gaussian noise.
    public : table, optional
        Public rows with the same columns, other rows than the private ones.
    classes : sequence
        The labels that can occur.
    balance : float, optional
        The proportion of the positive class that the owner expects.
    """

    private: str = privacy_option(
        REQUIRED,
        "What is private: labels (rows are public), records (whole rows) or attributes (each single"
        " value).",
        choices=Private,
    )
    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    public: Any = data_option(
        None,
        "Public table (a file) with the same columns, for records and attributes. Its rows must be"
        " other rows than the private ones.",
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    balance: float | None = data_option(
        None,
        "Proportion of the positive class that you expect, for example 0.12. It is never read from"
        " the labels. Default: equal classes.",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        check_promise(self)
        check_balance(self.balance, len(self.declared_classes))
        if self.private == Private.LABELS and self.public is not None:
            raise ParameterError(
                "With private labels the rows of the table are public. Remove --public (Python:"
                " public)."
            )

    @cached_property
    def declared_classes(self) -> Classes:
        """The declared classes."""
        return check_classes(self.classes)


@dataclass(frozen=True)
class TableFacts:
    """What is public of a table whatever is private in it.

    Parameters
    ----------
    roles : Roles
        Its label and feature columns.
    rows : int
        The number of its rows.
    """

    roles: Roles
    rows: int


def column_roles(source: Source) -> Roles:
    """Return label and features by name. Of a CSV file nothing but the first line is read."""
    schema = pa.schema([(name, pa.string()) for name in column_names(source.data)])
    return resolve_roles(schema, label=source.label, features=source.features)


def table_facts(source: Source) -> TableFacts:
    """Return names and number of rows. The lines of a CSV file are counted, and not looked at."""
    roles = column_roles(source)
    return TableFacts(roles, _rows_of(source.data, roles.label or roles.features[0]))


def _rows_of(data: Any, column: str) -> int:
    """Return the number of rows: as the object, or the metadata of a file, states it."""
    if isinstance(data, Without):
        return _rows_of(data.data, column)
    if hasattr(data, "__len__") and not isinstance(data, str | Path):
        return len(data)
    return row_count(open_declared(data), column)


def without_label(data: Any, roles: Roles) -> Any:
    """Return the feature columns of a frame in memory, so that no label is even converted.

    Files are read by columns, and a label is not among them.
    """
    features = list(roles.features)
    if isinstance(data, Without):
        inner = without_label(data.data, roles)
        return data if inner is data.data else inner
    if isinstance(data, pa.Table):
        return data.select(features)
    if hasattr(data, "__arrow_c_stream__") and {*features} <= {*getattr(data, "columns", ())}:
        return data[features]
    return data


_ENDS = (0.05, 0.95)  # quantiles of public numbers: a wider range needs more noise
_DIGITS = 4  # of numbers that a command line shows


def cell_epsilon(question: Question, features: int) -> float:
    """Return the epsilon of one cell: epsilon for each value, or its part of a record's."""
    return question.epsilon / (features + 1 if question.private == Private.RECORDS else 1)


def randomised_records(question: Question, summary: Summary) -> RandomizedResponse:
    """Return randomised response on every cell, declared by public rows alone.

    A number gains Laplace noise of variance 2 (range / epsilon)^2; one of k possible values is
    replaced with probability (k - 1) / (e^epsilon + k - 1).
    """
    names = summary.sample.rows.schema.names
    epsilon = cell_epsilon(question, len(names))
    states = {name: _states(summary, name) for name in names if name in summary.counts}
    ranges = {name: _range(summary, name) for name in names if name not in summary.counts}
    flips = {name: _flip(len(values), epsilon) for name, values in states.items()}
    noise = {n: _up(2 * ((high - low) / epsilon) ** 2) for n, (low, high) in ranges.items()}
    return RandomizedResponse(
        classes=question.classes,
        label_epsilon=epsilon,
        states=states or None,
        ranges=ranges or None,
        feature_flip=flips or None,
        feature_noise=noise or None,
        kernel="laplace",
        delta=0.0,
    )


def _states(summary: Summary, name: str) -> list[str]:
    """Return the categories of public rows, two at least."""
    values = sorted(str(value) for value in summary.counts[name] if value is not None)
    return values if len(values) > 1 else [*values, f"not {''.join(values)}"]


def _range(summary: Summary, name: str) -> tuple[float, float]:
    """Return a range that holds most public numbers, in few digits."""
    cells = summary.sample.rows.column(name).cast("float64").drop_null()
    numbers = cells.to_numpy(zero_copy_only=False)
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) == 0:
        return 0.0, 1.0
    low, high = (float(end) for end in np.quantile(numbers, _ENDS))
    if not low < high:
        low, high = float(numbers.min()), float(numbers.max())
    low, high = _rounded(low, ROUND_FLOOR), _rounded(high, ROUND_CEILING)
    return (low, high) if low < high else (low, low + max(1.0, abs(low)))


def _flip(states: int, epsilon: float) -> float:
    return _up((states - 1) / (math.exp(epsilon) + states - 1))


def _up(number: float) -> float:
    """Return a number of few digits that is no less: more noise than asked for, never less."""
    return _rounded(number, ROUND_CEILING)


def _rounded(number: float, way: str) -> float:
    return float(Context(prec=_DIGITS, rounding=way).create_decimal(Decimal(number)))


# Public feature maps in the order of how much they let a linear model express.
MAPS: tuple[str | None, ...] = (None, "ranks", "ranks+polynomial:2")
_MOST_PRODUCTS = 300  # coordinates of products: beyond, there are too many for their noise
_TREES = "hist-gradient-boosting"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One release that could be made, with its learner.

    Parameters
    ----------
    name : str
        The release in words, with its map.
    mechanism : Mechanism
        What makes the release.
    map : str or None
        The public feature map.
    estimator : str or None
        What ``suffice fit --estimator`` is given.
    """

    name: str
    mechanism: Mechanism[Any]
    map: str | None = None
    estimator: str | None = None


def candidates(question: Question, width: int, summary: Summary | None) -> list[Candidate]:
    """Return the releases that protect what is private.

    ``width`` is the number of coordinates of a row without a map, ``summary`` what a pass over
    public rows yielded.
    """
    if question.private == Private.LABELS:
        return list(_of_labels(question, width, summary))
    return list(_of_records(question, width, summary))


def _maps(width: int, *, public: bool) -> list[str | None]:
    """Return the maps that can be fitted, and whose noise can be borne."""
    if not public:
        return [None]
    return [m for m in MAPS if m is None or most_outputs(m, width) <= max(_MOST_PRODUCTS, width)]


def _named(name: str, feature_map: str | None) -> str:
    return name if feature_map is None else f"{name}, {feature_map}"


def _of_labels(question: Question, width: int, summary: Summary | None) -> Iterator[Candidate]:
    missing = "mean" if summary is not None and any(summary.missing.values()) else "error"
    common: dict[str, Any] = {"classes": question.classes, "missing": missing}
    for feature_map in _maps(width, public=True):
        operator = MeanOperator(question.epsilon, question.delta, map=feature_map, **common)
        yield Candidate(_named("mean operator", feature_map), operator, feature_map)
    response = MeanOperator(question.epsilon, 0.0, mechanism="response", **common)
    yield Candidate("randomised labels, trees", response, estimator=_TREES)


def _of_records(question: Question, width: int, summary: Summary | None) -> Iterator[Candidate]:
    common: dict[str, Any] = {"standardize": question.public, "classes": question.classes}
    if question.delta > 0:
        for feature_map in _maps(width, public=summary is not None):
            moments = Moments(question.epsilon, question.delta, map=feature_map, **common)
            yield Candidate(_named("moments", feature_map), moments, feature_map)
        if len(question.declared_classes) == 2:
            rados = Rados(
                epsilon=question.epsilon, delta=question.delta, unit="record", missing="mean",
                **common,
            )  # fmt: skip
            yield Candidate("subset sums (rados)", rados)
    if summary is not None:
        responses = randomised_records(question, summary)
        yield Candidate("randomised records", responses)


_LAMS = 10.0 ** np.arange(-4.0, 3.01, 0.25)  # times the mean variance of a coordinate
_NOTHING = 1e-150
_FAR = 1e6  # a penalty, over the mean variance, that leaves the direction of mu alone


def effective_labels(rows: int, epsilon: float, classes: int, balance: float = EQUAL) -> float:
    """Return as how many exact labels so many randomised ones count.

    m ((e^eps - 1) / (e^eps + K - 1))^2 for K classes, that is m tanh^2(eps/2) for two. Labels of
    two unequal classes have the variance c = 4 p (1 - p) and count as

        m c / (1 / tanh^2(eps/2) - 1 + c),

    the variance of a label over that of its unbiased estimate.

    Parameters
    ----------
    rows : int
        The number m of labels.
    epsilon : float
        Epsilon of each label.
    classes : int
        The number K of classes.
    balance : float
        The proportion p of the positive of two classes.

    Returns
    -------
    float
        A number of labels.

    Examples
    --------
    >>> round(effective_labels(10_000, 1.0, 2)), round(effective_labels(10_000, 1.0, 10))
    (2136, 215)
    >>> round(effective_labels(10_000, 1.0, 2, balance=0.05))
    491
    """
    odds = math.exp(min(epsilon, 300.0))
    part = ((odds - 1) / (odds + classes - 1)) ** 2
    if classes == 2:
        variance = 4 * balance * (1 - balance)
        part = variance / (1 / part - 1 + variance)
    return rows * part


def heavy_tails(summary: Summary) -> float:
    """Return the median excess kurtosis of public columns of numbers: 0 for a normal distribution.

    Columns of one value, or of two, do not count.
    """
    rows = summary.sample.rows
    kurtoses = []
    for name in summary.deviation:
        cells = rows.column(name).cast("float64").to_numpy(zero_copy_only=False)
        numbers = cells[np.isfinite(cells)]
        if len(np.unique(numbers)) > 2:
            numbers = numbers / np.abs(numbers).max()  # so that no square overflows
            centred = (numbers - numbers.mean()) / max(numbers.std(), _NOTHING)
            kurtoses.append(float((centred**4).mean()) - 3)
    return float(np.median(kurtoses)) if kurtoses else 0.0


class Spectrum:
    """The variances of public rows along their principal directions, and what noise does there.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Public rows.
    count : int
        The number of private rows.
    bound : float
        The length that no row exceeds.
    """

    def __init__(self, rows: np.ndarray, count: int, bound: float) -> None:
        centred = rows - rows.mean(axis=0)
        values = np.linalg.eigvalsh(centred.T @ centred / len(rows))
        self.values, self.count, self.bound = np.maximum(values, 0.0), count, bound
        self.width = len(values)
        self.mean_variance = max(float(self.values.mean()), _NOTHING)

    def kept(self, variance: float, floor: float = 0.0) -> float:
        """Return what even noise of this variance leaves, penalties being ``floor`` at least."""
        return self._correlation(variance, floor) / max(self._correlation(0.0, 0.0), _NOTHING)

    def _correlation(self, variance: float, floor: float) -> float:
        s = self.values
        inverse = 1 / (np.maximum(_LAMS * self.mean_variance, floor)[:, None] + s)
        k = SIGNALS["usual"] / (self.width * self.mean_variance)
        noise = (inverse**2 * (variance + s / self.count) * s).sum(axis=1)
        spread = np.sqrt(k * (inverse**2 * s**3).sum(axis=1) + noise)
        signal = k * (inverse * s**2).sum(axis=1)
        return float((signal / np.maximum(spread, _NOTHING)).max())

    def kept_by_moments(self, classes: int, epsilon: float, delta: float) -> float:
        """Return what the noise of moments leaves: on mu, and as a penalty on all directions."""
        noise = calibrated_moments(self.width, classes, self.count, epsilon, delta)
        on_mu, on_squares = (
            noise.blocks[name].deviation / self.count for name in ("operator", "diagonal")
        )
        floor = math.sqrt(self.width / 2) * on_squares * self.bound**2
        return self.kept((on_mu * self.bound) ** 2, floor)

    def kept_by_rados(self, epsilon: float, delta: float) -> float:
        """Return what is left if the noise hides all of rados but their mean, (m/2) mu.

        The mean has noise of sqrt(2) z times the longest row, z the multiplier of (epsilon, delta).
        """
        deviation = 2 * math.sqrt(2) * gaussian_multiplier(epsilon, delta) / self.count
        return self.kept((deviation * self.bound) ** 2, _FAR * self.mean_variance)

    def kept_by_responses(self, epsilon: float, classes: int, cell_noise: float) -> float:
        """Return what randomised records leave.

        ``epsilon`` is that of a label, ``cell_noise`` the mean variance of the noise on a cell over
        that of the cell. A product of two cells then has 1 + cell_noise times its variance.
        """
        labels = effective_labels(self.count, epsilon, classes)
        size = (1 + cell_noise) * self.mean_variance
        floor = math.sqrt(self.width / 2 / self.count) * size
        return self.kept(size / max(labels, _NOTHING), floor)


@dataclass(frozen=True, eq=False)
class Assessment:
    """A candidate and its forecast.

    Parameters
    ----------
    candidate : Candidate
        The release.
    correlation_left : float or None
        What noise leaves of the correlation of scores and labels, from 0 to 1. None where no public
        rows tell it. It ranks candidates.
    labels : float or None
        As how many exact labels randomised ones count.
    coordinates : int or None
        The number of coordinates of a row.
    mechanism : str or None
        The noise that public rows choose.
    tails : float
        How heavy the tails of public columns are (`suffice.owner.advice.heavy_tails`).
    width : int
        The number of coordinates of a row without a map.
    """

    candidate: Candidate
    correlation_left: float | None = None
    labels: float | None = None
    coordinates: int | None = None
    mechanism: str | None = None
    tails: float = 0.0
    width: int = 0

    @property
    def signal_left(self) -> float | None:
        """``correlation_left`` where it is a forecast: for randomised records it only ranks."""
        return None if self.labels is not None else self.correlation_left


def assessed(question: Question, source: Source) -> tuple[TableFacts, list[Assessment]]:
    """Return what is public of a table, and its candidates with their forecasts."""
    with source.running() as opened:
        if question.private == Private.LABELS:
            return _assess_labels(question, opened)
        facts = table_facts(opened)
        return facts, _assess_records(question, facts, opened)


def _assess_labels(question: Question, source: Source) -> tuple[TableFacts, list[Assessment]]:
    """Assess releases of private labels: the feature columns are public, the label is not read."""
    roles, classes = column_roles(source), len(question.declared_classes)
    features = without_label(source.data, roles)
    label = roles.label if features is source.data else None
    computing = {item.name: getattr(source, item.name) for item in fields(Computing)}
    public = PublicSource(features, label=label, features=source.features, **computing)
    rows = MeanOperator(1.0, classes=question.classes, missing="mean").public(public).rows
    assert rows.summary is not None  # noqa: S101  # for the type checker: it was fitted
    balance = check_balance(question.balance, classes)
    labels = effective_labels(rows.summary.rows, question.epsilon, classes, balance)
    assessments, width = [], len(rows.pipeline.outputs) - 1  # without the intercept
    for candidate in candidates(question, width, rows.summary):
        if candidate.estimator is not None:
            assessments.append(Assessment(candidate, labels=labels))
        else:
            mapped = _with_map(rows, rows.summary, candidate.map)
            assessments.append(_operator(candidate, mapped, question, classes))
    tails = heavy_tails(rows.summary)
    assessments = [replace(assessment, tails=tails, width=width) for assessment in assessments]
    return TableFacts(roles, rows.summary.rows), assessments


def _with_map(rows: PublicRows, summary: Summary, feature_map: str | None) -> PublicRows:
    """Return the same public rows under a map; they are not read again."""
    if feature_map is None:
        return rows
    fitted = fit_pipeline(
        summary, rows.roles.features, categories={}, missing="mean", map_spec=feature_map
    )
    return replace(rows, pipeline=fitted)


def _operator(
    candidate: Candidate, rows: PublicRows, question: Question, classes: int
) -> Assessment:
    """Return the forecast of the mechanism that a release would choose."""
    epsilon, delta = question.epsilon, question.delta
    every = Candidates(rows, classes)
    offered = [c for name in mechanisms_at("auto", delta) for c in every.of(name, epsilon, delta)]
    best = choose(offered)
    correlation_left = best.utility.correlation / max(every.without_noise.correlation, 1e-150)
    width = len(rows.pipeline.outputs)
    return Assessment(
        candidate, min(correlation_left, 1.0), coordinates=width, mechanism=best.mechanism
    )


def _assess_records(
    question: Question, facts: TableFacts, computing: Computing
) -> list[Assessment]:
    """Assess releases of private records by the public table; no other one is read."""
    features = facts.roles.features
    if question.public is None:
        return [Assessment(c) for c in candidates(question, len(features), None)]
    public = open_table(question.public)
    roles = resolve_roles(public.schema, features=features)
    summary = public_summary(public, features, frozenset(), computing)
    assessor = _RecordAssessor(question, public, roles, summary, facts.rows)
    width, tails = len(assessor.public_rows(None).pipeline.outputs), heavy_tails(summary)
    offered = candidates(question, width, summary)
    return [replace(assessor.assess(c), tails=tails, width=width) for c in offered]


@dataclass(frozen=True, eq=False)
class _RecordAssessor:
    """Forecasts releases of ``count`` private records by a public table.

    ``summary`` is what a pass over the public table yielded.
    """

    question: Question
    public: Table
    roles: Roles
    summary: Summary
    count: int

    def public_rows(self, feature_map: str | None) -> PublicRows:
        """Return the public rows in the coordinates that moments have under a map."""
        fitted = fit_pipeline(
            self.summary, self.roles.features, categories={}, missing="mean", clip=CLIP,
            intercept=0.0, map_spec=feature_map,
        )  # fmt: skip
        return PublicRows(self.public, self.roles, fitted, self.summary)

    def assess(self, candidate: Candidate) -> Assessment:
        """Return a candidate with its forecast."""
        rows = self.public_rows(candidate.map)
        spectrum = Spectrum(rows.sample()[0], self.count, rows.pipeline.bound)
        question, classes = self.question, len(self.question.declared_classes)
        epsilon, delta, mechanism = question.epsilon, question.delta, candidate.mechanism
        labels = None
        if isinstance(mechanism, Moments):
            correlation_left = spectrum.kept_by_moments(classes, epsilon, delta)
        elif isinstance(mechanism, Rados):
            correlation_left = spectrum.kept_by_rados(epsilon, delta)
        else:
            assert isinstance(mechanism, RandomizedResponse)  # noqa: S101  # for the type checker
            cell = float(mechanism.label_epsilon or 0.0)
            labels = effective_labels(self.count, cell, classes)
            noise = mean(_cell_noise(mechanism, self.summary))
            correlation_left = spectrum.kept_by_responses(cell, classes, noise)
        return Assessment(candidate, min(correlation_left, 1.0), labels, spectrum.width)


def _cell_noise(mechanism: RandomizedResponse, summary: Summary) -> Iterator[float]:
    """Yield the variance of the noise on each column over the variance of the column.

    One of k possible values stays with probability a and becomes each other one with b. A value of
    proportion p is seen with q = b + (a - b) p, and its unbiased estimate has the variance
    q (1 - q) / (a - b)^2.
    """
    for column in mechanism.columns(summary.sample.rows.schema.names):
        if isinstance(column.noise, Added):
            deviation = max(summary.deviation[column.name], 1e-12)
            yield float(column.noise.variance) / deviation**2
            continue
        assert column.states is not None  # noqa: S101  # for the type checker: it has flips
        counts = summary.counts[column.name]
        total = max(sum(counts.values()) - counts.get(None, 0), 1)
        part = np.clip([counts.get(state, 0) / total for state in column.states], 1e-3, 1 - 1e-3)
        flips = 1 - (column.noise.keep or 0.0)
        other = flips / (len(column.states) - 1)
        slope = max(abs(1 - flips - other), 1e-12)
        observed = other + (1 - flips - other) * part
        spread = observed * (1 - observed) / slope**2 / (part * (1 - part))
        yield float(spread.mean() - 1)


# From so many effective labels on, trees on randomised labels beat a linear model of the mean
# operator on most tables that we tried; below, they learn the randomisation.
ENOUGH_LABELS = 2_000
# Ranks and their products help where tails are heavy. Where they are light, ranks hide the gaps
# between clusters. The mean operator of few columns clips few rows, so that ranks, though not their
# products, help it all the same.
_HEAVY = 1.5  # excess kurtosis of half of the columns
_FEW = 50  # coordinates without a map
_RANKS, _PRODUCTS = "ranks", "ranks+polynomial:2"
_LIGHT: Mapping[str, float] = {_RANKS: 0.9, _PRODUCTS: 0.82}  # of the worth where tails are light
_WORTH: Mapping[type[Mechanism[Any]], Mapping[str | None, float]] = {
    MeanOperator: {None: 1.0, _RANKS: 1.03, _PRODUCTS: 1.23},
    Moments: {None: 1.0, _RANKS: 1.03, _PRODUCTS: 1.12},
    Rados: {None: 0.98},
    RandomizedResponse: {None: 0.8},
}


def merit(assessment: Assessment) -> float:
    """Return what candidates are compared by: the part that noise leaves, times a map's worth."""
    candidate = assessment.candidate
    if candidate.estimator is not None:
        enough = assessment.labels is not None and assessment.labels >= ENOUGH_LABELS
        return 2.0 if enough else 0.0
    if assessment.correlation_left is None:  # without public rows: in the order of the list
        return 0.0
    worth = _WORTH[type(candidate.mechanism)][candidate.map]
    if candidate.map is not None and not ranks_help(assessment):
        worth *= _LIGHT[candidate.map]
    return assessment.correlation_left * worth


def ranks_help(assessment: Assessment) -> bool:
    """Say whether public columns are of a sort that ranks helped on other tables."""
    candidate = assessment.candidate
    of_operator = isinstance(candidate.mechanism, MeanOperator) and candidate.map != _PRODUCTS
    return (of_operator and assessment.width <= _FEW) or assessment.tails >= _HEAVY


def ranked(assessments: Sequence[Assessment]) -> list[Assessment]:
    """Return the candidates, the best first; equal ones stay in their order."""
    return sorted(assessments, key=merit, reverse=True)


_LITTLE = 0.5  # of the signal
_MAPS = {
    None: "A feature map would gain less than its noise costs.",
    "ranks": "Ranks among public rows limit outliers, and their noise is no larger.",
    "ranks+polynomial:2": (
        "Products of ranks let a linear model follow curves. There are rows enough for their noise."
    ),
}

_LIGHT_TAILS = (
    "Public columns have light tails. Ranks among public rows help where tails are heavy."
)


def reasons(question: Question, assessments: Sequence[Assessment]) -> tuple[str, ...]:
    """Return why the first candidate is advised, in sentences."""
    best = assessments[0]
    return (
        f"Advised: {best.candidate.name}.",
        *_why(question, assessments),
        *_limits(question, best),
    )


def _why(question: Question, assessments: Sequence[Assessment]) -> Iterator[str]:
    best = assessments[0]
    trees = next((a for a in assessments if a.candidate.estimator is not None), None)
    if trees is not None and trees.labels is not None:
        enough = "enough" if trees is best else "too few"
        yield (
            f"Randomised labels count as {trees.labels:,.0f} exact ones. Trees want about"
            f" {ENOUGH_LABELS:,}, so these are {enough}."
        )
    name = best.candidate.mechanism.name
    maps = {a.candidate.map for a in assessments}
    if best.candidate.estimator is None and name in {"mean-operator", "moments"} and len(maps) > 1:
        light = best.candidate.map is None and not ranks_help(best)
        yield _LIGHT_TAILS if light else _MAPS[best.candidate.map]
    if name == "moments" and question.private == Private.ATTRIBUTES:
        yield "Moments protect whole records, and so each of their values."
    if name == "moments":
        yield (
            "On most tables that we tried, moments taught more than subset sums or randomised"
            " records at the same epsilon."
        )
    if name == "responses" and not question.delta:
        yield "With a delta, for example --delta 1e-6, moments are compared too, and usually win."


def _limits(question: Question, best: Assessment) -> Iterator[str]:
    if best.signal_left is not None:
        yield (
            "Signal left: how much of a model's correlation with the labels the noise leaves, if no"
            " direction of the rows matters more than another. It is no accuracy."
        )
        if best.signal_left < _LITTLE:
            yield "The noise leaves little. Raise --epsilon, leave columns out, or wait for rows."
    if question.private != Private.LABELS and question.public is None:
        yield (
            "Replace LO,HI by ranges that you know beforehand. With public rows (--public FILE)"
            " feature maps are compared as well."
        )


_LEDGER, _RELEASE, _MODEL = "private.ledger", "release.suffice", "model.suffice"


def commands(question: Question, source: Source, candidate: Candidate) -> tuple[str, ...]:
    """Return the commands that set a budget, make the release and learn from it.

    A table that is no file is called TABLE or PUBLIC. The address of a database has no user and no
    password, and a query is called SQL: both are the owner's to fill in.
    """
    dataset = source.label or "data"
    budget = ["ledger", "init", _LEDGER, "--dataset", dataset]
    budget += ["--epsilon", _number(question.epsilon)]
    budget += ["--delta", _number(question.delta)] if question.delta else []
    unit = _unit(question, candidate.mechanism)
    budget += ["--unit", unit] if unit != "label" else []
    release = ["release", candidate.mechanism.name, *_table_words(source.data)]
    release += ["--label", source.label or "LABEL", *_column_words(source)]
    release += [*_settings(candidate.mechanism)]
    release += ["--ledger", _LEDGER, "--dataset", dataset, "-o", _RELEASE]
    fit = ["fit", _RELEASE]
    if question.private == Private.LABELS:
        fit += ["--rows", *_table_words(source.data)]
    fit += ["--estimator", candidate.estimator] if candidate.estimator else []
    return tuple(_line(words) for words in (budget, release, [*fit, "-o", _MODEL]))


def _line(words: Iterable[str]) -> str:
    return " ".join(["suffice", *map(shlex.quote, words)])


def _unit(question: Question, mechanism: Mechanism[Any]) -> str:
    """Return the unit of the budget: what the release protects."""
    if question.private == Private.LABELS:
        return "label"
    by_value = question.private == Private.ATTRIBUTES and isinstance(mechanism, RandomizedResponse)
    return "attribute" if by_value else "record"


def _table_words(data: Any, unnamed: str = "TABLE") -> list[str]:
    """Return a table as a command line takes it; one that is no file is called ``unnamed``."""
    if isinstance(data, str | Path):
        return [str(data)]
    if isinstance(data, TableFile):
        forms = {n: getattr(data, n) for n in ("delimiter", "decimal", "encoding")}
        options = [w for n, v in forms.items() if v is not None for w in (f"--{n}", v)]
        return [str(data.path), *options]
    if isinstance(data, Query):
        order = [word for column in data.order_by for word in ("--order-by", column)]
        return [str(data), "--query", "SQL", *order]
    return [unnamed]


def _column_words(source: Source) -> Iterator[str]:
    for name in source.drop:
        yield from ("--drop", name)
    if source.features is not None:
        yield from ("--features", _listed(source.features))


def _settings(mechanism: Any) -> Iterator[str]:
    """Yield the options that differ from their defaults."""
    if isinstance(mechanism, RandomizedResponse):
        yield from _randomised(mechanism)
        return
    yield from ("--epsilon", _number(mechanism.epsilon))
    if mechanism.delta:
        yield from ("--delta", _number(mechanism.delta))
    standardize = getattr(mechanism, "standardize", None)
    private = hasattr(mechanism, "standardize")
    choices = {
        "--unit": getattr(mechanism, "unit", None),
        "--mechanism": _unless(getattr(mechanism, "mechanism", None), "auto"),
        "--standardize": None if standardize is None else _table_words(standardize, "PUBLIC")[0],
        "--range": "LO,HI" if private and standardize is None else None,
        "--map": mechanism.map,
        "--missing": _unless(mechanism.missing, type(mechanism).missing),
        "--classes": _classes(mechanism.classes),
    }
    for name, value in choices.items():
        if value is not None:
            yield from (name, str(value))


def _randomised(mechanism: RandomizedResponse) -> Iterator[str]:
    """Yield the declarations of randomised records, column by column."""
    yield from ("--epsilon", _number(mechanism.label_epsilon))
    if (classes := _classes(mechanism.classes)) is not None:
        yield from ("--classes", classes)
    declarations: tuple[tuple[str, Any, Callable[[Any], str]], ...] = (
        ("--states", mechanism.states, _listed),
        ("--feature-flip", mechanism.feature_flip, _number),
        ("--range", mechanism.ranges, lambda ends: ",".join(map(_number, ends))),
        ("--feature-noise-variance", mechanism.feature_noise, _number),
    )
    for written, declared, text in declarations:
        if isinstance(declared, Mapping):
            for column, value in declared.items():
                yield from (written, f"{column}={text(value)}")
    yield from ("--noise-type", str(mechanism.kernel))


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value


def _classes(classes: Any) -> str | None:
    return None if tuple(classes) == (0, 1) else _listed(classes)


def _listed(items: Iterable[Any]) -> str:
    """Return items with commas between them; an item with a comma of its own is put in quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(items)
    return line.getvalue()


def _number(value: Any) -> str:
    """Return a number that reads as the same number: 1e-6, and not 1e-06."""
    digits, mark, power = repr(float(value)).removesuffix(".0").partition("e")
    return f"{digits}e{int(power)}" if mark else digits


_UNITS = {
    Private.LABELS: "each label",
    Private.RECORDS: "each record",
    Private.ATTRIBUTES: "each value",
}


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Advice(Plan):
    """Releases that protect what is private, the advised one first; nothing private was read.

    Parameters
    ----------
    assessments : tuple of Assessment
        The candidates with their forecasts, the best first.
    commands : tuple of str
        The commands that set a budget, make the advised release and learn from it.
    """

    assessments: tuple[Assessment, ...]
    commands: tuple[str, ...]

    @property
    def best(self) -> Assessment:
        """The candidate that is advised."""
        return self.assessments[0]

    @property
    def mechanism(self) -> Mechanism[Any]:
        """What makes the advised release: call its ``release``."""
        return self.best.candidate.mechanism


def answer(question: Question, source: Source) -> Advice:
    """Return the advice on a table; its private cells are not read."""
    if source.label is None and source.y is not None:
        raise ParameterError("Name the label column. Advice never takes the labels themselves.")
    facts, assessments = assessed(question, source)
    if not assessments:
        raise ParameterError(
            "Without public rows and without delta there is nothing to compare. Add --delta 1e-6,"
            " or public rows with --public FILE (Python: delta, public)."
        )
    best_first = tuple(ranked(assessments))
    why = reasons(question, best_first)
    to_run = commands(question, source, best_first[0].candidate)
    rows = [
        {
            "place": place,
            "release": a.candidate.mechanism.name,
            "name": a.candidate.name,
            "map": a.candidate.map,
            "estimator": a.candidate.estimator,
            "mechanism": a.mechanism,
            "coordinates": a.coordinates,
            "signal_left": a.signal_left,
            "effective_labels": a.labels,
        }
        for place, a in enumerate(best_first, 1)
    ]
    delta = f", delta = {round_up(question.delta)}" if question.delta else ""
    return Advice(
        title=(
            f"Releases that protect {_UNITS[Private(question.private)]} (epsilon ="
            f" {question.epsilon:g}{delta}) of {facts.rows:,} rows, the best first. Only public"
            " facts were read."
        ),
        columns={
            "": "{place}".format_map,
            "release": "{name}".format_map,
            "forecast": _forecast_words,
        },
        rows=rows,
        facts={
            "private": str(question.private),
            "epsilon": question.epsilon,
            "delta": question.delta,
            "rows": facts.rows,
            "candidates": rows,
            "advice": list(why),
            "commands": list(to_run),
        },
        advice=(*why, *to_run),
        assessments=best_first,
        commands=to_run,
    )


def _forecast_words(row: Mapping[str, Any]) -> str:
    """Return the forecast of a candidate as text."""
    if row["effective_labels"] is not None:
        return f"labels count as {row['effective_labels']:,.0f} exact ones"
    if row["signal_left"] is not None:
        return f"{math.floor(100 * row['signal_left'])} % of the signal left"
    return "unknown without public rows"


def advise(
    X: Any,
    epsilon: float,
    delta: float = 0.0,
    *,
    private: str,
    label: str | None = None,
    public: Any = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    classes: Sequence[Any] = (0, 1),
    balance: float | None = None,
) -> Advice:
    """Return which release to make of a private table, and why, from public facts alone.

    With private labels the feature columns are public; the label is never read. With private
    records or attributes no cell of the table is read, only its columns, their types and the number
    of rows, and the table ``public``. The advice therefore costs no privacy. The forecast assumes
    that no direction of the rows matters more than another: it ranks releases, and is no accuracy.

    Parameters
    ----------
    X : table
        The private table: an array, a data frame or a file.
    epsilon : float
        Epsilon of each label, record or value.
    delta : float
        Delta, for example 1e-6. Without it there is no Gaussian noise, and so no moments.
    private : {"labels", "records", "attributes"}
        What is private: labels alone, whole records, or each single value.
    label : str, optional
        The label column, which is never read.
    public : table, optional
        Public rows with the same columns, for private records and attributes. They must be other
        rows than the private ones.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    drop : sequence of str
        Columns to leave out.
    classes : sequence
        The labels that can occur. Of two, the last is positive.
    balance : float, optional
        The proportion of the positive class that the owner expects. It is never read from labels.

    Returns
    -------
    Advice
        A table of releases, the best first. ``mechanism`` makes the advised one, ``commands`` does
        the same on a command line.

    Raises
    ------
    ParameterError
        If a parameter is outside its domain, or there is nothing to compare.
    TableError
        If the table or the public rows cannot be used.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3))
    >>> advice = suffice.advise(rows, epsilon=1.0, private="labels")
    >>> advice.mechanism.name
    'mean-operator'
    """
    question = Question(
        private=private, epsilon=epsilon, delta=delta, public=public, classes=classes,
        balance=balance,
    )  # fmt: skip
    return answer(question, Source(X, label=label, features=features, drop=tuple(drop)))
