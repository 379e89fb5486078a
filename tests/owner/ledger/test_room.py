"""What still fits into a budget: accepted as it is named, and refused 1 % above it."""

import hashlib
import re

import pytest

from suffice.errors import BudgetError, LedgerError, ParameterError, UnitError
from suffice.owner.ledger import Ledger, Request, rules
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.accounting import Composed, composed_epsilon, spent_epsilon
from suffice.privacy.events import Approximate, Event, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.privacy.noise import GaussianNoise, Sensitivity


def gaussian(epsilon: float, delta: float) -> Guarantee:
    """Return the guarantee of noise on a thousand numbers, as mechanisms calibrate it."""
    noise = GaussianNoise.calibrated(Sensitivity(2**28, 2.0**28, 1000), epsilon, delta)
    return Guarantee(unit=Unit.LABEL, event=noise.event, delta=delta)


def pure(epsilon: float, unit: Unit = Unit.LABEL) -> Guarantee:
    return Guarantee(unit=unit, event=Pure(epsilon))


def charge(ledger: Ledger, *guarantees: Guarantee, dataset: str = "d") -> None:
    name = f"request {len(ledger.history())}"
    request = Request(name, {"delta": guarantees[0].delta}, "data")
    ledger.debit(dataset, guarantees, request)


# What was charged before, to a budget of epsilon 2 at delta 1e-5.
EARLIER = {
    "nothing": [],
    "one gaussian": [gaussian(1.0, 1e-6)],
    "two types": [gaussian(0.5, 1e-6), pure(0.3)],
    "many": [Guarantee(unit=Unit.LABEL, event=Laplace(0.2 + k / 100)) for k in range(4)],
}


@pytest.mark.parametrize("earlier", EARLIER)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-5])
def test_the_largest_epsilon_is_accepted_and_one_per_cent_more_is_refused(tmp_path, earlier, delta):
    path = tmp_path / "l"
    ledger = Ledger(path, {"d": Budget(2.0, 1e-5)})
    for guarantee in EARLIER[earlier]:
        charge(ledger, guarantee)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    largest = ledger.largest_epsilon("d", delta=delta)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert 0 < largest == float(f"{largest:.3g}")
    of = pure if delta == 0 else lambda epsilon: gaussian(epsilon, delta)
    with pytest.raises(BudgetError):
        charge(ledger, of(1.01 * largest))
    charge(ledger, of(largest))


def test_a_real_release_of_the_largest_epsilon_is_accepted(tmp_path, rng):
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, size=200)
    ledger = Ledger(tmp_path / "l", {"d": Budget(2.0, 1e-5)})

    def release(epsilon: float, name: str) -> None:
        operator = MeanOperator(epsilon, 1e-6, "gaussian", map=None)
        operator.release(X, y, ledger=ledger, dataset="d", request=name)

    release(1.0, "first")
    largest = ledger.largest_epsilon("d", delta=1e-6)
    assert 1.5 < largest < 2.0  # Gaussian noise composes to far less than the sum
    with pytest.raises(BudgetError, match=f"largest epsilon that still fits is {largest:g}\\.$"):
        release(1.01 * largest, "too much")
    release(largest, "second")
    assert ledger.balances()[0].spent <= 2.0


def test_charges_are_counted_in_their_order(tmp_path):
    """The type of the first one decides how delta is shared; one release is one charge."""
    ledger = Ledger(tmp_path / "l", {"d": Budget(2.0, 1e-5)})
    first, second = gaussian(0.5, 1e-6), pure(0.3)
    charge(ledger, first)
    charge(ledger, second)
    expected = spent_epsilon([first.event, second.event], 1e-5)
    assert expected > 1.01 * spent_epsilon([second.event, first.event], 1e-5)
    assert ledger.balances()[0].spent == expected
    other = Ledger(tmp_path / "m", {"d": Budget(2.0, 1e-5)})
    charge(other, first, second)
    together = composed_epsilon([first.event, second.event], 1e-5)
    assert other.balances()[0].spent == together < expected


def test_a_refusal_says_what_fits(tmp_path):
    ledger = Ledger(tmp_path / "l", {"diagnosis": Budget(2.0, 1e-5)})
    charge(ledger, pure(1.0), dataset="diagnosis")
    with pytest.raises(BudgetError) as refusal:
        charge(ledger, pure(1.5), dataset="diagnosis")
    sentence = re.escape(
        "This release would exceed the budget of 'diagnosis': epsilon 2 per label at delta 1e-5,"
        " of which 1 is spent. The largest epsilon that still fits is "
    )
    match = re.fullmatch(sentence + r"([\d.]+)\.", str(refusal.value))
    assert match
    charge(ledger, pure(float(match[1])), dataset="diagnosis")


@pytest.mark.parametrize("type_", [Laplace, Pure, lambda e: Approximate(e, 1e-6)])
def test_what_a_refusal_names_is_for_a_release_of_the_same_type(tmp_path, type_):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0, 1e-5)})
    charge(ledger, pure(0.4))

    def of(epsilon: float) -> Guarantee:
        event: Event = type_(epsilon)
        return Guarantee(unit=Unit.LABEL, event=event, delta=0.0 if event.pure else 1e-6)

    with pytest.raises(BudgetError) as refusal:
        charge(ledger, of(3.0))
    largest = float(str(refusal.value).rpartition(" ")[2].rstrip("."))
    with pytest.raises(BudgetError):
        charge(ledger, of(1.01 * largest))
    charge(ledger, of(largest))


def test_where_nothing_fits_that_is_said(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    assert ledger.largest_epsilon("d") == 1.0
    assert ledger.largest_epsilon("d", delta=1e-6) == 0.0  # the budget has no delta
    with pytest.raises(BudgetError, match="No release with delta 1e-06 fits any more"):
        charge(ledger, gaussian(0.1, 1e-6))
    charge(ledger, pure(1.0))
    assert ledger.largest_epsilon("d") == 0.0
    with pytest.raises(BudgetError, match="No further release fits"):
        charge(ledger, pure(0.1))


def test_of_a_release_with_parts_no_epsilon_is_named(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(1.0)})
    parts = Guarantee(unit=Unit.LABEL, event=Composed((Pure(1.0), Pure(0.5))))
    for guarantees in ([parts], [pure(2.0), pure(2.0, Unit.RECORD)]):
        with pytest.raises(BudgetError, match=r"Request a smaller --epsilon \(Python"):
            charge(ledger, *guarantees)


def test_every_budget_that_a_release_is_charged_to_is_asked(tmp_path):
    budgets = {"label": Budget(2.0), "record": Budget(3.0)}
    ledger = Ledger(tmp_path / "l", {"d": budgets, "e": {"label": Budget(2.0)}})
    assert ledger.largest_epsilon("d") == ledger.largest_epsilon("d", unit="record") == 2.0
    assert ledger.largest_epsilon("e", unit=Unit.RECORD) == 2.0
    with pytest.raises(UnitError, match="budget per record"):
        ledger.largest_epsilon("d", unit="label")
    with pytest.raises(LedgerError, match="no data set 'f'"):
        ledger.largest_epsilon("f")
    with pytest.raises(ParameterError, match="delta must be below"):
        ledger.largest_epsilon("d", delta=0.5)


def test_candidates_are_decimals_of_three_digits_in_order():
    numbers = [rules._candidate(k) for k in range(rules._CANDIDATES)]
    assert numbers[:2] == [1e-6, 1.01e-6]
    assert numbers == sorted(set(numbers))
    assert all(number == float(f"{number:.3g}") for number in numbers)


def test_the_history_tells_the_sum_of_epsilons_from_what_they_cost_together(tmp_path):
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0, 1e-5)})
    for _ in range(3):
        charge(ledger, gaussian(0.5, 1e-6))
    (balance,) = ledger.balances()
    summed = sum(entry.stated_sum(balance) for entry in ledger.history())
    assert summed == pytest.approx(1.5, rel=1e-6)
    assert balance.spent < 0.9
    assert [entry.epsilons for entry in ledger.history()] == [
        ((Unit.LABEL, pytest.approx(0.5, rel=1e-6)),)
    ] * 3
    assert all(isinstance(event, Gaussian) for e in ledger.history() for _, event in e.charges)


def test_a_ledger_shows_its_budgets_as_a_table_that_cannot_steer_a_page(tmp_path):
    ledger = Ledger(tmp_path / "l", {"<b>\x1b[31m": Budget(2.0, 1e-5)})
    assert repr(ledger) == f"Ledger({str(tmp_path / 'l')!r})"
    assert "\x1b" not in str(ledger)
    assert str(ledger).splitlines()[1].split() == [
        "<b>\\x1b[31m", "label", "2", "1e-05", "0", "2", "0",
    ]  # fmt: skip
    page = ledger._repr_html_()
    assert "<b>" not in page
    assert "\x1b" not in page
    assert ">&lt;b&gt;\\x1b[31m</td>" in page
