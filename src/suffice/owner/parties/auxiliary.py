"""The public rows on which parties vote, and the public grid on which votes are counted.

Party and aggregator hold the same rows and the same pipeline, so that both compute the same
integers. A contribution names all three: rows, pipeline and grid.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.opening import Computing
from suffice.engines.sums import lattice_step
from suffice.errors import ParameterError, TableError
from suffice.options import REQUIRED, data_option, names
from suffice.owner.public_rows import Preprocessing
from suffice.release.artifact import RowSet
from suffice.tables.columns import feature_names, is_categorical, resolve_roles
from suffice.tables.pipeline import Column, Pipeline
from suffice.tables.rowhash import hash_rows
from suffice.tables.sources import open_columns, open_declared, open_table
from suffice.tables.table import Table

__all__ = ["FITTED_ON_ROWS", "VOTE", "AgreedRows", "AuxiliaryRows"]

FITTED_ON_ROWS = (
    "The pipeline was fitted on the auxiliary rows, so the release would show them. Use a pipeline"
    " that was declared or fitted on public rows: --pipeline-from FILE (Python: pipeline=...)."
)

VOTE = 2**8  # what one vote weighs; shares of a vote are multiples of 1/VOTE
# |sum_i w_i x_i| of one party stays below 2^40: floats hold it exactly in any order of summation,
# and 64-bit integers the sum of two million parties.
_SUM_BITS = 40
_LEAST_BITS, _MOST_BITS = 10, 30
_CLIP = 0.95  # long rows do not set the noise here, their mean does: clip outliers only


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
            preprocessing = replace(preprocessing, clip=_CLIP)
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

        Returns
        -------
        str
            The fingerprint.
        """
        names = [name for name in feature_names(self.table.schema) if _can_be_hashed(self, name)]
        return f"auxiliary rows {hash_rows(self.table, names).result()}"

    def row_set(self, *, ordered: bool, found_at: str | None = None) -> RowSet:
        """Return the name of the rows for a release.

        Parameters
        ----------
        ordered : bool
            Whether the order of the rows counts.
        found_at : str, optional
            Where others can find the rows.

        Returns
        -------
        RowSet
            The number of rows, their hash and their address.
        """
        return RowSet(self.count, self.hashes[ordered], found_at)

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

        Parameters
        ----------
        data : table
            Rows with the columns of the pipeline. They may be private.

        Returns
        -------
        ndarray
            The mapped rows.

        Raises
        ------
        TableError
            If the table has no rows or lacks a column.
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

        Parameters
        ----------
        column_names : sequence of str, optional
            The columns that the classifier was trained on, in that order.

        Returns
        -------
        object
            The array or frame that was given. For a file or an Arrow table, the matrix of its
            feature columns, or with ``column_names`` a pandas table of these columns.

        Raises
        ------
        ParameterError
            If a column is missing, or the matrix would hold categories.
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
    """What parties and aggregator agree on beforehand: public rows, and how they are mapped.

    Parameters
    ----------
    auxiliary : AuxiliaryRows or table
        The rows.
    features : sequence of str, optional
        The feature columns. Default: all columns.
    preprocessing : Preprocessing
        How the rows are mapped.
    """

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
        mapped = self.preprocessing
        settings = {item.name: getattr(mapped, item.name) for item in fields(mapped)}
        return AuxiliaryRows.read(self.auxiliary, features=self.features, **settings)
