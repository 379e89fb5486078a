"""Many parties, one private classifier: contributions are summed and leave once, with noise.

Hamm, Cao, Belkin (2016), completed: soft labels are a mean operator, so that noise on it carries no
1/lambda, and is shaped by what votes can do to it (docs/parties.md, privacy/proofs/parties.md).

A plan sets two forecasts side by side, from public numbers alone. Theorem 4 of the paper bounds how
much more risk a perturbed classifier has than any other one, w_0; corrected and tightened, with
||x|| <= 1 and without its term (lam/2) ||w_0||^2 it is

    (c + lam) q^2 + 16 (32 + ln(1/delta_s)) / (lam N),

q the exact quantile of the noise on the parameters (the paper has a looser one, and twice the
logistic sensitivity), c = 1/4 for the logistic loss and 1/2 for softmax. With M = 1 it is the bound
(11) for majority votes. Ours (`suffice.owner.forecast`) predicts accuracy, for the operator.

A procedure says how a sum over parties leaves: as their mean operator, or as the table of their
votes, with noise.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from suffice.engines.engine import Stream
from suffice.errors import ParameterError
from suffice.options import REQUIRED, data_option, numbers, option, privacy_option
from suffice.owner.forecast import SIGNALS, Plan, PublicMoments, Utility, planned_epsilons
from suffice.owner.ledger import DatasetCharge
from suffice.owner.mean_operator import (
    MOST_SHAPED,
    gradient_change,
    label_change,
    operator_columns,
)
from suffice.owner.mechanism import (
    CLASSES,
    EPSILON,
    Mechanism,
    Payment,
    Procedure,
    Public,
    as_scaled,
    make_release,
)
from suffice.owner.parties.contribution import (
    FITTED_ON_ROWS,
    VOTE,
    AuxiliaryRows,
    ClassSums,
    check_samples,
    choose_method,
    operator_sensitivity,
    whitened_shape,
)
from suffice.owner.parties.gathering import (
    STAYS,
    STRANGER,
    Enrolled,
    Gathered,
    Gathering,
    PartyExact,
    PartyRecords,
    PartySource,
    Rejection,
    RoundSource,
    Sent,
    TallySum,
    VoteTally,
    record_batches,
)
from suffice.owner.scaling import warn_of_same_rows
from suffice.owner.source import OwnerReport
from suffice.privacy.events import check_delta, check_promise, gaussian_multiplier
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import LARGEST_SUM, GaussianNoise, KNormNoise, Noise, Sensitivity
from suffice.releases.release import Covariance, Part, Release, RowSet
from suffice.tables.columns import Classes, check_classes

_FAILURE_PROBABILITY = 0.05  # of each part of a bound
_ENOUGH = 0.75  # of what could be gained over guessing: less is called out of reach
_BETTER = 0.01  # in accuracy: by which an alternative must be better to be named
_MOST_PARTIES = 10**9


@dataclass(frozen=True)
class PartyPlanner:
    """What a plan of many parties is made from: public numbers, and auxiliary rows if there are."""

    parties: int = data_option(REQUIRED, "Number of enrolled parties, for example 500.")
    epsilon: Sequence[float] = privacy_option(
        REQUIRED,
        "Epsilon of each party, for example 1; repeat it for several.",
        parse=numbers,
        many=True,
    )
    delta: float = privacy_option(
        0.0,
        (
            "Delta, for example 1e-6. Gaussian noise needs a value above 0; with 0 the noise is"
            " K-norm noise."
        ),
    )
    auxiliary: Any = data_option(
        None,
        "Public rows on which every party votes, as a table; or use --rows and --features.",
        name="--aux",
        path=Path,
    )
    rows: int | None = data_option(None, "Number of auxiliary rows, for example 2000.")
    features: int | None = data_option(None, "Number of features, for example 30.")
    classes: int = data_option(2, "Number of classes, for example 2.")
    samples: int = data_option(100, "Number of records of each party, for example 100.")
    lam: float = privacy_option(
        1e-4,
        "Weight of the penalty in the parties' own classifiers, for example 1e-4.",
        name="--penalty-weight",
    )

    def plan(self) -> Plan:
        """Return the plan."""
        for name, value in (("--rows", self.rows), ("--features", self.features)):
            if self.auxiliary is not None and value is not None:
                raise ParameterError(f"{name} cannot be used with --aux. Remove {name}.")
        auxiliary = None if self.auxiliary is None else AuxiliaryRows.read(self.auxiliary)
        return plan_parties(**{**vars(self), "auxiliary": auxiliary})


def plan_parties(
    parties: int,
    epsilon: float | Sequence[float],
    delta: float = 1e-5,
    *,
    auxiliary: AuxiliaryRows | None = None,
    rows: int | None = None,
    features: int | None = None,
    classes: int = 2,
    samples: int = 100,
    lam: float = 1e-4,
) -> Plan:
    """Return what M parties would give at each epsilon. Nothing private is read.

    Parameters
    ----------
    parties : int
        The number of enrolled parties.
    epsilon : float or sequence of float
        Epsilon of each party, or several to compare.
    delta : float
        Delta of each party. 0 for K-norm noise.
    auxiliary : AuxiliaryRows, optional
        The rows that parties vote on. Without them the plan needs ``rows`` and ``features``, and
        assumes rows that are evenly spread over all directions.
    rows : int, optional
        Number of auxiliary rows.
    features : int, optional
        Number of features.
    classes : int
        Number of classes.
    samples : int
        Number of records of each party. Only the alternative uses it, in which every party releases
        the labels of its own public rows with privacy per label, and a learner merges them.
    lam : float
        Weight of the penalty in the parties' own classifiers.

    Returns
    -------
    Plan
        A row for each ``method`` and ``epsilon``: what it ``protects`` (party or label), the
        ``noise`` that it adds to a score (a standard deviation), and the predicted ``accuracy`` on
        hard, usual and easy problems or the ``risk_bound`` of Theorem 4, corrected. For each
        epsilon ``facts`` has a verdict, whether there are enough parties (``in_reach``), and the
        number at which three quarters of the gain over guessing remain for the usual problem
        (``parties_needed``).

    Raises
    ------
    ParameterError
        If a number is missing or not positive.

    Examples
    --------
    >>> from suffice import plan_parties
    >>> plan_parties(20, 1.0, 1e-6, rows=500, features=10).facts["in_reach"]
    [False]
    >>> plan_parties(5000, 1.0, 1e-6, rows=500, features=10).facts["in_reach"]
    [True]
    """
    epsilons = planned_epsilons(epsilon, around=False)
    counts = (parties, classes - 1, samples, *(() if auxiliary else (rows or 0, features or 0)))
    if not all(isinstance(n, int) and n > 0 for n in counts):
        raise ParameterError(
            "A plan needs at least one party, one record per party and two classes. Without --aux"
            " it also needs --rows and --features."
        )
    delta = check_delta(delta)
    if not lam > 0:
        raise ParameterError(
            "The penalty weight must be above 0: set --penalty-weight (Python: lam=...)."
        )
    if auxiliary is not None:
        moments = PublicMoments.of(auxiliary.rows, auxiliary.count, classes)
    else:
        width = int(features or 1)
        moments = PublicMoments(np.ones(width), np.eye(width), int(rows or 1), classes)
    rounds = [_PartyForecast(moments, parties, samples, lam, e, delta) for e in epsilons]
    verdicts = [forecast.verdict for forecast in rounds]
    if rounds[0].method == "class-sums":
        verdicts.insert(
            0,
            f"Each party has at most two records per class ({samples:,} records, {classes:,}"
            " classes), so most votes would be for a wrong class. Use --method class-sums"
            f" --samples {samples}. What follows is about class sums.",
        )

    def accuracy_cell(problem: str, row: Mapping[str, Any]) -> str:
        return "-" if row["accuracy"] is None else f"{row['accuracy'][problem]:.3f}"

    table = [line for forecast in rounds for line in forecast.lines]
    exact = rounds[0].without_noise
    return Plan(
        title=(
            "Predicted score noise and accuracy for two classes of equal size. Votes explain 5 %"
            " (hard), 20 % (usual) or 70 % (easy) of the variance of the labels. The risk bound is"
            " Theorem 4 of Hamm et al. (2016), corrected"
        ),
        columns={
            "epsilon": "{epsilon:g}".format_map,
            "method": "{method}".format_map,
            "protects": "{protects}".format_map,
            "score noise": "{noise:.2g}".format_map,
            **{name: partial(accuracy_cell, name) for name in SIGNALS},
            "risk bound": lambda row: (
                "-" if row["risk_bound"] is None else f"{row['risk_bound']:.2g}"
            ),
        },
        rows=table,
        facts={
            "parties": parties,
            "rows": table,
            "without_noise": exact,
            "parties_needed": [forecast.needed for forecast in rounds],
            "in_reach": [forecast.in_reach for forecast in rounds],
            "verdicts": verdicts,
        },
        footer=[("", "without noise", "nothing", "0", *(f"{a:.3f}" for a in exact.values()), "-")],
        advice=verdicts,
    )


@dataclass(frozen=True, eq=False)
class _PartyForecast:
    """What M parties of n records each would give at one epsilon, method by method."""

    moments: PublicMoments
    parties: int
    samples: int
    lam: float
    epsilon: float
    delta: float

    @property
    def method(self) -> str:
        """What is chosen: class sums where parties have few records per class."""
        return choose_method(self.moments.classes, self.samples)

    @cached_property
    def without_noise(self) -> Mapping[str, float]:
        """The accuracy that exact votes would give."""
        return self.moments.utility(np.zeros_like(self.moments.values)).accuracy

    @cached_property
    def _multiplier(self) -> float:
        """The noise per coordinate and unit of sensitivity: Gaussian, or K-norm for delta 0."""
        if self.delta > 0:
            return gaussian_multiplier(self.epsilon, self.delta)
        dimension = len(self.moments.values) * operator_columns(self.moments.classes)
        return math.sqrt(dimension + 1) / self.epsilon

    def utility(self, method: str, parties: float) -> Utility:
        """Return the forecast of the operator, of class sums, or of label-private releases merged.

        The operator has whitened noise, of variance s_j (r z/M)^2. For class sums, rows in white
        coordinates have length sqrt(d) about, and one party moves the sum of M n rows of length one
        by 2 sqrt(n) (`ClassSums`). Merged are M label-private mean operators of n rows each.
        """
        moments, z, samples = self.moments, self._multiplier, self.samples
        factor, values = label_change(moments.classes), moments.values
        if method == "operator":
            return moments.utility(values * (factor * z / parties) ** 2)
        pooled = replace(moments, count=max(1, round(samples * parties)))
        if method == "class-sums":
            length = math.sqrt(len(values))
            deviation = 2 * math.sqrt(samples) * length * z / (samples * parties)
            return pooled.utility(values * deviation**2)
        longest = math.sqrt(float(values.sum()))
        deviation = z * factor * longest / (samples * math.sqrt(parties))
        return pooled.utility(np.full_like(values, deviation**2))

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The method that is chosen first, then the paper's, then labels merged.

        Where parties have few records per class most votes are for a wrong class. No forecast of
        the operator knows that, so that it has none there.
        """
        few = self.method == "class-sums"
        return [
            *([self._forecast("class-sums")] if few else []),
            self._forecast("operator") | ({"accuracy": None} if few else {}),
            self._perturbed("soft", self.parties),
            self._perturbed("majority-model", 1),
            self._forecast("labels, merged") | {"protects": "label"},
        ]

    def _forecast(self, method: str) -> dict[str, Any]:
        forecast = self.utility(method, self.parties)
        return self._line(method, forecast.score_noise, accuracy=forecast.accuracy)

    def _perturbed(self, method: str, parties: int) -> dict[str, Any]:
        """Return noise and bound of the paper's methods, rows scaled to norm one."""
        count, width, classes = self.moments.count, len(self.moments.values), self.moments.classes
        bound = theorem_4(
            parties, count, width, classes=classes, epsilon=self.epsilon, delta=self.delta,
            lam=self.lam,
        )  # fmt: skip
        factor = 1.0 if classes == 2 else 2.0  # two columns are compared
        noise = factor * self._multiplier / (self.lam * parties)
        return self._line(method, noise, risk_bound=bound)

    def _line(self, method: str, noise: float, **more: Any) -> dict[str, Any]:
        line = {"epsilon": self.epsilon, "method": method, "protects": "party", "noise": noise}
        return {**line, "accuracy": None, "risk_bound": None, **more}

    def remaining_gain(self, accuracy: Mapping[str, float]) -> float:
        """Return the share that noise leaves of what the usual problem gains over guessing."""
        return (accuracy["usual"] - 0.5) / max(self.without_noise["usual"] - 0.5, 1e-12)

    @property
    def in_reach(self) -> bool:
        """Whether there are enough parties."""
        return self.remaining_gain(self.lines[0]["accuracy"]) >= _ENOUGH

    @cached_property
    def needed(self) -> int:
        """The least number of parties with which enough is kept, to two digits."""
        low, high = 1.0, float(_MOST_PARTIES)
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            kept = self.remaining_gain(self.utility(self.method, middle).accuracy)
            low, high = (low, middle) if kept >= _ENOUGH else (middle, high)
        digits: int = 10 ** max(0, math.floor(math.log10(high)) - 1)
        return math.ceil(high / digits) * digits

    @property
    def verdict(self) -> str:
        """Whether it is worth it, in sentences."""
        accuracy, of_labels = (self.lines[at]["accuracy"]["usual"] for at in (0, -1))
        remaining = max(0.0, self.remaining_gain(self.lines[0]["accuracy"]))
        result = (
            f"{100 * remaining:.0f} % of the gain over guessing remains after noise (accuracy"
            f" {accuracy:.2f})."
        )
        text = (
            f"{self.parties:,} parties at epsilon = {self.epsilon:g}: privacy of whole parties is"
        )
        if self.in_reach:
            return f"{text} within reach. In the usual case {result}"
        needed = f"About {self.needed:,} parties would be needed."
        if self.needed >= _MOST_PARTIES:
            needed = "No number of parties would be enough."
        text = f"{text} out of reach. In the usual case only {result} {needed}"
        if of_labels < accuracy + _BETTER:
            return text
        return (
            f"{text} If each party's rows may be public and only labels are private, merge"
            f" label-private releases instead: predicted accuracy {of_labels:.2f} with"
            f" {self.samples:,} records each. Each party runs suffice release mean-operator"
            " --pipeline-from FILE, and the learner runs suffice fit on all releases."
        )


def theorem_4(
    parties: int,
    rows: int,
    features: int,
    *,
    classes: int,
    epsilon: float,
    delta: float = 0.0,
    lam: float = 1e-4,
) -> float:
    """Return the bound on the excess risk of the soft classifier, each part failing with 5 %.

    With delta > 0 for Gaussian noise, else for noise of density exp(-||eta|| / scale).
    """
    dimension = features * operator_columns(classes)
    sensitivity = gradient_change(classes) / (lam * parties)
    if delta > 0:
        radius = math.sqrt(stats.chi2.isf(_FAILURE_PROBABILITY, dimension)) * gaussian_multiplier(
            epsilon, delta
        )
    else:
        radius = float(stats.gamma.isf(_FAILURE_PROBABILITY, dimension)) / epsilon
    curvature = 0.25 if classes == 2 else 0.5
    noise = (curvature + lam) * (radius * sensitivity) ** 2
    return noise + 16 * (32 + math.log(1 / _FAILURE_PROBABILITY)) / (lam * rows)


_MOST_KNORM_NUMBERS = 100_000  # each is drawn to hundreds of bits: it takes minutes by then
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
    """What is public about one aggregation."""

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    asked: "PrivateEnsemble"
    source: RoundSource  # holds what parties sent, or the records of one table: private

    def parts(self) -> Sequence[Stream]:
        """Return what parties sent, or the records of their table."""
        source = self.source
        if isinstance(source, PartySource):
            columns = source.label or "", source.party
            return [Stream(partial(record_batches, source.data, self.auxiliary, *columns), STAYS)]
        sent = () if isinstance(source.data, VoteTally) else source.data
        return [Stream(lambda: ([item] for item in sent), STAYS)]

    def start(self, statistic: str) -> PartyExact:
        """Return an empty sum of a statistic; a tally is finished already."""
        asked, source = self.asked, self.source
        parties = self.auxiliary, self.classes, self.enrolled, asked.lam, asked.samples or 1
        if isinstance(source, PartySource):
            label = source.label or ""
            return PartyRecords(statistic, *parties, label=label, party=source.party)
        if isinstance(source.data, VoteTally):
            return TallySum(statistic, *parties, tally=source.data)
        return Gathering(statistic, *parties)

    @property
    def columns(self) -> int:
        """The number of columns of an operator or a model: one for two classes."""
        return operator_columns(len(self.classes))

    @property
    def dimension(self) -> int:
        """The number of entries of an operator or a model."""
        return self.columns * len(self.auxiliary.pipeline.outputs)

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """Return noise for this sensitivity, "auto": Gaussian where delta allows it."""
        mechanism, epsilon, delta = self.asked.mechanism, self.asked.epsilon, self.asked.delta
        if mechanism == "gaussian" or (mechanism == "auto" and delta > 0):
            return GaussianNoise.calibrated(sensitivity, epsilon, delta)
        if sensitivity.dimension > _MOST_KNORM_NUMBERS:
            raise ParameterError(
                "This release has too many numbers for K-norm noise. Set a --delta above 0 to use"
                " Gaussian noise."
            )
        return KNormNoise.calibrated(sensitivity, epsilon)

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
        return self.public.start(self.statistic)

    def check(self, exact: PartyExact) -> None:
        """Raise if the contributions are not of this round; empty records are no error."""
        exact.check()
        if self.public.asked.private_auxiliary:
            auxiliary = self.public.auxiliary
            warn_of_same_rows(auxiliary.hashes[0], auxiliary.pipeline.origin.rows)

    def report(self, exact: PartyExact) -> OwnerReport:
        """Return whose contributions counted as zero, and why, in sentences for the owner."""
        gathered = exact.result()
        strangers = [item for item in gathered.rejected if item.reason == STRANGER]
        others = [item for item in gathered.rejected if item.reason != STRANGER]
        shown = [*strangers[:_SHOWN_PARTIES], *others]
        lines = [f"{gathered.accepted:,} parties counted"]
        lines += [f"counted as zero: {rejected}" for rejected in shown]
        if len(strangers) > _SHOWN_PARTIES:
            more = len(strangers) - _SHOWN_PARTIES
            lines.append(f"counted as zero: {more:,} more parties that are not enrolled")
        if gathered.absent:
            names = f": {', '.join(gathered.missing[:_SHOWN_PARTIES])}" if gathered.missing else ""
            rest = ", ..." if len(gathered.missing) > _SHOWN_PARTIES else ""
            lines.append(f"no contribution from {gathered.absent} parties{names}{rest}")
        if not gathered.accepted:  # a refusal would tell that the only party left had nothing
            lines.append(
                "no contribution was counted: the release is noise only, and it was charged"
            )
        facts = {
            "kind": self.kind,
            "accepted": gathered.accepted,
            "absent": gathered.absent,
            "missing": gathered.missing,
            "rejected": gathered.rejected,
        }
        return OwnerReport(tuple(lines), facts)

    def guarantees(self, exact: PartyExact | None = None) -> tuple[Guarantee, ...]:
        """Return the guarantees per party, and per protected row; no contribution is needed.

        The noise for protected rows is calibrated to a party and a row that change together, so
        that the same event bounds either.
        """
        del exact
        public, private = self.public, self.public.asked.private_auxiliary
        count, enrolled = public.auxiliary.count, "the number of enrolled parties"
        rows = f"the {count:,} auxiliary rows"
        if private:
            rows = f"that there are {count:,} auxiliary rows, and how they are mapped"
        delta = 0.0 if self.noise.event.pure else public.asked.delta
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
        public, asked = self.public, self.public.asked
        private, method = asked.private_auxiliary, asked.released_method
        return {
            "kind": "parties",
            "method": method,
            "mechanism": asked.mechanism,
            "noise": asked.noise_shape,
            "epsilon": asked.epsilon,
            "delta": asked.delta,
            "lam": asked.lam,
            **({"samples": asked.samples} if method == "class-sums" else {}),
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
        if not public.asked.private_auxiliary:
            return ()
        fingerprint = public.auxiliary.fingerprint()
        return [DatasetCharge(public.source.auxiliary_dataset or "", guarantees[1:], fingerprint)]

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
        auxiliary = self.public.auxiliary
        return RowSet(auxiliary.count, auxiliary.hashes[self.ordered], self.public.source.found_at)


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
        details = {"mechanism": self.noise.name, "step": self.public.auxiliary.step}
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
        details = {"mechanism": self.noise.name, "enrolled": enrolled}
        return {"votes": noisy * self.unit}, details


def too_many_parties() -> ParameterError:
    """Return the error of a sum over parties that 64-bit integers cannot hold."""
    return ParameterError("There are too many parties for one sum. Aggregate them in groups.")


METHODS = {
    "operator": "operator",
    "class-sums": "class-sums",
    "vote-table": "votes",
    "soft": "operator",
    "majority-model": "votes",
    "average": "parameters",
}  # and what each needs of a party
# Makes the procedures of other methods, which the papers state and `auto` never takes.
_OF_THE_PAPERS = "suffice.papers.output_perturbation"


@dataclass(frozen=True)
class Aggregation:
    """The release, and what happened to every contribution that is not in it.

    Only the release is public. Everything else is for the aggregator.
    """

    release: Release
    accepted: int  # how many contributions were counted
    rejected: tuple[Rejection, ...]  # those that counted as zero
    missing: tuple[str, ...]  # enrolled parties without a contribution, where names are known
    absent: int  # how many enrolled parties sent no contribution


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
      (papers/output_perturbation.py).

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
    release_help = (
        "Publish what many parties vote on public rows, with noise.\n\n"
        "The release holds the sum of the votes of many parties on public rows, or of their records"
        " by class, with noise. It protects all data of each party together. The public rows, and"
        " how many parties are enrolled, are public."
    )
    plan_help = "Predict how accurate many parties are together."
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
        choices=("auto", *METHODS),
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    mechanism: str = privacy_option(
        "auto",
        "Noise: gaussian or knorm. auto uses gaussian if delta is above 0.",
        name="--noise",
        choices=("auto", "gaussian", "knorm"),
    )
    noise_shape: str = privacy_option(
        "whitened",
        "Shape of the noise on the mean operator: whitened (less noise) or even.",
        choices=("whitened", "even"),
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
        return Round(source.rows, self.declared_classes(), source.parties, self, source)

    def choose(self, public: Round) -> PartyProcedure:
        """Return how a release is made, calibrated before anything private is seen."""
        if public.enrolled.count * 2**40 >= LARGEST_SUM:
            raise too_many_parties()
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
        procedure: PartyProcedure = import_module(_OF_THE_PAPERS).procedure_of(
            method, public, self.lam
        )
        return procedure

    def plan(self, source: RoundSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return what the parties could learn together, from the auxiliary rows alone."""
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
        contributions: Iterable[Sent] | VoteTally,
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
        """Return the guarantees of a release, per party and then per protected auxiliary row.

        No contribution is needed. ``enrolled`` is the public number of parties, or their names.
        """
        return self.procedure(auxiliary, Enrolled.of(enrolled)).guarantees()

    def procedure(self, auxiliary: AuxiliaryRows, enrolled: Enrolled) -> PartyProcedure:
        """Return how a release is made, from public facts."""
        return self.choose(self.public(RoundSource((), auxiliary=auxiliary, enrolled=enrolled)))

    def gathered(
        self,
        contributions: Iterable[Sent] | VoteTally,
        auxiliary: AuxiliaryRows,
        enrolled: Enrolled,
    ) -> Gathered:
        """Return the exact sum of the contributions, which is private; those at fault are named.

        Whether a table holds anything of an enrolled party is private too: a tally is never refused
        for being empty.
        """
        source = RoundSource(contributions, auxiliary=auxiliary, enrolled=enrolled)
        public = self.public(source)
        exact = source.fold(public.parts(), partial(public.start, METHODS[self.released_method]))
        exact.check()
        return exact.result()
