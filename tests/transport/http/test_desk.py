"""An owner adds a data set and raises its budget on a page: what it shows, takes and refuses."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from html import escape, unescape

import httpx
import numpy as np
import pyarrow as pa
import pytest
from every_kind import PART, make_every_kind, proposals, sheet, table_of
from fastapi import Response
from in_process import ask
from test_second_approver import PERSON, SIGN_IN

from suffice.cli.starting import Project
from suffice.errors import BudgetError
from suffice.owner.ledger.log import Kind
from suffice.owner.ledger.tokens import mint
from suffice.privacy.guarantee import Budget, Unit
from suffice.service import auth
from suffice.service.app import make_app
from suffice.service.auth import Sessions
from suffice.service.settings import Settings
from suffice.service.workers import Service

FRESH = "budget = { epsilon = 2.0, delta = 1e-5 }\napprovers = 2"
OPEN = {"epsilon": "2", "delta": "1e-5", "decision": "agree", "reason": "the study begins"}
RAISE = {"epsilon": "5", "decision": "agree", "reason": "the study goes on"}


def desk_clinic(
    folder, table: pa.Table | None = None, *, key: bytes | None = None, two: bool = False
):
    """Make a clinic with a data set fresh that nobody opened; two owners decide where asked."""
    clinic = make_every_kind(folder, table, "by-hand", key)
    text = (folder / "suffice.toml").read_text()
    text += PART.format(name="fresh", kinds='"moments"', grants="by-hand", more="")
    (folder / "fresh.json").write_text(json.dumps(sheet(public=False)))
    if two:
        text = text.replace('grants = "by-hand"', 'grants = "by-hand"\napprovers = 2')
        text = text.replace(
            '"fresh.json"', '"fresh.json"\nbudget = { epsilon = 2.0, delta = 1e-5 }'
        )
        people = {"1": "Ada", "2": "Ben"}
        text += SIGN_IN + "".join(PERSON.format(subject=s, name=n) for s, n in people.items())
    (folder / "suffice.toml").write_text(text)
    return clinic


class Desk:
    """Somebody's browser, without a server: it keeps the cookie and the token of its forms."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path)

    async def post(self, path: str, **fields: str) -> httpx.Response:
        page = await self.client.get("/")
        csrf = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
        return await self.client.post(path, data={"csrf": csrf, **fields})


@asynccontextmanager
async def desk_of(clinic, app, who: str):
    """Yield the desk of a token's holder, or of a person who came from the provider."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="https://clinic.example"
    ) as client:
        if who in clinic.tokens or who.startswith("suffice_"):
            given = {"token": clinic.tokens.get(who, who)}
            assert (await client.post("/login", data=given)).status_code == 303
        else:
            settings = Settings.load(clinic.folder)
            person = next(p for p in settings.sign_in.people if p.name == who)
            response = Response()
            Sessions(settings, clinic.records).begin_for(person, response)
            client.headers["cookie"] = response.headers["set-cookie"].split(";")[0]
        yield Desk(client)


def visit(clinic, *steps):
    """Return what happens at each step: (who, path) or (who, path, fields)."""
    app = make_app(Settings.load(clinic.folder))

    async def walk() -> list[httpx.Response]:
        found = []
        for who, path, *fields in steps:
            async with desk_of(clinic, app, who) as desk:
                found.append(await (desk.post(path, **fields[0]) if fields else desk.get(path)))
        return found

    return asyncio.run(walk())


def budget_of(clinic, dataset: str) -> Budget | None:
    found = [b.budget for b in clinic.ledger.balances() if b.dataset == dataset]
    return next(iter(found), None)


@pytest.fixture
def clinic(tmp_path):
    return desk_clinic(tmp_path / "clinic")


@pytest.fixture
def two(tmp_path):
    return desk_clinic(tmp_path / "clinic", two=True)


def text_of(response: httpx.Response) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", "", response.text)))


def test_an_owner_adds_a_data_set_and_sees_it_all_before(clinic):
    home, page, before, done, after, listed = visit(
        clinic,
        ("owner", "/"),
        ("owner", "/data/fresh/budget"),
        ("owner", "/data/fresh/budget?epsilon=2&delta=1e-5"),
        ("owner", "/data/fresh/budget", OPEN),
        ("owner", "/data/fresh"),
        ("learner", "/"),
    )
    assert "Add fresh" in text_of(home)
    for words in (
        "0, 1",
        "age",
        "north, south, west",
        "-4 to 4",
        "known beforehand",
        "each record",
    ):
        assert words in text_of(page)
    assert "epsilon 2 at delta 1e-5 per record" in text_of(before)
    assert "Protects each record" in text_of(before)
    assert "any result of all releases together would be at most 7.39 times" in text_of(before)
    assert budget_of(clinic, "fresh") == Budget(2.0, 1e-5)
    assert clinic.ledger.classes("fresh", "diagnosis") == (0, 1)
    assert done.headers["location"] == "/data/fresh"
    assert "opened with epsilon 2" in after.text
    assert "fresh" in text_of(listed)
    entry = next(e for e in clinic.ledger.log() if e.kind == Kind.DECISION)
    assert entry.facts["by"] == "the owner"
    assert entry.facts["reason"] == "the study begins"


def test_an_owner_raises_a_budget_and_learners_are_told(clinic):
    before, done, balance, log = visit(
        clinic,
        ("owner", "/data/labels/budget?epsilon=5"),
        ("owner", "/data/labels/budget", RAISE),
        ("learner", "/ask/labels"),
        ("officer", "/log"),
    )
    assert (
        "Now: epsilon 4 per label, of which 0 is spent. Then: epsilon 5 at delta 0.0001"
        in text_of(before)
    )
    assert done.headers["location"] == "/data/labels"
    assert budget_of(clinic, "labels") == Budget(5.0, 1e-4)
    assert "5 is left" in text_of(balance)
    assert "granted by 'the owner': 'the study goes on'" in text_of(log).replace('"', "'")


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ("/data/labels/budget", {"epsilon": "4"}, "never lowered"),
        ("/data/labels/budget", {"epsilon": "1"}, "never lowered"),
        ("/data/labels/budget", {"epsilon": "nan"}, "epsilon"),
        ("/data/labels/budget", {"epsilon": "inf"}, "epsilon"),
        ("/data/labels/budget", {"epsilon": "much"}, "are numbers"),
        ("/data/labels/budget", {"reason": ""}, "Say why"),
        ("/data/labels/budget", {"reason": "x" * 501}, "Say why"),
        ("/data/labels/budget", {"reason": "two\nlines"}, "Say why"),
        ("/data/fresh/budget", {"epsilon": "0"}, "epsilon"),
        ("/data/fresh/budget", {"delta": "0.2"}, "delta"),
    ],
)
def test_what_is_no_raise_changes_nothing(clinic, path, change, words):
    before = clinic.ledger.balances()
    (answer,) = visit(clinic, ("owner", path, RAISE | change))
    assert answer.status_code == 409
    assert words in text_of(answer)
    assert clinic.ledger.balances() == before


@pytest.mark.parametrize(
    "field",
    [{"table": "/etc/passwd"}, {"query": "SELECT 1"}, {"sheet": "postgresql://db/clinic"},
     {"delta": "0.01"}, {"unit": "party"}, {"label": "secret"}, {"approvers": "1"}],
)  # fmt: skip
def test_the_page_takes_an_epsilon_and_a_reason_and_nothing_else(clinic, field):
    visit(clinic, ("owner", "/data/labels/budget", RAISE | field))
    assert budget_of(clinic, "labels") == Budget(5.0, 1e-4)
    assert Settings.load(clinic.folder).datasets.keys() == {"labels", "records", "people", "fresh"}


@pytest.mark.parametrize("name", ["nothing", "../etc/passwd", "%2Fetc%2Fpasswd", "table.csv"])
def test_only_data_sets_of_the_settings_are_added(clinic, name):
    for answer in visit(
        clinic, ("owner", f"/data/{name}/budget"), ("owner", f"/data/{name}/budget", OPEN)
    ):
        assert answer.status_code in (404, 405)
    assert budget_of(clinic, name) is None


def test_others_than_owners_change_no_budget(clinic):
    narrow = clinic.new_token("owner", ("labels",))
    seen = visit(
        clinic,
        ("officer", "/data/labels/budget"),
        ("officer", "/data/labels/budget", RAISE),
        ("learner", "/data/labels/budget"),
        ("learner", "/data/labels/budget", RAISE),
        (narrow, "/data/fresh/budget"),
        (narrow, "/data/fresh/budget", OPEN),
        (narrow, "/"),
    )
    assert [answer.status_code for answer in seen] == [200, 403, 403, 403, 404, 404, 200]
    assert "fresh" not in text_of(seen[-1])
    assert "Show what that means" not in text_of(seen[0])
    assert budget_of(clinic, "labels") == Budget(4.0, 1e-4)


def test_an_owner_of_one_data_set_makes_and_ends_no_token(clinic):
    held = clinic.new_token("owner", ("fresh",))
    ended = clinic.tokens["learner"].split("_")[1]
    before = {(token.id, token.revoked) for token in clinic.records.tokens()}
    fields = {"holder": "Eve", "role": "owner", "days": "9", "scope": ""}
    answers = visit(
        clinic,
        (held, "/tokens"),
        (held, "/tokens", fields),
        (held, "/tokens", {**fields, "scope": "fresh"}),
        (held, f"/tokens/{ended}/revoke", {}),
    )
    assert [answer.status_code for answer in answers] == [403] * 4
    assert {(token.id, token.revoked) for token in clinic.records.tokens()} == before


def test_a_session_of_a_token_ends_with_the_working_day(clinic, monkeypatch):
    """The token itself is good for months."""
    now = auth.utc_now

    async def walk() -> list[int]:
        codes = []
        async with desk_of(clinic, make_app(Settings.load(clinic.folder)), "owner") as desk:
            for hours in (7.9, 8.1):
                monkeypatch.setattr(auth, "utc_now", lambda h=hours: now() + timedelta(hours=h))
                codes.append((await desk.get("/")).status_code)
        return codes

    assert asyncio.run(walk()) == [200, 303]


def test_what_others_wrote_is_text_on_every_page(clinic):
    """Holders of tokens are named by an owner, and purposes are what learners say."""
    hostile = "<script>alert(1)</script>"
    token, _ = mint("learner", holder=hostile)
    clinic.records.add_token(token)
    app = make_app(Settings.load(clinic.folder))
    dataset, proposal = "labels", proposals(clinic, "labels", hostile)[0]
    place, learner = f"/v1/datasets/{dataset}/proposals", clinic.tokens["learner"]
    sent = ask(app, "POST", place, learner, proposal.encode())
    assert sent.status_code == 202, sent.text
    paths = ("/", "/tokens", "/report", "/log", f"/data/{dataset}/{proposal.digest}")
    pages = visit(clinic, *(("owner", path) for path in paths))
    assert [page.status_code for page in pages] == [200] * len(paths)
    assert not any(hostile in page.text for page in pages)
    shown = [path for path, page in zip(paths, pages, strict=True) if escape(hostile) in page.text]
    assert {"/", "/tokens", paths[-1]} <= set(shown)


def test_a_form_from_elsewhere_raises_nothing(clinic):
    async def send() -> list[int]:
        async with desk_of(clinic, make_app(Settings.load(clinic.folder)), "owner") as desk:
            client = desk.client
            bare = await client.post("/data/labels/budget", data=RAISE)
            csrf = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/")).text)[1]
            elsewhere = await client.post(
                "/data/labels/budget",
                data={"csrf": csrf, **RAISE},
                headers={"sec-fetch-site": "cross-site"},
            )
            return [bare.status_code, elsewhere.status_code]

    assert asyncio.run(send()) == [403, 403]
    assert budget_of(clinic, "labels") == Budget(4.0, 1e-4)


def test_what_is_not_open_is_nothing_for_learners_and_programs(clinic):
    proposal = clinic.proposal("early").encode()
    app = make_app(Settings.load(clinic.folder))
    for token in (clinic.tokens["learner"], clinic.tokens["owner"]):
        for path in ("/v1/datasets/{}/balance", "/v1/datasets/{}/proposals", "/v1/datasets/{}/log"):
            for name in ("fresh", "nothing"):
                answer = ask(app, "GET", path.format(name), token)
                assert answer.status_code in (403, 404)
        assert ask(app, "POST", "/v1/datasets/fresh/proposals", token, proposal).status_code == 404
        assert b"fresh" not in ask(app, "GET", "/v1/datasets", token).content
    assert b'"fresh"' not in ask(app, "GET", "/v1/export", clinic.tokens["owner"]).content
    seen = visit(clinic, ("learner", "/ask/fresh"), ("owner", "/data/fresh"), ("owner", "/report"))
    assert [answer.status_code for answer in seen] == [404, 404, 200]


# --- two people


def test_two_people_open_and_raise_and_no_token_does(two):
    path = "/data/fresh/budget"
    assert "A token does not" in text_of(visit(two, ("owner", path, OPEN))[0])
    first, again, shown, home = visit(
        two, ("Ada", path, OPEN), ("Ada", path, OPEN), ("Ben", path), ("officer", "/")
    )
    assert first.headers["location"] == path
    assert "agreed already" in text_of(again)
    assert "Ada" in text_of(shown)
    assert "the study begins" in text_of(shown)
    assert "epsilon 2 at delta 1e-5 per record" in text_of(shown)
    assert "waiting for a second person" in text_of(home)
    assert budget_of(two, "fresh") is None
    made, text = mint("owner", holder="Ben, 2 of https://login.example")
    two.records.add_token(made)
    (token,) = visit(two, (text, path, OPEN))
    assert token.status_code == 409
    assert budget_of(two, "fresh") is None
    other, done = visit(two, ("Ben", path, OPEN | {"epsilon": "3"}), ("Ben", path, OPEN))
    assert (other.headers["location"], done.headers["location"]) == (path, "/data/fresh")
    assert budget_of(two, "fresh") == Budget(2.0, 1e-5)
    raised = RAISE | {"epsilon": "4"}
    visit(two, ("Ben", path, raised))
    assert budget_of(two, "fresh") == Budget(2.0, 1e-5)
    visit(two, ("Ada", path, raised))
    assert budget_of(two, "fresh") == Budget(4.0, 1e-5)
    facts = [e.facts for e in two.ledger.log() if e.kind == Kind.DECISION]
    decided = [(f["decision"], f["by"].split(", ")[1].split()[0]) for f in facts]
    assert decided == [
        ("agreed", "1"),
        ("agreed", "2"),
        ("granted", "2"),
        ("agreed", "2"),
        ("granted", "1"),
    ]


def test_where_an_owner_can_sign_in_no_token_raises_a_budget(tmp_path):
    clinic = desk_clinic(tmp_path / "clinic")
    path = clinic.folder / "suffice.toml"
    path.write_text(path.read_text() + SIGN_IN + PERSON.format(subject="1", name="Ada"))
    refused, shown, done = visit(
        clinic,
        ("owner", "/data/labels/budget", RAISE),
        ("owner", "/data/labels/budget?epsilon=5"),
        ("Ada", "/data/labels/budget", RAISE),
    )
    assert "A token does not" in text_of(refused)
    assert "cannot agree" in text_of(shown)
    assert done.headers["location"] == "/data/labels"
    assert budget_of(clinic, "labels") == Budget(5.0, 1e-4)


def test_one_refusal_ends_what_one_person_agreed_to(two):
    path = "/data/fresh/budget"
    visit(two, ("Ada", path, OPEN), ("owner", path, OPEN | {"decision": "refuse"}))
    assert two.ledger.open_decisions("fresh") == []
    visit(two, ("Ben", path, OPEN))
    assert budget_of(two, "fresh") is None
    assert len(two.ledger.open_decisions("fresh")) == 1


def test_the_settings_open_nothing_where_two_people_decide(two):
    """The file alone opened a budget when the service started, whoever had written it."""
    settings = Settings.load(two.folder)
    with pytest.raises(BudgetError, match="Two people open it"):
        Project(two.folder, settings, "fresh").ledger()
    Service(settings)
    assert budget_of(two, "fresh") is None
    visit(two, ("Ada", "/data/fresh/budget", OPEN), ("Ben", "/data/fresh/budget", OPEN))
    assert Project(two.folder, settings, "fresh").ledger().budgets("fresh")


def test_a_budget_that_was_raised_counts_whatever_the_settings_state(clinic):
    path = clinic.folder / "suffice.toml"
    stated = '"labels.json"\nbudget = { epsilon = 4.0, delta = 1e-4 }'
    path.write_text(path.read_text().replace('"labels.json"', stated))
    visit(clinic, ("owner", "/data/labels/budget", RAISE))
    ledger = Project(clinic.folder, Settings.load(clinic.folder), "labels").ledger()
    assert ledger.budgets("labels") == {Unit.LABEL: Budget(5.0, 1e-4)}


# --- nothing depends on a private cell


def seen_at_the_desk(clinic) -> list[tuple]:
    """Return everything on the pages of a budget, without times and keys."""
    steps = [
        ("owner", "/data/fresh/budget"), ("owner", "/data/fresh/budget?epsilon=2&delta=1e-5"),
        ("owner", "/data/fresh/budget", OPEN), ("owner", "/data/fresh/budget", RAISE),
        ("owner", "/data/fresh"), ("owner", "/data/records/budget?epsilon=9"),
        ("owner", "/data/records/budget", RAISE), ("officer", "/data/records/budget"),
        ("learner", "/"), ("learner", "/ask/fresh"), ("learner", "/ask/records"),
    ]  # fmt: skip
    seen = []
    for step, answer in zip(steps, visit(clinic, *steps), strict=True):
        text = re.sub(r'value="[\w-]{43}"|<time.*?</time>', "", answer.text)
        headers = {k: v for k, v in answer.headers.items() if k != "set-cookie"}
        seen.append((step[:2], answer.status_code, headers, text))
    return seen


@pytest.mark.parametrize("column", ["diagnosis", "secret", "age", "ward"])
def test_the_desk_is_the_same_for_neighbours(tmp_path, column):
    table = table_of(np.random.default_rng(5))
    values = table[column].to_pylist()
    values[3] = {"diagnosis": 1 - int(table["diagnosis"][3].as_py()), "ward": "nowhere"}.get(
        column, 99
    )
    changed = table.set_column(table.schema.names.index(column), column, pa.array(values))
    first = desk_clinic(tmp_path / "first", table)
    key = (first.folder / "clinic.key").read_bytes()
    second = desk_clinic(tmp_path / "second", changed, key=key)
    assert seen_at_the_desk(first) == seen_at_the_desk(second)
    assert budget_of(first, "fresh") == Budget(5.0, 1e-5)
