"""Several owners' releases of one kind become one; each guarantee stays with its rows."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.privacy.guarantee import Assumption
from suffice.releases.kinds import kind_named
from suffice.releases.release import Covariance, Part, Release
from suffice.tables.pipeline import Pipeline, weakest

SHAPED = (
    "Some of these releases have noise that was shaped for their own rows. Ask their owners to"
    " release with the pipeline of the others (--pipeline-from FILE): its noise is even, and"
    " releases with even noise fit together."
)
_APART = Assumption(
    "the releases used together are about different people; about the same, their losses add up",
    "declared by whoever uses them together",
)


def merge(releases: Release | Sequence[Release]) -> Release:
    """Return one release for the rows of all owners.

    Each owner's noise protects only that owner's rows, so the merged release lists the guarantees
    owner by owner. The owners' rows must be of different people. suffice cannot check this, and
    each guarantee lists it among its assumptions.

    Parameters
    ----------
    releases
        Releases of one kind and one pipeline. A single release is returned as it is.

    Raises
    ------
    ParameterError
        If the releases cannot be merged.

    Warns
    -----
    UserWarning
        If the noise of an owner's sums is shaped for that owner's rows. The mean of all owners then
        has its noise. A learner that gets the releases one by one weighs them by their noise.
    """
    if isinstance(releases, Release):
        return releases
    if not releases:
        raise ParameterError("There is no release to merge.")
    first = releases[0]
    kind = kind_named(first.kind)
    if any(release.kind != first.kind for release in releases):
        raise ParameterError("Only releases of one kind can be merged.")
    if len(releases) > 1 and not kind.merges:
        raise ParameterError(f"Releases of kind {first.kind} cannot be merged.")
    if any(release.pipeline != first.pipeline for release in releases):
        raise ParameterError(
            "The owners' pipelines differ: each, with its map, was fitted to rows of its own."
            " Ask the other owners to release with the pipeline of the first (--pipeline-from"
            " FILE, Python: pipeline=...)."
        )
    hashes = [part.rows.hash for release in releases for part in release.parts]
    if len(set(hashes)) < len(hashes):
        raise ParameterError(
            "Two of the releases are about the same rows. Merge releases of different rows."
        )
    if len(releases) == 1:
        return first
    weights = kind.merge_weights(releases)
    details = {
        name: _DETAIL_MERGES[rule.merge](
            name, [release.details[name] for release in releases], weights
        )
        for name, rule in kind.details.items()
    }
    arrays = {
        name: _ARRAY_MERGES[rule.merge]([release.arrays[name] for release in releases], weights)
        for name, rule in kind.arrays.items()
    }
    if kind.noise_along == "bags":
        # One after the other: each keeps its own.
        noise = Covariance("none")
        if all(release.noise.form != "none" for release in releases):
            own = [r.noise.diagonal(len(r.details["bags"])) for r in releases]
            variances = np.concatenate(own)
            noise = Covariance("diagonal", 1.0, variances)
            if (variances == variances[0]).all():
                noise = Covariance("identity", float(variances[0]))
    else:
        if any(map(has_shaped_noise, releases)):
            warnings.warn(SHAPED, stacklevel=2)
        summed = any(rule.merge == "sum" for rule in kind.arrays.values())
        shares = np.ones(len(releases)) if summed else weights
        noise = releases[0].noise.scaled(shares[0] ** 2)
        for release, share in zip(releases[1:], shares[1:], strict=True):
            noise = noise + release.noise.scaled(share**2)
    return Release(
        kind=first.kind,
        arrays=arrays,
        details=details,
        parts=apart(releases),
        pipeline=agreed_pipeline(releases),
        noise=noise,
    )


def has_shaped_noise(release: Release) -> bool:
    """Say whether the noise of a released mean operator differs from direction to direction."""
    return "mean_operator" in release.arrays and release.noise.array is not None


def agreed_pipeline(releases: Sequence[Release]) -> Pipeline:
    """Return the pipeline that these releases share, with the weakest of their origins."""
    origins = (release.pipeline.origin for release in releases)
    return replace(releases[0].pipeline, origin=weakest(origins))


def apart(releases: Sequence[Release]) -> tuple[Part, ...]:
    """Return the parts of releases that are used together, each resting on the others being apart.

    Equal rows are found by their hashes where those name rows; of private rows they do not.
    """
    if len(releases) == 1:
        return releases[0].parts

    def stated(part: Part) -> Part:
        guarantees = tuple(
            replace(g, assumptions=tuple(dict.fromkeys((*g.assumptions, _APART))))
            for g in part.guarantees
        )
        return replace(part, guarantees=guarantees)

    return tuple(stated(part) for release in releases for part in release.parts)


def _equal(arrays: list[Any], _: Any) -> Any:
    if any(not np.array_equal(array, arrays[0]) for array in arrays):
        raise ParameterError(
            "The owners randomised at different rates. Fit the releases without merging them."
        )
    return arrays[0]


def _same(name: str, values: list[Any], _: Any) -> Any:
    if any(value != values[0] for value in values):
        raise ParameterError(f"The owners differ in {name}. Only equal ones can be merged.")
    return values[0]


def _total(name: str, values: list[Any], _: Any) -> Any:
    if any((value is None) != (values[0] is None) for value in values):
        raise ParameterError(f"Some owners have {name} and some have not. They cannot be merged.")
    return None if values[0] is None else sum(values)


def _listed(name: str, values: list[Any], _: Any) -> Any:
    items = [item for value in values for item in value]
    if len(set(items)) < len(items) or len({type(item) for item in items}) > 1:
        raise ParameterError(f"The owners' {name} must have different names, all of one type.")
    return items


_ARRAY_MERGES: dict[str, Callable[[list[Any], Any], Any]] = {
    "row-mean": lambda arrays, weights: np.einsum("i,i...->...", weights, np.stack(arrays)),
    "sum": lambda arrays, _: np.sum(arrays, axis=0),
    "in turn": lambda arrays, _: np.concatenate(arrays),
    "equal": _equal,
}
_DETAIL_MERGES: dict[str, Callable[[str, list[Any], Any], Any]] = {
    "same": _same,
    "any": lambda _, values, __: values[0] if all(v == values[0] for v in values) else "mixed",
    "largest": lambda _, values, __: max(values),
    "total": _total,
    "in turn": _listed,
    # The deviation of a weighted mean.
    "noise": lambda _, values, weights: float(np.linalg.norm(weights * np.array(values))),
}
