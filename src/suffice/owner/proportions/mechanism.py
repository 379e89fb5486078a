"""Noisy label proportions of bags of public rows (Iyer, Nath & Sarawagi 2016)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.options import REQUIRED, Group, Option, data_option, option, privacy_option, values
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism
from suffice.owner.plans import Plan
from suffice.owner.proportions.bags import assigned_bags, check_bags_paid, formed_by_response
from suffice.owner.proportions.choosing import (
    FARTHEST,
    CountMechanism,
    DirichletSettings,
    best_count_noise,
    check_settings,
    count_noise,
)
from suffice.owner.proportions.dirichlet import CountNoise
from suffice.owner.proportions.noise import BagSizes
from suffice.owner.proportions.plan import (
    BAG_COLUMNS,
    KAPPA,
    ProportionPlanner,
    plan_proportions,
)
from suffice.owner.proportions.procedures import BaggedTable, NoisyProportions
from suffice.owner.public_rows import Preprocessing, PublicTable, open_public
from suffice.owner.publish import Payment
from suffice.owner.source import PublicSource
from suffice.privacy.calibrate import check_promise
from suffice.privacy.guarantee import Assumption, Guarantee
from suffice.release.artifact import Release
from suffice.release.codec import load
from suffice.tables.bags import Bags, bag_columns, read_bags
from suffice.tables.columns import feature_names, resolve_roles
from suffice.tables.labels import Classes, check_classes
from suffice.tables.table import Table

__all__ = ["BagSource", "LabelProportions", "ProportionForecast", "SigmaRule"]

_UNSEEN = Assumption(
    "which bag a row is in was not decided by looking at its label", "declared by the owner"
)


class SigmaRule(StrEnum):
    """How sigma of a scaled Dirichlet follows from private counts."""

    EXACT = "exact"
    TAIL = "tail"
    CHEBYSHEV = "chebyshev"


@dataclass(frozen=True)
class BagSource(PublicSource):
    """A table whose rows are in public bags.

    Parameters
    ----------
    bags
        The column of bags, a tuple of such columns, one bag per row, sets of row numbers, or what
        `assign_bags` released.
    """

    bags: Any = option(
        None,
        **BAG_COLUMNS,
        others=(
            Option(
                "--bags-file",
                "File that `suffice release bags` wrote, instead of --bag.",
                Group.DATA,
                parse=load,
                path=Path,
            ),
        ),
    )

    def check(self) -> None:
        """Raise unless labels and bags are given once."""
        super().check()
        if self.bags is None:
            raise ParameterError(
                "Choose the bags: --bag COLUMN, or --bags-file FILE (Python: bags=...)."
            )


@dataclass(frozen=True, eq=False)
class ProportionForecast:
    """What a release would guarantee and how good it would be; no label was read for it.

    Parameters
    ----------
    mechanism : str
        The mechanism that the release would use.
    guarantee : Guarantee
        What the release would protect, and how strongly.
    bags : tuple
        Names of the bags.
    sizes : array of int
        Number of rows of each bag.
    distortion : array of float
        Predicted error of each bag's proportions: the sum over classes of how far off they are.
    """

    mechanism: str
    guarantee: Guarantee
    bags: tuple[Any, ...]
    sizes: np.ndarray
    distortion: np.ndarray


@dataclass(frozen=True)
class LabelProportions(Preprocessing, Mechanism[BaggedTable]):
    """Publish noisy class proportions of bags, that is of groups of rows such as a ward or a year.

    Protects each label. The feature columns of every row, which bags a row is in and the class
    list are public.

    A bag of n rows has counts eta; what is released is near eta / n and lies in the simplex.
    Replacing one label moves one unit between two counts of every bag that its row is in, of which
    there are at most r: D1 = 2r, D2 = sqrt(2r). Disjoint bags (r = 1) cost what one of them costs.
    The more bags a row is in, the more noise is added. ``mechanism``:

    - "laplace" (delta = 0), "gaussian" (needs ``delta``): noise on integers, then least squares
      onto the simplex;
    - "laplace-prior" (delta = 0): proportions drawn from a Dirichlet of counts with Laplace noise;
    - "scaled-dirichlet-bounded" (needs ``delta``): Dir(sigma (eta + kappa)) with public ``kappa``,
      chosen from the sizes unless given;
    - "scaled-dirichlet": Dir(sigma eta), sigma from the private counts by ``sigma_rule`` ("exact",
      "tail" for eq. 9, "chebyshev" for eq. 10 of the paper). Not differentially private, whatever
      the paper says (docs/errata.md): released only as ``unprotected``;
    - "auto": that of least predicted distortion among those with a global guarantee.

    Assumes that the rows, which bags they are in and ``classes`` are public, and that nobody looked
    at the labels when the bags were formed, unless that was charged (`assign_bags`). Rows are
    encoded for the learner as `MeanOperator` does it, but not clipped: no noise depends on their
    length.

    Parameters
    ----------
    epsilon : float
        Epsilon of each label, for example 1. Smaller protects more strongly.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    mechanism : str
        One of the above.
    classes : sequence
        The labels that can occur. Of two, the last is positive.
    names : sequence, optional
        Names of the bags in their order. Default: all that occur, sorted.
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count; public.
    sigma_rule : str, optional
        Rule of scaled-dirichlet: exact, tail or chebyshev.
    standardize, clip, intercept, missing, categories, map, pipeline, ...
        How rows become vectors; see `Preprocessing`.

    Raises
    ------
    ParameterError
        If a field is outside its domain, or does not belong to the mechanism.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(2).repeat(500, axis=0), np.repeat([0, 1, 0, 1], 250)
    >>> bags = np.repeat(["north", "south"], 500)
    >>> release = suffice.LabelProportions(epsilon=1.0).release(X, y, bags=bags, ledger=None)
    >>> release.details["bags"], release.arrays["proportions"].shape
    (['north', 'south'], (2, 2))
    """

    name = "proportions"
    source = BagSource
    planner = ProportionPlanner

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    mechanism: str = privacy_option(
        "auto",
        "laplace, gaussian, laplace-prior, scaled-dirichlet-bounded, or scaled-dirichlet (only"
        " with --unprotected). auto takes the least predicted error.",
        choices=CountMechanism,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    names: Sequence[Any] | None = data_option(
        None,
        "Names of the bags in their order, with commas, for example 2022,2023. Default: all that"
        " occur, sorted.",
        name="--bag-names",
        parse=values,
    )
    kappa: int | None = option(None, **KAPPA)
    sigma_rule: str | None = privacy_option(
        None,
        "Rule of scaled-dirichlet: exact (the default), tail (eq. 9) or chebyshev (eq. 10).",
        choices=SigmaRule,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_settings(self.mechanism, self.delta, self.kappa, self.sigma_rule)

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    def public(self, source: BagSource) -> BaggedTable:
        """Return the rows and their bags."""
        table = open_public(source, self.pipeline, bag_columns(source.bags))
        classes = self.declared_classes()
        bags = self._bags(table, source.bags, classes)
        features, columns = source.features, bag_columns(source.bags)
        if features is None and self.pipeline is None:
            features = feature_names(table.schema, {*columns, source.label})
        for column in columns:  # a bag is no feature, and least of all the label
            resolve_roles(table.schema, label=source.label, features=features, bag=column)
        unclipped = self.clip is None and self.pipeline is None
        mapped = replace(self, clip=1.0) if unclipped else self
        listed = source.features is not None
        rows = mapped.read_public(table, source.label, features, source, features_listed=listed)
        formed = formed_by_response(source.bags) if isinstance(source.bags, Release) else _UNSEEN
        return BaggedTable(PublicTable(rows, classes, source), bags, formed)

    def check_payment(self, source: BagSource, payment: Payment) -> None:
        """Raise unless bags that were formed by the labels were charged to this ledger."""
        if isinstance(source.bags, Release):
            check_bags_paid(source.bags, payment)

    def choose(self, public: BaggedTable) -> NoisyProportions:
        """Return the noise of the counts, by the sizes of the bags."""
        name, noise = self._noise(public.bags, len(public.table.classes))
        request = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kappa": self.kappa,
        }
        return NoisyProportions(public.table, request, public.bags, public.formed, name, noise)

    def plan(self, source: BagSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return the predicted error of each mechanism, from the bags of a table."""
        classes = self.declared_classes()
        columns = bag_columns(source.bags)
        bags = self._bags(open_public(source, self.pipeline, columns), source.bags, classes)
        return plan_proportions(
            bags.sizes.tolist(),
            classes,
            tuple(epsilons) or self.epsilon,
            self.delta,
            overlap=bags.overlap,
            kappa=self.kappa,
        )

    def forecast(self, data: Any, bags: Any) -> ProportionForecast:
        """Return the guarantee and the predicted error of a release, from public rows alone.

        Parameters
        ----------
        data
            The table.
        bags
            Its bags, as in `BagSource`.

        Returns
        -------
        ProportionForecast
            The mechanism, the guarantee and the predicted error of each bag.
        """
        public = self.public(BagSource(data, None, bags))
        procedure = self.choose(public)
        sizes, names = public.bags.sizes, public.bags.names
        distortion = procedure.noise.distortion()
        (guarantee,) = procedure.guarantees(procedure.accumulator(identified=False))
        return ProportionForecast(procedure.mechanism, guarantee, names, sizes, distortion)

    def _bags(self, table: Table, bags: Any, classes: Classes) -> Bags:
        if isinstance(bags, Release):
            if self.names is not None:
                raise ParameterError(
                    "--bag-names cannot be used with --bags-file, whose bags have names. Remove"
                    " --bag-names."
                )
            return assigned_bags(bags, table, classes)
        return read_bags(table, bags, self.names)

    def _noise(self, bags: Bags, classes: int) -> tuple[str, CountNoise]:
        """Return the mechanism, calibrated for these bags, or say which of them are too small."""
        facts = BagSizes(bags.sizes, classes, bags.overlap)
        settings = DirichletSettings(self.kappa, self.sigma_rule or "exact")
        calibration = (facts, self.epsilon, self.delta, settings)
        if self.mechanism == "auto":
            name, noise = best_count_noise(*calibration)
        else:
            name, noise = self.mechanism, count_noise(self.mechanism, *calibration)
        too_small = np.flatnonzero(noise.distortion() >= FARTHEST)
        if len(too_small):
            first = too_small[0]
            raise ParameterError(
                f"{len(too_small)} of {len(bags.names)} bags are too small. The noise on the"
                f" proportions of {bags.names[first]!r} ({bags.sizes[first]} rows) would be larger"
                " than the distance of any two proportions. Join bags, or raise --epsilon or"
                " --delta."
            )
        return str(name), noise
