"""What engines of other processes share: tasks that carry an empty accumulator to the rows.

    task(empty, run) = a copy of empty that has taken in every batch of the run

An empty accumulator and the description of some parts go to a worker; an accumulator comes back. No
row crosses, and a task writes, logs and keeps nothing.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

from suffice._version import __version__
from suffice.engines.engine import (
    A,
    BatchPart,
    Engine,
    Progress,
    Run,
    Task,
    fold,
    in_order,
    make_leading,
    runs_of,
)
from suffice.errors import EngineError, ParameterError, SufficeError

__all__ = ["Cluster", "Outcome", "read_run"]

_NO_MEMORY = (
    "a worker ran out of memory; give workers more of it, or write the table in smaller row groups."
)


@dataclass(frozen=True)
class Outcome:
    """What a task brings back: an accumulator and the number of its rows, or an error.

    An error is a value here. Clusters write those that are raised into their logs, with what the
    task was given, and repeat the task. ``version`` is that of the worker's suffice.
    """

    version: str = __version__
    accumulator: Any = None
    rows: int = 0
    error: SufficeError | None = None


def read_run(empty: Any, run: Run) -> Outcome:
    """Return what a copy of ``empty`` makes of a run; whatever goes wrong comes back, too."""
    rows: list[int] = []
    try:
        batches = chain.from_iterable(part.batches() for part in run)
        accumulator = fold(batches, deepcopy(empty), rows.append)
    except SufficeError as error:
        return Outcome(error=error)
    except MemoryError:
        return Outcome(error=EngineError(_NO_MEMORY))
    except Exception as error:  # noqa: BLE001  # its message may quote a cell: its class alone leaves
        return Outcome(error=EngineError(f"a worker failed: {type(error).__name__}."))
    return Outcome(accumulator=accumulator, rows=sum(rows))


class Cluster(Engine):
    """Folds parts in other processes, which read them by themselves.

    Memory is bounded: at most twice as many runs as workers are under way or wait to be merged. A
    worker that is lost is replaced by another one, which reads its runs again. ``workers`` is how
    many are started, ``scheduler`` the address of a cluster that runs already.
    """

    def __init__(self, workers: int | None = None, scheduler: str | None = None) -> None:
        if workers is not None and workers < 1:
            raise ParameterError(f"workers must be at least 1; got {workers}.")
        self.workers, self.scheduler = workers, scheduler

    @abstractmethod
    def connect(self) -> int:
        """Connect to the cluster, or start one; return how many tasks it runs at once."""

    @abstractmethod
    def tasks(self, empty: Any) -> AbstractContextManager[Callable[[Run], Task[Outcome]]]:
        """Return what starts a task on a run, each with a copy of ``empty``."""

    def fold(
        self, parts: Sequence[BatchPart], make: Callable[[], A], progress: Progress = None
    ) -> A:
        """Return an accumulator that has taken in every batch of all parts."""
        self.check_movable(parts)
        total = make_leading(make)
        workers = self.connect()
        with self.tasks(make()) as start:
            for outcome in in_order(start, runs_of(parts, workers), 2 * workers):
                _check(outcome)
                total.merge(outcome.accumulator)
                if progress is not None:
                    progress(outcome.rows)
        return total


def _check(outcome: Outcome) -> None:
    """Raise if a task failed, or was run by another version of suffice."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.version != __version__:
        raise EngineError(
            f"a worker runs suffice {outcome.version}, and this is {__version__}; their sums could"
            " differ. Install one version everywhere."
        )
