"""Ledgers in PostgreSQL: kills, a restarted server, poolers, restored databases, passwords."""

import itertools
import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from database_servers import dumped, postgresql_server, restart
from spenders import PRELOADED
from suffice.errors import (
    BudgetError,
    BurntRequestError,
    LedgerError,
    ParameterError,
    StorageError,
)
from suffice.owner.ledger import Ledger, Request, postgres, rules
from suffice.owner.ledger.ledger import Replay
from suffice.privacy.accounting import Tally
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(0.1))]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)
NUMBERS = itertools.count()


def ask(name: str) -> Request:
    return Request(name, {}, "data")


@pytest.fixture
def address(postgres_url) -> str:
    address = f"{postgres_url}#p{next(NUMBERS)}"
    Ledger(address, {"d": Budget(1.0)})
    return address


def states(address: str) -> list[str]:
    return [entry.state for entry in Ledger(address).history()]


# ------------------------------------------------------------------ the lock


def spent_by_threads(address: str, spenders: int) -> tuple[Counter, float]:
    """Return how as many threads ended that each spend .1 of a budget of .5, and what is spent."""
    Ledger(address, {"d": Budget(0.5)})

    def spend(number: int) -> str:
        try:
            ledger = Ledger(address)
            assert ledger.debit("d", PROMISE, ask(f"r{number}")) is None
            ledger.finish("d", f"r{number}", b"x")
        except BudgetError:
            return "refused"
        except (StorageError, LedgerError):
            return "failed"
        return "paid"

    with ThreadPoolExecutor(spenders) as pool:
        ends = Counter(pool.map(spend, range(spenders)))
    return ends, Ledger(address).balances()[0].spent


def test_many_at_once_spend_the_budget_and_no_more(postgres_url):
    ends, spent = spent_by_threads(f"{postgres_url}#p{next(NUMBERS)}", 12)
    assert ends == {"paid": 5, "refused": 7}
    assert spent == pytest.approx(0.5)


def test_a_store_without_the_lock_fails_the_same_test(postgres_url, monkeypatch):
    """Two entries of the log would have one number, so that most spenders fail."""
    monkeypatch.setattr(postgres, "_ALONE", "SELECT %s::bigint")
    ends, _ = spent_by_threads(f"{postgres_url}#p{next(NUMBERS)}", 12)
    assert ends["failed"] > 0


def test_without_the_lock_and_without_the_log_the_budget_is_overspent(postgres_url, monkeypatch):
    """What the lock is for: two who read the same balance both spend it."""
    address, other = f"{postgres_url}#p{next(NUMBERS)}", threading.Barrier(2, timeout=20)
    monkeypatch.setattr(postgres, "_ALONE", "SELECT %s::bigint")
    Ledger(address, {"d": Budget(0.15)})
    balance = {Unit.LABEL: Tally()}  # that both read
    check = rules.check_affordable

    def slow_check(*charge):
        check(*charge)
        other.wait()

    numbers = itertools.count(100)
    monkeypatch.setattr(rules, "check_affordable", slow_check)
    monkeypatch.setattr(
        "suffice.owner.ledger.store.next_entry",
        lambda _last, _previous, kind, text: _entry(next(numbers), kind, text),
    )
    monkeypatch.setattr(Replay, "catch_up", lambda replay, _: replay.spent.update(d=balance))
    monkeypatch.setattr(Replay, "check", lambda *_: None)
    monkeypatch.setattr(Ledger, "_advance_anchor", lambda *_: None)
    with postgres_connection(address) as db:
        schema = address.partition("#")[2]
        for table in ("debits", "costs"):
            db.execute(f"ALTER TABLE {schema}.{table} DROP CONSTRAINT {table}_pkey CASCADE")
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(Ledger(address).debit, "d", PROMISE, ask(f"r{k}")) for k in range(2)]
        assert [future.result() for future in done] == [None, None]
    spent = [epsilon for entry in Ledger(address).history() for _, epsilon in entry.epsilons]
    assert sum(spent) == pytest.approx(0.2)


def _entry(number, kind, text):
    from suffice.owner.ledger.log import LogEntry

    return LogEntry(number, "", str(kind), text, "")


@contextmanager
def postgres_connection(address: str):
    with psycopg.connect(address.partition("#")[0], autocommit=True) as db:
        yield db


def test_a_strict_default_of_the_server_does_not_make_snapshots_older_than_the_lock(address):
    """At SERIALIZABLE or REPEATABLE READ the lock would come after what is read."""
    url, _, name = address.partition("#")
    strict = f"{url}&options=-cdefault_transaction_isolation%3Dserializable#{name}"
    ends, spent = spent_by_threads(f"{strict}_strict", 8)
    assert ends == {"paid": 5, "refused": 3}
    assert spent == pytest.approx(0.5)


def test_durable_commits_are_insisted_on(address, monkeypatch):
    url, _, name = address.partition("#")
    careless = Ledger(f"{url}&options=-csynchronous_commit%3Doff#{name}")
    with careless._store.reading() as records:
        query = "SELECT current_setting('synchronous_commit')"
        assert records.db.execute(query).fetchone() == ("on",)
    execute = psycopg.Connection.execute

    def unsynced(self, query, *values, **options):
        query = query.replace("current_setting('fsync')", "'off'")
        return execute(self, query, *values, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", unsynced)
    with pytest.raises(LedgerError, match="Set fsync = on"):
        Ledger(address)


# ------------------------------------------------------------------ kills and restarts


def shot_before_the_debit(address: str) -> None:
    ledger = Ledger(address)
    ledger._store.claim()
    os.kill(os.getpid(), signal.SIGKILL)


def shot_in_the_debit(address: str) -> None:
    ledger = Ledger(address)
    with ledger._store.writing(ledger._store.claim()) as records:
        records.add_charge("d", PROMISE, ask("a"), "token")
        os.kill(os.getpid(), signal.SIGKILL)


def shot_after_the_debit(address: str) -> None:
    Ledger(address).debit("d", PROMISE, ask("a"))
    os.kill(os.getpid(), signal.SIGKILL)


def shot_after_finish(address: str) -> None:
    ledger = Ledger(address)
    ledger.debit("d", PROMISE, ask("a"))
    ledger.finish("d", "a", b"drawn")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("place_of_death", "charged"),
    [
        (shot_before_the_debit, None),
        (shot_in_the_debit, None),
        (shot_after_the_debit, "burnt"),
        (shot_after_finish, "released"),
    ],
)
def test_a_kill_at_any_step_leaves_no_second_draw(address, place_of_death, charged):
    process = CONTEXT.Process(target=place_of_death, args=(address,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    ledger = Ledger(address)
    if charged is None:
        assert ledger.debit("d", PROMISE, ask("a")) is None
        ledger.finish("d", "a", b"drawn now")
    elif charged == "burnt":
        with pytest.raises(BurntRequestError):
            ledger.debit("d", PROMISE, ask("a"))
    else:
        assert ledger.debit("d", PROMISE, ask("a")) == b"drawn"
    assert states(address) == [charged or "released"]
    assert ledger.balances()[0].spent == pytest.approx(0.1)
    ledger.verify()


def pay_elsewhere(address: str, host: str, go, paid) -> None:
    """Pay as a server of another name does, whose process ids mean nothing here."""
    with suppress(AttributeError, OSError):  # not allowed everywhere: then the name alone differs
        os.unshare(os.CLONE_NEWUTS)
        socket.sethostname(host)
    socket.gethostname = lambda: host
    ledger = Ledger(address)
    ledger.debit("d", PROMISE, ask("a"))
    paid.set()
    go.wait()
    ledger.finish("d", "a", b"drawn elsewhere")


def test_a_second_server_of_another_name_waits_and_gets_the_same_bytes(address):
    go, paid = CONTEXT.Event(), CONTEXT.Event()
    process = CONTEXT.Process(target=pay_elsewhere, args=(address, "elsewhere", go, paid))
    process.start()
    paid.wait()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(Ledger(address).debit, "d", PROMISE, ask("a"))
        time.sleep(0.3)
        assert not answer.done()
        go.set()
        assert answer.result() == b"drawn elsewhere"
    process.join()
    assert Ledger(address).balances()[0].debits == 1


@pytest.fixture(scope="module")
def restarted_url():
    with postgresql_server() as url:
        yield url


def test_a_server_that_is_restarted_in_the_middle_of_a_grant_costs_no_second_draw(restarted_url):
    address = f"{restarted_url}#restarted"
    ledger = Ledger(address, {"d": Budget(1.0)})
    assert ledger.debit("d", PROMISE, ask("a")) is None
    assert ledger.debit("d", PROMISE, ask("b")) is None
    restart(restarted_url)
    ledger.finish("d", "a", b"drawn")  # over a new connection: nobody has declared it lost
    with pytest.raises(BurntRequestError):  # whoever asks first finds no lock
        Ledger(address).debit("d", PROMISE, ask("b"))
    with pytest.raises(BurntRequestError, match="Do not use this output"):
        ledger.finish("d", "b", b"late")
    assert Ledger(address).debit("d", PROMISE, ask("a")) == b"drawn"
    assert states(address) == ["released", "burnt"]
    assert ledger.balances()[0].spent == pytest.approx(0.2)
    assert ledger.frozen == ""  # a crash is no restore
    ledger.verify()


def test_a_server_that_is_lost_before_the_charge_charges_nothing(restarted_url, monkeypatch):
    address = f"{restarted_url}#lost"
    ledger = Ledger(address, {"d": Budget(1.0)})
    hold = postgres.Sessions.hold

    def lose(self, key):
        held = hold(self, key)
        restart(restarted_url)
        return held

    with monkeypatch.context() as patched:
        patched.setattr(postgres.Sessions, "hold", lose)
        with pytest.raises(StorageError, match="was lost"):
            ledger.debit("d", PROMISE, ask("a"))
    assert ledger.history() == []
    assert ledger.debit("d", PROMISE, ask("a")) is None


# ------------------------------------------------------------------ connections


def test_one_thread_uses_one_connection(address):
    ledger = Ledger(address)
    for name in "abc":
        ledger.debit("d", PROMISE, ask(name))
    ledger.balances()
    with postgres_connection(address) as db:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'suffice'"
        before = db.execute(query).fetchone()[0]
        ledger.history()
        assert db.execute(query).fetchone()[0] == before
    sessions = ledger._store._sessions
    assert len(sessions._idle) + (sessions._holding is not None) == 1
    for name in "abc":
        ledger.finish("d", name, b"x")
    assert (len(sessions._idle), sessions._holding) == (1, None)


def test_connections_are_bounded_and_waited_for(address, monkeypatch):
    monkeypatch.setattr(postgres, "_WAIT_SECONDS", 0.3)
    ledger = Ledger(address)
    go, most = threading.Event(), postgres.MOST_CONNECTIONS

    def read() -> None:
        with ledger._store.reading():
            go.wait(20)

    threads = [threading.Thread(target=read) for _ in range(most)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    with pytest.raises(StorageError, match="all 4 connections"):
        ledger.balances()
    go.set()
    for thread in threads:
        thread.join()
    ledger.balances()


def test_a_child_process_opens_connections_of_its_own(address):
    ledger = Ledger(address)
    ledger.debit("d", PROMISE, ask("a"))
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            ledger.balances()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert states(address) == ["pending"]
    ledger.finish("d", "a", b"x")
    assert states(address) == ["released"]


def test_other_tables_are_not_written_among(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("CREATE SCHEMA foreign_tables CREATE TABLE x (y INTEGER)")
    with pytest.raises(LedgerError, match="holds other tables"):
        Ledger(f"{postgres_url}#foreign_tables", {"d": Budget(1.0)})


def test_a_ledger_of_another_version_is_refused_even_while_it_is_open(address):
    ledger, schema = Ledger(address), address.partition("#")[2]
    with postgres_connection(address) as db:
        db.execute(f"UPDATE {schema}.version SET number = 99")
    for use in (lambda: Ledger(address), lambda: ledger.debit("d", PROMISE, ask("a"))):
        with pytest.raises(LedgerError, match="version 99"):
            use()


# ------------------------------------------------------------------ poolers


class Pooler:
    """A proxy that shares out sessions by transaction, as PgBouncer does; or by connection."""

    def __init__(self, url: str, schema: str, *, by_transaction: bool, most: int = 100) -> None:
        self._sessions = threading.Semaphore(most)
        self._url, self._schema, self._by_transaction = url, schema, by_transaction
        self._free: list[socket.socket] = []
        self._guard = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = (
            f"postgresql://postgres:secret@127.0.0.1:{self._socket.getsockname()[1]}/postgres"
        )
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        for server in self._free:
            server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _server(self) -> socket.socket:
        """Return a session, the last one that was used if there is one."""
        with self._guard:
            if self._free:
                return self._free.pop()
        folder = parse_qs(urlsplit(self._url).query)["host"][0]
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{folder}/.s.PGSQL.5432")
        options = {"user": "postgres", "database": "postgres"}
        options["options"] = f"-c search_path={self._schema}"
        text = "".join(f"{name}\0{value}\0" for name, value in options.items())
        body = struct.pack("!i", 196608) + text.encode() + b"\0"
        server.sendall(struct.pack("!i", len(body) + 4) + body)
        while _message(server)[:1] != b"Z":
            pass
        return server

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            while True:  # a client may ask for encryption first
                (size,) = struct.unpack("!i", _exactly(client, 4))
                if struct.unpack("!i", _exactly(client, size - 4)[:4])[0] == 196608:
                    break
                client.sendall(b"N")
            client.sendall(b"R" + struct.pack("!ii", 8, 0))
            for name, value in (("server_version", "18.4"), ("client_encoding", "UTF8")):
                text = f"{name}\0{value}\0".encode()
                client.sendall(b"S" + struct.pack("!i", len(text) + 4) + text)
            client.sendall(b"K" + struct.pack("!iii", 12, 4_000_000, 1))  # not the server's own
            client.sendall(b"Z" + struct.pack("!i", 5) + b"I")
            self._relay(client)

    def _relay(self, client: socket.socket) -> None:
        server = None
        try:
            while (message := _message(client))[:1] != b"X":
                if server is None and not self._by_transaction:
                    self._sessions.acquire()  # without a word, as PgBouncer waits
                    if self._socket.fileno() < 0:  # nobody is there any more
                        return
                server = server or self._server()
                server.sendall(message)
                if message[:1] not in b"QS":
                    continue
                while True:
                    answer = _message(server)
                    if answer == b"Z\0\0\0\5I" and self._by_transaction:
                        with self._guard:
                            self._free.append(server)
                        server = None
                    client.sendall(answer)
                    if answer[:1] == b"Z":
                        break
        finally:
            if server is not None:
                server.close()
                self._sessions.release()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _message(connection: socket.socket) -> bytes:
    head = _exactly(connection, 5)
    return head + _exactly(connection, struct.unpack("!i", head[1:])[0] - 4)


@pytest.mark.parametrize("by_transaction", [True, False])
def test_a_pooler_in_transaction_mode_is_refused_and_one_in_session_mode_is_not(
    postgres_url, by_transaction
):
    name = f"p{next(NUMBERS)}"
    pooler = Pooler(postgres_url, name, by_transaction=by_transaction)
    try:
        if by_transaction:
            with pytest.raises(LedgerError, match="use session mode") as refused:
                Ledger(f"{pooler.address}#{name}", {"d": Budget(1.0)})
            assert "secret" not in str(refused.value)
            return
        ledger = Ledger(f"{pooler.address}#{name}", {"d": Budget(1.0)})
        assert ledger.debit("d", PROMISE, ask("a")) is None
        assert states(f"{postgres_url}#{name}") == ["pending"]
        ledger.finish("d", "a", b"x")
        assert states(f"{postgres_url}#{name}") == ["released"]
    finally:
        pooler.close()


def test_a_pooler_with_one_session_is_told_in_words(postgres_url, monkeypatch):
    monkeypatch.setattr(postgres, "_RESTART_SECONDS", 1.0)
    name = f"p{next(NUMBERS)}"
    pooler = Pooler(postgres_url, name, by_transaction=False, most=1)
    try:
        with pytest.raises(LedgerError, match="no session left for another") as refused:
            Ledger(f"{pooler.address}#{name}", {"d": Budget(1.0)})
        assert "secret" not in str(refused.value)
    finally:
        pooler.close()


def test_a_pooler_that_was_not_noticed_is_refused_before_the_charge(postgres_url, monkeypatch):
    """The check at each charge, with the check at the beginning undone."""
    monkeypatch.setattr(postgres.PostgresStore, "_check_unpooled", lambda _: None)
    name = f"p{next(NUMBERS)}"
    pooler = Pooler(postgres_url, name, by_transaction=True)
    try:
        ledger = Ledger(f"{pooler.address}#{name}", {"d": Budget(1.0)})
        claim = ledger._store.claim  # somebody else takes the session between claim and charge

        taken = []

        def claim_and_lose():
            claimed = claim()
            taken.append(pooler._server())
            return claimed

        monkeypatch.setattr(ledger._store, "claim", claim_and_lose)
        with pytest.raises(LedgerError, match="use session mode"):
            ledger.debit("d", PROMISE, ask("a"))
        assert states(f"{postgres_url}#{name}") == []
    finally:
        pooler.close()
        for server in taken:
            server.close()


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:9/clinic",
        "postgresql://me:hunter2@127.0.0.1:9/clinic?nonsense=hunter2",
        "postgresql://me:hunter2 x@127.0.0.1/clinic",
        "postgresql://me:%zzhunter2@127.0.0.1/clinic",
        "postgresql://me:hunter2@[127.0.0.1/clinic",
        "postgresql://me:hunter2#x@127.0.0.1:9/clinic#name",
        "postgres://me:hunter2@127.0.0.1:notaport/clinic",
        "postgresql://me@127.0.0.1:9/clinic?password=hunter2",
    ],
)
def test_no_message_holds_a_password(address, monkeypatch):
    monkeypatch.setattr(postgres, "_RESTART_SECONDS", 0.1)
    with pytest.raises(StorageError) as failed:
        Ledger(address, {"d": Budget(1.0)})
    chain = [failed.value, failed.value.__cause__]
    assert "hunter2" not in "".join(map(str, chain))
    assert failed.value.__suppress_context__
    assert "cannot be used" in str(failed.value)


def test_a_ledger_shows_its_address_without_user_and_password(postgres_url):
    query = urlsplit(postgres_url).query
    ledger = Ledger(f"postgresql://postgres:hunter2@/postgres?{query}#shown", {"d": Budget(1.0)})
    for text in (repr(ledger), str(ledger), ledger._repr_html_(), str(ledger.path)):
        assert "hunter2" not in text
        assert "postgres:" not in text
    assert repr(ledger) == "Ledger('postgresql:///postgres#shown')"


@pytest.mark.parametrize("name", ["Clinic", "a-b", "1a", "pg_x", "a;drop", ""])
def test_a_name_of_a_ledger_is_a_plain_word(postgres_url, name):
    with pytest.raises(ParameterError, match="small letters"):
        Ledger(f"{postgres_url}#{name}", {"d": Budget(1.0)})


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("suffice.owner.ledger.ledger.find_spec", lambda _: None)
    with pytest.raises(ParameterError, match=r"suffice\[postgres\]"):
        Ledger("postgresql://127.0.0.1/clinic")


# ------------------------------------------------------------------ restored databases


def test_a_restored_database_is_frozen_until_it_was_compared_with_a_checkpoint(postgres_url, keys):
    """Without any anchor: the database itself is another one."""
    url, schema = postgres_url, f"p{next(NUMBERS)}"
    address = f"{url}#{schema}"
    ledger = Ledger(address, {"d": Budget(1.0)}, anchor="none")
    ledger.debit("d", PROMISE, ask("a"))
    ledger.finish("d", "a", b"drawn")
    copy = dumped(url, schema)
    ledger.debit("d", PROMISE, ask("b"))
    ledger.finish("d", "b", b"drawn too")
    checkpoint = ledger.checkpoint(keys[0])
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP SCHEMA {schema} CASCADE")
        for statement in copy:
            db.execute(statement)
    restored = Ledger(address)
    assert restored.frozen
    with pytest.raises(LedgerError, match=r"frozen.*suffice ledger recover"):
        restored.debit("d", PROMISE, ask("c"))
    assert restored.debit("d", PROMISE, ask("a")) == b"drawn"  # what is stored costs nothing
    with pytest.raises(LedgerError, match="put back from a copy"):
        restored.verify(checkpoint)
    restored.recover(checkpoint)
    assert Ledger(address).frozen == ""
    assert restored.debit("d", PROMISE, ask("c")) is None
    recovered = [entry.facts for entry in restored.log() if entry.kind == "recovered"]
    assert [facts["entries_lost"] for facts in recovered] == [1]
