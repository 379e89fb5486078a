"""How records leave: every cell through the noise that was declared for it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suffice.owner.fingerprint import CellFingerprint
from suffice.owner.mechanism import Procedure, Public
from suffice.owner.publish import PrivateIdentity
from suffice.owner.responses.exact import PrivateCells
from suffice.owner.responses.records import DeclaredRecords
from suffice.owner.source import LabelledPart, Source, labelled_parts
from suffice.privacy.guarantee import Guarantee
from suffice.release.artifact import Release
from suffice.strict_json import canonical
from suffice.tables.columns import Roles
from suffice.tables.labels import Classes
from suffice.tables.table import Table

__all__ = ["DeclaredTable", "RandomisedRecords"]


@dataclass(frozen=True)
class DeclaredTable(Public):
    """A table all of whose columns are private, and what was declared about them.

    Parameters
    ----------
    table : Table
        The table, typed as declared.
    roles : Roles
        Its label and its features.
    declared : DeclaredRecords
        The declared columns.
    classes : tuple
        The declared classes.
    source : Source
        What the owner handed in.
    """

    table: Table
    roles: Roles
    declared: DeclaredRecords
    classes: Classes
    source: Source

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private records with their labels, in parts."""
        return labelled_parts(self.table, self.roles, self.classes, self.source)


@dataclass(frozen=True, eq=False)
class RandomisedRecords(Procedure[PrivateCells]):
    """Whole records, every cell through the noise that was declared for it."""

    kind = "responses"
    stays = (
        "A release of randomised records holds every cell, so all cells would have to travel to"
        " the owner's machine."
    )
    public: DeclaredTable
    delta: float

    def accumulator(self, *, identified: bool) -> PrivateCells:
        """Return an empty set of cells."""
        table, declared = self.public.table, self.public.declared
        features = self.public.roles.features
        cells = CellFingerprint(table.schema, features) if identified else None
        return PrivateCells(declared.columns, declared.channels, self.public.classes, cells)

    def guarantees(self, exact: PrivateCells) -> tuple[Guarantee, ...]:
        """Return the guarantees per label, attribute and record."""
        del exact
        return self.public.declared.guarantees(self.delta)

    def parameters(self, exact: PrivateCells) -> Mapping[str, Any]:
        """Return the public description of the request."""
        declared, details = self.public.declared, self.public.declared.details(self.public.classes)
        return {
            "kind": self.kind,
            "epsilon": self.guarantees(exact)[0].epsilon,
            "delta": self.delta,
            "records": exact.count,
            "channel": declared.label.matrix.tolist(),
            "details": hashlib.sha256(canonical(details)).hexdigest(),
        }

    def identity(self, exact: PrivateCells, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of labels and cells."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: PrivateCells, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh answers."""
        declared = self.public.declared
        return declared.release(exact.randomised(declared.label), self.public.classes, guarantees)
