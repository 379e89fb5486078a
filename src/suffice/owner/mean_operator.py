"""The noisy mean operator of private labels and public rows (Patrini et al. 2016)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.sums import MappedSums, RowReach, label_weights
from suffice.errors import ParameterError, TableError
from suffice.owner.fingerprint import LabelFingerprint
from suffice.owner.ledger import Ledger
from suffice.owner.public_rows import PublicRows, read_public_rows
from suffice.owner.publish import publish
from suffice.privacy.events import Gaussian
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import (
    LARGEST_SUM,
    GaussianNoise,
    KNormNoise,
    LaplaceNoise,
    Noise,
    Sensitivity,
)
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.tables.labels import Classes, check_classes, label_codes
from suffice.tables.pipeline import Missing, Pipeline
from suffice.tables.rowhash import RowDigest, RowLanes

__all__ = ["MECHANISMS", "Forecast", "MeanOperator"]

LabelledBatches = Iterator[tuple[pa.RecordBatch, np.ndarray]]

MECHANISMS: Mapping[str, Callable[[Sensitivity, float, float], Noise]] = {
    "laplace": lambda reach, epsilon, _: LaplaceNoise.calibrated(reach, epsilon),
    "gaussian": GaussianNoise.calibrated,
    "knorm": lambda reach, epsilon, _: KNormNoise.calibrated(reach, epsilon),
}


@dataclass(frozen=True)
class Forecast:
    """What a release would promise and how noisy it would be; no label was read for it."""

    mechanism: str
    guarantee: Guarantee
    noise_deviation: float
    coordinates: int


@dataclass(frozen=True)
class MeanOperator:
    """Protects each label: the mean operator leaves with noise, the labels stay.

    The statistic is mu = (1/m) sum_i y_i x_i for two classes (y = -1 for the first declared class,
    +1 for the second) and M = (1/m) sum_i x_i e_(y_i)^T for more. Replacing one label moves it by
    at most

        D1 = (2/m) max ||x_i||_1, D2 = (2/m) max ||x_i||_2 (sqrt2/m for three classes or more),

    computed exactly from the public rows (Patrini et al. 2016, Theorem 9, takes the 1-norm for the
    2-norm; see docs/errata.md). ``mechanism``: "laplace" (pure, D1), "knorm" (pure, D2),
    "gaussian" (needs ``delta``, D2), or "auto": the one of least noise among those that ``delta``
    allows, which public rows decide. Assumes that rows, their number and ``classes`` are public and
    were not chosen by looking at the labels.

    Rows are mapped (``map``: "rff:512", "nystroem:200", "polynomial:2", "pca:50", "whiten:50"),
    standardised and clipped at the ``clip`` quantile of their norms, all from the public rows, or
    by the ``pipeline`` of an earlier release.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = "auto"
    classes: Sequence[Any] = (0, 1)
    clip: float = 0.95
    intercept: float = 1.0
    missing: Missing = "error"
    categories: Mapping[str, Sequence[Any]] | None = None
    map: str | None = None
    pipeline: Pipeline | None = None

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
        found_at: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Release:
        """Return the noisy statistic, paid for from ``ledger`` (None, said aloud, for no ledger).

        The labels are ``y``, or the column ``label`` of the table ``X``.
        """
        classes = check_classes(self.classes)
        if (y is None) == (label is None):
            raise ParameterError("give the labels once: as y, or as the name of a column (label).")
        public = self._public(X, label, features, progress)
        sums = _ExactSums(public, classes)
        sums.read(_labels_of(public, y, classes), progress)
        sums.check_size()
        rows = sums.row_set(found_at)
        name, noise = self._noise(sums.reach, len(classes), len(public.pipeline.outputs))
        guarantee = self._guarantee(noise)
        return publish(
            lambda: _noisy_release(sums, rows, noise, guarantee, name),
            [guarantee],
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters=self._parameters(public, rows),
            fingerprint=sums.fingerprint,
        )

    def forecast(
        self, X: Any, *, label: str | None = None, features: Sequence[str] | None = None
    ) -> Forecast:
        """Return the promise and the noise of a release, from public rows alone."""
        classes = check_classes(self.classes)
        public = self._public(X, label, features, None)
        sums = _ExactSums(public, classes)
        sums.read(_no_labels(public), None)
        width = len(public.pipeline.outputs)
        name, noise = self._noise(sums.reach, len(classes), width)
        deviation = math.sqrt(noise.variance) * sums.step / sums.row_set(None).count
        return Forecast(name, self._guarantee(noise), deviation, noise.sensitivity.dimension)

    def _public(
        self,
        X: Any,
        label: str | None,
        features: Sequence[str] | None,
        progress: Callable[[int], None] | None,
    ) -> PublicRows:
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

    def _noise(self, reach: RowReach, classes: int, width: int) -> tuple[str, Noise]:
        """Return the mechanism's name and noise, calibrated to the exact sensitivity in steps."""
        if self.mechanism not in {"auto", *MECHANISMS}:
            raise ParameterError(f"mechanism must be auto or one of {', '.join(MECHANISMS)}.")
        # A changed label moves mu by 2x/m, or two columns of M by x/m each (docs/errata.md).
        factor, columns = (2.0, 1) if classes == 2 else (math.sqrt(2.0) * (1 + 1e-15), classes)
        sensitivity = Sensitivity(2 * reach.l1, factor * reach.l2, width * columns)
        names = [self.mechanism] if self.mechanism != "auto" else self._affordable()
        found = {n: MECHANISMS[n](sensitivity, self.epsilon, self.delta) for n in names}
        # All of them spread evenly, so less variance is less noise in every margin, whatever lam.
        return min(found.items(), key=lambda item: item[1].variance)

    def _affordable(self) -> list[str]:
        return [name for name in MECHANISMS if name != "gaussian" or self.delta > 0]

    def _guarantee(self, noise: Noise) -> Guarantee:
        return Guarantee(
            unit=Unit.LABEL,
            event=noise.event,
            delta=self.delta if isinstance(noise.event, Gaussian) else 0.0,
            public=("the feature columns of every row", "the number of rows", "the class list"),
            assumptions=(
                Assumption(
                    "rows, their order, features and classes were not chosen by looking at labels",
                    "declared by the owner",
                ),
            ),
        )

    def _parameters(self, public: PublicRows, rows: RowSet) -> dict[str, Any]:
        return {
            "kind": "mean-operator",
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "classes": list(check_classes(self.classes)),
            "rows": rows.hash,
            "pipeline": public.pipeline.digest(),
        }


class _ExactSums:
    """The exact sums and the fingerprint of the private labels; never leaves this module."""

    def __init__(self, public: PublicRows, classes: Classes) -> None:
        self.public, self.classes = public, classes
        self._sums = MappedSums(public.pipeline, 1 if len(classes) == 2 else len(classes))
        features = public.roles.features
        self._lanes = RowLanes(public.table.schema, features)
        self._rows, self._labels = RowDigest(features), LabelFingerprint(classes)
        self.step = self._sums.step

    def read(self, labelled: LabelledBatches, progress: Callable[[int], None] | None) -> None:
        """Sum every row under its label, and fingerprint both, in one pass."""
        pipeline = self.public.pipeline
        plain = all(column.categories is None for column in pipeline.columns)
        plain = plain and pipeline.fill is None and pipeline.map is None
        for batch, codes in labelled:
            columns = pipeline.encoded(batch)
            self._sums.update((columns, label_weights(codes, len(self.classes))))
            lanes = self._lanes.of(batch, columns if plain else None)
            self._rows.update(lanes)
            self._labels.update(codes)
            if progress is not None:
                progress(batch.num_rows)
        if self._rows.count == 0:
            raise TableError("the table has no rows.")

    def check_size(self) -> None:
        """Raise, from public numbers alone, if a sum could leave the lattice's range."""
        if self._rows.count * self.reach.l2 >= LARGEST_SUM:
            raise ParameterError("there are too many rows for one lattice; release in parts.")

    def row_set(self, found_at: str | None) -> RowSet:
        """Return the name of the public rows."""
        return RowSet(self._rows.count, self._rows.result(), found_at)

    @property
    def reach(self) -> RowReach:
        return self._sums.reach

    @property
    def fingerprint(self) -> bytes:
        return self._labels.result()

    def noisy(self, noise: Noise) -> np.ndarray:
        """Return the statistic per row with noise: (width,) or (width, classes)."""
        exact = self._sums.result()
        exact = exact[0] if len(exact) == 1 else exact
        return np.ascontiguousarray(noise.add(exact).T * (self.step / self._rows.count))


def _labels_of(public: PublicRows, y: Any, classes: Classes) -> LabelledBatches:
    """Yield batches of public rows with the codes of their labels."""
    features, label = public.roles.features, public.roles.label
    if label is not None:
        for batch in public.table.batches([*features, label]):
            yield batch, label_codes(batch.column(label), classes)
        return
    codes, start = label_codes(y, classes), 0
    for batch in public.table.batches(features):
        here = codes[start : start + batch.num_rows]
        start += batch.num_rows
        if len(here) < batch.num_rows:
            raise TableError(f"there are more rows than the {len(codes)} labels.")
        yield batch, here
    if start < len(codes):
        raise TableError(f"there are {start} rows but {len(codes)} labels.")


def _no_labels(public: PublicRows) -> LabelledBatches:
    for batch in public.table.batches(public.roles.features):
        yield batch, np.zeros(batch.num_rows, dtype=np.int64)


def _noisy_release(
    sums: _ExactSums, rows: RowSet, noise: Noise, guarantee: Guarantee, mechanism: str
) -> Release:
    return Release(
        kind="mean-operator",
        arrays={"mean_operator": sums.noisy(noise)},
        details={"classes": list(sums.classes), "mechanism": mechanism, "step": sums.step},
        parts=(Part(rows, (guarantee,)),),
        pipeline=sums.public.pipeline,
        noise=Covariance("identity", noise.variance * (sums.step / rows.count) ** 2),
    )
