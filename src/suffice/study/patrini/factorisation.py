"""Losses as an even part, which needs no label, and an odd part (Patrini et al. 2016, Figure 1)."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from suffice.models.losses import LOSSES, Function, odd_line, rho_loss
from suffice.pages.plots import draw_panels
from suffice.pages.report import PageTable, paragraphs
from suffice.study.reproduction import Comparison, Figure, Result, Setting, Steps

__all__ = ["measure_odd_parts"]

# Table 1 of the paper as printed, and the hinge loss, which its text holds against them. Written
# out anew: our own losses are an even part plus a line by construction and would prove nothing.
_RHO = 0.5
_PRINTED: Mapping[str, Function] = MappingProxyType(
    {
        "logistic": lambda z: np.log(1 + np.exp(-z)),
        "square": lambda z: (1 - z) ** 2,
        "matsushita": lambda z: np.sqrt(1 + z**2) - z,
        "linear": lambda z: -z,
        "rho": lambda z: _RHO * np.abs(z) - _RHO * z + 1,
        "hinge": lambda z: np.maximum(0, 1 - z),
    }
)
_OURS = {**LOSSES, "rho": rho_loss(_RHO)}
_MARGINS = np.linspace(-3, 3, 601)
_LINE = 1e-9  # what rounding leaves of a line
_NOTES = f"""
These are all losses in Table 1 of the paper, the rho-loss at rho = {_RHO:g}, and the hinge loss,
which the text names as one that does not factor. Our copy of the paper is text only, so we do not
know which of them Figure 1 shows.

We evaluate the losses as printed and measure their odd parts. The last column compares the even
part with the one that our learner minimises.

The rho-loss factors, but theta = 0 minimises it for any labels: our learner refuses it.
"""


def measure_odd_parts(setting: Setting) -> Result:
    """Return each printed loss as even part plus odd part, and how straight the odd part is."""
    losses, steps = {}, Steps(setting.progress, len(_PRINTED))
    for name, loss in _PRINTED.items():
        steps.begin(name)
        losses[name] = _factors(name, loss)
    columns = ("loss", "a", "distance of the odd part from a line", "difference of our even part")
    title = "How well f(z) - f(-z) = -a z holds, for margins z up to 40."
    rows = tuple((name, *_cells(factors)) for name, factors in losses.items())
    figure = draw_panels(*(partial(_draw_parts, name) for name in _PRINTED))
    caption = (
        "Each loss (solid line) is the sum of its even part, which needs no label, and its odd"
        " part. Only the odd part of the hinge loss is not a line."
    )
    return Result(
        (PageTable(title, columns, rows),),
        (Figure(caption, figure),),
        paragraphs(_NOTES),
        {"losses": losses},
        compared=tuple(_straight(name, factors) for name, factors in losses.items()),
        compared_as="How far the odd part is from a line, at most.",
    )


def _straight(name: str, factors: Mapping[str, float | None]) -> Comparison:
    """Return whether the odd part is a line for the losses of Table 1, and not for the hinge."""
    away, listed = float(factors["odd_deviation"] or 0.0), name in _OURS
    right = (away < _LINE) == listed
    return Comparison(
        name, 0.0 if listed else None, away, "as printed" if right else "against the paper"
    )


def _factors(name: str, loss: Function) -> dict[str, float | None]:
    """Return a of the nearest line, how far the odd part is from it, and our even part's error."""
    a, gap = odd_line(loss)
    even = (loss(_MARGINS) + loss(-_MARGINS)) / 2
    known_loss = _OURS.get(name)
    differs = None if known_loss is None else float(np.abs(even - known_loss.even(_MARGINS)).max())
    return {"a": a, "odd_deviation": gap / 2, "even_difference": differs}


def _cells(factors: Mapping[str, float | None]) -> tuple[str, str, str]:
    refused = factors["even_difference"] is None
    return (
        f"none (nearest line: {factors['a']:.3g})" if refused else f"{factors['a']:g}",
        f"{factors['odd_deviation']:.1g}",
        "refused" if refused else f"{factors['even_difference']:.1g}",
    )


def _draw_parts(name: str, axes: Any) -> None:
    loss = _PRINTED[name]
    values, mirrored = loss(_MARGINS), loss(-_MARGINS)
    axes.plot(_MARGINS, values, color="black", linewidth=2, label="loss f(z)")
    axes.plot(_MARGINS, (values + mirrored) / 2, color="C0", linestyle="--", label="even part")
    axes.plot(_MARGINS, (values - mirrored) / 2, color="C3", linestyle="-.", label="odd part")
    axes.axvline(0, color="grey", linewidth=0.6)
    fails = name not in _OURS
    title = f"{name}: the odd part is not a line" if fails else name
    axes.set(title=title, xlabel="margin z", ylabel="value", ylim=(-3.2, 4.6))
