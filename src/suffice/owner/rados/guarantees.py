"""What rados promise: the reach of one unit, and the statements of each way to protect them.

The arguments are in ``privacy/proofs/rados.md``.
"""

import math
from collections.abc import Sequence

from suffice.errors import ParameterError
from suffice.privacy.binomial import edge_mass, most_draws, shift_epsilon, truncation
from suffice.privacy.events import Approximate, Event, Unbounded
from suffice.privacy.guarantee import Assumption, Guarantee, Kind, Scope, Unit
from suffice.privacy.noise import Sensitivity
from suffice.tables.pipeline import Pipeline

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
_READ_OFF = Assumption(
    "nobody minds that the scales of the columns, read off the private records, are in the release",
    "said by the owner",
)
_GIVEN = Assumption(
    "classes, and the pipeline that was given, were not chosen by looking at the records",
    "declared by the owner; where the pipeline came from was not checked",
)
_SECRET = Assumption("the random signs are known to nobody", "drawn from the system, never stored")


def no_guarantee() -> Guarantee:
    """Return the statement of plain rados: they protect nothing."""
    return Guarantee(
        unit=Unit.RECORD,
        event=Unbounded(),
        kind=Kind.NONE,
        public=("the number of rows", "the class list", "the columns"),
    )


def noise_guarantee(
    unit: Unit,
    event: Event,
    delta: float,
    *,
    data_dependent: bool,
    given: bool = False,
    of: Sequence[str] = (),
) -> Guarantee:
    """Return the statement of rados with noise, about one ``unit``.

    ``given``: the pipeline is that of another release, whose own assumptions are not known here.
    """
    open_to_all = {
        Unit.LABEL: ("the feature columns: nothing is promised about them",),
        Unit.ATTRIBUTE: ("labels and all other columns: nothing is promised about them",),
    }
    return Guarantee(
        unit=unit,
        event=event,
        delta=0.0 if event.pure else delta,
        kind=Kind.DATA_DEPENDENT if data_dependent else Kind.GLOBAL,
        public=(*_PUBLIC, *open_to_all.get(unit, ())),
        assumptions=(_READ_OFF if data_dependent else _GIVEN if given else _DECLARED,),
        of=tuple(of),
    )


def feature_guarantees(
    columns: Sequence[str],
    rows: int,
    count: int,
    *,
    epsilon: float | None,
    delta: float,
    truncate: float | None,
    data_dependent: bool,
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
            f"the edges of the truncation would show one value with probability {edges:.2g}, more"
            f" than delta = {delta:g}; leave truncate out, raise it, or release fewer rados."
            if truncate is not None
            else f"{rows} rows are too few for delta = {delta:g}: an extreme sum tells them all."
        )
    cost = shift_epsilon(rows, count, delta, low)
    if epsilon is not None and not cost <= epsilon:
        fits = most_draws(rows, epsilon, delta, low)
        raise ParameterError(
            f"{count} rados of {rows} rows cost epsilon = {cost:.4g} at delta = {delta:g};"
            f" {fits or 'none'} fit into epsilon = {epsilon:g}."
        )
    return tuple(
        Guarantee(
            unit=Unit.ATTRIBUTE,
            event=Approximate(cost, delta),
            delta=delta,
            scope=Scope.MARGINAL,
            kind=Kind.DATA_DEPENDENT if data_dependent else Kind.GLOBAL,
            public=_PUBLIC,
            assumptions=(_READ_OFF if data_dependent else _DECLARED, _SECRET),
            of=(column,),
        )
        for column in columns
    )
