"""How far one record moves noisy second moments: numbers in, one number out.

A record is a row w of length at most 1 and a label y of K classes. Four blocks are summed over all
records, each with a weight: w w^T (weight 1), w (``mean``), w (x) (e_y - 1/K) (``operator``) and
e_y (``proportions``). For two classes the third is y w and the fourth y, with y = -1 or +1.

A record may have a number in place of a label: a target y between -1 and 1. Then the third and
fourth blocks are y w and y as well, and a fifth one is y^2 (``square``). Where rows are public,
these three alone are private. The proofs are in ``privacy/proofs/moments.md``.
"""

import math
from dataclasses import dataclass

from suffice.errors import ParameterError

_TOTAL = 1.5  # of the squared weights of mean and operator: accuracy is flat around it
_MEAN_SHARE = 0.2  # of that total, for the mean
_TOLERATED = 0.1  # deviation of the noise on a class proportion, before its weight is raised
_MOST_RAISED = 8.0  # times the square of the weight that costs nothing


@dataclass(frozen=True)
class BlockWeights:
    """The weights of the blocks of noisy second moments; that of w w^T is 1.

    Attributes
    ----------
    classes : int
        The number of classes, at least two; 0 if records have a target.
    mean : float
        The weight of the sum of rows.
    operator : float
        The weight of the sums of rows by class, or of rows times the target.
    proportions : float
        The weight of the class counts, or of the sum of the target.
    public_rows : bool
        Whether the target alone is private: another one moves no block of rows.

    Examples
    --------
    >>> weights = BlockWeights(2, mean=0.3**0.5, operator=1.2**0.5, proportions=0.18**0.5)
    >>> round(weights.sensitivity, 4)
    2.4749
    """

    classes: int
    mean: float
    operator: float
    proportions: float
    public_rows: bool = False

    def __post_init__(self) -> None:
        sizes = (self.mean, self.operator, self.proportions)
        counted = self.classes == 0 or (self.classes >= 2 and not self.public_rows)
        if not counted or not all(math.isfinite(size) and size > 0 for size in sizes):
            raise ParameterError("moments need two classes or more, and positive weights.")

    @property
    def square(self) -> float:
        """The weight of the sum of squares of a target: the largest that costs nothing.

        C / 4 of the proof. Beyond ``mean**2 + operator**2 = 2`` a term of it has no proof.
        """
        if self.public_rows:
            free = (1 - 1e-9) / (10 * math.sqrt(5) - 22)  # 1 / max 4 b^2 (1 - b) / (1 + b)
            return math.sqrt(free * (self.operator**2 + self.proportions**2))
        proved = self.mean**2 + self.operator**2 <= 2
        bent = self.operator**4 / 2 if proved else 0.0
        return math.sqrt(self.operator**2 + self.proportions**2 + bent)

    @property
    def sensitivity(self) -> float:
        """How far replacing one record moves the weighted blocks, in the 2-norm, at most.

        With public rows it is how far another target does: by 2, for a row of length 1.
        """
        if self.public_rows:
            return 2 * math.hypot(self.operator, self.proportions)
        same_label, other_label = _largest_changes(self.classes, self.mean, self.operator)
        counts = _count_factor(self.classes) * self.proportions**2
        return math.sqrt(max(same_label, other_label + counts))


def _largest_changes(classes: int, mean: float, operator: float) -> tuple[float, float]:
    """Return the squares of the largest changes by another row, with the same label and another.

    Class counts are left out. ``total`` and ``cross`` are g and h of the proof.
    """
    own, others = (1.0, 1.0) if classes <= 2 else (1 - 1 / classes, 1 / classes)
    total, cross = mean**2 + own * operator**2, mean**2 - others * operator**2
    same_label = 2 * (1 + total / 2) ** 2 if total <= 2 else 4 * total
    other_label = 2 + 2 * total + (cross**2 / 2 if abs(cross) <= 2 else 2 * abs(cross) - 2)
    return same_label, other_label


def _count_factor(classes: int) -> float:
    """Return the square of how far another label moves the class counts: y by 2, or e_y."""
    return 4.0 if classes <= 2 else 2.0


def free_proportions_weight(classes: int, mean: float, operator: float) -> float:
    """Return the largest weight of the class counts that does not raise the sensitivity.

    ``mean`` and ``operator`` are the weights of the sum of rows, and of the sums of rows by class.

    Examples
    --------
    >>> round(free_proportions_weight(2, 0.3**0.5, 1.2**0.5) ** 2, 4)
    0.18
    """
    same_label, other_label = _largest_changes(classes, mean, operator)
    return math.sqrt((same_label - other_label) / _count_factor(classes))


def default_weights(classes: int, multiplier: float, rows: int) -> BlockWeights:
    """Return the weights of a release, from public numbers alone.

    Class counts get the weight that costs nothing. Where their noise would still exceed a
    proportion of 0.1, they get more, and the sensitivity grows. ``multiplier`` is the deviation of
    the noise over the sensitivity.

    Examples
    --------
    >>> default_weights(2, multiplier=4.0, rows=1_000).sensitivity < 2.475
    True
    >>> default_weights(2, multiplier=40.0, rows=100).sensitivity > 3.34
    True
    """
    mean = math.sqrt(_MEAN_SHARE * _TOTAL)
    share = 1.0 if classes <= 2 else classes / (classes - 1)
    operator = math.sqrt((1 - _MEAN_SHARE) * _TOTAL * share)
    free = free_proportions_weight(classes, mean, operator)
    weights = BlockWeights(classes, mean, operator, free)
    noise = multiplier * weights.sensitivity / (max(rows, 1) * free)
    if noise <= _TOLERATED:
        return weights
    raised = min(_MOST_RAISED, (noise / _TOLERATED) ** 2)
    return BlockWeights(classes, mean, operator, free * math.sqrt(raised))
