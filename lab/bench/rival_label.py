"""Methods that protect labels of public rows, on one split: rivals by numpy, ours by releases.

Nothing is picked in hindsight: penalties and trees are those of the best likelihood of held-out
randomised labels, which is all that a practitioner has. Linear models are softmax regressions on
the rows of our public pipeline. All of it is for two classes or more.

- response: the label stays with probability e^epsilon / (e^epsilon + K - 1), else it is one of the
  others, and the likelihood of such answers is maximised (forward correction: Patrini et al. 2017;
  Warner 1965). With trees: boosted trees of the answers, and the channel inverted.
- lp-1st: the same answers, learnt as if they were labels (Ghazi et al. 2021, one stage without a
  prior).
- lp-2st: half of the labels by randomised response, a model of them, and the other half by
  randomised response with that model as the prior (Ghazi et al. 2021, Algorithms 2 and 3). All
  answers are then learnt as if they were labels, as published; "corrected" maximises the likelihood
  of each answer by the channel of its row instead. The first model is corrected for the channel, so
  that its prior is one of true labels. Each label is used in one half alone.
- alibi: Laplace noise of scale 2 / epsilon on one-hot labels, of which the likelihood is maximised:
  where the published rounds of soft labels end (Malek et al. 2021), for a linear model.
- kernel operator: `rival_kernel`, by a release.

Those of `LOCAL` also hold where people randomise their own labels, in one round.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
from rival_kernel import chosen_components, kernel_features
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.ensemble import HistGradientBoostingClassifier

import suffice as sf
from suffice.learner.fit import fit
from suffice.learner.noisy_labels import NoisyLabelClassifier
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix
from suffice.owner.mean_operator import MeanOperator
from suffice.papers.reproduction import Split
from suffice.tables.pipeline import most_outputs

__all__ = ["LOCAL", "METHODS", "LabelSplit", "answer_chances", "laplace_scale", "response_channel"]

DELTA = 1e-6
_PENALTIES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of the mean loss; each starts at the one before
_STEPS = 100  # of a softmax regression
_FOLDS = 5  # of which each is held out for regressions, the first for trees
_MOST_FOLDED = 10**7  # cells times classes of a regression: beyond, the first fold alone, for time
_TREES = ((4, 200), (15, 200), (31, 50))  # leaves, and the fewest rows of one
_MOST_TREES, _PATIENCE = 300, 10  # of boosting, and rounds without a better held-out likelihood
_FEWEST_LEAVES = 40  # that the rows of a small table fill
_UNCLIPPED = 2.0**299
_PRODUCTS, _MOST_PRODUCTS = "ranks+polynomial:2", 300

Predictions = Iterator[tuple[str, int, np.ndarray]]  # setting, draw, probabilities (n, K)
Predict = Callable[[np.ndarray], np.ndarray]
Learner = Callable[[np.ndarray, np.ndarray, np.ndarray], Predict]  # rows, answers, channel


# --- how labels are randomised


def top_sizes(prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return how many of its likeliest classes each row answers with.

    The k of the largest chance that the answer is true, e^epsilon / (e^epsilon + k - 1) times the
    prior of the k likeliest classes (Ghazi et al. 2021, Algorithm 3).
    """
    sizes = np.arange(1, prior.shape[1] + 1)
    true = np.exp(epsilon) / (np.exp(epsilon) + sizes - 1)
    return np.asarray((true * np.cumsum(-np.sort(-prior, axis=1), axis=1)).argmax(axis=1) + 1)


def answer_chances(labels: np.ndarray, prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the chance of each answer (n, K), given labels and a prior that is public.

    A label among the k likeliest stays with e^epsilon / (e^epsilon + k - 1), and becomes each other
    of them with 1 / (e^epsilon + k - 1). Any other label is answered by one of the k, evenly
    (Ghazi et al. 2021, Algorithm 2). 1 / k is between the two, so that this costs epsilon.
    """
    sizes = top_sizes(prior, epsilon)[:, None]
    ranks = np.argsort(np.argsort(-prior, axis=1, kind="stable"), axis=1)
    is_top = ranks < sizes
    own = np.arange(prior.shape[1]) == labels[:, None]
    other = 1 / (np.exp(epsilon) + sizes - 1)
    spread = np.where((own & is_top).any(axis=1, keepdims=True), other, 1 / sizes)
    return np.asarray(np.where(own, np.exp(epsilon) * other, spread) * is_top)


def even_prior(rows: int, classes: int) -> np.ndarray:
    """Return the prior that knows nothing: its answers are plain randomised response."""
    return np.full((rows, classes), 1 / classes)


def response_channel(epsilon: float, classes: int) -> np.ndarray:
    """Return the chance of each answer (first axis) given each label, without a prior."""
    return answer_chances(np.arange(classes), even_prior(classes, classes), epsilon).T


def drawn(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one answer per row of chances: a simulation."""
    passed = rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)
    return np.minimum(passed.sum(axis=1), chances.shape[1] - 1)


def laplace_scale(epsilon: float) -> float:
    """Return the scale of noise on one-hot labels, which move by 2 in the 1-norm."""
    return 2 / epsilon


@dataclass(frozen=True, eq=False)
class LabelSplit:
    """Public rows with private labels, and test rows."""

    table: pa.Table
    labels: np.ndarray  # 0 to K - 1
    test_table: pa.Table
    test_labels: np.ndarray

    @classmethod
    def of(cls, data: Split) -> "LabelSplit":
        """Take all training rows as public."""
        return cls(data.rows, data.labels, data.test_rows, data.test_labels)

    @property
    def classes(self) -> int:
        """The number of classes, a public fact of the data set."""
        return int(max(self.labels.max(), self.test_labels.max())) + 1

    def _mapped(self, feature_map: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        pipeline = MeanOperator(1.0, map=feature_map, missing="mean").public_rows(self.table)
        free = replace(pipeline.pipeline, bound=_UNCLIPPED, intercept=1.0)
        return design_matrix(self.table, free), design_matrix(self.test_table, free, new=True)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Training and test rows, standardised, with a constant and not clipped."""
        return self._mapped()

    @cached_property
    def kernel(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Kernel components of the ranks of training and test rows, and their variances."""
        return kernel_features(*self._mapped("ranks"))


# --- learners of answers, tuned by held-out answers


def fit_softmax(
    rows: np.ndarray, evidence: np.ndarray, penalty: float, start: np.ndarray | None = None
) -> np.ndarray:
    """Return theta (d, K) of the largest mean of log sum_c evidence_ic p_c(x_i), penalised.

    ``evidence`` is the likelihood of what was seen of row i, given each class: a row of the channel
    for an answer, of the identity for a label. The last column is a constant, without a penalty.
    """
    shape = (rows.shape[1], evidence.shape[1])
    weights = np.full((shape[0], 1), penalty)
    weights[-1] = 0

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        shares = softmax(rows @ theta, axis=1)
        joint = evidence * shares
        total = np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        gradient = rows.T @ (shares - joint / total) / len(rows) + weights * theta
        loss = -np.log(total).mean() + (weights * theta**2).sum() / 2
        return float(loss), gradient.ravel()

    first = np.zeros(shape) if start is None else start
    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B",
                     options={"maxiter": _STEPS, "ftol": 1e-7})  # fmt: skip
    return np.asarray(found.x.reshape(shape))


def tuned_softmax(rows: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Return the regression with the penalty of the best held-out likelihood, fold by fold."""
    likelihoods = np.zeros(len(_PENALTIES))
    is_large = rows.size * evidence.shape[1] > _MOST_FOLDED
    for fold in range(1 if is_large else _FOLDS):
        held_out = np.arange(len(rows)) % _FOLDS == fold
        theta = None
        for index, penalty in enumerate(_PENALTIES):
            theta = fit_softmax(rows[~held_out], evidence[~held_out], penalty, theta)
            shares = softmax(rows[held_out] @ theta, axis=1)
            total = (evidence[held_out] * shares).sum(axis=1)
            likelihoods[index] += np.log(np.maximum(total, np.finfo(float).tiny)).sum()
    return fit_softmax(rows, evidence, _PENALTIES[int(likelihoods.argmax())])


def linear(rows: np.ndarray, answers: np.ndarray, channel: np.ndarray) -> Predict:
    """Learn answers through their channel by softmax regression."""
    theta = tuned_softmax(rows, channel[answers])
    return lambda new: np.asarray(softmax(new @ theta, axis=1))


def trees(rows: np.ndarray, answers: np.ndarray, channel: np.ndarray) -> Predict:
    """Learn answers by boosted trees; settings and number are those of the best held-out loss."""
    held_out = np.arange(len(rows)) % _FOLDS == 0
    learnt, labels = rows[~held_out], answers[~held_out]
    known = held_out & np.isin(answers, labels)  # a class that is held out alone cannot be judged
    boosting = partial(HistGradientBoostingClassifier, random_state=0)
    best, chosen = -np.inf, {}
    for leaves, fewest in _TREES:
        held = min(fewest, max(1, len(rows) // _FEWEST_LEAVES))
        setting = {"max_leaf_nodes": leaves, "min_samples_leaf": held}
        tried = boosting(**setting, max_iter=_MOST_TREES, early_stopping=True,
                         n_iter_no_change=_PATIENCE)  # fmt: skip
        tried.fit(learnt, labels, X_val=rows[known], y_val=answers[known])
        scores = np.asarray(tried.validation_score_)
        if scores.max() > best:
            best, chosen = scores.max(), {**setting, "max_iter": max(1, int(scores.argmax()))}
    model = boosting(**chosen, early_stopping=False).fit(rows, answers)

    def predict(new: np.ndarray) -> np.ndarray:
        stated = np.zeros((len(new), len(channel)))
        stated[:, model.classes_] = model.predict_proba(new)
        shares = np.maximum(np.linalg.solve(channel, stated.T).T, 0)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    return predict


# --- rivals


@dataclass(frozen=True, eq=False)
class _Stages:
    """The answers of both halves, in the order of the rows, and the prior that each had."""

    answers: np.ndarray
    prior: np.ndarray

    @classmethod
    def of(
        cls, data: LabelSplit, epsilon: float, rng: np.random.Generator, learner: Learner
    ) -> "_Stages":
        (rows, _), half = data.rows, len(data.labels) // 2
        even = even_prior(half, data.classes)
        first = drawn(answer_chances(data.labels[:half], even, epsilon), rng)
        model = learner(rows[:half], first, response_channel(epsilon, data.classes))
        prior = model(rows[half:])
        second = drawn(answer_chances(data.labels[half:], prior, epsilon), rng)
        return cls(np.concatenate([first, second]), np.vstack([even, prior]))

    def evidence(self, epsilon: float) -> np.ndarray:
        """Return the likelihood of each answer given each class, by the channel of its row."""
        every = np.arange(len(self.answers))
        labels = (np.full(len(every), label) for label in range(self.prior.shape[1]))
        chances = (answer_chances(label, self.prior, epsilon) for label in labels)
        return np.column_stack([chance[every, self.answers] for chance in chances])


def _response(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator,
    *, learner: Learner, corrected: bool = True,
) -> Predictions:  # fmt: skip
    rows, test = data.rows
    prior = even_prior(len(rows), data.classes)
    channel = response_channel(epsilon, data.classes) if corrected else np.eye(data.classes)
    for draw in range(draws):
        answers = drawn(answer_chances(data.labels, prior, epsilon), rng)
        yield "", draw, learner(rows, answers, channel)(test)


def _two_stages(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator, *, learner: Learner
) -> Predictions:
    rows, test = data.rows
    for draw in range(draws):
        stages = _Stages.of(data, epsilon, rng, learner)
        yield "", draw, learner(rows, stages.answers, np.eye(data.classes))(test)


def _corrected_stages(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    rows, test = data.rows
    for draw in range(draws):
        evidence = _Stages.of(data, epsilon, rng, linear).evidence(epsilon)
        yield "", draw, softmax(test @ tuned_softmax(rows, evidence), axis=1)


def _alibi(data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    rows, test = data.rows
    scale, one_hot = laplace_scale(epsilon), np.eye(data.classes)
    for draw in range(draws):
        noisy = one_hot[data.labels] + rng.laplace(0, scale, (len(rows), data.classes))
        # ||noisy - e_c||_1 but for what does not depend on c.
        logs = -(np.abs(noisy - 1) - np.abs(noisy)) / scale
        evidence = np.exp(logs - logs.max(axis=1, keepdims=True))
        yield "", draw, softmax(test @ tuned_softmax(rows, evidence), axis=1)


def _kernel_operator(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    del rng  # releases draw from the operating system
    parts = chosen_components(data.kernel, data.classes, (epsilon, DELTA))
    names = [f"z{j}" for j in range(parts.rows.shape[1])]
    table, test = (pa.table(list(part.T), names) for part in (parts.rows, parts.test))
    pipeline = MeanOperator(epsilon, map=None).public_rows(table).pipeline
    pipeline = replace(pipeline, mean=np.zeros(len(names)), scale=np.ones(len(names)),
                       bound=parts.bound, intercept=parts.intercept)  # fmt: skip
    mechanism = MeanOperator(
        epsilon, DELTA, "gaussian", classes=range(data.classes), pipeline=pipeline
    )
    for draw in range(draws):
        release = mechanism.release(table, data.labels, ledger=None)
        model = FactoredClassifier().fit_release(release, table)
        yield "", draw, model.predict_proba(test)


# --- ours


def _operator(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator,
    *, feature_map: str | None = None,
) -> Predictions:  # fmt: skip
    """Make releases with defaults; nothing of tables with too many products."""
    del rng
    width = data.rows[0].shape[1] - 1
    if feature_map == _PRODUCTS and most_outputs(_PRODUCTS, width) > _MOST_PRODUCTS:
        return
    mechanism = MeanOperator(
        epsilon, DELTA, classes=range(data.classes), map=feature_map, missing="mean"
    )
    for draw in range(draws):
        release = mechanism.release(data.table, data.labels, ledger=None)
        model = FactoredClassifier().fit_release(release, data.table)
        yield "", draw, model.predict_proba(data.test_table)


def _noisy_labels(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator, *, estimator: str
) -> Predictions:
    del rng
    mechanism = MeanOperator(
        epsilon, mechanism="response", classes=range(data.classes), missing="mean"
    )
    for draw in range(draws):
        release = mechanism.release(data.table, data.labels, ledger=None)
        model = NoisyLabelClassifier(estimator).fit_release(release, data.table)
        yield "", draw, model.predict_proba(data.test_table)


def _by_default(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """Release and learn without options: the rule picks the map and the learner."""
    del rng
    promise = {"epsilon": epsilon, "delta": DELTA, "classes": range(data.classes)}
    for draw in range(draws):
        made = sf.release(data.table, data.labels, private="labels", ledger=None, **promise)
        yield "", draw, fit(made, data.table).predict_proba(data.test_table)


def _exact(data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator) -> Predictions:
    """Learn boosted trees from exact labels, which nothing protects: the settings of scikit-learn.

    Epsilon and draws mean nothing here.
    """
    del epsilon, draws, rng
    rows, test = data.rows
    model = HistGradientBoostingClassifier(random_state=0).fit(rows, data.labels)
    yield "", 0, model.predict_proba(test)


def _larger_class(
    data: LabelSplit, epsilon: float, draws: int, rng: np.random.Generator
) -> Predictions:
    """State the class proportions of the exact labels for every row."""
    del epsilon, draws, rng
    counts = np.bincount(data.labels, minlength=data.classes)
    yield "", 0, np.tile(counts / counts.sum(), (len(data.test_labels), 1))


Method = Callable[[LabelSplit, float, int, np.random.Generator], Predictions]

# One more method, such as a rule that picks among ours, is one more entry.
METHODS: Mapping[str, Method] = {
    "response": partial(_response, learner=linear),
    "response, trees": partial(_response, learner=trees),
    "lp-1st": partial(_response, learner=linear, corrected=False),
    "lp-2st": partial(_two_stages, learner=linear),
    "lp-2st, corrected": _corrected_stages,
    "lp-2st, trees": partial(_two_stages, learner=trees),
    "alibi": _alibi,
    "kernel operator": _kernel_operator,
    "operator": _operator,
    "operator of ranks": partial(_operator, feature_map="ranks"),
    "operator of ranks, degree 2": partial(_operator, feature_map=_PRODUCTS),
    "noisy labels, logistic": partial(_noisy_labels, estimator="logistic"),
    "noisy labels": partial(_noisy_labels, estimator="hist-gradient-boosting"),
    "default": _by_default,
    "exact labels": _exact,
    "larger class": _larger_class,
}
LOCAL = ("response", "response, trees", "lp-1st", "noisy labels, logistic", "noisy labels")
