"""Doors for parties: what they take and refuse, who hears of it, and what is counted once."""

import logging
import random
import signal

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from in_process import ask
from parties import AFTER, BEFORE, Aggregator, auxiliary_rows, part_of, terms_of, votes_of
from served import running
from typer.testing import CliRunner

from seeds import seeded
from suffice import PartyContribution
from suffice.cli.main import app as commands
from suffice.errors import (
    CorruptFileError,
    ParameterError,
    ServiceError,
    SignatureError,
    UnsupportedFileError,
)
from suffice.owner.parties import rounds as rounds_module
from suffice.owner.parties.contribution import PartForm, encode_part
from suffice.owner.parties.rounds import read_round, sign_round
from suffice.protocol.remote import Remote
from suffice.releases.codec import load
from suffice.releases.signing import generate_keys, verify
from suffice.service import surveys as doors

NAMES = [f"clinic {k:02}" for k in range(40)]


@pytest.fixture
def held(tmp_path):
    return Aggregator(tmp_path / "clinic", ["north", "south", "west"])


def write_rows(path, seed: int = 1):
    rows = auxiliary_rows(seed)
    pa_csv.write_csv(pa.table({f"x{k}": rows.given[:, k] for k in range(3)}), path)
    return path


def test_a_round_is_read_as_it_was_signed(tmp_path):
    generate_keys(tmp_path / "own")
    generate_keys(tmp_path / "other")
    made = sign_round(terms_of(["b", "a"]), tmp_path / "own.key")
    again = read_round(made.data, tmp_path / "own.pub")
    assert (again.terms, again.id) == (made.terms, made.id)
    with pytest.raises(SignatureError, match="another key"):
        read_round(made.data, tmp_path / "other.pub")
    for old, new in ((b'"Spring"', b'"Sprung"'), (b'"delta":0.000001', b'"delta":0.01')):
        assert old in made.data
        with pytest.raises(SignatureError):
            read_round(made.data.replace(old, new))
    for altered in (made.data + b" ", b"{}", made.data.replace(b'"version":1', b'"version":9')):
        with pytest.raises((CorruptFileError, UnsupportedFileError)):
            read_round(altered)


@pytest.mark.parametrize(
    "change",
    [
        {"closes": "2030-01-01T12:00"},
        {"closes": "soon"},
        {"enrolled": ("b", "a")},
        {"enrolled": ("a", "a")},
        {"method": "vote-table"},
        {"epsilon": 0.0},
        {"title": "two\nlines"},
        {"samples": 4},
    ],
)
def test_no_round_is_held_on_terms_that_cannot_be_kept(tmp_path, change):
    generate_keys(tmp_path / "own")
    with pytest.raises(ParameterError):
        sign_round(terms_of(["a", "b"], **change), tmp_path / "own.key")


def test_the_same_bytes_again_are_recognised_and_others_wait_for_a_withdrawal(held):
    first, second = part_of("north", 1), part_of("north", 2)
    answers = [held.ask("PUT", "north", body).status_code for body in (first, first, second)]
    assert answers == [201, 200, 409]
    assert held.ask("GET", "north").json()["state"] == "stored"
    assert held.ask("PUT", "north", b"nonsense").status_code == 409
    assert held.ask("DELETE", "north").status_code == 204
    assert held.ask("GET", "north").json()["state"] == "missing"
    assert held.ask("PUT", "north", second).status_code == 201
    assert held.store.close(held.made, AFTER) == [second]


def altered(**change) -> bytes:
    part = PartyContribution.load(part_of("north", 1))
    return encode_part(PartyContribution(**{**vars(part), **change}))


HOSTILE = {
    "damaged": lambda: part_of("north", 1)[:-1],
    "no party's": lambda: b"anything",
    "larger than": lambda: part_of("north", 1) + bytes(10**6),
    "other auxiliary rows": lambda: part_of("north", 1, auxiliary_rows(2)),
    "other classes": lambda: part_of("north", 1, classes=("yes", "no")),
    "another party": lambda: part_of("south", 1),
    "parameters, but this round needs operator": lambda: altered(statistic="parameters"),
    "another pipeline": lambda: altered(pipeline=f"sha256:{'1' * 64}"),
    "another grid": lambda: altered(grid="coarse"),
    "array has shape": lambda: altered(array=np.zeros((1, 3), dtype=np.int64)),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_what_does_not_fit_is_refused_with_the_reason_and_may_be_sent_anew(held, reason):
    response = held.ask("PUT", "north", HOSTILE[reason]())
    assert response.status_code == (413 if reason == "larger than" else 422)
    said = "not a party's contribution" if reason == "no party's" else reason
    assert said in response.json()["detail"]
    told = held.ask("GET", "north").json()
    assert told["state"] == "rejected"
    assert said in told["reason"]
    assert said in held.store.standings(held.made)["north"].reason
    # Nobody else hears of it, and the party may mend it.
    assert held.ask("GET", "south").json()["reason"] == ""
    assert held.ask("PUT", "north", part_of("north", 1)).status_code == 201
    assert held.store.standings(held.made)["north"] == ("stored", "")


def test_votes_decide_nothing_at_the_door(held):
    """An array that no votes give is stored like any other: the aggregator judges it alone."""
    absurd = altered(array=np.full((1, 4), 2**50))
    honest = held.ask("PUT", "south", part_of("south", 1))
    response = held.ask("PUT", "north", absurd)
    assert (
        (response.status_code, response.content)
        == (honest.status_code, honest.content)
        == (201, b"")
    )


def test_a_token_is_for_one_party_and_one_round(held):
    other = sign_round(
        terms_of(["north", "south", "west"], title="Summer"), held.folder / "clinic.key"
    )
    (held.folder / "summer.round").write_bytes(other.data)
    strange = held.open("summer.round")["north"]
    body = part_of("north", 1)
    for method in ("PUT", "GET", "DELETE"):
        place = f"/v1/rounds/{held.made.id}/part"
        assert ask(held.app, method, place, strange, body).status_code == 404
        nowhere = f"/v1/rounds/sha256:{'0' * 64}/part"
        token = held.tokens["north"]
        same = ask(held.app, method, nowhere, token, body)
        assert same.content == ask(held.app, method, place, strange, body).content
    assert held.ask("PUT", "south", body).status_code == 422
    assert held.ask("GET", "north").json()["state"] == "missing"
    another = held.run("token", held.folder, held.folder / "spring.round", "north").strip()
    assert held.ask("GET", another).json()["party"] == "north"
    assert "enrolled" in held.run(
        "token", held.folder, held.folder / "spring.round", "nobody", status=2
    )
    assert held.ask("GET", "north", path="parties").status_code == 403


def test_after_the_closing_time_nothing_is_taken_nor_withdrawn(held, monkeypatch):
    assert held.ask("PUT", "north", part_of("north", 1)).status_code == 201
    monkeypatch.setattr(doors, "utc_now", lambda: AFTER)
    assert held.ask("PUT", "north", part_of("north", 1)).status_code == 200  # known to be stored
    assert held.ask("PUT", "south", part_of("south", 1)).status_code == 410
    assert held.ask("DELETE", "north").status_code == 410
    assert held.ask("GET", "south").json()["reason"] == "it came after the closing time"
    assert held.ask("GET", "south").json()["round"] == "closed"
    listed = held.ask("GET", held.clinic.tokens["owner"], path="parties").json()
    assert [(row["party"], row["state"]) for row in listed] == [
        ("north", "stored"), ("south", "rejected"), ("west", "missing"),
    ]  # fmt: skip


def test_a_round_closes_in_its_time_or_when_all_have_sent(held):
    held.ask("PUT", "north", part_of("north", 1))
    with pytest.raises(ParameterError, match="open until"):
        held.store.close(held.made, BEFORE)
    for name in ("south", "west"):
        held.ask("PUT", name, part_of(name, 1))
    sent = held.store.close(held.made, BEFORE)
    assert [PartyContribution.load(data).party for data in sent] == ["north", "south", "west"]


def test_a_contribution_and_its_bytes_are_gone_once_they_are_released(held):
    body = part_of("north", 1)
    held.ask("PUT", "north", body)
    held.store.close(held.made, AFTER)
    assert held.ask("PUT", "north", body).status_code == 200
    assert held.ask("PUT", "south", part_of("south", 1)).status_code == 410
    held.store.forget(held.made)
    payload = body[-100:-32]
    stored = b"".join(path.read_bytes() for path in held.folder.glob("clinic.rounds*"))
    assert payload not in stored
    assert held.ask("PUT", "north", body).status_code == 410
    with pytest.raises(ParameterError, match="closes once"):
        held.store.close(held.made, AFTER)


def test_nothing_that_a_party_sends_is_in_a_log(held, caplog):
    body = part_of("north", 1)
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        for sent in (b"nonsense", body, body, b"nonsense"):
            held.ask("PUT", "north", sent)
    ours = [r for r in caplog.records if r.name.startswith(("suffice", "uvicorn"))]
    assert ours == []


def hostile_ones(held) -> None:
    """Let six parties do what they should not."""
    sizes, cut, rows, classes, replayed, stranger = NAMES[:6]
    assert held.ask("PUT", sizes, part_of(sizes, 0) + bytes(10**6)).status_code == 413
    assert held.ask("PUT", cut, part_of(cut, 0)[:200]).status_code == 422
    assert held.ask("PUT", rows, part_of(rows, 0, auxiliary_rows(2))).status_code == 422
    assert held.ask("PUT", classes, part_of(classes, 0, classes=("a", "b"))).status_code == 422
    assert held.ask("PUT", replayed, part_of(NAMES[7], 7)).status_code == 422
    assert held.ask("PUT", held.clinic.tokens["learner"], part_of(stranger, 0)).status_code == 403


def test_forty_parties_of_which_six_are_hostile_release_as_the_others_do(tmp_path, monkeypatch):
    held = Aggregator(tmp_path / "clinic", NAMES)
    rows = write_rows(tmp_path / "aux.csv")
    hostile_ones(held)
    (tmp_path / "parts").mkdir()
    for k, name in enumerate(NAMES[6:], 6):
        assert held.ask("PUT", name, part_of(name, k)).status_code == 201
        (tmp_path / "parts" / f"{name}.part").write_bytes(part_of(name, k))
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    monkeypatch.setattr("suffice.owner.ledger.tokens.utc_now", lambda: AFTER)
    with seeded("forty"):
        said = held.close(tmp_path / "sent.suffice", rows)
    for name, reason in zip(
        NAMES[:5],
        ("larger than", "damaged", "other auxiliary rows", "other classes", "another party"),
        strict=True,
    ):
        assert f"counted as zero: {name}: " in said
        assert reason in held.store.standings(held.made)[name].reason
    assert held.store.standings(held.made)[NAMES[5]] == ("missing", "")
    with seeded("forty"):
        done = CliRunner().invoke(commands, [
            "aggregate", str(tmp_path / "parts"), "--aux", str(rows), "--classes", "no,yes",
            "--enrolled", str(tmp_path / "names.txt"), "--epsilon", "1", "--delta", "1e-6",
            "--no-ledger", "-o", str(tmp_path / "files.suffice"),
            "--sign", str(held.folder / "clinic.key"),
        ])  # fmt: skip
    assert not done.exit_code, done.output
    assert (tmp_path / "sent.suffice").read_bytes() == (tmp_path / "files.suffice").read_bytes()
    verify(load(tmp_path / "sent.suffice"), held.folder / "clinic.pub")
    assert "closes once" in held.close(tmp_path / "again.suffice", rows, status=2)
    assert not (tmp_path / "again.suffice").exists()
    assert held.clinic.charges("parties") == 1


def test_a_closing_that_was_cut_short_goes_on_with_the_same_release(tmp_path, monkeypatch):
    held = Aggregator(tmp_path / "clinic", ["north", "south"])
    rows = write_rows(tmp_path / "aux.csv")
    other = write_rows(tmp_path / "other.csv", 2)
    for name in ("north", "south"):
        held.ask("PUT", name, part_of(name, 3))
    assert "not those of the round" in held.close(tmp_path / "out.suffice", other, status=2)
    assert held.store.round(held.made.id)[1] == "open"
    with monkeypatch.context() as patch:
        patch.setattr(rounds_module.RoundStore, "forget", lambda *_: 1 / 0)
        held.close(tmp_path / "out.suffice", rows, status=1)
    held.close(tmp_path / "again.suffice", rows)
    assert (tmp_path / "out.suffice").read_bytes() == (tmp_path / "again.suffice").read_bytes()
    assert held.clinic.charges("parties") == 1


def test_what_others_see_does_not_depend_on_a_partys_votes(tmp_path):
    """The same round twice; the votes of one party differ."""
    seen = []
    for seed in (1, 2):
        held = Aggregator(tmp_path / f"clinic{seed}", ["north", "south", "west"])
        strange = held.clinic.tokens["learner"]
        answers = [
            held.ask("PUT", "south", part_of("south", 5)),
            held.ask("PUT", "north", part_of("north", seed)),
            held.ask("GET", "north"),
            held.ask("PUT", "south", part_of("south", 5)),
            held.ask("GET", "south"),
            held.ask("GET", "west"),
            held.ask("GET", held.clinic.tokens["owner"], path="parties"),
            held.ask("GET", strange),
            held.ask("GET", "no token"),
            ask(held.app, "GET", f"/rounds/{held.made.id}", "none"),
        ]
        seen.append([(a.status_code, sorted(a.headers.items()), a.content) for a in answers])
    assert seen[0] == seen[1]


def test_a_stranger_learns_nothing_of_a_round_from_its_page(held):
    real = ask(held.app, "GET", f"/rounds/{held.made.id}", "none")
    invented = ask(held.app, "GET", f"/rounds/sha256:{'0' * 64}", "none")
    assert real.content == invented.content
    assert b"Spring" not in real.content


def test_large_votes_fit_because_the_limit_follows_from_the_shape(tmp_path):
    """Bodies above 1 MiB are refused elsewhere."""
    classes = tuple(range(11))
    form = PartForm(
        "votes", f"sha256:{'1' * 64}", f"sha256:{'2' * 64}", "grid", classes, (60_000, 11)
    )
    held = Aggregator(tmp_path / "clinic", ["north"], method="vote-table", part=form)
    votes = np.zeros((60_000, 11), dtype=np.int64)
    votes[:, 3] = 256
    data = encode_part(
        PartyContribution("north", "votes", votes, form.rows, form.pipeline, form.grid, classes)
    )
    assert 2**20 < len(data) == held.made.most_bytes / 2
    assert held.ask("PUT", "north", data).status_code == 201


def test_parties_contribute_from_the_command_line(tmp_path):
    """Two calls, as with files, and a courier between them."""
    held = Aggregator(tmp_path / "clinic", ["north", "south"])
    rows = write_rows(tmp_path / "aux.csv")
    votes = pa.table({"vote": votes_of(4)})
    pa_csv.write_csv(votes, tmp_path / "votes.csv")
    with running(held.clinic) as (url, _):
        made = sign_round(terms_of(["north", "south"], url), held.folder / "clinic.key")
        (held.folder / "near.round").write_bytes(made.data)
        token = held.open("near.round")["north"]
        (tmp_path / "token").write_text(token)

        def contribute(*more: str, key: str = "clinic.pub"):
            return CliRunner().invoke(commands, [
                "contribute", str(tmp_path / "votes.csv"), "--votes-column", "vote",
                "--aux", str(rows), "-o", str(tmp_path / "north.part"), "--force",
                "--to", str(held.folder / "near.round"), "--token", str(tmp_path / "token"),
                "--key", str(held.folder / key), *more,
            ])  # fmt: skip

        for _ in range(2):
            done = contribute()
            assert not done.exit_code, done.exception
        assert held.store.standings(made)["north"].state == "stored"
        assert held.store.standings(made)["south"].state == "missing"
        assert "--classes cannot be used" in str(contribute("--classes", "0,1").exception)
        generate_keys(held.folder / "other")
        assert isinstance(contribute(key="other.pub").exception, SignatureError)
        write_rows(tmp_path / "aux.csv", 2)
        assert "other auxiliary rows" in str(contribute().exception)
        remote = Remote(url, token)
        with pytest.raises(ServiceError, match="Withdraw"):
            remote.contribute(made, part_of("north", 9))
        withdrawn = CliRunner().invoke(commands, [
            "round", "withdraw", str(held.folder / "near.round"), "--key",
            str(held.folder / "clinic.pub"), "--token", str(tmp_path / "token"),
        ])  # fmt: skip
        assert not withdrawn.exit_code, withdrawn.exception
        assert held.store.standings(made)["north"].state == "missing"
        remote.contribute(made, part_of("north", 9))
    assert held.store.standings(made)["north"].state == "stored"


def test_what_was_acknowledged_survives_a_server_that_is_killed(tmp_path):
    """Kill -9 in the middle; parties send again what they are not sure of."""
    held = Aggregator(tmp_path / "clinic", NAMES)
    place = f"/v1/rounds/{held.made.id}/part"
    acknowledged, unsure = [], []

    def send_all(client, names, process=None) -> None:
        for k, name in enumerate(names):
            if process is not None and k == len(names) // 2:
                process.send_signal(signal.SIGKILL)
            try:
                headers = {"Authorization": f"Bearer {held.tokens[name]}"}
                response = client.put(place, content=part_of(name, 1), headers=headers)
                assert response.status_code in (200, 201)
                acknowledged.append(name)
            except httpx.HTTPError:
                unsure.append(name)

    with running(held.clinic) as (url, process), httpx.Client(base_url=url, timeout=60) as client:
        send_all(client, NAMES, process)
    assert unsure
    stored = {n for n, s in held.store.standings(held.made).items() if s.state == "stored"}
    assert set(acknowledged) <= stored
    with running(held.clinic) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        send_all(client, list(unsure))
    sent = [PartyContribution.load(data).party for data in held.store.close(held.made, AFTER)]
    assert sent == NAMES


def test_a_round_in_a_database_is_like_one_in_a_file(tmp_path, postgres_url):
    place = f"{postgres_url}#rounds_{random.getrandbits(60):x}"
    held = Aggregator(tmp_path / "clinic", ["north", "south"], place)
    body = part_of("north", 1)
    answers = [held.ask("PUT", "north", sent).status_code for sent in (body, body, body + b" ")]
    assert answers == [201, 200, 409]
    assert held.ask("DELETE", "north").status_code == 204
    assert held.ask("PUT", "north", b"nonsense").status_code == 422
    assert held.ask("PUT", "south", body).status_code == 422
    assert held.ask("PUT", "north", body).status_code == 201
    assert held.store.close(held.made, AFTER) == [body]
    held.store.forget(held.made)
    assert [stands.state for stands in held.store.standings(held.made).values()] == [
        "stored", "rejected",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="closes once"):
        held.store.close(held.made, AFTER)
