"""The signed export: what is altered, cut or of another key is noticed, and the log is checked."""

import json

import pytest

from suffice.errors import (
    CorruptFileError,
    LedgerError,
    ParameterError,
    ReleaseError,
    SignatureError,
    UnsupportedFileError,
)
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.ledger import LostEntriesError
from suffice.owner.ledger.log import Kind
from suffice.privacy.guarantee import Budget
from suffice.protocol.export import Export, ExportContent, signed_export
from suffice.releases.signing import generate_keys
from suffice.strict_json import canonical, read


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("export")
    for stem in ("clinic", "other"):
        generate_keys(made / stem)
    return made


def ledger_with(path, entries: int) -> Ledger:
    ledger = Ledger(path, {"d": Budget(1.0)})
    for number in range(entries - 2):  # it begins with two
        ledger.record_answer("d", Kind.REFUSAL, {"reason": f"no {number}"})
    return ledger


def content_of(ledger: Ledger, scope: tuple[str, ...] = ()) -> dict:
    log = ledger.log()
    return {
        "organisation": "Clinic",
        "time": "2026-11-17T14:30:00Z",
        "ledger": log[0].facts["ledger"],
        "entries": len(log),
        "head": log[-1].digest,
        "frozen": "",
        "anchor": "file",
        "scope": list(scope),
        "datasets": [],
        "log": [{**vars(e), "digest": "" if scope else e.digest} for e in log],
        "tokens": [],
    }


def signed(content: dict, key) -> Export:
    read(ExportContent, content)
    pieces, size = signed_export({n: [canonical(v)] for n, v in content.items()}, key)
    assert len(b"".join(map(bytes, pieces))) == size
    return Export.load(b"".join(map(bytes, pieces)))


@pytest.fixture(scope="module")
def ledger(folder):
    return ledger_with(folder / "ledger", 6)


@pytest.fixture(scope="module")
def export(folder, ledger):
    return signed(content_of(ledger), folder / "clinic.key")


def test_what_was_signed_is_read_again(folder, export):
    export.save(folder / "export.json")
    again = Export.load(folder / "export.json", folder / "clinic.pub")
    assert again == export
    assert again.encode() == export.encode()
    assert again.is_complete
    assert len(again.log) == 6


def test_another_key_is_noticed(folder, export):
    with pytest.raises(SignatureError, match="another key"):
        Export.load(export.encode(), folder / "other.pub")


def test_no_byte_can_be_changed(export):
    data = export.encode()
    for place in range(0, len(data), 7):
        altered = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(ReleaseError):
            Export.load(altered)
    for cut in (data[:-1], data + b"\n", b" " + data, b"", b"[]", b"{}"):
        with pytest.raises(ReleaseError):
            Export.load(cut)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 1}, UnsupportedFileError),
        ({"version": True}, UnsupportedFileError),
        ({"suffice": "survey"}, CorruptFileError),
        ({"more": 1}, SignatureError),
        ({"key": "00"}, CorruptFileError),
        ({"signature": "0" * 128}, SignatureError),
    ],
)
def test_a_head_of_another_kind_is_noticed(export, change, error):
    document = {**json.loads(export.encode()), **change}
    with pytest.raises(error):
        Export.load(canonical(document))


@pytest.mark.parametrize(
    "change",
    [
        {"entries": 5},
        {"head": "0" * 64},
        {"ledger": "0" * 32},
        {"log": []},
        {"scope": "d"},
        {"more": 1},
        {"organisation": None},
        {"datasets": [{"name": "d"}]},
        {"tokens": [{"id": "a", "hash": "b"}]},
    ],
)
def test_even_the_owner_signs_only_what_fits(folder, ledger, change):
    with pytest.raises(CorruptFileError):
        signed({**content_of(ledger), **change}, folder / "clinic.key")


def test_a_log_that_was_changed_is_not_one_chain(folder, ledger):
    content = content_of(ledger)
    content["log"][3] = {**content["log"][3], "text": '{"dataset":"d","reason":"yes"}'}
    with pytest.raises(CorruptFileError, match="one unbroken chain"):
        signed(content, folder / "clinic.key")
    swapped = content_of(ledger)
    swapped["log"][2:4] = swapped["log"][3:1:-1]
    with pytest.raises(CorruptFileError):
        signed(swapped, folder / "clinic.key")


def test_an_export_continues_older_checkpoints_and_no_others(folder, tmp_path):
    ledger = ledger_with(tmp_path / "ledger", 4)
    older = ledger.checkpoint(folder / "clinic.key")
    copy = (tmp_path / "ledger").read_bytes()
    ledger.record_answer("d", Kind.REFUSAL, {"reason": "later"})
    newer = ledger.checkpoint(folder / "clinic.key")
    export = signed(content_of(ledger), folder / "clinic.key")
    export.check_continues(older)
    export.check_continues(newer)
    (tmp_path / "ledger").write_bytes(copy)
    restored = signed(content_of(Ledger(tmp_path / "ledger")), folder / "clinic.key")
    restored.check_continues(older)
    with pytest.raises(LostEntriesError, match="put back from a copy"):
        restored.check_continues(newer)
    Ledger(tmp_path / "ledger").record_answer("d", Kind.REFUSAL, {"reason": "another"})
    rewritten = signed(content_of(Ledger(tmp_path / "ledger")), folder / "clinic.key")
    with pytest.raises(LostEntriesError, match="entry 5 is another"):
        rewritten.check_continues(newer)
    foreign = ledger_with(tmp_path / "another", 3).checkpoint(folder / "clinic.key")
    with pytest.raises(LedgerError, match="another ledger"):
        export.check_continues(foreign)


def test_an_export_of_some_data_sets_says_what_it_cannot_show(folder, ledger):
    export = signed(content_of(ledger, ("d",)), folder / "clinic.key")
    assert not Export.load(export.encode()).is_complete
    checkpoint = ledger.checkpoint(folder / "clinic.key")
    export.check_continues(checkpoint)
    shorter = ledger_with(folder / "second", 3).checkpoint(folder / "clinic.key")
    with pytest.raises(LedgerError, match="another ledger"):
        export.check_continues(shorter)
    longer = {**content_of(ledger, ("d",)), "entries": 7, "head": "1" * 64}
    with pytest.raises(ParameterError, match="no hashes to compare"):
        signed(longer, folder / "clinic.key").check_continues(checkpoint)
