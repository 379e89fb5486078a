"""Many parties, one private classifier: contributions are summed and leave once, with noise.

Hamm, Cao, Belkin (2016), completed: soft labels are a mean operator, so that noise on it carries no
1/lambda, and is shaped by what votes can do to it (docs/parties.md, privacy/proofs/parties.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.gathering import Enrolled, Gathered, Gathering, Rejection, Sent
from suffice.owner.parties.releases import OperatorWay, Round, VotesWay, Way
from suffice.owner.parties.tally import VoteTally
from suffice.owner.publish import of_versions, publish
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
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
    pipeline that was not fitted on them.
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
        contributions: Iterable[Sent] | VoteTally,
        auxiliary: AuxiliaryRows,
        *,
        enrolled: Enrolled | int | Sequence[str],
        ledger: Ledger | None,
        dataset: str | None = None,
        request: str | None = None,
        data_changed: bool = False,
        found_at: str | None = None,
    ) -> Aggregation:
        """Return the release of these contributions, paid for from ``ledger`` (None for no ledger).

        ``contributions`` are `PartyContribution` values, ``*.part`` files or their bytes, or a
        `VoteTally`. ``enrolled`` is the public number of parties, or their names. A budget belongs
        to the enrolled parties: another round with the same is paid from the same. Those that are
        only counted are taken for the same wherever there are as many. ``data_changed`` says that
        other parties are enrolled under this name than before; they use the same budget.
        """
        parties = Enrolled.of(enrolled)
        way = self.way(auxiliary, parties)
        gathered = self.gathered(contributions, auxiliary, parties)
        guarantee = of_versions(self._guarantee(way.noise, auxiliary), data_changed=data_changed)
        release = publish(
            lambda: way.draw(gathered.total, guarantee, found_at),
            [guarantee],
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters=self._parameters(auxiliary, parties),
            fingerprint=parties.fingerprint(),
            content=gathered.content,
            data_changed=data_changed,
        )
        report = (gathered.accepted, gathered.rejected, gathered.missing, gathered.absent)
        return Aggregation(release, *report)

    def guarantee(
        self, auxiliary: AuxiliaryRows, *, enrolled: Enrolled | int | Sequence[str]
    ) -> Guarantee:
        """Return what a release would promise; no contribution is needed for it."""
        return self._guarantee(self.way(auxiliary, Enrolled.of(enrolled)).noise, auxiliary)

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
        contributions: Iterable[Sent] | VoteTally,
        auxiliary: AuxiliaryRows,
        enrolled: Enrolled,
    ) -> Gathered:
        """Return the exact sum of the contributions, which is private; those at fault are named."""
        statistic, classes = METHODS[self.method], check_classes(self.classes)
        if not isinstance(contributions, VoteTally):
            gathering = Gathering(statistic, auxiliary, classes, enrolled, self.lam)
            return gathering.take(contributions).result()
        if contributions.classes != classes or contributions.auxiliary.grid != auxiliary.grid:
            raise ParameterError("the tally is of other classes or other auxiliary rows.")
        return contributions.gathered(statistic, enrolled)

    def _guarantee(self, noise: Noise, auxiliary: AuxiliaryRows) -> Guarantee:
        rows = f"the {auxiliary.count:,} auxiliary rows"
        if self.private_auxiliary:
            rows = f"that there are {auxiliary.count:,} auxiliary rows, and how they are mapped"
        assumptions = [
            Assumption(
                "each party's contribution depends on its own data alone", "declared by the parties"
            ),
            Assumption(
                "auxiliary rows, pipeline, classes and enrolled parties were not chosen by looking"
                " at any party's data",
                "declared by the aggregator",
            ),
        ]
        if self.private_auxiliary:
            assumptions.append(
                Assumption(
                    "it protects each auxiliary row as well, together with a party: their pipeline"
                    " was not fitted on them, and a vote depends on its own row alone",
                    "declared by the aggregator",
                )
            )
        return Guarantee(
            unit=Unit.PARTY,
            event=noise.event,
            delta=0.0 if noise.event.pure else self.delta,
            public=(rows, "the number of enrolled parties", "the class list"),
            assumptions=tuple(assumptions),
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
