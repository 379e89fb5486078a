"""Randomised labels as a release: the operator derived from them, their order, cost and budget.

The randomness is seeded, so the statistics below are the same in every run.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats

from seeds import seeded
from suffice.errors import (
    BudgetError,
    ForeignRowsError,
    ParameterError,
    ReleaseError,
)
from suffice.learner.operator import FactoredClassifier
from suffice.learner.problem import design_matrix, matching_rows
from suffice.learner.weak import Released, estimate_mean_operator
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.source import PublicSource
from suffice.plain_text import collected_notes
from suffice.privacy.events import Pure
from suffice.privacy.guarantee import Budget, Unit
from suffice.privacy.response import Response
from suffice.releases.codec import decode
from suffice.releases.merge import merge
from suffice.releases.release import Release, encode
from suffice.tables import table

ALARM = 1e-6
rng = np.random.default_rng(6)
X = rng.normal(size=(300, 3)) * [1, 3, 0.5]
TWO = (X[:, 0] + 0.3 * rng.normal(size=300) > 0.5).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
LABELS = {2: TWO, 3: THREE}


def operator(epsilon: float = 1.0, classes: int = 2, **options) -> MeanOperator:
    names = tuple(range(classes))
    return MeanOperator(epsilon=epsilon, mechanism="response", classes=names, **options)


def estimates(classes: int, draws: int) -> tuple[np.ndarray, np.ndarray, list]:
    """Return the mapped rows, the exact operator and what each of many releases says of it."""
    mechanism = operator(classes=classes)
    public = mechanism.public(PublicSource(X, LABELS[classes]))
    procedure = mechanism.choose(public)
    labels = public.source.fold(public.parts(), partial(procedure.accumulator, identified=False))
    promised = procedure.guarantees(labels)
    rows = design_matrix(X, public.rows.pipeline)
    operators = [
        estimate_mean_operator(rows, Released(procedure.draw(labels, promised)))
        for _ in range(draws)
    ]
    signs = 2 * TWO - 1 if classes == 2 else np.eye(3)[THREE]
    return rows, rows.T @ signs / len(rows), operators


def test_the_derived_operator_is_unbiased_with_the_covariance_of_the_formula():
    """C = 4q(1-q)/(1-2q)^2 S/m: 1,200 draws of 4 coordinates; 10 % less is rejected."""
    rows, exact, operators = estimates(2, 1200)
    q = Response.from_epsilon(2, 1.0).matrix[0, 1]
    covariance = 4 * q * (1 - q) / (1 - 2 * q) ** 2 * rows.T @ rows / len(rows) ** 2
    for estimate in operators[:3]:
        assert np.allclose(estimate.noise.dense(4), covariance, rtol=1e-9, atol=1e-12)
    gaps = np.array([estimate.operator for estimate in operators]) - exact
    white = np.linalg.solve(np.linalg.cholesky(covariance), gaps.T)
    assert abs(white.mean()) * math.sqrt(white.size) < stats.norm.isf(ALARM / 2)
    for factor, fits in ((1.0, True), (0.9, False)):
        power = float(np.sum((factor * white) ** 2))
        p_value = 2 * min(stats.chi2.cdf(power, white.size), stats.chi2.sf(power, white.size))
        assert (p_value > ALARM) == fits


def test_the_derived_operator_of_three_classes_is_unbiased_with_the_stated_trace():
    """Per column the stated covariance is a mean over the columns; its trace is exact."""
    _, exact, operators = estimates(3, 300)
    gaps = np.array([estimate.operator for estimate in operators]) - exact
    stated = 3 * np.mean([np.trace(estimate.noise.dense(4)) for estimate in operators])
    error = math.sqrt(2 / (300 * 4))  # of the power of at least four independent coordinates
    assert np.mean(np.sum(gaps**2, axis=(1, 2))) == pytest.approx(stated, rel=5 * error)
    mean = gaps.mean(axis=0) / (gaps.std(axis=0) / math.sqrt(300))
    assert np.abs(mean).max() < stats.norm.isf(ALARM / 24)
    assert np.allclose(gaps.sum(axis=2), 0)  # every answer is one class


def test_without_the_correction_the_operator_would_be_biased():
    rows, exact, _ = estimates(2, 1)
    naive = np.mean(
        [
            rows.T @ (2.0 * operator().release(X, TWO, ledger=None).arrays["answers"] - 1)
            for _ in range(100)
        ],
        axis=0,
    ) / len(rows)
    q = Response.from_epsilon(2, 1.0).matrix[0, 1]
    assert np.allclose(naive, (1 - 2 * q) * exact, atol=0.05)
    assert np.linalg.norm(naive - exact) > 0.3 * np.linalg.norm(exact)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 1e7])
def test_the_cost_is_that_of_the_integer_weights(epsilon, classes):
    release = operator(epsilon, classes).release(X, LABELS[classes], ledger=None)
    weights = Response.from_epsilon(classes, epsilon).weights
    ratio = Fraction(max(weights[0]), min(weights[0]))
    stated = release.guarantee.epsilon
    assert math.log(ratio) <= stated <= epsilon
    assert stated <= math.log(ratio) + 1e-13
    assert release.guarantee.unit is Unit.LABEL
    assert isinstance(release.guarantee.event, Pure)
    assert release.guarantee.delta == 0.0
    assert any("order" in assumption.statement for assumption in release.guarantee.assumptions)
    assert np.array_equal(release.arrays["channel"], Response(weights).matrix)


def test_what_leaves_is_one_byte_per_row_and_nothing_else():
    release = operator().release(X, TWO, ledger=None)
    assert release.kind == "label-responses"
    assert set(release.arrays) == {"answers", "channel"}
    assert release.arrays["answers"].dtype == np.uint8
    assert release.arrays["answers"].shape == (300,)
    assert not np.array_equal(release.arrays["answers"], TWO)
    again = operator().release(X, TWO, ledger=None)
    assert not np.array_equal(release.arrays["answers"], again.arrays["answers"])
    assert decode(encode(release)) == release


def test_answers_belong_to_rows_in_their_order():
    release = operator().release(X, TWO, ledger=None)
    (rows,) = matching_rows(X, [release])
    assert np.array_equal(rows, design_matrix(X, release.pipeline))
    for order in (np.roll(np.arange(300), 1), np.arange(300)[::-1]):
        with pytest.raises(ForeignRowsError, match="order"):
            FactoredClassifier().fit_release(release, X[order])
    sums = MeanOperator(epsilon=1.0, mechanism="laplace", map=None).release(X, TWO, ledger=None)
    FactoredClassifier(lam=1.0).fit_release(sums, X[::-1])  # a sum has no order


def test_answers_do_not_depend_on_how_rows_arrive(monkeypatch):
    """The same private words give the same answers in one batch and in many."""
    answers = []
    for rows in (1 << 16, 40):
        monkeypatch.setattr(table, "BATCH_ROWS", rows)
        with seeded(3):
            answers.append(operator(0.5).release(X, TWO, ledger=None).arrays["answers"])
    np.testing.assert_array_equal(*answers)
    assert 0.2 < (answers[0] != TWO).mean() < 0.6


def test_the_same_request_gets_the_same_answers_and_pays_once(tmp_path):
    """Two sets of answers would give away more than one: the average of many is the labels."""
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.5)})
    first = operator().release(X, TWO, ledger=ledger, dataset="d")
    assert operator().release(X, TWO, ledger=ledger, dataset="d") == first
    assert ledger.balances()[0].spent == pytest.approx(first.guarantee.epsilon)
    with pytest.raises(BudgetError):
        operator().release(X, TWO, ledger=ledger, dataset="d", request="again")
    changed = TWO.copy()
    changed[0] = 1 - changed[0]
    assert operator().release(X, changed, ledger=ledger, dataset="d") == first
    with pytest.raises(BudgetError):  # answers are in the order of the rows: another request
        operator().release(X[::-1], TWO[::-1], ledger=ledger, dataset="d")


def test_it_says_enough_for_a_model():
    release = operator(3.0).release(X, TWO, ledger=None)
    model = FactoredClassifier().fit_release(release, X)
    assert model.score(X, TWO) > 0.85
    assert model.to_release().guarantees == release.guarantees


def test_owners_answers_are_joined_one_after_the_other():
    first = operator().release(X[:100], TWO[:100], ledger=None)
    second = operator(pipeline=first.pipeline).release(X[100:], TWO[100:], ledger=None)
    both = merge([first, second])
    assert np.array_equal(
        both.arrays["answers"], np.concatenate([r.arrays["answers"] for r in (first, second)])
    )
    (rows,) = matching_rows(X, [both])
    assert len(rows) == 300
    with pytest.raises(ForeignRowsError):
        matching_rows(np.vstack([X[100:], X[:100]]), [both])
    other = operator(2.0, pipeline=first.pipeline).release(X[100:], TWO[100:], ledger=None)
    with pytest.raises(ParameterError, match="different rates"):
        merge([first, other])


def test_too_many_classes_for_a_byte_are_refused():
    many = MeanOperator(epsilon=1.0, mechanism="response", classes=tuple(range(257)))
    with pytest.raises(ParameterError, match="at most 256 classes"):
        many.release(X, TWO, ledger=None)


def test_a_file_with_an_answer_of_no_class_or_another_length_is_refused():
    release = operator().release(X, TWO, ledger=None)
    bad = release.arrays["answers"].copy()
    bad[7] = 2
    for answers in (bad, release.arrays["answers"][:-1]):
        with pytest.raises(ReleaseError, match="answers"):
            Release(**{**vars(release), "arrays": {**release.arrays, "answers": answers}})


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("strange", [1, 300])
def test_a_label_of_no_class_is_no_error_after_the_charge(tmp_path, classes, strange):
    labels = LABELS[classes].astype(object)
    labels[:strange] = "nobody"
    ledger = Ledger(tmp_path / "l", {"d": {Unit.LABEL: Budget(2.0)}})
    with collected_notes() as told:
        release = operator(classes=classes).release_whatever_labels(
            X, labels, ledger=ledger, dataset="d", request="r"
        )
    assert release.kind == "label-responses"
    assert set(np.unique(release.arrays["answers"])) == set(range(classes))
    assert [entry.state for entry in ledger.history()] == ["released"]
    counted = f"{strange} of 300 labels are missing or not in the class list."
    assert told == [f"{counted} They count for no class. Only you see this line."]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_label_of_no_class_weighs_nothing(classes):
    """60,000 answers without a label: each class is as likely."""
    rows = np.zeros((60_000, 1))
    labels = np.full(len(rows), -7)
    mechanism = operator(5.0, classes)
    public = mechanism.public(PublicSource(rows, labels, outside="none"))
    procedure = mechanism.choose(public)
    exact = public.source.fold(public.parts(), partial(procedure.accumulator, identified=False))
    counts = np.bincount(procedure.contents(exact)[0]["answers"], minlength=classes)
    expected = len(rows) / classes
    power = float(np.sum((counts - expected) ** 2) / expected)
    assert stats.chi2.sf(power, classes - 1) > ALARM


@pytest.mark.parametrize(
    "matrix",
    [[[0.7, 0.2], [0.3, 0.8]], [[0.5, 0.2, 0.3], [0.3, 0.6, 0.3], [0.2, 0.2, 0.4]]],
)
def test_an_answer_without_a_label_costs_no_more_than_any_other(matrix):
    """Its chances are means over a row of P: within the row's least and largest."""
    response = Response.from_matrix(np.array(matrix))
    chances = np.array([[w / 2**64 for w in column] for column in response.weights]).T
    unknown = chances.mean(axis=1)
    assert np.abs(np.log(unknown[:, None] / chances)).max() <= response.event.bound
