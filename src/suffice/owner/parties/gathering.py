"""The aggregator's side of the door: contributions are checked one by one, and those fit summed.

A contribution that is missing, late or not what a party could have computed counts as zero and is
reported by name; it never stops the others. Whether one is accepted depends on itself and on
public things alone, so that replacing one party's data changes one term of the sum and no more.

A contribution's header (party, statistic, rows, pipeline, grid, classes) is public by agreement,
its array is private. A round that no header fits is refused before anything is charged; no array
is looked at for that.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice.errors import ParameterError, SufficeError
from suffice.owner.operator.form import operator_columns
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.owner.parties.class_sums import ClassSums
from suffice.owner.parties.contribution import (
    STATISTICS,
    PartyContribution,
    parameter_radius,
    parameter_step,
)
from suffice.owner.parties.enrolled import STRANGER, UNKNOWN, Enrolled, Rejection
from suffice.owner.parties.noise import reach, whitened_shape
from suffice.owner.parties.votes import operator_weights
from suffice.tables.labels import Classes

__all__ = ["Gathered", "Gathering", "PartyExact", "Sent", "largest_parameters"]

Sent = PartyContribution | str | Path | bytes
_ACCEPTS = {
    "operator": ("operator", "votes"),
    "votes": ("votes",),
    "parameters": ("parameters",),
    "class-sums": ("class-sums",),
}
_SHOWN = 3  # of the reasons why headers do not fit


@dataclass(frozen=True, eq=False)
class Gathered:
    """The exact sum over parties, which is private, and what happened to each contribution.

    Parameters
    ----------
    statistic : str
        What was summed: operator, votes, parameters or class-sums.
    total : ndarray
        The sum, of the statistic's shape.
    enrolled : Enrolled
        The enrolled parties.
    accepted : int
        How many contributions were counted.
    rejected : tuple of Rejection
        The contributions that counted as zero.
    missing : tuple of str
        The names of enrolled parties without a contribution, where names are known.
    absent : int
        How many enrolled parties sent no contribution.
    content : bytes
        What identifies the contributions behind the sum.
    """

    statistic: str
    total: np.ndarray
    enrolled: Enrolled
    accepted: int
    rejected: tuple[Rejection, ...]
    missing: tuple[str, ...]
    absent: int
    content: bytes


class PartyExact(ABC):
    """What parties said, summed exactly: contributions, a finished tally, or records of a table."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of contributions, tallies or records."""

    def update(self, batch: Any) -> None:
        """Take in a contribution, or records; a finished tally takes in nothing."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Take in everything that ``other`` has seen; a finished tally takes in nothing."""
        raise NotImplementedError

    @abstractmethod
    def check(self) -> None:
        """Raise if public facts forbid the release."""

    @abstractmethod
    def result(self) -> Gathered:
        """Return the sum, and what became of each contribution: private."""


class Gathering(PartyExact):
    """Checks contributions against public rows and classes, and sums what passes.

    ``statistic`` is what will be summed; where that is the operator, votes are taken as well, and
    become one. ``lam`` is the penalty behind parameters, ``samples`` the number of records behind
    class sums.
    """

    def __init__(
        self,
        statistic: str,
        auxiliary: AuxiliaryRows,
        classes: Classes,
        enrolled: Enrolled,
        lam: float = 1e-4,
        *,
        samples: int = 1,
    ) -> None:
        if statistic not in STATISTICS:
            raise ParameterError(f"statistic must be one of {', '.join(STATISTICS)}.")
        self._statistic, self._auxiliary, self._classes = statistic, auxiliary, classes
        self._enrolled, self._lam = enrolled, lam
        self._sums = ClassSums(auxiliary, len(classes), samples)
        self._shapes = _shapes(auxiliary, len(classes))
        self._pipeline = auxiliary.pipeline.digest()
        self._total = np.zeros(self._shapes[statistic], dtype=np.int64)
        self._lines: list[tuple[str, bytes]] = []
        self._sources: dict[str, str] = {}
        self._rejected: list[Rejection] = []
        self._fitting = 0  # contributions whose header is of this round, whatever their array
        self._limits: _Limits | None = None
        self._count = 0

    @property
    def count(self) -> int:
        """The number of contributions."""
        return self._count

    def take(self, sent: Iterable[Sent]) -> "Gathering":
        """Take in several contributions, files of them, or their bytes."""
        for item in sent:
            self.update(item)
        return self

    def update(self, item: Sent) -> None:
        """Take in a contribution; a party that sent two is an error.

        Two contributions under one name cannot be told apart, so that neither is chosen: remove
        one and gather again. Nothing was spent.
        """
        source = str(item) if isinstance(item, str | Path) else ""
        self._count += 1
        try:
            part = item if isinstance(item, PartyContribution) else PartyContribution.load(item)
        except SufficeError as error:
            self._rejected.append(Rejection(UNKNOWN, source, str(error)))
            return
        self._register_party(part.party, source)
        reason = self._reason_by_header(part)
        self._fitting += reason is None
        reason = reason or self._reason_by_shape(part) or self._limit.trouble(part)
        if reason:
            self._rejected.append(Rejection(part.party, source, reason))
        else:
            self._add(part)

    def merge(self, other: "Gathering") -> None:
        """Take in everything that ``other`` has seen."""
        for party, source in other._sources.items():
            self._register_party(party, source)
        self._total += other._total
        self._lines += other._lines
        self._rejected += other._rejected
        self._fitting += other._fitting
        self._count += other._count

    def check(self) -> None:
        """Raise unless the contributions are those of this round."""
        self.check_round()

    def check_round(self) -> None:
        """Raise if no contribution's header is of this round: the release would be noise alone.

        Only headers decide, which are public. Where one fits and its array is at fault, noise is
        released and charged: a refusal would say something about the array.
        """
        if self._fitting:
            return
        if not self._rejected:
            raise ParameterError(
                "There is no contribution. Nothing was charged or released. Name the .part files"
                " of the parties."
            )
        counted = Counter(rejection.reason.rstrip(".") for rejection in self._rejected)
        reasons = [f"{reason} ({count:,})" for reason, count in counted.most_common(_SHOWN)]
        raise ParameterError(
            f"None of the {len(self._rejected):,} contributions belongs to this round. Nothing was"
            " charged or released. Use the auxiliary rows, pipeline, classes, method and enrolled"
            f" parties that all agreed on. Reasons: {'; '.join(reasons)}."
        )

    def _register_party(self, party: str, source: str) -> None:
        """Note that a party sent something; refuse a second time."""
        if party in self._sources:
            both = " and ".join(s for s in (self._sources[party], source) if s)
            raise ParameterError(
                f"Party {party!r} contributed twice{f' ({both})' if both else ''}. Remove one of"
                " the two contributions."
            )
        self._sources[party] = source
        if self._enrolled.names is None and len(self._sources) > self._enrolled.count:
            raise ParameterError(
                f"More than the {self._enrolled.count} enrolled parties contributed. Correct the"
                " number of enrolled parties, which is public."
            )

    def _reason_by_header(self, part: PartyContribution) -> str | None:
        """Return why a contribution belongs elsewhere, by its header alone, or None."""
        auxiliary, ordered = self._auxiliary, part.statistic == "votes"
        reasons = (
            (not self._enrolled.admits(part.party), STRANGER),
            (
                part.statistic not in _ACCEPTS[self._statistic],
                f"it holds {part.statistic}, but this round needs {self._statistic}",
            ),
            (
                part.classes != self._classes,
                "it declares other classes, or the same classes in another order",
            ),
            (
                part.rows != auxiliary.hashes[ordered],
                "it was computed on other auxiliary rows" + ", or in another order" * ordered,
            ),
            (part.pipeline != self._pipeline, "it was computed with another pipeline"),
            (
                part.grid != self._grid(part.statistic),
                "it was computed on another grid: another penalty, version or processor",
            ),
        )
        return next((reason for wrong, reason in reasons if wrong), None)

    def _reason_by_shape(self, part: PartyContribution) -> str | None:
        """Return what is wrong with the array's type or shape, or None."""
        array, shape = part.array, self._shapes[part.statistic]
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu":
            return "it does not hold integers"
        return None if array.shape == shape else f"its array has shape {array.shape}, not {shape}"

    @property
    def _limit(self) -> "_Limits":
        if self._limits is None:
            self._limits = _Limits.of(self._auxiliary, len(self._classes), self._lam, self._sums)
        return self._limits

    def _grid(self, statistic: str) -> str:
        if statistic == "class-sums":
            return self._sums.grid
        if statistic != "parameters":
            return self._auxiliary.grid
        radius = parameter_radius(self._auxiliary, len(self._classes), self._lam)
        return f"steps of {parameter_step(radius)!r}"

    def _add(self, part: PartyContribution) -> None:
        array = part.array.astype(np.int64)
        if part.statistic != self._statistic:  # votes, where their operator is wanted
            array = self._auxiliary.sums(operator_weights(array))
        self._total += array
        self._lines.append((part.party, hashlib.sha256(array.tobytes()).digest()))

    def result(self) -> Gathered:
        """Return the sum, and a report of everything that did not enter it."""
        content = hashlib.sha256(f"{self._statistic}\0".encode())
        for party, digest in sorted(self._lines):
            content.update(hashlib.sha256(party.encode()).digest() + digest)
        names = self._enrolled.names or ()
        missing = tuple(name for name in names if name not in self._sources)
        return Gathered(
            statistic=self._statistic,
            total=self._total,
            enrolled=self._enrolled,
            accepted=len(self._lines),
            rejected=tuple(self._rejected),
            missing=missing,
            absent=len(missing) if names else self._enrolled.count - len(self._sources),
            content=content.digest(),
        )


def _shapes(auxiliary: AuxiliaryRows, classes: int) -> dict[str, tuple[int, int]]:
    lines = (operator_columns(classes), len(auxiliary.pipeline.outputs))
    return {
        "operator": lines,
        "votes": (auxiliary.count, classes),
        "parameters": lines,
        "class-sums": lines,
    }


def largest_parameters(auxiliary: AuxiliaryRows, classes: int, lam: float) -> float:
    """Return the norm, in steps, up to which a party's parameters are accepted.

    That of the longest minimiser, rounded to the grid, and a little for floats.
    """
    radius = parameter_radius(auxiliary, classes, lam)
    width = len(auxiliary.pipeline.outputs) * operator_columns(classes)
    return (radius / parameter_step(radius) + math.sqrt(width) / 2) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class _Limits:
    """How large a contribution can be that comes from votes, a penalised minimiser or class sums.

    Honest contributions keep every limit. The guarantee of parameters and class sums rests on
    theirs; for votes the limits bound what a dishonest party can do to the sum. The operator's
    norm is taken in whitened coordinates, in which no direction lets votes do more than another.
    """

    columns: np.ndarray
    total: np.ndarray
    whiten: np.ndarray
    norm: float
    radius: float
    sums: float
    classes: int

    @classmethod
    def of(cls, auxiliary: AuxiliaryRows, classes: int, lam: float, sums: ClassSums) -> "_Limits":
        """Return the limits for these public rows."""
        codes = auxiliary.codes
        shape = whitened_shape(codes)
        whiten = np.eye(codes.shape[1]) if shape is None else shape.matrix / 2.0**shape.bits
        return cls(
            columns=VOTE * np.abs(codes).sum(axis=0),
            total=VOTE * codes.sum(axis=0),
            whiten=whiten,
            norm=VOTE * len(codes) * reach(codes, shape) * (1 + 1e-6),
            radius=largest_parameters(auxiliary, classes, lam),
            sums=sums.most,
            classes=classes,
        )

    def trouble(self, part: PartyContribution) -> str | None:
        """Return what is wrong with the numbers of a contribution, or None."""
        array = part.array.astype(np.float64)
        if part.statistic == "votes":
            valid = (array >= 0).all() and (array <= VOTE).all()
            valid = valid and (array.sum(axis=1) == VOTE).all()
            return None if valid else "its votes are not proportions that add up to one in each row"
        if part.statistic == "parameters":
            within = float(np.linalg.norm(array)) <= self.radius
            return (
                None if within else "its parameters are larger than those of any trained classifier"
            )
        if part.statistic == "class-sums":
            within = float(np.linalg.norm(array)) <= self.sums
            return None if within else "its class sums are longer than all agreed on"
        size = float(np.linalg.norm(array @ self.whiten.T))
        if not size <= self.norm or (np.abs(array) > self.columns).any():
            return "it is larger than any votes could make it"
        if self.classes > 2 and (array.sum(axis=0) != self.total).any():
            return "its votes do not add up to one vote for each row"
        return None
