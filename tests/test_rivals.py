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

from suffice.privacy.events import gaussian_delta

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


def _priors(classes: int) -> np.ndarray:
    """Return priors from sure to even, and one with a tie."""
    rng = np.random.default_rng(classes)
    drawn = [rng.dirichlet(np.full(classes, weight), size=40) for weight in (0.05, 0.3, 1.0, 30.0)]
    sure = np.eye(classes)[:1]
    tied = np.array([[0.5, 0.5] + [0.0] * (classes - 2)])
    return np.vstack([*drawn, sure, tied, np.full((1, classes), 1 / classes)])


def _chances(label: ModuleType, prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the chance of each answer, by label, row and answer."""
    codes = (np.full(len(prior), code) for code in range(prior.shape[1]))
    return np.stack([label.answer_chances(code, prior, epsilon) for code in codes])


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_answers_with_a_prior_cost_epsilon_and_no_less(rival, classes, epsilon):
    label, prior = rival("rival_label"), _priors(classes)
    chances = _chances(label, prior, epsilon)
    assert chances.sum(axis=2) == pytest.approx(1)
    high, low = chances.max(axis=0), chances.min(axis=0)
    assert ((high == 0) == (low == 0)).all()  # no answer tells a label for sure
    ratios = np.where(high > 0, high / np.where(low > 0, low, 1), 1).max(axis=1)
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-12)
    # All of epsilon is used wherever the label is used at all: more noise would be a weaker rival.
    used = label.top_sizes(prior, epsilon) > 1
    assert used.any()
    assert not used.all()
    assert ratios[used] == pytest.approx(math.exp(epsilon))
    assert ratios[~used] == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_prior_keeps_as_many_classes_as_make_answers_true_most_often(rival, epsilon):
    label, prior = rival("rival_label"), _priors(5)
    chances, sizes = _chances(label, prior, epsilon), label.top_sizes(prior, epsilon)
    true = np.einsum("lrl,rl->r", chances, prior)
    for size in range(1, 6):
        top = np.sort(prior, axis=1)[:, ::-1][:, :size].sum(axis=1)
        assert (true >= math.exp(epsilon) / (math.exp(epsilon) + size - 1) * top - 1e-12).all()
    assert ((chances > 0).sum(axis=2) == sizes).all()
    # Of two classes one is kept where the prior is surer than a randomised label.
    kept = math.exp(epsilon) / (1 + math.exp(epsilon))
    sure = np.array([0.5, kept - 1e-9, kept + 1e-9])
    two = label.top_sizes(np.column_stack([sure, 1 - sure]), epsilon)
    assert two.tolist() == [2, 2, 1]


@pytest.mark.parametrize("classes", [2, 7])
def test_answers_without_a_prior_are_randomised_response(rival, classes):
    label = rival("rival_label")
    channel = label.response_channel(1.0, classes)
    kept = math.e / (math.e + classes - 1)
    others = (1 - kept) / (classes - 1)
    assert channel == pytest.approx(
        np.full_like(channel, others) + (kept - others) * np.eye(classes)
    )
    assert 2 / label.laplace_scale(0.3) == pytest.approx(0.3)  # one-hot labels move by 2


def test_answers_are_drawn_by_their_chances(rival):
    label, rng = rival("rival_label"), np.random.default_rng(5)
    prior = np.tile([0.4, 0.1, 0.3, 0.2], (40_000, 1))
    chances = label.answer_chances(np.full(40_000, 2), prior, 1.0)
    shares = np.bincount(label.drawn(chances, rng), minlength=4) / 40_000
    assert shares == pytest.approx(chances[0], abs=0.01)


def test_two_stages_use_each_label_once(rival):
    """Another label of one half leaves the other half's answers as they are, for equal noise."""
    label, rng = rival("rival_label"), np.random.default_rng(6)
    rows, labels = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1]})
    data = label.LabelSplit(table, labels, table, labels)

    def stages(changed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        other = label.LabelSplit(table, changed, table, labels)
        found = label._Stages.of(other, 0.5, np.random.default_rng(7), label.linear)
        return found.answers, found.prior

    answers, prior = stages(labels)
    later = labels.copy()
    later[30:] = (later[30:] + 1) % 3
    other_answers, other_prior = stages(later)
    assert (other_prior == prior).all()  # the prior has not seen the second half
    assert (other_answers[:30] == answers[:30]).all()
    assert (prior[:30] == 1 / 3).all()
    evidence = label._Stages(answers, prior).evidence(0.5)
    assert data.classes == 3
    for row in (0, 29, 30, 59):
        for code in range(3):
            chances = label.answer_chances(np.array([code]), prior[[row]], 0.5)
            assert evidence[row, code] == pytest.approx(chances[0, answers[row]])


def test_components_of_a_kernel_are_chosen_for_their_noise(rival):
    kernel, rng = rival("rival_kernel"), np.random.default_rng(8)
    rows = rng.normal(size=(700, 3))
    features = kernel.kernel_features(rows, rows[:50])
    assert features[0].mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert features[0].var(axis=0) == pytest.approx(1)
    assert features[1] == pytest.approx(features[0][:50])
    few, many = (kernel.chosen_components(features, 2, (e, 1e-6)) for e in (0.1, 100.0))
    assert few.rows.shape[1] < many.rows.shape[1]
    lengths = np.linalg.norm(few.rows, axis=1)
    assert (lengths > few.bound).mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_answers_are_learnt_through_their_channel(rival, learner):
    label, rng = rival("rival_label"), np.random.default_rng(9)
    rows = np.column_stack([rng.normal(size=(4000, 2)), np.ones(4000)])
    labels = np.where(rows[:, 0] > 0.3, 0, np.where(rows[:, 1] > 0, 1, 2))
    even = label.even_prior(4000, 3)
    answers = label.drawn(label.answer_chances(labels, even, 2.0), rng)
    predicted = getattr(label, learner)(rows, answers, label.response_channel(2.0, 3))(rows)
    assert (predicted.argmax(axis=1) == labels).mean() > 0.93
    assert predicted[np.arange(4000), labels].mean() > 0.8  # as they are: 0.7 at most


def test_figures_of_many_classes_are_those_of_two_where_there_are_two(rival):
    measure, rng = rival("rival_store").measure, np.random.default_rng(10)
    shares, labels = rng.uniform(size=500), rng.integers(2, size=500)
    both = np.column_stack([1 - shares, shares])
    assert measure(shares, labels) == measure(both, labels)
    three = measure(np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]), np.array([0, 1]))
    assert three["accuracy"] == 0.5
    assert three["log_loss"] == pytest.approx(-(math.log(0.6) + math.log(0.2)) / 2)
    assert three["calibration"] == pytest.approx(abs(1 - 1.2) / 2)


def test_a_table_is_printed_from_the_store_alone(rival, tmp_path, capsys):
    store, main = tmp_path / "store.jsonl", rival("rivals").main
    words = ["--data", str(tmp_path), "--sets", "mixtures-3", "--epsilons", "1,3", "--splits", "2",
             "--rows", "400", "--draws", "1", "--store", str(store)]  # fmt: skip
    methods = "lp-1st;lp-2st;response;operator;kernel operator;noisy labels, logistic"
    claims = main(["--promise", "label", *words, "--methods", methods])
    names = {claim["name"] for claim in claims}
    assert "epsilon 3: many-class sets with LP-2ST a point ahead of the operator" in names
    table = capsys.readouterr().out.partition("accuracy at epsilon")[2]
    before = store.read_text()
    assert main(["--promise", "label", "--table", "--store", str(store)]) == []
    assert capsys.readouterr().out.partition("accuracy at epsilon")[2] == table
    main(["--promise", "local", "--table", "--store", str(store)])
    local = capsys.readouterr().out
    assert "| LP-1ST |" in table
    assert "| LP-1ST |" in local
    assert "| LP-2ST |" in table
    assert "| LP-2ST |" not in local  # it takes two rounds
    assert store.read_text() == before
    (run,) = [line for line in map(json.loads, before.splitlines()) if "commit" in line]
    assert run["machine"].keys() >= {"processor", "python", "numpy", "suffice"}
    assert f"measured at {run['commit']}" in table


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
    moments = [line for line in lines if line.get("method") == "moments"]
    assert [(line["split"], line["draw"]) for line in moments] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    printed = capsys.readouterr().out
    assert "| banknote | 3 |" in printed
    assert "moments: most points below gradient descent" in {claim["name"] for claim in claims}
