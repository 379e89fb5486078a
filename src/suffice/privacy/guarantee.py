"""What is protected, in a form that a person can read and a program can compose."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NoReturn

from suffice import plain_text
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, UnitError
from suffice.privacy import calibrate
from suffice.privacy.accounting import Composed, Effort, as_stated, compose_events, event_from_json
from suffice.privacy.events import Event, Pure, Unbounded
from suffice.strict_json import number, text

__all__ = ["Assumption", "Budget", "Guarantee", "Protection", "Scope", "Unit", "compose"]


class _Named(StrEnum):
    """A word that must be one of a few; anything else says which there are."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        name = cls.__name__.lower()
        raise ParameterError(f"{value!r} is no {name}; there are {', '.join(cls)}.")


class Unit(_Named):
    """What one neighbouring data set may change: the thing that is protected."""

    LABEL = "label"
    ATTRIBUTE = "attribute"
    RECORD = "record"
    PARTY = "party"

    @property
    def contained(self) -> frozenset["Unit"]:
        """The units that a change of this one includes, itself among them."""
        return _CONTAINED[self]

    def covers(self, other: "Unit") -> bool:
        """Say whether protecting this unit protects ``other`` as well."""
        return other in self.contained


_CONTAINED: dict[Unit, frozenset[Unit]] = {
    Unit.LABEL: frozenset({Unit.LABEL}),
    Unit.ATTRIBUTE: frozenset({Unit.ATTRIBUTE}),
    Unit.RECORD: frozenset({Unit.RECORD, Unit.ATTRIBUTE, Unit.LABEL}),
    Unit.PARTY: frozenset(Unit),
}


class Scope(_Named):
    """Whether a guarantee holds for the whole release or for some coordinates taken alone."""

    JOINT = "joint"
    MARGINAL = "marginal"


class Protection(_Named):
    """How far a guarantee reaches; only a global one is differential privacy."""

    GLOBAL = "global"
    DATA_DEPENDENT = "data-dependent"
    NONE = "none"


@dataclass(frozen=True)
class Assumption:
    """A statement that the guarantee rests on, and how it was checked."""

    statement: str
    checked: str

    def __str__(self) -> str:
        return f"{plain_text.phrase(self.statement)} ({plain_text.phrase(self.checked)})"

    def to_json(self) -> dict[str, str]:
        """Return the assumption as plain JSON values."""
        return {"statement": self.statement, "checked": self.checked}


@dataclass(frozen=True)
class Budget:
    """The most that may ever be lost about one unit: epsilon at delta, over all releases.

    If releases are chosen by earlier ones, delta may be exceeded (proofs/accounting.md).
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        calibrate.check_promise(self)

    @classmethod
    def stored(cls, epsilon: float, delta: float) -> "Budget":
        """Return the budget that a ledger holds, also if its delta would be refused today."""
        budget = object.__new__(cls)
        object.__setattr__(budget, "epsilon", calibrate.check_epsilon(epsilon))
        object.__setattr__(budget, "delta", calibrate.read_delta(delta))
        return budget

    def __str__(self) -> str:
        return f"epsilon {_number(self.epsilon)}, delta {_number(self.delta)}"

    def explained(self, unit: Unit | str) -> str:
        """Return what a large delta of the budget means for one ``unit``; nothing for others."""
        return _about_delta(self.delta, str(unit))


@dataclass(frozen=True)
class Guarantee:
    """Protects one ``unit``: a release looks nearly the same, whatever any single one is.

    For every set S of outputs and all data sets D, D' that differ in one unit,

        P[release(D) in S] <= e^epsilon P[release(D') in S] + delta,

    where ``event`` is the mechanism's privacy loss, ``delta`` the point at which it is read, and
    ``epsilon`` is computed from both. ``public`` lists what the statement takes to be known to
    everybody; ``assumptions`` what it rests on. ``of`` names the attributes or coordinates meant,
    where the unit is an attribute or the scope is marginal, and the table meant, where the unit is
    a record of one of several.

    ``stated`` holds (event, delta, epsilon) as a file states them, once they were found to agree:
    read from there, an epsilon keeps its last digit, and the file its bytes, on any machine.
    """

    unit: Unit
    event: Event
    delta: float = 0.0
    scope: Scope = Scope.JOINT
    kind: Protection = Protection.GLOBAL
    neighbours: str = "replace-one"
    public: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    of: tuple[str, ...] = ()
    stated: tuple[Event, float, float] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, kind in (("unit", Unit), ("scope", Scope), ("kind", Protection)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        object.__setattr__(self, "delta", calibrate.read_delta(self.delta))
        if (self.kind is Protection.NONE) != isinstance(self.event, Unbounded):
            raise ParameterError("a guarantee of kind none, and only that, has an unbounded event.")
        if self.epsilon is not None and not math.isfinite(self.epsilon):
            raise ParameterError("at this delta the event has no finite epsilon; raise delta.")
        if self.scope is Scope.MARGINAL and not self.of:
            raise ParameterError("a marginal guarantee must name its coordinates.")

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
        """Whether it is differential privacy of the whole release: global, joint, of a small delta.

        Nothing else may leave without being called unprotected. A file may state any delta; one of
        .1 or more is no protection, whatever its epsilon.
        """
        small = self.delta < calibrate.NO_PROTECTION_DELTA
        return self.kind is Protection.GLOBAL and self.scope is Scope.JOINT and small

    def narrowed(self, unit: Unit | str) -> "Guarantee":
        """Return what this guarantee says about a narrower unit: at least as much."""
        unit = Unit(unit)
        if not self.unit.covers(unit):
            raise UnitError(f"a guarantee per {self.unit} says nothing about a single {unit}.")
        return replace(self, unit=unit)

    def __str__(self) -> str:
        return " ".join(_sentences(self))

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as plain JSON values, with the derived epsilon beside the event."""
        return {
            "unit": self.unit.value,
            "event": self.event.to_json(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "scope": self.scope.value,
            "kind": self.kind.value,
            "neighbours": self.neighbours,
            "public": list(self.public),
            "assumptions": [assumption.to_json() for assumption in self.assumptions],
            "of": list(self.of),
        }

    @classmethod
    def from_json(cls, data: object, effort: Effort | None = None) -> "Guarantee":
        """Return the guarantee that `to_json` wrote, after checking it against its own event.

        ``effort`` is what the file that it stands in has cost to check so far.
        """
        if not isinstance(data, dict) or set(data) != _FIELDS:
            raise CorruptFileError("a guarantee must hold exactly the fields of its version.")
        try:
            guarantee = cls(
                unit=Unit(data["unit"]),
                event=_event(data, effort or Effort()),
                delta=number(data["delta"]),
                scope=Scope(data["scope"]),
                kind=Protection(data["kind"]),
                neighbours=_neighbours(data["neighbours"]),
                public=tuple(map(_phrase, data["public"])),
                assumptions=tuple(_assumption(item) for item in data["assumptions"]),
                of=tuple(map(_phrase, data["of"])),
            )
        except ReleaseError:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CorruptFileError("a guarantee in the file is not valid.") from error
        _check_stated(guarantee, data["epsilon"])
        if guarantee.epsilon is None:
            return guarantee
        stated = (guarantee.event, guarantee.delta, number(data["epsilon"]))
        return replace(guarantee, stated=stated)


_FIELDS = {
    "unit", "event", "epsilon", "delta", "scope", "kind", "neighbours", "public", "assumptions",
    "of",
}  # fmt: skip


def _event(data: dict[str, Any], effort: Effort) -> Event:
    """Return the event of a guarantee in a file; what is composed, with the epsilon stated."""
    event = event_from_json(data["event"])
    if not isinstance(event, Composed):
        return event
    delta = calibrate.check_delta(number(data["delta"]))
    return as_stated(event, delta, number(data["epsilon"]), effort)


def _neighbours(value: object) -> str:
    """Return the one word there is: what a promise compares is not for a stranger to choose."""
    if value != "replace-one":
        raise CorruptFileError("the neighbours of a guarantee must be replace-one, no other word.")
    return "replace-one"


def _check_stated(guarantee: Guarantee, stated: object) -> None:
    derived = guarantee.epsilon
    if derived is None or stated is None:
        agrees = derived is stated
    else:
        agrees = math.isclose(number(stated), derived, rel_tol=1e-9)
    if not agrees:
        raise CorruptFileError("the epsilon stated in the file is not the one its event has.")


def _assumption(item: object) -> Assumption:
    if not isinstance(item, dict) or set(item) != {"statement", "checked"}:
        raise CorruptFileError("an assumption needs a statement and how it was checked.")
    return Assumption(_phrase(item["statement"]), _phrase(item["checked"]))


def _phrase(value: object) -> str:
    """Return text that a file states, marked as such: no reader takes it for a sentence of ours."""
    return plain_text.FromFile(text(value))


def compose(guarantees: Iterable[Guarantee], *, delta: float) -> Guarantee:
    """Return the guarantee of seeing all of ``guarantees``' releases, about one common unit.

    Units never mix silently: a record guarantee stands in for a label one only after
    ``guarantee.narrowed("label")`` said so.
    """
    parts = list(guarantees)
    if not parts:
        raise ParameterError("there is nothing to compose.")
    units = sorted({part.unit.value for part in parts})
    if len(units) > 1:
        raise UnitError(f"guarantees per {' and per '.join(units)} do not mix; narrow them first.")
    if {part.scope for part in parts} != {Scope.JOINT}:
        raise UnitError("marginal guarantees do not compose: nothing is promised jointly.")
    if {part.neighbours for part in parts} != {parts[0].neighbours}:
        raise UnitError("guarantees with different neighbours do not mix.")
    if len({frozenset(part.of) for part in parts}) > 1:
        raise UnitError(
            "guarantees about different attributes or tables do not mix: each may show the other's"
            " exactly."
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
        of=tuple(dict.fromkeys(item for part in parts for item in part.of)),
    )


_LEAST_SHOWN = 1e-300  # below this the digits of a float run out


def _number(value: float) -> str:
    """Return a float for reading: at most six digits, rounded up so that it never flatters us."""
    if abs(value) < _LEAST_SHOWN or not math.isfinite(value):
        return f"{value:g}"
    digits = 10.0 ** (5 - math.floor(math.log10(abs(value))))
    return f"{math.ceil(value * digits * (1 - 1e-12)) / digits:.6g}"


def _listed(items: tuple[str, ...]) -> str:
    return plain_text.listed(items, last=" and ", each=plain_text.phrase)


def _sentences(guarantee: Guarantee) -> list[str]:
    """Return two or three plain sentences: the promise, what is public, what it rests on."""
    thing = str(guarantee.unit)
    if guarantee.of and guarantee.unit is Unit.ATTRIBUTE:
        thing = f"value of {_listed(guarantee.of)}"
    elif guarantee.of and guarantee.unit is Unit.RECORD and guarantee.scope is Scope.JOINT:
        thing = f"record of {_listed(guarantee.of)}"
    sentences = [_promise(guarantee, thing)]
    if guarantee.epsilon is not None and (about := _about_delta(guarantee.delta, thing)):
        sentences.insert(0, about)  # before the number that it is about
    if guarantee.scope is Scope.MARGINAL:
        sentences.append(
            f"This holds only for what {_listed(guarantee.of)} alone reveals;"
            " the whole release, read together, is not protected."
        )
    if guarantee.public:
        sentences.append(f"Taken as public: {_listed(guarantee.public)}.")
    if guarantee.assumptions:
        rests = "; ".join(map(str, guarantee.assumptions))
        sentences.append(f"It rests on: {rests}.")
    return sentences


def _about_delta(delta: float, thing: str) -> str:
    """Return what a large delta means; nothing for a small one.

    Publishing each unit as it is with probability delta, and nothing otherwise, has this delta at
    epsilon = 0: no more is claimed, since a mechanism may be better than its delta.
    """
    if delta <= calibrate.EXPLAINED_DELTA:
        return ""
    least = math.floor(1 / delta)
    often = f"with probability {_number(delta)}" + (f" (1 in {least})" if least > 1 else "")
    start = "No protection" if delta >= calibrate.NO_PROTECTION_DELTA else "Large delta"
    return (
        f"{start}: in the worst case, a mechanism with delta = {_number(delta)} reveals each"
        f" {thing} completely {often}."
    )


_NAME_ONLY = 20.0  # beyond this epsilon the odds may move by 5e8: a number, not a protection


def _promise(guarantee: Guarantee, thing: str) -> str:
    epsilon = guarantee.epsilon
    if epsilon is None:
        return f"Protects nothing: this release may reveal any {thing} exactly."
    cost = f"epsilon = {_number(epsilon)}"
    if guarantee.delta > 0:
        cost += f", delta = {_number(guarantee.delta)}"
    elif isinstance(guarantee.event, Pure):
        cost += ", pure"
    name_only = epsilon > _NAME_ONLY
    factor = f"e^{_number(epsilon)}" if name_only else _number(math.exp(epsilon))
    if guarantee.kind is Protection.DATA_DEPENDENT:
        return (
            f"Not differentially private. Had a single {thing} been another, and all that was"
            " computed from the private data (how much noise there is, how columns are scaled)"
            f" remained as it is, the release would be as likely within a factor of {factor}"
            f" ({cost}). It would not remain so, and the release shows it."
        )
    if guarantee.delta >= calibrate.NO_PROTECTION_DELTA:
        return f"A delta this large is no guarantee, whatever the epsilon is ({cost})."
    if name_only:
        return (
            f"Protects each {thing} in name only ({cost}): a loss this large lets a reader be"
            " practically certain."
        )
    seen = "whatever can be seen in this release"
    if guarantee.scope is Scope.MARGINAL:
        seen = f"what {_listed(guarantee.of)} alone shows in it"
    slack = f" and an extra probability of {_number(guarantee.delta)}" if guarantee.delta else ""
    return (
        f"Protects each {thing}: had any single {thing} been another, {seen} would be as likely,"
        f" within a factor of {factor}{slack} ({cost}). It does not hide what the rest of the data"
        f" say about that {thing}."
    )
