r"""What one party hands to the aggregator of many: its votes on public rows, as integers.

A ``*.part`` file holds one contribution, byte by byte. It is not private.

====================  ====================================================================
8 bytes               ``suffpart``: no release, so that `suffice.load` refuses it
4 + 8 bytes           lengths of manifest and array, little endian
manifest              canonical JSON: version, warning, party, statistic, names, classes, shape
array                 integers, little endian, in C order
32 bytes              SHA-256 of everything before
====================  ====================================================================

The checksum notices damage, not a forger: who sent the file is for the channel to say.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.owner.operator.form import gradient_change
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.class_sums import ClassSums, check_samples
from suffice.owner.parties.votes import operator_weights, votes_of
from suffice.release.codec import PART_MAGIC
from suffice.release.files import read_bounded, write_whole
from suffice.tables.labels import Classes, check_classes, label_codes

__all__ = [
    "STATISTICS",
    "PartyContribution",
    "check_name",
    "encode_part",
    "parameter_radius",
    "parameter_step",
    "read_part",
]

STATISTICS = ("operator", "votes", "parameters", "class-sums")
_VERSION = 1
_LENGTHS = struct.Struct("<IQ")
_MOST_MANIFEST, _MOST_BYTES = 2**20, 2**32
_WARNING = "not private: for the aggregator only"
_NAMES = ("party", "statistic", "rows", "pipeline", "grid")
_DTYPES = {"operator": "<i8", "votes": "<u2", "parameters": "<i8", "class-sums": "<i8"}
_PARAMETER_BITS = 30
_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class PartyContribution:
    """Protects nothing: a party's exact statistic, for an aggregator that the party trusts.

    `PartyContribution.of`, `of_parameters` and `of_records` make one. It must depend on the
    party's own data alone. Nothing is checked here: the aggregator checks what it receives.

    Parameters
    ----------
    party : str
        The name of the party.
    statistic : {"operator", "votes", "parameters", "class-sums"}
        What ``array`` holds. "operator": the party's own mean operator on the auxiliary rows, sum_i
        w_i x_i with votes w_i, of shape (1, d) for two classes, else (K, d). "votes": the votes
        themselves, (N, K), each row with sum VOTE. "parameters": the parameters of a linear
        classifier in steps of `parameter_step`, (1, d) or (K, d). "class-sums": the party's own
        rows of length one in white coordinates, summed by class, (1, d) or (K, d).
    array : ndarray
        The statistic, in integers.
    rows : str
        The hash of the auxiliary rows.
    pipeline : str
        The digest of the public pipeline.
    grid : str
        The name of the integer grid.
    classes : tuple
        The declared classes.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import AuxiliaryRows, PartyContribution
    >>> auxiliary = AuxiliaryRows.read(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]]))
    >>> part = PartyContribution.of("north clinic", [0, 1, 1], auxiliary, statistic="votes")
    >>> part.array.tolist()
    [[256, 0], [0, 256], [0, 256]]
    """

    party: str
    statistic: str
    array: np.ndarray
    rows: str
    pipeline: str
    grid: str
    classes: Classes

    @classmethod
    def of(
        cls,
        party: str,
        voter: Any,
        auxiliary: AuxiliaryRows,
        *,
        classes: Sequence[Any] = (0, 1),
        statistic: str = "operator",
        votes: str = "hard",
        mapped: bool = False,
    ) -> "PartyContribution":
        """Return the contribution of a classifier, of a function or of a column of votes.

        Parameters
        ----------
        party : str
            The name of the party.
        voter : classifier, callable, sequence or matrix
            What votes on the auxiliary rows: a scikit-learn classifier, a function of the rows, one
            label for each row, or proportions of shape (N, K).
        auxiliary : AuxiliaryRows
            The public rows that all parties vote on.
        classes : sequence
            The classes that all parties agreed on.
        statistic : {"operator", "votes"}
            What the contribution holds.
        votes : {"hard", "simplex"}
            One class for each row, or proportions that add up to one.
        mapped : bool
            Whether a classifier or function expects the rows as mapped by the public pipeline
            (`AuxiliaryRows.transform` maps the party's own), or as they were given.

        Returns
        -------
        PartyContribution
            The exact contribution. Send it only to an aggregator that the party trusts.

        Raises
        ------
        ParameterError
            If the votes do not fit the rows, or the classes are not valid.
        TableError
            If a vote is not in the class list.
        """
        declared = check_classes(classes)
        weights = votes_of(voter, auxiliary, declared, votes, mapped=mapped)
        return cls.of_weights(party, weights, auxiliary, declared, statistic)

    @classmethod
    def of_weights(
        cls,
        party: str,
        weights: np.ndarray,
        auxiliary: AuxiliaryRows,
        classes: Classes,
        statistic: str = "operator",
    ) -> "PartyContribution":
        """Return the contribution of votes that are weights (N, K) already."""
        if statistic not in ("operator", "votes"):
            raise ParameterError(
                f"statistic must be one of {', '.join(STATISTICS[:2])}. For others, use"
                " PartyContribution.of_parameters or of_records."
            )
        ordered = statistic == "votes"
        array = weights if ordered else auxiliary.sums(operator_weights(weights))
        return cls(
            party=check_name(party),
            statistic=statistic,
            array=array,
            rows=auxiliary.hashes[ordered],
            pipeline=auxiliary.pipeline.digest(),
            grid=auxiliary.grid,
            classes=classes,
        )

    @classmethod
    def of_parameters(
        cls,
        party: str,
        parameters: Any,
        auxiliary: AuxiliaryRows,
        *,
        classes: Sequence[Any] = (0, 1),
        lam: float = 1e-4,
    ) -> "PartyContribution":
        """Return the contribution of a linear classifier, for averaging parameters.

        The classifier must be in the mapped coordinates (`AuxiliaryRows.transform`). No minimiser
        at this penalty is longer than `parameter_radius`; longer parameters are scaled down to it.

        Parameters
        ----------
        party : str
            The name of the party.
        parameters : array
            One number for each coordinate, (d,) for two classes, else (d, K).
        auxiliary : AuxiliaryRows
            The public rows that all parties agreed on.
        classes : sequence
            The classes that all parties agreed on.
        lam : float
            Weight of the penalty that the classifier was trained with.

        Returns
        -------
        PartyContribution
            The exact contribution. Send it only to an aggregator that the party trusts.

        Raises
        ------
        ParameterError
            If the parameters have another shape or are not finite, or the penalty is not positive.
        """
        declared = check_classes(classes)
        radius = parameter_radius(auxiliary, len(declared), lam)
        theta = np.asarray(parameters, dtype=np.float64)
        width = len(auxiliary.pipeline.outputs)
        if theta.shape != ((width,) if len(declared) == 2 else (width, len(declared))):
            raise ParameterError(
                f"parameters must have {width} numbers for each class, one for each coordinate of"
                " the mapped rows. Train on AuxiliaryRows.transform(records)."
            )
        if not np.isfinite(theta).all():
            raise ParameterError(
                "parameters must be finite numbers. Train the classifier again with a larger"
                " penalty."
            )
        size = max(float(np.linalg.norm(theta)), 1e-300)
        flat = theta.T.reshape(-1, width) * min(1.0, radius / size)
        step = parameter_step(radius)
        return cls(
            party=check_name(party),
            statistic="parameters",
            array=np.rint(flat / step).astype(np.int64),
            rows=auxiliary.hashes[0],
            pipeline=auxiliary.pipeline.digest(),
            grid=f"steps of {step!r}",
            classes=declared,
        )

    @classmethod
    def of_records(
        cls,
        party: str,
        records: Any,
        labels: Any,
        auxiliary: AuxiliaryRows,
        *,
        classes: Sequence[Any] = (0, 1),
        samples: int,
    ) -> "PartyContribution":
        """Return the contribution of a party's own records, summed by class.

        Parameters
        ----------
        party : str
            The name of the party.
        records : table
            The party's rows, with the columns of the auxiliary rows.
        labels : sequence
            One label for each row.
        auxiliary : AuxiliaryRows
            The public rows that all parties agreed on.
        classes : sequence
            The classes that all parties agreed on.
        samples : int
            The public number of records of each party that all agreed on. A party may have more
            or fewer.

        Returns
        -------
        PartyContribution
            The exact contribution. Send it only to an aggregator that the party trusts.

        Raises
        ------
        ParameterError
            If the number of labels differs from that of the rows, or ``samples`` is not valid.
        TableError
            If a label is not in the class list, or a column is missing.
        """
        declared = check_classes(classes)
        rows, codes = auxiliary.transform(records), label_codes(labels, declared)
        if len(rows) != len(codes):
            raise ParameterError(
                f"There are {len(codes)} labels for {len(rows)} records. Give one label for each"
                " record."
            )
        return cls.of_mapped(
            party, rows, codes, ClassSums(auxiliary, len(declared), samples), declared
        )

    @classmethod
    def of_mapped(
        cls,
        party: str,
        rows: np.ndarray,
        codes: np.ndarray,
        sums: ClassSums,
        classes: Classes,
    ) -> "PartyContribution":
        """Return the class sums of rows that are mapped already, with class codes."""
        check_samples(sums.samples)
        return cls(
            party=check_name(party),
            statistic="class-sums",
            array=sums.of(rows, codes),
            rows=sums.auxiliary.hashes[0],
            pipeline=sums.auxiliary.pipeline.digest(),
            grid=sums.grid,
            classes=classes,
        )

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write a ``*.part`` file that only its owner can read. It is not private.

        Parameters
        ----------
        path : str or Path
            The file.
        overwrite : bool
            Whether an existing file is replaced. Otherwise it is an error.

        Raises
        ------
        StorageError
            If the file cannot be written.
        """
        write_whole(Path(path), encode_part(self), mode=0o600, overwrite=overwrite)

    @classmethod
    def load(cls, source: str | Path | bytes) -> "PartyContribution":
        """Return the contribution in a ``*.part`` file. The aggregator checks its contents later.

        Parameters
        ----------
        source : str, Path or bytes
            The file, or its bytes.

        Returns
        -------
        PartyContribution
            The contribution.

        Raises
        ------
        ReleaseError
            If the file is damaged, is not a contribution, or was written by another version.
        """
        return read_part(source)


def check_name(party: str) -> str:
    """Return a party's name if it is one that files and reports can show, or raise."""
    if not isinstance(party, str) or not 0 < len(party) <= _LONGEST_NAME or not party.isprintable():
        raise ParameterError(
            f"A party's name must have 1 to {_LONGEST_NAME} printable characters. Choose another"
            " name."
        )
    return party


def parameter_radius(auxiliary: AuxiliaryRows, classes: int, lam: float) -> float:
    """Return the largest norm of a minimiser of the risk plus (lam/2) ||theta||^2 on any rows.

    At a minimiser lam theta is minus the mean gradient of the losses, at most B = the norm bound
    for the logistic loss and sqrt(2) B for softmax (Hamm et al. 2016, eq. 44).
    """
    if not (math.isfinite(lam) and lam > 0):
        raise ParameterError(
            "The penalty weight must be above 0: set --penalty-weight (Python: lam=...)."
        )
    return auxiliary.pipeline.norm_bound * gradient_change(classes) / lam


def parameter_step(radius: float) -> float:
    """Return the step of the public grid of parameters: a power of two, 2^-30 of the radius."""
    return 2.0 ** (math.ceil(math.log2(radius)) - _PARAMETER_BITS)


def encode_part(part: PartyContribution) -> bytes:
    """Return the file's bytes: the same contribution always gives the same."""
    array = np.asarray(part.array)
    stored = array.astype(_DTYPES[part.statistic]) if array.dtype.kind in "iu" else array[:0]
    if not np.array_equal(stored, array):
        raise ParameterError(
            "A contribution can hold only integers of its grid. Make it with PartyContribution.of,"
            " of_parameters or of_records."
        )
    fields = {name: getattr(part, name) for name in _NAMES}
    fields |= {"classes": list(part.classes), "shape": list(array.shape)}
    manifest = strict_json.canonical({"version": _VERSION, "warning": _WARNING, **fields})
    payload = np.ascontiguousarray(stored).tobytes()
    body = PART_MAGIC + _LENGTHS.pack(len(manifest), len(payload)) + manifest + payload
    return body + hashlib.sha256(body).digest()


def read_part(source: str | Path | bytes) -> PartyContribution:
    """Return the contribution that `encode_part` wrote; all else is a `ReleaseError`."""
    data = source if isinstance(source, bytes) else read_bounded(Path(source), _MOST_BYTES)
    manifest, payload = _split(data)
    fields = strict_json.parse_canonical(manifest)
    wanted = {"version", "warning", "classes", "shape", *_NAMES}
    if not isinstance(fields, dict) or fields.get("version") != _VERSION or set(fields) != wanted:
        raise UnsupportedFileError(
            "This contribution was written by another version of suffice. Ask the party to write"
            " it again with this version."
        )
    names = {name: strict_json.text(fields[name]) for name in _NAMES}
    hashes = strict_json.is_digest(names["rows"]) and strict_json.is_digest(names["pipeline"])
    if names["statistic"] not in STATISTICS or not hashes:
        raise CorruptFileError(
            "The contribution is damaged: its header is not valid. Ask the party to send it again."
        )
    try:
        check_name(names["party"])
        classes = check_classes(fields["classes"])
    except ParameterError:
        raise CorruptFileError(
            "The contribution is damaged: its party or its classes are not valid. Ask the party to"
            " send it again."
        ) from None
    array = _array(payload, fields["shape"], _DTYPES[names["statistic"]])
    return PartyContribution(**names, array=array.astype(np.int64), classes=classes)


def _split(data: bytes) -> tuple[bytes, bytes]:
    head = len(PART_MAGIC) + _LENGTHS.size
    if data[: len(PART_MAGIC)] != PART_MAGIC:
        raise CorruptFileError(
            "This file is not a party's contribution. Use a .part file that suffice contribute"
            " wrote."
        )
    if len(data) < head + 32:
        raise CorruptFileError("The contribution is cut off. Ask the party to send it again.")
    manifest, payload = _LENGTHS.unpack_from(data, len(PART_MAGIC))
    if head + manifest + payload + 32 != len(data) or manifest > _MOST_MANIFEST:
        raise CorruptFileError(
            "The contribution is cut off, or longer than it states. Ask the party to send it again."
        )
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise CorruptFileError(
            "The contribution was altered or damaged: its checksum does not match. Ask the party"
            " to send it again."
        )
    return data[head : head + manifest], data[head + manifest : -32]


def _array(payload: bytes, shape: Any, dtype: str) -> np.ndarray:
    sizes = shape if isinstance(shape, list) else []
    are_sizes = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes)
    if (
        not are_sizes
        or len(sizes) != 2
        or math.prod(sizes) * np.dtype(dtype).itemsize != len(payload)
    ):
        raise CorruptFileError(
            "The contribution is damaged: its array has the wrong shape. Ask the party to send it"
            " again."
        )
    return np.frombuffer(payload, dtype=dtype).reshape(sizes)
