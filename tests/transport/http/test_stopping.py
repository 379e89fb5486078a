"""How a server ends: gracefully with all its processes, or killed, and then its workers follow."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from served import make_clinic

from suffice.service.app import Reloadable
from suffice.service.operation import LogLine
from suffice.service.settings import Settings

LONGEST_SECONDS = 120  # a guard against hanging, not a measurement


@contextmanager
def server(clinic):
    """Yield address and process of a server that leads a process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield re.search(r"http://[\d.]+:\d+", process.stdout.readline()).group(), process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def send(clinic, url: str, purpose: str) -> str:
    proposal = clinic.proposal(purpose)
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    place = f"{url}/v1/datasets/diagnosis/proposals"
    httpx.post(place, content=proposal.encode(), headers=headers, timeout=60).raise_for_status()
    return proposal.digest


def wait_until(condition) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_answered(clinic, digest: str) -> bool:
    return clinic.records.proposal("diagnosis", digest).answer is not None


def processes(group: int) -> list[int]:
    """Return the living processes of a group; what follows the name in /proc is state and ids."""
    living = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, leader, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended just now
            continue
        if int(leader) == group and state != "Z":
            living.append(int(stat.parent.name))
    return living


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_every_process_ends_the_server_and_loses_nothing(tmp_path, number):
    """Ctrl-C reaches the whole group. A worker must not end between charge and output."""
    clinic = make_clinic(tmp_path / "clinic")
    with server(clinic) as (url, process):
        first = send(clinic, url, "settled before the end")
        wait_until(lambda: is_answered(clinic, first))  # its worker is up
        later = [send(clinic, url, f"in hand at the end {n}") for n in range(4)]
        os.killpg(process.pid, number)
        printed, errors = process.communicate(timeout=LONGEST_SECONDS)
        assert (process.returncode, printed, errors) == (0, "", "")
    answered = [first, *(digest for digest in later if is_answered(clinic, digest))]
    assert clinic.charges("diagnosis") == len(answered)
    records = clinic.records
    assert all(records.release(records.proposal("diagnosis", digest)) for digest in answered)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="There is no /proc here.")
def test_workers_end_with_a_server_that_was_killed(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    with server(clinic) as (url, process):
        digest = send(clinic, url, "study")
        wait_until(lambda: is_answered(clinic, digest))
        assert len(processes(process.pid)) > 1
        process.kill()
        process.wait()
        wait_until(lambda: processes(process.pid) == [])


def test_a_port_in_use_is_said_in_words(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        words = [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", str(port)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 11
    assert f"cannot listen on 127.0.0.1, port {port}" in ended.stderr


def test_a_certificate_that_is_none_is_said_in_words(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    lines = '[server]\ncertificate = "rows.csv"\ncertificate_key = "rows.csv"'
    path.write_text(path.read_text().replace("[server]", lines))
    words = [sys.executable, "-m", "suffice", "serve", str(clinic.folder)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, "cannot use its certificate" in ended.stderr) == (2, True)


def test_a_second_signal_does_not_wait_for_open_requests_and_reports_no_error(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    with server(clinic) as (url, process):
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as slow:
            head = "POST /login HTTP/1.1\r\nHost: clinic\r\nContent-Length: 1000\r\n\r\n"
            slow.sendall(head.encode())
            wait_until(lambda: is_in_hand(url))
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not is_in_hand(url))  # nobody else is let in
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=LONGEST_SECONDS)
        assert (process.returncode, printed, errors) == (0, "", "")


def test_workers_end_also_when_the_server_is_cut_off(tmp_path):
    """A second signal cancels the wait for the end: what began is ended there, not by chance."""

    async def begin_and_cut() -> list[str]:
        started = asyncio.Event()

        async def receive() -> dict[str, str]:
            if started.is_set():
                await asyncio.Event().wait()  # nobody says that it ends
            return {"type": "lifespan.startup"}

        async def send(_: dict[str, str]) -> None:
            started.set()

        app = Reloadable(Settings.load(make_clinic(tmp_path / "clinic").folder))
        server = asyncio.create_task(app({"type": "lifespan"}, receive, send))
        await started.wait()
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server
        return [thread.name for thread in threading.enumerate()]

    assert [name for name in asyncio.run(begin_and_cut()) if name.startswith("work on")] == []


def is_in_hand(url: str) -> bool:
    """Say whether the server answers; it has then read what was sent to it before."""
    try:
        return httpx.get(f"{url}/health", timeout=60).is_success
    except httpx.HTTPError:
        return False


def test_the_log_names_the_type_of_an_error_and_quotes_nothing():
    error = ValueError("diagnosis\nof Ada: 1")
    text = f"Traceback (most recent call last):\nValueError: {error}"
    lines = [
        logging.LogRecord("x", logging.ERROR, "", 0, text, None, None),
        logging.LogRecord("x", logging.ERROR, "", 0, "It failed", None, (ValueError, error, None)),
    ]
    first, second = (json.loads(LogLine().format(line)) for line in lines)
    assert "Ada" not in str([first, second])
    assert (first["message"], second["message"]) == (
        "The service failed while it began or ended.",
        "It failed",
    )
    assert second["error"] == "ValueError"
