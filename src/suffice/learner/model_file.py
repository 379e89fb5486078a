"""What `suffice.load` returns: a release, and of a model file one that also predicts."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from suffice.errors import missing_packages
from suffice.plain_text import listed, name
from suffice.releases import codec
from suffice.releases.release import Release

MODEL_KINDS = ("model", "tree-model", "regression-model")


@dataclass(frozen=True, eq=False, repr=False)
class LoadedModel(Release):
    """Holds the release in a model file, and predicts with the learner that it stores.

    It is a `Release` of one of the kinds of models in every respect, with the fields documented
    there. The guarantees are those of the releases that the model was learnt from.
    """

    @cached_property
    def model(self) -> Any:
        """The fitted learner, of the class that learnt it, for example `FactoredClassifier`."""
        with missing_packages():  # scikit-learn is loaded when it is needed
            from suffice.learner.fit import model_of

        return model_of(self)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row; of a regression the expected number.

        Parameters
        ----------
        X : array, table or path
            New rows with the columns that the model was learnt from: a matrix, a data frame, an
            Arrow table, or the path of a file.

        Returns
        -------
        ndarray of shape (n,)
            One of ``classes``, or a number, for each row.

        Raises
        ------
        TableError
            If a column is missing or the table has no rows.
        """
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array, table or path
            New rows, as in `predict`.

        Returns
        -------
        ndarray of shape (n, K)
            One probability per row and class, in the order of ``classes``.

        Raises
        ------
        ParameterError
            If the model's loss gives scores but no probabilities.
        """
        return np.asarray(self.model.predict_proba(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, or R^2, of predictions for rows whose labels the caller may see.

        Parameters
        ----------
        X : array, table or path
            Rows, as in `predict`.
        y : array of shape (n,)
            Their true labels. The score protects nothing about them.

        Returns
        -------
        float
            The proportion of rows whose class is predicted correctly; of a regression R^2.
        """
        return float(self.model.score(X, y))

    def __repr__(self) -> str:
        columns = len(self.pipeline.columns)
        what, more = f"classes {listed(self.classes)}", ", .predict_proba(X)"
        if not self.classes:
            what, more = f"target {name(self.details['target'])}", ""
        return (
            f"<model of {self.details['learner']}:"
            f" {what}; {columns} columns; {self.rows:,} training rows;"
            f" use .predict(X){more} or .score(X, y)>"
        )

    def _repr_html_(self) -> str:
        """Return the notebook view of the classifier."""
        from suffice.learner.base import html_summary

        return html_summary(self.model)


def load(source: str | Path | bytes) -> Release:
    """Return the release in a file; of a model file, one that also predicts.

    Nothing in the file is trusted before it was checked. A signature, if there is one, must be
    valid for the key inside the file. Use `suffice.verify` to check that the key is the owner's.

    Parameters
    ----------
    source : str, Path or bytes
        The path of a ``*.suffice`` file, or the bytes of one.

    Returns
    -------
    Release
        The release. Of a model file it is a `LoadedModel`, which has ``predict``,
        ``predict_proba`` and ``score``.

    Raises
    ------
    ReleaseError
        If the file is damaged, of an unknown version, or not valid for its kind.
    StorageError
        If the file cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np, suffice
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> owner = suffice.MeanOperator(epsilon=100.0, mechanism="laplace", map=None)
    >>> release = owner.release(X, labels, ledger=None)
    >>> model = suffice.FactoredClassifier().fit_release(release, X)
    >>> with TemporaryDirectory() as folder:
    ...     model.to_release().save(f"{folder}/model.suffice")
    ...     loaded = suffice.load(f"{folder}/model.suffice")
    >>> loaded.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([1, 0])
    """
    release = codec.load(source)
    if release.kind not in MODEL_KINDS:
        return release
    stored = {item.name: getattr(release, item.name) for item in fields(Release) if item.init}
    return LoadedModel(**stored)
