"""Tables in object storage: a server that speaks S3 on loopback, and every engine reads from it."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from engine_cases import debits, folded, new_ledger, patients, write_pieces
from suffice.engines.engine import Threads, open_engine

SERVER = Path(sys.prefix) / "s3" / "bin" / "python"  # `make engines` makes it
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(not SERVER.exists(), reason="moto is not installed; run `make engines`"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of py4j
]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """Yield the address of a bucket with the patients in four objects."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("s3") / "log").open("wb")
    words = [str(SERVER), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=log, stderr=log)
    _wait_for(port)
    store = pyarrow.fs.S3FileSystem(
        access_key="owner", secret_key="hidden", endpoint_override=f"127.0.0.1:{port}",
        scheme="http", region="us-east-1", allow_bucket_creation=True,
    )  # fmt: skip
    store.create_dir("hospital")
    table = patients()
    for k in range(4):
        path = f"hospital/patients/{k}.parquet"
        pq.write_table(table.slice(1500 * k, 1500), path, filesystem=store)
    where = f"endpoint_override=127.0.0.1%3A{port}&scheme=http&region=us-east-1"
    yield f"s3://owner:hidden@hospital/patients?{where}"
    server.kill()
    server.wait()
    log.close()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the server of object storage did not start")


@pytest.mark.parametrize("name", ["threads", "dask", "spark"])
def test_every_engine_reads_from_object_storage(bucket, tmp_path, name):
    if name == "spark" and not (shutil.which("java") and importlib.util.find_spec("pyspark")):
        pytest.skip("spark needs Java and pyspark, which are not here")
    expected = folded(write_pieces(patients(), tmp_path / "disk", []), Threads(1))
    engine = open_engine(name, 2)
    try:
        assert folded(bucket, engine) == expected
    finally:
        engine.close()


def test_a_command_reads_from_object_storage_and_hides_the_key(bucket, tmp_path):
    new_ledger(tmp_path / "ledger")
    words = [
        "release",
        "mean-operator",
        "--map",
        "none",
        bucket,
        "--label",
        "sick",
        "--features",
        "age,dose",
    ]
    words += ["--epsilon", "1", "--ledger", str(tmp_path / "ledger"), "--dataset", "patients"]
    words += [
        "-o",
        str(tmp_path / "out"),
        "--force",
        "--computing",
        "engine=dask",
        "--computing",
        "workers=2",
    ]
    env = {**os.environ, "COLUMNS": "200"}
    run = [sys.executable, "-m", "suffice"]
    done = subprocess.run([*run, *words], env=env, capture_output=True, text=True, check=True)
    assert debits(tmp_path / "ledger") == 1
    lost = [*words[:2], bucket.replace("patients?", "nobody?"), *words[3:]]
    gone = subprocess.run([*run, *lost], env=env, capture_output=True, text=True, check=False)
    assert gone.returncode == 6
    assert "s3://hospital/nobody does not exist" in gone.stderr
    assert "hidden" not in done.stdout + done.stderr + gone.stdout + gone.stderr
    assert b"hidden" not in (tmp_path / "out").read_bytes()
