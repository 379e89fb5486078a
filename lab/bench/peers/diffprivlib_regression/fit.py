"""diffprivlib's LinearRegression with declared bounds, in its own process: fit.py GIVEN ANSWER."""

import json
import sys
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression


def main() -> None:
    """Fit it, and write what it predicts."""
    given = np.load(sys.argv[1])
    width = given["rows"].shape[1]
    model = LinearRegression(
        epsilon=float(given["epsilon"]),
        bounds_X=(-np.ones(width), np.ones(width)),
        bounds_y=(-1.0, 1.0),
        random_state=int(given["seed"]),
    ).fit(given["rows"], given["target"])
    predicted = model.predict(given["test_rows"])
    Path(sys.argv[2]).write_text(json.dumps({"predicted": predicted.tolist()}))


main()
