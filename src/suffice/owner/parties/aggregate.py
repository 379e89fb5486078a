"""Many parties, one private classifier: contributions are summed and leave once, with noise.

Hamm, Cao, Belkin (2016), completed: soft labels are a mean operator, so that noise on it carries no
1/lambda, and is shaped by what votes can do to it (docs/parties.md, privacy/proofs/parties.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.errors import ParameterError
from suffice.owner.ledger import DatasetCharge, Ledger
from suffice.owner.overlap import warn_of_same_rows
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.enrolled import Enrolled, Rejection
from suffice.owner.parties.gathering import Gathered, Gathering, Sent
from suffice.owner.parties.guarantees import auxiliary_guarantee, party_guarantee
from suffice.owner.parties.releases import OperatorWay, Round, VotesWay, Way
from suffice.owner.parties.tally import ParameterTally, VoteTally
from suffice.owner.publish import of_versions, publish
from suffice.owner.scaling import as_scaled
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.noise import LARGEST_SUM, Noise
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.tables.labels import check_classes

__all__ = ["METHODS", "Aggregation", "PrivateEnsemble"]

METHODS = {
    "operator": "operator",
    "votes": "votes",
    "soft": "operator",
    "vote": "votes",
    "average": "parameters",
}  # and what each needs of a party


@dataclass(frozen=True)
class Aggregation:
    """The release, and what became of every contribution that did not enter it.

    ``missing`` names enrolled parties of which nothing came, where names are known; ``absent``
    counts them. None of this is in the release: it is the aggregator's to know.
    """

    release: Release
    accepted: int
    rejected: tuple[Rejection, ...]
    missing: tuple[str, ...]
    absent: int


@dataclass(frozen=True)
class PrivateEnsemble:
    """Protects each party: all of its data together, whatever it holds and however it votes.

    M = ``enrolled`` parties vote on N public auxiliary rows. ``method``:

    - "operator": the mean operator of their soft labels, (1/N) sum_i x_i alpha_i^T, with noise that
      is even in whitened coordinates z = T x. One party moves it there by at most

          (2/M) min(mean ||z_i||, sqrt(lambda_max(Z^T Z / N)))

      (sqrt2/M for three classes or more): neither the number of rows nor a penalty matters.
    - "votes": the table of mean votes itself; one party moves the counts by at most sqrt(2 N).
    - "soft", "vote", "average": a classifier by output perturbation (Hamm et al. 2016, Algorithms 2
      and 1, and Pathak et al. 2010), at penalty ``lam`` (owner/parties/output_perturbation.py).

    ``mechanism``: "gaussian" (needs ``delta``), "knorm" (pure), or "auto": the first of them that
    delta allows. ``noise`` of the operator: "whitened" or "even", which is never better. Assumes
    that the auxiliary rows, their pipeline, the classes and the number of *enrolled* parties are
    public, that a party's contribution depends on its own data alone, and that the parties trust
    whoever runs this with their contributions. With ``private_auxiliary`` the auxiliary rows are
    protected too, one by one, together with a party: for "soft" and "vote" only, and with a
    pipeline that was not fitted on them. The release then states two guarantees, per party and per
    record of the auxiliary rows, and both are paid for. A pipeline whose numbers come from private
    rows, or nobody knows from where, makes the guarantees data-dependent.
    """

    epsilon: float
    delta: float = 0.0
    method: str = "operator"
    classes: Sequence[Any] = (0, 1)
    mechanism: str = "auto"
    noise: str = "whitened"
    lam: float = 1e-4
    private_auxiliary: bool = False

    def __post_init__(self) -> None:
        check_promise(self)

    def aggregate(
        self,
        contributions: Iterable[Sent] | VoteTally | ParameterTally,
        auxiliary: AuxiliaryRows,
        *,
        enrolled: Enrolled | int | Sequence[str],
        ledger: Ledger | None,
        dataset: str | None = None,
        auxiliary_dataset: str | None = None,
        request: str | None = None,
        data_changed: bool = False,
        found_at: str | None = None,
        unprotected: bool = False,
    ) -> Aggregation:
        """Return the release of these contributions, paid for from ``ledger`` (None for no ledger).

        ``contributions`` are `PartyContribution` values, ``*.part`` files or their bytes, or a
        tally of one table of all parties. If none of those sent is of this round by its header,
        which is public, nothing is charged or released. ``enrolled`` is the public number of
        parties, or their names. A budget belongs to the enrolled parties: another round with the
        same is paid from the same. Those that are only counted are taken for the same wherever
        there are as many. Protected auxiliary rows are a data set too, ``auxiliary_dataset``, with
        a budget per record: any crowd that votes on them is paid from it as well. Both are charged
        or neither is. ``data_changed`` says that other parties are enrolled under this name than
        before, or that the protected rows were changed; they use the same budgets. ``unprotected``
        says aloud that a release may leave whose pipeline makes its guarantees data-dependent.
        """
        self._check_payers(ledger, auxiliary_dataset, found_at)
        parties = Enrolled.of(enrolled)
        way = self.way(auxiliary, parties)
        if self.private_auxiliary:
            warn_of_same_rows(auxiliary.hashes[0], auxiliary.pipeline.origin.rows)
        gathered = self.gathered(contributions, auxiliary, parties)
        stated = tuple(
            of_versions(guarantee, data_changed=data_changed)
            for guarantee in self._guarantees(way.noise, auxiliary)
        )
        own, rows = stated[:1], stated[1:]  # about the parties, and about protected rows
        also = []
        if rows:
            also = [DatasetCharge(auxiliary_dataset or "", rows, auxiliary.fingerprint())]
        release = publish(
            lambda: way.draw(gathered.total, stated, found_at),
            own,
            also=also,
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters=self._parameters(auxiliary, parties),
            fingerprint=parties.fingerprint(),
            content=gathered.content,
            unprotected=unprotected,
            data_changed=data_changed,
        )
        report = (gathered.accepted, gathered.rejected, gathered.missing, gathered.absent)
        return Aggregation(release, *report)

    def guarantees(
        self, auxiliary: AuxiliaryRows, *, enrolled: Enrolled | int | Sequence[str]
    ) -> tuple[Guarantee, ...]:
        """Return what a release would promise, first per party; it needs no contribution."""
        return self._guarantees(self.way(auxiliary, Enrolled.of(enrolled)).noise, auxiliary)

    def covariance(
        self, auxiliary: AuxiliaryRows, *, enrolled: Enrolled | int | Sequence[str]
    ) -> Covariance:
        """Return the covariance that the noise of a release would have, per column."""
        return self.way(auxiliary, Enrolled.of(enrolled)).covariance()

    def way(self, auxiliary: AuxiliaryRows, enrolled: Enrolled) -> Way:
        """Return how a release is made, calibrated before anything private is seen."""
        classes = check_classes(self.classes)
        if self.method not in METHODS:
            raise ParameterError(f"method must be one of {', '.join(METHODS)}.")
        if enrolled.count * 2**40 >= LARGEST_SUM:
            raise ParameterError("there are too many parties for one sum; aggregate in groups.")
        if self.private_auxiliary and self.method not in ("soft", "vote"):
            raise ParameterError(
                f"{self.method} takes the auxiliary rows as public; soft and vote can protect them."
            )
        public = Round(auxiliary, classes, enrolled, self.mechanism, self.epsilon, self.delta)
        if self.method == "operator":
            return OperatorWay(public, self.noise)
        if self.method == "votes":
            return VotesWay(public)
        from suffice.owner.parties.output_perturbation import (  # solvers are heavy
            Averaged,
            Distilled,
        )

        if self.method == "average":
            return Averaged(public, self.lam)
        return Distilled(self.method, public, self.lam, private=self.private_auxiliary)

    def gathered(
        self,
        contributions: Iterable[Sent] | VoteTally | ParameterTally,
        auxiliary: AuxiliaryRows,
        enrolled: Enrolled,
    ) -> Gathered:
        """Return the exact sum of the contributions, which is private; those at fault are named.

        Whether a table holds anything of an enrolled party is private too: a tally is never refused
        for being empty.
        """
        statistic, classes = METHODS[self.method], check_classes(self.classes)
        if not isinstance(contributions, VoteTally | ParameterTally):
            gathering = Gathering(statistic, auxiliary, classes, enrolled, self.lam)
            gathering.take(contributions).check_round()
            return gathering.result()
        if contributions.classes != classes or contributions.auxiliary.grid != auxiliary.grid:
            raise ParameterError("the tally is of other classes or other auxiliary rows.")
        if contributions.enrolled != enrolled:
            raise ParameterError("the tally is of other enrolled parties.")
        return contributions.gathered(statistic)

    def _guarantees(self, noise: Noise, auxiliary: AuxiliaryRows) -> tuple[Guarantee, ...]:
        private = self.private_auxiliary
        found = [party_guarantee(noise, self.delta, auxiliary, private=private)]
        found += [auxiliary_guarantee(noise, self.delta, auxiliary)] if private else []
        return tuple(as_scaled(guarantee, auxiliary.pipeline.origin) for guarantee in found)

    def _check_payers(
        self, ledger: Ledger | None, auxiliary_dataset: str | None, found_at: str | None
    ) -> None:
        """Raise unless protected auxiliary rows, and only those, have a data set that pays."""
        if not self.private_auxiliary:
            if auxiliary_dataset is not None:
                raise ParameterError(
                    "auxiliary rows have a data set only where they are protected"
                    " (private_auxiliary=True, --private-aux). Leave its name out."
                )
            return
        if found_at is not None:
            raise ParameterError(
                "the auxiliary rows are protected, so the release must not say where they are."
                " Leave found_at (--found-at) out."
            )
        if ledger is not None and not auxiliary_dataset:
            raise ParameterError(
                "protected auxiliary rows need a budget of their own beside the parties'. Open one"
                " (suffice ledger init FILE --dataset NAME --epsilon ... --unit record) and name it"
                " (auxiliary_dataset=..., --aux-dataset NAME)."
            )
        if ledger is None and auxiliary_dataset is not None:
            raise ParameterError(
                "without a ledger no data set is charged. Leave auxiliary_dataset (--aux-dataset)"
                " out."
            )

    def _parameters(self, auxiliary: AuxiliaryRows, enrolled: Enrolled) -> dict[str, Any]:
        return {
            "kind": "parties",
            "method": self.method,
            "mechanism": self.mechanism,
            "noise": self.noise,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "lam": self.lam,
            "classes": list(check_classes(self.classes)),
            "enrolled": enrolled.count,
            "private_auxiliary": self.private_auxiliary,
            # Not the hash of rows that are private: the ledger's history is shown to people.
            "grid": "" if self.private_auxiliary else auxiliary.grid,
            "pipeline": auxiliary.pipeline.digest(),
        }
