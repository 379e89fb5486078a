"""A delta of .1 or more is refused where it is asked for; in a file it is called no protection."""

import re

import numpy as np
import pytest

from suffice import participant
from suffice.errors import BudgetError, ParameterError, UnprotectedError
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator, plan_mean_operator
from suffice.owner.mechanism import Payment, publish
from suffice.owner.parties.ensemble import PrivateEnsemble, plan_parties
from suffice.owner.policy import Policy, Terms
from suffice.owner.proportions import LabelProportions, plan_proportions, plan_skew
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.owner.survey import new_survey
from suffice.privacy import events
from suffice.privacy.events import Approximate
from suffice.privacy.guarantee import Budget, Guarantee, Protection

ROWS = np.random.default_rng(0).normal(size=(50, 2))
NUMBERS = {
    "states": {"q": ["no", "yes"]},
    "ranges": {"a": (0, 1)},
    "flip": 0.25,
    "noise": 1.0,
    "kernel": "gaussian",
}
ASKED = {
    "budget": lambda d: Budget(1.0, d),
    "mean operator": lambda d: MeanOperator(1.0, d, map=None),
    "its plan": lambda d: plan_mean_operator(ROWS, epsilon=1.0, delta=d, map=None),
    "proportions": lambda d: LabelProportions(1.0, d),
    "their plan": lambda d: plan_proportions([100, 100], 2, 1.0, d),
    "skew": lambda d: plan_skew(1000, 2, 3.0, d),
    "parties": lambda d: PrivateEnsemble(1.0, d),
    "their plan too": lambda d: plan_parties(parties=300, epsilon=1.0, delta=d, rows=9, features=2),
    "rados": lambda d: Rados(unit="record", epsilon=1.0, delta=d),
    "rados of a protected column": lambda d: Rados(protect=["x0"], delta=d),
    "responses": lambda d: RandomizedResponse(delta=d),
    "terms of a proposal": lambda d: Terms(1.0, d),
    "policy": lambda d: Policy(1.0, d),
    "survey": lambda d: new_survey("t", **NUMBERS, delta=d),
    "survey without numbers": lambda d: new_survey(
        "t", states={"q": [0, 1]}, flip=0.25, delta=d
    ),
    "participant": lambda d: participant.Randomizer(
        participant.Number(0, 1, "gaussian", 1.0), delta=d
    ),
}  # fmt: skip


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.99, 0.999999])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_delta_of_a_tenth_or_more_is_refused(asked, delta):
    with pytest.raises(ValueError, match=r"delta must be below 0\.1"):
        asked(delta)


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_the_delta_of_the_papers_stays_possible(asked):
    asked(0.05)
    asked(0.0999)


def test_a_participant_has_the_same_rule():
    assert participant.NO_PROTECTION_DELTA == events.NO_PROTECTION_DELTA
    assert participant.EXPLAINED_DELTA == events.EXPLAINED_DELTA


def of(delta: float, kind: Protection = Protection.GLOBAL) -> Guarantee:
    return Guarantee("label", Approximate(0.5, delta), delta=delta, kind=kind)


@pytest.mark.parametrize("delta", [0.1, 0.99])
def test_a_file_that_states_such_a_delta_loads_and_is_called_no_protection(delta):
    read = Guarantee.from_json(of(delta).to_json())
    assert str(read).startswith("No protection: in the worst case, a mechanism with delta = ")
    assert "Protects" not in str(read)
    assert not read.protected
    with pytest.raises(UnprotectedError):
        publish(
            lambda: pytest.fail("nothing is drawn"),
            [read],
            Payment(None),
            parameters={},
        )


def test_a_large_delta_is_explained_before_any_epsilon():
    for kind in (Protection.GLOBAL, Protection.DATA_DEPENDENT):
        sentence = str(of(0.05, kind))
        assert sentence.startswith(
            "Large delta: in the worst case, a mechanism with delta = 0.05 reveals each label"
            " completely with probability 0.05 (1 in 20). "
        )
        assert sentence.index("1 in 20") < sentence.index("epsilon = ")
    assert of(0.05).protected
    assert re.match("Protects each label", str(of(1e-3)))
    assert "1 in 999)" in str(of(0.001001))  # rounded towards more
    assert "in the worst case" not in str(of(1e-6))


def test_a_ledger_with_such_a_budget_opens_and_charges_nothing(tmp_path):
    """As the code before this rule made them."""
    ledger = Ledger(tmp_path / "old.ledger", {"d": Budget.stored(1.0, 0.99)})
    (balance,) = Ledger(ledger.path).balances()
    assert balance.budget.delta == 0.99
    assert balance.budget.explained("label").startswith("No protection: ")
    with pytest.raises(BudgetError, match="at which epsilon limits nothing"):
        MeanOperator(0.1, 1e-6, map=None).release(
            ROWS, (ROWS[:, 0] > 0).astype(int), ledger=ledger, dataset="d"
        )
    assert Ledger(ledger.path).balances()[0].debits == 0


def test_arithmetic_reads_any_delta():
    assert events.gaussian_epsilon(0.5, 1.0) == 0.0
    assert events.read_delta(0.999) == 0.999
    for wrong in (1.0, -0.1, np.nan, "x"):
        with pytest.raises(ParameterError, match=r"delta must lie in \[0, 1\)"):
            events.read_delta(wrong)
