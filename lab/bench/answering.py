"""People who answer a survey at once, to bare Starlette in the same run; a kill; a million answers.

    python lab/bench/answering.py [--people N] [--answers N]

N participants (1,000) answer from one address over 64 connections. Each answer is checked, and
durable before it is acknowledged. Beside it, an application of Starlette alone reads the same
bodies and answers 201. Turns alternate, and the ratio is that of medians. Then the server is killed
while N others answer, and all of them send again. Both stores are tried, a file and PostgreSQL.
Last, a million answers of a file become a release in a process of its own.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from harness import claim

from suffice import participant
from suffice.owner.answers import AnswerStore, new_invitations
from suffice.owner.ledger import Ledger
from suffice.owner.survey import AnswerForm, new_survey, open_survey, release_survey
from suffice.releases.signing import generate_keys

CONNECTIONS, TURNS = 64, 5
SETTINGS = """
organisation = "Bench"
ledger = "bench.ledger"
key = "bench.key"
answers = "{place}"
"""
BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def answer(request):
    await request.body()
    return Response(status_code=201)

app = Starlette(routes=[Route("/answers", answer, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error")
"""


def asked():
    """Return a survey of five questions."""
    states = {"relapse": ["no", "yes"], "grade": range(1, 6), "smokes": ["never", "now", "daily"]}
    ranges = {"age": (0, 120), "hours": (0, 24)}
    about = dict.fromkeys(("organiser", "contact", "purpose", "notice"), "A bench")
    about["deleted"] = "2999-12-31"
    return new_survey("Bench", states=states, ranges=ranges, flip=0.25, noise=14400.0, about=about)


def bodies_of(survey, invitations: list[str]) -> list[bytes]:
    truths = {"relapse": "no", "grade": 2, "smokes": "now", "age": 40, "hours": 7}
    sheets = [participant.respond(survey, truths, None)[0].decode() for _ in range(20)]
    made = [
        {"invitation": one, "r": "7e" * 16, "answer": sheets[k % len(sheets)]}
        for k, one in enumerate(invitations)
    ]
    return [json.dumps(body).encode() for body in made]


async def send_all(url: str, path: str, bodies: list[bytes]) -> list[int]:
    """Send every body over few connections; return the statuses, 0 for none."""
    place = urlsplit(url)
    codes = [0] * len(bodies)
    waiting = iter(enumerate(bodies))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            for k, body in waiting:
                head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                if size := re.search(rb"(?i)content-length: (\d+)", answer):
                    await reader.readexactly(int(size[1]))
                codes[k] = int(answer.split(b" ", 2)[1])
        except (OSError, asyncio.IncompleteReadError):
            pass  # the server is gone
        finally:
            writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)), return_exceptions=True)
    return codes


@contextmanager
def serving(folder: Path):
    """Yield address and process of the service of a folder."""
    words = [sys.executable, "-m", "suffice", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://[\d.]+:\d+", process.stdout.readline())[0], process
    finally:
        process.stdout.close()
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def bare():
    """Yield the address of Starlette alone."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", BARE, str(port)])
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def timed(url: str, path: str, bodies: list[bytes]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    codes = asyncio.run(send_all(url, path, bodies))
    return time.perf_counter() - start, codes


def crowd(folder: Path, place: str, people: int) -> list[dict]:
    """Measure one store: speed, refusals, and what a kill loses."""
    survey, name = asked(), "PostgreSQL" if "://" in place else "a file"
    Ledger(folder / "bench.ledger", {}, anchor=folder / "bench.anchor")
    generate_keys(folder / "bench")
    (folder / "suffice.toml").write_text(SETTINGS.format(place=place))
    store, invitations = AnswerStore(place), new_invitations((TURNS + 1) * people)
    open_survey(survey, folder / "bench.ledger", store, invitations)
    bodies, path = bodies_of(survey, invitations), f"/v1/surveys/{survey.id}/answers"
    ours, theirs, refused = [], [], 0
    with serving(folder) as (url, _), bare() as other:
        for turn in range(TURNS):
            part = bodies[turn * people : (turn + 1) * people]
            seconds, codes = timed(url, path, part)
            refused += sum(code != 201 for code in codes)
            ours.append(seconds)
            theirs.append(timed(other, "/answers", part)[0])
    print(
        f"{name}: {people / median(ours):,.0f} answers a second,"
        f" bare {people / median(theirs):,.0f}"
    )
    part, invited = bodies[TURNS * people :], invitations[TURNS * people :]
    with serving(folder) as (url, process):

        async def killed() -> list[int]:
            async def kill() -> None:
                while len(store.unused(survey.id, invited)) > 2 * people // 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                process.kill()

            return (await asyncio.gather(send_all(url, path, part), kill()))[0]

        codes = asyncio.run(killed())
    done = [one for one, code in zip(invited, codes, strict=True) if code == 201]
    lost = len(set(done) & set(store.unused(survey.id, done)))
    with serving(folder) as (url, _):
        again = timed(url, path, part)[1]
    rows = sum(map(len, store.blocks(survey.id))) // AnswerForm(survey).row_bytes
    print(f"{name}: {len(done)} of {people} were acknowledged before the kill")
    wrong = lost + abs(rows - (TURNS + 1) * people) + sum(code not in (200, 201) for code in again)
    return [
        claim(f"{name}: time to bare Starlette", median(ours) / median(theirs), 2.0),
        claim(f"{name}: answers refused", refused, 0),
        claim(f"{name}: answers lost, twice or refused after a kill", wrong, 0),
    ]


def release_many(folder: Path, count: int) -> None:
    """Release so many answers of a file, and print the megabytes that it took."""
    survey, store = asked(), AnswerStore(str(folder / "many.answers"))
    Ledger(folder / "many.ledger", {}, anchor=folder / "many.anchor")
    open_survey(survey, folder / "many.ledger", store, None)
    sheets = [json.loads(body)["answer"] for body in bodies_of(survey, ["0" * 32] * 20)]
    rows = [AnswerForm(survey).read(sheet.encode())[1] for sheet in sheets]
    db = sqlite3.connect(folder / "many.answers")
    many = ((survey.id, os.urandom(16), rows[k % 20]) for k in range(count))
    db.executemany("INSERT INTO answers VALUES (?, ?, ?)", many)
    spent = ((survey.id, os.urandom(32), b"") for _ in range(count))
    db.executemany("INSERT INTO spent VALUES (?, ?, ?)", spent)
    db.commit()
    db.close()
    release = release_survey(survey, Ledger(folder / "many.ledger"), store)
    assert release.rows == count
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, and return every claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--release", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.release:
        release_many(options.release, options.answers)
        return []
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from database_servers import postgresql_server

    claims = []
    with tempfile.TemporaryDirectory() as folder:
        claims += crowd(Path(folder), f"{folder}/bench.answers", options.people)
    with tempfile.TemporaryDirectory() as folder, postgresql_server() as url:
        claims += crowd(Path(folder), f"{url}#answers", options.people)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--release", folder, "--answers", str(options.answers)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        megabytes = float(printed.split()[-1])
    return [*claims, claim(f"megabytes for {options.answers:,} answers", megabytes, 500)]


if __name__ == "__main__":
    main()
