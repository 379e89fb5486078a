"""What one party hands to the aggregator of many: its votes or class sums, as integers.

Party and aggregator hold the same public rows and the same pipeline, so that both compute the same
integers. A contribution names all three: rows, pipeline and the grid on which votes are counted.
"""

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from suffice import strict_json
from suffice.engines.engine import Computing
from suffice.engines.sums import lattice_step
from suffice.errors import CorruptFileError, ParameterError, TableError, UnsupportedFileError
from suffice.options import REQUIRED, data_option, names
from suffice.owner.labelled import Preprocessing
from suffice.owner.mean_operator import (
    MOST_SHAPED,
    Shape,
    gradient_change,
    label_change,
    operator_columns,
    whitening,
)
from suffice.privacy.noise import Sensitivity
from suffice.releases.file import PART_MAGIC, read_bounded, sealed, unsealed, write_whole
from suffice.tables.columns import (
    Classes,
    check_classes,
    feature_names,
    is_categorical,
    label_codes,
    resolve_roles,
)
from suffice.tables.pipeline import Column, Pipeline
from suffice.tables.sources import open_columns, open_declared, open_table
from suffice.tables.table import Table, hash_rows

FITTED_ON_ROWS = (
    "The pipeline was fitted on the auxiliary rows, so the release would show them. Use a pipeline"
    " that was declared or fitted on public rows: --pipeline-from FILE (Python: pipeline=...)."
)

VOTE = 2**8  # what one vote weighs; shares of a vote are multiples of 1/VOTE
# |sum_i w_i x_i| of one party stays below 2^40: floats hold it exactly in any order of summation,
# and 64-bit integers the sum of two million parties.
_SUM_BITS = 40
_LEAST_BITS, _MOST_BITS = 10, 30
_CLIP_QUANTILE = 0.95  # long rows do not set the noise here, their mean does: clip outliers only


@dataclass(frozen=True, eq=False)
class AuxiliaryRows:
    """Public rows on which parties vote, mapped by a public pipeline. Nothing here is private.

    `AuxiliaryRows.read` makes one from a table.

    Parameters
    ----------
    pipeline : Pipeline
        The public pipeline that maps rows to vectors.
    rows : ndarray
        The mapped rows, (N, d).
    table : Table
        The rows before mapping.
    given : object
        The rows as the caller passed them, for classifiers that have features of their own.
    hashes : tuple of str
        The hash of the rows in any order, and the hash of the rows in their order.
    fitted : bool
        Whether the pipeline was fitted on these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice import AuxiliaryRows
    >>> auxiliary = AuxiliaryRows.read(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]]))
    >>> auxiliary.count
    3
    >>> auxiliary.pipeline.outputs
    ('x0', 'x1', '(intercept)')
    """

    pipeline: Pipeline
    rows: np.ndarray
    table: Table
    given: Any
    hashes: tuple[str, str]
    fitted: bool = True

    @classmethod
    def read(
        cls, data: Any, *, features: Sequence[str] | None = None, **settings: Any
    ) -> "AuxiliaryRows":
        """Read rows, and fit their pipeline unless all agreed on one before.

        Parameters
        ----------
        data : table
            The rows: a file, a frame, an array or a query.
        features : sequence of str, optional
            The feature columns. Default: all columns.
        **settings
            Fields of `Preprocessing`, for example ``pipeline``, ``map`` or ``clip``. Unless
            ``clip`` is set, rows are clipped at the 0.95 quantile of their norms.

        Returns
        -------
        AuxiliaryRows
            The mapped rows. With a ``pipeline``, no type is read from a cell of a CSV file, because
            the rows may be protected.

        Raises
        ------
        TableError
            If the table has no rows, or a column cannot be a feature.
        """
        preprocessing = Preprocessing(**settings)
        if preprocessing.clip is None and preprocessing.pipeline is None:
            preprocessing = replace(preprocessing, clip=_CLIP_QUANTILE)
        table = _open_typed(data, preprocessing.pipeline, features)
        public = preprocessing.read_public(
            table, None, features, Computing(), features_listed=features is not None
        )
        names = public.roles.features
        blocks = [public.pipeline.transform(batch) for batch in public.table.batches(names)]
        digest = hash_rows(public.table, names, ordered=True)
        if not blocks:
            raise TableError(
                "The table of auxiliary rows has no rows. Use a table with at least one row."
            )
        rows = np.ascontiguousarray(np.vstack(blocks))
        hashes = (digest.unordered(), digest.result())
        return cls(
            public.pipeline, rows, public.table, data, hashes, fitted=preprocessing.pipeline is None
        )

    @property
    def count(self) -> int:
        """N, the number of auxiliary rows."""
        return len(self.rows)

    def fingerprint(self) -> str:
        """Return what identifies protected rows in a ledger: all their cells, in any order.

        It covers more than the features. Another pipeline over other columns of the same rows is
        therefore charged to the same budget. Columns that are neither numbers nor categories are
        left out.
        """
        names = [name for name in feature_names(self.table.schema) if _can_be_hashed(self, name)]
        return f"auxiliary rows {hash_rows(self.table, names).result()}"

    @property
    def step(self) -> float:
        """What one code is worth: a power of two, the finer the fewer rows there are."""
        bits = _SUM_BITS - (VOTE - 1).bit_length() - (self.count - 1).bit_length()
        if bits < _LEAST_BITS:
            raise ParameterError(
                f"There are too many auxiliary rows: at most {2**22:,} are allowed. Use a random"
                " sample of them."
            )
        return lattice_step(self.pipeline.norm_bound) * 2.0 ** (_MOST_BITS - min(bits, _MOST_BITS))

    @cached_property
    def codes(self) -> np.ndarray:
        """The rows in steps: integers, held as floats."""
        return np.rint(self.rows / self.step)

    @cached_property
    def grid(self) -> str:
        """The name of the codes: equal on two machines if, and only if, every code is."""
        content = hashlib.sha256(f"{self.codes.shape} {self.step!r} {VOTE}\0".encode())
        content.update(self.codes.astype("<i4").tobytes())
        return "sha256:" + content.hexdigest()

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Return sum_i w_i x_i in integers for each line of ``weights`` (r, N), |w_i| <= VOTE.

        Every partial sum is an integer below 2^40 (plus N VOTE for rounding), so that the product
        of matrices is exact whatever order it takes.
        """
        sums: np.ndarray = np.rint(weights @ self.codes)
        return sums.astype(np.int64)

    def transform(self, data: Any) -> np.ndarray:
        """Return other rows in the same coordinates, to train local classifiers on.

        ``data`` is a table with the columns of the pipeline. It may be private. A table without
        rows, or without such a column, is a `TableError`.
        """
        table = _open_typed(data, self.pipeline, None)
        names = tuple(column.name for column in self.pipeline.columns)
        resolve_roles(table.schema, features=names)
        blocks = [self.pipeline.transform(b, unknown=Counter()) for b in table.batches(names)]
        if not blocks:
            raise TableError("The table has no rows. Use a table with at least one row.")
        return np.ascontiguousarray(np.vstack(blocks))

    def raw(self, column_names: Sequence[str] | None = None) -> Any:
        """Return the rows as a classifier of one's own expects them: as they were given.

        That is the array or frame that was given. For a file or an Arrow table it is the matrix of
        its feature columns, or a pandas table of ``column_names``: those that the classifier was
        trained on, in that order. A missing column, or a matrix of categories, is a
        `ParameterError`.
        """
        names = [column.name for column in self.pipeline.columns]
        if isinstance(self.given, np.ndarray):
            return self.given
        if column_names is not None:
            lacking = sorted(set(column_names) - set(names))
            if lacking:
                raise ParameterError(
                    "The classifier needs columns that the auxiliary rows do not have:"
                    f" {', '.join(lacking)}. Train it on the columns of the auxiliary rows."
                )
            names = list(column_names)
        if hasattr(self.given, "iloc"):  # pandas
            return self.given[names]
        if column_names is not None:
            batches = list(self.table.batches(names))
            return pa.Table.from_batches(batches).to_pandas()
        if any(is_categorical(self.table.schema.field(name).type) for name in names):
            raise ParameterError(
                "These auxiliary rows hold categories, so they are not a matrix of numbers. Pass a"
                " classifier trained on named columns, a function of the mapped rows"
                " (mapped=True), or the votes themselves."
            )
        columns = [
            np.concatenate([b.column(name).to_numpy(zero_copy_only=False) for b in parts])
            for name in names
            if (parts := list(self.table.batches([name])))
        ]
        return np.column_stack(columns)


def _open_typed(data: Any, pipeline: Pipeline | None, features: Sequence[str] | None) -> Table:
    """Return a table whose columns have the types that a pipeline declares; others are texts."""
    if pipeline is None and features is None:
        return open_table(data)
    if pipeline is None:
        return open_columns(data, features or (), label=None)
    numbers = [column.name for column in pipeline.columns if _holds_numbers(column)]
    return open_declared(data, numbers=numbers)


def _holds_numbers(column: Column) -> bool:
    """Say whether the cells of a column are numbers: all of its categories are, if it has some."""
    listed = column.categories or ()
    try:
        return all(not isinstance(c, bool) and math.isfinite(float(c)) for c in listed)
    except ValueError:
        return False


def _can_be_hashed(auxiliary: AuxiliaryRows, name: str) -> bool:
    """Say whether a column stands once in the table and holds numbers or categories."""
    try:
        is_categorical(auxiliary.table.schema.field(name).type)
    except (KeyError, TableError):  # Arrow finds no field where there are two
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class AgreedRows:
    """What parties and aggregator agree on beforehand: public rows, and how they are mapped."""

    auxiliary: Any = data_option(
        REQUIRED,
        "Public rows on which every party votes: Parquet, CSV, Feather, Excel or SPSS.",
        name="--aux",
        path=Path,
    )
    features: Sequence[str] | None = data_option(
        None,
        "Feature columns, with commas (repeatable). Default: all columns of --aux.",
        parse=names,
        many=True,
    )
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    @cached_property
    def rows(self) -> AuxiliaryRows:
        """The auxiliary rows."""
        if isinstance(self.auxiliary, AuxiliaryRows):
            return self.auxiliary
        settings = vars(self.preprocessing)
        return AuxiliaryRows.read(self.auxiliary, features=self.features, **settings)


FORMS = ("hard", "simplex")
_SUM_TOLERANCE = 1e-6  # by which the shares of one row may miss one


def votes_of(
    voter: Any, auxiliary: AuxiliaryRows, classes: Classes, form: str, *, mapped: bool
) -> np.ndarray:
    """Return the weights (N, K) of a party's votes: integers, each row with sum VOTE.

    A classifier may lack classes: it gives them no vote. One that learnt from named columns sees
    those, by their names.
    """
    if form not in FORMS:
        raise ParameterError(f"votes must be one of {', '.join(FORMS)}. It is {form!r}.")
    if hasattr(voter, "predict"):
        column_names = getattr(voter, "feature_names_in_", None)
        rows = auxiliary.rows if mapped else auxiliary.raw(column_names)
        if form == "hard":
            return from_codes(_codes(voter.predict(rows), auxiliary, classes), len(classes))
        if not hasattr(voter, "predict_proba"):
            raise ParameterError("This classifier has no predict_proba. Use votes='hard'.")
        shares = np.zeros((len(rows), len(classes)))
        shares[:, label_codes(np.asarray(voter.classes_), classes)] = voter.predict_proba(rows)
        return from_shares(shares)
    if callable(voter):
        voter = voter(auxiliary.rows if mapped else auxiliary.raw())
    votes = np.asarray(voter) if not hasattr(voter, "combine_chunks") else voter
    if getattr(votes, "ndim", 1) == 1:
        return from_codes(_codes(votes, auxiliary, classes), len(classes))
    if votes.shape != (auxiliary.count, len(classes)):
        raise ParameterError(
            f"Votes have the shape {votes.shape}. Give one label for each auxiliary row, or"
            f" proportions of shape ({auxiliary.count}, {len(classes)})."
        )
    if form != "hard":
        return from_shares(votes)
    if not np.isfinite(votes).all():
        raise ParameterError("Votes must be finite numbers. Check the classifier's scores.")
    return from_codes(votes.argmax(axis=1), len(classes))


def _codes(labels: Any, auxiliary: AuxiliaryRows, classes: Classes) -> np.ndarray:
    codes = label_codes(labels, classes)
    if len(codes) != auxiliary.count:
        raise ParameterError(
            f"There are {len(codes)} votes but {auxiliary.count} auxiliary rows. Vote once on each"
            " row."
        )
    return codes


def from_codes(codes: np.ndarray, classes: int) -> np.ndarray:
    """Return the weights of hard votes: VOTE for the class that is voted for."""
    weights = np.zeros((len(codes), classes), dtype=np.int64)
    weights[np.arange(len(codes)), codes] = VOTE
    return weights


def from_shares(shares: np.ndarray) -> np.ndarray:
    """Return shares as integers of the public grid whose sum is VOTE, row by row.

    Each share is rounded down to the grid, and what is missing goes to the largest remainders.
    """
    shares = np.asarray(shares, dtype=np.float64)
    likely = np.isfinite(shares).all() and (shares >= 0).all()
    if not likely or np.abs(shares.sum(axis=1) - 1).max(initial=0) > _SUM_TOLERANCE:
        raise ParameterError(
            "Simplex votes must be proportions: at least 0, with a sum of 1 in each row. Normalise"
            " each row, or use votes='hard'."
        )
    scaled = shares / shares.sum(axis=1, keepdims=True) * VOTE
    lower = np.floor(scaled)
    missing = VOTE - lower.sum(axis=1)
    rank = np.argsort(np.argsort(lower - scaled, axis=1, kind="stable"), axis=1, kind="stable")
    weights: np.ndarray = (lower + (rank < missing[:, None])).astype(np.int64)
    # Floats may round a share past its neighbour; what that adds or lacks goes to the largest.
    rows = np.arange(len(weights))
    weights[rows, weights.argmax(axis=1)] += VOTE - weights.sum(axis=1)
    return weights


def operator_weights(weights: np.ndarray) -> np.ndarray:
    """Return what rows are multiplied with: (1, N) signed for two classes, (K, N) for more."""
    if weights.shape[1] == 2:
        signed: np.ndarray = weights[:, 1] - weights[:, 0]
        return signed[None, :].astype(np.float64)
    return np.ascontiguousarray(weights.T, dtype=np.float64)


_VARIANCE_FLOOR = 2.0**-20  # of the largest variance: directions with less are whitened to this


def reach(codes: np.ndarray, shape: Shape | None) -> float:
    """Return R with ||sum_i z_i w_i^T||_F <= N R whenever every ||w_i|| <= 1, z = A x / 2^bits.

    R = min(mean ||z_i||, sqrt(lambda_max(Z^T Z / N))), rounded up by more than floats can lose
    (privacy/proofs/parties.md). Without a shape z = x.
    """
    count, width = codes.shape
    unit, slack = 2.0**-50, 0.0
    rows = codes
    if shape is not None:
        rows = codes @ (shape.matrix / 2.0**shape.bits).T
        size = float(np.linalg.norm(codes)) * float(np.linalg.norm(shape.matrix / 2.0**shape.bits))
        slack = (width + 4) * unit * size / math.sqrt(count)  # of Z, per root of N, 2-norm
    squares = np.einsum("ij,ij->i", rows, rows)
    more = (count + width + 64) * unit
    mean = float(np.sqrt(squares).mean()) * (1 + more)
    energy = float(squares.sum()) / count
    largest = float(np.linalg.eigvalsh(rows.T @ rows / count)[-1]) + more * energy
    bound: float = (min(mean, math.sqrt(largest)) + slack) * (1 + 64 * unit)
    return bound


def whitened_shape(codes: np.ndarray) -> Shape | None:
    """Return the shape of noise that is even in whitened coordinates, T = (S + floor I)^(-1/2).

    Votes can move the operator by (1/M) sqrt(lambda_max(T S T)) times a constant, so that among all
    T with the eigenvectors of S this one has the least noise in *every* direction: noise variance
    1/g_j along an eigenvector costs max_j s_j g_j, which g_j = 1/s_j makes one for all. Even noise
    has the variance of the largest s_j everywhere. None where there are too many coordinates.
    """
    if codes.shape[1] > MOST_SHAPED:
        return None
    values, vectors = np.linalg.eigh(codes.T @ codes / len(codes))
    return Shape.of(
        whitening(np.maximum(values, 0.0), vectors, _VARIANCE_FLOOR * float(values[-1]), 1.0)
    )


def operator_sensitivity(codes: np.ndarray, shape: Shape | None, classes: int) -> Sensitivity:
    """Return how far one party moves the (shaped) integer sum of operators, for any votes.

    2 VOTE N R for two classes, sqrt(2) VOTE N R for more, R = `reach`; where there is a shape, one
    step per coordinate more for its rounding (privacy/proofs/parties.md).
    """
    dimension = codes.shape[1] * operator_columns(classes)
    two = label_change(classes) * VOTE * len(codes) * reach(codes, shape)
    two += 0.0 if shape is None else math.sqrt(dimension)
    return Sensitivity(math.ceil(math.sqrt(dimension) * two), two, dimension)


_STEPS_PER_ROW = 2**30  # of the length of one row
MOST_SAMPLES = 2**20


def check_samples(samples: object) -> int:
    """Return the declared number of records of each party, or raise."""
    if not isinstance(samples, int) or isinstance(samples, bool) or not 0 < samples <= MOST_SAMPLES:
        raise ParameterError(
            "Class sums need the public number of records of each party, from 1 to"
            f" {MOST_SAMPLES:,}. Set --samples (Python: samples=...)."
        )
    return samples


def choose_method(classes: int, samples: int) -> str:
    """Return what to release of parties with this many records: class sums or the operator.

    Votes come from classifiers that know a party's own classes only: with few records per class
    most votes are for a wrong one. With many, votes are as good, and 1/M is less noise than
    2/(M sqrt(n)). Up to two records per class, class sums were the better on every table that was
    tried (docs/parties.md).
    """
    return "class-sums" if samples <= 2 * classes else "operator"


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Computes one party's class sums, in integers of norm at most ``most``.

    A party with few records cannot vote for classes that it lacks. Its records can still be summed
    by class. In public white coordinates z = T x every row has about the same length, so that all
    rows are scaled to length one, u = z / ||z||, and n rows in different classes have a sum of norm
    sqrt(n). A party's sum is scaled down to that norm if it is longer. One party then moves the sum
    over parties by at most 2 sqrt(n), whatever it holds (privacy/proofs/parties.md).

    Everything here is public: it is the same for all parties, whatever they hold.
    """

    auxiliary: AuxiliaryRows  # which set the white coordinates
    classes: int
    samples: int  # the declared number n of records of each party, which may have more or fewer

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a sum: one line for two classes, else one for each class."""
        return operator_columns(self.classes), len(self.auxiliary.pipeline.outputs)

    @property
    def radius(self) -> float:
        """The norm that sums are scaled down to, in steps: sqrt(n) rows."""
        return math.sqrt(self.samples) * _STEPS_PER_ROW

    @property
    def most(self) -> float:
        """The norm as floats compute it, in steps, up to which sums are accepted."""
        return self.radius * (1 + self._floats)

    @property
    def reach(self) -> float:
        """The norm, in steps, that no accepted sum exceeds, whatever floats have lost."""
        return self.radius * (1 + 2 * self._floats)

    @property
    def _floats(self) -> float:
        """More than floats can lose of a norm, relative to it (privacy/proofs/parties.md)."""
        return (math.prod(self.shape) + 64) * 2.0**-50

    @cached_property
    def whitening(self) -> np.ndarray:
        """T, which takes rows in steps to white coordinates; the identity if they are too many."""
        shape = whitened_shape(self.auxiliary.codes)
        width = len(self.auxiliary.pipeline.outputs)
        return np.eye(width) if shape is None else np.asarray(shape.matrix / 2.0**shape.bits)

    @cached_property
    def unit(self) -> float:
        """What a step of a sum is worth in white coordinates: the mean length of public rows."""
        lengths = np.linalg.norm(self.auxiliary.codes @ self.whitening.T, axis=1)
        return float(lengths.mean()) / _STEPS_PER_ROW

    @cached_property
    def grid(self) -> str:
        """The name of the integers: of the public rows, the number of records and the steps."""
        named = f"class sums\0{self.auxiliary.grid}\0{self.samples}\0{_STEPS_PER_ROW}"
        return "sha256:" + hashlib.sha256(named.encode()).hexdigest()

    def of(self, rows: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the sum of one party: of rows in public coordinates, with class codes.

        Rows are put into white coordinates, each of length one, in integer steps.
        Only this party's rows are in any product of matrices, so that what it sends does not
        depend on other parties' records.
        """
        white = (rows / self.auxiliary.step) @ self.whitening.T
        lengths = np.linalg.norm(white, axis=1, keepdims=True)
        steps = np.rint(white / np.where(lengths > 0, lengths, 1.0) * _STEPS_PER_ROW).astype(
            np.int64
        )
        sums = np.zeros(self.shape, dtype=np.int64)
        if self.classes == 2:
            sums[0] = (steps * np.where(codes == 1, 1, -1)[:, None]).sum(axis=0)
        else:
            np.add.at(sums, codes, steps)
        size = float(np.linalg.norm(sums.astype(np.float64)))
        if size <= self.radius:
            return sums
        return np.trunc(sums * (self.radius / size)).astype(np.int64)


STATISTICS = ("operator", "votes", "parameters", "class-sums")
_VERSION = 1
_LENGTHS = struct.Struct("<IQ")
_MOST_BYTES = 2**32  # of a file
_DTYPES = {"operator": "<i8", "votes": "<u2", "parameters": "<i8", "class-sums": "<i8"}
_LONGEST_NAME = 200


@dataclass(frozen=True)
class PartForm:
    """What the headers of all contributions to one round say: public, and agreed on beforehand."""

    statistic: Literal["operator", "votes", "parameters", "class-sums"]
    rows: strict_json.Digest
    pipeline: strict_json.Digest
    grid: str
    classes: tuple[Any, ...]
    shape: tuple[int, int]

    @classmethod
    def of(
        cls,
        statistic: str,
        auxiliary: AuxiliaryRows,
        classes: Classes,
        lam: float = 1e-4,
        samples: int = 1,
    ) -> "PartForm":
        """Return the form of a statistic on these rows, for a penalty or a number of records."""
        sums = ClassSums(auxiliary, len(classes), samples)
        voted = statistic == "votes"
        shape = (auxiliary.count, len(classes)) if voted else sums.shape
        rows, pipeline = auxiliary.hashes[voted], auxiliary.pipeline.digest()
        if statistic == "parameters":
            grid = f"steps of {lattice_step(parameter_radius(auxiliary, len(classes), lam))!r}"
        else:
            grid = sums.grid if statistic == "class-sums" else auxiliary.grid
        return cls(statistic, rows, pipeline, grid, classes, shape)  # type: ignore[arg-type]  # one of them

    def misfit(self, part: "PartyContribution") -> str | None:
        """Return why a contribution belongs elsewhere, by its header alone, or None."""
        ordered = self.statistic == "votes"
        reasons = (
            (
                part.statistic != self.statistic,
                f"it holds {part.statistic}, but this round needs {self.statistic}",
            ),
            (
                part.classes != self.classes,
                "it declares other classes, or the same classes in another order",
            ),
            (
                part.rows != self.rows,
                "it was computed on other auxiliary rows" + ", or in another order" * ordered,
            ),
            (part.pipeline != self.pipeline, "it was computed with another pipeline"),
            (
                part.grid != self.grid,
                "it was computed on another grid: another penalty, version or processor",
            ),
        )
        return next((reason for wrong, reason in reasons if wrong), None)

    def shape_misfit(self, part: "PartyContribution") -> str | None:
        """Return what is wrong with the shape of a contribution's array, or None."""
        shape = part.array.shape
        return None if shape == self.shape else f"its array has shape {shape}, not {self.shape}"

    def most_bytes(self, parties: Iterable[str]) -> int:
        """Return how many bytes the file of one of these parties has at most."""
        headers = (_PartHeader(**vars(self), party=party) for party in parties)
        manifest = max(len(strict_json.canonical(strict_json.plain(header))) for header in headers)
        payload = math.prod(self.shape) * np.dtype(_DTYPES[self.statistic]).itemsize
        return len(sealed(PART_MAGIC, _LENGTHS, b"", b"")) + manifest + payload


@dataclass(frozen=True)
class _PartHeader(PartForm):
    """What a ``*.part`` file says of its array."""

    party: str
    version: int = _VERSION
    warning: str = "not private: for the aggregator only"


@dataclass(frozen=True, eq=False)
class PartyContribution:
    """Protects nothing: a party's exact statistic, for an aggregator that the party trusts.

    `PartyContribution.of`, `of_parameters` and `of_records` make one, from the public rows
    (``auxiliary``) and the ``classes`` that all parties agreed on. Send it only to an aggregator
    that the party trusts. It must depend on the party's own data alone. Nothing is checked here:
    the aggregator checks what it receives.

    Parameters
    ----------
    party : str
        The name of the party.
    statistic : {"operator", "votes", "parameters", "class-sums"}
        What ``array`` holds. "operator": the party's own mean operator on the auxiliary rows, sum_i
        w_i x_i with votes w_i, of shape (1, d) for two classes, else (K, d). "votes": the votes
        themselves, (N, K), each row with sum VOTE. "parameters": the parameters of a linear
        classifier in steps of `lattice_step`, (1, d) or (K, d). "class-sums": the party's own
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
        voter : classifier, callable, sequence or matrix
            What votes on the auxiliary rows: a scikit-learn classifier, a function of the rows, one
            label for each row, or proportions of shape (N, K).
        statistic : {"operator", "votes"}
            What the contribution holds.
        votes : {"hard", "simplex"}
            One class for each row, or proportions that add up to one.
        mapped : bool
            Whether a classifier or function expects the rows as mapped by the public pipeline
            (`AuxiliaryRows.transform` maps the party's own), or as they were given.

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
        voted = statistic == "votes"
        array = weights if voted else auxiliary.sums(operator_weights(weights))
        grid = auxiliary.grid
        return cls._named(party, statistic, array, auxiliary, grid=grid, classes=classes)

    @classmethod
    def _named(
        cls,
        party: str,
        statistic: str,
        array: np.ndarray,
        auxiliary: AuxiliaryRows,
        *,
        grid: str,
        classes: Classes,
    ) -> "PartyContribution":
        rows, pipeline = auxiliary.hashes[statistic == "votes"], auxiliary.pipeline.digest()
        return cls(check_name(party), statistic, array, rows, pipeline, grid, classes)

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
        parameters : array
            One number for each coordinate, (d,) for two classes, else (d, K).
        lam : float
            Weight of the penalty that the classifier was trained with.

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
        step = lattice_step(radius)
        array = np.rint(flat / step).astype(np.int64)
        grid = f"steps of {step!r}"
        return cls._named(party, "parameters", array, auxiliary, grid=grid, classes=declared)

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
        records : table
            The party's rows, with the columns of the auxiliary rows.
        labels : sequence
            One label for each row.
        samples : int
            The public number of records of each party that all agreed on. A party may have more
            or fewer.

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
        array = sums.of(rows, codes)
        auxiliary, grid = sums.auxiliary, sums.grid
        return cls._named(party, "class-sums", array, auxiliary, grid=grid, classes=classes)

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write a ``*.part`` file that only its owner can read. It is not private."""
        write_whole(Path(path), encode_part(self), mode=0o600, overwrite=overwrite)

    @classmethod
    def load(cls, source: str | Path | bytes) -> "PartyContribution":
        """Return the contribution in a ``*.part`` file, or in its bytes; a damaged one is an error.

        The aggregator checks its contents later.
        """
        data = source if isinstance(source, bytes) else read_bounded(Path(source), _MOST_BYTES)
        if data[: len(PART_MAGIC)] != PART_MAGIC:
            raise CorruptFileError(
                "This file is not a party's contribution. Use a .part file that suffice contribute"
                " wrote."
            )
        try:
            return _decode_part(data)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"The contribution is damaged. {error} Ask the party to send it again."
            ) from error


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


def encode_part(part: PartyContribution) -> bytes:
    """Return the file's bytes: the same contribution always gives the same.

    A ``*.part`` file holds one contribution, byte by byte. It is not private.

    ====================  ================================================================
    8 bytes               ``suffpart``: no release, so that `suffice.load` refuses it
    4 + 8 bytes           lengths of manifest and array, little endian
    manifest              canonical JSON: `_PartHeader`
    array                 integers, little endian, in C order
    32 bytes              SHA-256 of everything before
    ====================  ================================================================

    The checksum notices damage, not a forger: who sent the file is for the channel to say.
    """
    array = np.asarray(part.array)
    stored = array.astype(_DTYPES[part.statistic]) if array.dtype.kind in "iu" else array[:0]
    if not np.array_equal(stored, array):
        raise ParameterError(
            "A contribution can hold only integers of its grid. Make it with PartyContribution.of,"
            " of_parameters or of_records."
        )
    header = _PartHeader(
        part.statistic,  # type: ignore[arg-type]  # `of` and others know no more
        part.rows,
        part.pipeline,
        part.grid,
        part.classes,
        array.shape,
        part.party,
    )
    manifest = strict_json.canonical(strict_json.plain(header))
    return sealed(PART_MAGIC, _LENGTHS, manifest, np.ascontiguousarray(stored).tobytes())


def _decode_part(data: bytes) -> PartyContribution:
    """Return the contribution that `encode_part` wrote; all else is an error."""
    manifest, payload = unsealed(data, PART_MAGIC, _LENGTHS)
    fields = strict_json.parse_canonical(manifest)
    if not isinstance(fields, dict) or fields.get("version") != _VERSION:
        raise UnsupportedFileError(
            "This contribution was written by another version of suffice. Ask the party to write"
            " it again with this version."
        )
    header = strict_json.read(_PartHeader, fields, "header")
    try:
        check_name(header.party)
        classes = check_classes(header.classes)
    except ParameterError:
        raise CorruptFileError("Its party or its classes are not valid.") from None
    dtype = np.dtype(_DTYPES[header.statistic])
    if min(header.shape) < 1 or math.prod(header.shape) * dtype.itemsize != len(payload):
        raise CorruptFileError("Its array has the wrong shape.")
    array = np.frombuffer(payload, dtype=dtype).reshape(header.shape).astype(np.int64)
    return PartyContribution(
        header.party,
        header.statistic,
        array,
        header.rows,
        header.pipeline,
        header.grid,
        classes,
    )
