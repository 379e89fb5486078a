"""Shaped noise: exact integers, a reach that bounds every row, and the covariance that is stated.

Each of the comparisons below is at a p-value of 1e-6: it would hold for almost any seed.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from builders import read_labels
from suffice.errors import ParameterError
from suffice.owner import mean_operator as exact_sums
from suffice.owner.mean_operator import ExactSums, MeanOperator, NoisySums, Shape, whitening
from suffice.owner.source import PublicSource, Source, labelled_batches
from suffice.privacy.noise import Sensitivity
from suffice.releases.release import Release
from suffice.tables import table

ALARM = 1e-6
ROWS, WIDTH = 40, 5
_rng = np.random.default_rng(3)
X = _rng.normal(size=(ROWS, WIDTH)) @ _rng.normal(size=(WIDTH, WIDTH))
PUBLIC = MeanOperator(epsilon=1.0, clip=1.0, map=None).public_rows(X)
LABELS = {classes: _rng.integers(0, classes, ROWS) for classes in (2, 3)}
del _rng  # tests draw from the fixture


def whitened_shape(lam: float = 0.1) -> Shape:
    rows = PUBLIC.sample()[0]
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    return Shape.of(whitening(values, vectors, lam, 0.25))


FINE = whitened_shape()
COARSE = Shape(FINE.matrix, bits=48)  # a row is worth a few steps: roundings show
LARGE = Shape(2**20 * (1 + np.eye(WIDTH + 1, dtype=np.int64)))  # a row is worth more than before
SHAPES = {"fine": FINE, "coarse": COARSE, "large": LARGE}


def read(labels: np.ndarray, classes: int, shape: Shape | None) -> ExactSums:
    names = tuple(range(classes))
    return read_labels(ExactSums(PUBLIC, names, shape), PUBLIC, labels, names)


def shaped(labels: np.ndarray, classes: int, shape: Shape) -> np.ndarray:
    return shape.apply(read(labels, classes, shape)._sums.result())


def largest_moves(classes: int, shape: Shape) -> tuple[int, float]:
    """Return how far replacing one label moves the shaped integers, at worst: 1-norm and 2-norm."""
    before = shaped(LABELS[classes], classes, shape)
    ones, twos = [], []
    for row in range(ROWS):
        for label in range(classes):
            changed = LABELS[classes].copy()
            changed[row] = label
            moved = shaped(changed, classes, shape) - before
            ones.append(int(np.abs(moved).sum()))
            twos.append(float(np.linalg.norm(moved.astype(float))))
    return max(ones), max(twos)


def exact_norms(matrix: np.ndarray, codes: np.ndarray, bits: int) -> tuple[float, float]:
    """Return the largest 1-norm and 2-norm of A x / 2^bits, in Python's integers."""
    shaped = codes.astype(np.int64).astype(object) @ matrix.T.astype(object)
    l1 = max(sum(abs(v) for v in row) for row in shaped)
    two = max(sum(v * v for v in row) for row in shaped)
    return l1 / 2**bits, math.isqrt(two) / 2**bits


# --- integers


@given(st.data())
def test_shaped_sums_are_those_of_pythons_integers(data):
    width, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    bits = data.draw(st.sampled_from([1, 20]))
    entries = st.integers(-(2**20), 2**20)
    matrix = [[data.draw(entries) for _ in range(width)] for _ in range(width)]
    sums = st.integers(-(2**40), 2**40) | st.integers(-3, 3)
    totals = [[data.draw(sums) for _ in range(width)] for _ in range(columns)]
    shaped = Shape(np.array(matrix), bits).apply(np.array(totals))
    assert shaped.dtype == np.int64
    for k, total in enumerate(totals):
        for j, line in enumerate(matrix):
            product = sum(a * s for a, s in zip(line, total, strict=True))
            assert shaped[k, j] == (2 * product + 2**bits) // 2 ** (bits + 1)


def test_sums_beyond_64_bits_on_the_way_do_not_wrap():
    shaped = Shape(np.array([[2**20]])).apply(np.array([[2**60], [-(2**60)]]))
    assert shaped.tolist() == [[2**60], [-(2**60)]]


def test_the_way_back_undoes_the_shape(rng):
    sums = rng.integers(-(2**40), 2**40, (3, WIDTH + 1))
    back = FINE.apply(sums) @ FINE.back().T
    assert np.abs(back - sums).max() < np.abs(FINE.back()).sum(axis=1).max()  # half a step each


# --- the reach


@pytest.mark.parametrize("name", SHAPES)
def test_the_norms_bound_every_row_and_hardly_more(name, rng):
    shape = SHAPES[name]
    codes = np.rint(PUBLIC.sample()[0] / read(LABELS[2], 2, None).step)
    l1, l2 = shape.norms(codes.T)
    for _ in range(50):  # codes that are off by one step in any coordinate
        off = codes + rng.integers(-1, 2, codes.shape)
        true_one, true_two = exact_norms(shape.matrix, off, shape.bits)
        assert true_one <= l1
        assert true_two <= l2
    true_one, true_two = exact_norms(shape.matrix, codes, shape.bits)
    assert l1 <= true_one * (1 + 1e-6)
    assert l2 <= true_two * (1 + 1e-6)


def test_the_norms_bound_the_worst_codes_that_are_off_by_a_step():
    """With all of one step missing the slack is needed: rows of zeros reach it by half and more."""
    shape = Shape(np.full((3, 3), 2**20) + np.eye(3, dtype=np.int64))
    true_one, true_two = exact_norms(shape.matrix, np.ones((1, 3), dtype=np.int64), shape.bits)
    l1, l2 = shape.norms(np.zeros((3, 1)))
    assert true_one <= l1 <= 2 * true_one
    assert true_two <= l2 <= 2 * true_two


def test_codes_for_the_norms_are_those_of_the_sums():
    """Within the step that the slack allows for; the sums of single rows are the kernel's codes."""
    (batch,) = PUBLIC.table.batches(PUBLIC.roles.features)
    codes = np.rint(PUBLIC.pipeline.transform(batch) / read(LABELS[2], 2, None).step)
    for row in range(ROWS):
        labels = np.zeros(ROWS, dtype=np.int64)
        base = read(labels, 2, None)._sums.result()[0]
        labels[row] = 1
        kernel = (read(labels, 2, None)._sums.result()[0] - base) / 2
        assert np.abs(kernel - codes[row]).max() <= 1
        assert kernel[-1] == codes[row, -1]  # the intercept has no rounding to disagree on


# --- sensitivity


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("classes", [2, 3])
def test_replacing_one_label_never_moves_the_shaped_integers_by_more(classes, name):
    l1, l2 = largest_moves(classes, SHAPES[name])
    reach = read(LABELS[classes], classes, SHAPES[name]).sensitivity
    assert l1 <= reach.l1
    assert l2 <= reach.l2
    assert reach.dimension == (WIDTH + 1) * (1 if classes == 2 else 3)
    if name != "coarse":  # and a row comes close: the bound is not just safe
        assert l1 >= (1 - 1e-6) * reach.l1
        assert l2 >= (1 - 1e-6) * reach.l2


def test_the_shaped_reach_is_that_of_all_rows_however_they_are_cut(monkeypatch):
    """The longest row may be in the first batch, in the last, or in another part."""
    unsplit = read(LABELS[2], 2, FINE)
    monkeypatch.setattr(exact_sums, "_SHAPED_ROWS", 3)
    monkeypatch.setattr(table, "BATCH_ROWS", 7)
    assert read(LABELS[2], 2, FINE).sensitivity == unsplit.sensitivity
    (names, source), parts = ((0, 1), Source(None, LABELS[2])), []
    for batch in labelled_batches(PUBLIC.table, PUBLIC.roles, names, source):
        parts.append(ExactSums(PUBLIC, names, FINE))
        parts[-1].update(batch)
    assert len({part.sensitivity.l2 for part in parts}) > 1
    for order in (parts, parts[::-1]):
        joined = ExactSums(PUBLIC, names, FINE)
        for part in order:
            joined.merge(part)
        assert joined.sensitivity == unsplit.sensitivity


def without_rounding(exact: ExactSums) -> Sensitivity:
    """Return a broken twin of `ExactSums.sensitivity`: u is taken for a linear function of s."""
    l1, l2 = exact._shaped
    factor = 2.0 if exact._columns == 1 else math.sqrt(2.0)
    return Sensitivity(math.ceil(2 * l1), factor * l2, 1)


def without_shape(exact: ExactSums) -> Sensitivity:
    """Return a broken twin: the reach of the rows as they are."""
    return read(LABELS[2 if exact._columns == 1 else 3], len(exact.classes), None).sensitivity


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("name", "broken"), [("coarse", without_rounding), ("large", without_shape)]
)
def test_a_broken_sensitivity_is_caught(classes, name, broken):
    l1, l2 = largest_moves(classes, SHAPES[name])
    reach = broken(read(LABELS[classes], classes, SHAPES[name]))
    assert l1 > reach.l1 or l2 > reach.l2


@pytest.mark.parametrize("shape", [None, COARSE], ids=["plain", "coarse"])
def test_sums_too_large_for_64_bits_are_refused_whatever_the_shape(shape, monkeypatch):
    """A shape that makes small integers of large ones does not make the large ones fit."""
    exact = read(LABELS[2], 2, shape)
    assert exact.sensitivity.l1 > 0
    monkeypatch.setattr(ExactSums, "count", property(lambda _: 2**33))
    with pytest.raises(ParameterError, match="too many rows"):
        _ = exact.sensitivity


# --- noise


@pytest.fixture(scope="module", params=[2, 3])
def release_and_gaps(request) -> tuple[Release, np.ndarray]:
    """Return a shaped release, and the noise of many such, one column of the operator a row."""
    classes = request.param
    exact = read(LABELS[classes], classes, FINE)
    procedure = procedure_of(classes)
    truth = read(LABELS[classes], classes, None)._sums.result() * exact.unit
    drawn = (procedure.contents(exact)[0]["mean_operator"] for _ in range(2400 // classes**2))
    gaps = [operator.reshape(WIDTH + 1, -1).T - truth for operator in drawn]
    return procedure.draw(exact, procedure.guarantees(exact)), np.vstack(gaps)


def procedure_of(classes: int) -> NoisySums:
    """Return the Gaussian procedure of these rows; its shape is that of what it is given."""
    operator = MeanOperator(1.0, 1e-6, "gaussian", tuple(range(classes)), clip=1.0, map=None)
    procedure = operator.choose(operator.public(PublicSource(X, LABELS[classes])))
    assert isinstance(procedure, NoisySums)
    return procedure


def spread_p(values: np.ndarray) -> float:
    """Return the p-value of standard Gaussian values, all of them and each pair of columns."""
    z = [(np.mean(values**2) - 1) * math.sqrt(values.size / 2)]
    pairs = [values[:, i] * values[:, j] for i in range(values.shape[1]) for j in range(i)]
    z += [pair.mean() * math.sqrt(len(values)) for pair in pairs]
    return min(1.0, len(z) * 2 * stats.norm.sf(np.abs(z).max()))


def test_a_shaped_release_has_the_covariance_that_it_states(release_and_gaps):
    release, gaps = release_and_gaps
    assert release.noise.form == "factor"
    root = math.sqrt(release.noise.variance) * release.noise.array
    white = np.linalg.solve(root, gaps.T).T
    assert spread_p(white) > ALARM
    assert spread_p(0.9 * white) < ALARM
    assert spread_p(1.1 * white) < ALARM


def test_even_noise_of_the_same_power_would_be_noticed(release_and_gaps):
    release, gaps = release_and_gaps
    power = np.trace(release.noise.dense(WIDTH + 1)) / (WIDTH + 1)
    assert spread_p(gaps / math.sqrt(power)) < ALARM
