"""What whoever runs the service is told, and strangers are not; nothing fails in silence.

Real servers: a disk that is full, a file system that is read-only, a damaged file, a database that
is away, a table without its label column, and no table. Each is told, and each ends by itself.
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from in_process import ask
from served import Clinic, make_clinic

from database_servers import _stopped, postgresql_server
from suffice.protocol.remote import Remote
from suffice.service.app import make_app
from suffice.service.operation import Counts, LogLine, Refusals
from suffice.service.settings import Settings

SECONDS = 120  # a guard against hanging, not a measurement


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


class Served:
    """A running server, its operator's address, and its log."""

    def __init__(self, url: str, operator: str, log: Path, process: subprocess.Popen[str]) -> None:
        self.url, self.operator, self.log, self.process = url, operator, log, process

    def ready(self) -> tuple[int, str, dict]:
        """Return what strangers are told, and what the operator is."""
        stranger = httpx.get(f"{self.url}/ready", timeout=30)
        return stranger.status_code, stranger.text, httpx.get(f"{self.operator}/ready").json()

    def wait_for(self, words: str = "") -> None:
        """Wait until a reason has these words; without words, until the service works."""
        end = time.monotonic() + SECONDS
        while True:
            status, text, report = self.ready()
            assert text == ""
            same = (status == 200) == report["ready"]
            if same and report["ready"] == (not words) and words in " ".join(report["reasons"]):
                return
            assert time.monotonic() < end, (report, self.lines())
            time.sleep(0.3)

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def said(self, words: str) -> int:
        """Return how many lines say that something began to fail."""
        lines = [line["message"] for line in self.lines()]
        return sum(words in line and not line.startswith("This is over") for line in lines)


@contextmanager
def operated(clinic: Clinic, logs: Path | None = None) -> Iterator[Served]:
    """Yield a running server with an operator's address."""
    port = free_port()
    path = clinic.folder / "suffice.toml"
    text = path.read_text().replace("[limits]", f"[operation]\nport = {port}\n[limits]", 1)
    path.write_text(text)
    log = (logs or clinic.folder.parent) / "log"
    command = [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", "0"]
    with log.open("w") as lines:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=lines, text=True)
    try:
        url = re.search(r"https?://[\d.]+:\d+", process.stdout.readline())
        assert url is not None, log.read_text()
        yield Served(url.group(), f"http://127.0.0.1:{port}", log, process)
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("operation") / "clinic")


@pytest.fixture(scope="module")
def served(clinic):
    with operated(clinic) as server:
        yield server


def test_a_table_that_is_away_or_lacks_its_label_is_told_and_ends(clinic, served):
    table = clinic.folder / "table.csv"
    kept = table.read_bytes()
    learner = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    place = f"{served.url}/v1/datasets/diagnosis/proposals"
    table.unlink()
    served.wait_for("'diagnosis' cannot be opened")
    proposal = clinic.proposal("while the table is away")
    assert httpx.post(place, content=proposal.encode(), headers=learner).status_code == 202
    table.write_bytes(kept.replace(b"diagnosis", b"other", 1))
    served.wait_for("lacks a column that the settings name")
    table.write_bytes(kept)
    served.wait_for()
    remote = Remote(served.url, clinic.tokens["learner"], clinic.folder / "clinic.pub")
    answer, release = remote.propose(proposal, "diagnosis", wait=SECONDS)
    assert answer.name == "granted"  # it waited, and was not refused for good
    assert release is not None
    for words in (
        "The table of data set 'diagnosis' cannot",
        "The table of data set 'diagnosis' l",
    ):
        assert served.said(words) == 1 or served.said(words) == 2  # by who looks, and who works


def test_a_damaged_ledger_is_told_and_ends(clinic, served):
    path = clinic.folder / "clinic.ledger"
    kept = path.read_bytes()
    with path.open("r+b") as opened:  # in place, as a bad disk does it
        opened.write(b"\0" * 8192)
    served.wait_for("damaged")
    learner = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    before = len(served.lines())
    answer = httpx.get(f"{served.url}/v1/datasets", headers=learner)
    assert (answer.status_code, "damaged" in answer.text) == (503, False)
    (line,) = [x for x in served.lines()[before:] if x.get("request")]
    assert line["request"] == answer.headers["x-request-id"]
    assert "The ledger is damaged" in line["message"]
    with path.open("r+b") as opened:
        opened.write(kept[:8192])
    served.wait_for()
    assert httpx.get(f"{served.url}/v1/datasets", headers=learner).status_code == 200


def test_metrics_and_reasons_are_for_the_operator_alone(clinic, served):
    for role in ("owner", "officer", "learner"):
        headers = {"Authorization": f"Bearer {clinic.tokens[role]}"}
        assert httpx.get(f"{served.url}/metrics", headers=headers).status_code == 404
        assert httpx.get(f"{served.url}/ready", headers=headers).text == ""
    text = httpx.get(f"{served.operator}/metrics").text
    assert 'suffice_requests_total{status="404"}' in text
    assert "suffice_ready 1" in text
    labels = set(re.findall(r"(\w+)=\"", text))
    assert labels <= {"dataset", "state", "status"}
    for secret in (*clinic.tokens.values(), "the learner", "sha256"):
        assert secret not in text
    # Nor does the operator's address serve anything else.
    assert httpx.get(f"{served.operator}/v1/datasets").status_code == 404


def test_lines_hold_no_route_no_person_and_no_value(clinic, served):
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    httpx.get(f"{served.url}/v1/datasets/a-secret-name/balance", headers=headers)
    httpx.get(f"{served.url}/v1/tokens", headers=headers)
    httpx.post(f"{served.url}/login", data={"token": "suffice_a_b"})
    text = served.log.read_text()
    assert "Your token does not allow this." in text
    assert "A sign-in failed." in text
    for private in ("a-secret-name", "/v1", "127.0.0.1", "learner", "Bearer suffice"):
        assert private not in text


def test_sixty_exports_at_once_leave_health_alone(clinic, served):
    officer = {"Authorization": f"Bearer {clinic.tokens['officer']}"}
    for number in range(20):
        clinic.records.add_proposal(
            "smoker", clinic.proposal(str(number)).digest, clinic.proposal(str(number)).encode(),
            clinic.tokens["learner"].split("_")[1], Settings.load(clinic.folder).limits,
        )  # fmt: skip
    with httpx.Client(timeout=SECONDS, limits=httpx.Limits(max_connections=80)) as client:

        def export(_):
            return client.get(f"{served.url}/v1/export", headers=officer)

        with ThreadPoolExecutor(61) as threads:
            asked = [threads.submit(export, n) for n in range(60)]
            while not all(future.done() for future in asked):
                assert httpx.get(f"{served.url}/health", timeout=10).status_code == 200
        answers = [future.result() for future in asked]
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert any(answer.status_code == 200 for answer in answers)
    for answer in answers:
        if answer.status_code == 503:
            assert answer.headers["retry-after"] == "2"


def test_good_sign_ins_are_not_counted_and_bad_ones_lock_nobody_out(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text().replace("= 100000", "= 5"))
    app = make_app(Settings.load(clinic.folder))

    def sign_in(token: str) -> int:
        return ask(app, "POST", "/login", "", f"token={token}".encode()).status_code

    assert [sign_in("suffice_a_b") for _ in range(7)] == [403] * 5 + [429] * 2
    assert [sign_in(clinic.tokens["owner"]) for _ in range(9)] == [303] * 9
    assert sign_in("suffice_a_b") == 429


def test_settings_are_read_again_and_wrong_ones_change_nothing(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    with operated(clinic) as server:

        def largest() -> float:
            listed = httpx.get(f"{server.url}/v1/datasets", headers=headers).json()
            return listed[0]["policy"]["largest_epsilon"]

        good = path.read_text()
        assert largest() == 0.5
        path.write_text(good.replace("largest_epsilon = 0.5", "largest_epsilon = -1"))
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: server.said("The settings were not read again") == 1)
        assert largest() == 0.5
        path.write_text(good.replace("largest_epsilon = 0.5", "largest_epsilon = 0.25"))
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: server.said("The settings and the certificate were read again") == 1)
        assert largest() == 0.25
        remote = Remote(server.url, clinic.tokens["learner"], clinic.folder / "clinic.pub")
        assert remote.propose(clinic.proposal(), "diagnosis", wait=SECONDS)[0].name == "granted"
        server.process.terminate()
        assert server.process.wait(SECONDS) == 0
    assert [line for line in server.lines() if line["level"] == "error"] == [
        line for line in server.lines() if "were not read again" in line["message"]
    ]


def wait(condition) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_another_certificate_is_used_after_sighup(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    certificates = [_certificate(tmp_path / name) for name in ("old", "new")]
    crt, key = clinic.folder / "server.crt", clinic.folder / "server.key"
    path = clinic.folder / "suffice.toml"
    both = 'certificate = "server.crt"\ncertificate_key = "server.key"\n'
    path.write_text(path.read_text().replace("port = 0\n", f"port = 0\n{both}", 1))
    shutil.copy(certificates[0][0], crt)
    shutil.copy(certificates[0][1], key)
    with operated(clinic) as server:

        def shown() -> str:
            host, port = server.url.removeprefix("https://").split(":")
            return ssl.get_server_certificate((host, int(port)))

        assert shown().strip() == certificates[0][0].read_text().strip()
        shutil.copy(certificates[1][0], crt)  # and not its key: no pair
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: server.said("The settings were not read again") == 1)
        assert shown().strip() == certificates[0][0].read_text().strip()
        shutil.copy(certificates[1][1], key)
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: shown().strip() == certificates[1][0].read_text().strip())


def _certificate(stem: Path) -> tuple[Path, Path]:
    crt, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
    words = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    )
    command = ["openssl", *words, "-keyout", str(key), "-out", str(crt)]
    subprocess.run(command, check=True, capture_output=True)
    return crt, key


def test_a_webhook_is_told_that_a_proposal_waits_and_nothing_else(tmp_path):
    told = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            told.append((self.path, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as hook:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        clinic = make_clinic(tmp_path / "clinic")
        path = clinic.folder / "suffice.toml"
        address = f'[operation]\nwebhook = "http://127.0.0.1:{hook.server_port}/hook"\n[limits]'
        path.write_text(path.read_text().replace("[limits]", address, 1))
        with operated_again(clinic) as url:
            headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
            place = f"{url}/v1/datasets/smoker/proposals"
            body = clinic.proposal("a purpose").encode()
            assert httpx.post(place, content=body, headers=headers).status_code == 202
            wait(lambda: told == [("/hook", b"")])
        hook.shutdown()


@contextmanager
def operated_again(clinic: Clinic) -> Iterator[str]:
    command = [sys.executable, "-m", "suffice", "serve", str(clinic.folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://[\d.]+:\d+", process.stdout.readline()).group()
    finally:
        process.terminate()
        process.communicate()


def test_a_database_that_is_away_is_told_and_ends(tmp_path):
    with postgresql_server() as database:
        clinic = make_clinic(tmp_path / "clinic", ledger=database)
        with operated(clinic) as server:
            server.wait_for()
            with _stopped(database):
                server.wait_for("The database of the ledger does not answer.")
                assert httpx.get(f"{server.url}/health").status_code == 200
            server.wait_for()
            assert server.said("The database of the ledger does not answer.") >= 1


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root")
@pytest.mark.parametrize(
    ("spoil", "mend", "words"),
    [
        ("head -c 100M /dev/zero > PLACE/filler || true", "rm PLACE/filler", "is full, or fails"),
        (  # a mount over the mount: the service keeps files of the first one open
            "mount --bind PLACE PLACE && mount -o remount,ro,bind PLACE",
            "umount -l PLACE",
            "read-only",
        ),
    ],
    ids=["full disk", "read-only mount"],
)
def test_a_disk_that_is_full_or_read_only_is_told_and_ends(tmp_path, spoil, mend, words):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("this machine allows no mounts")
    try:
        clinic = make_clinic(place / "clinic")
        with operated(clinic, logs=tmp_path) as server:
            server.wait_for()
            subprocess.run(spoil.replace("PLACE", str(place)), shell=True, check=True)
            server.wait_for(words)
            subprocess.run(mend.replace("PLACE", str(place)), shell=True, check=True)
            server.wait_for()
            assert server.said(words) >= 1
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_line_is_json_or_text_with_the_id_of_its_request():
    import logging

    record = logging.LogRecord("x", logging.ERROR, "", 0, "It failed.", None, None)
    assert json.loads(LogLine().format(record))["message"] == "It failed."
    assert LogLine("text").format(record).endswith(" error It failed.")


def test_a_flood_of_refusals_writes_few_lines(caplog):
    caplog.set_level("INFO", "suffice.service")
    refusals = Refusals()
    for _ in range(100):
        refusals.note("No.")
    refusals.note("Another.")
    assert [record.getMessage() for record in caplog.records].count(
        "A request was refused: No."
    ) == Refusals.most_lines
    assert "A request was refused: Another." in caplog.text


def test_counts_are_in_the_format_of_prometheus():
    counts = Counts()
    counts.add("suffice_requests_total", status="200")
    with counts.timed("suffice_request_seconds"):
        pass
    text = counts.text([("suffice_ready", 1.0, {}), ("suffice_proposals", 2.0, {"dataset": 'a"b'})])
    assert 'suffice_requests_total{status="200"} 1\n' in text
    assert "# TYPE suffice_request_seconds summary\n" in text
    assert "suffice_request_seconds_count 1\n" in text
    assert 'suffice_proposals{dataset="a\\"b"} 2\n' in text
