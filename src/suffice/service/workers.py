"""Who opens private tables: one worker process for each data set, and one proposal at a time.

A handler of a request never opens a table. Proposals of a data set are worked on in the order in
which they arrived, so that the order of answers tells nothing about labels: of several servers one
at a time works on a data set (`Desk.turn`). A worker that dies is replaced, and its proposal is
looked at again; another server does the same for a server that dies. The ledger hands out the same
bytes for the same proposal, and never charges twice.
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
from typing import Annotated

from fastapi import Path, Query

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
from suffice.owner.ledger.rules import Balance
from suffice.protocol.grant import entry_about
from suffice.protocol.messages import Answer, Proposal, Refused
from suffice.service.auth import Caller, Door
from suffice.service.problems import Problem, not_found
from suffice.service.records import Desk, Filed, State
from suffice.service.settings import Settings

__all__ = ["After", "Digest", "Identity", "Name", "Outcome", "Service", "Workroom", "settle"]


LOGGER = logging.getLogger("suffice.service")
_REST_SECONDS = 2.0  # between two looks at the desk: another server may have filed something
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
    """What became of a proposal in a worker.

    Attributes
    ----------
    answer, release : bytes, optional
        The answer, and the release if it grants one. Without an answer the owner has to decide.
    """

    answer: bytes | None = None
    release: bytes | None = None


def settle(settings: Settings, dataset: str, body: bytes, *, approved: bool) -> Outcome:
    """Protects each label: answers one proposal, as `suffice.protocol.grant.grant` does.

    The answer never depends on a label. An error that a proposal causes becomes a refusal with a
    fixed sentence, because a message could tell the learner more than an answer may.

    Parameters
    ----------
    settings
        What the service serves.
    dataset, body
        The data set, and the bytes of the proposal.
    approved
        Whether the owner has decided for it, or the data set grants automatically.

    Raises
    ------
    PendingRequestError
        If another server is at work on the same proposal.
    LedgerError, StorageError
        If the ledger cannot be used now.
    """
    proposal = Proposal.load(body)
    try:
        answer, release = _decide(settings, dataset, proposal, approved=approved)
    except ForeignRowsError:
        return Outcome(Refused(proposal.digest, (_FOREIGN,)).encode())
    except BurntRequestError:
        return Outcome(Refused(proposal.digest, (_LOST,)).encode())
    except _LATER as error:
        if not isinstance(error, _NEVER):
            raise
        return Outcome(Refused(proposal.digest, (_CANNOT,)).encode())
    except Exception:  # noqa: BLE001  # an answer always comes, and says nothing of the reason
        return Outcome(Refused(proposal.digest, (_CANNOT,)).encode())
    return Outcome(None if answer is None else answer.encode(), release)


def _decide(
    settings: Settings, dataset: str, proposal: Proposal, *, approved: bool
) -> tuple[Answer | None, bytes | None]:
    """Return the answer and the bytes of the release; no answer means that the owner decides."""
    from suffice.protocol import grant
    from suffice.release.codec import encode
    from suffice.tables.files import TableFile

    served = settings.datasets[dataset]
    table, ledger = TableFile(served.table), _opened(settings.ledger)
    if not approved and served.grants == "by-hand":
        declined = grant.review(
            proposal,
            table,
            policy=served.policy,
            ledger=ledger,
            dataset=dataset,
            label=served.label,
        )
        if declined is not None:
            grant.log_answer(proposal, ledger, dataset, declined)
        return declined, None
    answer, release = grant.grant(
        proposal,
        table,
        policy=served.policy,
        ledger=ledger,
        dataset=dataset,
        label=served.label,
        key=settings.key,
    )
    return answer, None if release is None else encode(release)


@lru_cache(maxsize=1)
def _opened(place: str) -> "Ledger":
    """Return the ledger of this worker: it remembers what it has verified of the log."""
    from suffice.owner.ledger import Ledger

    return Ledger(place)


def _settle_in_worker(settings: Settings, dataset: str, body: bytes, *, approved: bool) -> Outcome:
    with _AT_WORK:
        return settle(settings, dataset, body, approved=approved)


def _end_with_the_server() -> None:
    """End this worker when its server is gone, but not before the proposal in hand is settled."""
    server = parent_process()

    def watch() -> None:
        if server is not None:
            server.join()
            _AT_WORK.acquire()
            os._exit(0)

    threading.Thread(target=watch, name="watch the server", daemon=True).start()


class Workroom:
    """Works on the proposals of every data set until it is closed.

    Parameters
    ----------
    settings
        What the service serves.
    desk
        Where proposals are filed.
    """

    def __init__(self, settings: Settings, desk: Desk) -> None:
        self._settings, self._desk = settings, desk
        self._closing = threading.Event()
        self._bells = {name: threading.Event() for name in settings.datasets}
        self._threads = [
            threading.Thread(target=self._work, args=(name,), name=f"work on {name}", daemon=True)
            for name in settings.datasets
        ]

    def open(self) -> None:
        """Begin, also with what an earlier server left behind."""
        for thread in self._threads:
            thread.start()

    def ring(self, dataset: str) -> None:
        """Say that there is something to do."""
        self._bells[dataset].set()

    def close(self) -> None:
        """Finish the proposals in hand, then stop."""
        self._closing.set()
        for bell in self._bells.values():
            bell.set()
        for thread in self._threads:
            thread.join()

    def _work(self, dataset: str) -> None:
        bell, worker = self._bells[dataset], _Worker(self._settings)
        try:
            while not self._closing.is_set():
                bell.clear()
                if not self._work_once(dataset, worker):
                    bell.wait(_REST_SECONDS)
        finally:
            worker.close()

    def _work_once(self, dataset: str, worker: "_Worker") -> bool:
        """Look at the oldest open proposal; say whether there was one that could be settled."""
        try:
            if self._desk.next_to_work_on(dataset) is None:
                return False
            with self._desk.turn(dataset) as free:
                proposal = self._desk.next_to_work_on(dataset) if free else None
                if proposal is None:
                    return False
                outcome = worker.settle(proposal)
                if outcome.answer is None:
                    self._desk.move(proposal, State.WAITING)
                else:
                    self._desk.answer(proposal, outcome.answer, outcome.release)
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
    """One process that settles proposals, replaced when it dies."""

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

    def settle(self, proposal: Filed) -> Outcome:
        approved = proposal.state is State.APPROVED
        for _ in range(_MOST_DEATHS):
            task = (self._settings, proposal.dataset, proposal.body)
            try:
                return self._pool.submit(_settle_in_worker, *task, approved=approved).result()
            except BrokenProcessPool:
                LOGGER.error("A worker of data set %r died.", proposal.dataset)  # noqa: TRY400
                self._pool = self._new_pool()
        return Outcome(Refused(proposal.digest, (_CANNOT,)).encode())

    def close(self) -> None:
        self._pool.shutdown(wait=True)


Name = Annotated[str, Path(max_length=200)]
Identity = Annotated[str, Path(pattern="^[0-9a-z]{1,40}$")]
Digest = Annotated[str, Path(pattern="^sha256:[0-9a-f]{64}$")]
After = Annotated[str | None, Query(pattern="^sha256:[0-9a-f]{64}$")]


class Service:
    """What the routes share: settings, desk, ledger, door and workroom.

    Parameters
    ----------
    settings
        What is served.

    Raises
    ------
    LedgerError
        If the ledger does not exist, or has no budget for a served data set.
    StorageError
        If the key does not exist.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.ledger)
        self._check_ready()
        self.desk = Desk(self.ledger)
        self.door = Door(settings, self.desk)
        self.workroom = Workroom(settings, self.desk)

    def _check_ready(self) -> None:
        """Raise if a served data set has no budget yet, or releases could not be signed."""
        for name, served in self.settings.datasets.items():
            self.ledger.classes(name, served.label)
        if not self.settings.key.is_file():
            raise StorageError(
                f"The key {self.settings.key} does not exist. Make it with `suffice keygen`."
            )

    def balance(self, dataset: str) -> list[Balance]:
        """Return the budgets of a data set, with what is left of each."""
        return [b for b in self.ledger.balances() if b.dataset == dataset]

    def largest_epsilon(self, dataset: str) -> float:
        """Return the largest epsilon of a further release of labels; 0 if nothing can be granted.

        Nothing can be granted where another unit than the label has a budget.
        """
        try:
            return self.ledger.largest_epsilon(dataset, unit="label")
        except UnitError:
            return 0.0

    def filed(self, caller: Caller, dataset: str, digest: str) -> Filed:
        """Return a proposal that the caller may see, or raise as if there were none."""
        self.door.served(caller, dataset)
        proposal = self.desk.filed(dataset, digest)
        if proposal is None or not self.door.may_see(caller, proposal):
            raise not_found()
        return proposal

    def decide(self, proposal: Filed, choice: object) -> None:
        """Move a waiting proposal on, as its owner decided; what was decided stays decided.

        Parameters
        ----------
        proposal
            A proposal that waits.
        choice
            ``{"grant": True}``, or ``{"grant": False, "reason": TEXT}``.

        Raises
        ------
        ParameterError
            If it is no choice.
        Problem
            409 if the proposal does not wait for a decision.
        """
        waits = proposal.state is State.WAITING
        match choice:
            case {"grant": True, **rest} if not rest:
                moved = waits and self.desk.move(proposal, State.APPROVED)
            case {"grant": False, "reason": str(reason), **rest} if not rest:
                answer = Refused(proposal.digest, (reason,))
                entry = entry_about(Proposal.load(proposal.body), answer)
                moved = waits and self.desk.answer(proposal, answer.encode(), None, entry)
            case _:
                raise ParameterError(
                    'A decision must be {"grant": true}, or {"grant": false, "reason": TEXT}.'
                )
        if not moved:
            raise Problem(HTTPStatus.CONFLICT, "This proposal does not wait for a decision.")
        self.workroom.ring(proposal.dataset)
