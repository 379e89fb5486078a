"""What a learner believes of a service: nothing that is not its own, signed and whole."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from served import make_clinic

from suffice.errors import ForeignAnswerError, ParameterError, ServiceError, SignatureError
from suffice.owner.ledger.policy import Policy
from suffice.release.codec import encode
from suffice.release.signing import generate_keys
from suffice.transport.messages import Refused
from suffice.transport.protocol import grant
from suffice.transport.remote import Remote

TOKEN = "suffice_id_secret"  # of nobody


@contextmanager
def service_that_says(*responses: tuple[int, bytes]):
    """Serve these statuses and bodies one after the other, then the last one for ever."""
    left = list(responses)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815  # the names of http.server

        def log_message(self, *_) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_clinic(tmp_path_factory.mktemp("remote") / "clinic")


@pytest.fixture(scope="module")
def granted(clinic):
    """Return a proposal with its answer and the bytes of its release, as files would hold them."""
    proposal = clinic.proposal()
    answer, release = grant(
        proposal,
        clinic.folder / "table.csv",
        policy=Policy(1.0, features=("age", "size", "stage")),
        ledger=clinic.ledger,
        dataset="diagnosis",
        label="diagnosis",
        key=clinic.folder / "clinic.key",
    )
    return proposal, answer.encode(), encode(release)


def test_a_grant_is_believed_if_everything_fits(clinic, granted):
    proposal, answer, data = granted
    with service_that_says(
        (503, b""), (202, b'{"state": "waiting"}'), (200, answer), (200, data)
    ) as url:
        told = []
        remote = Remote(url, TOKEN, clinic.folder / "clinic.pub")
        _, release = remote.propose(proposal, "diagnosis", tell=told.append)
    assert encode(release) == data
    assert told == ["The owner has to decide about this proposal."]


def test_an_answer_to_another_proposal_is_not(clinic, granted):
    _, answer, data = granted
    other = clinic.proposal("another purpose")
    with service_that_says((200, answer), (200, data)) as url, pytest.raises(ForeignAnswerError):
        Remote(url, TOKEN).propose(other, "diagnosis")
    refusal = Refused(granted[0].digest, ("no",)).encode()
    with service_that_says((200, refusal)) as url, pytest.raises(ForeignAnswerError):
        Remote(url, TOKEN).propose(other, "diagnosis")


def test_another_release_is_not(granted):
    proposal, answer, data = granted
    altered = data[:-1] + b"x"
    foreign = pytest.raises(ForeignAnswerError, match="not the file")
    with service_that_says((200, answer), (200, altered)) as url, foreign:
        Remote(url, TOKEN).propose(proposal, "diagnosis")


def test_a_release_with_another_signature_is_not(granted, tmp_path):
    proposal, answer, data = granted
    generate_keys(tmp_path / "other")
    with service_that_says((200, answer), (200, data)) as url, pytest.raises(SignatureError):
        Remote(url, TOKEN, tmp_path / "other.pub").propose(proposal, "diagnosis")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"hello", "something else than an answer"),
        (200, b"x" * (2**20 + 1), "more than a message can hold"),
        (403, json.dumps({"detail": "no \x1b[31m"}).encode(), r"403.*\\x1b"),
        (500, b"", "500 and gave no reason"),
        (503, b"", "503"),
        (302, b"", "302"),
    ],
)
def test_a_service_that_talks_nonsense_is_an_error(granted, status, body, words):
    with service_that_says((status, body)) as url, pytest.raises(ServiceError, match=words):
        Remote(url, TOKEN).propose(granted[0], "diagnosis")


def test_an_answer_that_does_not_come_is_an_error(granted):
    with service_that_says((202, b"{}")) as url, pytest.raises(ServiceError, match="not charged"):
        Remote(url, TOKEN).propose(granted[0], "diagnosis", wait=0.1)


def test_a_token_is_not_sent_in_the_open():
    for url in ("http://clinic.example", "ftp://127.0.0.1", "https://a:b@clinic.example", "clinic"):
        with pytest.raises(ParameterError):
            Remote(url, TOKEN)
    assert TOKEN not in repr(Remote("https://clinic.example", TOKEN))
