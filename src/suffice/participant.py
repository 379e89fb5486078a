"""One person, one record, one randomised answer; standard library only.

A participant runs this file alone, on their own machine, and can read all of it:

    python participant.py respond SURVEY -o ANSWER

It checks the survey and computes, from the survey's numbers, what an answer gives away. It says so
in words, asks for the true answers, changes each at random and writes one answer file. It writes
the true answers nowhere. A memory beside the answer file holds what was sent, so that you give the
same answers if you are asked again. The file is long because it needs nothing else: it imports
nothing from the rest of the package.
"""

import argparse
import datetime as dt
import hashlib
import itertools
import json
import math
import os
import re
import secrets
import shutil
import sys
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

MOST_BYTES = 2**20  # of a survey or an answer
_WORD_COUNT = 2**64  # different words of 64 random bits
_MOST_STATES = 256
_MOST_TABLE = 64  # the exact check of a larger one would take minutes
_WEAK, _PRACTICALLY_NONE = 3.0, 10.0  # epsilons; those of privacy/guarantee.py
NO_PROTECTION_DELTA, EXPLAINED_DELTA = 0.1, 1e-3  # those of privacy/events.py
_TAILS = {"laplace": 46, "gaussian": 10}  # of so many scales: beyond with probability < 2^-64
_VERSION = 2  # of surveys and of the words in them
_MEMORY_VERSION = 1
_DIGITS = 3  # of numbers in sentences
_LARGEST_POWER = 6  # a number of more digits is written with an exponent


class SurveyError(ValueError):
    """A survey is damaged, or its words do not follow from its numbers."""


class Answers:
    """The possible answers to a question, without noise of its own (see `Report`)."""

    def __init__(self, states: Sequence[Hashable]) -> None:
        self.states, count = tuple(states), len(states)
        if not 2 <= count <= _MOST_STATES or len(set(self.states)) < count:
            raise ValueError(f"states must list 2 to {_MOST_STATES} different answers.")

    def locate(self, truth: Any) -> int:
        """Return the index of the true answer, given as a value or as a person wrote it."""
        texts = [str(state) for state in self.states]
        for answers in (self.states, texts, [_plain(text) for text in texts]):
            if truth in answers:
                return answers.index(truth)
        raise ValueError("The truth must be one of the possible answers.")  # and is not repeated

    def fits(self, answer: object) -> bool:
        """Say whether an answer can have come from here."""
        return any(answer == state and type(answer) is type(state) for state in self.states)


class Choice(Answers):
    """Hides one answer among all possible answers: what is sent is drawn at random.

    P_ij = P[answer i | truth j] is ``noise``, as rows; or the truth is sent with the probability
    ``noise``, and otherwise one of the others, evenly. All are multiples of 2^-64, and the cost

        epsilon = max_i ln(max_j P_ij / min_j P_ij)

    is computed from those integers, which are those of an owner's records (privacy/response.py).
    ``states`` are 2 to 256 possible answers, ``pure`` is the epsilon of one, rounded up, and
    ``keep`` the probability that the truth is sent; with a table, the largest of them.

    Examples
    --------
    >>> choice = Choice(["no", "yes"], 0.75)
    >>> round(choice.pure, 4)
    1.0986
    >>> choice.draw(choice.locate("yes")) in ("no", "yes")
    True
    """

    precision = slack = 0.0  # not Gaussian

    def __init__(self, states: Sequence[Hashable], noise: Any) -> None:
        super().__init__(states)
        count = len(self.states)
        self._even: tuple[int, int] | None = None
        self._table: list[list[int]] = []
        self.has_table = not isinstance(noise, int | float)
        if not self.has_table:
            self._even, self.keep = _even(count, noise), float(noise)
            ratio = Fraction(*self._even)
        else:
            self._table = _by_truth(count, noise)
            ratio = max(Fraction(max(row), min(row)) for row in zip(*self._table, strict=True))
            self.keep = max(row[i] for i, row in enumerate(self._table)) / _WORD_COUNT
        bound = math.log(ratio.numerator) - math.log(ratio.denominator)
        self.pure = bound + 4 * math.ulp(64 * math.log(2))  # rounded up

    def weights(self, index: int) -> list[int]:
        """Return how many of the 2^64 words give each answer, for one truth."""
        if self._even is None:
            return self._table[index]
        same, other = self._even
        return [same if i == index else other for i in range(len(self.states))]

    def draw(self, index: int) -> Hashable:
        """Return a fresh answer: i for truth j with probability weights(j)[i] / 2^64."""
        word = _bits(64)
        for state, weight in zip(self.states, self.weights(index), strict=True):
            if word < weight:
                return state
            word -= weight
        raise AssertionError  # the weights sum to 2^64


def _even(states: int, keep: float) -> tuple[int, int]:
    """Return how many of the 2^64 words send the truth, and how many send each other answer."""
    if not 1 / states < keep < 1:
        raise ValueError("keep must lie between 1/states and 1; both ends are excluded.")
    width = round((1 - Fraction(keep)) * _WORD_COUNT / (states - 1))
    same = _WORD_COUNT - (states - 1) * width
    if not 0 < width < same:
        raise ValueError("keep is too close to an end of its range.")
    return same, width


def _by_truth(states: int, rows: Any) -> list[list[int]]:
    """Return the words of each answer, truth by truth, after checking that P is valid noise."""
    try:
        table = [[float(p) for p in row] for row in rows]
    except (TypeError, ValueError):
        raise ValueError("the noise is the probability to keep, or a square matrix P.") from None
    if [len(row) for row in table] != [states] * states:
        raise ValueError(f"P must have {states} rows and as many columns.")
    if states > _MOST_TABLE:
        raise ValueError(f"P may have {_MOST_TABLE} states at most; more need keep.")
    if not all(0 < p < math.inf for row in table for p in row):
        raise ValueError("P must be positive: a zero probability makes epsilon infinite.")
    weights = []
    for column in zip(*table, strict=True):
        exact = [Fraction(p) for p in column]
        total = sum(exact, Fraction(0))
        if abs(total - 1) > 1e-9:
            raise ValueError("the columns of P must sum to one: P_ij is P[answer i | truth j].")
        words = [max(1, round(p / total * _WORD_COUNT)) for p in exact]
        words[column.index(max(column))] += _WORD_COUNT - sum(words)  # the largest takes the rest
        weights.append(words)
    if not _invertible(weights):
        raise ValueError("P is singular, or nearly so: some truths have the same answers.")
    return weights


def _invertible(matrix: Sequence[Sequence[int]]) -> bool:
    """Say whether the pivots of an exact elimination (Bareiss 1968) are 1e-9 or more."""
    rest, last = [list(row) for row in matrix], 1
    while rest:
        top = max(rest, key=lambda row: abs(row[0]))
        rest.remove(top)
        if abs(top[0]) * 10**9 < _WORD_COUNT * abs(last):
            return False
        rest = [
            [(x * top[0] - row[0] * y) // last for x, y in zip(row[1:], top[1:], strict=True)]
            for row in rest
        ]
        last = top[0]
    return True


class Report:
    """Hides all answers of a person together: some combinations are sent, perhaps the true one.

    Of the k combinations of answers, ``size`` are sent. The true one is among them with the
    probability ``keep``, as a multiple of 2^-64; the others are drawn, all equally likely (Ye and
    Barg 2018, subset selection). With T = 2^64 keep the cost is

        epsilon = ln(T (k - size) / ((2^64 - T) size)),

    computed from these integers. ``states`` are the numbers of answers to each question. The
    combination of the answers a, b, ... has the number (a * states[1] + b) * states[2] + ...

    Examples
    --------
    >>> report = Report([2, 3], 2, 0.6)
    >>> report.count, len(report.draw([1, 2])), round(report.pure, 4)
    (6, 2, 1.0986)
    """

    precision = slack = 0.0  # not Gaussian
    most_combinations = 1024

    def __init__(self, states: Sequence[int], size: int, keep: float) -> None:
        self.states, self.count = tuple(states), math.prod(states)
        if self.count > self.most_combinations:
            raise ValueError(
                f"the questions have more than {self.most_combinations} combinations of answers."
            )
        if not 0 < size < self.count:
            raise ValueError("a report holds at least one combination, and not all of them.")
        if not size / self.count < keep < 1:
            raise ValueError("keep must lie between size/combinations and 1, ends excluded.")
        self.size, self.keep = size, keep
        self.threshold = int(Fraction(keep) * _WORD_COUNT)  # words of 2^64 that keep the truth
        ratio = Fraction(
            self.threshold * (self.count - size), (_WORD_COUNT - self.threshold) * size
        )
        if ratio <= 1:
            raise ValueError("keep is too close to an end of its range.")
        bound = math.log(ratio.numerator) - math.log(ratio.denominator)
        self.pure = bound + 4 * math.ulp(128 * math.log(2))  # rounded up

    @classmethod
    def of(cls, asked: Mapping[str, Any], report: Mapping[str, Any]) -> "Report":
        """Return the report of all answers to questions; whatever is not expected raises."""
        if set(report) != {"size", "keep"}:
            raise ValueError("a report has a size and a keep.")
        sizes = [len(answers.states) for answers in asked.values()]
        return cls(sizes, _integer(report["size"]), _number(report["keep"]))

    def locate(self, indices: Sequence[int]) -> int:
        """Return the number of the combination of answers with these indices."""
        number = 0
        for index, states in zip(indices, self.states, strict=True):
            number = number * states + index
        return number

    def draw(self, indices: Sequence[int]) -> list[int]:
        """Return fresh combinations for true answers of these indices: numbers in rising order.

        ``size`` others are drawn in any case, and the truth takes the place of the last one. So
        what is taken from the source of randomness has the same law for every truth.
        """
        number, kept = self.locate(indices), _bits(64) < self.threshold
        others: list[int] = []
        while len(others) < self.size:
            other = _below(self.count - 1)
            other += other >= number  # the true one is left out
            if other not in others:
                others.append(other)
        return sorted([*others[:-1], number] if kept else others)

    def fits(self, drawn: Any) -> bool:
        """Say whether a report can have come from here."""
        if not isinstance(drawn, list) or len(drawn) != self.size:
            return False
        whole = all(type(number) is int and 0 <= number < self.count for number in drawn)
        return whole and all(a < b for a, b in itertools.pairwise(drawn))


class Number:
    """Hides one number in noise: it is limited to low..high, put on a grid, then moved at random.

    It moves by n steps with probability proportional to e^(-|n| / scale) ("laplace", at a cost of
    epsilon = (reach + 2) / scale, reach = (high - low) / step) or to e^(-n^2 / (2 scale^2))
    ("gaussian", whose epsilon is read at a delta > 0), exactly. What would leave ``limits``, which
    happens with a probability below 2^-64, is held to them: that is done to a private answer and
    costs nothing. Step, scale, limits and cost are those of an owner's records
    (owner/responses.py, releases/columns.py, privacy/noise.py). ``step`` is the rounding step,
    ``scale`` the scale of the noise in steps, ``limits`` are the least and the largest answer.

    Examples
    --------
    >>> age = Number(0, 120, "laplace", 14400.0)
    >>> age.fits(age.draw(age.locate("44")))
    True
    """

    def __init__(self, low: float, high: float, kernel: str, variance: float) -> None:
        if not -math.inf < low < high < math.inf:
            raise ValueError("a number needs a declared range low < high.")
        if kernel not in {"gaussian", "laplace"}:
            raise ValueError("the noise must be gaussian or laplace.")
        deviation = math.sqrt(variance) if 0 < variance < math.inf else math.nan
        if not 2.0**-12 <= deviation / (high - low) <= 2.0**16:
            raise ValueError(
                "the standard deviation must be 1/4096 to 65536 times the declared range."
            )
        self.deviation = deviation
        self.low, self.high, self.kernel = float(low), float(high), kernel
        self.step = grid_step(deviation)
        if not max(abs(low), abs(high)) / self.step < 2.0**52:
            raise ValueError("the range lies too far from zero for its noise; shift the values.")
        scale = deviation / self.step / (math.sqrt(2) if kernel == "laplace" else 1)
        reach = max(1, round(high / self.step) - round(low / self.step))
        self.scale = Fraction(scale)
        far = _TAILS[kernel] * (deviation / (math.sqrt(2) if kernel == "laplace" else 1))
        self.limits = (low - far, high + far)
        self.pure = self.precision = self.slack = 0.0
        if kernel == "laplace":
            self.pure = math.nextafter((reach + 2) / scale, math.inf)  # proofs/laplace.md
        else:
            self.precision = (reach / scale) ** 2
            self.slack = (14 + reach / scale) ** 2 / (24 * scale**2)  # proofs/gaussian.md

    def locate(self, truth: Any) -> int:
        """Return the truth on the grid, given as a number or as a person wrote it."""
        try:
            value = math.nan if isinstance(truth, bool) else float(truth)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if math.isnan(value):
            raise ValueError("The truth must be a number.")  # and is not repeated
        return round(min(max(value, self.low), self.high) / self.step)

    def draw(self, index: int) -> float:
        """Return a fresh answer, a multiple of ``step`` within ``limits``."""
        sample = _gaussian if self.kernel == "gaussian" else _laplace
        least, most = (end / self.step for end in self.limits)
        moved = index + sample(self.scale)
        return min(max(moved, math.ceil(least)), math.floor(most)) * self.step

    def fits(self, answer: Any) -> bool:
        """Say whether an answer can have come from here."""
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return False
        least, most = self.limits
        return least <= answer <= most and (answer / self.step).is_integer()


def grid_step(deviation: float) -> float:
    """Return the step of a number's grid: the largest power of two up to deviation / 2^20.

    It is read off the float. A logarithm is rounded, and not in the same way on every machine.
    """
    return math.ldexp(1.0, math.frexp(deviation)[1] - 21)


# All that is drawn comes from here, so that a program in another language can draw the same.


def _bits(count: int) -> int:
    """Return an integer of ``count`` random bits: the first of as few fresh bytes as hold them."""
    fresh = secrets.token_bytes(-(-count // 8))
    return int.from_bytes(fresh, "big") >> (-count % 8)


def _below(limit: int) -> int:
    """Return a random integer from 0 to ``limit`` - 1, all equally likely.

    It takes as many bits as the largest has, again and again, until they are one of them.
    """
    count = (limit - 1).bit_length()
    while (value := _bits(count)) >= limit:
        pass
    return value


# Exact samplers of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010): integers and fractions.


def _with_chance_exp(x: Fraction) -> bool:
    """Return True with probability e^-x, for x >= 0 (Algorithm 1)."""
    while x > 1:
        if not _with_chance_exp(Fraction(1)):
            return False
        x -= 1
    k = 1
    while _below(k * x.denominator) < x.numerator:  # with probability x / k
        k += 1
    return k % 2 == 1


def _laplace(scale: Fraction) -> int:
    """Return n with probability proportional to e^(-|n| / scale) (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = _below(t)
        if not _with_chance_exp(Fraction(u, t)):
            continue
        while _with_chance_exp(Fraction(1)):
            u += t
        n, negative = u // s, _bits(1)
        if n or not negative:  # zero has one sign only
            return -n if negative else n


def _gaussian(scale: Fraction) -> int:
    """Return n with probability proportional to e^(-n^2 / (2 scale^2)) (Algorithm 3)."""
    t, variance = math.floor(scale) + 1, scale * scale
    while True:
        n = _laplace(Fraction(t))
        if _with_chance_exp((abs(n) - variance / t) ** 2 / (2 * variance)):
            return n


Noise = Choice | Number | Report


def _cost(noises: Sequence[Noise], delta: float) -> tuple[float, float]:
    """Return (epsilon, delta) of answers together, rounded up; without Gaussians delta is 0.

    Pure losses add, Gaussian ones join exactly, and the sum of both bounds all.
    """
    pure = math.fsum(noise.pure for noise in noises)
    precision = math.fsum(noise.precision for noise in noises)
    if not precision:
        return pure if len(noises) == 1 else math.nextafter(pure, math.inf), 0.0
    if delta >= NO_PROTECTION_DELTA:
        raise ValueError(
            f"delta must be below {NO_PROTECTION_DELTA:g}: a larger one may reveal one answer in"
            " ten completely."
        )
    slack = math.fsum(noise.slack for noise in noises)  # with e^-98: the grid (proofs/gaussian.md)
    smaller = (delta - len(noises) * 2 * math.exp(-98)) * math.exp(-slack)
    if not 0 < smaller < delta < 1:
        raise ValueError("Gaussian noise needs delta between 0 and 1; Laplace noise needs none.")
    return pure + _gaussian_epsilon(precision**-0.5, smaller) + 2 * slack, delta


def _gaussian_epsilon(z: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise of z ranges (Balle and Wang 2018, Theorem 8)."""
    rho, root = 0.5 / z**2, math.sqrt(2)
    low, high = 0.0, rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016
    if high > 700:  # beyond floats, and beyond any protection
        return high
    for _ in range(100):
        middle = (low + high) / 2
        near, far = middle * z - 0.5 / z, middle * z + 0.5 / z
        lost = (math.erfc(near / root) - math.exp(middle) * math.erfc(far / root)) / 2
        low, high = (middle, high) if lost > delta else (low, middle)
    return high * (1 + 1e-9)


# What the program says. Sentences about an answer are also in the survey's file: to change one of
# them means a new _VERSION.

_TEXTS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "changed": "Your answer is changed at random before it leaves this computer.",
        "kept": "With a probability of {chance} it stays as it is.",
        "kept at most": "With a probability of at most {chance} it stays as it is.",
        "together": "All your answers are changed at random together before they leave this"
        " computer.",
        "subset": "Of all {count} combinations of answers, {size} are sent. With a probability of"
        " {chance} the true one is among them.",
        "each": "This holds for one answer as for all of them: a single answer is not protected"
        " better.",
        "limited": "Your number is limited to the range from {low} to {high}.",
        "noise": "Random noise is added before it leaves this computer ({kernel} noise, standard"
        " deviation about {deviation}).",
        "any": "Whatever is sent could come from any true answer.",
        "factor": "No true answer makes it more than {factor} times as likely as another ({cost}).",
        "factor and delta": "For one true answer its probability is at most {factor} times what it"
        " is for another, plus {delta} ({cost}).",
        "weak": "This protects your answer only weakly.",
        "nothing": "This hides practically nothing ({cost}): a reader may become almost certain of"
        " your answer.",
        "all factor": "For all your answers together the factor is {factor} ({cost}).",
        "all factor and delta": "For all your answers together the factor is {factor}, and the"
        " added probability is {delta} ({cost}).",
        "all weak": "All your answers together are protected only weakly.",
        "all nothing": "All your answers together are practically not hidden ({cost}): a reader may"
        " become almost certain of them.",
        "rest": "This does not hide that you took part, or what other people's answers suggest"
        " about you.",
        "large delta": "Large delta: in the worst case, noise with delta = {delta} reveals your"
        " answers completely with probability {delta} (1 in {count}).",
        "no protection": "No protection: in the worst case, noise with delta = {delta} reveals your"
        " answers completely with probability {delta} (1 in {count}).",
        "cost": "epsilon = {epsilon}",
        "cost and delta": "epsilon = {epsilon}, delta = {delta}",
        "more than": "more than {chance}",
        "bars": "Lines that begin with | are the survey's own words. All other lines are this"
        " program's.",
        "survey": "Survey {id}",
        "about": "What the organisers say:",
        "organiser": "Organiser: {text}",
        "contact": "Contact: {text}",
        "purpose": "Purpose: {text}",
        "notice": "Data protection: {text}",
        "deleted": "Stored answers are deleted after the release, on {text} at the latest.",
        "question": "Question {index} of {count}:",
        "answers": "Answers: {answers}",
        "range": "{low} to {high}",
        "prompt": "Your true answer (this program changes it at random before it writes it): ",
        "not an answer": "This is not one of the possible answers.",
        "not a number": "This is not a number.",
        "answered": "You have answered before. The program gives the same answers again, also where"
        " the truth has changed.",
        "surveys": "All {count} surveys in {memory} together: {cost}.",
        "written": "Your answers are in {output}. Send that file. Keep {memory} and do not send it:"
        " with it, you give the same answers if you are asked again.",
    },
    "de": {
        "changed": "Ihre Antwort wird zufällig verändert, bevor sie diesen Computer verlässt.",
        "kept": "Mit einer Wahrscheinlichkeit von {chance} bleibt sie, wie sie ist.",
        "kept at most": "Mit einer Wahrscheinlichkeit von höchstens {chance} bleibt sie, wie sie"
        " ist.",
        "together": "Alle Ihre Antworten werden gemeinsam zufällig verändert, bevor sie diesen"
        " Computer verlassen.",
        "subset": "Von allen {count} Kombinationen von Antworten werden {size} gesendet. Mit einer"
        " Wahrscheinlichkeit von {chance} ist die wahre darunter.",
        "each": "Das gilt für eine Antwort wie für alle zusammen: Eine einzelne ist nicht besser"
        " geschützt.",
        "limited": "Ihre Zahl wird auf den Bereich von {low} bis {high} begrenzt.",
        "noise": "Bevor sie diesen Computer verlässt, wird ein zufälliger Betrag addiert"
        " ({kernel}-Rauschen, Standardabweichung etwa {deviation}).",
        "any": "Was gesendet wird, kann von jeder wahren Antwort stammen.",
        "factor": "Keine wahre Antwort macht es mehr als {factor}-mal so wahrscheinlich wie eine"
        " andere ({cost}).",
        "factor and delta": "Die Wahrscheinlichkeit dafür ist bei einer wahren Antwort höchstens"
        " {factor}-mal so groß wie bei einer anderen, plus {delta} ({cost}).",
        "weak": "Das schützt Ihre Antwort nur schwach.",
        "nothing": "Das verbirgt praktisch nichts ({cost}): Wer es liest, kann fast sicher"
        " wissen, wie Ihre Antwort lautet.",
        "all factor": "Für alle Ihre Antworten zusammen ist der Faktor {factor} ({cost}).",
        "all factor and delta": "Für alle Ihre Antworten zusammen ist der Faktor {factor}, und die"
        " zusätzliche Wahrscheinlichkeit ist {delta} ({cost}).",
        "all weak": "Alle Ihre Antworten zusammen sind nur schwach geschützt.",
        "all nothing": "Alle Ihre Antworten zusammen sind praktisch nicht verborgen ({cost}): Wer"
        " sie liest, kann fast sicher wissen, wie sie lauten.",
        "rest": "Nicht verborgen wird, dass Sie teilgenommen haben, und auch nicht, was die"
        " Antworten anderer über Sie vermuten lassen.",
        "large delta": "Großes Delta: Im schlimmsten Fall verrät ein Rauschen mit Delta = {delta}"
        " Ihre Antworten vollständig mit der Wahrscheinlichkeit {delta} (1 von {count}).",
        "no protection": "Kein Schutz: Im schlimmsten Fall verrät ein Rauschen mit Delta = {delta}"
        " Ihre Antworten vollständig mit der Wahrscheinlichkeit {delta} (1 von {count}).",
        "cost": "Epsilon = {epsilon}",
        "cost and delta": "Epsilon = {epsilon}; Delta = {delta}",
        "more than": "mehr als {chance}",
        "bars": "Zeilen, die mit | beginnen, sind Worte der Umfrage. Alle anderen Zeilen stammen"
        " von diesem Programm.",
        "survey": "Umfrage {id}",
        "about": "Was die Veranstalter sagen:",
        "organiser": "Veranstalter: {text}",
        "contact": "Kontakt: {text}",
        "purpose": "Zweck: {text}",
        "notice": "Datenschutz: {text}",
        "deleted": "Gespeicherte Antworten werden nach der Veröffentlichung gelöscht, spätestens"
        " am {text}.",
        "question": "Frage {index} von {count}:",
        "answers": "Antworten: {answers}",
        "range": "{low} bis {high}",
        "prompt": "Ihre wahre Antwort (das Programm verändert sie zufällig, bevor es sie"
        " speichert): ",
        "not an answer": "Das ist keine der möglichen Antworten.",
        "not a number": "Das ist keine Zahl.",
        "answered": "Sie haben schon geantwortet. Das Programm gibt noch einmal dieselben"
        " Antworten, auch wenn sich die Wahrheit geändert hat.",
        "surveys": "Alle {count} Umfragen in {memory} zusammen: {cost}.",
        "written": "Ihre Antworten stehen in {output}. Senden Sie diese Datei. Bewahren Sie"
        " {memory} auf und senden Sie es nicht: Damit geben Sie dieselben Antworten, wenn Sie noch"
        " einmal gefragt werden.",
    },
}
LANGUAGES = tuple(_TEXTS)
_KERNELS = {
    "en": {"laplace": "Laplace", "gaussian": "Gaussian"},
    "de": {"laplace": "Laplace", "gaussian": "Gauß"},
}


class _Words:
    """What the program says in one language; numbers are rounded up, so that they never flatter."""

    def __init__(self, language: str) -> None:
        self.language, self._texts = language, _TEXTS[language]

    def text(self, key: str, **values: object) -> str:
        """Return a text of the catalogue with its values."""
        return self._texts[key].format(**values)

    def number(self, text: str) -> str:
        """Return a number as the language writes it."""
        return text.replace(".", ",") if self.language == "de" else text

    def up(self, value: float) -> str:
        """Return a number of a few digits, rounded up."""
        return self.number(_up(value))

    def cost(self, epsilon: float, delta: float) -> str:
        """Return epsilon, and delta unless it is 0."""
        key = "cost and delta" if delta else "cost"
        return self.text(key, epsilon=self.up(epsilon), delta=self.up(delta))

    def about_delta(self, delta: float) -> str:
        """Return what a large delta means, and nothing for a small one.

        No more is claimed: noise may be better than its delta.
        """
        if delta <= EXPLAINED_DELTA:
            return ""
        key = "no protection" if delta >= NO_PROTECTION_DELTA else "large delta"
        return self.text(key, delta=self.up(delta), count=max(1, math.floor(1 / delta)))

    def answers(self, noise: Answers | Number) -> str:
        """Return the possible answers to a question, or the range of a number."""
        if isinstance(noise, Answers):
            return " / ".join(_quoted(str(state)) for state in noise.states)
        return self.text("range", **self._ends(noise))

    def _ends(self, noise: Number) -> dict[str, str]:
        return {"low": self.number(f"{noise.low:.6g}"), "high": self.number(f"{noise.high:.6g}")}

    def _change(self, noise: Noise) -> list[str]:
        """Return how one answer is changed."""
        if isinstance(noise, Number):
            kernel = _KERNELS[self.language][noise.kernel]
            deviation = self.number(_rounded(noise.deviation, ROUND_FLOOR))  # never flatters
            return [
                self.text("limited", **self._ends(noise)),
                self.text("noise", kernel=kernel, deviation=deviation),
            ]
        if isinstance(noise, Choice) and noise.has_table:
            most = self.number(f"{_up(100 * noise.keep, 6)} %")
            return [self.text("changed"), self.text("kept at most", chance=most)]
        chance = self.number(f"{100 * noise.keep:.6g} %")
        if chance == "100 %":  # it is below 1, and never shown as 1
            chance = self.text("more than", chance=self.number("99.9999 %"))
        if isinstance(noise, Report):
            numbers = {"count": noise.count, "size": noise.size, "chance": chance}
            return [self.text("together"), self.text("subset", **numbers)]
        return [self.text("changed"), self.text("kept", chance=chance)]

    def about_question(self, noise: Noise, delta: float) -> str:
        """Return how one answer is changed, and what it gives away."""
        epsilon, delta = _cost([noise], delta)
        texts = [*self._change(noise), self.about_delta(delta)]
        if epsilon > _PRACTICALLY_NONE:
            texts.append(self.text("nothing", cost=self.cost(epsilon, delta)))
        else:
            texts += [self.text("weak")] if epsilon > _WEAK else []
            texts += [self.text("any"), self._factor("factor", epsilon, delta)]
        return " ".join(filter(None, texts))

    def about_all(self, noises: Sequence[Noise], delta: float) -> str:
        """Return what all answers together give away."""
        epsilon, delta = _cost(noises, delta)
        texts = [self.about_delta(delta)]
        if epsilon > _PRACTICALLY_NONE:
            texts.append(self.text("all nothing", cost=self.cost(epsilon, delta)))
        else:
            texts += [self.text("all weak")] if epsilon > _WEAK else []
            texts.append(self._factor("all factor", epsilon, delta))
        if isinstance(noises[0], Report):
            texts.append(self.text("each"))
        return " ".join(filter(None, [*texts, self.text("rest")]))

    def _factor(self, key: str, epsilon: float, delta: float) -> str:
        """Return by how much the truth changes a probability."""
        cost, factor = self.cost(epsilon, delta), self.up(math.exp(epsilon))
        key = f"{key} and delta" if delta else key
        allowance = self.number(_up(delta, smallest_power=-6))
        return self.text(key, factor=factor, delta=allowance, cost=cost)


def _up(value: float, digits: int = _DIGITS, smallest_power: int = -3) -> str:
    """Return a number for reading: a few digits, rounded up so that it never flatters."""
    return _rounded(value, ROUND_CEILING, digits, smallest_power)


def _rounded(value: float, rounding: str, digits: int = _DIGITS, smallest_power: int = -3) -> str:
    """Return a number of a few digits; a difference below 1e-12 of it counts as none."""
    if value == 0:
        return "0"
    away = Decimal("1e-12") * (1 if rounding == ROUND_FLOOR else -1)
    number = Context(prec=digits, rounding=rounding).plus(Decimal(value) * (1 + away)).normalize()
    power = number.adjusted()
    if smallest_power <= power < _LARGEST_POWER:
        return f"{number:f}"
    return f"{number.scaleb(-power).normalize():f}e{power}"


class MemoryEntry(NamedTuple):
    """What a line of a memory is about."""

    kind: str  # "cost" or "token" of a survey, or "answer"
    survey: str | None  # its id; None for a single question of a `Randomizer`
    question: Hashable  # of an answer, otherwise None


class Memory:
    """Protects answers from being averaged: an answer is drawn only the first time.

    Each line of the file is an entry and its value. It is on disk before the value is given out,
    and is never changed. The first line of an entry counts, also when two programs write at once.
    The file ``path`` holds what was sent, never a truth. Without one, a restart forgets.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self.values: dict[MemoryEntry, Any] = {}  # what is remembered
        self._read()

    def get_or_draw(self, entry: MemoryEntry, draw: Callable[[], Any]) -> Any:
        """Return the value of ``entry``; the first time, store what ``draw`` returns."""
        if entry not in self.values:
            value = draw()
            if self._path is None:
                self.values[entry] = value
                return value
            fields = {"version": _MEMORY_VERSION, **entry._asdict(), "value": value}
            line = json.dumps(fields)
            if json.loads(line) != fields:
                raise ValueError(
                    "A memory file can hold texts and numbers only. Name the question by one of"
                    " them."
                )
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            file = os.open(self._path, flags, 0o600)
            try:
                os.write(file, f"{line}\n".encode())  # one write; a torn line is found when read
                os.fsync(file)
            finally:
                os.close(file)
            self._read()
        return self.values[entry]

    def costs(self) -> list[tuple[float, float]]:
        """Return epsilon and delta of every survey that was answered."""
        return [tuple(value) for entry, value in self.values.items() if entry.kind == "cost"]

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        data = self._path.read_bytes()
        try:
            for line in data.splitlines():
                entry, value = _entry(json.loads(line))
                self.values.setdefault(entry, value)  # the first one counts
            complete = data[-1:] in {b"", b"\n"}
        except (LookupError, TypeError, ValueError):
            complete = False
        if not complete:
            raise ValueError(
                f"The memory {self._path} is damaged. The program draws no new answers while this"
                " file exists."
            )


def _entry(line: Any) -> tuple[MemoryEntry, Any]:
    """Return what one line of a memory says, or raise."""
    version, kind, survey, name, value = (line[key] for key in ("version", *_FIELDS))
    valid_kind = kind == "answer" or (kind in {"cost", "token"} and name is None)
    valid_cost = kind != "cost" or (
        isinstance(value, list)
        and all(isinstance(part, int | float) for part in value)
        and [part >= 0 for part in value] == [True, True]
    )
    valid_version = type(version) is int and version == _MEMORY_VERSION
    if not (valid_version and len(line) == 1 + len(_FIELDS) and valid_kind and valid_cost):
        raise ValueError
    return MemoryEntry(kind, survey, name), value


_FIELDS = (*MemoryEntry._fields, "value")


class Randomizer:
    """Protects a participant's answers: each is changed at random before it leaves, once.

    The same question gets the same answer again, because the mean of many fresh answers would be
    close to the truth.

    Parameters
    ----------
    states
        The possible answers; or a `Choice` or a `Number`.
    keep
        The probability that the true answer is sent, or the rows of P (see `Choice`).
    delta
        The delta at which the epsilon of Gaussian noise is computed.
    memory
        A file that remembers answers, also after a restart; None for no file.

    Attributes
    ----------
    noise
        The `Choice` or `Number`.
    epsilon, delta
        What one answer costs; delta is 0 unless the noise is Gaussian.

    Examples
    --------
    >>> smokes = Randomizer(["no", "yes"], 0.75)
    >>> smokes.answer("Do you smoke?", "yes") == smokes.answer("Do you smoke?", "no")
    True
    >>> round(smokes.epsilon, 2), smokes.delta
    (1.1, 0.0)
    """

    def __init__(
        self,
        states: Sequence[Hashable] | Choice | Number,
        keep: Any = None,
        *,
        delta: float = 1e-6,
        memory: str | Path | None = None,
    ) -> None:
        self.noise = states if isinstance(states, Choice | Number) else Choice(states, keep)
        self.epsilon, self.delta = _cost([self.noise], delta)
        self._memory = Memory(memory)

    def answer(self, question: Hashable, truth: object) -> Any:
        """Return the randomised answer to ``question``, always the same one.

        Parameters
        ----------
        question
            Its name. Another name is another question.
        truth
            The true answer; it is read the first time only.

        Raises
        ------
        ValueError
            If the truth is not a possible answer, or the memory holds another question of that
            name.
        """
        index = self.noise.locate(truth)
        entry = MemoryEntry("answer", None, question)
        answer = self._memory.get_or_draw(entry, lambda: self.noise.draw(index))
        if not self.noise.fits(answer):
            raise ValueError(
                "The memory holds an answer to another question of that name. Use another name."
            )
        return answer


class Survey(NamedTuple):
    """A survey that was checked. Its id is a hash of everything else in it."""

    content: Mapping[str, Any]  # the JSON value of the file
    noises: Mapping[str, Answers | Number]  # of each question, by its name
    report: Report | None  # of all answers together; then no question has noise of its own
    data: bytes  # of the file

    @property
    def parts(self) -> dict[Any, Any]:
        """What is drawn: an answer to each question, by its name, or (None) one report."""
        return dict(self.noises) if self.report is None else {None: self.report}

    @property
    def id(self) -> str:
        """The survey's own name, ``sha256:...``."""
        return str(self.content["id"])

    @property
    def language(self) -> str:
        """The language of the program's words."""
        return str(self.content["language"])


def make_survey(
    title: str,
    questions: Sequence[Mapping[str, Any]],
    label: str,
    delta: float = 1e-6,
    language: str = "en",
    *,
    about: Mapping[str, str] = MappingProxyType({}),
    report: Mapping[str, Any] | None = None,
) -> Survey:
    """Return a survey whose guarantees are computed from its numbers.

    Each of the ``questions`` has a ``name``, a ``text``, either ``states`` or a ``range`` (low and
    high), and a ``noise``: keep, table, or kernel and variance. ``label`` is the name of a question
    with states, that the others may be used to predict. ``delta`` is that at which the epsilon of
    Gaussian noise is computed. ``about`` has what the organisers say: all of `ABOUT`, or nothing.
    With a ``report`` (``size`` and ``keep`` of a `Report`), all questions have states and no noise.

    Examples
    --------
    >>> question = {"name": "q", "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}}
    >>> print(make_survey("Example", [question], "q").content["guarantee"][:62])
    For all your answers together the factor is 3 (epsilon = 1.1).
    """
    if language not in LANGUAGES:
        raise ValueError(f"the language must be {' or '.join(LANGUAGES)}.")
    asked = {_line(question["name"]): _asked(question, report) for question in questions}
    valid_names = all(name and "=" not in name for name in asked)
    if not valid_names or not 0 < len(asked) == len(questions) or not _differ(asked):
        raise ValueError("questions need different names, without an equals sign.")
    if label not in asked or isinstance(asked[label], Number):
        raise ValueError("the label must be the name of a question with possible values.")
    survey = Survey({}, asked, None if report is None else Report.of(asked, report), b"")
    words, noises = _Words(language), list(survey.parts.values())
    each = [words.about_question(noise, _number(delta)) for noise in noises]
    each = each * len(questions) if report is not None else each
    together = words.about_all(noises, delta)
    content: dict[str, Any] = {
        "suffice": "survey",
        "version": _VERSION,
        "language": language,
        "title": _line(title),
        "about": _about(about),
        "label": label,
        "delta": delta,
        "questions": [
            {**question, "guarantee": said} for question, said in zip(questions, each, strict=True)
        ],
        "guarantee": together,
        **({} if report is None else {"report": dict(report)}),
    }
    content["id"] = _id(_canonical(content))
    return survey._replace(content=content, data=_canonical(content))


def read_survey(data: bytes) -> Survey:
    """Return the survey in a file, after computing its words anew from its numbers.

    A file that is damaged, or whose words are not those that its numbers mean, is a `SurveyError`.
    """
    try:
        content = _parsed(data)
        bare = [{k: v for k, v in q.items() if k != "guarantee"} for q in content["questions"]]
        _check_version(content["version"])
        parts = (content[key] for key in ("label", "delta", "language"))
        about, report = content["about"], content.get("report")
        survey = make_survey(content["title"], bare, *parts, about=about, report=report)
        same = _stated_guarantees(content) == _stated_guarantees(survey.content)
        without_id = data.replace(f' "id": "{content["id"]}",\n'.encode(), b"", 1)
    except ValueError as error:
        raise SurveyError(f"This is not a valid survey: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):
        raise SurveyError("This is not a valid survey: a part is missing or malformed.") from None
    if not same:
        raise SurveyError("This survey does not do what it says. Do not answer it.")
    complete = content.keys() == survey.content.keys() and content["suffice"] == "survey"
    if not complete or content["id"] != _id(without_id):
        raise SurveyError("The survey was altered or damaged: its id does not match its contents.")
    return survey._replace(content=content, data=data)


def _id(data: bytes) -> str:
    """Return the id of a survey, whose bytes these are without the line of the id."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _check_version(version: object) -> None:
    if type(version) is not int or version != _VERSION:
        raise ValueError("this program does not read its version.")


def _stated_guarantees(content: Mapping[str, Any]) -> list[str]:
    return [q["guarantee"] for q in content["questions"]] + [content["guarantee"]]


ABOUT = ("organiser", "contact", "purpose", "notice", "deleted")  # what organisers say
_DATE = re.compile("[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}")


def _about(texts: Mapping[str, Any]) -> dict[str, str]:
    """Return what the organisers say, if they say all of it, or nothing."""
    if texts.keys() not in (set(), set(ABOUT)):
        raise ValueError("the organisers must say all about themselves, or nothing.")
    if not all(_line(text, 1000) for text in texts.values()):
        raise ValueError("what the organisers say about themselves must not be empty.")
    if texts and not _DATE.fullmatch(texts["deleted"]):
        raise ValueError("the date of deletion must be written as 2027-03-31.")
    if texts:
        dt.date.fromisoformat(texts["deleted"])  # there is such a day
    return dict(texts)


def _asked(
    question: Mapping[str, Any], report: Mapping[str, Any] | None = None
) -> Answers | Number:
    """Return the answers to a question with its noise; whatever is not expected raises."""
    _line(question["text"], 1000)
    if report is not None:
        if set(question) != {"name", "text", "states"}:
            raise ValueError("in a report of all answers, a question has states and no noise.")
        return Answers(_states(question["states"]))
    fields, noise = set(question) - {"name", "noise"}, question["noise"]
    if fields == {"text", "range"} and set(noise) == {"kernel", "variance"}:
        low, high = map(_number, question["range"])
        return Number(low, high, _line(noise["kernel"]), _number(noise["variance"]))
    if fields != {"text", "states"} or set(noise) not in ({"keep"}, {"table"}):
        raise ValueError(
            "a question has states or a range, and noise that fits them. It cannot depend on an"
            " earlier answer: whether somebody is asked would show that answer."
        )
    states = _states(question["states"])
    if "keep" in noise:
        return Choice(states, _number(noise["keep"]))
    return Choice(states, [[_number(p) for p in row] for row in noise["table"]])


def _states(answers: Any) -> list[Any]:
    """Return possible answers that look different from each other."""
    check = _line if isinstance(answers, list) and isinstance(answers[0], str) else _integer
    states = [check(state) for state in answers]
    if not _differ(states):
        raise ValueError("states must look different from each other.")
    return states


# Text from a survey is data: it is shown in quotes. It can neither steer a terminal nor look like
# the words of this program.

_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and signs that show nothing
_UNSEEN = frozenset(map(chr, (0x34F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10),
                              *range(0xE0100, 0xE01F0))))  # fmt: skip
_MOST_MARKS = 4  # accents on one letter; more would run into other lines


def _plain(text: str) -> str:
    """Return a text as it may be shown: nothing unprintable or unseen, blanks one at a time."""
    letters, marks = [], 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in {"Mn", "Me"} else 0
        visible = letter.isprintable() and letter not in _UNSEEN and marks <= _MOST_MARKS
        letters.append(" " if letter in _BLANKS else letter if visible else "\ufffd")
    return " ".join("".join(letters).split())


def _quoted(text: str) -> str:
    """Return a text between quotation marks that it cannot close itself."""
    return json.dumps(_plain(text), ensure_ascii=False)


def _differ(values: Iterable[object]) -> bool:
    """Say whether values look different from each other."""
    texts = [unicodedata.normalize("NFC", _plain(str(value))) for value in values]
    return len(set(texts)) == len(texts)


def _line(value: Any, most: int = 200) -> str:
    """Return a text of a survey, if it is shown exactly as it is."""
    if not isinstance(value, str) or len(value) > most or _plain(value) != value:
        raise ValueError(
            f"texts must be one printable line of at most {most} letters, without two blanks in a"
            " row, blanks at an end, or signs that cannot be seen."
        )
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("something else stands where a number belongs.")
    return float(value)  # as other languages read it


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**53:
        raise ValueError("states must be texts, or integers.")
    return value


def _canonical(value: object) -> bytes:
    """Return the one form in which a file is written: lines for people, sorted keys."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _parsed(data: bytes) -> Any:
    """Return the value of a JSON file; a duplicate key is refused."""

    def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        return json.loads(data.decode(), object_pairs_hook=reject_duplicate_keys)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON file, or names a key twice.") from None


def respond(
    survey: Survey, truths: Mapping[str, object], memory: Memory | str | Path | None
) -> tuple[bytes, list[str]]:
    """Return one participant's answer file, and the names of questions answered before.

    All truths are checked before anything is drawn.

    Parameters
    ----------
    survey
        The survey, as `read_survey` returned it.
    truths
        The true answers by question. A question that the memory holds needs none.
    memory
        The memory, or its file. An answer that it holds is given again, whatever the truth is.

    Raises
    ------
    ValueError
        If a truth is missing or not a possible answer, or the memory was changed.
    """
    book = memory if isinstance(memory, Memory) else Memory(memory)
    before = [name for name in survey.noises if _entry_of(survey, name) in book.values]
    if not truths.keys() <= survey.noises.keys():
        raise ValueError("There is a truth for a name that no question has. Remove it.")
    if missing := [n for n in survey.noises if n not in before and n not in truths]:
        raise ValueError(f"There is no truth for {', '.join(map(_quoted, missing))}.")
    indices: dict[str, int] = {}
    for name, truth in truths.items():
        try:
            indices[name] = survey.noises[name].locate(truth)
        except ValueError as error:
            raise ValueError(f"{_quoted(name)}: {error}") from None
    cost = _cost(list(survey.parts.values()), survey.content["delta"])
    book.get_or_draw(MemoryEntry("cost", survey.id, None), lambda: list(cost))
    token = book.get_or_draw(MemoryEntry("token", survey.id, None), lambda: f"{_bits(128):032x}")
    drawn: dict[str | None, Any] = {}
    for part, noise in survey.parts.items():
        true: Any = indices.get(part or "")
        if part is None:
            true = [indices.get(question) for question in survey.noises]
        entry = MemoryEntry("answer", survey.id, part)
        drawn[part] = book.get_or_draw(entry, lambda: noise.draw(true))  # noqa: B023  # now
        if not noise.fits(drawn[part]):
            raise ValueError("The memory was changed: it holds a value that no answer can have.")
    head = {"suffice": "answer", "version": 1, "survey": survey.id, "token": token}
    body = {"answers": drawn} if survey.report is None else {"report": drawn[None]}
    return _canonical({**head, **body}), before


def _entry_of(survey: Survey, name: str) -> MemoryEntry:
    """Return the entry of a memory that holds what was drawn for a question."""
    return MemoryEntry("answer", survey.id, None if survey.report is not None else name)


def respond_to_file(
    path: Path, output: Path, given: Sequence[str], truths: Path | None, memory: Path | None
) -> None:
    """Read a survey, say what it gives away, ask for the truth, and write the answer file.

    True answers are ``given`` as NAME=VALUE, or in a JSON file as {NAME: VALUE}. Missing ones are
    asked at a terminal. The file ``memory`` remembers answers; by default it is OUTPUT.memory.
    """
    survey = read_survey(_bytes(path))
    words = _Words(survey.language)
    _say(words.text("bars"))
    _say(words.text("survey", id=survey.id))
    _show(_quoted(survey.content["title"]))
    if about := survey.content["about"]:
        _say(words.text("about"))
        for key in ABOUT:
            text = about[key] if key == "deleted" else _quoted(about[key])
            _show(words.text(key, text=text))
    for name in survey.noises:
        _show_question(survey, name)
    _say(_about_all(survey))
    memory_path = Path(f"{output}.memory") if memory is None else memory
    book = Memory(memory_path)
    true_answers: Any = {} if truths is None else _parsed(_bytes(truths))
    if not isinstance(true_answers, dict) or not all("=" in item for item in given):
        raise ValueError("Write a truth as NAME=VALUE, or in a file as {NAME: VALUE}.")
    true_answers |= dict(item.split("=", 1) for item in given)
    for name in survey.noises if sys.stdin.isatty() else ():
        if name not in true_answers and _entry_of(survey, name) not in book.values:
            true_answers[name] = _ask(survey, name)
    sheet, before = respond(survey, true_answers, book)
    if before:
        _say(words.text("answered"))
    if len(costs := book.costs()) > 1:
        epsilon, delta = map(math.fsum, zip(*costs, strict=True))
        total = words.text(
            "surveys", count=len(costs), memory=memory_path, cost=words.cost(epsilon, delta)
        )
        _say(f"{words.about_delta(delta)} {total}".strip())
    _write_once(output, sheet)
    _say(words.text("written", output=output, memory=memory_path))


def _write_once(output: Path, sheet: bytes) -> None:
    """Write an answer file; one that exists and differs is an error."""
    try:
        with output.open("xb") as file:
            file.write(sheet)
    except FileExistsError:
        if _bytes(output) != sheet:
            raise ValueError(
                f"{output} exists and has other contents. The program does not overwrite it;"
                " choose another name."
            ) from None


def _about_all(survey: Survey) -> str:
    """Return what all answers give away, in the program's present words."""
    noises = list(survey.parts.values())
    return _Words(survey.language).about_all(noises, survey.content["delta"])


def _show_question(survey: Survey, name: str) -> None:
    """Print a question in the survey's words, then what its answer gives away in ours."""
    words, names, noise = _Words(survey.language), list(survey.noises), survey.noises[name]
    texts = {q["name"]: q["text"] for q in survey.content["questions"]}
    _say("\n" + words.text("question", index=names.index(name) + 1, count=len(names)))
    _show(f"{_quoted(name)}: {_quoted(texts[name])}" if texts[name] else _quoted(name))
    _show(words.text("answers", answers=words.answers(noise)))
    drawn: Any = survey.report or noise
    _say(words.about_question(drawn, survey.content["delta"]))


def _ask(survey: Survey, name: str) -> str:
    """Return what a person typed, when it can be the truth; our own words come last."""
    words, noise = _Words(survey.language), survey.noises[name]
    _show_question(survey, name)
    _say(_about_all(survey))
    while True:
        typed = input(words.text("prompt"))
        try:
            noise.locate(typed)
        except ValueError:
            _say(words.text("not a number" if isinstance(noise, Number) else "not an answer"))
        else:
            return typed


def _show(text: str) -> None:
    """Print a survey's own text, in lines that are too short for a terminal to break."""
    width = max(20, min(shutil.get_terminal_size().columns, 100) - 6)
    while text:
        wide = (unicodedata.east_asian_width(letter) in "AFW" for letter in text[:width])
        end = sum(used <= width for used in itertools.accumulate(1 + both for both in wide))
        if end < len(text) and (blank := text.rfind(" ", 1, end + 1)) > 0:
            end = blank
        _say(f"  | {text[:end]}")
        text = text[end:].lstrip()


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes. The program does not read it.")
    return data


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Run ``respond``: 0, or 2 for a wrong call, 3 for a bad survey, 6 if the disk refused."""
    parser = argparse.ArgumentParser(
        description="Answer a survey: your answers are changed at random before they are written."
    )
    command = parser.add_subparsers(required=True).add_parser("respond")
    command.add_argument("survey", type=Path)
    command.add_argument("-o", "--output", type=Path, required=True, help="answer file to write")
    command.add_argument(
        "--truth", action="append", default=[], metavar="NAME=VALUE",
        help="your true answer, once per question; other users of this computer can see it while"
        " the program runs",
    )  # fmt: skip
    command.add_argument("--truth-file", type=Path, help="your true answers as JSON: {NAME: VALUE}")
    command.add_argument(
        "--memory", type=Path, help="file that remembers your answers; default: OUTPUT.memory"
    )
    options = parser.parse_args(words)
    try:
        respond_to_file(
            options.survey, options.output, options.truth, options.truth_file, options.memory
        )
    except (OSError, ValueError, EOFError) as error:
        sys.stderr.write(f"participant: {error}\n")
        return 3 if isinstance(error, SurveyError) else 6 if isinstance(error, OSError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
