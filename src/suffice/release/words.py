"""What `suffice inspect` says of a release, beside its guarantees: lines of names and values."""

from collections.abc import Sequence
from typing import Any

from suffice.plain_text import listed, name
from suffice.release.spread import SpreadColumn

__all__ = [
    "Lines",
    "accuracy_words",
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
    deviation = release.noise.diagonal(len(release.pipeline.outputs)).mean() ** 0.5
    if release.noise.form == "identity":
        return f"{deviation:.4g} (standard deviation per feature)"
    return (
        f"{deviation:.4g} (standard deviation per feature, on average); more where rows vary more"
    )


def count_noise_words(release: Any) -> str:
    """Return how large the noise of counts is."""
    # The noise is stated along directions that keep a bag's total; a count has less.
    along = release.noise.diagonal(len(release.details["bags"])).mean()
    deviation = (along * (1 - 1 / len(release.classes))) ** 0.5
    return f"{deviation:.4g} (standard deviation per count)"


def detail_words(release: Any) -> Lines:
    """Return the public parameters of a release."""
    stated = {key: value for key, value in release.details.items() if key not in _HIDDEN}
    return [
        (_NAMES.get(key, key), _value_text(value))
        for key, value in stated.items()
        if value not in (None, [], 0)
    ]


_NAMES = {
    "step": "rounding step",
    "count": "subset sums",
    "support": "rows per sum",
    "protect": "protected columns",
    "enrolled": "enrolled parties",
}


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2g}".replace("e-0", "e-")
    return listed(value) if isinstance(value, list) else name(value)


def bag_words(release: Any) -> Lines:
    """Return the parameters and the released proportions of the first few bags."""
    arrays, names = release.arrays, release.details["bags"]
    sizes = arrays["sizes"]
    lines = [("bags", f"{len(names)}, of {sizes.min()} to {sizes.max()} rows")]
    for bag, size, proportions in zip(names[:_SHOWN], sizes, arrays["proportions"], strict=False):
        numbers = ", ".join(f"{proportion:.3f}" for proportion in proportions[:_SHOWN])
        more = ", ..." if len(proportions) > _SHOWN else ""
        lines.append((f"bag {name(bag)}", f"{numbers}{more} of {size} rows"))
    if len(names) > _SHOWN:
        lines.append(("", f"and {len(names) - _SHOWN} more"))
    return [*detail_words(release), *lines]


def column_words(release: Any) -> Lines:
    """Return what randomised columns hold and how they were randomised, the first few of them."""
    columns: Sequence[Any] = release.details["columns"]
    first = [SpreadColumn.from_json(item) for item in columns[:_SHOWN]]
    texts = [f"{name(column.name)}: {column.noise}" for column in first]
    texts += [f"and {len(columns) - _SHOWN} more"] if len(columns) > _SHOWN else []
    return [*detail_words(release), *([("columns", "; ".join(texts))] if texts else [])]


def accuracy_words(release: Any) -> Lines:
    """Return how good a model is expected to be, from randomised labels that were held out."""
    accuracy, low, high = (release.details[f"accuracy{end}"] for end in ("", "_low", "_high"))
    lines = [("nodes", f"{release.details['count']:,}")]
    if accuracy is not None and low is not None and high is not None:
        about = "estimated from randomised labels"
        lines.append(("accuracy", f"{accuracy:.3f} ({low:.3f} to {high:.3f} at 95 %), {about}"))
    return lines


def model_words(release: Any) -> Lines:
    """Return how a model was fitted and how good it is expected to be."""
    details = release.details
    lines = [("loss", name(details["loss"])), ("penalty", f"{details['lam']:.3g}")]
    if details["risk"] is not None:
        within = ""
        if details["risk_low"] is not None:  # a model of rados states no interval
            within = f" ({details['risk_low']:.4g} to {details['risk_high']:.4g} at 95 %)"
        lines.append(("risk", f"{details['risk']:.4g}{within}, estimated without labels"))
    if details["parameter_bound"] is not None:
        bound = f"{details['parameter_bound']:.4g}"
        text = f"the noise changed the coefficients by at most {bound} (2-norm, probability 95 %)"
        lines.append(("noise effect", text))
    return lines
