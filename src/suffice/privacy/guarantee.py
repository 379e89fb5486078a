"""Guarantees: what is protected, as a value that composes and as sentences that people read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from typing import Any, Literal, NamedTuple, NoReturn

from suffice import plain_text, strict_json
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, UnitError
from suffice.plain_text import FromFile
from suffice.privacy import events
from suffice.privacy.accounting import Composed, Effort, as_stated, compose_events, event_from_json
from suffice.privacy.events import Event, Unbounded
from suffice.strict_json import number

WEAK = 3.0  # above this epsilon, a belief of 10 % may become one of 70 %
PRACTICALLY_NONE = 10.0  # above this epsilon, a belief of 1 % may become one of 99.6 %
_FLOATS = Decimal("1e-12")  # of a number: epsilons are computed with larger allowances than this
_LARGEST_POWER = 6  # a number of more digits is written with an exponent
_LONG_CONDITION = 6  # words; after a longer one the sentence leaves "of this release" out


def round_up(value: float, digits: int = 3, *, smallest_power: int = -3) -> str:
    """Return a number for reading, with at most ``digits`` digits and never too small.

    What is above the last digit by less than 1e-12 of the number counts as equal. A number below 10
    to the ``smallest_power`` is written with an exponent.

    Examples
    --------
    >>> round_up(2.718281828)
    '2.72'
    >>> round_up(1e-6), round_up(1e-6, smallest_power=-6)
    ('1e-6', '0.000001')
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


class UnitWords(NamedTuple):
    """How sentences speak of a unit."""

    noun: str  # its name after "each": "label"
    each_unit: str  # what is protected: "each label"
    changed_unit: str  # what the comparison changes: "any one label"
    any_unit: str  # what a reader may find out where nothing protects it: "any label"
    that_unit: str  # the unit that was spoken of: "that label"


def words_for(guarantee: "Guarantee") -> UnitWords:
    """Return how sentences speak of the unit of a guarantee, and of what it is one of.

    A marginal guarantee names the columns that are read; unless its unit is a value, they say
    nothing about which unit is meant.
    """
    unit: str = guarantee.unit
    columns = guarantee.columns if unit == "attribute" or guarantee.scope != "marginal" else ()
    if unit == "party":
        return UnitWords(
            "party's data", "each party's data as a whole", "all data of any one party",
            "all data of any party", "that party",
        )  # fmt: skip
    if unit == "person":
        return UnitWords(
            "person", "each person, with all of their rows", "all rows of any one person",
            "all rows of any person", "that person",
        )  # fmt: skip
    if unit == "person-labels":
        return UnitWords(
            "person's labels", "all labels of each person", "all labels of any one person",
            "all labels of any person", "that person",
        )  # fmt: skip
    if unit == "attribute" and not columns:
        return UnitWords(
            "value", "each value of each record, labels included", "any one value",
            "any value of any record", "that value",
        )  # fmt: skip
    if unit == "attribute":
        named = column_words(columns)
        short = len(named.split()) == 2
        changed = f"any one value in {named}" if short else "any one of these values"
        return UnitWords(
            "value", f"each value in {named}", changed, f"any value in {named}", "that value"
        )
    if columns:
        table = _listed(columns)
        return UnitWords(
            unit, f"each {unit} of {table}", f"any one of these {unit}s",
            f"any {unit} of {table}", f"that {unit}",
        )  # fmt: skip
    return UnitWords(unit, f"each {unit}", f"any one {unit}", f"any {unit}", f"that {unit}")


def column_words(columns: Sequence[str]) -> str:
    """Return columns by their names: "column age", "columns age and income"."""
    return f"column{'s' if len(columns) > 1 else ''} {_listed(columns)}"


def _listed(items: Sequence[str]) -> str:
    return plain_text.listed(items, last=" and ", each=plain_text.phrase)


def lists(public: Sequence[str], assumptions: Sequence[object]) -> list[str]:
    """Return what is public and what is assumed, one line each, as far as there is any."""
    lines = []
    if public:
        lines.append(f"Public, not protected: {_listed(public)}.")
    if assumptions:
        lines.append(f"Assumes: {'; '.join(map(str, assumptions))}.")
    return lines


def guarantee_sentences(guarantee: "Guarantee") -> list[str]:
    """Return what a guarantee protects, sentence by sentence, and what it leaves open.

    Sentences have at most 30 words, where columns have names of one word.
    """
    words, columns, unit = words_for(guarantee), guarantee.columns, guarantee.unit
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon is None or guarantee.kind == "none":
        return [
            "No protection.",
            f"A reader may be able to work out {words.any_unit} exactly.",
        ]
    cost, warning = cost_phrase(epsilon, delta), about_delta(delta, words.noun)
    sentences = [warning] if warning else []
    shown = combined = ""
    if guarantee.scope == "marginal":  # what it is about, and what it does not keep a reader from
        several = len(columns) > 1
        show = "show without the others" if several else "shows when read alone"
        shown = f"what {column_words(columns)} {show}"
        subject = "these columns" if several else _listed(columns)
        gain = "their values" if several else "its values"
        gain = gain if unit == "attribute" else words.any_unit
        combined = f"A reader who combines {subject} with other columns may recover {gain} exactly."
    if guarantee.kind == "data-dependent":
        each = words.each_unit.removesuffix("'s data as a whole").removesuffix(", labels included")
        return [
            *sentences,
            "Not differentially private.",
            (
                "The noise or the scaling was computed from the private data, and the release"
                " shows it."
            ),
            f"If these settings were fixed, the guarantee for {each} would be {cost}.",
            *([f"It would cover only {shown}."] if shown else []),
            "They are not fixed, so do not rely on this number.",
            *([combined] if combined else []),
        ]
    if delta >= events.NO_PROTECTION_DELTA:
        return [*sentences, f"With a delta this large, no epsilon is a protection ({cost})."]
    if epsilon > PRACTICALLY_NONE:
        certain = f"reader may become almost certain of {words.any_unit}."
        if not shown:
            return [*sentences, f"Practically no protection ({cost}): a {certain}"]
        start = f"Practically no protection, not even for {shown} ({cost})."
        return [*sentences, start, f"A {certain}", combined]
    factor = round_up(math.exp(epsilon))
    bound = f"change by at most a factor of {factor}"
    if delta:
        more = round_up(delta, smallest_power=-6)
        bound = f"be at most {factor} times what it is now, plus {more}"
    if shown:
        start = "Limited and weak protection" if epsilon > WEAK else "Limited protection"
        condition = f"Read that way, if {words.changed_unit} were different"
        return [
            *sentences,
            f"{start} ({cost}): covers only {shown}.",
            f"{condition}, the probability of any result would {bound}.",
            combined,
        ]
    condition = f"If {words.changed_unit} were different"
    long = bool(delta) and len(condition.split()) > _LONG_CONDITION
    result = "any result" if long else "any result of this release"
    sentences += [
        f"{'Weakly protects' if epsilon > WEAK else 'Protects'} {words.each_unit}.",
        f"{condition}, the probability of {result} would {bound} ({cost}).",
        f"This does not hide what the rest of the data says about {words.that_unit}.",
    ]
    if columns and unit == "attribute":
        sentences.append("This guarantee does not cover labels or other columns.")
    elif columns and unit in {"label", "record"}:
        sentences.append(f"This guarantee does not cover other {unit}s.")
    return sentences


def about_delta(delta: float, noun: str) -> str:
    """Return what a large delta means; nothing for a small one.

    Publishing each unit as it is with probability delta, and nothing otherwise, has this delta at
    epsilon = 0: no more is claimed, since a mechanism may be better than its delta.
    """
    if delta <= events.EXPLAINED_DELTA:
        return ""
    least = math.floor(1 / delta)
    often = f"with probability {round_up(delta)}" + (f" (1 in {least})" if least > 1 else "")
    start = "No protection" if delta >= events.NO_PROTECTION_DELTA else "Large delta"
    return (
        f"{start}: in the worst case, a mechanism with delta = {round_up(delta)} reveals each"
        f" {noun} completely {often}."
    )


BEFORE = (0.01, 0.1, 0.5)  # beliefs before the release
_PERCENT = 100 * (1 - Decimal("1e-12"))  # floats may be too high by less than this
_MOST_EPSILON = 700.0  # of which e^epsilon is still a float


class Explanation(NamedTuple):
    """What a guarantee means for a belief."""

    title: str  # what the table shows
    rows: list[tuple[str, str]]  # beliefs before, and the largest after; empty: no table applies
    notes: list[str]  # sentences below the table

    def to_json(self) -> dict[str, object]:
        """Return the explanation as JSON values."""
        return {"title": self.title, "rows": [list(row) for row in self.rows], "notes": self.notes}


def belief_rows(epsilon: float) -> list[tuple[str, str]]:
    """Return beliefs of 1, 10 and 50 % before a release, and the largest ones after it.

    Those after it are b / (b + (1 - b) e^-epsilon), rounded up, and never 100 %. Delta is 0.

    Examples
    --------
    >>> belief_rows(3.0)
    [('1 %', '16.9 %'), ('10 %', '69.1 %'), ('50 %', '95.3 %')]
    """
    rows = []
    for before in BEFORE:
        text, after = "almost 100 %", Decimal(100)
        if epsilon <= _MOST_EPSILON:
            doubt = Decimal((1 - before) * math.exp(-epsilon))
            after = _PERCENT * (1 - doubt / (Decimal(before) + doubt))
        for decimals in range(1, 9):
            shown = after.quantize(Decimal(10) ** -decimals, rounding=ROUND_CEILING)
            if shown < 100:
                text = f"{shown.normalize():f} %"
                break
        rows.append((f"{100 * before:g} %", text))
    return rows


def explain(guarantee: "Guarantee") -> Explanation:
    """Return how sure a reader may become of one unit, for a guarantee's own epsilon and delta.

    Only a guarantee that is differential privacy has a table; of any other the notes say why it has
    none.

    Examples
    --------
    >>> from suffice.privacy.events import Laplace
    >>> from suffice.privacy.guarantee import Guarantee, Unit
    >>> explain(Guarantee(Unit.LABEL, Laplace(1.0))).rows
    [('1 %', '2.7 %'), ('10 %', '23.2 %'), ('50 %', '73.2 %')]
    """
    words, epsilon, delta = words_for(guarantee), guarantee.epsilon, guarantee.delta
    title, reason = f"How sure a reader may become of {words.any_unit}", ""
    if guarantee.kind == "none":
        reason = "This release has no guarantee. A reader may become certain."
    elif guarantee.kind == "data-dependent":
        reason = "This release is not differentially private. Its epsilon limits no belief."
    elif delta >= events.NO_PROTECTION_DELTA:
        reason = "With a delta this large, no epsilon limits a belief."
    elif guarantee.scope == "marginal":
        reason = "A reader who combines columns may become certain. No table applies."
    if epsilon is None or reason:
        return Explanation(title, [], [reason])
    notes = ["This reader knows all other data, and believes something before reading the release."]
    if not delta:
        notes.append("Delta is 0, so the limit holds for every result.")
    else:
        notes.append(
            "The limit holds for every result only where delta is 0. Here results may exceed it."
        )
        if epsilon <= PRACTICALLY_NONE:
            factor = round_up(2 * math.exp(epsilon))
            chance = round_up(2 * delta, smallest_power=-6)
            notes.append(
                f"With a probability of at most {chance}, a result raises the odds by more than a"
                f" factor of {factor}."
            )
    if guarantee.unit not in {"party", "person", "person-labels"}:
        many = {"label": "labels", "attribute": "of these values"}.get(guarantee.unit, "records")
        more = ", and a larger delta" if delta else ""
        notes.append(f"A person with k {many} has k times the epsilon{more}.")
    return Explanation(f"{title} ({cost_phrase(epsilon, delta)})", belief_rows(epsilon), notes)


class _Named(StrEnum):
    """A word from a short list; another word raises an error that names the list."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        name = cls.__name__.lower()
        raise ParameterError(f"{value!r} is not a {name}. Use {' or '.join(cls)}.")


class Unit(_Named):
    """What a guarantee protects: the part of the data in which two data sets may differ.

    Examples
    --------
    >>> Unit.RECORD.covers(Unit.LABEL)
    True
    """

    LABEL = "label"
    ATTRIBUTE = "attribute"
    RECORD = "record"
    PERSON_LABELS = "person-labels"
    PERSON = "person"
    PARTY = "party"

    def covers(self, other: "Unit") -> bool:
        """Say whether protecting this unit protects ``other`` as well."""
        return other in CONTAINED[self]


# The units that a change of one includes, itself among them.
CONTAINED: dict[Unit, frozenset[Unit]] = {
    Unit.LABEL: frozenset({Unit.LABEL}),
    Unit.ATTRIBUTE: frozenset({Unit.ATTRIBUTE}),
    Unit.RECORD: frozenset({Unit.RECORD, Unit.ATTRIBUTE, Unit.LABEL}),
    Unit.PERSON_LABELS: frozenset({Unit.PERSON_LABELS, Unit.LABEL}),
    Unit.PERSON: frozenset(Unit) - {Unit.PARTY},
    Unit.PARTY: frozenset(Unit),
}


class Scope(_Named):
    """Whether a guarantee is about the release as a whole, or about some columns read alone."""

    JOINT = "joint"
    MARGINAL = "marginal"


class Protection(_Named):
    """How far a guarantee reaches; only a global one is differential privacy."""

    GLOBAL = "global"
    DATA_DEPENDENT = "data-dependent"
    NONE = "none"


@dataclass(frozen=True)
class Assumption:
    """A statement that a guarantee assumes, and how it was checked."""

    statement: str  # what must be true
    checked: str  # who or what checked it, such as "declared by the owner"

    def __str__(self) -> str:
        return f"{plain_text.phrase(self.statement)} ({plain_text.phrase(self.checked)})"


@dataclass(frozen=True)
class Budget:
    """The epsilon and delta that all releases of a data set may use together.

    It holds however each release is chosen, also by what earlier ones show (proofs/accounting.md).

    Attributes
    ----------
    epsilon
        The largest epsilon of all releases together; above 0.
    delta
        The delta at which that epsilon is computed; below 0.1.

    Examples
    --------
    >>> print(Budget(2.0, 1e-5))
    epsilon 2, delta 1e-5
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        events.check_promise(self)

    @classmethod
    def stored(cls, epsilon: float, delta: float) -> "Budget":
        """Return the budget that a ledger holds, also if its delta would be refused today."""
        budget = object.__new__(cls)
        object.__setattr__(budget, "epsilon", events.check_epsilon(epsilon))
        object.__setattr__(budget, "delta", events.read_delta(delta))
        return budget

    def __str__(self) -> str:
        epsilon, delta = (round_up(value, 6) for value in (self.epsilon, self.delta))
        return f"epsilon {epsilon}, delta {delta}"

    def explained(self, unit: Unit | str) -> str:
        """Return what a large delta of the budget means for one ``unit``; nothing for others."""
        return about_delta(self.delta, str(unit))


@dataclass(frozen=True, repr=False)
class Guarantee:
    """Protects one ``unit``: its value changes the probability of a release only a little.

    For every set S of outputs and all data sets D, D' that differ in one unit,

        P[release(D) in S] <= e^epsilon P[release(D') in S] + delta.

    ``print(guarantee)`` says it in words.

    Attributes
    ----------
    unit
        What is protected: a label, an attribute (one value), a record, all labels of a person, a
        person (all rows) or a party.
    event
        The mechanism's privacy loss. ``epsilon`` is computed from it.
    delta
        The delta at which ``epsilon`` is computed; 0 for noise that needs none.
    scope
        Joint: about the release as a whole. Marginal: about ``columns`` read alone.
    kind
        Global (differential privacy), data-dependent or none.
    neighbours
        How two data sets differ: always by replacing one unit.
    public
        What the guarantee does not protect, because it is taken to be public.
    assumptions
        What must be true for the guarantee to hold.
    columns
        The columns that it is about, where the unit is an attribute or the scope is marginal. The
        table that it is about, where the unit is a record of one of several tables.
    stated
        (event, delta, epsilon) as a file states them, after they were checked. An epsilon from
        there keeps its last digit, and the file its bytes, on any machine.

    Examples
    --------
    >>> from suffice.privacy.events import Laplace
    >>> guarantee = Guarantee(Unit.LABEL, Laplace(1.0))
    >>> guarantee
    <Guarantee per label: epsilon = 1>
    >>> guarantee.epsilon, guarantee.protected
    (1.0, True)
    """

    unit: Unit
    event: Event
    delta: float = 0.0
    scope: Scope = Scope.JOINT
    kind: Protection = Protection.GLOBAL
    neighbours: str = "replace-one"
    public: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    columns: tuple[str, ...] = ()
    stated: tuple[Event, float, float] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, kind in (("unit", Unit), ("scope", Scope), ("kind", Protection)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        object.__setattr__(self, "delta", events.read_delta(self.delta))
        if (self.kind is Protection.NONE) != isinstance(self.event, Unbounded):
            raise ParameterError(
                "A guarantee of kind none needs an unbounded event, and no other kind may have one."
            )
        if self.epsilon is not None and not math.isfinite(self.epsilon):
            raise ParameterError("At this delta the event has no finite epsilon. Raise delta.")
        if self.scope is Scope.MARGINAL and not self.columns:
            raise ParameterError("A marginal guarantee must name its columns.")

    @property
    def epsilon(self) -> float | None:
        """The epsilon that holds with ``delta``, derived from the event; None if there is none."""
        if self.kind is Protection.NONE:
            return None
        if self.stated is not None and self.stated[:2] == (self.event, self.delta):
            return self.stated[2]
        return self.event.epsilon(self.delta)

    @property
    def protected(self) -> bool:
        """Whether it is differential privacy of the release as a whole, with a delta below 0.1.

        Any other release is published only with ``unprotected=True``. A file may state any delta;
        one of 0.1 or more is no protection, whatever its epsilon.
        """
        small = self.delta < events.NO_PROTECTION_DELTA
        return self.kind is Protection.GLOBAL and self.scope is Scope.JOINT and small

    def narrowed(self, unit: Unit | str) -> "Guarantee":
        """Return what this guarantee says about a narrower unit.

        Parameters
        ----------
        unit
            A unit that this guarantee's unit contains.

        Raises
        ------
        UnitError
            If this guarantee says nothing about that unit.

        Examples
        --------
        >>> from suffice.privacy.events import Pure
        >>> Guarantee(Unit.RECORD, Pure(0.5)).narrowed("label")
        <Guarantee per label: epsilon = 0.5>
        """
        unit = Unit(unit)
        if not self.unit.covers(unit):
            raise UnitError(f"A guarantee per {self.unit} says nothing about one {unit}.")
        if self.columns and unit is Unit.ATTRIBUTE and self.unit is not unit:
            raise UnitError("A guarantee about one table cannot be narrowed to single values.")
        return replace(self, unit=unit)

    def __str__(self) -> str:
        return " ".join([*guarantee_sentences(self), *lists(self.public, self.assumptions)])

    def __repr__(self) -> str:
        columns = f" of {plain_text.listed(self.columns)}" if self.columns else ""
        kinds = [] if self.kind is Protection.GLOBAL else [str(self.kind)]
        kinds += ["marginal"] if self.scope is Scope.MARGINAL else []
        if self.epsilon is not None:
            kinds.append(cost_phrase(self.epsilon, self.delta, 6))
        return f"<Guarantee per {self.unit}{columns}: {', '.join(kinds)}>"

    def _repr_html_(self) -> str:
        """Return the guarantee for a notebook: its sentences, what is public, what it assumes."""
        sentences = plain_text.markup(" ".join(guarantee_sentences(self)))
        items = "".join(
            f"<li>{plain_text.markup(line)}</li>" for line in lists(self.public, self.assumptions)
        )
        return f"<div><p>{sentences}</p>{f'<ul>{items}</ul>' if items else ''}</div>"

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as JSON values: the event, and the epsilon computed from it."""
        stated = _StatedGuarantee(
            unit=self.unit,
            event=self.event.to_json(),
            epsilon=self.epsilon,
            delta=self.delta,
            scope=self.scope,
            kind=self.kind,
            neighbours="replace-one",
            public=self.public,
            assumptions=self.assumptions,
            of=self.columns,
        )
        return {**strict_json.plain(stated), "neighbours": self.neighbours}

    @classmethod
    def from_json(cls, data: object, effort: Effort | None = None) -> "Guarantee":
        """Return the guarantee that `to_json` wrote, after checking it against its own event.

        Parameters
        ----------
        data
            The JSON value.
        effort
            What the file has cost to check so far.

        Raises
        ------
        CorruptFileError
            If a field is missing or malformed, or the epsilon is not the one of the event.
        """
        stated = strict_json.read(_StatedGuarantee, data, "guarantee in the file")
        try:
            event = event_from_json(stated.event)
            if isinstance(event, Composed):  # with the epsilon stated
                delta = events.check_delta(stated.delta)
                event = as_stated(event, delta, number(stated.epsilon), effort or Effort())
            guarantee = cls(
                unit=stated.unit,
                event=event,
                delta=stated.delta,
                scope=stated.scope,
                kind=stated.kind,
                neighbours=stated.neighbours,
                public=tuple(map(FromFile, stated.public)),
                assumptions=tuple(
                    Assumption(FromFile(a.statement), FromFile(a.checked))
                    for a in stated.assumptions
                ),
                columns=tuple(map(FromFile, stated.of)),
            )
        except ReleaseError:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CorruptFileError("A guarantee in the file is not valid.") from error
        derived = guarantee.epsilon
        if derived is None or stated.epsilon is None:
            agrees = derived is stated.epsilon
        else:
            agrees = math.isclose(stated.epsilon, derived, rel_tol=1e-9)
            guarantee = replace(
                guarantee, stated=(guarantee.event, guarantee.delta, stated.epsilon)
            )
        if not agrees:
            raise CorruptFileError("The epsilon stated in the file is not the one its event has.")
        return guarantee


@dataclass(frozen=True)
class _StatedGuarantee:
    """A guarantee as a file states it; a file may not choose what its guarantee compares."""

    unit: Unit
    event: Any
    epsilon: float | None
    delta: float
    scope: Scope
    kind: Protection
    neighbours: Literal["replace-one"]
    public: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    of: tuple[str, ...]


def compose(guarantees: Iterable[Guarantee], *, delta: float) -> Guarantee:
    """Return the guarantee of all releases together that ``guarantees`` are about.

    Parameters
    ----------
    guarantees
        Guarantees about one unit. To use one per record for labels, narrow it first:
        ``guarantee.narrowed("label")``.
    delta
        The delta at which the common epsilon is computed.

    Raises
    ------
    UnitError
        If the units, columns or neighbours differ, or a guarantee is marginal.

    Examples
    --------
    >>> from suffice.privacy.events import Pure
    >>> first, second = (Guarantee(Unit.LABEL, Pure(bound)) for bound in (0.5, 1.0))
    >>> compose([first, second], delta=0.0)
    <Guarantee per label: epsilon = 1.5>
    """
    parts = list(guarantees)
    if not parts:
        raise ParameterError("There is no guarantee to compose.")
    units = sorted({part.unit.value for part in parts})
    if len(units) > 1:
        raise UnitError(f"Guarantees per {' and per '.join(units)} do not mix. Narrow them first.")
    if {part.scope for part in parts} != {Scope.JOINT}:
        raise UnitError(
            "Marginal guarantees do not compose: they say nothing about columns read together."
        )
    if {part.neighbours for part in parts} != {parts[0].neighbours}:
        raise UnitError("Guarantees with different neighbours do not mix.")
    if len({frozenset(part.columns) for part in parts}) > 1:
        raise UnitError(
            "Guarantees about different columns or tables do not mix: each release may show the"
            " other's values exactly."
        )
    kinds = {part.kind for part in parts}
    weakest = next(
        k for k in (Protection.NONE, Protection.DATA_DEPENDENT, Protection.GLOBAL) if k in kinds
    )
    none = weakest is Protection.NONE
    return Guarantee(
        unit=parts[0].unit,
        event=Unbounded() if none else compose_events(part.event for part in parts),
        delta=delta,
        kind=weakest,
        neighbours=parts[0].neighbours,
        public=tuple(dict.fromkeys(item for part in parts for item in part.public)),
        assumptions=tuple(dict.fromkeys(item for part in parts for item in part.assumptions)),
        columns=tuple(dict.fromkeys(item for part in parts for item in part.columns)),
    )
