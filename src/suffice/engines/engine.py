"""Engines fold the parts of a table into one accumulator: in threads, with Dask or Spark.

No engine keeps a row.

    total = empty; for each part in order: total.merge(empty updated with the part's batches)

Accumulators are monoids of exact numbers, so that the total has the same bits however parts are
cut, whichever worker reads them, and in whatever order workers finish. Parts are merged in their
order, for statistics that have one.

In other processes, tasks carry an empty accumulator to the rows.

    task(empty, run) = a copy of empty that has taken in every batch of the run

An empty accumulator and the description of some parts go to a worker; an accumulator comes back. No
row crosses, and a task writes, logs and keeps nothing.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from itertools import chain, takewhile
from sys import executable
from threading import Event, Lock
from typing import Any, Protocol, Self, TypeVar

from suffice._version import __version__
from suffice.errors import EngineError, ParameterError, SufficeError
from suffice.options import computing_option

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
        every_batch = chain.from_iterable(part.batches() for part in parts)
        if self.workers == 1:
            from suffice.tables.table import on_one_core  # whoever inspects a file needs no Arrow

            with on_one_core():
                return fold(every_batch, total, progress)
        runs = list(runs_of(parts, self.workers))
        if len(runs) < 2:  # nothing to share out: one accumulator, nothing to merge
            return fold(every_batch, total, progress)
        stopped, lock = Event(), Lock()

        def report_rows(rows: int) -> None:
            if progress is not None:
                with lock:
                    progress(rows)

        def read_run(run: Run) -> A:
            batches = chain.from_iterable(part.batches() for part in run)
            until_a_failure = takewhile(lambda _: not stopped.is_set(), batches)
            return fold(until_a_failure, make(), report_rows)

        with ThreadPoolExecutor(self.workers, thread_name_prefix="suffice") as pool:
            try:
                for done in in_order(
                    lambda run: pool.submit(read_run, run), runs, 2 * self.workers
                ):
                    total.merge(done)
            finally:
                stopped.set()
        return total


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
        for part in parts:
            if part.stays:
                raise ParameterError(
                    f"{part.stays} So the {self.name} engine cannot be used; leave engine= out"
                    " (Python: engine='threads')."
                )
        total = make_leading(make)
        workers = self.connect()
        with self.tasks(make()) as start:
            for outcome in in_order(start, runs_of(parts, workers), 2 * workers):
                if outcome.error is not None:
                    raise outcome.error
                if outcome.version != __version__:
                    raise EngineError(
                        f"a worker runs suffice {outcome.version}, and this is {__version__}; their"
                        " sums could differ. Install one version everywhere."
                    )
                total.merge(outcome.accumulator)
                if progress is not None:
                    progress(outcome.rows)
        return total


_COPY_SECONDS = 5  # seconds that a copy of an empty accumulator may take
_SILENCE_SECONDS = 30  # seconds without an answer after which we ask whether there are workers left
_OF_OURS = {
    # Short of memory, a worker would write what it holds, accumulators of labels, to its disk.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    # What a scheduler or worker would tell everybody on this machine who asks its web server.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # It would take the empty accumulator away from all workers but one (`tasks`).
    "distributed.scheduler.active-memory-manager.start": False,
}
_SILENT = "CRITICAL"  # of what workers say on the terminal
_KILLED = (
    "workers were lost again and again while they read one run of the table; give them more memory,"
    " or write the table in smaller row groups."
)
_NO_WORKERS = "the dask cluster has no workers; start some, and release again."


class Dask(Cluster):
    """Folds parts on the workers of a dask cluster.

    ``client`` is an open ``distributed.Client`` of somebody else; else we connect to ``scheduler``,
    or start ``workers`` processes of one thread on this machine, which nobody but us can connect
    to, and which end with the engine. Workers, and the scheduler, need the same suffice.
    """

    name = "dask"

    def __init__(
        self, client: Any = None, workers: int | None = None, scheduler: str | None = None
    ) -> None:
        super().__init__(workers, scheduler)
        self._client = client
        self._ours: list[Any] = []

    def connect(self) -> int:
        """Connect to the cluster, or start one; return how many threads its workers have."""
        with _explained():
            if self._client is None:
                self._client = self._opened()
            threads = sum(self._client.nthreads().values())
            if not threads:
                self._client.wait_for_workers(1, timeout=_SILENCE_SECONDS)
                threads = sum(self._client.nthreads().values())
        return min(threads, self.workers or threads)

    def _opened(self) -> Any:
        import dask.config
        from distributed import Client, LocalCluster

        if self.scheduler is not None:
            self._ours = [Client(self.scheduler, set_as_default=False, timeout=_SILENCE_SECONDS)]
            return self._ours[0]
        with dask.config.set(_OF_OURS):
            cluster = LocalCluster(
                n_workers=self.workers or usable_cores(),
                threads_per_worker=1,
                host="127.0.0.1",
                security=True,  # others on this machine reach the port, and could run code as us
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any free port
                silence_logs=_SILENT,
            )
        self._ours = [cluster]
        client = Client(cluster, set_as_default=False)
        self._ours = [client, cluster]
        return client

    @contextmanager
    def tasks(self, empty: Any) -> Iterator[Callable[[Run], Task[Outcome]]]:
        """Yield what starts a task on a run."""
        client = self._client
        with _explained():
            # A task of its own, not scattered: should its worker die, the scheduler has it still.
            shared = client.submit(_itself, empty, pure=False)
            from distributed import wait

            # The scheduler prefers workers that have the empty accumulator, and would leave others
            # idle. Nothing but speed depends on it: should it fail, tasks that need it say why.
            with suppress(Exception):
                wait([shared], timeout=_COPY_SECONDS)
                client.replicate([shared])

        def start(run: Run) -> Task[Outcome]:
            with _explained():
                return _Reading(client, client.submit(read_run, shared, run, pure=False))

        yield start

    def close(self) -> None:
        """End what was started here."""
        for opened in self._ours:
            opened.close()
        self._client, self._ours = None, []


class _Reading:
    """A run that a dask worker reads."""

    def __init__(self, client: Any, future: Any) -> None:
        self._client, self._future = client, future

    def result(self) -> Outcome:
        try:
            with _explained():
                while True:
                    try:
                        outcome: Outcome = self._future.result(timeout=_SILENCE_SECONDS)
                    except TimeoutError:
                        if not self._client.nthreads():
                            raise EngineError(_NO_WORKERS) from None
                    else:
                        return outcome
        finally:
            self._future.release()

    def cancel(self) -> None:
        self._future.release()


def _itself(empty: Any) -> Any:
    return empty


@contextmanager
def _explained() -> Iterator[None]:
    """Say in words of ours what went wrong in a cluster: its own may show what a task was given."""
    from distributed import KilledWorker

    try:
        yield
    except (SufficeError, MemoryError):
        raise
    except KilledWorker:
        raise EngineError(_KILLED) from None
    except TimeoutError:
        raise EngineError(_NO_WORKERS) from None
    except OSError as error:  # also of a connection that was closed
        raise EngineError(
            f"the dask scheduler cannot be reached ({type(error).__name__}); check its address,"
            " and release again."
        ) from None
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the cluster's
        raise EngineError(
            f"the dask cluster failed ({type(error).__name__}); check that scheduler and workers"
            " run and have suffice installed, and release again."
        ) from None


_FAILURES = 4  # of one task, until spark gives up
# What is on a disk for a while is encrypted, and results do not go there; nobody else connects.
_PRIVATE = {
    "spark.io.encryption.enabled": "true",
    "spark.task.maxDirectResultSize": "100m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Spark(Cluster):
    """Folds parts in tasks of spark.

    ``session`` is an open ``SparkSession`` of somebody else; else the one of this process is used,
    if there is one, or a new one is started, at ``scheduler`` or with ``workers`` processes of this
    machine, and ends with the engine. Executors need the same suffice.
    """

    name = "spark"

    def __init__(
        self, session: Any = None, workers: int | None = None, scheduler: str | None = None
    ) -> None:
        super().__init__(workers, scheduler)
        self._session, self._started_session = session, False

    def connect(self) -> int:
        """Use a session, or start one; return how many tasks it runs at once."""
        with _translate_errors():
            if self._session is None:
                self._session = self._open_session()
            if not hasattr(self._session, "_jsc") and not hasattr(self._session, "_sc"):
                raise ParameterError(
                    "A Spark Connect session cannot be used. Pass a classic SparkSession."
                )
            slots = int(self._session.sparkContext.defaultParallelism)
        return min(slots, self.workers or slots)

    def _open_session(self) -> Any:
        from pyspark.sql import SparkSession

        running = SparkSession.getActiveSession()
        if running is not None and self.scheduler is None:
            return running
        if running is not None:
            raise ParameterError(
                "This process already has a Spark session. Remove scheduler= (Python: pass the"
                " session as engine)."
            )
        builder = SparkSession.builder.appName("suffice").config(map=_PRIVATE)
        if self.scheduler is None:
            workers = self.workers or usable_cores()
            builder = builder.master(f"local[{workers},{_FAILURES}]").config(map=_LOOPBACK)
        else:
            builder = builder.master(self.scheduler)
        session = builder.getOrCreate()
        self._session, self._started_session = session, True
        session.sparkContext.setLogLevel("OFF")  # what went wrong, we say
        if self.scheduler is None:
            session.sparkContext.pythonExec = executable
        return session

    @contextmanager
    def tasks(self, empty: Any) -> Iterator[Callable[[Run], Task[Outcome]]]:
        """Yield what starts a task on a run; each is a job of its own, started by a thread."""
        context, slots = self._session.sparkContext, self.connect()
        with ThreadPoolExecutor(slots, thread_name_prefix="suffice") as pool:
            with _translate_errors():
                shared = context.broadcast(empty)
            yield lambda run: pool.submit(_read_in_task, context, shared, run)
        with _translate_errors():
            shared.destroy()

    def close(self) -> None:
        """End the session if it was started here."""
        if self._started_session:
            self._session.stop()
        self._session, self._started_session = None, False


def _read_in_task(context: Any, shared: Any, run: Run) -> Outcome:
    """Read a run in a task of spark, and return its outcome."""
    outcome: Outcome
    with _translate_errors():
        (outcome,) = context.parallelize([run], 1).map(partial(_task, shared)).collect()
    return outcome


def _task(shared: Any, run: Run) -> Outcome:
    return read_run(shared.value, run)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Replace errors of spark by our own: its messages may show the data of a task."""
    try:
        yield
    except (SufficeError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the cluster's
        raise EngineError(
            f"Spark failed ({type(error).__name__}). Check that Java is installed, that master and"
            " executors run, and that they have enough memory and the same version of suffice."
            " Then release again."
        ) from None


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
        within="--computing",
    )
    workers: int | None = computing_option(
        None,
        (
            "Number of workers, for example 4. Default: one for each core, or all workers of the"
            " cluster."
        ),
        parse=int,
        within="--computing",
    )
    scheduler: str | None = computing_option(
        None,
        "Address of a running cluster, for example tcp://127.0.0.1:8786 or spark://host:7077.",
        within="--computing",
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
            "--computing scheduler= can be used only with engine=dask or engine=spark. Remove it,"
            " or choose one of them."
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
            f"--computing engine={name} needs more packages. Install them: pip install"
            f" 'suffice[{name}]'."
        )
