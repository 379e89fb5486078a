"""What owners and officers are shown of each data set, and the signed export of all of it.

Everything is limited to the data sets that a token covers. Nothing here opens a table: proposals
and tokens are the desk's, budgets and charges the ledger's, and all of them are public or noisy.
"""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

from suffice.owner.ledger.chain import utc_now
from suffice.owner.ledger.checkpoint import Checkpoint, signed_checkpoint
from suffice.owner.ledger.rows import Balance, Entry
from suffice.owner.ledger.tokens import Token
from suffice.release.codec import decode
from suffice.release.files import read_bounded
from suffice.release.signing import key_fingerprint
from suffice.transport.export import Export, sign_export
from suffice.transport.http.account_views import ChargeView, DatasetView, ProposalView
from suffice.transport.http.desk import Filed
from suffice.transport.http.log_views import CheckedLog, read_log, visible_entries
from suffice.transport.http.problems import Problem
from suffice.transport.http.service import Service
from suffice.transport.messages import Answer, Proposal

__all__ = ["Accounts"]

_TRIES = 5  # to read log and balances while nobody charges
_MOST_KEY_BYTES = 2**16


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
            [self._view(proposal, lost) for proposal in reversed(filed)],
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
            "anchor": log.anchor,
            "scope": list(token.scope),
            "datasets": datasets,
            "log": [vars(entry) for entry in visible_entries(log.entries, token)],
            "tokens": tokens,
        }
        return sign_export(content, self._service.settings.key)
