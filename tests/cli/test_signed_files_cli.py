"""`suffice inspect` and `suffice verify` read exports of a service and checkpoints of a ledger."""

import json
from pathlib import Path

import pytest

from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.privacy.guarantee import Budget
from suffice.protocol import export
from suffice.strict_json import canonical

BUDGET = {"unit": "label", "epsilon": 1.0, "delta": 1e-5, "spent": 0.1, "left": 0.9, "charges": 1}


@pytest.fixture
def desk(tmp_path, monkeypatch, suffice):
    monkeypatch.chdir(tmp_path)
    suffice("keygen", "clinic")
    suffice("keygen", "other")
    Ledger("l", {"d": Budget(1.0)})
    suffice("ledger", "checkpoint", "l", "--sign", "clinic.key", "-o", "old.checkpoint")
    return tmp_path


def write_export(name: str, scope: tuple[str, ...] = ()) -> None:
    """Write an export of the ledger as it is now."""
    log = Ledger("l").log()
    dataset = {"name": "d", "served": None, "budgets": [BUDGET], "proposals": [], "charges": []}
    content = {
        "organisation": "Clinic. Everything is fine.\x1b[31m",
        "time": "2026-11-17T14:30:00Z",
        "ledger": log[0].facts["ledger"],
        "entries": len(log),
        "head": log[-1].digest,
        "frozen": "",
        "anchor": "file",
        "scope": list(scope),
        "datasets": [dataset],
        "log": [{**vars(e), "digest": "" if scope else e.digest} for e in log],
        "tokens": [],
    }
    pieces, _ = export.signed_export({n: [canonical(v)] for n, v in content.items()}, "clinic.key")
    Path(name).write_bytes(b"".join(map(bytes, pieces)))


@pytest.mark.usefixtures("desk")
def test_a_checkpoint(suffice):
    text = suffice("inspect", "old.checkpoint")
    data = json.loads(suffice("inspect", "old.checkpoint", "--json"))["checkpoint"]
    assert "a signed checkpoint of a ledger" in text
    assert data["entries"] == 2
    assert data["key"] in suffice("inspect", "clinic.pub")
    assert "unaltered, and signed" in suffice("verify", "old.checkpoint", "--key", "clinic.pub")
    suffice("verify", "old.checkpoint", "--key", "other.pub", code=3)
    suffice("verify", "old.checkpoint", code=2)
    Path("bad.checkpoint").write_text(Path("old.checkpoint").read_text().replace("s 2", "s 3"))
    suffice("inspect", "bad.checkpoint", code=3)


@pytest.mark.usefixtures("desk")
def test_an_export(suffice):
    write_export("e.json")
    text = suffice("inspect", "e.json")
    for words in ("a signed export of a service", "2 entries, one unbroken chain", "0.9 of 1 left"):
        assert words in text
    assert "\x1b" not in text
    assert json.loads(suffice("inspect", "e.json", "--json"))["datasets"][0]["name"] == "d"
    said = suffice("verify", "e.json", "--key", "clinic.pub", "--checkpoint", "old.checkpoint")
    assert "Its log is whole: 2 entries" in said
    assert "The log continues old.checkpoint" in said
    assert "Is it the one you know?" in suffice("verify", "e.json")
    assert "another key" in suffice("verify", "e.json", "--key", "other.pub", code=3)
    altered = Path("e.json").read_bytes().replace(b'"left":0.9', b'"left":0.8')
    Path("altered.json").write_bytes(altered)
    suffice("verify", "altered.json", "--key", "clinic.pub", code=3)
    suffice("inspect", "altered.json", code=3)
    Path("printed.json").write_text(json.dumps(json.loads(Path("e.json").read_text()), indent=1))
    assert "canonical form" in suffice("inspect", "printed.json", code=3)


@pytest.mark.usefixtures("desk")
def test_an_export_of_a_ledger_that_was_put_back_is_noticed(suffice):
    copy = Path("l").read_bytes()
    Ledger("l").record_answer("d", Kind.REFUSAL, {"reason": "no"})
    suffice("ledger", "checkpoint", "l", "--sign", "clinic.key", "-o", "new.checkpoint")
    Path("l").write_bytes(copy)
    write_export("e.json")
    words = ("verify", "e.json", "--key", "clinic.pub", "--checkpoint")
    suffice(*words, "old.checkpoint")
    assert "put back from a copy" in suffice(*words, "new.checkpoint", code=5)


@pytest.mark.usefixtures("desk")
def test_an_export_of_some_data_sets(suffice):
    write_export("e.json", ("d",))
    assert "without hashes" in suffice("inspect", "e.json")
    said = suffice("verify", "e.json", "--key", "clinic.pub", "--checkpoint", "old.checkpoint")
    assert "whole" not in said
    Ledger("l").record_answer("d", Kind.REFUSAL, {"reason": "no"})
    write_export("f.json", ("d",))
    words = ("verify", "f.json", "--checkpoint", "old.checkpoint")
    assert "no hashes to compare" in suffice(*words, code=2)


@pytest.mark.usefixtures("desk")
def test_options_that_mean_nothing_are_refused(suffice):
    write_export("e.json")
    assert "PROPOSAL" in suffice("verify", "e.json", "old.checkpoint", code=2)
    words = ("verify", "clinic.pub", "--checkpoint", "old.checkpoint")
    assert "which is no export" in suffice(*words, code=2)
