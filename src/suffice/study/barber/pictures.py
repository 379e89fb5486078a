"""Digits as their owner sends them, and what protects them (Barber 2020, Figures 2 and 4)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.pages.plots import draw_panels
from suffice.pages.report import PageTable, paragraphs
from suffice.study.barber.digits import STATES, Digits, flipped, read_digits
from suffice.study.reproduction import Comparison, Figure, Result, Setting, Steps

__all__ = ["corrupt_digits"]

_FLIPS = (0.1, 0.2, 0.3, 0.4)
_VARIANCES = (0.1, 0.5)
_NAMES = ("seven", "nine")
_NOTES = """
We do not know which digits the paper shows. These are the first of each kind in a fixed order.

A changed pixel takes any other of the 256 possible values, all equally likely, as in Section 6 (the
caption of Figure 2 could mean any value at all). The paper does not give the scale of the variance
in Figure 4. Here pixels go from 0 to 1; values outside this range are drawn as black or white.

The table confirms what the pictures show: such noise hides little of one pixel (epsilon 6 and more)
and nothing of a picture. Epsilon of Gaussian noise is given at delta = 1e-6.
"""


def corrupt_digits(setting: Setting) -> Result:
    """Return a seven and a nine, clean and corrupted, and the epsilon of a pixel of theirs."""
    steps = Steps(setting.progress, len(_FLIPS) + len(_VARIANCES))
    digits = read_digits(setting.folder)
    shape = (digits.side, digits.side)
    rng = np.random.default_rng(0)
    clean = np.stack([digits.first(label) for label in (0, 1)])
    flips, added, compared = [clean / (STATES - 1)], [clean / (STATES - 1)], []
    for p in _FLIPS:
        steps.begin(f"p_f = {p:g}")
        codes = flipped(clean, p, rng, STATES)
        flips.append(codes / (STATES - 1))
        share, error = float(np.mean(codes != clean)), np.sqrt(p * (1 - p) / clean.size)
        compared.append(
            _agrees(f"proportion of pixels changed, p_f = {p:g}", p, share, float(error))
        )
    for variance in _VARIANCES:
        steps.begin(f"variance {variance:g}")
        noise = rng.normal(scale=np.sqrt(variance), size=clean.shape)
        added.append(clean / (STATES - 1) + noise)
        error = variance * np.sqrt(2 / clean.size)
        compared.append(
            _agrees("variance of the noise", variance, float(noise.var()), float(error))
        )
    guarantees = _guarantee_table(digits)
    return Result(
        (guarantees,),
        (
            _picture(
                "Figure 2: a seven and a nine with flipped pixels.", flips, "p_f = ", _FLIPS, shape
            ),
            _picture(
                "Figure 4: a seven and a nine with Gaussian noise.",
                added,
                "variance ",
                _VARIANCES,
                shape,
            ),
        ),
        paragraphs(_NOTES),
        {"promises": [list(row) for row in guarantees.rows]},
        compared=tuple(compared),
        compared_as="Noise as stated, and as drawn.",
    )


def _agrees(what: str, stated: float, measured: float, error: float) -> Comparison:
    """Return a measured frequency or variance beside what it should be, to four deviations."""
    near = abs(measured - stated) <= 4 * error
    return Comparison(what, stated, measured, "as stated" if near else "too far off")


def _guarantee_table(digits: Digits) -> PageTable:
    mechanisms = {
        f"p_f = {p:g}": RandomizedResponse(label_flip=0.2, states=range(STATES), feature_flip=p)
        for p in _FLIPS
    } | {
        f"variance {variance:g}": RandomizedResponse(
            label_flip=0.2, ranges=(0.0, 1.0), feature_noise=variance
        )
        for variance in _VARIANCES
    }
    rows = []
    for name, mechanism in mechanisms.items():
        _, pixel, picture = mechanism.guarantees(digits.names)
        rows.append((name, f"{pixel.epsilon:.3g}", f"{picture.epsilon:,.0f}"))
    columns = ("noise", "epsilon of one pixel", "epsilon of a picture and its label (flip .2)")
    return PageTable("Epsilon of one pixel, and of a picture.", columns, tuple(rows))


def _picture(
    caption: str,
    columns: Sequence[np.ndarray],
    unit: str,
    levels: Sequence[float],
    shape: tuple[int, int],
) -> Figure:
    names = ("clean", *(f"{unit}{level:g}" for level in levels))
    draw = partial(_draw_pictures, columns, names, shape)
    return Figure(caption, draw_panels(draw))


def _draw_pictures(
    columns: Sequence[np.ndarray], names: Sequence[str], shape: tuple[int, int], axes: Any
) -> None:
    """Draw one picture beside another: a row for each digit, a column for each noise."""
    gap = 2
    high, wide = (length + gap for length in shape)
    sheet = np.full((high * len(_NAMES) - gap, wide * len(columns) - gap), np.nan)
    for j, pair in enumerate(columns):
        for i, pixels in enumerate(pair):
            row, column = i * high, j * wide
            sheet[row : row + shape[0], column : column + shape[1]] = pixels.reshape(shape)
    axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.grid(visible=False)
    axes.set_xticks([j * wide + shape[1] / 2 for j in range(len(columns))], names)
    axes.set_yticks([i * high + shape[0] / 2 for i in range(len(_NAMES))], _NAMES)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(b=False)
