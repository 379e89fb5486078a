"""Votes of many parties at once, where one owner holds the data of all of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.owner.parties.gathering import Enrolled, Gathered
from suffice.owner.parties.votes import operator_weights
from suffice.tables.labels import Classes

__all__ = ["VoteTally"]


@dataclass(eq=False)
class VoteTally:
    """Protects nothing: counts the votes of many parties whose data one owner holds.

    ``add`` takes the class codes of several parties at once. Its sums are those of the parties'
    single contributions, in one product of matrices in the place of one per party.
    """

    auxiliary: AuxiliaryRows
    classes: Classes
    parties: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counts = np.zeros((self.auxiliary.count, len(self.classes)), dtype=np.int64)
        self._content = hashlib.sha256(b"votes of parties\0")

    def add(self, parties: Sequence[str], codes: np.ndarray) -> None:
        """Take in one hard vote per party and auxiliary row: ``codes`` (parties, N)."""
        votes = np.asarray(codes)
        if votes.shape != (len(parties), self.auxiliary.count) or votes.dtype.kind not in "iu":
            raise ParameterError("there must be one class code per party and auxiliary row.")
        if votes.size and not 0 <= votes.min() <= votes.max() < len(self.classes):
            raise ParameterError("a vote is for none of the declared classes.")
        for k in range(len(self.classes)):
            self._counts[:, k] += VOTE * (votes == k).sum(axis=0)
        self.parties.extend(parties)
        bytes_of = np.ascontiguousarray(votes, dtype=np.min_scalar_type(len(self.classes) - 1))
        self._content.update("\0".join(parties).encode() + b"\0" + bytes_of.tobytes())

    def gathered(self, statistic: str, enrolled: Enrolled) -> Gathered:
        """Return the sum over all parties, as if each had sent its own contribution."""
        if statistic not in ("operator", "votes"):
            raise ParameterError("a tally holds votes; average needs each party's parameters.")
        names = set(self.parties)
        if len(names) < len(self.parties) or len(names) > enrolled.count:
            raise ParameterError("a party is counted twice, or more are than were enrolled.")
        strangers = sorted(names - set(enrolled.names)) if enrolled.names else []
        if strangers:
            raise ParameterError(
                f"{len(strangers)} parties are not enrolled, {strangers[0]!r} among them: their"
                " data have no budget here."
            )
        total = self._counts.copy()
        if statistic == "operator":
            signed = operator_weights(total).astype(np.int64)
            total = signed @ self.auxiliary.codes.astype(np.int64)  # beyond what floats hold
        return Gathered(
            statistic=statistic,
            total=total,
            enrolled=enrolled,
            accepted=len(names),
            rejected=(),
            missing=tuple(n for n in enrolled.names or () if n not in names),
            absent=enrolled.count - len(names),
            content=self._content.digest(),
        )
