"""Surveys as files: questions go out, randomised answers come back and become a release.

The survey's organisers cannot be sure which answers are true: `suffice.participant` changes each
answer at random, on the participant's own machine. This module writes the questions and gathers
the answers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from suffice import participant, strict_json
from suffice.engines.engine import Stream
from suffice.errors import CorruptFileError, ParameterError, ReleaseError
from suffice.owner.mechanism import Mechanism, Payment, Procedure, Public, make_release
from suffice.owner.responses import DeclaredRecords, RandomizedResponse, channel_of, response_of
from suffice.owner.source import Source
from suffice.participant import MOST_BYTES, Survey
from suffice.privacy.events import check_delta
from suffice.privacy.guarantee import Assumption, Guarantee
from suffice.privacy.response import Response
from suffice.releases.columns import Flips, SpreadColumn
from suffice.releases.file import read_bounded
from suffice.releases.release import Release

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
    language: str = "en",
) -> Survey:
    """Return a survey whose participants change their own answers at random.

    Parameters
    ----------
    title
        What the survey is about.
    states
        The possible answers to a question, by its name.
    ranges
        Low and high of a question for a number, by its name.
    flip
        The probability that an answer becomes another one: a number, P, or either by name.
    epsilon
        The epsilon of an answer, instead of ``flip``: a number, or by name.
    noise
        The variance of the noise on a number: one for all, or by name.
    kernel
        The type of that noise: "laplace" or "gaussian".
    texts
        What is asked, by name, in the order of the survey.
    label
        The question that a learner predicts from the others; by default the first with states.
    delta
        The delta at which the epsilon of Gaussian noise is computed.
    language
        The language of the guarantees, and of the program that participants use: "en" or "de".

    Raises
    ------
    ParameterError
        If a question has no noise or two, or a name is unknown.

    Examples
    --------
    >>> survey = new_survey("Health", states={"ill": ["no", "yes"]}, flip=0.25)
    >>> survey.content["language"]
    'en'
    """
    check_delta(delta)
    questions = {**states, **(ranges or {})}
    names = [*(texts or {}), *(name for name in questions if name not in (texts or {}))]
    if not states:
        raise ParameterError("A survey needs a question with possible values (states, --states).")
    for name in texts or {}:
        if name not in questions:
            raise ParameterError(
                f"No question is named {name!r}, which has a text (texts, --text). Give it states"
                " or a range, or remove its text."
            )
    if isinstance(noise, Mapping | None) and not (noise or {}).keys() >= (ranges or {}).keys():
        raise ParameterError("Every question for a number needs noise (noise, --noise-variance).")
    for by_name in (flip, epsilon):
        if isinstance(by_name, Mapping) and not by_name.keys() <= states.keys():
            unknown = sorted(by_name.keys() - states.keys())
            raise ParameterError(f"No question with possible values is named {unknown[0]!r}.")
    declared = RandomizedResponse(
        states=states,
        ranges=ranges or {},
        feature_flip={name: _chance(name, states[name], flip, epsilon) for name in states},
        feature_noise=noise,
        kernel=kernel,
    )
    asked_questions = []
    for column in declared.columns(names):
        question = {"text": (texts or {}).get(column.name, ""), **column.to_json()}
        if column.states is not None:  # a participant reads a list, also of a run of integers
            question.pop("integers", None)
            question["states"] = list(column.states)
        asked_questions.append(question)
    first = next(name for name in names if name in states)
    try:
        return participant.make_survey(title, asked_questions, label or first, delta, language)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _chance(name: str, states: Sequence[Any], flip: Any, epsilon: Any) -> Any:
    """Return the probability of another answer, or P."""
    chance = flip.get(name) if isinstance(flip, Mapping) else flip
    cost = epsilon.get(name) if isinstance(epsilon, Mapping) else epsilon
    if (chance is None) == (cost is None):
        raise ParameterError(f"Question {name!r}: give its noise once, as flip or as epsilon.")
    count = len(states)
    if cost is None:
        if isinstance(chance, int | float) and not 0 < chance < 1 - 1 / count:
            raise ParameterError(
                f"Question {name!r}: flip must lie above 0 and below {1 - 1 / count:.4g}, where"
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
    """Return the survey in a file, after computing its words anew from its numbers.

    Parameters
    ----------
    source
        The file, or its bytes.

    Raises
    ------
    CorruptFileError
        If it is damaged, or its words are not those that its numbers mean.
    """
    data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
    try:
        return participant.read_survey(data)
    except ValueError as error:
        raise CorruptFileError(str(error)) from None


def collect(survey: Survey, answers: Sequence[str | Path]) -> Release:
    """Return the answers of a survey as one release of randomised records.

    The answers become rows in the order of their random tokens, which are left out. So the order
    says nothing, and the same files make the same release.

    No ledger is charged: the participants added the noise before they sent anything. This release
    is a function of what they sent. Publishing it, even twice, shows no more than the organisers
    have already. The program told participants what an answer costs.

    Parameters
    ----------
    survey
        The survey.
    answers
        The answer files. Each must answer every question of this survey.

    Raises
    ------
    ReleaseError
        If files cannot be used: it names them, and nothing is released.
    """
    source = _AnswerFiles(tuple(answers), workers=1)
    return make_release(_Collection(survey), source, Payment(None))  # see above


@dataclass(frozen=True)
class _AnswerFiles(Source):
    """The answer files of a survey; its labels are in them."""

    def check(self) -> None:
        """Nothing: every file is checked as it is read."""


@dataclass(frozen=True)
class _Answered(Public):
    """A survey, what it declares of its answers, and the files that came back."""

    survey: Survey
    files: Sequence[str | Path]
    records: DeclaredRecords
    classes: tuple[Any, ...]

    def parts(self) -> Sequence[Stream]:
        """Return all files as one batch."""
        return [Stream(lambda: [self.files], "Answers are gathered on the organisers' machine.")]


class _Sheets:
    """The answers of every participant; an accumulator over lists of files, never merged."""

    fingerprint = b""  # no ledger knows them

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._rows: list[dict[str, Any]] = []

    def update(self, batch: Sequence[str | Path]) -> None:
        """Take in all answer files, in the order of their tokens, or raise."""
        sheets: dict[str, dict[str, Any]] = {}
        sender: dict[str, str | Path] = {}
        troubles = []
        for path in batch:
            try:
                token, answers = _sheet(Path(path), self._survey)
            except CorruptFileError as error:
                troubles.append(f"{path}: {error}")
                continue
            if token in sheets:
                same = Path(path).resolve() == Path(sender[token]).resolve()
                again = "it is listed twice." if same else f"same participant as {sender[token]}."
                troubles.append(f"{path}: {again}")
            else:
                sheets[token], sender[token] = answers, path
        if troubles:
            more = f" and {len(troubles) - _SHOWN} more" if len(troubles) > _SHOWN else ""
            raise ReleaseError(
                f"{len(troubles)} of {len(batch)} answer files cannot be used. Leave them out, or"
                f" ask for them again. {' '.join(troubles[:_SHOWN])}{more}"
            )
        if not sheets:
            raise ParameterError("There are no answer files.")
        self._rows = [sheets[token] for token in sorted(sheets)]

    def merge(self, other: Self) -> None:
        """Take in nothing: all files are one batch."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """The number of participants."""
        return len(self._rows)

    def result(self) -> dict[str, np.ndarray]:
        """Return the arrays of a release of records."""
        answers = np.empty(0, dtype=np.uint8)
        codes, values = [], []
        for name, noise in self._survey.noises.items():
            cells = [row[name] for row in self._rows]
            if isinstance(noise, participant.Number):
                values.append(np.array(cells, dtype=np.float64))
                continue
            code_of = {state: code for code, state in enumerate(noise.states)}
            coded = np.array([code_of[cell] for cell in cells], dtype=np.uint8)
            if name == self._survey.content["label"]:
                answers = coded
            else:
                codes.append(coded)
        empty = len(self._rows), 0
        return {
            "answers": answers,
            "codes": np.stack(codes, axis=1) if codes else np.empty(empty, dtype=np.uint8),
            "values": np.stack(values, axis=1) if values else np.empty(empty),
        }


@dataclass(frozen=True, eq=False)
class _CollectedRecords(Procedure[_Sheets]):
    """Records that participants randomised on their own machines: nothing is drawn here."""

    kind = "responses"
    public: _Answered

    def accumulator(self, *, identified: bool) -> _Sheets:
        """Return an empty set of answers."""
        del identified
        return _Sheets(self.public.survey)

    def guarantees(self, exact: _Sheets) -> tuple[Guarantee, ...]:
        """Return what the survey promised, and what that rests on."""
        del exact
        survey = self.public.survey
        own_side = Assumption(
            f"participants randomised their own answers as survey {survey.id[:23]} asks, once each",
            "answers were checked for their form and for tokens that occur twice",
        )
        return tuple(
            replace(guarantee, assumptions=(*guarantee.assumptions, own_side))
            for guarantee in self.public.records.guarantees(survey.content["delta"])
        )

    def parameters(self, exact: _Sheets) -> Mapping[str, Any]:
        """Return the public description of the request."""
        return {"kind": self.kind, "survey": self.public.survey.id, "records": exact.count}

    def draw(self, exact: _Sheets, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release of what participants sent."""
        return self.public.records.release(exact.result(), self.public.classes, guarantees)


@dataclass(frozen=True)
class _Collection(Mechanism[_Answered]):
    """Publish the answers to a survey. Protects each answer, which came randomised."""

    survey: Survey

    def public(self, source: Source) -> _Answered:
        """Return what the survey declares of its answers."""
        columns = {}
        for question in self.survey.content["questions"]:
            column = {key: v for key, v in question.items() if key not in {"text", "guarantee"}}
            columns[question["name"]] = SpreadColumn.from_json(column)
        label = columns.pop(self.survey.content["label"])
        assert isinstance(label.noise, Flips)  # noqa: S101  # for the type checker
        channels = {column.noise: channel_of(column.noise) for column in columns.values()}
        records = DeclaredRecords(tuple(columns.values()), channels, response_of(label.noise))
        return _Answered(self.survey, source.data, records, label.states or ())

    def choose(self, public: _Answered) -> _CollectedRecords:
        """Return the records as they came: nothing is chosen."""
        return _CollectedRecords(public)


def _sheet(path: Path, survey: Survey) -> tuple[str, dict[str, Any]]:
    """Return token and answers of one file, after checking all of it."""
    sheet = strict_json.parse(read_bounded(path, MOST_BYTES))
    fields = {"suffice", "version", "survey", "token", "answers"}
    if not isinstance(sheet, dict) or set(sheet) != fields or sheet["suffice"] != "answer":
        raise CorruptFileError("it is not an answer to a survey.")
    if sheet["version"] is True or sheet["version"] != 1:
        raise CorruptFileError("this version of suffice does not read its version.")
    if sheet["survey"] != survey.id:
        raise CorruptFileError("it answers another survey.")
    if not re.fullmatch("[0-9a-f]{32}", strict_json.text(sheet["token"])):
        raise CorruptFileError("its token is malformed.")
    answers = sheet["answers"]
    if not isinstance(answers, dict) or answers.keys() != survey.noises.keys():
        raise CorruptFileError("it does not answer every question once.")
    for name, noise in survey.noises.items():
        if not noise.fits(answers[name]):
            honest = ""  # what an honest answer looks like, where that is short
            if isinstance(noise, participant.Number):
                least, most = noise.limits
                honest = f": it must be a multiple of {noise.step:g} between {least:.6g} and"
                honest += f" {most:.6g}"
            raise CorruptFileError(
                f"its answer to {name!r} cannot have come from this survey{honest}."
            )
    return sheet["token"], answers
