"""`suffice ledger log, checkpoint, verify, recover`, and ledgers in a database."""

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from suffice.owner.ledger import Ledger

RELEASE = (
    "release",
    "mean-operator",
    "--map",
    "none",
    "t.csv",
    "--label",
    "sick",
    "--epsilon",
    "0.5",
)


@pytest.fixture
def desk(tmp_path, monkeypatch, suffice) -> Path:
    """Return a folder with a table, a pair of keys and a ledger that has one release."""
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(400))
    (tmp_path / "t.csv").write_text("x,sick\n" + rows)
    monkeypatch.chdir(tmp_path)
    suffice("keygen", "clinic")
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", "2", "--classes", "0,1")
    release(suffice, "l", "a")
    return tmp_path


def release(suffice, ledger: str, request: str) -> str:
    words = ("--ledger", ledger, "--dataset", "d", "--request", request, "-o", request)
    return suffice(*RELEASE, *words)


def checkpoint(suffice, output: str = "c") -> str:
    return suffice("ledger", "checkpoint", "l", "--sign", "clinic.key", "-o", output)


@pytest.mark.usefixtures("desk")
def test_an_officer_reads_the_log_and_verifies_it(suffice):
    said = checkpoint(suffice)
    assert "has 5 entries" in said
    release(suffice, "l", "b")
    entries = json.loads(suffice("ledger", "log", "l", "--json"))
    events = ["opened", "budget", "classes", "debit", "finish", "debit", "finish"]
    assert [entry["kind"] for entry in entries] == events
    assert "release stored" in suffice("ledger", "log", "l")
    text = suffice("ledger", "verify", "l", "--checkpoint", "c", "--key", "clinic.pub")
    assert "l: 7 entries" in text
    assert "continues the checkpoint" in text
    assert "Compare the key" in suffice("ledger", "verify", "l", "--checkpoint", "c")
    assert "No checkpoint was compared" in suffice("ledger", "verify", "l")
    data = json.loads(suffice("ledger", "verify", "l", "--checkpoint", "c", "--json"))
    assert (data["entries"], data["checkpoint"]["entries"]) == (7, 5)
    assert data["head"] == entries[-1]["digest"]
    suffice("ledger", "verify", "l", "--key", "clinic.pub", code=2)


@pytest.mark.usefixtures("desk")
def test_a_ledger_put_back_from_a_copy_is_noticed_and_recovered(suffice):
    shutil.copy("l", "copy")
    release(suffice, "l", "b")
    checkpoint(suffice)
    shutil.copy("copy", "l")
    text = suffice("ledger", "verify", "l", "--checkpoint", "c", code=5)
    assert "put back from a copy" in text
    words = ("ledger", "recover", "l", "--checkpoint", "c", "d=b")
    assert "add --state complete" in suffice(*words, code=2)
    assert Ledger("l").balances()[0].spent == 0.5
    assert "Releases charged now: 1." in suffice(*words, "--state=complete")
    assert Ledger("l").balances()[0].spent == pytest.approx(1.0)
    assert "recovered at" in suffice("ledger", "verify", "l", "--checkpoint", "c", code=5)
    suffice("ledger", "recover", "l", "--checkpoint", "c", "b", code=2)


@pytest.mark.usefixtures("desk")
def test_a_checkpoint_is_written_over_no_ledger_and_no_key(suffice):
    for output in ("l", "clinic.key"):
        words = ("ledger", "checkpoint", "l", "--sign", "clinic.key", "-o", output, "--force")
        suffice(*words, code=2)
    checkpoint(suffice)
    suffice("ledger", "checkpoint", "l", "--sign", "clinic.key", "-o", "c", code=6)
    suffice("ledger", "checkpoint", "l", "--sign", "clinic.pub", "-o", "d", code=3)


@pytest.mark.usefixtures("desk")
def test_a_grant_and_a_refusal_are_in_the_log_once(suffice):
    (Path("p.csv")).write_text("x\n" + "".join(f"{k % 7}\n" for k in range(400)))
    Path("policy.json").write_text('{"largest_epsilon": 1}')
    suffice("propose", "p.csv", "--epsilon", "0.5", "--purpose", "research", "-o", "good.json")
    suffice("propose", "p.csv", "--epsilon", "50", "-o", "bad.json")
    terms = ("--label", "sick", "--policy", "policy.json", "--ledger", "l", "--dataset", "d")
    for attempt in ("1", "2"):
        suffice("grant", "good.json", "t.csv", *terms, "-o", f"good{attempt}")
        suffice("grant", "bad.json", "t.csv", *terms, "-o", f"bad{attempt}", code=8)
    entries = json.loads(suffice("ledger", "log", "l", "--json"))
    answers = [entry for entry in entries if entry["kind"] in {"grant", "refusal"}]
    assert [entry["kind"] for entry in answers] == ["grant", "refusal"]
    assert answers[0]["facts"]["purpose"] == "research"
    assert answers[1]["facts"]["answer"] == "countered"
    suffice("ledger", "verify", "l")


@pytest.mark.usefixtures("desk")
def test_every_command_takes_a_ledger_in_a_database_and_prints_no_password(suffice, postgres_url):
    query = urlsplit(postgres_url).query
    address = f"postgresql://postgres:hunter2@/postgres?{query}#cli"
    said = [suffice("ledger", "init", address, "--dataset", "d", "--epsilon", "2")]
    said += [release(suffice, address, "b"), release(suffice, address, "b2")]
    for words in (("show",), ("history",), ("what-if", "--dataset", "d"), ("log",), ("verify",)):
        said.append(suffice("ledger", words[0], address, *words[1:]))
    words = ("ledger", "checkpoint", address, "--sign", "clinic.key", "-o", "c")
    said.append(suffice(*words))
    said.append(suffice("ledger", "verify", address, "--checkpoint", "c", "--key", "clinic.pub"))
    said.append(suffice("ledger", "recover", address, "--checkpoint", "c", "--state=complete"))
    said.append(suffice("ledger", "show", f"{address}2", code=5))
    said.append(suffice("ledger", "show", address.replace("postgres?", "nowhere?"), code=6))
    assert "hunter2" not in "".join(said)
    assert "postgresql:///postgres#cli" in said[0]
    assert Ledger(address).balances()[0].debits == 2


@pytest.mark.usefixtures("desk")
def test_an_archive_is_written_inspected_and_verified(suffice):
    words = ("ledger", "archive", "l", "--sign", "clinic.key", "-o", "old.archive")
    suffice(*words, "2000-01-01", code=2)
    said = suffice(*words, "2100-01-01")
    assert "1 releases and 0 proposals" in said
    shown = json.loads(suffice("inspect", "old.archive", "--json"))["archive"]
    assert shown["digest"] in said
    assert (shown["releases"], shown["charges"]) == (1, 1)
    assert "old releases" in suffice("inspect", "old.archive")
    assert "unaltered" in suffice("verify", "old.archive", "--key", "clinic.pub")
    suffice("verify", "old.archive", code=2)
    release(suffice, "l", "b")
    suffice(*words, "2100-01-01", code=6)  # an archive may be the only copy: nothing overwrites it
    words = (*words[:6], "more.archive", "2100-01-01", "--json")
    again = json.loads(suffice(*words))
    assert (again["written"], again["releases"], again["charges"]) == ("more.archive", 1, 2)
    assert "outputs archived" in suffice("ledger", "log", "l")
    suffice("ledger", "verify", "l")
