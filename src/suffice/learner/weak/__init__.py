"""Weak supervision: whatever is known about the labels, turned into a mean operator.

Patrini et al. 2016, Meta-Algorithm 1: estimate the mean operator from what there is, then minimise
the factored risk. `estimate_mean_operator` takes the mapped rows and one source of supervision.
"""

from suffice.learner.weak.alternating import AlternatingMeanMap
from suffice.learner.weak.flipped import FlippedLabels
from suffice.learner.weak.mean_maps import LaplacianMeanMap, MeanMap
from suffice.learner.weak.moments import Supervision
from suffice.learner.weak.partial import PositiveUnlabelled, SemiSupervised
from suffice.learner.weak.proportions import KnownProportions
from suffice.learner.weak.supervision import (
    PlainLabels,
    Released,
    SoftVotes,
    estimate_mean_operator,
)

__all__ = [
    "AlternatingMeanMap",
    "FlippedLabels",
    "KnownProportions",
    "LaplacianMeanMap",
    "MeanMap",
    "PlainLabels",
    "PositiveUnlabelled",
    "Released",
    "SemiSupervised",
    "SoftVotes",
    "Supervision",
    "estimate_mean_operator",
]
