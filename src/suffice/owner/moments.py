"""Moments of private records: products, means, means by class and proportions, with noise.

One Gaussian noise is on all blocks together, each with a deviation of its own.

Every number is an integer. Dividing each coordinate by its own deviation gives the case of
``privacy/proofs/gaussian.md``; ``privacy/proofs/moments.md`` says how.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from suffice.engines.sums import (
    LONGEST_CODE,
    MomentSums,
    MomentTotals,
    PersonWeights,
    RowCodes,
    lattice_step,
)
from suffice.errors import ParameterError
from suffice.options import REQUIRED, option, preprocessing_option, privacy_option
from suffice.owner.forecast import Plan, planned_epsilons
from suffice.owner.labelled import PublicRows
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import (
    CLASSES,
    DELTA,
    EPSILON,
    Asked,
    Mechanism,
)
from suffice.owner.scaling import (
    UNCLIPPED,
    PrivateRows,
    PrivateScaling,
    PrivateTable,
    RecordPass,
    RecordProcedure,
    counted_people,
    noise_guarantee,
    sheet_scaling,
)
from suffice.owner.source import LabelledBatch, OwnerReport, Source, TargetSource
from suffice.privacy import events
from suffice.privacy.events import Gaussian, check_delta, check_promise
from suffice.privacy.guarantee import Guarantee, Unit
from suffice.privacy.moments import BlockWeights, default_weights
from suffice.privacy.noise import LARGEST_SUM, GaussianNoise, Sensitivity
from suffice.releases.release import Covariance, Release
from suffice.tables.columns import Classes, numeric_column

_TAIL_RADIUS = 14.0  # deviations: a coordinate beyond counts as a failure, 2 e^(-98)
_LEAST_SIGMA = 2.0**24  # steps of a deviation: below, integers are multiplied by a power of two


@dataclass(frozen=True)
class BlockNoise:
    """The noise of one block."""

    shift: int  # the block's integers are multiplied by 2^shift before noise is added
    noise: GaussianNoise  # on the multiplied integers, with the event of all blocks together
    unit: float  # what one step of the multiplied integers is worth, in rows of length 1

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the sum, in rows of length 1."""
        return self.noise.scale * self.unit

    def add(self, exact: np.ndarray) -> np.ndarray:
        """Return a block of exact integers with fresh noise, in rows of length 1."""
        return self.noise.add(np.asarray(exact, dtype=np.int64) << self.shift) * self.unit


@dataclass(frozen=True)
class MomentNoise:
    """The noise of a release of moments, and what one record costs: all blocks together."""

    event: Gaussian
    weights: BlockWeights
    blocks: Mapping[str, BlockNoise]  # diagonal, products, mean, operator, counts and squares

    def add(self, exact: MomentTotals) -> dict[str, np.ndarray]:
        """Return the sums of all blocks with fresh noise, in rows of length 1.

        The sums of products are a symmetric matrix, each product noised once. Those of public rows
        have no noise.
        """
        width = len(exact.mean)
        upper = np.triu_indices(width, 1)
        sums = {"second": exact.second / LONGEST_CODE**2, "mean": exact.mean / LONGEST_CODE}
        if not self.weights.public_rows:
            second = np.diag(self.blocks["diagonal"].add(np.diagonal(exact.second)))
            if width > 1:
                second[upper] = self.blocks["products"].add(exact.second[upper])
                second.T[upper] = second[upper]
            sums = {"second": second, "mean": self.blocks["mean"].add(exact.mean)}
        sums["operator"] = self.blocks["operator"].add(exact.operator)
        sums["counts"] = self.blocks["counts"].add(exact.counts)
        if "squares" in self.blocks:
            sums["squares"] = self.blocks["squares"].add(exact.squares)
        return sums


def moments_noise(
    width: int, rows: int, weights: BlockWeights, multiplier: float, steps: int = 1
) -> MomentNoise:
    """Return the noise of ``multiplier`` sensitivities on moments of this shape.

    ``steps`` of a weight make one row, where rows have weights; ``rows`` are people then. Raises if
    sums of so many would not fit into 64-bit integers.
    """
    columns = weights.classes if weights.classes > 2 else 1
    # The operator of three classes or more is summed K times, so that it is an integer.
    times, square, linear = columns, float(LONGEST_CODE) ** -2, 1 / (LONGEST_CODE * steps)
    # By block how many numbers it has; their reach, that is what the weighted reach of 1 is in its
    # integers; and what an integer is worth, in rows of length 1.
    numbers_of = {
        "diagonal": (width, float(LONGEST_CODE**2), square),
        "products": (width * (width - 1) // 2, LONGEST_CODE**2 / math.sqrt(2), square),
        "mean": (width, LONGEST_CODE * steps / weights.mean, linear),
        "operator": (
            columns * width,
            times * LONGEST_CODE * steps / weights.operator,
            linear / times,
        ),
        "counts": (columns, steps / weights.proportions, 1 / steps),
    }
    if not weights.classes:  # a target is an integer as coordinates are
        reach = float(LONGEST_CODE**2)
        numbers_of["operator"] = (width, reach / weights.operator, square)
        numbers_of["counts"] = (1, LONGEST_CODE * steps / weights.proportions, linear)
        numbers_of["squares"] = (1, reach / weights.square, square)
    if weights.public_rows:
        numbers_of = {name: numbers_of[name] for name in ("operator", "counts", "squares")}
    # The sums of weighted products are rounded down: each may move by one more (proofs/person.md).
    rounded = width if steps > 1 else 0.0
    if steps > 1 and not weights.classes:  # so are those with a target, and its squares
        rounded += weights.operator * math.sqrt(width) + weights.square
    scale = multiplier * (weights.sensitivity + rounded * square)
    drawn = {}
    for name, (size, reach, unit) in numbers_of.items():
        if not size:
            continue
        # The least shift at which a deviation has enough steps.
        shift = max(0, math.frexp(lattice_step(_LEAST_SIGMA / (scale * reach), 0))[1] - 1)
        if rows * 2.0**shift / unit >= LARGEST_SUM:
            raise ParameterError("there are too many rows for one release; release in parts.")
        sigma = float(math.ceil(scale * reach * 2.0**shift))
        drawn[name] = (size, shift, sigma, unit)
    farthest = _TAIL_RADIUS + 1 / multiplier
    slack = sum(size * farthest**2 / (24 * sigma**2) for size, _, sigma, _ in drawn.values())
    tail = sum(size for size, *_ in drawn.values()) * 2 * math.exp(-(_TAIL_RADIUS**2) / 2)
    # Float rounding of scale, and of the sensitivity, is far below 1e-12.
    event = Gaussian(multiplier * (1 - 1e-12), slack, tail)
    blocks = {}
    for name, (size, shift, sigma, unit) in drawn.items():
        noise = GaussianNoise(Sensitivity(1, 1.0, size), event, sigma)
        blocks[name] = BlockNoise(shift, noise, unit * 2.0**-shift)
    return MomentNoise(event, weights, blocks)


def calibrated_moments(
    width: int, classes: int, rows: int, epsilon: float, delta: float, *,
    steps: int = 1, public_rows: bool = False,
) -> MomentNoise:  # fmt: skip
    """Return the least noise on moments that costs at most ``epsilon`` at ``delta``.

    A row has ``width`` coordinates, and a target where there are 0 ``classes``. The weights of
    the blocks depend on the number of ``rows``, or of people, whose rows have weights in ``steps``.
    With ``public_rows`` the target alone is private.

    Examples
    --------
    >>> noise = calibrated_moments(width=10, classes=2, rows=1000, epsilon=1.0, delta=1e-6)
    >>> noise.event.epsilon(1e-6) <= 1.0
    True
    """
    epsilon = events.check_epsilon(epsilon)
    delta = events.check_delta(delta, positive=True)
    multiplier = events.gaussian_multiplier(epsilon, delta)
    weights = replace(default_weights(classes, multiplier, rows), public_rows=public_rows)
    noise = moments_noise(width, rows, weights, multiplier, steps)
    while noise.event.epsilon(delta) > epsilon:
        if delta <= 2 * noise.event.tail:
            raise ParameterError(f"delta must exceed {2 * noise.event.tail:.2g} in this dimension.")
        multiplier *= 1 + max(1e-10, 4 * noise.event.slack / epsilon)
        noise = moments_noise(width, rows, weights, multiplier, steps)
    return noise


class MomentPass(RecordPass):
    """Takes in private records, on any engine; no record, whatever it holds, is an error."""

    def __init__(
        self,
        rows: PrivateRows,
        classes: Classes,
        people: PersonWeights | None = None,
        *,
        identified: bool,
    ) -> None:
        identified = identified or bool(rows.named_rows)
        cells, label = rows.roles.features, rows.roles.label
        if rows.target is not None and label is not None:
            cells, self.target = (*cells, label), label
        super().__init__(rows.table, cells, classes, identified=identified)
        self.people = people
        self._rows = rows
        self._codes = RowCodes(rows.pipeline)
        self._sums = MomentSums(self._codes.width + (rows.target is not None), len(classes))

    def update(self, batch: LabelledBatch) -> None:
        """Take in private records; no cell is an error.

        Cells are read by `PrivateRows.encoded`. A number that is still missing, or not finite,
        counts as declared. A target is held to its range, and counts as the middle of it where it
        is missing or not finite.
        """
        super().update(batch)
        columns = self._rows.encoded(batch.rows, self.unknown)
        codes, label = self._codes.of(columns), self._rows.roles.label
        if self._rows.target is not None and label is not None:
            low, high = self._rows.target
            cells = numeric_column(batch.rows.column(label)).astype(np.float64)
            self.unknown[label] += int(np.count_nonzero(~np.isfinite(cells)))
            middle, half = low / 2 + high / 2, high / 2 - low / 2
            held = np.where(np.isfinite(cells), np.clip(cells, low, high), middle)
            targets = np.clip((held - middle) / half, -1.0, 1.0)
            codes = np.vstack([codes, np.rint(LONGEST_CODE * targets)])
        if self.people is None:
            self._sums.update((codes, batch.codes))
            return
        weights, seen = self.people.of(batch.rows)
        self._sums.update_weighted(codes, batch.codes, weights)
        self.seen += seen

    def merge(self, other: Self) -> None:
        """Take in everything that ``other`` has seen: the rows that follow."""
        super().merge(other)
        self._sums.merge(other._sums)

    def result(self) -> MomentTotals:
        """Return the exact sums: private."""
        return self._sums.result()


@dataclass(frozen=True, eq=False)
class NoisyMoments(RecordProcedure[MomentPass]):
    """Second moments, means, means by class and class proportions, with Gaussian noise."""

    kind = "moments"
    rows: PrivateRows
    size: int
    classes: Classes
    noise: MomentNoise  # calibrated before a record is read
    epsilon: float
    delta: float
    people: PersonWeights | None = None

    @property
    def unit(self) -> Unit:  # type: ignore[override]  # it is never set
        """What is protected."""
        if self.noise.weights.public_rows:
            return Unit.LABEL
        return Unit.RECORD if self.people is None else Unit.PERSON

    def accumulator(self, *, identified: bool) -> MomentPass:
        """Return empty sums."""
        return MomentPass(self.rows, self.classes, self.people, identified=identified)

    def guarantees(self, exact: MomentPass) -> tuple[Guarantee, ...]:
        """Return the guarantee per record, per person, or per target of public rows."""
        del exact
        origin, target = self.rows.pipeline.origin, self.rows.target is not None
        event = self.noise.event
        return (noise_guarantee(self.unit, event, self.delta, origin=origin, target=target),)

    def draw(self, exact: MomentPass, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release with fresh noise: means of rows of length ``bound``."""
        bound = self.rows.pipeline.bound
        means = {name: sums / self.size for name, sums in self.noise.add(exact.result()).items()}
        deviations = {n: block.deviation / self.size for n, block in self.noise.blocks.items()}
        operator, counts = means["operator"].T * bound, means["counts"]
        arrays = {"second_moments": means["second"] * bound**2, "mean": means["mean"] * bound}
        spread: dict[str, Any] = {}
        if not self.noise.weights.public_rows:
            spread["second_noise"] = deviations["diagonal"] * bound**2
            spread["mean_noise"] = deviations["mean"] * bound
        spread["operator_noise"] = deviations["operator"] * bound
        if self.rows.target is not None:
            low, high = self.rows.target
            arrays["operator"] = operator[:, 0]
            arrays["target_moments"] = np.concatenate([counts, means["squares"]])
            spread["target_noise"] = deviations["counts"]
            spread["target_square_noise"] = deviations["squares"]
            spread |= {"target": self.rows.roles.label, "low": low, "high": high}
        elif len(self.classes) == 2:
            arrays["operator"] = operator[:, 0]
            arrays["proportions"] = np.array([1 - counts[0], 1 + counts[0]]) / 2
            spread["proportions_noise"] = deviations["counts"] / 2
        else:
            # The means of three classes or more sum to zero over classes before noise. So the mean
            # of the noise over classes is subtracted: it holds nothing else.
            arrays["operator"] = operator - operator.mean(axis=1, keepdims=True)
            arrays["proportions"] = counts
            spread["proportions_noise"] = deviations["counts"]
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        noise = Covariance("identity", spread["operator_noise"] ** 2)
        return self.released(arrays, {"mechanism": "gaussian", **spread}, noise, guarantees)


class NoisyTargetMoments(NoisyMoments):
    """The same of records that have a number in place of a label, scaled to -1 .. 1."""

    kind = "target-moments"

    def parameters(self, exact: MomentPass) -> Mapping[str, Any]:
        """Return the public description of the request, with the target and its range."""
        target = [self.rows.roles.label, *(self.rows.target or ())]
        return {**super().parameters(exact), "target": target}


class NoisyTargets(NoisyTargetMoments):
    """The mean of public rows times a private number, with noise; moments of rows as they are."""

    kind = "target-operator"

    def report(self, exact: MomentPass) -> OwnerReport | None:
        """Tell the owner alone what counted as none; rows are public, so they may scale."""
        return exact.report()


_LITTLE, _MUCH = 1.0, 8.0  # penalty by noise over the mean square of a coordinate
_DROWNED = 1.0  # length of the noise on the means by class; rows have length 1 at most


CLIP = 0.2  # quantile of public row lengths at which longer rows are shortened


def _check_cost(width: int, rows: int, noise: MomentNoise) -> None:
    """Refuse moments whose noise would take far longer than their sums: an estimate.

    By the number of rows and of coordinates alone, which are public, before any record is read.
    """
    draws = sum(block.noise.sensitivity.dimension for block in noise.blocks.values())
    # On one core an exact draw takes 11 microseconds, a product that is added up 20 picoseconds.
    drawing, adding = 1.1e-5 * draws, 2e-11 * rows * width**2
    most = 10.0  # seconds: who waits for longer sums may wait for their noise as well
    if drawing > max(most, adding):
        raise ParameterError(
            f"Rows have {width:,} coordinates. Noise on their {draws:,} moments would take about"
            f" {drawing:,.0f} seconds, the sums of {rows:,} rows about {adding:.2g}. Noise may take"
            f" {most:g} seconds, or as long as the sums. Leave columns out (--drop), or"
            " use a map with fewer coordinates (--map)."
        )


class MomentsUnit(StrEnum):
    """What the noise on moments can protect."""

    RECORD = "record"
    LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class _MomentScaling(PrivateScaling):
    """How private rows become vectors: without an intercept."""

    clip: float | None = preprocessing_option(
        None,
        "Quantile of the public table's row lengths at which longer rows are shortened, for"
        " example 0.2, the default.",
    )
    intercept: float | None = field(default=0.0, init=False)  # rows have none
    map: str | None = preprocessing_option(
        None,
        "Public feature map, fitted on the table of --standardize: ranks or ranks+polynomial:2,"
        " for example.",
    )


@dataclass(frozen=True)
class Moments(_MomentScaling, Mechanism[PrivateTable]):
    """Protects each record: noisy second moments leave, rows and labels stay.

    The release holds, as means over all records and with Gaussian noise: the products of every two
    coordinates, the coordinates themselves, the coordinates by class, and the class proportions. A
    learner trains a linear classifier from them without any row (`MomentClassifier`).

    A number takes the place of labels where a release has a ``target``, whose range is among
    ``ranges``: ``release(X, y, target="hours", ...)``, or the name of a column. Then a learner
    predicts the number (`MomentRegressor`). With the unit "label" this number alone is private, and
    rows are public: their moments leave as they are.

    Rows are private; `PrivateScaling` says how they become vectors. They have no intercept: class
    proportions and means take its place. No record is dropped and none is an error. A cell that is
    missing or not finite counts as declared (``missing``), a label outside ``classes`` as none. The
    owner alone is told how many there were.

    Parameters
    ----------
    epsilon : float
        How much the release may cost each record.
    delta : float
        The delta of the guarantee, for example 1e-6; above 0.
    unit : {"record", "label"}
        What is protected: whole records, or a ``target`` beside public rows. For classes beside
        public rows, use `MeanOperator`.
    classes : sequence
        The labels that can occur; of two, the last is positive.
    missing : {"mean", "zero"}
        What a missing number counts as: the middle of its declared range or the mean of the public
        table, or zero.
    standardize, ranges, bound, clip, categories, pipeline
        As of `PrivateScaling`. ``clip`` is 0.2 unless it is given.
    map : str, optional
        A public feature map, fitted on the public table ``standardize``: "ranks" or
        "ranks+polynomial:2", for example.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(-1, 1, (500, 3)), rng.integers(0, 2, 500)
    >>> moments = Moments(epsilon=1.0, delta=1e-6, ranges=(-1, 1))
    >>> release = moments.release(X, y, ledger=None)
    >>> sorted(release.arrays)
    ['mean', 'operator', 'proportions', 'second_moments']
    """

    name = "moments"
    source = TargetSource
    protects_people = True
    noises: ClassVar[Mapping[str, bool]] = {"gaussian": True}
    offered: ClassVar[Mapping[str, type]] = {"bound": float, "target": tuple}
    release_help = (
        "Publish noisy means of products of columns, by class.\n\n"
        "The release holds noisy second moments of records: the mean product of every two columns,"
        " the column means, the means by class and the class proportions. With --target, the means"
        " are those of columns times a number to predict. It protects each record as a whole, or"
        " with --unit label the number to predict. The number of records, the columns and their"
        " scaling are public."
    )
    plan_help = "Predict whether second moments stay useful after noise."

    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(REQUIRED, **DELTA)
    unit: str = privacy_option(
        "record",
        "What epsilon protects: record, that is all cells of a row and its label; or label, that is"
        " the --target alone, where all other columns are public.",
        choices=MomentsUnit,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_promise(self)
        check_delta(self.delta, positive=True)

    @classmethod
    def as_asked(cls, asked: Asked) -> Self:
        """Return what a proposal asks for: ranges and categories are those of the data sheet."""
        return cls(asked.epsilon, asked.delta, classes=asked.classes, **sheet_scaling(asked))

    def cost(self, width: int, rows: int) -> tuple[int, int]:
        """Return about how many products the moments take, and how many bytes they have."""
        return rows * width**2, 8 * width**2

    def public(self, source: Source) -> PrivateTable:
        """Return the table, its pipeline and its number of rows; tells the owner of shared rows."""
        rows = self.private_rows(source)
        classes = self.declared_classes() if rows.target is None else ()
        if self.unit == MomentsUnit.LABEL:  # rows are public, and may be those that scales are of
            rows = replace(rows, public=None)
        return PrivateTable.of(rows, classes, source, self.unit)

    def choose(self, public: PrivateTable) -> NoisyMoments:
        """Return the noise that was asked for, calibrated by what was declared."""
        width, people = len(public.rows.pipeline.outputs), public.people
        steps = 1 if people is None else people.one
        price, alone = (self.epsilon, self.delta), self.unit == MomentsUnit.LABEL
        noise = calibrated_moments(
            width, len(public.classes), public.size, *price, steps=steps, public_rows=alone
        )
        _check_cost(width, public.size, noise)
        procedure = NoisyMoments if public.classes else NoisyTargetMoments
        procedure = NoisyTargets if alone else procedure
        return procedure(public.rows, public.size, public.classes, noise, *price, people)

    def plan(self, source: Source, epsilons: Sequence[float] = ()) -> Plan:
        """Return how much noise a release would have, from public information alone.

        In rows of length 1 a coordinate has the mean square q, 1/d at most on average. The noise
        matrix on d x d products has eigenvalues up to sqrt(2d) s, s its deviation on a square; a
        learner adds half of that to its penalty. Where this exceeds q, products say little about
        single directions.

        A public table that scales come from says how long rows are. Otherwise they are taken to be
        as long as allowed.
        """
        if self.scaled_by(promised=True) == "rows":
            raise ParameterError(
                "A plan reads no private row. Declare ranges or a bound, or name a public table."
            )
        rows = self.private_rows(source)
        classes = len(self.declared_classes()) if rows.target is None else 0
        size = rows.size(source, counted_people(rows.table, source))
        counted = "records" if source.person is None else "people, whose ids were counted"
        width = len(rows.pipeline.outputs)
        square = 1 / width  # the mean square of a coordinate, in rows of length 1
        if rows.public is not None:
            sample, _ = PublicRows(rows.public, rows.roles, rows.pipeline).sample()
            square = max(float(np.mean((sample / rows.pipeline.bound) ** 2)), 1e-12)
        table: list[dict[str, Any]] = []
        for epsilon in planned_epsilons(epsilons or self.epsilon):
            noise = calibrated_moments(
                width,
                classes,
                size,
                epsilon,
                self.delta,
                public_rows=self.unit == MomentsUnit.LABEL,
            )
            _check_cost(width, size, noise)
            deviation = dict.fromkeys(("diagonal", "mean"), 0.0)  # of public rows
            deviation |= {name: block.deviation / size for name, block in noise.blocks.items()}
            penalty = math.sqrt(width / 2) * deviation["diagonal"] / square
            verdict = "means only"
            if math.sqrt(width) * deviation["operator"] > _DROWNED:
                verdict = "too noisy"
            elif penalty <= _MUCH:
                verdict = "fine" if penalty <= _LITTLE else "noisy"
            table.append(
                {
                    "epsilon": epsilon,
                    "products": deviation.get("products", deviation["diagonal"]) / square,
                    "means": deviation["mean"] / math.sqrt(square),
                    "means_by_class": deviation["operator"] / math.sqrt(square),
                    "class_proportions": deviation["counts"] / (2 if classes == 2 else 1),
                    "verdict": verdict,
                }
            )
        good = [row["epsilon"] for row in table if row["verdict"] in {"fine", "noisy"}]
        advice = (
            "The noise hides how columns vary together. Raise epsilon, release fewer columns, or"
            " wait for more records."
        )
        if good:
            advice = (
                f"From epsilon = {min(good):g} on, a learner can use how columns vary together."
            )
        by_label, of_labels = "means by class", "class proportions"
        if not classes:
            by_label, of_labels = "means times target", "target mean"
        return Plan(
            title=(
                "Noise (standard deviation) over the size of what is released, without any private"
                f" cell: {size:,} {counted}, {width} coordinates"
            ),
            columns={
                "epsilon": "{epsilon:g}".format_map,
                "products": "{products:.3g}".format_map,
                "means": "{means:.3g}".format_map,
                by_label: "{means_by_class:.3g}".format_map,
                of_labels: "{class_proportions:.3g}".format_map,
                "": "{verdict}".format_map,
            },
            rows=table,
            facts={"rows": size, "coordinates": width, "options": table, "advice": [advice]},
            advice=(advice,),
        )

    def private_rows(self, source: Source) -> PrivateRows:
        """Return the private table with its pipeline, which has no intercept."""
        clipped = self
        fitted = self.scaled_by(promised=True) in {"public", "rows"}
        if self.clip is None and self.bound is None and fitted:
            clipped = replace(self, clip=CLIP)
        if self.unit == MomentsUnit.LABEL and (source.target is None or source.person is not None):
            raise ParameterError(
                "The unit label is for a number to predict (--target), one row a person. For"
                " classes use suffice release mean-operator. For people, leave one row of each in"
                " the table."
            )
        rows = PrivateScaling.read_private(clipped, source, promised=True, protect=(), boxed=False)
        low, high = rows.target or (0.0, 0.0)
        half = high / 2 - low / 2  # its square, a variance, must be a finite number
        if source.target is not None and not (half > 0 and math.isfinite(2 * half * half)):
            raise ParameterError(
                f"The target {source.target!r} has no declared range, or one that is too narrow or"
                " too wide. It is never read from private rows. Declare it, for example"
                " --range hours=0,100 (Python: ranges)."
            )
        pipeline = replace(rows.pipeline, intercept=0.0)
        if pipeline.fill is None:
            pipeline = pipeline.with_missing("zero" if pipeline.map is not None else self.missing)
        if pipeline.bound >= UNCLIPPED:
            raise ParameterError("rows need a norm bound: give --range, --bound or a public table.")
        return replace(rows, pipeline=pipeline)


def plan_moments(
    X: Any,
    epsilon: float | Sequence[float],
    delta: float,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> Plan:
    """Return how much noise moments of the table ``X`` would have, from public information alone.

    Parameters
    ----------
    X : table
        The private table; its columns and its number of rows are read, no cell.
    epsilon : float or sequence of float
        What a release may cost each record; one is shown with smaller and larger ones around it.
    delta : float
        The delta of the guarantee.
    label : str, optional
        The column of labels, which is left out.
    features : sequence of str, optional
        The feature columns; all but the label unless given.
    **settings
        Those of `Moments`.

    Returns
    -------
    Plan
        A table of noise, and what it means; a row has the ``epsilon``, the noise on ``products`` of
        two coordinates over the mean square of a coordinate, on ``means`` and ``means_by_class``
        over its root, on ``class_proportions``, and a ``verdict``: fine, noisy, means only or too
        noisy.
    """
    several = tuple(epsilon) if isinstance(epsilon, Sequence) else ()
    first = several[0] if several else epsilon
    mechanism = Moments(first, delta, **settings)  # type: ignore[arg-type]  # one number
    return mechanism.plan(Source(X, label=label, features=features), several)


_LEAST_SQUARE = 0.5  # times the noise of a square, that a component must have on average


def components_above_noise(
    public: Any,
    rows: int,
    epsilon: float,
    delta: float,
    *,
    classes: int = 2,
    label: str | None = None,
    features: Sequence[str] | None = None,
    ranks: bool = False,
) -> str:
    """Return the map that keeps the principal components which moments can show: "components:33".

    In rows of length 1, let l_i be the mean square of public rows along component i, and s the
    noise of a square. A component below s/2 says less about itself than its noise hides, and each
    one that is left out makes the noise matrix smaller (MATHS.md section 6). The number follows
    from public rows, the number of records, epsilon and delta alone.

    Nothing private is read. Pass the result as the ``map`` of the pipeline of `suffice.Moments`.

    Parameters
    ----------
    public : array, table or path
        Public rows, which the components are computed from.
    rows : int
        The number of private records.
    epsilon, delta : float
        The guarantee of the release.
    classes : int, default=2
        The number of classes.
    label : str, optional
        A column of the public rows that is left out.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    ranks : bool, default=False
        Whether columns are replaced by their ranks first ("ranks+components:33").

    Returns
    -------
    str
        The map, with at least one component.

    Raises
    ------
    ParameterError
        If epsilon or delta is outside its domain.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> public = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 30)) + rng.normal(size=(500, 30))
    >>> components_above_noise(public, 2000, 0.1, 1e-6)
    'components:10'
    >>> components_above_noise(public, 1_000_000, 1.0, 1e-6)
    'components:30'
    """
    kind = "ranks+components" if ranks else "components"
    most = f"{kind}:1024"  # of public rows, that are looked at
    reader = MeanOperator(1.0, map=most, clip=CLIP, intercept=0.0, missing="mean")
    public_rows = reader.public_rows(public, label=label, features=features)
    sample, _ = public_rows.sample()
    squares = np.mean((sample / public_rows.pipeline.bound) ** 2, axis=0)
    noise = calibrated_moments(sample.shape[1], classes, rows, epsilon, delta)
    least = _LEAST_SQUARE * noise.blocks["diagonal"].deviation / rows
    return f"{kind}:{max(1, int(np.sum(squares >= least)))}"
