"""How label proportions leave: counts with noise, and the nearest proportions to them."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suffice.errors import TableError
from suffice.models.simplex import nearest_proportions
from suffice.owner.mechanism import Procedure
from suffice.owner.proportions.dirichlet import ScaledCounts
from suffice.owner.proportions.exact import ExactCounts
from suffice.owner.proportions.noise import CountNoise
from suffice.owner.public_rows import PublicTable
from suffice.owner.publish import PrivateIdentity
from suffice.owner.scaling import as_scaled
from suffice.owner.source import LabelledBatch
from suffice.privacy.guarantee import Assumption, Guarantee, Unit
from suffice.release.artifact import Part, Release
from suffice.strict_json import canonical
from suffice.tables.bags import Bags

__all__ = ["BaggedTable", "NoisyProportions"]

_ONE_DIRECTION = Assumption(
    "the loss counts one way only, from these counts to a neighbour's, as the paper's rule for"
    " sigma has it",
    "chosen by the owner (sigma_rule)",
)


@dataclass(frozen=True)
class BaggedTable:
    """Public rows, the public bags that they are in, and how those came about."""

    table: PublicTable
    bags: Bags
    formed: Assumption

    @property
    def shown(self) -> Iterable[str]:
        """The feature columns: all of them are public."""
        return self.table.shown

    def batches(self) -> Iterator[LabelledBatch]:
        """Yield the rows with their private labels and their bags."""
        start, codes = 0, self.bags.codes
        for batch in self.table.batches():
            end = start + len(batch)
            yield replace(batch, bags=codes[start:end])
            start = end
        if start != len(codes):
            raise TableError("the table changed while it was read; give one that stays as it is.")


@dataclass(frozen=True, eq=False)
class NoisyProportions(Procedure[ExactCounts]):
    """Class counts with noise, and the proportions nearest to them.

    ``mechanism`` is the name of ``noise``; ``request`` are the fields that the owner asked with.
    """

    kind = "proportions"
    public: BaggedTable
    mechanism: str
    noise: CountNoise
    request: Mapping[str, Any]

    def accumulator(self, *, identified: bool) -> ExactCounts:
        """Return empty counts."""
        del identified
        return ExactCounts(self.public.table.rows, self.public.bags, self.public.table.classes)

    def guarantees(self, exact: ExactCounts) -> tuple[Guarantee, ...]:
        """Return the one promise, per label."""
        del exact
        return (self.promise(),)

    def promise(self) -> Guarantee:
        """Return what is promised about each label."""
        overlap, noise = self.public.bags.overlap, self.noise
        several = f", up to {overlap} of them" if overlap > 1 else ""
        one_direction = isinstance(noise, ScaledCounts) and noise.rule != "exact"
        guarantee = Guarantee(
            unit=Unit.LABEL,
            event=noise.event,
            delta=0.0 if noise.event.pure else self.request["delta"],
            kind=noise.kind,
            public=(
                "the feature columns of every row",
                f"which bags a row is in{several} (and so their sizes)",
                "the class list",
            ),
            assumptions=(self.public.formed, *([_ONE_DIRECTION] if one_direction else [])),
        )
        return as_scaled(guarantee, self.public.table.rows.pipeline.origin)

    def parameters(self, exact: ExactCounts) -> Mapping[str, Any]:
        """Return the public description of the request."""
        table = self.public.table
        return {
            "kind": self.kind,
            **self.request,
            "classes": list(table.classes),
            "bags": hashlib.sha256(canonical(list(self.public.bags.names))).hexdigest(),
            "rows": exact.row_set(None).hash,
            "pipeline": table.rows.pipeline.digest(),
        }

    def identity(self, exact: ExactCounts, guarantees: tuple[Guarantee, ...]) -> PrivateIdentity:
        """Return the fingerprint of the labels."""
        del guarantees
        return PrivateIdentity(exact.fingerprint)

    def draw(self, exact: ExactCounts, guarantees: tuple[Guarantee, ...]) -> Release:
        """Return the release, with fresh noise."""
        table, bags = self.public.table, self.public.bags
        noisy = self.noise.draw(exact.result())
        shares = nearest_proportions(noisy / bags.sizes[:, None])
        return Release(
            kind=self.kind,
            arrays={
                "proportions": shares / shares.sum(axis=1, keepdims=True),
                "counts": np.ascontiguousarray(noisy),
                "sizes": bags.sizes.astype(np.int64),
            },
            details={
                "classes": list(table.classes),
                "bags": list(bags.names),
                "mechanism": self.mechanism,
            },
            parts=(Part(exact.row_set(table.found_at), guarantees),),
            pipeline=table.rows.pipeline,
            noise=self.noise.covariance(),
        )
