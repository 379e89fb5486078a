"""What epsilon means for a belief: how sure a reader may become after reading a release.

Somebody knows all data but one unit, and believes something about that unit with probability p.
After a release of epsilon (and delta = 0) they believe it, by Bayes' rule, at most with

    p e^epsilon / (1 - p + p e^epsilon).

With a delta above 0 some results break this limit. Let S be the results that raise the odds by more
than 2 e^epsilon. Where the belief is true, P[S] >= 2 e^epsilon Q[S], where Q is the probability if
it is false. With P[S] <= e^epsilon Q[S] + delta this gives P[S] <= 2 delta, and Q[S] is no larger.
"""

import math
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from suffice.privacy import calibrate
from suffice.privacy.words import PRACTICALLY_NONE, Stated, cost_phrase, round_up, words_for

__all__ = ["BEFORE", "Explanation", "belief_after", "belief_rows", "explain"]

BEFORE = (0.01, 0.1, 0.5)  # beliefs before the release
_PERCENT = 100 * (1 - Decimal("1e-12"))  # floats may be too high by less than this
_MOST_EPSILON = 700.0  # of which e^epsilon is still a float


class Explanation(NamedTuple):
    """What a guarantee means for a belief.

    Attributes
    ----------
    title
        What the table shows.
    rows
        The belief before the release and the largest one after it; empty if no table applies.
    notes
        Sentences below the table.
    """

    title: str
    rows: list[tuple[str, str]]
    notes: list[str]

    def to_json(self) -> dict[str, object]:
        """Return the explanation as JSON values."""
        return {"title": self.title, "rows": [list(row) for row in self.rows], "notes": self.notes}


def belief_after(before: float, epsilon: float) -> float:
    """Return the largest belief after a release of ``epsilon``, where delta is 0.

    Examples
    --------
    >>> round(belief_after(0.5, 1.0), 4)
    0.7311
    """
    rest = (1 - before) * math.exp(-epsilon)
    return before / (before + rest)


def belief_rows(epsilon: float) -> list[tuple[str, str]]:
    """Return beliefs of 1, 10 and 50 % before a release, and the largest ones after it.

    Examples
    --------
    >>> belief_rows(3.0)
    [('1 %', '16.9 %'), ('10 %', '69.1 %'), ('50 %', '95.3 %')]
    """
    return [(f"{100 * before:g} %", _percent_after(before, epsilon)) for before in BEFORE]


def _percent_after(before: float, epsilon: float) -> str:
    """Return the largest belief in percent, rounded up, and never as 100 percent."""
    if epsilon > _MOST_EPSILON:
        return "almost 100 %"
    doubt = (1 - before) * math.exp(-epsilon)
    after = _PERCENT * (1 - Decimal(doubt) / (Decimal(before) + Decimal(doubt)))
    for decimals in range(1, 9):
        shown = after.quantize(Decimal(10) ** -decimals, rounding=ROUND_CEILING)
        if shown < 100:
            return f"{shown.normalize():f} %"
    return "almost 100 %"


def explain(guarantee: Stated) -> Explanation:
    """Return how sure a reader may become of one unit, for a guarantee's own epsilon and delta.

    Parameters
    ----------
    guarantee
        Any guarantee. Only one that is differential privacy has a table; of any other the notes
        say why it has none.

    Examples
    --------
    >>> from suffice.privacy.events import Laplace
    >>> from suffice.privacy.guarantee import Guarantee, Unit
    >>> explain(Guarantee(Unit.LABEL, Laplace(1.0))).rows
    [('1 %', '2.7 %'), ('10 %', '23.2 %'), ('50 %', '73.2 %')]
    """
    words, epsilon = words_for(guarantee), guarantee.epsilon
    title, reason = f"How sure a reader may become of {words.any_unit}", _why_no_table(guarantee)
    if epsilon is None or reason:
        return Explanation(title, [], [reason])
    notes = [
        "This reader knows all other data, and believes something before reading the release.",
        *_delta_notes(epsilon, guarantee.delta),
        *_several_records(guarantee),
    ]
    cost = cost_phrase(epsilon, guarantee.delta)
    return Explanation(f"{title} ({cost})", belief_rows(epsilon), notes)


def _why_no_table(guarantee: Stated) -> str:
    """Return why a guarantee limits no belief; nothing if it does."""
    if guarantee.kind == "none":
        return "This release has no guarantee. A reader may become certain."
    if guarantee.kind == "data-dependent":
        return "This release is not differentially private. Its epsilon limits no belief."
    if guarantee.delta >= calibrate.NO_PROTECTION_DELTA:
        return "With a delta this large, no epsilon limits a belief."
    if guarantee.scope == "marginal":
        return "A reader who combines columns may become certain. No table applies."
    return ""


def _delta_notes(epsilon: float, delta: float) -> list[str]:
    """Return what delta adds to the table."""
    if not delta:
        return ["Delta is 0, so the limit holds for every result."]
    notes = ["The limit holds for every result only where delta is 0. Here results may exceed it."]
    if epsilon <= PRACTICALLY_NONE:
        factor = round_up(2 * math.exp(epsilon))
        chance = round_up(2 * delta, smallest_power=-6)
        notes.append(
            f"With a probability of at most {chance}, a result raises the odds by more than a"
            f" factor of {factor}."
        )
    return notes


def _several_records(guarantee: Stated) -> list[str]:
    """Return what a person with several records has."""
    if guarantee.unit == "party":
        return []
    many = {"label": "labels", "attribute": "of these values"}.get(guarantee.unit, "records")
    more = ", and a larger delta" if guarantee.delta else ""
    return [f"A person with k {many} has k times the epsilon{more}."]
