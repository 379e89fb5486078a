"""Rados: what is summed, which examples are in which sum, how rows are scaled, what is refused.

An identity matrix of rows shows who is in which rado: coordinate i of a rado is y_i b_si. Signs
come from our own randomness, which is seeded.
"""

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from seeds import seeded
from suffice.engines.sums import default_count
from suffice.errors import (
    BudgetError,
    ParameterError,
    TableError,
    UnprotectedError,
)
from suffice.learner.rado_moments import moments_of
from suffice.owner.ledger import Ledger
from suffice.owner.moments import Moments
from suffice.owner.rados import (
    ChosenSubsets,
    FreeSubsets,
    HadamardSubsets,
    Rados,
    _signs,
    plan_rados,
)
from suffice.owner.source import Source
from suffice.privacy.guarantee import Budget, Protection, Unit
from suffice.privacy.randomness import private_words
from suffice.releases.codec import decode
from suffice.releases.merge import merge
from suffice.releases.release import encode

ALARM = 1e-6
PLAIN = {"standardize": "none", "intercept": 0.0}


def rows(count: int = 200, width: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (count, width)), rng.integers(0, 2, count)


def released(X, y, **options):
    return Rados(**options).release(X, y, ledger=None, unprotected=True)


def members(count: int, examples: int, **options) -> np.ndarray:
    """Return who is in which rado, (count, examples), by rows that each have their coordinate."""
    y = np.arange(examples) % 2
    release = released(np.eye(examples), y, count=count, **PLAIN, **options)
    inside = release.arrays["rados"] * np.where(y == 1, 1, -1)
    assert set(np.unique(inside)) <= {0.0, 1.0}
    return inside.astype(int)


# ------------------------------------------------------------------ who is in which rado


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12, 31, 32, 33, 64])
def test_with_structured_signs_nobody_is_in_all_rados_or_in_none(count):
    size = 1 << (count - 1).bit_length()
    inside = members(count, 3 * size + 5, signs="hadamard").sum(axis=0)
    assert inside.min() >= max(1, count - size // 2)
    assert inside.max() <= min(count - 1, size // 2)
    if count == size:
        assert set(inside) == {count // 2}


def test_column_zero_would_break_that():
    """The same with the all-ones column: its example is in all rados or in none."""
    from scipy.linalg import hadamard

    assert np.abs(hadamard(8).sum(axis=0)).tolist() == [8, 0, 0, 0, 0, 0, 0, 0]


def triple_counts(inside: np.ndarray) -> list[int]:
    """Return how often each of the eight patterns of three neighbours occurs."""
    frequencies = Counter(map(tuple, inside.tolist()))
    return [frequencies[pattern] for pattern in product((0, 1), repeat=3)]


@pytest.mark.parametrize("signs", ["hadamard", "iid"])
def test_the_signs_of_one_rado_are_uniform(signs):
    """One rado of each of 80 releases, 120 examples: all patterns of three are equally likely."""
    patterns = [members(8, 120, signs=signs)[s % 8].reshape(-1, 3) for s in range(80)]
    assert stats.chisquare(triple_counts(np.vstack(patterns))).pvalue > ALARM


def test_the_secret_signs_are_drawn_from_private_words():
    """Signs, orders and free bits are functions of private words, and of nothing else."""
    rows, results = np.eye(40), []
    for seed in (1, 1, 2):
        with seeded(seed):
            subsets = [kind(40, 8, 0.0) for kind in (HadamardSubsets, FreeSubsets)]
            for subset in subsets:
                subset.update(rows, np.ones(40))
            results.append([subset.result() for subset in subsets])
    for first, again, other in zip(*results, strict=True):
        np.testing.assert_array_equal(first, again)
        assert (first != other).mean() > 0.2
    with seeded(3):
        words = private_words(2)
    with seeded(3):
        signs = _signs(100)
    bits = np.unpackbits(words.view(np.uint8), count=100)
    np.testing.assert_array_equal(signs, 2.0 * bits - 1)


def test_without_random_signs_on_the_diagonal_that_would_be_noticed(monkeypatch):
    monkeypatch.setattr("suffice.owner.rados._signs", np.ones)
    patterns = [members(8, 120, signs="hadamard")[s % 8].reshape(-1, 3) for s in range(80)]
    assert stats.chisquare(triple_counts(np.vstack(patterns))).pvalue < ALARM


def pair_counts() -> list[int]:
    """Return how often two rados hold each pattern of an example in block 0 and one in block 1."""
    patterns = [members(4, 6, signs="hadamard")[:2][:, [0, 3]].ravel() for _ in range(300)]
    frequencies = Counter(map(tuple, patterns))
    return [frequencies[pattern] for pattern in product((0, 1), repeat=4)]


def test_two_rados_agree_in_one_block_whatever_they_do_in_another(monkeypatch):
    """Two of four balanced signs are equal with probability 1/3, in each block on its own."""
    half = {True: 1 / 6, False: 1 / 3}
    likely = [half[a == c] * half[b == d] for a, b, c, d in product((0, 1), repeat=4)]
    assert stats.chisquare(pair_counts(), 300 * np.array(likely)).pvalue > ALARM
    monkeypatch.setattr(HadamardSubsets, "_orders", _same_order)
    assert stats.chisquare(pair_counts(), 300 * np.array(likely)).pvalue < ALARM


def _same_order(self, blocks: int) -> np.ndarray:
    return np.tile(np.arange(self._size, dtype=np.int32), (blocks, 1))


class Ragged:
    """A table that comes in batches of odd sizes."""

    def __init__(self, table: pa.Table, sizes: list[int]) -> None:
        self._table, self._sizes, self.schema = table, sizes, table.schema

    def batches(self, columns):
        start = 0
        for size in self._sizes:
            yield from self._table.select(list(columns)).slice(start, size).to_batches()
            start += size


@pytest.mark.parametrize("sizes", [[40], [1] * 40, [7, 9, 2, 22], [16, 24]])
def test_blocks_are_cut_by_place_and_not_by_batch(sizes):
    """Columns 1, 2 and 3 of a Sylvester matrix multiply to one.

    So do the signs of a block's first three examples, up to a sign that all rados share.
    """
    table = pa.table({f"x{j}": column for j, column in enumerate(np.eye(40))})
    inside = released(Ragged(table, sizes), np.ones(40, int), count=16, **PLAIN).arrays["rados"]
    signs = 2 * inside - 1
    for start in (0, 15, 30):
        assert len(set(signs[:, start : start + 3].prod(axis=1))) == 1
    assert len(set(signs[:, 13:16].prod(axis=1))) == 2  # examples 13 to 15 straddle two blocks


def test_balanced_signs_make_the_mean_rado_half_the_mean_operator():
    X, y = rows(500)
    rados = released(X, y, count=64, **PLAIN).arrays["rados"]
    np.testing.assert_allclose(rados.mean(axis=0), (2 * y - 1) @ X / 2, atol=1e-12)


@pytest.mark.parametrize("support", [1, 7, 39])
def test_a_fixed_support_is_fixed(support):
    inside = members(30, 40, support=support)
    assert set(inside.sum(axis=1)) == {support}
    assert inside.sum(axis=0).std() > 0


def test_a_fixed_support_is_fixed_however_rows_arrive():
    """What is still to be chosen is carried from batch to batch."""
    rows, sizes = np.eye(60), np.array([1, 7, 30, 59])
    subsets = ChosenSubsets(60, sizes, 0.0, 60)
    for start in range(0, 60, 17):
        part = np.ascontiguousarray(rows[:, start : start + 17])
        subsets.update(part, np.ones(part.shape[1]))
    inside = subsets.result()
    assert set(np.unique(inside)) <= {0.0, 1.0}
    assert inside.sum(axis=1).tolist() == sizes.tolist()


def test_free_signs_ignore_how_rows_arrive():
    """Many rados: bits are drawn part by part, and every row still has its own."""

    class Small(FreeSubsets):
        _memberships = 64

    subsets = Small(40, 3, 0.0)
    subsets.update(np.eye(40)[:, :37].copy(), np.ones(37))
    subsets.update(np.eye(40)[:, 37:].copy(), np.ones(3))
    assert set(np.unique(subsets.result())) == {0.0, 1.0}


# ------------------------------------------------------------------ what is summed


def test_a_rado_is_the_sum_of_edges_where_sign_and_label_agree():
    """Definition 1 beside memberships seen through extra one-hot columns."""
    X, y = rows(30)
    both = np.hstack([X, np.eye(30)])
    for signs in ("hadamard", "iid"):
        rados = released(both, y, count=16, signs=signs, **PLAIN).arrays["rados"]
        labels = 2 * y - 1
        sigma = np.where(rados[:, 4:] != 0, labels, -labels)
        np.testing.assert_allclose(rados[:, :4], (sigma + labels) @ X / 2, atol=1e-12)


def test_rows_scale_themselves_unless_told_otherwise():
    X, y = rows(400)
    release = released(50 + 9 * X, y)
    assert release.arrays["rados"].shape == (200, 5)
    pipeline = release.pipeline
    np.testing.assert_allclose(pipeline.mean, (50 + 9 * X).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(pipeline.scale, (9 * X).std(axis=0), rtol=1e-6)
    assert (pipeline.intercept, pipeline.bound) == (1.0, 2.0**300)
    assert released(X, y, intercept=0.0).arrays["rados"].shape == (200, 4)


def test_the_number_of_rados_is_a_thousand_or_half_the_rows():
    assert [default_count(m) for m in (1, 10, 1999, 5000)] == [2, 5, 999, 1000]


def test_rows_are_named_by_what_leaves():
    X, y = rows()
    first, second = released(X, y, count=8), released(X, y, count=8)
    assert first.parts[0].rows.hash != second.parts[0].rows.hash
    assert first.parts[0].rows.count == 200
    assert decode(encode(first)) == first


def test_a_ledger_does_not_put_the_hash_of_private_rows_into_a_release(tmp_path):
    """It knows them by their cells; what leaves is named by what leaves."""
    X, y = rows()
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(9.0, 1e-6)}})
    mechanism = Rados(count=8, epsilon=1.0, delta=1e-6, unit="record", ranges=(-1, 1))
    paid = {"ledger": ledger, "dataset": "d"}
    first, other = (mechanism.release(X, y, **paid, request=name) for name in "ab")
    assert first.parts[0].rows.hash != other.parts[0].rows.hash


def test_several_owners_add_their_rados_one_by_one():
    X, y = rows()
    release = released(X, y, count=8, ranges=(-1, 1))
    two = released(-X, y, count=8, ranges=(-1, 1))
    both = merge([release, two])
    np.testing.assert_array_equal(
        both.arrays["rados"], release.arrays["rados"] + two.arrays["rados"]
    )
    assert both.rows == 400
    assert [part.rows for part in both.parts] == [part.rows for part in release.parts + two.parts]
    label = {"epsilon": 1.0, "unit": "label", "ranges": (-1, 1), "count": 8}
    noisy = merge([released(X, y, **label), released(-X, y, **label)])
    assert noisy.noise.variance == 2 * released(X, y, **label).noise.variance
    supports = [released(X, y, count=8, support=s, ranges=(-1, 1)) for s in (5, 9)]
    assert merge(supports).details["support"] == 14
    for other in (
        released(X, y, count=4, ranges=(-1, 1)),
        released(X, y, **label),
        supports[0],
    ):
        with pytest.raises(ParameterError):
            merge([release, other])


# ------------------------------------------------------------------ how private rows are scaled


def table(seed: int = 0, count: int = 300) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.uniform(0, 100, count),
            "ward": rng.choice(["north", "south"], count),
            "hiv": rng.integers(0, 2, count),
            "sick": rng.choice(["no", "yes"], count),
        }
    )


DECLARED = {
    "classes": ("no", "yes"),
    "ranges": {"age": (0, 100), "hiv": (0, 1)},
    "categories": {"ward": ["north", "south"]},
    "count": 8,
}
LABEL = {"epsilon": 1.0, "unit": "label"}
RECORD = {"epsilon": 1.0, "delta": 1e-6, "unit": "record"}


def of_table(data=None, *, unprotected=False, ledger=None, dataset=None, request=None, **options):
    return Rados(**{**DECLARED, **options}).release(
        table() if data is None else data,
        label="sick",
        ledger=ledger,
        dataset=dataset,
        unprotected=unprotected,
        request=request,
    )


def test_declared_ranges_become_minus_one_to_one_and_bound_the_rows():
    release = of_table(**LABEL)
    pipeline = release.pipeline
    assert pipeline.mean.tolist() == [50.0, 0.5, 0.5, 0.5]
    assert pipeline.scale.tolist() == [50.0, 0.5, 0.5, 0.5]
    assert pipeline.bound == pytest.approx(2.0)  # four coordinates of at most one
    assert pipeline.intercept == pytest.approx(0.5)
    assert release.guarantee.kind is Protection.GLOBAL


def test_numbers_outside_their_range_count_as_its_end():
    wild = table().set_column(0, "age", pa.array(np.full(300, 1e9)))
    calm = table().set_column(0, "age", pa.array(np.full(300, 100.0)))
    first, second = (of_table(t, support=299, unprotected=True) for t in (wild, calm))
    for release in (first, second):
        assert np.abs(release.arrays["rados"][:, 0]).max() <= 299
        assert np.abs(release.arrays["rados"][:, 0]).max() > 1


def test_a_public_table_scales_and_clips():
    release = of_table(ranges=None, categories=None, standardize=table(1), **RECORD)
    assert release.guarantee.kind is Protection.GLOBAL
    assert release.pipeline.mean[0] == pytest.approx(50, abs=5)
    assert release.pipeline.bound < 10
    assert of_table(ranges=None, standardize=table(1), bound=1.5, **RECORD).pipeline.bound == 1.5


def test_scales_read_off_private_rows_are_said_aloud():
    for promise in (LABEL, RECORD, {"protect": ["hiv"], "delta": 1e-6}):
        options = {"ranges": None, "standardize": "rows", "categories": None, **promise}
        with pytest.raises(UnprotectedError):
            of_table(**options)
        guarantee = of_table(unprotected=True, **options).guarantee
        assert guarantee.kind is Protection.DATA_DEPENDENT
        assert "Not differentially private" in str(guarantee)


def test_plain_rados_protect_nothing_and_say_so():
    with pytest.raises(UnprotectedError):
        of_table()
    release = of_table(unprotected=True)
    assert release.guarantee.kind is Protection.NONE
    assert release.guarantee.epsilon is None
    assert str(release.guarantee).startswith(
        "No protection. A reader may be able to work out any record"
    )
    assert release.details["mechanism"] == "plain"


def test_unscaled_rows_need_a_declared_bound_for_a_promise():
    with pytest.raises(ParameterError, match="bound on the length of rows"):
        of_table(ranges=None, standardize="none", **RECORD)
    release = of_table(ranges=None, standardize="none", bound=3.0, **RECORD)
    assert release.pipeline.mean.tolist() == [0.0] * 4
    assert release.pipeline.norm_bound == pytest.approx(np.hypot(3, 0.75))


def test_an_earlier_pipeline_can_be_used_again():
    first = of_table(**RECORD)
    again = of_table(table(2), ranges=None, categories=None, pipeline=first.pipeline, **RECORD)
    assert merge([first, again]).rows == 600
    unscaled = of_table(ranges=None, categories=None, standardize="rows", unprotected=True)
    with pytest.raises(ParameterError, match="clips no rows"):
        of_table(ranges=None, categories=None, pipeline=unscaled.pipeline, **RECORD)
    with pytest.raises(ParameterError, match="-1 and"):
        of_table(pipeline=first.pipeline, protect=["hiv"], delta=1e-6)


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"signs": "hadamard", "support": 5}, "Use --signs iid"),
        ({"signs": "hadamard", "protect": ["hiv"], "delta": 0.01}, "Use --signs iid"),
        ({"signs": "random"}, "signs must be one of"),
        ({"signs": "hadamard", "count": 1}, "needs --signs iid"),
        ({"count": 0}, "between 1 and"),
        ({"support": 300}, "between 1 and 299"),
        ({"support": 0}, "between 1 and 299"),
        ({"protect": ["hiv"], **RECORD}, "adds no noise"),
        ({"protect": ["hiv"], "delta": 0.01, "noise_on": "records"}, "adds no noise"),
        ({"protect": ["hiv"], "delta": 0.01, "support": 9}, "cannot be used with --support"),
        ({"protect": ["hiv"]}, "--delta above 0"),
        ({"protect": ["ward"], "delta": 0.01}, "no feature column of numbers"),
        ({"protect": ["age", "hiv"], "delta": 0.01, "truncate": 1.0}, "one protected column"),
        ({"epsilon": 1.0}, "needs to know what it protects"),
        ({"unit": "label"}, "need an --epsilon"),
        ({"noise_on": "records"}, "need an --epsilon"),
        ({"noise_on": "local"}, "sums, records"),
        ({**LABEL, "noise_on": "records"}, "with --unit record"),
        ({**LABEL, "support": 5}, "does not protect labels"),
        ({"epsilon": 1.0, "unit": "record"}, "--delta above 0"),
        ({"epsilon": 1.0, "unit": "party"}, "label, record, attribute"),
        ({"epsilon": 1.0, "unit": "person"}, "label, record, attribute"),
        ({**RECORD, "unit": "attribute"}, "needs the protected columns"),
        ({**RECORD, "attributes": ["age"]}, "needs the protected columns"),
        ({**RECORD, "unit": "attribute", "attributes": ["nose"]}, "no column 'nose'"),
        ({**RECORD, "unit": "attribute", "attributes": ["age"], "bound": 1.0}, "not clipped"),
        ({**RECORD, "ranges": {"hiv": (0, 1)}}, "'age' has no declared range"),
        ({**RECORD, "categories": None}, "'ward' has no declared range.*texts, declare them"),
        ({**RECORD, "clip": 0.5}, "declare a --bound"),
        ({**RECORD, "clip": 0.5, "bound": 1.0}, "not both"),
        ({"missing": "guess"}, "missing must be one of"),
        ({"ranges": {"age": (1, 1)}}, "two finite numbers"),
        ({"ranges": {"age": "x"}}, "two numbers"),
        ({"ranges": {"nose": (0, 1)}}, "'nose' is declared"),
        ({"classes": ("no", "yes", "maybe")}, "two classes"),
        ({"epsilon": -1.0, "unit": "label"}, "epsilon must be"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_reason(options, reason):
    with pytest.raises(ParameterError, match=reason):
        of_table(unprotected=True, **options)


def test_a_protected_column_holds_two_values():
    """Any other cell counts as the lesser one, as a missing one does."""
    X = np.array([[0.0], [1.0], [7.0], [np.nan], [-np.inf]])
    told = []
    mechanism = Rados(protect=["x0"], delta=0.09, count=1, ranges=(0, 1), intercept=0.0)
    made = mechanism.private_rows(Source(X))
    vectors = made.vectors(pa.record_batch([X[:, 0]], ["x0"]), counted := Counter())
    assert vectors.tolist() == [[-1.0, 1.0, -1.0, -1.0, -1.0]]
    assert counted == {"x0": 3}
    asked = {"ledger": None, "unprotected": True, "report": told.append}
    mechanism.release(X, [0, 1, 0, 1, 0], **asked)
    assert told[0].lines[0].startswith("column 'x0': 3 cells hold no declared value")
    odd = {"age": (0, 100), "hiv": (0.1, 0.7)}
    with pytest.raises(ParameterError, match="as 0 and 1"):
        of_table(protect=["hiv"], delta=0.01, ranges=odd)


def test_labels_are_given_once_and_are_of_their_classes():
    X, y = rows()
    with pytest.raises(ParameterError, match="once"):
        Rados().release(X, ledger=None)
    with pytest.raises(TableError, match="no rows"):
        released(X[:0], y[:0], ranges=(-1, 1))


def test_no_private_cell_is_an_error_and_the_owner_alone_is_told():
    """A missing number counts as declared, an undeclared category and a strange label as none."""
    cells = pa.array([0.5, None, float("nan"), float("inf"), 1e308, -3.0, 0.25, 0.75])
    ward = pa.array(["a", "b", "nobody's", None, "a", "b", "a", ""])
    labels = [0, 1, 0, 1, 0, 7, None, 1]
    table = pa.table({"x": cells, "ward": ward, "y": pa.array(labels)})
    declared = {"ranges": {"x": (0, 1)}, "categories": {"ward": ["a", "b"]}}
    for options in (
        declared,
        {**declared, "missing": "zero"},
        {"standardize": "rows", "categories": declared["categories"]},
        {"standardize": "none", "bound": 2.0, "categories": declared["categories"]},
    ):
        if "standardize" in options:  # numbers that are far, or infinite, cannot scale others
            table = table.set_column(0, "x", pa.array([*cells.to_pylist()[:3], *[0.1] * 5]))
        told = []
        for noise in ({"unit": "label"}, {"unit": "record"}, {"noise_on": "records"}):
            asked = {"epsilon": 1.0, "delta": 1e-3, "unit": "record", "count": 4, **noise}
            release = Rados(**asked, **options).release(
                table, label="y", ledger=None, unprotected=True, report=told.append
            )
            assert np.isfinite(release.arrays["rados"]).all()
            of_cells, of_labels = told[-1].lines
            assert of_cells.startswith("column 'ward': 2 cells hold no declared value")
            assert of_labels.startswith("2 of 8 labels are missing or not in the class list")


def test_cells_become_what_is_declared_for_them():
    mechanism = Rados(ranges={"x": (10, 30)}, categories={"ward": ["a", "b"]}, intercept=0.0)
    numbers = [10.0, 30.0, np.nan, np.inf, 1e308, -5.0]
    batch = pa.record_batch(
        [pa.array(numbers), pa.array(["a", "b", "c", None, "a", "b"])], ["x", "ward"]
    )
    made = mechanism.private_rows(Source(pa.Table.from_batches([batch])))
    x, a, b = made.vectors(batch, counted := Counter())
    assert x.tolist() == [-1.0, 1.0, 0.0, 0.0, 1.0, -1.0]
    assert a.tolist() == [1.0, -1.0, -1.0, 0.0, 1.0, -1.0]  # none is neither of both
    assert b.tolist() == [-1.0, 1.0, -1.0, 0.0, -1.0, 1.0]
    assert counted == {"ward": 1}
    # No cell moves the coordinates of its column further than is paid for.
    moves = np.array([a, b])[:, :, None] - np.array([a, b])[:, None, :]
    assert np.linalg.norm(moves, axis=0).max() <= made.reach("ward")
    lone = Rados(ranges={"x": (0, 1)}, categories={"ward": ["a"]})
    rows_of_one = lone.private_rows(Source(pa.Table.from_batches([batch])))
    assert rows_of_one.reach("ward") > 0  # from the only category to none


def test_a_number_too_far_to_be_scaled_is_no_error():
    X = np.array([[1e308, 0.5], [-1e200, 0.1], [np.inf, 0.2], [0.1, 0.3]])
    mechanism = Rados(standardize="none", bound=1.0, missing="zero", intercept=0.0)
    made = mechanism.private_rows(Source(X))
    batch = pa.record_batch([*X.T], ["x0", "x1"])
    assert made.vectors(batch, Counter()).tolist() == [[0.0, 0.0, 0.0, 0.1], [0.5, 0.1, 0.2, 0.3]]


def test_a_label_of_no_class_is_drawn_by_a_fair_coin():
    """Coordinate i is y_i b_si: a strange label is +1 in half of the draws (within 5 errors)."""
    y = np.array([0, 1, 2, 2, 2, 2])
    mechanism = Rados(count=64, signs="iid", **PLAIN)
    signs = []
    for _ in range(50):
        sums = mechanism.release(np.eye(6), y, ledger=None, unprotected=True).arrays["rados"]
        assert ((sums[:, 0] <= 0) & (sums[:, 1] >= 0)).all()
        signs += [*np.sign(sums[:, 2:].sum(axis=0))]
    assert set(signs) == {-1.0, 1.0}
    assert abs(np.mean(signs)) < 5 / np.sqrt(len(signs))


# ------------------------------------------------------------------ what it costs


def test_a_ledger_pays_once_for_the_same_request(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(1.1, 1e-5)}})
    first = of_table(ledger=ledger, dataset="d", **RECORD)
    assert encode(of_table(ledger=ledger, dataset="d", **RECORD)) == encode(first)
    (balance,) = ledger.balances()
    assert 0.5 < balance.spent <= 1.0
    with pytest.raises(BudgetError):
        of_table(ledger=ledger, dataset="d", **{**RECORD, "count": 16})
    aged = table().set_column(0, "age", pa.array(np.zeros(300)))
    for other in (table(1), aged):
        assert encode(of_table(other, ledger=ledger, dataset="d", **RECORD)) == encode(first)
        with pytest.raises(BudgetError):
            of_table(other, ledger=ledger, dataset="d", request="today", **RECORD)
    with pytest.raises(BudgetError):  # the number of records is public: another request
        of_table(table().slice(1), ledger=ledger, dataset="d", **RECORD)


def test_edges_get_their_noise_after_they_were_paid_for(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l", {"d": {Unit.RECORD: Budget(0.5, 1e-5)}})
    draws = []
    monkeypatch.setattr("suffice.owner.rados._Edges.add_rows", lambda *_: draws.append(1))
    with pytest.raises(BudgetError):
        of_table(ledger=ledger, dataset="d", noise_on="records", **RECORD)
    assert draws == []


# ------------------------------------------------------------------ the plan


def test_the_plan_says_when_noise_drowns_rados_and_what_to_do():
    plan = plan_rados(table(count=20_000), 1.0, 1e-6, label="sick", **_scaling())
    label, record, fewer, edges = plan.rows
    assert [row["unit"] for row in plan.rows] == ["label", "record", "record", "record"]
    assert [row["verdict"] for row in plan.rows] == ["fine", "mean only", "noisy", "drowned"]
    assert label["noise"] < fewer["noise"] < record["noise"] < edges["noise"]
    on_mean = fewer["mean_noise"]
    assert record["mean_noise"] == pytest.approx(on_mean, rel=0.02)  # whatever the count
    assert "Only the mean is useful" in plan.advice[0]
    assert len(str(plan).splitlines()) == 5 + len(plan.advice)
    assert plan.to_json()["options"][1]["verdict"] == "mean only"


def test_the_plan_forecasts_the_noise_that_is_drawn():
    plan = plan_rados(table(), 2.0, 1e-5, label="sick", count=8, **_scaling())
    noise = {(row["unit"], row["release"]): row["noise"] for row in plan.rows if row["count"] == 8}
    for unit, where in (("label", "shared noise"), ("record", "noise on the matrix")):
        release = of_table(epsilon=2.0, delta=1e-5, unit=unit, count=8)
        assert release.noise.variance == pytest.approx(noise[unit, f"rados, {where}"] ** 2)
    edges = of_table(epsilon=2.0, delta=1e-5, unit="record", count=8, noise_on="records")
    assert edges.noise.variance == pytest.approx(noise["record", "rados, noise on records"] ** 2)


def test_the_plan_reads_a_public_table_and_no_private_row():
    class Counted(Ragged):
        def batches(self, columns):
            assert list(columns) == ["sick"]
            return super().batches(columns)

    many = Counted(table(count=20_000), [20_000])
    settings = {**_scaling(), "ranges": None, "standardize": table(1)}
    plan = plan_rados(many, 8.0, 1e-5, label="sick", count=4, **settings)
    assert plan.facts["rows"] == 20_000
    first, of_moments = plan.advice
    assert first == "The noise is not much larger than what the sums vary by themselves."
    assert of_moments.startswith("To protect records, release moments instead")
    drowned = plan_rados(many, 1e-4, 1e-5, label="sick", count=4, **settings)
    assert "Nothing is useful" in drowned.advice[0]
    assert "wait for more rows" in drowned.advice[1]


def test_the_plan_says_by_how_much_moments_have_less_noise():
    """The ratios are those of the two releases, in their own words, but for rounding: 1 %."""
    plan = plan_rados(table(), 2.0, 1e-5, label="sick", count=8, **_scaling())
    sums = of_table(epsilon=2.0, delta=1e-5, unit="record", count=8)
    known = moments_of(sums)
    moments = Moments(2.0, 1e-5, **_scaling()).release(table(), label="sick", ledger=None).details
    products = known.second_noise.added[0] / np.sqrt(8)
    off_diagonal = moments["second_noise"] / np.sqrt(2)
    ratios = plan.facts["noise_over_moments"]
    assert ratios["products"] == pytest.approx(products / off_diagonal, rel=0.01)
    operator = np.sqrt(known.noise.variance)
    assert ratios["operator"] == pytest.approx(operator / moments["operator_noise"], rel=0.01)
    assert f"{ratios['operator']:.2g} times smaller on the mean operator" in plan.advice[-1]


def test_the_plan_is_silent_about_moments_where_sums_have_less_noise():
    plan = plan_rados(table(), 300.0, 1e-5, label="sick", count=2, **_scaling())
    assert plan.facts["noise_over_moments"]["products"] < 1
    assert not any("moments" in sentence for sentence in plan.advice)


def _scaling() -> dict:
    return {"ranges": DECLARED["ranges"], "categories": DECLARED["categories"]}


def test_counts_of_numpy_are_counts_and_fractions_are_not(tmp_path):
    X, y = rows()
    release = Rados(count=np.int64(16)).release(X, y, ledger=None, unprotected=True)
    release.save(tmp_path / "r.sfr")
    assert release.arrays["rados"].shape[0] == 16
    for wrong in ({"count": 16.0}, {"support": 2.5}, {"count": "16"}):
        with pytest.raises(ParameterError, match="must be an integer"):
            Rados(**wrong).release(X, y, ledger=None, unprotected=True)
