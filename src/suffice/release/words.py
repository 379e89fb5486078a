"""What `suffice inspect` says of a release, beside what it promises: lines of names and values."""

from collections.abc import Sequence
from typing import Any

from suffice.plain_text import listed, name
from suffice.release.spread import SpreadColumn

__all__ = [
    "Lines",
    "bag_words",
    "column_words",
    "count_noise_words",
    "detail_words",
    "model_words",
    "noise_words",
]

Lines = list[tuple[str, str]]
_SHOWN = 6  # of many columns or bags
_HIDDEN = ("classes", "columns", "bags")  # said elsewhere, or in words of their own


def noise_words(release: Any) -> str:
    """Return how large the noise of a release is, on each of its numbers."""
    spread = release.noise.diagonal(len(release.pipeline.outputs)).mean() ** 0.5
    if release.noise.form == "identity":
        return f"{spread:.4g} on each coordinate"
    return f"{spread:.4g} on a coordinate on average, more along directions where rows vary more"


def count_noise_words(release: Any) -> str:
    """Return how large the noise of counts is."""
    # The noise is stated along directions that keep a bag's total; a count has less.
    along = release.noise.diagonal(len(release.details["bags"])).mean()
    spread = (along * (1 - 1 / len(release.classes))) ** 0.5
    return f"{spread:.4g} on each count"


def detail_words(release: Any) -> Lines:
    """Return the public parameters of a release."""
    stated = {key: value for key, value in release.details.items() if key not in _HIDDEN}
    return [(key, _plain(value)) for key, value in stated.items() if value not in (None, [], 0)]


def _plain(value: Any) -> str:
    return listed(value) if isinstance(value, list) else name(value)


def bag_words(release: Any) -> Lines:
    """Return the parameters and the released proportions of the first few bags."""
    arrays, names = release.arrays, release.details["bags"]
    sizes = arrays["sizes"]
    lines = [("bags", f"{len(names)}, of {sizes.min()} to {sizes.max()} rows")]
    for bag, size, shares in zip(names[:_SHOWN], sizes, arrays["proportions"], strict=False):
        shown = ", ".join(f"{share:.3f}" for share in shares[:_SHOWN])
        more = ", ..." if len(shares) > _SHOWN else ""
        lines.append((f"bag {name(bag)}", f"{shown}{more} of {size} rows"))
    if len(names) > _SHOWN:
        lines.append(("", f"and {len(names) - _SHOWN} more"))
    return [*detail_words(release), *lines]


def column_words(release: Any) -> Lines:
    """Return what randomised columns hold and how they were randomised, the first few of them."""
    columns: Sequence[Any] = release.details["columns"]
    some = [SpreadColumn.from_json(item) for item in columns[:_SHOWN]]
    shown = [f"{name(column.name)}: {column.noise}" for column in some]
    more = [f"and {len(columns) - _SHOWN} more"] if len(columns) > _SHOWN else []
    return [*detail_words(release), *([("columns", "; ".join([*shown, *more]))] if shown else [])]


def model_words(release: Any) -> Lines:
    """Return what is details of a model's quality, in words."""
    details = release.details
    lines = [("loss", name(details["loss"])), ("penalty", f"{details['lam']:.3g}")]
    if details["risk"] is not None:
        within = ""
        if details["risk_low"] is not None:  # of rados no interval is details
            within = f" ({details['risk_low']:.4g} to {details['risk_high']:.4g} at 95 %)"
        lines.append(("risk", f"{details['risk']:.4g}{within}, estimated without labels"))
    if details["parameter_bound"] is not None:
        moved = "by the noise of the release, with probability 95 %"
        lines.append(("parameters", f"moved by at most {details['parameter_bound']:.4g} {moved}"))
    return lines
