"""The learner's problem: public rows, mean operator and noise covariance of all owners together."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.engines.engine import Computing, Progress
from suffice.engines.streamed import OwnersTable, StreamedRows, mapped_rows
from suffice.errors import CorruptFileError, ForeignRowsError, ParameterError, TableError
from suffice.learner.weak import OperatorEstimate, Released, Supervision, estimate_mean_operator
from suffice.models.problem import (
    CELLS_IN_CACHE,
    FactoredProblem,
    LinearOddLoss,
    MatrixRows,
    Penalty,
    WeightedRows,
    as_weighted,
)
from suffice.plain_text import note
from suffice.privacy.guarantee import Unit
from suffice.releases.kinds import kind_named
from suffice.releases.merge import SHAPED, has_shaped_noise
from suffice.releases.release import Covariance, Release, RowSet
from suffice.tables.bags import BagDigest, Bags
from suffice.tables.columns import resolve_roles
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_columns
from suffice.tables.table import (
    RowDigest,
    RowLanes,
    SelectedRows,
    Table,
    check_order,
    in_memory,
    narrow_batches,
)


def checked_weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """Return the weights of rows as numbers, None where all rows count alike."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("sample_weight must hold numbers. Pass one for each row.") from None
    if weights.shape != (rows,):
        raise ParameterError(
            f"sample_weight must hold one number for each of the {rows:,} rows. It has the shape"
            f" {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ParameterError(
            "sample_weight must hold finite numbers, none below zero and not all zero."
        )
    return weights


def repeated_count(weights: np.ndarray) -> float:
    """Return how many labels weights of rows stand for: their sum, if they are repetitions.

    Weights below 1 cannot be. Some tools scale them to a sum of 1: then it is the number of labels
    of equal weight that vary as much, (sum w)^2 / sum w^2, which no repetitions exceed.
    """
    total = float(weights.sum())
    return max(total, total**2 / float(weights @ weights))


def mapped_batches(data: Any, pipeline: Pipeline, *, new: bool = False) -> Iterator[np.ndarray]:
    """Yield the mapped rows of ``data`` batch by batch.

    Of ``new`` rows, a category that the pipeline does not have is none; a note says how many there
    are. Elsewhere it is an error. A matrix of numbers needs no table between.
    """
    matrix = matrix_of(data, pipeline)
    if matrix is not None:
        step = max(1, CELLS_IN_CACHE // pipeline.width)
        for first in range(0, len(matrix), step):
            yield pipeline.vectors(matrix[first : first + step])
        return
    unknown = Counter[str]() if new else None
    for batch in _narrow_batches(data, pipeline):
        yield pipeline.transform(batch, unknown=unknown)
    _note_unknown(unknown or {})


def matrix_of(data: Any, pipeline: Pipeline) -> np.ndarray | None:
    """Return a matrix or a pandas table of float64 numbers, the columns of a pipeline, as a matrix.

    Return None where other columns, other types or no rows make it a table.
    """
    names = [column.name for column in pipeline.columns]
    if hasattr(data, "set_axis") and list(data.columns) == names:
        data = data.to_numpy() if (data.dtypes == np.float64).all() else None
    elif not (isinstance(data, np.ndarray) and data.ndim == 2) or (
        names != [f"x{j}" for j in range(data.shape[1])]
    ):
        return None
    plain = all(column.categories is None and not column.unit for column in pipeline.columns)
    return data if plain and data is not None and data.dtype == np.float64 and len(data) else None


def feature_batches(data: Any, pipeline: Pipeline) -> Iterator[np.ndarray]:
    """Yield rows before they are standardised: new ones, encoded, filled and mapped."""
    unknown = Counter[str]()
    for batch in _narrow_batches(data, pipeline):
        columns = pipeline.encoded(batch, unknown=unknown)
        if not np.isfinite(columns).all():
            pipeline.explain_holes(columns)
        yield columns.T
    _note_unknown(unknown)


def _narrow_batches(data: Any, pipeline: Pipeline) -> Iterator[pa.RecordBatch]:
    check_order(data, "what is computed for each belongs to it by that")
    table, names = open_for_pipeline(data, pipeline)
    empty = True
    for batch in table.batches(names):
        for narrow in narrow_batches(batch, pipeline.width):
            empty = False
            yield narrow
    if empty:
        raise TableError("The table has no rows. Use a table with at least one row.")


def _note_unknown(unknown: Mapping[str, int]) -> None:
    for name, cells in unknown.items():
        note(
            f"Column {name!r}: {cells:,} cells hold a category that the release does not list. They"
            " count as no category."
        )


def design_matrix(data: Any, pipeline: Pipeline, *, new: bool = False) -> np.ndarray:
    """Return the mapped rows of ``data``, a C-ordered float64 matrix."""
    return np.ascontiguousarray(np.vstack(list(mapped_batches(data, pipeline, new=new))))


def matching_rows(
    data: Any, releases: Sequence[Release], progress: Progress = None
) -> list[np.ndarray]:
    """Return the mapped rows of each release, or raise if they are not the ones it belongs to.

    With several owners the rows come owner by owner, in the order of the releases and their parts;
    within one owner's rows the order matters only where a release says something about each row.
    ``progress`` is called with the number of rows of each batch that was read.
    """
    check_rows_order(data, releases)
    pipeline = releases[0].pipeline
    table, names = open_for_pipeline(labelled_rows(data, releases), pipeline)
    blocks: list[list[np.ndarray]] = [[] for _ in releases]
    lanes = RowLanes(table.schema, names)
    owners = [
        (part.rows.count, RowDigest(names, ordered=kind_named(release.kind).ordered), block)
        for release, block in zip(releases, blocks, strict=True)
        for part in release.parts
    ]
    owner, read, extra = 0, 0, 0
    for whole in table.batches(names):
        batch = whole
        while batch.num_rows and owner < len(owners):  # a batch may end with rows of the next owner
            count, digest, block = owners[owner]
            piece = batch.slice(0, count - read)
            batch, read = batch.slice(piece.num_rows), read + piece.num_rows
            digest.update(lanes.of(piece))
            block.append(mapped_rows(piece, pipeline))
            if read == count:
                owner, read = owner + 1, 0
        extra += batch.num_rows
        if progress is not None:
            progress(whole.num_rows)
    checked_owners([digest for _, digest, _ in owners], releases, extra)
    return [np.ascontiguousarray(np.vstack(block)) for block in blocks]


def check_rows_order(data: Any, releases: Sequence[Release]) -> None:
    """Raise if ``data`` has no order and these releases belong to rows by theirs."""
    if sum(len(release.parts) for release in releases) > 1:
        check_order(data, "those of several owners come one owner after the other")
    if any(kind_named(release.kind).ordered for release in releases):
        check_order(data, "the release says something about each of them, in their order")


def checked_owners(
    digests: Sequence[RowDigest], releases: Sequence[Release], extra: int
) -> tuple[str, ...]:
    """Return the hash of each owner's rows in any order; raise unless releases name these rows.

    ``extra`` is the number of rows behind those of the last owner.
    """
    parts = [part for release in releases for part in release.parts]
    names: list[str] = []
    for digest, part in zip(digests, parts, strict=True):
        _check_rows(digest, part.rows, len(parts))
        names.append(digest.unordered())  # hashes with and without an order do not compare
    if len(set(names)) < len(names):
        raise ParameterError(_SAME_ROWS)
    if extra:
        total = sum(release.rows for release in releases)
        raise ForeignRowsError(
            f"The release belongs to {total} rows, but there are {total + extra}. Use the"
            " owner's file unchanged."
        )
    return tuple(names)


def mapped_bags(
    data: Any, pipeline: Pipeline, bags: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield mapped rows and the code of their bag, batch by batch; once for each bag of a row."""
    for batch, codes in _with_bags(*open_for_pipeline(data, pipeline), bags):
        yield from _bag_by_bag(pipeline.transform(batch), codes)


def matching_bags(
    data: Any, release: Release, bags: Bags
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of a release of bags as `mapped_bags` does, or raise if they are others.

    Bags have names, so that the rows of several owners come in any order. That they are the ones
    is known, and the error raised, after the last of them.
    """
    table, names = open_for_pipeline(data, release.pipeline)
    sizes = release.arrays["sizes"]
    strange = np.flatnonzero(bags.sizes != sizes)
    if len(strange):
        k = strange[0]
        raise ForeignRowsError(
            f"Bag {bags.names[k]!r} of the release has {sizes[k]} rows, but {bags.sizes[k]} of"
            " these rows are in it. Use the owner's file unchanged."
        )
    owners = np.append(_owners(release), -1)  # the code of no bag is -1, its owner too
    digests = [BagDigest(table.schema, names, bags.names) for _ in release.parts]
    for batch, codes in _with_bags(table, names, bags):
        for owner, digest in enumerate(digests):
            digest.update(batch, np.where(owners[codes] == owner, codes, -1))
        yield from _bag_by_bag(mapped_rows(batch, release.pipeline), codes)
    for digest, part in zip(digests, release.parts, strict=True):
        _check_rows(digest, part.rows, owners=1)


def _with_bags(
    table: Table, names: tuple[str, ...], bags: Bags
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    start = 0
    for batch in table.batches(names):
        yield batch, bags.codes[start : start + batch.num_rows]
        start += batch.num_rows


def _bag_by_bag(rows: np.ndarray, codes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for column in codes.T:
        inside = column >= 0
        if inside.any():
            yield (rows, column) if inside.all() else (rows[inside], column[inside])


def _owners(release: Release) -> np.ndarray:
    """Return which part each bag belongs to: the bags of one owner after those of another."""
    ends = np.cumsum([part.rows.count for part in release.parts])
    last = np.cumsum(release.arrays["sizes"])
    owners = np.searchsorted(ends, last)
    if not np.isin(ends, last).all():
        raise CorruptFileError(
            "The sizes of the bags do not add up to the rows of their owners. This file is damaged:"
            " ask the owner for it again."
        )
    return owners


def labelled_rows(data: Any, releases: Sequence[Release]) -> Table:
    """Return the rows that releases are about: of a table whose other rows have no label, those.

    ``data`` are the owners' tables, one after the other, whole or without these other rows.
    """
    names = [column.name for column in releases[0].pipeline.columns]
    table = open_columns(data, names, label=None)
    sets = [part.rows for release in releases for part in release.parts]
    if all(rows.labelled is None for rows in sets):
        return table
    first = releases[0].pipeline.columns[0].name
    row_count = sum(batch.num_rows for batch in table.batches([first]))
    if row_count == sum(rows.count for rows in sets):
        return table
    masks = [np.ones(s.count, bool) if s.labelled is None else s.labelled.mask for s in sets]
    return SelectedRows(table, np.concatenate(masks))


def open_for_pipeline(data: Any, pipeline: Pipeline) -> tuple[Table, tuple[str, ...]]:
    """Return a table, and the names of the columns that a pipeline reads of it."""
    names = tuple(column.name for column in pipeline.columns)
    table = open_columns(data, names, label=None)
    resolve_roles(table.schema, features=names)
    return table, names


def _check_rows(digest: RowDigest | BagDigest, rows: RowSet, owners: int) -> None:
    if digest.count != rows.count:
        raise ForeignRowsError(
            f"The release belongs to {rows.count} rows, but there are {digest.count}. Use the"
            " owner's file unchanged."
        )
    if digest.result() != rows.hash:
        order = " Pass the owners' rows in the order of the releases." if owners > 1 else ""
        raise ForeignRowsError(
            "These rows do not match the release: a value, or the order of rows, differs. Use the"
            f" owner's file unchanged; numbers rounded by a CSV export do not match.{order}"
        )


_SAME_ROWS = "Two of the releases are about the same rows. Pass only one of them."


_HELD_BYTES = 1 << 29  # of mapped rows: 512 MB fit into the memory of a notebook

Block = np.ndarray | WeightedRows


def public_rows(data: Any, releases: Sequence[Release], computing: Computing) -> Sequence[Block]:
    """Return the rows of each release, mapped, or raise if they are not the ones it belongs to.

    They are matrices, or stay in their table: where it is in files and they have more than 512 MB
    once they are mapped, and wherever an engine was asked for that is not this process. Then one
    pass checks them, before anything is learnt; later passes must read the same.
    """
    size = sum(release.rows for release in releases) * releases[0].pipeline.width * 8
    table = labelled_rows(data, releases)
    if computing.in_this_process and (size <= _HELD_BYTES or in_memory(table)):
        return matching_rows(table, releases, computing.progress)
    check_rows_order(table, releases)
    pipeline = releases[0].pipeline
    parts = [part for release in releases for part in release.parts]
    ordered = [kind_named(release.kind).ordered for release in releases for _ in release.parts]
    counts = tuple(part.rows.count for part in parts)
    source = OwnersTable(open_for_pipeline(table, pipeline)[0], pipeline, counts, computing)
    first = source.first(ordered)
    source.hashes = checked_owners(first.digests, releases, first.extra)
    facts, blocks, start = first.result(), [], 0
    for release in releases:
        owners = range(start, start := start + len(release.parts))
        blocks.append(StreamedRows(source, facts, owners, [1 / release.rows] * len(owners)))
    return blocks


def join_blocks(blocks: Sequence[Block], weights: np.ndarray) -> tuple[Block, np.ndarray | None]:
    """Return the rows of several releases together, and their weights, of those of the releases.

    Rows that stay in a table have their weights.
    """
    each = [weight / len(block) for weight, block in zip(weights, blocks, strict=True)]
    streamed = [block for block in blocks if isinstance(block, StreamedRows)]
    if streamed:
        return streamed[0].with_others(streamed[1:], each), None
    matrices = [block for block in blocks if isinstance(block, np.ndarray)]
    row_weights = [np.full(len(block), weight) for weight, block in zip(each, blocks, strict=True)]
    return np.concatenate(matrices), np.concatenate(row_weights)


Blocks = Sequence[np.ndarray | WeightedRows]
Combined = tuple[np.ndarray, Covariance, np.ndarray]

_A_SUM = (
    "This release is one sum over all rows, so rows cannot have weights. Ask the owner for"
    " randomised labels (mechanism response), whose learners take sample_weight."
)
_IN_FILES = (
    "These rows stay in their file, and cannot have weights there. Read them first, for example"
    " with pandas, and use engine='threads'."
)


class NoiseWarning(UserWarning):
    """The noise of a release leaves little to learn; `suffice fit` prints the same sentence."""


@dataclass(frozen=True, eq=False)
class Supervised:
    """Mapped rows, the operator of their labels, and the weights of rows (None: all alike).

    The rows are a matrix, or `WeightedRows`, which have their weights and need not be in memory.
    """

    rows: np.ndarray | WeightedRows
    estimate: OperatorEstimate
    weights: np.ndarray | None = None

    @cached_property
    def weighted(self) -> WeightedRows:
        """The rows with their weights."""
        return as_weighted(self.rows, self.weights)


def combine_releases(
    releases: Sequence[Release], X: Any, computing: Computing | None = None
) -> Supervised:
    """Return rows and operator of all owners, each weighted by how sure their operator is.

    Every owner's operator estimates the same mean E[y x], with an error of covariance C from the
    mechanism and S/m from sampling, of which the trace alone counts here. The weights are inverse
    to their sum: without noise they are the shares of rows, and a noisy owner counts for less.
    Where noise is shaped, weights are matrices: an owner counts for less only along directions in
    which its noise is large. ``computing`` says where rows that are not held are read.
    """
    if not releases:
        raise ParameterError("There is no release to learn from. Pass at least one.")
    first = releases[0]
    for release in releases:
        if release.pipeline != first.pipeline:
            raise ParameterError(
                "The pipelines of the owners differ. Ask them to release with one pipeline:"
                " --pipeline-from FILE (Python: pipeline=...)."
            )
        if release.classes != first.classes:
            raise ParameterError(
                "The owners list different classes, or in another order. Ask them to release with"
                " one list: --classes (Python: classes=...)."
            )
    hashes = [part.rows.hash for release in releases for part in release.parts]
    if len(set(hashes)) < len(hashes):
        raise ParameterError(_SAME_ROWS)
    blocks = public_rows(X, releases, computing or Computing())
    estimates = [
        Released(release).estimate(rows) for rows, release in zip(blocks, releases, strict=True)
    ]
    if len(estimates) == 1:
        return Supervised(blocks[0], estimates[0])
    if any(map(has_shaped_noise, releases)):
        warnings.warn(SHAPED, NoiseWarning, stacklevel=3)
        note(SHAPED)
        operator, noise, weights = _by_direction(blocks, estimates)
    else:
        operator, noise, weights = _by_owner(blocks, estimates)
    rows, each = join_blocks(blocks, weights)
    return Supervised(rows, replace(estimates[0], operator=operator, noise=noise), each)


def _by_owner(blocks: Blocks, estimates: Sequence[OperatorEstimate]) -> Combined:
    """Return operator and noise of all owners, each with one weight."""
    errors = []
    for rows, estimate in zip(blocks, estimates, strict=True):  # the trace of C + S/m per column
        noise = float(estimate.noise.along(np.eye(rows.shape[1])).sum())
        errors.append(noise + _sampling_error(rows, estimate))
    weights = 1 / np.array(errors)
    weights /= weights.sum()
    combined = estimates[0].noise.scaled(weights[0] ** 2)
    for weight, estimate in zip(weights[1:], estimates[1:], strict=True):
        combined = combined + estimate.noise.scaled(weight**2)
    operator = sum(w * estimate.operator for w, estimate in zip(weights, estimates, strict=True))
    return operator, combined, weights


def _by_direction(blocks: Blocks, estimates: Sequence[OperatorEstimate]) -> Combined:
    """Return operator and noise of all owners, weighted by the inverse of their covariances.

    With E = C + (tr S / m d) I and A = (sum E^-1)^-1 E^-1 of each owner, the operator is sum A mu,
    its noise sum A C A^T. The A add up to I. Rows of an owner have the weight tr A / d. Where all
    C are even, this is what `_by_owner` returns.
    """
    width = blocks[0].shape[1]
    inverses = []
    for rows, estimate in zip(blocks, estimates, strict=True):
        sampling = _sampling_error(rows, estimate) / width
        error = estimate.noise.dense(width) + sampling * np.eye(width)
        inverses.append(np.linalg.inv(error))
    every = [np.linalg.solve(sum(inverses), inverse) for inverse in inverses]
    pairs = list(zip(every, estimates, strict=True))
    operator = sum(a @ estimate.operator for a, estimate in pairs)
    weights = np.array([np.trace(a) / width for a in every])
    if any(estimate.noise.form == "none" for estimate in estimates):
        return operator, Covariance("none"), weights
    values, vectors = np.linalg.eigh(sum(a @ e.noise.dense(width) @ a.T for a, e in pairs))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return operator, Covariance("factor", 1.0, root), weights


def weigh_release(release: Release, X: Any, sample_weight: Any, computing: Computing) -> Supervised:
    """Return rows and operator of randomised labels or votes, each row with a weight.

    Raise if the release is a sum over rows, which weights cannot enter any more.
    """
    if "mean_operator" in release.arrays:
        raise ParameterError(_A_SUM)
    (rows,) = public_rows(X, [release], computing)
    if isinstance(rows, WeightedRows):
        raise ParameterError(_IN_FILES)
    weights = checked_weights(sample_weight, len(rows))
    return weighted_supervision(rows, Released(release), weights, repeated=False)


def weighted_supervision(
    rows: np.ndarray, source: Supervision, weights: np.ndarray | None, *, repeated: bool
) -> Supervised:
    """Return mu = sum_i s_i y_i x_i of labels that are known one by one, s_i the shares of weights.

    That is the operator of the rows m s_i x_i, and so is the covariance of its error. Rows that are
    ``repeated`` have a label each time; else a row has one label, whatever its weight, and labels
    vary more.
    """
    if weights is None:
        return Supervised(rows, estimate_mean_operator(rows, source))
    shares = weights / weights.sum()
    scaled = (len(rows) * shares)[:, None] * rows
    count = repeated_count(weights) if repeated else None
    weighted = MatrixRows(rows, shares / shares.sum(), count=count)
    return Supervised(weighted, estimate_mean_operator(scaled, source))


def _sampling_error(rows: np.ndarray | WeightedRows, estimate: OperatorEstimate) -> float:
    """Return the trace of S/m per column."""
    columns = 1 if estimate.operator.ndim == 1 else estimate.operator.shape[1]
    return as_weighted(rows).mean_square / (len(rows) * columns)


def are_votes(releases: Sequence[Release]) -> bool:
    """Return whether what releases are about are votes of parties, not labels."""
    return any(
        guarantee.unit is Unit.PARTY for release in releases for guarantee in release.guarantees
    )


def factored_problems(
    supervision: Supervised, loss: LinearOddLoss, penalty: Penalty, *, intercept: bool
) -> tuple[list[FactoredProblem], Covariance]:
    """Return one problem, or one per class where a binary loss meets three or more, and the noise.

    The noise is that of each column of a problem's operator, as if columns of M were independent
    until their sum is set right. That leaves 1 - 1/K of independent noise, and all of it where the
    columns summed to mean x already, as those of corrected labels do. 2 M_k - mean x has four times
    as much.
    """
    operator, noise = supervision.estimate.operator, supervision.estimate.noise
    make = partial(FactoredProblem, supervision.weighted, penalty=penalty, intercept=intercept)
    if operator.ndim == 1:
        return [make(operator=operator, loss=loss)], noise
    mean, columns = supervision.weighted.mean, operator.shape[1]
    # Every row is in one class: M 1 = mean x is public, and what noise adds to it is known.
    excess = operator.sum(axis=1) - mean
    if (np.abs(excess) <= 1e-9 * np.abs(mean).max()).all():  # but for what rounding does to sums
        noise = noise.scaled(columns / (columns - 1))
    operator = operator - (excess / columns)[:, None]
    if loss.joint:
        return [make(operator=operator, loss=None)], noise
    problems = [make(operator=2 * column - mean, loss=loss) for column in operator.T]
    return problems, noise.scaled(4 * (1 - 1 / columns))


def side_by_side(columns: list[np.ndarray]) -> np.ndarray:
    """Return one model as it is, several as the columns of one matrix."""
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
