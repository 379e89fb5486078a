"""Sum what many parties contribute: who is enrolled, what is accepted, whose records count.

A contribution that is missing, late or not what a party could have computed counts as zero and is
reported by name; it never stops the others. Whether one is accepted depends on itself and on
public things alone, so that replacing one party's data changes one term of the sum and no more.

The header of a contribution (party, statistic, rows, pipeline, grid, classes) is public by
agreement, its array is private. A round that no header fits is refused before anything is charged;
no array is looked at for that.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from suffice import plain_text
from suffice.engines.engine import fold
from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError, SufficeError, TableError
from suffice.models.local import local_classifiers
from suffice.options import REQUIRED, budget_option, data_option, output_option
from suffice.owner.mean_operator import operator_columns
from suffice.owner.parties.contribution import (
    VOTE,
    AgreedRows,
    AuxiliaryRows,
    ClassSums,
    PartForm,
    PartyContribution,
    check_name,
    from_codes,
    operator_weights,
    parameter_radius,
    reach,
    whitened_shape,
)
from suffice.owner.source import Source
from suffice.releases.file import read_bounded
from suffice.tables.columns import Classes, label_codes, resolve_roles
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_declared

STRANGER = "this party is not enrolled"
UNKNOWN = "unknown party"
_MOST_BYTES = 2**26  # of a list of names


@dataclass(frozen=True)
class Rejection:
    """States whose contribution counted as zero, where it came from, and why."""

    party: str
    source: str  # the file that it came from, or nothing
    reason: str

    def __str__(self) -> str:
        where = f" ({plain_text.phrase(self.source)})" if self.source else ""
        # A name is a stranger's text, also if it is the word for those who have none.
        who = UNKNOWN if self.party is UNKNOWN else plain_text.quoted(self.party)
        return f"{who}{where}: {self.reason}"


@dataclass(frozen=True)
class Enrolled:
    """The parties that take part in a round. Both fields are public and never read from records."""

    count: int  # M: every sum is divided by it, however many of them contribute
    names: tuple[str, ...] | None = None  # where these are known

    @classmethod
    def of(cls, enrolled: "Enrolled | int | Sequence[str]") -> "Enrolled":
        """Return the parties of a number or of a list of names."""
        if isinstance(enrolled, Enrolled):
            return enrolled
        if isinstance(enrolled, int) and not isinstance(enrolled, bool):
            if enrolled < 1:
                raise ParameterError("The number of enrolled parties must be at least 1.")
            return cls(enrolled)
        names = tuple(enrolled) if isinstance(enrolled, Iterable) else ()
        if isinstance(enrolled, str) or not names or not all(isinstance(n, str) for n in names):
            raise ParameterError(
                "Enrolled parties must be a number or a list of names. Use --enrolled 500, or"
                " --enrolled FILE with a name on each line."
            )
        if len(set(names)) < len(names):
            raise ParameterError("A party is enrolled twice. List each name once.")
        return cls(len(names), tuple(sorted(map(check_name, names))))

    @cached_property
    def _known_names(self) -> frozenset[str] | None:
        return None if self.names is None else frozenset(self.names)

    def admits(self, party: str) -> bool:
        """Say whether what ``party`` holds may count: it is enrolled, or only numbers are known."""
        return self._known_names is None or party in self._known_names

    def digest(self) -> str:
        """Return the digest of the names, or of the number: public."""
        listed = "\0".join(self.names) if self.names is not None else f"number {self.count}"
        return hashlib.sha256(b"enrolled parties\0" + listed.encode()).hexdigest()


def enrolled_parties(text: str) -> int | list[str]:
    """Return a number of parties, or their names: those in a file, or those with commas."""
    if text.isdecimal():
        return int(text)
    path = Path(text)
    if "," in text and not path.exists():
        lines = text.split(",")
    else:
        lines = read_bounded(path, _MOST_BYTES).decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


Sent = PartyContribution | str | Path | bytes
_ACCEPTS = {
    "operator": ("operator", "votes"),
    "votes": ("votes",),
    "parameters": ("parameters",),
    "class-sums": ("class-sums",),
}
STAYS = "The contributions of parties are summed on the aggregator's machine."
_SHOWN_REASONS = 3  # of the reasons why headers do not fit


@dataclass(frozen=True, eq=False)
class Gathered:
    """The exact sum over parties, which is private, and what happened to each contribution."""

    total: np.ndarray  # of the statistic's shape
    accepted: int  # how many contributions were counted
    rejected: tuple[Rejection, ...]  # those that counted as zero
    missing: tuple[str, ...]  # enrolled parties without a contribution, where names are known
    absent: int  # how many enrolled parties sent no contribution
    content: bytes  # what identifies the contributions behind the sum


@dataclass(eq=False, repr=False)
class PartyExact(ABC):
    """What parties said, summed exactly: contributions, a finished tally, or records of a table."""

    statistic: str  # what is summed
    auxiliary: AuxiliaryRows  # this and the next two are those of the round
    classes: Classes
    enrolled: Enrolled
    lam: float = 1e-4  # the penalty behind parameters
    samples: int = 1  # the number of records behind class sums
    count: int = field(default=0, init=False)  # of contributions, tallies or records

    def update(self, batch: Any) -> None:
        """Take in a contribution, or records; a finished tally takes in nothing."""
        raise NotImplementedError

    def merge(self, other: Any) -> NoReturn:
        """Refuse: what parties sent is summed in one place, in one stream."""
        del other
        raise ParameterError(STAYS)

    @abstractmethod
    def check(self) -> None:
        """Raise if public facts forbid the release."""

    @abstractmethod
    def result(self) -> Gathered:
        """Return the sum, and what became of each contribution: private."""

    @property
    def fingerprint(self) -> bytes:
        """What identifies the contributions; it leaves under the ledger's key only."""
        return self.result().content


@dataclass(eq=False, repr=False)
class Gathering(PartyExact):
    """Checks contributions against public rows and classes, and sums what passes.

    Where the operator is summed, votes are taken as well, and become one.
    """

    def __post_init__(self) -> None:
        classes, auxiliary = self.classes, self.auxiliary
        self._sums = ClassSums(auxiliary, len(classes), self.samples)
        agreed = auxiliary, classes, self.lam, self.samples
        self._forms = {name: PartForm.of(name, *agreed) for name in _ACCEPTS[self.statistic]}
        self._total = np.zeros(self._forms[self.statistic].shape, dtype=np.int64)
        self._lines: list[tuple[str, bytes]] = []
        self._sources: dict[str, str] = {}
        self._rejected: list[Rejection] = []
        self._fitting = 0  # contributions whose header is of this round, whatever their array

    def update(self, batch: Iterable[Sent]) -> None:
        """Take in contributions, files of them, or their bytes; a party that sent two is an error.

        Two contributions under one name cannot be told apart, so that neither is chosen: remove
        one and gather again. Nothing was spent.
        """
        for item in batch:
            source = str(item) if isinstance(item, str | Path) else ""
            self.count += 1
            try:
                part = item if isinstance(item, PartyContribution) else PartyContribution.load(item)
            except SufficeError as error:
                self._rejected.append(Rejection(UNKNOWN, source, str(error)))
                continue
            self._register_party(part.party, source)
            reason = self._reason_by_header(part)
            self._fitting += reason is None
            reason = reason or self._reason_by_array(part)
            if reason:
                self._rejected.append(Rejection(part.party, source, reason))
                continue
            array = part.array.astype(np.int64)
            if part.statistic != self.statistic:  # votes, where their operator is wanted
                array = self.auxiliary.sums(operator_weights(array))
            self._total += array
            self._lines.append((part.party, hashlib.sha256(array.tobytes()).digest()))

    def check(self) -> None:
        """Raise if no contribution's header is of this round: the release would be noise alone.

        Only headers decide, which are public. Where one fits and its array is at fault, noise is
        released and charged: a refusal would say something about the array.
        """
        if self._fitting:
            return
        if not self._rejected:
            raise ParameterError(
                "There is no contribution. Nothing was charged or released. Name the .part files"
                " of the parties."
            )
        counted = Counter(rejection.reason.rstrip(".") for rejection in self._rejected)
        reasons = [f"{reason} ({count:,})" for reason, count in counted.most_common(_SHOWN_REASONS)]
        raise ParameterError(
            f"None of the {len(self._rejected):,} contributions belongs to this round. Nothing was"
            " charged or released. Use the auxiliary rows, pipeline, classes, method and enrolled"
            f" parties that all agreed on. Reasons: {'; '.join(reasons)}."
        )

    def _register_party(self, party: str, source: str) -> None:
        """Note that a party sent something; refuse a second time."""
        if party in self._sources:
            both = " and ".join(s for s in (self._sources[party], source) if s)
            raise ParameterError(
                f"Party {party!r} contributed twice{f' ({both})' if both else ''}. Remove one of"
                " the two contributions."
            )
        self._sources[party] = source
        if self.enrolled.names is None and len(self._sources) > self.enrolled.count:
            raise ParameterError(
                f"More than the {self.enrolled.count} enrolled parties contributed. Correct the"
                " number of enrolled parties, which is public."
            )

    def _reason_by_header(self, part: PartyContribution) -> str | None:
        """Return why a contribution belongs elsewhere, by its header alone, or None."""
        if not self.enrolled.admits(part.party):
            return STRANGER
        return self._forms.get(part.statistic, self._forms[self.statistic]).misfit(part)

    @cached_property
    def _operator_limits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """The largest entry by column, the sum over classes, the whitening, the norm after it."""
        codes = self.auxiliary.codes
        shape = whitened_shape(codes)
        whiten = np.eye(codes.shape[1]) if shape is None else shape.matrix / 2.0**shape.bits
        norm = VOTE * len(codes) * reach(codes, shape) * (1 + 1e-6)
        return VOTE * np.abs(codes).sum(axis=0), VOTE * codes.sum(axis=0), whiten, norm

    def _reason_by_array(self, part: PartyContribution) -> str | None:
        """Return why no votes, penalised minimiser or class sums give this array, or None.

        Honest contributions keep every limit. The guarantee of parameters and class sums rests on
        theirs; for votes the limits bound what a dishonest party can do to the sum. The operator's
        norm is taken in whitened coordinates, in which votes do as much in every direction.
        """
        array = part.array
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
            return "it does not hold integers"
        if wrong := self._forms[part.statistic].shape_misfit(part):
            return wrong
        array = array.astype(np.float64)
        if part.statistic == "votes":
            valid = (array >= 0).all() and (array <= VOTE).all()
            valid = valid and (array.sum(axis=1) == VOTE).all()
            return None if valid else "its votes are not proportions that add up to one in each row"
        if part.statistic == "parameters":
            most = largest_parameters(self.auxiliary, len(self.classes), self.lam)
            within = float(np.linalg.norm(array)) <= most
            return (
                None if within else "its parameters are larger than those of any trained classifier"
            )
        if part.statistic == "class-sums":
            within = float(np.linalg.norm(array)) <= self._sums.most
            return None if within else "its class sums are longer than all agreed on"
        columns, total, whiten, norm = self._operator_limits
        size = float(np.linalg.norm(array @ whiten.T))
        if not size <= norm or (np.abs(array) > columns).any():
            return "it is larger than any votes could make it"
        if len(self.classes) > 2 and (array.sum(axis=0) != total).any():
            return "its votes do not add up to one vote for each row"
        return None

    def result(self) -> Gathered:
        """Return the sum, and a report of everything that did not enter it."""
        content = hashlib.sha256(f"{self.statistic}\0".encode())
        for party, digest in sorted(self._lines):
            content.update(hashlib.sha256(party.encode()).digest() + digest)
        names = self.enrolled.names or ()
        missing = tuple(name for name in names if name not in self._sources)
        return Gathered(
            total=self._total,
            accepted=len(self._lines),
            rejected=tuple(self._rejected),
            missing=missing,
            absent=len(missing) if names else self.enrolled.count - len(self._sources),
            content=content.digest(),
        )


def largest_parameters(auxiliary: AuxiliaryRows, classes: int, lam: float) -> float:
    """Return the norm, in steps, up to which a party's parameters are accepted.

    That of the longest minimiser, rounded to the grid, and a little for floats.
    """
    radius = parameter_radius(auxiliary, classes, lam)
    width = len(auxiliary.pipeline.outputs) * operator_columns(classes)
    return (radius / lattice_step(radius) + math.sqrt(width) / 2) * (1 + 1e-9)


@dataclass(eq=False)
class VoteTally:
    """Protects nothing: counts the votes of many parties whose data one owner holds.

    ``add`` counts the votes of several parties at once. The sums equal those of the parties' single
    contributions.
    """

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled  # if they are known by name, other parties count as zero
    parties: list[str] = field(default_factory=list)  # that were counted
    rejected: list[Rejection] = field(default_factory=list)  # that were not

    def __post_init__(self) -> None:
        self._counts = np.zeros((self.auxiliary.count, len(self.classes)), dtype=np.int64)
        self._content = hashlib.sha256(b"votes of parties\0")

    def add(self, parties: Sequence[str], codes: np.ndarray) -> None:
        """Take in one hard vote per party and auxiliary row: ``codes`` (parties, N)."""
        votes = np.asarray(codes)
        if votes.shape != (len(parties), self.auxiliary.count) or votes.dtype.kind not in "iu":
            raise ParameterError(
                "codes must have one row for each party and one column for each auxiliary row, and"
                " hold integers."
            )
        if votes.size and not 0 <= votes.min() <= votes.max() < len(self.classes):
            raise ParameterError(
                "A vote is not in the class list. Use codes from 0 to the number of classes minus"
                " 1."
            )
        enrolled_positions = [i for i, party in enumerate(parties) if self.enrolled.admits(party)]
        strangers = sorted(set(range(len(parties))) - set(enrolled_positions))
        self.rejected.extend(Rejection(parties[i], "", STRANGER) for i in strangers)
        if not enrolled_positions:
            return
        names, votes = [parties[i] for i in enrolled_positions], votes[enrolled_positions]
        for k in range(len(self.classes)):
            self._counts[:, k] += VOTE * (votes == k).sum(axis=0)
        self.parties.extend(names)
        bytes_of = np.ascontiguousarray(votes, dtype=np.min_scalar_type(len(self.classes) - 1))
        self._content.update("\0".join(names).encode() + b"\0" + bytes_of.tobytes())

    def gathered(self, statistic: str) -> Gathered:
        """Return the sum over all parties, as if each had sent its own contribution."""
        if statistic not in ("operator", "votes"):
            raise ParameterError(
                f"A tally of votes has no {statistic.replace('-', ' ')}. Use another method than"
                " average or class-sums."
            )
        names = set(self.parties)
        if len(names) < len(self.parties):
            raise ParameterError("A party is counted twice. Add each party once.")
        if len(names) > self.enrolled.count:
            raise ParameterError(
                f"There are more parties than the {self.enrolled.count:,} enrolled ones. Correct"
                " their number, which is public. To leave other parties out, list the enrolled"
                " parties by name."
            )
        total = self._counts.copy()
        if statistic == "operator":
            signed = operator_weights(total).astype(np.int64)
            total = signed @ self.auxiliary.codes.astype(np.int64)  # beyond what floats hold
        return Gathered(
            total=total,
            accepted=len(names),
            rejected=tuple(self.rejected),
            missing=tuple(n for n in self.enrolled.names or () if n not in names),
            absent=self.enrolled.count - len(names),
            content=self._content.digest(),
        )


@dataclass(eq=False, repr=False)
class TallySum(PartyExact):
    """A finished tally of many parties, as the sum of a round."""

    tally: VoteTally = field(kw_only=True)

    def check(self) -> None:
        """Raise unless the tally is of this round."""
        tally = self.tally
        if tally.classes != self.classes or tally.auxiliary.grid != self.auxiliary.grid:
            raise ParameterError(
                "The tally was made with other classes or other auxiliary rows. Make it again with"
                " those of this round."
            )
        if tally.enrolled != self.enrolled:
            raise ParameterError(
                "The tally was made for other enrolled parties. Make it again for those of this"
                " round."
            )

    def result(self) -> Gathered:
        """Return the sum."""
        return self.tally.gathered(self.statistic)


_SCORES_AT_ONCE = 2**23  # scores that are held at once


@dataclass(frozen=True, eq=False)
class PartyTable:
    """Private records of several parties, mapped by the public pipeline. Owner's side only."""

    rows: np.ndarray  # mapped
    codes: np.ndarray  # of the labels
    index: np.ndarray  # for each record the position of its party in `names`
    names: tuple[str, ...]
    classes: Classes
    strangers: tuple[Rejection, ...] = ()  # not enrolled: their records were left out unread

    @classmethod
    def read(
        cls,
        data: Any,
        auxiliary: AuxiliaryRows,
        *,
        label: str,
        classes: Classes,
        party: str | None,
        enrolled: Enrolled | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> "PartyTable":
        """Read the records; without a column ``party`` all of them are one party's.

        Where parties are ``enrolled``, a table in which none of them has a record is read as well:
        they all count as zero. Where they are enrolled by name, records of others are left out.
        """
        records = PartyRecords(
            "operator", auxiliary, classes, enrolled or Enrolled(1),
            label=label, party=party, may_be_empty=enrolled is not None,
        )  # fmt: skip
        return fold(record_batches(data, auxiliary, label, party), records, progress).table()

    def parameters(self, lam: float) -> np.ndarray:
        """Return every party's own classifier, (parties, d, K), at the same penalty."""
        if not self.names:
            per_class = () if len(self.classes) == 2 else (len(self.classes),)
            return np.zeros((0, self.rows.shape[1], *per_class))
        models = local_classifiers(self.rows, self.codes, self.index, len(self.classes), lam)
        return np.asarray(models)

    def tally(self, auxiliary: AuxiliaryRows, lam: float, enrolled: Enrolled) -> VoteTally:
        """Return the votes of the enrolled parties' classifiers on the auxiliary rows."""
        tally, models = VoteTally(auxiliary, self.classes, enrolled), self.parameters(lam)
        present = self.present()
        step = max(1, _SCORES_AT_ONCE // (auxiliary.count * len(self.classes)))
        for block in (slice(first, first + step) for first in range(0, len(models), step)):
            votes = predicted(auxiliary.rows, models[block], present[block])
            tally.add(self.names[block], votes)
        return tally

    def summed(self, auxiliary: AuxiliaryRows, samples: int) -> Iterator[PartyContribution]:
        """Yield every party's class sums, each computed from its own records alone."""
        sums = ClassSums(auxiliary, len(self.classes), samples)
        order = np.argsort(self.index, kind="stable")
        ends = np.searchsorted(self.index[order], np.arange(1, len(self.names)))
        for name, own in zip(self.names, np.split(order, ends), strict=False):
            rows, codes = np.ascontiguousarray(self.rows[own]), self.codes[own]
            yield PartyContribution.of_mapped(name, rows, codes, sums, self.classes)

    def present(self) -> np.ndarray:
        """Return which classes each party has, (parties, K)."""
        has_class = np.zeros((len(self.names), len(self.classes)), dtype=bool)
        has_class[self.index, self.codes] = True
        return has_class

    def contribution(
        self, name: str, auxiliary: AuxiliaryRows, statistic: str, lam: float, samples: int = 1
    ) -> PartyContribution:
        """Return the contribution of the one party that all records belong to."""
        own = replace(self, names=(name,))
        if statistic == "class-sums":
            return next(own.summed(auxiliary, samples))
        if statistic == "parameters":
            return next(own.averaged(auxiliary, lam))
        models = self.parameters(lam)
        votes = predicted(auxiliary.rows, models, self.present())[0]
        weights = from_codes(votes, len(self.classes))
        return PartyContribution.of_weights(name, weights, auxiliary, self.classes, statistic)

    def averaged(self, auxiliary: AuxiliaryRows, lam: float) -> Iterator[PartyContribution]:
        """Yield every party's parameters."""
        for name, model in zip(self.names, self.parameters(lam), strict=True):
            yield PartyContribution.of_parameters(
                name, model, auxiliary, classes=self.classes, lam=lam
            )


def record_batches(
    data: Any, auxiliary: AuxiliaryRows, label: str, party: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a table that are needed, typed as the public pipeline has them."""
    columns = auxiliary.pipeline.columns
    coded = [column.name for column in columns if column.categories is not None]
    features = [column.name for column in columns]
    numbers = [name for name in features if name not in coded]
    table = open_declared(data, text=[label, party, *coded], numbers=numbers)
    resolve_roles(table.schema, label=label, features=features, party=party)
    return table.batches([*features, label, *([] if party is None else [party])])


@dataclass(eq=False, repr=False)
class PartyRecords(PartyExact):
    """Takes in private records of several parties, and sums what each would contribute.

    Without a column ``party`` all records are one party's. Records of parties that are not
    enrolled are left out unread. Classifiers are trained once all records are read.
    """

    label: str = field(kw_only=True)
    party: str | None = field(kw_only=True)
    may_be_empty: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._codes: list[np.ndarray] = []
        self._owners: list[np.ndarray] = []  # of admitted records, in their order
        self._outside: set[str] = set()
        self._nobody = 0
        self._gathered: Gathered | None = None

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in records; those of parties that are not enrolled are left out unread."""
        own = batch if self.party is None else self._admitted(batch, self.party)
        if own.num_rows:
            features = [column.name for column in self.auxiliary.pipeline.columns]
            self._batches.append(own.select(features))
            self._codes.append(label_codes(own.column(self.label), self.classes))
        self.count += batch.num_rows

    def _admitted(self, batch: pa.RecordBatch, party: str) -> pa.RecordBatch:
        """Return the records of enrolled parties, and remember who was left out.

        A record without a party is an error if only the number of parties is known.
        """
        column = batch.column(party)
        if column.null_count and self.enrolled.names is None:
            raise TableError(
                f"{column.null_count} records name no party. Fill in their cells, or remove these"
                " records."
            )
        owners = [None if value is None else str(value) for value in column.to_pylist()]
        named = {name for name in owners if name is not None}
        admitted = {name for name in named if self.enrolled.admits(name)}
        self._outside |= named - admitted
        self._nobody += column.null_count
        own = np.array([name in admitted for name in owners], dtype=bool)
        self._owners.append(np.array(owners, dtype=object)[own].astype(str))
        return batch if own.all() else batch.filter(pa.array(own))

    def check(self) -> None:
        """Nothing: whether an enrolled party has records is private."""

    def table(self) -> PartyTable:
        """Return the records of every party, mapped by the public pipeline."""
        if not self._batches and not self.may_be_empty:
            raise TableError("The table has no rows. Use a table with at least one row.")
        names, index = [""], np.zeros(sum(map(len, self._codes)), dtype=np.int64)
        if self.party is not None:
            owners = np.concatenate([np.zeros(0, dtype="<U1"), *self._owners])
            parties, index = np.unique(owners, return_inverse=True)
            names = parties.tolist()
        rows = _map_records(self.auxiliary.pipeline, self._batches, index)
        labels = np.concatenate([np.zeros(0, dtype=np.int64), *self._codes])
        strangers = [Rejection(name, "", STRANGER) for name in sorted(self._outside)]
        if self._nobody:
            strangers.append(Rejection(UNKNOWN, "", f"{self._nobody:,} records name no party"))
        return PartyTable(rows, labels, index, tuple(names), self.classes, tuple(strangers))

    def result(self) -> Gathered:
        """Return the sum: private. Classifiers are trained once."""
        if self._gathered is None:
            table, statistic, rows = self.table(), self.statistic, self.auxiliary
            if statistic in ("operator", "votes"):
                total = table.tally(rows, self.lam, self.enrolled).gathered(statistic)
            else:
                sent = table.summed(rows, self.samples)
                if statistic == "parameters":
                    sent = table.averaged(rows, self.lam)
                terms = rows, self.classes, self.enrolled, self.lam, self.samples
                total = fold([sent], Gathering(statistic, *terms)).result()
            self._gathered = replace(total, rejected=(*table.strangers, *total.rejected))
        return self._gathered


def cast_votes(
    data: Any,
    column: str,
    party: str,
    auxiliary: AuxiliaryRows,
    *,
    classes: Classes,
    statistic: str,
) -> PartyContribution:
    """Return the contribution of a column of votes, one per auxiliary row and in their order."""
    if statistic in ("parameters", "class-sums"):
        raise ParameterError(
            f"Votes have no {statistic.replace('-', ' ')}. Use records with --label instead of"
            " --votes-column."
        )
    table = open_declared(data)
    resolve_roles(table.schema, features=[column])
    votes = pa.chunked_array([batch.column(column) for batch in table.batches([column])])
    return PartyContribution.of(party, votes, auxiliary, classes=classes, statistic=statistic)


def predicted(rows: np.ndarray, models: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return the class codes (parties, rows) that linear classifiers give to rows.

    ``models`` are (parties, d) for two classes or (parties, d, K). A party votes only for classes
    that it has (``present``, (parties, K)); one that has a single class always votes for it. What
    one party votes does not depend on the others: a product of matrices rounds differently from
    place to place, so that scores which rounding could bring out of order are summed anew.
    """
    has_one_class = present.sum(axis=1) == 1
    slack = _slack(rows, models)
    votes: np.ndarray
    if models.ndim == 2:
        scores = models @ rows.T
        votes = (scores > 0).astype(np.uint8)
        party, row = np.nonzero((np.abs(scores) <= slack[:, None]) & ~has_one_class[:, None])
        votes[party, row] = _in_order(models, party, rows, row) > 0
    else:
        parties, width, classes = models.shape
        scores = rows @ models.transpose(1, 0, 2).reshape(width, parties * classes)
        scores = scores.reshape(len(rows), parties, classes)
        scores[:, ~present] = -np.inf
        votes = np.ascontiguousarray(scores.argmax(axis=2).T)
        leading = scores >= scores.max(axis=2, keepdims=True) - 2 * slack[:, None]
        row, party = np.nonzero((leading.sum(axis=2) > 1) & ~has_one_class)
        exact_scores = [_in_order(models[:, :, k], party, rows, row) for k in range(classes)]
        allowed = np.where(present[party], np.transpose(exact_scores), -np.inf)
        votes[party, row] = allowed.argmax(axis=1)
    votes[has_one_class] = present[has_one_class].argmax(axis=1)[:, None]
    return votes


def _slack(rows: np.ndarray, models: np.ndarray) -> np.ndarray:
    """Return four times what a score of each party can be off by, whatever it is summed by."""
    sizes = np.sqrt((models.reshape(len(models), -1) ** 2).sum(axis=1))
    unit = np.finfo(float).eps / 2
    longest = float(np.linalg.norm(rows, axis=1).max())
    return np.asarray(4 * unit * rows.shape[1] * longest * sizes)


def _in_order(
    models: np.ndarray, party: np.ndarray, rows: np.ndarray, row: np.ndarray
) -> np.ndarray:
    """Return scores of pairs, each summed from the first coordinate to the last."""
    total = np.zeros(len(party))
    for coordinate in range(rows.shape[1]):
        total += models[party, coordinate] * rows[row, coordinate]
    return total


def _map_records(
    pipeline: Pipeline, batches: list[pa.RecordBatch], index: np.ndarray
) -> np.ndarray:
    """Return all records as vectors, none of which depends on another party's records.

    A feature map is a product of matrices, which rounds differently from place to place: it is
    applied party by party.
    """
    if not batches:
        return np.empty((0, len(pipeline.outputs)))
    vectors = partial(pipeline.transform, unknown=Counter())
    if pipeline.map is None:
        return np.ascontiguousarray(np.vstack([vectors(batch) for batch in batches]))
    records = pa.Table.from_batches(batches).combine_chunks()
    mapped = np.empty((len(index), len(pipeline.outputs)))
    order = np.argsort(index, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(index[order])) + 1):
        (batch,) = records.take(pa.array(own)).combine_chunks().to_batches()
        mapped[own] = vectors(batch)
    return mapped


@dataclass(frozen=True)
class RoundSource(AgreedRows, Source):
    """What every aggregation needs: the contributions, and who is enrolled."""

    label: str | None = field(default=None, kw_only=True)
    enrolled: Enrolled | int | Sequence[str] = data_option(
        REQUIRED,
        "Number of enrolled parties, or their names: a text file with a name on each line, or a"
        " list with commas. This is public, and never read from the records.",
        parse=enrolled_parties,
        path=lambda text: Path(text) if Path(text).is_file() else None,
        kw_only=True,
    )
    auxiliary_dataset: str | None = budget_option(
        None,
        "Data set of the auxiliary rows in the ledger, with a budget per record. Only with"
        " --private-aux.",
        name="--aux-dataset",
        kw_only=True,
    )
    found_at: str | None = output_option(
        None,
        "Address where others can find the auxiliary rows, for example a web page.",
        name="--rows-url",
        kw_only=True,
    )

    def check(self) -> None:
        """Nothing: what parties sent is checked one by one."""

    @cached_property
    def parties(self) -> Enrolled:
        """The enrolled parties."""
        return Enrolled.of(self.enrolled)


@dataclass(frozen=True)
class PartySource(RoundSource):
    """Private records of all parties in one table."""

    label: str | None = data_option(
        None,
        "Column that holds the private labels, for example diagnosis.",
        required=True,
        kw_only=True,
    )
    party: str = data_option(
        "",
        "Column that names the party of each record, for example practice.",
        required=True,
        kw_only=True,
    )

    def check(self) -> None:
        """Raise unless the columns of labels and of parties are named."""
        if not self.label or not self.party:
            raise ParameterError(
                "Name the column of labels and the column of parties: --label and --party (Python:"
                " label=..., party=...)."
            )
