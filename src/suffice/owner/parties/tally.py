"""What many parties say at once, where one owner holds the data of all of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.owner.parties.contribution import PartyContribution
from suffice.owner.parties.enrolled import STRANGER, Enrolled, Rejection
from suffice.owner.parties.gathering import Gathered, Gathering, PartyExact
from suffice.owner.parties.votes import operator_weights
from suffice.tables.labels import Classes

__all__ = ["ParameterTally", "TallySum", "VoteTally"]


@dataclass(eq=False)
class VoteTally:
    """Protects nothing: counts the votes of many parties whose data one owner holds.

    ``add`` counts the votes of several parties at once. The sums equal those of the parties' single
    contributions.

    Parameters
    ----------
    auxiliary : AuxiliaryRows
        The rows that parties vote on.
    classes : tuple
        The declared classes.
    enrolled : Enrolled
        The enrolled parties. If they are known by name, other parties count as zero.
    parties : list of str
        The parties that were counted.
    rejected : list of Rejection
        The parties that were not.
    """

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    parties: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counts = np.zeros((self.auxiliary.count, len(self.classes)), dtype=np.int64)
        self._content = hashlib.sha256(b"votes of parties\0")

    def add(self, parties: Sequence[str], codes: np.ndarray) -> None:
        """Take in one hard vote per party and auxiliary row: ``codes`` (parties, N)."""
        votes = np.asarray(codes)
        if votes.shape != (len(parties), self.auxiliary.count) or votes.dtype.kind not in "iu":
            raise ParameterError(
                "codes must have one row for each party and one column for each auxiliary row, and"
                " hold integers."
            )
        if votes.size and not 0 <= votes.min() <= votes.max() < len(self.classes):
            raise ParameterError(
                "A vote is not in the class list. Use codes from 0 to the number of classes minus"
                " 1."
            )
        enrolled_positions = [i for i, party in enumerate(parties) if self.enrolled.admits(party)]
        self._count([parties[i] for i in enrolled_positions], votes[enrolled_positions])
        strangers = sorted(set(range(len(parties))) - set(enrolled_positions))
        self.rejected.extend(Rejection(parties[i], "", STRANGER) for i in strangers)

    def _count(self, parties: Sequence[str], votes: np.ndarray) -> None:
        if not parties:
            return
        for k in range(len(self.classes)):
            self._counts[:, k] += VOTE * (votes == k).sum(axis=0)
        self.parties.extend(parties)
        bytes_of = np.ascontiguousarray(votes, dtype=np.min_scalar_type(len(self.classes) - 1))
        self._content.update("\0".join(parties).encode() + b"\0" + bytes_of.tobytes())

    def gathered(self, statistic: str) -> Gathered:
        """Return the sum over all parties, as if each had sent its own contribution."""
        if statistic not in ("operator", "votes"):
            raise ParameterError(
                f"A tally of votes has no {statistic.replace('-', ' ')}. Use another method than"
                " average or class-sums."
            )
        names = set(self.parties)
        if len(names) < len(self.parties):
            raise ParameterError("A party is counted twice. Add each party once.")
        if len(names) > self.enrolled.count:
            raise ParameterError(
                f"There are more parties than the {self.enrolled.count:,} enrolled ones. Correct"
                " their number, which is public. To leave other parties out, list the enrolled"
                " parties by name."
            )
        total = self._counts.copy()
        if statistic == "operator":
            signed = operator_weights(total).astype(np.int64)
            total = signed @ self.auxiliary.codes.astype(np.int64)  # beyond what floats hold
        return Gathered(
            statistic=statistic,
            total=total,
            enrolled=self.enrolled,
            accepted=len(names),
            rejected=tuple(self.rejected),
            missing=tuple(n for n in self.enrolled.names or () if n not in names),
            absent=self.enrolled.count - len(names),
            content=self._content.digest(),
        )


@dataclass(frozen=True, eq=False)
class ParameterTally:
    """Protects nothing: holds the parameters of many parties whose data one owner holds.

    Which of the enrolled parties are among them shows who has records, and is private.

    Parameters
    ----------
    auxiliary : AuxiliaryRows
        The rows that all agreed on.
    classes : tuple
        The declared classes.
    enrolled : Enrolled
        The enrolled parties.
    lam : float
        Weight of the penalty.
    parts : sequence of PartyContribution
        One contribution for each party with records.
    """

    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    lam: float
    parts: Sequence[PartyContribution]

    def gathered(self, statistic: str) -> Gathered:
        """Return the sum over all parties, as if each had sent its own contribution."""
        if statistic != "parameters":
            raise ParameterError(f"A tally of parameters has no {statistic}. Use --method average.")
        public = (self.auxiliary, self.classes, self.enrolled, self.lam)
        return Gathering(statistic, *public).take(self.parts).result()


@dataclass(frozen=True, eq=False)
class TallySum(PartyExact):
    """A finished tally of many parties, as the sum of a round.

    Parameters
    ----------
    tally : VoteTally or ParameterTally
        The tally.
    auxiliary : AuxiliaryRows
        The rows of this round.
    classes : tuple
        The classes of this round.
    enrolled : Enrolled
        The enrolled parties of this round.
    statistic : str
        What is summed.
    """

    tally: VoteTally | ParameterTally
    auxiliary: AuxiliaryRows
    classes: Classes
    enrolled: Enrolled
    statistic: str

    @property
    def count(self) -> int:
        """How many tallies there are."""
        return 1

    def check(self) -> None:
        """Raise unless the tally is of this round."""
        tally = self.tally
        if tally.classes != self.classes or tally.auxiliary.grid != self.auxiliary.grid:
            raise ParameterError(
                "The tally was made with other classes or other auxiliary rows. Make it again with"
                " those of this round."
            )
        if tally.enrolled != self.enrolled:
            raise ParameterError(
                "The tally was made for other enrolled parties. Make it again for those of this"
                " round."
            )

    def result(self) -> Gathered:
        """Return the sum."""
        return self.tally.gathered(self.statistic)
