"""What every candidate of `suffice advise` reaches on one split: releases as an owner makes them.

Public rows of private records are the first ones of the split, as in lab/bench/rival_record.py.
A category that they lack counts as the commonest one: an owner who declares categories by public
rows does the same.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from suffice.engines.engine import Computing
from suffice.learner.fit import fit
from suffice.owner.advice import Candidate, Question, answer, candidates
from suffice.owner.labelled import public_summary
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.moments import Moments
from suffice.owner.rados import Rados
from suffice.owner.scaling import SharedRowsWarning
from suffice.owner.source import Source
from suffice.papers.reproduction import Split
from suffice.tables.sources import open_table

__all__ = ["DELTA", "KINDS", "Situation"]

DELTA = 1e-6
KINDS = ("labels", "records", "attributes")
_MOST_ROWS, _MOST_TEST_ROWS, _MOST_PUBLIC = 15_000, 5_000, 2_000
_WIDE, _MOST_WIDE_ROWS = 200, 4_000  # so many columns take long
_SMALL = 5_000  # rows


@dataclass(frozen=True, eq=False)
class Situation:
    """A split as an owner sees it: the table, its labels, and public rows beside them."""

    split: Split

    @classmethod
    def of(cls, data: Split) -> "Situation":
        """Take at most so many rows; their order is random."""
        most = _MOST_WIDE_ROWS if data.rows.num_columns > _WIDE else _MOST_ROWS
        rows, test_rows = data.rows.slice(0, most), data.test_rows.slice(0, _MOST_TEST_ROWS)
        labels, test_labels = data.labels[:most], data.test_labels[:_MOST_TEST_ROWS]
        return cls(Split(rows, labels, test_rows, test_labels))

    @property
    def is_wide(self) -> bool:
        """Whether there are so many columns that a release takes long."""
        return self.split.rows.num_columns > _WIDE

    @property
    def is_small(self) -> bool:
        """Whether there are so few rows that noise varies much from draw to draw."""
        return self.split.rows.num_rows < _SMALL and not self.is_wide

    @cached_property
    def _tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Public, private and test rows, with the categories of the public ones."""
        count = min(_MOST_PUBLIC, len(self.split.labels) // 5)
        rows = self.split.rows
        public = rows.slice(0, count)
        private, test = (_as_in(public, t) for t in (rows.slice(count), self.split.test_rows))
        return _filled(public), private, test

    def table(self, private: str) -> tuple[pa.Table, np.ndarray, pa.Table, pa.Table | None]:
        """Return the owner's table, its labels, the test rows, and public rows if needed."""
        if private == "labels":
            return self.split.rows, self.split.labels, self.split.test_rows, None
        public, own, test = self._tables
        return own, self.split.labels[-len(own) :], test, public

    def question(self, private: str, epsilon: float) -> Question:
        """Return what the owner asks."""
        return Question(
            private=private, epsilon=epsilon, delta=DELTA, public=self.table(private)[3]
        )

    def candidates(self, private: str, epsilon: float) -> list[Candidate]:
        """Return the candidates that advise compares."""
        question = self.question(private, epsilon)
        own, _, _, public = self.table(private)
        rows = open_table(own if public is None else public)
        summary = public_summary(rows, rows.schema.names, frozenset(), Computing())
        columns = MeanOperator(1.0, missing="mean", map=None).public_rows(
            own if public is None else public
        )
        return candidates(question, len(columns.pipeline.outputs) - 1, summary)

    def advised(self, private: str, epsilon: float) -> str:
        """Return the candidate that advise would take; it sees no label."""
        own, _, _, _ = self.table(private)
        return answer(self.question(private, epsilon), Source(own)).best.name

    def probabilities(
        self, private: str, candidate: Candidate, draws: int
    ) -> Iterator[tuple[str, int, np.ndarray]]:
        """Yield the probabilities of class 1 of test rows, draw by draw."""
        own, labels, test, _ = self.table(private)
        mechanism = _with_pipeline(candidate.mechanism, own, labels)
        for draw in range(draws):
            release = mechanism.release(own, labels, ledger=None)
            rows = own if private == "labels" else None
            settings = {"estimator": candidate.estimator} if candidate.estimator else {}
            model = fit(release, rows, **settings)
            yield "", draw, model.predict_proba(test)[:, 1]


def _with_pipeline(mechanism: Any, own: pa.Table, labels: np.ndarray) -> Any:
    """Return the same mechanism with its pipeline fitted once, for all draws."""
    if isinstance(mechanism, MeanOperator):
        fitted = mechanism.public_rows(own).pipeline
        return replace(mechanism, pipeline=fitted, map=None, missing="error")
    if isinstance(mechanism, Moments):
        fitted = mechanism.private_rows(Source(own, labels)).pipeline
        return replace(mechanism, pipeline=fitted, standardize=None, map=None)
    if isinstance(mechanism, Rados):
        fitted = mechanism.private_rows(Source(own)).pipeline
        return replace(mechanism, pipeline=fitted, standardize=None, missing="error")
    return mechanism


def _as_in(public: pa.Table, table: pa.Table) -> pa.Table:
    """Return a table in which categories that public rows lack are the commonest of theirs."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            texts, others = public[field.name].cast("string"), table[field.name].cast("string")
            (commonest,) = pc.mode(texts.dictionary_encode().combine_chunks().indices)
            common = (
                texts.dictionary_encode().combine_chunks().dictionary[commonest["mode"].as_py()]
            )
            present = pc.is_in(others, texts.unique())
            table = table.set_column(i, field.name, pc.if_else(present, others, common))
    return _filled(table)


def _filled(table: pa.Table) -> pa.Table:
    """Return a table without missing numbers: randomised records take none."""
    for i, field in enumerate(table.schema):
        column = table[field.name]
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, column.cast("string"))
        elif column.null_count:
            table = table.set_column(i, field.name, pc.fill_null(column, pc.mean(column)))
    return table


warnings.filterwarnings("ignore", category=SharedRowsWarning)  # rows that are equal by chance
