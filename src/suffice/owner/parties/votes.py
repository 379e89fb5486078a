"""A party's votes on public rows, as integer weights: from classifiers, functions or columns."""

from typing import Any

import numpy as np

from suffice.errors import ParameterError
from suffice.owner.parties.auxiliary import VOTE, AuxiliaryRows
from suffice.tables.labels import Classes, label_codes

__all__ = ["FORMS", "from_codes", "from_shares", "operator_weights", "votes_of"]

FORMS = ("hard", "simplex")
_NEARLY_ONE = 1e-6  # by which the shares of one row may miss one


def votes_of(
    voter: Any, auxiliary: AuxiliaryRows, classes: Classes, form: str, *, mapped: bool
) -> np.ndarray:
    """Return the weights (N, K) of a party's votes: integers, each row with sum VOTE.

    ``voter`` is a scikit-learn classifier, a function of the rows that returns labels or shares, a
    column of labels or a matrix of shares (N, K) in the order of ``classes``. A classifier may lack
    classes: it gives them no vote. It and a function see the rows as they were given, or ``mapped``
    by the public pipeline; a classifier that learnt from named columns sees those, by their names.
    """
    if form not in FORMS:
        raise ParameterError(f"votes must be one of {', '.join(FORMS)}. It is {form!r}.")
    if hasattr(voter, "predict"):
        column_names = getattr(voter, "feature_names_in_", None)
        rows = auxiliary.rows if mapped else auxiliary.raw(column_names)
        if form == "hard":
            return from_codes(_codes(voter.predict(rows), auxiliary, classes), len(classes))
        return from_shares(_aligned_probabilities(voter, rows, classes))
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
    if form == "hard":
        return from_codes(_most_likely_class(votes), len(classes))
    return from_shares(votes)


def _codes(labels: Any, auxiliary: AuxiliaryRows, classes: Classes) -> np.ndarray:
    codes = label_codes(labels, classes)
    if len(codes) != auxiliary.count:
        raise ParameterError(
            f"There are {len(codes)} votes but {auxiliary.count} auxiliary rows. Vote once on each"
            " row."
        )
    return codes


def _aligned_probabilities(classifier: Any, rows: Any, classes: Classes) -> np.ndarray:
    """Return a classifier's probabilities in the order of ``classes``; zero for those it lacks."""
    if not hasattr(classifier, "predict_proba"):
        raise ParameterError("This classifier has no predict_proba. Use votes='hard'.")
    class_positions = label_codes(np.asarray(classifier.classes_), classes)
    shares = np.zeros((len(rows), len(classes)))
    shares[:, class_positions] = classifier.predict_proba(rows)
    return shares


def _most_likely_class(shares: np.ndarray) -> np.ndarray:
    """Return the class of the largest share of each row."""
    if not np.isfinite(shares).all():
        raise ParameterError("Votes must be finite numbers. Check the classifier's scores.")
    return np.asarray(shares.argmax(axis=1))


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
    if not likely or np.abs(shares.sum(axis=1) - 1).max(initial=0) > _NEARLY_ONE:
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
