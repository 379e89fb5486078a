"""What whoever runs the service is told: lines of the log, counts and durations, and what fails.

Lines are fixed sentences with the id of a request, the type of an error or the name of a data set.
They hold no route, no person, no address, and nothing that was read in a table. How long a pass
over private cells took, and how often one failed, is the owner's: counts have an address of their
own (`suffice.service.app`), which no token opens, and no label by person or by answer.
"""

import json
import logging
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import ClassVar, Literal

from suffice.errors import SufficeError
from suffice.plain_text import escaped

LOGGER = logging.getLogger("suffice.service")
REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of the request in hand
_HELP = {
    "suffice_requests_total": "Requests, by the status of their answer.",
    "suffice_request_seconds": "Time until a request was answered.",
    "suffice_refusals_total": "Requests that the service itself refused.",
    "suffice_failed_sign_ins_total": "Sign-ins that failed.",
    "suffice_work_seconds": "Time that a worker took for a proposal, by data set.",
    "suffice_work_failures_total": "Proposals that a worker could not answer, by data set.",
    "suffice_proposals": "Proposals, by data set and state.",
    "suffice_oldest_open_proposal_seconds": "Age of the oldest proposal without an answer.",
    "suffice_ready": "1 if the service can grant, 0 if it cannot.",
}
_Labels = tuple[tuple[str, str], ...]


class LogLine(logging.Formatter):
    """Writes a record as one line, JSON or text; of an error its type alone: texts may quote."""

    def __init__(self, form: Literal["json", "text"] = "json") -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        message = record.getMessage()
        if message.startswith("Traceback"):  # an application that cannot begin or end sends text
            message = "The service failed while it began or ended."
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds"),
            "level": record.levelname.lower(),
            "message": escaped(message.strip()),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        if request := REQUEST.get():
            line["request"] = request
        if self._form == "json":
            return json.dumps(line)
        also = [f"{name}={line[name]}" for name in ("error", "request") if name in line]
        return " ".join([line["time"], line["level"], line["message"], *also])


class Counts:
    """Counts and durations of this process since it began, in the text format of Prometheus."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, _Labels], float] = defaultdict(float)

    def add(self, name: str, value: float = 1.0, /, **labels: str) -> None:
        """Add to a count."""
        with self._lock:
            self._values[name, tuple(labels.items())] += value

    @contextmanager
    def timed(self, name: str, **labels: str) -> Iterator[None]:
        """Count a block and the seconds that it takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(f"{name}_sum", time.monotonic() - began, **labels)
            self.add(f"{name}_count", 1.0, **labels)

    def text(self, now: Iterable[tuple[str, float, dict[str, str]]]) -> str:
        """Return all counts, and with them what is so now: name, value and labels of each."""
        with self._lock:
            values = dict(self._values)
        values |= {(name, tuple(labels.items())): value for name, value, labels in now}
        lines = []
        for family, words in _HELP.items():
            kind = "counter" if family.endswith("_total") else "gauge"
            kind = "summary" if f"{family}_count" in {name for name, _ in values} else kind
            lines += [f"# HELP {family} {words}", f"# TYPE {family} {kind}"]
            for (name, labels), value in sorted(values.items()):
                if name in (family, f"{family}_sum", f"{family}_count"):
                    pairs = ",".join(f"{key}={json.dumps(text)}" for key, text in labels)
                    shown = f"{name}{{{pairs}}}" if pairs else name
                    lines.append(f"{shown} {value:.10g}")
        return "\n".join(lines) + "\n"


COUNTS = Counts()


def failure_of(error: SufficeError) -> str:
    """Return the fixed sentence about a ledger that cannot be used."""
    text = str(error).lower()
    # SQLite undoes by itself what a full disk cut off, and then has no transaction to undo.
    if re.search("is full|no space|disk i/o|unable to open|no transaction", text):
        return "The disk of the ledger is full, or fails. Nothing can be charged."
    if re.search("read-?only|denied", text):
        return "This user cannot write the ledger, or its file system is read-only."
    if "damaged" in text:
        return "The ledger is damaged. Restore it from a backup, then `suffice ledger recover`."
    if "another process" in text:
        return "Others use the ledger for too long, so requests are sent away."
    away = "cannot be used (" in text  # followed by the type of an error of PostgreSQL
    return "The database of the ledger does not answer." if away else "The ledger cannot be used."


class Refusals:
    """Writes down refusals of the service's own making, a few of each kind in a minute.

    Whoever is refused could otherwise fill the disk with lines.
    """

    most_lines: ClassVar[int] = 10  # of one sentence in one minute

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, int], int] = {}

    def note(self, sentence: str) -> None:
        """Count a refusal, and write its fixed sentence into the log."""
        COUNTS.add("suffice_refusals_total")
        now = sentence, int(time.monotonic() // 60)
        with self._lock:
            if now not in self._lines:  # a new minute, or a new sentence
                self._lines = {key: n for key, n in self._lines.items() if key[1] == now[1]}
            lines = self._lines[now] = self._lines.get(now, 0) + 1
        if lines <= self.most_lines:
            LOGGER.info("A request was refused: %s", sentence)


REFUSALS = Refusals()


class Troubles:
    """What fails now, each in a fixed sentence; a line of the log says when it begins and ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sentences: dict[str, str] = {}

    def note(self, about: str, sentence: str) -> None:
        """Write down what fails about something; an empty sentence says that it works."""
        with self._lock:
            before = self._sentences.get(about, "")
            self._sentences[about] = sentence
        if sentence and sentence != before:
            LOGGER.error(sentence)
        elif before and not sentence:
            LOGGER.warning("This is over: %s", before)

    def now(self) -> list[str]:
        """Return what fails."""
        with self._lock:
            return [sentence for sentence in self._sentences.values() if sentence]
