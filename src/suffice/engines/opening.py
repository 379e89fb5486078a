"""Which engine a pass runs on: by name, with how many workers, or an open one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, Self

from suffice.engines.dask import Dask
from suffice.engines.engine import A, BatchPart, Engine, Progress, begin_pass
from suffice.engines.spark import Spark
from suffice.engines.threads import Threads
from suffice.errors import ParameterError
from suffice.options import computing_option

__all__ = ["Computing", "EngineName", "open_engine"]


class EngineName(StrEnum):
    """The engines by their names."""

    THREADS = "threads"
    DASK = "dask"
    SPARK = "spark"


_NAMES = {"distributed": EngineName.DASK, "pyspark": EngineName.SPARK}  # of others' objects


@dataclass(frozen=True, kw_only=True)
class Computing:
    """Where passes over rows run. The released bytes do not depend on it.

    Parameters
    ----------
    engine : str or object
        ``"threads"``, ``"dask"`` or ``"spark"``. In Python also an open engine, a dask ``Client``
        or a ``SparkSession``.
    workers : int, optional
        Number of workers. Default: one for each core, or all workers of the cluster.
    scheduler : str, optional
        Address of a running cluster, for example ``tcp://127.0.0.1:8786``.
    progress : callable, optional
        Called with the number of rows that were read since the last call.
    """

    engine: Any = computing_option(
        "threads",
        "Where rows are read: threads (this process), dask or spark (a cluster).",
        choices=EngineName,
    )
    workers: int | None = computing_option(
        None,
        (
            "Number of workers, for example 4. Default: one for each core, or all workers of the"
            " cluster."
        ),
    )
    scheduler: str | None = computing_option(
        None,
        "Address of a running cluster, for example tcp://127.0.0.1:8786 or spark://host:7077.",
    )
    progress: Progress = field(default=None)

    @property
    def in_this_process(self) -> bool:
        """Whether rows are read in this process."""
        return self.engine == EngineName.THREADS or isinstance(self.engine, Threads)

    def fold(self, parts: Sequence[BatchPart], make: Callable[[], A]) -> A:
        """Return an accumulator that has taken in every batch of all parts."""
        begin_pass(self.progress)
        with self.running() as running:
            engine: Engine = running.engine
            return engine.fold(parts, make, self.progress)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Yield the same with an open engine; what was started for it ends with the block."""
        if isinstance(self.engine, Engine):
            yield self
            return
        engine = open_engine(self.engine, self.workers, self.scheduler)
        try:
            yield replace(self, engine=engine)
        finally:
            engine.close()


def open_engine(engine: Any, workers: int | None = None, scheduler: str | None = None) -> Engine:
    """Return an open engine of this name, or on a cluster or session that somebody else runs."""
    if isinstance(engine, Engine):
        return engine
    running = None if isinstance(engine, str) else engine
    library = "" if running is None else type(running).__module__.partition(".")[0]
    name = _NAMES.get(library, engine if running is None else type(running).__name__)
    if scheduler is not None and (running is not None or name == EngineName.THREADS):
        raise ParameterError(
            "--scheduler can be used only with --engine dask or --engine spark. Remove"
            " --scheduler, or choose one of them."
        )
    if name == EngineName.THREADS:
        return Threads(workers)
    if name == EngineName.DASK:
        _check_installed("distributed", name)
        return Dask(running, workers, scheduler)
    if name == EngineName.SPARK:
        _check_installed("pyspark", name)
        return Spark(running, workers, scheduler)
    raise ParameterError(f"There is no engine {name!r}. Use one of {', '.join(EngineName)}.")


def _check_installed(library: str, name: str) -> None:
    if find_spec(library) is None:
        raise ParameterError(
            f"--engine {name} needs more packages. Install them: pip install 'suffice[{name}]'."
        )
