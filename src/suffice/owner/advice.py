"""Which release to make of a private table: candidates, their forecasts, and commands to run.

Nothing private is read. Of private records and attributes only the names of columns, the number of
rows and a public table are used; of private labels the rows, which are public.

A forecast says what noise leaves of a classifier (`PublicMoments.kept`). What a richer map or
another learner is worth without noise depends on the labels, which nobody may look at: it is a
constant for each release. The merit of a candidate is the product. `lab/bench/advise.py` prints
which tables the constants were chosen on, and how the rule does on others.
"""

import csv
import io
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import cache, cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing
from suffice.engines.summary import Summary, fit_pipeline
from suffice.errors import ParameterError
from suffice.models.trees import ENOUGH_LABELS
from suffice.options import (
    REQUIRED,
    ByColumn,
    Group,
    check_choices,
    data_option,
    option,
    options_of,
    pair,
    privacy_option,
    value_or_by_column,
)
from suffice.owner.forecast import (
    SIGNALS,
    Plan,
    PublicMoments,
    accuracy_at,
    check_balance,
    effective_labels,
)
from suffice.owner.labelled import PublicRows, public_summary
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import (
    RANKS,
    MeanOperator,
    map_worth,
    operator_maps,
    people_reach,
)
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism
from suffice.owner.moments import CLIP, Moments, calibrated_moments
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.owner.scaling import Range, counted_people
from suffice.owner.source import PublicSource, Source, TargetSource
from suffice.plain_text import note
from suffice.privacy.events import check_promise, gaussian_multiplier
from suffice.privacy.guarantee import round_up
from suffice.releases.columns import Added
from suffice.releases.release import Release
from suffice.tables.columns import (
    Classes,
    Roles,
    check_classes,
    is_categorical,
    numeric_column,
    resolve_roles,
)
from suffice.tables.databases import Query
from suffice.tables.files import TableFile
from suffice.tables.pipeline import most_outputs
from suffice.tables.sources import Without, column_names, open_declared, open_table, row_count


class Private(StrEnum):
    """What must not be seen."""

    LABELS = "labels"
    RECORDS = "records"
    ATTRIBUTES = "attributes"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an owner asks. A delta of 0 rules out releases with Gaussian noise."""

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
    ranges: Mapping[str, Range] | Range | ByColumn | None = data_option(
        None,
        "With --target: its range, known beforehand, for example hours=0,100 (repeatable). Without"
        " public rows also those of feature columns.",
        name="--range",
        parse=value_or_by_column(pair, "--range"),
        many=True,
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
class PublicFacts:
    """What is public of a table whatever is private in it, and what candidates are ranked by."""

    rows: int  # the number of its rows
    width: int  # the number of coordinates of a row without a map
    tails: float = 0.0  # how heavy the tails of public columns are (`heavy_tails`)
    with_delta: tuple["Candidate", ...] = ()  # what a delta of 1e-6 offers, where none was given


def _column_roles(source: Source) -> Roles:
    """Return label and features by name. Of a CSV file nothing but the first line is read."""
    schema = pa.schema([(name, pa.string()) for name in column_names(source.data)])
    label, features, person = source.label, source.features, source.person
    return resolve_roles(schema, label=label, features=features, person=person)


def _row_count(data: Any, column: str) -> int:
    """Return the number of rows: as the object, or the metadata of a file, states it.

    The lines of a CSV file are counted, and not looked at.
    """
    if isinstance(data, Without):
        return _row_count(data.data, column)
    if hasattr(data, "__len__") and not isinstance(data, str | Path):
        return len(data)
    return row_count(open_declared(data), column)


def _without_label(data: Any, roles: Roles) -> Any:
    """Return the feature columns of a frame in memory, so that no label is even converted.

    Files are read by columns, and a label is not among them.
    """
    features = list(roles.features)
    if isinstance(data, Without):
        inner = _without_label(data.data, roles)
        return data if inner is data.data else inner
    if isinstance(data, pa.Table):
        return data.select(features)
    if hasattr(data, "__arrow_c_stream__") and {*features} <= {*getattr(data, "columns", ())}:
        return data[features]
    return data


_PRODUCTS = "ranks+polynomial:2"  # a public feature map, of moments
_MOST_PRODUCTS = 300  # coordinates of products: beyond, there are too many for their noise
_KERNEL = "ranks+kernel:50"  # another one
_TREES = "hist-gradient-boosting"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One release that could be made, with its learner and its forecast."""

    name: str  # the release in words, with its map
    mechanism: Mechanism[Any]  # what makes the release
    estimator: str | None = None  # what ``suffice fit --estimator`` is given
    # What noise leaves of the correlation of scores and labels, from 0 to 1. None where no
    # public rows tell it. It ranks candidates.
    correlation_left: float | None = None
    labels: float | None = None  # as how many exact labels randomised ones count
    coordinates: int | None = None  # the number of coordinates of a row
    noise: str | None = None  # the noise that public rows choose
    verdict: str | None = None  # of `Moments.plan`, where a number is predicted

    @property
    def map(self) -> str | None:
        """The public feature map."""
        return getattr(self.mechanism, "map", None)

    @property
    def signal_left(self) -> float | None:
        """``correlation_left`` where it is a forecast: for randomised records it only ranks."""
        return None if self.labels is not None else self.correlation_left


def candidates(
    question: Question, width: int, summary: Summary | None, count: int = 0
) -> list[Candidate]:
    """Return the releases that protect what is private, without their forecasts.

    A guarantee per record also covers each single value. So moments and subset sums, which protect
    records, are candidates for attributes as well. Randomised records protect each value at
    epsilon, or a record of d features and a label at epsilon / (d + 1) for each cell.

    ``width`` is the number of coordinates of a row without a map, ``summary`` what a pass over
    public rows yielded, and ``count`` the number of private records. A map is offered if it can be
    fitted and its noise can be borne.
    """
    promise: dict[str, Any] = {
        "epsilon": question.epsilon, "delta": question.delta, "classes": question.classes,
    }  # fmt: skip
    if question.private == Private.LABELS:
        assert summary is not None  # noqa: S101  # for the type checker: rows are public
        promise["missing"] = "mean" if any(summary.missing.values()) else "error"
        maps = operator_maps(summary, question.epsilon)
        operators = [MeanOperator(**promise, map=name) for name in maps]
        trees = MeanOperator(**{**promise, "delta": 0.0}, mechanism="response", map=None)
        return [
            *(Candidate(_named("mean operator", operator), operator) for operator in operators),
            Candidate("randomised labels, trees", trees, _TREES),
        ]
    offered = []
    most = max(_MOST_PRODUCTS, width)
    maps = [None]
    if summary is not None:
        maps += [name for name in (RANKS, _PRODUCTS) if most_outputs(name, width) <= most]
        # With fewer records times epsilon it lost as often as it gained (lab/bench/rule.py).
        enough = 1_000
        different = len(summary.sample.weights)
        if count * question.epsilon >= enough and different > most_outputs(_KERNEL, width):
            maps.append(_KERNEL)
    promise["standardize"] = question.public
    if question.delta > 0:
        moments = [Moments(**promise, map=name) for name in maps]
        offered += [Candidate(_named("moments", mechanism), mechanism) for mechanism in moments]
        if len(question.declared_classes) == 2:
            rados = Rados(**promise, unit="record")
            offered.append(Candidate("subset sums (rados)", rados))
    if summary is not None:
        offered.append(Candidate("randomised records", _randomised_records(question, summary)))
    return offered


def _named(name: str, mechanism: Any) -> str:
    return name if mechanism.map is None else f"{name}, {mechanism.map}"


_ENDS = (0.05, 0.95)  # quantiles of public numbers: a wider range needs more noise
_DIGITS = 4  # of numbers that a command line shows


def _randomised_records(question: Question, summary: Summary) -> RandomizedResponse:
    """Return randomised response on every cell, declared by public rows alone.

    A number gains Laplace noise of variance 2 (range / epsilon)^2; one of k possible values is
    replaced with probability (k - 1) / (e^epsilon + k - 1). Both are rounded up: to more noise than
    asked for, never less. A record's epsilon is divided among its cells.
    """
    names = summary.sample.rows.schema.names
    cells = len(names) + 1 if question.private == Private.RECORDS else 1
    epsilon = question.epsilon / cells
    states, ranges = {}, {}
    for name in names:
        if name not in summary.counts:
            cells = summary.sample.rows.column(name).cast("float64").drop_null()
            numbers = cells.to_numpy(zero_copy_only=False)
            numbers = numbers[np.isfinite(numbers)]
            low, high = 0.0, 1.0
            if len(numbers):  # a range that holds most of them, in few digits
                low, high = (float(end) for end in np.quantile(numbers, _ENDS))
                if not low < high:
                    low, high = float(numbers.min()), float(numbers.max())
                low, high = _rounded(low, ROUND_FLOOR), _rounded(high, ROUND_CEILING)
            ranges[name] = (low, high) if low < high else (low, low + max(1.0, abs(low)))
            continue
        values = sorted(str(value) for value in summary.counts[name] if value is not None)
        states[name] = values if len(values) > 1 else [*values, f"not {''.join(values)}"]
    flips = {
        name: _rounded((len(values) - 1) / (math.exp(epsilon) + len(values) - 1), ROUND_CEILING)
        for name, values in states.items()
    }
    noise = {
        name: _rounded(2 * ((high - low) / epsilon) ** 2, ROUND_CEILING)
        for name, (low, high) in ranges.items()
    }
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


def _rounded(number: float, way: str) -> float:
    return float(Context(prec=_DIGITS, rounding=way).create_decimal(Decimal(number)))


_NOTHING = 1e-150  # what is divided by, instead of zero
_FAR = 1e6  # a penalty, over the mean variance, that leaves the direction of mu alone


def heavy_tails(summary: Summary) -> float:
    """Return the median excess kurtosis of public columns of numbers: 0 for a normal distribution.

    Columns of one value, or of two, do not count.
    """
    rows = summary.sample.rows
    kurtoses = []
    for name in summary.deviation:
        cells = numeric_column(rows.column(name))
        numbers = cells[np.isfinite(cells)]
        if len(np.unique(numbers)) > 2:
            numbers = numbers / np.abs(numbers).max()  # so that no square overflows
            centred = (numbers - numbers.mean()) / max(numbers.std(), _NOTHING)
            kurtoses.append(float((centred**4).mean()) - 3)
    return float(np.median(kurtoses)) if kurtoses else 0.0


def _label_forecasts(question: Question, source: Source) -> tuple[PublicFacts, list[Candidate]]:
    """Forecast releases of private labels: feature columns are public, the label is not read."""
    roles, classes = _column_roles(source), len(question.declared_classes)
    person = source.person
    ids = () if person is None else (person,)
    features = _without_label(source.data, replace(roles, features=(*roles.features, *ids)))
    label = roles.label if features is source.data else None
    computing = {item.name: getattr(source, item.name) for item in fields(Computing)}
    public = PublicSource(
        features, label=label, features=source.features, person=person, **computing
    )
    price = (question.epsilon, question.delta)
    plain = MeanOperator(*price, classes=question.classes, missing="mean", map=None)
    rows = plain.public(public).rows
    summary = rows.summary
    assert summary is not None  # noqa: S101  # for the type checker: it was fitted
    width = len(rows.pipeline.outputs) - 1  # without the intercept
    balance = check_balance(question.balance, classes)
    most = 1 if person is None else people_reach(rows, person, classes).rows  # of one person
    each = question.epsilon / most
    labels = effective_labels(summary.rows, each, classes, balance)

    def forecast(candidate: Candidate) -> Candidate:
        if candidate.estimator is not None:
            return replace(candidate, labels=labels)
        assert isinstance(candidate.mechanism, MeanOperator)  # noqa: S101  # for the type checker
        mapped = candidate.mechanism.mapped(rows, person)
        return replace(
            candidate,
            correlation_left=mapped.left,
            coordinates=len(mapped.rows.pipeline.outputs),
            noise=mapped.noise,
        )

    def offered(delta: float) -> Iterator[Candidate]:
        return map(forecast, candidates(replace(question, delta=delta), width, summary))

    more = () if question.delta else tuple(offered(_USUAL_DELTA))
    facts = PublicFacts(summary.rows, width, heavy_tails(summary), more)
    return facts, [*offered(question.delta)]


def _target_forecasts(
    question: Question, source: Source, *, table: Any
) -> tuple[PublicFacts, list[Candidate]]:
    """Forecast the release of ``table`` that a number is predicted from, by `Moments.plan`."""
    is_public, roles = question.private == Private.LABELS, _column_roles(source.prepared())
    ids = () if source.person is None else (source.person,)
    shown = replace(roles, features=(*(roles.features if is_public else ()), *ids))
    unseen = source.prepared()
    if not isinstance(table, str | Path | TableFile | Query | np.ndarray):  # not read by columns
        texts: set[str] = set()
        if question.public is not None:
            schema = open_table(question.public).schema
            texts = {name for name in schema.names if is_categorical(schema.field(name).type)}
        hidden = {name: pa.string() if name in texts else pa.float64() for name in roles.features}
        columns = {
            name: pa.nulls(len(table), kind)
            for name, kind in {**hidden, str(source.target): pa.float64()}.items()
            if name not in shown.features
        }
        if shown.features:
            rows = open_table(_without_label(source.prepared().data, shown))
            known = pa.Table.from_batches(rows.batches(shown.features))
            columns |= {name: known[name] for name in shown.features}
        unseen = replace(unseen, data=pa.table(columns), features=roles.features)
        table = _without_label(source.prepared().data, roles)
    moments = Moments(
        question.epsilon,
        question.delta,
        unit="label" if is_public else "record",
        standardize=table if is_public else question.public,
        ranges=question.ranges,
    )
    plan = moments.plan(unseen, [question.epsilon])
    rows, width = plan.facts["rows"], plan.facts["coordinates"]
    candidate = Candidate(
        "moments with a number to predict",
        moments,
        coordinates=width,
        verdict=plan.rows[0]["verdict"],
    )
    return PublicFacts(rows, width), [candidate]


def _record_forecasts(question: Question, source: Source) -> tuple[PublicFacts, list[Candidate]]:
    """Forecast releases of private records by the public table; no other one is read."""
    roles = _column_roles(source)
    features = roles.features
    people = None
    if source.person is not None:
        people = counted_people(open_declared(source.data), source)
    count = 0 if people is None else len(people.people)
    count = count or _row_count(source.data, roles.label or features[0])
    if question.public is None:
        width = len(features)
        return PublicFacts(count, width), candidates(question, width, None)
    public = open_table(question.public)
    public_roles = resolve_roles(public.schema, features=features)
    summary = public_summary(public, features, frozenset(), source)

    @cache
    def public_moments(feature_map: str | None) -> tuple[PublicMoments, float]:
        """Return the public rows in the coordinates of `Moments` under a map, and their bound."""
        fitted = fit_pipeline(
            summary, features, categories={}, missing="mean", clip=CLIP, intercept=0.0,
            map_spec=feature_map,
        )  # fmt: skip
        rows, _ = PublicRows(public, public_roles, fitted, summary).sample()
        return PublicMoments.of(rows - rows.mean(axis=0), count, 2), fitted.bound

    def forecast(candidate: Candidate) -> Candidate:
        moments, bound = public_moments(candidate.map)
        labels, mechanism = None, candidate.mechanism
        if isinstance(mechanism, RandomizedResponse):
            cell = float(mechanism.label_epsilon or 0.0)
            labels = effective_labels(count, cell, len(question.declared_classes))
            kept = _kept_by_responses(moments, labels, mean(_cell_noise(mechanism, summary)))
        else:
            kept = _kept_by_sums(moments, bound, mechanism)
        return replace(
            candidate,
            correlation_left=min(kept, 1.0),
            labels=labels,
            coordinates=len(moments.values),
        )

    width = len(public_moments(None)[0].values)
    offered = [forecast(candidate) for candidate in candidates(question, width, summary, count)]
    return PublicFacts(count, width, heavy_tails(summary)), offered


def _kept_by_sums(moments: PublicMoments, bound: float, mechanism: Any) -> float:
    """Return what the noise of moments or of rados leaves, no row being longer than ``bound``.

    Moments have noise on mu, and noise on squares, which is a penalty on all directions. The noise
    of rados hides all of them but their mean, (m/2) mu, on which it is sqrt(2) z times the longest
    row, z the multiplier of (epsilon, delta).
    """
    width, count = len(moments.values), moments.count
    if isinstance(mechanism, Rados):
        assert mechanism.epsilon is not None  # noqa: S101  # for the type checker: it is asked for
        z = gaussian_multiplier(mechanism.epsilon, mechanism.delta)
        deviation = 2 * math.sqrt(2) * z / count
        return moments.kept((deviation * bound) ** 2, _FAR * moments.mean_variance)
    classes = len(mechanism.classes)
    noise = calibrated_moments(width, classes, count, mechanism.epsilon, mechanism.delta)
    on_mu, on_squares = (noise.blocks[name].deviation / count for name in ("operator", "diagonal"))
    return moments.kept((on_mu * bound) ** 2, math.sqrt(width / 2) * on_squares * bound**2)


def _kept_by_responses(moments: PublicMoments, labels: float, cell_noise: float) -> float:
    """Return what randomised records leave, their labels counting as ``labels`` exact ones.

    ``cell_noise`` is the mean variance of the noise on a cell over that of the cell. A product of
    two cells then has 1 + cell_noise times its variance.
    """
    size = (1 + cell_noise) * moments.mean_variance
    floor = math.sqrt(len(moments.values) / 2 / moments.count) * size
    return moments.kept(size / max(labels, _NOTHING), floor)


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


# Of moments, ranks and their products help where tails are heavy. Where they are light, ranks hide
# the gaps between clusters. Kernel components help on both, as they do a mean operator.
_HEAVY = 1.5  # excess kurtosis of half of the columns
_LIGHT: Mapping[str, float] = {RANKS: 0.9, _PRODUCTS: 0.82}  # of the worth where tails are light
_WORTH: Mapping[type[Mechanism[Any]], Mapping[str | None, float]] = {
    Moments: {None: 1.0, RANKS: 1.03, _PRODUCTS: 1.12, _KERNEL: map_worth(_KERNEL)},
    Rados: {None: 0.98},
    RandomizedResponse: {None: 0.8},
}


def _merit(candidate: Candidate, facts: PublicFacts) -> float:
    """Return what candidates are compared by: the part that noise leaves, times a map's worth.

    Of private labels, trees come first where randomised labels are enough for them.
    """
    if candidate.estimator is not None:
        enough = candidate.labels is not None and candidate.labels >= ENOUGH_LABELS
        return 2.0 if enough else -1.0
    if candidate.correlation_left is None:  # without public rows: in the order of the list
        return 0.0
    if isinstance(candidate.mechanism, MeanOperator):
        return candidate.correlation_left * map_worth(candidate.map)
    worth = _WORTH[type(candidate.mechanism)][candidate.map]
    if candidate.map is not None and facts.tails < _HEAVY:
        worth *= _LIGHT.get(candidate.map, 1.0)
    return candidate.correlation_left * worth


def _accuracy(candidate: Candidate, facts: PublicFacts) -> float | None:
    """Return the predicted accuracy between two equal classes, where there is a forecast.

    Features are taken to explain a usual part of the labels' variance.
    """
    if candidate.signal_left is None:
        return None
    return accuracy_at(_merit(candidate, facts) * math.sqrt(SIGNALS["usual"]))


_USUAL_DELTA = 1e-6


def _alternatives(facts: PublicFacts, offered: Sequence[Candidate]) -> dict[str, float]:
    """Return predicted accuracies: as advised, with a delta where it buys a point, and linear.

    ``linear`` is that of the same release without a feature map, if the advised one has a map.
    """
    best = offered[0]
    advised = _accuracy(best, facts)
    if advised is None or not isinstance(best.mechanism, MeanOperator):
        return {}
    predicted = {"advised": advised}
    if facts.with_delta:
        others = (_accuracy(candidate, facts) for candidate in facts.with_delta)
        most = max(accuracy for accuracy in others if accuracy is not None)
        predicted |= {"with_delta": most} if most >= advised + 0.01 else {}
    plain = next(one for one in offered if one.map is None and one.estimator is None)
    linear = _accuracy(plain, facts)
    return predicted if linear is None or best is plain else {**predicted, "linear": linear}


_LITTLE = 0.5  # of the signal
_WHY_MAP = {
    None: "A feature map would gain less than its noise costs.",
    RANKS: "Ranks among public rows limit outliers, and their noise is no larger.",
    _PRODUCTS: (
        "Products of ranks let a linear model follow curves. There are rows enough for their noise."
    ),
    _KERNEL: (
        "Smooth functions of ranks let a linear model follow curves. There are rows enough for"
        " their noise."
    ),
}


def _reasons(question: Question, facts: PublicFacts, offered: Sequence[Candidate]) -> Iterator[str]:
    """Yield why the first candidate is advised, and what its forecast does not say."""
    best, name = offered[0], offered[0].mechanism.name
    yield f"Advised: {best.name}."
    if best.verdict is not None:
        private = "Rows are private as a whole."
        if question.private == Private.LABELS:
            private = "Only the number to predict is private; rows are public."
        yield f"It holds what a regression table with intervals needs. {private}"
        yield f"{_VERDICTS[best.verdict]} suffice plan moments shows more."
        return
    trees = next((candidate for candidate in offered if candidate.estimator is not None), None)
    if trees is not None and trees.labels is not None:
        enough = "enough" if trees is best else "too few"
        yield (
            f"Randomised labels count as {trees.labels:,.0f} exact ones. Trees want about"
            f" {ENOUGH_LABELS:,}, so these are {enough}."
        )
    if best.map == RANKS and name == "mean-operator":
        yield _WHY_MAP[RANKS]
    elif best.map is not None and name == "mean-operator":
        yield (
            "Smooth functions of ranks let a linear model follow curves. Its coefficients are of"
            " these functions."
        )
    predicted = _alternatives(facts, offered)
    if "linear" in predicted:
        points = round(100 * (predicted["advised"] - predicted["linear"]))
        price = "at most one point" if points < 2 else f"about {points} points"
        yield (
            "For coefficients of your own columns use --map none (Python: map=None). By its"
            f" forecast that costs {price} of accuracy."
        )
    elif name == "moments" and question.public is not None:
        if best.map is None and facts.tails < _HEAVY:
            yield (
                "Public columns have light tails. Ranks among public rows help where tails are"
                " heavy."
            )
        else:
            yield _WHY_MAP[best.map]
    if name == "moments":
        if question.private == Private.ATTRIBUTES:
            yield "Moments protect whole records, and so each of their values."
        yield (
            "On most tables that we tried, moments taught more than subset sums or randomised"
            " records at the same epsilon."
        )
    if name == "responses" and not question.delta:
        yield "With a delta, for example --delta 1e-6, moments are compared too, and usually win."
    if "with_delta" in predicted:
        yield (
            f"With --delta {_text(_USUAL_DELTA)} the predicted accuracy is"
            f" {predicted['with_delta']:.3f} instead of {predicted['advised']:.3f}."
        )
    if len(predicted) > 1:
        yield (
            "The forecast of accuracy is for two equal classes, and features that explain"
            f" {100 * SIGNALS['usual']:.0f} % of the labels' variance."
        )
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
    if question.declared_classes == Question.classes:  # nobody listed others
        yield (
            "The labels are taken to be 0 and 1: no label was read. If others can occur, list all"
            " with --classes (Python: classes=...)."
        )


_VERDICTS = {  # of `Moments.plan`
    "fine": "The noise is small.",
    "noisy": "The noise is not small, but leaves how columns vary together.",
    "means only": "The noise hides how columns vary together, and leaves means.",
    "too noisy": "The noise is larger than what is released. Raise --epsilon.",
}

_LEDGER, _RELEASE, _MODEL = "private.ledger", "release.suffice", "model.suffice"
_ROWS = "unlabelled.csv"  # what a learner has of a table whose labels are private


def _commands(question: Question, source: Source, candidate: Candidate) -> tuple[str, ...]:
    """Return the commands that set a budget, make the release and learn from it.

    A table that is no file is called TABLE or PUBLIC. The address of a database has no user and no
    password, and a query is called SQL: both are the owner's to fill in.
    """
    dataset, unit = source.label or source.target or "data", "label"
    if question.private != Private.LABELS:  # what the release protects
        by_value = isinstance(candidate.mechanism, RandomizedResponse)
        by_value = by_value and question.private == Private.ATTRIBUTES
        unit = "attribute" if by_value else "record"
    if source.person is not None:
        unit = "person-labels" if unit == "label" else "person"
    budget = ["ledger", "init", _LEDGER, "--dataset", dataset]
    budget += ["--epsilon", _text(question.epsilon)]
    budget += ["--delta", _text(question.delta)] if question.delta else []
    budget += ["--unit", unit] if unit != "label" else []
    release = ["release", candidate.mechanism.name, *_table_words(source.data)]
    target = source.target
    release += ["--label", source.label or "LABEL"] if target is None else ["--target", target]
    release += [] if source.person is None else ["--person", source.person]
    release += [word for name in source.drop for word in ("--drop", name)]
    release += [] if source.features is None else ["--features", _text(source.features)]
    release += [*_settings(candidate.mechanism, predicts=target is not None)]
    release += ["--ledger", _LEDGER, "--dataset", dataset, "-o", _RELEASE]
    fit = ["fit", _RELEASE]
    if question.private == Private.LABELS and target is None:
        fit += ["--rows", _ROWS]
    fit += ["--estimator", candidate.estimator] if candidate.estimator else []
    commands = [budget, release, [*fit, "-o", _MODEL]]
    commands += [] if target is None else [["inspect", _MODEL, "--explain"]]
    return tuple(" ".join(["suffice", *map(shlex.quote, words)]) for words in commands)


def _table_words(data: Any, unnamed: str = "TABLE") -> list[str]:
    """Return a table as a command line takes it; one that is no file is called ``unnamed``."""
    if isinstance(data, str | Path):
        return [str(data)]
    if isinstance(data, TableFile):
        forms = {n: getattr(data, n) for n in ("delimiter", "decimal", "encoding")}
        options = [w for n, v in forms.items() if v is not None for w in ("--read", f"{n}={v}")]
        return [str(data.path), *options]
    if isinstance(data, Query):
        order = [w for column in data.order_by for w in ("--read", f"order-by={column}")]
        return [str(data), "--read", "query=SQL", *order]
    return [unnamed]


def _settings(mechanism: Any, *, predicts: bool) -> Iterator[str]:
    """Yield the classes, unless a number is predicted, and what differs from its default.

    What is promised comes first.
    """
    kind = type(mechanism)
    options = options_of(kind)
    for field in sorted(options, key=lambda name: options[name].group != Group.PRIVACY):
        value, default = getattr(mechanism, field), getattr(kind, field, None)
        if field == "standardize" and value is not None:
            rows_are_public = getattr(mechanism, "unit", None) == "label"
            value = _table_words(value, "TABLE" if rows_are_public else "PUBLIC")[0]
        elif isinstance(value, list):
            value = tuple(value)
        if value is None and default is not None:
            yield from (options[field].name, "none")
        if value is None or (value == default and (predicts or field != "classes")):
            continue
        if isinstance(value, ByColumn):
            others = {} if value.others is None else {"": value.others}
            value = {**value.named, **others}
        texts = [_text(value)]
        if isinstance(value, Mapping):
            texts = [f"{column}={_text(item)}".removeprefix("=") for column, item in value.items()]
        for text in texts:
            yield from (options[field].name, text)
    if getattr(mechanism, "standardize", kind) is None and not predicts:
        yield from ("--range", "LO,HI")


def _text(value: Any) -> str:
    """Return a value as a command line takes it: 1e-6, not 1e-06, and items with commas between.

    An item with a comma of its own is put in quotes.
    """
    if isinstance(value, float):
        digits, mark, power = repr(float(value)).removesuffix(".0").partition("e")
        return f"{digits}e{int(power)}" if mark else digits
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(map(_text, value))
    return line.getvalue()


_UNITS = {  # without ids, and with them
    Private.LABELS: ("each label", "all labels of each person"),
    Private.RECORDS: ("each record", "each person"),
    Private.ATTRIBUTES: ("each value", "each person"),
}


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Advice(Plan):
    """Releases that protect what is private, the advised one first; nothing private was read."""

    candidates: tuple[Candidate, ...]  # the releases with their forecasts, the best first
    # The commands that set a budget, make the advised release and learn from it.
    commands: tuple[str, ...]

    @property
    def best(self) -> Candidate:
        """The candidate that is advised."""
        return self.candidates[0]

    @property
    def mechanism(self) -> Mechanism[Any]:
        """What makes the advised release: call its ``release``."""
        return self.best.mechanism

    def taken(self) -> Mechanism[Any]:
        """Return the mechanism, and say why; raise if public facts do not speak for any release."""
        left, verdict = self.best.signal_left, self.best.verdict
        if verdict == "too noisy":
            raise ParameterError(
                "Do not release this: noise would be larger than what is released."
                " Nothing was charged. Raise --epsilon, leave columns out, or wait for rows."
            )
        if left is None and verdict is None and self.best.estimator is None:
            raise ParameterError(
                "No public rows tell which release is good. Pass public rows with --public FILE"
                " (Python: public=...), or make one of the releases that advise lists by its own"
                " name."
            )
        # Where features explain as much of the labels as usual, less than a point would be gained.
        if left is not None and accuracy_at(left * math.sqrt(SIGNALS["usual"])) < 0.51:
            raise ParameterError(
                f"Do not release this: of what a model could learn, noise would leave"
                f" {math.floor(100 * left)} %. Nothing was charged. Raise --epsilon, add --delta"
                " 1e-6, leave columns out, or wait for rows."
            )
        if verdict is not None:
            return self.mechanism
        note(
            f"Released by the rule of advise: {self.best.name}. By public facts it is the best of"
            f" {len(self.candidates)} candidates: {_forecast_words(self.rows[0])}."
        )
        return self.mechanism


def answer(question: Question, source: Source) -> Advice:
    """Return the advice on a table; its private cells are not read."""
    if source.label is None and source.y is not None:
        raise ParameterError("Name the label column. Advice never takes the labels themselves.")
    if (source.target is None) != (question.ranges is None):
        raise ParameterError(
            "A number to predict needs both its column and its range: --target hours --range"
            " hours=0,100 (Python: target, ranges)."
        )
    forecasts = _label_forecasts if question.private == Private.LABELS else _record_forecasts
    if source.target is not None:
        if not question.delta > 0:
            raise ParameterError("Moments need a delta. Add --delta 1e-6 (Python: delta).")
        forecasts = partial(_target_forecasts, table=source.data)
    with source.running() as opened:
        facts, offered = forecasts(question, opened)
    if source.person is not None:
        offered = [one for one in offered if one.mechanism.protects_people]
    if not offered:
        raise ParameterError(
            "Without public rows and without delta there is nothing to compare. Add --delta 1e-6,"
            " or public rows with --public FILE (Python: delta, public)."
        )
    offered.sort(key=lambda candidate: _merit(candidate, facts), reverse=True)  # equal ones stay
    why = [*_reasons(question, facts, offered)]
    commands = _commands(question, source, offered[0])
    if any(_ROWS in command for command in commands):
        why.append(f"{_ROWS} stands for the table without its label column: learners have no more.")
    rows = [
        {
            "place": place,
            "release": candidate.mechanism.name,
            "name": candidate.name,
            "map": candidate.map,
            "estimator": candidate.estimator,
            "mechanism": candidate.noise,
            "coordinates": candidate.coordinates,
            "signal_left": candidate.signal_left,
            "effective_labels": candidate.labels,
            "verdict": candidate.verdict,
        }
        for place, candidate in enumerate(offered, 1)
    ]
    delta = f", delta = {round_up(question.delta)}" if question.delta else ""
    person, are_rows = source.person is not None, question.private == Private.LABELS
    who = _UNITS[Private(question.private)][person]
    counted = "rows" if are_rows or not person else "people, whose ids were counted"
    return Advice(
        title=(
            f"Releases that protect {who} (epsilon = {question.epsilon:g}{delta}) of"
            f" {facts.rows:,} {counted}, the best first. Only public facts were read."
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
            "classes": [*question.declared_classes],
            "rows": facts.rows,
            "candidates": rows,
            "predicted_accuracy": _alternatives(facts, offered),
            "advice": why,
            "commands": [*commands],
        },
        advice=(*why, *commands),
        candidates=tuple(offered),
        commands=commands,
    )


def _forecast_words(row: Mapping[str, Any]) -> str:
    """Return the forecast of a candidate as text."""
    if row["verdict"] is not None:
        return f"{row['verdict']}, with {row['coordinates']:,} coordinates"
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
    person: str | None = None,
    classes: Sequence[Any] = (0, 1),
    balance: float | None = None,
    target: str | None = None,
    ranges: Any = None,
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
    person : str, optional
        The column of ids: each person is protected, with all labels or all rows.
    classes : sequence
        The labels that can occur. Of two, the last is positive.
    balance : float, optional
        The proportion of the positive class that the owner expects. It is never read from labels.
    target : str, optional
        The column of a number to predict, in place of a label.
    ranges : mapping, optional
        With a target: its range, and without public rows those of the features.

    Returns
    -------
    Advice
        A table of releases, the best first. ``mechanism`` makes the advised one, ``commands`` does
        the same on a command line. Of a mean operator, ``to_json()["predicted_accuracy"]`` compares
        the ``advised`` release with one without a map (``linear``), and with one at delta 1e-6
        (``with_delta``) where that buys a point.

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
        balance=balance, ranges=ranges,
    )  # fmt: skip
    source = TargetSource(
        X, label=label, target=target, features=features, drop=tuple(drop), person=person
    )
    return answer(question, source)


def release(
    X: Any,
    y: Any = None,
    *,
    private: str,
    epsilon: float,
    delta: float = 0.0,
    ledger: Ledger | None,
    dataset: str | None = None,
    request: str | None = None,
    label: str | None = None,
    public: Any = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    person: str | None = None,
    classes: Sequence[Any] = (0, 1),
    target: str | None = None,
    ranges: Any = None,
) -> Release:
    """Make the release that `advise` picks: it protects each label, or each record.

    What is released, its feature map and its noise are chosen from public facts alone. A note
    (`suffice.plain_text`) says what was taken and why. The release states its guarantee, and
    `suffice.learner.fit.fit` knows which learner takes it.

    Parameters
    ----------
    X, y : table and labels
        The private table, and its labels unless ``label`` names their column.
    private : {"labels", "records"}
        What is private: the labels of public rows, or whole records.
    epsilon, delta : float
        Epsilon and delta of each label or record. Without delta there is no Gaussian noise.
    ledger : Ledger or None
        The ledger that is charged; None for none.
    dataset, request : str, optional
        The data set's name in the ledger, and the name of the request.
    label, public, features, drop, person, classes, target, ranges
        As of `advise`.

    Returns
    -------
    Release
        The advised release.

    Raises
    ------
    ParameterError
        If a parameter is outside its domain, or there is nothing to compare.
    BudgetError
        If the budget does not suffice. Nothing is drawn then.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> made = suffice.release(X, labels, private="labels", epsilon=1.0, ledger=None)
    >>> made.kind, made.pipeline.map.kind
    ('mean-operator', 'ranks+kernel')
    """
    advice = advise(
        X, epsilon, delta, private=private, label=label, public=public, features=features,
        drop=drop, person=person, classes=classes, target=target, ranges=ranges,
    )  # fmt: skip
    return advice.taken().release(
        X, y, label=label, target=target, features=features, drop=tuple(drop), person=person,
        ledger=ledger, dataset=dataset, request=request,
    )  # fmt: skip
