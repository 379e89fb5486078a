"""A release: what an owner publishes, as a frozen value and as one file with its guarantees."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice import strict_json
from suffice._version import __version__
from suffice.errors import CorruptFileError, ParameterError
from suffice.privacy.guarantee import Guarantee
from suffice.release.container import joined, payload_of
from suffice.release.covariance import Covariance
from suffice.release.files import write_whole
from suffice.release.kinds import ARRAY_CHECKS, DETAIL_CHECKS, Kind, kind_named
from suffice.release.labelled_rows import LabelledRows
from suffice.release.notebook import html_of, line_of
from suffice.release.spread import SpreadColumn, declared_pipeline, discrete_sizes
from suffice.tables.pipeline import Pipeline

__all__ = [
    "Part",
    "Release",
    "RowSet",
    "Signature",
    "encode",
    "manifest_bytes",
    "manifest_of",
]

Array = NDArray[Any]


@dataclass(frozen=True)
class RowSet:
    """The public rows that a release belongs to.

    Attributes
    ----------
    count
        The number of rows.
    hash
        Their hash, by which a learner recognises them.
    found_at
        An address at which they may be found, or None.
    labelled
        Which rows of a larger table these are: those that have a label. None if all have one.
    """

    count: int
    hash: str
    found_at: str | None = None
    labelled: LabelledRows | None = None

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ParameterError("A row count must be a positive integer.")
        if not strict_json.is_digest(self.hash):
            raise ParameterError("A row hash must be sha256: and 64 hexadecimal digits.")
        if self.labelled is not None and self.labelled.count != self.count:
            raise ParameterError("The row count must be the number of rows with a label.")

    def to_json(self) -> dict[str, Any]:
        """Return the rows as JSON values; ``labelled`` is None if all rows have a label."""
        labelled = None if self.labelled is None else self.labelled.to_json()
        return {
            "count": self.count,
            "hash": self.hash,
            "found_at": self.found_at,
            "labelled": labelled,
        }


@dataclass(frozen=True)
class Part:
    """One owner's part of a release.

    Attributes
    ----------
    rows
        The owner's public rows.
    guarantees
        The guarantees about the owner's data.
    """

    rows: RowSet
    guarantees: tuple[Guarantee, ...]


@dataclass(frozen=True)
class Signature:
    """An Ed25519 signature over the manifest.

    Attributes
    ----------
    key
        The public key of the signer.
    value
        The signature.
    """

    key: bytes
    value: bytes


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Holds what an owner publishes, and its guarantees.

    Attributes
    ----------
    kind
        The name of its kind, such as "mean-operator" (`suffice.release.kinds`).
    arrays
        The arrays of that kind, by name.
    details
        The public parameters of that kind, such as the classes.
    parts
        Rows and guarantees, owner by owner. A release that was not merged has one part.
    pipeline
        How columns become coordinates.
    noise
        The covariance of the noise.
    library
        The program that wrote it, with its version.
    signature
        The owner's signature, or None.
    """

    kind: str
    arrays: Mapping[str, Array]
    details: Mapping[str, Any]
    parts: tuple[Part, ...]
    pipeline: Pipeline
    noise: Covariance
    library: str = f"suffice {__version__}"
    signature: Signature | None = field(default=None)

    def __post_init__(self) -> None:
        _check_contents(self)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Every guarantee, owner by owner."""
        return tuple(guarantee for part in self.parts for guarantee in part.guarantees)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, where there is just one.

        Raises
        ------
        ParameterError
            If there are several: then read ``guarantees``.
        """
        if len(self.guarantees) != 1:
            raise ParameterError("This release has several guarantees. Read release.guarantees.")
        return self.guarantees[0]

    @property
    def rows(self) -> int:
        """The number of rows of all owners together."""
        return sum(part.rows.count for part in self.parts)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes."""
        return tuple(self.details["classes"])

    def array(self, name: str, what: str) -> Array:
        """Return an array of the release.

        Parameters
        ----------
        name
            The name of the array.
        what
            What it would hold, in words: "votes", "mean operator".

        Raises
        ------
        ParameterError
            If releases of this kind have no such array.
        """
        if name not in self.arrays:
            raise ParameterError(f"A {self.kind} release holds no {what}.")
        return self.arrays[name]

    def unsigned(self) -> "Release":
        """Return the same release without its signature."""
        return replace(self, signature=None)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the release to a file, completely or not at all.

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether a file that exists is replaced.

        Raises
        ------
        StorageError
            If the disk refused.
        """
        write_whole(Path(path), encode(self), overwrite=overwrite)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        return encode(self) == encode(other)

    def __repr__(self) -> str:
        return line_of(self)

    def _repr_html_(self) -> str:
        """Return the release for a notebook: what it is, its guarantees, its arrays."""
        return html_of(self)

    __hash__ = None  # type: ignore[assignment]  # holds arrays


def manifest_of(release: Release, payload: bytes | None = None) -> dict[str, Any]:
    """Return the manifest as JSON values: what `suffice inspect --json` shows."""
    payload = _payload(release) if payload is None else payload
    return {
        "kind": release.kind,
        "kind_version": kind_named(release.kind).version,
        "library": release.library,
        "parts": [
            {
                "rows": part.rows.to_json(),
                "guarantees": [guarantee.to_json() for guarantee in part.guarantees],
            }
            for part in release.parts
        ],
        "pipeline": release.pipeline.to_json(),
        "noise": release.noise.to_json(),
        "details": dict(release.details),
        "payload": {"sha256": hashlib.sha256(payload).hexdigest()},
    }


def _payload(release: Release) -> bytes:
    return payload_of({**release.arrays, **release.pipeline.arrays(), **release.noise.arrays()})


def manifest_bytes(release: Release) -> bytes:
    """Return what a signature signs."""
    return strict_json.canonical(manifest_of(release))


def encode(release: Release) -> bytes:
    """Return the file's bytes: the same release always gives the same."""
    payload = _payload(release)
    manifest = strict_json.canonical(manifest_of(release, payload))
    signed = release.signature
    return joined(manifest, payload, b"" if signed is None else signed.key + signed.value)


def _dimensions(release: Release) -> dict[str, int]:
    """Return the length of each named axis."""
    columns = release.details.get("columns", ())
    discrete = len(discrete_sizes(columns))
    return {
        "d": len(release.pipeline.outputs),
        "m": release.rows,
        "K": len(release.details.get("classes", ())),
        "n": release.details.get("count", 0),
        "bags": len(release.details.get("bags", ())),
        "discrete": discrete,
        "continuous": len(columns) - discrete,
    }


def _shape_of(axes: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the shape that ``axes`` mean for these sizes."""
    present = [axis for axis in axes if not (axis == "K?" and sizes["K"] == 2)]
    return tuple(sizes[axis.rstrip("?")] for axis in present)


def _check_contents(release: Release) -> None:
    """Raise unless arrays, details and parts are what the kind declares."""
    kind = kind_named(release.kind)
    if not release.parts or not all(part.guarantees for part in release.parts):
        raise CorruptFileError("A release must state at least one guarantee for each owner.")
    _check_details(kind, release.details)
    if set(release.arrays) != set(kind.arrays):
        raise CorruptFileError(f"A {kind.name} release must hold {', '.join(kind.arrays)} only.")
    sizes = _dimensions(release)
    for name, rule in kind.arrays.items():
        array = release.arrays[name]
        if array.dtype != np.dtype(rule.dtype) or array.shape != _shape_of(rule.shape, sizes):
            raise CorruptFileError(f"Array {name} has the wrong type or shape.")
        trouble = ARRAY_CHECKS[rule.check](array, release.details)
        if trouble:
            raise CorruptFileError(f"Array {name} {trouble}.")
    _check_together(kind, release)
    factor = release.noise.array
    if factor is not None and factor.shape[0] != sizes[kind.noise_along]:
        raise CorruptFileError("The noise covariance does not fit the arrays.")


def _check_together(kind: Kind, release: Release) -> None:
    """Raise unless details, arrays and pipeline, each right alone, are right together."""
    if not release.pipeline.outputs:
        raise CorruptFileError("A release must have a coordinate.")
    if "bags" in kind.details and sum(map(int, release.arrays["sizes"])) != release.rows:
        raise CorruptFileError("The sizes of the bags do not add up to the number of rows.")
    if "risk_low" in kind.details and not _ordered_figures(release.details):
        raise CorruptFileError("The interval of the risk must have two ends, around the risk.")
    if "nodes" in {rule.check for rule in kind.arrays.values()}:
        width = len(release.pipeline.outputs)
        if release.arrays["features"].max(initial=-1) >= width:
            raise CorruptFileError("A tree looks at a column that the pipeline does not have.")
    if "columns" in release.details and release.pipeline != _declared(release.details):
        raise CorruptFileError("The pipeline is not the one that the columns declare.")


def _declared(details: Mapping[str, Any]) -> Pipeline:
    return declared_pipeline(SpreadColumn.from_json(item) for item in details["columns"])


def _ordered_figures(details: Mapping[str, Any]) -> bool:
    """Say whether a model states no interval of its risk, or a whole one that holds the risk."""
    ends = [details[name] for name in ("risk_low", "risk", "risk_high")]
    if ends[0] is None and ends[2] is None:
        return True
    return None not in ends and ends == sorted(ends)


def _check_details(kind: Kind, details: Mapping[str, Any]) -> None:
    if set(details) != set(kind.details):
        raise CorruptFileError(f"A {kind.name} release must state {', '.join(kind.details)}.")
    for name, rule in kind.details.items():
        value = details[name]
        if not DETAIL_CHECKS[rule.check](value) or (rule.among and value not in rule.among):
            raise CorruptFileError(f"Detail {name} is not valid.")
