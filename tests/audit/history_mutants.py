"""Faults that told by a history whether data changed, put back one by one: pairs must find each."""

import hashlib
from dataclasses import replace

import pytest

from suffice.errors import LedgerError, RequestConflictError
from suffice.owner import mechanism
from suffice.owner.ledger import rules
from suffice.owner.ledger.store import Tables


def named_by_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a request without a name by the private data: changed data are drawn and charged."""
    publish = mechanism.publish

    def mutant(draw, guarantees, payment, *, parameters, fingerprint, also):
        prints = [fingerprint, *(charge.fingerprint.encode() for charge in also)]
        content = repr(sorted(parameters.items())).encode() + b"".join(prints)
        name = payment.request or hashlib.sha256(content).hexdigest()[:16]
        return publish(
            draw,
            guarantees,
            replace(payment, request=name),
            parameters=parameters,
            fingerprint=fingerprint,
            also=also,
        )

    monkeypatch.setattr(mechanism, "publish", mutant)


def conflict_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a known name if the data are not those that it was charged for."""
    check = rules.check_same_request

    def mutant(request, charges, earlier):
        check(request, charges, earlier)
        if any(earlier.fingerprints[charge.dataset] != charge.fingerprint for charge in charges):
            raise RequestConflictError("The data are others.")

    monkeypatch.setattr(rules, "check_same_request", mutant)


def refused_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a new name if the data are not those of earlier releases."""
    add = Tables.add_charge

    def mutant(self, dataset, guarantees, request, token, *, also=()):
        query = "SELECT fingerprint FROM costs WHERE dataset = ?"
        prints = {known for (known,) in self.db.execute(query, (dataset,))}
        if prints and request.fingerprint not in prints:
            raise LedgerError("The data under this name have changed.")
        return add(self, dataset, guarantees, request, token, also=also)

    monkeypatch.setattr(Tables, "add_charge", mutant)


def refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse data that have a budget under another name."""
    add = Tables.add_charge

    def mutant(self, *charged, **also):
        if add(self, *charged, **also):
            raise LedgerError("These data have a budget under another name.")
        return []

    monkeypatch.setattr(Tables, "add_charge", mutant)


HISTORY_MUTANTS = (named_by_data, conflict_by_content, refused_as_changed, refused_elsewhere)
