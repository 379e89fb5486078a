"""Rivals of lab/bench/rivals.py have the noise that their guarantee needs, and no more."""

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import expit
from scipy.stats import norm

from suffice.privacy.calibrate import gaussian_delta

BENCH = Path(__file__).parents[1] / "lab" / "bench"


@pytest.fixture
def rival(monkeypatch):
    """Return a module of lab/bench/ by its name; none of them stays imported."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if name == "harness" or name.startswith("rival"):
            del sys.modules[name]


@pytest.mark.parametrize("times", [1, 3, 30])
def test_composed_gaussians_cost_what_an_independent_account_says(rival, times):
    multiplier = rival("rival_gaussian").composed_multiplier(1.0, 1e-5, times)
    account = pld.from_gaussian_mechanism(multiplier).self_compose(times)
    assert account.get_epsilon_for_delta(1e-5) == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
def test_the_union_of_corners_uses_all_of_delta(rival, epsilon):
    multiplier = rival("rival_gaussian").union_multiplier(epsilon, 1e-6)
    total = 2 * gaussian_delta(epsilon, 2 * multiplier) + gaussian_delta(epsilon, multiplier)
    assert 0.999e-6 < total <= 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("records", [((1.0, -1.0), (1.0, 1.0)), ((0.0, 1.0), (1.0, 1.0))])
def test_objective_perturbation_keeps_its_guarantee_in_one_dimension(rival, epsilon, records):
    """The density of the minimiser is known there, so that delta is an integral."""
    objective, delta = rival("rival_objective"), 1e-3
    penalty = objective.least_penalty(epsilon)
    sigma = objective.objective_noise(epsilon, delta, penalty)
    shared = np.array([0.5, -1.0, 0.8])  # edges y x of the records that stay

    def density(theta: np.ndarray, row: float, sign: float) -> np.ndarray:
        edges = np.append(shared, sign * row)
        slopes = expit(-np.outer(theta, edges))
        linear = (edges * slopes).sum(axis=1) - penalty * theta
        curvature = (edges**2 * slopes * (1 - slopes)).sum(axis=1) + penalty
        return norm.pdf(linear, scale=sigma) * curvature

    theta = np.linspace(-12, 12, 400_001) * sigma / penalty
    one, other = (density(theta, *record) for record in records)
    step = theta[1] - theta[0]
    assert one.sum() * step == pytest.approx(1, abs=1e-6)
    for p, q in ((one, other), (other, one)):
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() * step <= delta


def test_objective_perturbation_finds_every_minimiser(rival):
    objective, rng = rival("rival_objective"), np.random.default_rng(0)
    rows = rng.normal(size=(200, 3)) / 5
    signs, linear = np.sign(rows[:, 0]), rng.normal(size=(3, 4))
    penalties = np.array([0.05, 2.0, 2.0, 50.0])
    theta = objective.minimise(rows, signs, linear, penalties)
    edges = rows * signs[:, None]
    gradients = penalties * theta + linear - edges.T @ expit(-(edges @ theta))
    assert np.linalg.norm(gradients, axis=0).max() < 1e-6 * 200


def test_pure_objective_perturbation_has_noise_of_mean_length_two_d_over_epsilon(rival):
    objective, rng = rival("rival_objective"), np.random.default_rng(1)
    penalties, width = np.full(2000, 1e6), 4  # so large that determinants cost nothing
    terms = objective.pure_terms(0.5, penalties, width, rng)
    assert np.linalg.norm(terms, axis=0).mean() == pytest.approx(2 * width / 0.5, rel=0.05)


def test_gaussian_terms_have_the_noise_of_their_penalty(rival):
    objective, rng = rival("rival_objective"), np.random.default_rng(1)
    penalties = np.repeat([1.0, 100.0], 4000)
    terms = objective.gaussian_terms(1.0, 1e-6, penalties, 3, rng)
    for penalty in (1.0, 100.0):
        sigma = objective.objective_noise(1.0, 1e-6, penalty)
        assert terms[:, penalties == penalty].std() == pytest.approx(sigma, rel=0.03)


def test_the_public_rate_minimises_its_bound_and_stays_stable(rival):
    descent, rng = rival("rival_descent"), np.random.default_rng(0)
    public = rng.normal(size=(500, 4)) / 10
    noise = descent.GradientNoise(0.1, 1e-6, 30, rng)
    rate = descent.public_rate(noise, 1000, public)

    def bound(time: float) -> float:
        return descent._LENGTH**2 / (2 * time) + time / 30 * 4 * (noise.sigma / 1000) ** 2 / 2

    assert all(bound(30 * rate) <= bound(30 * rate * factor) for factor in (0.5, 0.9, 1.1, 2))
    sure = descent.GradientNoise(100.0, 1e-6, 30, rng)
    largest = np.linalg.eigvalsh(public.T @ public / 500)[-1]
    assert descent.public_rate(sure, 10**6, public) == pytest.approx(8 / largest)


def test_descent_adds_calibrated_noise_in_every_step(rival):
    descent, gaussian = rival("rival_descent"), rival("rival_gaussian")
    rng = np.random.default_rng(2)
    noise = descent.GradientNoise(1.0, 1e-6, 10, rng)
    theta = descent.descend(np.zeros((50, 5)), np.ones(50), noise, rates=(7.0,), draws=4000)
    sigma = 2 * gaussian.composed_multiplier(1.0, 1e-6, 10)
    assert theta.std() == pytest.approx(7 * sigma * math.sqrt(10) / 50, rel=0.02)


def test_adassp_never_moves_further_than_its_sensitivities(rival):
    adassp, rng = rival("rival_adassp"), np.random.default_rng(3)
    most = dict.fromkeys(adassp.SENSITIVITIES, 0.0)
    for width in (2, 3):
        for _ in range(2000):
            rows = rng.normal(size=(4, width))
            rows /= np.linalg.norm(rows, axis=1)[:, None]
            signs = rng.choice([-1.0, 1.0], 4)
            (a, b), (y, z) = rows[:2], signs[:2]
            rest = rows[2:].T @ rows[2:]
            products = [rest + np.outer(x, x) for x in (a, b)]
            least = [np.linalg.eigvalsh(p)[0] for p in products]
            moves = {
                "eigenvalue": abs(least[0] - least[1]),
                "products": np.linalg.norm(products[0] - products[1]),
                "operator": np.linalg.norm(y * a - z * b),
            }
            most = {name: max(most[name], move) for name, move in moves.items()}
    for name, limit in adassp.SENSITIVITIES.items():
        assert most[name] <= limit * (1 + 1e-9)
        assert most[name] > 0.5 * limit


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_labels_are_randomised_as_epsilon_says(rival, epsilon):
    label = rival("rival_label")
    flip = label.flip_probability(epsilon)
    assert math.log((1 - flip) / flip) == pytest.approx(epsilon)
    assert 2 / label.laplace_scale(epsilon) == pytest.approx(epsilon)  # one-hot labels move by 2
    prior = np.array([0.5, 1 - flip - 1e-9, 1 - flip + 1e-9, flip - 1e-9])
    assert label.top_choice(prior, epsilon).tolist() == [False, False, True, True]


def test_a_run_goes_on_where_another_ended_and_pairs_splits(rival, tmp_path, capsys):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(600, 4))
    columns = {f"c{j}": rows[:, j] for j in range(4)}
    labels = (rows[:, 0] + rng.normal(size=600) > 0).astype(np.int8)
    pq.write_table(pa.table({**columns, "label": labels}), tmp_path / "banknote.parquet")
    store = tmp_path / "store.jsonl"
    words = ["--promise", "record", "--data", str(tmp_path), "--sets", "banknote", "--epsilons",
             "3", "--splits", "2", "--store", str(store),
             "--methods", "adassp;descent;moments"]  # fmt: skip
    main = rival("rivals").main
    main([*words, "--draws", "4"])
    first = store.read_text()
    claims = main([*words, "--draws", "8"])
    assert store.read_text().startswith(first)
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    moments = [line for line in lines if line["method"] == "moments"]
    assert [(line["split"], line["draw"]) for line in moments] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    printed = capsys.readouterr().out
    assert "| banknote | 3 |" in printed
    assert "moments: most points below gradient descent" in {claim["name"] for claim in claims}
