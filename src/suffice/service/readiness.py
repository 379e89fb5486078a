"""Whether the service can grant: its ledger can be read and written, and its tables are there.

Strangers learn whether it can, and nothing else. Whoever runs the service is told what fails, each
in a fixed sentence, at an address of its own and in the log. What fails is looked at again, so that
nothing has to be started anew.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import anyio

from suffice.errors import SufficeError
from suffice.owner.ledger.ledger import Replay
from suffice.owner.ledger.log import AlteredLedgerError
from suffice.owner.ledger.tokens import utc_now
from suffice.service.operation import COUNTS, failure_of
from suffice.service.workers import Service

_COUNTED = "SELECT dataset, state, count(*), min(received) FROM proposals GROUP BY dataset, state"
_BROKEN = "The ledger and its log disagree. `suffice ledger verify` says where."


@dataclass(frozen=True)
class Report:
    """What whoever runs the service is told."""

    ready: bool
    reasons: tuple[str, ...]  # why not
    entries: int  # of the audit log, verified so far
    oldest_open_proposal: str | None = None  # when it was received
    proposals: tuple[tuple[str, str, int], ...] = ()  # data set, state, and how many


class Readiness:
    """Looks at ledger and tables when somebody asks, and at most once in a while.

    A look takes a thread of its own. Whoever asks waits for two seconds at most.
    """

    rest: ClassVar[float] = 5.0  # seconds between two looks
    patience: ClassVar[float] = 2.0  # seconds

    def __init__(self, service: Service) -> None:
        self._service, self._replay = service, Replay()
        self._limiter = anyio.CapacityLimiter(1)
        self._look: asyncio.Task[Report] | None = None
        self._began = -self.rest

    async def report(self) -> Report:
        """Return what is so now, or a report that the ledger does not answer."""
        if self._look is None or (
            self._look.done() and time.monotonic() - self._began >= self.rest
        ):
            self._began = time.monotonic()
            asked = anyio.to_thread.run_sync(self.look, limiter=self._limiter)
            self._look = asyncio.ensure_future(asked)
        troubles = self._service.troubles
        try:
            report: Report = await asyncio.wait_for(asyncio.shield(self._look), self.patience)
        except TimeoutError:
            troubles.note("patience", "The ledger does not answer within two seconds.")
            return Report(ready=False, reasons=tuple(troubles.now()), entries=0)
        troubles.note("patience", "")
        return report

    def look(self) -> Report:
        """Read and write the ledger, verify what is new in its log, and return what fails."""
        troubles, rows = self._service.troubles, list[tuple[str, str, int, str]]()
        try:
            with self._service.ledger.store.reading() as records:
                rows = [*records.db.execute(_COUNTED)]
                self._replay.catch_up(records)
            with self._service.ledger.store.writing() as records:  # what is not served has no lease
                records.db.execute("DELETE FROM leases WHERE dataset = ''")
                row = ("", utc_now().isoformat())
                records.db.execute("INSERT INTO leases VALUES (?, ?)", row)
            frozen = self._service.ledger.frozen
            troubles.note("ledger", f"The ledger is frozen: {frozen}." if frozen else "")
        except AlteredLedgerError:
            self._replay = Replay()
            troubles.note("ledger", _BROKEN)
        except SufficeError as error:
            troubles.note("ledger", failure_of(error))
        troubles.note("patience", "")
        reasons = tuple(troubles.now())
        oldest = [row[3] for row in rows if row[1] != "answered"]
        return Report(
            ready=not reasons,
            reasons=reasons,
            entries=self._replay.entries,
            oldest_open_proposal=min(oldest, default=None),
            proposals=tuple(row[:3] for row in rows),
        )

    async def metrics(self) -> str:
        """Return counts and durations, in the text format of Prometheus."""
        report = await self.report()
        now: list[tuple[str, float, dict[str, str]]] = [
            ("suffice_proposals", float(count), {"dataset": dataset, "state": state})
            for dataset, state, count in report.proposals
        ]
        if report.oldest_open_proposal is not None:
            age = utc_now() - datetime.fromisoformat(report.oldest_open_proposal)
            now.append(("suffice_oldest_open_proposal_seconds", age.total_seconds(), {}))
        return COUNTS.text([*now, ("suffice_ready", float(report.ready), {})])
