"""A budget is raised by a decision that the log holds; every rule of a charge stays as it was."""

import multiprocessing
import random
import sqlite3
import time
from typing import Any

import pytest

from spenders import PRELOADED
from suffice.errors import BudgetError, LedgerError, ParameterError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.ledger.log import Kind
from suffice.privacy.events import Gaussian, Laplace
from suffice.privacy.guarantee import Budget, Guarantee, Unit

WHY = {"reason": "the study goes on", "token": "0", "by": "the owner"}
STRONG = [Guarantee(Unit.LABEL, Laplace(0.6))]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(PRELOADED)


def budget(epsilon: float, delta: float = 0.0) -> dict[Unit, Budget]:
    return {Unit.LABEL: Budget(epsilon, delta)}


def charge(ledger: Ledger, name: str, guarantees=STRONG) -> bool:
    """Charge and finish a request; say whether it fits."""
    try:
        if ledger.debit("d", guarantees, Request(name, {}, "data")) is None:
            ledger.finish("d", name, name.encode())
    except BudgetError:
        return False
    return True


def test_a_raised_budget_keeps_its_charges_and_allows_the_difference(place):
    path = place()
    ledger, other = Ledger(path, {"d": budget(1.0)}), Ledger(path)
    assert [charge(ledger, "a"), charge(ledger, "b")] == [True, False]
    assert ledger.change_budgets("d", budget(1.5), WHY)
    (balance,) = other.balances()  # of a process that had read the log before
    assert (balance.budget, balance.spent) == (Budget(1.5), 0.6)
    assert [charge(other, "b"), charge(ledger, "c")] == [True, False]
    assert charge(ledger, "a")  # the stored bytes
    assert Ledger(path).balances()[0].spent == pytest.approx(1.2)
    kinds = [entry.kind for entry in Ledger(path).verify()]
    assert kinds.count(Kind.RAISED) == 1
    entry = next(e for e in ledger.log() if e.kind == Kind.DECISION)
    assert WHY.items() <= entry.facts.items()
    assert (entry.facts["decision"], entry.facts["budgets"]) == (
        "granted",
        {"label": ["1.5", "0.0"]},
    )


@pytest.mark.parametrize(
    "wanted",
    [budget(1.0, 1e-5), budget(0.5, 1e-5), budget(2.0), budget(2.0, 1e-4), {},
     {Unit.RECORD: Budget(2.0, 1e-5)}, {**budget(2.0, 1e-5), Unit.RECORD: Budget(1.0)}],
)  # fmt: skip
def test_a_budget_gets_a_larger_epsilon_and_nothing_else(place, wanted):
    ledger = Ledger(place(), {"d": budget(1.0, 1e-5)})
    before = ledger.log()
    with pytest.raises(ParameterError, match="can be raised"):
        ledger.change_budgets("d", wanted, WHY)
    assert ledger.log() == before
    assert ledger.budgets("d") == budget(1.0, 1e-5)


def test_charges_after_a_raise_are_those_of_a_budget_that_was_larger_from_the_start(place):
    """The filters, the composed total and the largest epsilon that fits depend on no history."""
    delta, menu = 1e-6, [Gaussian(9.0), Laplace(0.05), Gaussian(4.0), Gaussian(14.0), Laplace(0.3)]
    small = Ledger(place("small"), {"d": budget(0.4, delta)})
    for number, event in enumerate(menu[:2] * 2):
        charge(small, f"{number}", [Guarantee(Unit.LABEL, event, delta)])
    charged = [entry.request for entry in small.history()]
    assert charged
    small.change_budgets("d", budget(1.3, delta), WHY)
    large = Ledger(place("large"), {"d": budget(1.3, delta)})
    for number, event in enumerate(menu[:2] * 2):
        if f"{number}" in charged:
            assert charge(large, f"{number}", [Guarantee(Unit.LABEL, event, delta)])
    for number, event in enumerate(menu * 6):
        both = [
            charge(ledger, f"later {number}", [Guarantee(Unit.LABEL, event, delta)])
            for ledger in (small, large)
        ]
        assert both[0] == both[1]
        assert small.balances() == large.balances()
        assert small.largest_epsilon("d", delta) == large.largest_epsilon("d", delta)
    assert small.balances()[0].spent <= 1.3
    assert not both[0]


def test_a_data_set_is_opened_by_a_decision(place):
    ledger = Ledger(place(), {"d": budget(1.0)})
    declared = {"relapse": ("no", "yes")}
    assert ledger.change_budgets("new", budget(2.0), WHY, declared=declared)
    assert ledger.classes("new", "relapse") == ("no", "yes")
    assert ledger.budgets("new") == budget(2.0)
    kinds = [entry.kind for entry in ledger.verify()][-3:]
    assert kinds == [Kind.DECISION, Kind.BUDGET, Kind.CLASSES]


def test_two_people_agree_to_the_same_budgets(place):
    ledger = Ledger(place(), {"d": budget(1.0)})
    ada, ben = ({**WHY, "by": f"{who} of here"} for who in ("Ada, 1", "Ben, 2"))
    asked = {"dataset": "d", "budgets": budget(2.0)}
    assert not ledger.change_budgets(**asked, decision=ada, person=", 1 of here")
    with pytest.raises(ParameterError, match="agreed already"):
        ledger.change_budgets(**asked, decision=ada, person=", 1 of here")
    # To another budget this is the first agreement, and no second one.
    assert not ledger.change_budgets("d", budget(3.0), ben, person=", 2 of here")
    assert ledger.budgets("d") == budget(1.0)
    assert {facts["by"] for facts in ledger.open_decisions("d")} == {
        "Ada, 1 of here",
        "Ben, 2 of here",
    }
    assert ledger.change_budgets(**asked, decision=ben, person=", 2 of here")
    assert ledger.budgets("d") == budget(2.0)
    (larger,) = ledger.open_decisions("d")
    ledger.refuse_budgets(larger, ada)
    assert ledger.open_decisions("d") == []
    assert not ledger.change_budgets("d", budget(3.0), ada, person=", 1 of here")
    assert ledger.budgets("d") == budget(2.0)  # what was refused is agreed to anew
    assert not ledger.change_budgets(
        "new", budget(3.0), ada, declared={"y": (0, 1)}, person=", 1 of here"
    )
    assert not ledger.change_budgets(
        "new", budget(3.0), ben, declared={"y": (0, 2)}, person=", 2 of here"
    )
    ledger.verify()


def test_who_agreed_and_what_was_raised_are_read_off_the_log(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": budget(1.0)})
    ledger.change_budgets("d", budget(2.0), WHY)
    with sqlite3.connect(tmp_path / "l") as db:
        db.execute("UPDATE budgets SET epsilon = '9.0'")
    with pytest.raises(LedgerError, match="a budget"):
        charge(ledger, "a")
    with pytest.raises(LedgerError, match="altered"):
        Ledger(tmp_path / "l").change_budgets("d", budget(10.0), WHY)
    assert Ledger(tmp_path / "l").frozen


def test_a_frozen_ledger_raises_nothing(place):
    ledger = Ledger(place(), {"d": budget(1.0)})
    with ledger.store.writing() as records:
        records.freeze("a copy")
    with pytest.raises(LedgerError):
        ledger.change_budgets("d", budget(2.0), WHY)


def test_the_steps_of_a_budget_are_its_charges_and_its_raises(place):
    ledger = Ledger(place(), {"d": budget(1.0)})
    charge(ledger, "a")
    ledger.change_budgets("d", budget(2.0), WHY)
    for number in range(5):
        charge(ledger, f"{number}", [Guarantee(Unit.LABEL, Laplace(0.1))])
    steps = ledger.spent_after("d", 100)[Unit.LABEL]
    assert [step.limit for step in steps] == [1.0] * 2 + [2.0] * 6
    assert [round(step.spent, 6) for step in steps] == [0, 0.6, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1]
    few = ledger.spent_after("d", 2)[Unit.LABEL]
    assert [step.limit for step in few] == [1.0, 2.0, 2.0, 2.0]
    assert few[-1] == steps[-1]


def spend(path: str, number: int, begun: Any) -> None:
    ledger = Ledger(path)
    for turn in range(40):
        charge(ledger, f"{number}.{turn}", [Guarantee(Unit.LABEL, Laplace(0.1))])
        begun.set()


def raise_it(path: str) -> None:
    ledger = Ledger(path)
    for tenth in range(6, 41):
        try:
            ledger.change_budgets("d", budget(tenth / 10), WHY)
        except ParameterError:  # another process was faster
            continue


def test_killed_while_others_spend_and_raise_nothing_is_overspent(place):
    path, dice = place(), random.Random(4)
    Ledger(path, {"d": budget(0.5)})
    for _ in range(6):
        begun = CONTEXT.Event()  # somebody was charged
        people = [
            CONTEXT.Process(target=spend, args=(path, dice.randrange(10**6), begun))
            for _ in range(2)
        ]
        people.append(CONTEXT.Process(target=raise_it, args=(path,)))
        for process in people:
            process.start()
        begun.wait(20)  # later rounds may find the budget spent
        time.sleep(dice.uniform(0.0, 0.5))
        for process in people:
            process.kill()  # one may have ended
            process.join()
        ledger = Ledger(path)
        ledger.verify()
        (balance,) = ledger.balances()
        assert balance.spent <= balance.budget.epsilon
    assert balance.debits
