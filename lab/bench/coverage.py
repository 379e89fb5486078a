"""How often intervals and forecasts hold: every interval of the library, on many tables.

    OMP_NUM_THREADS=1 python lab/bench/coverage.py --data DIR [--parts frequencies,risk] [--again]
        [--draws 100] [--page docs/coverage.md]

Each line is one interval on one table in one setting: how many of its intervals hold the truth, at
which level, and how wide they are. Small and large m epsilon are both there. A line is drawn until
its draws tell (``verdict_of``): a right line is called too seldom once in 1,000 times at most, and
one that is short by 0.1 passes once in 10 times at most. The part ``classes`` has 400 draws of each
line, or as many as --draws says. What was measured is stored in lab/bench/results/coverage.json
line by line, so that a run goes on where another ended; --again measures anew. --page writes all
stored lines into a page, where the lines of other stores stay. Synthetic lines need no data. Exit
code 1 if a line covers too seldom.
"""

if __name__ == "coverage":  # numba asks for the package of that name: this is not it
    raise ImportError("This is a benchmark. Run it as a program.")

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax
from sklearn import datasets

import suffice as sf
from suffice.learner.fit import fit
from suffice.learner.scoring import calibration_bins
from suffice.papers.reproduction import numbers
from suffice.releases.columns import Flips

HERE = Path(__file__).parent
STORE = HERE / "results" / "coverage.json"
MARKS = ("<!-- lines of lab/bench/coverage.py -->", "<!-- end of lines -->")
GAP = 0.1  # how far below its level a coverage has to be noticed
MOST_FALSE_ALARMS = 1e-3  # of right lines that are called too seldom
MOST_MISSED = 0.1  # of lines that are short by the gap, and pass
MOST_DRAWS = 2000
DRAWS_WITHOUT = 20  # after which a line that never gave an interval is left
NARROWEST = 1e-9
TOO_FEW = "too few draws to tell"
_DELTA = 1e-6
_NAN = float("nan")


class Outcome(NamedTuple):
    """Which intervals of one draw held, and their widths; NaN where there was none."""

    held: np.ndarray
    widths: np.ndarray


@dataclass(frozen=True)
class Line:
    """One interval on one table in one setting. ``draw`` makes it once, from a seed.

    It is drawn ``draws`` times at least.
    """

    interval: str
    table: str
    setting: str
    level: float
    draw: Callable[[int], Outcome]
    draws: int = 0

    @property
    def key(self) -> str:
        """What the line is stored by."""
        return f"{self.interval} | {self.table} | {self.setting}"


@dataclass(frozen=True)
class Measured:
    """What came of a line: how many of ``count`` intervals held, and what ``draws`` draws tell."""

    interval: str
    table: str
    setting: str
    level: float
    covered: float
    count: int
    draws: int
    width: float
    verdict: str
    median: float = 0.0  # of the widths
    without: float = 0.0  # share of draws without an interval

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        covered = "none given" if not self.count else f"{self.covered:.3f}"
        width, median = (f"{x:.3g}" if self.count else "-" for x in (self.width, self.median))
        return (
            f"`{self.interval}`", self.table, self.setting, f"{self.level:g}", covered, width,
            median, f"{self.without:.1%}", f"{self.draws}", self.verdict,
        )  # fmt: skip


HEADERS = (
    "interval", "table", "setting", "level", "covered", "mean width", "median width", "without",
    "draws", "covers",
)  # fmt: skip


def verdict_of(shares: Sequence[float], level: float) -> str:
    """Return what the covered shares of independent draws tell, or that they are too few.

    Two bets, a share counting as so much of a hit: one that the coverage is below the level, one
    that it is above ``level - GAP``. Where it is not, each has the mean 1 after every draw, however
    intervals of one draw depend on each other, so that it ever reaches 1 / p with probability p at
    most (Ville; for whole hits and misses this is Wald's sequential test).
    """
    short = level - GAP
    missed = (1 - short) / (1 - level) if level < 1 else math.inf
    below = above = 1.0
    for share in shares:
        below *= share * short / level + ((1 - share) * missed if share < 1 else 0.0)
        above *= share * level / short + (1 - share) * (1 - level) / (1 - short)
    if below >= 1 / MOST_FALSE_ALARMS:
        return "too seldom"
    return "yes" if above >= 1 / MOST_MISSED else TOO_FEW


def measure(line: Line) -> Measured:
    """Draw a line until its draws tell, and return what came of it."""
    held, widths, shares, verdict, seed = [], [], [], TOO_FEW, 0
    while seed < line.draws or (verdict == TOO_FEW and seed < MOST_DRAWS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = line.draw(seed)
        seed += 1
        given = np.isfinite(outcome.widths)
        if given.any():
            held.extend(outcome.held[given])
            widths.extend(outcome.widths[given])
            shares.append(float(np.mean(outcome.held[given])))
            verdict = verdict_of(shares, line.level)
        elif seed >= DRAWS_WITHOUT and not shares:
            verdict = "-"
    covered, width = (float(np.mean(part)) if shares else 0.0 for part in (held, widths))
    median = float(np.median(widths)) if shares else 0.0
    return Measured(
        line.interval, line.table, line.setting, line.level, covered, len(held), seed,
        width, verdict, median, 1 - len(shares) / seed,
    )  # fmt: skip


def within(low: Any, truth: Any, high: Any) -> Outcome:
    """Return whether the truth lies between the ends, and how far apart they are.

    A point is no interval: it never holds, even if the truth is there but for rounding.
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    wide = high - low > NARROWEST
    return Outcome((low <= truth) & (truth <= high) & wide, high - low)


# --- tables


class Table(NamedTuple):
    """Rows to learn from with labels, and the population: its rows and P(label = 1) of each.

    ``own_chance`` is P(label = 1) of the rows to learn from, where it is known.
    """

    rows: np.ndarray
    labels: np.ndarray
    population: np.ndarray
    chance: np.ndarray
    own_chance: np.ndarray | None = None

    @property
    def public(self) -> np.ndarray:
        """Some rows of the population, to take scales from."""
        return self.population[:: max(1, len(self.population) // 200)]

    def accuracy(self, labels: np.ndarray) -> float:
        """Return how often these labels of the population are right, in expectation."""
        return float(np.mean(np.where(labels == 1, self.chance, 1 - self.chance)))

    def loss(self, model: Any) -> float:
        """Return the expected log loss on fresh labels: of the same rows where those are known."""
        known = self.own_chance is not None
        rows, chance = (self.rows, self.own_chance) if known else (self.population, self.chance)
        scores = model.decision_function(rows)
        losses = chance * np.logaddexp(0, -scores) + (1 - chance) * np.logaddexp(0, scores)
        return float(losses.mean())


def synthetic(seed: int, rows: int, width: int = 5) -> Table:
    """Return a logistic model of Gaussian rows."""
    rng = np.random.default_rng((7, seed))
    X = rng.normal(size=(rows + 20_000, width))
    chance = expit(X @ np.linspace(1.5, -0.5, width) - 0.5)
    labels = (rng.random(rows) < chance[:rows]).astype(int)
    return Table(X[:rows], labels, X[rows:], chance[rows:], chance[:rows])


def product(seed: int) -> Table:
    """Return rows whose labels are the sign of a product: no linear model of columns learns it."""
    rng = np.random.default_rng((10, seed))
    X = rng.normal(size=(23_000, 4))
    chance = (X[:, 0] * X[:, 1] > 0).astype(float)
    return Table(X[:3000], chance[:3000].astype(int), X[3000:], chance[3000:], chance[:3000])


def natural(folder: Path, name: str, most: int, seed: int) -> Table:
    """Return rows that are drawn from a natural table, which is the population."""
    X, y = numbers(name, folder)
    labels = (np.asarray(y) > 0).astype(int)
    own = np.random.default_rng((8, seed)).integers(0, len(X), min(most, len(X)))
    return Table(X[own], labels[own], X, labels.astype(float))


Maker = Callable[[int], Table]


def tables(folder: Path | None, sizes: dict[str, int]) -> Iterator[tuple[str, Maker]]:
    """Yield synthetic tables of two sizes, and natural ones where there is a folder."""
    for rows in (300, 5000):
        yield f"synthetic, {rows:,} rows", partial(synthetic, rows=rows)
    if folder is None:
        return
    for name, most in sizes.items():
        count = min(most, len(numbers(name, folder)[1]))
        yield f"{name}, {count:,} rows", partial(_natural, folder, name, most)


def _natural(folder: Path, name: str, most: int, seed: int) -> Table:
    return natural(folder, name, most, seed)


NATURAL = {"haberman": 10_000, "breast": 10_000, "magic": 5000}


# --- proportions of randomised answers


def frequencies(folder: Path | None) -> Iterator[Line]:
    """Frequencies of randomised answers, as of responses and surveys."""
    for states, shares in ((2, (0.5, 0.5)), (2, (0.99, 0.01)), (5, (0.6, 0.2, 0.1, 0.07, 0.03))):
        for keep in (0.9, 0.6):
            for count in (60, 3000):
                setting = f"{count:,} answers, {keep:.0%} stay as they are"
                name = f"synthetic, {states} values, {shares[-1]:g} the rarest"
                draw = partial(_answered, np.array(shares), keep, count)
                yield Line("Frequencies.low, high", name, setting, 0.95, draw)
    if folder is None:
        return
    import pyarrow.parquet as pq

    column = pq.read_table(folder / "adult.parquet", columns=["workclass"])["workclass"]
    codes = column.combine_chunks().indices.to_numpy()
    shares = np.bincount(codes) / len(codes)
    for keep in (0.9, 0.5):
        for count in (200, 20_000):
            setting = f"{count:,} answers, {keep:.0%} stay as they are"
            draw = partial(_answered, shares, keep, count)
            yield Line("Frequencies.low, high", "adult, workclass", setting, 0.95, draw)


def _answered(shares: np.ndarray, keep: float, count: int, seed: int) -> Outcome:
    rng = np.random.default_rng((1, seed))
    states = len(shares)
    truth = rng.choice(states, count, p=shares)
    moved = (truth + rng.integers(1, states, count)) % states
    answers = np.where(rng.random(count) < keep, truth, moved)
    estimate = sf.estimate_frequencies(answers, Flips(states, keep=keep))
    return within(estimate.low, shares, estimate.high)


# --- mean operators


def coefficients(folder: Path | None) -> Iterator[Line]:
    """Coefficients of FactoredClassifier: those that exact labels give at the same penalty."""
    for name, maker in tables(folder, NATURAL):
        for epsilon in (0.1, 1.0, 10.0):
            setting = f"epsilon {epsilon:g}, lam 0.1"
            draw = partial(_coefficients, maker, epsilon)
            yield Line("FactoredClassifier.coef_interval_", name, setting, 0.95, draw)
            setting, draw = f"epsilon {epsilon:g}, default settings", partial(draw, default=True)
            yield Line("FactoredClassifier.coef_interval_", name, setting, 0.95, draw)


def _coefficients(maker: Maker, epsilon: float, seed: int, *, default: bool = False) -> Outcome:
    """Compare with the minimiser for (almost) exact labels: same rows, coordinates and penalty."""
    table = maker(seed)
    noisy, exact = (
        sf.MeanOperator(given, _DELTA, mechanism="gaussian", map=None).release(
            table.rows, table.labels, ledger=None
        )
        for given in (epsilon, 1e6)
    )
    model = sf.FactoredClassifier() if default else sf.FactoredClassifier(lam=0.1, denoise=False)
    model.fit_release(noisy, table.rows)
    if not hasattr(model, "coef_interval_"):  # the noise hides too much
        return Outcome(np.zeros(1), np.full(1, _NAN))
    low, high = model.coef_interval_
    evidence = model._evidence  # noqa: SLF001  # no public fit has these coordinates and no denoiser
    operator, basis = exact.arrays["mean_operator"], np.eye(len(model.theta_))
    if evidence.denoisers and evidence.denoisers[0].white:
        basis = evidence.denoisers[0].basis
    if model.intercept_only_:
        basis = basis[:, -1:]
    (problem,) = evidence.problems
    truth = problem.with_operator(basis.T @ operator).solve(model.lam_, tol=1e-6, max_iter=1000)
    model.theta_ = basis @ truth.parameters  # from here on the model of exact labels
    return within(low, model.coef_, high)


def risk(folder: Path | None) -> Iterator[Line]:
    """Risk of FactoredClassifier with default settings: the log loss on fresh labels."""
    for name, maker in tables(folder, NATURAL):
        for epsilon in (0.05, 0.3, 1.0):
            draw = partial(_risk, maker, epsilon, None)
            setting = f"epsilon {epsilon:g}, default settings"
            yield Line("FactoredClassifier.risk_interval_", name, setting, 0.95, draw)
    mapped = [("labels are the sign of a product, 3,000 rows", product)]
    for name, maker in [*mapped, *tables(folder, {"magic": 5000})]:
        for epsilon, feature_map in (
            (0.3, "ranks+kernel:50"),
            (1.0, "ranks"),
            (1.0, "ranks+kernel:100"),
        ):
            draw = partial(_risk, maker, epsilon, feature_map)
            setting = f"epsilon {epsilon:g}, map {feature_map}"
            yield Line("FactoredClassifier.risk_interval_", name, setting, 0.95, draw)


def classes(folder: Path | None) -> Iterator[Line]:
    """Risk of FactoredClassifier with default settings, of three classes or more: 400 draws."""
    makers: dict[str, tuple[Many, tuple[float, ...]]] = {}
    for count, rows, epsilons in (
        (3, 1000, (0.3, 1.0)), (3, 4000, (0.1,)), (10, 3000, (0.1, 1.0)), (26, 3000, (0.1, 1.0)),
        (100, 3000, (1.0,)),
    ):  # fmt: skip
        name = f"mixture, {count} classes, {rows:,} rows"
        makers[name] = partial(_mixture, count, rows), epsilons
    makers["digits, 10 classes, 1,300 rows"] = partial(_sampled, _digits(), 1300), (0.3, 1.0)
    if folder is not None:
        cover = _covertype(folder)
        makers["covertype, 7 classes, 3,000 rows"] = partial(_sampled, cover, 3000), (0.1, 1.0)
    for name, (maker, epsilons) in makers.items():
        for epsilon in epsilons:
            for words, feature_map in (("no map", None), ("the default map", "auto")):
                draw = partial(_risk_of_many, maker, epsilon, feature_map)
                setting = f"epsilon {epsilon:g}, {words}"
                yield Line("FactoredClassifier.risk_interval_", name, setting, 0.95, draw, 400)


# Rows, their labels, and rows with the chances of their classes on which a model is judged.
Several = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Many = Callable[[int], Several]


def _digits() -> tuple[np.ndarray, np.ndarray]:
    rows, labels = datasets.load_digits(return_X_y=True)
    return rows, labels


def _covertype(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "covertype.parquet")
    taken = slice(None, None, 30)
    columns = [table[n].to_numpy()[taken] for n in table.column_names if n != "label"]
    labels = np.unique(table["label"].to_numpy()[taken], return_inverse=True)[1]
    return np.column_stack(columns).astype(float), labels


def _sampled(table: tuple[np.ndarray, np.ndarray], count: int, seed: int) -> Several:
    """Return rows that are drawn from a table, which is the population."""
    rows, labels = table
    own = np.random.default_rng((8, seed)).permutation(len(rows))[:count]
    return rows[own], labels[own], rows, np.eye(labels.max() + 1)[labels]


def _mixture(classes: int, rows: int, seed: int) -> Several:
    """Each class has three clusters, and sizes of classes differ."""
    rng = np.random.default_rng((9, classes, seed))
    centres = 1.4 * rng.normal(size=(3 * classes, 15))
    sizes = np.repeat(np.exp(0.5 * rng.normal(size=classes)), 3)
    clusters = rng.choice(3 * classes, size=rows, p=sizes / sizes.sum())
    X = centres[clusters] + rng.normal(size=(rows, 15))
    logs = X @ centres.T - (centres**2).sum(axis=1) / 2 + np.log(sizes)
    chances = softmax(logs, axis=1).reshape(rows, classes, 3).sum(axis=2)
    labels = np.minimum((chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), classes - 1)
    mixed = X @ rng.normal(size=(15, 15))
    return mixed, labels, mixed, chances


def _risk_of_many(maker: Many, epsilon: float, feature_map: str | None, seed: int) -> Outcome:
    own, labels, judged, chances = maker(seed)
    declared = list(range(chances.shape[1]))
    owner = sf.MeanOperator(
        epsilon, _DELTA, classes=declared, mechanism="gaussian", map=feature_map
    )
    release = owner.release(own, labels, ledger=None)
    model = sf.FactoredClassifier().fit_release(release, own)
    low, high = model.risk_interval_
    return within(
        [low], -(chances * np.log(model.predict_proba(judged))).sum(axis=1).mean(), [high]
    )


def _risk(maker: Maker, epsilon: float, feature_map: str | None, seed: int) -> Outcome:
    table = maker(seed)
    owner = sf.MeanOperator(epsilon, _DELTA, map=feature_map)
    release = owner.release(table.rows, table.labels, ledger=None)
    if "mean_operator" not in release.arrays:
        return Outcome(np.array([0.0]), np.array([_NAN]))
    model = sf.FactoredClassifier().fit_release(release, table.rows)
    low, high = model.risk_interval_
    return within([low], table.loss(model), [high])


# --- noisy labels


def noisy_labels(folder: Path | None) -> Iterator[Line]:
    """Accuracy of NoisyLabelClassifier on fresh rows with true labels."""
    for name, maker in tables(folder, {"magic": 3000}):
        for epsilon in (0.5, 2.0):
            draw = partial(_noisy_labels, maker, epsilon)
            setting = f"epsilon {epsilon:g}, logistic"
            yield Line("NoisyLabelClassifier.accuracy_interval_", name, setting, 0.95, draw)


def _noisy_labels(maker: Maker, epsilon: float, seed: int) -> Outcome:
    table = maker(seed)
    owner = sf.MeanOperator(epsilon, mechanism="response")
    release = owner.release(table.rows, table.labels, ledger=None)
    model = sf.NoisyLabelClassifier(estimator="logistic").fit_release(release, table.rows)
    truth = table.accuracy(model.predict(table.population))
    if model.accuracy_interval_ is None:
        return Outcome(np.array([0.0]), np.array([_NAN]))
    low, high = model.accuracy_interval_
    return within([low], truth, [high])


# --- calibration of what is scored


def scores(folder: Path | None) -> Iterator[Line]:
    """Where the observed proportions of right probabilities lie by chance."""
    del folder
    for rows in (100, 5000):
        draw = partial(_scores, rows)
        name = f"synthetic, {rows:,} rows, right probabilities"
        yield Line("CalibrationBins.chance_interval", name, "15 bins", 0.95, draw)


def _scores(rows: int, seed: int) -> Outcome:
    rng = np.random.default_rng((9, seed))
    stated = rng.beta(0.5, 1.5, size=rows)
    bins = calibration_bins(stated, (rng.random(rows) < stated).astype(int))
    low, high = bins.chance_interval()
    return within(low, bins.observed, high)


# --- moments


def moments(folder: Path | None) -> Iterator[Line]:
    """Coefficients of MomentClassifier: those of exact moments at the same penalty."""
    for name, maker in tables(folder, {"breast": 10_000, "magic": 5000}):
        for epsilon in (0.1, 1.0):
            draw = partial(_moments, maker, epsilon)
            setting = f"epsilon {epsilon:g}"
            method = "MomentClassifier.coefficient_intervals"
            yield Line(method, name, setting, 0.9, draw)
            draw = partial(_moment_accuracy, maker, epsilon)
            yield Line("MomentClassifier.accuracy_interval_", name, setting, 0.9, draw)


def _moments(maker: Maker, epsilon: float, seed: int) -> Outcome:
    table = maker(seed)
    public = table.public
    releases = [
        sf.Moments(given, _DELTA, standardize=public).release(table.rows, table.labels, ledger=None)
        for given in (epsilon, 1e5)
    ]
    noisy = sf.MomentClassifier().fit_release(releases[0]).coefficient_intervals()
    exact, bound = releases[1].arrays, releases[1].pipeline.bound  # all in rows of length 1
    mean, share = exact["mean"] / bound, float(exact["proportions"][1])
    second = exact["second_moments"] / bound**2
    matrix = second - np.outer(mean, mean) + noisy.penalty * np.eye(len(mean))
    operator = np.ravel(exact["operator"]) / bound
    truth = np.linalg.solve(matrix, operator - (2 * share - 1) * mean)
    units = bound * releases[1].pipeline.scale
    return within(noisy.low * units, truth, noisy.high * units)


def _moment_accuracy(maker: Maker, epsilon: float, seed: int) -> Outcome:
    table = maker(seed)
    owner = sf.Moments(epsilon, _DELTA, standardize=table.public)
    model = sf.MomentClassifier().fit_release(owner.release(table.rows, table.labels, ledger=None))
    low, high = model.accuracy_interval_
    return within([low], table.accuracy(model.predict(table.population)), [high])


# --- class ratios


def ratios(folder: Path | None) -> Iterator[Line]:
    """Class proportions of new tables under label shift: two classes and more."""
    for classes in (2, 3, 5):
        for epsilon in (None, 1.0, 0.1):
            known = "known proportions" if epsilon is None else f"epsilon {epsilon:g}"
            draw = partial(_synthetic_ratio, classes, epsilon)
            name = f"synthetic, {classes} classes, {classes + 1} bags of 300"
            yield Line("RatioEstimate.low", name, known, 0.95, draw)
    if folder is None:
        return
    for name in ("magic", "ijcnn1"):
        for epsilon in (None, 0.1):
            known = "known proportions" if epsilon is None else f"epsilon {epsilon:g}"
            draw = partial(_natural_ratio, folder, name, epsilon)
            table = f"{name}, label-shifted, 4 bags of 400"
            yield Line("RatioEstimate.low", table, known, 0.95, draw)
    draw = partial(_natural_bags, folder, "magic", 8)
    table = "magic, natural bags: 6 of 400 by the angle"
    yield Line("RatioEstimate.low", table, "known proportions", 0.95, draw)


def _synthetic_ratio(classes: int, epsilon: float | None, seed: int) -> Outcome:
    rng = np.random.default_rng((2, seed))
    width = max(classes, 3)
    centres = 1.5 * np.eye(classes, width)

    def draw(shares: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(classes, count, p=shares)
        return centres[labels] + rng.normal(size=(count, width)), labels

    bags = [draw(rng.dirichlet(np.ones(classes)), 300) for _ in range(classes + 1)]
    tables = [draw(shares, 400) for shares in rng.dirichlet(np.ones(classes), 3)]
    truth = np.array([np.bincount(labels, minlength=classes) / 400 for _, labels in tables])
    return _ratio_outcome(bags, [rows for rows, _ in tables], truth, classes, epsilon)


def _natural_ratio(folder: Path, name: str, epsilon: float | None, seed: int) -> Outcome:
    X, y = numbers(name, folder)
    rng = np.random.default_rng((3, seed))
    left = [list(rng.permutation(np.flatnonzero((np.asarray(y) > 0) == k))) for k in (0, 1)]

    def draw(share: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        ones = rng.binomial(count, share)
        picks = [left[1].pop() for _ in range(ones)]
        picks += [left[0].pop() for _ in range(count - ones)]
        return X[picks], np.repeat([1, 0], [ones, count - ones])

    bags = [draw(share, 400) for share in (0.1, 0.4, 0.6, 0.9)]
    shares = np.array([0.1, 0.5, 0.8])
    tables = [draw(share, 400) for share in shares]
    ones = np.array([labels.mean() for _, labels in tables])
    truth = np.column_stack([1 - ones, ones])
    return _ratio_outcome(bags, [rows for rows, _ in tables], truth, 2, epsilon)


def _natural_bags(folder: Path, name: str, column: int, seed: int) -> Outcome:
    """Return intervals where bags differ by a column: label shift does not hold."""
    X, y = numbers(name, folder)
    labels = (np.asarray(y) > 0).astype(int)
    rng = np.random.default_rng((6, seed))
    order = rng.permutation(len(X))
    for_bags, for_tests = order[: len(X) // 2], order[len(X) // 2 :]
    ends = np.quantile(X[:, column], np.linspace(0, 1, 7)[1:-1])
    index = np.digitize(X[for_bags, column], ends)
    bags = [for_bags[index == b][:400] for b in range(6)]
    shares = np.array([0.1, 0.4, 0.8])
    tests = []
    for share in shares:
        counts = (round(400 * (1 - share)), round(400 * share))
        picks = [for_tests[labels[for_tests] == k][: counts[k]] for k in (0, 1)]
        tests.append(X[np.concatenate(picks)])
    truth = np.column_stack([1 - shares, shares])
    return _ratio_outcome([(X[b], labels[b]) for b in bags], tests, truth, 2, None)


def _ratio_outcome(*settings: Any) -> Outcome:
    try:
        return _ratio_ends(*settings)
    except sf.errors.ParameterError:  # bags or classes cannot be told apart: no interval
        return Outcome(np.zeros(1), np.full(1, _NAN))


def _ratio_ends(
    bags: Sequence[tuple[np.ndarray, np.ndarray]],
    tests: list[np.ndarray],
    truth: np.ndarray,
    classes: int,
    epsilon: float | None,
) -> Outcome:
    rows, labels = (np.concatenate(part) for part in zip(*bags, strict=True))
    index = np.repeat(np.arange(len(bags)), [len(b[1]) for b in bags])
    declared = list(range(classes))
    if epsilon is None:
        counts = np.zeros((len(bags), classes))
        np.add.at(counts, (index, labels), 1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        model = sf.ClassRatio().fit_proportions(rows, index, shares, classes=declared)
    else:
        owner = sf.LabelProportions(epsilon, _DELTA, classes=declared)
        release = owner.release(rows, labels, bags=index, ledger=None)
        model = sf.ClassRatio().fit_release(release, rows, bags=index)
    estimates = model.estimate(tests, draws=100)
    low, high = (np.array([getattr(e, end) for e in estimates]) for end in ("low", "high"))
    # Of two classes one proportion follows from the other.
    columns = slice(1, 2) if classes == 2 else slice(None)
    return within(low[:, columns], truth[:, columns], high[:, columns])


# --- forecasts


def forecasts(folder: Path | None) -> Iterator[Line]:
    """Forecasts of plans against what happened."""
    for name, maker in tables(folder, {"haberman": 10_000, "breast": 10_000, "magic": 5000}):
        for epsilon in (0.1, 1.0):
            draw = partial(_operator_forecast, maker, epsilon)
            setting = (
                f"epsilon {epsilon:g}: mean accuracy between hard and easy, or half a point beyond,"
                " rows explain 5 to 70 %"
            )
            yield Line("plan_mean_operator", name, setting, 1.0, draw)
    for classes in (2, 5):
        for epsilon in (0.1, 1.0):
            draw = partial(_distortion_forecast, classes, epsilon)
            setting = f"epsilon {epsilon:g}: mean distortion within a tenth"
            yield Line("plan_proportions", f"20 bags of 200, {classes} classes", setting, 1.0, draw)
    for epsilon in (1.0, 3.0):
        draw = partial(_party_forecast, epsilon)
        setting = f"epsilon {epsilon:g}: accuracy between hard and easy"
        yield Line("plan_parties", "synthetic, 500 parties of 20", setting, 1.0, draw)
    for name, maker in tables(folder, {"magic": 5000}):
        for epsilon in (0.3, 1.0):
            draw = partial(_moment_forecast, maker, epsilon)
            setting = f"epsilon {epsilon:g}: noise of means over their size, within a third"
            yield Line("plan_moments", name, setting, 1.0, draw)
    if hasattr(sf, "advise"):
        for name, maker in tables(folder, {"magic": 5000}):
            draw = partial(_advice, maker)
            setting = "epsilon 1: at most 3 points below the best candidate"
            yield Line("advise", name, setting, 1.0, draw)


def explained(table: Table) -> float:
    """Return the part of the labels' variance that a linear model of the population explains."""
    design = np.column_stack([table.population, np.ones(len(table.population))])
    fitted = design @ np.linalg.lstsq(design, table.chance, rcond=None)[0]
    share = table.chance.mean()
    return float(np.var(fitted) / (share * (1 - share)))


def _operator_forecast(maker: Maker, epsilon: float, seed: int) -> Outcome:
    table = maker(seed)
    if not 0.05 <= explained(table) <= 0.7:  # another problem than those of the forecast
        return Outcome(np.zeros(1), np.full(1, _NAN))
    share = float(table.chance.mean())
    plan = sf.plan_mean_operator(table.rows, epsilon, _DELTA, balance=share, map=None)
    (chosen,) = (row for row in plan.chosen if row["epsilon"] == epsilon)
    owner, right = sf.MeanOperator(epsilon, _DELTA, balance=share, map=None), []
    for _ in range(10):  # a forecast is about the mean over releases
        release = owner.release(table.rows, table.labels, ledger=None)
        model = fit(release, table.rows)
        right.append(table.accuracy(model.predict(table.population)))
    truth = float(np.mean(right))
    error = 0.005 + 2 * float(np.std(right)) / math.sqrt(10)
    low, high = chosen["accuracy"]["hard"], chosen["accuracy"]["easy"]
    return within([low - error], truth, [high + error])


def _distortion_forecast(classes: int, epsilon: float, seed: int) -> Outcome:
    rng = np.random.default_rng((4, seed))
    bags = np.repeat(np.arange(20), 200)
    labels = rng.integers(0, classes, len(bags))
    plan = sf.plan_proportions([200] * 20, classes, epsilon, _DELTA)
    (chosen,) = (row for row in plan.chosen if row["epsilon"] == epsilon)
    owner = sf.LabelProportions(epsilon, _DELTA, classes=list(range(classes)))
    exact = np.zeros((20, classes))
    np.add.at(exact, (bags, labels), 1)
    errors = []
    for _ in range(60):
        release = owner.release(np.zeros((len(bags), 1)), labels, bags=bags, ledger=None)
        counts = release.arrays["counts"]
        counts = counts + (200 - counts.sum(axis=1, keepdims=True)) / classes  # bags have 200 rows
        errors.append(np.abs(counts - exact).sum(axis=1).mean() / 200)
    happened = float(np.mean(errors))
    return within([happened * 0.9], chosen["distortion"], [happened * 1.1])


def _party_forecast(epsilon: float, seed: int) -> Outcome:
    rng = np.random.default_rng((5, seed))
    X = rng.normal(size=(12_500, 6))
    labels = (rng.random(len(X)) < expit(2 * X[:, 0] - X[:, 1])).astype(int)
    aux, private, test = X[:500], slice(500, 10_500), slice(10_500, None)
    rows = sf.AuxiliaryRows.read(aux)
    plan = sf.plan_parties(500, epsilon, 1e-5, auxiliary=rows, samples=20)
    import pyarrow as pa

    table = pa.table({f"x{j}": X[private, j] for j in range(6)})
    table = table.append_column("label", pa.array(labels[private]))
    table = table.append_column("party", pa.array([f"p{i // 20}" for i in range(10_000)]))
    release = sf.PrivateEnsemble(epsilon, 1e-5).release(
        table, auxiliary=rows, label="label", party="party", enrolled=500, ledger=None
    )
    model = sf.FactoredClassifier().fit_release(release, aux)
    truth = float(np.mean(model.predict(X[test]) == labels[test]))
    low, high = (plan.rows[0]["accuracy"][problem] for problem in ("hard", "easy"))
    return within([low], truth, [high])


def _moment_forecast(maker: Maker, epsilon: float, seed: int) -> Outcome:
    table = maker(seed)
    settings = {"standardize": table.public}
    plan = sf.plan_moments(table.rows, epsilon, _DELTA, **settings)
    (row,) = (row for row in plan.rows if row["epsilon"] == epsilon)
    releases = [
        sf.Moments(given, _DELTA, **settings).release(table.rows, table.labels, ledger=None)
        for given in (*[epsilon] * 20, 1e5)
    ]
    means = np.array([release.arrays["mean"] for release in releases])
    square = float(np.mean(np.diag(releases[-1].arrays["second_moments"])))
    happened = float(np.sqrt(np.mean((means[:-1] - means[-1]) ** 2) / square))
    return within([happened * 0.7], row["means"], [happened * 1.3])


def _advice(maker: Maker, seed: int) -> Outcome:
    table = maker(seed)
    import pyarrow as pa

    names = [f"x{j}" for j in range(table.rows.shape[1])]
    private = pa.table(dict(zip(names, table.rows.T, strict=True)))
    population = pa.table(dict(zip(names, table.population.T, strict=True)))
    advice = sf.advise(private, 1.0, _DELTA, private="labels")
    right = []
    for candidate in advice.candidates:
        release = candidate.mechanism.release(private, table.labels, ledger=None)
        model = fit(release, private)
        right.append(table.accuracy(model.predict(population)))
    return Outcome(np.array([right[0] >= max(right) - 0.03]), np.array([0.03]))


PARTS: dict[str, Callable[[Path | None], Iterator[Line]]] = {
    "frequencies": frequencies,
    "coefficients": coefficients,
    "risk": risk,
    "classes": classes,
    "noisy_labels": noisy_labels,
    "scores": scores,
    "moments": moments,
    "ratios": ratios,
    "forecasts": forecasts,
}


# --- store and page


def stored() -> dict[str, Measured]:
    """Return what was measured before, by line."""
    if not STORE.exists():
        return {}
    return {key: Measured(**value) for key, value in json.loads(STORE.read_text()).items()}


def store(results: dict[str, Measured]) -> None:
    """Write what was measured; a run that ends early loses one line at most."""
    STORE.parent.mkdir(exist_ok=True)
    fresh = STORE.with_suffix(".new")
    written = {key: asdict(value) for key, value in results.items()}
    fresh.write_text(json.dumps(written, indent=1) + "\n")
    fresh.replace(STORE)


def write_page(path: Path, results: dict[str, Measured]) -> None:
    """Write all lines between the marks of a page; those that no result replaces stay."""
    text = path.read_text()
    start, end = (text.index(mark) for mark in MARKS)
    before = [tuple(line[2:-2].split(" | ")) for line in text[start:end].splitlines()[4:] if line]
    lines = {cells[:3]: cells for cells in [*before, *(r.cells for r in results.values())]}
    rows = [HEADERS, ("---",) * len(HEADERS), *(lines[key] for key in sorted(lines))]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    path.write_text(text[: start + len(MARKS[0])] + "\n\n" + table + "\n\n" + text[end:])


def main(arguments: Sequence[str] = ()) -> int:
    """Measure what is not stored and print every line; return how many cover too seldom."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--draws", type=int, help="of lines that have 400, not so many")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    results = stored()
    wanted = []
    for part in options.parts.split(","):
        for line in PARTS[part](options.data):
            if line.draws and options.draws:
                line = replace(line, draws=options.draws)  # noqa: PLW2901  # the same line
            wanted.append(line.key)
            known = line.key in results and results[line.key].verdict != TOO_FEW
            if options.again or not known:
                results[line.key] = measure(line)
                store(results)
            shown = results[line.key]
            print(" | ".join(shown.cells), flush=True)
    too_seldom = [key for key in wanted if results[key].verdict == "too seldom"]
    print(f"{len(too_seldom)} of {len(wanted)} lines cover too seldom", *too_seldom, sep="\n  ")
    if options.page is not None:
        write_page(options.page, results)
    return len(too_seldom)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
