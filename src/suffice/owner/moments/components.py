"""How many principal components of public rows can show above the noise of moments.

In rows of length 1, let l_i be the mean square of public rows along component i, and s the noise of
a square. A component below s/2 says less about itself than its noise hides, and each one that is
left out makes the noise matrix smaller (MATHS.md section 6). The number follows from public rows,
the number of records, epsilon and delta alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from suffice.owner.moments.noise import calibrated_moments
from suffice.owner.operator.mechanism import MeanOperator

__all__ = ["components_above_noise"]

_LEAST_SQUARE = 0.5  # times the noise of a square, that a component must have on average
_MOST = 4096  # coordinates of a row of moments
_CLIP = 0.2  # quantile of public row lengths, that of Moments


def components_above_noise(
    public: Any,
    rows: int,
    epsilon: float,
    delta: float,
    *,
    classes: int = 2,
    label: str | None = None,
    features: Sequence[str] | None = None,
    ranks: bool = False,
) -> str:
    """Return the map that keeps the principal components which moments can show: "components:33".

    Nothing private is read. Pass the result as the ``map`` of the pipeline of `suffice.Moments`.

    Parameters
    ----------
    public : array, table or path
        Public rows, which the components are computed from.
    rows : int
        The number of private records.
    epsilon, delta : float
        The guarantee of the release.
    classes : int, default=2
        The number of classes.
    label : str, optional
        A column of the public rows that is left out.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    ranks : bool, default=False
        Whether columns are replaced by their ranks first ("ranks+components:33").

    Returns
    -------
    str
        The map, with at least one component.

    Raises
    ------
    ParameterError
        If epsilon or delta is outside its domain.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> public = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 30)) + rng.normal(size=(500, 30))
    >>> components_above_noise(public, 2000, 0.1, 1e-6)
    'components:10'
    >>> components_above_noise(public, 1_000_000, 1.0, 1e-6)
    'components:30'
    """
    kind = "ranks+components" if ranks else "components"
    reader = MeanOperator(1.0, map=f"{kind}:{_MOST}", clip=_CLIP, intercept=0.0, missing="mean")
    public_rows = reader.public_rows(public, label=label, features=features)
    sample, _ = public_rows.sample()
    squares = np.mean((sample / public_rows.pipeline.bound) ** 2, axis=0)
    noise = calibrated_moments(sample.shape[1], classes, rows, epsilon, delta)
    least = _LEAST_SQUARE * noise.blocks["diagonal"].deviation / rows
    return f"{kind}:{max(1, int(np.sum(squares >= least)))}"
