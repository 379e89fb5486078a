"""What the routes and pages of the service share: its records, and decisions about proposals."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query

from suffice.errors import ParameterError, StorageError, UnitError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.rows import Balance
from suffice.transport.http.access import Caller, Door
from suffice.transport.http.desk import Desk, Filed, State
from suffice.transport.http.jobs import Workroom
from suffice.transport.http.problems import Problem, not_found
from suffice.transport.http.settings import Settings
from suffice.transport.messages import Proposal, Refused
from suffice.transport.protocol import entry_about

__all__ = ["After", "Digest", "Identity", "Name", "Service"]

Name = Annotated[str, Path(max_length=200)]
Identity = Annotated[str, Path(pattern="^[0-9a-z]{1,40}$")]
Digest = Annotated[str, Path(pattern="^sha256:[0-9a-f]{64}$")]
After = Annotated[str | None, Query(pattern="^sha256:[0-9a-f]{64}$")]


class Service:
    """What the routes share: settings, desk, ledger, door and workroom.

    Parameters
    ----------
    settings
        What is served.

    Raises
    ------
    LedgerError
        If the ledger does not exist, or has no budget for a served data set.
    StorageError
        If the key does not exist.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.ledger)
        self._check_ready()
        self.desk = Desk(self.ledger)
        self.door = Door(settings, self.desk)
        self.workroom = Workroom(settings, self.desk)

    def _check_ready(self) -> None:
        """Raise if a served data set has no budget yet, or releases could not be signed."""
        for name, served in self.settings.datasets.items():
            self.ledger.classes(name, served.label)
        if not self.settings.key.is_file():
            raise StorageError(
                f"The key {self.settings.key} does not exist. Make it with `suffice keygen`."
            )

    def balance(self, dataset: str) -> list[Balance]:
        """Return the budgets of a data set, with what is left of each."""
        return [b for b in self.ledger.balances() if b.dataset == dataset]

    def largest_epsilon(self, dataset: str) -> float:
        """Return the largest epsilon of a further release of labels; 0 if nothing can be granted.

        Nothing can be granted where another unit than the label has a budget.
        """
        try:
            return self.ledger.largest_epsilon(dataset, unit="label")
        except UnitError:
            return 0.0

    def filed(self, caller: Caller, dataset: str, digest: str) -> Filed:
        """Return a proposal that the caller may see, or raise as if there were none."""
        self.door.served(caller, dataset)
        proposal = self.desk.filed(dataset, digest)
        if proposal is None or not self.door.may_see(caller, proposal):
            raise not_found()
        return proposal

    def decide(self, proposal: Filed, choice: object) -> None:
        """Move a waiting proposal on, as its owner decided; what was decided stays decided.

        Parameters
        ----------
        proposal
            A proposal that waits.
        choice
            ``{"grant": True}``, or ``{"grant": False, "reason": TEXT}``.

        Raises
        ------
        ParameterError
            If it is no choice.
        Problem
            409 if the proposal does not wait for a decision.
        """
        waits = proposal.state is State.WAITING
        match choice:
            case {"grant": True, **rest} if not rest:
                moved = waits and self.desk.move(proposal, State.APPROVED)
            case {"grant": False, "reason": str(reason), **rest} if not rest:
                answer = Refused(proposal.digest, (reason,))
                entry = entry_about(Proposal.load(proposal.body), answer)
                moved = waits and self.desk.answer(proposal, answer.encode(), None, entry)
            case _:
                raise ParameterError(
                    'A decision must be {"grant": true}, or {"grant": false, "reason": TEXT}.'
                )
        if not moved:
            raise Problem(HTTPStatus.CONFLICT, "This proposal does not wait for a decision.")
        self.workroom.ring(proposal.dataset)
