"""How every release is made: the contract, the one walk through it, and the registry.

Read this file first. A mechanism is a frozen value that says what an owner wants to release; its
fields are its options. A release of it has one life, in this order:

    public = mechanism.public(source)        what may be seen: columns, public rows, bags, a round
    procedure = mechanism.choose(public)     which noise; nothing private was read yet
    exact = procedure.accumulator()          takes in private batches, on any engine
    procedure.guarantees(exact)              what is guaranteed, from public facts alone
    procedure.draw(exact, guarantees)        the noise: called by `publish`, once it is charged

A procedure that draws while it reads declares it: its first pass only identifies the data, and its
statistic is made in a second one, after the charge, on the owner's own machine.
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
from suffice.owner.plans import GuaranteePlan, Plan
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
    "help": "Epsilon, for example 1. Smaller protects more strongly and adds more noise.",
    "group": Group.PRIVACY,
}
DELTA: dict[str, Any] = {
    "help": "Delta, for example 1e-6. Gaussian noise needs a value above 0.",
    "group": Group.PRIVACY,
}
CLASSES: dict[str, Any] = {
    "help": "Labels that can occur, with commas, for example no,yes. Of two, the last is positive."
    " Default: those of the ledger, or 0,1.",
    "group": Group.DATA,
    "parse": values,
}


class Public(ABC):
    """What a mechanism may see of a source before it is charged."""

    @property
    def shown(self) -> Iterable[str]:
        """The columns that the release takes for public: none, unless a mechanism names them."""
        return ()

    @abstractmethod
    def parts(self) -> Sequence[BatchPart]:
        """Return the private batches that an accumulator takes in, in parts."""


class Exact(Accumulator, Protocol):
    """An exact statistic of private data: an accumulator that counts what it took in."""

    @property
    def count(self) -> int:
        """The number of rows, or of contributions."""


E = TypeVar("E", bound=Exact)
P = TypeVar("P", bound=Public)


class Procedure(ABC, Generic[E]):
    """One calibrated procedure that makes a release; chosen before anything private is read.

    Attributes
    ----------
    kind : str
        Kind of the release.
    draws_while_reading : bool
        Noise is drawn row by row, so that rows may be taken in only after they were charged.
    stays : str
        Why rows must be taken in one after the other on the owner's own machine, where they must.
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
        """Return an empty statistic; ``identified``: a ledger must recognise the data."""

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
            raise TableError("The table has no rows.")

    def report(self, exact: E) -> OwnerReport | None:
        """Return what the owner alone may know of the pass; no byte or exit code depends on it."""
        del exact
        return None

    @abstractmethod
    def guarantees(self, exact: E) -> tuple[Guarantee, ...]:
        """Return the guarantees: a function of public facts, some of which the pass computed."""

    @abstractmethod
    def parameters(self, exact: E) -> Mapping[str, Any]:
        """Return the public description of the request, by which a ledger recognises it.

        It holds what is public about the size of the data: the hash of public rows, the number of
        private records, the enrolled parties. So a table that grew is another request.
        """

    @abstractmethod
    def identity(self, exact: E, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return what identifies the private data, for notes to the owner alone."""

    @abstractmethod
    def draw(self, exact: E, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""


class Mechanism(ABC, Generic[P]):
    """What an owner wants to release. A subclass is a frozen dataclass; its fields are its options.

    The first lines of a subclass's docstring are the help of ``suffice release NAME``: what is
    published; what it protects, and what is public.

    Attributes
    ----------
    name : str
        Name in commands (``suffice release NAME``).
    source : type
        The kind of input that it takes.
    planner : type, optional
        What ``suffice plan NAME`` is made from, where that is not this value and its source: a
        dataclass with options and a method ``plan``.
    """

    name: ClassVar[str]
    source: ClassVar[type[Source]] = Source
    planner: ClassVar[type[Any] | None] = None

    def __post_init__(self) -> None:
        check_choices(self)

    def release(
        self,
        data: Any,
        *sources: Any,
        ledger: Ledger | None,
        dataset: str | None = None,
        request: str | None = None,
        unprotected: bool = False,
        progress: Callable[[int], None] | None = None,
        **inputs: Any,
    ) -> Release:
        """Return the release of a table, charged to ``ledger``.

        Parameters
        ----------
        data
            The table: an array, a data frame or a file.
        *sources, **inputs
            Further fields of this mechanism's source: the labels ``y`` or the column ``label``, the
            ``features``, and what else it needs.
        ledger : Ledger or None
            The ledger that is charged; None releases without a budget.
        dataset : str, optional
            Name of the data set in the ledger.
        request : str, optional
            Name of the request. The same name returns the same release at no charge, whatever the
            data are now. Default: a hash of the public parameters.
        unprotected : bool
            Release it even if it is not differentially private.
        progress : callable, optional
            Called with the number of rows that were read.

        Returns
        -------
        Release
            What may be published.

        Raises
        ------
        BudgetError
            If the release would exceed the budget.
        UnprotectedError
            If it is not differentially private and ``unprotected`` is False.
        TableError
            If the table cannot be used.
        """
        source = self.source(data, *sources, progress=progress, **inputs)
        payment = Payment(ledger, dataset, request, unprotected)
        return make_release(self, source, payment)

    def check_payment(self, source: Any, payment: Payment) -> None:
        """Raise if an input besides the table was not charged to this ledger."""

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
        """Write further files of the owner, once the release is made; public things only."""

    def plan(self, source: Any, epsilons: Sequence[float] = ()) -> Plan:
        """Return a forecast of the release, from what may be seen alone.

        Unless a mechanism predicts more, its plan is what a release would guarantee.

        Parameters
        ----------
        source
            The table and its columns; no private cell is read.
        epsilons : sequence of float
            Epsilons to compare. Default: the mechanism's own.

        Returns
        -------
        Plan
            A table.
        """
        requests = [_at_epsilon(self, e) for e in epsilons] if epsilons else [self]
        guarantees: list[Guarantee] = []
        for request in requests:
            procedure = request.choose(request.public(source))
            guarantees += procedure.guarantees(procedure.accumulator(identified=False))
        return GuaranteePlan(tuple(guarantees))


def _at_epsilon(mechanism: Mechanism[P], epsilon: float) -> Mechanism[P]:
    """Return the same mechanism at another epsilon."""
    changed: Mechanism[P] = replace(mechanism, epsilon=epsilon)  # type: ignore[type-var]  # subclasses are dataclasses
    return changed


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
    draws_while_reading = procedure.draws_while_reading
    statistic = partial(procedure.accumulator, identified=identified)
    parts = procedure.parts(public)
    try:
        first_pass = procedure.identifier if draws_while_reading else statistic
        exact = source.fold(parts, first_pass)
    except StrangeLabelsError:  # of one batch
        raise counted(public.parts(), source) from None
    procedure.check(exact)
    report = procedure.report(exact)
    if report is not None and source.report is not None:
        source.report(report)
    guarantees = procedure.guarantees(exact)

    def draw() -> Release:
        if not draws_while_reading:
            return procedure.draw(exact, guarantees)
        # Noise on every row: only after the charge.
        noisy = source.fold(parts, partial(procedure.accumulator, identified=True))
        if procedure.identity(noisy, guarantees) != identity:
            raise TableError(
                "The table changed while it was read, after it was charged. Use a copy that nobody"
                " writes to."
            )
        return procedure.draw(noisy, guarantees)

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
        note(f"These classes differ only in upper and lower case: {listed(alike)}.")


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
    registered = _MECHANISMS.get(name)
    if registered is None:
        raise ParameterError(
            f"There is no mechanism {name!r}. The mechanisms are {', '.join(_MECHANISMS)}."
        )
    if isinstance(registered, str):
        module, _, attribute = registered.partition(":")
        registered = _MECHANISMS[name] = getattr(import_module(module), attribute)
    assert not isinstance(registered, str)  # noqa: S101  # for the type checker
    return registered


def register_mechanism(mechanism: type[Mechanism[Any]]) -> None:
    """Add a mechanism, so that commands, planner and documentation find it by its name."""
    if mechanism.name in _MECHANISMS:
        raise ParameterError(f"There is already a mechanism {mechanism.name!r}. Use another name.")
    _MECHANISMS[mechanism.name] = mechanism
