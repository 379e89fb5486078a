"""What every engine is: it folds the parts of a table into one accumulator, and keeps no row.

    total = empty; for each part in order: total.merge(empty updated with the part's batches)

Accumulators are monoids of exact numbers, so that the total has the same bits however parts are
cut, whichever worker reads them, and in whatever order workers finish. Parts are merged in their
order, for statistics that have one.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from threading import Event, Lock
from typing import Any, Protocol, Self, TypeVar

from suffice.errors import ParameterError

__all__ = [
    "A",
    "Accumulator",
    "BatchPart",
    "Engine",
    "Progress",
    "Run",
    "Stream",
    "Task",
    "Threads",
    "begin_pass",
    "fold",
    "in_one_stream",
    "in_order",
    "make_leading",
    "runs_of",
    "usable_cores",
]


Progress = Callable[[int], None] | None
_MOST_RUN_ROWS = 1 << 22  # of one task: bounds what a statistic of rows in order holds
_RUNS_PER_WORKER = 4  # so that one slow worker does not keep the others waiting


class Accumulator(Protocol):
    """A monoid over batches: merging the halves equals one pass over the whole.

    It may be updated anywhere (a thread, a dask worker, a spark task) and merged in any tree, of
    neighbours if it has an order. It never writes, logs or keeps a row that is not part of its
    result. It can be copied and pickled, before and after it has seen batches.

    One of rows in order may have a method ``lead``, which says that no rows come before these: they
    need not be held for a merge.
    """

    def update(self, batch: Any) -> None:
        """Take in one batch."""

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen."""

    def result(self) -> Any:
        """Return the statistic of all that was seen."""


def begin_pass(progress: Progress) -> None:
    """Say that another pass over the rows begins, to a progress function that counts passes.

    Such a function has a method ``begin_pass``.
    """
    begin = getattr(progress, "begin_pass", None)
    if begin is not None:
        begin()


class BatchPart(Protocol):
    """Batches that follow each other, and that one worker can read on its own.

    ``rows`` is their number, None if that is known only after they were read. ``stays`` says why
    they can be read in this process alone; it is empty if they can be read elsewhere.
    """

    @property
    def rows(self) -> int | None:
        """The number of rows, or None."""

    @property
    def stays(self) -> str:
        """Why the rows are read in this process alone, or nothing."""

    def batches(self) -> Iterable[Any]:
        """Yield the batches; may be called again."""


@dataclass(frozen=True)
class Stream:
    """Batches that are read one after the other, in this process; ``stays`` says why."""

    read: Callable[[], Iterable[Any]]
    stays: str
    rows: int | None = None

    def batches(self) -> Iterable[Any]:
        """Yield the batches."""
        return self.read()


def in_one_stream(parts: Sequence[BatchPart], why: str) -> list[BatchPart]:
    """Return the same batches as one part that stays in this process."""
    return [Stream(lambda: chain.from_iterable(part.batches() for part in parts), why)]


Run = tuple[BatchPart, ...]
A = TypeVar("A", bound=Accumulator)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Engine(ABC):
    """Where passes over rows run. ``name`` is its name in commands."""

    name: str

    @abstractmethod
    def fold(
        self, parts: Sequence[BatchPart], make: Callable[[], A], progress: Progress = None
    ) -> A:
        """Return an accumulator that has taken in every batch of all parts.

        ``make`` returns an empty one. ``progress`` is given the number of rows done, again and
        again. The first error in the order of the parts is raised, whichever came first in time.
        """

    def close(self) -> None:  # noqa: B027  # most have started nothing
        """Let go of what this engine has started; others' clusters and sessions stay."""

    def check_movable(self, parts: Sequence[BatchPart]) -> None:
        """Raise if some part can be read in this process alone."""
        for part in parts:
            if part.stays:
                raise ParameterError(
                    f"{part.stays} So the {self.name} engine cannot be used; leave --engine out"
                    " (Python: engine='threads')."
                )


def fold(batches: Iterable[Any], accumulator: A, progress: Progress = None) -> A:
    """Update ``accumulator`` with every batch and return it; ``progress`` is told the rows done."""
    for batch in batches:
        accumulator.update(batch)
        if progress is not None:
            progress(len(batch))
    return accumulator


def make_leading(make: Callable[[], A]) -> A:
    """Return an empty accumulator that no rows come before."""
    total = make()
    lead = getattr(total, "lead", None)
    if lead is not None:
        lead()
    return total


def runs_of(parts: Sequence[BatchPart], workers: int) -> Iterator[Run]:
    """Yield the parts in their order, joined to runs of neighbours that one task reads.

    There are about four runs a worker. No run of several parts has more than 4 million rows.
    """
    known = [part.rows for part in parts if part.rows is not None]
    share = sum(known) // (workers * _RUNS_PER_WORKER) + 1
    most, rows = min(share, _MOST_RUN_ROWS), 0
    run: list[BatchPart] = []
    for part in parts:
        size = most if part.rows is None else part.rows
        if run and rows + size > most:
            yield tuple(run)
            run, rows = [], 0
        run.append(part)
        rows += size
    if run:
        yield tuple(run)


class Task(Protocol[T_co]):
    """A run that some worker reads."""

    def result(self) -> T_co:
        """Wait for what comes of it."""

    def cancel(self) -> Any:
        """Say that nobody waits for it any more."""


def in_order(start: Callable[[Run], Task[T]], runs: Iterable[Run], most: int) -> Iterator[T]:
    """Yield what comes of runs, in the order of the runs; at most so many are under way."""
    waiting: deque[Task[T]] = deque()
    try:
        for run in runs:
            waiting.append(start(run))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for task in waiting:
            task.cancel()


def usable_cores() -> int:
    """Return the number of cores that this process may use, as numba counts them."""
    from numba import config  # takes a while to import

    return int(config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # set as it is imported


class Threads(Engine):
    """Folds parts in ``workers`` threads, as many as there are cores unless given.

    Kernels and readers release the interpreter's lock. One worker is one core: it reads files
    itself, and nothing is read ahead. Memory is bounded: each thread holds the
    batches that it reads, and at most twice as many runs as threads wait to be merged.
    """

    name = "threads"

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ParameterError(f"workers must be at least 1. It is {workers}.")
        self.workers = workers or usable_cores()

    def fold(
        self, parts: Sequence[BatchPart], make: Callable[[], A], progress: Progress = None
    ) -> A:
        """Return an accumulator that has taken in every batch of all parts."""
        total = make_leading(make)
        if self.workers == 1:
            return _fold_on_one_core(parts, total, progress)
        runs = list(runs_of(parts, self.workers))
        if len(runs) < 2:  # nothing to share out: one accumulator, nothing to merge
            batches = chain.from_iterable(part.batches() for part in parts)
            return fold(batches, total, progress)
        stopped, lock = Event(), Lock()

        def report_rows(rows: int) -> None:
            if progress is not None:
                with lock:
                    progress(rows)

        def read_run(run: Run) -> A:
            batches = chain.from_iterable(part.batches() for part in run)
            return fold(_until(stopped, batches), make(), report_rows)

        with ThreadPoolExecutor(self.workers, thread_name_prefix="suffice") as pool:
            try:
                for done in in_order(
                    lambda run: pool.submit(read_run, run), runs, 2 * self.workers
                ):
                    total.merge(done)
            finally:
                stopped.set()
        return total


def _fold_on_one_core(parts: Sequence[BatchPart], total: A, progress: Progress) -> A:
    """Fold all parts in this thread; files are read in it as well."""
    from suffice.tables.table import on_one_core  # whoever inspects a file needs no Arrow

    with on_one_core():
        return fold(chain.from_iterable(part.batches() for part in parts), total, progress)


def _until(stopped: Event, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches until another thread has failed."""
    for batch in batches:
        if stopped.is_set():
            return
        yield batch
