"""Make a release: the contract of a mechanism, and the walk that every release goes through.

Read this file first. A mechanism is a frozen value that says what an owner wants to release; its
fields are its options. A release of it is made in this order (`make_release`):

    public = mechanism.public(source)        what may be seen: columns, public rows, bags, a round
    procedure = mechanism.choose(public)     which noise; nothing private was read yet
    exact = procedure.accumulator()          takes in private batches, on any engine
    procedure.guarantees(exact)              what is guaranteed, from public facts alone
    procedure.draw(exact, guarantees)        the noise: called by `publish`, once it is charged

A procedure that draws while it reads declares it. Its first pass then only identifies the data, and
its statistic is made in a second one, after the charge, on the owner's own machine.

Every release of this package leaves through `publish`. The classes of a data set are declared once,
in its ledger, and never chosen by who asks. Nothing private decides the order of rows.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from suffice.engines.engine import Accumulator, BatchPart, in_one_stream
from suffice.errors import ParameterError, PrivacyError, TableError, UnprotectedError
from suffice.options import Group, budget_option, check_choices, ledger_file, privacy_option, states
from suffice.owner.forecast import Plan
from suffice.owner.ledger import DatasetCharge, Ledger, Made, Request
from suffice.owner.source import OwnerReport, Source, TargetSource, counted
from suffice.plain_text import listed, note
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Scope
from suffice.releases.codec import decode
from suffice.releases.kinds import kind_named
from suffice.releases.release import Release, encode
from suffice.strict_json import canonical
from suffice.tables.columns import Classes, StrangeLabelsError, canonical_class, check_classes
from suffice.tables.data_sheet import DataSheet
from suffice.tables.pipeline import Origin, Pipeline, Provenance
from suffice.tables.table import check_order, order_columns

_BY = "said by the owner"
_TROUBLE = {
    Origin.PRIVATE_ROWS: "the scaling of its columns comes from private rows",
    Origin.UNKNOWN: "nobody stated where the scaling of its columns comes from",
}
_ACCEPTED = {
    source: Assumption(f"nobody minds that the release shows its scaling: {why}", _BY)
    for source, why in _TROUBLE.items()
}


def as_scaled(guarantee: Guarantee, origin: Provenance) -> Guarantee:
    """Return what a guarantee says of a release whose pipeline has this origin.

    Numbers that were declared or come from public rows leave it as it is. Numbers from private
    rows, and those of unknown origin, make it data-dependent: the release shows them.
    """
    if origin.is_public:
        return guarantee
    kind = Protection.DATA_DEPENDENT if guarantee.kind is Protection.GLOBAL else guarantee.kind
    assumptions = (*guarantee.assumptions, _ACCEPTED[origin.source])
    return replace(guarantee, kind=kind, assumptions=assumptions)


def scaling_trouble(origin: Provenance) -> str:
    """Return why a pipeline of this origin, private or unknown, cannot be used as public."""
    return _TROUBLE[origin.source]


def same_classes(first: Classes, second: Classes) -> bool:
    """Say whether two lists name the same classes, in any order and spelling."""
    return {*map(canonical_class, first)} == {*map(canonical_class, second)}


@dataclass(frozen=True)
class Payment:
    """What a release is charged to, and what its owner declares.

    Without a ledger it is released without a budget. With one, ``report`` is called with when the
    charge was made.
    """

    ledger: Ledger | None = budget_option(
        None,
        "Charge this release to this ledger: a file, or postgresql://HOST/DATABASE.",
        parse=Ledger,
        path=ledger_file,
    )
    dataset: str | None = budget_option(
        None, "Name of the data set in the ledger, for example diagnosis."
    )
    request: str | None = budget_option(
        None,
        "Name of this request. The same name returns the same file at no charge. A new name"
        " draws new noise and is charged.",
    )
    unprotected: bool = privacy_option(
        False,  # noqa: FBT003  # a default
        "Publish even if the release is not differentially private, or protects a column only"
        " when it is read alone.",
    )
    report: Callable[[Made], None] | None = None


def publish(
    draw: Callable[[], Release],
    guarantees: Sequence[Guarantee],
    payment: Payment,
    *,
    parameters: Mapping[str, Any],
    fingerprint: bytes = b"",
    also: Sequence[DatasetCharge] = (),
) -> Release:
    """Return a release that may be published, charged before its noise is drawn.

    Parameters
    ----------
    draw : callable
        Adds the noise. It is called at most once, after the charge is durable.
    guarantees : sequence of Guarantee
        What the release must state, those of further data sets last.
    payment : Payment
        The ledger, the data set and the name of the request.
    parameters : mapping
        The public description of the request, with all that is public about the size of the data.
        Without a request name they name it, so that the same request twice gives the same bytes
        and is charged once, whatever the data are now.
    fingerprint : bytes
        A digest of all private cells that the release reads. The ledger stores it under its key,
        and nothing but notes for the owner depends on it.
    also : sequence of DatasetCharge
        Further data sets that the same release is about, charged together.

    Returns
    -------
    Release
        The new release, or the stored one of the same request.
    """
    if not guarantees:
        raise ParameterError(
            "A release must state at least one guarantee, even if it is that there is none."
        )
    if not payment.unprotected and not all(guarantee.protected for guarantee in guarantees):
        raise UnprotectedError(
            f"{_shortfall(guarantees)} To publish it anyway, use --unprotected (Python:"
            " unprotected=True)."
        )
    ledger, dataset, name = payment.ledger, payment.dataset or "", payment.request or ""
    if ledger is not None:
        if not dataset:
            raise ParameterError(
                "A ledger needs the name of the data set (--dataset; Python: dataset=...)."
            )
        own = guarantees[: len(guarantees) - sum(len(charge.guarantees) for charge in also)]
        named = {"parameters": dict(parameters), "datasets": [dataset, *(c.dataset for c in also)]}
        name = payment.request or hashlib.sha256(canonical(named)).hexdigest()[:16]
        request = Request(name, parameters, fingerprint.hex())
        stored = ledger.debit(dataset, own, request, also, report=payment.report)
        if stored is not None:
            return decode(stored)
    try:
        release = draw()
        if release.guarantees != tuple(guarantees):
            raise PrivacyError("The release does not state the guarantees that were charged.")  # noqa: TRY301
        origin = release.pipeline.origin
        if any(as_scaled(guarantee, origin).kind is not guarantee.kind for guarantee in guarantees):
            raise PrivacyError("The release shows scales of private rows, and does not state it.")  # noqa: TRY301
        if ledger is not None:
            ledger.finish(dataset, name, encode(release))
    except BaseException:
        if ledger is not None:
            ledger.abandon(dataset, name)
        raise
    return release


def _shortfall(stated: Sequence[Guarantee]) -> str:
    """Return why guarantees are too weak to be published without a word of the owner."""
    if any(guarantee.kind is not Protection.GLOBAL for guarantee in stated):
        lines = {assumption for guarantee in stated for assumption in guarantee.assumptions}
        why = next((f": {_TROUBLE[s]}" for s, line in _ACCEPTED.items() if line in lines), "")
        return f"This release is not differentially private{why}."
    marginal = (g.columns for g in stated if g.scope is Scope.MARGINAL)
    columns = dict.fromkeys(chain.from_iterable(marginal))
    return (
        f"This release protects only what column {', '.join(columns)} shows when read alone; a"
        " reader who combines it with other columns may recover its values."
    )


def check_before(
    mechanism: "Mechanism[Any]", source: Source, payment: Payment, declared: Mapping[str, Classes]
) -> None:
    """Raise, before anything is read, if rows lack an order, or classes are not the ledger's.

    A ledger knows labels again by their order (`LabelFingerprint`); labels that are given apart
    belong to rows by it. The order of a release's classes is its own: it only says which of two
    is positive. ``declared`` are the ledger's, by label column; "" stands for every column.
    """
    person = source.person is not None
    if person and not mechanism.protects_people:
        raise ParameterError(
            f"{mechanism.name} cannot protect all rows of a person: its release shows how many a"
            " person has. Remove --person, or use mean-operator, proportions or moments."
        )
    if source.target is not None and not issubclass(mechanism.source, TargetSource):
        raise ParameterError(
            f"{mechanism.name} takes a label, and no number to predict. Use --label, or moments."
        )
    if person and source.y is not None:
        raise ParameterError(
            "With --person, labels are a column of the table: --label (Python: label=...)."
        )
    if source.y is not None:
        check_order(source.data, "the labels are in a separate array")
    if payment.ledger is not None:
        check_order(source.data, "a ledger recognises a data set by the order of its rows")
    if source.label in order_columns(source.data):
        raise TableError(
            f"Rows must not be ordered by their private label, {source.label!r}. Order them by"
            " another column, such as a key."
        )
    source.check()
    if mechanism.classes is None or source.target is not None:
        return
    classes = mechanism.declared_classes()
    folded = [str(name).casefold() for name in classes]
    alike = [str(name) for name in classes if folded.count(str(name).casefold()) > 1]
    if alike:
        note(f"These classes differ only in upper and lower case: {listed(alike)}.")
    listed_there = declared.get(source.label or "", declared.get(""))
    if listed_there is not None and not same_classes(classes, listed_there):
        there, here = (", ".join(map(str, names)) for names in (listed_there, classes))
        raise ParameterError(
            f"The ledger lists the classes {there} for data set {payment.dataset!r}, but this"
            f" release lists {here}. List those of the ledger with --classes (Python: classes=...)."
        )


def check_order_of(source: Source, procedure: Any, public_columns: Iterable[str]) -> None:
    """Raise, before anything private is read, if a release of this kind needs another order.

    Where it shows something of each row, the order is public: no private feature may decide it.
    """
    row_by_row = procedure.row_by_row
    if kind_named(procedure.kind).ordered if row_by_row is None else row_by_row:
        check_order(source.data, "this release describes each row, in their order")
        keys = order_columns(source.data)
        private = set(keys if source.features is None else source.features) - set(public_columns)
        hidden = [name for name in keys if name in private]
        if hidden:
            raise TableError(
                f"Rows must not be ordered by a private column, {hidden[0]!r}. Order them by a"
                " key, and list the features with --features (Python: features=...)."
            )
    elif procedure.draws_while_reading:
        check_order(source.data, "this release reads the rows twice, in the same order")


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
    "help": "Labels that can occur, with commas, for example no,yes; or 1..5, or A..E. Of two, the"
    " last is positive. Default: those of the ledger, or 0,1.",
    "group": Group.DATA,
    "parse": lambda text: tuple(states(text)),
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

    @property
    def fingerprint(self) -> bytes:
        """What identifies the private data; it leaves under the ledger's key only."""


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
    row_by_row : bool or None
        The release says something about each row of its table, in their order. None: as its kind.
    """

    kind: ClassVar[str]
    draws_while_reading: ClassVar[bool] = False
    stays: ClassVar[str] = ""
    row_by_row: ClassVar[bool | None] = None

    @abstractmethod
    def accumulator(self, *, identified: bool) -> E:
        """Return an empty statistic; ``identified``: a ledger must recognise the data."""

    def foreseen(self) -> E:
        """Return a statistic that has taken in what is public of the rows, and nothing private."""
        return self.accumulator(identified=False)

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

    def also(self, guarantees: tuple[Guarantee, ...]) -> Sequence[DatasetCharge]:
        """Return the charges to further data sets, whose guarantees are the last of these."""
        del guarantees
        return ()

    @abstractmethod
    def draw(self, exact: E, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""


@dataclass(frozen=True)
class Asked:
    """What somebody else asks an owner for: all of it is public, and was checked as a proposal."""

    epsilon: float
    delta: float
    noise: str  # a noise type, or auto
    classes: Classes
    features: tuple[str, ...]
    map: str | None
    missing: Any
    pipeline: Pipeline | None
    options: Mapping[str, Any]  # of `Mechanism.offered`
    sheet: DataSheet | None  # where records are private, ranges and categories are from here


class Mechanism(ABC, Generic[P]):
    """What an owner wants to release. A subclass is a frozen dataclass; its fields are its options.

    Attributes
    ----------
    name : str
        Name in commands (``suffice release NAME``).
    release_help : str
        Help of that command: a line for the list of releases; then what the file holds, what it
        protects and what is public. Default: the first line of the docstring.
    plan_help : str
        The line of ``suffice plan NAME`` in the list of plans.
    source : type
        The kind of input that it takes.
    planner : type, optional
        What ``suffice plan NAME`` is made from, where that is not this value and its source: a
        dataclass with options and a method ``plan``.
    noises, offered
        What a proposal may say: see `as_asked`.
    """

    name: ClassVar[str]
    release_help: ClassVar[str] = ""
    plan_help: ClassVar[str] = ""
    source: ClassVar[type[Source]] = Source
    planner: ClassVar[type[Any] | None] = None
    protects_people: ClassVar[bool] = False  # whether it can protect all rows of a person together
    # Noise types that a proposal may name, and whether they need a delta; none: it is not proposed.
    noises: ClassVar[Mapping[str, bool]] = {}
    offered: ClassVar[Mapping[str, type]] = {}  # further options of a proposal, and their types
    releases: ClassVar[str] = ""  # the kind of its releases, where that is not its own name
    has_public_rows: ClassVar[bool] = False  # everybody may see the rows; else records are private
    ordered_rows: ClassVar[bool] = False  # it speaks of public rows one by one, in their order
    classes: Any = None  # the labels that can occur, where a table has one

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

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return the mechanism that a proposal asks for; never one that needs ``unprotected``."""
        del asked
        raise ParameterError(f"A release of kind {cls.name} cannot be proposed.")

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many products of numbers a release takes, and how many bytes it has.

        By arithmetic on public numbers: rows of ``width`` encoded columns.
        """
        return rows * width, 8 * width

    def release_whatever_labels(
        self,
        data: Any,
        y: Any = None,
        *,
        ledger: Ledger,
        dataset: str,
        request: str | None = None,
        **inputs: Any,
    ) -> Release:
        """Return the same release for somebody else: no answer depends on a private cell.

        A label that is missing or outside the classes counts as none and weighs nothing. Changed
        labels are charged to the same budget.

        Parameters
        ----------
        data, y
            The table and its labels, or the column ``label`` among ``inputs``.
        ledger : Ledger
            The ledger that is charged.
        dataset : str
            Name of the data set in the ledger.
        request : str, optional
            Name of the request.
        **inputs
            Further fields of this mechanism's source.

        Returns
        -------
        Release
            The release, with noise.
        """
        source = self.source(data, y, outside="none", report=OwnerReport.tell, **inputs)
        return make_release(self, source, Payment(ledger, dataset, request))

    def check_payment(self, source: Any, payment: Payment) -> None:
        """Raise if an input besides the table was not charged to this ledger."""

    def declared_classes(self) -> Classes:
        """Return the declared classes of the label."""
        return check_classes(self.classes)

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
        own: Any = self  # a dataclass, as all mechanisms are
        requests = [replace(own, epsilon=epsilon) for epsilon in epsilons] or [self]
        guarantees: list[Guarantee] = []
        for request in requests:
            procedure = request.choose(request.public(source))
            guarantees += procedure.guarantees(procedure.foreseen())
        rows = [guarantee.to_json() for guarantee in guarantees]
        return Plan(
            title="What a release would guarantee; no private cell was read",
            columns={
                "epsilon": lambda row: f"{row['epsilon'] or math.inf:.4g}",
                "delta": "{delta:g}".format_map,
                "unit": "{unit}".format_map,
                "guarantee": "{kind}".format_map,
            },
            rows=rows,
            facts={"rows": rows},
        )


def make_release(mechanism: Mechanism[Any], source: Source, payment: Payment) -> Release:
    """Return a release: the walk that every mechanism goes through, with its checks."""
    declared: Mapping[str, Classes] = {}  # in the ledger, by label column
    if payment.ledger is not None and payment.dataset:
        declared = payment.ledger.declared(payment.dataset)
    check_before(mechanism, source, payment, declared)
    with source.running() as opened:  # one snapshot, one engine
        mechanism.check_payment(opened, payment)
        public = mechanism.public(opened)  # reads no private cell
        shown = {*public.shown, *order_columns(opened.data)}
        if private := sorted(shown & {*declared} - {""}):
            raise ParameterError(
                f"The ledger declares column {private[0]!r} as a label. It is private: no feature,"
                " bag, id or order of rows. Name other columns, or list the features without it:"
                " --features (Python: features=...)."
            )
        procedure = mechanism.choose(public)
        check_order_of(opened, procedure, public.shown)
        parts, draws_while_reading = procedure.parts(public), procedure.draws_while_reading
        statistic = partial(procedure.accumulator, identified=payment.ledger is not None)
        try:
            exact = opened.fold(parts, procedure.identifier if draws_while_reading else statistic)
        except StrangeLabelsError:  # of one batch
            raise counted(public.parts(), opened) from None
        procedure.check(exact)
        report = procedure.report(exact)
        if report is not None and opened.report is not None:
            opened.report(report)
        guarantees = procedure.guarantees(exact)

        def draw() -> Release:
            if not draws_while_reading:
                return procedure.draw(exact, guarantees)
            # Noise on every row: only after the charge.
            noisy = opened.fold(parts, partial(procedure.accumulator, identified=True))
            if noisy.fingerprint != exact.fingerprint:
                raise TableError(
                    "The table changed while it was read, after it was charged. Use a copy that"
                    " nobody writes to."
                )
            return procedure.draw(noisy, guarantees)

        release = publish(
            draw,
            guarantees,
            payment,
            parameters=procedure.parameters(exact),
            fingerprint=exact.fingerprint,
            also=procedure.also(guarantees),
        )
        mechanism.finish(opened, release)
        return release


# Every mechanism by its name in commands, and where it lives: nothing is imported until it is used.
_MECHANISMS: dict[str, str | type[Mechanism[Any]]] = {
    "mean-operator": "suffice.owner.mean_operator:MeanOperator",
    "responses": "suffice.owner.responses:RandomizedResponse",
    "rados": "suffice.owner.rados:Rados",
    "moments": "suffice.owner.moments:Moments",
    "proportions": "suffice.owner.proportions:LabelProportions",
    "bags": "suffice.owner.proportions:SkewedBags",
    "parties": "suffice.owner.parties.ensemble:PrivateEnsemble",
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
