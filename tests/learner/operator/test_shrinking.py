"""What noise left of an operator: the likeliest prior, less error, and models that know of it.

Seeds are fixed, so that nothing here fails by chance; a mean is called equal to its goal within 4.9
standard errors (a p-value of 1e-6 for a fresh seed), and a broken twin must miss by more.
"""

import math

import numpy as np
import pytest

from suffice.errors import ParameterError
from suffice.learner import denoise
from suffice.learner.denoise import Denoiser
from suffice.learner.intervals import Evidence
from suffice.learner.operator import FactoredClassifier
from suffice.learner.penalty import optimism
from suffice.learner.problem import Supervised, factored_problems
from suffice.learner.weak import KnownProportions, OperatorEstimate
from suffice.models.problem import LOSSES, PENALTIES, FactoredProblem
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally
from suffice.releases.release import Covariance

EQUAL = 4.9
PARTIES = 60


def rows_of(rng: np.random.Generator, count: int = 80, width: int = 6) -> np.ndarray:
    """Return correlated rows of uneven variances, an intercept of one half last."""
    rows = rng.normal(size=(count, width)) * 2.0 ** -np.arange(width) + 1.0
    rows[:, 1] += rows[:, 0]
    rows[:, -1] = 0.5
    return rows


def released(
    rng: np.random.Generator, classes: int, variance: float, weights: np.ndarray | None = None
) -> Supervised:
    """Return rows and the noisy operator of labels that depend on them."""
    rows = rows_of(rng)
    noise = Covariance("factor", variance, np.linalg.cholesky(rows.T @ rows / len(rows)))
    columns = 1 if classes == 2 else classes
    labels = np.tanh(rows @ rng.normal(size=(6, columns)))
    if classes > 2:
        labels = np.eye(classes)[labels.argmax(axis=1)]
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    operator = rows.T @ (shares[:, None] * labels)
    operator += noise.array @ rng.normal(size=operator.shape) * math.sqrt(variance)
    operator = operator[:, 0] if classes == 2 else operator
    estimate = OperatorEstimate(operator, noise, tuple(range(classes)))
    return Supervised(rows, estimate, weights)


def denoiser_of(supervision: Supervised, *, intercept: bool = True) -> Denoiser:
    """Return what shrinks the operator as that of votes is."""
    (problem,), noise = factored_problems(
        supervision, LOSSES["logistic"], PENALTIES["l2"], intercept=intercept
    )
    return Denoiser.of(problem, noise, sampling=False)


# --- the coordinates


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 4])
def test_rows_are_white_and_models_mean_the_same(rng, classes, intercept):
    weights = rng.dirichlet(np.ones(80))
    supervision = released(rng, classes, 1e-3, weights)
    denoiser = denoiser_of(supervision, intercept=intercept)
    white = denoiser.rows.in_basis(denoiser.basis).matrix
    assert (white * weights[:, None]).T @ white == pytest.approx(np.eye(white.shape[1]), abs=1e-9)
    if intercept:
        assert white[:, -1] == pytest.approx(1.0)
    model = rng.normal(size=(white.shape[1], 3))
    assert white @ model == pytest.approx(supervision.rows @ (denoiser.basis @ model))


def test_noise_is_stated_along_the_new_coordinates(rng):
    supervision = released(rng, 2, 0.02)
    denoiser = denoiser_of(supervision)
    dense = denoiser.basis.T @ supervision.estimate.noise.dense(6) @ denoiser.basis
    assert denoiser.white_noise == pytest.approx(dense.diagonal())
    assert dense == pytest.approx(0.02 * np.eye(6), abs=1e-9)  # noise like the rows is even there


def test_directions_in_which_no_row_varies_are_left_out(rng):
    supervision = released(rng, 2, 1e-3)
    doubled = np.column_stack([supervision.rows[:, :1], supervision.rows])
    estimate = OperatorEstimate(np.ones(7), Covariance("identity", 1.0), (0, 1))
    denoiser = denoiser_of(Supervised(doubled, estimate))
    assert denoiser.basis.shape == (7, 6)
    assert np.isfinite(denoiser.basis).all()


# --- the prior


def test_everything_is_kept_without_noise_and_nothing_of_noise_alone(rng):
    exact = denoiser_of(released(rng, 3, 1e-14))
    assert exact.kept_shares == pytest.approx(1.0, abs=1e-6)
    silent = Covariance("identity", 0.0)
    estimate = OperatorEstimate(np.ones(6), silent, (0, 1))
    assert denoiser_of(Supervised(rows_of(rng), estimate)).kept_shares == pytest.approx(1)
    drowned = [denoiser_of(released(rng, 3, 1e4)).kept_shares[:-1] for _ in range(30)]
    assert np.median([kept_shares.sum() for kept_shares in drowned]) < 0.5


@pytest.mark.parametrize(("classes", "spread"), [(2, 1 / 3), (4, 3 / 4 / 20)])
def test_the_intercept_keeps_its_own_share(rng, classes, spread):
    """Signal of the features does not say that the classes differ in size."""
    denoiser = denoiser_of(released(rng, classes, 0.1))
    assert denoiser.kept_shares[-1] == pytest.approx(spread / (spread + denoiser.white_noise[-1]))


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_shrinking_is_near_the_best_where_the_prior_is_right(exponent):
    """A fixed share that is a third wrong must be worse than what is estimated."""
    generator = np.random.default_rng(3)
    width, variances = 60, 2.0 ** -np.linspace(0, 8, 60)
    true, noise = variances**exponent, np.full(width, 0.3)
    errors = {"estimated": [], "best": [], "too little": [], "too much": [], "raw": []}
    for _ in range(200):
        signal = generator.normal(size=width) * np.sqrt(true)
        noisy = signal + generator.normal(size=width) * np.sqrt(noise)
        found = denoise._Found(variances, noisy**2, noise, 1, 2 * true.sum())
        kept_shares = found.mean_shares
        best = true / (true + noise)
        shares = {"estimated": kept_shares, "best": best, "raw": 1.0}
        shares |= {"too little": np.minimum(best * 4 / 3, 1), "too much": best * 2 / 3}
        for name, share in shares.items():
            errors[name].append(np.sum((share * noisy - signal) ** 2))
    means = {name: np.mean(values) for name, values in errors.items()}
    # A mean over priors, as sixty numbers make them likely.
    assert means["estimated"] < 1.15 * means["best"]
    assert means["estimated"] < min(means["too little"], means["too much"], means["raw"])


# --- models


def test_steins_term_of_a_shrunk_operator_is_unbiased():
    """The same without ``kept_shares`` is far off."""
    generator = np.random.default_rng(11)
    supervision = released(generator, 2, 1e-12)
    denoiser = denoiser_of(supervision)
    white = denoiser.rows.in_basis(denoiser.basis).matrix
    truth = denoiser.basis.T @ denoiser.released
    noise = Covariance("diagonal", 1.0, np.full(6, 0.05))
    kept_shares = np.array([0.9, 0.7, 0.5, 0.3, 0.1, 0.5])
    problem = FactoredProblem(white, truth, LOSSES["logistic"], intercept=True)
    gaps, errors = [], []
    for _ in range(400):
        noisy = truth + generator.normal(size=6) * math.sqrt(0.05)
        theta = (
            problem.with_operator(kept_shares * noisy).solve(0.3, tol=1e-8, max_iter=500).parameters
        )
        noisy_problem = problem.with_operator(noisy)
        gap = problem.risk(theta)[0] - noisy_problem.risk(theta)[0]
        for found, shares in ((gaps, kept_shares), (errors, None)):
            term = optimism(noisy_problem, theta, 0.3, noise, count=np.inf, kept_shares=shares)[0]
            found.append(gap - term)
    assert abs(np.mean(gaps)) < EQUAL * np.std(gaps) / math.sqrt(400)
    assert abs(np.mean(errors)) > EQUAL * np.std(errors) / math.sqrt(400)


@pytest.mark.parametrize("classes", [2, 3])
def test_intervals_follow_the_noise_through_shrinking_and_back(rng, classes):
    """Against numerical derivatives, from released operator to coefficients; and the shift.

    What all classes share is public: the classifier takes it from the rows.
    """
    supervision = released(rng, classes, 1e-4)
    denoiser = denoiser_of(supervision)
    loss, lam = (LOSSES["logistic"] if classes == 2 else None), 0.2
    noisy_operator = denoiser.basis.T @ denoiser.released
    white_rows = denoiser.rows.in_basis(denoiser.basis)
    problem = FactoredProblem(white_rows, noisy_operator, loss, intercept=True)
    noise = Covariance("diagonal", 1.0, denoiser.white_noise)

    def minimiser(operator: np.ndarray) -> np.ndarray:
        return problem.with_operator(operator).solve(lam, tol=1e-11, max_iter=2000).parameters

    model, step = minimiser(noisy_operator), 1e-5
    shrunk = minimiser((denoiser.kept_shares * noisy_operator.T).T)
    variances = np.zeros((len(denoiser.basis), *noisy_operator.shape[1:]))
    for entry in np.ndindex(noisy_operator.shape):
        moved = np.zeros_like(noisy_operator)
        moved[entry] = step
        if classes > 2:
            moved -= moved.mean(axis=1, keepdims=True)
        slope = denoiser.basis @ (minimiser(noisy_operator + moved) - model) / step
        variances += slope**2 * denoiser.white_noise[entry[0]]
    evidence = Evidence([problem], [shrunk], lam, noise, [denoiser])
    assert evidence.deviations(sampling=False) == pytest.approx(np.sqrt(variances), rel=1e-3)
    assert (evidence.deviations(sampling=True) > np.sqrt(variances)).all()
    apart = np.abs(denoiser.basis @ (model - shrunk))
    assert apart.max() > 1e-3
    assert evidence.shift() == pytest.approx(apart, rel=1e-3, abs=1e-5)


def party_release(rng: np.random.Generator, classes: int = 2, method: str = "operator"):
    """Return auxiliary rows and a release of parties that vote by a noisy linear rule."""
    X = rng.normal(size=(90, 3))
    auxiliary, declared = AuxiliaryRows.read(X), tuple(range(classes))
    tally = VoteTally(auxiliary, declared, Enrolled(PARTIES))
    rules = rng.normal(size=(PARTIES, 3, classes)) * 0.5 + np.eye(3, classes)
    votes = np.array([(X @ rule).argmax(axis=1) for rule in rules])
    tally.add([f"p{i}" for i in range(PARTIES)], votes)
    ensemble = PrivateEnsemble(20.0, 1e-5, method, classes=declared)
    aggregated = ensemble.aggregate(tally, auxiliary, enrolled=PARTIES, ledger=None)
    return X, aggregated.release


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["operator", "vote-table"])
def test_releases_of_parties_are_shrunk_unless_told_otherwise(rng, classes, method):
    X, release = party_release(rng, classes, method)
    automatic = FactoredClassifier().fit_release(release, X)
    without_shrinking = FactoredClassifier(denoise=False).fit_release(release, X)
    assert [denoiser.sampling for denoiser in automatic._evidence.denoisers] == [False]
    assert automatic.theta_ != pytest.approx(without_shrinking.theta_, rel=1e-3)
    truth = (X @ np.eye(3, classes)).argmax(axis=1)
    assert np.mean(automatic.predict(X) == truth) > 0.75
    low, high = automatic.theta_interval()
    assert (low < automatic.theta_).all()
    assert (automatic.theta_ < high).all()
    assert low.shape == automatic.theta_.shape
    assert automatic.risk_interval_[0] < automatic.risk_ < automatic.risk_interval_[1]
    assert automatic.to_release().details["parameter_bound"] is None
    with pytest.raises(ParameterError, match="denoise=False"):
        automatic.noise_bounds()


@pytest.mark.parametrize("loss", ["square", "matsushita"])
def test_other_losses_learn_from_a_shrunk_operator_too(rng, loss):
    X, release = party_release(rng, 3)
    model = FactoredClassifier(loss=loss).fit_release(release, X)
    assert np.mean(model.predict(X) == (X @ np.eye(3)).argmax(axis=1)) > 0.75


def test_a_penalty_of_ones_own_and_other_penalties(rng):
    X, release = party_release(rng)
    assert FactoredClassifier(lam=0.3).fit_release(release, X).lam_ == 0.3
    sparse = FactoredClassifier(penalty="l1").fit_release(release, X)
    assert not any(denoiser.white for denoiser in sparse._evidence.denoisers)
    bags = np.arange(90) % 3
    shares = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    unknown = KnownProportions(bags, shares, (0, 1), "alternating-min")
    assert not FactoredClassifier().fit_weak(X, unknown)._evidence.denoisers
