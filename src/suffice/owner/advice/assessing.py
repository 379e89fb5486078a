"""Every candidate with its forecast, from the schema, the number of rows and public rows alone."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from statistics import mean

import numpy as np

from suffice.engines.fitting import fit_pipeline
from suffice.engines.opening import Computing
from suffice.engines.summary import Summary
from suffice.owner.advice.candidates import Candidate, candidates
from suffice.owner.advice.facts import TableFacts, column_roles, table_facts, without_label
from suffice.owner.advice.forecast import Spectrum, effective_labels, heavy_tails
from suffice.owner.advice.question import Private, Question
from suffice.owner.moments.mechanism import CLIP, Moments
from suffice.owner.operator.candidates import Candidates, choose, mechanisms_at
from suffice.owner.operator.forecast import check_balance
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.public_rows import PublicRows, public_summary
from suffice.owner.rados.mechanism import Rados
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.owner.source import PublicSource, Source
from suffice.release.spread import Added
from suffice.tables.columns import Roles, resolve_roles
from suffice.tables.sources import open_table
from suffice.tables.table import Table

__all__ = ["Assessment", "assessed"]


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
        How heavy the tails of public columns are (`suffice.owner.advice.forecast.heavy_tails`).
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
            return _of_labels(question, opened)
        facts = table_facts(opened)
        return facts, _of_records(question, facts, opened)


def _of_labels(question: Question, source: Source) -> tuple[TableFacts, list[Assessment]]:
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


def _of_records(question: Question, facts: TableFacts, computing: Computing) -> list[Assessment]:
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
