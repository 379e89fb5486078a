"""The guarantee in words: what is protected, how strongly, and what is not.

Every sentence is computed from the numbers of a guarantee, and claims no more than its inequality

    P[release(D) in S] <= e^epsilon P[release(D') in S] + delta.

Printed numbers are rounded up, so that a reader never takes a guarantee for stronger than it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import NamedTuple, Protocol

from suffice import plain_text
from suffice.privacy import calibrate

__all__ = [
    "BEFORE",
    "PRACTICALLY_NONE",
    "WEAK",
    "Explanation",
    "Stated",
    "UnitWords",
    "about_delta",
    "belief_after",
    "belief_rows",
    "column_words",
    "cost_phrase",
    "describe",
    "explain",
    "lists",
    "round_up",
    "sentences",
    "unit_words",
    "words_for",
]


WEAK = 3.0  # above this epsilon, a belief of 10 % may become one of 70 %
PRACTICALLY_NONE = 10.0  # above this epsilon, a belief of 1 % may become one of 99.6 %
_FLOATS = Decimal("1e-12")  # of a number: epsilons are computed with larger allowances than this
_LARGEST_POWER = 6  # a number of more digits is written with an exponent
_LONG_CONDITION = 6  # words; after a longer one the sentence leaves "of this release" out


class Stated(Protocol):
    """The parts of a guarantee that its sentences are made from."""

    @property
    def unit(self) -> str:
        """What is protected: label, attribute, record or party."""

    @property
    def scope(self) -> str:
        """Whether it is about the release as a whole (joint) or about columns read alone."""

    @property
    def kind(self) -> str:
        """How far it reaches: global, data-dependent or none."""

    @property
    def epsilon(self) -> float | None:
        """The epsilon, or None without any protection."""

    @property
    def delta(self) -> float:
        """The delta."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about, or the table where the unit is a record of one."""

    @property
    def public(self) -> tuple[str, ...]:
        """What is taken to be public."""

    @property
    def assumptions(self) -> Sequence[object]:
        """What it rests on, as texts."""


def round_up(value: float, digits: int = 3, *, smallest_power: int = -3) -> str:
    """Return a number for reading, with at most ``digits`` digits and never too small.

    Parameters
    ----------
    value
        The number; what is above the last digit by less than 1e-12 of it counts as equal.
    digits
        The number of digits.
    smallest_power
        A number below 10 to this power is written with an exponent.

    Examples
    --------
    >>> round_up(2.718281828)
    '2.72'
    >>> round_up(1e-6)
    '1e-6'
    >>> round_up(1e-6, smallest_power=-6)
    '0.000001'
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(value) * (1 - _FLOATS)
    number = Context(prec=digits, rounding=ROUND_CEILING).plus(exact).normalize()
    power = number.adjusted()
    if smallest_power <= power < _LARGEST_POWER:
        return f"{number:f}"
    return f"{number.scaleb(-power).normalize():f}e{power}"


def cost_phrase(epsilon: float, delta: float, digits: int = 3) -> str:
    """Return epsilon and delta as sentences name them; a delta of 0 is left out.

    Examples
    --------
    >>> cost_phrase(1.0, 1e-6)
    'epsilon = 1, delta = 1e-6'
    """
    allowance = f", delta = {round_up(delta, digits)}" if delta else ""
    return f"epsilon = {round_up(epsilon, digits)}{allowance}"


@dataclass(frozen=True)
class UnitWords:
    """How sentences speak of a unit.

    Attributes
    ----------
    noun
        Its name after "each": "label".
    each_unit
        What is protected: "each label".
    changed_unit
        What the comparison changes: "any one label".
    any_unit
        What a reader may find out where nothing protects it: "any label".
    that_unit
        The unit that was spoken of: "that label".
    """

    noun: str
    each_unit: str
    changed_unit: str
    any_unit: str
    that_unit: str


def unit_words(unit: str, columns: Sequence[str] = ()) -> UnitWords:
    """Return how sentences speak of a unit, and of the columns or the table that it is one of.

    Examples
    --------
    >>> unit_words("attribute", ["age"]).each_unit
    'each value in column age'
    >>> unit_words("party").changed_unit
    'all data of any one party'
    """
    if unit == "party":
        return UnitWords(
            "party's data", "each party's data as a whole", "all data of any one party",
            "all data of any party", "that party",
        )  # fmt: skip
    if unit == "attribute":
        return _value_words(columns)
    if columns:
        table = _listed(columns)
        return UnitWords(
            unit, f"each {unit} of {table}", f"any one of these {unit}s",
            f"any {unit} of {table}", f"that {unit}",
        )  # fmt: skip
    return UnitWords(unit, f"each {unit}", f"any one {unit}", f"any {unit}", f"that {unit}")


def words_for(guarantee: Stated) -> UnitWords:
    """Return how sentences speak of the unit of a guarantee.

    A marginal guarantee names the columns that are read; unless its unit is a value, they say
    nothing about which unit is meant.
    """
    about_unit = guarantee.unit == "attribute" or guarantee.scope != "marginal"
    return unit_words(guarantee.unit, guarantee.columns if about_unit else ())


def _value_words(columns: Sequence[str]) -> UnitWords:
    """Return how sentences speak of one value: of any column, or of the named ones."""
    if not columns:
        return UnitWords(
            "value", "each value of each record, labels included", "any one value",
            "any value of any record", "that value",
        )  # fmt: skip
    named = column_words(columns)
    short = len(named.split()) == 2
    changed = f"any one value in {named}" if short else "any one of these values"
    return UnitWords(
        "value", f"each value in {named}", changed, f"any value in {named}", "that value"
    )


def column_words(columns: Sequence[str]) -> str:
    """Return columns by their names: "column age", "columns age and income"."""
    return f"column{'s' if len(columns) > 1 else ''} {_listed(columns)}"


def _listed(items: Sequence[str]) -> str:
    return plain_text.listed(items, last=" and ", each=plain_text.phrase)


def describe(guarantee: Stated) -> str:
    """Return all that a guarantee says: its sentences, what is public, and what it assumes."""
    return " ".join([*sentences(guarantee), *lists(guarantee)])


def lists(guarantee: Stated) -> list[str]:
    """Return what is public and what is assumed, one line each, as far as there is any."""
    lines = []
    if guarantee.public:
        lines.append(f"Public, not protected: {_listed(guarantee.public)}.")
    if guarantee.assumptions:
        lines.append(f"Assumes: {'; '.join(map(str, guarantee.assumptions))}.")
    return lines


def sentences(guarantee: Stated) -> list[str]:
    """Return what a guarantee protects, sentence by sentence, and what it leaves open.

    Parameters
    ----------
    guarantee
        Its unit, kind, scope, columns, epsilon and delta are read.

    Returns
    -------
    list of str
        Sentences of at most 30 words, where columns have names of one word.
    """
    words = words_for(guarantee)
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon is None or guarantee.kind == "none":
        return [
            "No protection.",
            f"A reader may be able to work out {words.any_unit} exactly.",
        ]
    warning = about_delta(delta, words.noun)
    first = [warning] if warning else []
    if guarantee.kind == "data-dependent":
        body = _data_dependent(guarantee, words, epsilon)
    elif delta >= calibrate.NO_PROTECTION_DELTA:
        cost = cost_phrase(epsilon, delta)
        body = [f"With a delta this large, no epsilon is a protection ({cost})."]
    elif guarantee.scope == "marginal":
        body = _marginal(guarantee, words, epsilon)
    else:
        body = _joint(guarantee, words, epsilon)
    return [*first, *body]


def _joint(guarantee: Stated, words: UnitWords, epsilon: float) -> list[str]:
    """Return the sentences of differential privacy of the release as a whole."""
    delta = guarantee.delta
    if epsilon > PRACTICALLY_NONE:
        cost = cost_phrase(epsilon, delta)
        certain = f"a reader may become almost certain of {words.any_unit}"
        return [f"Practically no protection ({cost}): {certain}."]
    start = "Weakly protects" if epsilon > WEAK else "Protects"
    condition = f"If {words.changed_unit} were different"
    long = bool(delta) and len(condition.split()) > _LONG_CONDITION
    result = "any result" if long else "any result of this release"
    bound = f"{_bounded(epsilon, delta)} ({cost_phrase(epsilon, delta)})"
    return [
        f"{start} {words.each_unit}.",
        f"{condition}, the probability of {result} would {bound}.",
        f"This does not hide what the rest of the data says about {words.that_unit}.",
        *_uncovered(guarantee),
    ]


def _uncovered(guarantee: Stated) -> list[str]:
    """Return what a guarantee about named columns says nothing of."""
    if guarantee.unit == "attribute" and guarantee.columns:
        return ["This guarantee does not cover labels or other columns."]
    if guarantee.unit in {"label", "record"} and guarantee.columns:
        return [f"This guarantee does not cover other {guarantee.unit}s."]
    return []


def _bounded(epsilon: float, delta: float) -> str:
    """Return by how much a probability can change, in both directions."""
    factor = round_up(math.exp(epsilon))
    if not delta:
        return f"change by at most a factor of {factor}"
    return f"be at most {factor} times what it is now, plus {round_up(delta, smallest_power=-6)}"


def _marginal(guarantee: Stated, words: UnitWords, epsilon: float) -> list[str]:
    """Return the sentences of a guarantee about columns that are read without the others."""
    cost, shown = cost_phrase(epsilon, guarantee.delta), _read_alone(guarantee)
    if epsilon > PRACTICALLY_NONE:
        return [
            f"Practically no protection, not even for {shown} ({cost}).",
            f"A reader may become almost certain of {words.any_unit}.",
            _combined(guarantee, words),
        ]
    start = "Limited and weak protection" if epsilon > WEAK else "Limited protection"
    condition = f"Read that way, if {words.changed_unit} were different"
    bound = _bounded(epsilon, guarantee.delta)
    return [
        f"{start} ({cost}): covers only {shown}.",
        f"{condition}, the probability of any result would {bound}.",
        _combined(guarantee, words),
    ]


def _read_alone(guarantee: Stated) -> str:
    """Return the part of a release that a marginal guarantee is about."""
    show = "shows when read alone" if len(guarantee.columns) == 1 else "show without the others"
    return f"what {column_words(guarantee.columns)} {show}"


def _combined(guarantee: Stated, words: UnitWords) -> str:
    """Return what a marginal guarantee does not keep a reader from."""
    several = len(guarantee.columns) > 1
    subject = "these columns" if several else _listed(guarantee.columns)
    values = "their values" if several else "its values"
    gain = values if guarantee.unit == "attribute" else words.any_unit
    return f"A reader who combines {subject} with other columns may recover {gain} exactly."


def _data_dependent(guarantee: Stated, words: UnitWords, epsilon: float) -> list[str]:
    """Return the sentences of noise, or of a scaling, that was computed from private data."""
    cost = cost_phrase(epsilon, guarantee.delta)
    each = words.each_unit.removesuffix("'s data as a whole").removesuffix(", labels included")
    lines = [
        "Not differentially private.",
        "The noise or the scaling was computed from the private data, and the release shows it.",
        f"If these settings were fixed, the guarantee for {each} would be {cost}.",
        "They are not fixed, so do not rely on this number.",
    ]
    if guarantee.scope == "marginal":
        lines[3:3] = [f"It would cover only {_read_alone(guarantee)}."]
        lines.append(_combined(guarantee, words))
    return lines


def about_delta(delta: float, noun: str) -> str:
    """Return what a large delta means; nothing for a small one.

    Publishing each unit as it is with probability delta, and nothing otherwise, has this delta at
    epsilon = 0: no more is claimed, since a mechanism may be better than its delta.
    """
    if delta <= calibrate.EXPLAINED_DELTA:
        return ""
    least = math.floor(1 / delta)
    often = f"with probability {round_up(delta)}" + (f" (1 in {least})" if least > 1 else "")
    start = "No protection" if delta >= calibrate.NO_PROTECTION_DELTA else "Large delta"
    return (
        f"{start}: in the worst case, a mechanism with delta = {round_up(delta)} reveals each"
        f" {noun} completely {often}."
    )


BEFORE = (0.01, 0.1, 0.5)  # beliefs before the release
_PERCENT = 100 * (1 - Decimal("1e-12"))  # floats may be too high by less than this
_MOST_EPSILON = 700.0  # of which e^epsilon is still a float


class Explanation(NamedTuple):
    """What a guarantee means for a belief.

    Attributes
    ----------
    title
        What the table shows.
    rows
        The belief before the release and the largest one after it; empty if no table applies.
    notes
        Sentences below the table.
    """

    title: str
    rows: list[tuple[str, str]]
    notes: list[str]

    def to_json(self) -> dict[str, object]:
        """Return the explanation as JSON values."""
        return {"title": self.title, "rows": [list(row) for row in self.rows], "notes": self.notes}


def belief_after(before: float, epsilon: float) -> float:
    """Return the largest belief after a release of ``epsilon``, where delta is 0.

    Examples
    --------
    >>> round(belief_after(0.5, 1.0), 4)
    0.7311
    """
    rest = (1 - before) * math.exp(-epsilon)
    return before / (before + rest)


def belief_rows(epsilon: float) -> list[tuple[str, str]]:
    """Return beliefs of 1, 10 and 50 % before a release, and the largest ones after it.

    Examples
    --------
    >>> belief_rows(3.0)
    [('1 %', '16.9 %'), ('10 %', '69.1 %'), ('50 %', '95.3 %')]
    """
    return [(f"{100 * before:g} %", _percent_after(before, epsilon)) for before in BEFORE]


def _percent_after(before: float, epsilon: float) -> str:
    """Return the largest belief in percent, rounded up, and never as 100 percent."""
    if epsilon > _MOST_EPSILON:
        return "almost 100 %"
    doubt = (1 - before) * math.exp(-epsilon)
    after = _PERCENT * (1 - Decimal(doubt) / (Decimal(before) + Decimal(doubt)))
    for decimals in range(1, 9):
        shown = after.quantize(Decimal(10) ** -decimals, rounding=ROUND_CEILING)
        if shown < 100:
            return f"{shown.normalize():f} %"
    return "almost 100 %"


def explain(guarantee: Stated) -> Explanation:
    """Return how sure a reader may become of one unit, for a guarantee's own epsilon and delta.

    Parameters
    ----------
    guarantee
        Any guarantee. Only one that is differential privacy has a table; of any other the notes
        say why it has none.

    Examples
    --------
    >>> from suffice.privacy.events import Laplace
    >>> from suffice.privacy.guarantee import Guarantee, Unit
    >>> explain(Guarantee(Unit.LABEL, Laplace(1.0))).rows
    [('1 %', '2.7 %'), ('10 %', '23.2 %'), ('50 %', '73.2 %')]
    """
    words, epsilon = words_for(guarantee), guarantee.epsilon
    title, reason = f"How sure a reader may become of {words.any_unit}", _why_no_table(guarantee)
    if epsilon is None or reason:
        return Explanation(title, [], [reason])
    notes = [
        "This reader knows all other data, and believes something before reading the release.",
        *_delta_notes(epsilon, guarantee.delta),
        *_several_records(guarantee),
    ]
    cost = cost_phrase(epsilon, guarantee.delta)
    return Explanation(f"{title} ({cost})", belief_rows(epsilon), notes)


def _why_no_table(guarantee: Stated) -> str:
    """Return why a guarantee limits no belief; nothing if it does."""
    if guarantee.kind == "none":
        return "This release has no guarantee. A reader may become certain."
    if guarantee.kind == "data-dependent":
        return "This release is not differentially private. Its epsilon limits no belief."
    if guarantee.delta >= calibrate.NO_PROTECTION_DELTA:
        return "With a delta this large, no epsilon limits a belief."
    if guarantee.scope == "marginal":
        return "A reader who combines columns may become certain. No table applies."
    return ""


def _delta_notes(epsilon: float, delta: float) -> list[str]:
    """Return what delta adds to the table."""
    if not delta:
        return ["Delta is 0, so the limit holds for every result."]
    notes = ["The limit holds for every result only where delta is 0. Here results may exceed it."]
    if epsilon <= PRACTICALLY_NONE:
        factor = round_up(2 * math.exp(epsilon))
        chance = round_up(2 * delta, smallest_power=-6)
        notes.append(
            f"With a probability of at most {chance}, a result raises the odds by more than a"
            f" factor of {factor}."
        )
    return notes


def _several_records(guarantee: Stated) -> list[str]:
    """Return what a person with several records has."""
    if guarantee.unit == "party":
        return []
    many = {"label": "labels", "attribute": "of these values"}.get(guarantee.unit, "records")
    more = ", and a larger delta" if guarantee.delta else ""
    return [f"A person with k {many} has k times the epsilon{more}."]
