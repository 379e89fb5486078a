"""Surveys as files: questions go out, randomised answers come back and become a release.

The survey's organisers cannot be sure which answers are true: `suffice.participant` changes each
answer at random, on the participant's own machine. This module writes the questions and gathers
the answers.
"""

import hashlib
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from suffice import participant, strict_json
from suffice.engines.engine import Stream
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, SufficeError
from suffice.owner.answers import AnswerStore
from suffice.owner.forecast import Plan
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import utc_now
from suffice.owner.mechanism import Mechanism, Payment, Procedure, Public, make_release
from suffice.owner.responses import (
    DeclaredRecords,
    RandomizedResponse,
    cell_guarantees,
    channel_of,
    response_of,
)
from suffice.owner.source import Source
from suffice.participant import MOST_BYTES, Survey
from suffice.privacy.events import Pure, check_delta, check_epsilon
from suffice.privacy.guarantee import Assumption, Budget, Guarantee, Unit
from suffice.privacy.response import Response
from suffice.releases.columns import (
    DeclaredColumn,
    Flips,
    ReportNoise,
    SpreadColumn,
    declared_pipeline,
)
from suffice.releases.file import read_bounded
from suffice.releases.release import Covariance, Part, Release, RowSet
from suffice.strict_json import canonical

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
    about: Mapping[str, str] | None = None,
    report: str = "per-question",
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
    about
        What the organisers say about themselves: ``organiser``, ``contact``, ``purpose``,
        ``notice`` of data protection, and the date on which answers are ``deleted`` at the latest.
    report
        "per-question", or "whole": one report of all answers together, of one ``epsilon``. Then
        every question has states, with at most 1,024 combinations, and each single answer has this
        epsilon too.

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
        raise ParameterError(
            "A survey needs a question with possible values (states, --categories)."
        )
    for name in texts or {}:
        if name not in questions:
            raise ParameterError(
                f"No question is named {name!r}, which has a text (texts, --text). Give it states"
                " or a range, or remove its text."
            )
    if report not in {"per-question", "whole"}:
        raise ParameterError("report must be per-question or whole. Use one of them.")
    first = next(name for name in names if name in states)
    settings: dict[str, Any] = {"about": about or {}}
    if report == "whole":
        if ranges or flip is not None or noise is not None or not isinstance(epsilon, int | float):
            raise ParameterError(
                "A report of all answers has one epsilon, for all questions, and questions with"
                " possible values only. Use --report whole with --epsilon 1, for example, and"
                " without --range, --flip and noise on numbers."
            )
        asked = [
            {"name": name, "text": (texts or {}).get(name, ""), "states": list(states[name])}
            for name in names
        ]
        try:
            settings["report"] = report_of([len(q["states"]) for q in asked], epsilon)
            return participant.make_survey(
                title, asked, label or first, delta, language, **settings
            )
        except ValueError as error:
            raise ParameterError(str(error)) from None
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
    try:
        return participant.make_survey(
            title, asked_questions, label or first, delta, language, **settings
        )
    except ValueError as error:
        raise ParameterError(str(error)) from None


def plan_survey(survey: Survey, people: int, *, level: float = 0.95) -> Plan:
    """Return a forecast of the intervals that a survey gives: how far each reaches either way.

    Shares are forecast for answers that are all equally frequent, numbers for values spread evenly
    over their range. ``together`` are intervals that hold all at once: of Q questions, each has the
    level 1 - (1 - level) / Q. A share that is one of K answers' equal part cannot be told from zero
    by an interval of half width 1 / K, and a number within a quarter of its range tells little:
    from there on, noise is called too strong.

    Parameters
    ----------
    survey
        The survey.
    people
        How many people are expected to answer.
    level
        The confidence level of the intervals.

    Examples
    --------
    >>> survey = new_survey("Health", states={"ill": ["no", "yes"]}, epsilon=1.0)
    >>> print(plan_survey(survey, 1000))
    question  half width  all together  without noise
    ill       0.0671      0.0671        0.031
    """
    if people < 1 or not 0 < level < 1:
        raise ParameterError("A forecast needs at least one person, and a level between 0 and 1.")
    single = float(ndtri((1 + level) / 2))
    joint = float(ndtri(1 - (1 - level) / 2 / len(survey.noises)))
    rows: list[dict[str, Any]] = []
    advice = []
    for name, asked in survey.noises.items():
        noisy, plain, most = _deviations(asked, survey.report)
        widths = [z * d / math.sqrt(people) for z, d in ((single, noisy), (joint, noisy))]
        row = {"question": name, "half_width": widths[0], "together": widths[1]}
        rows.append(row | {"without_noise": single * plain / math.sqrt(people)})
        if widths[1] >= most:
            needed = math.ceil((joint * noisy / most) ** 2)
            advice.append(
                f"The noise on {name!r} is too strong for {people:,} people: the interval tells"
                f" nearly nothing. At least {needed:,} people are needed, or a larger epsilon."
            )
    other = other_report(survey)
    if other is not None:
        wider = max(_deviations(asked, survey.report)[0] for asked in survey.noises.values())
        there = max(_deviations(asked, other.report)[0] for asked in other.noises.values())
        if there < 0.9 * wider:
            kind, but = "whole", ""
            if other.report is None:
                kind, but = "per-question", " It tells less about how answers go together."
            advice.append(
                f"At the same epsilon for all answers together, --report {kind} has a largest half"
                f" width {there / wider:.2g} times as large.{but}"
            )
    columns = {
        "question": lambda row: row["question"],
        "half width": lambda row: f"{row['half_width']:.3g}",
        "all together": lambda row: f"{row['together']:.3g}",
        "without noise": lambda row: f"{row['without_noise']:.3g}",
    }
    title = f"Forecast of intervals at {100 * level:g} % for {people:,} people"
    facts = {"people": people, "level": level, "questions": rows, "advice": advice}
    return Plan(title=title, columns=columns, rows=rows, facts=facts, advice=advice)


def _deviations(
    asked: participant.Answers | participant.Number, report: participant.Report | None
) -> tuple[float, float, float]:
    """Return the deviation of one person's part, that without noise, and a hopeless half width."""
    if isinstance(asked, participant.Number):
        width = asked.high - asked.low
        plain = width / math.sqrt(12)
        return math.hypot(asked.deviation, plain), plain, width / 4
    count = len(asked.states)
    share = 1 / count
    plain = math.sqrt(share * (1 - share))
    if report is not None:
        noise = ReportNoise(report.count, report.size, report.keep)
        of_one = report.count // count
        (m0, s0), (m1, s1) = (noise.moments(of_one, inside=inside) for inside in (False, True))
        variance = s0 + share * (s1 - s0) - (m0 + share * (m1 - m0)) ** 2
        return math.sqrt(variance) / (m1 - m0), plain, share
    assert isinstance(asked, participant.Choice)  # noqa: S101  # for the type checker
    channel = np.array([asked.weights(j) for j in range(count)], dtype=float).T / 2**64
    second = (np.linalg.inv(channel) ** 2 @ channel).mean(axis=1)  # E of a weight's square
    return math.sqrt(float(second.max()) - share**2), plain, share


def other_report(survey: Survey) -> Survey | None:
    """Return the survey with the other sort of report and the same epsilon in all, if it can be."""
    states = {
        name: asked.states
        for name, asked in survey.noises.items()
        if isinstance(asked, participant.Answers)
    }
    if len(states) < max(2, len(survey.noises)):
        return None
    epsilon = math.fsum(noise.pure for noise in survey.parts.values())
    try:
        if survey.report is None:
            return new_survey("", states=states, epsilon=epsilon, report="whole")
        return new_survey("", states=states, epsilon=epsilon / len(states))
    except ParameterError:
        return None


def variance_of(low: float, high: float, epsilon: float) -> float:
    """Return the variance of Laplace noise on a number that costs ``epsilon``, and no more.

    Examples
    --------
    >>> participant.Number(0, 120, "laplace", variance_of(0, 120, 1.0)).pure <= 1
    True
    """
    rounding = 2.0**-17  # of epsilon: both ends are rounded to a grid of 2^-20 deviations
    if not check_epsilon(epsilon) > 2 * rounding:
        raise ParameterError("Epsilon is too small for a question about a number. Use 0.01.")
    return 2 * ((high - low) / (epsilon - rounding)) ** 2


def report_of(states: Sequence[int], epsilon: float) -> dict[str, Any]:
    """Return size and keep of a report that costs at most ``epsilon``, and nearly as much.

    Of k combinations, size = round(k / (e^epsilon + 1)), at least one and not all; the true one is
    in with the probability size e^epsilon / (size e^epsilon + k - size) (Ye and Barg 2018).

    Examples
    --------
    >>> report_of([2, 2, 2], 1.0)["size"]
    2
    """
    most = 30.0  # epsilon: beyond it floats lie too close to one
    count, odds = math.prod(states), math.exp(min(check_epsilon(epsilon), most))
    size = min(max(1, round(count / (odds + 1))), count - 1)
    keep = size * odds / (size * odds + count - size)
    while participant.Report(states, size, keep).pure > epsilon:  # keep is a float
        keep -= 2.0**-53
    return {"size": size, "keep": keep}


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


class AnswerForm:
    """Reads the answers to one survey: each is checked, and packed as one row of bytes.

    A row has one byte for each question with states, the number of the state, and eight for each
    number (IEEE 754, the smallest byte first), in the order of the survey. The row of a report of
    all answers has a bit for each combination, those that were sent set.
    """

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self._part = "answers" if survey.report is None else "report"
        self._codes = {
            name: {state: code for code, state in enumerate(noise.states)}
            for name, noise in survey.noises.items()
            if isinstance(noise, participant.Choice)
        }
        kinds = ["u1" if name in self._codes else "<f8" for name in survey.noises]
        if survey.report is not None:  # a bit for each combination
            kinds = ["u1"] * -(-survey.report.count // 8)
        self._row = np.dtype([(f"{k}", kind) for k, kind in enumerate(kinds)])
        self._pack = struct.Struct("<" + "".join("B" if k == "u1" else "d" for k in kinds)).pack

    def read(self, data: bytes) -> tuple[str, bytes]:
        """Return token and row of an answer file, after checking all of it."""
        sheet = strict_json.parse(data)
        fields = {"suffice", "version", "survey", "token", self._part}
        if not isinstance(sheet, dict) or set(sheet) != fields or sheet["suffice"] != "answer":
            raise CorruptFileError("it is not an answer to a survey.")
        if sheet["version"] is True or sheet["version"] != 1:
            raise CorruptFileError("this version of suffice does not read its version.")
        if sheet["survey"] != self.survey.id:
            raise CorruptFileError("it answers another survey.")
        if not re.fullmatch("[0-9a-f]{32}", strict_json.text(sheet["token"])):
            raise CorruptFileError("its token is malformed.")
        answers = sheet[self._part]
        if (report := self.survey.report) is not None:
            if not report.fits(answers):
                raise CorruptFileError("its report cannot have come from this survey.")
            bits = sum(1 << number for number in answers)
            return sheet["token"], bits.to_bytes(self.row_bytes, "little")
        if not isinstance(answers, dict) or answers.keys() != self.survey.noises.keys():
            raise CorruptFileError("it does not answer every question once.")
        for name, noise in self.survey.noises.items():
            if not noise.fits(answers[name]):
                honest = ""  # what an honest answer looks like, where that is short
                if isinstance(noise, participant.Number):
                    least, most = noise.limits
                    honest = f": it must be a multiple of {noise.step:g} between {least:.6g} and"
                    honest += f" {most:.6g}"
                raise CorruptFileError(
                    f"its answer to {name!r} cannot have come from this survey{honest}."
                )
        cells = (
            self._codes[name][answers[name]] if name in self._codes else answers[name]
            for name in self.survey.noises
        )
        return sheet["token"], self._pack(*cells)

    def read_files(self, files: Sequence[str | Path]) -> Iterator[bytes]:
        """Yield the rows of all answer files, in the order of their tokens, or raise."""
        if not files:
            raise ParameterError("There are no answer files.")
        rows: dict[str, tuple[bytes, str | Path]] = {}
        troubles = []
        for path in files:
            try:
                token, row = self.read(read_bounded(Path(path), MOST_BYTES))
            except CorruptFileError as error:
                troubles.append(f"{path}: {error}")
                continue
            if token in rows:
                sender = rows[token][1]
                same = Path(path).resolve() == Path(sender).resolve()
                again = "it is listed twice." if same else f"same participant as {sender}."
                troubles.append(f"{path}: {again}")
            else:
                rows[token] = row, path
        if troubles:
            more = f" and {len(troubles) - _SHOWN} more" if len(troubles) > _SHOWN else ""
            raise ReleaseError(
                f"{len(troubles)} of {len(files)} answer files cannot be used. Leave them out, or"
                f" ask for them again. {' '.join(troubles[:_SHOWN])}{more}"
            )
        yield b"".join(rows[token][0] for token in sorted(rows))

    def columns(self, blocks: Iterable[bytes]) -> dict[str, np.ndarray]:
        """Return the arrays of a release of records, or the counts of reports, labels first."""
        if self.survey.report is not None:
            return {"counts": self.counts(blocks, self.survey.report)}
        parts = [np.frombuffer(block, dtype=self._row) for block in blocks]
        rows = np.concatenate(parts) if parts else np.empty(0, dtype=self._row)
        names, label = list(self.survey.noises), self.survey.content["label"]
        columns = {name: rows[f"{k}"] for k, name in enumerate(names)}
        codes = [columns[name] for name in self._codes if name != label]
        values = [columns[name] for name in names if name not in self._codes]
        return {
            "answers": np.ascontiguousarray(columns[label]),
            "codes": np.stack(codes, axis=1) if codes else np.empty((len(rows), 0), np.uint8),
            "values": np.stack(values, axis=1) if values else np.empty((len(rows), 0)),
        }

    def counts(self, blocks: Iterable[bytes], report: participant.Report) -> np.ndarray:
        """Return how many reports hold each combination, in the order of `columns`."""
        counts = np.zeros(report.count, dtype=np.int64)
        together = 2**20 // self.row_bytes * self.row_bytes  # bytes whose bits are counted at once
        for block in blocks:
            cells = np.frombuffer(block, dtype=np.uint8)
            for start in range(0, len(cells), together):
                part = cells[start : start + together]
                bits = np.unpackbits(part.reshape(-1, self.row_bytes), axis=1, bitorder="little")
                counts += bits[:, : report.count].sum(axis=0, dtype=np.int64)
        place = list(self.survey.noises).index(self.survey.content["label"])
        return np.ascontiguousarray(np.moveaxis(counts.reshape(report.states), place, 0)).ravel()

    @property
    def row_bytes(self) -> int:
        """How many bytes a row has."""
        return self._row.itemsize


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
    form = AnswerForm(survey)
    source = _Answers(lambda: form.read_files(answers), workers=1)
    return make_release(_Collection(form), source, Payment(None))  # see above


def open_survey(
    survey: Survey,
    place: str | Path,
    store: AnswerStore,
    invitations: Sequence[str] | None,
    *,
    trial: bool = False,
) -> None:
    """Let people answer a survey through a service; the ledger's log has an entry for that.

    In the ledger at ``place``, the survey is a data set with the name of `name_in_ledger`. Its
    budgets are what the survey promises: the one release of its answers is all that can be charged.
    With None for ``invitations``, whoever has the address may answer. A trial is in no ledger: its
    answers are checked and thrown away.
    """
    if not survey.content["about"]:
        raise ParameterError(
            "This survey does not say who asks. Make it with --about organiser=, contact=,"
            " purpose=, notice= and delete-by= (Python: about)."
        )
    if _is_past(survey):
        raise ParameterError("The day on which answers are deleted is over. Make a new survey.")
    if not trial:
        form = AnswerForm(survey)
        source = _Answers(lambda: (), workers=1)
        promised = _CollectedRecords(_Collection(form).public(source)).guarantees(_Sheets(form))
        budgets = {str(g.unit): Budget(g.epsilon or 0.0, g.delta) for g in promised}
        Ledger(place, {name_in_ledger(survey): budgets})
    store.open(survey, invitations, trial=trial)


def release_survey(survey: Survey, ledger: Ledger, store: AnswerStore) -> Release:
    """Close a survey and release its answers, charged like everything else.

    The order of answers is that of random tokens. Whoever asks again gets the same bytes from the
    ledger, until `AnswerStore.forget` has deleted the answers.
    """
    name, form = name_in_ledger(survey), AnswerForm(survey)
    count = store.close(survey.id)
    ledger.record_answer(name, Kind.CLOSED, {"answers": count})
    if not count:
        raise ParameterError("Nobody answered this survey, so there is nothing to release.")
    source = _Answers(lambda: store.blocks(survey.id), workers=1)
    return make_release(_Collection(form), source, Payment(ledger, name, request=survey.id))


def delete_expired(place: str | Path, store: AnswerStore) -> None:
    """Close surveys whose day has come, and delete their answers, also without a release.

    The day is the one that the survey states, in UTC. The ledger is at ``place``. What fails for
    one survey is raised once all others are done.
    """
    failed: SufficeError | None = None
    for identity in store.surveys():
        opened = store.survey(identity)
        if opened is None or opened.state == "deleted":
            continue
        try:
            survey = load_survey(opened.body)
            if opened.state != "deleting":  # whoever began that was killed
                if not _is_past(survey):
                    continue
                count = store.close(identity)
                if identity == survey.id:  # and no trial
                    facts = {"answers": count}
                    Ledger(place).record_answer(name_in_ledger(survey), Kind.CLOSED, facts)
            store.forget(identity)
        except SufficeError as error:
            failed = error
    if failed is not None:
        raise failed


def _is_past(survey: Survey) -> bool:
    """Say whether the day has come on which answers are deleted."""
    return str(survey.content["about"]["deleted"]) <= utc_now().date().isoformat()


def name_in_ledger(survey: Survey) -> str:
    """Return the name of the data set that a survey is in a ledger."""
    return f"survey {survey.id}"


@dataclass(frozen=True)
class _Answers(Source):
    """Packed answers to a survey, as a function that reads them; the labels are among them."""

    def check(self) -> None:
        """Nothing: every answer was checked when it was packed."""


@dataclass(frozen=True)
class _DeclaredReports:
    """Everything about a release of reports that is known before one of them is read."""

    survey: Survey

    @property
    def columns(self) -> list[DeclaredColumn]:
        """The questions, the label's first."""
        asked = [
            DeclaredColumn(name, answers.states)
            for name, answers in self.survey.noises.items()
            if isinstance(answers, participant.Answers)
        ]
        return sorted(asked, key=lambda column: column.name != self.survey.content["label"])

    def guarantees(self, delta: float) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, attribute and record: all are those of the report."""
        assert self.survey.report is not None  # noqa: S101  # for the type checker
        event = Pure(self.survey.report.pure)
        records = cell_guarantees(event, [], delta)[0]
        return tuple(
            replace(records, unit=unit) for unit in (Unit.LABEL, Unit.ATTRIBUTE, Unit.RECORD)
        )

    def release(
        self,
        randomised: Mapping[str, np.ndarray],
        classes: Sequence[Any],
        guarantees: tuple[Guarantee, ...],
    ) -> Release:
        """Return the release of the counts of reports."""
        report, columns = self.survey.report, self.columns
        assert report is not None  # noqa: S101  # for the type checker
        details = {
            "classes": list(classes),
            "questions": [[column.name, list(column.states or ())] for column in columns],
            "mechanism": "subset",
            "count": report.count,
            "size": report.size,
            "keep": report.keep,
        }
        counts = randomised["counts"]
        content = hashlib.sha256(b"randomised reports\0" + canonical(details) + counts.tobytes())
        rows = RowSet(int(counts.sum()) // report.size, "sha256:" + content.hexdigest())
        return Release(
            kind="reports",
            arrays={"counts": counts},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=declared_pipeline(columns[1:]),
            noise=Covariance("none"),
        )


@dataclass(frozen=True)
class _Answered(Public):
    """A survey, what it declares of its answers, and how they are read."""

    form: AnswerForm
    read: Callable[[], Iterable[bytes]]
    records: "DeclaredRecords | _DeclaredReports"
    classes: tuple[Any, ...]

    def parts(self) -> Sequence[Stream]:
        """Return all answers as one stream."""
        return [Stream(self.read, "Answers are gathered on the organisers' machine.")]


class _Sheets:
    """The packed answers of every participant; an accumulator over blocks of rows, never merged."""

    def __init__(self, form: AnswerForm) -> None:
        self.form = form
        self.blocks: list[bytes] = []

    def update(self, batch: bytes) -> None:
        """Take in a block of rows."""
        self.blocks.append(batch)

    def merge(self, other: Self) -> None:
        """Take in nothing: all answers are one stream."""
        raise NotImplementedError

    def result(self) -> dict[str, np.ndarray]:
        """Return the arrays of a release of records."""
        return self.form.columns(self.blocks)

    @property
    def fingerprint(self) -> bytes:
        """A digest of all answers."""
        digest = hashlib.sha256()
        for block in self.blocks:
            digest.update(block)
        return digest.digest()

    @property
    def count(self) -> int:
        """The number of participants."""
        return sum(map(len, self.blocks)) // self.form.row_bytes


@dataclass(frozen=True, eq=False)
class _CollectedRecords(Procedure[_Sheets]):
    """Records that participants randomised on their own machines: nothing is drawn here."""

    public: _Answered

    @property
    def kind(self) -> str:  # type: ignore[override]  # it follows from the survey
        """The kind of release."""
        return "responses" if self.public.form.survey.report is None else "reports"

    def accumulator(self, *, identified: bool) -> _Sheets:
        """Return an empty set of answers."""
        del identified
        return _Sheets(self.public.form)

    def guarantees(self, exact: _Sheets) -> tuple[Guarantee, ...]:
        """Return what the survey promised, and what that rests on."""
        del exact
        survey = self.public.form.survey
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
        return {"kind": self.kind, "survey": self.public.form.survey.id, "records": exact.count}

    def draw(self, exact: _Sheets, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release of what participants sent."""
        return self.public.records.release(exact.result(), self.public.classes, guarantees)


@dataclass(frozen=True)
class _Collection(Mechanism[_Answered]):
    """Publish the answers to a survey. Protects each answer, which came randomised."""

    form: AnswerForm

    def public(self, source: Source) -> _Answered:
        """Return what the survey declares of its answers."""
        columns, content = {}, self.form.survey.content
        if self.form.survey.report is not None:
            declared = _DeclaredReports(self.form.survey)
            return _Answered(self.form, source.data, declared, declared.columns[0].states or ())
        for question in content["questions"]:
            column = {key: v for key, v in question.items() if key not in {"text", "guarantee"}}
            columns[question["name"]] = SpreadColumn.from_json(column)
        label = columns.pop(content["label"])
        assert isinstance(label.noise, Flips)  # noqa: S101  # for the type checker
        channels = {column.noise: channel_of(column.noise) for column in columns.values()}
        records = DeclaredRecords(tuple(columns.values()), channels, response_of(label.noise))
        return _Answered(self.form, source.data, records, label.states or ())

    def choose(self, public: _Answered) -> _CollectedRecords:
        """Return the records as they came: nothing is chosen."""
        return _CollectedRecords(public)
