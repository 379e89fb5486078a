"""Class ratios of new sets, from sets with known or released proportions."""

import numpy as np
import pytest

from suffice.errors import ParameterError, SufficeError
from suffice.learner.ratio.estimator import ClassRatio
from suffice.owner.proportions.mechanism import LabelProportions

CENTRES = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])


def drawn(rng: np.random.Generator, count: int, shares) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of Gaussian classes at these shares, and their labels."""
    labels = rng.choice(len(shares), size=count, p=shares)
    return CENTRES[labels] + rng.normal(size=(count, 2)), labels


def sets(rng: np.random.Generator, proportions, count: int = 600):
    """Return rows, the set of each, and the labels."""
    parts = [drawn(rng, count, shares) for shares in proportions]
    rows, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return rows, np.repeat(np.arange(len(parts)), count), labels


def counted(bags: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    return np.array([np.bincount(labels[bags == b], minlength=classes) for b in np.unique(bags)])


THREE = [[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7], [0.4, 0.3, 0.3]]


@pytest.mark.parametrize("method", ["mmd", "likelihood"])
@pytest.mark.parametrize("proportions", [[[0.9, 0.1], [0.1, 0.9]], THREE], ids=["two", "three"])
def test_ratios_of_new_sets_are_found_whatever_their_shift(method, proportions, rng):
    rows, bags, labels = sets(rng, proportions)
    classes = len(proportions[0])
    known = counted(bags, labels, classes) / 600
    model = ClassRatio(method=method)
    model.fit_proportions(rows, bags, known, classes=list(range(classes)))
    for shares in (np.full(classes, 1 / classes), np.eye(classes)[0] * 0.7 + 0.3 / classes):
        new, truth = drawn(rng, 600, shares)
        right = np.bincount(truth, minlength=classes) / 600
        assert np.abs(model.quantify(new) - right).sum() < 0.15
    assert model.method_ == method


def test_classify_and_count_would_be_further_off(rng):
    """The best classifier of overlapping classes counts the errors of the majority."""
    rows, bags, labels = sets(rng, [[0.9, 0.1], [0.1, 0.9]])
    model = ClassRatio().fit_proportions(rows, bags, counted(bags, labels, 2) / 600, classes=[0, 1])
    new, truth = drawn(rng, 2000, [0.95, 0.05])
    counts = np.mean(new[:, 0] > 1.25)  # Bayes' rule at even shares
    assert abs(model.quantify(new)[1] - truth.mean()) < abs(counts - truth.mean()) / 2


def test_it_learns_from_a_release_and_its_intervals_hold_the_truth(rng):
    rows, bags, labels = sets(rng, [[0.8, 0.2], [0.2, 0.8]])
    mechanism = LabelProportions(epsilon=1.0, delta=1e-6)
    release = mechanism.release(rows, labels, bags=bags, ledger=None)
    model = ClassRatio(method="mmd").fit_release(release, rows, bags=bags)
    inside = 0
    for _ in range(20):
        new, truth = drawn(rng, 600, [0.4, 0.6])
        low, high = model.interval(new, draws=100)
        inside += low[1] <= truth.mean() <= high[1]
    assert inside >= 16  # at 95 % fewer happen in one run of 3,000
    assert model.condition_ > 0
    with pytest.raises(SufficeError):
        model.fit_release(release, rows[::-1] + 1.0, bags=bags)


def test_plain_labels_are_sets_of_one_class(rng):
    rows, labels = drawn(rng, 900, [0.5, 0.5])
    new, truth = drawn(rng, 900, [0.2, 0.8])
    found = ClassRatio().fit(rows, labels).quantify(new)
    assert found[1] == pytest.approx(truth.mean(), abs=0.06)


def test_several_sets_are_answered_one_by_one(rng):
    rows, labels = drawn(rng, 600, [0.5, 0.5])
    model = ClassRatio(method="mmd").fit(rows, labels)
    one, other = drawn(rng, 300, [0.3, 0.7])[0], drawn(rng, 200, [0.9, 0.1])[0]
    both = model.quantify([one, other])
    assert np.allclose(both, [model.quantify(one), model.quantify(other)])
    assert np.allclose(both.sum(axis=1), 1)
    assert (both >= 0).all()


def test_sets_that_do_not_tell_classes_apart_are_refused(rng):
    rows, bags, _ = sets(rng, [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ParameterError):
        ClassRatio().fit_proportions(rows, bags, [[0.5, 0.5], [0.5, 0.5]], classes=[0, 1])
    with pytest.raises(ParameterError):
        ClassRatio().fit(rows, np.zeros(len(rows)))
