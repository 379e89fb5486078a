"""What officers are given: log, checkpoints, comparisons and the export, each in its scope."""

import asyncio
import json
import os
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest
from in_process import Reader, ask, settle_all
from served import ROWS, make_clinic

from suffice.errors import SignatureError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.log import Checkpoint, Kind, LogEntry, signed_checkpoint
from suffice.owner.ledger.tokens import Role, mint
from suffice.privacy.events import Pure
from suffice.privacy.guarantee import Budget, Guarantee
from suffice.protocol.export import Export
from suffice.protocol.messages import Refused
from suffice.protocol.remote import Remote
from suffice.releases.signing import generate_keys
from suffice.service import oversight
from suffice.service.app import make_app
from suffice.service.oversight import entry_words, visible_entries
from suffice.service.settings import Settings
from suffice.strict_json import plain


def burn(clinic, dataset: str, proposal) -> None:
    """Charge a proposal, and lose its output."""
    ledger, guarantee = clinic.ledger, Guarantee("label", Pure(0.1))
    request = Request(proposal.request, {"kind": "mean-operator"}, "contents")
    assert ledger.debit(dataset, [guarantee], request) is None
    ledger.abandon(dataset, request.name)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    made = make_clinic(tmp_path_factory.mktemp("oversight") / "clinic")
    lost = made.proposal("lost study")
    burn(made, "smoker", lost)
    sent = {
        "diagnosis": [made.proposal("compare wards"), made.proposal("too much", 4.0)],
        "smoker": [made.proposal("ask first"), lost],
    }
    settle_all(made, sent)
    return made


@pytest.fixture(scope="module")
def officer(clinic):
    return Reader(clinic, clinic.tokens["officer"])


ONE_MORE = """
[datasets.{name}]
table = "table.csv"
label = "diagnosis"
policy = {{ largest_epsilon = 0.5, features = ["age"] }}
"""


def test_lists_of_data_sets_are_paged_and_what_waits_comes_first(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    settle_all(clinic, {"smoker": [clinic.proposal("waits")]})
    names = [f"set-{number:02}" for number in range(60)]
    Ledger(clinic.place, dict.fromkeys(names[:-1], Budget(1.0)))
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text() + "".join(ONE_MORE.format(name=name) for name in names))

    async def followed(role: str, place: str) -> list[list[str]]:
        transport = httpx.ASGITransport(app=make_app(Settings.load(clinic.folder)))
        pages: list[list[str]] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            await client.post("/login", data={"token": clinic.tokens[role]})
            while place:
                text = (await client.get(place)).text
                heads = re.findall(r'<h2 id="(?:data|new)-[^>]*>(.*?)</h2>', text)
                pages.append([re.sub("<.*?>|Data set ", "", head) for head in heads])
                later = re.search(r'href="([^"]+)">Next data sets', text)
                place = later[1] if later else ""
        return pages

    first, *later = asyncio.run(followed("owner", "/"))
    assert first[:3] == ["smoker", "diagnosis", "set-00"]
    assert first[-1] == names[-1]  # nobody opened it yet
    assert [len(page) for page in (first, *later)] == [10] * 6 + [2]
    assert sorted(sum(later, first)) == sorted(["diagnosis", "smoker", *names])
    learners = asyncio.run(followed("learner", "/"))
    assert [name for page in learners for name in page] == ["diagnosis", "smoker", *names[:-1]]
    assert [len(page) for page in asyncio.run(followed("officer", "/report"))] == [50, 11]


def test_the_export_accounts_for_everything(clinic, officer):
    export = officer.export()
    assert Export.load(export.encode(), clinic.folder / "clinic.pub") == export
    datasets = {dataset["name"]: dataset for dataset in plain(export.content)["datasets"]}
    assert list(datasets) == ["diagnosis", "smoker"]
    granted, countered = datasets["diagnosis"]["proposals"]
    assert (granted["state"], countered["state"]) == ("granted", "countered")
    assert granted["purpose"] == "compare wards"
    assert granted["senders"][0].startswith("the learner (")
    (guarantee,) = granted["guarantees"]
    assert guarantee["sentences"][0] == "Protects each label."
    assert "the class list" in guarantee["public"]
    assert guarantee["assumes"]
    assert countered["offer"]["epsilon"] == 0.5
    assert countered["reasons"]
    states = {p["purpose"]: p["state"] for p in datasets["smoker"]["proposals"]}
    assert states["lost study"] == "charged, output lost"
    charges = {charge["state"] for charge in datasets["smoker"]["charges"]}
    assert charges >= {"charged, output lost"}
    assert datasets["diagnosis"]["budgets"][0]["spent"] == pytest.approx(0.1)
    assert datasets["diagnosis"]["served"]["policy"]["largest_epsilon"] == 0.5
    assert {token["role"] for token in plain(export.content)["tokens"]} == {*Role}
    assert export.log == clinic.ledger.log()


@pytest.mark.parametrize("has_room", [True, False], ids=["room", "full disk"])
def test_what_an_export_keeps_is_what_another_server_reads(tmp_path, monkeypatch, has_room):
    """Of each list runs of two rows are kept; whatever changes, a new server exports the same."""
    monkeypatch.setattr(oversight, "ROWS_AT_ONCE", 2)
    if not has_room:
        monkeypatch.setattr(os, "pwrite", lambda *_: 1)
    clinic = make_clinic(tmp_path / "clinic")
    limits, late = Settings.load(clinic.folder).limits, clinic.new_token("learner")
    warm = Reader(clinic, clinic.tokens["officer"])
    narrow = Reader(clinic, clinic.new_token("officer", ("diagnosis",)))
    narrow._app = warm._app  # one server keeps pieces for both
    kept = warm._app.state.readiness._service.kept
    asked = [clinic.proposal(f"study {k}") for k in range(7)]

    def send(proposal, token: str) -> None:
        body, sender = proposal.encode(), token.split("_")[1]
        assert clinic.records.add_proposal("smoker", proposal.digest, body, sender, limits)

    def refuse(proposal) -> None:
        stored = clinic.records.proposal("smoker", proposal.digest)
        assert clinic.records.answer(stored, Refused(proposal.digest, ("no",)).encode(), None)

    def check(runs: int) -> None:
        for reader in (warm, narrow):
            token = reader._token
            new, old = Reader(clinic, token).export().content, reader.export().content
            assert replace(new, time=old.time) == old
        assert len([key for key in kept._runs if key[0] == "proposals"]) == runs

    for number, proposal in enumerate(asked[:5]):
        send(proposal, clinic.tokens["learner"])
        if number != 1:
            refuse(proposal)
        burn(clinic, "diagnosis", proposal)
    ledger = clinic.ledger
    last = Request("the sixth", {"kind": "mean-operator"}, "contents")
    assert ledger.debit("diagnosis", [Guarantee("label", Pure(0.1))], last) is None
    check(1)  # the second proposal waits, and so its run may change
    ledger.finish("diagnosis", "the sixth", b"bytes")
    refuse(asked[1])
    check(2)
    send(asked[0], late)  # another learner sends the first proposal too
    check(2)
    for proposal in asked[5:]:
        send(proposal, late)
        refuse(proposal)
    check(3)
    with clinic.ledger.store.writing() as records:
        statement = "UPDATE proposals SET received = '2020-01-01T00:00:00+00:00' WHERE number < 4"
        records.db.execute(statement)
    cut = datetime(2021, 1, 1, tzinfo=UTC)
    clinic.ledger.archive(clinic.folder / "old.archive", clinic.folder / "clinic.key", cut)
    check(2)


def test_no_secret_is_exported(clinic, officer):
    text = officer.export().encode().decode()
    for token in clinic.tokens.values():
        assert token.split("_", 2)[2] not in text
    with clinic.ledger.store.reading() as records:
        assert records.about().key.hex() not in text
    for token in clinic.records.tokens():
        assert token.hash not in text


def test_a_scoped_officer_reads_of_its_data_set_alone(clinic):
    narrow = Reader(clinic, clinic.new_token("officer", ("diagnosis",)))
    assert narrow.get("/v1/datasets/smoker/log").status_code == 404
    export = narrow.export()
    assert not export.is_complete
    assert "smoker" not in export.encode().decode()
    assert {entry.digest for entry in export.log} == {""}
    entries = narrow.get("/v1/datasets/diagnosis/log").json()
    assert "smoker" not in json.dumps(entries)
    assert {entry["digest"] for entry in entries} == {None}
    assert {entry["kind"] for entry in entries} >= {"opened", "debit", "finish", "grant"}


def test_tokens_of_other_data_sets_are_not_shown(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    both, other = (clinic.new_token("learner", s) for s in (("diagnosis", "smoker"), ("smoker",)))
    narrow = Reader(clinic, clinic.new_token("officer", ("diagnosis",)))
    shown = {t["id"]: t["scope"] for t in plain(narrow.export().content)["tokens"]}
    assert shown[both.split("_")[1]] == ["diagnosis"]
    assert other.split("_")[1] not in shown
    assert len(shown) == 6  # four for all data sets, and two for this one


def test_the_log_of_a_data_set_has_no_other(officer):
    entries = officer.get("/v1/datasets/diagnosis/log").json()
    assert {entry["facts"].get("dataset", "diagnosis") for entry in entries} == {"diagnosis"}
    assert all(len(entry["digest"]) == 64 for entry in entries)
    purposes = [entry["facts"].get("purpose") for entry in entries]
    assert purposes.count("compare wards") == 1


def test_a_charge_of_several_data_sets_shows_each_officer_its_own():
    line = {"unit": "record", "event": {"event": "pure", "bound": 1.0}}
    spent = [line, {**line, "dataset": "north"}, {**line, "dataset": "south"}]
    facts = {"dataset": "home", "request": "secret name", "spent": spent, "parameters": "x"}
    debit = LogEntry(4, "2026-11-17T14:30:00Z", Kind.DEBIT, json.dumps(facts), "ab" * 32)
    north, _ = mint("officer", scope=("north",))
    (entry,) = visible_entries([debit], north)
    assert (entry.facts, entry.digest) == ({"dataset": "north", "spent": spent[1:2]}, "")
    home, _ = mint("officer", scope=("home",))
    (entry,) = visible_entries([debit], home)
    assert entry.facts["request"] == "secret name"
    assert entry.facts["spent"] == [{**line, "dataset": "home"}]
    assert "south" not in entry.text
    east, _ = mint("officer", scope=("east",))
    assert list(visible_entries([debit], east)) == []
    everything, _ = mint("officer")
    assert list(visible_entries([debit], everything)) == [debit]


def test_every_kind_of_entry_has_words(clinic):
    for entry in clinic.ledger.log():
        words = entry_words(entry)
        assert words.endswith((".", "..."))
        assert "event" not in words
    strange = LogEntry(1, "2026-11-17T14:30:00Z", "grant", '{"odd": "<b>\\u001b"}', "")
    assert entry_words(strange) == 'odd: "<b>\\x1b"'


# --- checkpoints


def test_a_checkpoint_is_the_file_that_the_command_writes(clinic, officer):
    text = officer.get("/v1/log/checkpoint").text
    checkpoint = Checkpoint.from_text(text)
    clinic.ledger.verify(checkpoint)
    path = clinic.folder / "a.checkpoint"
    path.write_text(text)
    assert Checkpoint.load(path, clinic.folder / "clinic.pub") == checkpoint


def test_a_checkpoint_agrees_also_with_other_line_ends(officer):
    text = officer.get("/v1/log/checkpoint").text
    for sent in (text, text.replace("\n", "\r\n"), f"\n {text}\n"):
        outcome = officer.post("/v1/log/verify", sent).json()
        assert (outcome["verdict"], outcome["agrees"]) == ("agrees", True)
    for bad in ("", text[:-3], text.replace("entries", "entry"), "é" * 10):
        assert officer.post("/v1/log/verify", bad).status_code == 422
    assert officer.post("/v1/log/verify", text * 60).status_code == 413


def test_a_ledger_put_back_from_a_copy_is_noticed(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    officer = Reader(clinic, clinic.tokens["officer"])
    path = clinic.folder / "clinic.ledger"
    older = officer.get("/v1/log/checkpoint").text
    copy = path.read_bytes()
    clinic.ledger.record_answer("diagnosis", Kind.REFUSAL, {"reason": "first"})
    newer = officer.get("/v1/log/checkpoint").text
    path.write_bytes(copy)
    assert officer.post("/v1/log/verify", older).json()["agrees"]
    outcome = officer.post("/v1/log/verify", newer).json()
    assert (outcome["verdict"], outcome["agrees"]) == ("lost", False)
    assert "put back from a copy" in outcome["words"][0]
    clinic.ledger.record_answer("diagnosis", Kind.REFUSAL, {"reason": "second"})
    assert officer.post("/v1/log/verify", newer).json()["verdict"] == "lost"
    assert "put back from a copy" in officer.get("/v1/export").text  # this server saw it happen
    later = Reader(clinic, clinic.tokens["officer"])
    with pytest.raises(Exception, match="is another"):
        later.export().check_continues(Checkpoint.from_text(newer))


def test_an_altered_ledger_is_noticed_and_signs_nothing(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    officer = Reader(clinic, clinic.tokens["officer"])
    narrow = Reader(clinic, clinic.new_token("officer", ("diagnosis",)))
    older = officer.get("/v1/log/checkpoint").text
    burn(clinic, "smoker", clinic.proposal("lost"))
    with sqlite3.connect(clinic.folder / "clinic.ledger") as database:
        database.execute("UPDATE debits SET request = 'another' WHERE dataset = 'smoker'")
    database.close()
    outcome = officer.post("/v1/log/verify", older).json()
    assert (outcome["verdict"], outcome["entries"]) == ("altered", None)
    assert "of data set 'smoker'" in outcome["words"][0]
    assert "smoker" not in narrow.post("/v1/log/verify", older).text
    for place in ("/v1/export", "/v1/log/checkpoint", "/v1/datasets/diagnosis/log"):
        assert officer.get(place).status_code == 409
        answer = narrow.get(place)
        assert (answer.status_code, "smoker" in answer.text) == (409, False)


def test_checkpoints_of_others_say_so(clinic, officer, tmp_path):
    generate_keys(tmp_path / "other")
    entries = clinic.ledger.log()
    name = entries[0].facts["ledger"]
    time_of = "2026-11-17T14:30:00Z"
    key = tmp_path / "other.key"
    copied = signed_checkpoint(name, 2, entries[1].digest, time_of, key)
    outcome = officer.post("/v1/log/verify", copied.to_text()).json()
    assert outcome["agrees"]
    assert outcome["words"][0].startswith("This checkpoint is signed with key")
    assert outcome["checkpoint_key"] != outcome["service_key"]
    foreign = Ledger(tmp_path / "foreign", {"d": Budget(1.0)}).checkpoint(key)
    assert officer.post("/v1/log/verify", foreign.to_text()).json()["verdict"] == "another-ledger"


def test_a_data_set_with_a_budget_per_record_is_shown(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    Ledger(clinic.folder / "clinic.ledger", {"visits": {"record": Budget(1.0)}})
    text = (clinic.folder / "suffice.toml").read_text()
    (clinic.folder / "suffice.toml").write_text(text.replace("datasets.smoker", "datasets.visits"))
    learner = Reader(clinic, clinic.tokens["learner"])
    listed = {d["name"]: d["largest_epsilon"] for d in learner.get("/v1/datasets").json()}
    assert listed == {"diagnosis": 0.5, "visits": 0.0}  # the policy allows 0.5
    names = [d.name for d in Reader(clinic, clinic.tokens["officer"]).export().content.datasets]
    assert names == ["diagnosis", "visits", "smoker"]


# --- the officer's side


class InProcess(httpx.BaseTransport):
    """Sends what `Remote` sends to the application in this process."""

    def __init__(self, clinic) -> None:
        self._app = make_app(Settings.load(clinic.folder))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        token = request.headers["authorization"].split()[1]
        answer = ask(self._app, request.method, request.url.path, token, request.read())
        return httpx.Response(answer.status_code, stream=httpx.ByteStream(answer.content))


def test_remote_reads_compares_and_exports(clinic, tmp_path):
    def remote_with(key):
        token = clinic.tokens["officer"]
        return Remote("http://127.0.0.1:1", token, key, transport=InProcess(clinic))

    remote = remote_with(clinic.folder / "clinic.pub")
    checkpoint = remote.checkpoint()
    assert remote.compare(checkpoint)["agrees"]
    export = remote.export()
    export.check_continues(checkpoint)
    numbers = [entry["number"] for entry in remote.log("diagnosis")]
    assert set(numbers) <= {entry.number for entry in export.log}
    generate_keys(tmp_path / "other")
    stranger = remote_with(tmp_path / "other.pub")
    for read in (stranger.checkpoint, stranger.export):
        with pytest.raises(SignatureError):
            read()


# --- what depends on labels


def without_noise(clinic) -> str:
    """Return an export without what differs between any two runs: names, times and digests."""
    content = plain(Reader(clinic, clinic.tokens["officer"]).export().content)
    tokens = sorted(token["role"] for token in content["tokens"])  # their order is that of ids
    text = json.dumps({**content, "tokens": tokens})
    text = re.sub(r"[0-9a-f]{12,}", "#", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", "TIME", text)


def test_an_export_is_the_same_for_neighbouring_labels(tmp_path):
    zeros = np.zeros(ROWS, dtype=int)
    neighbour = zeros.copy()
    neighbour[7] = 1
    strange = np.where(np.arange(ROWS) % 2 == 0, "", "not a class at all")
    exports = set()
    for name, labels in (("zeros", zeros), ("neighbour", neighbour), ("strange", strange)):
        clinic = make_clinic(tmp_path / name, labels)
        proposals = [clinic.proposal("a study"), clinic.proposal("too much", 4.0)]
        settle_all(clinic, {"diagnosis": proposals, "smoker": proposals[:1]})
        exports.add(without_noise(clinic))
    assert len(exports) == 1
