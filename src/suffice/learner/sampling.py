"""Rows of nobody: a synthetic table from released moments of ranks, by a Gaussian copula.

Every column follows the public quantiles that the release holds; how two columns go together comes
from the noisy moments. Labels are drawn from the model of the same release. All of it is computed
from the release, so the guarantee is that of the release. Tails beyond the public quantiles,
interactions of three columns and rare categories are lost.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.polynomial.hermite_e import hermegauss, hermevander
from scipy.special import gammaln, ndtr, ndtri

from suffice.errors import ParameterError
from suffice.learner.moments import (
    MomentClassifier,
    MomentNumbers,
    MomentRegressor,
    cleaned,
    moments_of,
)
from suffice.releases.release import Release
from suffice.tables.pipeline import mid_ranks


def sample(release: Release, rows: int, random_state: int = 0) -> pa.Table:
    """Return synthetic rows with labels, or targets, that follow a release of moments of ranks.

    They are no people. A classifier that is fitted to the release itself (`suffice.fit`) is not
    expected to be worse than one that is trained on these rows.

    Parameters
    ----------
    release : Release
        A release of moments with the map ``ranks``.
    rows : int
        The number of synthetic rows, for example 20000.
    random_state : int, default=0
        Seed of the draws: the same release and seed give the same rows.

    Returns
    -------
    pyarrow.Table
        The columns of the release and its label or target. The metadata of the table say that it
        is synthetic, and state the guarantees of the release.

    Raises
    ------
    ParameterError
        If the release holds no moments of ranks, or ``rows`` is not positive.
    """
    pipeline = replace(release.pipeline, intercept=0.0)
    if (
        "second_moments" not in release.arrays
        or pipeline.map is None
        or (pipeline.map.kind != "ranks")
    ):
        raise ParameterError(
            "Rows can be sampled from moments of ranks only. Ask the owner for a release with"
            " suffice release moments --map ranks --standardize FILE."
        )
    if rows < 1:
        raise ParameterError(f"The number of rows must be positive; got {rows!r}.")
    rng = np.random.default_rng(random_state)  # of a simulation: never part of a release
    arrays = pipeline.map.arrays
    correlations = copula(release, arrays["grid"])
    latent = rng.multivariate_normal(
        np.zeros(len(correlations)), correlations, rows, method="eigh"
    ).T
    cells = zip(arrays["grid"], arrays["centre"], arrays["spread"], strict=True)
    grid = np.array([public_values(*column) for column in cells])
    columns, start = {}, 0
    for column in pipeline.columns:
        places = slice(start, start := start + len(column.outputs))
        if column.categories is None:
            level = ndtr(latent[start - 1])
            quantiles = grid[start - 1]
            columns[column.name] = pa.array(quantiles[(level * len(quantiles)).astype(int)])
            continue
        # The category whose number exceeds by most what as many people as have it would exceed.
        shares = np.clip((grid[places] > 0.5).mean(axis=1), 1e-3, 1 - 1e-3)
        best = (latent[places] + ndtri(shares)[:, None]).argmax(axis=0)
        columns[column.name] = pa.array([column.categories[k] for k in best])
    table = pa.table(columns)
    about = {
        "synthetic": True,
        "rows are": "drawn from a noisy summary. They are no people.",
        "guarantees": [str(guarantee) for guarantee in release.guarantees],
    }
    named, cells = drawn_labels(release, table, rng)
    table = table.append_column(named, pa.array(cells))
    return table.replace_schema_metadata({"suffice": json.dumps(about)})


def public_values(grid: np.ndarray, centre: float, spread: float) -> np.ndarray:
    """Return the public values whose centred ones are in the grid, as they were written.

    Values that occur often must be met exactly, or their ranks are others.
    """
    values, short = grid * spread + centre, np.zeros(len(grid), dtype=bool)
    for digits in range(4, 17):
        rounded = np.array([float(f"{value:.{digits}g}") for value in values])
        met = ~short & ((rounded - centre) / spread == grid)
        values[met], short = rounded[met], short | met
    return values


def drawn_labels(release: Release, table: pa.Table, rng: np.random.Generator) -> tuple[str, Any]:
    """Return the name of the label or target, and draws of it from the model of the release."""
    if "target" in release.details:
        model = MomentRegressor().fit_release(release)
        target, low, high = (release.details[name] for name in ("target", "low", "high"))
        predicted = model.predict(table)
        variance = max(float(moments_of(release).covariance[-1, -1]), 0.0) * ((high - low) / 2) ** 2
        left = max(variance - float(predicted.var()), 0.0)
        drawn = predicted + rng.normal(size=len(predicted)) * np.sqrt(left)
        return target, np.clip(drawn, low, high)
    classifier = MomentClassifier().fit_release(release)
    ends = classifier.predict_proba(table).cumsum(axis=1)
    codes = (rng.random((len(ends), 1)) > ends[:, :-1]).sum(axis=1)
    taken = "label" if "label" not in table.column_names else "label of the release"
    return taken, classifier.classes_[codes]


def copula(release: Release, grid: np.ndarray) -> np.ndarray:
    """Return the correlations of Gaussian numbers whose ranks correlate as those of the release.

    A column is a function g of a Gaussian number x: the rank of its public quantile at the level of
    x. With its Hermite coefficients c, two columns correlate by sum_k c_k d_k r^k where their
    numbers correlate by r (NORTA, Cario & Nelson 1997). Each r is found on a grid of it; then
    negative eigenvalues become zero.
    """
    observed = clean_correlations(release)
    nodes, weights = hermegauss(200)
    levels = np.minimum((ndtr(nodes) * grid.shape[1]).astype(int), grid.shape[1] - 1)
    values, ranks = grid[:, levels], np.empty((len(grid), len(nodes)))
    mid_ranks(grid, values, ranks)
    weights = weights / weights.sum()
    ranks -= (ranks @ weights)[:, None]
    ranks /= np.maximum(np.sqrt(ranks**2 @ weights), 1e-12)[:, None]
    degrees = np.arange(1, 31)
    basis = hermevander(nodes, 30)[:, 1:] / np.exp(gammaln(degrees + 1) / 2)
    coefficients = (ranks * weights) @ basis
    steps = np.linspace(-1, 1, 401)
    powers = steps[:, None] ** degrees
    found = np.eye(len(grid))
    for i in range(len(grid)):
        for j in range(i):
            reached = powers @ (coefficients[i] * coefficients[j])
            found[i, j] = found[j, i] = steps[np.abs(reached - observed[i, j]).argmin()]
    values, vectors = np.linalg.eigh(found)
    whole = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.sqrt(np.maximum(np.diag(whole), 1e-12))
    return np.asarray(whole / np.outer(size, size))


def clean_correlations(release: Release) -> np.ndarray:
    """Return the correlations of coordinates, freed of noise as `MomentClassifier` does it."""
    moments, width = moments_of(release), len(release.arrays["mean"])
    half = np.array([0.5, 0.5])
    clean = cleaned(
        MomentNumbers(
            moments.second[:width, :width], moments.mean[:width], np.zeros((width, 1)), half,
            float(moments.second_noise[0, 0]), float(moments.mean_noise[0]), 0.0, 0.0, moments.rows,
        )
    )  # fmt: skip
    covariance = (clean.vectors * clean.variances) @ clean.vectors.T
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    return np.asarray(np.clip(covariance / np.outer(size, size), -1.0, 1.0))
