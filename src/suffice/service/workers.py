"""Who opens private tables: one worker process for each data set, and one proposal at a time.

A handler of a request never opens a table. Tokens take turns, each with its oldest
proposal, so that the order of answers tells nothing about labels: of several servers one at a time
works on a data set (`ServiceRecords.lease`). A worker that dies is replaced, and its proposal is
looked at again after those of others; another server does the same for a server that dies. The
ledger hands out the same bytes for the same proposal, and never charges twice.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from multiprocessing import get_context, parent_process
from typing import Annotated, Any, Literal

import httpx
from fastapi import Path, Query

from suffice import strict_json
from suffice.errors import (
    ArchivedRequestError,
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
from suffice.privacy.guarantee import Budget, Unit
from suffice.protocol.grant import entry_about, protected_unit
from suffice.protocol.messages import Line, Proposal, Refused
from suffice.service.auth import Authenticator
from suffice.service.operation import COUNTS, LOGGER, Troubles
from suffice.service.problems import Problem, not_found
from suffice.service.records import KeptPieces, ServiceRecords, State, StoredProposal
from suffice.service.settings import Person, Settings
from suffice.service.sign_in import SingleSignOn
from suffice.tables.columns import Classes

_REST_SECONDS = 2.0  # between two looks at the records: another server may have stored something
_FOREIGN = "the rows of the proposal are not those of the data set"
_LOST = (
    "this proposal was charged, but its output was lost; send a new proposal (another purpose is"
    " enough), which is charged too"
)
_ARCHIVED = "this proposal was answered long ago, and is archived; ask the owner for the archive"
_LATER = (LedgerError, StorageError)  # the ledger may serve the same proposal at another time
_NEVER = RequestConflictError  # among these: it will not
_CANNOT = "the service cannot answer this proposal; ask the owner"
_AT_WORK = threading.Lock()  # of a worker process


@dataclass(frozen=True)
class Outcome:
    """What became of a proposal in a worker; without an answer the owner has to decide."""

    answer: bytes | None = None
    release: bytes | None = None
    failure: str = ""  # the type of an error that nobody expected, for the log


def table_trouble(settings: Settings, dataset: str) -> str:
    """Return why a table cannot be used, in a fixed sentence: reads names of columns, no cell."""
    from suffice.tables.sources import column_names

    served = settings.datasets[dataset]
    try:
        names = {*column_names(served.file)}
    except Exception:  # noqa: BLE001  # whatever it is, its text may quote
        return f"The table of data set {dataset!r} cannot be opened."
    if {served.label, *served.columns} <= names:
        return ""
    return f"The table of data set {dataset!r} lacks a column that the settings name."


def answer_proposal(settings: Settings, stored: StoredProposal) -> Outcome:
    """Protects each label or record: answers a proposal, as `suffice.protocol.grant.grant` does.

    The answer never depends on a private cell. An error that a proposal causes becomes a refusal
    with a fixed sentence, because a message could tell the learner more than an answer may. It
    raises PendingRequestError if another server is at work on the same proposal, and LedgerError or
    StorageError if ledger or table cannot be used now.
    """
    from suffice.protocol import grant
    from suffice.releases.release import encode

    proposal, served = stored.proposal, settings.datasets[stored.dataset]
    if trouble := table_trouble(settings, stored.dataset):
        raise StorageError(trouble)  # the proposal waits until the table is there
    failure = ""
    try:
        table, ledger = served.file, _opened(settings.ledger)
        asked: dict[str, Any] = {
            "policy": served.policy,
            "ledger": ledger,
            "dataset": stored.dataset,
            "label": served.label,
            "sheet": served.sheet,
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
    except ArchivedRequestError:
        reason = _ARCHIVED
    except UnitError:  # budgets are public
        reason = "the data set has no budget for what a release of this kind protects"
    except _LATER as error:
        if not isinstance(error, _NEVER):
            raise
        reason, failure = _CANNOT, type(error).__name__
    except Exception as error:  # noqa: BLE001  # an answer always comes, and says nothing of the reason
        reason, failure = _CANNOT, type(error).__name__
    return Outcome(Refused(proposal.digest, (reason,)).encode(), failure=failure)


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

    def __init__(self, settings: Settings, records: ServiceRecords, troubles: Troubles) -> None:
        self._settings, self._records, self._troubles = settings, records, troubles
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
        look = time.monotonic()  # at the table, when there is nothing else to do
        try:
            while not self._closing.is_set():
                wakeup.clear()
                if self._work_once(dataset, worker):
                    continue
                if time.monotonic() >= look:
                    self._troubles.note(
                        f"table of {dataset}", table_trouble(self._settings, dataset)
                    )
                    look = time.monotonic() + 5 * _REST_SECONDS
                wakeup.wait(_REST_SECONDS)
        finally:
            worker.close()

    def _work_once(self, dataset: str, worker: "_Worker") -> bool:
        """Look at the oldest open proposal; say whether there was one that could be answered."""
        about, sentence, is_done = f"work on {dataset}", "", False
        try:
            if self._records.next_to_work_on(dataset) is not None:
                with self._records.lease(dataset) as free:
                    proposal = self._records.next_to_work_on(dataset) if free else None
                    if proposal is not None:
                        try:
                            is_done = self.store(proposal, worker)
                        finally:  # one that cannot be answered now keeps no other waiting
                            self._records.end_turn(proposal)
        except PendingRequestError:
            return False
        except _LATER as error:  # whose texts hold no value of a table
            sentence = f"The service cannot work on {dataset!r} now: {error}"
        except Exception as error:  # noqa: BLE001  # the proposals are looked at again
            sentence = f"The service cannot work on {dataset!r} now: {type(error).__name__}."
        self._troubles.note(about, sentence)
        return is_done

    def store(self, proposal: StoredProposal, worker: "_Worker") -> bool:
        """Let a worker answer a proposal, and store what becomes of it; say whether it lived."""
        dataset = proposal.dataset
        with COUNTS.timed("suffice_work_seconds", dataset=dataset):
            outcome = worker.answer(proposal)
        if outcome is None:
            return False
        if outcome.failure:
            COUNTS.add("suffice_work_failures_total", dataset=dataset)
            sentence = "A proposal of data set %r could not be answered: %s."
            LOGGER.error(sentence, dataset, outcome.failure)
        if outcome.answer is not None:
            self._records.answer(proposal, outcome.answer, outcome.release)
        elif self._records.move(proposal, State.WAITING):
            announce(self._settings.operation.webhook)
        return True


def announce(webhook: str | None) -> None:
    """Send an empty message to an address, if there is one: a proposal begins to wait."""

    def send(address: str) -> None:
        try:
            httpx.post(address, timeout=5, follow_redirects=False).raise_for_status()
        except httpx.HTTPError:
            LOGGER.warning("The webhook could not be reached.")

    if webhook is not None:
        threading.Thread(target=send, args=(webhook,), name="webhook", daemon=True).start()


def new_pool() -> ProcessPoolExecutor:
    """Return one process to work in; it ends with the server, after the work in hand."""
    # Spawned, not forked: a fork would copy the locks and threads of a server.
    pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_end_with_the_server)
    # Workers inherit this. Ctrl-C and service managers signal every process of a server, and a
    # worker that ended between charge and output would lose the output.
    kept = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, kept)
    return pool


class _Worker:
    """One process that answers proposals, replaced when it dies."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = self._new_pool()
        self._deaths: Counter[str] = Counter()  # by proposal

    @staticmethod
    def _new_pool() -> ProcessPoolExecutor:
        return new_pool()

    def answer(self, stored: StoredProposal) -> Outcome | None:
        """Return what becomes of a proposal; None if the process died, so that others go first.

        A proposal that kills its process again and again is refused. A process that dies before it
        looks at the proposal counts for nothing.
        """
        digest, looked = stored.digest, False
        try:
            self._pool.submit(int).result()  # it is up
            looked = True
            return self._pool.submit(_answer_in_worker, self._settings, stored).result()
        except BrokenProcessPool:
            LOGGER.error("A worker of data set %r died.", stored.dataset)
            self._pool = self._new_pool()
            self._pool.submit(int)  # begins at once
        self._deaths[digest] += looked
        if self._deaths[digest] < 10:  # no storm that hits at random hits one proposal so often
            return None
        return Outcome(Refused(digest, (_CANNOT,)).encode(), failure="BrokenProcessPool")

    def close(self) -> None:
        self._pool.shutdown(wait=True)


Name = Annotated[str, Path(max_length=200)]
Identity = Annotated[str, Path(pattern="^[0-9a-z]{1,40}$")]
Digest = Annotated[str, Path(pattern="^sha256:[0-9a-f]{64}$")]
After = Annotated[str | None, Query(pattern="^sha256:[0-9a-f]{64}$")]
AfterEntry = Annotated[int, Query(ge=0, le=10**15)]


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
        if not settings.key.is_file():
            raise StorageError(
                f"The key {settings.key} does not exist. Make it with `suffice keygen`."
            )
        self.records, self.kept = ServiceRecords(self.ledger), KeptPieces()
        for name in settings.datasets:
            if not self.records.is_open(name):
                LOGGER.warning(
                    "Data set %r has no budget yet. An owner adds it on the pages.", name
                )
        self.authenticator = Authenticator(settings, self.records)
        self.sign_in = SingleSignOn(settings)
        self.troubles = Troubles()
        self.workers = Workers(settings, self.records, self.troubles)

    def largest_epsilon(self, dataset: str) -> float:
        """Return the largest epsilon that policy and budget still grant; 0 if nothing can be."""
        policy, budgets = self.settings.datasets[dataset].policy, self.ledger.budgets(dataset)
        units = {protected_unit(kind, policy) for kind in policy.kinds} & budgets.keys()
        try:
            left = [self.ledger.largest_epsilon(dataset, unit=unit) for unit in units]
        except UnitError:  # another budget, of which such a release says nothing
            return 0.0
        return min(max(left, default=0.0), policy.largest_epsilon)

    def classes(self, dataset: str) -> Classes:
        """Return the declared classes of a data set; none if nobody declared them."""
        served = self.settings.datasets[dataset]
        declared = served.policy.classes or self.ledger.classes(dataset, served.label)
        if declared is None and served.sheet is not None:
            declared = served.sheet.classes
        return tuple(declared or ())

    def receive(self, caller: Token, dataset: str, proposal: Proposal) -> StoredProposal:
        """Store a proposal that somebody sends, once, and let the workers look at it."""
        digest, limits = proposal.digest, self.settings.limits
        if not self.records.add_proposal(dataset, digest, proposal.encode(), caller.id, limits):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "Too many proposals wait for an answer, or your token has sent all that it may."
                " Try again later, or ask the owner.",
                {"Retry-After": "10"},
            )
        self.workers.notify(dataset)
        return self.proposal(caller, dataset, digest)

    def proposal(self, caller: Token, dataset: str, digest: str) -> StoredProposal:
        """Return a proposal that the caller may see, or raise as if there were none."""
        self.authenticator.served(caller, dataset)
        proposal = self.records.proposal(dataset, digest)
        if proposal is None or not self.authenticator.may_see(caller, proposal):
            raise not_found()
        return proposal

    def person(self, token: Token) -> Person | None:
        """Return the person whose sign-in made a token; None for a token that was handed out."""
        people = () if self.settings.sign_in is None else self.settings.sign_in.people
        return next((person for person in people if person.holder == token.holder), None)

    def approver(self, by: Token) -> Person:
        """Return the person who decides where a token does not, or raise."""
        person = self.person(by)
        if person is None:
            raise Problem(
                HTTPStatus.FORBIDDEN,
                "People who sign in at your organisation decide this. A token does not.",
            )
        return person

    def change_budgets(
        self, dataset: str, budgets: Mapping[Unit, Budget], reason: str, by: Token
    ) -> bool:
        """Open or raise the budgets of a data set; say whether enough people have agreed.

        Where an owner can sign in, no token does this, also where one person is enough.
        """
        served = self.settings.datasets[dataset]
        identity = self.approver(by).identity if self.settings.owners(dataset) else ""
        person = identity if served.approvers > 1 else ""
        opened = {} if self.records.is_open(dataset) else {served.label: served.classes or ()}
        decision = {"reason": reason, "token": by.id, "by": by.holder}
        return self.ledger.change_budgets(
            dataset, budgets, decision, declared=opened, person=person
        )

    def decide(self, stored: StoredProposal, choice: Approval | Rejection, by: Token) -> None:
        """Move a waiting proposal on, as its owner decided; what was decided stays decided."""
        answer = None
        if isinstance(choice, Rejection):  # first: a reason that no answer can hold is an error
            answer = Refused(stored.digest, (choice.reason,))
        moved = False
        if answer is None and self.settings.datasets[stored.dataset].approvers > 1:
            if not self.records.agree(stored, by, self.approver(by).identity):
                raise Problem(
                    HTTPStatus.CONFLICT, "You agreed already, or this proposal does not wait."
                )
            moved = True
        elif stored.state is State.WAITING and answer is None:
            moved = self.records.move(stored, State.APPROVED, by)
        elif stored.state is State.WAITING and answer is not None:
            entry = entry_about(stored.proposal, answer)
            moved = self.records.answer(stored, answer.encode(), None, entry, by)
        if not moved:
            raise Problem(HTTPStatus.CONFLICT, "This proposal does not wait for a decision.")
        self.workers.notify(stored.dataset)
