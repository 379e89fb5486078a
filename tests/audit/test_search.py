"""The worst neighbours are found, and those at the boundary are always among them."""

import itertools

import numpy as np

from suffice.audit import search
from suffice.audit.registry import all_cases
from suffice.audit.search import Pair, Space, neighbouring_pairs


def moved(first, second):
    return float(sum(a != b for a, b in zip(first, second, strict=True)))


def pairs_of(space, distance=moved, count=2):
    return neighbouring_pairs(space, distance, np.random.default_rng(6), count)


def test_the_search_finds_what_trying_all_finds():
    space = Space(((0, 1, 2),) * 4)
    weights = np.array([3.0, -1.0, 7.0, 2.0])

    def distance(first, second):
        return float(abs((np.array(first) ** 2 - np.array(second) ** 2) @ weights)) * (1 + first[0])

    worst_pair = pairs_of(space, distance)[0]
    everything = itertools.product(space.choices[0], repeat=4)
    neighbours = (
        (first, (*first[:i], c, *first[i + 1 :]))
        for first in everything
        for i in range(4)
        for c in range(3)
    )
    assert distance(worst_pair.first, worst_pair.second) == max(
        distance(*pair) for pair in neighbours
    )
    assert moved(worst_pair.first, worst_pair.second) == 1


def test_only_units_that_may_change_do():
    space = Space(((0, 1), (0, 1, 2)), changing=(1,))
    for pair in pairs_of(space, count=9):
        assert pair.first[0] == pair.second[0]


def test_boundaries_are_one_class_only_and_a_class_that_nobody_has():
    pairs = {pair.what: pair for pair in pairs_of(Space(((0, 1, 2),) * 3), count=0)}
    assert list(pairs) == ["one label only", "one label only, the last", "a label that nobody has"]
    for pair in pairs.values():
        assert moved(pair.first, pair.second) == 1
        assert set(pair.second) - set(pair.first)  # the change brings in what was not there
    assert set(pairs["one label only"].first) == {0}
    assert set(pairs["one label only, the last"].first) == {2}
    assert set(pairs["a label that nobody has"].first) == {0, 1}
    assert 2 in pairs["a label that nobody has"].second


def test_every_public_setting_has_its_boundaries():
    space = Space((("some rows", "equal rows"), (0, 1), (0, 1)), (1, 2))
    assert [pair.what for pair in pairs_of(space, count=0)] == [
        f"{rows}, {labels}"
        for rows in space.choices[0]
        for labels in ("one label only", "one label only, the last")
    ]


def test_what_is_no_neighbour_is_left_out():
    def even_only(first, _):
        return 1.0 if sum(first) % 2 == 0 else -1.0

    pairs = pairs_of(Space(((0, 1),) * 3), even_only, count=99)
    assert pairs
    assert all(sum(pair.first) % 2 == 0 for pair in pairs)


def test_a_pair_says_what_changed_where_that_has_a_name():
    assert str(Pair(("one row", 0), ("one row", 1), "searched")) == "searched"
    assert str(Pair(("a", "none"), ("a", "all"), "searched")) == "searched: none or all"


def test_every_case_is_tried_at_a_boundary(monkeypatch):
    monkeypatch.setattr(search, "_worst_pairs", lambda *_: [])
    rng = np.random.default_rng(0)
    for name, case in all_cases().items():
        assert case.broken or any(pair.what != "declared" for pair in case.pairs(rng)), name
