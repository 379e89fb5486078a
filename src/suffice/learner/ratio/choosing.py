"""Choices made on rows held back, and the refusal of rows that do not tell the classes apart."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from suffice.learner.ratio.collecting import RowKeeper
from suffice.learner.ratio.mean_embedding import CellGram, MeanEmbedding, held_back_errors
from suffice.learner.ratio.methods import ByEmbedding, ByLikelihood, Method
from suffice.learner.ratio.set_likelihood import fit_set_likelihood
from suffice.learner.ratio.sets import KnownSets, named_classes

__all__ = ["Choice", "choose_level", "choose_method"]

_DRAWS = 50
_CLEARLY = 2.0
_SURE = 1.0  # standard errors by which classes must differ: one in six passes by chance


@dataclass(frozen=True, eq=False)
class Choice:
    """The method that was taken, and the root mean squared error of each on rows held back.

    ``mixed`` says which classes the rows do not tell apart, None if they do.
    """

    name: str
    method: Method
    errors: dict[str, float]
    mixed: str | None


@dataclass(frozen=True, eq=False)
class _Candidate:
    method: Method
    errors: np.ndarray
    distinct: bool


def choose_level(
    known: KnownSets, grams: list[CellGram], constraint: str
) -> tuple[int, np.ndarray]:
    """Return the bandwidth's place in the ladder, and its errors on rows held back.

    The widest whose mean error is within one standard error of the least: on few sets the errors
    say little, and narrow kernels are the noisier ones.
    """
    errors = np.array([held_back_errors(known, gram, constraint).ravel() for gram in grams])
    behind = errors - errors[errors.mean(axis=1).argmin()]
    doubt = behind.std(axis=1) / np.sqrt(behind.shape[1])
    level = int(np.flatnonzero(behind.mean(axis=1) <= doubt)[0])
    return level, errors[level]


def choose_method(
    name: str, embedding: ByEmbedding, errors: np.ndarray, keeper: RowKeeper, rng: Generator
) -> Choice:
    """Return the method of this name, or of "auto" the better one on rows held back.

    ``errors`` are those of the embedding there. It is taken where it is nearer by more than two
    standard errors: on few sets the errors say little, and likelihood is the more efficient.
    A method whose rows do not tell the classes apart is left out if the other's do.
    """
    found: dict[str, _Candidate] = {}
    if name in ("auto", "likelihood"):
        found["likelihood"] = _by_likelihood(embedding.fitted.known, keeper, rng)
    if name in ("auto", "mmd"):
        found["mmd"] = _Candidate(embedding, errors, _told_apart(embedding.fitted, rng))
    distinct = {key: one for key, one in found.items() if one.distinct}
    mixed = None
    if not distinct:
        direction = embedding.fitted.least_told_apart()
        mixed = named_classes(embedding.fitted.known.classes, direction)
    best = _best(distinct or found)
    measured = {key: float(np.sqrt(one.errors.mean())) for key, one in found.items()}
    return Choice(best, found[best].method, measured, mixed)


def _best(found: dict[str, _Candidate]) -> str:
    if len(found) == 1:
        return next(iter(found))
    near, far = found["mmd"].errors, found["likelihood"].errors
    doubt = np.sqrt(near.var() / len(near) + far.var() / len(far))
    return "mmd" if near.mean() + _CLEARLY * doubt < far.mean() else "likelihood"


def _by_likelihood(known: KnownSets, keeper: RowKeeper, rng: Generator) -> _Candidate:
    rows, codes = keeper.result()
    kept = replace(known, sizes=np.bincount(codes).astype(np.float64))
    whole = np.array_equal(kept.sizes, known.sizes)
    fitted = fit_set_likelihood(kept, rows, codes, rng, whole=whole)
    distinct = fitted.gain[0] > _SURE * fitted.gain[1]
    return _Candidate(ByLikelihood(fitted), fitted.held_back_errors().ravel(), distinct)


def _told_apart(fitted: MeanEmbedding, rng: Generator) -> bool:
    """Say whether class embeddings differ in every direction beyond their standard error."""
    direction = fitted.least_told_apart()
    again = [replace(fitted, times=fitted.cells.drawn(rng)) for _ in range(_DRAWS)]
    doubt = np.std([other.energy(direction) for other in again])
    return fitted.energy(direction) > _SURE * float(doubt)
