"""Penalties as data: squared 2-norm, 1-norm, a mixture of both, or none."""

from dataclasses import dataclass

import numpy as np

from suffice.errors import ParameterError

__all__ = ["PENALTIES", "Penalty", "penalty_named"]


@dataclass(frozen=True)
class Penalty:
    """Computes lam (mixing ||theta||_1 + (1 - mixing)/2 ||theta||_2^2), or nothing at all.

    The intercept's coordinate has the penalty (lam/2) theta_d^2 whatever the mixture: a 1-norm
    would set it to zero, and with it the proportion of the classes.

    Parameters
    ----------
    name : str
        The name of the penalty; "none" for no penalty at all.
    mixing : float, default=0.0
        The weight of the 1-norm, between 0 and 1.
    """

    name: str
    mixing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.mixing <= 1:
            raise ParameterError(
                f"mixing, the weight of the 1-norm, must lie between 0 and 1; got {self.mixing!r}."
            )

    @property
    def smooth(self) -> bool:
        """Whether there is no 1-norm in it."""
        return self.mixing == 0

    def weights(
        self, lam: float, shape: tuple[int, ...], *, intercept: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the weight of |theta_j| and the weight of theta_j^2 / 2, for each entry."""
        strength = 0.0 if self.name == "none" else lam
        absolute = np.full(shape, strength * self.mixing)
        squared = np.full(shape, strength * (1 - self.mixing))
        if intercept:
            absolute[-1], squared[-1] = 0.0, strength
        return absolute, squared


PENALTIES = {
    "l2": Penalty("l2"),
    "l1": Penalty("l1", 1.0),
    "elastic-net": Penalty("elastic-net", 0.5),
    "none": Penalty("none"),
}


def penalty_named(penalty: str | Penalty) -> Penalty:
    """Return the penalty of this name, or the one that is given."""
    if isinstance(penalty, Penalty):
        return penalty
    if penalty not in PENALTIES:
        raise ParameterError(f"penalty must be one of {', '.join(PENALTIES)}.")
    return PENALTIES[penalty]
