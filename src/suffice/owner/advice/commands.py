"""A release as commands: a ledger, the release itself, and what the learner does with it."""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from suffice.owner.advice.candidates import Candidate
from suffice.owner.advice.question import Private, Question
from suffice.owner.mechanism import Mechanism
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.owner.source import Source
from suffice.tables.databases import Query
from suffice.tables.files import TableFile

__all__ = ["commands"]

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
    for option, declared, text in declarations:
        if isinstance(declared, Mapping):
            for column, value in declared.items():
                yield from (option, f"{column}={text(value)}")
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
