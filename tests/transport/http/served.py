"""A clinic with a service: tables, ledger, key and settings, and a real server process for them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import Role, mint
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import propose
from suffice.protocol.messages import Proposal
from suffice.releases.signing import generate_keys
from suffice.service.records import ServiceRecords, StoredProposal

FEATURES = ("age", "size", "stage")
ROWS = 80
SETTINGS = """
organisation = "Clinic"
ledger = "{ledger}"
key = "clinic.key"
[server]
port = 0
[limits]
requests_per_minute = 100000
waiting_proposals = {most}
[datasets.diagnosis]
table = "table.csv"
label = "diagnosis"
grants = "automatic"
[datasets.diagnosis.policy]
largest_epsilon = 0.5
features = ["age", "size", "stage"]
[datasets.smoker]
table = "table.csv"
label = "smoker"
grants = "{smoker}"
[datasets.smoker.policy]
largest_epsilon = 0.5
features = ["age", "size", "stage"]
"""


@dataclass(frozen=True)
class Clinic:
    """The folder of a service, and the text of one token for each role."""

    folder: Path
    tokens: Mapping[str, str]
    place: str | Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.place)

    @property
    def records(self) -> ServiceRecords:
        return ServiceRecords(self.ledger)

    def proposal(self, purpose: str = "study", epsilon: float = 0.1) -> Proposal:
        return propose(self.folder / "rows.csv", epsilon=epsilon, purpose=purpose)

    def new_token(self, role: str, scope: tuple[str, ...] = ()) -> str:
        token, text = mint(role, scope=scope, holder=f"the {role}")
        self.records.add_token(token)
        return text

    def charges(self, dataset: str) -> int:
        return sum(entry.dataset == dataset for entry in self.ledger.history())


def stored_proposals(records: ServiceRecords, dataset: str) -> list[StoredProposal]:
    """Return every proposal of a data set, oldest first."""
    listed = records.page(dataset, None, most=10**6)
    return [records.proposal(dataset, row.digest) for row in listed]


def make_clinic(
    folder: Path,
    labels: np.ndarray | None = None,
    most: int = 1000,
    ledger: str | None = None,
    smoker: str = "by-hand",
) -> Clinic:
    """Make tables, ledger, key, settings and tokens; ``labels`` replace both label columns.

    ``ledger`` is the address of a database, and ``smoker`` says who grants about that data set.
    """
    folder.mkdir()
    rng = np.random.default_rng(3)
    columns = {
        "age": rng.integers(20, 90, ROWS),
        "size": rng.normal(size=ROWS).round(4),
        "stage": rng.integers(1, 5, ROWS),
    }
    drawn = rng.integers(0, 2, ROWS) if labels is None else labels
    pa_csv.write_csv(pa.table(columns), folder / "rows.csv")
    table = pa.table({**columns, "diagnosis": drawn, "smoker": drawn[::-1]})
    pa_csv.write_csv(table, folder / "table.csv")
    budget = {"label": Budget(1.0)}
    classes = {"diagnosis": {"diagnosis": (0, 1)}, "smoker": {"smoker": (0, 1)}}
    place = ledger or folder / "clinic.ledger"
    Ledger(place, {"diagnosis": budget, "smoker": budget}, classes)
    generate_keys(folder / "clinic")
    settings = SETTINGS.format(ledger=ledger or "clinic.ledger", most=most, smoker=smoker)
    (folder / "suffice.toml").write_text(settings)
    clinic = Clinic(folder, {}, place)
    rounds = {Role.PARTY: (f"sha256:{'0' * 64}",)}  # no other token is for a round
    tokens = {role: clinic.new_token(role, rounds.get(role, ())) for role in Role}
    return Clinic(folder, tokens, place)


@contextmanager
def running(clinic: Clinic, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield address and process of a server on a free port of loopback; it ends with the block."""
    command = [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", "0"]
    variables = {**os.environ, **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
    try:
        assert process.stdout is not None
        with process.stdout as printed:
            line = printed.readline()
        match = re.search(r"http://[\d.]+:\d+", line)
        assert match is not None, line
        yield match.group(), process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the process ids of a server's workers."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    workers = [line for line in listed.stdout.splitlines() if "spawn_main" in line]
    return [int(line.split()[0]) for line in workers]
