"""Records that leave cell by cell: what is declared about them, and the one place that makes them.

An owner's table (`mechanism`) and a survey's answers (`survey`) become the same kind of release,
with the same promises.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.responses.channels import Channel
from suffice.owner.responses.guarantees import cell_guarantees
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.response import Response
from suffice.release.artifact import Part, Release, RowSet
from suffice.release.covariance import Covariance
from suffice.release.spread import Added, Flips, SpreadColumn, declared_pipeline
from suffice.strict_json import canonical

__all__ = ["DeclaredRecords"]

_MOST_DECLARED = 2**23  # bytes of declared columns: half of what a manifest may hold


@dataclass(frozen=True)
class DeclaredRecords:
    """Everything about a release of records that is known before one of them is read."""

    columns: tuple[SpreadColumn, ...]
    channels: Mapping[Flips | Added, Channel]
    label: Response

    def details(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return the public details of the release."""
        described = [column.to_json() for column in self.columns]
        if len(canonical(described)) > _MOST_DECLARED:
            raise ParameterError("the tables of noise are too large for a file; use feature_flip.")
        return {"classes": list(classes), "columns": described, "mechanism": "response"}

    def guarantees(self, delta: float) -> tuple[Guarantee, ...]:
        """Return the promises per label, attribute and record."""
        cost = {noise: channel.event for noise, channel in self.channels.items()}
        return cell_guarantees(self.label.event, [cost[c.noise] for c in self.columns], delta)

    def release(
        self,
        randomised: Mapping[str, np.ndarray],
        classes: Sequence[Any],
        guarantees: tuple[Guarantee, ...],
    ) -> Release:
        """Return the release of cells that went through the noise: answers, codes and values."""
        details = self.details(classes)
        content = hashlib.sha256(b"randomised rows in order\0" + canonical(details))
        for name in ("answers", "codes", "values"):
            content.update(randomised[name].tobytes())
        count = len(randomised["answers"])
        rows = RowSet(count, "sha256:" + content.hexdigest())
        return Release(
            kind="responses",
            arrays={**randomised, "channel": self.label.matrix},
            details=details,
            parts=(Part(rows, guarantees),),
            pipeline=declared_pipeline(self.columns),
            noise=Covariance("none"),
        )
