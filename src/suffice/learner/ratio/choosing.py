"""Choices made on rows held back, and the refusal of rows that do not tell the classes apart."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from suffice.errors import ParameterError
from suffice.learner.ratio.collecting import RowKeeper
from suffice.learner.ratio.mean_embedding import CellGram, MeanEmbedding, held_back_errors
from suffice.learner.ratio.methods import ByEmbedding, ByLikelihood, Method, drawn_again
from suffice.learner.ratio.set_likelihood import fit_set_likelihood
from suffice.learner.ratio.sets import KnownSets, named_classes

__all__ = ["Choice", "choose_level", "choose_method"]

_DRAWS = 50
_CLEARLY = 2.0
_SURE = 1.0  # standard errors by which classes must differ: one in six passes by chance


@dataclass(frozen=True, eq=False)
class Choice:
    """The method that was taken, and the root mean squared error of each on rows held back."""

    name: str
    method: Method
    errors: dict[str, float]


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
    A method whose rows do not tell the classes apart is left out, and if none is left, refused.
    """
    known = embedding.fitted.known
    found: dict[str, Method] = {}
    held: dict[str, np.ndarray] = {}
    if name in ("auto", "likelihood"):
        rows, codes = keeper.result()
        kept = replace(known, sizes=np.bincount(codes).astype(np.float64))
        classifier = fit_set_likelihood(kept, rows, codes, rng)
        if classifier.gain[0] > _SURE * classifier.gain[1]:
            found["likelihood"] = ByLikelihood(classifier)
            held["likelihood"] = classifier.held_back_errors().ravel()
    if name in ("auto", "mmd") and _told_apart(embedding.fitted, rng):
        found["mmd"], held["mmd"] = embedding, errors
    if not found:
        mixed = named_classes(known.classes, embedding.fitted.least_told_apart())
        raise ParameterError(
            f"the rows do not tell classes {mixed} apart better than chance would (A2). More rows,"
            " other features or another kernel are needed."
        )
    best = next(iter(found))
    if len(found) == 2:
        doubt = np.sqrt(sum(e.var() / len(e) for e in held.values()))
        clear = held["mmd"].mean() + _CLEARLY * doubt < held["likelihood"].mean()
        best = "mmd" if clear else "likelihood"
    measured = {name: float(np.sqrt(e.mean())) for name, e in held.items()}
    return Choice(best, found[best], measured)


def _told_apart(fitted: MeanEmbedding, rng: Generator) -> bool:
    """Say whether class embeddings differ in every direction beyond their standard error."""
    direction = fitted.least_told_apart()
    sets = np.repeat(np.arange(len(fitted.known.names)), fitted.cells.groups)
    again = [replace(fitted, times=drawn_again(sets, rng)) for _ in range(_DRAWS)]
    doubt = np.std([other.energy(direction) for other in again])
    return fitted.energy(direction) > _SURE * float(doubt)
