"""The engine of this process: a pool of threads, each of which reads a run of parts."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Event, Lock
from typing import Any

from suffice.engines.engine import (
    A,
    BatchPart,
    Engine,
    Progress,
    Run,
    fold,
    in_order,
    make_leading,
    runs_of,
)
from suffice.errors import ParameterError

__all__ = ["Threads", "usable_cores"]


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
    from suffice.tables.batching import on_one_core  # whoever inspects a file needs no Arrow

    with on_one_core():
        return fold(chain.from_iterable(part.batches() for part in parts), total, progress)


def _until(stopped: Event, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches until another thread has failed."""
    for batch in batches:
        if stopped.is_set():
            return
        yield batch
