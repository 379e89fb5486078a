"""Who takes part in a round of many parties: a public number, or public names."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from suffice import plain_text
from suffice.errors import ParameterError
from suffice.owner.parties.contribution import check_name
from suffice.release.files import read_bounded

__all__ = ["STRANGER", "UNKNOWN", "Enrolled", "Rejection", "enrolled_parties"]

STRANGER = "this party is not enrolled"
UNKNOWN = "unknown party"
_MOST_BYTES = 2**26  # of a list of names


@dataclass(frozen=True)
class Rejection:
    """States whose contribution counted as zero, where it came from, and why.

    Parameters
    ----------
    party : str
        The name of the party.
    source : str
        The file that it came from, or nothing.
    reason : str
        Why it was not counted.
    """

    party: str
    source: str
    reason: str

    def __str__(self) -> str:
        where = f" ({plain_text.phrase(self.source)})" if self.source else ""
        # A name is a stranger's text, also if it is the word for those who have none.
        who = UNKNOWN if self.party is UNKNOWN else plain_text.quoted(self.party)
        return f"{who}{where}: {self.reason}"


@dataclass(frozen=True)
class Enrolled:
    """The parties that take part in a round. Both fields are public and never read from records.

    Parameters
    ----------
    count : int
        The number M of parties. Every sum is divided by it, however many of them contribute.
    names : tuple of str, optional
        Their names, where these are known.

    Examples
    --------
    >>> from suffice.owner.parties.enrolled import Enrolled
    >>> Enrolled.of(["south", "north"])
    Enrolled(count=2, names=('north', 'south'))
    """

    count: int
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, enrolled: "Enrolled | int | Sequence[str]") -> "Enrolled":
        """Return the parties of a number or of a list of names."""
        if isinstance(enrolled, Enrolled):
            return enrolled
        if isinstance(enrolled, int) and not isinstance(enrolled, bool):
            if enrolled < 1:
                raise ParameterError("The number of enrolled parties must be at least 1.")
            return cls(enrolled)
        names = tuple(enrolled) if isinstance(enrolled, Iterable) else ()
        if isinstance(enrolled, str) or not names or not all(isinstance(n, str) for n in names):
            raise ParameterError(
                "Enrolled parties must be a number or a list of names. Use --enrolled 500, or"
                " --enrolled FILE with a name on each line."
            )
        if len(set(names)) < len(names):
            raise ParameterError("A party is enrolled twice. List each name once.")
        return cls(len(names), tuple(sorted(map(check_name, names))))

    @cached_property
    def _known_names(self) -> frozenset[str] | None:
        return None if self.names is None else frozenset(self.names)

    def admits(self, party: str) -> bool:
        """Say whether what ``party`` holds may count: it is enrolled, or only numbers are known."""
        return self._known_names is None or party in self._known_names

    def digest(self) -> str:
        """Return the digest of the names, or of the number: public."""
        listed = "\0".join(self.names) if self.names is not None else f"number {self.count}"
        return hashlib.sha256(b"enrolled parties\0" + listed.encode()).hexdigest()


def enrolled_parties(text: str) -> int | list[str]:
    """Return a number of parties, or their names: those in a file, or those with commas."""
    if text.isdecimal():
        return int(text)
    path = Path(text)
    if "," in text and not path.exists():
        lines = text.split(",")
    else:
        lines = read_bounded(path, _MOST_BYTES).decode(errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
