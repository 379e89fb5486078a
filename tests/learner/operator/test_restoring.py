"""What is left of a noisy operator: shares, evidence for signal, and models of what is left.

Seeds of data and noise are fixed; what other noise could do is said where it could do anything.
"""

from contextlib import suppress

import numpy as np
import pytest
from scipy import stats

from suffice.errors import OptimisationError
from suffice.learner import denoise
from suffice.learner.denoise import Denoiser, noise_in_basis, white_basis
from suffice.learner.operator import FactoredClassifier
from suffice.models.problem import LOSSES, FactoredProblem
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.release import Covariance


def drowned(rng: np.random.Generator, variance: float, classes: int = 2) -> tuple:
    """Return a problem whose operator is noisy, the noise, and the exact operator."""
    rows = rng.normal(size=(300, 7)) * 2.0 ** -np.arange(7)
    rows[:, -1] = 0.5
    labels = np.sign(rows[:, 0] + 0.3 * rng.normal(size=300) + 0.3)
    if classes > 2:
        labels = np.eye(classes)[np.digitize(rows[:, 0], [-0.5, 0.5])]
    exact = rows.T @ labels / 300
    noise = Covariance("identity", variance)
    noisy = exact + np.sqrt(variance) * rng.normal(size=exact.shape)
    loss = LOSSES["logistic"] if classes == 2 else None
    return FactoredProblem(rows, noisy, loss, intercept=True), noise, exact


@pytest.mark.parametrize("columns", [1, 3])
def test_shares_and_the_chance_of_signal_are_those_of_the_posterior(rng, columns):
    variances, noise = np.sort(rng.uniform(0.01, 1, 5))[::-1], rng.uniform(0.05, 0.2, 5)
    signal = rng.normal(size=(5, columns)) * 0.3
    unit = 1 / (columns + 1)
    energy = np.mean(signal**2, axis=1)
    found = denoise._Found(variances, energy, noise, columns, unit)
    chances, means = [], []
    for q in denoise._EXPONENTS:
        for explained in denoise._EXPLAINED_SHARES:
            prior = variances**q / np.sum(variances**q) * explained * unit
            total = np.sqrt(prior + noise)[:, None]
            chances.append(np.exp(stats.norm.logpdf(signal, scale=total).sum()))
            means.append(prior / (prior + noise))
    assert found.mean_shares == pytest.approx(np.average(means, axis=0, weights=chances))
    nothing = np.exp(stats.norm.logpdf(signal, scale=np.sqrt(noise)[:, None]).sum())
    either = np.mean(chances) + nothing
    assert found.chance_of_signal == pytest.approx(np.mean(chances) / either)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("white", [True, False])
def test_what_is_left_is_nearer_to_the_truth_than_what_was_released(rng, classes, white):
    errors = []
    for _ in range(20):
        problem, noise, exact = drowned(rng, 0.2, classes)
        denoiser = Denoiser.of(problem, noise, white=white)
        turn = denoiser.basis.T if white else np.eye(7)
        left = denoiser(problem.operator)
        errors.append([np.sum((o - turn @ exact) ** 2) for o in (left, turn @ problem.operator)])
    denoised, released = np.mean(errors, axis=0)
    assert denoised < 0.5 * released


def test_both_coordinates_keep_the_same_of_an_operator(rng):
    """An operator of the rows' span goes to white coordinates and back unchanged."""
    problem, noise, _ = drowned(rng, 0.2)
    white, own = (Denoiser.of(problem, noise, white=w) for w in (True, False))
    assert white.basis.T @ own(problem.operator) == pytest.approx(white(problem.operator))
    moved = white.basis.T @ own.left_noise.dense(7) @ white.basis
    assert moved == pytest.approx(white.left_noise.dense(7))
    exact = Denoiser.of(problem, Covariance("identity", 0.0), white=False, sampling=False)
    assert exact(problem.operator) == pytest.approx(problem.operator)
    assert exact.kept_shares == pytest.approx(1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_share_of_what_differs_from_the_centre_is_kept(rng, classes):
    problem, noise, _ = drowned(rng, 0.2, classes)
    denoiser = Denoiser.of(problem, noise)
    before, after = denoiser.basis.T @ denoiser.released, denoiser(denoiser.released)
    signal = denoise.around_centre(before)
    expected = before - ((1 - denoiser.kept_shares) * signal.T).T.reshape(before.shape)
    assert after == pytest.approx(expected)
    if classes > 2:  # what all classes share stays
        assert after.sum(axis=1) == pytest.approx(before.sum(axis=1))


@pytest.mark.parametrize(
    ("sampling", "calibrated", "allowed"),
    [(True, False, "as they are"), (True, True, "calibrated"), (False, False, "votes")],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_ridge_bounds_what_noise_adds_to_a_score(rng, classes, sampling, calibrated, allowed):
    """With H = lam I the noise of a margin is the bound itself, whatever the loss."""
    columns = classes - 1
    denoiser = Denoiser.of(*drowned(rng, 0.2, classes)[:2], sampling=sampling)
    lam = denoiser.ridge(0.5, calibrated=calibrated)
    white = denoiser.rows.in_basis(denoiser.basis).matrix
    left = denoiser.kept_shares**2 * denoiser.white_noise
    assert columns * 0.25 * np.mean(white**2 @ left) / lam**2 == pytest.approx(
        denoise._MARGIN_VARIANCE[allowed]
    )
    assert denoiser.ridge(1.0, calibrated=calibrated) == pytest.approx(2 * lam)


@pytest.mark.parametrize("classes", [2, 3])
def test_directions_that_were_left_out_do_not_hide_the_others(rng, classes):
    """Noise of an owner of few rows: little on the first direction and the intercept only."""
    errors = []
    for _ in range(10):
        problem, _, exact = drowned(rng, 0.0, classes)
        basis = white_basis(problem.rows, intercept=True)[1]
        deviations = np.array([0.2, 60.0, 60.0, 60.0, 60.0, 60.0, 0.1])  # along B^T x
        root = np.linalg.inv(basis.T) @ np.diag(deviations)
        noise = Covariance("factor", 1.0, root)
        noisy = exact + root @ rng.normal(size=exact.shape)
        problem = problem.with_operator(noisy)
        restoration = Denoiser.of(problem, noise)
        assert restoration.basis.shape == (7, 2)
        assert len(restoration.variances) == 1
        assert restoration.leaves_most_out
        white = restoration.basis.T @ exact
        errors.append(np.sum((restoration(noisy) - white) ** 2) / np.sum(white**2))
    assert np.mean(errors) < 0.3


def test_the_chance_of_being_worse_is_that_of_operators_drawn_around_the_restored_one(rng):
    """100,000 draws of what the labels may be: within 0.01, six standard errors."""
    problem, noise, _ = drowned(rng, 0.3)
    restoration = Denoiser.of(problem, noise)
    restored = restoration(problem.operator)
    rows = problem.rows.matrix @ restoration.basis
    model = restored.copy()
    model[-1] -= 0.2 * np.sign(restored[-1])
    differs = rows @ model * np.sign(restored[-1]) < 0
    deviations = np.sqrt(restoration.kept_shares * restoration.white_noise)
    drawn = restored + deviations * rng.normal(size=(100_000, len(restored)))
    gains = -np.sign(restored[-1]) * drawn @ rows[differs].sum(axis=0)
    chance = restoration.chance_of_worse(model, restored)
    assert 0.05 < chance < 0.95
    assert chance == pytest.approx(np.mean(gains < 0), abs=0.01)
    constant = np.zeros_like(restored)
    constant[-1] = restored[-1]
    assert restoration.chance_of_worse(constant, restored) == 0


def test_a_doubtful_model_is_given_up_only_where_most_directions_are_left_out(monkeypatch):
    local = np.random.default_rng(4)
    labels = (local.random(350) < 0.2).astype(int)
    rows = local.normal(size=(350, 12)) + 2.0 * labels[:, None]
    release = MeanOperator(epsilon=0.3, map=None).release(rows, labels, ledger=None)

    def is_constant(chance: float, *, most: bool) -> bool:
        monkeypatch.setattr(Denoiser, "chance_of_worse", lambda *_: chance)
        monkeypatch.setattr(Denoiser, "leaves_most_out", most)
        return FactoredClassifier().fit_release(release, rows).intercept_only_

    assert is_constant(1.0, most=True)
    assert is_constant(1.0, most=False) == is_constant(0.0, most=True)


def test_other_settings_learn_from_few_rows_too():
    """Clusters are 5 deviations apart. Once a 1-norm found no model, and others followed noise."""
    local = np.random.default_rng(3)
    labels = (local.random(400) < 0.45).astype(int)
    rows = local.normal(size=(400, 6)) + 2.0 * labels[:, None]
    rights, solved = [], 0
    for _ in range(5):  # noise spoils about 1 of 200 releases
        release = MeanOperator(epsilon=0.3, map=None).release(rows, labels, ledger=None)
        assert release.noise.form == "factor"
        model = FactoredClassifier(lam=0.1).fit_release(release, rows)
        rights.append(np.mean(model.predict(rows) == labels))
        with suppress(OptimisationError):
            model = FactoredClassifier(penalty="l1").fit_release(release, rows)
            solved += bool(np.isfinite(model.theta_).all())
    assert np.median(rights) > 0.8
    assert solved >= 3


@pytest.mark.parametrize("form", ["identity", "diagonal", "factor"])
def test_noise_has_the_same_size_in_other_coordinates(rng, form):
    array = {"identity": None, "diagonal": rng.random(4), "factor": rng.normal(size=(4, 4))}[form]
    noise, basis = Covariance(form, 0.3, array), rng.normal(size=(4, 3))
    expected = basis.T @ noise.dense(4) @ basis
    assert noise_in_basis(noise, basis).dense(3) == pytest.approx(expected)


def test_few_rows_and_much_noise_lose_little_against_the_larger_class():
    """Before, the sign of the intercept was wrong in a fifth of such releases: 6 points lost."""
    local = np.random.default_rng(5)
    losses = []
    for _ in range(30):
        rows = local.normal(size=(300, 4))
        labels = (local.random(300) < 0.25).astype(int)
        release = MeanOperator(epsilon=0.1, map=None).release(rows, labels, ledger=None)
        model = FactoredClassifier().fit_release(release, rows)
        losses.append(max(np.mean(labels == 0) - np.mean(model.predict(rows) == labels), 0.0))
    assert np.mean(losses) < 0.02


def test_a_penalty_of_ones_own_or_another_one_is_in_the_pipelines_coordinates(rng):
    rows = rng.normal(size=(200, 3))
    release = MeanOperator(0.5, 1e-6, "gaussian", map=None).release(
        rows, (rows[:, 0] > 0) * 1, ledger=None
    )
    models = [
        FactoredClassifier(**options).fit_release(release, rows)
        for options in ({}, {"lam": 0.1}, {"penalty": "l1"}, {"denoise": False})
    ]
    white = [[d.white for d in model._evidence.denoisers] for model in models]
    assert white == [[True], [False], [False], []]


def test_directions_of_another_sample_of_rows_are_found(rng):
    """An owner's principal components are nearly those of all rows, and the rest is drowned."""
    problem, _, exact = drowned(rng, 0.0)
    basis = white_basis(problem.rows, intercept=True)[1]
    turn = np.eye(7)
    turn[:6, :6] = np.linalg.qr(np.eye(6) + 0.02 * rng.normal(size=(6, 6)))[0]
    deviations = np.array([0.05, 0.05, 1e4, 1e4, 1e4, 1e4, 0.05])
    root = np.linalg.inv(basis.T) @ turn @ np.diag(deviations)
    noise = Covariance("factor", 1.0, root)
    noisy = exact + root @ rng.normal(size=7)
    restoration = Denoiser.of(problem.with_operator(noisy), noise)
    assert restoration.basis.shape == (7, 3)
    assert restoration.white_noise == pytest.approx(np.full(3, 0.05**2), rel=1e-3)
    moments = restoration.basis.T @ problem.rows.moment @ restoration.basis
    assert moments == pytest.approx(np.eye(3), abs=1e-6)
