"""What owners and officers are shown of each data set, and the signed export of all of it.

Everything is limited to the data sets that a token covers. Nothing here opens a table: proposals
and tokens are the desk's, budgets and charges the ledger's, and all of them are public or noisy.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from suffice.owner.ledger.chain import utc_now
from suffice.owner.ledger.checkpoint import Checkpoint, signed_checkpoint
from suffice.owner.ledger.rows import Balance, Entry, stated_epsilon
from suffice.owner.ledger.tokens import Token
from suffice.owner.ledger.words import STATES
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.words import lists, sentences
from suffice.release.codec import decode
from suffice.release.files import read_bounded
from suffice.release.signing import key_fingerprint
from suffice.transport.export import Export, sign_export
from suffice.transport.http.desk import Filed
from suffice.transport.http.log_views import CheckedLog, read_log, visible_entries
from suffice.transport.http.problems import Problem
from suffice.transport.http.service import Service
from suffice.transport.http.settings import ServedData
from suffice.transport.messages import Answer, Countered, Granted, Proposal

__all__ = ["Accounts", "ChargeView", "DatasetView", "ProposalView"]

_LOST = "lost"
_STATES: Mapping[str, str] = {
    "received": "waiting for the service",
    "waiting": "waiting for the owner",
    "approved": "approved, not released yet",
    _LOST: STATES["burnt"],
}
_ORDER = ("waiting", "received", "approved", "granted", "countered", "refused", _LOST)
_TRIES = 5  # to read log and balances while nobody charges
_MOST_KEY_BYTES = 2**16


@dataclass(frozen=True)
class ProposalView:
    """A proposal, and what became of it.

    Attributes
    ----------
    filed : Filed
        The proposal as it arrived.
    proposal : Proposal
        What it asks for.
    answer : Answer, optional
        What was answered.
    senders : list of str
        The holders of the tokens that sent it.
    guarantees : tuple of Guarantee
        What its release states, if there is one.
    is_lost : bool
        Whether it was charged, and its output was lost.
    """

    filed: Filed
    proposal: Proposal
    answer: Answer | None
    senders: list[str]
    guarantees: tuple[Guarantee, ...]
    is_lost: bool

    @property
    def state(self) -> str:
        """What became of it: a state of the desk, the name of an answer, or "lost"."""
        if self.is_lost:
            return _LOST
        return str(self.filed.state) if self.answer is None else self.answer.name

    @property
    def state_words(self) -> str:
        """The state as people are shown it."""
        return _STATES.get(self.state, self.state)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was not granted, if it was not."""
        return () if self.answer is None else getattr(self.answer, "reasons", ())

    @property
    def offer(self) -> dict[str, Any] | None:
        """The terms that the owner would grant instead, if there are any."""
        return _terms(self.answer.terms) if isinstance(self.answer, Countered) else None

    def guarantee_lines(self) -> list[list[str]]:
        """Return what each guarantee says, takes to be public, and assumes."""
        return [[*sentences(guarantee), *lists(guarantee)] for guarantee in self.guarantees]

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as the export holds it."""
        proposal, answer = self.proposal, self.answer
        return {
            "proposal": self.filed.digest,
            "received": self.filed.received.isoformat(),
            "senders": self.senders,
            "purpose": proposal.purpose,
            "kind": proposal.kind,
            "terms": _terms(proposal.terms),
            "rows": proposal.rows.count,
            "features": list(proposal.features),
            "classes": list(proposal.classes),
            "state": self.state_words,
            "reasons": list(self.reasons),
            "offer": self.offer,
            "release": answer.release if isinstance(answer, Granted) else None,
            "guarantees": [_guarantee_json(guarantee) for guarantee in self.guarantees],
        }


@dataclass(frozen=True)
class ChargeView:
    """One charge of a data set's budget.

    Attributes
    ----------
    entry : Entry
        The charge, as the ledger's history has it.
    dataset : str
        The data set. A charge may be of several.
    """

    entry: Entry
    dataset: str

    @property
    def time(self) -> datetime:
        """When it was charged, UTC."""
        return datetime.fromtimestamp(self.entry.time, UTC).replace(microsecond=0)

    @property
    def state_words(self) -> str:
        """What became of it: released, pending, or charged with its output lost."""
        return STATES.get(self.entry.state, self.entry.state)

    @property
    def cost(self) -> list[tuple[str, float]]:
        """Unit and epsilon of what it cost by itself, at the delta that its release states."""
        own = self.entry.dataset == self.dataset
        charges = self.entry.charges if own else self.entry.also[self.dataset]
        delta = self.entry.stated_delta
        return [(str(unit), stated_epsilon(event, delta)) for unit, event in charges]

    def to_json(self) -> dict[str, Any]:
        """Return the charge as the export holds it; its data version stays with the owner."""
        own = self.entry.dataset == self.dataset
        return {
            "number": self.entry.number,
            "time": self.time.isoformat(),
            "request": self.entry.request if own else "a release of several data sets",
            "state": self.state_words,
            "cost": [{"unit": unit, "epsilon": _finite(epsilon)} for unit, epsilon in self.cost],
            "delta": self.entry.stated_delta,
        }


@dataclass(frozen=True)
class DatasetView:
    """A data set with its budgets, proposals and charges.

    Attributes
    ----------
    name : str
        Its name in the ledger.
    served : ServedData, optional
        Label, policy and grants; None if the service does not serve it.
    balances : list of Balance
        Its budgets.
    largest_epsilon : float
        The largest epsilon of a further release of labels; of a data set that is not served, 0.
    proposals : list of ProposalView
        What was proposed, newest first.
    charges : list of ChargeView
        What was charged, newest first, also by releases from the command line.
    """

    name: str
    served: ServedData | None
    balances: list[Balance]
    largest_epsilon: float
    proposals: list[ProposalView]
    charges: list[ChargeView]

    @property
    def counts(self) -> list[tuple[int, str]]:
        """How many proposals are in each state, in words, as far as there are any."""
        numbers = Counter(view.state for view in self.proposals)
        return [(numbers[s], _STATES.get(s, s)) for s in _ORDER if numbers[s]]

    @property
    def other_charges(self) -> list[ChargeView]:
        """Charges of releases that no proposal asked for."""
        requests = {view.proposal.request for view in self.proposals}
        return [c for c in self.charges if c.entry.request not in requests]

    def to_json(self) -> dict[str, Any]:
        """Return the data set as the export holds it."""
        served = None if self.served is None else {
            "label": self.served.label,
            "grants": self.served.grants,
            "policy": self.served.policy.to_json(),
            "largest_epsilon": self.largest_epsilon,
        }  # fmt: skip
        return {
            "name": self.name,
            "served": served,
            "budgets": [_balance_json(balance) for balance in self.balances],
            "proposals": [view.to_json() for view in reversed(self.proposals)],
            "charges": [view.to_json() for view in reversed(self.charges)],
        }


class Accounts:
    """Gathers what the holder of a token may read.

    Parameters
    ----------
    service
        What is served, with its desk and its ledger.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def key_id(self) -> str:
        """The short name of the key that signs releases, checkpoints and exports."""
        data = read_bounded(self._service.settings.key, _MOST_KEY_BYTES)
        return key_fingerprint(data)[0]

    def datasets(self, token: Token) -> list[DatasetView]:
        """Return the data sets that a token covers: those that are served, then others."""
        ledger, served = self._service.ledger, self._service.settings.datasets
        balances, history = ledger.balances(), ledger.history()
        names = dict.fromkeys([*served, *(balance.dataset for balance in balances)])
        return [
            self._dataset(name, [b for b in balances if b.dataset == name], history)
            for name in names
            if token.covers(name)
        ]

    def _dataset(self, name: str, balances: list[Balance], history: Sequence[Entry]) -> DatasetView:
        served = self._service.settings.datasets.get(name)
        charges = [ChargeView(e, name) for e in history if name in (e.dataset, *e.also)]
        lost = {c.entry.request for c in charges if c.entry.state == "burnt"}
        filed = [] if served is None else self._service.desk.proposals(name)
        return DatasetView(
            name,
            served,
            balances,
            0.0 if served is None else self._service.largest_epsilon(name),
            [self._view(one, lost) for one in reversed(filed)],
            charges[::-1],
        )

    def proposal(self, filed: Filed) -> ProposalView:
        """Return one proposal."""
        history = self._service.ledger.history()
        own = [e for e in history if e.dataset == filed.dataset]
        return self._view(filed, {e.request for e in own if e.state == "burnt"})

    def _view(self, filed: Filed, lost: set[str]) -> ProposalView:
        proposal = Proposal.load(filed.body)
        return ProposalView(
            filed,
            proposal,
            None if filed.answer is None else Answer.load(filed.answer),
            self._service.desk.senders(filed.dataset, filed.digest),
            () if filed.release is None else tuple(decode(filed.release).guarantees),
            proposal.request in lost,
        )

    def tokens(self, token: Token) -> list[Token]:
        """Return the tokens that are good for a data set that this one covers, without others."""
        tokens = self._service.desk.tokens()
        if not token.scope:
            return tokens
        own = [t for t in tokens if any(t.covers(name) for name in token.scope)]
        return [replace(t, scope=tuple(n for n in t.scope if n in token.scope)) for t in own]

    def log(self, token: Token) -> CheckedLog:
        """Return the whole audit log after checking it; see `visible_entries` for what to show."""
        return read_log(self._service.ledger, token)

    def whole_log(self, token: Token) -> CheckedLog:
        """Return the audit log, or raise if it is broken.

        Raises
        ------
        Problem
            409, with what is wrong.
        """
        log = self.log(token)
        if log.problem:
            raise Problem(HTTPStatus.CONFLICT, log.problem)
        return log

    def checkpoint(self, token: Token) -> Checkpoint:
        """Return the head of the log, signed with the service's key."""
        log = self.whole_log(token)
        name, key = str(log.entries[0].facts["ledger"]), self._service.settings.key
        return signed_checkpoint(name, len(log.entries), log.head, utc_now(), key)

    def export(self, token: Token) -> Export:
        """Return everything that a token shows, signed with the service's key.

        Balances and log are of the same moment: they are read again if somebody charged meanwhile.

        Raises
        ------
        Problem
            409 if the log is broken, and 503 if it does not stop growing.
        """
        for _ in range(_TRIES):
            log = self.whole_log(token)
            datasets = [view.to_json() for view in self.datasets(token)]
            tokens = [shown.to_json() for shown in self.tokens(token)]
            if self.whole_log(token).head == log.head:
                break
        else:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The ledger is in use. Try again later.",
                {"Retry-After": "10"},
            )
        content = {
            "organisation": self._service.settings.organisation,
            "time": utc_now(),
            "ledger": str(log.entries[0].facts["ledger"]),
            "entries": len(log.entries),
            "head": log.head,
            "frozen": log.frozen,
            "scope": list(token.scope),
            "datasets": datasets,
            "log": [vars(entry) for entry in visible_entries(log.entries, token)],
            "tokens": tokens,
        }
        return sign_export(content, self._service.settings.key)


def _terms(terms: Any) -> dict[str, Any]:
    return {"epsilon": terms.epsilon, "delta": terms.delta, "mechanism": terms.mechanism}


def _guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "unit": str(guarantee.unit),
        "epsilon": None if guarantee.epsilon is None else _finite(guarantee.epsilon),
        "delta": guarantee.delta,
        "sentences": sentences(guarantee),
        "public": [str(text) for text in guarantee.public],
        "assumes": [str(assumption) for assumption in guarantee.assumptions],
    }


def _balance_json(balance: Balance) -> dict[str, Any]:
    return {
        "unit": str(balance.unit),
        "epsilon": balance.budget.epsilon,
        "delta": balance.budget.delta,
        "spent": _finite(balance.spent),
        "left": balance.left,
        "charges": balance.debits,
    }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold, None for an infinite one."""
    return value if math.isfinite(value) else None
