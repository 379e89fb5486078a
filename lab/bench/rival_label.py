"""Methods that protect labels of public rows, on one split: rivals by numpy, ours by releases.

Rivals' linear models are logistic regressions on the rows of our public pipeline; each may have
several settings, of which the best is taken in hindsight. Ours have one setting.

- response: labels flipped with probability q = 1 / (1 + e^epsilon), and the likelihood of flipped
  labels maximised (forward correction: Patrini et al. 2017; Warner 1965).
- lp-2st: half of the labels by randomised response, a model of them, and the other half by
  randomised response with that prior, RRTop-k (Ghazi et al. 2021, Algorithms 2 and 3): where the
  model is surer than e^epsilon / (1 + e^epsilon), its label is taken and the true one not used.
- alibi: Laplace noise of scale 2 / epsilon on one-hot labels, turned into soft labels by Bayes with
  the model's own predictions as the prior (Malek et al. 2021), for a linear model.
- response, trees: boosted trees on flipped labels as they are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier

from suffice.learner.noisy_labels import NoisyLabelClassifier
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.owner.mean_operator import MeanOperator
from suffice.papers.reproduction import Split
from suffice.tables.pipeline import most_outputs

__all__ = ["METHODS", "LabelSplit", "flip_probability", "laplace_scale", "top_choice"]

DELTA = 1e-6
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_LEAVES = (4, 15, 31)
_ROUNDS = 4  # in which soft labels follow the model, and the model them
_UNCLIPPED = 2.0**299
_PRODUCTS, _MOST_PRODUCTS = "ranks+polynomial:2", 300

Predictions = Iterator[tuple[str, int, np.ndarray]]  # setting, draw, probabilities of class 1


def flip_probability(epsilon: float) -> float:
    """Return how often a label is flipped."""
    return 1 / (1 + float(np.exp(epsilon)))


def laplace_scale(epsilon: float) -> float:
    """Return the scale of noise on one-hot labels, which move by 2 in the 1-norm."""
    return 2 / epsilon


def top_choice(prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return where the likelier class of a prior is surer than a randomised label."""
    return np.maximum(prior, 1 - prior) > 1 - flip_probability(epsilon)


@dataclass(frozen=True, eq=False)
class LabelSplit:
    """Public rows with private labels, and test rows."""

    table: pa.Table
    labels: np.ndarray
    test_table: pa.Table
    test_labels: np.ndarray

    @classmethod
    def of(cls, data: Split) -> "LabelSplit":
        """Take all training rows as public."""
        return cls(data.rows, data.labels, data.test_rows, data.test_labels)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows, standardised, with a constant and not clipped."""
        pipeline = MeanOperator(1.0, missing="mean").public_rows(self.table).pipeline
        free = replace(pipeline, bound=_UNCLIPPED, intercept=1.0)
        return design_matrix(self.table, free), design_matrix(self.test_table, free, new=True)


def _flipped(labels: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(len(labels)) < flip_probability(epsilon), 1 - labels, labels)


def _fit_soft(rows: np.ndarray, soft: np.ndarray, penalty: float, flip: float = 0.0) -> np.ndarray:
    """Return the logistic regression of soft labels that were flipped with probability ``flip``."""

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        share = expit(rows @ theta)
        flipped = np.clip(flip + (1 - 2 * flip) * share, 1e-12, 1 - 1e-12)
        loss = -np.mean(soft * np.log(flipped) + (1 - soft) * np.log1p(-flipped))
        slopes = (flipped - soft) / (flipped * (1 - flipped)) * (1 - 2 * flip) * share * (1 - share)
        gradient = rows.T @ slopes / len(rows) + penalty * theta
        return float(loss + penalty / 2 * float(theta @ theta)), gradient

    start = np.zeros(rows.shape[1])
    return np.asarray(minimize(objective, start, jac=True, options={"maxiter": 60}).x)


def _response(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    rows, test = data.rows
    flip = flip_probability(epsilon)
    for draw in range(draws):
        noisy = _flipped(data.labels, epsilon, rng)
        for penalty in _PENALTIES:
            theta = _fit_soft(rows, noisy, penalty, flip)
            yield f"penalty {penalty:g}", draw, expit(test @ theta)


def _two_stages(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    rows, test = data.rows
    flip, half = flip_probability(epsilon), len(rows) // 2
    for draw in range(draws):
        noisy = _flipped(data.labels, epsilon, rng)
        for penalty in _PENALTIES:
            first = expit(rows[half:] @ _fit_soft(rows[:half], noisy[:half], penalty))
            # The model predicts flipped labels: the prior of true ones follows from it.
            prior = np.clip((first - flip) / (1 - 2 * flip), 0, 1)
            likelier = (prior > 0.5).astype(float)
            second = np.where(top_choice(prior, epsilon), likelier, noisy[half:])
            theta = _fit_soft(rows, np.concatenate([noisy[:half], second]), penalty)
            yield f"penalty {penalty:g}", draw, expit(test @ theta)


def _alibi(data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    rows, test = data.rows
    scale = laplace_scale(epsilon)
    for draw in range(draws):
        one_hot = np.column_stack([1 - data.labels, data.labels])
        noisy = one_hot + rng.laplace(0, scale, one_hot.shape)
        # The log ratio of the likelihoods of (0, 1) and (1, 0).
        away, close = np.abs(noisy - [1, 0]).sum(axis=1), np.abs(noisy - [0, 1]).sum(axis=1)
        evidence = (away - close) / scale
        for penalty in _PENALTIES:
            prior = np.full(len(rows), 0.5)
            for rounds in range(_ROUNDS):
                soft = expit(evidence + logit(np.clip(prior, 1e-6, 1 - 1e-6)))
                theta = _fit_soft(rows, soft, penalty)
                prior = expit(rows @ theta)
                if rounds in {0, _ROUNDS - 1}:
                    setting = f"penalty {penalty:g}, rounds {rounds + 1}"
                    yield setting, draw, expit(test @ theta)


def _trees(data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    rows, test = data.rows
    for draw in range(draws):
        noisy = _flipped(data.labels, epsilon, rng)
        for leaves in _LEAVES:
            trees = HistGradientBoostingClassifier(
                max_leaf_nodes=leaves, early_stopping=False, random_state=draw
            )
            yield f"leaves {leaves}", draw, trees.fit(rows, noisy).predict_proba(test)[:, 1]


def _operator(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator,
    feature_map: str | None = None,
) -> Predictions:  # fmt: skip
    del rng  # releases draw from the operating system
    mechanism = MeanOperator(epsilon, DELTA, map=feature_map, missing="mean")
    mechanism = replace(mechanism, pipeline=mechanism.public_rows(data.table).pipeline, map=None)
    for draw in range(draws):
        release = mechanism.release(data.table, data.labels, ledger=None)
        model = FactoredClassifier().fit_release(release, data.table)
        yield "", draw, model.predict_proba(data.test_table)[:, 1]


def _operator_of_ranks(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    return _operator(data, epsilon, draws, rng, "ranks")


def _operator_of_products(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Take ranks and their products; nothing of tables with too many columns."""
    if most_outputs(_PRODUCTS, data.rows[0].shape[1] - 1) <= _MOST_PRODUCTS:
        yield from _operator(data, epsilon, draws, rng, _PRODUCTS)


def _noisy_labels(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    del rng
    mechanism = MeanOperator(epsilon, mechanism="response", missing="mean")
    for draw in range(draws):
        release = mechanism.release(data.table, data.labels, ledger=None)
        model = NoisyLabelClassifier().fit_release(release, data.table)
        yield "", draw, model.predict_proba(data.test_table)[:, 1]


Method = Callable[[LabelSplit, float, int, np.random.Generator], Predictions]

METHODS: Mapping[str, Method] = {
    "response": _response,
    "lp-2st": _two_stages,
    "alibi": _alibi,
    "response, trees": _trees,
    "operator": _operator,
    "operator of ranks": _operator_of_ranks,
    "operator of ranks, degree 2": _operator_of_products,
    "noisy labels": _noisy_labels,
}
