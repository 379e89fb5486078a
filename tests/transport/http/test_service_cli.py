"""The command line of the service: first token, tokens, settings' example, and propose --to."""

import os
import subprocess
import sys

import pytest
from served import make_clinic, running

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.protocol.remote import read_token
from suffice.releases.codec import load
from suffice.service.settings import EXAMPLE


def suffice(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "suffice", *words],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_a_proposal_goes_to_a_service_and_its_release_comes_back(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    (tmp_path / "token").write_text(clinic.tokens["learner"] + "\n")
    with running(clinic) as (url, _):
        words = ["propose", str(clinic.folder / "rows.csv"), "--to", url, "--dataset", "diagnosis"]
        sign = ["--token", str(tmp_path / "token"), "--key", str(clinic.folder / "clinic.pub")]
        granted = suffice(*words, *sign, "--epsilon", "0.1", "-o", str(tmp_path / "a.suffice"))
        assert granted.returncode == 0, granted.stderr
        assert load(tmp_path / "a.suffice").kind == "mean-operator"
        verified = suffice(
            "verify", str(tmp_path / "a.suffice"), str(tmp_path / "a.proposal.json"),
            str(tmp_path / "a.answer.json"),
        )  # fmt: skip
        assert verified.returncode == 0, verified.stderr
        token = {"SUFFICE_TOKEN": clinic.tokens["learner"]}
        countered = suffice(*words, "--epsilon", "9", "-o", str(tmp_path / "b.suffice"), **token)
        assert countered.returncode == 8
        assert not (tmp_path / "b.suffice").exists()
        refused = suffice(*words, "--epsilon", "1", "-o", str(tmp_path / "c.suffice"))
        assert refused.returncode == 2
        assert "A service needs a token" in refused.stderr


def test_the_options_of_a_service_go_together(tmp_path):
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")
    words = ["propose", str(tmp_path / "rows.csv"), "--epsilon", "1", "-o", str(tmp_path / "p")]
    alone = suffice(*words, "--dataset", "diagnosis")
    assert (alone.returncode, "without --to" in alone.stderr) == (2, True)
    nameless = suffice(*words, "--to", "http://127.0.0.1:1")
    assert (nameless.returncode, "--to needs --dataset" in nameless.stderr) == (2, True)


def test_the_first_token_is_printed_once(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    for token in clinic.records.tokens():
        clinic.records.revoke_token(token.id)
    first = suffice("serve", str(clinic.folder), "--task", "init")
    assert first.returncode == 0
    text = first.stdout.split()[-1]
    assert text.startswith("suffice_")
    assert suffice("serve", str(clinic.folder), "--task", "init").returncode == 2
    made = suffice(
        "token", "new", str(clinic.folder), "learner", "Ada",
        "--dataset", "smoker", "--days", "7",
    )  # fmt: skip
    identity = made.stdout.split()[-1].split("_")[1]
    misspelt = suffice(
        "token", "new", str(clinic.folder), "learner", "Ada",
        "--dataset", "smokr",
    )  # fmt: skip
    assert (misspelt.returncode, "They name diagnosis, smoker" in misspelt.stderr) == (2, True)
    listed = suffice("token", "list", str(clinic.folder))
    assert identity in listed.stdout
    assert text.split("_")[2] not in listed.stdout
    assert suffice("token", "revoke", str(clinic.folder), identity).returncode == 0
    assert clinic.records.token(identity).revoked is not None
    assert suffice("token", "revoke", str(clinic.folder), "nobody").returncode == 2


def test_init_makes_everything_but_budgets(tmp_path):
    folder = str(tmp_path / "new")
    first = suffice("serve", folder, "--task", "init")
    assert first.returncode == 0, first.stderr
    assert first.stdout.split()[-1].startswith("suffice_")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "suffice.toml", "clinic.key", "clinic.pub", "clinic.ledger", "clinic.anchor",
    }  # fmt: skip
    ledger = Ledger(tmp_path / "new" / "clinic.ledger")
    assert ledger.balances() == []  # nobody but the owner sets them
    assert [entry.kind for entry in ledger.log()] == ["opened", "minted"]
    checked = suffice("serve", folder, "--task", "check")
    assert "'diagnosis' has no budget yet. An owner adds it" in checked.stdout
    budget = ("--dataset", "diagnosis", "--epsilon", "2", "--classes", "0,1")
    assert suffice("ledger", "init", f"{folder}/clinic.ledger", *budget).returncode == 0
    again = suffice("serve", folder, "--task", "init")
    assert (again.returncode, "has a token already" in again.stderr) == (2, True)
    (tmp_path / "new" / "clinic.key").unlink()
    unsigned = suffice("serve", folder)
    assert (unsigned.returncode, "suffice keygen" in unsigned.stderr) == (6, True)


def test_init_makes_a_ledger_in_a_database(tmp_path, postgres_url):
    (tmp_path / "suffice.toml").write_text(
        EXAMPLE.replace('ledger = "clinic.ledger"', f'ledger = "{postgres_url}#initial"')
    )
    first = suffice("serve", str(tmp_path), "--task", "init")
    assert first.returncode == 0, first.stderr
    identity = first.stdout.split()[-1].split("_")[1]
    with Ledger(f"{postgres_url}#initial").store.reading() as records:
        assert [token.id for token in records.tokens()] == [identity]
    assert suffice("serve", str(tmp_path), "--task", "init").returncode == 2


def test_tokens_are_in_the_ledger_and_its_log(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    (tmp_path / "clinic" / "clinic.ledger").rename(tmp_path / "moved")
    for words in (["list"], ["new", "learner", "Ada"]):
        lost = suffice("token", words[0], str(clinic.folder), *words[1:])
        assert "does not exist" in lost.stderr
    unknown = suffice("token", "new", str(clinic.folder), "nurse", "Ada")
    assert (unknown.returncode, "owner, officer, learner" in unknown.stderr) == (2, True)
    (tmp_path / "moved").rename(tmp_path / "clinic" / "clinic.ledger")
    shown = suffice("ledger", "log", str(clinic.folder / "clinic.ledger"))
    assert shown.stdout.count("token made") == len(clinic.tokens)
    assert suffice("ledger", "verify", str(clinic.folder / "clinic.ledger")).returncode == 0


def test_the_example_is_printed():
    assert suffice("serve", "--task", "example").stdout == EXAMPLE


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "token").write_text(" suffice_a_b\n")
    monkeypatch.setenv("SUFFICE_TOKEN", "suffice_c_d")
    assert read_token(tmp_path / "token") == "suffice_a_b"
    assert read_token(None) == "suffice_c_d"
    monkeypatch.delenv("SUFFICE_TOKEN")
    with pytest.raises(ParameterError, match="needs a token"):
        read_token(None)
