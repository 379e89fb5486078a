"""Surveys as files: questions go out, randomised answers come back, and become a release.

Whoever runs a survey never holds a true answer: noise is added by `suffice.participant`, on each
participant's own machine. What is here writes the questions and gathers the answers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suffice import participant, strict_json
from suffice.errors import CorruptFileError, ParameterError, ReleaseError
from suffice.owner.publish import Payment, PrivateIdentity, publish
from suffice.owner.responses.channels import channel_of, response_of
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.owner.responses.records import DeclaredRecords
from suffice.participant import MOST_BYTES, Survey
from suffice.privacy.calibrate import check_delta
from suffice.privacy.guarantee import Assumption
from suffice.privacy.response import Response
from suffice.release.artifact import Release
from suffice.release.files import read_bounded
from suffice.release.spread import Flips, SpreadColumn

__all__ = ["collect", "load_survey", "new_survey"]

_SHOWN = 10  # of many files that cannot be used


def new_survey(
    title: str,
    *,
    states: Mapping[str, Sequence[Any]],
    ranges: Mapping[str, tuple[float, float]] | None = None,
    flip: float | Mapping[str, Any] | None = None,
    epsilon: float | Mapping[str, float] | None = None,
    noise: float | Mapping[str, float] | None = None,
    kernel: str = "laplace",
    texts: Mapping[str, str] | None = None,
    label: str | None = None,
    delta: float = 1e-6,
) -> Survey:
    """Return a survey whose answers are protected by the participants themselves.

    Questions are named: ``states`` (name -> the answers that can be given) and ``ranges`` (name ->
    low, high); ``texts`` says in words what is asked, and in which order. An answer becomes another
    one with the chance ``flip`` (a number, P, or name -> either), or at the cost ``epsilon``; a
    number gains noise of variance ``noise`` and this ``kernel``. What one answer and what a whole
    sheet costs is part of the survey, in words. ``label`` is the question that a learner predicts
    from the others, by default the first with states. ``delta``: where Gaussian noise is read.
    """
    check_delta(delta)
    known = {**states, **(ranges or {})}
    names = [*(texts or {}), *(name for name in known if name not in (texts or {}))]
    if not states:
        raise ParameterError("one question at least must have states.")
    for name in texts or {}:
        if name not in known:
            raise ParameterError(
                f"no question is named {name!r}, which has a text (texts, --text): give it states"
                " or a range, or leave its text out."
            )
    if isinstance(noise, Mapping | None) and not (noise or {}).keys() >= (ranges or {}).keys():
        raise ParameterError("every question for a number needs noise (noise, --noise-variance).")
    for given in (flip, epsilon):
        if isinstance(given, Mapping) and not given.keys() <= states.keys():
            unknown = sorted(given.keys() - states.keys())
            raise ParameterError(f"no question with states is named {unknown[0]!r}.")
    declared = RandomizedResponse(
        states=states,
        ranges=ranges or {},
        feature_flip={name: _chance(name, states[name], flip, epsilon) for name in states},
        feature_noise=noise,
        kernel=kernel,
    )
    asked = []
    for column in declared.columns(names):
        question = {"text": (texts or {}).get(column.name, ""), **column.to_json()}
        if column.states is not None:  # a participant reads a list, also of a run of integers
            question.pop("integers", None)
            question["states"] = list(column.states)
        asked.append(question)
    first = next(name for name in names if name in states)
    try:
        return participant.make_survey(title, asked, label or first, delta)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _chance(name: str, states: Sequence[Any], flip: Any, epsilon: Any) -> Any:
    """Return the chance of another answer, or P."""
    chance = flip.get(name) if isinstance(flip, Mapping) else flip
    cost = epsilon.get(name) if isinstance(epsilon, Mapping) else epsilon
    if (chance is None) == (cost is None):
        raise ParameterError(f"question {name!r}: give its noise once, as flip or as epsilon.")
    count = len(states)
    if cost is None:
        if isinstance(chance, int | float) and not 0 < chance < 1 - 1 / count:
            raise ParameterError(
                f"question {name!r}: flip must lie above 0 and below {1 - 1 / count:.4g}, where"
                f" all {count} answers would be equally likely."
            )
        return chance
    weight = Response.from_epsilon(count, cost).weights[0][1]
    chance = (count - 1) * weight / 2**64
    while not _costs_at_most(count, chance, cost):  # keep is a float: it may round the wrong way
        chance += 2.0**-53
    return chance


def _costs_at_most(count: int, chance: float, epsilon: float) -> bool:
    try:
        return response_of(Flips(count, keep=1 - chance)).event.bound <= epsilon
    except ParameterError:
        if 1 - chance < 1:
            raise
        return False  # no float lies between this chance and none


def load_survey(source: str | Path | bytes) -> Survey:
    """Return the survey in a file, if its words are what its numbers mean."""
    data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
    try:
        return participant.read_survey(data)
    except ValueError as error:
        raise CorruptFileError(str(error)) from None


def collect(survey: Survey, answers: Sequence[str | Path]) -> Release:
    """Return the answers of a survey as randomised records, protected as participants did.

    Every file must answer this survey, question by question, and no participant may answer twice;
    what cannot be used is named, and then nothing is released. Rows are sorted by the participants'
    random tokens, which are left out: the order says nothing, and the same files make the same
    release.

    No ledger pays: the noise was drawn by the participants before anything left them, this release
    is a function of what they sent, and publishing it, even twice, tells no more than they told the
    collector. What an answer costs was said to them, and their memory keeps count.
    """
    declared, classes = _declared(survey)
    rows = _gathered(survey, answers)
    promises = tuple(
        replace(promise, assumptions=(*promise.assumptions, _own_side(survey)))
        for promise in declared.guarantees(survey.content["delta"])
    )
    return publish(
        lambda: declared.release(_arrays(survey, rows), classes, promises),
        promises,
        Payment(None),  # see above
        parameters={"kind": "responses", "survey": survey.id},
        identity=PrivateIdentity(),
    )


def _own_side(survey: Survey) -> Assumption:
    return Assumption(
        f"participants randomised their own answers as survey {survey.id[:23]} asks, once each",
        "answers were checked for their form and for tokens that occur twice",
    )


def _declared(survey: Survey) -> tuple[DeclaredRecords, tuple[Any, ...]]:
    """Return what the survey declares about its records, and the answers to its label."""
    columns = {}
    for question in survey.content["questions"]:
        column = {key: v for key, v in question.items() if key not in {"text", "guarantee"}}
        columns[question["name"]] = SpreadColumn.from_json(column)
    label = columns.pop(survey.content["label"])
    assert isinstance(label.noise, Flips)  # noqa: S101  # for the type checker
    channels = {column.noise: channel_of(column.noise) for column in columns.values()}
    records = DeclaredRecords(tuple(columns.values()), channels, response_of(label.noise))
    return records, label.states or ()


def _gathered(survey: Survey, paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Return the answers of every participant, in the order of their tokens, or raise."""
    found: dict[str, dict[str, Any]] = {}
    sender: dict[str, str | Path] = {}
    troubles = []
    for path in paths:
        try:
            token, given = _sheet(Path(path), survey)
        except CorruptFileError as error:
            troubles.append(f"{path}: {error}")
            continue
        if token in found:
            same = Path(path).resolve() == Path(sender[token]).resolve()
            again = "it is given twice." if same else f"the participant of {sender[token]} again."
            troubles.append(f"{path}: {again}")
        else:
            found[token], sender[token] = given, path
    if troubles:
        more = f" and {len(troubles) - _SHOWN} more" if len(troubles) > _SHOWN else ""
        raise ReleaseError(
            f"{len(troubles)} of {len(paths)} answer files cannot be used; leave them out or ask"
            f" for them again. {' '.join(troubles[:_SHOWN])}{more}"
        )
    if not found:
        raise ParameterError("there are no answer files.")
    return [found[token] for token in sorted(found)]


def _sheet(path: Path, survey: Survey) -> tuple[str, dict[str, Any]]:
    """Return token and answers of one file, after checking all of it."""
    sheet = strict_json.parse(read_bounded(path, MOST_BYTES))
    fields = {"suffice", "version", "survey", "token", "answers"}
    if not isinstance(sheet, dict) or set(sheet) != fields or sheet["suffice"] != "answer":
        raise CorruptFileError("it is no answer to a survey.")
    if sheet["version"] is True or sheet["version"] != 1:
        raise CorruptFileError("it is of a version that is not read here.")
    if sheet["survey"] != survey.id:
        raise CorruptFileError("it answers another survey.")
    if not re.fullmatch("[0-9a-f]{32}", strict_json.text(sheet["token"])):
        raise CorruptFileError("its token is malformed.")
    given = sheet["answers"]
    if not isinstance(given, dict) or given.keys() != survey.noises.keys():
        raise CorruptFileError("it does not answer every question once.")
    for name, noise in survey.noises.items():
        if not noise.fits(given[name]):
            raise CorruptFileError(
                f"its answer to {name!r} cannot have come from this survey{_honest(noise)}."
            )
    return sheet["token"], given


def _honest(noise: participant.Choice | participant.Number) -> str:
    """Return what an honest answer looks like, where that is short."""
    if isinstance(noise, participant.Choice):
        return ""
    least, most = noise.limits
    return f": it must be a multiple of {noise.step:g} between {least:.6g} and {most:.6g}"


def _arrays(survey: Survey, rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return the arrays of a release of records."""
    label = survey.content["label"]
    codes, values = [], []
    for name, noise in survey.noises.items():
        cells = [row[name] for row in rows]
        if isinstance(noise, participant.Number):
            values.append(np.array(cells, dtype=np.float64))
            continue
        place = {state: code for code, state in enumerate(noise.states)}
        coded = np.array([place[cell] for cell in cells], dtype=np.uint8)
        if name == label:
            answers = coded
        else:
            codes.append(coded)
    return {
        "answers": answers,
        "codes": _beside(codes, len(rows), np.uint8),
        "values": _beside(values, len(rows), np.float64),
    }


def _beside(columns: Sequence[np.ndarray], rows: int, dtype: Any) -> np.ndarray:
    """Return columns as a table, also if there are none."""
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0), dtype=dtype)
