"""Release the class counts of public bags: the noise is known before a label is read.

A bag of n rows has counts eta in N^K with a public sum n. Replacing one label moves one unit from
one count to another, in each of the at most r (``overlap``) bags that its row is in:

    D1 = 2 r, D2 = sqrt(2 r), and D1 = r where K = 2 and one count says both.

All labels of a person with c_b rows in bag b move c_b units there: r becomes the largest
sum_b c_b, and D2 = sqrt(2 q), q the largest sum_b c_b^2.

Which noise counts get follows from sizes and classes. Three mechanisms draw from a Dirichlet, in
integers (`suffice.privacy.response`). None of them is better than Gaussian noise where that is
allowed (lab/bench/proportions.py). They are here to be compared with, and `BoundedCounts` to show
what makes `ScaledCounts` sound.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from scipy.integrate import quad
from scipy.special import betaln, xlogy

from suffice.errors import ForeignRowsError, ParameterError, PrivacyError, TableError
from suffice.models.simplex import nearest_proportions
from suffice.options import (
    REQUIRED,
    Group,
    Option,
    data_option,
    numbers,
    option,
    output_option,
    privacy_option,
    values,
)
from suffice.owner.forecast import Cell, Plan, planned_epsilons, starred
from suffice.owner.labelled import (
    Contents,
    LabelledPass,
    LabelMechanism,
    LabelProcedure,
    PublicRows,
    PublicTable,
    open_public,
)
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator, RandomisedLabels, rows_without_id
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Asked, Mechanism, Payment
from suffice.owner.source import (
    PERSON,
    LabelledBatch,
    LabelledPart,
    PublicSource,
    labelled_parts,
)
from suffice.privacy.dirichlet import (
    DELTA_RULES,
    SIGMA_UNIT,
    bounded_sigma,
    largest_sigma,
    least_kappa,
)
from suffice.privacy.events import Approximate, Event, check_delta, check_epsilon, check_promise
from suffice.privacy.guarantee import Assumption, Budget, Guarantee, Protection
from suffice.privacy.noise import GaussianNoise, LaplaceNoise, Noise, Sensitivity
from suffice.privacy.response import draw_balls, enough_balls
from suffice.releases.codec import load
from suffice.releases.release import Covariance, Release, encode
from suffice.strict_json import canonical
from suffice.tables.bags import BagDigest, Bags, bag_columns, read_bags
from suffice.tables.columns import (
    Classes,
    check_classes,
    feature_names,
    person_codes,
    resolve_roles,
)
from suffice.tables.files import check_ending, write_table
from suffice.tables.sources import column_names, open_columns, open_declared, row_count
from suffice.tables.table import Table, hash_rows

_STEP = 2.0**-24  # of a count: so fine that the lattice costs nothing that shows


@dataclass(frozen=True, eq=False)
class BagSizes:
    """What is public about the bags."""

    sizes: np.ndarray  # the number of rows of each bag
    classes: int
    overlap: int = 1  # the largest number of bags that one row is in; of a person all rows count
    squares: int | None = None  # the largest sum of squared numbers of a person's rows over bags


@dataclass(frozen=True)
class AdditiveCounts:
    """Protects each label: noise on every count, rounded to steps of 2^-24 of a count.

    With two classes Laplace noise is drawn once per bag, for the first count; the second one is the
    public size less the first. That is a third less distortion than noise on both.
    """

    bags: BagSizes
    noise: Noise  # in rounding steps
    kind: Protection = Protection.GLOBAL

    @classmethod
    def laplace(cls, bags: BagSizes, epsilon: float) -> "AdditiveCounts":
        """Return discrete Laplace noise, which needs no delta."""
        first_only = bags.classes == 2
        l1 = (1 if first_only else 2) * bags.overlap
        reach = _reach(bags, l1, 1 if first_only else bags.classes)
        return cls(bags, LaplaceNoise.calibrated(reach, epsilon))

    @classmethod
    def gaussian(cls, bags: BagSizes, epsilon: float, delta: float) -> "AdditiveCounts":
        """Return discrete Gaussian noise of the analytic scale."""
        reach = _reach(bags, 2 * bags.overlap, bags.classes)
        return cls(bags, GaussianNoise.calibrated(reach, epsilon, delta))

    @property
    def event(self) -> Event:
        """What one label costs."""
        return self.noise.event

    @property
    def noise_on_first_count_only(self) -> bool:
        """Whether only the first of two counts has noise of its own."""
        return self.noise.sensitivity.dimension < self.bags.classes * len(self.bags.sizes)

    @property
    def scale(self) -> float:
        """The scale of the noise, in counts."""
        return self.noise.scale * _STEP

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return noisy counts; those of a bag need not sum to its size, nor be positive."""
        first_only = self.noise_on_first_count_only
        exact = np.rint(counts[:, :1] if first_only else counts).astype(np.int64)
        noisy = self.noise.add(exact * round(1 / _STEP)) * _STEP
        return np.hstack([noisy, self.bags.sizes[:, None] - noisy]) if first_only else noisy

    def covariance(self) -> Covariance:
        """Return v I, v the variance along any unit direction that keeps a bag's total."""
        variance = self.noise.variance * _STEP**2
        doubled = self.noise_on_first_count_only
        return Covariance("identity", 2 * variance if doubled else variance)

    def distortion(self) -> np.ndarray:
        """Return K E|z_1 - mean(z)| / n: the total is mended, negative counts are not yet cut off.

        That does not depend on the labels.
        """
        classes = self.bags.classes
        if isinstance(self.noise, GaussianNoise):
            mean = math.sqrt(2 / math.pi * (1 - 1 / classes))
        else:
            mean = mean_size(classes, first_only=self.noise_on_first_count_only)
        return classes * self.scale * mean / self.bags.sizes


def _reach(bags: BagSizes, l1: int, per_set: int) -> Sensitivity:
    steps = round(1 / _STEP)
    squares = bags.overlap if bags.squares is None else bags.squares
    two = math.sqrt(2 * squares) * (1 + 1e-15)
    return Sensitivity(l1 * steps, two * steps, per_set * len(bags.sizes))


def mean_size(classes: int, spread: float = 0.0, *, first_only: bool = False) -> float:
    """Return E|z_1 - mean(z) + g| for K unit Laplace numbers z and a normal g of this deviation.

    ``first_only``: E|z_1 + g|. By the characteristic function f,

        E|x| = (2/pi) int (1 - f(t)) / t^2 dt.
    """
    other = 0.0 if first_only else 1 / classes

    def integrand(t: float) -> float:
        tail = math.log1p(((1 - other) * t) ** 2) + (classes - 1) * math.log1p((other * t) ** 2)
        return -math.expm1(-tail - (spread * t) ** 2 / 2) / (t * t)

    return float(2 / math.pi * (quad(integrand, 0, 1)[0] + quad(integrand, 1, math.inf)[0]))


_UNIT = round(1 / SIGMA_UNIT)
_COMPUTED = 32  # sizes for which a prediction is computed


@dataclass(frozen=True)
class PriorCounts:
    """Protects each label as its Laplace noise does: proportions drawn from Dir(noisy counts).

    (Machanavajjhala et al. 2008, as Iyer et al. 2016 compare with it.) The draw is
    post-processing, and adds noise that protects nothing.
    """

    laplace: AdditiveCounts
    kind: Protection = Protection.GLOBAL

    @property
    def event(self) -> Event:
        """What one label costs."""
        return self.laplace.event

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return drawn proportions times the sizes."""
        sizes = self.laplace.bags.sizes
        noisy = nearest_proportions(self.laplace.draw(counts) / sizes[:, None]) * sizes[:, None]
        weights = np.rint(noisy * _UNIT).astype(np.int64)
        return np.asarray(sizes[:, None] * np.array([_shares(w) for w in weights]))

    def covariance(self) -> Covariance:
        """Return none: the noise of the draw depends on the counts."""
        return Covariance("none")

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, for which the draw spreads most."""
        classes, scale = self.laplace.bags.classes, self.laplace.scale

        def of(size: int) -> float:
            variance = (1 - 1 / classes) / classes / (size + 1)  # of a share, balls without end
            spread = size * math.sqrt(variance * (1 + size / enough_balls(size)))
            first_only = self.laplace.noise_on_first_count_only
            mean = mean_size(classes, spread / scale, first_only=first_only)
            return classes * scale * mean / size

        return _by_size(self.laplace.bags.sizes, of)


@dataclass(frozen=True)
class _Urn:
    """Proportions that are drawn from an urn: the noise of a draw depends on the counts."""

    bags: BagSizes
    epsilon: float
    delta: float

    @property
    def event(self) -> Event:
        """What one label costs: the point that sigma was chosen for; overlapping bags add up."""
        return Approximate(self.epsilon, self.delta)

    def covariance(self) -> Covariance:
        """Return none: it depends on the counts."""
        return Covariance("none")


@dataclass(frozen=True)
class ScaledCounts(_Urn):
    """Not differentially private: theta ~ Dir(sigma eta), sigma computed from the counts eta.

    (Iyer et al. 2016, Section 3.) For these counts and their neighbours at the same sigma the loss
    is (epsilon, delta); but a neighbour has another sigma, or none, and then nothing is released.
    """

    rule: str = "exact"  # how sigma is computed: "exact", "tail" (eq. 9) or "chebyshev" (eq. 10)
    kind: Protection = Protection.DATA_DEPENDENT

    def __post_init__(self) -> None:
        if self.rule not in DELTA_RULES:
            raise ParameterError(f"--sigma-rule must be one of {', '.join(DELTA_RULES)}.")

    def _sigma(self, counts: np.ndarray) -> float:
        overlap = self.bags.overlap
        sigma = largest_sigma(counts, self.epsilon / overlap, self.delta / overlap, self.rule)
        if sigma is None:
            raise ParameterError(
                "A class is too rare in some bag for this epsilon and delta. (This message depends"
                " on labels; do not publish it.) Raise --epsilon or --delta, or use another"
                " --noise."
            )
        return sigma

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return drawn proportions times the sizes; an error where some bag has no sigma."""
        weights = [round(self._sigma(eta) * _UNIT) * eta for eta in counts]
        return np.asarray(self.bags.sizes[:, None] * np.array([_shares(w) for w in weights]))

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, the best case; infinite if they have no sigma."""
        classes = self.bags.classes

        def of(size: int) -> float:
            try:
                sigma = self._sigma(np.full(classes, size / classes))
            except ParameterError:
                return math.inf
            return classes * _even_deviation(classes, sigma * size)

        return _by_size(self.bags.sizes, of)


@dataclass(frozen=True)
class BoundedCounts(_Urn):
    """Protects each label: theta ~ Dir(sigma (eta + kappa)), sigma and kappa public.

    The worst neighbours have counts (kappa + 1, kappa) and (kappa, kappa + 1), whatever the labels
    are, and decide sigma (proofs/proportions.md). What is released is (n + K kappa) theta - kappa,
    whose mean are the counts. Where no sigma exists it is refused: nothing depends on labels.
    """

    requested_kappa: int | None = None  # default: the power of two of least distortion
    kind: Protection = Protection.GLOBAL

    def __post_init__(self) -> None:
        if not self.sigma:
            overlap = self.bags.overlap
            least = least_kappa(self.epsilon / overlap, self.delta / overlap)
            raise ParameterError(
                f"This epsilon and delta need a kappa of at least {least}. Use --kappa {least} or"
                " more (Python: kappa=...), or --noise gaussian."
            )

    @property
    def kappa(self) -> int:
        """The public addition to every count."""
        return self._chosen[0]

    @property
    def sigma(self) -> float:
        """The public scale of the parameters."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[int, float]:
        """Return kappa and sigma: the requested kappa, or a power of two of least distortion."""
        overlap, requested = self.bags.overlap, self.requested_kappa
        largest = max(1, int(self.bags.sizes.max()))
        tried = [2**k for k in range(largest.bit_length() + 1)]
        least, chosen = math.inf, (requested or 1, 0.0)
        for kappa in [requested] if requested is not None else tried:
            sigma = bounded_sigma(kappa, self.epsilon / overlap, self.delta / overlap)
            if sigma is None:
                continue
            distortion = float(self._distortion(kappa, sigma).mean())
            if distortion < least:
                least, chosen = distortion, (kappa, sigma)
        return chosen

    def draw(self, counts: np.ndarray) -> np.ndarray:
        """Return noisy counts; those of a bag sum to its size."""
        padded = round(self.sigma * _UNIT) * (counts + self.kappa)
        shares = np.array([_shares(w) for w in padded])
        totals = self.bags.sizes + self.bags.classes * self.kappa
        return np.asarray(totals[:, None] * shares - self.kappa)

    def distortion(self) -> np.ndarray:
        """Return the prediction for even classes, for which the draw spreads most."""
        return self._distortion(self.kappa, self.sigma)

    def _distortion(self, kappa: int, sigma: float) -> np.ndarray:
        classes = self.bags.classes

        def of(size: int) -> float:
            total = size + classes * kappa
            return classes * total / size * _even_deviation(classes, sigma * total)

        return _by_size(self.bags.sizes, of)


CountNoise = AdditiveCounts | PriorCounts | ScaledCounts | BoundedCounts  # of some bags


def _shares(weights: np.ndarray) -> np.ndarray:
    """Return the shares of many balls drawn from the urn of Dir(weights x SIGMA_UNIT)."""
    balls = enough_balls(float(weights.sum()) / _UNIT)
    return draw_balls(weights.tolist(), _UNIT, balls) / balls


def _by_size(sizes: np.ndarray, of: Callable[[int], float]) -> np.ndarray:
    """Return ``of`` each size: of many sizes some are computed, and those between interpolated."""
    different = np.unique(sizes)
    if len(different) > _COMPUTED:
        different = different[np.linspace(0, len(different) - 1, _COMPUTED).astype(int)]
    computed = np.array([of(int(size)) for size in different])
    between = np.interp(np.log(sizes), np.log(different), np.log(computed))
    return np.exp(np.where(np.isnan(between), math.inf, between))  # next to a size that has none


def _even_deviation(classes: int, total: float) -> float:
    """Return the mean absolute deviation of a share drawn from Dir of even parameters.

    The parameters sum to ``total``. That of Beta(a, b) is 2 a^a b^b / (B(a, b) (a + b)^(a + b +
    1)); finitely many balls widen it.
    """
    a = total / classes
    b = total - a
    logs = float(xlogy(a, a) + xlogy(b, b) - betaln(a, b) - xlogy(total + 1, total))
    return 2 * math.exp(logs) * math.sqrt(1 + total / enough_balls(total))


FARTHEST = 2.0  # the largest L1 distance of two proportions


MECHANISMS = (
    "laplace",
    "gaussian",
    "laplace-prior",
    "scaled-dirichlet",
    "scaled-dirichlet-bounded",
)
_PURE = ("laplace", "laplace-prior")
_UNSOUND = ("scaled-dirichlet",)
_DRAWN = ("scaled-dirichlet", "scaled-dirichlet-bounded")


def count_noise(
    name: str,
    bags: BagSizes,
    epsilon: float,
    delta: float,
    *,
    kappa: int | None = None,
    sigma_rule: str = "exact",
) -> CountNoise:
    """Return one mechanism, calibrated for these bags.

    ``kappa``, which is public, is what scaled-dirichlet-bounded adds to every count; ``sigma_rule``
    is how sigma of scaled-dirichlet follows from private counts.
    """
    if name not in MECHANISMS:
        raise ParameterError(f"The mechanism must be one of auto, {', '.join(MECHANISMS)}.")
    epsilon = check_epsilon(epsilon)
    delta = check_delta(delta, positive=name not in _PURE)
    if name == "gaussian":
        return AdditiveCounts.gaussian(bags, epsilon, delta)
    if name == "scaled-dirichlet":
        return ScaledCounts(bags, epsilon, delta, sigma_rule)
    if name == "scaled-dirichlet-bounded":
        return BoundedCounts(bags, epsilon, delta, kappa)
    laplace = AdditiveCounts.laplace(bags, epsilon)
    return laplace if name == "laplace" else PriorCounts(laplace)


def best_count_noise(
    bags: BagSizes, epsilon: float, delta: float, kappa: int | None = None
) -> tuple[str, CountNoise]:
    """Return the mechanism of least predicted distortion among those with a global guarantee.

    The prediction is that before negative counts are cut off, which does not depend on labels; so
    the choice costs no privacy.
    """
    every = every_count_noise(bags, epsilon, delta, kappa)
    sound = {name: noise for name, noise in every.items() if name not in _UNSOUND}
    best = min(sound, key=lambda name: float(sound[name].distortion().mean()))
    return best, sound[best]


def every_count_noise(
    bags: BagSizes, epsilon: float, delta: float, kappa: int | None = None
) -> dict[str, CountNoise]:
    """Return every mechanism that exists at this epsilon and delta, by its name."""
    noises = {}
    for name in MECHANISMS:
        drawn = bags.squares is not None and name in _DRAWN  # whose loss is known for one label
        if drawn or (not delta > 0 and name not in _PURE):
            continue
        try:
            noises[name] = count_noise(name, bags, epsilon, delta, kappa=kappa)
        except ParameterError:
            if name not in ("scaled-dirichlet-bounded", *_UNSOUND):
                raise
    return noises


def check_settings(mechanism: str, delta: float, kappa: int | None, sigma_rule: str | None) -> None:
    """Raise if a setting does not belong to the mechanism; auto takes kappa, if it has a delta."""
    if kappa is not None and mechanism == "auto" and not delta:
        raise ParameterError("--kappa cannot be used without --delta. Remove --kappa.")
    of_mechanisms = (
        ("--kappa", kappa, {"auto", "scaled-dirichlet-bounded"}),
        ("--sigma-rule", sigma_rule, {"scaled-dirichlet"}),
    )
    for name, value, users in of_mechanisms:
        if value is not None and mechanism not in users:
            raise ParameterError(f"{name} cannot be used with --noise {mechanism}. Remove {name}.")


def count_reach(table: Table, bags: Bags, person: str | None) -> tuple[int, int | None]:
    """Return `BagSizes.overlap` and `BagSizes.squares` of bags, from ids where there are any."""
    if person is None:
        return bags.overlap, None
    columns = [person_codes(batch.column(person)) for batch in table.batches([person])]
    people, held = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    if not held.all():
        raise TableError(rows_without_id(person))
    whose = np.unique(people, return_inverse=True)[1]
    pairs = np.stack([np.repeat(whose, bags.codes.shape[1]), bags.codes.ravel()])
    (owner, _), rows = np.unique(pairs[:, pairs[1] >= 0], axis=1, return_counts=True)
    return int(np.bincount(owner, rows).max()), int(np.bincount(owner, rows**2).max())


def bag_sizes(
    sizes: Sequence[int],
    classes: int | Sequence[Any],
    overlap: int = 1,
    squares: int | None = None,
) -> BagSizes:
    """Return the public facts about some bags, checked."""
    rows = np.asarray(sizes)
    if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu" or rows.min() < 1:
        raise ParameterError("sizes must list the number of rows of every bag, each at least 1.")
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if number < 2:
        raise ParameterError("There must be two classes or more.")
    if not 1 <= overlap <= (len(rows) if squares is None else rows.sum()):
        raise ParameterError(
            f"overlap is the largest number of bags that one row is in: from 1 to {len(rows)}."
        )
    return BagSizes(rows, number, int(overlap), squares)


class ExactCounts(LabelledPass):
    """Counts the labels of each bag, and names rows, bags and labels on the way; an accumulator."""

    def __init__(
        self, public: PublicRows, bags: Bags, classes: Classes, *, identified: bool = True
    ) -> None:
        super().__init__(public, classes, identified=identified)
        names = bags.names  # not who is in them: it travels
        self.rows = BagDigest(public.table.schema, public.roles.features, names)
        self._counts = np.zeros((len(names), len(classes)), dtype=np.int64)
        self._count = 0

    def update(self, batch: LabelledBatch) -> None:
        """Take in rows with their labels and bags."""
        assert batch.bags is not None  # noqa: S101  # for the type checker
        self._take(self.pipeline.encoded(batch.rows), batch.codes)
        counted = (batch.bags >= 0) & (batch.codes >= 0)[:, None]  # a label of no class is none
        cells = (batch.bags * len(self.classes) + batch.codes[:, None])[counted]
        counts = np.bincount(cells, minlength=self._counts.size)
        self._counts += counts.reshape(self._counts.shape)
        self.rows.update(batch.rows, batch.bags)
        self.labels.update(batch.codes)
        self._count += len(batch)

    def _take(self, columns: np.ndarray, codes: np.ndarray) -> None:
        """Refuse rows that a learner could not map."""
        del codes
        if not np.isfinite(columns).all():
            self.pipeline.explain_holes(columns)

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        super().merge(other)
        self._counts += other._counts
        self._count += other._count

    @property
    def count(self) -> int:
        """The number of rows that were read; those of ``rows`` are in bags, perhaps in several."""
        return self._count

    def result(self) -> np.ndarray:
        """Return the exact counts (bags, classes): private."""
        return self._counts


_ONE_DIRECTION = Assumption(
    "the loss counts one way only, from these counts to a neighbour's, as the paper's rule for"
    " sigma has it",
    "chosen by the owner (sigma_rule)",
)


@dataclass(frozen=True)
class BaggedTable(PublicTable):
    """Public rows and the public bags that they are in."""

    source: "BagSource"
    bags: Bags
    formed: Assumption  # how the bags came about

    @property
    def shown(self) -> Iterable[str]:
        """The columns of bags as well: who is in which bag is public."""
        return (*super().shown, *bag_columns(self.source.bags))

    def parts(self) -> Sequence[LabelledPart]:
        """Return the rows with their private labels and their bags, in parts."""
        rows, bags = self.rows, self.bags.codes
        return labelled_parts(rows.table, rows.roles, self.classes, self.source, bags)


@dataclass(frozen=True, eq=False)
class NoisyProportions(LabelProcedure[ExactCounts]):
    """Class counts of bags with noise, and the proportions nearest to them.

    ``mechanism`` is the name of ``noise``.
    """

    kind = "proportions"
    public: BaggedTable
    mechanism: str
    noise: CountNoise

    def accumulator(self, *, identified: bool) -> ExactCounts:
        """Return empty counts."""
        public = self.public
        return ExactCounts(public.rows, public.bags, public.classes, identified=identified)

    def event(self, exact: ExactCounts | None) -> Event:
        """Return what one label costs: it was known from the sizes of the bags."""
        del exact
        return self.noise.event

    def guarantee(self, exact: ExactCounts) -> Guarantee:
        """Return the guarantee per label: bags are public, and a scaled Dirichlet is not global."""
        usual, bags = super().guarantee(exact), self.public.bags
        several = f", up to {bags.overlap} of them" if bags.overlap > 1 else ""
        features, _, *others = usual.public
        shown = f"which bags a row is in{several} (and so their sizes)"
        one_direction = isinstance(self.noise, ScaledCounts) and self.noise.rule != "exact"
        return replace(
            usual,
            kind=self.noise.kind,
            public=(features, shown, *others),
            assumptions=(
                self.public.formed,
                *([_ONE_DIRECTION] if one_direction else []),
                *usual.assumptions[1:],
            ),
        )

    def parameters(self, exact: ExactCounts) -> Mapping[str, Any]:
        """Return the public description of the request."""
        names = hashlib.sha256(canonical(list(self.public.bags.names))).hexdigest()
        return {**super().parameters(exact), "bags": names}

    def contents(self, exact: ExactCounts) -> Contents:
        """Return noisy counts and proportions."""
        sizes = self.public.bags.sizes
        noisy = self.noise.draw(exact.result())
        proportions = nearest_proportions(noisy / sizes[:, None])
        arrays = {
            "proportions": proportions / proportions.sum(axis=1, keepdims=True),
            "counts": np.ascontiguousarray(noisy),
            "sizes": sizes.astype(np.int64),
        }
        details = {"bags": list(self.public.bags.names), "mechanism": self.mechanism}
        return arrays, details, self.noise.covariance()


_NATURAL_BAGS = (
    "A learner assumes that each class looks alike in all bags (label shift).",
    "Bags formed at random, or by `suffice release bags`, keep this true.",
    "Natural bags, such as months or jobs, often break it. A learner then gets only a wide range.",
)
_SKEWED_BAGS = (
    "Such bags keep each class alike in all bags (label shift), as learners of proportions assume.",
)
_SKEWS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)
BAG_COLUMNS: dict[str, Any] = {
    "name": "--bag",
    "help": "Public column that says which bag a row is in, for example year (repeatable).",
    "group": Group.DATA,
    "parse": lambda columns: columns[0] if len(columns) == 1 else tuple(columns),
    "many": True,
}
KAPPA: dict[str, Any] = {
    "help": "Number that scaled-dirichlet-bounded adds to every count, for example 8; public.",
    "group": Group.PRIVACY,
}


def plan_proportions(
    sizes: Sequence[int],
    classes: int | Sequence[Any],
    epsilon: float | Sequence[float],
    delta: float = 0.0,
    *,
    overlap: int = 1,
    squares: int | None = None,
    kappa: int | None = None,
) -> Plan:
    """Return the predicted error of proportions, mechanism by mechanism; reads no label.

    Parameters
    ----------
    sizes : sequence of int
        Number of rows of each bag.
    classes : int or sequence
        The classes, or their number.
    epsilon : float or sequence of float
        One epsilon is shown with a quarter, a half, the double and four times of it.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    overlap : int
        The largest number of bags that one row is in; of a person, all rows together.
    squares : int, optional
        Of a person, the largest sum over bags of squared numbers of rows. Default: each label is
        protected, not each person.
    kappa : int, optional
        Number that scaled-dirichlet-bounded adds to every count.

    Returns
    -------
    Plan
        A table of predicted errors. A row has the ``epsilon`` and ``mechanism``, whether auto takes
        it (``chosen``), the ``distortion``: the expected sum over classes of how far off the
        proportions of a bag are, averaged over bags, the same for the ``worst`` bag, and whether
        the guarantee is global (``protected``). Dirichlet mechanisms are predicted for equal
        classes.

    Examples
    --------
    >>> import suffice
    >>> print(suffice.plan_proportions([500, 700], 2, epsilon=[0.1]))
    epsilon  mechanism      error   worst bag  guarantee
    0.1      laplace *      0.0343  0.04       global
    0.1      laplace-prior  0.0492  0.0554     global
    A learner assumes that each class looks alike in all bags (label shift).
    Bags formed at random, or by `suffice release bags`, keep this true.
    Natural bags, such as months or jobs, often break it. A learner then gets only a wide range.
    """
    bags = bag_sizes(sizes, classes, overlap, squares)
    delta = check_delta(delta)
    rows = []
    for e in planned_epsilons(epsilon):
        every = every_count_noise(bags, e, delta, kappa)
        errors = {name: noise.distortion() for name, noise in every.items()}
        protected = [name for name in every if every[name].kind is Protection.GLOBAL]
        best = min(protected, key=lambda name: float(errors[name].mean()))
        rows += [
            {
                "epsilon": e,
                "mechanism": name,
                "chosen": name == best,
                "distortion": _finite(by_bag.mean()),
                "worst": _finite(by_bag.max()),
                "protected": name in protected,
            }
            for name, by_bag in errors.items()
        ]
    return Plan(
        title=(
            "Predicted error of the proportions of a bag, summed over classes: on average, and in"
            " the worst bag. Dirichlet mechanisms are predicted for equal classes. * marks what"
            " auto chooses."
        ),
        columns={
            "epsilon": "{epsilon:g}".format_map,
            "mechanism": starred("{mechanism}"),
            "error": _error("distortion"),
            "worst bag": _error("worst"),
            "guarantee": lambda row: "global" if row["protected"] else "data-dependent",
        },
        rows=rows,
        facts={
            "delta": delta,
            "sizes": [int(n) for n in bags.sizes],
            "classes": bags.classes,
            "overlap": bags.overlap,
            "rows": rows,
        },
        advice=_NATURAL_BAGS,
    )


def _finite(error: float) -> float | None:
    """Return an error that JSON can hold."""
    return float(error) if math.isfinite(error) else None


def _error(name: str) -> Cell:
    """Return how a cell shows an error: one as large as any two proportions differ is useless."""
    return lambda row: (
        "useless" if row[name] is None or row[name] >= FARTHEST else f"{row[name]:.3g}"
    )


def skew_epsilon(skew: float, classes: int) -> float:
    """Return what bags of this skew cost each label: ln(skew (K - 1) / (1 - skew)).

    Ratios are learnt best from bags in which one class prevails each (Iyer et al. 2016, Section 3.1
    and Theorem 1). The paper lets the publisher form them by the labels. But a bag in which nine of
    ten rows have one label tells the label of each of its rows, nine times of ten, however noisy
    its published proportions are. So membership is randomised response: a row goes to the bag of
    its own class with probability ``skew``, else to any other.
    """
    if not 1 / classes < skew < 1:
        raise ParameterError(f"--skew must lie strictly between 1/{classes} and 1; got {skew!r}.")
    return math.log(skew * (classes - 1) / (1 - skew))


def plan_skew(
    rows: int,
    classes: int | Sequence[Any],
    epsilon: float,
    delta: float = 0.0,
    *,
    skews: Sequence[float] = _SKEWS,
) -> Plan:
    """Return how skew trades against the noise of proportions at a total ``epsilon`` per label.

    What the bags cost is missing from the proportions: a larger skew is easier to learn from, and
    makes the proportions noisier.

    Parameters
    ----------
    rows : int
        Number of rows.
    classes : int or sequence
        The classes, or their number.
    epsilon, delta : float
        What bags and proportions may cost together.
    skews : sequence of float
        The skews to compare.

    Returns
    -------
    Plan
        A table of skews and predicted errors, that of least error ``chosen``. A row has the
        ``skew``: the probability that a row goes to the bag of its own class, what the bags cost
        each label (``sets_epsilon``), what remains for the proportions (``counts_epsilon``), their
        ``mechanism`` and ``distortion``, the ``separation`` of bags, and the ``error`` of what is
        learnt.

    Raises
    ------
    ParameterError
        If no skew leaves enough epsilon for the proportions.

    Examples
    --------
    >>> import suffice
    >>> [row["skew"] for row in suffice.plan_skew(3000, 2, epsilon=2.0).chosen]
    [0.85]
    """
    check_epsilon(epsilon)
    number = classes if isinstance(classes, int) else len(check_classes(classes))
    if rows < number:
        raise ParameterError("There must be a row for every bag, and a bag for every class.")
    bags = bag_sizes([rows // number] * number, number)
    table: list[dict[str, Any]] = []
    for skew in skews:
        cost = math.inf if skew <= 1 / number else skew_epsilon(skew, number)
        if cost >= epsilon:
            continue
        name, noise = best_count_noise(bags, epsilon - cost, delta)
        distortion = float(noise.distortion().mean())
        if distortion >= FARTHEST:
            continue
        # How different bags are: the smallest singular value of the matrix of proportions for equal
        # classes. The error of a bag's proportions, with what a bag of its size has anyway, grows
        # when bags are alike.
        other = (1 - skew) / (number - 1)
        separation = skew - other
        spread = math.sqrt(skew * (1 - skew)) + (number - 1) * math.sqrt(other * (1 - other))
        sampling = spread * math.sqrt(2 / math.pi / bags.sizes[0])
        table.append(
            {
                "skew": skew,
                "sets_epsilon": cost,
                "counts_epsilon": epsilon - cost,
                "mechanism": name,
                "distortion": distortion,
                "separation": separation,
                "error": (distortion + sampling) / separation,
            }
        )
    if not table:
        raise ParameterError(
            "No skew leaves enough epsilon for the proportions. Raise --epsilon, use more rows, or"
            " form bags without looking at labels."
        )
    least = min(row["error"] for row in table)
    for row in table:
        row["chosen"] = row["error"] == least
    return Plan(
        title=(
            f"{rows:,} rows in {number} bags, formed from the labels, at epsilon {epsilon:g} in"
            " total. A larger skew is easier to learn from, and makes the proportions noisier. *"
            " marks the least error."
        ),
        columns={
            "skew": starred("{skew:g}"),
            "epsilon of bags": "{sets_epsilon:.3g}".format_map,
            "epsilon of proportions": "{counts_epsilon:.3g}".format_map,
            "mechanism": "{mechanism}".format_map,
            "error of proportions": "{distortion:.3g}".format_map,
            "error of learning": "{error:.3g}".format_map,
        },
        rows=table,
        facts={"epsilon": epsilon, "delta": delta, "rows": table},
        advice=_SKEWED_BAGS,
    )


@dataclass(frozen=True)
class SkewPlanner:
    """What a plan of skewed bags is made from: the numbers of rows and of classes."""

    table: Any = data_option(
        None,
        "Table of the rows: Parquet, CSV, Feather, Excel or SPSS. Or use --sizes.",
        path=Path,
        argument=True,
    )
    epsilon: Sequence[float] = privacy_option(
        (),
        "Epsilon, for example 1. For bags: what bags and proportions may cost together.",
        parse=numbers,
        many=True,
    )
    sizes: Sequence[int] | None = data_option(
        None,
        "Number of rows of each bag, with commas, for example 500,700; instead of a table.",
        parse=values,
    )
    delta: float = option(0.0, **DELTA)
    classes: Any = data_option(
        2,
        "Labels that can occur, with commas, for example no,yes; or how many there are. Default:"
        " 2.",
        parse=values,
    )

    def plan(self) -> Plan:
        """Return how skew trades against noise."""
        if len(self.epsilon) != 1:
            raise ParameterError("Bags and proportions share one epsilon. Use --epsilon once.")
        total = row_count(open_declared(self.table)) if self._has_table() else sum(self._sizes())
        return plan_skew(total, _class_count(self.classes), self.epsilon[0], self.delta)

    def _has_table(self) -> bool:
        if (self.table is None) == (self.sizes is None):
            raise ParameterError("Give the rows once: use either a table or --sizes.")
        return self.table is not None

    def _sizes(self) -> list[int]:
        sizes = list(self.sizes or ())
        if not all(isinstance(n, int) for n in sizes):
            raise ParameterError("--sizes takes numbers of rows with commas, for example 500,700.")
        return sizes


@dataclass(frozen=True)
class ProportionPlanner(SkewPlanner):
    """What a plan of proportions is made from: sizes of bags and classes, and no label."""

    bags: Any = option(None, **BAG_COLUMNS)
    person: str | None = option(None, **PERSON)
    kappa: int | None = option(None, **KAPPA)

    def plan(self) -> Plan:
        """Return the predicted error of every mechanism."""
        check_settings("auto", self.delta, self.kappa, None)
        sizes, overlap, squares = self._bags()
        return plan_proportions(
            sizes,
            _class_count(self.classes),
            self.epsilon[0] if len(self.epsilon) == 1 else self.epsilon,
            self.delta,
            overlap=overlap,
            squares=squares,
            kappa=self.kappa,
        )

    def _bags(self) -> tuple[list[int], int, int | None]:
        """Return the sizes of the bags, and how much they, or people, overlap."""
        if not self._has_table():
            if self.bags is not None or self.person is not None:
                given = "--bag" if self.person is None else "--person"
                raise ParameterError(
                    f"{given} cannot be used with --sizes. Remove {given}, or name a table."
                )
            return self._sizes(), 1, None
        if not self.bags:
            raise ParameterError("Choose the column of bags: --bag COLUMN.")
        table = open_columns(self.table, bag_columns(self.bags), label=None)
        bags = read_bags(table, self.bags)
        return bags.sizes.tolist(), *count_reach(table, bags, self.person)


def _class_count(classes: Any) -> int:
    """Return how many classes were declared: a list of them, or a number alone."""
    declared = (classes,) if isinstance(classes, int) else tuple(classes)
    if not declared:
        raise ParameterError(
            "--classes takes labels with commas, or how many there are, for example 3."
        )
    first = declared[0]
    return first if len(declared) == 1 and isinstance(first, int) else len(declared)


_COLUMN = "bag"  # of the rows that are written beside


@dataclass(frozen=True)
class SkewedSource(PublicSource):
    """A table to form bags of."""

    write_rows: Path | None = output_option(
        None,
        "File to which the public rows are written, with their bags in column bag.",
        path=Path,
        parse=Path,
        writes=True,
        kw_only=True,
    )

    def check(self) -> None:
        """Raise before anything is charged if the rows could not be written."""
        super().check()
        if self.write_rows is None:
            return
        check_ending(self.write_rows)
        others = [n for n in column_names(self.data) if n != self.label and n not in self.drop]
        if _COLUMN in (self.features or others):
            raise ParameterError("The table has a feature column named bag. Rename it first.")


@dataclass(frozen=True)
class SkewedBags(Mechanism[PublicTable]):
    """Publish a random bag for every row: most often the bag of its own class.

    Protects each label. The feature columns of every row, the number of rows and the class list
    are public. The release holds one bag per row, named by its class, in the order of the rows
    (kind label-responses); give it to `LabelProportions.release` as ``bags``. It has a charge of
    its own; noisy proportions of the bags are charged on top. Exactly one of ``skew`` and
    ``epsilon`` is given.
    """

    name = "bags"
    release_help = (
        "Publish a random bag for each row, likely that of its class.\n\n"
        "The release assigns every row to a bag, most often to that of its own class. In such bags"
        " each class looks alike (label shift), as learners of class proportions assume. It"
        " protects each label. The rows, and the bag of each row, are public."
    )
    plan_help = "Compare how often rows should go to the bag of their class."
    source = SkewedSource
    planner = SkewPlanner
    noises: ClassVar[Mapping[str, bool]] = {"response": False}
    releases = "label-responses"
    has_public_rows = True
    ordered_rows = True

    skew: float | None = privacy_option(
        None, "Probability that a row goes to the bag of its own class, for example 0.9."
    )
    epsilon: float | None = option(
        None,
        **(EPSILON | {"help": "Epsilon of each label, for example 1; instead of --skew."}),
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.skew is None) == (self.epsilon is None):
            raise ParameterError("Give the skew of the bags once: use either --skew or --epsilon.")

    def declared_classes(self) -> Classes:
        """Return the declared classes."""
        return check_classes(self.classes)

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for, about rows in an order that everybody knows."""
        return cls(epsilon=asked.epsilon, classes=asked.classes)

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many products the bags take, and how many bytes they have."""
        return rows * width, rows

    @property
    def _labels(self) -> MeanOperator:
        """The release of randomised labels that this is: rows are left as long as they are."""
        classes, cost = self.declared_classes(), self.epsilon
        if cost is None:
            cost = skew_epsilon(float(self.skew or 0), len(classes))
        return MeanOperator(check_epsilon(cost), 0.0, "response", classes, clip=1.0)

    def public(self, source: PublicSource) -> PublicTable:
        """Return the rows, all of whose columns but the label are public."""
        return self._labels.public(source)

    def choose(self, public: PublicTable) -> RandomisedLabels:
        """Return randomised response at the cost of the skew."""
        procedure = self._labels.choose(public)
        assert isinstance(procedure, RandomisedLabels)  # noqa: S101  # for the type checker
        return procedure

    def finish(self, source: SkewedSource, release: Release) -> None:
        """Write the public rows and the column bag: what a learner needs."""
        if source.write_rows is None:
            return
        names = [column.name for column in release.pipeline.columns]
        table = open_public(source, release.pipeline)
        rows = pa.Table.from_batches(table.batches(names))
        bags = np.array(release.classes)[release.arrays["answers"]]
        write_table(rows.append_column(_COLUMN, pa.array(bags)), source.write_rows)

    def plan(self, source: PublicSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return how skew trades against the noise of proportions at a total epsilon."""
        totals = tuple(epsilons) or (self._labels.epsilon,)
        return SkewPlanner(source.data, totals, classes=self.declared_classes()).plan()


def assign_bags(
    X: Any,
    y: Any = None,
    *,
    skew: float | None = None,
    epsilon: float | None = None,
    classes: Sequence[Any] = (0, 1),
    ledger: Ledger | None,
    **inputs: Any,
) -> Release:
    """Publish a random bag for every row: most often the bag of its own class. Protects each label.

    Parameters
    ----------
    X, y
        The table and its labels; or name the column ``label`` among ``inputs``.
    skew : float, optional
        Probability that a row goes to the bag of its own class, for example 0.9.
    epsilon : float, optional
        Epsilon of each label, instead of ``skew``.
    classes : sequence
        The labels that can occur.
    ledger : Ledger or None
        The ledger that is charged; None releases without a budget.
    **inputs
        Further inputs of `SkewedBags.release`, such as ``dataset``.

    Returns
    -------
    Release
        One bag per row, of kind label-responses.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(2).repeat(50, axis=0), np.repeat([0, 1], 50)
    >>> release = suffice.assign_bags(X, y, skew=0.75, ledger=None)
    >>> release.kind, round(release.guarantee.epsilon, 2), release.arrays["answers"].shape
    ('label-responses', 1.1, (100,))
    """
    return SkewedBags(skew, epsilon, classes).release(X, y, ledger=ledger, **inputs)


def formed_by_response(release: Release) -> Assumption:
    """Return what is said of bags that were formed by the labels."""
    return Assumption(
        "the bags were formed by randomised response on the labels, a release of its own that costs"
        f" each label {Budget(release.guarantee.epsilon or 0.0)} besides",
        "that release was given, and is about these rows",
    )


_UNSEEN = Assumption(
    "which bag a row is in was not decided by looking at its label", "declared by the owner"
)


@dataclass(frozen=True)
class BagSource(PublicSource):
    """A table whose rows are in public bags.

    ``bags`` is the column of bags, a tuple of such columns, one bag per row, sets of row numbers,
    or what `assign_bags` released.
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


@dataclass(frozen=True)
class LabelProportions(LabelMechanism):
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
    protects_people = True
    release_help = (
        "Publish the noisy class proportions of bags of rows.\n\n"
        "The release holds the proportion of each class in each bag, that is a group of rows such"
        " as a ward or a year, with noise. Learners assume that each class looks alike in all bags."
        " Natural bags often break this; those of `suffice release bags` do not. It protects each"
        " label. The rows, and the bags that they are in, are public."
    )
    plan_help = "Predict the error of noisy class proportions."
    source = BagSource
    # Not those that are drawn from exact counts: their loss is known where every label counts.
    noises: ClassVar[Mapping[str, bool]] = {
        name: name not in _PURE for name in MECHANISMS if name not in _DRAWN
    }
    offered: ClassVar[Mapping[str, type]] = {"bags": tuple}
    planner = ProportionPlanner

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    mechanism: str = privacy_option(
        "auto",
        "laplace, gaussian, laplace-prior, scaled-dirichlet-bounded, or scaled-dirichlet (only"
        " with --unprotected). auto takes the least predicted error.",
        name="--noise",
        choices=("auto", *MECHANISMS),
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
        choices=tuple(DELTA_RULES),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_settings(self.mechanism, self.delta, self.kappa, self.sigma_rule)

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for, about bags that public columns form; auto is Laplace."""
        return cls(
            asked.epsilon,
            asked.delta,
            "laplace" if asked.noise == "auto" else asked.noise,
            asked.classes,
            missing=asked.missing,
            map=asked.map,
            pipeline=asked.pipeline,
        )

    def public(self, source: BagSource) -> BaggedTable:  # type: ignore[override]  # its source
        """Return the rows and their bags."""
        table = open_public(source, self.pipeline, bag_columns(source.bags))
        classes = self.declared_classes()
        bags = self._bags(table, source.bags, classes)
        features, columns = source.features, bag_columns(source.bags)
        if features is None and self.pipeline is None:
            features = feature_names(table.schema, {*columns, source.label, source.person})
        for column in columns:  # a bag is no feature, and least of all the label
            resolve_roles(table.schema, label=source.label, features=features, bag=column)
        unclipped = self.clip is None and self.pipeline is None
        mapped = replace(self, clip=1.0) if unclipped else self
        listed = source.features is not None
        rows = mapped.read_public(
            table, source.label, features, source, features_listed=listed, person=source.person
        )
        formed = formed_by_response(source.bags) if isinstance(source.bags, Release) else _UNSEEN
        return BaggedTable(rows, classes, source, bags, formed)

    def check_payment(self, source: BagSource, payment: Payment) -> None:
        """Raise unless bags that were formed by the labels were charged to this ledger."""
        release, ledger, dataset = source.bags, payment.ledger, payment.dataset or ""
        if not isinstance(release, Release):
            return
        if source.person is not None:
            raise ParameterError(
                "Bags that were formed from labels protect each label, not all labels of a person."
                " Remove --person, or use bags that do not depend on labels."
            )
        if ledger is not None and not ledger.released(dataset, encode(release.unsigned())):
            raise PrivacyError(
                "These bags were formed from labels and were not charged to this ledger. Form them"
                " again with `suffice release bags --ledger` (Python: assign_bags(...,"
                " ledger=...))."
            )

    def choose(self, public: BaggedTable) -> NoisyProportions:  # type: ignore[override]  # its source
        """Return the noise of the counts, by the sizes of the bags; an error if some are too small.

        Sizes are public, so that the choice and the error cost nothing.
        """
        bags = public.bags
        reach = count_reach(public.rows.table, bags, public.source.person)
        facts = BagSizes(bags.sizes, len(public.classes), *reach)
        if facts.squares is not None and self.mechanism in _DRAWN:
            raise ParameterError(
                f"--noise {self.mechanism} cannot protect all labels of a person. Use laplace"
                " or gaussian, or remove --person."
            )
        name, price = self.mechanism, (self.epsilon, self.delta)
        noise: CountNoise
        if name == "auto":
            name, noise = best_count_noise(facts, *price, self.kappa)
        else:
            rule = self.sigma_rule or "exact"
            noise = count_noise(name, facts, *price, kappa=self.kappa, sigma_rule=rule)
        too_small = np.flatnonzero(noise.distortion() >= FARTHEST)
        if len(too_small):
            first = too_small[0]
            raise ParameterError(
                f"{len(too_small)} of {len(bags.names)} bags are too small. The noise on the"
                f" proportions of {bags.names[first]!r} ({bags.sizes[first]} rows) would be larger"
                " than the distance of any two proportions. Join bags, or raise --epsilon or"
                " --delta."
            )
        request = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kappa": self.kappa,
        }
        return NoisyProportions(public, request, str(name), noise)

    def plan(self, source: BagSource, epsilons: Sequence[float] = ()) -> Plan:
        """Return the predicted error of each mechanism, from the bags of a table."""
        classes = self.declared_classes()
        table = open_public(source, self.pipeline, bag_columns(source.bags))
        bags = self._bags(table, source.bags, classes)
        overlap, squares = count_reach(table, bags, source.person)
        return plan_proportions(
            bags.sizes.tolist(),
            classes,
            tuple(epsilons) or self.epsilon,
            self.delta,
            overlap=overlap,
            squares=squares,
            kappa=self.kappa,
        )

    def _bags(self, table: Table, bags: Any, classes: Classes) -> Bags:
        """Return the bags of the table; those that `assign_bags` released must be of its rows."""
        if not isinstance(bags, Release):
            return read_bags(table, bags, self.names)
        release = bags
        if self.names is not None:
            raise ParameterError(
                "--bag-names cannot be used with --bags-file, whose bags have names. Remove"
                " --bag-names."
            )
        if release.kind != RandomisedLabels.kind or len(release.parts) != 1:
            raise ParameterError(
                "--bags-file must be a file of `suffice release bags` (Python: assign_bags)."
            )
        if release.classes != classes:
            raise ParameterError(
                "The bags were formed for other classes. Use the same classes in the same order."
            )
        features = [column.name for column in release.pipeline.columns]
        if hash_rows(table, features, ordered=True).result() != release.parts[0].rows.hash:
            raise ForeignRowsError(
                "The bags were formed for other rows, or for these rows in another order. Use the"
                " table that the bags were formed from."
            )
        return read_bags(table, np.array(classes)[release.arrays["answers"]])
