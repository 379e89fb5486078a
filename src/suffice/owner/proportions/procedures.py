"""How label proportions are released: counts with noise, and the nearest proportions to them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.models.simplex import nearest_proportions
from suffice.owner.labelled import Contents, LabelProcedure
from suffice.owner.mechanism import Public
from suffice.owner.proportions.dirichlet import CountNoise, ScaledCounts
from suffice.owner.proportions.exact import ExactCounts
from suffice.owner.public_rows import PublicTable
from suffice.owner.source import LabelledPart
from suffice.privacy.events import Event
from suffice.privacy.guarantee import Assumption, Protection
from suffice.strict_json import canonical
from suffice.tables.bags import Bags

__all__ = ["BaggedTable", "NoisyProportions"]

_ONE_DIRECTION = Assumption(
    "the loss counts one way only, from these counts to a neighbour's, as the paper's rule for"
    " sigma has it",
    "chosen by the owner (sigma_rule)",
)


@dataclass(frozen=True)
class BaggedTable(Public):
    """Public rows and the public bags that they are in.

    Parameters
    ----------
    table : PublicTable
        The public rows and their private labels.
    bags : Bags
        Which bags each row is in.
    formed : Assumption
        How the bags came about.
    """

    table: PublicTable
    bags: Bags
    formed: Assumption

    @property
    def shown(self) -> Iterable[str]:
        """The feature columns: all of them are public."""
        return self.table.shown

    def parts(self) -> Sequence[LabelledPart]:
        """Return the rows with their private labels and their bags, in parts."""
        return self.table.parts(self.bags.codes)


@dataclass(frozen=True, eq=False)
class NoisyProportions(LabelProcedure[ExactCounts]):
    """Class counts of bags with noise, and the proportions nearest to them.

    ``mechanism`` is the name of ``noise``; ``formed`` says how the bags came about.
    """

    kind = "proportions"
    bags: Bags
    formed: Assumption
    mechanism: str
    noise: CountNoise

    def accumulator(self, *, identified: bool) -> ExactCounts:
        """Return empty counts."""
        return ExactCounts(self.public.rows, self.bags, self.classes, identified=identified)

    def event(self, exact: ExactCounts | None) -> Event:
        """Return what one label costs: it was known from the sizes of the bags."""
        del exact
        return self.noise.event

    @property
    def promise_kind(self) -> Protection:
        """Whether the guarantee is global: a scaled Dirichlet's is not."""
        return self.noise.kind

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """How the bags came about, and what the paper's rules for sigma leave out."""
        one_direction = isinstance(self.noise, ScaledCounts) and self.noise.rule != "exact"
        return (self.formed, *([_ONE_DIRECTION] if one_direction else []))

    @property
    def shown(self) -> Iterable[str]:
        """What the guarantee calls public."""
        several = f", up to {self.bags.overlap} of them" if self.bags.overlap > 1 else ""
        bags = f"which bags a row is in{several} (and so their sizes)"
        return ("the feature columns of every row", bags, "the class list")

    def parameters(self, exact: ExactCounts) -> Mapping[str, Any]:
        """Return the public description of the request."""
        names = hashlib.sha256(canonical(list(self.bags.names))).hexdigest()
        return {**super().parameters(exact), "bags": names}

    def contents(self, exact: ExactCounts) -> Contents:
        """Return noisy counts and proportions."""
        sizes = self.bags.sizes
        noisy = self.noise.draw(exact.result())
        proportions = nearest_proportions(noisy / sizes[:, None])
        arrays = {
            "proportions": proportions / proportions.sum(axis=1, keepdims=True),
            "counts": np.ascontiguousarray(noisy),
            "sizes": sizes.astype(np.int64),
        }
        details = {"bags": list(self.bags.names), "mechanism": self.mechanism}
        return arrays, details, self.noise.covariance()
