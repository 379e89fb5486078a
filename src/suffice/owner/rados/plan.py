"""Whether subset sums (rados) stay useful after noise: predicted before a row is read.

A coordinate of a rado varies over its random signs by sqrt(m q) / 2, q the mean square of that
coordinate over the rows; so does the mean of all rados, the mean operator, over the sampling of the
rows. Noise per record grows with sqrt(count) on a rado, and stays sqrt(2) times that of one vector
on their mean. Where it exceeds the spread of a rado, whoever learns from rados learns from their
mean alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError
from suffice.owner.moments.noise import calibrated_moments
from suffice.owner.plans import Plan
from suffice.owner.public_rows import PublicRows
from suffice.owner.rados.guarantees import (
    label_sensitivity,
    most_memberships,
    record_sensitivity,
)
from suffice.owner.rados.pipeline import UNCLIPPED, PrivateRows
from suffice.owner.rados.procedures import label_noise
from suffice.privacy.noise import GaussianNoise

__all__ = ["RadoOption", "RadoPlan", "plan_private_rows"]

_FINE, _DROWNED = 0.5, 2.0  # noise over spread: below, it hardly shows; above, nothing else does
# How a table shows what JSON has codes for.
_SHARED, _ON_SUMS, _ON_RECORDS = (
    "rados, shared noise",
    "rados, noise on the matrix",
    "rados, noise on records",
)
_WHERE = {
    _SHARED: "once, to all sums",
    _ON_SUMS: "to every sum",
    _ON_RECORDS: "to every record",
}
_VERDICTS = {
    "fine": "useful",
    "noisy": "noisy",
    "mean only": "mean useful",
    "drowned": "too noisy",
}


@dataclass(frozen=True)
class RadoOption:
    """One release that could be made, and its noise per coordinate, as standard deviations.

    Parameters
    ----------
    release : str
        What is released, and where its noise is added.
    unit : str
        What it protects: label or record.
    count : int
        Number of rados.
    noise : float
        Noise on one rado.
    mean_noise : float
        Noise on the mean of all rados.
    spread : float
        How much a rado varies with its random subset.
    """

    release: str
    unit: str
    count: int
    noise: float
    mean_noise: float
    spread: float

    @property
    def ratio(self) -> float:
        """Noise on a rado over its spread."""
        return self.noise / self.spread

    @property
    def mean_ratio(self) -> float:
        """Noise on the mean of all rados over the same spread."""
        return self.mean_noise / self.spread

    @property
    def verdict(self) -> str:
        """A code: fine, noisy, mean only (only their mean is useful) or drowned (too noisy)."""
        if self.ratio <= _FINE:
            return "fine"
        if self.ratio <= _DROWNED:
            return "noisy"
        return "mean only" if self.mean_ratio <= _DROWNED else "drowned"


@dataclass(frozen=True, repr=False)
class RadoPlan(Plan):
    """What noise would do to subset sums (rados) for each unit; no row was read.

    Parameters
    ----------
    options : tuple of RadoOption
        The releases that are compared.
    verdicts : tuple of str
        What to do, in sentences.
    rows : int
        Number of rows.
    products_ratio : float
        Noise on mean products of two columns, protecting records: that of these sums over that of
        moments (`suffice.Moments`).
    operator_ratio : float
        The same of the noise on the mean operator.
    """

    options: tuple[RadoOption, ...]
    verdicts: tuple[str, ...]
    rows: int
    products_ratio: float
    operator_ratio: float

    columns = ("noise is added", "protects", "sums", "spread", "noise", "noise on mean", "verdict")

    @property
    def title(self) -> str:
        """What the table shows."""
        return (
            f"Subset sums of {self.rows:,} rows: how much they vary, and their noise"
            " (standard deviations per coordinate)"
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do, in sentences."""
        return self.verdicts

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table as text."""
        return [
            (
                _WHERE[option.release],
                option.unit,
                str(option.count),
                f"{option.spread:.3g}",
                f"{option.noise:.3g}",
                f"{option.mean_noise:.3g}",
                _VERDICTS[option.verdict],
            )
            for option in self.options
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON values."""
        return {
            "rows": self.rows,
            "options": [
                {
                    "release": option.release,
                    "unit": option.unit,
                    "count": option.count,
                    "noise": option.noise,
                    "mean_noise": option.mean_noise,
                    "spread": option.spread,
                    "verdict": option.verdict,
                }
                for option in self.options
            ],
            "noise_over_moments": {
                "products": self.products_ratio,
                "operator": self.operator_ratio,
            },
            "advice": list(self.advice),
        }


def plan_private_rows(
    rows: PrivateRows, size: int, count: int, epsilon: float, delta: float
) -> RadoPlan:
    """Return whether ``count`` rados of ``size`` such rows stay useful; reads none of them.

    A public table that scales come from says how long rows are, otherwise they are taken to be as
    long as allowed.
    """
    if rows.pipeline.bound >= UNCLIPPED:
        raise ParameterError(
            "A plan needs a bound on the length of rows. Declare --range or --bound, or give a"
            " public table with --standardize FILE (Python: ranges, bound, standardize)."
        )
    return _Forecast(rows, size, epsilon, delta, _mean_square(rows)).plan(count)


def _mean_square(rows: PrivateRows) -> float:
    """Return the mean square of a coordinate, from public rows or from the norm bound."""
    pipeline = rows.pipeline
    if rows.public is None:
        return pipeline.norm_bound**2 / len(pipeline.outputs)
    sample, _ = PublicRows(rows.public, rows.roles, pipeline).sample()
    return float(np.mean(sample**2))


@dataclass(frozen=True)
class _Forecast:
    """The noise of each release, from numbers that are public."""

    rows: PrivateRows
    size: int
    epsilon: float
    delta: float
    square: float

    def plan(self, count: int) -> RadoPlan:
        """Return the table for ``count`` rados, and what to do."""
        shared, edges = self._shared(), self._edges()
        label = self._option(_SHARED, "label", count, (shared, shared))
        record = self._matrix(count)
        survive = [o for n in _powers_below(count) if (o := self._matrix(n)).ratio <= _DROWNED]
        fewer = survive[:1] if record.ratio > _DROWNED else []
        local = (edges, edges / math.sqrt(2))
        options = (
            label,
            record,
            *fewer,
            self._option(_ON_RECORDS, "record", count, local),
        )
        ratios = self._over_moments(record)
        advice = (*_advice(label, record, fewer), *_moments_advice(*ratios))
        return RadoPlan(options, advice, self.size, *ratios)

    def _over_moments(self, record: RadoOption) -> tuple[float, float]:
        """Return the noise of rados over that of moments, on products and on the mean operator.

        Noise of variance v on each of n rados of m rows is 4 v/m in the mean products of two
        columns. Once that is subtracted, an error of 4 v/(m sqrt(n)) remains; on the mean operator
        it is 2 sqrt(v/n)/m.
        """
        pipeline, count = self.rows.pipeline, record.count
        width = len(pipeline.outputs) - (pipeline.intercept > 0)
        moments = calibrated_moments(width, 2, self.size, self.epsilon, self.delta)
        deviations = {name: block.deviation / self.size for name, block in moments.blocks.items()}
        products = 4 * record.noise**2 / (self.size * math.sqrt(count)) / pipeline.bound**2
        operator = 2 * record.mean_noise / self.size / pipeline.bound
        return (
            products / deviations.get("products", deviations["diagonal"]),
            operator / deviations["operator"],
        )

    def _option(
        self, release: str, unit: str, count: int, noise: tuple[float, float]
    ) -> RadoOption:
        return RadoOption(release, unit, count, *noise, math.sqrt(self.size * self.square) / 2)

    def _matrix(self, count: int) -> RadoOption:
        most = most_memberships(count, "hadamard" if count > 1 else "iid")
        noise = self._gaussian(most, count)
        both = (noise, noise / math.sqrt(count))
        return self._option(_ON_SUMS, "record", count, both)

    @property
    def _step(self) -> float:
        return lattice_step(self.rows.pipeline.norm_bound)

    def _shared(self) -> float:
        reach = label_sensitivity(self.rows.pipeline, self._step)
        return math.sqrt(label_noise(reach, self.epsilon, self.delta).variance) * self._step

    def _edges(self) -> float:
        return self._gaussian(1, 1) * math.sqrt(self.size / 2)

    def _gaussian(self, memberships: int, count: int) -> float:
        reach = record_sensitivity(self.rows.pipeline, self._step, memberships, count)
        return GaussianNoise.calibrated(reach, self.epsilon, self.delta).scale * self._step


def _moments_advice(products: float, operator: float) -> list[str]:
    """Return when moments are the better release, if they are: records protected, two classes."""
    if min(products, operator) <= 1:
        return []
    sentence = (
        "To protect records, release moments instead: their noise is"
        f" {_times(operator)} smaller on the mean operator. On how columns vary together it is"
        f" {_times(products)} smaller. Only epsilon, delta and the numbers of rows, columns and"
        " sums decide this. See `suffice plan moments`."
    )
    return [sentence]


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def _powers_below(count: int) -> list[int]:
    """Return the powers of two below ``count``, the largest first, down to two."""
    powers = (2**k for k in range(count.bit_length() - 1, 0, -1))
    return [power for power in powers if power < count]


def _advice(label: RadoOption, record: RadoOption, fewer: Sequence[RadoOption]) -> list[str]:
    """Return what to do, in sentences."""
    if record.ratio <= _DROWNED:
        return ["The noise is not much larger than what the sums vary by themselves."]
    useful = "Only the mean" if record.verdict == "mean only" else "Nothing"
    raise_epsilon = "Raise --epsilon, or wait for more rows."
    label_only = (
        "If only labels are private, use --unit label. If rows may be seen too, release the mean"
        " operator."
    )
    with_fewer = "".join(f" With --count {o.count} it would be {o.ratio:.2g} times." for o in fewer)
    of_records = (
        f"Protecting records: the noise on each of {record.count} sums is {record.ratio:.2g} times"
        f" what they vary by themselves.{with_fewer} On their mean it is {record.mean_ratio:.2g}"
        f" times. {useful} is useful for learning."
    )
    of_labels = f"Protecting labels: the noise is {label.ratio:.2g} times what the sums vary by."
    return [of_records, f"{of_labels} {raise_epsilon if label.ratio > _DROWNED else label_only}"]
