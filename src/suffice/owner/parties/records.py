"""Parties from one table: their records by a party column, a linear classifier for each."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.engine import fold
from suffice.errors import ParameterError, TableError
from suffice.models.local import local_classifiers
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.class_sums import ClassSums
from suffice.owner.parties.contribution import PartyContribution
from suffice.owner.parties.enrolled import STRANGER, UNKNOWN, Enrolled, Rejection
from suffice.owner.parties.gathering import Gathered, Gathering, PartyExact
from suffice.owner.parties.tally import ParameterTally, VoteTally
from suffice.owner.parties.votes import from_codes
from suffice.tables.columns import resolve_roles
from suffice.tables.labels import Classes, label_codes
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_declared

__all__ = ["PartyRecords", "PartyTable", "TableSum", "cast_votes", "predicted"]

_CELLS = 2**23  # scores that are held at once


@dataclass(frozen=True, eq=False)
class PartyTable:
    """Private records of several parties, mapped by the public pipeline. Owner's side only.

    Parameters
    ----------
    rows : ndarray
        The mapped records.
    codes : ndarray
        The code of each label.
    index : ndarray
        For each record the position of its party in ``names``.
    names : tuple of str
        The names of the parties.
    classes : tuple
        The declared classes.
    strangers : tuple of Rejection
        Parties that are not enrolled. Their records were left out unread.
    """

    rows: np.ndarray
    codes: np.ndarray
    index: np.ndarray
    names: tuple[str, ...]
    classes: Classes
    strangers: tuple[Rejection, ...] = ()

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
        records = PartyRecords(auxiliary, label, classes, party, enrolled)
        fold(records.batches(data), records, progress)
        return records.table()

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
        for block in _blocks(len(models), auxiliary.count * len(self.classes)):
            votes = predicted(auxiliary.rows, models[block], present[block])
            tally.add(self.names[block], votes)
        return tally

    def parameter_tally(
        self, auxiliary: AuxiliaryRows, lam: float, enrolled: Enrolled
    ) -> ParameterTally:
        """Return the parameters of the enrolled parties' classifiers."""
        parts = tuple(self.averaged(auxiliary, lam))
        return ParameterTally(auxiliary, self.classes, enrolled, lam, parts)

    def gathered(
        self,
        auxiliary: AuxiliaryRows,
        statistic: str,
        lam: float,
        enrolled: Enrolled,
        samples: int = 1,
    ) -> Gathered:
        """Return the sum over the enrolled parties: of votes, parameters or class sums."""
        if statistic == "class-sums":
            gathering = Gathering(
                statistic, auxiliary, self.classes, enrolled, lam, samples=samples
            )
            total = gathering.take(self.summed(auxiliary, samples)).result()
        else:
            count = self.parameter_tally if statistic == "parameters" else self.tally
            total = count(auxiliary, lam, enrolled).gathered(statistic)
        return replace(total, rejected=(*self.strangers, *total.rejected))

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
        if statistic == "class-sums":
            sums = ClassSums(auxiliary, len(self.classes), samples)
            return PartyContribution.of_mapped(name, self.rows, self.codes, sums, self.classes)
        models = self.parameters(lam)
        if statistic == "parameters":
            return self._parameter_contribution(name, models[0], auxiliary, lam)
        votes = predicted(auxiliary.rows, models, self.present())[0]
        weights = from_codes(votes, len(self.classes))
        return PartyContribution.of_weights(name, weights, auxiliary, self.classes, statistic)

    def averaged(self, auxiliary: AuxiliaryRows, lam: float) -> Iterator[PartyContribution]:
        """Yield every party's parameters."""
        for name, model in zip(self.names, self.parameters(lam), strict=True):
            yield self._parameter_contribution(name, model, auxiliary, lam)

    def _parameter_contribution(
        self, name: str, model: np.ndarray, auxiliary: AuxiliaryRows, lam: float
    ) -> PartyContribution:
        classes = self.classes
        return PartyContribution.of_parameters(name, model, auxiliary, classes=classes, lam=lam)


class PartyRecords:
    """Takes in private records of several parties; an accumulator, whose parts follow each other.

    Without a column ``party`` all records are one party's.
    """

    def __init__(
        self,
        auxiliary: AuxiliaryRows,
        label: str,
        classes: Classes,
        party: str | None,
        enrolled: Enrolled | None,
    ) -> None:
        self._auxiliary, self._label, self._classes = auxiliary, label, classes
        self._party, self._may_be_empty = party, enrolled is not None
        self._features = tuple(column.name for column in auxiliary.pipeline.columns)
        self.enrolled = enrolled or Enrolled(1)
        self._door = _Door(self.enrolled)
        self._batches: list[pa.RecordBatch] = []
        self._codes: list[np.ndarray] = []
        self.count = 0

    def batches(self, data: Any) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a table that are needed, typed as the public pipeline has them."""
        columns, party = self._auxiliary.pipeline.columns, self._party
        coded = [column.name for column in columns if column.categories is not None]
        numbers = [name for name in self._features if name not in coded]
        table = open_declared(data, text=[self._label, party, *coded], numbers=numbers)
        resolve_roles(table.schema, label=self._label, features=self._features, party=party)
        return table.batches([*self._features, self._label, *([] if party is None else [party])])

    def update(self, batch: pa.RecordBatch) -> None:
        """Take in records; those of parties that are not enrolled are left out unread."""
        own = batch if self._party is None else self._door.admitted(batch, self._party)
        if own.num_rows:
            self._batches.append(own.select(self._features))
            self._codes.append(label_codes(own.column(self._label), self._classes))
        self.count += batch.num_rows

    def merge(self, other: "PartyRecords") -> None:
        """Take in everything that ``other`` has seen: the records that follow."""
        self._door.merge(other._door)
        self._batches += other._batches
        self._codes += other._codes
        self.count += other.count

    def result(self) -> PartyTable:
        """Return the records of every party: private."""
        return self.table()

    def table(self) -> PartyTable:
        """Return the records of every party, mapped by the public pipeline."""
        if not self._batches and not self._may_be_empty:
            raise TableError("The table has no rows. Use a table with at least one row.")
        names, index = [""], np.zeros(sum(map(len, self._codes)), dtype=np.int64)
        if self._party is not None:
            owners, index = np.unique(self._door.owners, return_inverse=True)
            names = owners.tolist()
        rows = _map_records(self._auxiliary.pipeline, self._batches, index)
        labels = np.concatenate([np.zeros(0, dtype=np.int64), *self._codes])
        strangers = self._door.strangers()
        return PartyTable(rows, labels, index, tuple(names), self._classes, strangers)


class TableSum(PartyExact):
    """The sum over the parties of one table: records are read, and classifiers trained at last."""

    def __init__(
        self,
        records: PartyRecords,
        auxiliary: AuxiliaryRows,
        statistic: str,
        lam: float,
        samples: int = 1,
    ) -> None:
        self._records, self._auxiliary = records, auxiliary
        self._statistic, self._lam, self._samples = statistic, lam, samples
        self._gathered: Gathered | None = None

    @property
    def count(self) -> int:
        """The number of records."""
        return self._records.count

    def update(self, batch: Any) -> None:
        """Take in records."""
        self._records.update(batch)

    def merge(self, other: "TableSum") -> None:
        """Take in everything that ``other`` has seen: the records that follow."""
        self._records.merge(other._records)  # one of us

    def check(self) -> None:
        """Nothing: whether an enrolled party has records is private."""

    def result(self) -> Gathered:
        """Return the sum: trained once."""
        if self._gathered is None:
            table: PartyTable = self._records.table()
            self._gathered = table.gathered(
                self._auxiliary,
                self._statistic,
                self._lam,
                self._records.enrolled,
                self._samples,
            )
        return self._gathered


class _Door:
    """Admits the records of enrolled parties, and remembers whose they are and who was left out."""

    def __init__(self, enrolled: Enrolled) -> None:
        self._enrolled = enrolled
        self._owners: list[np.ndarray] = []
        self._outside: set[str] = set()
        self._nobody = 0

    def admitted(self, batch: pa.RecordBatch, party: str) -> pa.RecordBatch:
        """Return the records of enrolled parties.

        A record without a party is an error if only the number of parties is known.
        """
        column = batch.column(party)
        if column.null_count and self._enrolled.names is None:
            raise TableError(
                f"{column.null_count} records name no party. Fill in their cells, or remove these"
                " records."
            )
        owners = [None if value is None else str(value) for value in column.to_pylist()]
        admitted_names = {
            name for name in set(owners) if name is not None and self._enrolled.admits(name)
        }
        self._outside |= {name for name in owners if name is not None} - admitted_names
        self._nobody += column.null_count
        own = np.array([name in admitted_names for name in owners], dtype=bool)
        self._owners.append(np.array(owners, dtype=object)[own].astype(str))
        return batch if own.all() else batch.filter(pa.array(own))

    def merge(self, other: "_Door") -> None:
        """Take in everything that ``other`` has seen."""
        self._owners += other._owners
        self._outside |= other._outside
        self._nobody += other._nobody

    @property
    def owners(self) -> np.ndarray:
        """Whose every admitted record is, in their order."""
        return np.concatenate([np.zeros(0, dtype="<U1"), *self._owners])

    def strangers(self) -> tuple[Rejection, ...]:
        """Return who stayed out."""
        rejections = [Rejection(name, "", STRANGER) for name in sorted(self._outside)]
        if self._nobody:
            rejections.append(Rejection(UNKNOWN, "", f"{self._nobody:,} records name no party"))
        return tuple(rejections)


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
    if pipeline.map is None:
        return np.ascontiguousarray(np.vstack([_transform(pipeline, b) for b in batches]))
    records = pa.Table.from_batches(batches).combine_chunks()
    mapped = np.empty((len(index), len(pipeline.outputs)))
    order = np.argsort(index, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(index[order])) + 1):
        (batch,) = records.take(pa.array(own)).combine_chunks().to_batches()
        mapped[own] = _transform(pipeline, batch)
    return mapped


def _transform(pipeline: Pipeline, batch: pa.RecordBatch) -> np.ndarray:
    return pipeline.transform(batch, unknown=Counter())


def _blocks(parties: int, cells: int) -> Iterator[slice]:
    size = max(1, _CELLS // cells)
    return (slice(first, first + size) for first in range(0, parties, size))
