"""A grant over HTTP, to the same grant on the command line and in a warm process; and a crowd.

    python lab/bench/service.py [--crowd N]

The ratios are medians of grants in turns, each of a new proposal: about 2,000 rows, ten columns and
a new charge. Then N proposals of one data set arrive at once, each on its own connection. Claims:
nothing but 200, 202 and 429 is answered, every accepted proposal gets an answer, and the charges
are those that fit into the budget.
"""

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
from harness import claim, ratio_of

from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import mint
from suffice.owner.policy import Policy
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import grant, propose
from suffice.protocol.messages import Answer, Granted, Proposal
from suffice.releases.signing import generate_keys
from suffice.service.limits import Connection
from suffice.service.records import ServiceRecords

ROWS, COLUMNS, TIMES, WAIT = 2000, 10, 9, 0.01
EPSILON = 0.15  # six of these fit into the budget of the crowd
NAMES = tuple(f"x{j}" for j in range(COLUMNS))
SETTINGS = """
organisation = "Bench"
ledger = "bench.ledger"
key = "bench.key"
[limits]
requests_per_minute = 1000000
waiting_proposals = 1000
waiting_of_one_token = 1000
"""
DATASET = """
[datasets.{name}]
table = "table.csv"
label = "y"
grants = "automatic"
[datasets.{name}.policy]
largest_epsilon = 1
features = {features}
"""


class Owner:
    """A folder with table, ledger, key and settings, and a learner's token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(ROWS, COLUMNS)).round(4)
        columns = dict(zip(NAMES, X.T, strict=True))
        pa.csv.write_csv(pa.table(columns), folder / "rows.csv")
        labels = {"y": (X[:, 0] > 0).astype(np.int64)}
        pa.csv.write_csv(pa.table(columns | labels), folder / "table.csv")
        self.budgets = {"grants": Budget(1000.0), "crowd": Budget(1.0)}
        units = {name: {"label": budget} for name, budget in self.budgets.items()}
        classes = {name: {"y": (0, 1)} for name in units}
        self.ledger = Ledger(
            folder / "bench.ledger", units, classes, anchor=folder / "bench.anchor"
        )
        generate_keys(folder / "bench")
        parts = (DATASET.format(name=n, features=json.dumps(NAMES)) for n in units)
        (folder / "suffice.toml").write_text(SETTINGS + "".join(parts))
        policy = {"largest_epsilon": 1, "features": NAMES}
        (folder / "policy.json").write_text(json.dumps(policy))
        self.policy = Policy.load(folder / "policy.json")
        token, self.token = mint("learner", holder="bench")
        ServiceRecords(self.ledger).add_token(token)
        self._good = propose(folder / "rows.csv", epsilon=EPSILON)
        self._number = 0

    def proposal(self) -> Proposal:
        """Return a proposal that nobody made before."""
        self._number += 1
        return replace(self._good, purpose=f"study {self._number}")

    def by_library(self) -> None:
        grant(
            self.proposal(),
            self.folder / "table.csv",
            policy=self.policy,
            ledger=self.ledger,
            dataset="grants",
            label="y",
            key=self.folder / "bench.key",
        )

    def by_command(self) -> None:
        proposal, output = self.folder / "proposal.json", self.folder / "out.suffice"
        self.proposal().save(proposal)
        words = ["grant", proposal, self.folder / "table.csv", "--label", "y"]
        words += ["--policy", self.folder / "policy.json", "--ledger", self.folder / "bench.ledger"]
        words += ["--dataset", "grants", "--sign", self.folder / "bench.key", "-o", output]
        command = [sys.executable, "-m", "suffice", *map(str, words), "--force"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def by_http(self, client: httpx.Client) -> None:
        proposal, place = self.proposal(), "/v1/datasets/grants/proposals"
        response = client.post(place, content=proposal.encode())
        while response.status_code == 202:
            time.sleep(WAIT)
            response = client.get(f"{place}/{proposal.digest}")
        assert isinstance(Answer.load(response.content), Granted)
        assert client.get(f"{place}/{proposal.digest}/release").status_code == 200


@contextmanager
def serving(owner: Owner):
    """Yield the address of a server; it ends with the block."""
    command = [sys.executable, "-m", "suffice", "serve", str(owner.folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://[\d.]+:\d+", process.stdout.readline()).group()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


async def send_at_once(url: str, token: str, proposals: list[Proposal]) -> list[int]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=url, timeout=600, limits=limits, headers=headers
    ) as client:
        sent = [client.post("/v1/datasets/crowd/proposals", content=p.encode()) for p in proposals]
        return [response.status_code for response in await asyncio.gather(*sent)]


def crowd(owner: Owner, url: str, client: httpx.Client, size: int) -> list[dict]:
    Connection.make_room()  # this process opens as many connections as the server
    proposals = [owner.proposal() for _ in range(size)]
    start = time.perf_counter()
    codes = asyncio.run(send_at_once(url, owner.token, proposals))
    sent = time.perf_counter() - start
    granted = answered = 0
    for proposal, code in zip(proposals, codes, strict=True):
        while code in (200, 202):
            response = client.get(f"/v1/datasets/crowd/proposals/{proposal.digest}")
            if response.status_code == 200:
                granted += isinstance(Answer.load(response.content), Granted)
                answered += 1
                break
            time.sleep(WAIT)
    whole = time.perf_counter() - start
    (balance,) = (b for b in owner.ledger.balances() if b.dataset == "crowd")
    turned_away, accepted = codes.count(429), codes.count(200) + codes.count(202)
    print(f"{size} at once: {accepted} accepted, {turned_away} told to wait; {granted} granted")
    print(
        f"accepted after {sent:.1f} s, answered after {whole:.1f} s; spent {balance.spent:g} of 1"
    )
    failures = size - accepted - turned_away
    return [
        claim(f"answers other than 200, 202 and 429, of {size} at once", failures, 0),
        claim("accepted proposals without an answer", accepted - answered, 0),
        claim("spent of a budget of 1", balance.spent, 1),
        claim("charges that were not granted, or grants that fit and were not", abs(granted - 6)
              + abs(balance.debits - granted), 0),
    ]  # fmt: skip


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    """Measure and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--crowd", type=int, default=1000, help="how many proposals arrive at once")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        owner = Owner(Path(folder))
        with (
            serving(owner) as url,
            httpx.Client(base_url=url, timeout=600) as client,
        ):
            client.headers["Authorization"] = f"Bearer {owner.token}"

            def by_http() -> None:
                owner.by_http(client)

            for work in (by_http, owner.by_command, owner.by_library):
                work()  # kernels are compiled, and the worker has begun
            claims = [
                claim(
                    "a grant over HTTP, to suffice grant",
                    ratio_of(by_http, owner.by_command, TIMES),
                    0.5,
                ),
                claim(
                    "a grant over HTTP, to the call in a warm process",
                    ratio_of(by_http, owner.by_library, TIMES),
                    3.0,
                ),
            ]
            return claims + crowd(owner, url, client, options.crowd)


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
