"""One person, one record, one randomised answer; standard library only.

A participant runs this file alone, on their own machine, and can read all of it:

    python participant.py respond SURVEY -o ANSWER

It checks the survey, says in words what answering gives away (computed here, from the survey's
numbers), asks for the truth, randomises each answer and writes one answer file. The truth is
written nowhere. What was answered is kept beside it, so that asking again brings the same answer.
The file is long because it has to be whole: it imports nothing from the rest of the package.
"""

import argparse
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
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "MOST_BYTES",
    "Choice",
    "Memory",
    "MemoryEntry",
    "Number",
    "Randomizer",
    "Survey",
    "SurveyError",
    "main",
    "make_survey",
    "read_survey",
    "respond",
    "respond_to_file",
]  # fmt: skip

MOST_BYTES = 2**20  # of a survey or an answer
_WHOLE = 2**64
_MOST_STATES = 256
_MOST_TABLE = 64  # the exact check of a larger one would take minutes
_NAME_ONLY = 20.0  # beyond this epsilon nothing is hidden, whatever its name
NO_PROTECTION_DELTA, EXPLAINED_DELTA = 0.1, 1e-3  # those of privacy/calibrate.py
_TAILS = {"laplace": 46, "gaussian": 10}  # of so many scales: beyond with probability < 2^-64
_VERSION = 2  # of surveys and memories; 1 is read


class SurveyError(ValueError):
    """A survey is damaged, or says something else in words than in numbers."""


class Choice:
    """Hides one answer among all that could be given: what is sent is drawn at random.

    P_ij = P[answer i | truth j] is ``noise``, as rows; or the truth is sent with the probability
    ``noise``, and otherwise one of the others, evenly. All are multiples of 2^-64, and the cost

        epsilon = max_i ln(max_j P_ij / min_j P_ij)

    is computed from those integers, which are those of an owner's records (privacy/response.py).
    """

    precision = slack = 0.0  # not Gaussian

    def __init__(self, states: Sequence[Hashable], noise: Any) -> None:
        self.states, count = tuple(states), len(states)
        if not 2 <= count <= _MOST_STATES or len(set(self.states)) < count:
            raise ValueError(f"states must list 2 to {_MOST_STATES} different answers.")
        if isinstance(noise, int | float):
            self._even, self._table = _even(count, noise), None
            ratio = Fraction(*self._even)
            how = f"sent as it is with a probability of {_percent(noise)}, otherwise as another"
        else:
            self._table = _by_truth(count, noise)
            ratio = max(Fraction(max(row), min(row)) for row in zip(*self._table, strict=True))
            how = "replaced at random, by a table of probabilities"
        bound = math.log(ratio.numerator) - math.log(ratio.denominator)
        self.pure = bound + 4 * math.ulp(64 * math.log(2))  # rounded up
        self.words = f"Your answer is {how}."
        self.holds = " / ".join(_quoted(str(state)) for state in self.states)

    def place(self, truth: Any) -> int:
        """Return which state is the truth, as a value or as a person wrote it."""
        written = [str(state) for state in self.states]
        for known in (self.states, written, [_plain(state) for state in written]):
            if truth in known:
                return known.index(truth)
        raise ValueError("the truth must be one of the declared states.")  # and is not repeated

    def weights(self, place: int) -> list[int]:
        """Return how many of the 2^64 words give each answer, for one truth."""
        if self._table is not None:
            return self._table[place]
        kept, width = self._even
        return [kept if i == place else width for i in range(len(self.states))]

    def draw(self, place: int) -> Hashable:
        """Return a fresh answer: i for truth j with probability weights(j)[i] / 2^64."""
        word = secrets.randbits(64)
        for state, weight in zip(self.states, self.weights(place), strict=True):
            if word < weight:
                return state
            word -= weight
        raise AssertionError  # the weights sum to 2^64

    def fits(self, answer: object) -> bool:
        """Say whether an answer can have come from here."""
        return any(answer == state and type(answer) is type(state) for state in self.states)


def _even(states: int, keep: float) -> tuple[int, int]:
    """Return how many of the 2^64 words keep the truth, and how many give each other answer."""
    if not 1 / states < keep < 1:
        raise ValueError("keep must lie between 1/states and 1; both ends are excluded.")
    width = round((1 - Fraction(keep)) * _WHOLE / (states - 1))
    kept = _WHOLE - (states - 1) * width
    if not 0 < width < kept:
        raise ValueError("keep is too close to an end of its range.")
    return kept, width


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
        whole = [max(1, round(p / total * _WHOLE)) for p in exact]
        whole[column.index(max(column))] += _WHOLE - sum(whole)  # the largest takes what is left
        weights.append(whole)
    if not _invertible(weights):
        raise ValueError("P is singular, or nearly so: some truths have the same answers.")
    return weights


def _invertible(matrix: Sequence[Sequence[int]]) -> bool:
    """Say whether the pivots of an exact elimination (Bareiss 1968) are 1e-9 or more."""
    rest, last = [list(row) for row in matrix], 1
    while rest:
        top = max(rest, key=lambda row: abs(row[0]))
        rest.remove(top)
        if abs(top[0]) * 10**9 < _WHOLE * abs(last):
            return False
        rest = [
            [(x * top[0] - row[0] * y) // last for x, y in zip(row[1:], top[1:], strict=True)]
            for row in rest
        ]
        last = top[0]
    return True


class Number:
    """Hides one number in noise: it is held to low..high, put on a grid, then moved at random.

    It moves by n steps with probability proportional to e^(-|n| / scale) ("laplace", at a cost of
    epsilon = (reach + 2) / scale, reach = (high - low) / step) or to e^(-n^2 / (2 scale^2))
    ("gaussian", whose epsilon is read at a delta > 0), exactly. What would leave ``limits``, which
    happens with a probability below 2^-64, is held to them: that is done to a private answer and
    costs nothing. Step, scale, limits and cost are those of an owner's records
    (owner/responses/channels.py, release/spread.py, privacy/noise.py).
    """

    def __init__(self, low: float, high: float, kernel: str, variance: float) -> None:
        if not -math.inf < low < high < math.inf:
            raise ValueError("a number needs a declared range low < high.")
        if kernel not in {"gaussian", "laplace"}:
            raise ValueError("the noise must be gaussian or laplace.")
        deviation = math.sqrt(variance) if 0 < variance < math.inf else math.nan
        if not 2.0**-12 <= deviation / (high - low) <= 2.0**16:
            raise ValueError("the deviation must be 1/4096 to 65536 times the declared range.")
        self.low, self.high, self.kernel = float(low), float(high), kernel
        self.step = 2.0 ** (math.floor(math.log2(deviation)) - 20)
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
        self.holds = f"{low:.6g} to {high:.6g}"
        moved = f"moved at random, by about {deviation:.3g} ({kernel} noise)"
        self.words = f"Your number is held to {self.holds} and {moved}."

    def place(self, truth: Any) -> int:
        """Return the truth, as a number or as a person wrote it, on the grid."""
        try:
            value = math.nan if isinstance(truth, bool) else float(truth)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if math.isnan(value):
            raise ValueError("the truth must be a number.")  # and is not repeated
        return round(min(max(value, self.low), self.high) / self.step)

    def draw(self, place: int) -> float:
        """Return a fresh answer, a multiple of ``step`` within ``limits``."""
        sample = _gaussian if self.kernel == "gaussian" else _laplace
        least, most = (end / self.step for end in self.limits)
        moved = place + sample(self.scale)
        return min(max(moved, math.ceil(least)), math.floor(most)) * self.step

    def fits(self, answer: Any) -> bool:
        """Say whether an answer can have come from here."""
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return False
        least, most = self.limits
        return least <= answer <= most and (answer / self.step).is_integer()


# Exact samplers of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010): integers and fractions.


def _with_chance_exp(x: Fraction) -> bool:
    """Return True with probability e^-x, for x >= 0 (Algorithm 1)."""
    while x > 1:
        if not _with_chance_exp(Fraction(1)):
            return False
        x -= 1
    k = 1
    while secrets.randbelow(k * x.denominator) < x.numerator:  # with probability x / k
        k += 1
    return k % 2 == 1


def _laplace(scale: Fraction) -> int:
    """Return n with probability proportional to e^(-|n| / scale) (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = secrets.randbelow(t)
        if not _with_chance_exp(Fraction(u, t)):
            continue
        while _with_chance_exp(Fraction(1)):
            u += t
        n, negative = u // s, secrets.randbits(1)
        if n or not negative:  # zero has one sign only
            return -n if negative else n


def _gaussian(scale: Fraction) -> int:
    """Return n with probability proportional to e^(-n^2 / (2 scale^2)) (Algorithm 3)."""
    t, variance = math.floor(scale) + 1, scale * scale
    while True:
        n = _laplace(Fraction(t))
        if _with_chance_exp((abs(n) - variance / t) ** 2 / (2 * variance)):
            return n


def _cost(noises: Sequence[Choice | Number], delta: float) -> tuple[float, float]:
    """Return (epsilon, delta) of answers together, rounded up; without Gaussians delta is 0.

    Pure losses add, Gaussian ones join exactly, and the sum of both bounds all.
    """
    pure = math.fsum(noise.pure for noise in noises)
    precision = math.fsum(noise.precision for noise in noises)
    if not precision:
        return pure if len(noises) == 1 else math.nextafter(pure, math.inf), 0.0
    if delta >= NO_PROTECTION_DELTA:
        raise ValueError(
            f"delta must be below {NO_PROTECTION_DELTA:g}: with more, one answer in ten or more may"
            " be revealed completely."
        )
    slack = math.fsum(noise.slack for noise in noises)  # with e^-98: the grid (proofs/gaussian.md)
    left = (delta - len(noises) * 2 * math.exp(-98)) * math.exp(-slack)
    if not 0 < left < delta < 1:
        raise ValueError("Gaussian noise needs delta between 0 and 1; Laplace noise needs none.")
    return pure + _gaussian_epsilon(precision**-0.5, left) + 2 * slack, delta


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


def _promise(noises: Sequence[Choice | Number], delta: float, version: int = _VERSION) -> str:
    """Return what is promised about answers, in plain words; version 1 explained no delta."""
    epsilon, delta = _cost(noises, delta)
    if version > 1 and delta > EXPLAINED_DELTA:
        return f"{_about_delta(delta)} {_promise(noises, delta, 1)}"
    cost = f"epsilon = {_up(epsilon)}" + (f", delta = {_up(delta)}" if delta else "")
    if epsilon > _NAME_ONLY:
        return f"This hides practically nothing ({cost}): who reads it can be nearly certain."
    extra = f" and an extra probability of {_up(delta)}" if delta else ""
    return (
        "Whatever is received could come from any truth; none makes it more likely than another"
        f" by more than a factor of {_up(math.exp(epsilon))}{extra} ({cost})."
    )


def _about_delta(delta: float) -> str:
    """Return what a large delta means; no more is claimed, since noise may be better than it."""
    start = "No protection" if delta >= NO_PROTECTION_DELTA else "Large delta"
    return (
        f"{start}: in the worst case, noise with delta = {_up(delta)} reveals your answers"
        f" completely with probability {_up(delta)} (1 in {max(1, math.floor(1 / delta))})."
    )


def _percent(chance: float) -> str:
    """Return a probability below 1 in percent; it is never shown as 100."""
    shown = f"{100 * chance:.6g}"
    return "more than 99.9999 %" if shown == "100" else f"{shown} %"


def _up(value: float) -> str:
    """Return a number for reading: four digits, rounded up so that it never flatters."""
    if value == 0:
        return "0"
    digits = 10.0 ** (3 - math.floor(math.log10(value)))
    return f"{math.ceil(value * digits * (1 - 1e-12)) / digits:.4g}"


class MemoryEntry(NamedTuple):
    """What a line of a memory is about: its kind, the survey, and the question.

    The kind is "cost" or "token" of a survey (the question is None), or "answer"; single questions
    of a `Randomizer` belong to no survey.
    """

    kind: str
    survey: str | None
    question: Hashable


class Memory:
    """Protects answers from being averaged: what was once drawn is kept and given again.

    With a ``path`` it survives a restart. Each line of that file is an entry and its value; it is
    on disk before the value is given out, is never changed, and the first line of an entry counts,
    also when two programs write at once. The file holds what was sent, never a truth.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self.kept: dict[MemoryEntry, Any] = {}
        self._read()

    def once(self, entry: MemoryEntry, draw: Callable[[], Any]) -> Any:
        """Return what is kept for ``entry``; if there is nothing, keep what ``draw`` returns."""
        if entry not in self.kept:
            value = draw()
            if self._path is None:
                self.kept[entry] = value
            else:
                self._append({"version": _VERSION, **entry._asdict(), "value": value})
                self._read()
        return self.kept[entry]

    def costs(self) -> list[tuple[float, float]]:
        """Return epsilon and delta of every survey that was answered."""
        return [tuple(value) for entry, value in self.kept.items() if entry.kind == "cost"]

    def _append(self, fields: dict[str, Any]) -> None:
        line = json.dumps(fields)
        if json.loads(line) != fields:
            raise ValueError("a memory that is a file keeps texts and numbers only.")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        file = os.open(self._path, flags, 0o600)  # type: ignore[arg-type]  # there is a path
        try:
            os.write(file, f"{line}\n".encode())  # one write; a torn line is found when it is read
            os.fsync(file)
        finally:
            os.close(file)

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        data = self._path.read_bytes()
        try:
            for line in data.splitlines():
                for entry, value in _entries(json.loads(line)):
                    self.kept.setdefault(entry, value)  # the first one counts
            whole = data[-1:] in {b"", b"\n"}
        except (LookupError, TypeError, ValueError):
            whole = False
        if not whole:
            raise ValueError(
                f"the memory {self._path} is damaged; nothing is drawn anew while it is there."
            )


def _entries(line: Any) -> list[tuple[MemoryEntry, Any]]:
    """Return what one line of a memory says, or raise.

    A line of version 1 is a pair: a `Randomizer`'s question, or "SURVEY cost", "SURVEY token" or
    "SURVEY answer NAME", which are told apart by the form of a survey's id.
    """
    if isinstance(line, list):
        key, value = line
        found = [MemoryEntry("answer", None, key)]
        old = _OLD_KEY.fullmatch(key) if isinstance(key, str) else None
        if old and (old["kind"] != "cost" or _is_cost(value)):
            found.append(MemoryEntry(old["kind"] or "answer", old["survey"], old["name"]))
        return [(entry, value) for entry in found]
    version, kind, survey, name, value = (line[key] for key in ("version", *_FIELDS))
    known = kind == "answer" or (kind in {"cost", "token"} and name is None)
    costs = kind != "cost" or _is_cost(value)
    if len(line) > 1 + len(_FIELDS) or version != _VERSION or not (known and costs):
        raise ValueError
    return [(MemoryEntry(kind, survey, name), value)]


def _is_cost(value: Any) -> bool:
    numbers = isinstance(value, list) and all(isinstance(part, int | float) for part in value)
    return numbers and [part >= 0 for part in value] == [True, True]


_FIELDS = (*MemoryEntry._fields, "value")
_OLD_KEY = re.compile(
    "(?P<survey>sha256:[0-9a-f]{64}) (?:(?P<kind>cost|token)|answer (?P<name>.*))", re.DOTALL
)


class Randomizer:
    """Protects a participant's answers: each is replaced at random before it leaves, once.

    ``states`` and ``keep`` (a probability, or the rows of P) are those of `Choice`; a `Number` may
    stand in their place. Asked again, a question gets the same answer again, because many fresh
    ones would average the noise away; with a file as ``memory`` also after a restart. One answer
    costs ``epsilon`` at ``delta``, which is 0 unless the noise is Gaussian.
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
        """Return the randomised answer to ``question``: the same one, however often it is asked."""
        place = self.noise.place(truth)
        entry = MemoryEntry("answer", None, question)
        answer = self._memory.once(entry, lambda: self.noise.draw(place))
        if not self.noise.fits(answer):
            raise ValueError("the memory holds an answer to another question of that name.")
        return answer


class Survey(NamedTuple):
    """What a survey's file says, the noise of each question by name, and the file's one form.

    Its id is a hash of everything else in it: whoever changes a survey makes another one.
    """

    content: Mapping[str, Any]
    noises: Mapping[str, Choice | Number]
    data: bytes

    @property
    def id(self) -> str:
        """The survey's own name, ``sha256:...``."""
        return str(self.content["id"])


def make_survey(
    title: str, questions: Sequence[Mapping[str, Any]], label: str, delta: float = 1e-6
) -> Survey:
    """Return a survey of ``questions``, its promises computed from their numbers.

    A question has a ``name``, a ``text``, either ``states`` or a ``range`` (low and high), and a
    ``noise``: keep, table, or kernel and variance. ``label`` names the question, one with states,
    that the others may be used to predict.
    """
    return _survey(_VERSION, title, questions, label, delta)


def _survey(
    version: int, title: str, questions: Sequence[Mapping[str, Any]], label: str, delta: float
) -> Survey:
    """Return a survey in the words of its version, after checking all of it."""
    line = _line if version > 1 else _old_line
    noises = {line(question["name"]): _noise(question, line) for question in questions}
    named = all(name and "=" not in name for name in noises)
    if not named or not 0 < len(noises) == len(questions) or not _differ(noises):
        raise ValueError("questions need different names, without an equals sign.")
    if label not in noises or isinstance(noises[label], Number):
        raise ValueError("the label must be the name of a question with states.")
    *each, whole = _told(noises.values(), _number(delta), version)
    content: dict[str, Any] = {
        "suffice": "survey",
        "version": version,
        "title": line(title),
        "label": label,
        "delta": delta,
        "questions": [
            {**question, "guarantee": words}
            for question, words in zip(questions, each, strict=True)
        ],
        "guarantee": whole,
    }
    content["id"] = "sha256:" + hashlib.sha256(_canonical(content)).hexdigest()
    return Survey(content, noises, _canonical(content))


def read_survey(data: bytes) -> Survey:
    """Return the survey in a file, or raise: its words must be those that its numbers mean."""
    try:
        given = _parsed(data)
        bare = [{k: v for k, v in q.items() if k != "guarantee"} for q in given["questions"]]
        version = _known_version(given["version"])
        made = _survey(version, given["title"], bare, given["label"], given["delta"])
        same = _promises(given) == _promises(made.content)
    except ValueError as error:
        raise SurveyError(f"this is no valid survey: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):
        raise SurveyError("this is no valid survey: a part is missing or malformed.") from None
    if not same:
        raise SurveyError("the survey's words are not what its numbers mean; do not answer it.")
    if _canonical(given) != made.data:
        raise SurveyError("the survey was altered or damaged: its id is not that of its contents.")
    return made


def _promises(content: Mapping[str, Any]) -> list[str]:
    return [q["guarantee"] for q in content["questions"]] + [content["guarantee"]]


def _known_version(version: object) -> int:
    if version not in range(1, _VERSION + 1):
        raise ValueError("it is of a version that this program does not read.")
    return int(version)  # type: ignore[call-overload]  # a number


def _told(noises: Iterable[Choice | Number], delta: float, version: int = _VERSION) -> list[str]:
    """Return what is promised about each question, and last about all of them."""
    listed = list(noises)
    each = [f"{noise.words} {_promise([noise], delta, version)}" for noise in listed]
    return [*each, f"All answers together: {_promise(listed, delta, version)}"]


def _noise(question: Mapping[str, Any], line: Callable[..., str]) -> Choice | Number:
    """Return the noise of a question; whatever is not expected raises."""
    holds, noise = set(question) - {"name", "noise"}, question["noise"]
    line(question["text"], 1000)
    if holds == {"text", "range"} and set(noise) == {"kernel", "variance"}:
        low, high = map(_number, question["range"])
        return Number(low, high, line(noise["kernel"]), _number(noise["variance"]))
    if holds != {"text", "states"} or set(noise) not in ({"keep"}, {"table"}):
        raise ValueError("a question has states or a range, and noise that fits them.")
    listed = question["states"]
    check = line if isinstance(listed, list) and isinstance(listed[0], str) else _whole
    states = [check(state) for state in listed]
    if not _differ(states):
        raise ValueError("states must look different from each other.")
    if "keep" in noise:
        return Choice(states, _number(noise["keep"]))
    return Choice(states, [[_number(p) for p in row] for row in noise["table"]])


# What strangers write is data: it is shown in quotes, and can neither steer a terminal nor look
# like what this program says.

_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters and signs that show nothing
_UNSEEN = frozenset(map(chr, (0x34F, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10),
                              *range(0xE0100, 0xE01F0))))  # fmt: skip
_MOST_MARKS = 4  # accents on one letter; more would run into other lines


def _plain(text: str) -> str:
    """Return a text as it may be shown: nothing unprintable or unseen, blanks one at a time."""
    letters, marks = [], 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in {"Mn", "Me"} else 0
        seen = letter.isprintable() and letter not in _UNSEEN and marks <= _MOST_MARKS
        letters.append(" " if letter in _BLANKS else letter if seen else "\ufffd")
    return " ".join("".join(letters).split())


def _quoted(text: str) -> str:
    """Return a text between quotation marks that it cannot close itself."""
    return json.dumps(_plain(text), ensure_ascii=False)


def _differ(values: Iterable[object]) -> bool:
    """Say whether values look different from each other."""
    shown = [unicodedata.normalize("NFC", _plain(str(value))) for value in values]
    return len(set(shown)) == len(shown)


def _line(value: Any, most: int = 200) -> str:
    """Return a text of a survey, if it is shown exactly as it is."""
    if not isinstance(value, str) or len(value) > most or _plain(value) != value:
        raise ValueError(
            f"texts must be one printable line of at most {most} letters, without two blanks in a"
            " row, blanks at an end, or signs that cannot be seen."
        )
    return value


def _old_line(value: Any, most: int = 1000) -> str:
    """Return a text of a survey of version 1, which may be shown otherwise than it is."""
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise ValueError(f"texts must be one printable line of at most {most} letters.")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("something else stands where a number belongs.")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**53:
        raise ValueError("states must be texts, or integers.")
    return value


def _canonical(value: object) -> bytes:
    """Return the one form in which a file is written: lines for people, sorted keys."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _parsed(data: bytes) -> Any:
    """Return the value of a JSON file; a key that stands there twice is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        return json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON file, or names a key twice.") from None


def respond(
    survey: Survey, truths: Mapping[str, object], memory: Memory | str | Path | None
) -> tuple[bytes, list[str]]:
    """Return one participant's answer file, and the names of questions answered before.

    All truths are checked before anything is drawn. What ``memory`` holds is given again, whatever
    the truth is said to be now; a question that it holds needs no truth.
    """
    book = memory if isinstance(memory, Memory) else Memory(memory)
    keys = {name: MemoryEntry("answer", survey.id, name) for name in survey.noises}
    before = [name for name in keys if keys[name] in book.kept]
    if not truths.keys() <= keys.keys():
        raise ValueError("a truth is given for a name that no question has.")
    if missing := [name for name in keys if name not in before and name not in truths]:
        raise ValueError(f"there is no truth for {', '.join(map(_quoted, missing))}.")
    places: dict[str, Any] = {}
    for name, truth in truths.items():
        try:
            places[name] = survey.noises[name].place(truth)
        except ValueError as error:
            raise ValueError(f"{_quoted(name)}: {error}") from None
    cost = _cost(list(survey.noises.values()), survey.content["delta"])
    book.once(MemoryEntry("cost", survey.id, None), lambda: list(cost))
    token = book.once(MemoryEntry("token", survey.id, None), lambda: secrets.token_hex(16))
    answers = {}
    for name, noise in survey.noises.items():
        answers[name] = book.once(keys[name], lambda: noise.draw(places[name]))  # noqa: B023  # now
        if not noise.fits(answers[name]):
            raise ValueError("the memory was changed: it holds what is no answer to this survey.")
    head = {"suffice": "answer", "version": 1, "survey": survey.id, "token": token}
    return _canonical({**head, "answers": answers}), before


def respond_to_file(
    path: Path, output: Path, given: Sequence[str], truths: Path | None, memory: Path | None
) -> None:
    """Read a survey, say what it promises, get the truth, and write the answer file.

    The truth comes from ``given`` (NAME=VALUE), from the JSON file ``truths``, or by asking.
    """
    survey = read_survey(_bytes(path))
    _say("Lines that begin with | are the survey's own words. All others are this program's.")
    _say(f"Survey {survey.id}")
    _show(_quoted(survey.content["title"]))
    for name in survey.noises:
        _show_question(survey, name)
    _say(_told_whole(survey))
    place = Path(f"{output}.memory") if memory is None else memory
    book = Memory(place)
    known: Any = {} if truths is None else _parsed(_bytes(truths))
    if not isinstance(known, dict) or not all("=" in item for item in given):
        raise ValueError("a truth is given as NAME=VALUE, in a file as {NAME: VALUE}.")
    known |= dict(item.split("=", 1) for item in given)
    for name in survey.noises if sys.stdin.isatty() else ():
        if name not in known and MemoryEntry("answer", survey.id, name) not in book.kept:
            known[name] = _asked(survey, name)
    sheet, before = respond(survey, known, book)
    if before:
        _say("Answered before: the same answer is given again, whatever the truth is now.")
    if len(costs := book.costs()) > 1:
        epsilon, delta = map(math.fsum, zip(*costs, strict=True))
        about = f"{_about_delta(delta)} " if delta > EXPLAINED_DELTA else ""
        total = f"epsilon {_up(epsilon)}, delta {_up(delta)}"
        _say(f"{about}All {len(costs)} surveys in {place}: {total}.")
    try:
        with output.open("xb") as file:
            file.write(sheet)
    except FileExistsError:
        if _bytes(output) != sheet:
            reason = f"{output} is there and holds something else; it is not overwritten."
            raise ValueError(reason) from None
    _say(f"Written: {output}. Keep {place}, by which asking again brings the same answer.")


def _told_whole(survey: Survey) -> str:
    return _told(survey.noises.values(), survey.content["delta"])[-1]


def _show_question(survey: Survey, name: str) -> None:
    """Print a question in the survey's words, then what its answer gives away in ours."""
    names, noise = list(survey.noises), survey.noises[name]
    texts = {q["name"]: q["text"] for q in survey.content["questions"]}
    _say(f"\nQuestion {names.index(name) + 1} of {len(names)}:")
    _show(f"{_quoted(name)}: {_quoted(texts[name])}" if texts[name] else _quoted(name))
    _show(f"Answers: {noise.holds}")
    _say(_told([noise], survey.content["delta"])[0])


def _asked(survey: Survey, name: str) -> str:
    """Return what a person typed, once it can be the truth; our own words come last."""
    _show_question(survey, name)
    _say(_told_whole(survey))
    while True:
        typed = input("Your true answer, which is randomised before it is written: ")
        try:
            survey.noises[name].place(typed)
        except ValueError as error:
            _say(str(error))
        else:
            return typed


def _show(text: str) -> None:
    """Print what strangers wrote, in lines that no terminal breaks once more."""
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
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes; it is not read.")
    return data


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Run ``respond``; return 0, 2 for a wrong call, 3 for a bad survey, 6 if the disk refused."""
    parser = argparse.ArgumentParser(description="Answer a survey with randomised answers.")
    command = parser.add_subparsers(required=True).add_parser("respond")
    command.add_argument("survey", type=Path)
    command.add_argument("-o", "--output", type=Path, required=True, help="the answer file")
    command.add_argument("--truth", action="append", default=[], metavar="NAME=VALUE")
    command.add_argument("--truth-file", type=Path, help="the truth as JSON: {NAME: VALUE}")
    command.add_argument("--memory", type=Path, help="what was answered; default: OUTPUT.memory")
    asked = parser.parse_args(words)
    try:
        respond_to_file(asked.survey, asked.output, asked.truth, asked.truth_file, asked.memory)
    except (OSError, ValueError, EOFError) as error:
        sys.stderr.write(f"participant: {error}\n")
        return 3 if isinstance(error, SurveyError) else 6 if isinstance(error, OSError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
