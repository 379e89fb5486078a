"""Many parties, one private classifier: contributions are summed and leave once, with noise.

Hamm, Cao, Belkin (2016), completed: soft labels are a mean operator, so that noise on it carries no
1/lambda, and is shaped by what votes can do to it (docs/parties.md, privacy/proofs/parties.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from suffice.errors import ParameterError
from suffice.options import (
    REQUIRED,
    option,
    privacy_option,
)
from suffice.owner.mechanism import CLASSES, EPSILON, Mechanism, make_release
from suffice.owner.parties.auxiliary import FITTED_ON_ROWS, AuxiliaryRows
from suffice.owner.parties.class_sums import check_samples, choose_method
from suffice.owner.parties.enrolled import Enrolled, Rejection
from suffice.owner.parties.gathering import Gathered, Gathering, Sent
from suffice.owner.parties.plan import PartyPlan, PartyPlanner, plan_parties
from suffice.owner.parties.procedures import (
    NoisyClassSums,
    NoisyOperator,
    NoisyVotes,
    PartyProcedure,
    Round,
)
from suffice.owner.parties.records import PartyRecords, TableSum
from suffice.owner.parties.sources import PartySource, RoundSource
from suffice.owner.parties.tally import ParameterTally, TallySum, VoteTally
from suffice.owner.publish import Payment
from suffice.owner.source import OwnerReport
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.noise import LARGEST_SUM
from suffice.release.artifact import Release
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes, check_classes

__all__ = [
    "METHODS",
    "Aggregation",
    "NoiseShape",
    "PartyMechanism",
    "PartyMethod",
    "PrivateEnsemble",
]


class PartyMethod(StrEnum):
    """What is released of many parties."""

    AUTO = "auto"
    OPERATOR = "operator"
    CLASS_SUMS = "class-sums"
    VOTE_TABLE = "vote-table"
    SOFT = "soft"
    MAJORITY_MODEL = "majority-model"
    AVERAGE = "average"


class PartyMechanism(StrEnum):
    """The noise on a sum over parties; the first one is Gaussian where delta allows it."""

    AUTO = "auto"
    GAUSSIAN = "gaussian"
    KNORM = "knorm"


class NoiseShape(StrEnum):
    """The noise of the operator: even in whitened coordinates, or over the coordinates as given."""

    WHITENED = "whitened"
    EVEN = "even"


METHODS = {
    "operator": "operator",
    "class-sums": "class-sums",
    "vote-table": "votes",
    "soft": "operator",
    "majority-model": "votes",
    "average": "parameters",
}  # and what each needs of a party


@dataclass(frozen=True)
class Aggregation:
    """The release, and what happened to every contribution that is not in it.

    Only the release is public. Everything else is for the aggregator.

    Parameters
    ----------
    release : Release
        The file to publish.
    accepted : int
        How many contributions were counted.
    rejected : tuple of Rejection
        The contributions that counted as zero.
    missing : tuple of str
        The names of enrolled parties without a contribution, where names are known.
    absent : int
        How many enrolled parties sent no contribution.
    """

    release: Release
    accepted: int
    rejected: tuple[Rejection, ...]
    missing: tuple[str, ...]
    absent: int


@dataclass(frozen=True)
class PrivateEnsemble(Mechanism[Round]):
    """Protects each party: all of its data together, whatever it holds and however it votes.

    M = ``enrolled`` parties vote on N public auxiliary rows. The methods are:

    - "operator": the mean operator of their soft labels, (1/N) sum_i x_i alpha_i^T, with noise that
      is even in whitened coordinates z = T x. One party moves it there by at most

          (2/M) min(mean ||z_i||, sqrt(lambda_max(Z^T Z / N)))

      (sqrt2/M for three classes or more). Neither the number of rows nor a penalty matters.
    - "class-sums": the same operator, from the parties' own n = ``samples`` records instead of
      votes: rows of length one in whitened coordinates, summed by class. One party's sum is scaled
      down to norm sqrt(n), so that it moves the total by at most 2 sqrt(n).
    - "auto": "class-sums" if parties have at most two records per class, else "operator".
    - "vote-table": the table of mean votes itself. One party moves the counts by at most sqrt(2 N).
    - "soft", "majority-model", "average": a classifier by output perturbation (Hamm et al. 2016,
      Algorithms 2 and 1, and Pathak et al. 2010), at penalty ``lam``
      (owner/parties/output_perturbation.py).

    The guarantee assumes that the auxiliary rows, their pipeline, the classes and the enrolled
    parties are public. It assumes that a party's contribution depends on its own data alone. The
    parties must trust whoever runs this with their contributions. If the numbers of the pipeline
    come from private rows, or their origin is unknown, the guarantee is data-dependent.

    Parameters
    ----------
    epsilon : float
        Epsilon of each party.
    delta : float
        Delta of each party. Gaussian noise needs a value above 0.
    method : str
        What is released: "auto", "operator", "class-sums", "vote-table", "soft", "majority-model"
        or "average".
    classes : sequence
        The possible labels, all texts or all integers.
    mechanism : {"auto", "gaussian", "knorm"}
        The noise. "knorm" has delta = 0; "auto" uses Gaussian noise if ``delta`` is above 0.
    noise_shape : {"whitened", "even"}
        The shape of the noise on the operator. "even" is never better.
    lam : float
        Weight of the penalty.
    private_auxiliary : bool
        Whether each auxiliary row is protected too, together with a party. Only for "soft" and
        "majority-model", and with a pipeline that was not fitted on these rows. The release then
        states two guarantees, per party and per record, and both are charged.
    samples : int, optional
        The public number of records of each party, for "class-sums" and "auto". A party may have
        more or fewer; it counts as this many.

    Raises
    ------
    ParameterError
        If epsilon, delta, the method or the classes are not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import AuxiliaryRows, PrivateEnsemble
    >>> auxiliary = AuxiliaryRows.read(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]]))
    >>> ensemble = PrivateEnsemble(epsilon=1.0, delta=1e-6)
    >>> [(str(g.unit), g.epsilon <= 1.0) for g in ensemble.guarantees(auxiliary, enrolled=500)]
    [('party', True)]
    """

    name = "parties"
    source = PartySource
    planner = PartyPlanner

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = privacy_option(
        0.0,
        (
            "Delta, for example 1e-6. Gaussian noise needs a value above 0; with 0 the noise is"
            " K-norm noise."
        ),
    )
    method: str = privacy_option(
        "operator",
        "What is released: auto, class-sums, operator, vote-table, soft, majority-model or average"
        " (docs/parties.md).",
        choices=PartyMethod,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    mechanism: str = privacy_option(
        "auto",
        "Noise: gaussian or knorm. auto uses gaussian if delta is above 0.",
        choices=PartyMechanism,
    )
    noise_shape: str = privacy_option(
        "whitened",
        "Shape of the noise on the mean operator: whitened (less noise) or even.",
        choices=NoiseShape,
    )
    lam: float = privacy_option(
        1e-4,
        "Weight of the penalty, for example 1e-4: in the parties' own classifiers, and in soft,"
        " majority-model and average.",
        name="--penalty-weight",
    )
    private_auxiliary: bool = privacy_option(
        False,  # noqa: FBT003  # a default
        "Protect each auxiliary row too. Only with --method soft or majority-model, and with"
        " --pipeline-from.",
        name="--private-aux",
    )
    samples: int | None = privacy_option(
        None,
        "Public number of records of each party, for example 8. Only for --method class-sums and"
        " auto.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        if self.released_method == "class-sums":
            check_samples(self.samples)
        elif self.samples is not None and self.method != "auto":
            raise ParameterError(
                f"--samples cannot be used with --method {self.method}. Remove --samples (Python:"
                " samples)."
            )

    @property
    def released_method(self) -> str:
        """The method, "auto" decided: from the numbers of classes and of records of each party."""
        if self.method != "auto":
            return self.method
        return choose_method(len(self.declared_classes()), check_samples(self.samples))

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def check_payment(self, source: RoundSource, payment: Payment) -> None:
        """Raise unless protected auxiliary rows, and only those, have a data set to charge."""
        auxiliary_dataset = source.auxiliary_dataset
        if not self.private_auxiliary:
            if auxiliary_dataset is not None:
                raise ParameterError(
                    "--aux-dataset can be used only with --private-aux. Remove --aux-dataset"
                    " (Python: auxiliary_dataset), or protect the auxiliary rows (Python:"
                    " private_auxiliary=True)."
                )
            return
        if source.preprocessing.pipeline is None and not isinstance(
            source.auxiliary, AuxiliaryRows
        ):  # before they are read: what is said of public rows must not be said of these
            raise ParameterError(FITTED_ON_ROWS)
        if source.found_at is not None:
            raise ParameterError(
                "The auxiliary rows are protected, so the release must not say where they are."
                " Remove --rows-url (Python: found_at)."
            )
        if payment.ledger is not None and not auxiliary_dataset:
            raise ParameterError(
                "Protected auxiliary rows need a budget of their own, besides the parties' budget."
                " Create one (suffice ledger init FILE --dataset NAME --epsilon ... --unit"
                " record), then name it: --aux-dataset NAME (Python: auxiliary_dataset=...)."
            )
        if payment.ledger is None and auxiliary_dataset is not None:
            raise ParameterError(
                "Without a ledger no data set is charged. Remove --aux-dataset (Python:"
                " auxiliary_dataset)."
            )

    def public(self, source: RoundSource) -> Round:
        """Return the round: auxiliary rows, classes and enrolled parties."""
        sent, start = self._contents(source)
        return Round(
            source.rows,
            self.declared_classes(),
            source.parties,
            self.mechanism,
            self.epsilon,
            self.delta,
            self.private_auxiliary,
            request={
                "method": self.released_method,
                "mechanism": self.mechanism,
                "noise": self.noise_shape,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "lam": self.lam,
                **({"samples": self.samples} if self.released_method == "class-sums" else {}),
            },
            sent=sent,
            start=start,
            auxiliary_dataset=source.auxiliary_dataset,
            found_at=source.found_at,
        )

    def _contents(self, source: RoundSource) -> tuple[Any, Any]:
        """Return how what parties sent is read, and how its sum begins."""
        rows, classes, parties = source.rows, self.declared_classes(), source.parties
        if isinstance(source, PartySource):
            record_arguments = (rows, source.label or "", classes, source.party, parties)
            records = PartyRecords(*record_arguments)
            return (
                lambda: records.batches(source.data),
                lambda statistic: TableSum(
                    PartyRecords(*record_arguments), rows, statistic, self.lam, self.samples or 1
                ),
            )
        if isinstance(source.data, VoteTally | ParameterTally):
            return tuple, lambda statistic: TallySum(source.data, rows, classes, parties, statistic)
        return (
            lambda: source.data,
            lambda statistic: Gathering(
                statistic, rows, classes, parties, self.lam, samples=self.samples or 1
            ),
        )

    def choose(self, public: Round) -> PartyProcedure:
        """Return how a release is made, calibrated before anything private is seen."""
        if public.enrolled.count * 2**40 >= LARGEST_SUM:
            raise ParameterError(
                "There are too many parties for one sum. Aggregate them in groups."
            )
        method = self.released_method
        if self.private_auxiliary and method not in ("soft", "majority-model"):
            raise ParameterError(
                f"--method {method} cannot protect the auxiliary rows. Use --method soft or"
                " majority-model, or remove --private-aux."
            )
        if method == "operator":
            return NoisyOperator(public, self.noise_shape)
        if method == "class-sums":
            return NoisyClassSums(public, check_samples(self.samples))
        if method == "vote-table":
            return NoisyVotes(public)
        from suffice.owner.parties.output_perturbation import (  # solvers are heavy
            Averaged,
            Distilled,
        )

        if method == "average":
            return Averaged(public, self.lam)
        majority = method == "majority-model"
        return Distilled(public, self.lam, majority=majority, private=self.private_auxiliary)

    def plan(self, source: RoundSource, epsilons: Sequence[float] = ()) -> PartyPlan:
        """Return what the parties could learn together, from the auxiliary rows alone.

        Parameters
        ----------
        source : RoundSource
            The auxiliary rows and the enrolled parties.
        epsilons : sequence of float
            The epsilons to compare. Default: the epsilon of this mechanism.

        Returns
        -------
        PartyPlan
            One line for each method and epsilon.
        """
        return plan_parties(
            source.parties.count,
            tuple(epsilons) or self.epsilon,
            self.delta,
            auxiliary=source.rows,
            classes=len(self.declared_classes()),
            lam=self.lam,
        )

    def aggregate(
        self,
        contributions: Iterable[Sent] | VoteTally | ParameterTally,
        auxiliary: AuxiliaryRows,
        *,
        enrolled: Enrolled | int | Sequence[str],
        ledger: Any,
        dataset: str | None = None,
        auxiliary_dataset: str | None = None,
        request: str | None = None,
        found_at: str | None = None,
        unprotected: bool = False,
    ) -> Aggregation:
        """Return the release of these contributions, charged to a ledger.

        A budget belongs to the enrolled parties: another round with the same parties is charged to
        the same budget. Parties that are only counted are taken for the same wherever there are as
        many. Protected auxiliary rows are a data set too: all rounds that vote on them are charged
        to it. Both are charged, or neither is. If no contribution belongs to this round by its
        header, which is public, nothing is charged or released.

        Parameters
        ----------
        contributions : iterable of PartyContribution, str, Path or bytes; or a tally
            The contributions, ``*.part`` files or their bytes, or a tally of one table of all
            parties.
        auxiliary : AuxiliaryRows
            The rows that the parties voted on.
        enrolled : Enrolled, int or sequence of str
            The public number of parties, or their names.
        ledger : Ledger or None
            The ledger that is charged. None releases without a budget.
        dataset : str, optional
            The data set of the parties in the ledger.
        auxiliary_dataset : str, optional
            The data set of protected auxiliary rows in the ledger, with a budget per record.
        request : str, optional
            Name of this request. The same name returns the same file at no charge.
        found_at : str, optional
            Where others can find the auxiliary rows.
        unprotected : bool
            Whether to release even if the pipeline makes the guarantee data-dependent.

        Returns
        -------
        Aggregation
            The release, and what happened to each contribution.

        Raises
        ------
        ParameterError
            If no contribution belongs to this round, or a party contributed twice.
        BudgetError
            If the release would exceed a budget.
        UnprotectedError
            If the guarantee is data-dependent and ``unprotected`` is false.
        """
        reports: list[OwnerReport] = []
        source = RoundSource(
            contributions,
            auxiliary=auxiliary,
            enrolled=enrolled,
            auxiliary_dataset=auxiliary_dataset,
            found_at=found_at,
            report=reports.append,
        )
        payment = Payment(ledger, dataset, request, unprotected)
        release = make_release(self, source, payment)
        facts = {name: value for name, value in reports[0].facts.items() if name != "kind"}
        return Aggregation(release, **facts)

    def guarantees(
        self, auxiliary: AuxiliaryRows, *, enrolled: Enrolled | int | Sequence[str]
    ) -> tuple[Guarantee, ...]:
        """Return the guarantees of a release, first per party. No contribution is needed.

        Parameters
        ----------
        auxiliary : AuxiliaryRows
            The rows that the parties vote on.
        enrolled : Enrolled, int or sequence of str
            The public number of parties, or their names.

        Returns
        -------
        tuple of Guarantee
            Per party, and per record of protected auxiliary rows.
        """
        return self.procedure(auxiliary, Enrolled.of(enrolled)).stated_guarantees()

    def covariance(
        self, auxiliary: AuxiliaryRows, *, enrolled: Enrolled | int | Sequence[str]
    ) -> Covariance:
        """Return the covariance of the noise of a release, per column.

        Parameters
        ----------
        auxiliary : AuxiliaryRows
            The rows that the parties vote on.
        enrolled : Enrolled, int or sequence of str
            The public number of parties, or their names.

        Returns
        -------
        Covariance
            The covariance of the noise.
        """
        return self.procedure(auxiliary, Enrolled.of(enrolled)).covariance()

    def procedure(self, auxiliary: AuxiliaryRows, enrolled: Enrolled) -> PartyProcedure:
        """Return how a release is made, from public facts."""
        return self.choose(self.public(RoundSource((), auxiliary=auxiliary, enrolled=enrolled)))

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
        source = RoundSource(contributions, auxiliary=auxiliary, enrolled=enrolled)
        sent, start = self._contents(source)
        exact = start(METHODS[self.released_method])
        for item in sent():
            exact.update(item)
        exact.check()
        gathered: Gathered = exact.result()
        return gathered
