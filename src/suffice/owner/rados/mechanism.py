"""Rademacher observations: sums of private records over random subsets (Nock et al. 2015)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from suffice.engines.rados import default_count
from suffice.errors import ParameterError, TableError
from suffice.owner.classes import check_declared
from suffice.owner.fingerprint import CellFingerprint, LabelFingerprint
from suffice.owner.ledger import Ledger
from suffice.owner.overlap import warn_of_same_rows
from suffice.owner.publish import of_versions, publish
from suffice.owner.rados.pipeline import PrivateRows, Scaling
from suffice.owner.rados.task import Task
from suffice.owner.rados.ways import Way, way_of
from suffice.owner.statistics import check_given_once, labelled_batches
from suffice.privacy.calibrate import check_delta, check_promise
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.release.artifact import Part, Release, RowSet
from suffice.strict_json import canonical
from suffice.tables.labels import Classes, check_classes
from suffice.tables.pipeline import Missing, Pipeline

__all__ = ["Rados"]

_MOST_RADOS = 2**20  # beyond, a block of structured signs would not add exactly
_SIGNS = ("auto", "hadamard", "iid")


@dataclass(frozen=True)
class Rados:
    """Protects what its parameters say, and nothing without them: sums over random subsets leave.

    A rado is pi_s = (1/2) sum_i (sigma_si + y_i) x_i (Nock, Patrini & Friedman 2015, Definition 1):
    the sum of the edges y_i x_i over the examples with sigma_si = y_i. ``count`` of them leave,
    and neither the rows nor their signs sigma do. y = -1 for the first of the two ``classes``.

    ``signs``: "hadamard" (structured, uniform one by one, far faster; owner/rados/signs.py), "iid",
    or "auto". ``support`` fixes how many examples each rado sums (eq. 18). Promises, R the largest
    norm of a row and k how many rados one example is in at most (count/2 if that is a power of two
    and signs are structured, else up to count):

    - none of the below: no guarantee at all; needs ``unprotected``;
    - ``protect``, columns of two values (DP-Feat, Section 5.1): only what each such column *alone*
      reveals, at ``delta``; marginal. ``truncate``, the paper's epsilon per rado, truncates it
      (eq. 16), which costs more than it saves;
    - ``unit`` "label": one noise vector, shared by all rados, of sensitivity R;
    - ``unit`` "record": Gaussian noise on the matrix, 2 sqrt(k) R; with ``noise`` "edges" on every
      edge instead (Section 5.2), 2 R each;
    - ``unit`` "attribute", of ``attributes``: Gaussian noise on their coordinates, sqrt(k) times
      the width of their range.

    Rows are private: with a promise, numbers are scaled by declared ``ranges`` (column -> (low,
    high), or one pair for all) to [-1, 1], or by ``standardize``, a public table or "none"; rows
    are clipped at ``bound``, or at the ``clip`` quantile of the public table's norms. "rows" takes
    all that from the private rows: the default without a promise, and data-dependent with one. A
    ``pipeline`` of another release brings its own origin along, and is data-dependent where that
    is private rows or unknown.
    ``intercept`` is the weight of the constant coordinate, zero for none.

    The release's noise is that on one rado: with mechanism "shared" all rados carry the same draw
    of it, with "matrix" each its own; with "edges" it is the expected one, and rados that share
    examples share their noise.
    """

    count: int | None = None
    signs: str = "auto"
    support: int | None = None
    protect: Sequence[str] | None = None
    truncate: float | None = None
    epsilon: float | None = None
    delta: float = 0.0
    unit: Unit | str | None = None
    attributes: Sequence[str] | None = None
    noise: str = "joint"
    classes: Sequence[Any] = (0, 1)
    standardize: Any = None
    ranges: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None
    bound: float | None = None
    clip: float | None = None
    intercept: float | None = None
    missing: Missing = "error"
    categories: Mapping[str, Sequence[Any]] | None = None
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            check_promise(self)
        else:
            check_delta(self.delta)

    def release(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Ledger | None,
        dataset: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        request: str | None = None,
        data_changed: bool = False,
        unprotected: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Release:
        """Return the rados, paid for from ``ledger`` (None, said aloud, for no ledger).

        The labels are ``y``, or the column ``label`` of the table ``X``. ``unprotected`` says aloud
        that a release without a global guarantee may leave, ``data_changed`` that the data under
        this name are no longer those of earlier releases.
        """
        classes = check_classes(self.classes)
        if len(classes) != 2:
            raise ParameterError("rados are for two classes; merge or drop the others.")
        check_given_once(y, label)
        check_declared(classes, ledger, dataset, label)
        rows = self.private_rows(X, label, features, progress)
        rows.tell_overlap()
        named = rows.origin.rows if rows.source == "given" else ()
        walk = _Walk(rows, y, classes, progress, contents=ledger is not None or bool(named))
        way = way_of(self.task(rows, self._size(rows, y)))
        guarantees = tuple(of_versions(g, data_changed=data_changed) for g in way.guarantees)
        walk.once(None if way.late else way.take)
        warn_of_same_rows(walk.content.decode(), named)

        def draw() -> Release:
            if way.late:
                walk.once(way.take)
            return _made(way, walk.count, classes, guarantees)

        return publish(
            draw,
            guarantees,
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters=self._parameters(way, classes),
            fingerprint=walk.fingerprint,
            content=walk.content,
            unprotected=unprotected,
            data_changed=data_changed,
        )

    def private_rows(
        self,
        X: Any,
        label: str | None = None,
        features: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> PrivateRows:
        """Return the private table with its pipeline; reads it only with standardize="rows"."""
        scaling = Scaling(
            self.standardize,
            self.ranges,
            self.bound,
            self.clip,
            self.intercept,
            self.missing,
            self.categories,
            self.pipeline,
        )
        return scaling.rows(
            X,
            label,
            features,
            promised=self.epsilon is not None or bool(self.protect),
            protect=tuple(self.protect or ()),
            boxed=bool(self.attributes),
            progress=progress,
        )

    def task(self, rows: PrivateRows, size: int) -> Task:
        """Return what is asked for, about ``size`` rows."""
        if self.signs not in _SIGNS:
            raise ParameterError(f"signs must be one of {', '.join(_SIGNS)}; got {self.signs!r}.")
        if self.noise not in {"joint", "edges"}:
            raise ParameterError(f"noise must be joint or edges; got {self.noise!r}.")
        count = default_count(size) if self.count is None else _whole("count", self.count)
        if not 1 <= count <= _MOST_RADOS:
            raise ParameterError(f"count must lie between 1 and {_MOST_RADOS}; got {count}.")
        free = self.support is None and not self.protect and count > 1
        signs = ("hadamard" if free else "iid") if self.signs == "auto" else self.signs
        return Task(
            rows=rows,
            size=size,
            count=count,
            signs=signs,
            support=None if self.support is None else _whole("support", self.support),
            protect=tuple(self.protect or ()),
            truncate=self.truncate,
            attributes=tuple(self.attributes or ()),
            epsilon=self.epsilon,
            delta=self.delta,
            unit=None if self.unit is None else Unit(self.unit),
            noise=self.noise,
        )

    def _size(self, rows: PrivateRows, y: Any) -> int:
        """Return how many rows there are: a number that every guarantee takes as public."""
        if y is not None:
            return len(y)
        only = rows.roles.label or rows.roles.features[0]
        return sum(batch.num_rows for batch in rows.table.batches([only]))

    def _parameters(self, way: Way, classes: Classes) -> dict[str, Any]:
        task = way.task
        return {
            "kind": "rados",
            "mechanism": way.mechanism,
            "unit": None if task.unit is None else str(task.unit),
            "epsilon": task.epsilon,
            "delta": task.delta,
            "count": task.count,
            "signs": task.signs,
            "support": task.support,
            "protect": list(task.protect),
            "truncate": task.truncate,
            "attributes": list(task.attributes),
            "classes": list(classes),
            "ranges": {name: list(limits) for name, limits in task.rows.ranges.items()},
            "pipeline": task.rows.pipeline.digest(),
        }


class _Walk:
    """One pass over private rows, or two: identifies them, and hands them on as vectors."""

    def __init__(
        self,
        rows: PrivateRows,
        y: Any,
        classes: Classes,
        progress: Callable[[int], None] | None,
        *,
        contents: bool,
    ) -> None:
        self._rows, self._y, self._classes, self._progress = rows, y, classes, progress
        self._contents = contents

    def once(self, take: Callable[[np.ndarray, np.ndarray], None] | None) -> None:
        """Read every row; ``take`` is given vectors (coordinates, rows) and labels -1 or +1."""
        rows, features = self._rows, self._rows.roles.features
        labels = LabelFingerprint(self._classes)
        cells = CellFingerprint(rows.table.schema, features)
        self.count = 0
        for batch, codes in labelled_batches(rows, self._y, self._classes):
            labels.update(codes)
            self.count += batch.num_rows
            if self._contents:
                cells.update(batch)
            if take is not None:
                vectors = rows.pipeline.finished(rows.encoded(batch)).T
                take(vectors, np.where(codes == 1, 1.0, -1.0))
            if self._progress is not None:
                self._progress(batch.num_rows)
        if self.count == 0:
            raise TableError("the table has no rows.")
        self.fingerprint = {**labels.result(), **(cells.result() if self._contents else {})}
        self.content = cells.unordered().encode() if self._contents else b""


def _made(way: Way, count: int, classes: Classes, guarantees: tuple[Guarantee, ...]) -> Release:
    """Return the release, with fresh noise; rows are named by what leaves, not by what stays."""
    rados, noise = way.draw()
    details = {
        "classes": list(classes),
        "mechanism": way.mechanism,
        "count": way.task.count,
        "signs": way.task.signs,
        "support": way.task.support,
        "protect": list(way.task.protect),
        "step": way.step,
    }
    content = hashlib.sha256(b"rados\0" + canonical(details) + rados.tobytes())
    rows = RowSet(count, "sha256:" + content.hexdigest())
    return Release(
        kind="rados",
        arrays={"rados": np.ascontiguousarray(rados)},
        details=details,
        parts=(Part(rows, guarantees),),
        pipeline=way.task.rows.pipeline,
        noise=noise,
    )


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise ParameterError(f"{name} must be an integer; got {value!r}.") from None
