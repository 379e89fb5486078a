"""What is protected, in a form that a person can read and a program can compose."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, NoReturn

from suffice import plain_text, strict_json
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, UnitError
from suffice.plain_text import FromFile
from suffice.privacy import calibrate, words
from suffice.privacy.accounting import Composed, Effort, as_stated, compose_events, event_from_json
from suffice.privacy.events import Event, Unbounded
from suffice.strict_json import number

__all__ = ["Assumption", "Budget", "Guarantee", "Protection", "Scope", "Unit", "compose"]


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
    """A statement that a guarantee assumes, and how it was checked.

    Attributes
    ----------
    statement
        What must be true.
    checked
        Who or what checked it, such as "declared by the owner".
    """

    statement: str
    checked: str

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
        calibrate.check_promise(self)

    @classmethod
    def stored(cls, epsilon: float, delta: float) -> "Budget":
        """Return the budget that a ledger holds, also if its delta would be refused today."""
        budget = object.__new__(cls)
        object.__setattr__(budget, "epsilon", calibrate.check_epsilon(epsilon))
        object.__setattr__(budget, "delta", calibrate.read_delta(delta))
        return budget

    def __str__(self) -> str:
        epsilon, delta = (words.round_up(value, 6) for value in (self.epsilon, self.delta))
        return f"epsilon {epsilon}, delta {delta}"

    def explained(self, unit: Unit | str) -> str:
        """Return what a large delta of the budget means for one ``unit``; nothing for others."""
        return words.about_delta(self.delta, str(unit))


@dataclass(frozen=True, repr=False)
class Guarantee:
    """Protects one ``unit``: its value changes the probability of a release only a little.

    For every set S of outputs and all data sets D, D' that differ in one unit,

        P[release(D) in S] <= e^epsilon P[release(D') in S] + delta.

    ``print(guarantee)`` says it in words.

    Attributes
    ----------
    unit
        What is protected: a label, an attribute (one value), a record or a party.
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
        object.__setattr__(self, "delta", calibrate.read_delta(self.delta))
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
        small = self.delta < calibrate.NO_PROTECTION_DELTA
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
        return words.describe(self)

    def __repr__(self) -> str:
        columns = f" of {plain_text.listed(self.columns)}" if self.columns else ""
        kinds = [] if self.kind is Protection.GLOBAL else [str(self.kind)]
        kinds += ["marginal"] if self.scope is Scope.MARGINAL else []
        if self.epsilon is not None:
            kinds.append(words.cost_phrase(self.epsilon, self.delta, 6))
        return f"<Guarantee per {self.unit}{columns}: {', '.join(kinds)}>"

    def _repr_html_(self) -> str:
        """Return the guarantee for a notebook: its sentences, what is public, what it assumes."""
        sentences = plain_text.markup(" ".join(words.sentences(self)))
        items = "".join(f"<li>{plain_text.markup(line)}</li>" for line in words.lists(self))
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
            guarantee = cls(
                unit=stated.unit,
                event=_event(stated, effort or Effort()),
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
        _check_stated(guarantee, stated.epsilon)
        if guarantee.epsilon is None or stated.epsilon is None:
            return guarantee
        return replace(guarantee, stated=(guarantee.event, guarantee.delta, stated.epsilon))


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


def _event(stated: _StatedGuarantee, effort: Effort) -> Event:
    """Return the event of a guarantee in a file; a composed one with the epsilon stated."""
    event = event_from_json(stated.event)
    if not isinstance(event, Composed):
        return event
    delta = calibrate.check_delta(stated.delta)
    return as_stated(event, delta, number(stated.epsilon), effort)


def _check_stated(guarantee: Guarantee, stated: float | None) -> None:
    derived = guarantee.epsilon
    if derived is None or stated is None:
        agrees = derived is stated
    else:
        agrees = math.isclose(stated, derived, rel_tol=1e-9)
    if not agrees:
        raise CorruptFileError("The epsilon stated in the file is not the one its event has.")


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
