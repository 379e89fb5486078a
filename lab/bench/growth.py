"""What a service that holds many proposals costs, to one that holds none.

    python lab/bench/growth.py [--proposals N ...] [--sets N] [--surveys N] [--times N]

Each ledger has so many proposals: half of them granted, the others countered or refused. Pages,
balances and grants are asked for in turns, of the full server and of the empty one. Their time on
a processor, of server and workers, is compared beside the time on the clock: it hardly depends on
what else the machine does. An export is compared with plain copies of as many bytes through
Starlette, from memory and from a file, and memory with that of the server of the empty ledger.
Last, a service with many data sets and surveys is compared with one of two and one.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import httpx
from harness import claim, ratio_of
from service import DATASET, EPSILON, Owner, serving
from service import NAMES as FEATURES

from suffice import strict_json
from suffice.owner.answers import AnswerStore
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.rules import Request
from suffice.owner.ledger.tokens import mint, utc_now
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.policy import Terms
from suffice.owner.survey import new_survey, open_survey
from suffice.privacy.guarantee import Budget
from suffice.protocol.export import proposal_record
from suffice.protocol.grant import entry_about
from suffice.protocol.messages import Answer, Countered, Granted, Refused, digest_of
from suffice.releases.release import encode
from suffice.releases.signing import sign
from suffice.service.records import ServiceRecords

DISTINCT = 20  # epsilons among the charges
MOST_RATIO, MOST_MEMORY, MOST_COPIES = 2.0, 1.3, 5.0
MOST_IDLE, IDLE_SECONDS = 0.05, 30
NAMES = ("first_page", "proposal_page", "data_page", "budget_page", "report", "log_page", "balance",
         "grant")  # fmt: skip
PLAIN = """
import sys, tempfile, uvicorn
from starlette.applications import Starlette
from starlette.responses import FileResponse, Response
from starlette.routing import Route
data = b"x" * int(sys.argv[1])
async def copy(request):
    return Response(data, media_type="application/json")
async def copy_of_file(request):
    return FileResponse(file.name, media_type="application/json")
file = tempfile.NamedTemporaryFile()
file.write(data)
file.flush()
routes = [Route("/", copy), Route("/file", copy_of_file)]
config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="info", access_log=False)
uvicorn.Server(config).run()
"""


def fill(owner: Owner, count: int) -> str:
    """File proposals as if a service had answered them; return the digest of a granted one."""
    shown = ""
    operators = [
        MeanOperator(EPSILON * (1 + k / DISTINCT), classes=(0, 1)) for k in range(DISTINCT)
    ]
    table = owner.folder / "table.csv"
    releases = [o.release(table, label="y", ledger=None) for o in operators]
    with owner.ledger.store.writing() as records:
        sender, _ = mint("learner", holder="earlier learners")
        records.add_token(sender)
        for number in range(count):
            proposal, release = owner.proposal(), releases[number % DISTINCT]
            received, charged, signature = utc_now(), number % 2 == 0, None
            answer: Granted | Countered | Refused = Refused(proposal.digest, ("no",))
            if charged:
                data = encode(release)
                signed = sign(release, owner.folder / "bench.key")
                signature = signed.signature.key + signed.signature.value
                answer = Granted(proposal.digest, digest_of(encode(signed)))
                parameters = {"kind": "mean-operator", "delta": 0.0, "rows": proposal.rows.hash}
                request = Request(proposal.request, parameters, "data")
                records.add_charge("grants", release.guarantees, request, f"{number:032x}")
                records.close_charge("grants", proposal.request, f"{number:032x}", data)
                shown = proposal.digest
            elif number % 4 == 1:
                answer = Countered(proposal.digest, Terms(0.1, 0.0, "auto"), ("too much",))
            kind, facts = entry_about(proposal, answer)
            records.append(Kind(kind), {"dataset": "grants", **facts})
            guarantees = release.guarantees if charged else ()
            record = proposal_record(proposal, received, answer, guarantees)
            text = strict_json.canonical(strict_json.plain(record)).decode()
            row = (number + 1, "grants", proposal.digest, proposal.encode(), received.isoformat())
            row = (*row, "answered", answer.name, answer.encode(), signature, text)
            records.db.execute(f"INSERT INTO proposals VALUES ({', '.join('?' * 10)})", row)
            sent = ("grants", proposal.digest, sender.id)
            records.db.execute("INSERT INTO senders VALUES (?, ?, ?)", sent)
    return shown


class Reader:
    """A server, and what an owner and a learner ask of it."""

    def __init__(self, owner: Owner, url: str, text: str, shown: str) -> None:
        self.owner, self.shown = owner, shown
        self.pages = httpx.Client(base_url=url, timeout=600, follow_redirects=True)
        self.owners = httpx.Client(base_url=url, timeout=600)
        self.owners.headers["Authorization"] = f"Bearer {text}"
        self.learner = httpx.Client(base_url=url, timeout=600)
        self.learner.headers["Authorization"] = f"Bearer {owner.token}"
        assert self.pages.post("/login", data={"token": text}).status_code == 200
        self.grant()  # the worker is up
        self.shown = shown or self.granted

    def get(self, path: str) -> bytes:
        response = self.pages.get(path)
        assert response.status_code == 200, (path, response.status_code)
        return response.content

    def first_page(self) -> None:
        self.get("/")

    def proposal_page(self) -> None:
        self.get(f"/data/grants/{self.shown}")

    def data_page(self) -> None:
        self.get("/data/grants")

    def budget_page(self) -> None:
        self.get("/data/grants/budget?epsilon=2000")

    def report(self) -> None:
        self.get("/report")

    def log_page(self) -> None:
        self.get("/log")

    def balance(self) -> None:
        assert self.owners.get("/v1/datasets/grants/balance").status_code == 200

    def grant(self) -> None:
        proposal = replace(self.owner.proposal(), terms=Terms(EPSILON, 0.0, "auto"))
        self.granted, place = proposal.digest, "/v1/datasets/grants/proposals"
        response = self.learner.post(place, content=proposal.encode())
        while response.status_code == 202:
            time.sleep(0.005)
            response = self.learner.get(f"{place}/{proposal.digest}")
        assert isinstance(Answer.load(response.content), Granted), response.content

    def export(self) -> int:
        response = self.owners.get("/v1/export")
        assert response.status_code == 200, response.content
        return len(response.content)


def processor(process: int) -> float:
    """Return the seconds that a process and its children have computed so far."""
    tasks = [*Path(f"/proc/{process}/task").iterdir()]
    below = {int(child) for task in tasks for child in (task / "children").read_text().split()}
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    return own / 1e9 + sum(map(processor, below))


def computed(work, process: int, times: int) -> float:
    """Return the median of the seconds that a process computes for a piece of work."""
    seconds = []
    for _ in range(times):
        start = processor(process)
        work()
        seconds.append(processor(process) - start)
    return median(seconds)


def memory(process: int) -> float:
    """Return the resident megabytes of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


@contextmanager
def plain_copy(size: int):
    """Yield the address of a bare Starlette that returns so many bytes."""
    command = [sys.executable, "-c", PLAIN, str(size)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        address = None
        while address is None:
            address = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
        yield address.group()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def server_of(url: str) -> int:
    """Return the process that listens on the port of an address."""
    port = int(url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    listens = "0A"  # the state of a socket
    inodes = {w[9] for w in lines if w[1].endswith(f":{port:04X}") and w[3] == listens}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = link.readlink()
        except OSError:
            continue
        if str(target)[8:-1] in inodes:
            return int(link.parts[2])
    raise LookupError(url)


def compared(about, ours, theirs, times: int) -> list[dict]:
    """Compare work of two servers, each named with its process: on the clock, and computing."""
    (work, process), (base, other) = ours, theirs
    work(), base()
    claims = [claim(about, ratio_of(work, base, times), MOST_RATIO)]
    ratio = computed(work, process, times) / computed(base, other, times)
    return [*claims, claim("  the same, computing alone", ratio, MOST_RATIO)]


def widen(owner: Owner, sets: int, surveys: int) -> None:
    """Add data sets, every tenth without a budget, and surveys that are open."""
    names = [f"set {number:04}" for number in range(sets)]
    opened = {name: Budget(1.0) for name in names[: sets - sets // 10]}
    Ledger(owner.folder / "bench.ledger", opened, dict.fromkeys(opened, (0, 1)))
    path = owner.folder / "suffice.toml"
    parts = (DATASET.format(name=f'"{name}"', features=json.dumps(FEATURES)) for name in names)
    path.write_text("answers = 'bench.answers'\n" + path.read_text() + "".join(parts))
    store = AnswerStore(str(owner.folder / "bench.answers"))
    about = dict.fromkeys(("organiser", "contact", "purpose", "notice"), "A bench")
    about["deleted"] = "2999-12-31"
    for number in range(surveys):
        survey = new_survey(f"Survey {number}", states={"q": ["no", "yes"]}, flip=0.25, about=about)
        open_survey(survey, owner.folder / "bench.ledger", store, None)


def wide(folder: Path, sets: int, surveys: int, times: int) -> list[dict]:
    """Compare a service with many data sets and surveys with one that has few."""
    claims, readers = [], []
    with ExitStack() as stack:
        for many in (False, True):
            owner = Owner(folder / f"{many}")
            widen(owner, sets if many else 10, surveys if many else 10)
            token, text = mint("owner", holder="bench")
            ServiceRecords(owner.ledger).add_token(token)
            url = stack.enter_context(serving(owner))
            readers.append((Reader(owner, url, text, ""), server_of(url)))
        (few, other), (full, process) = readers
        for path in ("/", "/report", "/surveys", "/data/grants", "/tokens", "/v1/datasets"):

            def asked(reader: Reader, path: str = path) -> None:
                client = reader.owners if path.startswith("/v1/") else reader.pages
                assert client.get(path).status_code == 200

            about = f"{path} of {sets} data sets and {surveys} surveys, to 10"
            ours, theirs = (partial(asked, full), process), (partial(asked, few), other)
            claims += compared(about, ours, theirs, times)
        about = f"a grant with {sets} data sets, to 10"
        claims += compared(about, (full.grant, process), (few.grant, other), times)
        start = processor(process)
        time.sleep(IDLE_SECONDS)
        idle = (processor(process) - start) / IDLE_SECONDS
        claims.append(claim("a processor's share of an idle service", idle, MOST_IDLE))
    return claims


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    """Measure and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--proposals", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--sets", type=int, default=500)
    parser.add_argument("--surveys", type=int, default=1000)
    parser.add_argument("--times", type=int, default=9)
    options = parser.parse_args(words)
    claims = []
    with ExitStack() as stack:
        readers = {}
        for count in (0, *options.proposals):
            owner = Owner(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            token, text = mint("owner", holder="bench")
            ServiceRecords(owner.ledger).add_token(token)
            shown = fill(owner, count)
            url = stack.enter_context(serving(owner))
            readers[count] = Reader(owner, url, text, shown), server_of(url)
        empty, empty_process = readers.pop(0)
        speeds = {}
        for count, (full, process) in readers.items():
            for name in NAMES:
                work, base = getattr(full, name), getattr(empty, name)
                about = f"{name} at {count} proposals, to none"
                claims += compared(about, (work, process), (base, empty_process), options.times)
            size = full.export()
            with plain_copy(size) as plain, httpx.Client(base_url=plain, timeout=60) as client:
                client.get("/")
                ratio = ratio_of(full.export, lambda: client.get("/").content, options.times)
                of_file = ratio_of(full.export, lambda: client.get("/file").content, options.times)
            seconds = []
            for _ in range(options.times):
                start = time.perf_counter()
                full.export()
                seconds.append(time.perf_counter() - start)
            speeds[count] = median(seconds) / size
            print(f"export of {size / 1e6:.1f} MB in {median(seconds):.2f} s")
            claims.append(claim(f"export of {size / 1e6:.1f} MB, to a copy", ratio, MOST_COPIES))
            claims.append(claim("  the same, to a copy of a file", of_file, MOST_COPIES))
            grown = memory(process) / memory(empty_process)
            claims.append(claim(f"memory at {count} proposals, to none", grown, MOST_MEMORY))
        if len(speeds) > 1:
            first, *_, last = speeds.values()
            claims.append(claim("time for a byte of the largest export, to the smallest",
                                last / first, 1.5))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        return claims + wide(Path(folder), options.sets, options.surveys, options.times)


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
