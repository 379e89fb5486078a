"""What rados guarantee: the reach of one unit, and the statements of each mechanism.

The arguments are in ``privacy/proofs/rados.md``.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from suffice.errors import ParameterError
from suffice.owner.scaling import as_scaled
from suffice.privacy.binomial import edge_mass, most_draws, shift_epsilon, truncation
from suffice.privacy.events import Approximate, Event, Unbounded
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Scope, Unit
from suffice.privacy.noise import Sensitivity
from suffice.tables.pipeline import Pipeline
from suffice.tables.provenance import Provenance

__all__ = [
    "attribute_sensitivity",
    "feature_guarantees",
    "label_sensitivity",
    "most_memberships",
    "no_guarantee",
    "noise_guarantee",
    "record_sensitivity",
]

_MORE = 1 + 1e-12  # than a handful of float operations can lose


def most_memberships(count: int, signs: str) -> int:
    """Return in how many of ``count`` rados one example can be: B/2 with structured signs."""
    return (1 << (count - 1).bit_length()) // 2 if signs == "hadamard" else count


def _row_steps(pipeline: Pipeline, step: float) -> float:
    """Return the largest 2-norm of a row on the lattice, from its declared bound."""
    width = len(pipeline.outputs)
    clipped = pipeline.norm_bound * (1 + (width + 8) * 2.0**-52)  # clipping rounds
    return (clipped / step + math.sqrt(width) / 2) * _MORE  # and so does the lattice


def _sensitivity(steps: float, dimension: int) -> Sensitivity:
    return Sensitivity(math.ceil(steps * math.sqrt(dimension) * _MORE), steps, dimension)


def label_sensitivity(pipeline: Pipeline, step: float) -> Sensitivity:
    """Return how far one label moves the vector that all rados share: by its row."""
    return _sensitivity(_row_steps(pipeline, step), len(pipeline.outputs))


def record_sensitivity(
    pipeline: Pipeline, step: float, memberships: int, count: int
) -> Sensitivity:
    """Return how far one record moves the whole matrix: 2 sqrt(memberships) max ||x||."""
    steps = 2 * math.sqrt(memberships) * _row_steps(pipeline, step) * _MORE
    return _sensitivity(steps, count * len(pipeline.outputs))


def attribute_sensitivity(
    reach: float, step: float, memberships: int, count: int, coordinates: int
) -> Sensitivity:
    """Return how far one value moves the coordinates of its column: ``reach`` in each rado."""
    # Both values are rounded to the lattice, and a little before it.
    steps = reach * _MORE / step + math.sqrt(coordinates) * (1 + 2.0**-10)
    return _sensitivity(math.sqrt(memberships) * steps * _MORE, count * coordinates)


_PUBLIC = ("the number of rows", "the class list", "the columns and how they are scaled")
_DECLARED = Assumption(
    "classes, ranges, bounds, categories and scales were not chosen by looking at the records",
    "declared by the owner",
)
_FROM_PUBLIC = Assumption(
    "classes, bounds and categories were not chosen by looking at the records, and the rows that"
    " scales come from are public",
    "declared by the owner",
)
_SECRET = Assumption("the random signs are known to nobody", "drawn from the system, never stored")


def no_guarantee() -> Guarantee:
    """Return the statement of rados without noise: they protect nothing."""
    return Guarantee(
        unit=Unit.RECORD,
        event=Unbounded(),
        kind=Protection.NONE,
        public=("the number of rows", "the class list", "the columns"),
    )


def noise_guarantee(
    unit: Unit,
    event: Event,
    delta: float,
    *,
    origin: Provenance,
    of: Sequence[str] = (),
) -> Guarantee:
    """Return the statement of rados with noise, about one ``unit``; ``origin``: of the scales."""
    open_to_all = {
        Unit.LABEL: ("the feature columns: nothing is promised about them",),
        Unit.ATTRIBUTE: ("labels and all other columns: nothing is promised about them",),
    }
    guarantee = Guarantee(
        unit=unit,
        event=event,
        delta=0.0 if event.pure else delta,
        public=(*_PUBLIC, *open_to_all.get(unit, ())),
        assumptions=_unseen(origin),
        columns=tuple(of),
    )
    return as_scaled(guarantee, origin)


def _unseen(origin: Provenance) -> tuple[Assumption, ...]:
    """Return what is taken for granted of parameters that are declared, or from public rows."""
    return (_FROM_PUBLIC,) if origin.rows else (_DECLARED,) if origin.is_public else ()


def feature_guarantees(
    columns: Sequence[str],
    rows: int,
    count: int,
    *,
    epsilon: float | None,
    delta: float,
    truncate: float | None,
    origin: Provenance,
) -> tuple[Guarantee, ...]:
    """Return the statements of DP-Feat, one per column: marginal, over all rados together.

    The epsilon is what ``count`` independent rados cost at ``delta``, exactly composed; with
    ``truncate`` the edges count as infinite loss. More than ``epsilon`` is refused.
    """
    low = 0 if truncate is None else truncation(rows, truncate)
    edge = edge_mass(rows, low)
    edges = -math.expm1(count * math.log1p(-edge)) if edge < 1 else 1.0
    if edges >= delta:
        raise ParameterError(
            f"The most extreme sums would show one value with probability {edges:.2g}, more"
            f" than delta {delta:g}. Remove or raise --truncate, or use a smaller --count."
            if truncate is not None
            else f"{rows} rows are too few for delta {delta:g}: an extreme sum shows all of their"
            " values. Use more rows or a larger --delta."
        )
    cost = shift_epsilon(rows, count, delta, low)
    if epsilon is not None and not cost <= epsilon:
        fits = most_draws(rows, epsilon, delta, low)
        raise ParameterError(
            f"{count} rados of {rows} rows need epsilon {cost:.4g} at delta {delta:g}. Epsilon"
            f" {epsilon:g} allows {fits or 'none'}. Use a smaller --count or a larger --epsilon."
        )
    of_first = Guarantee(
        unit=Unit.ATTRIBUTE,
        event=Approximate(cost, delta),
        delta=delta,
        scope=Scope.MARGINAL,
        public=_PUBLIC,
        assumptions=(*_unseen(origin), _SECRET),
        columns=tuple(columns[:1]),
    )
    return tuple(as_scaled(replace(of_first, columns=(column,)), origin) for column in columns)
