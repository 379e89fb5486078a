"""Learning from reconstructed data is not consistent (Barber 2020, Figure 1)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import xlogy

from suffice.pages.plots import draw_panels
from suffice.pages.report import PageTable, paragraphs
from suffice.study.reproduction import Comparison, Figure, Result, Setting, Steps

__all__ = ["compare_maximisers", "likelihood_limit", "reconstruction_limit"]

Curve = Mapping[str, Sequence[float | None]]  # over the true thetas

_PF = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
_GRID = np.linspace(0, 1, 1001)[1:-1]  # theta, short of the ends, where every J is zero
_TRUTHS = np.linspace(0.02, 0.98, 49)
_NOTES = """
The paper prints a figure without numbers, and our copy (text only) has its caption. The flip
probabilities are ours. The paper's statement holds: the line is straight only without noise.

It is worse than the paper says. At theta = 0 and at theta = 1 the model is certain and reconstructs
what it believes. Then J is zero, its largest value, whatever theta_0 is. So with any noise the
maximum is at an end. The plot shows the best theta from .001 to .999, which is the end on the side
of theta_0. A maximum inside (circles) is only a local one. It exists only near theta_0 = 1/2, and
nowhere for p_f of .15 or more.

Both limits are computed exactly (eq. 38, and eq. 30 for the spread likelihood), not simulated.
"""


def reconstruction_limit(theta: np.ndarray, true: float, p: float) -> np.ndarray:
    """Return J of endless data (eq. 38) for a binary variable that is one with ``true``.

    J(theta) = sum_x~ p(x~) sum_x p_theta(x | x~) log p_theta(x), flips of probability ``p``.
    """
    ones = np.array([p * (1 - true) + (1 - p) * true])  # p(x~ = 1)
    with np.errstate(invalid="ignore"):  # p = 0 at an end: an answer that cannot be
        if_one = (1 - p) * theta / ((1 - p) * theta + p * (1 - theta))  # eq. 37
        if_zero = p * theta / (p * theta + (1 - p) * (1 - theta))
    share = ones * np.nan_to_num(if_one) + (1 - ones) * np.nan_to_num(if_zero)
    return np.asarray(xlogy(share, theta) + xlogy(1 - share, 1 - theta))


def likelihood_limit(theta: np.ndarray, true: float, p: float) -> np.ndarray:
    """Return the spread log likelihood of endless data (eq. 30) for the same variable."""
    ones, modelled = (p * (1 - share) + (1 - p) * share for share in (true, theta))
    return np.asarray(xlogy(ones, modelled) + xlogy(1 - ones, 1 - modelled))


def compare_maximisers(setting: Setting) -> Result:
    """Return the theta that maximises J against the true one, for each flip probability."""
    steps = Steps(setting.progress, len(_PF))
    curves = {}
    for p in _PF:
        steps.begin(f"p_f = {p:g}")
        curves[p] = _maximisers(p)
    figure = draw_panels(*(partial(_draw_maximisers, p, curve) for p, curve in curves.items()))
    caption = (
        "Estimated theta against the true one: the maximum of the reconstruction objective (dots),"
        " a local maximum of it (circles), and the maximum of the spread likelihood (line)."
    )
    return Result(
        (_local_table(curves),),
        (Figure(caption, figure),),
        paragraphs(_NOTES),
        {
            "true": _TRUTHS.tolist(),
            "curves": {f"{p:g}": curve for p, curve in curves.items()},
        },
        compared=tuple(_straightness(p, curve) for p, curve in curves.items()),
        compared_as="How far the maximum of J is from the truth, at most.",
    )


def _maximisers(p: float) -> Curve:
    """Return, for each true theta, what either objective finds, and J's best inner maximum."""
    largest, inner, spread = [], [], []
    for true in _TRUTHS:
        values = reconstruction_limit(_GRID, true, p)
        middle = values[1:-1]
        peaks = 1 + np.flatnonzero((middle > values[:-2]) & (middle > values[2:]))
        largest.append(float(_GRID[values.argmax()]))
        inner.append(float(_GRID[peaks[values[peaks].argmax()]]) if len(peaks) else None)
        spread.append(float(_GRID[likelihood_limit(_GRID, true, p).argmax()]))
    return {"reconstruction": largest, "inner": inner, "spread": spread}


def _furthest(estimates: Sequence[float | None]) -> float:
    return max(
        (
            abs(theta - true)
            for theta, true in zip(estimates, _TRUTHS, strict=True)
            if theta is not None
        ),
        default=0.0,
    )


def _straightness(p: float, curve: Curve) -> Comparison:
    away = _furthest(curve["reconstruction"])
    straight = away < 1e-9
    verdict = "straight" if straight else "not straight"
    agreement = "as the paper says" if straight == (p == 0) else "against the paper"
    return Comparison(f"p_f = {p:g}", 0.0 if p == 0 else None, away, f"{verdict}, {agreement}")


def _local_table(curves: Mapping[float, Curve]) -> PageTable:
    rows = []
    for p, curve in curves.items():
        peaks = [t for t, theta in zip(_TRUTHS, curve["inner"], strict=True) if theta is not None]
        where = f"{min(peaks):.2f} to {max(peaks):.2f}" if peaks else "nowhere"
        off = f"{_furthest(curve['inner']):.3f}" if peaks else "-"
        rows.append((f"{p:g}", where, off, f"{_furthest(curve['spread']):.3f}"))
    columns = (
        "p_f",
        "theta_0 with a maximum inside",
        "error at most",
        "error of the spread likelihood",
    )
    return PageTable(
        "Where J has a maximum inside, and how far the estimates are from the truth.",
        columns,
        tuple(rows),
    )


def _draw_maximisers(p: float, curve: Curve, axes: Any) -> None:
    axes.plot(_TRUTHS, curve["spread"], color="black", linewidth=1, label="spread likelihood")
    axes.plot(_TRUTHS, curve["reconstruction"], "C3.", label="reconstruction")
    inner = [np.nan if theta is None else theta for theta in curve["inner"]]
    axes.plot(_TRUTHS, inner, "C0o", fillstyle="none", markersize=4, label="maximum inside")
    axes.set(title=f"p_f = {p:g}", xlabel="true theta", ylabel="estimated theta")
