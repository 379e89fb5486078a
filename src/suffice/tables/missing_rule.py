"""What becomes of a missing value, by name; no heavy library is needed to ask."""

from enum import StrEnum
from typing import Literal

__all__ = ["Missing", "MissingRule"]

Missing = Literal["error", "mean", "zero"]


class MissingRule(StrEnum):
    """What becomes of a missing value."""

    ERROR = "error"
    MEAN = "mean"
    ZERO = "zero"
