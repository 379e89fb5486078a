"""A data set with its proposals and charges, as pages show them and the export holds them."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from suffice.owner.ledger.rows import Balance, Entry, stated_epsilon
from suffice.owner.ledger.words import STATES
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.words import lists, sentences
from suffice.transport.http.desk import Filed
from suffice.transport.http.settings import ServedData
from suffice.transport.messages import Answer, Countered, Granted, Proposal

__all__ = ["ChargeView", "DatasetView", "ProposalView"]

_LOST = "lost"
_STATES: Mapping[str, str] = {
    "received": "waiting for the service",
    "waiting": "waiting for the owner",
    "approved": "approved, not released yet",
    _LOST: STATES["burnt"],
}
_ORDER = ("waiting", "received", "approved", "granted", "countered", "refused", _LOST)


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
        """Return the charge as the export holds it."""
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
