"""How a sum over parties leaves: their mean operator, or the table of their votes, with noise."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from suffice.engines.engine import Stream
from suffice.errors import ParameterError
from suffice.owner.ledger import DatasetCharge
from suffice.owner.mean_operator import MOST_SHAPED, operator_columns
from suffice.owner.mechanism import Procedure, Public, as_scaled
from suffice.owner.parties.contribution import (
    VOTE,
    AuxiliaryRows,
    ClassSums,
    mechanism_name,
    operator_sensitivity,
    party_noise,
    whitened_shape,
)
from suffice.owner.parties.gathering import STAYS, STRANGER, Enrolled, Gathered, PartyExact
from suffice.owner.scaling import warn_of_same_rows
from suffice.owner.source import OwnerReport
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import LARGEST_SUM, Noise, Sensitivity
from suffice.release.release import Covariance, Part, Release, RowSet
from suffice.tables.labels import Classes

__all__ = [
    "NoisyClassSums",
    "NoisyOperator",
    "NoisyVotes",
    "PartyProcedure",
    "Round",
    "too_many_parties",
]

_VOTE_STEPS = 2**16  # steps of noise per step of a vote: the lattice must be fine
_SHOWN_PARTIES = 8  # of many parties
_OWN_DATA = Assumption(
    "each party's contribution depends on its own data alone", "declared by the parties"
)
_CHOSEN = Assumption(
    "auxiliary rows, pipeline, classes and enrolled parties were not chosen by looking at any"
    " party's data",
    "declared by the aggregator",
)
_OWN_ROW = Assumption("a vote depends on its own row alone", "declared by the parties")
_NOT_FITTED = Assumption(
    "pipeline, classes and enrolled parties were not chosen by looking at these rows",
    "declared by the aggregator",
)


@dataclass(frozen=True, eq=False)
class Round(Public):
    """What is public about one aggregation.

    Parameters
    ----------
    auxiliary : AuxiliaryRows
        The rows that parties vote on.
    classes : tuple
        The declared classes.
    enrolled : Enrolled
        The enrolled parties.
    mechanism : str
        The noise: auto, gaussian or knorm.
    epsilon : float
        Epsilon of each party.
    delta : float
        Delta of each party.
    private_auxiliary : bool
        Whether the auxiliary rows are protected.
    request : mapping, optional
        The fields that the aggregator asked with.
    sent : callable
        Yields the contributions, or the records of one table.
    start : callable, optional
        Returns an empty sum for a statistic.
    auxiliary_dataset : str, optional
        The data set of protected auxiliary rows in the ledger.
    found_at : str, optional
        Where others can find public auxiliary rows.
    """

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    mechanism: str
    epsilon: float
    delta: float
    private_auxiliary: bool = False
    request: Mapping[str, Any] | None = None
    sent: Callable[[], Iterable[Any]] = tuple
    start: Callable[[str], PartyExact] | None = None
    auxiliary_dataset: str | None = None
    found_at: str | None = None

    def parts(self) -> Sequence[Stream]:
        """Return what parties sent, or the records of their table."""
        return [Stream(self.sent, STAYS)]

    @property
    def columns(self) -> int:
        """The number of columns of an operator or a model: one for two classes."""
        return operator_columns(len(self.classes))

    @property
    def dimension(self) -> int:
        """The number of entries of an operator or a model."""
        return self.columns * len(self.auxiliary.pipeline.outputs)

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """Return noise for this sensitivity, at the epsilon and delta of the round."""
        return party_noise(self.mechanism, sensitivity, self.epsilon, self.delta)

    def noise_within(self, two: float) -> Noise:
        """Return noise on an operator or a model that one party moves by ``two`` steps at most."""
        most = math.ceil(math.sqrt(self.dimension) * two)
        return self.noise(Sensitivity(most, two, self.dimension))


class PartyProcedure(Procedure[PartyExact]):
    """One way to release a sum over parties; its noise is calibrated before the sum is seen.

    ``statistic`` is what it needs of a party. A subclass sets ``noise`` from public facts, and
    ``unit``, which is what a step of the noisy integers is worth.
    """

    statistic: str
    ordered: ClassVar[bool] = False
    row_by_row = False  # votes are about auxiliary rows, and no record is shown
    also_public: tuple[str, ...] = ()
    noise: Noise
    unit: float

    def __init__(self, public: Round) -> None:
        self.public = public

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on each column."""
        return Covariance("identity", self.noise.variance * self.unit**2)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total

    @abstractmethod
    def contents(self, noisy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays and details of the release from integers that have noise."""

    def accumulator(self, *, identified: bool) -> PartyExact:
        """Return an empty sum."""
        del identified
        assert self.public.start is not None  # noqa: S101  # for the type checker
        return self.public.start(self.statistic)

    def check(self, exact: PartyExact) -> None:
        """Raise if the contributions are not of this round; empty records are no error."""
        exact.check()
        if self.public.private_auxiliary:
            auxiliary = self.public.auxiliary
            warn_of_same_rows(auxiliary.hashes[0], auxiliary.pipeline.origin.rows)

    def report(self, exact: PartyExact) -> OwnerReport:
        """Return whose contributions counted as zero."""
        gathered = exact.result()
        facts = {
            "kind": self.kind,
            "accepted": gathered.accepted,
            "absent": gathered.absent,
            "missing": gathered.missing,
            "rejected": gathered.rejected,
        }
        counted = (("parties", f"{gathered.accepted:,} counted"),)
        return OwnerReport(tuple(_report_lines(gathered)), counted, facts)

    def guarantees(self, exact: PartyExact) -> tuple[Guarantee, ...]:
        """Return the guarantees per party, and per protected auxiliary row."""
        del exact
        return self.stated_guarantees()

    def stated_guarantees(self) -> tuple[Guarantee, ...]:
        """Return the guarantees per party, and per protected row; no contribution is needed.

        The noise for protected rows is calibrated to a party and a row that change together, so
        that the same event bounds either.
        """
        public, private = self.public, self.public.private_auxiliary
        count, enrolled = public.auxiliary.count, "the number of enrolled parties"
        rows = f"the {count:,} auxiliary rows"
        if private:
            rows = f"that there are {count:,} auxiliary rows, and how they are mapped"
        delta = 0.0 if self.noise.event.pure else public.delta
        guarantees = [
            Guarantee(
                unit=Unit.PARTY,
                event=self.noise.event,
                delta=delta,
                public=(
                    rows,
                    enrolled,
                    "that some contribution was made for this round",
                    "the class list",
                    *self.also_public,
                ),
                assumptions=(_OWN_DATA, _CHOSEN),
            )
        ]
        if private:
            row = Guarantee(
                unit=Unit.RECORD,
                event=self.noise.event,
                delta=delta,
                public=(rows, enrolled, "the class list"),
                assumptions=(_OWN_ROW, _NOT_FITTED),
                columns=("the auxiliary rows",),
            )
            guarantees.append(row)
        origin = public.auxiliary.pipeline.origin
        return tuple(as_scaled(guarantee, origin) for guarantee in guarantees)

    def parameters(self, exact: PartyExact) -> Mapping[str, Any]:
        """Return the public description of the request."""
        del exact
        public = self.public
        private = public.private_auxiliary
        return {
            "kind": "parties",
            **(public.request or {}),
            "classes": list(public.classes),
            "enrolled": public.enrolled.count,
            "enrolment": public.enrolled.digest(),
            "private_auxiliary": private,
            "auxiliary_rows": public.auxiliary.count,
            # Not the hash of rows that are private: the ledger's history is shown to people.
            "grid": "" if private else public.auxiliary.grid,
            "pipeline": public.auxiliary.pipeline.digest(),
        }

    def also(self, guarantees: tuple[Guarantee, ...]) -> Sequence[DatasetCharge]:
        """Return the charge of protected auxiliary rows."""
        public = self.public
        if not public.private_auxiliary:
            return ()
        fingerprint = public.auxiliary.fingerprint()
        return [DatasetCharge(public.auxiliary_dataset or "", guarantees[1:], fingerprint)]

    def draw(self, exact: PartyExact, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""
        return self.released(exact.result().total, guarantees)

    def released(self, total: np.ndarray, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release of an exact sum, with fresh noise."""
        arrays, details = self.contents(self.noise.add(self.integers(total)))
        return Release(
            kind=self.kind,
            arrays=arrays,
            details={"classes": list(self.public.classes), **details},
            parts=(Part(self.row_set(arrays), guarantees),),
            pipeline=self.public.auxiliary.pipeline,
            noise=self.covariance(),
        )

    def row_set(self, arrays: Mapping[str, np.ndarray]) -> RowSet:
        """Return the name of the auxiliary rows."""
        del arrays
        return self.public.auxiliary.row_set(ordered=self.ordered, found_at=self.public.found_at)


def _report_lines(gathered: Gathered) -> Iterable[str]:
    """Yield whose contribution counted as zero, and why, as sentences for the owner."""
    strangers = [item for item in gathered.rejected if item.reason == STRANGER]
    others = [item for item in gathered.rejected if item.reason != STRANGER]
    for rejected in [*strangers[:_SHOWN_PARTIES], *others]:
        yield f"counted as zero: {rejected}"
    if len(strangers) > _SHOWN_PARTIES:
        more = len(strangers) - _SHOWN_PARTIES
        yield f"counted as zero: {more:,} more parties that are not enrolled"
    if gathered.absent:
        names = f": {', '.join(gathered.missing[:_SHOWN_PARTIES])}" if gathered.missing else ""
        rest = ", ..." if len(gathered.missing) > _SHOWN_PARTIES else ""
        yield f"no contribution from {gathered.absent} parties{names}{rest}"
    if not gathered.accepted:  # a refusal would tell that the only party left had nothing
        yield "no contribution was counted: the release is noise only, and it was charged"


class _OperatorProcedure(PartyProcedure):
    """A sum over parties that leaves as a mean operator.

    ``back`` takes the coordinates that noise is added in to those of the pipeline; without it they
    are the same.
    """

    kind = "mean-operator"
    back: np.ndarray | None = None

    def covariance(self) -> Covariance:
        """Return the covariance of the noise on each column of the operator."""
        if self.back is None:
            return super().covariance()
        variance = self.noise.variance * self.unit**2
        return Covariance("factor", variance, np.ascontiguousarray(self.back))

    def contents(self, noisy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the operator, in the coordinates of the pipeline."""
        sums = (noisy if self.back is None else noisy @ self.back.T) * self.unit
        operator = np.ascontiguousarray(sums[0] if len(sums) == 1 else sums.T)
        details = {"mechanism": mechanism_name(self.noise), "step": self.public.auxiliary.step}
        return {"mean_operator": operator}, details


class NoisyOperator(_OperatorProcedure):
    """The mean operator of soft labels, with noise that is whitened or even."""

    statistic = "operator"

    def __init__(self, public: Round, form: str) -> None:
        super().__init__(public)
        codes = public.auxiliary.codes
        self._shape = whitened_shape(codes) if form == "whitened" else None
        sensitivity = operator_sensitivity(codes, self._shape, len(public.classes))
        if public.enrolled.count * sensitivity.l2 >= LARGEST_SUM:
            raise too_many_parties()
        self.noise = public.noise(sensitivity)
        self.back = None if self._shape is None else self._shape.back()
        self.unit = public.auxiliary.step / (VOTE * len(codes) * public.enrolled.count)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total if self._shape is None else self._shape.apply(total)


class NoisyClassSums(_OperatorProcedure):
    """The mean operator of the parties' own records, from class sums that are held to a ball.

    Accepted sums have norm at most ``ClassSums.reach``, zero among them, so that one party moves
    their sum by at most twice that. Noise is even in white coordinates.
    """

    statistic = "class-sums"

    def __init__(self, public: Round, samples: int) -> None:
        super().__init__(public)
        sums = ClassSums(public.auxiliary, len(public.classes), samples)
        two = 2 * sums.reach
        if public.enrolled.count * two >= LARGEST_SUM:
            raise too_many_parties()
        self.noise = public.noise_within(two)
        self.also_public = (f"that each party is counted as {samples:,} records",)
        if len(sums.whitening) <= MOST_SHAPED:  # else it is the identity
            self.back = np.ascontiguousarray(np.linalg.inv(sums.whitening))
        self.unit = sums.unit * public.auxiliary.step / (public.enrolled.count * samples)


class NoisyVotes(PartyProcedure):
    """The table of mean votes per auxiliary row, with noise.

    One party's rows are shares of one vote. Two such rows differ by sqrt(2) at most in the 2-norm
    and by 2 in the 1-norm; N of them by sqrt(2 N) and 2 N.
    """

    kind = "votes"
    statistic = "votes"
    ordered = True

    def __init__(self, public: Round) -> None:
        super().__init__(public)
        count, step = public.auxiliary.count, VOTE * _VOTE_STEPS
        two = math.sqrt(2.0 * count) * (1 + 1e-15) * step
        self.noise = public.noise(Sensitivity(2 * count * step, two, count * len(public.classes)))
        self.unit = 1 / (step * public.enrolled.count)

    def integers(self, total: np.ndarray) -> np.ndarray:
        """Return the exact integers that noise is added to: private."""
        return total * _VOTE_STEPS

    def contents(self, noisy: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the votes."""
        enrolled = self.public.enrolled.count
        details = {"mechanism": mechanism_name(self.noise), "enrolled": enrolled}
        return {"votes": noisy * self.unit}, details


def too_many_parties() -> ParameterError:
    """Return the error of a sum over parties that 64-bit integers cannot hold."""
    return ParameterError("There are too many parties for one sum. Aggregate them in groups.")
