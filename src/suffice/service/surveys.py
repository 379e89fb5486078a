"""Doors for people, who answer surveys, and for parties; pages for those who ask.

Nothing is written down about people who answer: no time, no address, no line of a log, no count.
Requests are limited by invitation, and where everybody may answer by survey; never by address,
because a clinic is one address.

A party's token is for one round, and names the party. What it is answered follows from the round,
from the header of what it sends, and from what it sent before. Whoever has no token of a round
learns nothing of it: the party's page is the same for every address.
"""

import asyncio
import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from io import StringIO
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from suffice import options, strict_json
from suffice.errors import CorruptFileError, ParameterError, SufficeError
from suffice.learner.frequencies import release_frequencies, release_means
from suffice.owner.answers import (
    AnswerStore,
    Opened,
    Outcome,
    Sent,
    links_of,
    new_invitations,
    trial_of,
)
from suffice.owner.ledger.tokens import Role, Token, utc_now
from suffice.owner.parties.rounds import Delivery, RoundStore, SignedRound
from suffice.owner.survey import (
    AnswerForm,
    delete_expired,
    load_survey,
    name_in_ledger,
    new_survey,
    open_survey,
    plan_survey,
    release_survey,
    variance_of,
)
from suffice.owner.survey_page import page_of
from suffice.participant import ABOUT, MOST_BYTES, Number, Survey
from suffice.releases.codec import decode
from suffice.releases.release import encode
from suffice.releases.signing import sign
from suffice.service.api import (
    BEARER,
    FAILURES,
    FAILURES_OF_BODIES,
    json_response,
    returns,
)
from suffice.service.auth import Session, Sessions, check_covers_all
from suffice.service.limits import RequestRate, read_body, read_json
from suffice.service.operation import LOGGER
from suffice.service.pages import MANY, Renderer, Start
from suffice.service.problems import (
    Problem,
    not_found,
    of_library,
    problem_response,
    problem_responses,
)
from suffice.service.workers import Digest, Service

_ANSWERS: dict[Outcome, tuple[HTTPStatus, str]] = {
    Outcome.TAKEN: (HTTPStatus.CREATED, "Your answer is stored."),
    Outcome.AGAIN: (HTTPStatus.OK, "Your answer was stored before."),
    Outcome.OTHER: (
        HTTPStatus.CONFLICT,
        "Another answer came with this invitation. The first one counts.",
    ),
    Outcome.UNKNOWN: (HTTPStatus.NOT_FOUND, "Nobody was invited to this survey in this way."),
    Outcome.CLOSED: (HTTPStatus.GONE, "This survey is closed. Your answer was not stored."),
}
_KEY = re.compile("[0-9a-f]{32}")  # 128 bits
_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["invitation", "r", "answer"],
    "properties": {
        "invitation": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "r": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "answer": {"type": "string"},
    },
}


class Door:
    """Takes the answers to all surveys; those that arrive together are stored together."""

    most_at_once = 200  # answers in one transaction
    tries_per_minute = 30  # with one invitation
    answers_per_minute = 6000  # to one survey that is open to everybody; and guesses at others

    def __init__(self, store: AnswerStore, prefix: str = "") -> None:
        self.store, self._prefix = store, prefix
        self.places: dict[
            str, str
        ] = {}  # paths of surveys that were answered before, and their ids
        self._forms: dict[str, tuple[AnswerForm, bool]] = {}
        self._waiting: list[tuple[Sent, asyncio.Future[Outcome]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._by_invitation = RequestRate(self.tries_per_minute)
        self._by_survey = RequestRate(self.answers_per_minute)

    async def form(self, identity: str) -> tuple[AnswerForm, bool]:
        """Return how answers to a survey are read, and whether it is by invitation."""
        if identity not in self._forms:
            opened = await run_in_threadpool(self.found, identity)
            self._forms[identity] = AnswerForm(load_survey(opened.body)), opened.invited
            self.places[f"{self._prefix}/v1/surveys/{identity}/answers"] = identity
        return self._forms[identity]

    def found(self, identity: str) -> Opened:
        """Return a survey, or raise."""
        opened = self.store.survey(identity)
        if opened is None:
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such survey here.")
        return opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to one of `places`."""
        response = await self.answer(Request(scope, receive, send), self.places[scope["path"]])
        await response(scope, receive, send)

    async def answer(self, request: Request, identity: str) -> Response:
        """Take the answer in a request, and say what became of it."""
        try:
            status, detail = _ANSWERS[await self.take(request, identity)]
        except Problem as problem:  # answered here: the log says nothing about people
            return problem_response(problem.status, problem.detail, problem.headers)
        except SufficeError as error:
            return await of_library(request, error)
        if status < HTTPStatus.BAD_REQUEST:
            return Response(status_code=status)
        return problem_response(status, detail)

    async def take(self, request: Request, identity: str) -> Outcome:
        """Store the answer in a request; once it is acknowledged it is durable."""
        form, invited = await self.form(identity)
        body = await read_json(request, 10_000 + 4 * len(form.survey.data))
        try:
            value = strict_json.parse(body)
            invitation, r, sheet = (str(value[name]) for name in ("invitation", "r", "answer"))
            whole = value.keys() == {"invitation", "r", "answer"}
            if not whole or not _KEY.fullmatch(invitation) or not _KEY.fullmatch(r):
                raise CorruptFileError("its parts are not those of an answer.")  # noqa: TRY301
            self._by_invitation.check(f"{identity} {invitation}")
            if not invited:
                self._by_survey.check(identity)
            data = sheet.encode()
            sent = Sent.of(identity, invitation, r, data, form.read(data)[1])
        except (CorruptFileError, AttributeError, LookupError, TypeError, ValueError):
            detail = "This is not an answer to this survey."  # what was sent is not repeated
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail) from None
        outcome = await self.stored(sent)
        if outcome is Outcome.UNKNOWN:
            self._by_survey.check(f"{identity} guesses")
        return outcome

    async def stored(self, sent: Sent) -> Outcome:
        """Hand an answer to the next transaction, and wait until that is durable."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((sent, future))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self.write())
        return await future

    async def write(self) -> None:
        """Store what waits, one transaction after the other."""
        while self._waiting:
            group = self._waiting[: self.most_at_once]
            del self._waiting[: self.most_at_once]
            outcomes: Sequence[Outcome | Exception]
            try:
                outcomes = await run_in_threadpool(self.store.take, [sent for sent, _ in group])
            except Exception as error:  # noqa: BLE001  # each request answers it
                outcomes = [error] * len(group)
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if future.done():  # its sender is gone
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)


async def delete_in_time(ledger: str, store: AnswerStore) -> None:
    """Look every hour for surveys whose answers are to be deleted, until the service ends."""
    while True:
        try:
            await run_in_threadpool(delete_expired, ledger, store)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next hour comes
            LOGGER.error("Answers could not be deleted in time: %s.", type(error).__name__)
        await asyncio.sleep(3600)  # seconds


@dataclass(frozen=True)
class Draft:
    """A survey as the form of its page describes it; only the form holds it."""

    most_questions: ClassVar = 16
    most_bytes: ClassVar = 100_000  # of the form

    fields: Mapping[str, str]

    @classmethod
    def empty(cls) -> "Draft":
        """Return what a new form has in it."""
        return cls({"epsilon": "1", "people": "500", "shown": "3", "report": "per-question"})

    @property
    def shown(self) -> int:
        """How many questions the form has room for: one more, if that was asked for."""
        text = self.fields.get("shown", "")[:2]  # a long run of digits is no number
        more = self.fields.get("act") == "more"
        return min(max(int(text) if text.isdecimal() else 1, 1) + more, self.most_questions)

    def number(self, name: str, what: str) -> float:
        """Return a number that was written, or raise."""
        try:
            value = float(self.fields.get(name, ""))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ParameterError(f"The {what} must be a number. Write it with digits.")
        return value

    def survey(self, *, whole: bool) -> Survey:
        """Return the survey, or raise in words for whoever filled in the form.

        Unless it is ``whole``, it may lack what the organisers say about themselves.
        """
        epsilon = self.number("epsilon", "epsilon")
        states: dict[str, Sequence[Any]] = {}
        ranges, texts = dict[str, tuple[float, float]](), dict[str, str]()
        for k in range(self.shown):
            name, text, answers = (
                self.fields.get(f"{part} {k}", "").strip() for part in ("name", "text", "answers")
            )
            if not (name or text or answers):
                continue
            if not (name and text and answers):
                raise ParameterError(
                    f"Question {k + 1} needs a text, a short name, and possible answers or a range."
                )
            if name in texts:
                raise ParameterError(f"Two questions are named {name!r}. Rename one of them.")
            if f"depends {k}" in self.fields:
                raise ParameterError(
                    f"Question {k + 1} depends on an earlier answer. Whether somebody is asked"
                    " would show that answer, without any noise. Ask everybody, with a possible"
                    " answer such as 'does not apply'."
                )
            texts[name] = text
            if self.fields.get(f"kind {k}") == "number":
                ranges[name] = options.pair(answers)
            else:
                states[name] = options.states(answers)
                if states[name][256:]:  # before a list of a long run of integers is made
                    raise ParameterError(f"Question {k + 1} has more than 256 possible answers.")
        if not states:
            raise ParameterError("At least one question needs a list of possible answers.")
        report = self.fields.get("report", "")
        if report == "whole" and ranges:
            raise ParameterError(
                "One report of all answers takes no question about a number. Make it a question"
                " with possible answers, such as 0-17, 18-39, 40 or more."
            )
        about = {key: self.fields.get(key, "").strip() for key in ABOUT}
        if whole and not all(about.values()):
            raise ParameterError(
                "Say who asks: a service takes no survey without these five texts."
            )
        return new_survey(
            self.fields.get("title", "").strip() or "A survey",
            states=states,
            ranges=ranges,
            epsilon=epsilon if report == "whole" else dict.fromkeys(states, epsilon),
            noise={name: variance_of(*ends, epsilon) for name, ends in ranges.items()} or None,
            texts=texts,
            language=self.fields.get("language", ""),
            about=about if all(about.values()) else None,
            report=report,
        )


@dataclass(frozen=True)
class Estimate:
    """What a release tells about one question: rows of words, estimate, low and high."""

    name: str
    what: str  # "share" or "mean"
    ends: tuple[float, float]  # between which all of it lies
    rows: tuple[tuple[str, float, float, float], ...]


@lru_cache(maxsize=8)
def estimates_of(body: bytes, data: bytes) -> list[Estimate]:
    """Return what a release of a survey tells, from the bytes of both; intervals are at 95 %."""
    survey, release, found = load_survey(body), decode(data), list[Estimate]()
    for one in release_frequencies(release):
        words = (" / ".join(map(str, s)) if isinstance(s, tuple) else str(s) for s in one.states)
        figures = (array.tolist() for array in (one.shares, one.low, one.high))
        rows = tuple(zip(words, *figures, strict=True))
        name = survey.content["label"] if one.name == "label" else one.name
        found.append(Estimate(name, "share", (0.0, 1.0), rows))
    for mean in release_means(release):
        asked = survey.noises[mean.name]
        assert isinstance(asked, Number)  # noqa: S101  # for the type checker
        row = (mean.name, mean.mean, mean.low, mean.high)
        found.append(Estimate(mean.name, "mean", (asked.low, asked.high), (row,)))
    return found


def attached(name: str, text: str) -> Response:
    """Return a CSV file that the browser stores."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv", headers=headers)


def install_surveys(app: FastAPI, service: Service, store: AnswerStore) -> Door:
    """Add the doors for people to an application, and the pages of those who ask."""
    prefix = service.settings.server.prefix
    door = Door(store, prefix)
    people, pages = APIRouter(), APIRouter()
    failures = FAILURES_OF_BODIES | problem_responses(
        HTTPStatus.NOT_FOUND,
        HTTPStatus.GONE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    )

    @people.get("/surveys/{digest}", responses=failures, response_class=Response)
    async def survey(digest: Digest) -> Response:
        """Return the survey's file, byte by byte."""
        try:
            opened = await run_in_threadpool(door.found, digest)
        except Problem as problem:  # answered here: the log says nothing about people
            return problem_response(problem.status, problem.detail, problem.headers)
        return Response(opened.body, media_type="application/json")

    described: Any = {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _BODY}},
        }
    }

    @people.post(
        "/surveys/{digest}/answers",
        responses={201: {"description": "Stored."}, **failures},
        openapi_extra=described,
        response_class=Response,
    )
    async def answer(request: Request, digest: Digest) -> Response:
        """Take one answer: the same one again is 200, another one with that invitation 409."""
        return await door.answer(request, digest)

    @pages.get("/surveys/{digest}")
    async def page(digest: Digest) -> Response:
        try:
            opened = await run_in_threadpool(door.found, digest)
        except Problem as problem:
            return problem_response(problem.status, problem.detail, problem.headers)
        survey, mode = load_survey(opened.body), "invited" if opened.invited else "open"
        text, policy = page_of(survey, mode, trial=digest != survey.id)
        headers = {
            "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
        }
        return HTMLResponse(text, headers=headers)

    app.include_router(people, prefix=f"{prefix}/v1")
    app.include_router(pages, prefix=prefix, include_in_schema=False)
    install_asking(app, service, door)
    return door


@dataclass(frozen=True)
class Asking:
    """What those who ask see of their surveys, and do with them."""

    service: Service
    store: AnswerStore
    door: Door
    renderer: Renderer

    def list(self, session: Session, start: int = 0, problem: str | None = None) -> Response:
        """Return a page of the surveys after so many."""
        found, count = self.store.listed(start, MANY)
        rows = [
            (one, load_survey(opened.body).content["title"], opened, self.store.answered(one))
            for one, opened in found
        ]
        paging = start, len(rows), count
        return self.renderer.page(
            "surveys.html", session, rows=rows, paging=paging, problem=problem
        )

    def open(self, session: Session, fields: Mapping[str, str], origin: str) -> Response:
        """Open a survey for people, or a trial of it; return the links of those who are invited."""
        trial, count, invited = "trial" in fields, fields.get("people", ""), None
        try:
            survey = load_survey(fields.get("survey", "").encode())
            if fields.get("who") != "everybody":
                if not re.fullmatch("[1-9][0-9]{0,4}", count, re.ASCII):
                    raise ParameterError("Say how many people are invited, 99,999 at most.")
                invited = new_invitations(int(count))
            open_survey(survey, self.service.settings.ledger, self.store, invited, trial=trial)
        except SufficeError as error:
            return self.list(session, problem=str(error))
        identity = trial_of(survey.id) if trial else survey.id
        if invited is None:
            return self.renderer.to(f"/surveys/{identity}/results")
        page = f"{origin}{self.service.settings.server.prefix}/surveys/{identity}"
        return attached("links.csv", links_of(page, invited))

    def draft(self, session: Session, draft: Draft) -> Response:
        """Return the form of a survey, with guarantee and forecast if it was filled in."""
        made, plan, problem = None, None, None
        if draft.fields.get("act", "more") != "more":
            try:
                made = draft.survey(whole=draft.fields["act"] == "save")
                people = draft.number("people", "number of people")
                plan = plan_survey(made, int(min(max(people, 0), 10**9)))
            except SufficeError as error:
                problem = str(error)
        if made is not None and plan is not None and draft.fields["act"] == "save":
            headers = {"Content-Disposition": 'attachment; filename="survey.json"'}
            return Response(made.data, media_type="application/json", headers=headers)
        values: dict[str, Any] = {"draft": draft, "made": made, "plan": plan, "problem": problem}
        return self.renderer.page("new_survey.html", session, **values)

    def results(self, digest: str) -> tuple[Survey, Opened, bytes | None]:
        """Return a survey and its release: there is none of an open one, or of a trial."""
        opened = self.door.found(digest)
        survey = load_survey(opened.body)
        data = None
        if digest == survey.id and opened.state not in self.store.taking:
            data = self.service.records.output(name_in_ledger(survey), survey.id)
        return survey, opened, data

    def show(self, session: Session, digest: str, problem: str | None = None) -> Response:
        """Return the page of one survey."""
        survey, opened, data = self.results(digest)
        texts = {q["name"]: q["text"] or q["name"] for q in survey.content["questions"]}
        estimates = [] if data is None else estimates_of(survey.data, data)
        found = [(texts.get(one.name, one.name), one) for one in estimates]
        facts = {"survey": survey, "opened": opened, "answered": self.store.answered(digest)}
        values: dict[str, Any] = {"digest": digest, "found": found, "problem": problem, **facts}
        return self.renderer.page("survey.html", session, **values)

    def table(self, digest: str) -> Response:
        """Return what the release of a survey tells, as a CSV file."""
        survey, _, data = self.results(digest)
        text = StringIO()
        writer = csv.writer(text)
        writer.writerow(("question", "answer", "what", "estimate", "low", "high", "level"))
        for one in [] if data is None else estimates_of(survey.data, data):
            writer.writerows((one.name, row[0], one.what, *row[1:], 0.95) for row in one.rows)
        return attached("results.csv", text.getvalue())

    def release(self, digest: str) -> Response:
        """Return the release of a survey, signed."""
        data = self.results(digest)[2]
        if data is None:
            raise not_found()
        signed = encode(sign(decode(data), self.service.settings.key))
        return Response(signed, media_type="application/octet-stream")

    def close(self, session: Session, digest: str) -> Response:
        """Close a survey, release its answers and delete them; of a trial there are none."""
        survey = self.results(digest)[0]
        try:
            if digest == survey.id:
                release_survey(survey, self.service.ledger, self.store)
                self.store.forget(digest)
            else:
                self.store.close(digest)
        except SufficeError as error:
            return self.show(session, digest, str(error))
        return self.renderer.to(f"/surveys/{digest}/results")

    def unused(self, digest: str, links: str) -> Response:
        """Return the lines of a file of links that nobody has used."""
        lines = links.splitlines()[1:]
        invited = {line.partition(",")[0]: line for line in lines if line.count(",") == 1}
        left = self.store.unused(digest, list(invited))
        rows = ("invitation,link", *map(invited.__getitem__, left))
        return attached("unused.csv", "".join(f"{row}\n" for row in rows))


def install_asking(app: FastAPI, service: Service, door: Door) -> None:
    """Add the pages of those who ask: all surveys, what came of one, and a form for a new one."""
    pages, sessions = APIRouter(), Sessions(service.settings, service.records)
    asking = Asking(service, door.store, door, Renderer(service.settings))
    asker = Annotated[Session, Depends(sessions.find_asker)]
    organiser = Annotated[Session, Depends(sessions.find_organiser)]

    @pages.get("/surveys")
    def listed(session: asker, start: Start = 0) -> Response:
        return asking.list(session, start)

    @pages.post("/surveys")
    async def opening(request: Request, session: organiser) -> Response:
        fields = await sessions.form(request, session, most=2 * MOST_BYTES)
        origin = request.headers.get("origin") or str(request.base_url).rstrip("/")
        return await run_in_threadpool(asking.open, session, fields, origin)

    @pages.get("/new-survey")
    def new(session: asker) -> Response:
        return asking.draft(session, Draft.empty())

    @pages.post("/new-survey")
    async def make(request: Request, session: asker) -> Response:
        fields = await sessions.form(request, session, most=Draft.most_bytes)
        return await run_in_threadpool(asking.draft, session, Draft(fields))

    @pages.get("/surveys/{digest}/results")
    def shown(digest: Digest, session: asker) -> Response:
        return asking.show(session, digest)

    @pages.get("/surveys/{digest}/results.csv", dependencies=[Depends(sessions.find_asker)])
    def exported(digest: Digest) -> Response:
        return asking.table(digest)

    @pages.get("/surveys/{digest}/release", dependencies=[Depends(sessions.find_asker)])
    def released(digest: Digest) -> Response:
        return asking.release(digest)

    @pages.post("/surveys/{digest}/close")
    async def closing(request: Request, digest: Digest, session: organiser) -> Response:
        await sessions.form(request, session)
        return await run_in_threadpool(asking.close, session, digest)

    @pages.post("/surveys/{digest}/unused")
    async def unused(request: Request, digest: Digest, session: asker) -> Response:
        fields = await sessions.form(request, session, most=2_000_000)
        return await run_in_threadpool(asking.unused, digest, fields.get("links", ""))

    app.include_router(pages, prefix=service.settings.server.prefix, include_in_schema=False)


_DELIVERIES: dict[Delivery, tuple[HTTPStatus, str]] = {
    Delivery.STORED: (HTTPStatus.CREATED, ""),
    Delivery.AGAIN: (HTTPStatus.OK, ""),
    Delivery.OTHER: (
        HTTPStatus.CONFLICT,
        "You have sent another contribution. Withdraw that one first.",
    ),
    Delivery.REJECTED: (HTTPStatus.UNPROCESSABLE_ENTITY, "The contribution was rejected: {}"),
    Delivery.CLOSED: (HTTPStatus.GONE, "The round is closed. The contribution was not stored."),
}
_PART: Any = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    }
}
_PARTY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action"
    " 'none'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class PartDocument:
    """What a party is told of a round and of what it sent itself; of other parties nothing."""

    party: str
    title: str
    closes: str
    round: Literal["open", "closed"]
    state: Literal["missing", "stored", "rejected"]
    reason: str  # of a rejection


@dataclass(frozen=True)
class PartyDocument:
    """What the aggregator is told of one party; without a time."""

    party: str
    state: Literal["missing", "stored", "rejected"]
    reason: str


def install_rounds(app: FastAPI, service: Service, store: RoundStore) -> None:
    """Add the doors for parties to an application, their page, and that of the aggregator."""
    router = APIRouter(responses={**FAILURES}, dependencies=[BEARER])
    requires = service.authenticator.requires
    sender, owner = requires(Role.PARTY), requires(Role.OWNER)

    def own(caller: Token, digest: str) -> tuple[SignedRound, str]:
        """Return the round that a party's token is for, and its state."""
        found = store.round(digest) if caller.scope == (digest,) else None
        if found is None:
            raise not_found()
        return found

    @router.get("/rounds/{digest}/part", responses=returns(PartDocument), response_class=Response)
    def standing(digest: Digest, caller: Annotated[Token, Depends(sender)]) -> Response:
        """Return what the service has of the caller's contribution, and why it has none."""
        made, state = own(caller, digest)
        is_open = state == "open" and not made.is_over(utc_now())
        terms, stands = made.terms, store.standings(made).get(caller.holder)
        if stands is None:
            raise not_found()
        shown = PartDocument(
            caller.holder, terms.title, terms.closes, "open" if is_open else "closed", *stands
        )
        return json_response(shown)

    @router.put(
        "/rounds/{digest}/part",
        responses={
            201: {"description": "Stored."},
            200: {"description": "The same was stored before."},
            **FAILURES_OF_BODIES,
            **problem_responses(HTTPStatus.GONE),
        },
        openapi_extra=_PART,
        response_class=Response,
    )
    async def send(
        request: Request, digest: Digest, caller: Annotated[Token, Depends(sender)]
    ) -> Response:
        """Take the caller's contribution, a file that `suffice contribute` wrote.

        The same bytes again are 200, others 409. 422 says why it does not fit the round.
        """
        made, _ = await run_in_threadpool(own, caller, digest)
        data: bytes | None
        try:
            data = await read_body(request, made.most_bytes)
        except Problem as problem:
            if problem.status is not HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                raise
            data = None
        outcome, reason = await run_in_threadpool(store.take, made, caller.holder, data, utc_now())
        status, detail = _DELIVERIES[outcome]
        if not detail:
            return Response(status_code=status)
        if data is None and outcome is Delivery.REJECTED:
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        close = {"Connection": "close"} if data is None else None  # the rest is not read
        # Answered here: what a party sent is in no log.
        return problem_response(status, detail.format(reason), close)

    @router.delete(
        "/rounds/{digest}/part",
        status_code=204,
        responses=problem_responses(HTTPStatus.GONE),
        response_class=Response,
    )
    def withdraw(digest: Digest, caller: Annotated[Token, Depends(sender)]) -> Response:
        """Delete the caller's contribution, while the round is open."""
        made, _ = own(caller, digest)
        if not store.withdraw(made, caller.holder, utc_now()):
            raise Problem(HTTPStatus.GONE, "The round is closed. Nothing can be withdrawn.")
        return Response(status_code=HTTPStatus.NO_CONTENT)

    @router.get(
        "/rounds/{digest}/parties",
        responses=returns(tuple[PartyDocument, ...]),
        response_class=Response,
    )
    def parties(digest: Digest, caller: Annotated[Token, Depends(owner)]) -> Response:
        """List the enrolled parties: who has sent, whose contribution was rejected and why."""
        check_covers_all(caller)
        found = store.round(digest)
        if found is None:
            raise not_found()
        standings = store.standings(found[0])
        return json_response([PartyDocument(name, *stands) for name, stands in standings.items()])

    pages = APIRouter()
    sessions, renderer = Sessions(service.settings, service.records), Renderer(service.settings)

    @pages.get("/rounds/{digest}")
    def page(digest: Digest) -> Response:
        del digest  # the page is the same for every round: it asks with the party's token
        response = renderer.page("round.html", None)
        response.headers["Content-Security-Policy"] = _PARTY_POLICY
        return response

    @pages.get("/rounds")
    def listed(session: Session = Depends(sessions.find)) -> Response:  # noqa: B008, FAST002  # of the framework
        check_covers_all(session.token)
        found = [opened for opened in map(store.round, store.rounds()) if opened is not None]
        rows = [(made, state, store.standings(made)) for made, state in found]
        return renderer.page("rounds.html", session, rows=rows, now=utc_now())

    prefix = service.settings.server.prefix
    app.include_router(router, prefix=f"{prefix}/v1")
    app.include_router(pages, prefix=prefix, include_in_schema=False)
