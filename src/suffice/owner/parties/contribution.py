"""What one party hands to the aggregator of many: its votes on public rows, as integers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.operator_form import gradient_change
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.votes import operator_weights, votes_of
from suffice.tables.labels import Classes, check_classes

__all__ = ["STATISTICS", "PartyContribution", "check_name", "parameter_radius", "parameter_step"]

STATISTICS = ("operator", "votes", "parameters")
_PARAMETER_BITS = 30
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class PartyContribution:
    """Protects nothing: a party's exact statistic, for the aggregator that the party trusts.

    ``statistic`` says what ``array`` holds, in integers:

    - "operator": the party's own mean operator on the public auxiliary rows, sum_i w_i x_i with
      votes w_i: (1, d), w_i = VOTE (positive - negative), for two classes, else (K, d);
    - "votes": the votes themselves (N, K), each row with sum VOTE;
    - "parameters": a linear classifier's parameters in steps of `parameter_step`, (1, d) or (K, d).

    ``rows``, ``pipeline`` and ``grid`` name the public rows, coordinates and integers that it was
    computed with, ``classes`` the declared classes. It must depend on the party's own data alone.
    Nothing is checked here: the aggregator checks what it is sent.
    """

    party: str
    statistic: str
    array: np.ndarray
    rows: str
    pipeline: str
    grid: str
    classes: Classes

    @classmethod
    def of(
        cls,
        party: str,
        voter: Any,
        auxiliary: AuxiliaryRows,
        *,
        classes: Sequence[Any] = (0, 1),
        statistic: str = "operator",
        votes: str = "hard",
        mapped: bool = False,
    ) -> "PartyContribution":
        """Return the contribution of a classifier, of a function or of a column of votes.

        ``votes``: "hard", one class per row, or "simplex", shares that sum to one. ``mapped`` says
        whether a classifier or function sees the auxiliary rows as mapped by the public pipeline
        (`AuxiliaryRows.transform` maps the party's own) or as they were given.
        """
        declared = check_classes(classes)
        weights = votes_of(voter, auxiliary, declared, votes, mapped=mapped)
        return cls.of_weights(party, weights, auxiliary, declared, statistic)

    @classmethod
    def of_weights(
        cls,
        party: str,
        weights: np.ndarray,
        auxiliary: AuxiliaryRows,
        classes: Classes,
        statistic: str = "operator",
    ) -> "PartyContribution":
        """Return the contribution of votes that are weights (N, K) already."""
        if statistic not in ("operator", "votes"):
            raise ParameterError("votes become an operator, or stay votes.")
        ordered = statistic == "votes"
        array = weights if ordered else auxiliary.sums(operator_weights(weights))
        return cls(
            party=check_name(party),
            statistic=statistic,
            array=array,
            rows=auxiliary.hashes[ordered],
            pipeline=auxiliary.pipeline.digest(),
            grid=auxiliary.grid,
            classes=classes,
        )

    @classmethod
    def of_parameters(
        cls,
        party: str,
        parameters: Any,
        auxiliary: AuxiliaryRows,
        *,
        classes: Sequence[Any] = (0, 1),
        lam: float = 1e-4,
    ) -> "PartyContribution":
        """Return the contribution of a linear classifier, (d,) or (d, K), to average parameters.

        The classifier must be in the mapped coordinates (`AuxiliaryRows.transform`). Parameters
        longer than `parameter_radius`, which no minimiser at penalty ``lam`` is, are scaled down.
        """
        declared = check_classes(classes)
        radius = parameter_radius(auxiliary, len(declared), lam)
        theta = np.asarray(parameters, dtype=np.float64)
        width = len(auxiliary.pipeline.outputs)
        if theta.shape != ((width,) if len(declared) == 2 else (width, len(declared))):
            raise ParameterError(f"parameters must have one number per coordinate, {width}.")
        if not np.isfinite(theta).all():
            raise ParameterError("parameters must be finite numbers.")
        size = max(float(np.linalg.norm(theta)), 1e-300)
        flat = theta.T.reshape(-1, width) * min(1.0, radius / size)
        step = parameter_step(radius)
        return cls(
            party=check_name(party),
            statistic="parameters",
            array=np.rint(flat / step).astype(np.int64),
            rows=auxiliary.hashes[0],
            pipeline=auxiliary.pipeline.digest(),
            grid=f"steps of {step!r}",
            classes=declared,
        )

    def save(self, path: str | Path) -> None:
        """Write a ``*.part`` file, readable by its owner alone: it is not private."""
        from suffice.owner.parties.files import encode_part
        from suffice.release.files import write_whole

        write_whole(Path(path), encode_part(self), mode=0o600)

    @classmethod
    def load(cls, source: str | Path | bytes) -> "PartyContribution":
        """Return the contribution in a ``*.part`` file, or raise; its contents are not checked."""
        from suffice.owner.parties.files import read_part

        return read_part(source)


def check_name(party: str) -> str:
    """Return a party's name if it is one that files and reports can show, or raise."""
    if not isinstance(party, str) or not 0 < len(party) <= _LONGEST_NAME or not party.isprintable():
        raise ParameterError(f"a party's name must be printable, of 1 to {_LONGEST_NAME} letters.")
    return party


def parameter_radius(auxiliary: AuxiliaryRows, classes: int, lam: float) -> float:
    """Return the largest norm of a minimiser of the risk plus (lam/2) ||theta||^2 on any rows.

    At a minimiser lam theta is minus the mean gradient of the losses, at most B = the norm bound
    for the logistic loss and sqrt(2) B for softmax (Hamm et al. 2016, eq. 44).
    """
    if not (math.isfinite(lam) and lam > 0):
        raise ParameterError("lam must be a positive number.")
    return auxiliary.pipeline.norm_bound * gradient_change(classes) / lam


def parameter_step(radius: float) -> float:
    """Return the step of the public grid of parameters: a power of two, 2^-30 of the radius."""
    return 2.0 ** (math.ceil(math.log2(radius)) - _PARAMETER_BITS)
