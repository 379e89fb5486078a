"""Pipeline parameters from one pass over public rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.summary import Summary
from suffice.errors import ParameterError, TableError
from suffice.kernels.maps import row_norms
from suffice.tables.columns import category_codes, temporal_unit
from suffice.tables.maps import MAPS, fit_map, most_outputs, weighted_moments
from suffice.tables.missing_rule import Missing, MissingRule
from suffice.tables.pipeline import Column, Pipeline

__all__ = ["default_clip", "fit_pipeline"]

# A rare category would otherwise become a number of the size 1/sqrt(frequency).
_LEAST_CATEGORY_SCALE = 0.1
# Of a mapped sample: beyond so many cells only its first rows are taken, which are as random.
_MOST_CELLS = 1 << 24
_LEAST_MAPPED = 1_000


def fit_pipeline(
    summary: Summary,
    names: Sequence[str],
    *,
    categories: Mapping[str, Sequence[Any]],
    missing: Missing,
    clip: float | None = None,
    intercept: float | None = None,
    map_spec: str | None = None,
    min_count: int = 1,
) -> Pipeline:
    """Return the pipeline of these public rows.

    Columns are centred and divided by their standard deviation; rows are clipped at the ``clip``
    quantile of their norms (of the summary's sample), `default_clip` unless given; the
    intercept weighs a quarter of that bound unless given. Categories are the declared ones, or all
    that ``min_count`` rows have, sorted; rarer ones become one other category. ``map_spec`` names a
    feature map, fitted on the same sample.
    """
    _check_settings(summary, names, missing, clip, min_count)
    columns = tuple(_column(name, summary, categories, min_count) for name in names)
    mean = np.array([value for column in columns for value in _means(column, summary)])
    scale = np.array([value for column in columns for value in _scales(column, summary)])
    fill = {"error": None, "mean": mean, "zero": np.zeros_like(mean)}[missing]
    wide = Pipeline(columns, missing, mean, scale, 2.0**300, 0.0, fill)
    weights = summary.sample.weights
    # Rows that differ in the sign of a zero are equal: which of them was kept must not show.
    sample = wide.encoded(summary.sample.rows).astype(np.float64) + 0.0
    if map_spec is not None:
        most = max(_LEAST_MAPPED, _MOST_CELLS // most_outputs(map_spec, len(sample)))
        sample, weights = np.ascontiguousarray(sample[:, :most]), weights[:most]
        wide, sample = _with_map(wide, map_spec, sample, weights)
    clip = default_clip(len(wide.outputs)) if clip is None else clip
    norms = row_norms(wide.finished(sample).T)
    quantile = np.quantile(norms, clip, weights=weights, method="inverted_cdf")
    bound = float(np.float32(quantile or norms.max())) or 1.0
    return replace(wide, bound=bound, intercept=bound / 4 if intercept is None else intercept)


def _check_settings(
    summary: Summary, names: Sequence[str], missing: Missing, clip: float | None, min_count: int
) -> None:
    """Raise if a setting is not valid, or values are missing and have no replacement."""
    if missing not in {*MissingRule}:
        raise ParameterError(f"missing must be one of {', '.join(MissingRule)}. It is {missing!r}.")
    if clip is not None and not 0 < clip <= 1:
        raise ParameterError(f"clip must be a quantile above 0 and at most 1. It is {clip!r}.")
    if missing == "error":
        for name in names:
            if summary.missing[name]:
                raise TableError(
                    f"Column {name!r} has {summary.missing[name]} missing values. Choose a"
                    " replacement with --missing mean or --missing zero (Python: missing=...), or"
                    " leave the column out with --drop (Python: drop=...)."
                )
    if min_count < 1:
        raise ParameterError(f"min_count must be at least 1. It is {min_count!r}.")


def default_clip(width: int) -> float:
    """Return the quantile of the norms at which rows of this many coordinates are clipped.

    Long rows decide how much noise all rows need. With many coordinates a row's length says little
    about its class, and clipping nine of ten costs no accuracy (bench/clipping.py); with few
    it says much.
    """
    return min(0.95, max(0.1, 5 / width))


def _with_map(
    pipeline: Pipeline, spec: str, sample: np.ndarray, weights: np.ndarray
) -> tuple[Pipeline, np.ndarray]:
    """Return the pipeline with a map, fitted on the sample, and the sample mapped by it."""
    feature_map = fit_map(spec, sample, weights)
    mapped = feature_map.apply(sample)
    mean, scale = weighted_moments(mapped, weights)
    if MAPS[feature_map.kind].keeps_lengths:
        scale = np.ones_like(scale)
    return replace(pipeline, mean=mean, scale=scale, map=feature_map), mapped


def _column(
    name: str, summary: Summary, declared: Mapping[str, Sequence[Any]], min_count: int
) -> Column:
    if name in declared:
        values = tuple(declared[name])
        if not values or len(set(values)) < len(values):
            raise ParameterError(
                f"The categories of column {name!r} must be a list without repetitions. List each"
                " category once."
            )
        _check_declared(name, values, summary)
        return Column(name, values)
    if name not in summary.counts:
        return Column(name, unit=temporal_unit(summary.sample.rows.schema.field(name).type))
    counts = {text: count for text, count in summary.counts[name].items() if text is not None}
    frequent = sorted(text for text, count in counts.items() if count >= min_count)
    return Column(name, tuple(frequent), other=len(frequent) < len(counts))


def _check_declared(name: str, values: tuple[Any, ...], summary: Summary) -> None:
    """Raise if public cells hold a category that was not declared; say how many."""
    cells = summary.counts[name]
    codes = category_codes(pa.array([cell for cell in cells if cell is not None]), values)
    counts = [count for cell, count in cells.items() if cell is not None]
    strange = sum(count for count, code in zip(counts, codes.tolist(), strict=True) if code == -2)
    if strange:
        raise TableError(
            f"Column {name!r}: {strange} cells hold a category that was not declared. List all"
            " categories with --categories (Python: categories=...)."
        )


def _means(column: Column, summary: Summary) -> list[float]:
    if column.categories is None:
        return [summary.mean[column.name]]
    counts = summary.counts[column.name]
    total = sum(counts.values()) - counts.get(None, 0)
    spelled = {str(value): count for value, count in counts.items() if value is not None}
    listed = [spelled.get(str(category), 0) for category in column.categories]
    others = [total - sum(listed)] if column.other else []
    return [count / max(total, 1) for count in [*listed, *others]]


def _scales(column: Column, summary: Summary) -> list[float]:
    if column.categories is not None:
        spread = [math.sqrt(p * (1 - p)) for p in _means(column, summary)]
        return [max(value, _LEAST_CATEGORY_SCALE) for value in spread]
    deviation = summary.deviation[column.name]
    tiny = abs(summary.mean[column.name]) * 1e-9
    return [deviation if deviation > tiny else 1.0]  # a constant column becomes zero
