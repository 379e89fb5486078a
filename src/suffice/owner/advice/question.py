"""What an owner asks: what is private, how strongly it must be protected, and what is public."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from suffice.errors import ParameterError
from suffice.options import REQUIRED, check_choices, data_option, option, privacy_option
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON
from suffice.owner.operator.forecast import check_balance
from suffice.privacy.calibrate import check_promise
from suffice.tables.labels import Classes, check_classes

__all__ = ["Private", "Question"]


class Private(StrEnum):
    """What must not be seen."""

    LABELS = "labels"
    RECORDS = "records"
    ATTRIBUTES = "attributes"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an owner asks.

    Parameters
    ----------
    private : {"labels", "records", "attributes"}
        What is private: the labels of public rows, whole records, or each single value.
    epsilon : float
        Epsilon of each label, record or value.
    delta : float
        Delta; 0 rules out releases with Gaussian noise.
    public : table, optional
        Public rows with the same columns, other rows than the private ones.
    classes : sequence
        The labels that can occur.
    balance : float, optional
        The proportion of the positive class that the owner expects.
    """

    private: str = privacy_option(
        REQUIRED,
        "What is private: labels (rows are public), records (whole rows) or attributes (each single"
        " value).",
        choices=Private,
    )
    epsilon: float = option(REQUIRED, **EPSILON)
    delta: float = option(0.0, **DELTA)
    public: Any = data_option(
        None,
        "Public table (a file) with the same columns, for records and attributes. Its rows must be"
        " other rows than the private ones.",
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES)
    balance: float | None = data_option(
        None,
        "Proportion of the positive class that you expect, for example 0.12. It is never read from"
        " the labels. Default: equal classes.",
    )

    def __post_init__(self) -> None:
        check_choices(self)
        check_promise(self)
        check_balance(self.balance, len(self.declared_classes))
        if self.private == Private.LABELS and self.public is not None:
            raise ParameterError(
                "With private labels the rows of the table are public. Remove --public (Python:"
                " public)."
            )

    @cached_property
    def declared_classes(self) -> Classes:
        """The declared classes."""
        return check_classes(self.classes)
