"""Several owners' releases of one kind become one; each guarantee stays with its rows."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.privacy.guarantee import Assumption
from suffice.release.kinds import kind_named
from suffice.release.release import Covariance, Part, Release
from suffice.tables.pipeline import Pipeline
from suffice.tables.terms import weakest

__all__ = ["SHAPED", "agreed_pipeline", "apart", "has_shaped_noise", "merge"]

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
    first = _checked(releases)
    if len(releases) == 1:
        return first
    kind = kind_named(first.kind)
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
        noise = _noise_in_turn(releases)
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


def _noise_in_turn(releases: Sequence[Release]) -> Covariance:
    """Return the noise of statistics one after the other: each keeps its own."""
    if any(release.noise.form == "none" for release in releases):
        return Covariance("none")
    own = [r.noise.diagonal(len(r.details["bags"])) for r in releases]
    variances = np.concatenate(own)
    if (variances == variances[0]).all():
        return Covariance("identity", float(variances[0]))
    return Covariance("diagonal", 1.0, variances)


def _checked(releases: Sequence[Release]) -> Release:
    if not releases:
        raise ParameterError("There is no release to merge.")
    first = releases[0]
    if any(release.kind != first.kind for release in releases):
        raise ParameterError("Only releases of one kind can be merged.")
    if len(releases) > 1 and not kind_named(first.kind).merges:
        raise ParameterError(f"Releases of kind {first.kind} cannot be merged.")
    if any(release.pipeline != first.pipeline for release in releases):
        raise ParameterError(
            "The owners' pipelines differ. Let them agree on one first (pipeline=...,"
            " --pipeline-from FILE)."
        )
    hashes = [part.rows.hash for release in releases for part in release.parts]
    if len(set(hashes)) < len(hashes):
        raise ParameterError(
            "Two of the releases are about the same rows. Merge releases of different rows."
        )
    return first


def _row_mean(arrays: list[Any], weights: Any) -> Any:
    return np.einsum("i,i...->...", weights, np.stack(arrays))


def _sum(arrays: list[Any], _: Any) -> Any:
    return np.sum(arrays, axis=0)


def _in_turn(arrays: list[Any], _: Any) -> Any:
    return np.concatenate(arrays)


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


def _any(_: str, values: list[Any], _weights: Any) -> Any:
    return values[0] if all(value == values[0] for value in values) else "mixed"


def _largest(_: str, values: list[Any], _weights: Any) -> Any:
    return max(values)


def _total(name: str, values: list[Any], _: Any) -> Any:
    if any((value is None) != (values[0] is None) for value in values):
        raise ParameterError(f"Some owners have {name} and some have not. They cannot be merged.")
    return None if values[0] is None else sum(values)


def _listed(name: str, values: list[Any], _: Any) -> Any:
    items = [item for value in values for item in value]
    if len(set(items)) < len(items) or len({type(item) for item in items}) > 1:
        raise ParameterError(f"The owners' {name} must have different names, all of one type.")
    return items


def _noise(_: str, values: list[Any], weights: Any) -> Any:
    """Return the deviation of a weighted mean."""
    return float(np.linalg.norm(weights * np.array(values)))


_ARRAY_MERGES = {"row-mean": _row_mean, "sum": _sum, "in turn": _in_turn, "equal": _equal}
_DETAIL_MERGES = {
    "same": _same,
    "any": _any,
    "largest": _largest,
    "total": _total,
    "in turn": _listed,
    "noise": _noise,
}
