"""The engine of a dask cluster: one that somebody runs, or processes of this machine.

Accumulators come back through the scheduler. Those of private labels hold a code a row: whoever
runs scheduler and workers could read them, as they could read the table.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from suffice.engines.cluster import Cluster, Outcome, read_run
from suffice.engines.engine import Run, Task
from suffice.engines.threads import usable_cores
from suffice.errors import EngineError, SufficeError

__all__ = ["Dask"]

_SOON = 5  # seconds that a copy of an empty accumulator may take
_PATIENCE = 30  # seconds without an answer after which we ask whether there are workers left
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
                self._client.wait_for_workers(1, timeout=_PATIENCE)
                threads = sum(self._client.nthreads().values())
        return min(threads, self.workers or threads)

    def _opened(self) -> Any:
        import dask.config
        from distributed import Client, LocalCluster

        if self.scheduler is not None:
            self._ours = [Client(self.scheduler, set_as_default=False, timeout=_PATIENCE)]
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
            _copy_to_all(client, shared)

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
                return self._waited()
        finally:
            self._future.release()

    def _waited(self) -> Outcome:
        while True:
            try:
                outcome: Outcome = self._future.result(timeout=_PATIENCE)
            except TimeoutError:
                if not self._client.nthreads():
                    raise EngineError(_NO_WORKERS) from None
            else:
                return outcome

    def cancel(self) -> None:
        self._future.release()


def _copy_to_all(client: Any, shared: Any) -> None:
    """Give every worker the empty accumulator, if that is soon done.

    The scheduler prefers workers that have it, and would leave others idle. Nothing but speed
    depends on it: should it fail, tasks that need it say why.
    """
    from distributed import wait

    with suppress(Exception):
        wait([shared], timeout=_SOON)
        client.replicate([shared])


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
