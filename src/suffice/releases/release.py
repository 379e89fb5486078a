"""A release: what an owner publishes, as a frozen value and as one file with its guarantees.

With it go the covariance of its noise (a structure, never a dense matrix), which rows have a label,
and how a notebook shows it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from suffice import strict_json
from suffice._version import __version__
from suffice.errors import CorruptFileError, ParameterError
from suffice.plain_text import html_facts, listed, name
from suffice.privacy.guarantee import Guarantee, Unit, guarantee_sentences, lists
from suffice.releases.columns import SpreadColumn, declared_pipeline, discrete_sizes
from suffice.releases.file import joined, payload_of, write_whole
from suffice.releases.kinds import ARRAY_CHECKS, DETAIL_CHECKS, kind_named
from suffice.tables.pipeline import Pipeline

Vector = NDArray[np.float64]
_FORMS = ("none", "identity", "diagonal", "factor")


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance C of the noise on each column of released sums, of d coordinates.

    Attributes
    ----------
    form
        "none": unknown or zero. "identity": C = variance I. "diagonal": C = variance diag(array).
        "factor": C = variance A A^T, with A = array of shape (d, r).
    variance
        The variance.
    array
        The diagonal, or A; None for other forms.
    """

    form: str
    variance: float = 0.0
    array: Vector | None = None

    def __post_init__(self) -> None:
        if self.form not in _FORMS or not (np.isfinite(self.variance) and self.variance >= 0):
            raise ParameterError("The noise covariance has an unknown form or a bad variance.")
        needs = {"diagonal": 1, "factor": 2}.get(self.form)
        has = None if self.array is None else self.array.ndim
        if needs != has or (self.array is not None and not np.isfinite(self.array).all()):
            raise ParameterError(f"A {self.form} covariance does not fit its array.")
        if self.form == "diagonal" and self.array is not None and (self.array < 0).any():
            raise ParameterError("A variance of the noise is negative.")

    def scaled(self, factor: float) -> "Covariance":
        """Return the covariance of the noise times sqrt(factor)."""
        return Covariance(self.form, self.variance * factor, self.array)

    def quadratic(self, parameters: Vector) -> float:
        """Return sum_k theta_k^T C theta_k over the columns theta_k of ``parameters``."""
        return float(self.along(parameters.reshape(len(parameters), -1)).sum())

    def along(self, directions: Vector) -> Vector:
        """Return v^T C v for each column v of ``directions`` (d, n)."""
        if self.form == "diagonal" and self.array is not None:
            directions = np.sqrt(self.array)[:, None] * directions
        elif self.form == "factor" and self.array is not None:
            directions = self.array.T @ directions
        return np.asarray(self.variance * np.sum(directions**2, axis=0))

    def diagonal(self, width: int) -> Vector:
        """Return the variance of each of ``width`` coordinates."""
        if self.array is None:
            return np.full(width, self.variance)
        own = self.array if self.form == "diagonal" else (self.array**2).sum(axis=1)
        return np.asarray(self.variance * own)

    def dense(self, width: int) -> Vector:
        """Return C as a matrix, to compute with; it never travels."""
        if self.form == "factor" and self.array is not None:
            return np.asarray(self.variance * (self.array @ self.array.T))
        return np.asarray(np.diag(self.diagonal(width)))

    def last(self) -> "Covariance":
        """Return the covariance of the last coordinate alone."""
        if self.array is None:
            return self
        only = np.zeros((len(self.array), 1))
        only[-1] = 1.0
        return Covariance("identity", float(self.along(only)[0]))

    def __add__(self, other: "Covariance") -> "Covariance":
        """Return the covariance of the sum of two independent noises."""
        if "none" in (self.form, other.form):
            return Covariance("none")
        if self.form == other.form == "identity":
            return Covariance("identity", self.variance + other.variance)
        return Covariance("factor", 1.0, np.hstack([self._root(other), other._root(self)]))

    def _root(self, other: "Covariance") -> Vector:
        """Return A with C = A A^T; the dimension comes from whichever of the two has an array."""
        scale = np.sqrt(self.variance)
        if self.form == "factor" and self.array is not None:
            return np.asarray(scale * self.array)
        if self.form == "diagonal" and self.array is not None:
            return np.asarray(scale * np.diag(np.sqrt(self.array)))
        assert other.array is not None  # noqa: S101  # for the type checker: one of them has one
        return np.asarray(scale * np.eye(len(other.array)))

    def arrays(self) -> dict[str, Vector]:
        """Return the array, named as it travels in a release."""
        return {} if self.array is None else {"noise.array": self.array}

    @classmethod
    def from_json(cls, data: object, arrays: dict[str, NDArray[Any]]) -> "Covariance":
        """Return the covariance that a manifest and `arrays` described."""
        stated = strict_json.read(_StatedCovariance, data, "noise covariance")
        try:
            return cls(stated.form, stated.variance, arrays.get("noise.array"))
        except ParameterError as error:
            raise CorruptFileError("The noise covariance in the file is not valid.") from error


@dataclass(frozen=True)
class _StatedCovariance:
    """A covariance as a file states it, without its array."""

    form: str
    variance: float


_MOST_ROWS = 1 << 26  # a bit each: 11 MB in a file


@dataclass(frozen=True)
class LabelledRows:
    """One truth value for each of ``rows`` rows of a table in its order, as packed ``bits``."""

    rows: int
    bits: bytes

    def __post_init__(self) -> None:
        if not 0 < self.rows <= _MOST_ROWS or len(self.bits) != -(-self.rows // 8):
            raise ParameterError(
                f"of at most {_MOST_ROWS:,} rows a file can say which have labels; leave the others"
                " out of the table."
            )
        if np.packbits(self.mask).tobytes() != self.bits:
            raise ParameterError("There must be one truth value for each row.")

    @classmethod
    def of(cls, mask: np.ndarray) -> "LabelledRows":
        """Return the rows where ``mask`` is true."""
        return cls(len(mask), np.packbits(mask.astype(bool)).tobytes())

    @cached_property
    def mask(self) -> np.ndarray:
        """One truth value for each row: whether it has a label."""
        packed = np.frombuffer(self.bits, dtype=np.uint8)
        return np.unpackbits(packed, count=self.rows).astype(bool)

    @property
    def count(self) -> int:
        """The number of rows with a label."""
        return int(self.mask.sum())


_SHOWN_GUARANTEES = 20  # guarantees in a notebook; all are in ``release.guarantees``
Array = NDArray[Any]


@dataclass(frozen=True)
class HashedRows:
    """Public rows by their number and their hash, without their order.

    Attributes
    ----------
    count
        The number of rows.
    hash
        Their hash, by which a learner recognises them.
    """

    count: int
    hash: str

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ParameterError("A row count must be a positive integer.")
        if not strict_json.is_digest(self.hash):
            raise ParameterError("A row hash must be sha256: and 64 hexadecimal digits.")


@dataclass(frozen=True)
class RowSet(HashedRows):
    """The public rows that a release belongs to.

    Attributes
    ----------
    found_at
        An address at which they may be found, or None.
    labelled
        Which rows of a larger table these are: those that have a label. None if all have one.
    """

    found_at: str | None = None
    labelled: LabelledRows | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labelled is not None and self.labelled.count != self.count:
            raise ParameterError("The row count must be the number of rows with a label.")


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

    @property
    def counted(self) -> str:
        """What is counted: rows, or people where each of them counts once."""
        person = any(guarantee.unit is Unit.PERSON for guarantee in self.guarantees)
        return "people" if person else "rows"


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
        The name of its kind, such as "mean-operator" (`suffice.releases.kinds`).
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
        """Raise unless arrays, details, parts and pipeline are what the kind declares, together."""
        kind, details, width = kind_named(self.kind), self.details, len(self.pipeline.outputs)
        if not self.parts or not all(part.guarantees for part in self.parts):
            raise CorruptFileError("A release must state at least one guarantee for each owner.")
        if set(details) != set(kind.details):
            raise CorruptFileError(f"A {kind.name} release must state {', '.join(kind.details)}.")
        for detail, rule in kind.details.items():
            value = details[detail]
            if not DETAIL_CHECKS[rule.check](value) or (rule.among and value not in rule.among):
                raise CorruptFileError(f"Detail {detail} is not valid.")
        if set(self.arrays) != set(kind.arrays):
            raise CorruptFileError(
                f"A {kind.name} release must hold {', '.join(kind.arrays)} only."
            )
        columns = details.get("columns", ())
        discrete = len(discrete_sizes(columns)) if columns else 0
        sizes = {
            "d": width,
            "m": self.rows,
            "K": len(details.get("classes", ())),
            "n": details.get("count", 0),
            "bags": len(details.get("bags", ())),
            "discrete": discrete,
            "continuous": len(columns) - discrete,
            "2": 2,
        }
        for array_name, array_rule in kind.arrays.items():
            array = self.arrays[array_name]
            axes = [axis for axis in array_rule.shape if axis != "K?" or sizes["K"] != 2]
            shape = tuple(sizes[axis.rstrip("?")] for axis in axes)
            if array.dtype != np.dtype(array_rule.dtype) or array.shape != shape:
                raise CorruptFileError(f"Array {array_name} has the wrong type or shape.")
            fulfils, trouble = ARRAY_CHECKS[array_rule.check]
            if not fulfils(array, details):
                raise CorruptFileError(f"Array {array_name} {trouble}.")
        if not width:
            raise CorruptFileError("A release must have a coordinate.")
        if "bags" in kind.details and sum(map(int, self.arrays["sizes"])) != self.rows:
            raise CorruptFileError("The sizes of the bags do not add up to the number of rows.")
        if "target" in details and not details["low"] < details["high"]:
            raise CorruptFileError("The range of the target must have two ends, the lesser first.")
        if "risk_low" in kind.details:
            ends = [details[end] for end in ("risk_low", "risk", "risk_high")]
            no_interval = ends[0] is None and ends[2] is None
            if not no_interval and (None in ends or ends != sorted(ends)):
                raise CorruptFileError(
                    "The interval of the risk must have two ends, around the risk."
                )
        if "nodes" in {rule.check for rule in kind.arrays.values()} and (
            self.arrays["features"].max(initial=-1) >= width
        ):
            raise CorruptFileError("A tree looks at a column that the pipeline does not have.")
        if "columns" in details:
            declared = declared_pipeline(
                SpreadColumn.from_json(item) for item in details["columns"]
            )
            if self.pipeline != declared:
                raise CorruptFileError("The pipeline is not the one that the columns declare.")
        factor = self.noise.array
        if factor is not None and factor.shape[0] != sizes[kind.noise_along]:
            raise CorruptFileError("The noise covariance does not fit the arrays.")

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
        """The declared classes; none where a number is predicted."""
        return tuple(self.details.get("classes", ()))

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
        costs = [repr(g)[len("<Guarantee ") : -1] for g in self.guarantees[:_SHOWN_GUARANTEES]]
        more = len(self.guarantees) - len(costs)
        listing = "; ".join(dict.fromkeys(costs)) + (f"; and {more} more" if more else "")
        return f"<Release {self.kind}: {self.rows:,} {self.parts[0].counted}; {listing}>"

    def _repr_html_(self) -> str:
        """Return the release for a notebook, in which no text from a file is markup."""
        rows = [
            ("Holds", kind_named(self.kind).title),
            (self.parts[0].counted.capitalize(), f"{self.rows:,}"),
        ]
        if len(self.parts) > 1:
            rows.append(("Owners", f"{len(self.parts):,}"))
        if self.classes:
            rows.append(("Classes", listed(self.classes)))
        shown = self.guarantees[:_SHOWN_GUARANTEES]
        said = dict.fromkeys((str(g.unit), " ".join(guarantee_sentences(g))) for g in shown)
        rows += [(f"Per {unit}", text) for unit, text in said]
        for line in dict.fromkeys(
            line for guarantee in shown for line in lists(guarantee.public, guarantee.assumptions)
        ):
            head, _, text = line.partition(": ")
            rows.append((head, text))
        if len(self.guarantees) > len(shown):
            rows.append(("More", f"{len(self.guarantees) - len(shown):,} more guarantees"))
        for array_name, array in self.arrays.items():
            rows.append((f"Array {name(array_name)}", f"{array.dtype}, shape {array.shape}"))
        return html_facts(rows)

    __hash__ = None  # type: ignore[assignment]  # holds arrays


def _described(release: Release) -> tuple[dict[str, Any], bytes]:
    """Return the manifest as JSON values, and the payload that it names."""
    arrays = {**release.arrays, **release.pipeline.arrays(), **release.noise.arrays()}
    payload, noise = payload_of(arrays), release.noise
    manifest = {
        "kind": release.kind,
        "kind_version": kind_named(release.kind).version,
        "library": release.library,
        "parts": [
            {
                "rows": strict_json.plain(part.rows),
                "guarantees": [guarantee.to_json() for guarantee in part.guarantees],
            }
            for part in release.parts
        ],
        "pipeline": release.pipeline.to_json(),
        "noise": {"form": noise.form, "variance": noise.variance},
        "details": dict(release.details),
        "payload": {"sha256": hashlib.sha256(payload).hexdigest()},
    }
    return manifest, payload


def manifest_of(release: Release) -> dict[str, Any]:
    """Return the manifest as JSON values: what `suffice inspect --json` shows."""
    return _described(release)[0]


def manifest_bytes(release: Release) -> bytes:
    """Return what a signature signs."""
    return strict_json.canonical(manifest_of(release))


def encode(release: Release) -> bytes:
    """Return the file's bytes: the same release always gives the same."""
    manifest, payload = _described(release)
    signed = b"" if release.signature is None else release.signature.key + release.signature.value
    return joined(strict_json.canonical(manifest), payload, signed)
