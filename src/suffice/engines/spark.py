"""The engine of spark: its tasks read Parquet parts with Arrow themselves."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from sys import executable
from typing import Any

from suffice.engines.cluster import Cluster, Outcome, read_run
from suffice.engines.engine import Run, Task
from suffice.engines.threads import usable_cores
from suffice.errors import EngineError, ParameterError, SufficeError

__all__ = ["Spark"]

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
                "This process already has a Spark session. Remove --scheduler (Python: pass the"
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
