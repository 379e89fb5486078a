"""A real PgBouncer before the database: what does not work there is refused at once, in words."""

import itertools
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from suffice.errors import LedgerError
from suffice.owner.ledger import Ledger
from suffice.privacy.guarantee import Budget

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs pgbouncer")
SETTINGS = """
[databases]
postgres = host={host} dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""
NUMBERS = itertools.count()


@contextmanager
def pooler(database: str, folder: Path, mode: str, size: int) -> Iterator[str]:
    """Yield the address of a pooler in some mode, with so many sessions."""
    host = parse_qs(urlsplit(database).query)["host"][0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(host=host, port=port, mode=mode, size=size))
    user = ["-u", Path(host).owner()]  # whose socket it is: a pooler does not run as root
    process = subprocess.Popen([str(PROGRAM), "-q", *user, str(settings)])
    try:
        for _ in range(200):
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres#pooled{next(NUMBERS)}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def pooled(postgres_url, tmp_path) -> Iterator[Callable[[str, int], str]]:
    """Return what starts a pooler, which ends with the test."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # its user reads the settings
    with ExitStack() as block:
        yield lambda mode, size: block.enter_context(pooler(postgres_url, tmp_path, mode, size))


@pytest.mark.parametrize(("mode", "size", "words"), [
    ("session", 1, "no session left"),
    ("transaction", 1, "no session left"),
    ("transaction", 5, "transaction or statement mode"),
    ("statement", 1, "transaction or statement mode"),
])  # fmt: skip
def test_a_pooler_that_shares_out_sessions_is_refused_in_words(pooled, mode, size, words):
    with pytest.raises(LedgerError, match=words):
        Ledger(pooled(mode, size), {"d": Budget(1.0)}, anchor="none")


def test_a_pooler_with_sessions_enough_is_used(pooled):
    ledger = Ledger(pooled("session", 5), {"d": Budget(1.0)}, anchor="none")
    assert ledger.balances()[0].left == 1.0
