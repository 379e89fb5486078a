"""Pipeline parameters from one pass over public rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suffice.engines.summary import Summary
from suffice.errors import ParameterError, TableError
from suffice.tables.maps import fit_map
from suffice.tables.pipeline import POLICIES, Column, Missing, Pipeline

__all__ = ["default_clip", "fit_pipeline"]

# A rare category would otherwise become a number of the size 1/sqrt(frequency).
_LEAST_CATEGORY_SCALE = 0.1


def fit_pipeline(
    summary: Summary,
    names: Sequence[str],
    *,
    categories: Mapping[str, Sequence[Any]],
    missing: Missing,
    clip: float | None = None,
    intercept: float | None = None,
    map_spec: str | None = None,
) -> Pipeline:
    """Return the pipeline of these public rows.

    Columns are centred and divided by their standard deviation; rows are clipped at the ``clip``
    quantile of their norms (of a sample of at most 20,000), `default_clip` unless given; the
    intercept weighs a quarter of that bound unless given. Categories are the declared ones, or all
    that the rows have, sorted. ``map_spec`` names a feature map, fitted on the same sample.
    """
    if missing not in POLICIES:
        raise ParameterError(f"missing must be one of {', '.join(POLICIES)}; got {missing!r}.")
    if clip is not None and not 0 < clip <= 1:
        raise ParameterError(f"clip must be a quantile in (0, 1]; got {clip!r}.")
    if missing == "error":
        for name in names:
            if summary.missing[name]:
                raise TableError(
                    f"column {name!r} has {summary.missing[name]} missing values; choose what they"
                    " become with missing='mean' or 'zero' (--missing)."
                )
    columns = tuple(_column(name, summary, categories) for name in names)
    mean = np.array([value for column in columns for value in _means(column, summary)])
    scale = np.array([value for column in columns for value in _scales(column, summary)])
    mean, scale = _rounded(mean, scale)
    fill = {"error": None, "mean": mean, "zero": np.zeros_like(mean)}[missing]
    wide = Pipeline(columns, missing, mean, scale, 2.0**300, 0.0, fill)
    if map_spec is not None:
        wide = _with_map(wide, map_spec, summary)
    norms = np.concatenate(
        [np.linalg.norm(wide.transform(part), axis=1) for part in summary.sample.to_batches()]
    )
    clip = default_clip(len(wide.outputs)) if clip is None else clip
    bound = float(np.float32(np.quantile(norms, clip) or norms.max())) or 1.0
    return replace(wide, bound=bound, intercept=bound / 4 if intercept is None else intercept)


def default_clip(width: int) -> float:
    """Return the quantile of the norms at which rows of this many coordinates are clipped.

    Long rows decide how much noise all rows need. With many coordinates a row's length says little
    about its class, and clipping nine of ten costs no accuracy (bench/clipping.py); with few
    it says much.
    """
    return min(0.95, max(0.1, 5 / width))


def _with_map(plain: Pipeline, spec: str, summary: Summary) -> Pipeline:
    """Return the pipeline with a map, and its standardisation, fitted on the sample."""
    sample = np.hstack([plain.encoded(part) for part in summary.sample.to_batches()])
    feature_map = fit_map(spec, np.asarray(sample, dtype=np.float64))
    mapped = feature_map.apply(sample)
    mean, scale = mapped.mean(axis=1), mapped.std(axis=1)
    mean, scale = _rounded(mean, np.where(scale > 1e-9 * np.abs(mean), scale, 1.0))
    return replace(plain, mean=mean, scale=scale, map=feature_map)


def _rounded(mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 24-bit scales, and means on a grid of 2^-24 scales.

    The order in which rows were added up must not show in public parameters. A column that does
    not vary (scale 1) keeps its value, so that it becomes zero.
    """
    rounded = scale.astype(np.float32).astype(np.float64)
    grid = np.rint(mean / rounded * 2**24) / 2**24 * rounded
    return np.where(scale == 1.0, mean, grid), rounded


def _column(name: str, summary: Summary, declared: Mapping[str, Sequence[Any]]) -> Column:
    if name in declared:
        values = tuple(declared[name])
        if not values or len(set(values)) < len(values):
            raise ParameterError(f"the categories of column {name!r} must be different ones.")
        return Column(name, values)
    if name not in summary.counts:
        return Column(name)
    return Column(name, tuple(sorted(v for v in summary.counts[name] if v is not None)))


def _means(column: Column, summary: Summary) -> list[float]:
    if column.categories is None:
        return [summary.mean[column.name]]
    counts = summary.counts[column.name]
    total = sum(counts.values()) - counts.get(None, 0)
    return [counts.get(category, 0) / max(total, 1) for category in column.categories]


def _scales(column: Column, summary: Summary) -> list[float]:
    if column.categories is not None:
        spread = [math.sqrt(p * (1 - p)) for p in _means(column, summary)]
        return [max(value, _LEAST_CATEGORY_SCALE) for value in spread]
    deviation = summary.deviation[column.name]
    tiny = abs(summary.mean[column.name]) * 1e-9
    return [deviation if deviation > tiny else 1.0]  # a constant column becomes zero
