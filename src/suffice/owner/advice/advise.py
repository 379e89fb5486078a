"""Advice on which release to make: a table of candidates, the best first, and its commands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suffice.errors import ParameterError
from suffice.owner.advice.assessing import Assessment, assessed
from suffice.owner.advice.commands import commands
from suffice.owner.advice.facts import TableFacts
from suffice.owner.advice.question import Private, Question
from suffice.owner.advice.reasons import forecast_words, reasons
from suffice.owner.advice.rule import ranked
from suffice.owner.mechanism import Mechanism
from suffice.owner.plans import Plan
from suffice.owner.source import Source
from suffice.privacy.words import round_up

__all__ = ["Advice", "advise", "answer"]

_UNITS = {
    Private.LABELS: "each label",
    Private.RECORDS: "each record",
    Private.ATTRIBUTES: "each value",
}


@dataclass(frozen=True, repr=False, eq=False)
class Advice(Plan):
    """Releases that protect what is private, the advised one first; nothing private was read.

    Parameters
    ----------
    question : Question
        What was asked.
    facts : TableFacts
        The columns and the number of rows of the table.
    assessments : tuple of Assessment
        The candidates with their forecasts, the best first.
    commands : tuple of str
        The commands that set a budget, make the advised release and learn from it.
    """

    question: Question
    facts: TableFacts
    assessments: tuple[Assessment, ...]
    commands: tuple[str, ...]

    columns = ("", "release", "forecast")

    @property
    def best(self) -> Assessment:
        """The candidate that is advised."""
        return self.assessments[0]

    @property
    def mechanism(self) -> Mechanism[Any]:
        """What makes the advised release: call its ``release``."""
        return self.best.candidate.mechanism

    @property
    def title(self) -> str:
        """What the table shows."""
        protected = _UNITS[Private(self.question.private)]
        delta = f", delta = {round_up(self.question.delta)}" if self.question.delta else ""
        return (
            f"Releases that protect {protected} (epsilon = {self.question.epsilon:g}{delta}) of"
            f" {self.facts.rows:,} rows, the best first. Only public facts were read."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do, why, and the commands."""
        return (*reasons(self.question, self.assessments), *self.commands)

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text."""
        return [
            (str(place), a.candidate.name, forecast_words(a))
            for place, a in enumerate(self.assessments, 1)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain JSON values."""
        question = self.question
        return {
            "private": str(question.private),
            "epsilon": question.epsilon,
            "delta": question.delta,
            "rows": self.facts.rows,
            "candidates": [
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
                for place, a in enumerate(self.assessments, 1)
            ],
            "advice": list(reasons(question, self.assessments)),
            "commands": list(self.commands),
        }


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
    best = best_first[0].candidate
    return Advice(question, facts, best_first, commands(question, source, best))


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
