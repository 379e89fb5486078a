"""Who opens private tables: one worker process for each data set, and one proposal at a time.

A handler of a request never opens a table. Proposals of a data set are worked on in the order in
which they arrived, so that the order of answers tells nothing about labels: of several servers one
at a time works on a data set (`ServiceRecords.lease`). A worker that dies is replaced, and its
proposal is looked at again; another server does the same for a server that dies. The ledger hands
out the same bytes for the same proposal, and never charges twice.
"""

import logging
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from multiprocessing import get_context, parent_process
from typing import Annotated, Any, Literal

from fastapi import Path, Query

from suffice import strict_json
from suffice.errors import (
    BurntRequestError,
    ForeignRowsError,
    LedgerError,
    ParameterError,
    PendingRequestError,
    RequestConflictError,
    StorageError,
    UnitError,
)
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import Token
from suffice.protocol.grant import entry_about
from suffice.protocol.messages import Line, Refused
from suffice.service.auth import Authenticator
from suffice.service.problems import Problem, not_found
from suffice.service.records import ServiceRecords, State, StoredProposal
from suffice.service.settings import Settings

LOGGER = logging.getLogger("suffice.service")
_REST_SECONDS = 2.0  # between two looks at the records: another server may have stored something
_MOST_DEATHS = 3  # of workers over one proposal
_FOREIGN = "the rows of the proposal are not those of the data set"
_LOST = (
    "this proposal was charged, but its output was lost; send a new proposal (another purpose is"
    " enough), which is charged too"
)
_LATER = (LedgerError, StorageError)  # the ledger may serve the same proposal at another time
_NEVER = RequestConflictError  # among these: it will not
_CANNOT = "the service cannot answer this proposal; ask the owner"
_AT_WORK = threading.Lock()  # of a worker process


@dataclass(frozen=True)
class Outcome:
    """What became of a proposal in a worker; without an answer the owner has to decide."""

    answer: bytes | None = None
    release: bytes | None = None


def answer_proposal(settings: Settings, stored: StoredProposal) -> Outcome:
    """Protects each label: answers one proposal, as `suffice.protocol.grant.grant` does.

    The answer never depends on a label. An error that a proposal causes becomes a refusal with a
    fixed sentence, because a message could tell the learner more than an answer may. It raises
    PendingRequestError if another server is at work on the same proposal, and LedgerError or
    StorageError if the ledger cannot be used now.
    """
    from suffice.protocol import grant
    from suffice.release.release import encode
    from suffice.tables.files import TableFile

    proposal, served = stored.proposal, settings.datasets[stored.dataset]
    try:
        table, ledger = TableFile(served.table), _opened(settings.ledger)
        asked: dict[str, Any] = {
            "policy": served.policy,
            "ledger": ledger,
            "dataset": stored.dataset,
            "label": served.label,
        }
        if stored.state is not State.APPROVED and served.grants == "by-hand":
            declined = grant.review(proposal, table, **asked)
            if declined is None:
                return Outcome()
            grant.log_answer(proposal, ledger, stored.dataset, declined)
            return Outcome(declined.encode())
        answer, release = grant.grant(proposal, table, **asked, key=settings.key)
        return Outcome(answer.encode(), None if release is None else encode(release))
    except ForeignRowsError:
        reason = _FOREIGN
    except BurntRequestError:
        reason = _LOST
    except _LATER as error:
        if not isinstance(error, _NEVER):
            raise
        reason = _CANNOT
    except Exception:  # noqa: BLE001  # an answer always comes, and says nothing of the reason
        reason = _CANNOT
    return Outcome(Refused(proposal.digest, (reason,)).encode())


@lru_cache(maxsize=1)
def _opened(place: str) -> "Ledger":
    """Return the ledger of this worker: it remembers what it has verified of the log."""
    from suffice.owner.ledger import Ledger

    return Ledger(place)


def _answer_in_worker(settings: Settings, stored: StoredProposal) -> Outcome:
    with _AT_WORK:
        return answer_proposal(settings, stored)


def _end_with_the_server() -> None:
    """End this worker when its server is gone, but not before the proposal in hand is answered."""
    server = parent_process()

    def watch() -> None:
        if server is not None:
            server.join()
            _AT_WORK.acquire()
            os._exit(0)

    threading.Thread(target=watch, name="watch the server", daemon=True).start()


class Workers:
    """Works on the proposals of every data set until it is closed."""

    def __init__(self, settings: Settings, records: ServiceRecords) -> None:
        self._settings, self._records = settings, records
        self._closing = threading.Event()
        self._wakeups = {name: threading.Event() for name in settings.datasets}
        self._threads = [
            threading.Thread(target=self._work, args=(name,), name=f"work on {name}", daemon=True)
            for name in settings.datasets
        ]

    def open(self) -> None:
        """Begin, also with what an earlier server left behind."""
        for thread in self._threads:
            thread.start()

    def notify(self, dataset: str) -> None:
        """Say that there is something to do."""
        self._wakeups[dataset].set()

    def close(self) -> None:
        """Finish the proposals in hand, then stop."""
        self._closing.set()
        for wakeup in self._wakeups.values():
            wakeup.set()
        for thread in self._threads:
            thread.join()

    def _work(self, dataset: str) -> None:
        wakeup, worker = self._wakeups[dataset], _Worker(self._settings)
        try:
            while not self._closing.is_set():
                wakeup.clear()
                if not self._work_once(dataset, worker):
                    wakeup.wait(_REST_SECONDS)
        finally:
            worker.close()

    def _work_once(self, dataset: str, worker: "_Worker") -> bool:
        """Look at the oldest open proposal; say whether there was one that could be answered."""
        try:
            if self._records.next_to_work_on(dataset) is None:
                return False
            with self._records.lease(dataset) as free:
                proposal = self._records.next_to_work_on(dataset) if free else None
                if proposal is None:
                    return False
                outcome = worker.answer(proposal)
                if outcome.answer is None:
                    self._records.move(proposal, State.WAITING)
                else:
                    self._records.answer(proposal, outcome.answer, outcome.release)
        except PendingRequestError:
            return False
        except _LATER as error:
            LOGGER.error("The service cannot work on %r now: %s", dataset, error)  # noqa: TRY400
            return False
        except Exception:  # whatever it is, the proposals of a data set are looked at again
            LOGGER.exception("The service cannot work on %r now.", dataset)
            return False
        return True


class _Worker:
    """One process that answers proposals, replaced when it dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = self._new_pool()

    @staticmethod
    def _new_pool() -> ProcessPoolExecutor:
        # Spawned, not forked: a fork would copy the locks and threads of a server.
        pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_end_with_the_server)
        # Workers inherit this. Ctrl-C and service managers signal every process of a server, and a
        # worker that ended between charge and output would lose the output.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        return pool

    def answer(self, stored: StoredProposal) -> Outcome:
        for _ in range(_MOST_DEATHS):
            try:
                return self._pool.submit(_answer_in_worker, self._settings, stored).result()
            except BrokenProcessPool:
                LOGGER.error("A worker of data set %r died.", stored.dataset)  # noqa: TRY400
                self._pool = self._new_pool()
        return Outcome(Refused(stored.digest, (_CANNOT,)).encode())

    def close(self) -> None:
        self._pool.shutdown(wait=True)


Name = Annotated[str, Path(max_length=200)]
Identity = Annotated[str, Path(pattern="^[0-9a-z]{1,40}$")]
Digest = Annotated[str, Path(pattern="^sha256:[0-9a-f]{64}$")]
After = Annotated[str | None, Query(pattern="^sha256:[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Approval:
    """The owner's decision to grant a proposal that waits."""

    grant: Literal[True]


@dataclass(frozen=True)
class Rejection:
    """The owner's decision not to grant a proposal that waits, and why."""

    grant: Literal[False]
    reason: Line


def read_decision(value: object) -> Approval | Rejection:
    """Return the decision of an owner: ``{"grant": true}``, or false with a ``"reason"``."""
    refuses = isinstance(value, dict) and value.get("grant") is False
    kind: type[Approval | Rejection] = Rejection if refuses else Approval
    return strict_json.read(kind, value, "decision", error=ParameterError)


class Service:
    """What the routes share: settings, records, ledger, authenticator and workers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.ledger)
        for name, served in settings.datasets.items():
            self.ledger.classes(name, served.label)  # raises if it has no budget yet
        if not settings.key.is_file():
            raise StorageError(
                f"The key {settings.key} does not exist. Make it with `suffice keygen`."
            )
        self.records = ServiceRecords(self.ledger)
        self.authenticator = Authenticator(settings, self.records)
        self.workers = Workers(settings, self.records)

    def largest_epsilon(self, dataset: str) -> float:
        """Return the largest epsilon of a further release of labels; 0 if nothing can be granted.

        Nothing can be granted where another unit than the label has a budget.
        """
        try:
            return self.ledger.largest_epsilon(dataset, unit="label")
        except UnitError:
            return 0.0

    def proposal(self, caller: Token, dataset: str, digest: str) -> StoredProposal:
        """Return a proposal that the caller may see, or raise as if there were none."""
        self.authenticator.served(caller, dataset)
        proposal = self.records.proposal(dataset, digest)
        if proposal is None or not self.authenticator.may_see(caller, proposal):
            raise not_found()
        return proposal

    def decide(self, stored: StoredProposal, choice: Approval | Rejection) -> None:
        """Move a waiting proposal on, as its owner decided; what was decided stays decided."""
        answer = None
        if isinstance(choice, Rejection):  # first: a reason that no answer can hold is an error
            answer = Refused(stored.digest, (choice.reason,))
        moved = False
        if stored.state is State.WAITING and answer is None:
            moved = self.records.move(stored, State.APPROVED)
        elif stored.state is State.WAITING and answer is not None:
            entry = entry_about(stored.proposal, answer)
            moved = self.records.answer(stored, answer.encode(), None, entry)
        if not moved:
            raise Problem(HTTPStatus.CONFLICT, "This proposal does not wait for a decision.")
        self.workers.notify(stored.dataset)
