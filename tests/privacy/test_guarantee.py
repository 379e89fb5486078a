"""Guarantees: derived numbers, plain English, exact JSON, units that never mix silently."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import CorruptFileError, ParameterError, UnitError
from suffice.privacy.accounting import Composed
from suffice.privacy.events import Gaussian, Laplace, Pure, Unbounded
from suffice.privacy.guarantee import (
    Assumption,
    Budget,
    Guarantee,
    Protection,
    Scope,
    Unit,
    compose,
)


def guarantee(**changes) -> Guarantee:
    fields = {
        "unit": Unit.LABEL,
        "event": Laplace(1.0),
        "public": ("the rows", "their number"),
        "assumptions": (Assumption("one row per person", "declared by the owner"),),
    }
    return Guarantee(**(fields | changes))


def test_epsilon_is_derived_from_the_event():
    assert guarantee().epsilon == 1.0
    gaussian = guarantee(event=Gaussian(4.0), delta=1e-6)
    assert gaussian.epsilon == Gaussian(4.0).epsilon(1e-6)
    assert guarantee(event=Unbounded(), kind=Protection.NONE).epsilon is None


def test_a_guarantee_cannot_be_changed():
    with pytest.raises(AttributeError):
        guarantee().delta = 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"event": Unbounded()},
        {"kind": Protection.NONE},
        {"event": Gaussian(4.0), "delta": 0.0},
        {"scope": Scope.MARGINAL},
        {"delta": 1.0},
        {"unit": "household"},
    ],
)
def test_a_guarantee_that_contradicts_itself_is_refused(changes):
    with pytest.raises(ParameterError):
        guarantee(**changes)


def test_the_guarantee_reads_as_english():
    assert str(guarantee()) == (
        "Protects each label. If any one label were different, the probability of any result of"
        " this release would change by at most a factor of 2.72 (epsilon = 1). This does not hide"
        " what the rest of the data says about that label."
        " Public, not protected: the rows and their number."
        " Assumes: one row per person (declared by the owner)."
    )


@given(st.floats(1e-4, 19.9))
def test_the_stated_number_is_never_smaller_than_the_true_one(bound):
    text = str(guarantee(event=Pure(bound), public=(), assumptions=()))
    stated = float(text.partition("epsilon = ")[2].partition(")")[0])
    assert bound * (1 - 1e-11) <= stated <= bound * 1.01
    budget = float(str(Budget(bound)).split()[1].rstrip(","))
    assert bound * (1 - 1e-11) <= budget <= bound * 1.00001


@given(st.sampled_from(list(Unit)), st.floats(1e-3, 50), st.sampled_from([Scope.JOINT]))
def test_json_round_trip(unit, bound, scope):
    before = guarantee(unit=unit, event=Laplace(bound), scope=scope)
    assert Guarantee.from_json(json.loads(json.dumps(before.to_json()))) == before


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.5},
        {"epsilon": None},
        {"epsilon": True},
        {"event": {"event": "composed", "events": []}, "epsilon": 0.0},
        {"event": {"event": "composed", "events": []}, "epsilon": 0.0, "delta": 1e-6},
        {"event": {"event": "composed", "events": [{"event": "pure", "bound": 1e308}] * 3}},
        {"delta": "0"},
        {"unit": "household"},
        {"public": "everything"},
        {"public": [1]},
        {"assumptions": [{"statement": "x"}]},
        {"neighbours": 3},
        {"more": 1},
        {"kind": "none"},
    ],
)
def test_a_doctored_guarantee_is_noticed(change):
    data = guarantee().to_json() | change
    if change == {"public": "everything"}:
        data["public"] = 7
    with pytest.raises(CorruptFileError):
        Guarantee.from_json(data)


def test_only_a_global_and_joint_promise_of_a_small_delta_is_called_protection():
    """Whatever else it is, it leaves only if the owner says so (`publish`)."""
    assert guarantee().protected
    for weaker in (
        {"scope": Scope.MARGINAL, "columns": ("age",)},
        {"kind": Protection.DATA_DEPENDENT},
        {"kind": Protection.NONE, "event": Unbounded()},
        {"event": Gaussian(4.0), "delta": 0.1},
    ):
        assert not guarantee(**weaker).protected, weaker


@pytest.mark.parametrize("lower", [0.5, 0.99])
def test_a_file_cannot_state_less_than_a_pure_loss_and_a_gaussian_cost_together(lower):
    """More than the dearer of the two alone, and less than both: between, the exact curve."""
    event, delta = Composed((Pure(1.0), Gaussian(2.0))), 1e-6
    honest = guarantee(unit=Unit.RECORD, event=event, delta=delta)
    data = honest.to_json()
    assert Guarantee.from_json(data).epsilon == honest.epsilon
    dearest = Gaussian(2.0).epsilon(delta)
    data["epsilon"] = dearest + lower * (honest.epsilon - dearest)
    with pytest.raises(CorruptFileError, match="not the one its event has"):
        Guarantee.from_json(data)


def test_units_are_ordered_by_what_they_contain():
    assert Unit.PARTY.covers(Unit.RECORD)
    assert Unit.RECORD.covers(Unit.LABEL)
    assert not Unit.LABEL.covers(Unit.RECORD)
    assert not Unit.ATTRIBUTE.covers(Unit.LABEL)


def test_units_do_not_mix_unless_narrowed_aloud():
    label, record = guarantee(), guarantee(unit=Unit.RECORD, event=Pure(0.5))
    with pytest.raises(UnitError, match="per label and per record"):
        compose([label, record], delta=0.0)
    with pytest.raises(UnitError):
        label.narrowed(Unit.RECORD)
    total = compose([label, record.narrowed("label")], delta=0.0)
    assert total == Guarantee.from_json(total.to_json())
    assert total.epsilon == 1.5
    assert total.unit is Unit.LABEL
    assert total.public == ("the rows", "their number")


def test_the_weakest_part_names_the_whole():
    assert compose([guarantee(), guarantee(kind=Protection.DATA_DEPENDENT)], delta=0.0).kind is (
        Protection.DATA_DEPENDENT
    )
    nothing = guarantee(event=Unbounded(), kind=Protection.NONE)
    assert compose([guarantee(), nothing], delta=0.0).epsilon is None


def test_marginal_guarantees_do_not_compose():
    with pytest.raises(UnitError, match="Marginal guarantees do not compose"):
        compose([guarantee(scope=Scope.MARGINAL, columns=("x",))] * 2, delta=0.0)


def test_guarantees_about_different_attributes_do_not_compose():
    age, income = (guarantee(unit=Unit.ATTRIBUTE, columns=(name,)) for name in ("age", "income"))
    assert compose([age, age], delta=0.0).columns == ("age",)
    with pytest.raises(UnitError, match="different columns or tables"):
        compose([age, income], delta=0.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (math.inf, 0), (1, 1), (1, -1)])
def test_an_impossible_budget_is_refused(epsilon, delta):
    with pytest.raises(ParameterError):
        Budget(epsilon, delta)


def test_the_smallest_delta_can_be_shown():
    assert str(Budget(1.0, 1e-310)) == "epsilon 1, delta 1e-310"


def test_the_epsilon_that_a_file_states_keeps_its_last_digit():
    """Else another machine, or version, would change the bytes that were signed."""
    guarantee = Guarantee(Unit.LABEL, Gaussian(3.0), 1e-6)
    moved = {**guarantee.to_json(), "epsilon": guarantee.epsilon * (1 + 1e-12)}
    read = Guarantee.from_json(moved)
    assert read.to_json() == moved
    assert read == guarantee
    assert read.narrowed("label").epsilon == moved["epsilon"]
    assert replace(read, delta=1e-5).epsilon == replace(guarantee, delta=1e-5).epsilon
    other = Gaussian(4.0)
    assert replace(read, event=other).epsilon == other.epsilon(1e-6)
    with pytest.raises(CorruptFileError, match="epsilon stated"):
        Guarantee.from_json({**moved, "epsilon": guarantee.epsilon * (1 - 1e-8)})


# Views.


def test_the_repr_names_unit_kind_and_cost():
    assert repr(guarantee(event=Gaussian(4.0), delta=1e-6)) == (
        "<Guarantee per label: epsilon = 1.06071, delta = 1e-6>"
    )
    marginal = guarantee(unit="attribute", scope="marginal", columns=("age", "a\x1b[2Jb"))
    assert repr(marginal) == '<Guarantee per attribute of age, "a\\x1b[2Jb": marginal, epsilon = 1>'
    assert repr(guarantee(event=Unbounded(), kind="none")) == "<Guarantee per label: none>"


def test_a_notebook_shows_the_sentences_and_no_markup_of_a_stranger():
    data = guarantee().to_json() | {"public": ["<script>alert(1)</script>"]}
    page = Guarantee.from_json(data)._repr_html_()
    assert "<p>Protects each label. If any one label were different" in page
    assert "<li>Assumes: " in page
    assert "<script" not in page
    assert "&lt;script&gt;" in page
