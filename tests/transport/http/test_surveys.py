"""Doors for people: what they take, what they refuse, and what nobody writes down."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from in_process import ask
from people import ABOUT, SURVEY, answers_in, asking_clinic, body_of, sheet_of
from served import running

from suffice.errors import ParameterError
from suffice.owner.answers import new_invitations
from suffice.service.app import make_app
from suffice.service.operation import COUNTS
from suffice.service.settings import Settings
from suffice.service.surveys import Door

PLACE = f"/v1/surveys/{SURVEY.id}"
CONNECTIONS = 64


@pytest.fixture
def asked(tmp_path):
    clinic, store, invitations = asking_clinic(tmp_path / "clinic", 8)
    return make_app(Settings.load(clinic.folder)), store, invitations


def post(app, body: bytes):
    return ask(app, "POST", f"{PLACE}/answers", "none", body)


def test_the_survey_comes_byte_by_byte(asked):
    app, _, _ = asked
    response = ask(app, "GET", PLACE, "none")
    assert response.content == SURVEY.data
    assert ask(app, "GET", f"/v1/surveys/sha256:{'0' * 64}", "none").status_code == 404
    assert ask(app, "GET", f"/surveys/sha256:{'0' * 64}", "none").status_code == 404


def test_the_same_answer_again_is_recognised_and_another_is_not_taken(asked):
    app, store, (invitation, *_) = asked
    body = body_of(invitation, sheet_of())
    assert post(app, body).status_code == 201
    assert post(app, body).status_code == 200
    assert post(app, body_of(invitation, sheet_of())).status_code == 409
    assert post(app, body_of(invitation, sheet_of(), "4d" * 16)).status_code == 409
    (stranger,) = new_invitations(1)
    assert post(app, body_of(stranger, sheet_of())).status_code == 404
    assert answers_in(store) == 1
    store.close(SURVEY.id)
    assert post(app, body).status_code == 410


def test_the_door_of_a_crowd_answers_as_the_route_does(asked):
    """The first answer comes in by the route, later ones by a door: guarded in the same way."""
    app, _, invitations = asked
    bodies = (b"nonsense", body_of(invitations[0], sheet_of()), b"{}")
    first, second, third = (post(app, body) for body in bodies)
    assert set(app.door.places) == {f"{PLACE}/answers"}
    assert [r.status_code for r in (first, second, third)] == [422, 201, 422]
    assert first.content == third.content
    assert first.headers == third.headers
    assert first.headers.items() - second.headers.items() == {
        ("content-type", "application/problem+json"),
        ("content-length", first.headers["content-length"]),
    }
    app.door.store._db.close()  # as when the disk fails
    broken = post(app, bodies[1])
    assert (broken.status_code, broken.headers["retry-after"]) == (503, "2")


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {**body, "more": 1},
        lambda body: {**body, "r": "3C" * 16},
        lambda body: {**body, "invitation": "ab"},
        lambda body: {**body, "answer": json.loads(body["answer"])},
        lambda body: {**body, "answer": body["answer"].replace('"relapse": "', '"relapse": "o')},
        lambda body: {**body, "answer": body["answer"].replace(SURVEY.id, "sha256:" + "0" * 64)},
        lambda body: [body],
        lambda body: {name: body[name] for name in ("r", "answer")},
    ],
)
def test_what_is_no_answer_is_refused_and_not_repeated(asked, change):
    app, store, (invitation, *_) = asked
    body = json.loads(body_of(invitation, sheet_of()))
    response = post(app, json.dumps(change(body)).encode())
    assert response.status_code == 422
    assert response.json()["detail"] == "This is not an answer to this survey."
    assert answers_in(store) == 0


def test_limits_are_by_invitation_and_never_by_address(asked, monkeypatch):
    monkeypatch.setattr(Door, "tries_per_minute", 3)
    monkeypatch.setattr(Door, "answers_per_minute", 2)
    _, store, invitations = asked
    app = make_app(Settings.load(Path(store.place).parent))
    first, *others = invitations
    body = body_of(first, sheet_of())
    assert [post(app, body).status_code for _ in range(4)] == [201, 200, 200, 429]
    guesses = [post(app, body_of(g, sheet_of())).status_code for g in new_invitations(4)]
    assert guesses == [404, 404, 429, 429]
    # From the same address, everybody else who is invited still answers.
    assert {post(app, body_of(one, sheet_of())).status_code for one in others} == {201}


def test_an_open_survey_is_limited_by_survey(tmp_path, monkeypatch):
    monkeypatch.setattr(Door, "answers_per_minute", 3)
    clinic, store, _ = asking_clinic(tmp_path / "clinic", None)
    app = make_app(Settings.load(clinic.folder))
    codes = [post(app, body_of(one, sheet_of())).status_code for one in new_invitations(4)]
    assert codes == [201, 201, 201, 429]
    assert answers_in(store) == 3


def test_nothing_is_logged_or_counted_about_people(asked, caplog):
    app, _, (invitation, *_) = asked
    before = COUNTS.text([])
    with caplog.at_level(logging.DEBUG):
        for body in (body_of(invitation, sheet_of()), body_of(invitation, sheet_of()), b"nonsense"):
            post(app, body)
        ask(app, "GET", PLACE, "none")
        ask(app, "GET", f"/surveys/{SURVEY.id}", "none")
    assert COUNTS.text([]) == before
    ours = [r for r in caplog.records if r.name.startswith(("suffice", "uvicorn"))]
    assert ours == []
    ask(app, "GET", "/health", "none")
    assert COUNTS.text([]) != before


def test_the_list_of_surveys_counts_in_steps_of_ten(tmp_path):
    clinic, store, invitations = asking_clinic(tmp_path / "clinic", 30)
    app = make_app(Settings.load(clinic.folder))
    for one in invitations[:13]:
        post(app, body_of(one, sheet_of()))

    async def read() -> str:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            assert (await client.get("/surveys")).status_code == 303
            signed = await client.post("/login", data={"token": clinic.tokens["owner"]})
            assert signed.status_code == 303
            return (await client.get("/surveys")).text

    page = asyncio.run(read())
    assert "10 or more" in page
    assert ">13" not in page
    store.close(SURVEY.id)
    assert ">13" in asyncio.run(read())


# --- crowds, with a real server


async def answer_all(url: str, bodies: list[bytes]) -> list[int]:
    """Send all answers over 64 connections from one address; 0 stands for a lost connection."""
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:

        async def send(body: bytes) -> int:
            headers = {"Content-Type": "application/json"}
            try:
                response = await client.post(f"{PLACE}/answers", content=body, headers=headers)
            except httpx.TransportError:
                return 0
            return response.status_code

        return await asyncio.gather(*map(send, bodies))


@pytest.mark.parametrize("kind", ["file", "postgresql"])
def test_a_crowd_from_one_address_and_a_killed_server(tmp_path, kind, request):
    place = None
    if kind == "postgresql":
        place = f"{request.getfixturevalue('postgres_url')}#crowd"
    people = 300
    clinic, store, invitations = asking_clinic(tmp_path / "clinic", people, place=place)
    sheet = sheet_of()
    bodies = [body_of(one, sheet) for one in invitations]
    with running(clinic) as (url, process):

        async def kill() -> None:
            while answers_in(store) < people // 4:  # noqa: ASYNC110  # another process writes
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGKILL)

        async def both() -> list[int]:
            codes, _ = await asyncio.gather(answer_all(url, bodies), kill())
            return codes

        codes = asyncio.run(both())
        process.wait()
    acknowledged = [one for one, code in zip(invitations, codes, strict=True) if code]
    assert {code for code in codes if code} == {201}
    assert 0 < len(acknowledged) < people
    assert not set(store.unused(SURVEY.id, acknowledged)) & set(acknowledged)  # none lost
    with running(clinic) as (url, _):
        again = asyncio.run(answer_all(url, bodies))
    assert {again[invitations.index(one)] for one in acknowledged} == {200}
    assert set(again) == {200, 201}  # no 429
    assert answers_in(store) == people  # none twice


# --- the commands


def suffice(*words: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "suffice", "survey", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_an_organiser_opens_reminds_closes_and_releases(tmp_path):
    clinic, store, _ = asking_clinic(tmp_path / "clinic", 1, survey=other_survey())
    survey, links = tmp_path / "survey.json", tmp_path / "links.csv"
    survey.write_bytes(SURVEY.data)
    opened = ("open", clinic.folder, survey, "--address", "https://clinic.example/")
    assert "--invitations" in suffice(*opened, code=2)
    suffice(*opened, "--invitations", 20, "-o", links)
    rows = [line.split(",") for line in links.read_text().splitlines()[1:]]
    assert len(rows) == 20
    assert {
        link for one, link in rows if link == f"https://clinic.example/surveys/{SURVEY.id}#{one}"
    }
    app = make_app(Settings.load(clinic.folder))
    for one, _ in rows[:12]:
        assert post(app, body_of(one, sheet_of())).status_code == 201
    assert " 10" in suffice("status", clinic.folder)
    unused = suffice("status", clinic.folder, "--invitations", links).split()
    assert unused == [link for _, link in rows[12:]]
    release = tmp_path / "people.suffice"
    assert "per record" in suffice("close", clinic.folder, survey, "-o", release)
    with pytest.raises(ParameterError, match="deleted"):
        answers_in(store)
    assert "deleted" in suffice("close", clinic.folder, survey, "-o", tmp_path / "b", code=2)
    from suffice.releases.codec import load

    assert load(release).rows == 12
    assert load(release).signature is not None


def other_survey():
    from suffice.owner.survey import new_survey

    return new_survey("Another one", states={"a": ["no", "yes"]}, flip=0.3, about=ABOUT)
