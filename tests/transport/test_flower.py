"""Flower carries contributions: both ends without it, and, as an audit, three nodes over TLS.

The audit needs flwr, which wants older versions of typer and rich than ours: see docs/parties.md.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.errors import CorruptFileError, ParameterError
from suffice.owner.parties.contribution import PartyContribution
from suffice.protocol.flower import answer, release_of
from suffice.releases.codec import load

APP = Path(__file__).parents[2] / "examples" / "flower"


@pytest.fixture
def desk(tmp_path) -> Path:
    for number in range(4):
        rng = np.random.default_rng(number)
        pulse, noise = rng.normal(size=(2, 60))
        sick = (pulse + 0.3 * rng.normal(size=60) > 0).astype(int)
        table = pa.table({"pulse": pulse, "noise": noise, "sick": sick})
        pq.write_table(table, tmp_path / f"own{number}.parquet")
    pq.write_table(table.select(["pulse", "noise"]), tmp_path / "aux.parquet")
    pq.write_table(table.slice(1).select(["pulse", "noise"]), tmp_path / "other.parquet")
    return tmp_path


def node(desk: Path, number: int, aux: str = "aux.parquet") -> dict[str, str]:
    records = str(desk / f"own{number}.parquet")
    return {"party": f"n{number}", "records": records, "label": "sick", "aux": str(desk / aux)}


def run_config(desk: Path) -> dict[str, object]:
    return {
        "aux": str(desk / "aux.parquet"),
        "output": str(desk / "out.suffice"),
        "classes": "0,1",
        "enrolled": 4,
        "epsilon": 2.0,
        "delta": 1e-5,
        "method": "operator",
        "no-ledger": True,
    }


def test_a_node_answers_with_its_own_contribution_and_the_server_releases(desk):
    run = run_config(desk)
    sent = [answer(node(desk, i), run) for i in range(2)]
    foreign = answer(node(desk, 2, "other.parquet"), run)
    outcome = release_of([*sent, foreign, b"junk"], run)
    assert outcome.accepted == 2
    assert [r.party for r in outcome.rejected] == ["n2", "unknown party"]
    assert outcome.release.guarantee.unit == "party"
    PartyContribution.load(sent[0]).save(desk / "n0.part")
    assert answer({"part": str(desk / "n0.part")}, {}) == sent[0]


def test_a_node_sends_nothing_but_a_contribution(desk):
    with pytest.raises(CorruptFileError):
        answer({"part": str(desk / "own0.parquet")}, run_config(desk))
    with pytest.raises(ParameterError, match="'label'"):
        answer({k: v for k, v in node(desk, 0).items() if k != "label"}, run_config(desk))
    with pytest.raises(ParameterError, match="method"):
        answer(node(desk, 0), {**run_config(desk), "method": "everything"})
    with pytest.raises(ParameterError, match="Choose a ledger"):
        release_of([], {**run_config(desk), "no-ledger": False})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(desk: Path, name: str, *words: str) -> subprocess.Popen:
    with (desk / f"{name}.log").open("w") as log:
        return subprocess.Popen(
            [str(Path(sys.executable).parent / words[0]), *words[1:]],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=flower_environment(desk),
            start_new_session=True,
        )


def flower_environment(desk: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": path}
    return {**os.environ, **quiet, "FLWR_HOME": str(desk / "home")}


def toml(settings: dict[str, object]) -> str:
    """Return settings as Flower's command line takes them."""
    values = {k: f'"{v}"' if isinstance(v, str) else str(v).lower() for k, v in settings.items()}
    return " ".join(f"{name}={value}" for name, value in values.items())


def make_keys(folder: Path, names: list[str]) -> None:
    """Write a certificate of 127.0.0.1, and a key pair for each node in the form of OpenSSH."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric import ec

    plain = ser.NoEncryption()
    for name in names:
        pair = ec.generate_private_key(ec.SECP384R1())
        secret = pair.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.OpenSSH, plain)
        (folder / name).write_bytes(secret)
        public = pair.public_key().public_bytes(ser.Encoding.OpenSSH, ser.PublicFormat.OpenSSH)
        (folder / f"{name}.pub").write_bytes(public)
    key, today = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    place = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))
        .not_valid_after(today + timedelta(days=2))
        .add_extension(place, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(certificate.public_bytes(ser.Encoding.PEM))
    private = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, plain)
    (folder / "server.key").write_bytes(private)


def flwr(desk: Path, *words: str) -> str:
    """Return what Flower's command line says, whatever it is."""
    program = str(Path(sys.executable).parent / "flwr")
    done = subprocess.run(
        [program, *words], env=flower_environment(desk), capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.audit
def test_three_nodes_over_tls_teach_one_classifier_and_a_fourth_is_refused(desk):
    """Two nodes answer well, one holds other auxiliary rows; a fourth has no registered key.

    Then somebody without any credential, who reaches the control API, registers that key.
    """
    pytest.importorskip("flwr")
    port, names = free_port(), [f"node{k}" for k in range(4)]
    make_keys(desk, names)
    (desk / "home").mkdir()
    (desk / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "clinic"\n[superlink.clinic]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{desk / "ca.crt"}"\n'
    )
    started = [
        start(
            desk, "link", "flower-superlink", "--enable-supernode-auth", "--port", str(port),
            "--ssl-ca-certfile", str(desk / "ca.crt"), "--ssl-certfile", str(desk / "ca.crt"),
            "--ssl-keyfile", str(desk / "server.key"), "--disable-runtime-dependency-installation",
        )
    ]  # fmt: skip

    def start_node(number: int, aux: str = "aux.parquet") -> None:
        key = desk / names[number]
        started.append(start(
            desk, f"log-{names[number]}", "flower-supernode", "--superlink", f"127.0.0.1:{port}",
            "--root-certificates", str(desk / "ca.crt"), "--port", str(free_port()),
            "--auth-supernode-private-key", str(key),
            "--node-config", toml(node(desk, number, aux)),
        ))  # fmt: skip

    def log_of(number: int, words: str) -> str:
        until, path = time.monotonic() + 120, desk / f"log-{names[number]}.log"
        while words not in (text := path.read_text()) and time.monotonic() < until:
            time.sleep(1)
        return text

    try:
        until = time.monotonic() + 120
        while "registered" not in flwr(desk, "supernode", "register", str(desk / "node0.pub")):
            assert time.monotonic() < until, (desk / "link.log").read_text()
            time.sleep(2)
        for name in names[1:3]:
            said = flwr(desk, "supernode", "register", str(desk / f"{name}.pub"))
            assert "registered" in said
        for number, aux in enumerate(
            ("aux.parquet", "aux.parquet", "other.parquet", "aux.parquet")
        ):
            start_node(number, aux)
        refused = log_of(3, "Failed to activate SuperNode")
        run = {**run_config(desk), "nodes": 3, "timeout": 300.0}
        logged = flwr(desk, "run", str(APP), "clinic", "--stream", "--run-config", toml(run))
        # Whoever reaches the control API needs no credential to let a node in.
        (desk / "home").rename(desk / "aside")
        (desk / "home").mkdir()
        (desk / "home" / "config.toml").write_text((desk / "aside" / "config.toml").read_text())
        let_in = flwr(desk, "supernode", "register", str(desk / "node3.pub"))
        started[4].wait(timeout=60)  # it gave up
    finally:
        for process in reversed(started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=60)
    assert "Failed to activate SuperNode" in refused
    assert 'counted as zero: "n2": it was computed on other auxiliary rows' in logged
    assert "2 parties counted; 1 sent nothing" in logged
    assert "registered" in let_in
    release = load(desk / "out.suffice")
    assert release.kind == "mean-operator"
    assert release.guarantee.unit == "party"
    assert release.guarantee.epsilon <= 2.0
