"""What a user must know before the figures of a model, in Python and on the command line."""

import warnings
from math import log
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.learner.operator.combining import NoiseWarning, Supervised

__all__ = [
    "CONSTANT",
    "MAJORITY_HIDDEN",
    "NoiseWarning",
    "doubts_of",
    "is_majority_known",
    "risk_of_guess",
    "warn_of_doubts",
]

CONSTANT = "no feature helps for certain, so the model always predicts the larger class"
_HIDDEN = (
    "The noise hides which class is the larger. No feature helps for certain, so the model always"
    " predicts the class that seems to be larger."
)
MAJORITY_HIDDEN = (
    "The noise hides which class is the largest. The model may do worse than always predicting"
    " that class."
)
_SURE = 1.645  # deviations: a smaller lead of a class is chance in more than 5 of 100 releases


def doubts_of(model: Any) -> list[str]:
    """Return why a fitted `FactoredClassifier` may be no better than a guess, a sentence each."""
    doubts = []
    if model.intercept_only_:
        constant = f"{CONSTANT[0].upper()}{CONSTANT[1:]}."
        doubts.append(constant if model.majority_known_ else _HIDDEN)
    guess = risk_of_guess(model)
    if guess is not None and model.risk_interval_[1] >= guess:
        doubts.append(
            f"The risk may be as high as {guess:.3g}, that of a guess without the release: there is"
            " too much noise."
        )
    return doubts


def risk_of_guess(model: Any) -> float | None:
    """Return the risk of a guess without the release; None where the risk is of other labels."""
    votes = any(
        guarantee.unit == "party" for release in model.releases_ for guarantee in release.guarantees
    )
    return log(len(model.classes_)) if model.loss in ("logistic", "softmax") and not votes else None


def warn_of_doubts(model: Any) -> None:
    """Warn the caller of ``fit_release`` of a model's doubts."""
    try:
        doubts = doubts_of(model)
    except ParameterError:  # the noise is not known, and so no figure is shown
        return
    if doubts:
        warnings.warn(" ".join(doubts), NoiseWarning, stacklevel=4)


def is_majority_known(supervision: Supervised, *, intercept: bool) -> bool:
    """Return whether one class leads by more than the intercept's noise explains."""
    estimate = supervision.estimate
    if not intercept or estimate.noise.form == "none":
        return True
    sizes = np.sort(np.atleast_1d(estimate.operator[-1]))
    deviation = float(np.sqrt(estimate.noise.last().variance))
    if len(sizes) == 1:
        return bool(abs(sizes[0]) > _SURE * deviation)
    return bool(sizes[-1] - sizes[-2] > _SURE * np.sqrt(2.0) * deviation)
