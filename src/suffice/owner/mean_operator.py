"""The noisy mean operator of private labels and public rows (Patrini et al. 2016)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from suffice.owner.candidates import (
    MECHANISMS,
    Candidate,
    candidates,
    choose,
)
from suffice.owner.classes import check_declared, check_features
from suffice.owner.forecast import Utility
from suffice.owner.ledger import Ledger
from suffice.owner.operator_form import operator_columns
from suffice.owner.public_rows import PublicRows, read_public_rows
from suffice.owner.publish import of_versions, publish
from suffice.owner.scaling import as_scaled
from suffice.owner.statistics import (
    ExactLabels,
    ExactSums,
    check_given_once,
    labelled_batches,
    unlabelled_batches,
)
from suffice.privacy.calibrate import check_promise
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import calibrated_noise
from suffice.privacy.response import Response
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes, check_classes
from suffice.tables.pipeline import Missing, Pipeline

__all__ = ["MECHANISMS", "Forecast", "MeanOperator"]


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
class MeanOperator:
    """Protects each label: the mean operator leaves with noise, the labels stay.

    The statistic is mu = (1/m) sum_i y_i x_i for two classes (y = -1 for the first declared class,
    +1 for the second) and M = (1/m) sum_i x_i e_(y_i)^T for more. Replacing one label moves it by
    at most

        D1 = (2/m) max ||x_i||_1, D2 = (2/m) max ||x_i||_2 (sqrt2/m for three classes or more),

    computed exactly from the public rows (Patrini et al. 2016, Theorem 9, takes the 1-norm for the
    2-norm; see docs/errata.md). ``mechanism``: "laplace" (pure, D1), "knorm" (pure, D2),
    "gaussian" (needs ``delta``, D2), "response" (pure: the labels leave, each randomised, and the
    learner derives the statistic), "auto": the one that public rows predict to be best for a
    classifier (owner/forecast.py), or "sums": the best of all but "response". Noise is even over
    the coordinates, or whitened where that is clearly better (owner/shaping.py). Assumes that rows,
    their number and ``classes`` are public and were not chosen by looking at the labels.

    Rows are mapped (``map``: "rff:512", "nystroem:200", "polynomial:2", "pca:50", "whiten:50"),
    standardised and clipped at the ``clip`` quantile of their norms (the lower the more coordinates
    there are, unless given), all from the public rows, or by the ``pipeline`` of an earlier
    release; one whose numbers come from private rows, or nobody knows from where, makes the
    guarantee data-dependent. ``intercept`` is the weight of the constant coordinate: a quarter of
    the norm bound unless given, zero for none.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = "auto"
    classes: Sequence[Any] = (0, 1)
    clip: float | None = None
    intercept: float | None = None
    missing: Missing = "error"
    categories: Mapping[str, Sequence[Any]] | None = None
    map: str | None = None
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        check_promise(self)

    def release(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Ledger | None,
        dataset: str | None = None,
        label: str | None = None,
        features: Sequence[str] | None = None,
        request: str | None = None,
        data_changed: bool = False,
        found_at: str | None = None,
        unprotected: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Release:
        """Return the noisy statistic, paid for from ``ledger`` (None, said aloud, for no ledger).

        The labels are ``y``, or the column ``label`` of the table ``X``. ``data_changed`` says that
        the data under this name are no longer those of earlier releases; ``unprotected`` that a
        release may leave whose ``pipeline`` makes its guarantee data-dependent.
        """
        return self._released(
            X,
            y,
            (label, features, progress),
            found_at=found_at,
            ledger=ledger,
            dataset=dataset,
            request=request,
            data_changed=data_changed,
            unprotected=unprotected,
        )

    def release_whatever_labels(
        self,
        X: Any,
        y: Any = None,
        *,
        tell: Callable[[str], None],
        ledger: Ledger,
        dataset: str,
        label: str | None = None,
        features: Sequence[str] | None = None,
        request: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Release:
        """Return the same for somebody else: no label, whatever it is, is an error or is seen.

        A label that is missing or outside the classes counts as none and weighs nothing, and
        changed labels are paid for from the same budget. The owner alone is told, by ``tell``.
        """
        return self._released(
            X,
            y,
            (label, features, progress),
            ledger=ledger,
            dataset=dataset,
            request=request,
            data_changed=True,
            tell=tell,
        )

    def _released(
        self,
        X: Any,
        y: Any,
        how: tuple[str | None, Sequence[str] | None, Callable[[int], None] | None],
        *,
        found_at: str | None = None,
        tell: Callable[[str], None] | None = None,
        **paying: Any,
    ) -> Release:
        """Release as ``how`` (label, features, progress) says; ``paying`` is for `publish`."""
        classes, (label, _, progress) = check_classes(self.classes), how
        check_given_once(y, label)
        check_declared(classes, paying["ledger"], paying["dataset"], label)
        public = self.public_rows(X, *how)
        check_features(public.roles.features, paying["ledger"], paying["dataset"])
        way = self._way(public, classes, self._best(public, classes))
        outside: Literal["error", "none"] = "error" if tell is None else "none"
        way.exact.read(labelled_batches(public, y, classes, outside), progress)
        if tell is not None and way.exact.outside:
            tell(
                f"{way.exact.outside} of {way.exact.count} labels are missing or outside the"
                " classes; they count as none."
            )
        rows = way.exact.row_set(found_at)
        guarantee = of_versions(
            self._guarantee(way.calibrated()), data_changed=paying["data_changed"]
        )
        return publish(
            lambda: way.draw(rows, guarantee),
            [guarantee],
            parameters={"kind": way.kind, **self._parameters(public, rows)},
            fingerprint=way.exact.fingerprint,
            tell=tell,
            **paying,
        )

    def forecast(
        self, X: Any, *, label: str | None = None, features: Sequence[str] | None = None
    ) -> Forecast:
        """Return the promise and the noise of a release, from public rows alone."""
        classes = check_classes(self.classes)
        public = self.public_rows(X, label, features)
        best = self._best(public, classes)
        way = self._way(public, classes, best)
        way.exact.read(unlabelled_batches(public), None)
        guarantee = self._guarantee(way.calibrated())
        size = len(public.pipeline.outputs) * operator_columns(len(classes))
        deviation = way.deviation() or best.deviation
        return Forecast(best.mechanism, guarantee, deviation, size, best.whitened, best.utility)

    def public_rows(
        self,
        X: Any,
        label: str | None = None,
        features: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> PublicRows:
        """Return the public side of the table ``X``: everything but the column ``label``."""
        return read_public_rows(
            X,
            label=label,
            features=features,
            categories=self.categories,
            missing=self.missing,
            clip=self.clip,
            intercept=self.intercept,
            pipeline=self.pipeline,
            map_spec=self.map,
            progress=progress,
        )

    def _best(self, public: PublicRows, classes: Classes) -> Candidate:
        """Return the way to release that public rows predict to be best."""
        found = candidates(public, len(classes), self.mechanism, [(self.epsilon, self.delta)])
        return choose(found)

    def _way(self, public: PublicRows, classes: Classes, best: Candidate) -> "_Way":
        if best.mechanism == "response":
            return _RandomisedLabels(ExactLabels(public, classes), self.epsilon)
        exact = ExactSums(public, classes, best.shape)
        return _NoisySums(exact, best.mechanism, self.epsilon, self.delta)

    def _guarantee(self, event: Event) -> Guarantee:
        guarantee = Guarantee(
            unit=Unit.LABEL,
            event=event,
            delta=0.0 if event.pure else self.delta,
            public=("the feature columns of every row", "the number of rows", "the class list"),
            assumptions=(
                Assumption(
                    "rows, their order, features and classes were not chosen by looking at labels",
                    "declared by the owner",
                ),
            ),
        )
        return guarantee if self.pipeline is None else as_scaled(guarantee, self.pipeline.origin)

    def _parameters(self, public: PublicRows, rows: RowSet) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "classes": list(check_classes(self.classes)),
            "rows": rows.hash,
            "pipeline": public.pipeline.digest(),
        }


class _NoisySums:
    """The mean operator as sums with noise, even or in a shape."""

    kind = "mean-operator"

    def __init__(self, exact: ExactSums, mechanism: str, epsilon: float, delta: float) -> None:
        self.exact, self._mechanism, self._asked = exact, mechanism, (epsilon, delta)

    def calibrated(self) -> Event:
        """Fit the noise to the sensitivity of the rows that were read; return what it costs."""
        self._noise = calibrated_noise(self._mechanism, self.exact.sensitivity, *self._asked)
        return self._noise.event

    def deviation(self) -> float:
        """Return the root mean square of the noise per coordinate of the mean."""
        covariance = self._covariance()
        spread = (
            1.0 if covariance.array is None else float((covariance.array**2).sum(axis=1).mean())
        )
        return math.sqrt(covariance.variance * spread)

    def _covariance(self) -> Covariance:
        variance, shape = self._noise.variance * self.exact.unit**2, self.exact.shape
        if shape is None:
            return Covariance("identity", variance)
        return Covariance("factor", variance, np.ascontiguousarray(shape.back()))

    def draw(self, rows: RowSet, guarantee: Guarantee) -> Release:
        """Return the release, with fresh noise."""
        return Release(
            kind=self.kind,
            arrays={"mean_operator": self.exact.noisy(self._noise)},
            details={
                "classes": list(self.exact.classes),
                "mechanism": self._mechanism,
                "step": self.exact.step,
            },
            parts=(Part(rows, (guarantee,)),),
            pipeline=self.exact.public.pipeline,
            noise=self._covariance(),
        )


class _RandomisedLabels:
    """The labels themselves, each randomised; the learner derives the mean operator."""

    kind = "label-responses"

    def __init__(self, exact: ExactLabels, epsilon: float) -> None:
        self.exact, self._epsilon = exact, epsilon

    def calibrated(self) -> Event:
        """Choose the most faithful response within epsilon; return what it costs."""
        self._response = Response.from_epsilon(len(self.exact.classes), self._epsilon)
        return self._response.event

    def deviation(self) -> None:
        """Return nothing: it depends on the rows, and the forecast's own figure stands."""

    def draw(self, rows: RowSet, guarantee: Guarantee) -> Release:
        """Return the release, with fresh answers."""
        return Release(
            kind=self.kind,
            arrays={
                "answers": self.exact.randomised(self._response),
                "channel": self._response.matrix,
            },
            details={"classes": list(self.exact.classes), "mechanism": "response"},
            parts=(Part(rows, (guarantee,)),),
            pipeline=self.exact.public.pipeline,
            noise=Covariance("none"),
        )


_Way = _NoisySums | _RandomisedLabels
