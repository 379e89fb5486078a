"""What the origin of a pipeline leaves of a guarantee: one rule for every release."""

from collections.abc import Iterable
from dataclasses import replace

from suffice.privacy.guarantee import Assumption, Guarantee, Protection
from suffice.tables.provenance import Origin, Provenance

__all__ = ["as_scaled", "scaling_trouble", "stated_trouble"]

_BY = "said by the owner"
_TROUBLE = {
    Origin.PRIVATE_ROWS: "the scaling of its columns comes from private rows",
    Origin.UNKNOWN: "nobody stated where the scaling of its columns comes from",
}
_ACCEPTED = {
    source: Assumption(f"nobody minds that the release shows its scaling: {why}", _BY)
    for source, why in _TROUBLE.items()
}


def as_scaled(guarantee: Guarantee, origin: Provenance) -> Guarantee:
    """Return what a guarantee says of a release whose pipeline has this origin.

    Numbers that were declared or come from public rows leave it as it is. Numbers from private
    rows, and those of unknown origin, make it data-dependent: the release shows them.
    """
    if origin.is_public:
        return guarantee
    kind = Protection.DATA_DEPENDENT if guarantee.kind is Protection.GLOBAL else guarantee.kind
    assumptions = (*guarantee.assumptions, _ACCEPTED[origin.source])
    return replace(guarantee, kind=kind, assumptions=assumptions)


def scaling_trouble(origin: Provenance) -> str:
    """Return why a pipeline of this origin, private or unknown, cannot be used as public."""
    return _TROUBLE[origin.source]


def stated_trouble(guarantees: Iterable[Guarantee]) -> str | None:
    """Return what `as_scaled` found fault with in these guarantees, if it did."""
    stated = {assumption for guarantee in guarantees for assumption in guarantee.assumptions}
    return next((_TROUBLE[source] for source, line in _ACCEPTED.items() if line in stated), None)
