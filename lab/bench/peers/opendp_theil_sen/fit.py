"""OpenDP's Theil-Sen line with declared bounds, in its own process: fit.py GIVEN ANSWER.

It has one feature, pure epsilon, and protects records that are added or removed; one that is
replaced is two of these. So noise is for a distance of 2.
"""

import json
import sys
from pathlib import Path

import numpy as np
import opendp.prelude as dp
from opendp.extras.sklearn.linear_model import _make_private_theil_sen as theil_sen


def main() -> None:
    """Fit it, and write what it predicts."""
    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    given = np.load(sys.argv[1])
    np.random.seed(int(given["seed"]))  # noqa: NPY002  # its pairs; its noise cannot be seeded

    def make(scale: float) -> dp.Measurement:
        return theil_sen(dp.max_divergence(), (-1.0, 1.0), (-1.0, 1.0), scale=scale)

    scale = dp.binary_search_param(make, d_in=2, d_out=float(given["epsilon"]), T=float)
    slope, intercept = make(scale)(np.column_stack([given["rows"][:, 0], given["target"]]))
    predicted = slope * given["test_rows"][:, 0] + intercept
    Path(sys.argv[2]).write_text(json.dumps({"predicted": predicted.tolist()}))


main()
