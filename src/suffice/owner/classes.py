"""The classes of a data set: declared once, in its ledger, and never chosen by who asks."""

from collections.abc import Iterable
from typing import Any

from suffice.errors import ParameterError
from suffice.owner.ledger import Ledger
from suffice.tables.labels import Classes, canonical_class

__all__ = ["check_declared", "check_features", "same_classes"]


def same_classes(first: Classes, second: Classes) -> bool:
    """Say whether two lists name the same classes, in any order and spelling."""
    return {*map(canonical_class, first)} == {*map(canonical_class, second)}


def check_declared(
    classes: Classes, ledger: Ledger | None, dataset: str | None, label: str | None
) -> None:
    """Raise if the ledger has other classes for this label; nothing private is read for it.

    The order of a release's list is its own: it only says which of two classes is positive.
    """
    declared: Any = ledger.classes(dataset, label) if ledger is not None and dataset else None
    if declared is not None and not same_classes(classes, declared):
        raise ParameterError(
            f"The ledger lists the classes {', '.join(map(str, declared))} for data set"
            f" {dataset!r}, but this release lists {', '.join(map(str, classes))}. List those of"
            " the ledger with --classes (Python: classes=...)."
        )


def check_features(features: Iterable[str], ledger: Ledger | None, dataset: str | None) -> None:
    """Raise if a column that a release takes for public is a label of its data set."""
    if ledger is None or not dataset:
        return
    private = sorted({*features} & ledger.label_columns(dataset))
    if private:
        raise ParameterError(
            f"The ledger declares column {private[0]!r} as a label. It is private and cannot be a"
            " feature. List the features without it: --features (Python: features=...)."
        )
