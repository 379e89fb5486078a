"""The aggregator: what one party can move, noise of the stated size, budgets, and what is learnt.

Each test of noise holds for all seeds but one of 10^6.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from builders import assert_noise, auxiliary_rows, contributions, random_shares
from suffice.errors import BudgetError, ParameterError, UnitError
from suffice.learner.operator import FactoredClassifier
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import Shape
from suffice.owner.parties.contribution import (
    VOTE,
    AuxiliaryRows,
    PartyContribution,
    from_shares,
    operator_sensitivity,
    operator_weights,
    reach,
    whitened_shape,
)
from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally
from suffice.privacy.events import gaussian_multiplier
from suffice.privacy.guarantee import Budget, Unit
from suffice.releases.codec import decode
from suffice.releases.release import encode

ALARM = 1e-6
AUX = auxiliary_rows()
ROWS = AUX.given
THREE = (0, 1, 2)


def moved(before: np.ndarray, after: np.ndarray, shape: Shape | None) -> float:
    """Return how far the (shaped) integer sums are apart."""
    if shape is not None:
        before, after = shape.apply(before), shape.apply(after)
    return float(np.linalg.norm((after - before).astype(float)))


def total_of(weights: np.ndarray | None, rest: np.ndarray) -> np.ndarray:
    return rest if weights is None else rest + AUX.sums(operator_weights(weights))


# --- what one party can move


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("form", ["whitened", "even"])
def test_replacing_one_party_never_moves_the_sum_by_more_than_is_stated(classes, form):
    shape = whitened_shape(AUX.codes) if form == "whitened" else None
    bound = operator_sensitivity(AUX.codes, shape, classes).l2
    generator, largest = np.random.default_rng(1), 0.0
    lines = 1 if classes == 2 else classes
    for _ in range(300):
        rest = generator.integers(-(2**35), 2**35, (lines, AUX.codes.shape[1]))
        pair = [
            from_shares(random_shares(generator, classes, generator.choice(["hard", "soft"])))
            for _ in "ab"
        ]
        pair[0] = None if generator.random() < 0.2 else pair[0]
        ends = [total_of(weights, rest) for weights in pair]
        largest = max(largest, moved(*ends, shape))
    assert 0 < largest <= bound


def test_rounding_to_a_coarse_shape_is_part_of_what_a_party_can_move():
    """Where a party is worth less than a step, the sum moves by whole steps or not at all."""
    fine = whitened_shape(AUX.codes)
    coarse = Shape(fine.matrix, bits=59)
    bound = operator_sensitivity(AUX.codes, coarse, 2).l2
    without_rounding = 2 * VOTE * AUX.count * reach(AUX.codes, coarse)
    generator, largest = np.random.default_rng(2), 0.0
    for _ in range(300):
        rest = generator.integers(-(2**45), 2**45, (1, AUX.codes.shape[1]))
        ends = [total_of(from_shares(random_shares(generator, 2, "hard")), rest) for _ in "ab"]
        largest = max(largest, moved(*ends, coarse))
    assert without_rounding < largest <= bound


@given(st.data())
def test_no_search_finds_votes_that_move_the_sum_further(data):
    """Votes are drawn adversarially: along a direction, by threshold, or freely."""
    classes = data.draw(st.sampled_from([2, 3, 4]))
    shape = data.draw(st.sampled_from([None, whitened_shape(AUX.codes)]))
    bound = operator_sensitivity(AUX.codes, shape, classes).l2
    z = AUX.codes if shape is None else AUX.codes @ shape.matrix.T
    direction = np.array([data.draw(st.floats(-1, 1)) for _ in range(z.shape[1])])
    towards = (z / np.abs(z).max(axis=0).clip(1e-9)) @ direction
    first, second = data.draw(st.permutations(range(classes)))[:2]
    flips = data.draw(st.sets(st.integers(0, 29), max_size=5))
    positive = (towards > data.draw(st.floats(-0.5, 0.5))) ^ np.isin(np.arange(30), list(flips))
    before, after = np.where(positive, first, second), np.where(positive, second, first)
    rest = np.zeros((1 if classes == 2 else classes, z.shape[1]), dtype=np.int64)
    ends = [total_of(from_shares(np.eye(classes)[codes]), rest) for codes in (before, after)]
    assert moved(*ends, shape) <= bound


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", ["whitened", "even"])
def test_a_constructed_pair_comes_as_far_as_is_stated(classes, form):
    """Rows that are columns of a Hadamard matrix: votes along a column attain the bound."""
    design = hadamard(64)[:, 1:5].astype(float)
    auxiliary = AuxiliaryRows.read(design, intercept=0.0)
    shape = whitened_shape(auxiliary.codes) if form == "whitened" else None
    bound = operator_sensitivity(auxiliary.codes, shape, classes).l2
    votes = (design[:, 2] > 0).astype(int)
    ends = [
        auxiliary.sums(operator_weights(from_shares(np.eye(classes)[codes])))
        for codes in (votes, 1 - votes)
    ]
    assert 0.999 * bound < moved(*ends, shape) <= bound


@pytest.mark.parametrize("form", ["whitened", "even"])
def test_the_reach_is_the_smaller_of_two_bounds(form):
    generator = np.random.default_rng(2)
    for scale in (np.ones(50), np.exp(3 * generator.normal(size=50))):  # even and uneven lengths
        codes = np.rint(generator.normal(size=(50, 4)) * scale[:, None] * 1e4)
        shape = whitened_shape(codes) if form == "whitened" else None
        z = codes if shape is None else codes @ shape.matrix.T / 2**shape.bits
        mean = np.linalg.norm(z, axis=1).mean()
        spectral = np.linalg.norm(z, 2) / np.sqrt(50)
        assert reach(codes, shape) == pytest.approx(min(mean, spectral), rel=1e-9)
        assert reach(codes, shape) >= min(mean, spectral)
    heavy = np.zeros((50, 2))
    heavy[0] = [1e6, 0.0]  # one long row: its mean length is less than its root mean square
    heavy[1:, 1] = 1.0
    assert reach(heavy, None) < np.linalg.norm(heavy, 2) / np.sqrt(50) / 5


def test_whitened_noise_is_never_more_than_even_noise():
    """In every direction, but for the floor of 1e-6, and much less where rows vary little."""
    for classes in (2, 3):
        covariances = [
            PrivateEnsemble(1.0, 1e-5, classes=tuple(range(classes)), noise_shape=noise)
            .procedure(AUX, Enrolled(10))
            .covariance()
            for noise in ("whitened", "even")
        ]
        gap = covariances[1].dense(4) - covariances[0].dense(4)
        assert (
            np.linalg.eigvalsh(gap).min()
            > -1e-5 * np.linalg.eigvalsh(covariances[1].dense(4)).max()
        )
        assert np.trace(covariances[0].dense(4)) < 0.8 * np.trace(covariances[1].dense(4))


# --- noise of the stated size


def operator_noise(ensemble: PrivateEnsemble, draws: int) -> np.ndarray:
    """Return the noise of many releases, in coordinates where it should be standard."""
    total = sum(p.array for p in contributions(4, AUX, len(ensemble.classes)))
    procedure = ensemble.procedure(AUX, Enrolled(8))
    stated = ensemble.guarantees(AUX, enrolled=8)
    exact = total.T * AUX.step / (VOTE * 30 * 8)
    root = np.linalg.cholesky(procedure.covariance().dense(4))
    operators = [procedure.released(total, stated).arrays["mean_operator"] for _ in range(draws)]
    errors = [(operator.reshape(exact.shape) - exact) for operator in operators]
    return np.array([np.linalg.solve(root, error).ravel() for error in errors])


@pytest.mark.parametrize(
    ("options", "classes", "draws"),
    [
        ({"noise_shape": "whitened"}, 2, 1000),
        ({"noise_shape": "whitened"}, 3, 400),
        ({"noise_shape": "even"}, 3, 400),
    ],
)
def test_the_noise_has_the_stated_covariance_and_no_less(options, classes, draws):
    """For all seeds but 6 in 10^7, mostly of correlations; noise that is 10 % off is rejected."""
    ensemble = PrivateEnsemble(0.5, 1e-5, classes=tuple(range(classes)), **options)
    noise = operator_noise(ensemble, draws)
    assert_noise(noise, 1.0, "gaussian")
    pairs = np.corrcoef(noise.T)[np.triu_indices(noise.shape[1], 1)]
    assert np.abs(pairs).max() < stats.norm.isf(ALARM / len(pairs) / 4) / math.sqrt(draws - 3)


@pytest.mark.parametrize(("delta", "law"), [(1e-5, "gaussian"), (0.0, "knorm")])
def test_the_noise_of_votes_is_that_of_one_changed_party(delta, law):
    """One of eight enrolled parties moves 30 rows by sqrt(2 x 30) / 8.

    So for all seeds but one of 10^7; noise that is 10 % off is rejected.
    """
    ensemble = PrivateEnsemble(0.5, delta, "vote-table", classes=THREE)
    parts = contributions(4, AUX, statistic="votes")
    exact = sum(p.array for p in parts) / (VOTE * 8)
    releases = 45 if law == "gaussian" else 90
    noisy_votes = [
        ensemble.aggregate(parts, AUX, enrolled=8, ledger=None).release for _ in range(releases)
    ]
    noise = np.array([(r.arrays["votes"] - exact).ravel() for r in noisy_votes])
    scale = math.sqrt(2 * 30) / 8
    scale *= gaussian_multiplier(0.5, 1e-5) if law == "gaussian" else 1 / 0.5
    variance = scale**2 if law == "gaussian" else (noise.shape[1] + 1) * scale**2
    assert noisy_votes[0].noise.variance == pytest.approx(variance, rel=1e-6)
    assert_noise(noise, scale, law)


def test_replacing_one_party_never_moves_the_votes_by_more_than_sqrt_2n():
    generator, largest = np.random.default_rng(3), 0.0
    for _ in range(100):
        before, after = (from_shares(random_shares(generator, 3, "hard")) for _ in "ab")
        largest = max(largest, float(np.linalg.norm(before - after)))
    assert largest <= VOTE * math.sqrt(2 * 30)
    opposite = from_shares(np.eye(3)[np.zeros(30, int)]) - from_shares(np.eye(3)[np.ones(30, int)])
    assert np.linalg.norm(opposite) == pytest.approx(VOTE * math.sqrt(2 * 30))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("delta", "event"), [(1e-5, "gaussian"), (0.0, "pure")])
def test_the_guarantee_is_per_party_and_never_exceeds_what_was_asked(method, delta, event):
    samples = {"samples": 2} if method == "class-sums" else {}
    ensemble = PrivateEnsemble(1.0, delta, method, classes=THREE, lam=0.1, **samples)
    if method == "average":
        parts = [
            PartyContribution.of_parameters(f"p{i}", np.ones((4, 3)), AUX, classes=THREE, lam=0.1)
            for i in range(3)
        ]
    elif method == "class-sums":
        own = (ROWS[:2], [0, 1])
        parts = [
            PartyContribution.of_records(f"p{i}", *own, AUX, classes=THREE, **samples)
            for i in range(3)
        ]
    else:
        parts = contributions(3, AUX, statistic="votes")
    out = ensemble.aggregate(parts, AUX, enrolled=5, ledger=None)
    promise = out.release.guarantee
    assert promise.unit is Unit.PARTY
    assert promise.event.name == event
    assert 0.999 < promise.epsilon <= 1.0
    assert (promise,) == ensemble.guarantees(AUX, enrolled=5)
    assert "Protects each party" in str(promise)
    assert "the number of enrolled parties" in str(promise)
    assert decode(encode(out.release)) == out.release
    assert (out.accepted, out.absent, out.rejected) == (3, 2, ())


# --- the ledger


def test_a_budget_belongs_to_the_enrolled_parties(tmp_path):
    ledger = Ledger(tmp_path / "l", {"crowd": {Unit.PARTY: Budget(2.0, 1e-5)}})
    ensemble = PrivateEnsemble(1.0, 1e-5, classes=THREE)
    paid = {"enrolled": 5, "ledger": ledger, "dataset": "crowd"}
    first = ensemble.aggregate(contributions(3, AUX), AUX, **paid).release
    assert ensemble.aggregate(contributions(3, AUX)[::-1], AUX, **paid).release == first
    assert ledger.balances()[0].debits == 1
    late = contributions(4, AUX)  # what a party sent decides nothing
    assert ensemble.aggregate(late, AUX, **paid).release == first
    assert ensemble.aggregate(late, AUX, **paid, request="april").release != first
    assert ledger.balances()[0].debits == 2
    with pytest.raises(BudgetError):
        PrivateEnsemble(1.5, 1e-5, classes=THREE).aggregate(contributions(2, AUX), AUX, **paid)
    assert ledger.history()[0].parameters["enrolled"] == 5


def test_another_enrolment_is_another_request(tmp_path):
    ledger = Ledger(tmp_path / "l", {"crowd": {Unit.PARTY: Budget(9.0, 1e-5)}})
    sent = contributions(5, AUX)
    for number, enrolled in enumerate((5, 6, [part.party for part in sent]), start=1):
        PrivateEnsemble(1.0, 1e-5, classes=THREE).aggregate(
            sent, AUX, enrolled=enrolled, ledger=ledger, dataset="crowd"
        )
        assert ledger.balances()[0].debits == number


def test_a_label_release_cannot_be_charged_to_a_party_budget(tmp_path):
    from suffice.owner.mean_operator import MeanOperator

    ledger = Ledger(tmp_path / "l", {"crowd": {Unit.PARTY: Budget(2.0, 1e-5)}})
    with pytest.raises(UnitError):
        MeanOperator(1.0, mechanism="laplace", map=None).release(
            ROWS, np.arange(30) % 2, ledger=ledger, dataset="crowd"
        )


# --- what can be learnt


def crowd(count: int, samples: int, classes: int):
    generator = np.random.default_rng(12)
    truth = generator.normal(size=(4, classes)) * 2

    def draw(n):
        X = generator.normal(size=(n, 4))
        return X, (X @ truth + generator.gumbel(size=(n, classes))).argmax(axis=1)

    return [draw(samples) for _ in range(count)], draw(300)[0], draw(1000)


@pytest.mark.parametrize("classes", [2, 3])
def test_parties_with_different_classifiers_teach_one(classes):
    # with 150 parties the gain of .05 is 11 standard deviations of the noise above .02; with 60, 2
    data, rows, (X, y) = crowd(150, 25, classes)
    auxiliary = AuxiliaryRows.read(rows)
    kinds = [
        LogisticRegression,
        GaussianNB,
        lambda: RandomForestClassifier(5, random_state=0),
    ]
    parts = []
    for i, (own, labels) in enumerate(data):
        model = kinds[i % 3]().fit(own, labels)
        votes = ("hard", "simplex")[i % 2]
        parts.append(
            PartyContribution.of(
                f"p{i}", model, auxiliary, classes=tuple(range(classes)), votes=votes
            )
        )
    out = PrivateEnsemble(8.0, 1e-5, classes=tuple(range(classes))).aggregate(
        parts, auxiliary, enrolled=150, ledger=None
    )
    assert out.accepted == 150
    single = np.mean([kinds[0]().fit(*d).score(X, y) for d in data[:20]])
    model = FactoredClassifier().fit_release(out.release, rows)
    assert model.score(X, y) > single + 0.02
    assert model.to_release().guarantee == out.release.guarantee


@pytest.mark.parametrize("classes", [2, 3])
def test_a_table_of_votes_teaches_any_classifier(classes):
    data, rows, (X, y) = crowd(60, 25, classes)
    auxiliary = AuxiliaryRows.read(rows)
    tally = VoteTally(auxiliary, tuple(range(classes)), Enrolled(60))
    for i, (own, labels) in enumerate(data):
        tally.add([f"p{i}"], LogisticRegression().fit(own, labels).predict(rows)[None])
    ensemble = PrivateEnsemble(20.0, 1e-5, "vote-table", classes=tuple(range(classes)))
    release = ensemble.aggregate(tally, auxiliary, enrolled=60, ledger=None).release
    factored = FactoredClassifier().fit_release(release, rows)
    pate = LogisticRegression().fit(rows, release.arrays["votes"].argmax(axis=1))
    batch = LogisticRegression().fit(
        np.vstack([d[0] for d in data]), np.concatenate([d[1] for d in data])
    )
    assert factored.score(X, y) > batch.score(X, y) - 0.06
    assert pate.score(X, y) > batch.score(X, y) - 0.06


def test_parameters_that_make_no_sense_are_refused():
    for options, words in (
        ({"method": "magic"}, "method"),
        ({"mechanism": "laplace"}, "mechanism"),
        ({"mechanism": "gaussian"}, "delta"),
        ({"noise_shape": "pink"}, "whitened, even"),
        ({"method": "soft", "lam": 0.0}, "lam"),
        ({"method": "average", "lam": -1.0}, "lam"),
    ):
        with pytest.raises(ParameterError, match=words):
            PrivateEnsemble(1.0, **options).guarantees(AUX, enrolled=5)
    with pytest.raises(ParameterError, match="too many parties"):
        PrivateEnsemble(1.0).guarantees(AUX, enrolled=2**22)
    many = AuxiliaryRows.read(np.random.default_rng(0).normal(size=(50_001, 1)))
    with pytest.raises(ParameterError, match="Set a --delta"):
        PrivateEnsemble(1.0, method="vote-table").guarantees(many, enrolled=5)
