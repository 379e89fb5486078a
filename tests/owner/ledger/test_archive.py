"""A ledger whose old bytes are in an archive: they come back, and nothing is drawn again."""

import os
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from suffice.errors import (
    ArchivedRequestError,
    BudgetError,
    CorruptFileError,
    LedgerError,
    ParameterError,
    SignatureError,
    StorageError,
)
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.archive import Archive
from suffice.owner.ledger.log import Kind
from suffice.privacy.events import Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.releases.signing import generate_keys

PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(0.125))]


def now() -> datetime:
    return datetime.now(UTC)


def charge(ledger: Ledger, number: int) -> None:
    assert ledger.debit("d", PROMISE, Request(f"r{number}", {})) is None
    ledger.finish("d", f"r{number}", b"bytes %d" % number)


@pytest.fixture
def ledger(place, tmp_path) -> Ledger:
    """Return a ledger in either store, with three releases; archives are found in this folder."""
    made = Ledger(place("l"), {"d": Budget(10.0)}, anchor=tmp_path / "l.anchor")
    for number in range(3):
        charge(made, number)
    return made


def test_archived_requests_get_their_old_bytes_or_none(place, tmp_path, keys):
    """Thirty requests, archived one after the other: 0 second draws with the file and without."""
    ledger = Ledger(place("l"), {"d": Budget(100.0)}, anchor=tmp_path / "l.anchor")
    drawn = 0
    for number in range(30):
        charge(ledger, number)
        file = tmp_path / f"{number}.archive"
        archive = ledger.archive(file, keys[0], now())
        assert archive.releases == 1
        assert archive.manifest.charges == number + 1
        reopened = Ledger(place("l"))
        again = reopened.debit("d", PROMISE, Request(f"r{number}", {}))
        assert again == b"bytes %d" % number
        file.rename(tmp_path / "elsewhere")
        for one in (ledger, reopened):
            with pytest.raises(ArchivedRequestError, match="was archived"):
                drawn += one.debit("d", PROMISE, Request(f"r{number}", {})) is None
        (tmp_path / "elsewhere").rename(file)
    assert drawn == 0
    assert Ledger(place("l")).balances()[0].debits == 30
    assert ledger.debit("d", PROMISE, Request("r7", {})) == b"bytes 7"


def test_charges_digests_and_log_stay(ledger, tmp_path, keys):
    before, spent = ledger.log(), ledger.balances()
    archive = ledger.archive(tmp_path / "old.archive", keys[0], now())
    assert ledger.balances() == spent
    assert [entry.state for entry in ledger.history()] == ["released"] * 3
    assert ledger.released("d", b"bytes 1")
    assert ledger.verify()[: len(before)] == before
    entry = ledger.log()[-1]
    assert entry.kind == Kind.ARCHIVED
    facts = {"charges": 3, "releases": 3, "proposals": 0}
    assert entry.facts == {**facts, "file": archive.digest, "key": archive.key_id}
    with ledger.store.reading() as records:
        assert [records.output(number) for number in (1, 2, 3)] == [None] * 3


def test_what_is_younger_stays(ledger, tmp_path, keys):
    cut = now()
    charge(ledger, 3)
    assert ledger.archive(tmp_path / "old.archive", keys[0], cut).releases == 3
    with ledger.store.reading() as records:
        assert records.output(4) == b"bytes 3"
    ledger.archive(tmp_path / "all.archive", keys[0], now())
    with pytest.raises(ParameterError, match="that old"):
        ledger.archive(tmp_path / "none.archive", keys[0], cut - timedelta(days=1))
    with pytest.raises(ParameterError, match="that old"):
        ledger.archive(tmp_path / "again.archive", keys[0], cut)  # there is nothing left to move
    ledger.verify()


def test_a_charge_that_is_open_stays_open(ledger, tmp_path, keys):
    assert ledger.debit("d", PROMISE, Request("open", {})) is None
    assert ledger.archive(tmp_path / "old.archive", keys[0], now()).releases == 3
    ledger.finish("d", "open", b"late")
    ledger.verify()
    assert ledger.debit("d", PROMISE, Request("open", {})) == b"late"


def test_an_archive_that_the_log_does_not_name_is_not_read(ledger, tmp_path, keys):
    ledger.archive(tmp_path / "old.archive", keys[0], now())
    with zipfile.ZipFile(tmp_path / "a.archive", "w") as forged:
        forged.writestr("proposals/1/answer.json", b"another answer")
    assert ledger.archived("proposals/1/answer.json") is None
    assert ledger.archived("releases/2.suffice") == b"bytes 1"


def test_an_archive_that_is_exchanged_while_it_is_read(ledger, tmp_path, keys):
    """Even with the digest of the good file, other bytes are not handed out."""
    file = tmp_path / "old.archive"
    ledger.archive(file, keys[0], now())
    before = file.stat()
    with zipfile.ZipFile(file) as read:
        members = {name: read.read(name) for name in read.namelist()}
    with file.open("r+b") as same, zipfile.ZipFile(same, "w") as exchanged:
        for name, data in members.items():
            exchanged.writestr(zipfile.ZipInfo(name), data.replace(b"bytes 1", b"bytes 9"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert ledger.archived("releases/2.suffice") == b"bytes 9"
    with pytest.raises(ArchivedRequestError):
        ledger.debit("d", PROMISE, Request("r1", {}))


def test_an_archived_ledger_still_refuses_what_exceeds_its_budget(place, tmp_path, keys):
    ledger = Ledger(place("l"), {"d": Budget(0.25)}, anchor=tmp_path / "l.anchor")
    for number in range(2):
        charge(ledger, number)
    ledger.archive(tmp_path / "old.archive", keys[0], now())
    with pytest.raises(BudgetError):
        Ledger(place("l")).debit("d", PROMISE, Request("one more", {}))


def test_deleted_bytes_are_noticed_unless_they_are_archived(ledger, tmp_path, keys):
    cut = now()
    charge(ledger, 3)
    ledger.archive(tmp_path / "old.archive", keys[0], cut)
    with ledger.store.writing() as records:
        records.db.execute("DELETE FROM outputs WHERE number = 4")
    with pytest.raises(LedgerError, match="disagree"):
        ledger.verify()


def test_nothing_is_moved_if_the_file_cannot_be_written(ledger, tmp_path, keys):
    taken = tmp_path / "old.archive"
    taken.write_bytes(b"mine")
    with pytest.raises(StorageError, match="overwrites nothing"):
        ledger.archive(taken, keys[0], now())
    assert taken.read_bytes() == b"mine"
    with pytest.raises(StorageError, match="cannot be written"):
        ledger.archive(tmp_path / "no folder" / "old.archive", keys[0], now())
    with pytest.raises(ParameterError, match=r"end with \.archive"):
        ledger.archive(tmp_path / "old.zip", keys[0], now())
    with ledger.store.writing() as records:  # one that was altered is not archived
        records.db.execute("UPDATE outputs SET bytes = ? WHERE number = 2", (b"other",))
    with pytest.raises(LedgerError, match="disagree"):
        ledger.archive(tmp_path / "altered.archive", keys[0], now())
    assert not (tmp_path / "altered.archive").exists()
    with ledger.store.reading() as records:
        assert records.output(1) == b"bytes 0"


def test_a_backup_of_an_archived_ledger_draws_nothing(ledger, tmp_path, keys):
    ledger.archive(tmp_path / "old.archive", keys[0], now())
    ledger.backup(tmp_path / "backup")
    copy = Ledger(tmp_path / "backup")
    copy.verify()
    assert copy.debit("d", PROMISE, Request("r0", {})) == b"bytes 0"
    (tmp_path / "old.archive").unlink()
    with pytest.raises(ArchivedRequestError):
        copy.debit("d", PROMISE, Request("r0", {}))
    with pytest.raises(LedgerError, match="frozen"):
        copy.archive(tmp_path / "second.archive", keys[0], now())


def test_whoever_has_the_key_can_check_an_archive(ledger, tmp_path, keys):
    file = tmp_path / "old.archive"
    written = ledger.archive(file, keys[0], now())
    assert Archive.load(file, keys[1]) == written
    _, other = generate_keys(tmp_path / "other")
    with pytest.raises(SignatureError, match="another key"):
        Archive.load(file, other)
    members = {}
    with zipfile.ZipFile(file) as read:
        members = {name: read.read(name) for name in read.namelist()}
    changes = {
        "releases/1.suffice": b"other",
        "releases/9.suffice": b"more",
        "manifest.json": members["manifest.json"].replace(b'"charges":3', b'"charges":4'),
        "signature.txt": b"",
    }
    for name, data in changes.items():
        with zipfile.ZipFile(tmp_path / "changed.archive", "w") as changed:
            for own, stored in {**members, name: data}.items():
                changed.writestr(own, stored)
        with pytest.raises((CorruptFileError, SignatureError)):
            Archive.load(tmp_path / "changed.archive")
    (tmp_path / "text.archive").write_bytes(b"no archive")
    with pytest.raises(CorruptFileError, match="not an archive"):
        Archive.load(tmp_path / "text.archive")


@pytest.mark.parametrize("how", ["deflated", "LZMA", "encrypted", "of another version"])
def test_an_archive_is_not_unpacked(ledger, tmp_path, keys, how):
    """Three compressed megabytes could become three gigabytes; no such file was ever written."""
    file, packed = tmp_path / "old.archive", tmp_path / "packed.archive"
    ledger.archive(file, keys[0], now())
    method = {"deflated": zipfile.ZIP_DEFLATED, "LZMA": zipfile.ZIP_LZMA}.get(how, 0)
    with zipfile.ZipFile(file) as read, zipfile.ZipFile(packed, "w", method) as written:
        for name in read.namelist():
            written.writestr(name, read.read(name))
    data = bytearray(packed.read_bytes())
    place = data.index(b"PK\x01\x02")  # what the directory says of the first member
    changed = {"encrypted": {8: 1}, "of another version": {6: 99}}.get(how, {})
    for offset, value in changed.items():
        data[place + offset] = value
    packed.write_bytes(data)
    with pytest.raises(CorruptFileError, match="not an archive"):
        Archive.load(packed)
