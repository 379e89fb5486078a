"""Simulated parties: the records that each holds, the public rows, and what the parties send."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.owner.parties.contribution import PartyContribution
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.mechanism import PrivateEnsemble
from suffice.owner.parties.records import PartyTable
from suffice.owner.parties.tally import VoteTally
from suffice.release.artifact import Release
from suffice.tables.columns import resolve_roles
from suffice.tables.labels import Classes, check_classes, label_codes

__all__ = [
    "Contributions", "Crowd", "Shares", "auxiliary_of_unit_norm", "crowd_of_parts",
    "crowd_of_table", "deal",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Crowd:
    """Holds public auxiliary rows, the records of many parties, and test records.

    Test rows are mapped by the pipeline of the auxiliary ones, as the parties' are.
    """

    auxiliary: AuxiliaryRows
    parties: PartyTable
    test_rows: np.ndarray
    test_codes: np.ndarray

    @property
    def classes(self) -> Classes:
        """The declared classes."""
        return self.parties.classes

    @property
    def count(self) -> int:
        """M, the number of parties."""
        return len(self.parties.names)

    def first(self, count: int) -> "Crowd":
        """Return the crowd of the first ``count`` parties."""
        own = self.parties.index < count
        fewer = replace(
            self.parties,
            rows=self.parties.rows[own],
            codes=self.parties.codes[own],
            index=self.parties.index[own],
            names=self.parties.names[:count],
        )
        return replace(self, parties=fewer)

    def accuracy(self, coefficients: np.ndarray) -> float:
        """Return the test accuracy of a linear classifier, (d,) or (d, K)."""
        scores = self.test_rows @ coefficients
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return float(np.mean(best == self.test_codes))


@dataclass(frozen=True)
class Contributions:
    """What all parties of a table send at penalty ``lam``, computed once for many releases.

    The table is public, and so are its parties: they may be counted.
    """

    parties: PartyTable
    auxiliary: AuxiliaryRows
    lam: float

    @property
    def enrolled(self) -> Enrolled:
        """All of the parties."""
        return Enrolled(len(self.parties.names))

    @cached_property
    def tally(self) -> VoteTally:
        """The votes on the auxiliary rows."""
        return self.parties.tally(self.auxiliary, self.lam, self.enrolled)

    @cached_property
    def models(self) -> np.ndarray:
        """The parameters of every party's classifier."""
        return self.parties.parameters(self.lam)

    @cached_property
    def parameters(self) -> list[PartyContribution]:
        """The same, as parties send them."""
        return list(self.parties.averaged(self.auxiliary, self.lam))

    @property
    def samples(self) -> int:
        """The number of records of each party, on average."""
        return max(1, round(len(self.parties.codes) / max(1, len(self.parties.names))))

    @cached_property
    def class_sums(self) -> list[PartyContribution]:
        """The class sums of every party's records, as parties send them."""
        return list(self.parties.summed(self.auxiliary, self.samples))

    @cached_property
    def soft_labels(self) -> np.ndarray:
        """The exact proportion of parties that vote for each class, (N, K)."""
        return self.tally.gathered("votes").total / (VOTE * self.enrolled.count)

    def release(self, method: str, epsilon: float, delta: float, **charged_to: Any) -> Release:
        """Return the release of one method, with fresh noise.

        ``charged_to`` names the ledger and the data set, or ``ledger=None``.
        """
        by_method = {"average": "parameters", "class-sums": "class_sums"}
        contributions = getattr(self, by_method.get(method, "tally"))
        samples = self.samples if method == "class-sums" else None
        ensemble = PrivateEnsemble(
            epsilon, delta, method, classes=self.parties.classes, lam=self.lam, samples=samples
        )
        return ensemble.aggregate(
            contributions, self.auxiliary, enrolled=self.enrolled, **charged_to
        ).release


@dataclass(frozen=True)
class Shares:
    """Which proportions of a table's rows are auxiliary and test rows; parties hold the others."""

    auxiliary: float = 0.1
    test: float = 0.25

    def cut(self, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Return the indices of auxiliary, test and private rows, drawn at random."""
        if not (self.auxiliary > 0 and self.test > 0 and self.auxiliary + self.test < 1):
            raise ParameterError(
                "The proportions of auxiliary and test rows must be above 0 and their sum below 1."
            )
        order = rng.permutation(rows)
        first = max(1, round(self.auxiliary * rows))
        second = first + max(1, round(self.test * rows))
        return order[:first], order[first:second], order[second:]


def crowd_of_table(
    table: pa.Table,
    rng: np.random.Generator,
    *,
    label: str,
    classes: Sequence[Any],
    party: str | None = None,
    parties: int | None = None,
    shares: Shares = Shares(),  # noqa: B008  # frozen
    **pipeline: Any,
) -> Crowd:
    """Return a crowd of ``table``: its parties by a column, or ``parties`` of them at random.

    ``pipeline`` holds what `AuxiliaryRows.read` takes.
    """
    if (party is None) == (parties is None):
        raise ParameterError(
            "Parties come either from a column or from random numbers. Give party or parties."
        )
    declared = check_classes(classes)
    roles = resolve_roles(table.schema, label=label, party=party)
    for_auxiliary, for_test, private = shares.cut(len(table), rng)
    public = table.select(roles.features).take(for_auxiliary)
    auxiliary = auxiliary_of_unit_norm(public, **pipeline)
    records = table.take(private)
    party_column = party or ""
    if parties is not None:
        if not 1 <= parties <= len(records):
            raise ParameterError(
                f"The number of parties must be between 1 and {len(records)}, the number of"
                " private records."
            )
        records, party_column = deal(records, parties)
    return crowd_of_parts(
        auxiliary, records, table.take(for_test), label=label, classes=declared, party=party_column
    )


def auxiliary_of_unit_norm(public: pa.Table, **pipeline: Any) -> AuxiliaryRows:
    """Return public rows whose norms, but for the intercept, are at most one.

    Hamm et al. 2016, Section 2.2, assume it, and their penalty means something only with it.
    """
    fitted = AuxiliaryRows.read(public, **pipeline).pipeline
    scale, intercept = fitted.scale * fitted.bound, fitted.intercept / fitted.bound
    return AuxiliaryRows.read(
        public, pipeline=replace(fitted, scale=scale, bound=1.0, intercept=intercept)
    )


def crowd_of_parts(
    auxiliary: AuxiliaryRows,
    records: pa.Table,
    test_records: pa.Table,
    *,
    label: str,
    classes: Classes,
    party: str,
) -> Crowd:
    """Return the crowd of parties that hold ``records``, tested on ``test_records``."""
    own = PartyTable.read(records, auxiliary, label=label, classes=classes, party=party)
    codes = label_codes(test_records[label].combine_chunks(), classes)
    return Crowd(auxiliary, own, auxiliary.transform(test_records), codes)


def deal(records: pa.Table, parties: int) -> tuple[pa.Table, str]:
    """Return the records with a column that deals them out in turn, and the column's name."""
    name = "party"
    while name in records.column_names:
        name += "_"
    width = len(str(parties))  # so that names sort as numbers do
    owners = [f"{index % parties:0{width}d}" for index in range(len(records))]
    return records.append_column(name, pa.array(owners)), name
