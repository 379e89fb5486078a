"""How every release is made: the contract, the one walk through it, and the registry.

Read this file first. A mechanism is a frozen value that says what an owner asks for; its fields are
its options. A release of it has one life, in this order:

    public = mechanism.public(source)        what may be seen: columns, public rows, bags, a round
    procedure = mechanism.choose(public)     which noise; nothing private was read yet
    exact = procedure.accumulator()          takes in private batches, on any engine
    procedure.guarantees(exact)              what is promised, from public facts alone
    procedure.draw(exact, guarantees)        the noise: called by `publish`, once it is paid for

A procedure that draws while it reads declares it: its first pass only identifies the data, and its
statistic is made in a second one, after the debit, on the owner's own machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from suffice.engines.engine import Accumulator, BatchPart, in_one_stream
from suffice.errors import ParameterError, TableError
from suffice.notes import note
from suffice.options import Group, check_choices, values
from suffice.owner.classes import check_declared, check_features
from suffice.owner.ledger import Ledger
from suffice.owner.plans import Plan, PromisePlan
from suffice.owner.publish import Payment, PrivateIdentity, publish
from suffice.owner.row_order import check_order_given, check_order_of, in_one_snapshot
from suffice.owner.source import OwnerReport, Source, counted
from suffice.plain_text import listed
from suffice.privacy.guarantee import Guarantee
from suffice.release.artifact import Release
from suffice.release.kinds import kind_named
from suffice.tables.labels import Classes, StrangeLabelsError

__all__ = [
    "CLASSES",
    "DELTA",
    "EPSILON",
    "Exact",
    "Mechanism",
    "Procedure",
    "Public",
    "make_release",
    "mechanism_names",
    "mechanism_of",
    "register_mechanism",
]


# Options that many mechanisms have, declared once.
EPSILON: dict[str, Any] = {
    "help": "Epsilon, for example 1: how much the release may cost each unit that it protects.",
    "group": Group.PRIVACY,
}
DELTA: dict[str, Any] = {
    "help": "Delta, for example 1e-6. Gaussian noise needs a value above 0.",
    "group": Group.PRIVACY,
}
CLASSES: dict[str, Any] = {
    "help": "The labels that can occur, with commas; of two, the last is positive. Default: those"
    " of the ledger, or 0,1.",
    "group": Group.DATA,
    "parse": values,
}


class Public(Protocol):
    """What a mechanism may see of a source before it is paid for."""

    @property
    def shown(self) -> Iterable[str]:
        """The columns that the release takes for public."""

    def parts(self) -> Sequence[BatchPart]:
        """Return the private batches that an accumulator takes in, in parts."""


class Exact(Accumulator, Protocol):
    """An exact statistic of private data: an accumulator that knows how much it has seen."""

    @property
    def count(self) -> int:
        """The number of rows, or of contributions."""


E = TypeVar("E", bound=Exact)
P = TypeVar("P", bound=Public)


class Procedure(ABC, Generic[E]):
    """One calibrated way to make a release; chosen before anything private is read.

    ``kind`` is that of the release. ``draws_while_reading``: noise is drawn row by row, so that
    rows may be taken in only after they were paid for. ``stays`` says why rows must be taken in one
    after the other on the owner's own machine, where they must.
    """

    kind: ClassVar[str]
    draws_while_reading: ClassVar[bool] = False
    stays: ClassVar[str] = ""

    @property
    def row_by_row(self) -> bool:
        """Whether the release says something about each row of its table, in their order."""
        return kind_named(self.kind).ordered

    @abstractmethod
    def accumulator(self, *, identified: bool) -> E:
        """Return an empty statistic; ``identified``: a ledger wants to know the data again."""

    def parts(self, public: Public) -> Sequence[BatchPart]:
        """Return the private batches in parts; one stream, where they must stay here."""
        parts = public.parts()
        return in_one_stream(parts, self.stays) if self.stays else parts

    def identifier(self) -> Any:
        """Return what identifies the data in a pass of its own, where `accumulator` draws."""
        raise NotImplementedError

    def check(self, exact: E) -> None:
        """Raise if public facts of the pass forbid the release: nothing is charged for it."""
        if exact.count == 0:
            raise TableError("the table has no rows.")

    def report(self, exact: E) -> OwnerReport | None:
        """Return what the owner alone may know of the pass; no byte or exit code depends on it."""
        del exact
        return None

    @abstractmethod
    def guarantees(self, exact: E) -> tuple[Guarantee, ...]:
        """Return what is promised: a function of public facts, some of which the pass computed."""

    @abstractmethod
    def parameters(self, exact: E) -> Mapping[str, Any]:
        """Return the public description of the request, by which a ledger knows it again."""

    @abstractmethod
    def identity(self, exact: E, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return what identifies the private data, for the ledger alone."""

    @abstractmethod
    def draw(self, exact: E, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""


class Mechanism(ABC, Generic[P]):
    """What an owner asks for. A subclass is a frozen dataclass whose fields are its options.

    ``name`` is its name in commands (``suffice release NAME``), ``source`` the kind of input that
    it takes. ``planner`` is what ``suffice plan NAME`` is made from, where that is not this value
    and its source: a dataclass with options and a method ``plan``.
    """

    name: ClassVar[str]
    source: ClassVar[type[Source]] = Source
    planner: ClassVar[type[Any] | None] = None

    def __post_init__(self) -> None:
        check_choices(self)

    def release(
        self,
        data: Any,
        *given: Any,
        ledger: Ledger | None,
        dataset: str | None = None,
        request: str | None = None,
        data_changed: bool = False,
        unprotected: bool = False,
        progress: Callable[[int], None] | None = None,
        **inputs: Any,
    ) -> Release:
        """Return the release of a table, paid for from ``ledger`` (None, said aloud, for none).

        ``given`` and ``inputs`` are the fields of this mechanism's source: the labels ``y`` or the
        column ``label``, the ``features``, and what else it needs. `Payment` explains the others.
        """
        source = self.source(data, *given, progress=progress, **inputs)
        payment = Payment(ledger, dataset, request, data_changed, unprotected)
        return make_release(self, source, payment)

    def check_payment(self, source: Any, payment: Payment) -> None:
        """Raise if what was given, apart from the table, was not paid for from this ledger."""

    def declared_classes(self) -> Classes | None:
        """Return the declared classes of the label, where a table has one."""
        return None

    @abstractmethod
    def public(self, source: Any) -> P:
        """Return what may be seen of the source; reads no private cell."""

    @abstractmethod
    def choose(self, public: P) -> Procedure[Any]:
        """Return the procedure: which noise, in which shape; reads no private cell."""

    def finish(self, source: Any, release: Release) -> None:
        """Write what else the owner asked for, once the release is made; public things only."""

    def plan(self, source: Any, epsilons: Sequence[float] = ()) -> Plan:
        """Return a forecast of the release, from what may be seen alone.

        ``epsilons``: those to compare, where it is more than the mechanism's own. Unless a
        mechanism knows better, its plan is what a release would promise at each of them.
        """
        asked = [replace(self, epsilon=e) for e in epsilons] if epsilons else [self]  # type: ignore[type-var]
        promised: list[Guarantee] = []
        for mechanism in asked:
            procedure = mechanism.choose(mechanism.public(source))
            promised += procedure.guarantees(procedure.accumulator(identified=False))
        return PromisePlan(tuple(promised))


def make_release(mechanism: Mechanism[Any], source: Source, payment: Payment) -> Release:
    """Return a release: the walk that every mechanism goes through."""
    check_order_given(source, payment)
    source.check()
    with in_one_snapshot(source).running() as opened:
        return _walk(mechanism, opened, payment)


def _walk(mechanism: Mechanism[Any], source: Source, payment: Payment) -> Release:
    classes = mechanism.declared_classes()
    if classes is not None:
        _note_case(classes)
        check_declared(classes, payment.ledger, payment.dataset, source.label)
    mechanism.check_payment(source, payment)
    public = mechanism.public(source)
    check_features(public.shown, payment.ledger, payment.dataset)
    procedure = mechanism.choose(public)
    check_order_of(source, procedure, public.shown)
    identified = payment.ledger is not None
    late = procedure.draws_while_reading
    statistic = partial(procedure.accumulator, identified=identified)
    parts = procedure.parts(public)
    try:
        exact = source.fold(parts, procedure.identifier if late else statistic)
    except StrangeLabelsError:  # of one batch
        raise counted(public.parts(), source) from None
    procedure.check(exact)
    _tell_owner(procedure.report(exact), source, payment)
    guarantees = payment.stated(procedure.guarantees(exact))

    def draw() -> Release:
        if not late:
            return procedure.draw(exact, guarantees)
        # Noise on every row: only after the debit.
        drawn = source.fold(parts, partial(procedure.accumulator, identified=True))
        if procedure.identity(drawn, guarantees) != identity:
            raise TableError(
                "the table changed while it was read, after it was paid for; give one that stays as"
                " it is."
            )
        return procedure.draw(drawn, guarantees)

    identity = procedure.identity(exact, guarantees)
    further = sum(len(charge.guarantees) for charge in identity.also)
    release = publish(
        draw,
        guarantees[: len(guarantees) - further],
        payment,
        parameters=procedure.parameters(exact),
        identity=identity,
    )
    mechanism.finish(source, release)
    return release


def _note_case(classes: Classes) -> None:
    """Say that classes differ in case alone: most likely they are meant to be one."""
    names = [str(name).casefold() for name in classes]
    alike = [str(name) for name in classes if names.count(str(name).casefold()) > 1]
    if alike:
        note(f"these classes differ in upper and lower case alone: {listed(alike)}.")


def _tell_owner(report: OwnerReport | None, source: Source, payment: Payment) -> None:
    if report is None:
        return
    if source.report is not None:
        source.report(report)
    for line in report.lines if payment.tell is not None else ():
        payment.tell(line)  # type: ignore[misc]  # checked a line above


# Every mechanism by its name in commands, and where it lives: nothing is imported until it is used.
_MECHANISMS: dict[str, str | type[Mechanism[Any]]] = {
    "mean-operator": "suffice.owner.operator.mechanism:MeanOperator",
    "responses": "suffice.owner.responses.mechanism:RandomizedResponse",
    "rados": "suffice.owner.rados.mechanism:Rados",
    "moments": "suffice.owner.moments.mechanism:Moments",
    "proportions": "suffice.owner.proportions.mechanism:LabelProportions",
    "bags": "suffice.owner.proportions.bags:SkewedBags",
    "parties": "suffice.owner.parties.mechanism:PrivateEnsemble",
}


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms."""
    return list(_MECHANISMS)


def mechanism_of(name: str) -> type[Mechanism[Any]]:
    """Return the mechanism of this name."""
    found = _MECHANISMS.get(name)
    if found is None:
        raise ParameterError(f"there is no mechanism {name!r}; there are {', '.join(_MECHANISMS)}.")
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = _MECHANISMS[name] = getattr(import_module(module), attribute)
    assert not isinstance(found, str)  # noqa: S101  # for the type checker
    return found


def register_mechanism(mechanism: type[Mechanism[Any]]) -> None:
    """Add a mechanism, so that commands, planner and documentation find it by its name."""
    if mechanism.name in _MECHANISMS:
        raise ParameterError(f"there is a mechanism {mechanism.name!r} already.")
    _MECHANISMS[mechanism.name] = mechanism
