"""Examples and pictures of randomised response (Barber 2020): votes, reconstruction, digits."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from suffice.learner.frequencies import estimate_frequencies
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.pages.report import Table, figure_svg, paragraphs
from suffice.release.spread import Flips
from suffice.study.barber.digits import STATES, Digits, flipped, read_digits
from suffice.study.comparison import Comparison
from suffice.study.data_sets import SETS
from suffice.study.reproduction import Figure, Reproduction, Result, Setting, Steps

__all__ = [
    "ENTRIES",
    "likelihood_limit",
    "pictures",
    "reconstruction",
    "reconstruction_limit",
    "voting",
]

Curve = Mapping[str, Sequence[float | None]]  # over the true thetas

_PAPER = "Barber 2020"

_VOTES, _SHARE = 1_000_000, 0.3
_ELECTIONS = {  # P_ij = P[answer i | vote j]
    "eq. 2: both lie with p = .2": Flips(2, keep=0.8),
    "eq. 24: P10 = .1, P01 = .3": Flips(2, table=((0.9, 0.3), (0.1, 0.7))),
}
_VOTING_NOTES = f"""
The paper gives no numbers here: {_VOTES:,} votes, a share of {_SHARE} and the flips are ours.

Equations 2 and 24 are wrong in print, a plus for a minus (docs/errata.md). The judge is equation
22, the likelihood that both are said to maximise: our estimate is where it is largest, the printed
one is not. The printed one can even leave [0, 1] for answers that any election can give.
"""

_PF = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
_GRID = np.linspace(0, 1, 1001)[1:-1]  # theta, short of the ends, where every J is zero
_TRUTHS = np.linspace(0.02, 0.98, 49)
_RECONSTRUCTION_NOTES = """
The paper prints a figure without numbers, of which our copy (text alone) has the caption; the flip
probabilities here are ours. Its sentence holds: the line is straight without noise only.

It is worse than the paper says. At theta = 0 and at theta = 1 the model is sure, reconstructs what
it believes, and J is zero, its largest value, whatever theta_0 is. So with any noise at all the
maximum is at an end; drawn is the best theta from .001 to .999, which is the end on the side of
theta_0. A maximum inside (circles) is only a local one, exists near theta_0 = 1/2 alone, and not at
all from p_f = .15 on.

Both limits are computed exactly (eq. 38, and eq. 30 for the spread likelihood), not simulated.
"""

_FLIPS = (0.1, 0.2, 0.3, 0.4)
_VARIANCES = (0.1, 0.5)
_NAMES = ("seven", "nine")
_PICTURE_NOTES = """
Which digits the paper shows is not known; these are the first of each kind in a fixed order.

A changed pixel takes any other of the 256 states, evenly, as Section 6 has it (the caption of
Figure 2 could be read as any state at all). The paper does not say on which scale the variance of
Figure 4 is meant; here pixels go from 0 to 1, and what noise leaves that range is drawn as black or
white.

What the eye sees, the second table says: such noise hides little of one pixel (epsilon 6 and more)
and nothing of a picture. Epsilon of Gaussian noise is read at delta = 1e-6.
"""


def voting(setting: Setting) -> Result:
    """Return the share of yes votes from randomised ones: as printed, and as it should be."""
    steps = Steps(setting.progress, len(_ELECTIONS))
    rng = np.random.default_rng(0)
    found = []
    for name, noise in _ELECTIONS.items():
        steps.begin(name)
        found.append(_election(name, noise, rng))
    caption = (
        "The estimate that is expected, against the true share, when both sides lie with p = .2."
        " Only the corrected one is on the diagonal."
    )
    return Result(
        (),
        (Figure(caption, figure_svg(_draw_votes)),),
        paragraphs(_VOTING_NOTES),
        {"votes": _VOTES, "share": _SHARE},
        compared=tuple(found),
        compared_as=f"{_VOTES:,} votes, true share {_SHARE}",
    )


def _election(name: str, noise: Flips, rng: np.random.Generator) -> Comparison:
    votes = (rng.random(_VOTES) < _SHARE).astype(int)
    answers = (rng.random(_VOTES) < noise.matrix[1, votes]).astype(int)
    seen = float(answers.mean())
    printed = float(_solved(seen, noise, 1))
    ours = estimate_frequencies(answers, noise)
    share = float(ours.shares[1])
    peak = minimize_scalar(
        lambda theta: -_vote_likelihood(theta, seen, noise), bounds=(0, 1), method="bounded"
    ).x
    judged = ["wrong" if abs(value - peak) > 1e-3 else "right" for value in (printed, share)]
    inside = "holds" if ours.low[1] <= _SHARE <= ours.high[1] else "misses"
    interval = f"{ours.low[1]:.4f} to {ours.high[1]:.4f} {inside} the truth"
    return Comparison(
        name, printed, share, f"by eq. 22: print {judged[0]}, ours {judged[1]}; {interval}", 5
    )


def _solved(seen: Any, noise: Flips, sign: int) -> Any:
    """Return (f~ + sign P10) / (1 - P10 - P01): printed with +1 (eq. 2, 24), right with -1."""
    lie_of_no, lie_of_yes = noise.matrix[1, 0], noise.matrix[0, 1]
    return (seen + sign * lie_of_no) / (1 - lie_of_no - lie_of_yes)


def _vote_likelihood(theta: float, seen: float, noise: Flips) -> float:
    """Return the spread log likelihood of theta when a share ``seen`` answered yes (eq. 22)."""
    no, yes = noise.matrix @ np.array([1 - theta, theta])
    return float(xlogy(1 - seen, no) + xlogy(seen, yes))


def _draw_votes(axes: Any) -> None:
    noise = next(iter(_ELECTIONS.values()))
    true = np.linspace(0, 1, 101)
    seen = noise.matrix[1, 0] * (1 - true) + noise.matrix[1, 1] * true
    axes.plot(true, _solved(seen, noise, 1), color="C3", linestyle="--", label="as printed")
    axes.plot(true, seen, color="grey", linestyle=":", label="answers as they are")
    axes.plot(true, _solved(seen, noise, -1), color="black", label="corrected")
    axes.set(xlabel="true share", ylabel="estimate")


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


def reconstruction(setting: Setting) -> Result:
    """Return the theta that maximises J against the true one, for each flip probability."""
    steps = Steps(setting.progress, len(_PF))
    curves = {}
    for p in _PF:
        steps.begin(f"p_f = {p:g}")
        curves[p] = _maximisers(p)
    found = [_straightness(p, curve) for p, curve in curves.items()]
    figure = figure_svg(*(partial(_draw_maximisers, p, curve) for p, curve in curves.items()))
    caption = (
        "The theta that maximises the reconstruction objective (dots; circles: a local maximum"
        " inside) and the spread likelihood (line), against the true one."
    )
    return Result(
        (_local_table(curves),),
        (Figure(caption, figure),),
        paragraphs(_RECONSTRUCTION_NOTES),
        {
            "true": _TRUTHS.tolist(),
            "curves": {f"{p:g}": curve for p, curve in curves.items()},
        },
        compared=tuple(found),
        compared_as="How far the largest J is from the truth, at most",
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


def _furthest(found: Sequence[float | None]) -> float:
    return max(
        (abs(one - true) for one, true in zip(found, _TRUTHS, strict=True) if one is not None),
        default=0.0,
    )


def _straightness(p: float, curve: Curve) -> Comparison:
    away = _furthest(curve["reconstruction"])
    straight = away < 1e-9
    verdict = "straight" if straight else "not straight"
    said = "as the paper says" if straight == (p == 0) else "against the paper"
    return Comparison(f"p_f = {p:g}", 0.0 if p == 0 else None, away, f"{verdict}, {said}")


def _local_table(curves: Mapping[float, Curve]) -> Table:
    rows = []
    for p, curve in curves.items():
        kept = [t for t, one in zip(_TRUTHS, curve["inner"], strict=True) if one is not None]
        where = f"{min(kept):.2f} to {max(kept):.2f}" if kept else "nowhere"
        off = f"{_furthest(curve['inner']):.3f}" if kept else "-"
        rows.append((f"{p:g}", where, off, f"{_furthest(curve['spread']):.3f}"))
    columns = ("p_f", "J has a maximum inside for theta_0", "off by at most", "spread likelihood")
    return Table("Maxima inside, and the spread likelihood", columns, tuple(rows))


def _draw_maximisers(p: float, curve: Curve, axes: Any) -> None:
    axes.plot(_TRUTHS, curve["spread"], color="black", linewidth=1, label="spread likelihood")
    axes.plot(_TRUTHS, curve["reconstruction"], "C3.", label="reconstruction")
    inner = [np.nan if one is None else one for one in curve["inner"]]
    axes.plot(_TRUTHS, inner, "C0o", fillstyle="none", markersize=4, label="maximum inside")
    axes.set(title=f"p_f = {p:g}", xlabel="true theta", ylabel="theta found")


def pictures(setting: Setting) -> Result:
    """Return a seven and a nine, clean and corrupted, and what each cell of them is promised."""
    steps = Steps(setting.progress, len(_FLIPS) + len(_VARIANCES))
    digits = read_digits(setting.folder)
    shape = (digits.side, digits.side)
    rng = np.random.default_rng(0)
    clean = np.stack([digits.first(label) for label in (0, 1)])
    flips, added, found = [clean / (STATES - 1)], [clean / (STATES - 1)], []
    for p in _FLIPS:
        steps.begin(f"p_f = {p:g}")
        codes = flipped(clean, p, rng, STATES)
        flips.append(codes / (STATES - 1))
        share, error = float(np.mean(codes != clean)), np.sqrt(p * (1 - p) / clean.size)
        found.append(_agrees(f"share of pixels changed, p_f = {p:g}", p, share, float(error)))
    for variance in _VARIANCES:
        steps.begin(f"variance {variance:g}")
        noise = rng.normal(scale=np.sqrt(variance), size=clean.shape)
        added.append(clean / (STATES - 1) + noise)
        error = variance * np.sqrt(2 / clean.size)
        found.append(_agrees("variance of the noise", variance, float(noise.var()), float(error)))
    promises = _promises(digits)
    return Result(
        (promises,),
        (
            _picture("Figure 2: flipped pixels.", flips, "p_f = ", _FLIPS, shape),
            _picture("Figure 4: Gaussian noise.", added, "variance ", _VARIANCES, shape),
        ),
        paragraphs(_PICTURE_NOTES),
        {"promises": [list(row) for row in promises.rows]},
        compared=tuple(found),
        compared_as="What was drawn",
    )


def _agrees(what: str, said: float, measured: float, error: float) -> Comparison:
    """Return a measured frequency or variance beside what it should be, to four deviations."""
    near = abs(measured - said) <= 4 * error
    return Comparison(what, said, measured, "as it should be" if near else "too far off")


def _promises(digits: Digits) -> Table:
    ways: list[tuple[str, RandomizedResponse]] = [
        (
            f"p_f = {p:g}",
            RandomizedResponse(label_flip=0.2, states=range(STATES), feature_flip=p),
        )
        for p in _FLIPS
    ] + [
        (
            f"variance {variance:g}",
            RandomizedResponse(label_flip=0.2, ranges=(0.0, 1.0), feature_noise=variance),
        )
        for variance in _VARIANCES
    ]
    rows = []
    for name, way in ways:
        _, pixel, picture = way.guarantees(digits.names)
        rows.append((name, f"{pixel.epsilon:.3g}", f"{picture.epsilon:,.0f}"))
    columns = ("noise", "epsilon of one pixel", "of a picture and its label (flip .2)")
    return Table("What a cell, and what a picture, is promised", columns, tuple(rows))


def _picture(
    caption: str,
    columns: Sequence[np.ndarray],
    unit: str,
    levels: Sequence[float],
    shape: tuple[int, int],
) -> Figure:
    names = ("clean", *(f"{unit}{level:g}" for level in levels))
    draw = partial(_draw_pictures, columns, names, shape)
    return Figure(f"{caption} A {' and a '.join(_NAMES)}.", figure_svg(draw))


def _draw_pictures(
    columns: Sequence[np.ndarray], names: Sequence[str], shape: tuple[int, int], axes: Any
) -> None:
    """Draw one picture beside another: a row for each digit, a column for each noise."""
    gap = 2
    high, wide = (length + gap for length in shape)
    sheet = np.full((high * len(_NAMES) - gap, wide * len(columns) - gap), np.nan)
    for j, pair in enumerate(columns):
        for i, pixels in enumerate(pair):
            top, left = i * high, j * wide
            sheet[top : top + shape[0], left : left + shape[1]] = pixels.reshape(shape)
    axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.grid(visible=False)
    axes.set_xticks([j * wide + shape[1] / 2 for j in range(len(columns))], names)
    axes.set_yticks([i * high + shape[0] / 2 for i in range(len(_NAMES))], _NAMES)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(b=False)


ENTRIES = (
    Reproduction(
        "voting",
        "A vote from randomised answers",
        f"{_PAPER}, Section 3, eq. 2 and 24",
        voting,
        repeats=False,
    ),
    Reproduction(
        "spread-reconstruction",
        "Learning from reconstructed data is not consistent",
        f"{_PAPER}, Figure 1",
        reconstruction,
        repeats=False,
    ),
    Reproduction(
        "spread-pictures",
        "Digits as they leave their owner",
        f"{_PAPER}, Figures 2 and 4",
        pictures,
        files={"mnist-7v9": SETS["mnist-7v9"].file},
        repeats=False,
    ),
)
