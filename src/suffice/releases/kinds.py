"""The registry of kinds: what each holds, how it is checked, merged and described, as data.

A new kind is one entry here. Loading, checking, merging, inspecting and the tests that run over
every kind read this table and hold no list of their own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.models.trees import are_whole_trees
from suffice.plain_text import listed, name
from suffice.releases.claims import (
    Check,
    claims_of_labels,
    claims_of_moments,
    claims_of_operator,
    claims_of_proportions,
    claims_of_rados,
    claims_of_records,
    claims_of_reports,
    claims_of_targets,
    claims_of_votes,
)
from suffice.releases.columns import SpreadColumn, discrete_sizes, number_limits

Lines = list[tuple[str, str]]
_SHOWN_NAMES = 6  # of many columns or bags
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
    for bag, size, proportions in zip(
        names[:_SHOWN_NAMES], sizes, arrays["proportions"], strict=False
    ):
        numbers = ", ".join(f"{proportion:.3f}" for proportion in proportions[:_SHOWN_NAMES])
        more = ", ..." if len(proportions) > _SHOWN_NAMES else ""
        lines.append((f"bag {name(bag)}", f"{numbers}{more} of {size} rows"))
    if len(names) > _SHOWN_NAMES:
        lines.append(("", f"and {len(names) - _SHOWN_NAMES} more"))
    return [*detail_words(release), *lines]


def column_words(release: Any) -> Lines:
    """Return what randomised columns hold and how they were randomised, the first few of them."""
    columns: Sequence[Any] = release.details["columns"]
    first = [SpreadColumn.from_json(item) for item in columns[:_SHOWN_NAMES]]
    texts = [f"{name(column.name)}: {column.noise}" for column in first]
    texts += [f"and {len(columns) - _SHOWN_NAMES} more"] if len(columns) > _SHOWN_NAMES else []
    return [*detail_words(release), *([("columns", "; ".join(texts))] if texts else [])]


def report_words(release: Any) -> Lines:
    """Return what a report holds, and of how many combinations of answers."""
    details = release.details
    names_of = [name(question) for question, _ in details["questions"]]
    sent = f"{details['size']} of {details['count']} combinations of answers"
    kept = f"the true one is among them with probability {details['keep']:.4g}"
    return [("report", f"{sent}; {kept}"), ("questions", listed(names_of[:_SHOWN_NAMES]))]


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


def regression_words(release: Any) -> Lines:
    """Return what a regression predicts, and how much of it is explained."""
    details = release.details
    r2, low, high = (details[f"r2{end}"] for end in ("", "_low", "_high"))
    explained = "unknown: the noise hides it"
    if r2 is not None and low is not None and high is not None:
        explained = f"{r2:.3f} ({low:.3f} to {high:.3f} at 95 %), of least squares"
    return [*target_words(release), ("penalty", f"{details['lam']:.3g}"), ("R^2", explained)]


def merge_weights_of_moments(releases: Sequence[Any]) -> np.ndarray:
    """Return the weights of owners' moments in their mean: the inverse of their variance.

    That of the noise is s^2. That of the sampling is about 1/(m d^2), in rows of length 1: d
    coordinates of mean square 1/d.
    """
    variances = []
    for release in releases:
        bound, width, details = (
            release.pipeline.bound,
            len(release.pipeline.outputs),
            release.details,
        )
        if "second_noise" in details:
            noise = details["second_noise"] / bound**2
            variances.append(noise**2 + 1 / (release.rows * width**2))
        else:  # of a target alone: products with it have noise, and a variance of about 1/(m d)
            noise = details["operator_noise"] / bound
            variances.append(noise**2 + 1 / (release.rows * width))
    weights = 1 / np.array(variances)
    return np.asarray(weights / weights.sum())


def moment_words(release: Any) -> list[tuple[str, str]]:
    """Return what is released about labels, in words."""
    details, width = release.details, len(release.pipeline.outputs)
    lines = [
        ("moments", f"of {width} coordinates: {width * (width + 1) // 2:,} products and squares")
    ]
    if "target" in details:
        return [*target_words(release), *lines]
    proportions, noise = release.arrays["proportions"], details["proportions_noise"]
    listing = ", ".join(f"{share:.3f}" for share in proportions[:6]) + (
        ", ..." if len(proportions) > 6 else ""
    )
    return [*lines, ("class proportions", f"{listing}, noise {noise:.2g} (standard deviation)")]


def target_words(release: Any) -> list[tuple[str, str]]:
    """Return the number that is predicted, and the range that it is held to."""
    low, high = release.details["low"], release.details["high"]
    return [("target", f"{name(release.details['target'])}, held between {low:g} and {high:g}")]


def moment_noise_words(release: Any) -> str:
    """Return how large the noise is, relative to rows as long as allowed."""
    bound, details = release.pipeline.bound, release.details
    by_label = "times the target" if "target" in details else "by class"
    if "second_noise" not in details:
        return (
            f"{details['operator_noise'] / bound:.3g} on means {by_label}, none on others (standard"
            " deviation; the longest row has length 1)"
        )
    return (
        f"{details['second_noise'] / bound**2:.3g} on squares,"
        f" {details['second_noise'] / bound**2 / math.sqrt(2):.3g} on products,"
        f" {details['mean_noise'] / bound:.3g} on means,"
        f" {details['operator_noise'] / bound:.3g} on means {by_label}"
        " (standard deviations; the longest row has length 1)"
    )


Array = NDArray[Any]
_LONGEST_WORD = 60
_SUMS = ("laplace", "gaussian", "knorm", "mixed")  # "mixed": of owners who differ
_RADOS = ("plain", "dp-feat", "dp-feat-truncated", "shared", "matrix", "edges")
_COUNTS = (
    *("laplace", "laplace-prior", "gaussian", "scaled-dirichlet", "scaled-dirichlet-bounded"),
    "mixed",
)
_LEARNERS = (
    "FactoredClassifier", "SpreadClassifier", "RadoRidge", "RadoBoost", "MomentClassifier",
    "NoisyLabelClassifier",
)  # fmt: skip
Details = Mapping[str, Any]


def _within_limits(array: Array, details: Details) -> bool:
    least, most = number_limits(details["columns"]).T
    return bool((least <= array).all() and (array <= most).all())


# Of each: what arrays must fulfil, and what is wrong with those that do not.
ARRAY_CHECKS: Mapping[str, tuple[Callable[[Array, Details], Any], str]] = {
    "finite": (lambda array, _: np.isfinite(array).all(), "holds values that are not finite"),
    "codes": (
        lambda array, details: array.max(initial=0) < len(details["classes"]),
        "holds codes of no class",
    ),
    "states": (
        lambda array, details: (
            array.max(axis=0, initial=0) < np.array(discrete_sizes(details["columns"]))
        ).all(),
        "holds codes of no possible value",
    ),
    "noisy": (
        _within_limits,
        "holds numbers that its declared range and noise cannot give",
    ),
    "channel": (
        lambda array, _: (
            np.isfinite(array).all()
            and (array > 0).all()
            and np.abs(array.sum(axis=0) - 1).max() <= 1e-9
        ),
        "must hold positive probabilities, each column with sum one",
    ),
    "shares": (
        lambda array, _: (
            ((array >= 0) & (array <= 1)).all() and np.abs(array.sum(axis=1) - 1).max() <= 1e-9
        ),
        "must hold proportions, between 0 and 1, each row with sum one",
    ),
    "counts": (
        lambda array, _: (array >= 0).all(),
        "must hold counts",
    ),
    "sizes": (lambda array, _: (array > 0).all(), "must hold positive numbers of rows"),
    "nodes": (
        lambda array, details: are_whole_trees(array, len(details["classes"])),
        "must hold whole trees",
    ),
}


def _labels(value: Any, least: int = 2) -> bool:
    if not isinstance(value, list) or len(value) < least:
        return False
    text = all(isinstance(v, str) for v in value)
    integers = all(isinstance(v, int) for v in value)
    return (text or integers) and len(set(value)) == len(value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _columns(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    try:
        names = [SpreadColumn.from_json(item).name for item in value]
    except CorruptFileError:
        return False
    return len(set(names)) == len(names)


def _questions(value: Any) -> bool:
    """Say whether a value lists questions as [name, possible answers], with different names."""
    if not isinstance(value, list) or not value:
        return False
    pairs = all(isinstance(v, list) and len(v) == 2 and isinstance(v[0], str) for v in value)
    return (
        pairs
        and all(_labels(states) and bool not in map(type, states) for _, states in value)
        and len({name for name, _ in value}) == len(value)
    )


def _names(value: Any) -> bool:
    text = isinstance(value, list) and all(isinstance(v, str) and v for v in value)
    return text and len(set(value)) == len(value)


def _deviations(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_number(v) and v >= 0 for v in value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


DETAIL_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda v: isinstance(v, str) and 0 < len(v) <= _LONGEST_WORD and v.isprintable(),
    "labels": _labels,
    "bags": lambda v: _labels(v, 1) and not any(isinstance(name, bool) for name in v),
    "columns": _columns,
    "questions": _questions,
    "positive": lambda v: _number(v) and v > 0,
    "non-negative": lambda v: _number(v) and v >= 0,
    "column name": lambda v: isinstance(v, str) and bool(v),
    "number": _number,
    "maybe a number": lambda v: v is None or _number(v),
    "two labels": lambda v: _labels(v) and len(v) == 2,
    "names": _names,
    "count": _count,
    "maybe a count": lambda v: v is None or _count(v),
    "maybe deviations": lambda v: v is None or _deviations(v),
}


@dataclass(frozen=True)
class ArrayRule:
    """One array of a kind.

    ``shape`` names its axes: d (coordinates of the pipeline), m (rows), K (classes), K? (an axis
    that is there only with three classes or more), discrete and continuous (randomised columns
    of either sort, of which there may be none), n (what the detail ``count`` says), bags (sets of
    rows, named by the detail ``bags``), 2 (a mean and a mean square). ``check`` is one of
    ARRAY_CHECKS. ``merge`` says what several owners' arrays become: "row-mean", the mean over all
    their rows; "sum"; "in turn", one after the other; "equal", an error if they differ. ``noisy``:
    noise is in it; every other array is public, and must be the same for all neighbouring data
    (audit/public_part).
    """

    dtype: str
    shape: tuple[str, ...]
    check: str = "finite"
    merge: str = "row-mean"
    noisy: bool = False


@dataclass(frozen=True)
class DetailRule:
    """One public parameter of a kind.

    ``check`` is one of DETAIL_CHECKS; ``merge`` says what happens if owners differ: "same", an
    error; "any", the word "mixed"; "largest", the larger number; "total", their sum, none if no
    owner has one; "in turn", one list after the other, an error if both have an item; "noise", the
    deviation of the mean. A text is one of ``among``, where those are named.
    """

    check: str
    merge: str = "same"
    among: tuple[str, ...] = ()


def no_claims(_: Any) -> Check:
    """Return that nothing in a release contradicts its guarantees."""
    return lambda _: True


def row_weights(releases: Sequence[Any]) -> Array:
    """Return the weights of owners in the mean over all their rows."""
    rows = np.array([release.rows for release in releases], dtype=np.float64)
    return np.asarray(rows / rows.sum())


@dataclass(frozen=True)
class Kind:
    """What a release of this kind and version holds.

    One version is read: that one.
    ``ordered``: it says something about each row, so that its row hash depends on their order.
    ``named_by_noise`` says when rows are private, so that the row hash is one of what leaves:
    "never", "always", or "records": where a guarantee is about records.
    ``noise_along`` names the axis whose coordinates have the noise that the release states.
    ``claims`` returns, for a release, what says of a guarantee whether the release's own numbers
    can keep it. ``words`` are the lines that `suffice inspect` shows, ``noise_words`` those on
    noise. ``merge_weights`` are the weights of several owners in their mean, their numbers of rows
    unless the kind has others.
    """

    name: str
    version: int
    arrays: Mapping[str, ArrayRule]
    details: Mapping[str, DetailRule]
    title: str
    merges: bool = True
    ordered: bool = False
    named_by_noise: Literal["never", "always", "records"] = "never"
    noise_along: str = "d"
    claims: Callable[[Any], Check] = no_claims
    words: Callable[[Any], Lines] = detail_words
    noise_words: Callable[[Any], str] = noise_words
    merge_weights: Callable[[Sequence[Any]], Array] = row_weights

    def check_version(self, version: object) -> None:
        """Raise unless a file of this version of the kind is read."""
        if type(version) is not int or version != self.version:
            raise UnsupportedFileError(
                f"This version of suffice reads {self.name} releases of version {self.version}"
                " only."
            )


_MOMENTS = {
    "second_moments": ArrayRule("float64", ("d", "d"), noisy=True),
    "mean": ArrayRule("float64", ("d",), noisy=True),
}
_MOMENT_DETAILS = {
    "mechanism": DetailRule("text", among=("gaussian",)),
    "second_noise": DetailRule("positive", merge="noise"),
    "mean_noise": DetailRule("positive", merge="noise"),
    "operator_noise": DetailRule("positive", merge="noise"),
}
_TARGET = {
    "target": DetailRule("column name"),
    "low": DetailRule("number"),
    "high": DetailRule("number"),
}
_TARGET_NOISE = {
    "target_noise": DetailRule("positive", merge="noise"),
    "target_square_noise": DetailRule("positive", merge="noise"),
}
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="mean-operator",
            version=1,
            title="a noisy mean operator",
            arrays={"mean_operator": ArrayRule("float64", ("d", "K?"), noisy=True)},
            details={
                "classes": DetailRule("labels"),
                "mechanism": DetailRule("text", merge="any", among=_SUMS),
                "step": DetailRule("positive", merge="largest"),
            },
            claims=claims_of_operator,
        ),
        Kind(
            name="label-responses",
            version=1,
            title="randomised labels, row by row",
            arrays={
                "answers": ArrayRule("uint8", ("m",), check="codes", merge="in turn", noisy=True),
                "channel": ArrayRule("float64", ("K", "K"), check="channel", merge="equal"),
            },
            details={
                "classes": DetailRule("labels"),
                "mechanism": DetailRule("text", among=("response",)),
            },
            ordered=True,
            claims=claims_of_labels,
        ),
        Kind(
            name="responses",
            version=1,
            title="randomised records, cell by cell",
            arrays={
                "answers": ArrayRule("uint8", ("m",), check="codes", merge="in turn", noisy=True),
                "channel": ArrayRule("float64", ("K", "K"), check="channel", merge="equal"),
                "codes": ArrayRule(
                    "uint8", ("m", "discrete"), check="states", merge="in turn", noisy=True
                ),
                "values": ArrayRule(
                    "float64", ("m", "continuous"), check="noisy", merge="in turn", noisy=True
                ),
            },
            details={
                "classes": DetailRule("labels"),
                "columns": DetailRule("columns"),
                "mechanism": DetailRule("text", among=("response",)),
            },
            ordered=True,
            named_by_noise="always",
            claims=claims_of_records,
            words=column_words,
        ),
        Kind(
            name="reports",
            version=1,
            title="counts of randomised reports, each of a whole record",
            arrays={"counts": ArrayRule("int64", ("n",), check="counts", merge="sum", noisy=True)},
            details={
                "classes": DetailRule("labels"),
                "questions": DetailRule("questions"),
                "mechanism": DetailRule("text", among=("subset",)),
                "count": DetailRule("count"),
                "size": DetailRule("count"),
                "keep": DetailRule("positive"),
            },
            named_by_noise="always",
            claims=claims_of_reports,
            words=report_words,
        ),
        Kind(
            name="rados",
            version=1,
            title="subset sums (rados): sums over random subsets of private records",
            arrays={"rados": ArrayRule("float64", ("n", "d"), merge="sum", noisy=True)},
            details={
                "classes": DetailRule("two labels"),
                "mechanism": DetailRule("text", among=_RADOS),
                "count": DetailRule("count"),
                "signs": DetailRule("text", merge="any", among=("hadamard", "iid", "mixed")),
                "support": DetailRule("maybe a count", merge="total"),
                "protect": DetailRule("names"),
                "step": DetailRule("non-negative", merge="largest"),
            },
            named_by_noise="always",
            claims=claims_of_rados,
        ),
        Kind(
            name="moments",
            version=1,
            title="noisy second moments of private records",
            arrays={
                **_MOMENTS,
                "operator": ArrayRule("float64", ("d", "K?"), noisy=True),
                "proportions": ArrayRule("float64", ("K",), noisy=True),
            },
            details={
                "classes": DetailRule("labels"),
                **_MOMENT_DETAILS,
                "proportions_noise": DetailRule("positive", merge="noise"),
            },
            named_by_noise="always",
            claims=claims_of_moments,
            words=moment_words,
            noise_words=moment_noise_words,
            merge_weights=merge_weights_of_moments,
        ),
        Kind(
            name="target-moments",
            version=1,
            title="noisy second moments of private records, with a number to predict",
            arrays={
                **_MOMENTS,
                "operator": ArrayRule("float64", ("d",), noisy=True),
                "target_moments": ArrayRule("float64", ("2",), noisy=True),
            },
            details={
                **_TARGET,
                **_MOMENT_DETAILS,
                **_TARGET_NOISE,
            },
            named_by_noise="always",
            claims=claims_of_moments,
            words=moment_words,
            noise_words=moment_noise_words,
            merge_weights=merge_weights_of_moments,
        ),
        Kind(
            name="target-operator",
            version=1,
            title="means of public rows times a private number, with noise",
            arrays={
                **_MOMENTS,
                "operator": ArrayRule("float64", ("d",), noisy=True),
                "target_moments": ArrayRule("float64", ("2",), noisy=True),
            },
            details={
                **_TARGET,
                "mechanism": _MOMENT_DETAILS["mechanism"],
                "operator_noise": _MOMENT_DETAILS["operator_noise"],
                **_TARGET_NOISE,
            },
            named_by_noise="always",
            claims=claims_of_targets,
            words=moment_words,
            noise_words=moment_noise_words,
            merge_weights=merge_weights_of_moments,
        ),
        Kind(
            name="proportions",
            version=1,
            title="noisy label proportions of bags of public rows",
            arrays={
                "proportions": ArrayRule(
                    "float64", ("bags", "K"), check="shares", merge="in turn", noisy=True
                ),
                "counts": ArrayRule("float64", ("bags", "K"), merge="in turn", noisy=True),
                "sizes": ArrayRule("int64", ("bags",), check="sizes", merge="in turn"),
            },
            details={
                "classes": DetailRule("labels"),
                "bags": DetailRule("bags", merge="in turn"),
                "mechanism": DetailRule("text", merge="any", among=_COUNTS),
            },
            noise_along="bags",
            claims=claims_of_proportions,
            words=bag_words,
            noise_words=count_noise_words,
        ),
        Kind(
            name="votes",
            version=1,
            title="noisy mean votes of many parties, row by row",
            arrays={"votes": ArrayRule("float64", ("m", "K"), noisy=True)},
            details={
                "classes": DetailRule("labels"),
                "mechanism": DetailRule("text", among=("gaussian", "knorm")),
                "enrolled": DetailRule("count"),
            },
            merges=False,
            ordered=True,
            claims=claims_of_votes,
        ),
        Kind(
            name="tree-model",
            version=1,
            title="a fitted classifier of boosted trees",
            arrays={
                "features": ArrayRule("int64", ("n",), check="nodes", noisy=True),
                "numbers": ArrayRule("float64", ("n",), noisy=True),
                "baseline": ArrayRule("float64", ("K",), noisy=True),
            },
            details={
                "classes": DetailRule("labels"),
                "learner": DetailRule("text", among=("NoisyLabelClassifier",)),
                "loss": DetailRule("text"),
                "count": DetailRule("count"),
                "accuracy": DetailRule("maybe a number"),
                "accuracy_low": DetailRule("maybe a number"),
                "accuracy_high": DetailRule("maybe a number"),
            },
            merges=False,
            named_by_noise="records",
            words=accuracy_words,
        ),
        Kind(
            name="regression-model",
            version=1,
            title="a fitted linear regression",
            arrays={
                "coefficients": ArrayRule("float64", ("d",), noisy=True),
                "estimates": ArrayRule("float64", ("d",), noisy=True),
            },
            details={
                **_TARGET,
                "learner": DetailRule("text", among=("MomentRegressor",)),
                "lam": DetailRule("non-negative"),
                "r2": DetailRule("maybe a number"),
                "r2_low": DetailRule("maybe a number"),
                "r2_high": DetailRule("maybe a number"),
                "coefficient_deviations": DetailRule("maybe deviations"),
            },
            merges=False,
            named_by_noise="records",
            words=regression_words,
        ),
        Kind(
            name="model",
            version=1,
            title="a fitted linear classifier",
            arrays={"coefficients": ArrayRule("float64", ("d", "K?"), noisy=True)},
            details={
                "classes": DetailRule("labels"),
                "learner": DetailRule("text", among=_LEARNERS),
                "loss": DetailRule("text"),
                "lam": DetailRule("non-negative"),
                "risk": DetailRule("maybe a number"),
                "risk_low": DetailRule("maybe a number"),
                "risk_high": DetailRule("maybe a number"),
                "parameter_bound": DetailRule("maybe a number"),
                "coefficient_deviations": DetailRule("maybe deviations"),
            },
            merges=False,
            named_by_noise="records",
            words=model_words,
        ),
    )
}


def kind_named(name: object) -> Kind:
    """Return the kind of this name."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnsupportedFileError(
            f"This version of suffice reads releases of kind {', '.join(KINDS)} only."
        )
    return kind


def register_kind(kind: Kind) -> None:
    """Add a kind, so that files of it can be written, read, checked, merged and inspected."""
    if kind.name in KINDS:
        raise ParameterError(f"There is a kind {kind.name!r} already.")
    KINDS[kind.name] = kind
