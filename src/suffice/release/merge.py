"""Several owners' releases of one kind become one; each guarantee stays with its rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.release.artifact import Release
from suffice.release.kinds import kind_named

__all__ = ["merge"]


def merge(releases: Sequence[Release]) -> Release:
    """Return one release for the rows of all owners, as the kind's rules say.

    Each owner's own noise protects their own rows and nobody else's: the merged release lists the
    guarantees part by part. The owners' rows must be disjoint; that is theirs to know.
    """
    first = _checked(releases)
    if len(releases) == 1:
        return first
    kind = kind_named(first.kind)
    weights = np.array([release.rows for release in releases], dtype=np.float64)
    weights /= weights.sum()
    arrays = {
        name: _ARRAY_MERGES[rule.merge]([release.arrays[name] for release in releases], weights)
        for name, rule in kind.arrays.items()
    }
    noise = releases[0].noise.scaled(weights[0] ** 2)
    for release, weight in zip(releases[1:], weights[1:], strict=True):
        noise = noise + release.noise.scaled(weight**2)
    return Release(
        kind=first.kind,
        arrays=arrays,
        details={
            name: _DETAIL_MERGES[rule.merge](name, [release.details[name] for release in releases])
            for name, rule in kind.details.items()
        },
        parts=tuple(part for release in releases for part in release.parts),
        pipeline=first.pipeline,
        noise=noise,
    )


def _checked(releases: Sequence[Release]) -> Release:
    if not releases:
        raise ParameterError("there is nothing to merge.")
    first = releases[0]
    if any(release.kind != first.kind for release in releases):
        raise ParameterError("only releases of one kind can be merged.")
    if len(releases) > 1 and not kind_named(first.kind).merges:
        raise ParameterError(f"releases of kind {first.kind} cannot be merged.")
    if any(release.pipeline != first.pipeline for release in releases):
        raise ParameterError(
            "the owners' pipelines differ; let them agree on one (pipeline=..., --like FILE) first."
        )
    hashes = [part.rows.hash for release in releases for part in release.parts]
    if len(set(hashes)) < len(hashes):
        raise ParameterError("two of the releases are about the same rows; merging needs others.")
    return first


def _row_mean(arrays: list[Any], weights: Any) -> Any:
    return np.einsum("i,i...->...", weights, np.stack(arrays))


def _in_turn(arrays: list[Any], _: Any) -> Any:
    return np.concatenate(arrays)


def _equal(arrays: list[Any], _: Any) -> Any:
    if any(not np.array_equal(array, arrays[0]) for array in arrays):
        raise ParameterError("the owners randomised at different rates; fit them without merging.")
    return arrays[0]


def _same(name: str, values: list[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise ParameterError(f"the owners differ in {name}; only equal ones can be merged.")
    return values[0]


def _any(_: str, values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else "mixed"


def _largest(_: str, values: list[Any]) -> Any:
    return max(values)


_ARRAY_MERGES = {"row-mean": _row_mean, "in turn": _in_turn, "equal": _equal}
_DETAIL_MERGES = {"same": _same, "any": _any, "largest": _largest}
