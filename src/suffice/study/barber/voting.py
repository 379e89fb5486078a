"""A vote from randomised answers: as printed, and as corrected (Barber 2020, Section 3)."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from suffice.learner.spread.frequencies import estimate_frequencies
from suffice.pages.plots import draw_panels
from suffice.pages.report import paragraphs
from suffice.release.spread import Flips
from suffice.study.reproduction import Comparison, Figure, Result, Setting, Steps

__all__ = ["estimate_votes"]

_VOTES, _SHARE = 1_000_000, 0.3
_ELECTIONS = {  # P_ij = P[answer i | vote j]
    "eq. 2: both lie with p = .2": Flips(2, keep=0.8),
    "eq. 24: P10 = .1, P01 = .3": Flips(2, table=((0.9, 0.3), (0.1, 0.7))),
}
_NOTES = f"""
The paper gives no numbers here. {_VOTES:,} votes, a proportion of {_SHARE} and the flips are ours.

Equations 2 and 24 are printed with a plus in place of a minus (docs/errata.md). Equation 22
decides: it is the likelihood which both should maximise. Our estimate is where it is largest; the
printed one is not. The printed one can even leave [0, 1] for answers that are possible.
"""


def estimate_votes(setting: Setting) -> Result:
    """Return the proportion of yes votes, estimated as printed and as corrected."""
    steps = Steps(setting.progress, len(_ELECTIONS))
    rng = np.random.default_rng(0)
    compared = []
    for name, noise in _ELECTIONS.items():
        steps.begin(name)
        compared.append(_election(name, noise, rng))
    caption = (
        "Expected estimate against the true proportion, if voters of both sides lie with p = .2."
        " Only the corrected estimate is on the diagonal."
    )
    return Result(
        (),
        (Figure(caption, draw_panels(_draw_votes)),),
        paragraphs(_NOTES),
        {"votes": _VOTES, "share": _SHARE},
        compared=tuple(compared),
        compared_as=f"Estimates from {_VOTES:,} votes, of which {_SHARE} are yes.",
    )


def _election(name: str, noise: Flips, rng: np.random.Generator) -> Comparison:
    votes = (rng.random(_VOTES) < _SHARE).astype(int)
    answers = (rng.random(_VOTES) < noise.matrix[1, votes]).astype(int)
    yes = float(answers.mean())
    printed = float(_solved(yes, noise, 1))
    frequencies = estimate_frequencies(answers, noise)
    estimate = float(frequencies.shares[1])
    peak = minimize_scalar(
        lambda theta: -_vote_likelihood(theta, yes, noise), bounds=(0, 1), method="bounded"
    ).x
    judged = ["wrong" if abs(value - peak) > 1e-3 else "right" for value in (printed, estimate)]
    inside = "holds" if frequencies.low[1] <= _SHARE <= frequencies.high[1] else "misses"
    interval = f"{frequencies.low[1]:.4f} to {frequencies.high[1]:.4f} {inside} the truth"
    return Comparison(
        name, printed, estimate, f"by eq. 22: print {judged[0]}, ours {judged[1]}; {interval}", 5
    )


def _solved(answers: Any, noise: Flips, sign: int) -> Any:
    """Return (f~ + sign P10) / (1 - P10 - P01): printed with +1 (eq. 2, 24), right with -1."""
    lie_of_no, lie_of_yes = noise.matrix[1, 0], noise.matrix[0, 1]
    return (answers + sign * lie_of_no) / (1 - lie_of_no - lie_of_yes)


def _vote_likelihood(theta: float, share: float, noise: Flips) -> float:
    """Return the spread log likelihood of theta if the proportion ``share`` said yes (eq. 22)."""
    no, yes = noise.matrix @ np.array([1 - theta, theta])
    return float(xlogy(1 - share, no) + xlogy(share, yes))


def _draw_votes(axes: Any) -> None:
    noise = next(iter(_ELECTIONS.values()))
    true = np.linspace(0, 1, 101)
    answers = noise.matrix[1, 0] * (1 - true) + noise.matrix[1, 1] * true
    axes.plot(true, _solved(answers, noise, 1), color="C3", linestyle="--", label="as printed")
    axes.plot(true, answers, color="grey", linestyle=":", label="answers, uncorrected")
    axes.plot(true, _solved(answers, noise, -1), color="black", label="corrected")
    axes.set(xlabel="true proportion", ylabel="estimate")
