"""What a proposal would do, before anybody decides about it, and the pictures of it on the pages.

Others see the decision, so nothing here depends on a private cell: public rows, the data sheet, the
policy and the ledger are all that is read. The forecast is the plan of the mechanism itself. It is
worked out in a process of its own, because it may take long.

Pictures are SVG made of plain values, without a library and without a style: colours come from the
style sheet. A picture is as wide as a phone, and grows with the page. Its words are in its
description, and its numbers in a text or table beside it.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from markupsafe import Markup, escape

from suffice.errors import ParameterError, StorageError
from suffice.owner.ledger.ledger import Step
from suffice.owner.mechanism import mechanism_of
from suffice.owner.policy import Terms
from suffice.privacy.guarantee import Guarantee
from suffice.protocol.grant import hashed_rows, procedure_of
from suffice.protocol.messages import Proposal
from suffice.releases.release import HashedRows
from suffice.service.oversight import KIND_TEXTS
from suffice.service.records import StoredProposal
from suffice.service.settings import ServedData, Settings
from suffice.service.workers import new_pool
from suffice.tables.columns import Classes
from suffice.tables.files import TableFile

CANNOT = "The service cannot predict this release from public rows and the data sheet."
# Kinds with a forecast of what can be learnt; of the others a plan states the guarantee alone, or
# is about another release.
_FORECAST = ("mean-operator", "proportions", "moments", "rados")


@dataclass(frozen=True)
class Foresight:
    """What a release would guarantee, and what could be learnt from it; all of it public."""

    guarantees: tuple[Guarantee, ...] = ()
    title: str = ""  # of the forecast
    heads: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    advice: tuple[str, ...] = ()
    # Epsilon, and predicted accuracy of a hard, a usual and an easy problem; empty for no such.
    accuracy: tuple[tuple[float, float, float, float], ...] = ()
    without_noise: float = 0.0  # accuracy of the usual problem
    larger_class: float = 0.0  # accuracy of whoever always guesses the larger class
    trouble: str = ""  # why there is nothing


def foresee(settings: Settings, stored: StoredProposal) -> Foresight:
    """Return what a proposal would do: no private cell is read."""
    served, proposal = settings.datasets[stored.dataset], stored.proposal
    wanted = mechanism_of(proposal.kind)
    if wanted.has_public_rows:
        subject: Any = served.file
        person = served.policy.person
    elif served.sheet is None or served.policy.person is not None:
        return Foresight(trouble=CANNOT)  # how many people there are is private
    else:
        subject, person = served.sheet, None
    mechanism, source = procedure_of(proposal, subject, label=served.label, person=person)
    procedure = mechanism.choose(mechanism.public(source))
    guarantees = procedure.guarantees(procedure.foreseen())
    if proposal.kind not in _FORECAST:
        return Foresight(guarantees)
    plan = mechanism.plan(source)
    chosen = [row for row in plan.chosen if "accuracy" in row]
    names = ("hard", "usual", "easy")
    return Foresight(
        guarantees,
        title=plan.title,
        heads=tuple(plan.columns),
        cells=tuple(plan.cells()),
        advice=tuple(plan.advice),
        accuracy=tuple((row["epsilon"], *(row["accuracy"][n] for n in names)) for row in chosen),
        without_noise=plan.facts["without_noise"]["usual"] if chosen else 0.0,
        larger_class=plan.facts["always_larger_class"] if chosen else 0.0,
    )


class Planning:
    """Works out what pages show of proposals, one after the other, and keeps the last results."""

    kept: ClassVar[int] = 200  # results, of a few kilobytes each
    waiting: ClassVar[int] = 20  # of them, until they are worked out

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: ProcessPoolExecutor | None = None
        self._begun: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def foresight(self, stored: StoredProposal) -> Foresight | None:
        """Return what a proposal would do; None while it is being worked out."""
        try:
            begun = self.begin((stored.dataset, stored.digest), foresee, self._settings, stored)
            # Half a second: a page in work comes again by itself.
            if begun is None or not wait([begun], 0.5).done:
                return None
            found: Foresight = self.result(begun)
        except Exception:  # noqa: BLE001  # its text may quote, and everybody gets the same sentence
            return Foresight(trouble=CANNOT)
        return found

    def warm_up(self) -> None:
        """Start the process before it is needed: that takes longer than most work."""
        with self._lock:
            if self._pool is None:
                self._pool = new_pool()
                self._pool.submit(int)

    async def rows(
        self, dataset: str, text: str | None, offer: "Offer", fields: Mapping[str, str]
    ) -> HashedRows:
        """Return number and hash of rows: those of a file, or those of the data set itself.

        A learner is told what is wrong with a file of its own. No thread waits for it: those are
        for everybody's pages.
        """
        about = (offer.kind, *columns_of(offer, fields))
        source: tuple[Any, ...] = (rows_of_table, self._settings, dataset)
        if text is not None:
            source, dataset = (rows_of_file, text), sha256(text.encode()).hexdigest()
        begun = self.begin((dataset, *about), *source, *about)
        if begun is not None:
            await asyncio.wait([asyncio.wrap_future(begun)], timeout=10)  # seconds
        if begun is None or not begun.done():
            raise ParameterError("The service is still reading the rows. Send it again.")
        try:
            rows: HashedRows = self.result(begun)
        except (BrokenProcessPool, StorageError):
            raise ParameterError(
                "The rows cannot be read. Send a CSV file with a header."
            ) from None
        return rows

    def begin(
        self, key: tuple[Any, ...], work: Callable[..., Any], *about: Any
    ) -> Future[Any] | None:
        """Return the work of a key, begun now or before; None while too much waits."""
        with self._lock:
            begun = self._begun.get(key)
            if begun is None:
                if sum(not other.done() for other in self._begun.values()) >= self.waiting:
                    return None
                self._pool = self._pool or new_pool()
                begun = self._begun[key] = self._pool.submit(work, *about)
                if len(self._begun) > self.kept:
                    self._begun.popitem(last=False)
        return begun

    def result(self, begun: Future[Any]) -> Any:
        """Return what some work gave, or raise what it raised."""
        try:
            return begun.result()
        except BrokenProcessPool:  # it was killed: the next one begins anew
            with self._lock:
                self._pool = None
            raise

    def close(self) -> None:
        """End the process; what it was at is needed no more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Offer:
    """A kind of release that may be proposed, and what its form asks: all of it is public."""

    most_listed: ClassVar[int] = 60  # columns, one by one
    most_bytes: ClassVar[int] = 10**6  # of its form, with a file of rows

    kind: str
    title: str
    contents: str
    has_public_rows: bool
    columns: tuple[str, ...]
    bags: tuple[str, ...]  # the same, those of texts first
    noises: tuple[str, ...]  # of which one may be chosen
    needs_delta: bool  # whatever the noise
    options: tuple[str, ...]  # of `Mechanism.offered`
    has_map: bool


def offers_of(served: ServedData) -> list[Offer]:
    """Return what may be proposed about a data set: no cell is read."""
    policy, sheet, offers = served.policy, served.sheet, []
    for kind in policy.kinds:
        wanted = mechanism_of(kind)
        public = wanted.has_public_rows
        columns = served.columns if sheet is None or not public else sheet.public
        if policy.features is not None:
            columns = tuple(name for name in columns if name in policy.features)
        columns = tuple(name for name in columns if name != policy.person)
        granted = ("auto", *wanted.noises) if "auto" in policy.mechanisms else policy.mechanisms
        noises = [n for n in granted if n == "auto" or n in wanted.noises]
        needs = all(wanted.noises.values())
        ordered = sheet is not None and sheet.ordered
        known = public or (sheet is not None and sheet.rows is not None)
        possible = known and (ordered or not wanted.ordered_rows)
        if possible and columns and noises and (policy.largest_delta > 0 or not needs):
            title, contents = KIND_TEXTS.get(kind, (kind, ""))
            bags = sorted(columns, key=lambda name: sheet is None or not sheet[name].is_text)
            offers.append(
                Offer(
                    kind,
                    title,
                    contents,
                    public,
                    columns,
                    bags=tuple(bags),
                    noises=tuple(noises),
                    needs_delta=needs,
                    options=tuple(wanted.offered),
                    has_map=policy.maps and public,
                )
            )
    return offers


def columns_of(offer: Offer, fields: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the features and the columns of bags that a form names."""
    bags = (fields.get("bags", ""),) if "bags" in offer.options else ()
    if not {*bags} <= {*offer.columns}:
        raise ParameterError("This column cannot form bags. Choose another one.")
    few = len(offer.columns) <= Offer.most_listed
    chosen = [n for k, n in enumerate(offer.columns) if not few or f"column {k}" in fields]
    features = tuple(name for name in chosen if name not in bags)
    if not features:
        raise ParameterError("Choose at least one column.")
    return features, bags


def proposal_of(
    offer: Offer, fields: Mapping[str, str], classes: Classes, rows: HashedRows | None
) -> Proposal:
    """Return what a form proposes; raise ParameterError, in words for whoever filled it in."""

    def given(name: str, what: str) -> float:
        try:
            return float(fields.get(name) or 0)
        except ValueError:
            raise ParameterError(f"The {what} must be a number, for example 0.5.") from None

    if not classes:
        raise ParameterError("The classes of this data set are not declared. Ask the owner.")
    features, bags = columns_of(offer, fields)
    options: dict[str, Any] = {"bags": bags} if bags else {}
    if "bound" in offer.options and fields.get("bound"):
        options["bound"] = given("bound", "length")
    if "count" in offer.options and fields.get("sums"):
        options["count"] = int(min(given("sums", "number of sums"), 2**31))
    noise = fields.get("noise", "")
    if noise not in offer.noises:
        raise ParameterError("This noise type cannot be chosen here. Choose another one.")
    return Proposal(
        kind=offer.kind,
        terms=Terms(given("epsilon", "epsilon"), given("delta", "delta"), noise),
        rows=rows,
        features=features,
        classes=classes,
        map=fields.get("map") or None if offer.has_map else None,
        missing="error" if offer.has_public_rows else "mean",
        purpose=fields.get("purpose", ""),
        options=options,
    )


def rows_of_file(text: str, *about: Any) -> HashedRows:
    """Return number and hash of the rows in a learner's file; nothing of it stays."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_bytes(text.encode())
        return _rows(TableFile(path), None, *about)


def rows_of_table(settings: Settings, dataset: str, *about: Any) -> HashedRows:
    """Return number and hash of the public rows of a data set: no label is read."""
    served = settings.datasets[dataset]
    return _rows(served.file, served.label, *about)


def _rows(
    table: TableFile, label: str | None, kind: str, features: tuple[str, ...], bags: tuple[str, ...]
) -> HashedRows:
    ordered = mechanism_of(kind).ordered_rows
    return hashed_rows(table, features, label, bags, ordered=ordered)


# Of a picture: its size, and the edges of the drawing inside, for marks and their words.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 360, 200, 44, 352, 14, 160

Point = tuple[float, float]


def accuracy_picture(
    points: Sequence[tuple[float, float, float, float]],
    epsilon: float,
    without_noise: float,
    larger_class: float,
) -> Markup:
    """Return predicted accuracy against epsilon, from hard to easy problems, as SVG.

    Points are epsilon, and the accuracy of a hard, a usual and an easy problem. The epsilon that is
    asked for is marked.
    """
    low = min(larger_class, *(point[1] for point in points))
    gap = (_RIGHT - _LEFT - 32) / max(len(points) - 1, 1)

    def height(accuracy: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (accuracy - low) / max(1 - low, 1e-9)

    hard, usual, easy = (
        [(_LEFT + 16 + gap * place, height(point[k])) for place, point in enumerate(points)]
        for k in (1, 2, 3)
    )
    marks = [low + (1 - low) * k / 4 for k in range(4 + 1)]
    parts = [
        across(height(mark), "grid") + written(0, height(mark), f"{mark:.0%}") for mark in marks
    ]
    parts += [drawn("polygon", "band", [*hard, *reversed(easy)]), drawn("polyline", "line", usual)]
    parts.append(across(height(without_noise), "dashed"))
    for (x, y), point in zip(usual, points, strict=True):
        kind, radius = ("asked", 5) if point[0] == epsilon else ("tick", 3)
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')
        parts.append(written(x, _BOTTOM + 16, f"{point[0]:g}", "middle", kind))
    parts.append(written((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "epsilon", "middle"))
    return picture("Predicted accuracy at several epsilons; the table has the numbers.", parts)


def budget_picture(steps: Sequence[Step], unit: str) -> Markup:
    """Return how much of a budget was spent, and its limit, after each charge and raise, as SVG."""
    gap = (_RIGHT - _LEFT) / len(steps)
    most = max(max(step.limit, step.spent) for step in steps)

    def height(amount: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * amount / most

    def stairs(amounts: Sequence[float]) -> list[Point]:
        corners: list[Point] = []
        for k, amount in enumerate(amounts):
            left = _LEFT + k * gap
            corners += [(left, height(amount)), (left + gap, height(amount))]
        return corners

    spent, limit = ([getattr(step, name) for step in steps] for name in ("spent", "limit"))
    marks = [most * k / 4 for k in range(4 + 1)]
    parts = [
        across(height(mark), "grid") + written(0, height(mark), f"{mark:.3g}") for mark in marks
    ]
    ground = [(float(_RIGHT), height(0.0)), (float(_LEFT), height(0.0))]
    parts.append(drawn("polygon", "band", [*stairs(spent), *ground]))
    parts += [drawn("polyline", "line", stairs(spent)), drawn("polyline", "limit", stairs(limit))]
    days = [step.time.strftime("%Y-%m-%d") for step in (steps[0], steps[-1])]
    parts.append(written(_LEFT, _BOTTOM + 16, days[0], "start"))
    if days[1] != days[0]:
        parts.append(written(_RIGHT, _BOTTOM + 16, days[1]))
    below = f"epsilon per {unit}, charge by charge"
    parts.append(written((_LEFT + _RIGHT) / 2, _BOTTOM + 34, below, "middle"))
    raised = [
        step for step, before in zip(steps[1:], steps, strict=False) if step.limit > before.limit
    ]
    words = f"The budget per {unit} was opened with epsilon {limit[0]:g} on {days[0]}."
    for step in raised:
        words += f" It was raised to {step.limit:g} on {step.time:%Y-%m-%d}."
    words += f" {spent[-1]:.4g} of it is spent. The dashed line is the budget."
    return picture(words, parts)


def cost_picture(budget: float, left: float, after: float, what: str) -> Markup:
    """Return a bar of a budget: what is spent, what a release takes, and what would be left."""
    spent, taken = _WIDTH * (budget - left) / budget, _WIDTH * (left - after) / budget
    bars = {"spent": (0.0, spent), "taken": (spent, taken), "frame": (0.0, float(_WIDTH))}
    parts = [
        f'<rect class="{kind}" x="{x:.1f}" y="0" width="{wide:.1f}" height="18"/>'
        for kind, (x, wide) in bars.items()
    ]
    words = (
        f"Budget {what}: {spent / _WIDTH:.0%} spent, {taken / _WIDTH:.0%} for this release, the"
        " rest left."
    )
    return picture(words, parts, 18)


def interval_picture(
    row: tuple[str, float, float, float], ends: tuple[float, float] = (0.0, 1.0)
) -> Markup:
    """Return an estimate with its interval, as a mark on a bar between the ends, as SVG.

    A row has words, the estimate, and low and high of its interval.
    """

    def place(value: float) -> float:
        return _WIDTH * (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])

    words, estimate, low, high = row
    wide = place(high) - place(low)
    parts = [
        f'<rect class="frame" x="0" y="0" width="{_WIDTH}" height="18"/>',
        f'<rect class="reach" x="{place(low):.1f}" y="4" width="{wide:.1f}" height="10"/>',
        f'<circle class="tick" cx="{place(estimate):.1f}" cy="9" r="5"/>',
    ]
    return picture(f"{words}: {estimate:.3g}, from {low:.3g} to {high:.3g}", parts, 18)


def across(y: float, kind: str) -> str:
    """Return a line across the drawing."""
    return f'<line class="{kind}" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def written(x: float, y: float, text: str, anchor: str = "end", kind: str = "mark") -> str:
    """Return some words; those of the vertical axis are at x = 0."""
    if x == 0:
        x, y = _LEFT - 6, y + 4
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def drawn(shape: str, kind: str, points: Iterable[Point]) -> str:
    """Return a line or an area through some points."""
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<{shape} class="{kind}" points="{corners}"/>'


def picture(words: str, parts: Iterable[str], height: int = _HEIGHT) -> Markup:
    """Return a whole picture, with the words for whoever does not see it."""
    inside = "".join(parts)
    return Markup(  # noqa: S704  # numbers, and words of our own
        f'<svg class="picture" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{escape(words)}">{inside}</svg>'
    )
