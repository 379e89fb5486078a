"""Missing values, units of time, and the provenance of a pipeline's numbers.

A pipeline stands in the clear in every release that uses it. If its numbers were read off private
rows, each of these releases tells about those rows, whatever its noise. So the origin goes along
when a pipeline is saved, used again, merged or put into a model, and decides what a release may
guarantee. It is a statement of whoever wrote the file, as everything in a file is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from suffice.errors import ParameterError
from suffice.strict_json import is_digest

TEMPORAL_UNITS = ("days since 1970-01-01", "days since midnight", "days")


_SHOWN_HASHES = 3  # of many hashes


class Origin(StrEnum):
    """What the numbers were taken from."""

    DECLARED = "declared"
    PUBLIC_ROWS = "public rows"
    PRIVATE_ROWS = "private rows"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Provenance:
    """States where a pipeline's numbers came from.

    Parameters
    ----------
    source : Origin
        Declared, public rows, private rows or unknown.
    rows : tuple of str
        The hashes of the public rows, sorted. Empty for other sources.
    """

    source: Origin
    rows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Origin(self.source))
        are_digests = all(map(is_digest, self.rows))
        if not are_digests or self.rows != tuple(sorted(set(self.rows))):
            raise ParameterError("Hashes of public rows must be sorted, and all different.")
        if bool(self.rows) != (self.source is Origin.PUBLIC_ROWS):
            raise ParameterError("An origin must name rows if they are public, and only then.")

    @property
    def is_public(self) -> bool:
        """Whether the numbers are known to tell nothing about private rows."""
        return self.source in {Origin.DECLARED, Origin.PUBLIC_ROWS}

    def __str__(self) -> str:
        if self.source is Origin.UNKNOWN:
            return "unknown (nobody stated it)"
        more = (
            f" and {len(self.rows) - _SHOWN_HASHES} more" if len(self.rows) > _SHOWN_HASHES else ""
        )
        return " ".join([self.source, ", ".join(self.rows[:_SHOWN_HASHES])]).strip() + more


DECLARED = Provenance(Origin.DECLARED)
PRIVATE_ROWS = Provenance(Origin.PRIVATE_ROWS)
UNKNOWN = Provenance(Origin.UNKNOWN)


def public_rows(row_hash: str) -> Provenance:
    """Return the origin of numbers from rows with this hash, which the owner declared public."""
    return Provenance(Origin.PUBLIC_ROWS, (row_hash,))


def weakest(origins: Iterable[Provenance]) -> Provenance:
    """Return the weakest of several origins of one pipeline.

    Private rows are weaker than an unknown origin, which is weaker than public rows, which are
    weaker than declared numbers. All hashes of public rows are kept.
    """
    stated = tuple(origins)
    for weak in (PRIVATE_ROWS, UNKNOWN):
        if weak in stated:
            return weak
    rows = tuple(sorted({row for origin in stated for row in origin.rows}))
    return Provenance(Origin.PUBLIC_ROWS, rows) if rows else DECLARED
