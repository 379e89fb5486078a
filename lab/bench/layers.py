"""Which layers of noise shaping, and of the operator's learner, are worth their lines.

    OMP_NUM_THREADS=1 python lab/bench/layers.py --data DIR [--splits 20] [--first 0] [--tables a,b]
        [--variants whitening,shrinking+tuning] [--store FILE] [--time]
    python lab/bench/layers.py --table [--first 0] [--splits 20] [--csv FILE]

Every variant leaves out one layer, or several joined by "+", by patching functions from here: src/
has no switch. It is compared with everything as shipped on the same split, with the same test rows,
and with the same release unless the owner's noise differs. Noise is that of the real samplers,
without a ledger. Epsilons are .1 and 1, delta is 0, the default of `MeanOperator`; releases of
rados and moments, which need a delta, have 1e-6. At most 5,000 rows of a table are drawn anew for
each split: 3,000 for training and 2,000 for testing; smaller tables have a quarter for testing.
Generated tables are drawn anew as a whole: there the chance of each label is known, and so whether
`risk_interval_` holds the risk on fresh labels.

The rule of decision, word for word (issue R, point 6): "A layer (whitening, pairing, counting,
restoring, moderation, ...) stays if leaving it out costs .3 points in the mean beyond two standard
errors, or 1.5 on a kind of table *named beforehand* (small tables near the larger class are one:
there a model must not fall below that class by more than .6 points) and confirmed on fresh splits;
what is kept is kept with what it needs (counting without pairing harms). All that go together may
cost .3 in the mean."

How it is read, written down before the first split of the run:
- Points are percent of test rows. The mean is over all tables and both epsilons, each with the same
  weight. Standard errors are over splits, tables fixed. "Beyond two standard errors": the cost less
  two standard errors is at least .3, or 1.5. (Splits of real tables overlap, so that standard
  errors are somewhat too small.)
- Splits 0 to 19 decide, splits 20 to 39 are the fresh ones. A cost on a kind is confirmed if on
  these it is at least 1.5 points again, and more than two standard errors above 0.
- Kinds that may keep a layer, each judged by the mean over its tables at each epsilon: `KINDS`
  below. They are near (small tables near the larger class), few (at most 500 training rows),
  several (three classes or more) and merged (five owners with one given pipeline).
- On near tables a variant falls below the larger class by the mean of that class's accuracy less
  the model's. A layer stays if without it that is above .6 points, and with it is not.
- A layer that changes probabilities alone is judged by the log loss, of which one point is .01
  nats; one that changes intervals alone by how often they hold the risk, of which one point is one
  percent, at a level of 95 %.
- A layer of another learner (randomised labels, rados, moments) is judged on the tables that this
  learner runs on: `OTHERS`.
- Time, measured before the start: one split of everything takes 85 seconds of a core that nobody
  else uses, so that the deciding 20 splits take .5 hours, and with the 20 fresh ones 1 hour.

Added while the run was under way, after looking at some splits, and so not to keep or drop a layer
by: "parties" at epsilon 1 and 3 per party, whose learner is `Shrinkage`; "sparse", a penalty with a
1-norm; "exact" labels; "gaussian", the same at delta = 1e-6; and "ridge", "margin" and "margin2",
other values of a constant, of which margin2 was chosen on splits 2000 to 2003.

The patches are of the tree before the layers went: the script runs on that tree only (bbf6eb9).
layers.csv beside this has splits 0 to 19; layers_fresh.csv has splits 20 to 39, what goes together
on splits 40 to 59, and "gaussian" on splits 0 to 19. Variants without any difference are left out.
"""

import argparse
import csv
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from probability_tables import TABLES as NUMBERS
from scipy.special import softmax
from suffice.learner.operator.restoring import Restoration, noise_in_basis
from suffice.learner.operator.tuning import ChosenPenalty, Optimism, labels_behind
from suffice.owner.operator import candidates
from suffice.owner.operator.candidates import Candidate, Candidates, choose
from suffice.study.data_sets import split as read_split

import suffice as sf
from suffice.learner import moderation
from suffice.learner.moments import directions, rule
from suffice.learner.operator import evidence, factored, restoring, shrinking
from suffice.learner.rados import moments as rado_moments
from suffice.learner.rados import penalties, ridge
from suffice.learner.spread import classifier as spread
from suffice.learner.spread import selection
from suffice.owner.source import PublicSource

EPSILONS = (0.1, 1.0)
DELTA = 1e-6  # of rados and moments
TRAINED, TESTED = 3_000, 2_000  # rows
OWNERS = 5
_BEST = Candidates.best
STORE = Path(__file__).parent / "results" / "layers.jsonl"
SHIPPED = "shipped"
KINDS: Mapping[str, tuple[str, ...]] = {
    "near": ("haberman", "transfusion", "fertility", "made-near"),
    "few": ("haberman", "fertility", "ionosphere", "sonar", "made-few", "made-near"),
    "several": ("wine-3", "mnist-10", "made-classes"),
    "merged": ("spambase/5", "magic/5", "wine-3/5", "made-classes/5"),
}
Key = tuple[str, str, float, int]  # part, table, epsilon, split
LEAST_MEAN, LEAST_KIND = 0.3, 1.5  # points that leaving a layer out must cost for it to stay
_LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test rows with their labels, codes of classes, and the chance of each label."""

    rows: pa.Table
    labels: np.ndarray
    test_rows: pa.Table
    test_labels: np.ndarray
    classes: tuple[int, ...]
    chances: np.ndarray | None = None  # (n, K), of the training rows, where it is known

    @property
    def larger(self) -> float:
        """The test accuracy of always predicting the largest class of the training labels."""
        return float((self.test_labels == np.bincount(self.labels).argmax()).mean())


# --- tables ---------------------------------------------------------------------------------------


def _table(matrix: np.ndarray) -> pa.Table:
    return pa.table({f"x{j}": column for j, column in enumerate(matrix.T)})


@cache
def _whole(name: str, folder: Path) -> tuple[pa.Table, np.ndarray]:
    """Return all rows of a real table, and its labels."""
    if name not in ("wine-3", "mnist-10"):
        return read_split(name, 0, folder).all_rows
    matrix, labels = NUMBERS[name](folder)
    return _table(matrix), labels


def _real(name: str, folder: Path, split: int) -> Data:
    rows, labels = _whole(name, folder)
    order = np.random.default_rng([split, 1]).permutation(len(labels))
    tested = min(len(order) // 4, TESTED)
    test, train = order[:tested], order[tested : tested + TRAINED]
    classes = tuple(range(int(labels.max()) + 1))
    return Data(rows.take(train), labels[train], rows.take(test), labels[test], classes)


Rows = Callable[[int, np.random.Generator], tuple[pa.Table, np.ndarray]]  # columns, and scores


def _made(draw: Rows, count: int, folder: Path, split: int) -> Data:
    """Return a generated table of ``count`` training rows, whose columns and scores are drawn."""
    del folder
    rng = np.random.default_rng([split, 2])
    rows, scores = draw(count + TESTED, rng)
    chances = softmax(scores, axis=1)
    labels = (rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)).sum(axis=1)
    labels = np.minimum(labels, chances.shape[1] - 1)
    train, test = rows.slice(0, count), rows.slice(count)
    classes = tuple(range(chances.shape[1]))
    return Data(train, labels[:count], test, labels[count:], classes, chances[:count])


def _normal(
    shape: tuple[int, int],
    signal: float,
    constants: Sequence[float],
    count: int,
    rng: np.random.Generator,
) -> tuple[pa.Table, np.ndarray]:
    """Return so many normal columns, which share so many factors, and linear scores."""
    (width, factors), fixed = shape, np.random.default_rng(0)
    loadings, weights = fixed.normal(size=(factors, width)), fixed.normal(size=(width, 9))
    weights = weights[:, : len(constants)]
    rows = rng.normal(size=(count, width)) + rng.normal(size=(count, factors)) @ loadings
    sizes = np.sqrt(1 + (loadings**2).sum(axis=0))
    scores = rows / sizes @ weights
    spread = weights.T @ (np.eye(width) + loadings.T @ loadings) / sizes.mean() ** 2 @ weights
    return _table(rows), signal * scores / np.sqrt(np.trace(spread)) + np.array(constants)


def _categories(count: int, rng: np.random.Generator) -> tuple[pa.Table, np.ndarray]:
    """Return three columns of 25 categories each, of which few are frequent."""
    fixed = np.random.default_rng(1)
    shares = 1 / np.arange(2.0, 27.0)
    effects = fixed.normal(size=(3, 25))
    codes = rng.choice(25, size=(3, count), p=shares / shares.sum())
    scores = sum(effect[code] for effect, code in zip(effects, codes, strict=True))
    names = np.array([f"c{j}" for j in range(25)])
    table = pa.table({f"x{j}": names[code] for j, code in enumerate(codes)})
    return table, np.column_stack([np.zeros(count), scores])


Read = Callable[[Path, int], Data]
_TWO = (
    "banknote", "breast", "abalone", "wine-red", "haberman", "transfusion", "fertility",
    "ionosphere", "sonar", "spambase", "adult", "magic",
)  # fmt: skip
TABLES: Mapping[str, Read] = {
    **{name: partial(_real, name) for name in (*_TWO, "wine-3", "mnist-10")},
    "made-few": partial(_made, partial(_normal, (5, 0), 2.0, (0, 0)), 120),
    "made-wide": partial(_made, partial(_normal, (100, 8), 2.0, (0, 0)), 1_500),
    "made-categories": partial(_made, _categories, 2_000),
    "made-near": partial(_made, partial(_normal, (6, 0), 0.8, (1.2, 0)), 400),
    "made-rare": partial(_made, partial(_normal, (8, 2), 2.0, (4.0, 0)), TRAINED),
    "made-classes": partial(_made, partial(_normal, (10, 3), 2.5, (0, 0, 0, 0.5, 1)), 1_500),
}
MERGED = ("spambase/5", "magic/5", "wine-3/5", "made-classes/5")

# --- layers, and how each is left out -------------------------------------------------------------


def _even_or_whitened(self: Candidates, mechanism: str, epsilon: float, delta: float) -> Candidate:
    """Stand for `Candidates.best` without pairing and counting."""
    return choose(self.every(mechanism, epsilon, delta))


def _paired_only(self: Candidates, mechanism: str, epsilon: float, delta: float) -> Candidate:
    """Stand for `Candidates.best` without counting: where no pair is released, noise is even."""
    best = _BEST(self, mechanism, epsilon, delta)
    return choose(self.every(mechanism, epsilon, delta)) if best.counted else best


def _plain_penalty(problems: Sequence[Any], noise: Any, *, max_iter: int) -> ChosenPenalty:
    """Return the least ridge that bounds the margin noise by 1/4, as `Shrinkage.lam` does.

    The noise is the mechanism's and that of sampled labels: weight^2 tr(S (C + S/m)) / lam^2.
    """
    del max_iter
    problem = problems[0]
    moment = problem.moment
    noisy = noise.dense(len(moment)) + moment / labels_behind(problem)
    columns = 1 if problem.operator.ndim == 1 else 2
    margin = columns * float(np.sum(moment * noisy)) * problem.operator_weight**2
    lam = max(float(np.sqrt(margin / 0.25)), 1e-4)
    return ChosenPenalty(lam, intercept_only=False, lams=np.array([lam]), risks=np.zeros(1))


def _never_constant(choose_lam: Callable[..., ChosenPenalty]) -> Callable[..., ChosenPenalty]:
    def chosen(*args: Any, **options: Any) -> ChosenPenalty:
        choice = choose_lam(*args, **options)
        if not choice.intercept_only:
            return choice
        lam = float(choice.lams[int(np.argmin(choice.risks))])
        return replace(choice, lam=lam, intercept_only=False)

    return chosen


def _by_formula(
    problem: Any, model: np.ndarray, lam: float, restoration: Restoration
) -> tuple[float, float]:
    """Stand for `optimism_by_trial`: Stein's formula with the shares that were kept."""
    noise, basis = restoration.noise, restoration.basis
    noise = noise if basis is None else noise_in_basis(noise, basis)
    kept = restoration.kept_shares
    optimism = Optimism(problem, noise, labels_behind(problem), kept_shares=kept)
    return optimism.of(problem, model, lam), optimism.error(problem, model, lam)


def _most_likely_link(
    expected: Any, links: Sequence[Any], scores: Any, rows: Any, *, shifted: bool
) -> moderation.Moderated:
    """Stand for the mean over slopes: the most likely slope alone."""
    del expected, scores, rows, shifted
    best = max(links, key=lambda link: link.log_likelihood)
    return moderation.Moderated(best.slope, best.shift - best.shift[0], 0.0)


def _plain_rado_penalty(
    moments: Any, lams: Sequence[float] | None, *, rescaled: bool = False
) -> Any:
    """Stand for `fit_best_penalty`: the ridge that bounds the margin noise by 1/4."""
    noise = moments.noise.dense(len(moments.second)) + moments.second / moments.examples
    lam = max(float(np.sqrt(np.sum(moments.second * noise) / 0.25)), 1e-4)
    return penalties.fit_best_penalty(moments, lams or [lam], rescaled=rescaled)


def _cross_validated(likelihood: Any, *, max_iter: int, seed: int = 0) -> float:
    """Stand for the penalty of largest evidence: that of the best held-out randomised labels."""
    return selection._cross_validated(likelihood, max_iter, np.random.default_rng(seed))  # noqa: SLF001


def _not_thinned(moments: Any, draws: int, rng: np.random.Generator) -> directions.Thinning:
    """Stand for thinning: weights and covariances from the same numbers."""
    del draws, rng
    weights = directions._all_weights(moments, moments.covariances, moments.errors)  # noqa: SLF001
    return directions.Thinning(weights[None], moments.covariances[None])


def _likeliest_weights(
    moments: Any, covariance: np.ndarray, errors: np.ndarray, size: float
) -> np.ndarray:
    """Stand for the average over tau: the most likely one alone."""
    taus = directions._TAUS[:, None] * size**2  # noqa: SLF001
    total = taus * moments.variances + errors
    best = int(np.argmax(-(np.log(total) + covariance**2 / total).sum(axis=1)))
    return np.asarray(covariance / (moments.variances + moments.penalty + errors / taus[best]))


def _discriminants_alone(moments: Any, scores: Any, blend: directions.Blend) -> Any:
    """Stand for the blend of two rules: discriminant analysis of three classes or more too."""
    return directions.linear_scores(moments, scores, replace(blend, ridge_part=0.0))


def _without_sampling(self: Restoration, operator: np.ndarray) -> tuple[np.ndarray, float]:
    """Stand for `Restoration._posterior`: votes of parties are no labels that others could be."""
    features = slice(None, -1 if self.intercept else None)
    signal = restoring.around_centre(operator)[features]
    columns = max(signal.shape[1] - 1, 1)
    energy = np.sum(signal**2, axis=1) / columns
    unit = 1 / signal.shape[1]
    noise = self.white_noise[features]
    return restoring._mean_shares(self.variances, energy, noise, columns, unit)  # noqa: SLF001


@dataclass(frozen=True, eq=False)
class ShrunkInPlace(Restoration):
    """Shrinks as `Restoration` does, without a projection, in the coordinates of the pipeline."""

    white: Restoration | None = None

    @classmethod
    def projecting(cls, problem: Any, noise: Any) -> "ShrunkInPlace":
        """Stand for `Restoration.projecting`."""
        white = Restoration.of(problem, noise)
        return cls(problem.weighted, noise, problem.operator, white=white)

    def __call__(self, operator: np.ndarray) -> np.ndarray:
        """Return the shrunk operator: mu = S B (B^T mu)."""
        with without(LEARNER["projection"]):
            return np.asarray(self.rows.moment @ self.white.basis @ self.white(operator))

    def bounded(self) -> tuple[np.ndarray, Any]:
        """Return the shrunk operator, and what is left of its noise."""
        basis = self.white.basis
        matrix = self.rows.moment @ (basis * self.white.kept_shares) @ basis.T
        return self(self.released), noise_in_basis(self.noise, matrix.T)


def _as_it_is(self: Restoration, operator: np.ndarray, white: np.ndarray) -> np.ndarray:
    """Stand for a projection."""
    del self, operator
    return white


def _no(*_: Any) -> bool:
    return False


def _yes(*_: Any) -> bool:
    return True


Patch = tuple[Any, str, Any]
_LEARNER = factored.FactoredClassifier
# Layers of the owner's noise. "pairing" takes counting with it: counting alone harms.
OWNER: Mapping[str, Sequence[Patch]] = {
    "whitening": [(candidates, "_PENALTIES", ())],
    "pairing": [(Candidates, "best", _even_or_whitened)],
    "counting": [(Candidates, "best", _paired_only)],
}
# Layers of the learner of mean operators. Those without a patch are options of the learner.
LEARNER: Mapping[str, Sequence[Patch]] = {
    "projection": [(Restoration, "_projected", _as_it_is)],
    "shrinking": [],  # the projection alone, and a tuned penalty
    "one-method": [],  # `Shrinkage`, as for parties, in place of projection and shrinking
    "ridge": [(shrinking, "_MARGIN_NOISE", 25.0)],  # of `Shrinkage`: as little as `Restoration` has
    "margin": [(restoring, "_MARGIN_NOISE", 0.25)],  # of `Restoration`: as much as `Shrinkage` has
    "margin2": [(restoring, "_MARGIN_NOISE", 2.5)],
    "exponents": [(restoring, "_EXPONENTS", (0.5,)), (shrinking, "_EXPONENTS", (0.5,))],
    "directions": [(restoring, "_released_directions", lambda v, basis, *_: (v, basis))],
    "tuning": [(factored, "choose_lam", _plain_penalty)],
    "threshold": [(factored, "is_noisy", _yes)],  # always denoised: nothing is ever tuned
    "fallback": [
        (_LEARNER, "_is_constant", _no),
        (_LEARNER, "_may_be_worse", _no),
        (shrinking.Shrinkage, "hides_all_features", property(_no)),
    ],
    "worse": [(_LEARNER, "_may_be_worse", _no)],  # a part of fallback
    "probing": [(evidence, "optimism_by_trial", _by_formula)],
}
VARIANTS = (
    "whitening", "pairing", "counting", "whitening+pairing",
    "projection", "shrinking", "projection+shrinking", "one-method", "exponents", "directions",
    "tuning", "threshold", "fallback", "worse", "probing",
    "projection+shrinking+tuning+fallback+probing",
    "whitening+pairing+one-method", "whitening+pairing+shrinking", "whitening+pairing+projection",
    "whitening+pairing+projection+shrinking",
    "whitening+pairing+projection+shrinking+tuning+fallback+probing",
    "one-method+ridge", "whitening+one-method+ridge", "whitening+exponents+worse",
    "whitening+exponents+worse+directions", "whitening+exponents+worse+threshold",
)  # fmt: skip
# Layers of other learners, by learner.
OTHER_LAYERS: Mapping[str, Mapping[str, Sequence[Patch]]] = {
    "labels": {"moderation": [(moderation, "_nearest_link", _most_likely_link)]},
    "spread": {
        "moderation": [(moderation, "_nearest_link", _most_likely_link)],
        "evidence": [(spread, "choose_lam", _cross_validated)],
    },
    "rados": {
        "moderation": [(moderation, "_nearest_link", _most_likely_link)],
        "label mean": [
            (rado_moments, "expected_share", lambda share, _: float(np.clip(share, 0, 1)))
        ],
        "tuning": [(ridge, "fit_best_penalty", _plain_rado_penalty)],
        "charge": [(penalties, "_CHARGE", 0.0)],
        "fallback": [(ridge, "exceeds_noise", _yes)],
    },
    "moments": {
        "thinning": [(rule, "thinned", _not_thinned)],
        "averaging": [(directions, "_weights", _likeliest_weights)],
        "blend": [(rule, "linear_scores", _discriminants_alone)],
    },
}
PARTS = ("operator", *OTHER_LAYERS, "parties", "sparse", "exact", "gaussian")
PARTY_TABLES = ("magic", "spambase", "mnist-10", "made-wide", "made-classes")
PARTY_EPSILONS = (1.0, 3.0)  # for less than 1, 400 parties are too few
PARTIES, AUXILIARY = 400, 600
OTHERS = ("breast", "transfusion", "wine-red", "magic", "spambase", "wine-3", "made-near",
          "made-wide", "made-classes")  # fmt: skip


@contextmanager
def without(patches: Sequence[Patch]) -> Iterator[None]:
    """Leave layers out."""
    with ExitStack() as stack:
        for where, name, instead in patches:
            stack.enter_context(patch.object(where, name, instead))
        yield


def _patches(layers: Sequence[str], known: Mapping[str, Sequence[Patch]]) -> list[Patch]:
    return [made for layer in layers for made in known.get(layer, ())]


def _without_fallback() -> list[Patch]:
    """Return what leaves the fallback out where a penalty is tuned."""
    never = (factored, "choose_lam", _never_constant(factored.choose_lam))
    return [*LEARNER["fallback"], never]


def _learner(layers: Sequence[str]) -> factored.FactoredClassifier:
    """Return the learner of mean operators without some layers, but for its patches."""
    if "one-method" in layers:
        return _LEARNER(shrink=True)
    alone = "shrinking" in layers
    return _LEARNER(
        project=not (alone and "projection" in layers), shrink="auto" if not alone else False
    )


# --- one cell: a table at an epsilon, one split, all variants -------------------------------------


class OneOwner:
    """Releases of one owner: a new one for each choice of noise that the layers make."""

    def __init__(self, data: Data, epsilon: float, delta: float = 0.0) -> None:
        self.owner = sf.MeanOperator(epsilon, delta, missing="mean", classes=data.classes, map=None)
        self.data = data
        self.made: list[tuple[Candidate, Any]] = []

    def release(self, layers: Sequence[str]) -> Any:
        """Return the release without the owner's layers among ``layers``."""
        with without(_patches(layers, OWNER)):
            chosen = self.owner.choose(self.owner.public(PublicSource(self.data.rows))).best
            for best, release in self.made:
                if _same_noise(best, chosen):
                    return release
            release = self.owner.release(self.data.rows, self.data.labels, ledger=None)
        self.made.append((chosen, release))
        return release


def _same_noise(one: Candidate, other: Candidate) -> bool:
    if (one.mechanism, one.shape is None) != (other.mechanism, other.shape is None):
        return False
    return one.shape is None or np.array_equal(one.shape.matrix, other.shape.matrix)


class Merged:
    """Releases of five owners with one pipeline, whose noise is even whatever the layers."""

    def __init__(self, data: Data, epsilon: float, delta: float = 0.0) -> None:
        dealt = np.array_split(np.arange(len(data.labels)), OWNERS)
        parts = [data.rows.take(pa.array(picked)) for picked in dealt]
        first = sf.MeanOperator(epsilon, delta, missing="mean", classes=data.classes, map=None)
        owner = replace(first, pipeline=first.public_rows(parts[0]).pipeline)
        self.releases = [
            owner.release(part, data.labels[picked], ledger=None)
            for part, picked in zip(parts, dealt, strict=True)
        ]

    def release(self, layers: Sequence[str]) -> Any:
        """Return all releases."""
        del layers
        return self.releases


def figures_of(model: Any, data: Data) -> dict[str, float]:
    """Return accuracy, log loss, and whether the interval of the risk holds it if it is known."""
    constant = float(getattr(model, "intercept_only_", False))
    if not model.gives_probabilities:  # votes of parties give none
        right = float((model.predict(data.test_rows) == data.test_labels).mean())
        return {"accuracy": 100 * right, "constant": constant}
    chances = model.predict_proba(data.test_rows)
    predicted = chances.argmax(axis=1)
    true = np.maximum(chances[np.arange(len(predicted)), data.test_labels], _LEAST_PROBABILITY)
    found = {
        "accuracy": 100 * float((predicted == data.test_labels).mean()),
        "loss": 100 * float(-np.log(true).mean()),
        "constant": constant,
    }
    if data.chances is not None and hasattr(model, "risk_interval_"):
        scores = model.decision_function(data.rows)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        low, high = model.risk_interval_
        risk = -float((data.chances * logs).sum(axis=1).mean())
        found |= {"covered": 100 * float(low <= risk <= high), "width": float(high - low)}
    return found


def operator_cell(key: Key, folder: Path, variants: Sequence[str]) -> dict[str, dict]:
    """Return the figures of the variants of a mean operator; "larger" has the larger class's."""
    part, name, epsilon, split = key
    table, _, merged = name.partition("/")
    data = TABLES[table](folder, split)
    delta = DELTA if part == "gaussian" else 0.0
    owners: OneOwner | Merged = (Merged if merged else OneOwner)(data, epsilon, delta)
    found: dict[str, dict] = {}
    for variant in (SHIPPED, *variants):
        layers = variant.split("+")
        release = owners.release(layers)
        patches = _patches(layers, LEARNER)
        if "fallback" in layers and "tuning" not in layers:
            patches += _without_fallback()
        with without(patches):
            model = _learner(layers).fit_release(release, data.rows)
            found[variant] = figures_of(model, data)
    return found | {"larger": {"accuracy": 100 * data.larger}}


def _numeric(data: Data) -> Data:
    """Return columns scaled by their 2 % and 98 % quantiles to [0, 1], without gaps."""
    both = [
        np.column_stack([column.to_numpy().astype(float) for column in rows.columns])
        for rows in (data.rows, data.test_rows)
    ]
    low, high = np.nanquantile(both[0], [0.02, 0.98], axis=0)
    varying = high > low
    scaled = [
        np.clip(np.nan_to_num((m[:, varying] - low[varying]) / (high - low)[varying]), 0, 1)
        for m in both
    ]
    return replace(data, rows=_table(scaled[0]), test_rows=_table(scaled[1]))


def _fit_other(kind: str, data: Data, epsilon: float) -> Callable[[], Any]:
    """Return what fits a learner anew to one release."""
    if kind in ("labels", "spread"):
        owner = sf.MeanOperator(epsilon, mechanism="response", classes=data.classes)
        release = owner.release(data.rows, data.labels, ledger=None)
        learner = partial(sf.NoisyLabelClassifier, "logistic")
        if kind == "spread":
            learner = sf.SpreadClassifier
        return lambda: learner().fit_release(release, data.rows)
    count = len(data.labels) // 5
    public, private, labels = data.rows.slice(0, count), data.rows.slice(count), data.labels[count:]
    if kind == "moments":
        mechanism = sf.Moments(epsilon, DELTA, standardize=public, classes=data.classes)
        release = mechanism.release(private, labels, ledger=None)
        return lambda: sf.MomentClassifier().fit_release(release)
    mechanism = sf.Rados(epsilon=epsilon, delta=DELTA, unit="record", standardize=public, clip=0.2)
    release = mechanism.release(private, labels, ledger=None)
    return lambda: sf.RadoRidge().fit_release(release, public)


def other_cell(name: str, epsilon: float, split: int, folder: Path, kind: str) -> dict[str, dict]:
    """Return the figures of the variants of another learner."""
    data = _numeric(TABLES[name](folder, split))
    if kind == "rados" and len(data.classes) > 2:
        return {}
    fit = _fit_other(kind, data, epsilon)
    found = {SHIPPED: figures_of(fit(), replace(data, chances=None))}
    for layer, patches in OTHER_LAYERS[kind].items():
        with without(patches):
            found[layer] = figures_of(fit(), replace(data, chances=None))
    return found | {"larger": {"accuracy": 100 * data.larger}}


def exact_cell(name: str, split: int, folder: Path) -> dict[str, dict]:
    """Return the figures of exact labels, of which there is sampling noise alone."""
    data = _numeric(TABLES[name](folder, split))
    unknown = replace(data, chances=None)
    rows, tested = (
        np.column_stack([column.to_numpy() for column in table.columns])
        for table in (data.rows, data.test_rows)
    )
    found = {"larger": {"accuracy": 100 * data.larger}}
    for variant in (SHIPPED, "tuning", "threshold", "projection+threshold+margin2"):
        with without(_patches(variant.split("+"), LEARNER)):
            model = _LEARNER().fit(rows, data.labels)
        found[variant] = figures_of(model, replace(unknown, test_rows=tested))
    return found


def sparse_cell(name: str, epsilon: float, split: int, folder: Path) -> dict[str, dict]:
    """Return the figures of a penalty with a 1-norm, whose weight is always tuned.

    Without projection and shrinking there is often no best model of paired noise, so that the
    solver refuses.
    """
    data = _numeric(TABLES[name](folder, split))
    owners = OneOwner(data, epsilon)
    found = {"larger": {"accuracy": 100 * data.larger}}
    shrunk = [(factored, "Restoration", ShrunkInPlace)]
    variants: Mapping[str, Sequence[Patch]] = {
        SHIPPED: [],
        "tuning": LEARNER["tuning"],
        "projection, shrunk instead": shrunk,
        "fallback": _without_fallback(),
        "projection, shrunk instead, fallback": [*shrunk, *_without_fallback()],
    }
    release = owners.release(())
    for variant, patches in variants.items():
        with without(patches):
            model = _LEARNER(penalty="l1").fit_release(release, data.rows)
        found[variant] = figures_of(model, replace(data, chances=None))
    return found


def party_cell(name: str, epsilon: float, split: int, folder: Path) -> dict[str, dict]:
    """Return the figures of votes of parties as an operator: `Shrinkage` is what is shipped.

    "restoring" takes projection and shrinking of `Restoration`, as for labels, in its place.
    """
    data = _numeric(TABLES[name](folder, split))
    auxiliary, private = data.rows.slice(0, AUXILIARY), data.rows.slice(AUXILIARY)
    table = private.append_column("label", pa.array(data.labels[AUXILIARY:]))
    names = [f"party {row % PARTIES}" for row in range(len(private))]
    table = table.append_column("party", pa.array(names))

    def released(shape: str) -> Any:
        ensemble = sf.PrivateEnsemble(
            epsilon, DELTA, method="operator", noise_shape=shape, classes=data.classes
        )
        return ensemble.release(
            table,
            label="label",
            party="party",
            auxiliary=sf.AuxiliaryRows.read(auxiliary),
            enrolled=PARTIES,
            ledger=None,
        )

    unknown = replace(data, chances=None)
    restored: list[Patch] = [(_LEARNER, "_shrinkage", lambda *_: None)]
    always = [*restored, (factored, "is_noisy", _yes)]
    one = [*always, *LEARNER["projection"], (Restoration, "_posterior", _without_sampling)]
    releases = {shape: released(shape) for shape in ("whitened", "even")}
    variants: Mapping[str, tuple[str, Mapping[str, Any], list[Patch]]] = {
        SHIPPED: ("whitened", {}, []),
        "restoring": ("whitened", {}, restored),
        "shrinking": ("whitened", {"shrink": False}, []),
        "projection+shrinking": ("whitened", {"shrink": False, "project": False}, []),
        "restoring, always": ("whitened", {}, always),
        "restoring, always, projection": ("whitened", {}, [*always, *LEARNER["projection"]]),
        "one denoiser": ("whitened", {}, one),
        "one denoiser, margin": ("whitened", {}, [*one, *LEARNER["margin"]]),
        "one denoiser, margin2": ("whitened", {}, [*one, *LEARNER["margin2"]]),
        "whitening": ("even", {}, []),
    }
    found = {"larger": {"accuracy": 100 * data.larger}}
    for variant, (shape, options, patches) in variants.items():
        with without(patches):
            model = _LEARNER(**options).fit_release(releases[shape], auxiliary)
        found[variant] = figures_of(model, unknown)
    return found


# --- the store, and the run -----------------------------------------------------------------------


def stored(path: Path) -> dict[Key, dict]:
    """Return what was measured before, a line for each cell."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {tuple(key): figures for key, figures in map(json.loads, lines)}


def cell_of(key: Key, asked: argparse.Namespace) -> dict[str, dict]:
    """Return the figures of all variants of one cell."""
    part, name, epsilon, split = key
    if part in ("operator", "gaussian"):
        wanted = asked.variants.split(",") if asked.variants else VARIANTS
        return operator_cell(key, asked.data, wanted)
    if part == "parties":
        return party_cell(name, epsilon, split, asked.data)
    if part == "sparse":
        return sparse_cell(name, epsilon, split, asked.data)
    if part == "exact":
        return exact_cell(name, split, asked.data) if epsilon == 1 else {}
    return other_cell(name, epsilon, split, asked.data, part)


def run(asked: argparse.Namespace) -> None:
    """Measure what is not stored yet, split by split, so that a run can end at any time."""
    done = stored(asked.store)
    asked.store.parent.mkdir(exist_ok=True)
    names = asked.tables.split(",") if asked.tables else [*TABLES, *MERGED]
    others = [name for name in OTHERS if name in names]
    started = time.perf_counter()
    for split in range(asked.first, asked.first + asked.splits):
        tables = {
            "operator": names,
            "gaussian": names,
            "parties": [n for n in PARTY_TABLES if n in names],
        }
        work = [(part, n) for part in asked.parts.split(",") for n in tables.get(part, others)]
        for part, name in work:
            before = time.perf_counter()
            for epsilon in PARTY_EPSILONS if part == "parties" else EPSILONS:
                key = (part, name, epsilon, split)
                if key in done:
                    continue
                cell = cell_of(key, asked)
                if cell:
                    with asked.store.open("a") as file:
                        file.write(json.dumps([key, cell]) + "\n")
            if asked.time:
                print(f"{part:9} {name:16} {time.perf_counter() - before:6.2f} s", flush=True)
        print(f"split {split}: {time.perf_counter() - started:.0f} s in all", flush=True)


# --- what was measured ----------------------------------------------------------------------------


class Cost:
    """Points that a variant loses against everything as shipped, split by split."""

    def __init__(self, cells: Mapping[Key, dict], variant: str, figure: str = "accuracy") -> None:
        sign = -1 if figure == "loss" else 1
        by_split = defaultdict(list)
        for (*_, split), cell in cells.items():
            with_it, without_it = (cell[name].get(figure) for name in (SHIPPED, variant))
            if with_it is not None and without_it is not None:
                by_split[split].append(sign * (with_it - without_it))
        self.means = np.array([np.mean(points) for points in by_split.values()])

    @property
    def mean(self) -> float:
        """The mean over splits of the mean over tables."""
        return float(self.means.mean()) if len(self.means) else float("nan")

    @property
    def two_errors(self) -> float:
        """Two standard errors of the mean."""
        count = len(self.means)
        return 2 * float(self.means.std(ddof=1)) / count**0.5 if count > 1 else float("nan")

    @property
    def sure(self) -> float:
        """What it costs beyond two standard errors."""
        return self.mean - self.two_errors

    def __str__(self) -> str:
        return f"{self.mean:+6.2f} +-{self.two_errors:5.2f}" if len(self.means) else f"{'-':>14}"


def epsilons(cells: Mapping[Key, dict]) -> list[float]:
    """Return the epsilons of some cells."""
    return sorted({key[2] for key in cells})


def chosen_cells(cells: Mapping[Key, dict], tables: Sequence[str], epsilon: float | None) -> dict:
    """Return the cells of some tables, at one epsilon or at all."""
    return {
        key: cell
        for key, cell in cells.items()
        if key[1] in tables and (epsilon is None or key[2] == epsilon)
    }


def fall(cells: Mapping[Key, dict], variant: str, epsilon: float) -> float:
    """Return by how much a variant is below the larger class on near tables, in the mean."""
    near = chosen_cells(cells, KINDS["near"], epsilon).values()
    falls = [cell["larger"]["accuracy"] - cell[variant]["accuracy"] for cell in near]
    return float(np.mean(falls)) if falls else float("nan")


def covered(cells: Mapping[Key, dict], variant: str, epsilon: float | None = None) -> float:
    """Return how often the interval of the risk holds it, in percent."""
    found = [
        cell[variant]["covered"]
        for key, cell in cells.items()
        if "covered" in cell[variant] and epsilon in (None, key[2])
    ]
    return float(np.mean(found)) if found else float("nan")


def print_table(asked: argparse.Namespace) -> None:
    """Print all means, a part of the bench after the other, and write them to a file if asked."""
    last = asked.first + asked.splits
    lines = {k: v for k, v in stored(asked.store).items() if asked.first <= k[3] < last and v}
    rows = []
    for part in PARTS:
        cells = {key: cell for key, cell in lines.items() if key[0] == part}
        if not cells:
            continue
        variants = [name for name in next(iter(cells.values())) if name not in (SHIPPED, "larger")]
        tables = list(dict.fromkeys(key[1] for key in cells))
        splits = len({key[3] for key in cells})
        print(f"\n{part}: {len(tables)} tables, {splits} splits; cost in points of accuracy")
        _print_overall(cells, variants, tables)
        _print_kinds(cells, variants)
        _print_tables(cells, variants, tables)
        rows += _csv_rows(part, cells, variants, tables)
    if asked.csv is not None:
        new = not asked.csv.exists()
        with asked.csv.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([CSV] if new else [])
            writer.writerows((f"{asked.first}-{last - 1}", *row) for row in rows)


def _print_overall(
    cells: Mapping[Key, dict], variants: Sequence[str], tables: Sequence[str]
) -> None:
    heads = ("all", *(f"epsilon {e:g}" for e in epsilons(cells)), "log loss", "covered")
    print(f"{'left out':64}" + "  ".join(f"{head:>14}" for head in heads))
    for variant in (SHIPPED, *variants):
        costs = [Cost(chosen_cells(cells, tables, e), variant) for e in (None, *epsilons(cells))]
        costs.append(Cost(cells, variant, "loss"))
        hold = " ".join(f"{covered(cells, variant, epsilon):6.1f}" for epsilon in epsilons(cells))
        kept = "  stays" if costs[0].sure >= LEAST_MEAN else ""
        print(f"{variant:64}" + "  ".join(f"{cost!s:>14}" for cost in costs) + f"  {hold}{kept}")


def _print_kinds(cells: Mapping[Key, dict], variants: Sequence[str]) -> None:
    present = {key[1] for key in cells}
    kinds = {name: tables for name, tables in KINDS.items() if present & set(tables)}
    heads = [f"{name} {epsilon:g}" for name in kinds for epsilon in epsilons(cells)]
    print(f"{'by kind':64}" + "".join(f"{h:>16}" for h in heads) + "  below the larger class")
    for variant in (SHIPPED, *variants):
        costs = [
            Cost(chosen_cells(cells, tables, e), variant)
            for tables in kinds.values()
            for e in epsilons(cells)
        ]
        below = [fall(cells, variant, epsilon) for epsilon in epsilons(cells)]
        marks = "".join("*" if cost.sure >= LEAST_KIND else " " for cost in costs)
        print(
            f"{variant:64}"
            + "".join(f"  {cost!s:>14}" for cost in costs)
            + "".join(f" {value:6.2f}" for value in below)
            + f"  {marks}"
        )


def _print_tables(
    cells: Mapping[Key, dict], variants: Sequence[str], tables: Sequence[str]
) -> None:
    for epsilon in epsilons(cells):
        print(f"{f'by table, epsilon {epsilon:g}':20}{'larger':>7}{'shipped':>8}" + " cost of each")
        for table in tables:
            here = chosen_cells(cells, [table], epsilon)
            if not here:
                continue
            means = [
                np.mean([c[v]["accuracy"] for c in here.values()]) for v in ("larger", SHIPPED)
            ]
            costs = [f"{Cost(here, variant)!s:>14}" for variant in variants]
            print(f"{table:20}{means[0]:7.1f}{means[1]:8.1f}" + "".join(costs))


CSV = (
    "splits", "part", "table", "epsilon", "left out", "count", "accuracy", "cost", "two errors",
    "log loss",
    "cost of log loss", "two errors of it", "covered", "larger class",
)  # fmt: skip


def _csv_rows(
    part: str, cells: Mapping[Key, dict], variants: Sequence[str], tables: Sequence[str]
) -> Iterator[tuple]:
    for table in tables:
        for epsilon in epsilons(cells):
            here = chosen_cells(cells, [table], epsilon)
            for variant in (SHIPPED, *variants) if here else ():
                accuracy, loss = (
                    np.mean([cell[variant].get(figure, np.nan) for cell in here.values()])
                    for figure in ("accuracy", "loss")
                )
                larger = np.mean([cell["larger"]["accuracy"] for cell in here.values()])
                cost, lost = Cost(here, variant), Cost(here, variant, "loss")
                if variant != SHIPPED and not (cost.means.any() or lost.means.any()):
                    continue  # nothing differs from what is shipped
                numbers = (accuracy, cost.mean, cost.two_errors, loss, lost.mean, lost.two_errors)
                yield (
                    part, table, f"{epsilon:g}", variant, len(here),
                    *(f"{value:.2f}".replace("nan", "") for value in numbers),
                    f"{covered(here, variant):.0f}".replace("nan", ""), f"{larger:.2f}",
                )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="the folder with the public data sets")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first split")
    parser.add_argument("--tables", help="default: all")
    parser.add_argument("--variants", help="of the mean operator; default: all")
    parser.add_argument("--parts", default=",".join(PARTS[:-1]), help="gaussian: delta = 1e-6")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--time", action="store_true", help="print the seconds of each table")
    parser.add_argument("--table", action="store_true", help="print what is stored")
    parser.add_argument("--csv", type=Path, help="add what is printed to this file too")
    asked = parser.parse_args(arguments)
    if asked.table:
        print_table(asked)
        return
    warnings.simplefilter("ignore")
    factored.warn_of_doubts = lambda _: None  # words for the user: no prediction depends on them
    run(asked)


if __name__ == "__main__":
    main(sys.argv[1:])
