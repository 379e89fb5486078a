"""What a learner believes of a service: nothing that is not its own, signed and whole."""

import gzip
import json
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from served import make_clinic

from suffice.errors import ForeignAnswerError, ParameterError, ServiceError, SignatureError
from suffice.owner.policy import Policy
from suffice.protocol.grant import grant
from suffice.protocol.messages import Refused
from suffice.protocol.remote import Remote
from suffice.releases.release import encode
from suffice.releases.signing import generate_keys

TOKEN = "suffice_id_secret"  # of nobody


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None):
    """Serve with a handler on a free port of loopback; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # handshakes that fail are the point
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that nobody vouches for, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    plain = NoEncryption()
    (folder / "server.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, plain))
    return folder / "server.crt", folder / "server.key"


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
        (403, b"[" * 100_000, "403 and gave no reason"),
        (403, b'{"detail": 7}', "403 and gave no reason"),
    ],
)
def test_a_service_that_talks_nonsense_is_an_error(granted, status, body, words):
    with service_that_says((status, body)) as url, pytest.raises(ServiceError, match=words):
        Remote(url, TOKEN).propose(granted[0], "diagnosis")


def test_an_answer_that_does_not_come_is_an_error(granted):
    with service_that_says((202, b"{}")) as url, pytest.raises(ServiceError, match="not charged"):
        Remote(url, TOKEN).propose(granted[0], "diagnosis", wait=0.1)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"state": 7}', b"7", b""])
def test_nonsense_while_waiting_is_waited_out(granted, body):
    with service_that_says((202, body), (200, granted[1]), (200, granted[2])) as url:
        answer, _ = Remote(url, TOKEN).propose(granted[0], "diagnosis")
        assert answer.encode() == granted[1]


def test_a_redirection_is_not_followed_and_gets_no_token(granted):
    requests: list[str | None] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.headers.get("authorization"))

        do_GET = do_POST  # noqa: N815  # the names of http.server

    with serving(Elsewhere) as elsewhere:

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(307)
                self.send_header("location", f"{elsewhere}/v1")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_) -> None:
                pass

        with serving(Handler) as url, pytest.raises(ServiceError, match="307"):
            Remote(url, TOKEN).propose(granted[0], "diagnosis")
    assert requests == []


def test_a_compressed_answer_is_not_unpacked(granted):
    bomb = gzip.compress(b" " * 2**24)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            encodings.append(self.headers["accept-encoding"])
            self.send_response(200)
            self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(bomb)))
            self.end_headers()
            self.wfile.write(bomb)

        def log_message(self, *_) -> None:
            pass

    encodings: list[str] = []
    with serving(Handler) as url, pytest.raises(ServiceError, match="compressed"):
        Remote(url, TOKEN).propose(granted[0], "diagnosis")
    assert encodings == ["identity"]


def test_a_certificate_of_nobody_is_not_believed(granted, tmp_path, monkeypatch):
    """A server that signed its own certificate gets neither token nor proposal."""
    monkeypatch.setattr("suffice.protocol.remote._TRIES", 1)
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.path)

    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(Handler, context) as url, pytest.raises(ServiceError, match="cannot be reached"):
        Remote(url.replace("http://", "https://"), TOKEN).propose(granted[0], "diagnosis")
    assert requests == []


@pytest.mark.parametrize(
    "url",
    ["http://clinic.example", "ftp://127.0.0.1", "https://a:b@clinic.example", "clinic",
     "https://:b@clinic.example", "https://clinic.example?x=", "https://clinic.example#x",
     "https://clinic.example:port", "https://[::1", "http://127.0.0.1\\@clinic.example",
     "https://clinic.example/\n", "https://"],
)  # fmt: skip
def test_a_strange_address_is_refused_before_the_token_leaves(url):
    with pytest.raises(ParameterError):
        Remote(url, TOKEN)


def test_a_token_is_not_sent_in_the_open():
    for url in ("http://clinic.example", "http://10.0.0.1"):
        with pytest.raises(ParameterError):
            Remote(url, TOKEN)
    assert TOKEN not in repr(Remote("https://clinic.example", TOKEN))
