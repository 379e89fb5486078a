"""Figures about the mean operator (Patrini, Nielsen & Nock 2016)."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from suffice.learner.losses import LOSSES, Function, odd_line, rho_loss
from suffice.owner.mean_operator import MECHANISMS
from suffice.pages.curves import draw_utility
from suffice.pages.report import Table, figure_svg, paragraphs, spread
from suffice.study.comparison import Comparison
from suffice.study.data_sets import SETS, split
from suffice.study.patrini.label_privacy import DELTA, private_accuracy, without_noise
from suffice.study.reproduction import Figure, Reproduction, Result, Setting, Steps

__all__ = ["ENTRIES", "factorisation", "label_privacy"]

_PAPER = "Patrini, Nielsen & Nock 2016"

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

_EPSILONS = (0.03, 0.1, 0.5, 2.0)
_WAYS = ("auto", *MECHANISMS)

_PARTS_NOTES = f"""
Here are all losses that Table 1 of the paper names, the rho-loss at rho = {_RHO:g}, and the hinge,
which its text names as one that does not factor. Which of them Figure 1 drew, our copy of the paper
(text alone) does not show.

The losses are evaluated as printed and their odd parts measured; the last column compares the even
part that is left with the one that our learner minimises.

The rho-loss factors, but theta = 0 minimises it for any labels: our learner refuses it.
"""
_PRIVACY_NOTES = f"""
The paper has no experiments. It proposes Laplace noise on the mean operator (Section 4) and bounds
its error; data sets, epsilons and everything measured here are ours.

Of the mechanisms only laplace is the paper's, and it is calibrated to the 1-norm, which the proof
of Theorem 9 needs (docs/errata.md). gaussian, knorm, response, auto, whitened noise, the projection
and a penalty chosen from the release alone are ours.

gaussian promises epsilon at delta = {DELTA:g}, and auto may take it; the others are pure.

Without privacy: the same learner on exact labels, its penalty by five-fold cross-validation.

Each seed is another split, or order, of the rows. The noise itself is drawn afresh from the
operating system, so figures move a little from run to run.
"""
_LINE = 1e-9  # what rounding leaves of a line
_ONE_SEED = "One seed shows luck as well as skill: ask for more with --seeds."


def factorisation(setting: Setting) -> Result:
    """Return each printed loss as even part plus odd part, and how straight the odd part is."""
    found, steps = {}, Steps(setting.progress, len(_PRINTED))
    for name, loss in _PRINTED.items():
        steps.begin(name)
        found[name] = _factors(name, loss)
    columns = ("loss", "a", "odd part leaves its line by", "our even part differs by")
    title = "f(z) - f(-z) = -a z, looked at for margins z up to 40"
    rows = tuple((name, *_cells(factors)) for name, factors in found.items())
    figure = figure_svg(*(partial(_draw_parts, name) for name in _PRINTED))
    caption = (
        "Each loss (black) is the sum of its even part, which needs no label, and its odd part. "
        "Only the hinge's odd part is no line."
    )
    return Result(
        (Table(title, columns, rows),),
        (Figure(caption, figure),),
        paragraphs(_PARTS_NOTES),
        {"losses": found},
        compared=tuple(_straight(name, factors) for name, factors in found.items()),
        compared_as="How far the odd part is from a line, at most",
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
    ours = _OURS.get(name)
    differs = None if ours is None else float(np.abs(even - ours.even(_MARGINS)).max())
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
    here, mirrored = loss(_MARGINS), loss(-_MARGINS)
    axes.plot(_MARGINS, here, color="black", linewidth=2, label="loss f(z)")
    axes.plot(_MARGINS, (here + mirrored) / 2, color="C0", linestyle="--", label="even part")
    axes.plot(_MARGINS, (here - mirrored) / 2, color="C3", linestyle="-.", label="odd part")
    axes.axvline(0, color="grey", linewidth=0.6)
    fails = name not in _OURS
    title = f"{name}: the odd part is no line" if fails else name
    axes.set(title=title, xlabel="margin z", ylabel="value", ylim=(-3.2, 4.6))


def label_privacy(setting: Setting) -> Result:
    """Return test accuracy against epsilon, for every mechanism, on every data set."""
    releases = len(_WAYS) * len(_EPSILONS)
    steps = Steps(setting.progress, len(setting.sets) * setting.seeds * (1 + releases))
    measured = {name: _measure_set(name, setting, steps) for name in setting.sets}
    repeats = "one split" if setting.seeds == 1 else f"mean and range of {setting.seeds} splits"
    figure = figure_svg(*(partial(_draw_set, name, found) for name, found in measured.items()))
    caption = (
        "Test accuracy against the privacy loss of each label. auto takes the mechanism that the"
        f" public rows predict to be best. {repeats.capitalize()}."
    )
    values = {"epsilons": list(_EPSILONS), "delta": DELTA, "seeds": setting.seeds}
    return Result(
        tuple(_utility_table(name, found, repeats) for name, found in measured.items()),
        (Figure(caption, figure),),
        paragraphs(_PRIVACY_NOTES) + ((_ONE_SEED,) if setting.seeds == 1 else ()),
        {**values, "sets": measured},
    )


def _measure_set(name: str, setting: Setting, steps: Steps) -> dict[str, Any]:
    """Return every run on one data set: lists over epsilon of lists over seeds."""
    rows, plain, majority = [], [], []
    curves: dict[str, list[list[float]]] = {way: [[] for _ in _EPSILONS] for way in _WAYS}
    chosen: list[list[str]] = [[] for _ in _EPSILONS]
    for seed in range(setting.seeds):
        data = split(name, seed, setting.folder)
        steps.begin(f"{name}, without privacy")
        plain.append(without_noise(data))
        majority.append(data.majority)
        rows.append(len(data.labels))
        for i, epsilon in enumerate(_EPSILONS):
            for way in _WAYS:
                steps.begin(f"{name}, {way}, epsilon {epsilon:g}")
                accuracy, used = private_accuracy(data, epsilon, way)
                curves[way][i].append(accuracy)
                if way == "auto":
                    chosen[i].append(used)
    return {
        "rows": rows,
        "without_privacy": plain,
        "larger_class": majority,
        "accuracies": curves,
        "auto_took": chosen,
    }


def _draw_set(name: str, found: Mapping[str, Any], axes: Any) -> None:
    draw_utility(
        axes,
        _EPSILONS,
        found["accuracies"],
        plain=float(np.mean(found["without_privacy"])),
        majority=float(np.mean(found["larger_class"])),
    )
    axes.set(title=f"{name} ({np.mean(found['rows']):,.0f} rows)")


def _utility_table(name: str, found: Mapping[str, Any], repeats: str) -> Table:
    title = (
        f"{name}: test accuracy, {repeats}; without privacy {spread(found['without_privacy'])},"
        f" larger class {spread(found['larger_class'])}"
    )
    rows = [
        (way, *(spread(runs) for runs in found["accuracies"][way])) for way in found["accuracies"]
    ]
    took = ("auto took", *(", ".join(sorted(set(names))) for names in found["auto_took"]))
    columns = ("mechanism", *(f"epsilon {epsilon:g}" for epsilon in _EPSILONS))
    return Table(title, columns, (*rows, took))


_SHOWN = ("spambase", "magic", "adult", "mnist-7v9", "uci-har")

ENTRIES = (
    Reproduction(
        "factorisation",
        "Losses as an even and an odd part",
        f"{_PAPER}, Figure 1 and Table 1",
        factorisation,
        repeats=False,
    ),
    Reproduction(
        "label-privacy",
        "What label privacy costs in accuracy",
        f"{_PAPER}, Section 4 (no figure of the paper: it has no experiments)",
        label_privacy,
        files={name: SETS[name].file for name in _SHOWN},
        uncompared="the paper has no experiments",
    ),
)
