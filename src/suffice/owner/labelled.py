"""What releases of private labels and public rows share: the pass over both, and the guarantee.

A mechanism of labels brings a `LabelledPass` that keeps its statistic, and a `LabelProcedure` that
knows its noise.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from suffice.errors import TableError
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.mechanism import Procedure
from suffice.owner.public_rows import PublicRows, PublicTable
from suffice.owner.publish import PrivateIdentity
from suffice.owner.scaling import as_scaled
from suffice.owner.source import LabelledBatch, OwnerReport
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Unit
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.strict_json import canonical
from suffice.tables.batching import narrow_batches
from suffice.tables.labels import Classes
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["Contents", "LabelProcedure", "LabelStatistic", "LabelledPass"]

Contents = tuple[dict[str, np.ndarray], dict[str, Any], Covariance]
"""Arrays and details of a release, and the covariance of its noise."""

_UNSEEN = Assumption(
    "rows, their order, features and classes were not chosen by looking at labels",
    "declared by the owner",
)


class LabelStatistic(ABC):
    """An exact statistic of private labels, which names the rows and the labels it has seen."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of rows that were read."""

    @abstractmethod
    def update(self, batch: Any) -> None:
        """Take in rows under their labels."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Take in everything that ``other`` has seen."""

    @abstractmethod
    def result(self) -> np.ndarray:
        """Return the exact numbers that noise is added to: private."""

    @abstractmethod
    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows."""

    @property
    @abstractmethod
    def public_rows(self) -> str:
        """The hash that the public rows have in any order."""

    @property
    @abstractmethod
    def fingerprint(self) -> bytes:
        """What identifies the private labels."""

    @property
    @abstractmethod
    def outside(self) -> int:
        """How many labels were of no class: for the owner alone."""


L = TypeVar("L", bound=LabelStatistic)


class LabelledPass(LabelStatistic):
    """Takes in public rows with their labels; names both, and lets a subclass keep what it needs.

    An accumulator. Merged passes must be about rows that follow each other. It knows the layout of
    the table, and not the table: on a cluster it travels to the rows. Labels are fingerprinted if
    data are to be ``identified``, for a ledger.
    """

    ordered = False

    def __init__(self, public: PublicRows, classes: Classes, *, identified: bool = True) -> None:
        self.pipeline, self.classes = public.pipeline, classes
        features = public.roles.features
        self._lanes = RowLanes(public.table.schema, features)
        self._rows = RowDigest(features, ordered=self.ordered)
        self._labels = LabelFingerprint(classes, identified=identified)
        pipeline = public.pipeline
        # The numbers that are hashed are those that are summed, unless something replaced them.
        self._unchanged = (
            all(column.categories is None for column in pipeline.columns)
            and pipeline.fill is None
            and pipeline.map is None
        )

    def lead(self) -> None:
        """Say that no rows come before these."""
        self._rows.lead()
        self._labels.lead()

    def update(self, batch: LabelledBatch) -> None:
        """Take in rows under their labels, and fingerprint both."""
        pipeline, start = self.pipeline, 0
        for part in narrow_batches(batch.rows, len(pipeline.outputs)):
            columns = pipeline.encoded(part)
            self._take(columns, batch.codes[start : start + part.num_rows])
            self._rows.update(self._lanes.of(part, columns if self._unchanged else None))
            start += part.num_rows
        self._labels.update(batch.codes)

    @abstractmethod
    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        """Keep what the statistic needs of one batch of encoded columns and label codes."""

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""
        self._rows.merge(other._rows)  # one of us
        self._labels.merge(other._labels)

    @property
    def count(self) -> int:
        """The number of rows that were read."""
        return self._rows.count

    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows."""
        return RowSet(self._rows.count, self._rows.result(), found_at)

    @property
    def public_rows(self) -> str:
        """The hash that the public rows have in any order."""
        return self._rows.unordered()

    @property
    def fingerprint(self) -> bytes:
        """What identifies the private labels; leaves under the ledger's key only."""
        return self._labels.result()

    @property
    def outside(self) -> int:
        """How many labels were of no class: for the owner alone."""
        return self._labels.outside


@dataclass(frozen=True, eq=False)
class LabelProcedure(Procedure[L], Generic[L]):
    """Protects each label: what is released of labels, under the names of public rows.

    ``request`` are the fields that the owner asked with, ``delta`` among them where there is one.
    """

    public: PublicTable
    request: Mapping[str, Any]

    @property
    def classes(self) -> Classes:
        """The declared classes."""
        return self.public.classes

    @abstractmethod
    def event(self, exact: L) -> Event:
        """Return what one label costs, by public facts of the rows."""

    @abstractmethod
    def contents(self, exact: L) -> Contents:
        """Return what leaves, with fresh noise."""

    @property
    def promise_kind(self) -> Protection:
        """Whether the guarantee is global."""
        return Protection.GLOBAL

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the guarantee rests on."""
        return (_UNSEEN,)

    @property
    def shown(self) -> Iterable[str]:
        """What the guarantee calls public."""
        return ("the feature columns of every row", "the number of rows", "the class list")

    def check(self, exact: L) -> None:
        """Raise if there are no rows, or others than those that the pipeline was fitted on."""
        super().check(exact)
        summary = self.public.rows.summary
        if summary is not None and exact.public_rows != summary.rows_hash:
            raise TableError(
                "The table changed while it was read. Nothing was charged. Release from a copy"
                " that nobody writes to."
            )

    def report(self, exact: L) -> OwnerReport | None:
        """Return how many labels are of no class, where that is no error."""
        if not exact.outside:
            return None
        line = (
            f"{exact.outside} of {exact.count} labels are missing or not in the class list. They"
            " count for no class."
        )
        return OwnerReport((line,), facts={"outside": exact.outside})

    def guarantees(self, exact: L) -> tuple[Guarantee, ...]:
        """Return the one guarantee, per label."""
        event = self.event(exact)
        some = () if self.public.source.labelled is None else ("which rows have labels",)
        guarantee = Guarantee(
            unit=Unit.LABEL,
            event=event,
            delta=0.0 if event.pure else self.request["delta"],
            kind=self.promise_kind,
            public=(*self.shown, *some),
            assumptions=self.assumptions,
        )
        return (as_scaled(guarantee, self.public.rows.pipeline.origin),)

    def _rows(self, exact: L) -> RowSet:
        """Return the name of the public rows, and which of a larger table they are."""
        rows = exact.row_set(self.public.found_at)
        return replace(rows, labelled=self.public.source.labelled)

    def parameters(self, exact: L) -> Mapping[str, Any]:
        """Return the public description of the request."""
        labelled = self.public.source.labelled
        some = {}
        if labelled is not None:
            some["labelled"] = hashlib.sha256(canonical(labelled.to_json())).hexdigest()
        return {
            "kind": self.kind,
            **self.request,
            "classes": list(self.classes),
            "rows": exact.row_set(None).hash,
            **some,
            "pipeline": self.public.rows.pipeline.digest(),
        }

    def identity(self, exact: L, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of the labels."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: L, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""
        arrays, details, noise = self.contents(exact)
        return Release(
            kind=self.kind,
            arrays=arrays,
            details={"classes": list(self.classes), **details},
            parts=(Part(self._rows(exact), guarantees),),
            pipeline=self.public.rows.pipeline,
            noise=noise,
        )
