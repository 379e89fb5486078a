"""The pages for owners and officers: rendered here, usable without scripts, from no other site.

Templates, the words and numbers in them, and the headers of the response; then the pages that show
proposals, the report and its printed form, the log, and the export.
"""

import math
import shlex
from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_FLOOR, Context
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from suffice.errors import LedgerError, ParameterError, ReleaseError, UsageError
from suffice.owner.ledger.rules import Balance, is_raise
from suffice.owner.ledger.store import budgets_from
from suffice.owner.ledger.tokens import Role, mint, utc_now
from suffice.owner.policy import policy_lines
from suffice.plain_text import escaped, listed
from suffice.privacy.events import Approximate, Pure
from suffice.privacy.guarantee import Budget, Guarantee, Unit, guarantee_sentences
from suffice.protocol.export import ServedRecord
from suffice.releases.release import HashedRows
from suffice.service.api import checkpoint_of, export_response, json_response, release_response
from suffice.service.auth import Session, Sessions, SignInNeeded, check_covers_all, sees_all
from suffice.service.operation import COUNTS, REFUSALS
from suffice.service.oversight import (
    KIND_TEXTS,
    Accounts,
    Comparison,
    entry_words,
    guarantee_lines,
    kind_words,
)
from suffice.service.planning import (
    Foresight,
    Offer,
    Planning,
    accuracy_picture,
    budget_picture,
    cost_picture,
    interval_picture,
    offers_of,
    proposal_of,
)
from suffice.service.problems import Problem, not_found
from suffice.service.records import StoredProposal
from suffice.service.settings import ServedData, Settings
from suffice.service.sign_in import SignInRefused
from suffice.service.workers import Digest, Identity, Name, Service, read_decision
from suffice.strict_json import is_digest

_FOLDER = Path(__file__).parent
STATIC: Mapping[str, str] = {
    "suffice.css": "text/css",
    "local-time.js": "text/javascript",
    "checkpoint-file.js": "text/javascript",
    "party.js": "text/javascript",
}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)


class Renderer:
    """Makes the pages of one service."""

    def __init__(self, settings: Settings) -> None:
        self._organisation, self._prefix = settings.organisation, settings.server.prefix
        self._asks_people = settings.answers is not None
        self._holds_rounds = settings.rounds is not None
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "plain": _plain,
            "down": rounded_down,
            "number": number,
            "moment_of": datetime.fromisoformat,
            "policy_rows": policy_rows,
            "interval_picture": interval_picture,
            "kind_words": kind_words,
            "kind_title": lambda kind: KIND_TEXTS.get(kind, (kind, ""))[0],
            "kind_contents": lambda kind: KIND_TEXTS.get(kind, ("", f"A release, {kind}."))[1],
            "short_hash": lambda text: f"{text.removeprefix('sha256:')[:12]}...",
            "set_name": lambda text: (
                f"survey {text[len(_SURVEY) :][:12]}..." if text.startswith(_SURVEY) else text
            ),
            "accuracy_picture": lambda plan, epsilon: accuracy_picture(
                plan.accuracy, epsilon, plan.without_noise, plan.larger_class
            ),
        }
        self._templates.globals["glossary"] = _GLOSSARY

    def page(
        self, name: str, session: Session | None, status: int | None = None, **values: Any
    ) -> HTMLResponse:
        """Return the page of a template with these values; before signing in, without a session.

        The value ``problem`` is a sentence above everything else; with it the status is 400, unless
        another one is given. After ``moves_on`` seconds the browser asks again, without a script.
        """
        headers = {"Content-Security-Policy": _POLICY}
        if seconds := values.pop("moves_on", 0):
            headers["Refresh"] = str(seconds)
        common = {
            "organisation": self._organisation,
            "prefix": self._prefix,
            "asks_people": self._asks_people,
            "holds_rounds": self._holds_rounds,
            "session": session,
            "problem": (problem := values.pop("problem", None)),
            "for_print": values.pop("for_print", False),
        }
        text = self._templates.get_template(name).render(**common, **values)
        bad = HTTPStatus.OK if problem is None else HTTPStatus.BAD_REQUEST
        return HTMLResponse(text, status or bad, headers)

    def to(self, path: str) -> RedirectResponse:
        """Return a response that sends the reader to another page."""
        return RedirectResponse(f"{self._prefix}{path}", HTTPStatus.SEE_OTHER)


def static_file(name: str) -> bytes:
    """Return the bytes of one of `STATIC`."""
    return (_FOLDER / "static" / name).read_bytes()


def rounded_down(value: float) -> str:
    """Return what is left with four digits, never more than there is.

    Examples
    --------
    >>> rounded_down(0.99999), rounded_down(6.6), rounded_down(-1.0)
    ('0.9999', '6.6', '0')
    """
    if not math.isfinite(value) or value <= 0:
        return "0"
    # Of the decimal that reads back as this float: 6.6 is a little less than that in binary.
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(repr(value))):g}"


def policy_rows(served: ServedRecord) -> list[tuple[str, str]]:
    """Return what may be granted of a data set, in the words of the pages."""
    policy, sheet = served.policy, served.sheet
    rows = dict(policy_lines(policy))
    noises = rows.pop("mechanisms")
    rows["one request"] = f"epsilon {number(policy.largest_epsilon)} at most"
    if policy.largest_delta:
        rows["one request"] += f", delta {number(policy.largest_delta)} at most"
    if policy.features is None and sheet is not None:
        rows["columns"] = listed(sheet.features)
    rows["noise types"] = "all" if "auto" in policy.mechanisms else noises
    rows["kinds"] = "; ".join(KIND_TEXTS.get(kind, (kind, ""))[0] for kind in policy.kinds)
    return [*rows.items()]


_ESTIMATORS = {  # that take a release of this kind, in Python
    "mean-operator": "FactoredClassifier",
    "bags": "NoisyLabelClassifier",
    "moments": "MomentClassifier",
    "rados": "RadoBoost",
    "responses": "SpreadClassifier",
}


def how_to_train(kind: str, file: str, bags: Any) -> tuple[list[str], list[str]]:
    """Return the commands, and the lines of Python, by which a learner uses a release."""
    commands = [f"suffice verify {file} --key owner.pub"]
    if kind == "proportions":
        named = " ".join(f"--bag {shlex.quote(name)}" for name in bags or ())
        commands.append(f"suffice ratio {file} --rows rows.csv {named} new.csv")
        return commands, []
    rows = kind in ("mean-operator", "bags")
    commands.append(f"suffice fit {file}{' --rows rows.csv' if rows else ''} -o model.suffice")
    commands.append("suffice predict model.suffice new.csv -o predicted.csv")
    lines = [
        "import suffice",
        f'release = suffice.load("{file}")',
        f"model = suffice.{_ESTIMATORS[kind]}().fit_release(release"
        + (', suffice.TableFile("rows.csv"))' if rows else ")"),
    ]
    return commands, lines


def number(value: float) -> str:
    """Return a number as short as it can be, such as 0.25 or 1e-6."""
    return f"{value:g}".replace("e-0", "e-")


def _plain(text: object) -> str:
    """Return text from strangers so that it can steer no reader; the template escapes its HTML."""
    return escaped(str(text))


_GLOSSARY = {  # as docs/glossary.md has them
    "bag": "rows whose class proportions are published together, such as the rows of one ward",
    "budget": "the epsilon and delta that all releases of a data set may use together",
    "charge": "what one release uses of the budget; a charge is never given back",
    "delta": "a small amount added to the limit on every probability; smaller is stronger, and 0"
    " means no extra allowance",
    "epsilon": "the strength of a guarantee: one unit changes any probability by at most a factor"
    " of e^epsilon, plus delta; smaller is stronger",
    "guarantee": "what a release protects, and how strongly",
    "label": "the private class of a record, such as a diagnosis",
    "noise type": "which random numbers are added, such as gaussian or laplace",
    "record": "all columns of one case, label included",
    "release": "the file that an owner publishes",
    "row": "the public columns of one case",
    "unit": "what the guarantee protects: one label, one value, one record, or one person",
}
_Before = Annotated[int | None, Query(ge=1, le=10**15)]


def asked_budgets(
    served: ServedData, balances: Mapping[Unit, Balance], fields: Mapping[str, str]
) -> dict[Unit, Budget]:
    """Return the budgets that a form asks for: the first ones of a data set, or one raised."""
    try:
        epsilon, delta = float(fields.get("epsilon") or 0), float(fields.get("delta") or 0)
    except ValueError:
        raise ParameterError("Epsilon and delta are numbers, for example 2 and 1e-5.") from None
    if not balances:
        if not served.classes:
            raise ParameterError(
                "The classes of this data set are not stated. Name them in its data sheet, or in"
                " the policy of suffice.toml."
            )
        return {served.unit: Budget(epsilon, delta)}
    stored = {unit: balance.budget for unit, balance in balances.items()}
    unit = next((u for u in stored if u == fields.get("unit")), next(iter(stored)))
    budgets = stored | {unit: Budget(epsilon, stored[unit].delta)}
    if not is_raise(stored, budgets):
        raise ParameterError(
            f"The budget is epsilon {number(stored[unit].epsilon)}. It can be raised, and never"
            " lowered: name a larger epsilon."
        )
    return budgets


_SURVEY = "survey sha256:"  # how the name of a survey in the ledger begins
Start = Annotated[int, Query(ge=0, le=10**15)]  # how many data sets come before
_FEW = 10  # rows of each list on the page of all data sets, and data sets on it
MANY = 50  # on the pages of one data set, and in the report


def install_pages(app: FastAPI, service: Service, planning: Planning) -> None:
    """Add the pages to an application."""
    prefix = service.settings.server.prefix
    pages = _Pages(service, planning)
    app.include_router(pages.public_router(), prefix=prefix, include_in_schema=False)
    app.include_router(pages.router(), prefix=prefix, include_in_schema=False)

    async def sign_in(request: Request, _: Exception) -> Response:
        del request
        return RedirectResponse(f"{prefix}/login", HTTPStatus.SEE_OTHER)

    async def refused(request: Request, error: Exception) -> Response:
        del request
        return pages.refused(error)

    app.add_exception_handler(SignInNeeded, sign_in)
    app.add_exception_handler(SignInRefused, refused)


class _Pages:
    def __init__(self, service: Service, planning: Planning) -> None:
        self._service, self._planning = service, planning
        self._sessions = Sessions(service.settings, service.records)
        self._accounts = Accounts(service)
        renderer = Renderer(service.settings)
        self._page, self._to = renderer.page, renderer.to

    # --- for everybody

    def refused(self, error: Exception) -> Response:
        """Return the page of a sign-in that failed; why it did is for the log alone."""
        COUNTS.add("suffice_failed_sign_ins_total")
        REFUSALS.note(f"A sign-in failed. {error}")  # a fixed sentence
        problem = "You could not be signed in. Try again, or ask whoever runs the service."
        return self._page(
            "login.html", None, HTTPStatus.FORBIDDEN, problem=problem, has_provider=True
        )

    def public_router(self) -> APIRouter:
        """Return the routes that need no session."""
        router = APIRouter()
        has_provider = self._service.settings.sign_in is not None

        @router.get("/static/{name}")
        def static(name: str) -> Response:
            if name not in STATIC:
                raise not_found()
            return Response(static_file(name), media_type=STATIC[name])

        @router.get("/login")
        def login() -> Response:
            return self._page("login.html", None, has_provider=has_provider)

        @router.post("/login")
        async def sign_in(request: Request) -> Response:
            fields = await self._sessions.read_form(request)
            response = self._to("/")
            begin = self._sessions.begin
            if await run_in_threadpool(begin, request, fields.get("token", ""), response):
                return response
            problem = (
                "This token is not known, or it has ended. Check that you copied all of it, or ask"
                " the owner."
            )
            return self._page(
                "login.html", None, HTTPStatus.FORBIDDEN, problem=problem, has_provider=has_provider
            )

        @router.get("/sign-in")
        async def to_provider() -> Response:
            response = self._to("/login")
            response.headers["location"] = await self._service.sign_in.address(response)
            return response

        @router.get("/sign-in/back")
        async def from_provider(request: Request) -> Response:
            response = self._page("signed_in.html", None)
            person = await self._service.sign_in.person(request, response)
            await run_in_threadpool(self._sessions.begin_for, person, response)
            return response

        return router

    # --- for owners and officers

    def router(self) -> APIRouter:
        """Return the routes of those who signed in."""
        router = APIRouter()
        reader = Annotated[Session, Depends(self._sessions.find)]

        anybody = Annotated[Session, Depends(self._sessions.find_anybody)]

        @router.get("/")
        def overview(session: anybody, start: Start = 0) -> Response:
            token = session.token
            if token.role is Role.ORGANISER:
                return self._to("/surveys")
            if not sees_all(token):
                return self.own_proposals(session, start)
            opened = self._accounts.names(token)
            if self._service.settings.answers is not None:  # surveys have a page of their own
                opened = {n: waits for n, waits in opened.items() if not n.startswith(_SURVEY)}
            unopened = [n for n in self._service.settings.datasets if n not in opened]
            names = [*(n for n in opened if opened[n]), *filter(token.covers, unopened)]
            names += [n for n in opened if not opened[n]]  # what waits for somebody came first
            shown = names[start : start + _FEW]
            return self._page(
                "overview.html",
                session,
                datasets=self._accounts.datasets(token, _FEW, filter(opened.__contains__, shown)),
                unopened=[n for n in shown if n not in opened],
                deciding={facts["dataset"] for facts in self._service.ledger.open_decisions()},
                paging=(start, len(shown), len(names)),
            )

        @router.post("/logout")
        async def logout(request: Request, session: anybody) -> Response:
            await self._sessions.form(request, session)
            response = self._to("/login")
            await run_in_threadpool(self._sessions.end, session, response)
            return response

        self.add_asking_pages(router, anybody)
        self._add_budget_pages(router, reader)  # before: no proposal has such a name
        self._add_proposal_pages(router, reader)
        self._add_token_pages(router, reader)
        self._add_oversight_pages(router, reader)
        return router

    # --- for whoever proposes

    def add_asking_pages(self, router: APIRouter, anybody: Any) -> None:
        @router.get("/ask/{dataset}")
        def form(request: Request, dataset: Name, session: anybody) -> Response:
            self.check_asks(session, dataset)
            return self.form_page(session, dataset, dict(request.query_params), is_new=True)

        @router.post("/ask/{dataset}")
        async def propose(request: Request, dataset: Name, session: anybody) -> Response:
            await run_in_threadpool(self.check_asks, session, dataset)
            fields = await self._sessions.form(request, session, most=Offer.most_bytes)
            return await self.propose(session, dataset, fields)

        @router.get("/ask/{dataset}/columns.json")
        def columns(dataset: Name, session: anybody) -> Response:
            sheet = self.check_asks(session, dataset).sheet
            if sheet is None:
                raise not_found()
            headers = {"Content-Disposition": 'attachment; filename="columns.json"'}
            return json_response(sheet, headers=headers)

        place = "/ask/{dataset}/{digest}"

        @router.get(place)
        def asked(dataset: Name, digest: Digest, session: anybody) -> Response:
            self.check_asks(session, dataset)
            return self.own_proposal(session, dataset, digest)

        @router.get(f"{place}/release")
        def own_release(dataset: Name, digest: Digest, session: anybody) -> Response:
            self.check_asks(session, dataset)
            stored = self._service.proposal(session.token, dataset, digest)
            return release_response(self._service, stored)

    def check_asks(self, session: Session, dataset: str) -> ServedData:
        """Return a data set that whoever signed in may propose about, or raise."""
        if session.token.role not in (Role.OWNER, Role.LEARNER):
            raise Problem(HTTPStatus.FORBIDDEN, "Owners and learners propose, and nobody else.")
        return self._service.authenticator.served(session.token, dataset)

    def own_proposals(self, session: Session, start: int) -> Response:
        """Return a learner's first page: what may be asked for, and what became of its proposals.

        Of others it shows what is left of the budget, as the API does.
        """
        served = self._service.settings.datasets
        names = [name for name in self._accounts.names(session.token) if name in served]
        datasets = [
            (view, self._accounts.proposals(view.name, MANY, sender=session.token.id))
            for view in self._accounts.datasets(session.token, 0, names[start : start + _FEW])
        ]
        paging = start, len(datasets), len(names)
        return self._page("asking.html", session, datasets=datasets, paging=paging)

    def form_page(
        self,
        session: Session,
        dataset: str,
        fields: Mapping[str, str],
        *,
        is_new: bool,
        problem: str | None = None,
    ) -> Response:
        """Return the form of a proposal: new, or as it was sent, with what is wrong with it."""
        served = self._service.settings.datasets[dataset]
        self._planning.warm_up()
        (view,) = self._accounts.datasets(session.token, 0, [dataset])
        offers = offers_of(served)
        offer = next((one for one in offers if one.kind == fields.get("kind")), None)
        offer = offer or next(iter(offers), None)
        if is_new:
            fields = {k: v for k, v in fields.items() if k in ("epsilon", "purpose")}
            columns = () if offer is None else range(len(offer.columns))
            fields |= {f"column {k}": "on" for k in columns}
        return self._page(
            "ask.html",
            session,
            view=view,
            offers=offers,
            offer=offer,
            fields=fields,
            classes=self._service.classes(dataset),
            sheet=served.sheet,
            problem=problem,
        )

    async def propose(self, session: Session, dataset: str, fields: dict[str, str]) -> Response:
        """Send what a form proposes; back to the form if something is wrong with it."""
        served = self._service.settings.datasets[dataset]
        offers = {offer.kind: offer for offer in offers_of(served)}
        offer = offers.get(fields.get("kind", ""))
        if offer is None:
            raise not_found()

        def send() -> StoredProposal:
            asked = proposal_of(offer, fields, self._service.classes(dataset), rows)
            return self._service.receive(session.token, dataset, asked)

        try:
            rows = await self.rows(session, dataset, offer, fields)
            stored = await run_in_threadpool(send)
        except (UsageError, ReleaseError, Problem) as error:
            problem = error.detail if isinstance(error, Problem) else str(error)
            back = partial(self.form_page, is_new=False, problem=problem)
            return await run_in_threadpool(back, session, dataset, fields)
        where = "data" if session.token.role is Role.OWNER else "ask"
        return self._to(f"/{where}/{dataset}/{stored.digest}")

    async def rows(
        self, session: Session, dataset: str, offer: Offer, fields: dict[str, str]
    ) -> HashedRows | None:
        """Return the rows that a form names: by a file, by their hash, or the owner's own."""
        if not offer.has_public_rows:
            return None
        if session.token.role is Role.OWNER:
            return await self._planning.rows(dataset, None, offer, fields)
        if text := fields.pop("rows", ""):
            return await self._planning.rows(dataset, text, offer, fields)
        count, digest = fields.get("count", ""), fields.get("hash", "")
        if not count.isdecimal() or not is_digest(digest):
            raise ParameterError("Send a file of rows, or name their number and their hash.")
        return HashedRows(int(count[:15]), digest)

    def own_proposal(self, session: Session, dataset: str, digest: str) -> Response:
        """Return what became of a proposal, for whoever sent it."""
        stored = self._service.proposal(session.token, dataset, digest)
        row, kind = self._accounts.proposal(stored), stored.proposal.kind
        file = f"{digest[7:19]}.suffice"
        commands, lines = how_to_train(kind, file, stored.proposal.options.get("bags"))
        return self._page(
            "asked.html",
            session,
            dataset=dataset,
            row=row,
            row_hash=None if stored.proposal.rows is None else stored.proposal.rows.hash,
            file=file,
            commands=commands,
            lines=lines,
            moves_on=2 if row.step.in_work else 30 if row.state == "waiting" else 0,
        )

    # --- about budgets

    def _add_budget_pages(self, router: APIRouter, reader: Any) -> None:
        place = "/data/{dataset}/budget"

        @router.get(place)
        def budget(request: Request, dataset: Name, session: reader) -> Response:
            return self.budget_page(session, dataset, dict(request.query_params))

        @router.post(place)
        async def decision(request: Request, dataset: Name, session: reader) -> Response:
            fields = await self._sessions.form(request, session)
            _check_owner(session)
            return await run_in_threadpool(self.decide_budget, session, dataset, fields)

    def served(self, session: Session, dataset: str) -> ServedData:
        """Return a data set that the settings name, with a budget or without, or raise."""
        served = self._service.settings.datasets.get(dataset)
        if served is None or not session.token.covers(dataset):
            raise not_found()
        return served

    def budget_page(
        self,
        session: Session,
        dataset: str,
        fields: Mapping[str, str],
        problem: str | None = None,
        status: int = HTTPStatus.CONFLICT,
    ) -> Response:
        """Return the page that opens a data set or raises its budget, and what that would mean.

        Public things alone: settings, data sheet and ledger. No path and no address is shown.
        """
        served = self.served(session, dataset)
        balances = self._balances(dataset)
        waiting = [
            (self.limits(balances, budgets_from(facts["budgets"])), facts)
            for facts in self._service.ledger.open_decisions(dataset)
        ]
        asked: list[dict[str, Any]] = []
        if "epsilon" in fields and not problem:
            try:
                asked = self.limits(balances, asked_budgets(served, balances, fields))
            except UsageError as error:
                problem, status = str(error), HTTPStatus.BAD_REQUEST
        person = self._service.person(session.token)
        found = {"balances": balances, "asked": asked, "waiting": waiting, "fields": fields}
        return self._page(
            "budget.html",
            session,
            status if problem else HTTPStatus.OK,
            **found,
            dataset=dataset,
            served=served,
            rows=policy_rows(
                ServedRecord(served.label, served.grants, served.policy, 0.0, served.sheet)
            ),
            may_agree=not self._service.settings.owners(dataset) or person is not None,
            agreed_already=lambda by: person is not None and by.endswith(person.identity),
            problem=problem,
        )

    def _balances(self, dataset: str) -> dict[Unit, Balance]:
        if not self._service.records.is_open(dataset):
            return {}
        return {b.unit: b for b in self._service.ledger.balances(dataset)}

    @staticmethod
    def limits(
        balances: Mapping[Unit, Balance], budgets: Mapping[Unit, Budget]
    ) -> list[dict[str, Any]]:
        """Return what budgets that are asked for would mean, unit by unit, where they are new."""
        lines = []
        for unit, budget in budgets.items():
            now = balances.get(unit)
            if now is None or now.budget != budget:
                event = Approximate(budget.epsilon, budget.delta) if budget.delta else None
                whole = Guarantee(unit, event or Pure(budget.epsilon), budget.delta)
                left = budget.epsilon - (now.spent if now else 0.0)
                words = [
                    text.replace("this release", "all releases together")
                    for text in guarantee_sentences(whole)
                ]
                lines.append(
                    {"unit": unit, "now": now, "then": budget, "left": left, "words": words}
                )
        return lines

    def decide_budget(self, session: Session, dataset: str, fields: dict[str, str]) -> Response:
        """Open a data set or raise its budget, agree to that, or refuse it."""
        served, token = self.served(session, dataset), session.token
        ledger, reason = self._service.ledger, fields.get("reason", "").strip()
        try:
            if not reason or not reason.isprintable() or len(reason) > 500:
                raise ParameterError("Say why, in one printable line of at most 500 letters.")
            budgets = asked_budgets(served, self._balances(dataset), fields)
            if fields.get("decision") == "refuse":
                for facts in ledger.open_decisions(dataset):
                    if budgets_from(facts["budgets"]) == budgets:
                        decision = {"reason": reason, "token": token.id, "by": token.holder}
                        ledger.refuse_budgets(facts, decision)
                return self._to(f"/data/{dataset}/budget")
            is_done = self._service.change_budgets(dataset, budgets, reason, token)
        except (UsageError, LedgerError) as error:
            return self.budget_page(session, dataset, fields, str(error))
        except Problem as problem:
            return self.budget_page(session, dataset, fields, problem.detail)
        return self._to(f"/data/{dataset}{'' if is_done else '/budget'}")

    # --- about proposals

    def _add_proposal_pages(self, router: APIRouter, reader: Any) -> None:
        place = "/data/{dataset}/{digest}"

        @router.get("/data/{dataset}")
        def proposals(dataset: Name, session: reader, before: _Before = None) -> Response:
            self._service.authenticator.served(session.token, dataset)
            rows = self._accounts.proposals(dataset, MANY + 1, before=before)
            more = rows[MANY - 1].number if len(rows) > MANY else None
            return self._page(
                "proposals.html",
                session,
                dataset=dataset,
                rows=rows[:MANY],
                next_page=more,
                **(
                    {"view": None, "pictures": (), "deciding": False}
                    if before
                    else self.history(session, dataset)
                ),
            )

        @router.get(place)
        def proposal(dataset: Name, digest: Digest, session: reader) -> Response:
            return self._proposal_page(session, dataset, digest)

        @router.get(f"{place}/release")
        def release(dataset: Name, digest: Digest, session: reader) -> Response:
            stored = self._service.proposal(session.token, dataset, digest)
            return release_response(self._service, stored)

        @router.post(place)
        async def decision(
            request: Request, dataset: Name, digest: Digest, session: reader
        ) -> Response:
            fields = await self._sessions.form(request, session)
            _check_owner(session)
            return await run_in_threadpool(self._decision, session, dataset, digest, fields)

    def _decision(
        self, session: Session, dataset: str, digest: str, fields: dict[str, str]
    ) -> Response:
        stored = self._service.proposal(session.token, dataset, digest)
        choices = {
            "grant": {"grant": True},
            "refuse": {"grant": False, "reason": fields.get("reason", "")},
        }
        try:
            decision = read_decision(choices.get(fields.get("decision", "")))
            self._service.decide(stored, decision, session.token)
        except UsageError as error:
            return self._proposal_page(session, dataset, digest, str(error))
        except Problem as problem:
            return self._proposal_page(session, dataset, digest, problem.detail)
        return self._to(f"/data/{dataset}/{digest}")

    def history(self, session: Session, dataset: str) -> dict[str, Any]:
        """Return what a page shows of a data set and of its budgets, charge by charge."""
        (view,) = self._accounts.datasets(session.token, _FEW, [dataset])
        spent = self._service.ledger.spent_after(dataset, MANY)
        pictures = [budget_picture(steps, str(unit)) for unit, steps in spent.items()]
        deciding = bool(self._service.ledger.open_decisions(dataset))
        return {"view": view, "pictures": pictures, "deciding": deciding}

    def _proposal_page(
        self, session: Session, dataset: str, digest: str, problem: str | None = None
    ) -> Response:
        stored = self._service.proposal(session.token, dataset, digest)
        row = self._accounts.proposal(stored)
        plan = self._planning.foresight(stored) if row.state == "waiting" else None
        moves_on = row.step.in_work or (row.state == "waiting" and plan is None)
        return self._page(
            "proposal.html",
            session,
            HTTPStatus.OK if problem is None else HTTPStatus.CONFLICT,
            dataset=dataset,
            row=row,
            row_hash=None if stored.proposal.rows is None else stored.proposal.rows.hash,
            plan=plan,
            stated=[] if plan is None else [guarantee_lines(g) for g in plan.guarantees],
            approvers=self._service.settings.datasets[dataset].approvers,
            agreed=self.agreed(stored) if row.state == "waiting" else [],
            may_agree=self._service.person(session.token) is not None,
            cost=[] if plan is None or plan.trouble else self.cost(dataset, plan),
            problem=problem,
            moves_on=2 if moves_on and problem is None else 0,
        )

    def agreed(self, stored: StoredProposal) -> list[str]:
        """Return who of two people agreed so far."""
        if self._service.settings.datasets[stored.dataset].approvers == 1:
            return []
        return self._service.records.agreed(stored.dataset, stored.digest)

    def cost(self, dataset: str, plan: Foresight) -> list[dict[str, Any]]:
        """Return what a release would leave of each budget, in words and as a picture."""
        left = self._service.ledger.left_after(dataset, plan.guarantees)
        lines: list[dict[str, Any]] = []
        if left is None:
            return lines
        for balance in self._service.ledger.balances(dataset):
            after, whole, unit = left[balance.unit], balance.budget.epsilon, balance.unit
            words = (
                f"Of the budget of epsilon {whole:g} per {unit}, {rounded_down(balance.left)} is"
                f" left now. After this release {rounded_down(after)} would be left."
            )
            picture = cost_picture(whole, balance.left, after, f"per {unit}")
            lines.append({"words": words, "picture": picture})
        return lines

    def _add_token_pages(self, router: APIRouter, reader: Any) -> None:
        records = self._service.records

        @router.get("/tokens")
        def tokens(session: reader) -> Response:
            _check_owner(session)
            check_covers_all(session.token)
            return self._token_page(session)

        @router.post("/tokens")
        async def new(request: Request, session: reader) -> Response:
            fields = await self._sessions.form(request, session)
            _check_owner(session)
            check_covers_all(session.token)
            return await run_in_threadpool(self._make_token, session, fields)

        @router.post("/tokens/{identity}/revoke")
        async def revoke(request: Request, identity: Identity, session: reader) -> Response:
            await self._sessions.form(request, session)
            _check_owner(session)
            check_covers_all(session.token)
            await run_in_threadpool(records.revoke_token, identity)
            return self._to("/tokens")

    def _make_token(self, session: Session, fields: dict[str, str]) -> Response:
        role, scope, days = fields.get("role", ""), fields.get("scope", ""), fields.get("days", "")
        try:
            if role not in {*Role} or not days.isdecimal():
                raise ParameterError("A token needs a role and a number of days.")
            if scope and scope not in self._service.settings.datasets:
                raise ParameterError("This data set is not served. Choose another one.")
            token, text = mint(
                role,
                scope=(scope,) if scope else (),
                holder=fields.get("holder", ""),
                days=int(days[:9]),
            )
        except UsageError as error:
            return self._token_page(session, problem=str(error))
        self._service.records.add_token(token)
        return self._token_page(session, text=text)

    def _token_page(
        self, session: Session, text: str | None = None, problem: str | None = None
    ) -> Response:
        return self._page(
            "tokens.html",
            session,
            tokens=self._service.records.tokens(),
            names=list(self._service.settings.datasets),
            text=text,
            problem=problem,
        )

    def _add_oversight_pages(self, router: APIRouter, reader: Any) -> None:

        @router.get("/report")
        def report(session: reader, start: Start = 0) -> Response:
            return self._report(session, start, for_print=False)

        @router.get("/print")
        def printed(session: reader, start: Start = 0) -> Response:
            return self._report(session, start, for_print=True)

        @router.get("/log")
        def log(
            session: reader,
            before: _Before = None,
        ) -> Response:
            return self._log(session, before)

        @router.post("/log")
        async def comparison(request: Request, session: reader) -> Response:
            fields = await self._sessions.form(request, session)
            return await run_in_threadpool(self._compare, session, fields.get("checkpoint", ""))

        @router.get("/log/checkpoint")
        def checkpoint(session: reader) -> Response:
            signed = self._accounts.checkpoint(session.token)
            name = f"{signed.time[:10]}-{signed.entries}.checkpoint"
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return Response(signed.to_text(), media_type="text/plain", headers=headers)

        @router.get("/export")
        def export(session: reader) -> Response:
            return export_response(*self._accounts.export(session.token))

    def _report(self, session: Session, start: int, *, for_print: bool) -> Response:
        token = session.token
        names = [*self._accounts.names(token)]
        shown = names[start : start + MANY]
        return self._page(
            "report.html",
            session,
            for_print=for_print,
            datasets=self._accounts.datasets(token, MANY, shown),
            paging=(start, len(shown), len(names)),
            tokens=self._accounts.tokens(token),
            log=self._accounts.log(token),
            key_id=self._accounts.key_id,
            now=utc_now(),
        )

    def _compare(self, session: Session, text: str) -> Response:
        if not text.strip():
            return self._log(session, None, problem="Paste the seven lines of a checkpoint.")
        try:
            older = checkpoint_of(text)
        except ReleaseError as error:
            return self._log(session, None, problem=str(error), pasted=text)
        return self._log(session, None, comparison=self._accounts.compare(session.token, older))

    def _log(
        self,
        session: Session,
        before: int | None,
        *,
        comparison: Comparison | None = None,
        problem: str | None = None,
        pasted: str = "",
    ) -> Response:
        log = self._accounts.log(session.token)
        older = [] if log.problem else self._accounts.entries(session.token, before, MANY + 1)
        rows = [(entry, entry_words(entry)) for entry in older[:MANY]]
        return self._page(
            "log.html",
            session,
            log=log,
            rows=rows,
            next_page=older[MANY - 1].number if len(older) > MANY else None,
            comparison=comparison,
            key_id=self._accounts.key_id,
            pasted=pasted,
            problem=problem,
        )


def _check_owner(session: Session) -> None:
    if session.token.role is not Role.OWNER:
        raise Problem(HTTPStatus.FORBIDDEN, "Only an owner may do this.")
