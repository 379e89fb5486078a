"""Class ratios of a table: the estimator, and its choice between the methods.

All methods read the rows of a table U once, answer, and state intervals. The choice is made on rows
held back, and rows that do not tell the classes apart are refused.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from suffice.engines.engine import Progress
from suffice.errors import ParameterError, TableError
from suffice.learner.base import BAGS_HAVE_NONE, Learner, pipeline_of_rows, refuse_weights
from suffice.learner.problem import labelled_rows, mapped_bags, mapped_batches, matching_bags
from suffice.learner.ratio.bags import (
    FEWEST_ROWS,
    KnownBags,
    exact_bags,
    mixed_class_names,
    released_bags,
)
from suffice.learner.ratio.embedding import (
    KERNELS,
    ByEmbedding,
    CellGram,
    Collector,
    ErrorBound,
    MeanEmbedding,
    RowKeeper,
    held_back_errors,
)
from suffice.learner.ratio.natural import (
    TABLE_ROWS,
    RatioEstimate,
    StableClassifier,
    assess_label_shift,
    contradiction,
    fit_stable_classifier,
    natural_range,
)
from suffice.learner.ratio.posteriors import (
    BagLikelihood,
    ByMoments,
    Coordinates,
    fit_bag_likelihood,
)
from suffice.learner.sklearn_names import Interval, StrOptions, fit_context
from suffice.releases.merge import merge
from suffice.releases.release import Release
from suffice.tables.bags import Bags, bag_columns, read_bags
from suffice.tables.columns import feature_names, resolve_roles
from suffice.tables.pipeline import Pipeline
from suffice.tables.sources import open_table
from suffice.tables.table import Table

Method = BagLikelihood | ByEmbedding | ByMoments  # a fitted estimator of class ratios


def choose_level(bags: KnownBags, grams: list[CellGram], constraint: str) -> tuple[int, np.ndarray]:
    """Return the bandwidth's place in the ladder, and its errors on rows held back.

    The widest whose mean error is within one standard error of the least: on few bags the errors
    say little, and narrow kernels are the noisier ones.
    """
    errors = np.array([held_back_errors(bags, gram, constraint).ravel() for gram in grams])
    behind = errors - errors[errors.mean(axis=1).argmin()]
    doubt = behind.std(axis=1) / np.sqrt(behind.shape[1])
    level = int(np.flatnonzero(behind.mean(axis=1) <= doubt)[0])
    return level, errors[level]


@dataclass(eq=False, repr=False)
class ClassRatio(Learner):
    """Computes the proportion of each class in an unlabelled table, from bags of known proportions.

    rho of U with   p(x | U) = sum_k rho_k p(x | k),   p(x | bag i) = sum_k P_ik p(x | k)

    by mean embeddings (Iyer et al. 2016) or by a classifier of the bags. Assumes that classes look
    alike in all bags and in U, p(x | k, bag) = p(x | k), while their proportions may differ (label
    shift). With more bags than classes this is tested (``label_shift_``). Where the bags contradict
    it, `quantify` and `interval` warn, and `estimate` says what is known all the same. The
    proportions must tell all classes apart (A0), and so must the rows (A2): both are checked.

    `fit_release` learns from private proportions, `fit_proportions` from exact ones, and `fit` from
    exact labels, where the rows of each class are a bag. The last two protect nothing.

    Parameters
    ----------
    kernel : {"rbf", "laplace", "linear"}, default="rbf"
        The kernel of the mean embeddings; "linear" compares class means only.
    bandwidth : float or "cv", default="cv"
        The bandwidth of the kernel, in units of the mapped rows. "cv": the best of 2^-5 to 2^5
        times their median distance, by cross-validation on rows held back from each bag.
    features : int, "exact" or "auto", default="auto"
        Number of random Fourier features, or "exact" for the kernel itself. "auto": the kernel for
        up to 2,048 rows, else 1,024 features.
    constraint : {"rkhs", "euclidean"}, default="rkhs"
        The nearest mixture of classes in the kernel's metric, or the paper's: the nearest
        combination of bags, then the nearest proportions (eq. 5).
    method : {"auto", "mmd", "likelihood", "moments"}, default="auto"
        "mmd" for mean embeddings. "likelihood" and "moments" use a classifier of the bags: by the
        likelihood of a table's rows, or by the class means of its posteriors. "auto" is "moments",
        or "likelihood" for exact labels, unless "mmd" is better by two standard errors on rows
        held back.
    random_state : int, RandomState or None, default=0
        The seed of Fourier features, folds and resampling.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, in the order of the proportions.
    bags_ : tuple
        The names of the bags that it was learnt from.
    method_ : str
        The method that is used: "mmd", "likelihood" or "moments".
    label_shift_ : LabelShiftTest
        Whether the bags differ in more than their class proportions.
    bandwidth_ : float
        The bandwidth that is used.
    held_back_error_ : dict
        The root mean squared L2 error of each method on parts of the bags that were held back.
    condition_ : float
        Q(D), the condition number of the bags (Theorem 1); lower is better.
    bound_ : float or None
        Theorem 1's bound on the L2 error for a table as large as the smallest bag, at 95 %. With
        private proportions it includes their noise (Lemma 4's term). None where there is no bound;
        see `error_bound`.
    n_features_in_
    pipeline_
    releases_

    Examples
    --------
    >>> import numpy as np, suffice
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 100)
    >>> X = labels[:, None] * 4.0 + rng.normal(size=(200, 1))
    >>> model = suffice.ClassRatio(method="mmd").fit(X, labels)
    >>> model.quantify(X[80:180]).round(1)
    array([0.2, 0.8])
    """

    _parameter_constraints = {  # noqa: RUF012  # scikit-learn's convention
        "kernel": [StrOptions({*KERNELS, "linear"})],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"cv"})],
        "features": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto", "exact"})],
        "constraint": [StrOptions({"rkhs", "euclidean"})],
        "method": [StrOptions({"auto", "mmd", "likelihood", "moments"})],
        "random_state": ["random_state"],
    }

    kernel: str = "rbf"
    bandwidth: float | str = "cv"
    features: int | str = "auto"
    constraint: str = "rkhs"
    method: str = "auto"
    random_state: Any = 0

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(BAGS_HAVE_NONE)
    def fit(self, X: Any, y: Any) -> "ClassRatio":
        """Learn from exact labels: the rows of each class are a bag. This protects nothing.

        Parameters
        ----------
        X
        y

        Raises
        ------
        ParameterError
            If the labels hold one class only, or a parameter is not valid.
        """
        X, codes = self._weighted_labels(X, y, None)[:2]
        many = len(self.classes_)
        if many < 2:
            raise ParameterError(
                "The labels hold one class only. Class proportions need at least two: add rows of"
                " another class."
            )
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
        """Learn from bags whose exact proportions are known. This protects nothing.

        Parameters
        ----------
        X : array, table or path
            The rows of all bags.
        bags : str or array of shape (n,)
            Which bag each row is in: the name of a column of ``X``, or one bag per row.
        proportions : array of shape (M, K) or (M,)
            The class proportions of the bags, in the order of their sorted names; for two classes
            also those of the second only.
        classes : sequence
            The K classes.

        Raises
        ------
        ParameterError
            If the bags are too small or too few, or the classes cannot be told apart.

        Examples
        --------
        >>> import numpy as np, suffice
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([0, 1, 0, 1], [90, 10, 10, 90])
        >>> X = labels[:, None] * 4.0 + rng.normal(size=(200, 1))
        >>> model = suffice.ClassRatio(method="mmd")
        >>> bags = np.repeat(["a", "b"], 100)
        >>> _ = model.fit_proportions(X, bags, [[0.9, 0.1], [0.1, 0.9]], classes=[0, 1])
        >>> model.quantify(X[:100]).round(1)
        array([0.9, 0.1])
        """
        table = open_table(X)
        bag_codes = read_bags(table, bags)
        bag_info = exact_bags(bag_codes.names, bag_codes.sizes, proportions, classes)
        bag_info = replace(bag_info, disjoint=bag_codes.overlap <= 1)
        self.classes_ = np.array(bag_info.classes)
        self._fit_pipeline(table, feature_names(table.schema, bag_columns(bags)))
        return self._fit_bags(bag_info, mapped_bags(table, self.pipeline_, bag_codes))

    @fit_context(prefer_skip_nested_validation=True)
    @refuse_weights(BAGS_HAVE_NONE)
    def fit_release(
        self, release: Release | Sequence[Release], X: Any, *, bags: Any, progress: Progress = None
    ) -> "ClassRatio":
        """Learn from one release of proportions, or those of several owners, and the bags' rows.

        Parameters
        ----------
        release : Release or sequence of Release
            Releases of kind proportions. Several are merged first.
        X : array, table or path
            The public rows of the bags, unchanged.
        bags : str or array of shape (n,)
            Which bag each row is in: the name of a column of ``X``, or one bag per row.
        progress

        Raises
        ------
        ForeignRowsError
        ParameterError
            If the bags are too small or too few, or the classes cannot be told apart.
        """
        releases = (release,) if isinstance(release, Release) else tuple(release)
        merged = merge(releases)
        bag_info = released_bags(merged)
        table = labelled_rows(X, releases)
        bag_codes = read_bags(table, bags, bag_info.names)
        self._learn_from(releases)
        bag_info = replace(bag_info, disjoint=bag_codes.overlap <= 1)
        return self._fit_bags(bag_info, matching_bags(table, merged, bag_codes), progress=progress)

    def _fit_pipeline(self, table: Table, names: Sequence[str]) -> None:
        """Fit the pipeline to exact rows."""
        names = resolve_roles(table.schema, features=names).features
        self.pipeline_ = pipeline_of_rows(table, names, clip=1.0, intercept=0.0)
        self.n_features_in_ = len(names)
        self.releases_: tuple[Release, ...] = ()

    def _fit_bags(
        self,
        bag_info: KnownBags,
        batches: Iterable[tuple[np.ndarray, np.ndarray]],  # rows, and the code of each one's bag
        *,
        strict: bool = True,
        progress: Progress = None,
    ) -> "ClassRatio":
        """Learn, or refuse what cannot be learnt from; not ``strict``: warn."""
        bag_info.check(FEWEST_ROWS if strict else 2)
        rng = self._generator()
        collector = Collector(bag_info, self.kernel, self.bandwidth, self.features, rng)
        for rows, codes in batches:
            collector.update(_without_constant(rows, self.pipeline_), codes)
            if progress is not None:
                progress(len(rows))
        self.bags_ = bag_info.names
        grams = collector.cell_grams()
        level, errors = choose_level(bag_info, grams, self.constraint)
        self.bandwidth_ = float(collector.bandwidths[level])
        fitted = MeanEmbedding(
            bag_info, grams[level], np.ones(len(grams[level].counts)), self.constraint
        )
        self._bound = ErrorBound.of(fitted.bag_gram, bag_info, normed=self.kernel != "linear")
        self.condition_ = self._bound.condition
        embedding = ByEmbedding(fitted, collector.sums, level)
        mixed = self._choose_method(embedding, errors, collector.keeper, rng)
        if mixed:
            trouble = (
                f"The rows do not tell classes {mixed} apart better than chance (assumption A2)."
                " Use more rows, other features or another kernel."
            )
            if strict:
                raise ParameterError(trouble)
            warnings.warn(trouble, stacklevel=4)  # exact labels are the caller's own
        # Test label shift; where the bags contradict it, fit a stable p(y | x) of each class.
        rows, codes = collector.keeper.result()
        rng = self._generator()
        self._coordinates = Coordinates.of(rows, rng)
        mapped = self._coordinates(rows)[:, :-1]
        sampled = replace(bag_info, sizes=np.bincount(codes).astype(np.float64))
        self.label_shift_ = assess_label_shift(sampled, mapped, codes)
        self._doubt = None if self.method_ == "moments" else bag_info.doubt
        self._stable: list[StableClassifier] = []
        if self.label_shift_.rejected:
            many = len(bag_info.classes)
            for k in range(many) if many > 2 else (1,):
                binary = sampled.against_rest(k)
                self._stable.append(fit_stable_classifier(binary, mapped, codes, rng))
        return self

    def _choose_method(
        self, embedding: ByEmbedding, errors: np.ndarray, keeper: RowKeeper, rng: Generator
    ) -> str | None:
        """Take the method that was asked for, or of "auto" the better one on rows held back.

        "auto" compares the embedding with a classifier of the bags. This one is used by moments:
        they are as near as the likelihood, and their intervals cover also where posteriors are
        wrong, and where bags hardly differ. It is used by the likelihood for exact labels, where
        that is nearer, and where the noise is not known.

        ``errors`` are those of the embedding there. It is taken where it is nearer by more than two
        standard errors: on few bags the errors say little, and a classifier is the more efficient.
        A method whose rows do not tell the classes apart is left out if the other's do. Where bags
        hardly differ only intervals of moments cover, and these are taken. Returns the classes that
        the rows do not tell apart, None if they do.
        """
        bags, direction = embedding.fitted.bags, embedding.fitted.least_distinct_direction()
        # Each method, its squared errors on rows held back, and whether its rows tell the classes
        # apart.
        candidates: dict[str, tuple[Method, np.ndarray, bool]] = {}
        if self.method != "mmd":
            scored = self.method
            if scored == "auto":
                many, classes = bags.proportions.shape
                labels = many == classes and np.array_equal(bags.proportions, np.eye(classes))
                scored = "likelihood" if bags.variances is None or labels else "moments"
            rows, codes = keeper.result()
            sampled = replace(bags, sizes=np.bincount(codes).astype(np.float64))
            complete = np.array_equal(sampled.sizes, bags.sizes)
            fitted = fit_bag_likelihood(sampled, rows, codes, rng, complete=complete)
            distinct = fitted.gain[0] > fitted.gain[1]  # its standard error: one in six by chance
            of_bags = ByMoments.of(fitted, complete=complete) if scored == "moments" else fitted
            candidates[scored] = (of_bags, of_bags.held_back_errors().ravel(), distinct)
        if self.method in ("auto", "mmd"):
            # Whether class embeddings differ in every direction beyond their standard error.
            cells = embedding.fitted.cells
            again = [replace(embedding.fitted, times=cells.draw_cells(rng)) for _ in range(50)]
            doubt = np.std([other.energy(direction) for other in again])
            distinct = embedding.fitted.energy(direction) > float(doubt)
            candidates["mmd"] = (embedding, errors, distinct)
        eligible = {key: c for key, c in candidates.items() if c[2]}
        mixed = None if eligible else mixed_class_names(bags.classes, direction)
        eligible = eligible or candidates
        best = next(iter(eligible))
        if len(eligible) == 2:
            near, far = eligible["mmd"][1], eligible[best][1]
            doubt = np.sqrt(near.var() / len(near) + far.var() / len(far))
            best = "mmd" if near.mean() + 2 * doubt < far.mean() else best
        if bags.doubt is not None and "moments" in eligible:
            best = "moments"
        self.method_, self._method = best, candidates[best][0]
        self.held_back_error_ = {key: float(np.sqrt(c[1].mean())) for key, c in candidates.items()}
        return mixed

    @property
    def bound_(self) -> float | None:
        """Theorem 1's bound for a table as large as the smallest bag; None where there is none."""
        check_is_fitted(self)
        if not self._bound.applies:
            return None
        bound = self.error_bound(int(self._bound.sizes.min()))
        return bound if np.isfinite(bound) else None

    def error_bound(self, size: int, delta: float = 0.05) -> float:
        """Return Theorem 1's bound, corrected, on the L2 error for a new table.

        It is proved for mean embeddings, every data set, and as many bags as classes. It is
        infinite where bags are too small, and far too large for most. Use `interval` for practical
        purposes.

        Parameters
        ----------
        size : int
            The number of rows of the new table.
        delta : float, default=0.05
            The probability that the bound fails.

        Returns
        -------
        float
            The bound.

        Raises
        ------
        ParameterError
            If the kernel is linear, the noise of the release is not known, or there are more bags
            than classes.
        """
        check_is_fitted(self)
        return self._bound(size, delta)

    def quantify(self, U: Any) -> np.ndarray:
        """Return the class proportions of one table, or of each table in a list, under label shift.

        Warns where the bags contradict label shift.

        Parameters
        ----------
        U : array, table, path, or list of these
            The unlabelled rows.

        Returns
        -------
        ndarray of shape (K,) or (n, K)
            The proportions, in the order of ``classes_``; one line per table of a list.

        Raises
        ------
        TableError
            If a table has no rows or lacks a column.
        """
        check_is_fitted(self)
        self._warn()
        tables, single = _as_tables(U)
        ratios = np.array([self._method.ratios(self._summarise(table)) for table in tables])
        return ratios[0] if single else ratios

    def predict(self, X: Any) -> np.ndarray:
        """Return the class proportions of a table: `quantify` by scikit-learn's name.

        They are of all rows together, and say nothing about one row.

        Parameters
        ----------
        X : array, table, path, or list of these
            The unlabelled rows.

        Returns
        -------
        ndarray of shape (K,) or (n, K)
            The proportions, in the order of ``classes_``.
        """
        return self.quantify(X)

    def _warn(self) -> None:
        """Warn where the bags contradict the assumption of the figures that are asked for."""
        if self.label_shift_.rejected:
            warnings.warn(f"{contradiction(self.label_shift_)} See estimate.", stacklevel=3)

    def interval(self, U: Any, level: float = 0.95, *, draws: int = 200) -> np.ndarray:
        """Return the interval of each class proportion.

        It holds the proportions that the rows of the bags and of U do not reject, or for the
        methods "likelihood" and "mmd" most of those that resampled rows give, with the noise on the
        proportions drawn again. Variances grow as far as the bags differ more than label shift
        explains. Where they contradict label shift, this warns and returns the range of `estimate`:
        the ``level`` does not hold.

        Parameters
        ----------
        U, level, draws
            As in `estimate`.

        Returns
        -------
        ndarray of shape (2, K) or (n, 2, K)
            The lower and the upper ends; of a list, for each table.
        """
        check_is_fitted(self)
        self._warn()
        tables, single = _as_tables(U)
        estimates = self._estimates(tables, level, draws)
        ends = np.array([(estimate.low, estimate.high) for estimate in estimates])
        return ends[0] if single else ends

    def estimate(self, U: Any, level: float = 0.95, *, draws: int = 200) -> Any:
        """Return the class proportions with intervals, or with a range, and words to read first.

        Where the bags contradict label shift, there is one estimate under label shift, one under a
        stable p(y | x), and a range that holds both. It was widened by a factor that was chosen on
        natural bags, and is no confidence interval. If the table looks like a new bag, the second
        estimate is the mean predicted proportion over its rows. With more than two classes this is
        not tested, and the range allows for both.

        Parameters
        ----------
        U : array, table, path, or list of these
            The unlabelled rows.
        level : float, default=0.95
            The confidence level of intervals.
        draws : int, default=200
            The number of times that rows and noise are resampled; "moments" needs none.

        Returns
        -------
        RatioEstimate or list of RatioEstimate
            The proportions; of a list, for each table.

        Raises
        ------
        ParameterError
            If ``level`` is not between 0 and 1, or ``draws`` below 2.
        TableError
            If a table has no rows or lacks a column.
        """
        check_is_fitted(self)
        tables, single = _as_tables(U)
        estimates = self._estimates(tables, level, draws)
        return estimates[0] if single else estimates

    def _estimates(self, tables: Sequence[Any], level: float, draws: int) -> list[RatioEstimate]:
        if not 0 < level < 1 or draws < 2:
            raise ParameterError(
                "level must lie between 0 and 1, and draws must be at least 2. Change them."
            )
        method, test, classes = self._method, self.label_shift_, self.classes_.tolist()
        if not test.rejected:
            summaries = [self._summarise(table) for table in tables]
            intervals = method.ends(summaries, level, draws, self._generator(), excess=test.excess)
            ratios = [method.ratios(summary) for summary in summaries]
            return [
                RatioEstimate.with_interval(classes, ratio, ends, level, test, doubt=self._doubt)
                for ratio, ends in zip(ratios, intervals, strict=True)
            ]
        estimates, two = [], len(classes) == 2
        for table in tables:  # two estimates and a range of each: the bags contradict label shift
            rng = self._generator()
            keeper = RowKeeper(1, TABLE_ROWS, rng)
            summary = self._summarise(table, keeper)
            (ends,) = method.ends([summary], level, draws, rng, excess=1.0)
            rows = self._coordinates(keeper.result()[0])[:, :-1]
            outcomes = [
                natural_range(classifier, rows, ends[:, 1 if two else k], level, rng, tested=two)
                for k, classifier in enumerate(self._stable)
            ]
            ratio = method.ratios(summary)
            estimates.append(RatioEstimate.with_range(classes, ratio, outcomes, test))
        return estimates

    def _summarise(self, table: Any, keeper: RowKeeper | None = None) -> Any:
        """Return what the method needs of the rows of one table; ``keeper`` takes a sample."""
        if not self.releases_ and isinstance(table, np.ndarray):
            table = validate_data(self, table, dtype=np.float64, reset=False)
        batches = mapped_batches(table, self.pipeline_, new=True)

        def features() -> Iterator[np.ndarray]:
            empty = True
            for batch in batches:
                rows = _without_constant(batch, self.pipeline_)
                if keeper is not None:
                    keeper.update(rows, np.zeros(len(rows), dtype=np.int64))
                empty = empty and not len(rows)
                yield rows
            if empty:
                raise TableError("The table has no rows. Use a table with at least one row.")

        return self._method.summarise(features(), self._generator())

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31))


def _without_constant(rows: np.ndarray, pipeline: Pipeline) -> np.ndarray:
    """Return rows without the intercept's coordinate, which says nothing here."""
    return rows[:, :-1] if pipeline.intercept else rows


def _as_tables(U: Any) -> tuple[list[Any], bool]:
    """Return a list of tables, and whether there was one alone."""
    if isinstance(U, np.ndarray) and U.ndim == 3:
        return list(U), False
    several = (
        isinstance(U, list | tuple)
        and len(U) > 0
        and all(
            # a table, or a matrix, rather than a row of one
            isinstance(item, str | Path) or hasattr(item, "schema") or np.ndim(item) == 2
            for item in U
        )
    )
    return (list(U), False) if several else ([U], True)
