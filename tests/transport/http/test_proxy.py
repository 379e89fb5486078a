"""The nginx block of docs/service.md, run in nginx: TLS, a path, pages, forms and the client.

Only the port, the files of the certificate and the port of the service differ from the page.
"""

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from served import make_clinic, running

from suffice.releases.codec import load

PAGE = Path(__file__).parents[3] / "docs" / "service.md"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
LONGEST_SECONDS = 60  # a guard against hanging, not a measurement
AROUND = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/responses;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
{block}
    }}
}}
"""

pytestmark = pytest.mark.skipif(NGINX is None, reason="There is no nginx on this machine.")


def block(language: str, about: str = "") -> str:
    """Return the first block of this language that says something."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return next(text for text in blocks if about in text)


def write_certificate(folder: Path) -> None:
    """Write a certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "clinic.example")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    write_certificate(folder)
    return folder


@pytest.fixture(scope="module")
def clinic(folder):
    """Return a clinic with the settings of the page, but for the port."""
    clinic = make_clinic(folder / "clinic")
    path = clinic.folder / "suffice.toml"
    server = block("toml", "prefix = ").replace("port = 8765", "port = 0")
    path.write_text(path.read_text().replace("[server]\nport = 0\n", server))
    assert 'prefix = "/suffice"' in path.read_text()
    return clinic


@pytest.fixture(scope="module")
def url(folder, clinic):
    """Yield the address of the service behind nginx."""
    with running(clinic) as (address, _):
        for _ in range(5):  # somebody else may take the free port first
            port = free_port()
            write_configuration(folder, port, address)
            with started(folder) as is_up:
                if is_up:
                    yield f"https://127.0.0.1:{port}/suffice"
                    return
        pytest.fail((folder / "error.log").read_text())


def write_configuration(folder: Path, port: int, address: str) -> None:
    text = block("nginx")
    replaced = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/clinic.crt": f"{folder}/tls.crt",
        "/etc/ssl/private/clinic.key": f"{folder}/tls.key",
        "http://127.0.0.1:8765": re.match(r"http://127\.0\.0\.1:\d+", address).group(),
    }
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    user = "user root;" if os.getuid() == 0 else ""  # it writes large bodies into our folder
    (folder / "nginx.conf").write_text(AROUND.format(user=user, folder=folder, block=text))


@contextmanager
def started(folder: Path) -> Iterator[bool]:
    """Run nginx in the block; say whether it listens. It writes its pid when it does."""
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as proxy:
        try:
            end = time.monotonic() + LONGEST_SECONDS
            while proxy.poll() is None and not (folder / "nginx.pid").exists():
                assert time.monotonic() < end
                time.sleep(0.05)
            yield proxy.poll() is None
        finally:
            proxy.terminate()


@pytest.fixture
def client(folder, url):
    trusted = ssl.create_default_context(cafile=folder / "tls.crt")
    with httpx.Client(verify=trusted, timeout=60, base_url=url) as connected:
        yield connected


def test_pages_and_forms_work_below_the_path(clinic, client):
    assert client.get("/health").json()["status"] == "ok"
    sent_away = client.get("/")
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/suffice/login")
    assert client.get("/static/suffice.css").status_code == 200
    signed_in = client.post("/login", data={"token": clinic.tokens["owner"]})
    assert signed_in.status_code == 303
    cookie = signed_in.headers["set-cookie"].lower()
    assert "secure" in cookie
    assert "path=/suffice" in cookie
    page = client.get("/tokens").text
    assert 'href="/suffice/tokens"' in page
    csrf = page.split('name="csrf" value="')[1].split('"')[0]
    form = {"holder": "Ada", "role": "learner", "days": "9", "scope": "", "csrf": csrf}
    browser = {"sec-fetch-site": "same-origin", "origin": str(client.base_url).rstrip("/")}
    assert client.post("/tokens", data=form, headers=browser).status_code == 200
    other = {"sec-fetch-site": "cross-site"}
    assert client.post("/tokens", data=form, headers=other).status_code == 403


def test_problems_pass_through_the_proxy_as_they_are(clinic, client):
    headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
    refused = client.post("/v1/datasets/diagnosis/proposals", json={}, headers=headers)
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["status"] == refused.status_code
    assert 400 <= refused.status_code < 500


def test_the_client_gets_its_release_through_the_proxy(folder, clinic, url):
    output = folder / "out.suffice"
    done = subprocess.run(
        [sys.executable, "-m", "suffice", "propose", str(clinic.folder / "rows.csv"),
         "--epsilon", "0.1", "--to", url, "--dataset", "diagnosis",
         "--key", str(clinic.folder / "clinic.pub"), "-o", str(output)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "SUFFICE_TOKEN": clinic.tokens["learner"],
             "SSL_CERT_FILE": str(folder / "tls.crt")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert load(output).kind == "mean-operator"
