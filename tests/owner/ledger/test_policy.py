"""The owner's policy: read strictly, and decided from public things alone."""

import inspect
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, StorageError
from suffice.owner import policy as module
from suffice.owner.mean_operator import MECHANISMS, MeanOperator
from suffice.owner.policy import Policy, Terms, Verdict, Wanted, decide
from suffice.privacy.guarantee import Budget
from suffice.privacy.noise import needs_delta

POLICY = Policy(largest_epsilon=1.0, largest_delta=1e-6, least_rows=50)
PLENTY = Budget(100.0, 1e-5)


def wanted(epsilon=0.5, delta=0.0, mechanism="auto", **other) -> Wanted:
    options = {"kind": "mean-operator", "rows": 100, "features": ("age", "dose"), **other}
    return Wanted(terms=Terms(epsilon, delta, mechanism), **options)


def test_more_coordinates_than_the_policy_allows_are_refused():
    decision = decide(wanted(coordinates=2001), POLICY, PLENTY)
    assert decision.verdict is Verdict.REFUSED
    assert decision.reasons == ("rows may have at most 2000 coordinates, mapped or not",)
    assert decide(wanted(coordinates=2000), POLICY, PLENTY).verdict is Verdict.GRANTED
    for bad in (0, -1, 1.5, True, "3"):
        for limit in ("most_coordinates", "most_work", "most_bytes"):
            with pytest.raises(ParameterError, match=limit):
                Policy(1.0, **{limit: bad})


def test_what_is_within_all_limits_is_granted_as_asked():
    for mechanism in ("auto", *MeanOperator.noises):
        proposal = wanted(1.0, 1e-6, mechanism)
        decision = decide(proposal, POLICY, PLENTY)
        assert (decision.verdict, decision.terms) == (Verdict.GRANTED, proposal.terms)
        assert decision.reasons == ()


@pytest.mark.parametrize(
    ("proposal", "policy", "remaining", "nearest", "says"),
    [
        (wanted(3), POLICY, PLENTY, Terms(1.0), "at most 1.0, per request"),
        (wanted(3), POLICY, Budget(0.4), Terms(0.4), "0.4, which is what remains of the budget"),
        (wanted(0.5, 1e-3), POLICY, PLENTY, Terms(0.5, 1e-6), "delta: at most 1e-06, per"),
        (
            wanted(0.5, 1e-3),
            POLICY,
            Budget(9.0, 1e-9),
            Terms(0.5, 1e-9),
            "which is the delta of the budget",
        ),
        (wanted(0.5, 0, "gaussian"), POLICY, PLENTY, Terms(0.5), "mechanism: auto"),
        (
            wanted(0.5, 1e-6, "gaussian"),
            Policy(1.0, 0.0, ("gaussian", "laplace", "knorm")),
            PLENTY,
            Terms(0.5, 0.0, "laplace"),
            "mechanism: laplace",
        ),
        (wanted(), Policy(1.0, 0.0, ("knorm",)), PLENTY, Terms(0.5, 0.0, "knorm"), "knorm"),
        (wanted(mechanism="of tomorrow"), POLICY, PLENTY, Terms(0.5), "mechanism: auto"),
    ],
)
def test_too_much_is_countered_with_the_nearest_terms(proposal, policy, remaining, nearest, says):
    decision = decide(proposal, policy, remaining)
    assert (decision.verdict, decision.terms) == (Verdict.COUNTERED, nearest)
    assert any(says in reason for reason in decision.reasons)
    again = Wanted(proposal.kind, nearest, proposal.rows, proposal.features)
    assert decide(again, policy, remaining).verdict is Verdict.GRANTED


@pytest.mark.parametrize(
    ("proposal", "policy", "remaining", "says"),
    [
        (wanted(kind="rados"), POLICY, PLENTY, "kinds"),
        (wanted(rows=49), POLICY, PLENTY, "fewer than 50 rows"),
        (wanted(mapped=True), POLICY, PLENTY, "maps"),
        (wanted(), Policy(1.0, features=("age",)), PLENTY, "not granted: 'dose'"),
        (wanted(), POLICY, None, "budget is spent"),
        (wanted(), POLICY, Budget(9e-7), "budget is spent"),
        (wanted(), Policy(1.0, 0.01, ("gaussian",)), PLENTY, "need a delta above 0"),
    ],
)
def test_what_no_terms_can_mend_is_refused_with_the_reason(proposal, policy, remaining, says):
    decision = decide(proposal, policy, remaining)
    assert (decision.verdict, decision.terms) == (Verdict.REFUSED, None)
    assert any(says in reason for reason in decision.reasons)


def test_a_long_list_of_strange_names_gives_a_short_plain_reason():
    names = tuple(f"\x1b[31m{'x' * 999}{i}" for i in range(99))
    (reason,) = decide(wanted(features=names), Policy(1.0, features=("age",)), PLENTY).reasons
    assert reason.isprintable()
    assert len(reason) < 400
    assert reason.endswith("and 95 more")


@given(
    st.floats(1e-7, 1e30),
    st.floats(0, 0.09),
    st.sampled_from(["auto", "gaussian", "laplace"]),
    st.floats(1e-7, 1e30),
    st.floats(0, 0.09),
)
def test_a_counter_never_exceeds_anything_and_is_granted_next_time(
    e, d, mechanism, remaining, least
):
    policy, budget = Policy(2.5, 1e-6), Budget(remaining, least)
    decision = decide(wanted(e, d, mechanism), policy, budget)
    if decision.terms is None:
        assert remaining < 1e-6
        return
    assert decision.terms.epsilon <= min(e, 2.5, remaining)
    assert decision.terms.delta <= min(d, 1e-6, least)
    assert decision.terms.epsilon > min(e, 2.5, remaining) - 1.1e-6
    again = Wanted("mean-operator", decision.terms, 100, ("age",))
    assert decide(again, policy, budget).verdict is Verdict.GRANTED


def test_a_decision_has_no_way_to_see_a_table():
    assert list(inspect.signature(decide).parameters) == ["wanted", "policy", "remaining"]
    words = "from suffice.tables.columns import Classes, canonical_class, check_classes"
    assert words in inspect.getsource(module)  # lists of classes, and nothing that reads
    modules = [name for name in _imports() if name != "suffice.tables.columns"]
    assert not {"tables", "engines"} & {name.split(".")[1] for name in modules}


def _imports() -> list[str]:
    lines = inspect.getsource(module).splitlines()
    return [line.split()[1] for line in lines if line.startswith("from suffice.")]


def test_the_mechanisms_that_need_delta_are_those_of_the_mean_operator():
    rows = np.random.default_rng(0).normal(size=(50, 2))
    for name in MECHANISMS:
        operator = MeanOperator(epsilon=1.0, mechanism=name, map=None)
        if needs_delta(name):
            with pytest.raises(ParameterError, match="delta"):
                operator.forecast(rows)
        else:
            operator.forecast(rows)


def test_a_policy_file_says_what_it_says(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('{"largest_epsilon": 1, "features": ["age"], "mechanisms": ["laplace"]}')
    policy = Policy.load(path)
    assert policy == Policy(1.0, mechanisms=("laplace",), features=("age",))
    assert (policy.largest_delta, policy.maps, policy.least_rows) == (0.0, False, 1)
    assert Policy.from_json(json.loads(json.dumps(strict_json.plain(policy)))) == policy
    assert Policy.from_json(strict_json.plain(POLICY)) == POLICY


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "object"),
        ({}, "largest_epsilon"),
        ({"largest_epsilon": "1"}, "at largest_epsilon: a number belongs here"),
        ({"largest_epsilon": True}, "at largest_epsilon: a number belongs here"),
        ({"largest_epsilon": 0}, "positive"),
        ({"largest_epsilon": 1, "largest_delta": 1}, "delta"),
        ({"largest_epsilon": 1, "feature": ["age"]}, "at feature: there is no such member"),
        ({"largest_epsilon": 1, "features": "age"}, "features"),
        ({"largest_epsilon": 1, "features": []}, "features"),
        ({"largest_epsilon": 1, "features": ["age", "age"]}, "features"),
        ({"largest_epsilon": 1, "features": [1]}, "features"),
        ({"largest_epsilon": 1, "mechanisms": ["magic"]}, "mechanisms"),
        ({"largest_epsilon": 1, "mechanisms": None}, "mechanisms"),
        ({"largest_epsilon": 1, "kinds": ["labels"]}, "kinds"),
        ({"largest_epsilon": 1, "least_rows": 1.5}, "least_rows"),
        ({"largest_epsilon": 1, "least_rows": True}, "least_rows"),
        ({"largest_epsilon": 1, "maps": 1}, "maps"),
    ],
)
def test_a_policy_that_is_not_one_is_an_error_that_names_the_field(data, says):
    with pytest.raises(ParameterError, match=says):
        Policy.from_json(data)


def test_a_policy_file_is_read_strictly(tmp_path):
    path = tmp_path / "policy.json"
    for text in ('{"largest_epsilon": NaN}', '{"largest_epsilon": 1, "largest_epsilon": 9}', "{"):
        path.write_text(text)
        with pytest.raises(CorruptFileError):
            Policy.load(path)
    path.write_bytes(b" " * (module._MOST_BYTES + 1))
    with pytest.raises(StorageError, match="larger"):
        Policy.load(path)


def test_what_is_left_is_rounded_down_only():
    for value in (0.7, 2.0 - 1.3, 1 / 3, 1e-6, 123.456789123, 1e22, 1e300):
        rounded = module._rounded_down(value)
        assert rounded <= value
        assert math.isclose(rounded, value, abs_tol=1.1e-6)
    assert module._rounded_down(2.0 - 1.3) == 0.7


@pytest.mark.parametrize(
    ("proposed", "verdict"),
    [
        (("1", "0"), Verdict.GRANTED),
        (("0", "1", "2"), Verdict.REFUSED),
        (("0",), Verdict.REFUSED),
        (("0", "2"), Verdict.REFUSED),
        ((), Verdict.REFUSED),
    ],
)
def test_the_classes_of_a_policy_are_all_of_them_and_no_others(proposed, verdict):
    policy = Policy(largest_epsilon=1.0, classes=("0", "1"))
    assert decide(wanted(classes=proposed), policy, PLENTY).verdict is verdict


def test_work_and_bytes_are_limited_by_a_public_estimate():
    wanted = Wanted("mean-operator", Terms(0.5), 10, ("a",), work=100, size=50)
    left = Budget(1.0)
    for policy, granted in (
        (Policy(1.0, most_work=100, most_bytes=50), True),
        (Policy(1.0, most_work=99, most_bytes=50), False),
        (Policy(1.0, most_work=100, most_bytes=49), False),
    ):
        decision = decide(wanted, policy, left)
        assert (decision.verdict is Verdict.GRANTED) == granted
        assert granted or decision.reasons == (
            "this is too much work, or too large a release; propose a smaller one",
        )


def test_nothing_is_granted_below_the_least_epsilon():
    policy = Policy(1.0, least_epsilon=0.1)
    for epsilon, granted in ((0.1, True), (0.09, False)):
        wanted = Wanted("mean-operator", Terms(epsilon), 10, ("a",))
        decision = decide(wanted, policy, Budget(1.0))
        assert (decision.verdict is Verdict.GRANTED) == granted
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="least_epsilon"):
            Policy(1.0, least_epsilon=bad)


def test_a_large_map_is_refused_before_any_row_is_read(tmp_path):
    """One proposal of a map with 2,000 landmarks held the only worker for 330 s, and 32 MB."""
    from suffice.owner.ledger import Ledger
    from suffice.protocol.grant import grant, propose

    rng = np.random.default_rng(0)
    rows = pa.table({name: rng.normal(size=30) for name in "ab"})
    ledger = Ledger(tmp_path / "l", {"d": {"label": Budget(1.0)}}, {"d": {"y": (0, 1)}})
    policy = Policy(1.0, maps=True, features=("a", "b"))
    proposal = propose(rows, epsilon=0.5, map="nystroem:2000")
    unread = tmp_path / "there is no table"
    answer, release = grant(proposal, unread, policy=policy, ledger=ledger, dataset="d", label="y")
    assert (answer.name, release) == ("refused", None)
    assert "too large a release" in answer.reasons[0]
