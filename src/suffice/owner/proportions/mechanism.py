"""Noisy label proportions of sets of public rows (Iyer, Nath & Sarawagi 2016)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.models.simplex import nearest_proportions
from suffice.owner.classes import check_declared, check_features
from suffice.owner.ledger import Ledger
from suffice.owner.proportions.adviser import assigned_bags, formed_by_response
from suffice.owner.proportions.counts import ExactCounts
from suffice.owner.proportions.dirichlet import ScaledCounts
from suffice.owner.proportions.noise import Sets, Way
from suffice.owner.proportions.plan import FARTHEST, Settings, best_way, way_named
from suffice.owner.public_rows import PublicRows, read_public_rows
from suffice.owner.publish import of_versions, publish
from suffice.owner.scaling import as_scaled
from suffice.owner.statistics import check_given_once, labelled_batches
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.release.artifact import Part, Release, RowSet
from suffice.strict_json import canonical
from suffice.tables.bags import Bags, bag_columns, read_bags
from suffice.tables.columns import feature_names, resolve_roles
from suffice.tables.labels import Classes, check_classes
from suffice.tables.pipeline import Missing, Pipeline
from suffice.tables.sources import Table, open_table

__all__ = ["LabelProportions", "ProportionForecast"]

_UNSEEN = Assumption(
    "which set a row is in was not decided by looking at its label", "declared by the owner"
)
_ONE_WAY = Assumption(
    "the loss counts one way only, from these counts to a neighbour's, as the paper's rule for"
    " sigma has it",
    "chosen by the owner (sigma_rule)",
)


@dataclass(frozen=True, eq=False)
class ProportionForecast:
    """What a release would promise and how good it would be; no label was read for it.

    ``distortion`` holds, set by set, the predicted mean L1 distance of the proportions.
    """

    mechanism: str
    guarantee: Guarantee
    bags: tuple[Any, ...]
    sizes: np.ndarray
    distortion: np.ndarray


@dataclass(frozen=True)
class LabelProportions:
    """Protects each label: the class counts of public sets leave with noise, the labels stay.

    A set of n rows has counts eta; what leaves is near eta / n and lies in the simplex. Replacing
    one label moves one unit between two counts of every set that its row is in, of which there
    are at most r: D1 = 2r, D2 = sqrt(2r). Disjoint sets (r = 1) cost what one of them costs, and
    rows in several sets are found and paid for. ``mechanism``:

    - "laplace" (pure), "gaussian" (needs ``delta``): noise on integers, then least squares onto
      the simplex;
    - "laplace-prior" (pure): proportions drawn from a Dirichlet of counts with Laplace noise;
    - "scaled-dirichlet-bounded" (needs ``delta``): Dir(sigma (eta + kappa)) with public ``kappa``,
      chosen from the sizes unless given;
    - "scaled-dirichlet": Dir(sigma eta), sigma from the private counts by ``sigma_rule`` ("exact",
      "tail" for eq. 9, "chebyshev" for eq. 10 of the paper). Not differentially private, whatever
      the paper says (docs/errata.md): leaves only as ``unprotected``;
    - "auto": that of least predicted distortion among those with a global guarantee.

    Assumes that the rows, which sets they are in and ``classes`` are public, and that nobody looked
    at the labels when the sets were formed, unless that was paid for (`assign_bags`).

    ``names`` declares the sets and their order. Rows are encoded for the learner as `MeanOperator`
    does it, but not clipped: no noise depends on their size. A ``pipeline`` whose numbers come from
    private rows, or nobody knows from where, makes the guarantee data-dependent.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = "auto"
    classes: Sequence[Any] = (0, 1)
    names: Sequence[Any] | None = None
    kappa: int | None = None
    sigma_rule: str = "exact"
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
        bags: Any = None,
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
        """Return the noisy proportions, paid for from ``ledger`` (None, said aloud, for no ledger).

        The labels are ``y``, or the column ``label`` of the table ``X``. ``bags``: the column of
        sets, a tuple of such columns, one set per row, index sets, or what `assign_bags` released.
        ``data_changed`` says that the data under this name are no longer those of earlier releases.
        """
        classes = check_classes(self.classes)
        check_given_once(y, label)
        check_declared(classes, ledger, dataset, label)
        table = open_table(X, text=[label])
        sets = self._sets(table, bags, classes)
        name, way = self._way(sets, classes)
        formed = _formed(bags, ledger, dataset)
        guarantee = of_versions(self._guarantee(way, sets, formed), data_changed=data_changed)
        public = self._public_rows(table, bags, label, features, progress)
        check_features(public.roles.features, ledger, dataset)
        exact = ExactCounts(public, sets, classes)
        exact.read(labelled_batches(public, y, classes), progress)
        rows = exact.row_set(found_at)
        return publish(
            lambda: _drawn(exact, way, name, Part(rows, (guarantee,)), public.pipeline),
            [guarantee],
            ledger=ledger,
            dataset=dataset,
            request=request,
            parameters=self._parameters(public, sets, rows),
            fingerprint=exact.fingerprint,
            unprotected=unprotected,
            data_changed=data_changed,
        )

    def forecast(self, X: Any, bags: Any) -> ProportionForecast:
        """Return the promise and the predicted distortion of a release, from public rows alone."""
        classes = check_classes(self.classes)
        sets = self._sets(open_table(X), bags, classes)
        name, way = self._way(sets, classes)
        guarantee = self._guarantee(way, sets, _formed(bags, None, None))
        return ProportionForecast(name, guarantee, sets.names, sets.sizes, way.distortion())

    def _sets(self, table: Table, bags: Any, classes: Classes) -> Bags:
        if bags is None:
            raise ParameterError("say which set each row is in (bags=..., --bag).")
        if isinstance(bags, Release):
            return assigned_bags(bags, table, classes)
        return read_bags(table, bags, self.names)

    def _way(self, sets: Bags, classes: Classes) -> tuple[str, Way]:
        """Return the mechanism, calibrated for these sets, or say which of them are too small."""
        about = Sets(sets.sizes, len(classes), sets.overlap)
        told = Settings(self.kappa, self.sigma_rule)
        if self.mechanism == "auto":
            name, way = best_way(about, self.epsilon, self.delta, told)
        else:
            name = self.mechanism
            way = way_named(name, about, self.epsilon, self.delta, told)
        lost = np.flatnonzero(way.distortion() >= FARTHEST)
        if len(lost):
            raise ParameterError(
                f"{len(lost)} of {len(sets.names)} sets are too small: the noise on the proportions"
                f" of {sets.names[lost[0]]!r} ({sets.sizes[lost[0]]} rows) would be larger than the"
                " distance of any two proportions. Join sets, or raise epsilon or delta."
            )
        return name, way

    def _public_rows(
        self,
        table: Table,
        bags: Any,
        label: str | None,
        features: Sequence[str] | None,
        progress: Callable[[int], None] | None,
    ) -> PublicRows:
        sets = bag_columns(bags)
        if features is None and self.pipeline is None:
            features = feature_names(table.schema, {*sets, label})
        for column in sets:  # a set is no feature, and least of all the label
            resolve_roles(table.schema, label=label, features=features, bag=column)
        return read_public_rows(
            table,
            label=label,
            features=features,
            categories=self.categories,
            missing=self.missing,
            clip=1.0 if self.clip is None and self.pipeline is None else self.clip,
            intercept=self.intercept,
            pipeline=self.pipeline,
            map_spec=self.map,
            progress=progress,
        )

    def _guarantee(self, way: Way, sets: Bags, formed: Assumption) -> Guarantee:
        several = f", up to {sets.overlap} of them" if sets.overlap > 1 else ""
        one_way = isinstance(way, ScaledCounts) and way.rule != "exact"
        guarantee = Guarantee(
            unit=Unit.LABEL,
            event=way.event,
            delta=0.0 if way.event.pure else self.delta,
            kind=way.kind,
            public=(
                "the feature columns of every row",
                f"which sets a row is in{several} (and so their sizes)",
                "the class list",
            ),
            assumptions=(formed, *([_ONE_WAY] if one_way else [])),
        )
        return guarantee if self.pipeline is None else as_scaled(guarantee, self.pipeline.origin)

    def _parameters(self, public: PublicRows, sets: Bags, rows: RowSet) -> dict[str, Any]:
        return {
            "kind": "proportions",
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kappa": self.kappa,
            "classes": list(check_classes(self.classes)),
            "bags": hashlib.sha256(canonical(list(sets.names))).hexdigest(),
            "rows": rows.hash,
            "pipeline": public.pipeline.digest(),
        }


def _formed(bags: Any, ledger: Ledger | None, dataset: str | None) -> Assumption:
    """Return what the guarantee takes for granted about how the sets came about."""
    return formed_by_response(bags, ledger, dataset) if isinstance(bags, Release) else _UNSEEN


def _drawn(exact: ExactCounts, way: Way, mechanism: str, part: Part, pipeline: Pipeline) -> Release:
    """Return the release, with fresh noise."""
    sizes = exact.bags.sizes
    noisy = way.draw(exact.counts)
    shares = nearest_proportions(noisy / sizes[:, None])
    return Release(
        kind="proportions",
        arrays={
            "proportions": shares / shares.sum(axis=1, keepdims=True),
            "counts": np.ascontiguousarray(noisy),
            "sizes": sizes.astype(np.int64),
        },
        details={
            "classes": list(exact.classes),
            "bags": list(exact.bags.names),
            "mechanism": mechanism,
        },
        parts=(part,),
        pipeline=pipeline,
        noise=way.covariance(),
    )
