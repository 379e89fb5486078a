"""Two people have to agree where a data set says so: never one person twice, and never a token."""

import asyncio
import json
import sqlite3
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import Response
from in_process import settle_all
from served import make_clinic

from suffice.errors import LedgerError, ParameterError
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import mint
from suffice.service.app import make_app
from suffice.service.auth import Sessions
from suffice.service.oversight import entry_words
from suffice.service.problems import Problem
from suffice.service.records import State
from suffice.service.settings import Settings
from suffice.service.workers import Approval, Rejection, Service

SIGN_IN = """
[sign_in]
issuer = "https://login.example"
client_id = "suffice"
address = "https://clinic.example"
"""
PERSON = """
[[sign_in.people]]
issuer = "https://login.example"
subject = "{subject}"
name = "{name}"
role = "owner"
"""


GRANT = Approval(grant=True)


def write_settings(folder, people: dict[str, str]) -> Settings:
    path = folder / "suffice.toml"
    text = path.read_text().split("\n[sign_in]")[0]
    if "approvers" not in text:
        text = text.replace('grants = "by-hand"', 'grants = "by-hand"\napprovers = 2')
    people_text = "".join(PERSON.format(subject=s, name=n) for s, n in people.items())
    path.write_text(text + SIGN_IN + people_text)
    return Settings.load(folder)


def signed_in_as(service: Service, subject: str):
    """Return the token of a new session of somebody who came from the provider."""
    person = next(p for p in service.settings.sign_in.people if p.subject == subject)
    Sessions(service.settings, service.records).begin_for(person, Response())
    return service.records.tokens()[-1]


@pytest.fixture
def waiting(tmp_path):
    """Return a service whose data set needs two people, and a proposal that waits for them."""
    clinic = make_clinic(tmp_path / "clinic")
    settings = write_settings(clinic.folder, {"1": "Ada", "2": "Ben"})
    proposal = clinic.proposal("for two")
    settle_all(clinic, {"smoker": [proposal]})
    service = Service(settings)
    return clinic, service, proposal.digest


def decided(service: Service, digest: str, by, choice: Any = GRANT) -> State:
    service.decide(service.records.proposal("smoker", digest), choice, by)
    return service.records.proposal("smoker", digest).state


def test_two_people_who_sign_in_grant_and_the_log_names_both(waiting):
    clinic, service, digest = waiting
    assert decided(service, digest, signed_in_as(service, "1")) is State.WAITING
    assert decided(service, digest, signed_in_as(service, "2")) is State.APPROVED
    entries = [entry for entry in clinic.ledger.log() if entry.kind == Kind.DECISION]
    assert [entry.facts["decision"] for entry in entries] == ["agreed", "granted"]
    assert "1 of https" in entries[0].facts["by"]
    assert "2 of https" in entries[1].facts["by"]
    assert "agreed by" in entry_words(entries[0])


def test_one_person_who_signs_in_twice_is_one_person(waiting):
    clinic, service, digest = waiting
    decided(service, digest, signed_in_as(service, "1"))
    with pytest.raises(Problem, match="agreed already"):
        decided(service, digest, signed_in_as(service, "1"))
    renamed = Service(write_settings(clinic.folder, {"1": "Ada Example", "2": "Ben"}))
    with pytest.raises(Problem, match="agreed already"):
        decided(renamed, digest, signed_in_as(renamed, "1"))
    assert service.records.proposal("smoker", digest).state is State.WAITING
    assert clinic.charges("smoker") == 0


def test_no_token_agrees_neither_the_first_nor_one_that_the_first_made(waiting):
    clinic, service, digest = waiting
    emergency = service.records.token(clinic.tokens["owner"].split("_")[1])
    with pytest.raises(Problem, match="A token does not"):
        decided(service, digest, emergency)
    first = signed_in_as(service, "1")
    decided(service, digest, first)
    made, _ = mint("owner", holder="Ben, 2 of https://login.example")
    service.records.add_token(made)
    for token in (made, emergency):
        with pytest.raises(Problem, match="A token does not"):
            decided(service, digest, token)
    with pytest.raises(ParameterError, match="Who signs in"):
        mint("owner", holder=first.holder)
    assert service.records.proposal("smoker", digest).state is State.WAITING


def test_who_agreed_is_read_off_the_log_that_was_checked(waiting):
    clinic, service, digest = waiting
    decided(service, digest, signed_in_as(service, "1"))
    with sqlite3.connect(clinic.place) as db:
        db.execute("UPDATE log SET body = replace(body, '1 of', '3 of') WHERE kind = 'decision'")
    again = signed_in_as(service, "1")
    with pytest.raises(LedgerError, match="altered"):
        decided(Service(service.settings), digest, again)


def test_one_refusal_is_final(waiting):
    _, service, digest = waiting
    decided(service, digest, signed_in_as(service, "1"))
    refusal = Rejection(grant=False, reason="not now")
    assert decided(service, digest, signed_in_as(service, "2"), refusal) is State.ANSWERED
    with pytest.raises(Problem, match="does not wait"):
        decided(service, digest, signed_in_as(service, "2"))


def test_settings_with_two_approvers_name_two_people(tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    with pytest.raises(ParameterError, match="two owners"):
        write_settings(clinic.folder, {"1": "Ada"})
    settings = write_settings(clinic.folder, {"1": "Ada", "2": "Ben"})
    served = settings.datasets["smoker"]
    with pytest.raises(ParameterError, match="by hand"):
        replace(served, grants="automatic")
    officers = tuple(replace(p, role="officer") for p in settings.sign_in.people)
    with pytest.raises(ParameterError, match="two owners"):
        replace(settings, sign_in=replace(settings.sign_in, people=officers))


def test_nobody_agrees_over_the_interface_of_programs(waiting):
    clinic, service, digest = waiting

    async def visit() -> httpx.Response:
        transport = httpx.ASGITransport(app=make_app(service.settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            headers = {"Authorization": f"Bearer {clinic.tokens['owner']}"}
            place = f"/v1/datasets/smoker/proposals/{digest}/decision"
            return await client.post(place, content=json.dumps({"grant": True}), headers=headers)

    assert asyncio.run(visit()).status_code == 403
