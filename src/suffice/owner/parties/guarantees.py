"""What a release of many parties promises: about each party, and about protected auxiliary rows."""

from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.privacy.noise import Noise

__all__ = ["auxiliary_guarantee", "party_guarantee"]

_OWN_DATA = Assumption(
    "each party's contribution depends on its own data alone", "declared by the parties"
)
_CHOSEN = Assumption(
    "auxiliary rows, pipeline, classes and enrolled parties were not chosen by looking at any"
    " party's data",
    "declared by the aggregator",
)
_OWN_ROW = Assumption("a vote depends on its own row alone", "declared by the parties")
_NOT_FITTED = Assumption(
    "pipeline, classes and enrolled parties were not chosen by looking at these rows",
    "declared by the aggregator",
)
_AUXILIARY = "the auxiliary rows"


def party_guarantee(
    noise: Noise, delta: float, auxiliary: AuxiliaryRows, *, private: bool
) -> Guarantee:
    """Return what is promised about all data of one party; ``private``: rows are protected too."""
    shown = f"the {auxiliary.count:,} auxiliary rows"
    return Guarantee(
        unit=Unit.PARTY,
        event=noise.event,
        delta=0.0 if noise.event.pure else delta,
        public=(
            _how_many(auxiliary) if private else shown,
            "the number of enrolled parties",
            "that some contribution was made for this round",
            "the class list",
        ),
        assumptions=(_OWN_DATA, _CHOSEN),
    )


def auxiliary_guarantee(noise: Noise, delta: float, auxiliary: AuxiliaryRows) -> Guarantee:
    """Return what is promised about one protected auxiliary row, whatever the parties hold.

    The noise is calibrated to a party and a row that change together (`Distilled`), so that the
    same event bounds either.
    """
    return Guarantee(
        unit=Unit.RECORD,
        event=noise.event,
        delta=0.0 if noise.event.pure else delta,
        public=(_how_many(auxiliary), "the number of enrolled parties", "the class list"),
        assumptions=(_OWN_ROW, _NOT_FITTED),
        of=(_AUXILIARY,),
    )


def _how_many(auxiliary: AuxiliaryRows) -> str:
    return f"that there are {auxiliary.count:,} auxiliary rows, and how they are mapped"
