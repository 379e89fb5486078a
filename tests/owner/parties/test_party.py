"""A party's side: votes from anything, integers on a public grid, and a file that is no release."""

import hashlib
import stat

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

import suffice
from suffice.engines.sums import lattice_step
from suffice.errors import CorruptFileError, ParameterError, TableError, UnsupportedFileError
from suffice.owner.parties import contribution as auxiliary_module
from suffice.owner.parties.contribution import (
    VOTE,
    AuxiliaryRows,
    PartyContribution,
    encode_part,
    from_codes,
    from_shares,
    operator_weights,
    parameter_radius,
)

_rng = np.random.default_rng(11)
ROWS = _rng.normal(size=(40, 3)) * [4.0, 1.0, 0.2]
AUX = AuxiliaryRows.read(ROWS)
X = _rng.normal(size=(60, 3)) * [4.0, 1.0, 0.2]
del _rng  # tests draw from the fixture
Y = np.digitize(X[:, 0] / 4 + X[:, 1], [-0.5, 0.5])
NAMES = np.array(["low", "mid", "high"])


def operator_by_hand(codes: np.ndarray, votes: np.ndarray, classes: int) -> list[list[int]]:
    """Return sum_i w_i x_i in Python's integers."""
    integers = [[int(v) for v in row] for row in codes]
    signs = [[VOTE * (2 * v - 1) for v in votes]]
    if classes > 2:
        signs = [[VOTE * (v == k) for v in votes] for k in range(classes)]
    width = range(codes.shape[1])
    return [
        [sum(w * row[j] for w, row in zip(ws, integers, strict=True)) for j in width]
        for ws in signs
    ]


# --- votes


@given(hnp.arrays(float, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=st.floats(0, 1)))
def test_shares_keep_their_sum_and_move_by_less_than_one_step(raw):
    raw[:, 0] += raw.sum(axis=1) == 0
    shares = raw / raw.sum(axis=1, keepdims=True)
    weights = from_shares(shares)
    assert weights.dtype == np.int64
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == VOTE).all()
    assert np.abs(weights - shares * VOTE).max() < 1 + 1e-9


def test_hard_votes_are_simplex_votes_at_the_corners():
    codes = np.array([0, 2, 1])
    assert np.array_equal(from_codes(codes, 3), from_shares(np.eye(3)[codes]))


@pytest.mark.parametrize("bad", [[[0.5, 0.6]], [[-0.1, 1.1]], [[np.nan, 1.0]], [[0.0, 0.0]]])
def test_what_is_no_share_of_one_vote_is_refused(bad):
    with pytest.raises(ParameterError, match="must be proportions"):
        from_shares(np.array(bad))


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(5, random_state=0),
        DummyClassifier(),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize("votes", ["hard", "simplex"])
def test_any_classifier_votes_with_its_own_labels(classifier, votes):
    classifier.fit(X, NAMES[Y])
    part = PartyContribution.of("a", classifier, AUX, classes=tuple(NAMES), votes=votes)
    shares = classifier.predict_proba(ROWS)[:, [list(classifier.classes_).index(n) for n in NAMES]]
    if votes == "hard":
        shares = np.eye(3)[[list(NAMES).index(n) for n in classifier.predict(ROWS)]]
    expected = AUX.sums(operator_weights(from_shares(shares)))
    assert np.array_equal(part.array, expected)


def test_a_classifier_without_probabilities_can_vote_hard_only():
    ridge = RidgeClassifier().fit(X, Y)
    assert PartyContribution.of("a", ridge, AUX, classes=(0, 1, 2)).array.shape == (3, 4)
    with pytest.raises(ParameterError, match="no predict_proba"):
        PartyContribution.of("a", ridge, AUX, classes=(0, 1, 2), votes="simplex")


@pytest.mark.parametrize("votes", ["hard", "simplex"])
def test_a_party_that_lacks_classes_gives_them_no_vote(votes):
    some = Y != 1
    lacking = LogisticRegression().fit(X[some], Y[some])
    part = PartyContribution.of(
        "a", lacking, AUX, classes=(0, 1, 2), votes=votes, statistic="votes"
    )
    assert (part.array[:, 1] == 0).all()
    assert (part.array.sum(axis=1) == VOTE).all()
    single_class = DummyClassifier().fit(X[Y == 2], Y[Y == 2])  # a single class
    part = PartyContribution.of(
        "a", single_class, AUX, classes=(0, 1, 2), votes=votes, statistic="votes"
    )
    assert (part.array[:, 2] == VOTE).all()


def test_functions_and_columns_vote_as_classifiers_do():
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    options = {"classes": (0, 1, 2)}
    expected = PartyContribution.of("a", tree, AUX, **options).array
    column = tree.predict(ROWS)
    for voter in (
        tree.predict,
        column,
        column.tolist(),
        pa.array(column),
        tree.predict_proba(ROWS),
    ):
        assert np.array_equal(PartyContribution.of("a", voter, AUX, **options).array, expected)
    mapped = DecisionTreeClassifier(random_state=0).fit(AUX.transform(X), Y)
    part = PartyContribution.of("a", mapped, AUX, mapped=True, **options)
    assert np.array_equal(
        part.array, AUX.sums(operator_weights(from_codes(mapped.predict(AUX.rows), 3)))
    )


def test_rows_reach_a_classifier_as_they_were_given():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    tree = DecisionTreeClassifier(random_state=0).fit(frame, Y)
    auxiliary = AuxiliaryRows.read(pd.DataFrame(ROWS, columns=["a", "b", "c"]))
    arrow = AuxiliaryRows.read(pa.table(dict(zip("abc", ROWS.T, strict=True))))
    contribution = PartyContribution.of("a", tree, auxiliary, classes=(0, 1, 2))
    two = PartyContribution.of("a", tree.predict(auxiliary.given), arrow, classes=(0, 1, 2))
    assert np.array_equal(contribution.array, two.array)
    reordered = DecisionTreeClassifier(random_state=0).fit(frame[["c", "a", "b"]], Y)
    by_name = PartyContribution.of("a", reordered, arrow, classes=(0, 1, 2))
    cast = reordered.predict(auxiliary.given[["c", "a", "b"]])
    assert np.array_equal(
        by_name.array, PartyContribution.of("a", cast, arrow, classes=(0, 1, 2)).array
    )
    stranger = DecisionTreeClassifier().fit(frame.rename(columns={"a": "age"}), Y)
    with pytest.raises(ParameterError, match="do not have: age"):
        PartyContribution.of("a", stranger, arrow, classes=(0, 1, 2))
    assert (contribution.rows, contribution.pipeline, contribution.grid) == (
        two.rows,
        two.pipeline,
        two.grid,
    )
    assert np.array_equal(arrow.raw(), ROWS)
    words = AuxiliaryRows.read(pa.table({"x": ROWS[:, 0], "w": ["a", "b"] * 20}))
    with pytest.raises(ParameterError, match="categories"):
        PartyContribution.of("a", DecisionTreeClassifier().fit(X, Y), words, classes=(0, 1, 2))


def test_votes_that_do_not_fit_are_refused_before_they_leave():
    with pytest.raises(ParameterError, match="39 votes but 40"):
        PartyContribution.of("a", np.zeros(39, int), AUX)
    with pytest.raises(ParameterError, match="shape"):
        PartyContribution.of("a", np.zeros((40, 3)), AUX)
    with pytest.raises(TableError, match="not in the class list"):
        PartyContribution.of("a", np.full(40, 7), AUX)
    with pytest.raises(ParameterError, match="hard, simplex"):
        PartyContribution.of("a", np.zeros(40, int), AUX, votes="soft")
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(ParameterError, match="printable"):
            PartyContribution.of(name, np.zeros(40, int), AUX)


# --- the grid


@pytest.mark.parametrize("classes", [2, 3])
def test_an_operator_is_the_sum_that_integers_give(classes, rng):
    votes = rng.integers(0, classes, 40)
    part = PartyContribution.of("a", votes, AUX, classes=tuple(range(classes)))
    assert part.array.tolist() == operator_by_hand(AUX.codes, votes, classes)


def test_the_grid_is_fine_where_there_are_few_rows_and_sums_always_fit(rng):
    few = AuxiliaryRows.read(ROWS)
    many = AuxiliaryRows.read(rng.normal(size=(30_000, 3)))
    assert few.step / few.pipeline.norm_bound < many.step / many.pipeline.norm_bound < 2.0**-16
    for rows in (few, many):
        largest = np.abs(rows.codes).sum(axis=0).max() * VOTE
        assert largest <= 2**40
        assert np.array_equal(rows.codes, np.rint(rows.codes))
        assert np.abs(rows.codes * rows.step - rows.rows).max() <= rows.step / 2


def test_too_many_rows_for_the_grid_are_refused(monkeypatch):
    monkeypatch.setattr(auxiliary_module, "_SUM_BITS", 22)
    with pytest.raises(ParameterError, match="random sample"):
        AuxiliaryRows.read(ROWS).codes  # noqa: B018


def test_the_grid_has_the_name_of_its_codes():
    same = AuxiliaryRows.read(ROWS.copy())
    other = AuxiliaryRows.read(ROWS + [0, 0, 1e-3] * (np.arange(40)[:, None] == 3))
    clipped = AuxiliaryRows.read(ROWS, clip=0.5)
    assert same.grid == AUX.grid
    assert len({AUX.grid, other.grid, clipped.grid}) == 3


# --- parameters


@pytest.mark.parametrize("classes", [2, 3])
def test_parameters_are_held_to_the_ball_of_minimisers(classes, rng):
    declared = tuple(range(classes))
    theta = rng.normal(size=4 if classes == 2 else (4, classes))
    part = PartyContribution.of_parameters("a", theta, AUX, classes=declared, lam=0.01)
    radius = parameter_radius(AUX, classes, 0.01)
    step = lattice_step(radius)
    assert np.abs(part.array * step - theta.T.reshape(-1, 4)).max() <= step / 2
    far = PartyContribution.of_parameters("a", theta * 1e9, AUX, classes=declared, lam=0.01)
    assert np.linalg.norm(far.array * step) == pytest.approx(radius, rel=1e-6)
    for bad in (theta[:-1], np.full_like(theta, np.nan)):
        with pytest.raises(ParameterError, match="parameters"):
            PartyContribution.of_parameters("a", bad, AUX, classes=declared)


@pytest.mark.parametrize("classes", [2, 3])
def test_minimisers_on_any_rows_lie_in_that_ball(classes):
    """Rows of the largest norm, all alike, with a weak penalty: the longest there are."""
    from suffice.models.problem import LOSSES, FactoredProblem

    bound, lam = AUX.pipeline.norm_bound, 1.0
    rows = np.zeros((5, 4))
    rows[:, 0] = bound
    operator = rows.mean(axis=0) if classes == 2 else np.outer(rows.mean(axis=0), np.eye(3)[0])
    loss = LOSSES["logistic"] if classes == 2 else None
    for scale in (1.0, 1e-3):
        solution = FactoredProblem(rows * scale, operator * scale, loss).solve(
            lam * scale, tol=1e-9, max_iter=500
        )
        assert np.linalg.norm(solution.parameters) <= parameter_radius(AUX, classes, lam)


# --- the file


def example(statistic: str = "operator", classes: int = 3) -> PartyContribution:
    rng = np.random.default_rng(12)
    if statistic == "parameters":
        return PartyContribution.of_parameters("clinic 7", rng.normal(size=4), AUX)
    votes = rng.integers(0, classes, 40)
    return PartyContribution.of(
        "clinic 7", votes, AUX, classes=tuple(range(classes)), statistic=statistic
    )


@pytest.mark.parametrize("statistic", ["operator", "votes", "parameters"])
def test_a_file_brings_back_what_was_saved(tmp_path, statistic):
    part, path = example(statistic), tmp_path / "a.part"
    part.save(path)
    again = PartyContribution.load(path)
    assert np.array_equal(again.array, part.array)
    for name in ("party", "statistic", "rows", "pipeline", "grid", "classes"):
        assert getattr(again, name) == getattr(part, name)
    assert encode_part(again) == path.read_bytes()
    assert b"not private: for the aggregator only" in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_load_refuses_a_contribution_and_says_why(tmp_path):
    path = tmp_path / "a.part"
    example().save(path)
    with pytest.raises(UnsupportedFileError, match="not private, for the aggregator only"):
        suffice.load(path)


def test_an_altered_file_is_noticed():
    data = encode_part(example())
    for position in range(0, len(data), 7):
        altered = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(CorruptFileError):
            PartyContribution.load(altered)
    for cut in (b"", data[:30], data[:-1], data + b"x", b"suffice\x01" + data[8:]):
        with pytest.raises(CorruptFileError):
            PartyContribution.load(cut)


def sealed(data: bytes, old: bytes, new: bytes) -> bytes:
    """Return a file with its manifest changed and its checksum mended."""
    assert data.count(old) == 1
    assert len(old) == len(new)
    body = data[:-32].replace(old, new)
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"shape":[3,4]', b'"shape":[4,4]'),
        (b'"shape":[3,4]', b'"shape":[-3,4'[:12] + b"]"),
        (b'"statistic":"operator"', b'"statistic":"operatxr"'),
        (b'"party":"clinic 7"', b'"party":"clinic\\n7'[:17] + b'"'),
        (b'"classes":[0,1,2]', b'"classes":[0,1,1]'),
        (b'"version":1', b'"version":2'),
    ],
)
def test_a_manifest_that_is_not_valid_is_refused(old, new):
    with pytest.raises((CorruptFileError, UnsupportedFileError)):
        PartyContribution.load(sealed(encode_part(example()), old, new))


def test_only_integers_of_the_grid_are_written():
    from dataclasses import replace

    for array in (np.full((3, 4), np.nan), np.ones((3, 4)) / 2):
        with pytest.raises(ParameterError, match="integers"):
            encode_part(replace(example(), array=array))
    with pytest.raises(ParameterError, match="integers"):
        encode_part(replace(example("votes"), array=np.full((40, 3), -1)))
