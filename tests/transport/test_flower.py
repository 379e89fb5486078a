"""Flower carries contributions: both ends without it, and, as an audit, three nodes on loopback.

The audit needs flwr, which wants older versions of typer and rich than ours: see docs/parties.md.
"""

import os
import signal
import socket
import subprocess
import sys
import time
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


@pytest.mark.audit
def test_three_nodes_on_loopback_teach_one_classifier(desk):
    """Two nodes that answer well and one that holds other auxiliary rows; a fourth never comes."""
    pytest.importorskip("flwr")
    port = free_port()
    (desk / "home").mkdir()
    (desk / "home" / "config.toml").write_text(
        f'[superlink]\ndefault = "loop"\n[superlink.loop]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    link = ("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port))
    started = [start(desk, "link", *link, "--disable-runtime-dependency-installation")]
    try:
        for number, aux in enumerate(("aux.parquet", "aux.parquet", "other.parquet")):
            words = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}")
            more = ("--port", str(free_port()), "--node-config", toml(node(desk, number, aux)))
            started.append(start(desk, f"node{number}", *words, *more))
        time.sleep(5)
        run = {**run_config(desk), "nodes": 3, "timeout": 60.0}
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "flwr"),
                "run",
                str(APP),
                "loop",
                "--stream",
                "--run-config",
                toml(run),
            ],
            env=flower_environment(desk),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    finally:
        for process in reversed(started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)
    logged = done.stdout + done.stderr
    assert 'counted as zero: "n2": it was computed on other auxiliary rows' in logged
    assert "2 parties counted; 1 sent nothing" in logged
    release = load(desk / "out.suffice")
    assert release.kind == "mean-operator"
    assert release.guarantee.unit == "party"
    assert release.guarantee.epsilon <= 2.0
