"""The noisy mean operator of private labels and public rows (Patrini et al. 2016)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.engines.engine import fold
from suffice.options import REQUIRED, option, privacy_option
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism, make_release
from suffice.owner.operator.candidates import OperatorMechanism, candidates, choose
from suffice.owner.operator.forecast import Utility
from suffice.owner.operator.form import operator_columns
from suffice.owner.operator.plan import OperatorPlan, plan_operator
from suffice.owner.operator.procedures import NoisySums, RandomisedLabels, operator_procedure
from suffice.owner.plans import asked_epsilons
from suffice.owner.public_rows import Preprocessing, PublicRows, PublicTable
from suffice.owner.publish import Payment
from suffice.owner.source import PublicSource, unlabelled_batches
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Guarantee
from suffice.release.artifact import Release
from suffice.tables.labels import Classes, check_classes

__all__ = ["Forecast", "MeanOperator", "plan_mean_operator"]


@dataclass(frozen=True)
class Forecast:
    """What a release would promise and how good it would be; no label was read for it.

    ``noise_deviation`` is the root mean square of the noise per coordinate; ``whitened`` says at
    which penalty the noise is whitened, None for even noise.
    """

    mechanism: str
    guarantee: Guarantee
    noise_deviation: float
    coordinates: int
    whitened: float | None
    utility: Utility


@dataclass(frozen=True)
class MeanOperator(Preprocessing, Mechanism[PublicTable]):
    """Protects each label: the mean operator leaves with noise, the labels stay.

    The statistic is mu = (1/m) sum_i y_i x_i for two classes (y = -1 for the first declared class,
    +1 for the second) and M = (1/m) sum_i x_i e_(y_i)^T for more. Replacing one label moves it by
    at most

        D1 = (2/m) max ||x_i||_1, D2 = (2/m) max ||x_i||_2 (sqrt2/m for three classes or more),

    computed exactly from the public rows (Patrini et al. 2016, Theorem 9, takes the 1-norm for the
    2-norm; see docs/errata.md). ``mechanism``: "laplace" (pure, D1), "knorm" (pure, D2),
    "gaussian" (needs ``delta``, D2), "response" (pure: the labels leave, each randomised, and the
    learner derives the statistic), "auto": the one that public rows predict to be best for a
    classifier (owner/operator/forecast.py), or "sums": the best of all but "response". Noise is
    even over the coordinates, or whitened where that is clearly better (owner/operator/shaping.py).
    Assumes that rows, their number and ``classes`` are public and were not chosen by looking at the
    labels. `Preprocessing` explains the other fields.
    """

    name = "mean-operator"
    source = PublicSource

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    mechanism: str = privacy_option(
        "auto",
        "laplace, gaussian, knorm or response; auto picks the best predicted accuracy, sums"
        " does the same without response.",
        choices=OperatorMechanism,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: PublicSource) -> PublicTable:
        """Return the rows, all of whose columns but the label are public, and their pipeline."""
        return self.public_table(source, self.declared_classes())

    def choose(self, public: PublicTable) -> NoisySums | RandomisedLabels:
        """Return the way to release that public rows predict to be best."""
        asked = [(self.epsilon, self.delta)]
        every = candidates(public.rows, len(public.classes), self.mechanism, asked)
        request = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }
        return operator_procedure(public, request, choose(every))

    def plan(self, source: PublicSource, epsilons: Sequence[float] = ()) -> OperatorPlan:
        """Return what each mechanism would do at each epsilon, from public rows alone."""
        public = self.public(source)
        asked = asked_epsilons(epsilons or self.epsilon)
        return plan_operator(public.rows, len(public.classes), self.mechanism, asked, self.delta)

    def release_whatever_labels(
        self,
        data: Any,
        y: Any = None,
        *,
        tell: Callable[[str], None],
        ledger: Ledger,
        dataset: str,
        request: str | None = None,
        **inputs: Any,
    ) -> Release:
        """Return the same for somebody else: no label, whatever it is, is an error or is seen.

        A label that is missing or outside the classes counts as none and weighs nothing, and
        changed labels are paid for from the same budget. The owner alone is told, by ``tell``.
        """
        source = PublicSource(data, y, outside="none", **inputs)
        payment = Payment(ledger, dataset, request, data_changed=True, tell=tell)
        return make_release(self, source, payment)

    def forecast(
        self, data: Any, *, label: str | None = None, features: Sequence[str] | None = None
    ) -> Forecast:
        """Return the promise and the noise of a release, from public rows alone."""
        public = self.public(PublicSource(data, label=label, features=features))
        procedure: Any = self.choose(public)
        rows = public.rows
        exact = procedure.accumulator(identified=False)
        fold(unlabelled_batches(rows.table, rows.roles.features), exact)
        (guarantee,) = procedure.guarantees(exact)
        best = procedure.best
        return Forecast(
            best.mechanism,
            guarantee,
            procedure.deviation(exact),
            len(rows.pipeline.outputs) * operator_columns(len(public.classes)),
            best.whitened,
            best.utility,
        )

    def public_rows(
        self, data: Any, label: str | None = None, features: Sequence[str] | None = None
    ) -> PublicRows:
        """Return the public side of a table: everything but the column ``label``."""
        return self.public(PublicSource(data, label=label, features=features)).rows


def plan_mean_operator(
    X: Any,
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> OperatorPlan:
    """Return what each mechanism would do at each epsilon, from public rows alone.

    One ``epsilon`` is shown with a quarter, a half, the double and four times of it. The column
    ``label`` is left out and never read; ``settings`` are those of `MeanOperator` (``mechanism``,
    ``classes``, ``map``, ``clip``, ...).
    """
    several = tuple(epsilon) if isinstance(epsilon, Sequence) else ()
    first = asked_epsilons(epsilon)[0] if several else epsilon
    operator = MeanOperator(first, delta, **settings)  # type: ignore[arg-type]  # one number
    return operator.plan(PublicSource(X, label=label, features=features), several)
