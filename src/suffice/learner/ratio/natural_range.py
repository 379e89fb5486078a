"""The proportions of one table with the words that belong before them, whatever the bags are like.

Where the bags contradict label shift (`label_shift`), no interval is right: the range then holds
the interval under label shift, and what the bags say under a stable p(y | x)
(`stable_classifier`). It is a range under two assumptions, and has no confidence level. With more
than two classes each class is set against the rest of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from suffice.learner.ratio.label_shift import LEVEL, LabelShiftTest
from suffice.learner.ratio.stable_classifier import Posterior, StableClassifier

__all__ = ["NaturalRange", "RatioEstimate", "contradiction", "natural_range"]

# Chosen on adult by occupation, covertype by elevation, magic by fAlpha and abalone by length; that
# unclear tables get the wider range, after a look at adult by workclass. bench/natural_bags.py
# measures what they are worth on other tables.
_WIDENING = 1.7
_NEW_BAG = 1e-4  # below: a new bag; from here to LEVEL: perhaps one, and the range allows for both
_SMALLEST_SHOWN = 1e-4
_CONTRADICTION = 1.9  # sum of classes' proportions, each against the rest; those of new bags are 2+


@dataclass(frozen=True)
class NaturalRange:
    """The proportion of class 1 in a table under a stable p(y | x), and the range of both.

    ``new_bag_p`` is the p value of the table against the bags' classes at other proportions; None
    if this was not tested. ``own`` is the proportion if the table is a bag of its own; None if that
    was ruled out.
    """

    stable: float
    low: float
    high: float
    new_bag_p: float | None
    own: float | None

    @property
    def new_bag(self) -> bool | None:
        """Whether the table looks like a bag of its own."""
        return None if self.new_bag_p is None else self.new_bag_p < _NEW_BAG

    @property
    def words(self) -> str | None:
        """What must be read about the table itself before the figures, if anything."""
        if self.new_bag_p is None:
            return (
                "With more than two classes, suffice does not test whether the new table is a new"
                " bag. The range allows for both."
            )
        shown = _shown_p(self.new_bag_p)
        if self.new_bag:
            return (
                f"The new table looks like a new bag ({shown}), and not like the classes of the"
                " bags at other proportions."
            )
        if self.new_bag_p < LEVEL:
            return f"The new table may be a new bag ({shown}). The range allows for this too."
        return None


def natural_range(
    classifier: StableClassifier,
    rows: np.ndarray,
    label_shift: Sequence[float],
    level: float,
    rng: np.random.Generator,
    *,
    tested: bool = True,
) -> NaturalRange:
    """Return what is known of a table where the bags contradict label shift.

    ``label_shift`` are the ends of the interval under label shift. Ends of the posterior are moved
    away, from pi or for a new bag from its mean, by a factor that was chosen on natural bags. How
    far a new bag is from the model is known from M bags only: its ends are those of Student's
    distribution with M - 2 degrees of freedom. Not ``tested``, as the other classes may be mixed in
    another way: the table may be both, rows of the bags' classes or a new bag.
    """
    stable = classifier.shifted_proportion(rows, level)
    p = classifier.explains(rows, stable.mean) if tested else None
    ends, mean = list(label_shift), None
    if p is None or p >= _NEW_BAG:
        ends += _outer_ends(stable, classifier.pool.pi)
    if p is None or p < LEVEL:
        own = classifier.own_proportion(rows, level, rng)
        few = _few_bags(len(classifier.pool.sizes), level)
        ends += [_moved(end, own.mean, few) for end in (own.low, own.high)]
        mean = own.mean
        stable = own if p is not None and p < _NEW_BAG else stable
    low, high = np.clip([min(ends), max(ends)], 0.0, 1.0)
    return NaturalRange(stable.mean, float(low), float(high), p, mean)


def _few_bags(many: int, level: float) -> float:
    """Return how much further Student's quantile is than the normal one."""
    tail = (1 + level) / 2
    return float(student.ppf(tail, max(many - 2, 1)) / norm.ppf(tail))


def _outer_ends(posterior: Posterior, pi: float) -> tuple[float, float]:
    """Return the ends, those beyond pi moved away from it."""
    low = _moved(posterior.low, pi) if posterior.low < pi else posterior.low
    high = _moved(posterior.high, pi) if posterior.high > pi else posterior.high
    return low, high


def _moved(end: float, centre: float, factor: float = 1.0) -> float:
    return centre + _WIDENING * factor * (end - centre)


@dataclass(frozen=True, eq=False)
class RatioEstimate:
    """Holds the class proportions of one table, and how far they can be trusted.

    Parameters
    ----------
    classes : tuple
        The K classes.
    ratios : ndarray of shape (K,) or None
        The proportions; None where the bags contradict label shift, which leaves no single figure.
    low, high : ndarray of shape (K,)
        The ends of the intervals, or of the range where the bags contradict label shift.
    level : float or None
        The confidence level of the intervals; None for a range, which has none.
    label_shift : LabelShiftTest
        Whether the bags differ in more than their class proportions.
    estimates : dict
        The estimate (K,) under each assumption: ``label_shift``, and where that is contradicted
        ``stable``, for the same p(y | x) in all bags.
    new_bag : bool or None
        Whether the table looks like a new bag rather than like the bags' classes at other
        proportions; None where this was not tested.
    words : tuple of str
        What must be read before the figures.
    """

    classes: tuple[Any, ...]
    ratios: np.ndarray | None
    low: np.ndarray
    high: np.ndarray
    level: float | None
    label_shift: LabelShiftTest
    estimates: dict[str, np.ndarray]
    new_bag: bool | None
    words: tuple[str, ...]

    @classmethod
    def with_interval(
        cls,
        classes: Any,
        ratios: np.ndarray,
        ends: np.ndarray,
        level: float,
        test: LabelShiftTest,
        *,
        doubt: str | None = None,
    ) -> "RatioEstimate":
        """Return proportions with intervals (2, K): nothing contradicts label shift.

        ``doubt`` is what must be read before intervals of bags that hardly differ.
        """
        words = () if doubt is None else (doubt,)
        words = words if test.tested else (*words, _untested(test))
        low, high = ends
        estimates = {"label_shift": ratios}
        return cls(tuple(classes), ratios, low, high, level, test, estimates, None, words)

    @classmethod
    def with_range(
        cls,
        classes: Any,
        ratios: np.ndarray,
        outcomes: Sequence[NaturalRange],
        test: LabelShiftTest,
    ) -> "RatioEstimate":
        """Return estimates under two assumptions: an outcome per class, of two for the second."""
        low, high = (np.array([getattr(item, end) for item in outcomes]) for end in ("low", "high"))
        words = [contradiction(test), outcomes[0].words]
        if len(outcomes) == 1:
            ((stable, start, end),) = ((item.stable, item.low, item.high) for item in outcomes)
            values = np.array([1 - stable, stable])
            low, high = np.array([1 - end, start]), np.array([1 - start, end])
        else:
            values, doubt = _proportions_of_all(outcomes)
            words.append(doubt)
        estimates = {"label_shift": ratios, "stable": values}
        new_bag, shown = outcomes[0].new_bag, tuple(filter(None, words))
        return cls(tuple(classes), None, low, high, None, test, estimates, new_bag, shown)

    def to_json(self) -> dict[str, Any]:
        """Return the figures for programs."""

        def numbers(values: np.ndarray | None) -> list[float] | None:
            return None if values is None else values.tolist()

        return {
            "ratios": numbers(self.ratios),
            "low": numbers(self.low),
            "high": numbers(self.high),
            "level": self.level,
            "label_shift": self.label_shift.to_json(),
            "estimates": {name: numbers(value) for name, value in self.estimates.items()},
            "new_bag": self.new_bag,
            "words": list(self.words),
        }


def _proportions_of_all(outcomes: Sequence[NaturalRange]) -> tuple[np.ndarray, str | None]:
    """Return proportions with sum one from those of each class against the rest, and words.

    Those of a table whose classes are the bags' sum to nearly one. Where they contradict each other
    the table is taken for a new bag.
    """
    stable = np.array([outcome.stable for outcome in outcomes])
    total, words = float(stable.sum()), None
    if total >= _CONTRADICTION:
        stable = np.array([outcome.own or 0.0 for outcome in outcomes])
        words = (
            f"As rows of the bags' classes, the classes would sum to {total:.1f}. The second"
            " estimate therefore takes the new table for a new bag."
        )
    return stable / stable.sum(), words


def contradiction(test: LabelShiftTest) -> str:
    """Return what is said where the bags contradict label shift."""
    shown = _shown_p(test.p or 0.0)
    return (
        f"The bags differ in more than their class proportions: {shown} under label shift. A class"
        " does not look alike in all bags, so no interval at a confidence level is given."
    )


def _untested(test: LabelShiftTest) -> str:
    return (
        f"Label shift cannot be tested: {test.reason}. The intervals assume that each class looks"
        " alike in all bags and in the new table."
    )


def _shown_p(p: float) -> str:
    return f"p < {_SMALLEST_SHOWN:g}" if p < _SMALLEST_SHOWN else f"p = {p:.2g}"
