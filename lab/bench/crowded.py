"""A service in a crowd: answers, pages that read much beside /health, and a learner's flood.

    python lab/bench/crowded.py [--times N] [--proposals N]

Answers are compared with those of a bare Starlette that returns as many bytes, by the time that
either server computes. Then an officer asks for 60 exports at once, while another process probes
/health. Last, one learner sends countered proposals as fast as the service takes them, and another
learner's grant is compared with one in a quiet moment.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median

import httpx
from growth import Reader, computed, fill, plain_copy, server_of
from harness import claim
from service import Owner, serving

from suffice.owner.ledger.tokens import mint
from suffice.owner.policy import Terms
from suffice.service.records import ServiceRecords

EXPORTS, ANSWERS, PROBE_SECONDS = 60, 200, 15
MOST_OF_BARE, PATIENCE, MOST_DELAY = 1 / 0.3, 1.0, 2.0
PROBE = """
import http.client, json, sys, time
host, port, seconds = *sys.argv[1].split("//")[1].split(":"), float(sys.argv[2])
connection, waits, end = http.client.HTTPConnection(host, int(port)), [], time.monotonic() + seconds
while time.monotonic() < end:
    began = time.perf_counter()
    connection.request("GET", "/health")
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    waits.append(time.perf_counter() - began)
    time.sleep(0.02)
print(json.dumps(waits))
"""


def answers(reader: Reader, process: int, times: int) -> dict:
    """Compare an answer, which is read again and again, with a bare Starlette."""
    place = f"/v1/datasets/grants/proposals/{reader.shown}"
    size = len(reader.owners.get(place).content)
    with plain_copy(size) as plain, httpx.Client(base_url=plain, timeout=60) as client:

        def ask(client: httpx.Client, path: str) -> None:
            for _ in range(ANSWERS):
                assert client.get(path).status_code == 200

        ask(client, "/")
        ours = computed(lambda: ask(reader.owners, place), process, times)
        bare = computed(lambda: ask(client, "/"), server_of(plain), times)
    print(f"an answer takes {1e3 * ours / ANSWERS:.2f} ms of the server, bare {bare / ours:.2f}")
    return claim("what an answer computes, to a bare Starlette", ours / bare, MOST_OF_BARE)


def health(reader: Reader, url: str) -> dict:
    """Ask for many exports at once, and probe /health meanwhile from another process."""
    reader.export()
    command = [sys.executable, "-c", PROBE, url, str(PROBE_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as probe:
        time.sleep(1)
        with ThreadPoolExecutor(EXPORTS) as threads:
            asked = [threads.submit(reader.owners.get, "/v1/export") for _ in range(EXPORTS)]
            codes = Counter(future.result().status_code for future in asked)
        waits = json.loads(probe.communicate()[0])
    print(f"{EXPORTS} exports at once: {dict(codes)}; {len(waits)} probes of /health")
    return claim("the slowest answer of /health, to patience", max(waits) / PATIENCE, 1.0)


def flood(reader: Reader, url: str, text: str, times: int) -> dict:
    """Compare a grant during another learner's flood with one in a quiet moment."""
    place, loud, over = "/v1/datasets/grants/proposals", threading.Event(), threading.Event()
    client, codes = httpx.Client(base_url=url, timeout=600), Counter()
    client.headers["Authorization"] = f"Bearer {text}"

    def send() -> None:
        number, asked = 0, reader.owner.proposal()
        while not over.is_set():
            if loud.wait(0.1):
                number += 1
                other = replace(asked, purpose=f"flood {number}", terms=Terms(5.0, 0.0, "auto"))
                code = client.post(place, content=other.encode()).status_code
                codes[code] += 1
                time.sleep(0.1 * (code == 429))

    def grant() -> float:
        began = time.perf_counter()
        reader.grant()
        return time.perf_counter() - began

    thread, ratios = threading.Thread(target=send), list[float]()
    thread.start()
    records = ServiceRecords(reader.owner.ledger)
    for _ in range(times):
        quiet = grant()
        loud.set()
        time.sleep(1)
        ratios.append(grant() / quiet)
        loud.clear()
        while records.next_to_work_on("grants") is not None:
            time.sleep(0.05)
    over.set()
    thread.join()
    print(f"the flood: {dict(codes)}")
    return claim("a grant during a flood, to one without", median(ratios), MOST_DELAY)


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    """Measure and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--proposals", type=int, default=5000)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        owner = Owner(Path(folder))
        path = owner.folder / "suffice.toml"
        few = path.read_text().replace("waiting_of_one_token = 1000", "waiting_of_one_token = 20")
        path.write_text(few.replace("= 1000000", "= 1000000\nproposals_of_one_token = 100000"))
        records = ServiceRecords(owner.ledger)
        (officer, seen), (noisy, text) = mint("owner"), mint("learner")
        records.add_token(officer)
        records.add_token(noisy)
        shown = fill(owner, options.proposals)
        with serving(owner) as url:
            reader = Reader(owner, url, seen, shown)
            return [
                answers(reader, server_of(url), options.times),
                health(reader, url),
                flood(reader, url, text, options.times),
            ]


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
