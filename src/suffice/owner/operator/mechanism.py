"""The noisy mean operator of private labels and public rows (Patrini et al. 2016)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suffice.engines.engine import fold
from suffice.notes import note
from suffice.options import REQUIRED, data_option, option, privacy_option
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism, make_release
from suffice.owner.operator.candidates import Candidates, OperatorMechanism
from suffice.owner.operator.forecast import Utility, check_balance
from suffice.owner.operator.form import operator_columns
from suffice.owner.operator.plan import OperatorPlan, plan_operator
from suffice.owner.operator.procedures import NoisySums, RandomisedLabels, operator_procedure
from suffice.owner.plans import planned_epsilons
from suffice.owner.public_rows import Preprocessing, PublicRows, PublicTable
from suffice.owner.publish import Payment
from suffice.owner.source import OwnerReport, PublicSource, unlabelled_batches
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Guarantee
from suffice.release.artifact import Release
from suffice.tables.labels import Classes, check_classes

__all__ = ["Forecast", "MeanOperator", "plan_mean_operator"]


@dataclass(frozen=True)
class Forecast:
    """What a release would guarantee and how good it would be; no label was read for it.

    Parameters
    ----------
    mechanism : str
        The mechanism that the release would use.
    guarantee : Guarantee
        What the release would protect, and how strongly.
    noise_deviation : float
        Root mean square of the noise per coordinate.
    coordinates : int
        How many numbers the mean operator has.
    whitened : float or None
        The penalty at which the noise is whitened; None for even noise.
    utility : Utility
        Predicted accuracy and score noise.
    """

    mechanism: str
    guarantee: Guarantee
    noise_deviation: float
    coordinates: int
    whitened: float | None
    utility: Utility


@dataclass(frozen=True)
class MeanOperator(Preprocessing, Mechanism[PublicTable]):
    """Publish the mean operator with noise: one number per feature and class.

    Protects each label. The feature columns of every row, the number of rows and the class list
    are public. The mean operator is the average of each feature, counted plus for one class and
    minus for the other; a learner who has the rows trains a classifier on it.

    The statistic is mu = (1/m) sum_i y_i x_i for two classes (y = -1 for the first declared class,
    +1 for the second) and M = (1/m) sum_i x_i e_(y_i)^T for more. Replacing one label moves it by
    at most

        D1 = (2/m) max ||x_i||_1, D2 = (2/m) max ||x_i||_2 (sqrt2/m for three classes or more),

    computed exactly from the public rows (Patrini et al. 2016, Theorem 9, takes the 1-norm for the
    2-norm; see docs/errata.md). Noise is even over the coordinates, or whitened where that is
    clearly better (owner/operator/shaping.py). On few rows "auto" and "sums" give the intercept
    less noise than the features, so that the larger class is known
    (owner/operator/candidates.py). With a given ``pipeline`` noise on sums is always even: such
    releases are merged, and shaped noise would hide what other owners show. Assumes that rows,
    their number and ``classes`` are public and were not chosen by looking at the labels.

    Parameters
    ----------
    epsilon : float
        Epsilon of each label, for example 1. Smaller protects more strongly.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    mechanism : str
        "laplace" (delta = 0, D1), "knorm" (delta = 0, D2), "gaussian" (needs ``delta``, D2) or
        "response" (delta = 0: each label is randomised and published, and the learner derives the
        statistic). "auto" takes the one that public rows predict to be best for a classifier
        (owner/operator/forecast.py), "sums" the best of all but "response". With a given
        ``pipeline`` both take sums.
    classes : sequence
        The labels that can occur. Of two, the last is positive.
    balance : float, optional
        Proportion of the positive class that the owner expects, for forecasts alone. Default: equal
        classes. It is never read from labels, and no release depends on it.
    standardize, clip, intercept, missing, categories, map, pipeline, ...
        How rows become vectors; see `Preprocessing`.

    Raises
    ------
    ParameterError
        If a field is outside its domain.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(4).repeat(25, axis=0), np.repeat([0, 1], 50)
    >>> operator = suffice.MeanOperator(epsilon=1.0)
    >>> release = operator.release(X, y, ledger=None)
    >>> release.kind, release.guarantee.epsilon
    ('mean-operator', 1.0)
    """

    name = "mean-operator"
    source = PublicSource

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    mechanism: str = privacy_option(
        "auto",
        "laplace, gaussian, knorm or response. auto picks the best predicted accuracy; sums does"
        " the same without response.",
        choices=OperatorMechanism,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    balance: float | None = data_option(
        None,
        "Proportion of the positive class that you expect, for example 0.12. It is never read from"
        " the labels. Default: equal classes.",
        released=False,
        kw_only=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_balance(self.balance, len(self.declared_classes()))

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: PublicSource) -> PublicTable:
        """Return the rows, all of whose columns but the label are public, and their pipeline."""
        return self.public_table(source, self.declared_classes())

    def choose(self, public: PublicTable) -> NoisySums | RandomisedLabels:
        """Return the procedure that public rows predict to be best."""
        every = Candidates(public.rows, len(public.classes))
        request = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }
        best = every.best(self.mechanism, self.epsilon, self.delta)
        return operator_procedure(public, request, best)

    def plan(self, source: PublicSource, epsilons: Sequence[float] = ()) -> OperatorPlan:
        """Return what each mechanism would do at each epsilon, from public rows alone.

        Parameters
        ----------
        source : PublicSource
            The table. Its label column is never read.
        epsilons : sequence of float
            Epsilons to compare. Default: this one, with smaller and larger ones around it.

        Returns
        -------
        OperatorPlan
            A table of noise and predicted accuracy, for the class balance that was declared.
        """
        public = self.public(source)
        classes = len(public.classes)
        return plan_operator(
            public.rows,
            classes,
            self.mechanism,
            planned_epsilons(epsilons or self.epsilon),
            self.delta,
            balance=check_balance(self.balance, classes),
        )

    def release_whatever_labels(
        self,
        data: Any,
        y: Any = None,
        *,
        ledger: Ledger,
        dataset: str,
        request: str | None = None,
        **inputs: Any,
    ) -> Release:
        """Return the same release for somebody else: no answer depends on a label.

        A label that is missing or outside the classes counts as none and weighs nothing. Changed
        labels are charged to the same budget.

        Parameters
        ----------
        data, y
            The table and its labels, or the column ``label`` among ``inputs``.
        ledger : Ledger
            The ledger that is charged.
        dataset : str
            Name of the data set in the ledger.
        request : str, optional
            Name of the request.
        **inputs
            Further fields of `PublicSource`.

        Returns
        -------
        Release
            The mean operator with noise.
        """
        source = PublicSource(data, y, outside="none", report=_note_report, **inputs)
        return make_release(self, source, Payment(ledger, dataset, request))

    def forecast(
        self, data: Any, *, label: str | None = None, features: Sequence[str] | None = None
    ) -> Forecast:
        """Return the guarantee and the noise of a release, from public rows alone.

        Parameters
        ----------
        data
            The table.
        label : str, optional
            The label column; it is never read.
        features : sequence of str, optional
            The feature columns. Default: all but the label.

        Returns
        -------
        Forecast
            The mechanism, the guarantee, the noise and the predicted accuracy.
        """
        public = self.public(PublicSource(data, label=label, features=features))
        procedure: Any = self.choose(public)
        rows, classes = public.rows, len(public.classes)
        exact = procedure.accumulator(identified=False)
        fold(unlabelled_batches(rows.table, rows.roles.features), exact)
        (guarantee,) = procedure.guarantees(exact)
        best = procedure.best
        if self.balance is not None:
            expected = Candidates(rows, classes, check_balance(self.balance, classes))
            best = expected.like(best, self.delta)
        return Forecast(
            best.mechanism,
            guarantee,
            procedure.deviation(exact),
            len(rows.pipeline.outputs) * operator_columns(classes),
            best.whitened,
            best.utility,
        )

    def public_rows(
        self, data: Any, label: str | None = None, features: Sequence[str] | None = None
    ) -> PublicRows:
        """Return the public side of a table: everything but the column ``label``."""
        return self.public(PublicSource(data, label=label, features=features)).rows


def _note_report(report: OwnerReport) -> None:
    """Tell the owner, and nobody else, what depends on labels; no answer does."""
    for line in report.lines:
        note(f"{line} Only you see this line.")


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

    Parameters
    ----------
    X
        The table: an array, a data frame or a file.
    epsilon : float or sequence of float
        One epsilon is shown with a quarter, a half, the double and four times of it.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    label : str, optional
        The label column. It is left out and never read.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    **settings
        Further fields of `MeanOperator`: ``mechanism``, ``classes``, ``balance``, ``clip``, ...

    Returns
    -------
    OperatorPlan
        A table of noise and predicted accuracy.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> rows = np.eye(4).repeat(250, axis=0)
    >>> plan = suffice.plan_mean_operator(rows, epsilon=[1.0], mechanism="knorm", balance=0.12)
    >>> print(plan)  # doctest: +NORMALIZE_WHITESPACE
    epsilon  mechanism                noise  score noise  hard   usual  easy
    1        knorm *                  0.01   0.048        0.880  0.898  0.994
             without noise            0      0            0.880  0.898  0.994
             always the larger class                      0.880  0.880  0.880
    """
    several = tuple(epsilon) if isinstance(epsilon, Sequence) else ()
    first = planned_epsilons(epsilon)[0] if several else epsilon
    operator = MeanOperator(first, delta, **settings)  # type: ignore[arg-type]  # one number
    return operator.plan(PublicSource(X, label=label, features=features), several)
