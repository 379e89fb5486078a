"""Class ratios of unlabelled tables, learnt from bags whose label proportions are known."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.errors import ParameterError
from suffice.learner.base import Learner, plain_pipeline
from suffice.learner.ratio.bags import FEWEST_ROWS, KnownBags, exact_bags, released_bags
from suffice.learner.ratio.collecting import Collector
from suffice.learner.ratio.embeddings import KERNELS
from suffice.learner.ratio.mean_embedding import ErrorBound, MeanEmbedding
from suffice.learner.ratio.methods import ByEmbedding, choose_level, choose_method, interval_ends
from suffice.learner.rows import labelled_rows, mapped_bags, mapped_batches, matching_bags
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.release.artifact import Release
from suffice.release.merge import merge
from suffice.tables.bags import Bags, bag_columns, read_bags
from suffice.tables.columns import feature_names, resolve_roles
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import Table

__all__ = ["ClassRatio"]

Batches = Iterable[tuple[np.ndarray, np.ndarray]]


class ClassRatio(Learner):
    """Computes the proportion of each class in an unlabelled table, from bags of known proportions.

    rho of U with   p(x | U) = sum_k rho_k p(x | k),   p(x | bag i) = sum_k P_ik p(x | k)

    by mean embeddings (Iyer et al. 2016) or by the likelihood of bags. Assumes that classes look
    alike in all bags and in U, p(x | k, bag) = p(x | k), while their proportions may differ at will
    (label shift); that the proportions tell all classes apart (A0), and the rows too (A2): both
    are checked, and refused with the reason.

    ``fit_release`` learns from private proportions; ``fit_proportions`` from known ones and ``fit``
    from plain labels, whose bags are the classes; the latter two promise nothing.

    Parameters
    ----------
    kernel : {"rbf", "laplace", "linear"}, default="rbf"
        Of the mean embeddings; "linear" sees class means and nothing else.
    bandwidth : float or "cv", default="cv"
        In units of the mapped rows, or the best of 2^-5 to 2^5 times their median distance by
        cross-validation on rows held back from each bag.
    features : int, "exact" or "auto", default="auto"
        Number of random Fourier features, or the kernel itself, block by block; "auto": the kernel
        for up to 2,048 rows, else 1,024 features.
    constraint : {"rkhs", "euclidean"}, default="rkhs"
        The nearest mixture of classes in the kernel's metric, or the paper's: the nearest
        combination of bags, then the nearest proportions (`mean_embedding`).
    method : {"auto", "mmd", "likelihood"}, default="auto"
        Mean embeddings or a classifier of the bags; "auto" is the latter, unless the former is
        nearer by two standard errors on rows held back.
    random_state : int, RandomState or None, default=0
        Of Fourier features, folds and resampling.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, in the order of the ratios.
    bags_ : tuple
        The names of the bags that it learnt from.
    method_ : str
        The method that is used, "mmd" or "likelihood".
    bandwidth_ : float
        The bandwidth that was chosen.
    held_back_error_ : dict
        The root mean squared L2 error of each method on parts of the bags that were held back.
    condition_ : float
        Q(D), the condition number of the bags (Theorem 1).
    bound_ : float or None
        Theorem 1's bound on the L2 error for a table as large as the smallest bag, at 95 %; with
        private proportions their noise is in it (Lemma 4's term). None for "linear" and where the
        noise is not known; see `error_bound`.
    pipeline_ : Pipeline
        What turns raw rows into coordinates.
    releases_ : tuple of Release
        The releases that it learnt from.
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "kernel": [StrOptions({*KERNELS, "linear"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"cv"})],
        "features": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto", "exact"})],
        "constraint": [StrOptions({"rkhs", "euclidean"})],
        "method": [StrOptions({"auto", "mmd", "likelihood"})],
        "random_state": ["random_state"],
    }

    def __init__(  # noqa: PLR0917  # scikit-learn's convention
        self,
        kernel: str = "rbf",
        bandwidth: float | str = "cv",
        features: int | str = "auto",
        constraint: str = "rkhs",
        method: str = "auto",
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.features = features
        self.constraint = constraint
        self.method = method
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> "ClassRatio":
        """Learn from plain labels, the rows of each class a bag; this promises nothing."""
        X, codes = self._plain_labels(X, y)
        many = len(self.classes_)
        if many < 2:
            raise ParameterError("the labels hold one class only; ratios need two.")
        names = range(many)
        bag_info = exact_bags(names, np.bincount(codes), np.eye(many), names)
        class_names = tuple(self.classes_.tolist())
        bag_info = replace(bag_info, classes=class_names, names=class_names)
        table = open_table(X)
        self._fit_pipeline(table, feature_names(table.schema))
        bags = Bags(tuple(names), codes.astype(np.int32)[:, None])
        return self._fit_bags(bag_info, mapped_bags(table, self.pipeline_, bags), strict=False)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_proportions(self, X: Any, bags: Any, proportions: Any, *, classes: Any) -> "ClassRatio":
        """Learn from bags whose proportions are known exactly; this promises nothing.

        ``bags`` says which bag each row is in (a column of ``X``, or one bag per row);
        ``proportions`` (M, K) are those of the bags in the order of their sorted names.
        """
        table = open_table(X)
        bag_codes = read_bags(table, bags)
        bag_info = exact_bags(bag_codes.names, bag_codes.sizes, proportions, classes)
        self.classes_ = np.array(bag_info.classes)
        self._fit_pipeline(table, feature_names(table.schema, bag_columns(bags)))
        return self._fit_bags(bag_info, mapped_bags(table, self.pipeline_, bag_codes))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any, *, bags: Any
    ) -> "ClassRatio":
        """Learn from one release of proportions, or several owners', and the rows of their bags.

        ``bags`` says which bag each row is in: a column of ``X``, or one bag per row.
        """
        releases = (release,) if isinstance(release, Release) else tuple(release)
        merged = merge(releases)
        bag_info = released_bags(merged)
        table = labelled_rows(X, releases)
        bag_codes = read_bags(table, bags, bag_info.names)
        self._learn_from(releases)
        return self._fit_bags(bag_info, matching_bags(table, merged, bag_codes))

    def _fit_pipeline(self, table: Table, names: Sequence[str]) -> None:
        """Fit the pipeline to plain rows."""
        names = resolve_roles(table.schema, features=names).features
        self.pipeline_ = plain_pipeline(table, names, clip=1.0, intercept=0.0)
        self.n_features_in_ = len(names)
        self.releases_: tuple[Release, ...] = ()

    def _fit_bags(
        self, bag_info: KnownBags, batches: Batches, *, strict: bool = True
    ) -> "ClassRatio":
        """Learn, or refuse what cannot be learnt from; not ``strict``: warn."""
        bag_info.check(FEWEST_ROWS if strict else 2)
        rng = self._generator()
        collector = Collector(bag_info, self.kernel, self.bandwidth, self.features, rng)
        for rows, codes in batches:
            collector.update(_without_constant(rows, self.pipeline_), codes)
        self.bags_ = bag_info.names
        grams = collector.cell_grams()
        level, errors = choose_level(bag_info, grams, self.constraint)
        self.bandwidth_ = float(collector.bandwidths[level])
        fitted = MeanEmbedding(
            bag_info, grams[level], np.ones(len(grams[level].counts)), self.constraint
        )
        self._bound = ErrorBound.of(fitted.bag_gram, bag_info, normed=self.kernel != "linear")
        self.condition_ = self._bound.condition
        embedding = ByEmbedding(fitted, collector.filled_sums, level)
        choice = choose_method(self.method, embedding, errors, collector.keeper, rng)
        if choice.mixed:
            trouble = (
                f"the rows do not tell classes {choice.mixed} apart better than chance would (A2);"
                " more rows, other features or another kernel are needed."
            )
            if strict:
                raise ParameterError(trouble)
            warnings.warn(trouble, stacklevel=4)  # plain labels are the caller's own
        self._choice = choice
        self.method_, self.held_back_error_ = choice.name, choice.errors
        return self

    @property
    def bound_(self) -> float | None:
        """Theorem 1's bound for a table as large as the smallest bag that it learnt from."""
        check_is_fitted(self)
        return self.error_bound(int(self._bound.sizes.min())) if self._bound.applies else None

    def error_bound(self, size: int, delta: float = 0.05) -> float:
        """Return Theorem 1's bound on the L2 error for a table of ``size`` rows, at 1 - delta.

        It is proved for mean embeddings, whatever the method, for every data set, and is far from
        what happens on most; `interval` is what to go by.
        """
        check_is_fitted(self)
        return self._bound(size, delta)

    def quantify(self, U: Any) -> np.ndarray:
        """Return the class ratios of one table (K,), or of a list of tables (n, K)."""
        check_is_fitted(self)
        tables, single = _as_tables(U)
        ratios = np.array([self._choice.method.ratios(self._summarise(table)) for table in tables])
        return ratios[0] if single else ratios

    def interval(self, U: Any, level: float = 0.95, *, draws: int = 200) -> np.ndarray:
        """Return both ends of each ratio's interval, (2, K) of one table or (n, 2, K) of a list.

        For the distribution that U was drawn from (and so a little wide for U itself): rows of the
        bags and of U are resampled ``draws`` times, and the noise on the proportions is drawn anew
        as often, where the release states it. That classes look alike in all bags is assumed.
        """
        check_is_fitted(self)
        if not 0 < level < 1 or draws < 2:
            raise ParameterError("level must lie between 0 and 1, and draws be at least 2.")
        tables, single = _as_tables(U)
        summaries = [self._summarise(table) for table in tables]
        intervals = interval_ends(self._choice.method, summaries, level, draws, self._generator())
        return intervals[0] if single else intervals

    def _summarise(self, table: Any) -> Any:
        """Return what the method needs of the rows of one table."""
        if not self.releases_ and isinstance(table, np.ndarray):
            table = validate_data(self, table, dtype=np.float64, reset=False)
        batches = mapped_batches(table, self.pipeline_, new=True)
        features = (_without_constant(rows, self.pipeline_) for rows in batches)
        return self._choice.method.summarise(features, self._generator())

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))


def _without_constant(rows: np.ndarray, pipeline: Pipeline) -> np.ndarray:
    """Return rows without the intercept's coordinate, which says nothing here."""
    return rows[:, :-1] if pipeline.intercept else rows


def _as_tables(U: Any) -> tuple[list[Any], bool]:
    """Return a list of tables, and whether there was one alone."""
    if isinstance(U, np.ndarray) and U.ndim == 3:
        return list(U), False
    several = isinstance(U, list | tuple) and len(U) > 0 and all(_is_table(item) for item in U)
    return (list(U), False) if several else ([U], True)


def _is_table(item: Any) -> bool:
    """Say whether this is a table, or a matrix, rather than a row of one."""
    return isinstance(item, str | Path) or hasattr(item, "schema") or np.ndim(item) == 2
