"""Budgets as filters: what they allow holds however the next charge is chosen by earlier outputs.

Worst choices are computed exactly, by backward induction over all paths. Nothing is drawn.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.privacy import accounting
from suffice.privacy.accounting import Composed, composed_epsilon, fits, spent_epsilon
from suffice.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    Laplace,
    Pure,
    Unbounded,
    gaussian_delta,
    gaussian_multiplier,
)

ROOT = Path(__file__).parents[2]
EPSILON, DELTA = 1.0, 1e-6
Rule = Callable[[Sequence[Event], float, float], bool]


def list_so_far(events: Sequence[Event], epsilon: float, delta: float) -> bool:
    """Say what the rule that is no filter says: it composes the list that has come about."""
    return composed_epsilon(events, delta) <= epsilon


def outcomes(event: Event) -> list[tuple[float, float]]:
    """Return probability and loss of each output of the pair of laws that an event stands for."""
    assert isinstance(event, Pure | Approximate)
    lost = event.at_delta if isinstance(event, Approximate) else 0.0
    p = 1 / (1 + math.exp(-event.bound))
    known = [((1 - lost) * p, event.bound), ((1 - lost) * (1 - p), -event.bound)]
    return [(lost, math.inf), *known] if lost else known


def worst_delta(
    menu: Sequence[Event],
    depth: int,
    budget: tuple[float, float],
    path: tuple[Event, ...] = (),
    loss: float = 0.0,
) -> float:
    """Return the exact delta at a budget's epsilon of the worst way to choose from ``menu``.

    Whoever chooses sees the loss so far, stops when it pays, and ends with a Gaussian at most.
    """
    epsilon, delta = budget
    worst = 1.0 if loss == math.inf else max(0.0, -math.expm1(epsilon - loss))
    if worst == 1.0 or len(path) == depth:
        return worst
    for event in menu:
        if not fits([*path, event], epsilon, delta):
            continue
        if isinstance(event, Gaussian):
            worst = max(worst, gaussian_delta(epsilon - loss, event.multiplier))
        else:
            found = (
                p * worst_delta(menu, depth, budget, (*path, event), loss + step)
                for p, step in outcomes(event)
            )
            worst = max(worst, math.fsum(found))
    return worst


def least_noise(rule: Rule, first: Sequence[Event], budget: tuple[float, float]) -> Gaussian:
    """Return the Gaussian of least noise that a rule allows after ``first``."""
    refused, allowed = 1.0, 16.0
    while allowed - refused > 1e-3 * allowed:
        middle = math.sqrt(refused * allowed)
        if rule([*first, Gaussian(middle)], *budget):
            allowed = middle
        else:
            refused = middle
    return Gaussian(allowed)


def delta_of_choice(answers: int, bound: float, high: Gaussian, low: Approximate) -> float:
    """Return the worst delta of ``answers`` responses and one of two events, chosen by them."""
    p, total = 1 / (1 + math.exp(-bound)), 0.0
    for truths in range(answers + 1):
        weight = math.comb(answers, truths) * p**truths * (1 - p) ** (answers - truths)
        left = EPSILON - bound * (2 * truths - answers)
        total += weight * max(gaussian_delta(left, high.multiplier), low.at_delta)
    return total


@pytest.mark.parametrize(("answers", "bound", "least"), [(1, 0.2, 1.4), (7, 0.1, 1.9)])
def test_the_list_so_far_is_no_filter_and_ours_is(answers, bound, least):
    """Noise where the answers went badly, one lottery ticket where they did not."""
    first = [Pure(bound)] * answers
    budget = (EPSILON, DELTA)
    ticket = Approximate(1e-9, DELTA * (1 - 1e-9))
    noise = least_noise(list_so_far, first, budget)
    for event in (ticket, noise):
        assert list_so_far([*first, event], *budget)
    assert least * DELTA < delta_of_choice(answers, bound, noise, ticket) <= 2 * DELTA
    assert not (fits([*first, ticket], *budget) and fits([*first, noise], *budget))

    noise = least_noise(fits, first, budget)
    ticket = Approximate(1e-9, DELTA * accounting._AFTER_OTHER.stated)
    for event in (ticket, noise):
        assert fits([*first, event], *budget)
    assert delta_of_choice(answers, bound, noise, ticket) <= DELTA


# Budgets of a large delta, which a few answers can reach, and what may be asked.
TREES = [
    ((1.0, 0.05), (Pure(0.55), Pure(0.45), Approximate(0.3, 0.02), Gaussian(3.0), Gaussian(4.5))),
    ((0.6, 0.02), (Pure(0.2), Laplace(0.2), Approximate(0.01, 0.0099), Gaussian(6.0))),
    ((2.0, 0.08), (Pure(1.1), Approximate(0.9, 0.03), Approximate(0.2, 0.02), Gaussian(1.5))),
]


@pytest.mark.parametrize(("budget", "menu"), TREES)
def test_no_way_to_choose_exceeds_the_budget(budget, menu):
    worst = worst_delta(menu, 4, budget)
    assert 0.2 * budget[1] < worst <= budget[1] * (1 + 1e-12)


@pytest.mark.parametrize(("budget", "menu"), TREES)
def test_a_rule_that_forgets_stated_deltas_is_found_out(budget, menu, monkeypatch):
    monkeypatch.setattr(accounting, "_is_covered", lambda *_: True)
    assert worst_delta(menu, 4, budget) > budget[1]


@pytest.mark.parametrize("shares", [accounting._AFTER_GAUSSIAN, accounting._AFTER_OTHER])
def test_no_more_than_delta_is_shared_out(shares):
    assert 0.99 < math.fsum(shares) <= 1


def test_the_filters_after_other_events_have_no_share_of_the_gaussian_one():
    """It can allow no list that begins so; the first event is chosen before anything is seen."""
    assert accounting._AFTER_OTHER.gaussian == 0
    gaussian = Gaussian(40.0)
    assert spent_epsilon([Pure(0.1), gaussian, gaussian], DELTA) > 0.1 + spent_epsilon(
        [gaussian, gaussian], 0.9 * DELTA
    )


def slow_epsilon(events: Sequence[Event], delta: float, budget: float) -> float:
    """Return the least of what the Renyi filters of a budget cost, by integrals of 30 digits."""
    shares = (0.09, 0.01) if isinstance(events[0], Gaussian) else (0.5, 0.5)
    lost = sum(getattr(e, "at_delta", 0.0) + getattr(e, "tail", 0.0) for e in events)
    if lost > shares[1] * delta:
        return math.inf
    costs = []
    for multiple in (1, 2, 4):
        share = shares[0] * mpmath.mpf(delta) / 3
        order = 1 + multiple * 2 * mpmath.log(1 / share) / budget
        total = mpmath.fsum(slow_divergence(event, order) for event in events)
        # delta = E[(1 - e^(eps - L))+] <= max_u (e^(-(a-1)u) - e^(-a u)) e^((a-1)(D - eps))
        u = mpmath.log(order / (order - 1))
        most = mpmath.exp(-(order - 1) * u) - mpmath.exp(-order * u)
        costs.append(total + mpmath.log(most / share) / (order - 1))
    return float(min(costs))


def slow_divergence(event: Event, order: mpmath.mpf) -> mpmath.mpf:
    if isinstance(event, Laplace):
        b = event.bound
        integral = mpmath.quad(
            lambda x: mpmath.exp((order - 1) * abs(x - b) - order * abs(x)) / 2,
            [-mpmath.inf, 0, b, mpmath.inf],
        )
        return mpmath.log(integral) / (order - 1)
    if isinstance(event, Gaussian):
        slack = event.slack * (2 * order - 1) / (order - 1)
        return order / (2 * mpmath.mpf(event.multiplier) ** 2) + slack
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(event.bound)))
    integral = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
    return mpmath.log(integral) / (order - 1)


MIXES = [
    [Pure(0.4), Gaussian(6.0)],
    [Gaussian(6.0, 1e-4, 1e-9), Pure(0.4), Laplace(0.3)],
    [Laplace(0.05)] * 3 + [Approximate(0.3, 4e-7), Gaussian(9.0, 0.01)],
    [Pure(1e-4)] * 50 + [Gaussian(1e5)],
    [Pure(3.0), Gaussian(0.8)],
]


@pytest.mark.parametrize("events", MIXES)
def test_what_the_renyi_filters_allow_is_what_their_formula_says(events):
    spent = spent_epsilon(events, DELTA)
    with mpmath.workdps(30):
        assert slow_epsilon(events, DELTA, spent) <= spent
        assert slow_epsilon(events, DELTA, spent * (1 - 1e-6)) > spent * (1 - 1e-6)
    assert fits(events, spent, DELTA)
    assert not fits(events, spent * (1 - 1e-6), DELTA)


SOME = st.one_of(
    st.floats(0.01, 2.0).map(Pure),
    st.floats(0.01, 2.0).map(Laplace),
    st.floats(0.5, 50.0).map(Gaussian),
    st.builds(Approximate, st.floats(0.01, 1.0), st.floats(1e-9, 4e-7)),
    st.builds(Gaussian, st.floats(2.0, 50.0), st.floats(0, 1e-3), st.floats(0, 1e-9)),
)


def enlarged(event: Event, factor: float) -> Event:
    """Return an event of the same type that costs more."""
    match event:
        case Gaussian():
            return Gaussian(event.multiplier / factor, event.slack * factor, event.tail)
        case Approximate():
            return Approximate(event.bound * factor, event.at_delta * factor)
        case Laplace() | Pure():
            return type(event)(event.bound * factor)
    raise AssertionError(event)


@settings(max_examples=40)
@given(st.lists(SOME, min_size=2, max_size=6), st.floats(1.01, 3.0), st.data())
def test_what_costs_more_never_fits_where_less_did_not(events, factor, data):
    spent = spent_epsilon(events, DELTA)
    place = data.draw(st.integers(0, len(events) - 1))
    larger = [enlarged(e, factor) if i == place else e for i, e in enumerate(events)]
    assert spent_epsilon(larger, DELTA) >= spent * (1 - 1e-8)
    assert spent_epsilon([*events, data.draw(SOME)], DELTA) >= spent * (1 - 1e-8)
    assert spent_epsilon(events, DELTA * factor) <= spent * (1 + 1e-8)
    if math.isfinite(spent):
        assert fits(events, spent, DELTA)
        assert fits(events, spent * factor, DELTA)
        assert fits(events, spent, DELTA * factor)
        assert not fits(events, spent * (1 - 1e-8), DELTA)


def test_pure_losses_are_no_gaussians():
    """The Gaussian that dominates a pure loss of 1 would make two of them cost 9.3."""
    shift = 2 * NormalDist().inv_cdf(1 / (1 + math.exp(-1)))
    assert Gaussian(1 / (shift * math.sqrt(2))).epsilon(DELTA) == pytest.approx(9.3, abs=0.05)
    assert spent_epsilon([Pure(1.0), Pure(1.0)], DELTA) == 2.0
    assert fits([Pure(0.1)] * 10, 1.0, DELTA)
    assert not fits([Pure(0.1)] * 11, 1.0, DELTA)
    assert fits([Laplace(0.1)] * 10, 1.0, 0.0)


def test_gaussians_alone_add_in_squares_at_nine_tenths_of_delta():
    joined = Gaussian(5.0).epsilon(0.9 * DELTA)
    spent = spent_epsilon([Gaussian(10.0)] * 4, DELTA)
    assert joined < spent < joined + 3e-6
    rough = spent_epsilon([Gaussian(10.0, 1e-6)] * 4, DELTA)  # too much of it for that filter
    assert rough > 1.1 * joined


def test_a_first_charge_may_use_the_whole_budget_and_nothing_follows():
    """It is a list that nothing was seen before: its own curve counts."""
    for first in (
        Gaussian(gaussian_multiplier(1.0, DELTA)),
        Approximate(1.0, DELTA),
        Composed((Pure(0.2), Gaussian(5.05))),
    ):
        assert fits([first], EPSILON, DELTA)
        assert not fits([first, Pure(1e-6)], EPSILON, DELTA)
        assert spent_epsilon([first], DELTA) == pytest.approx(1.0, abs=2e-3)
    parts = [Pure(0.2), Gaussian(5.05)]  # the same, but the second could have been another
    assert not fits(parts, EPSILON, DELTA)


def test_nothing_is_spent_before_the_first_charge_and_all_by_an_unbounded_one():
    assert spent_epsilon([], DELTA) == 0
    assert spent_epsilon([Pure(1.0), Unbounded()], DELTA) == math.inf
    assert not fits([Pure(1.0), Unbounded()], 1e9, DELTA)
    assert spent_epsilon([Pure(1.0), Approximate(1.0, DELTA)], DELTA) == math.inf


def test_the_page_states_how_many_events_fit():
    """Every count of ours, and that one more is refused; the other column is the bench's."""
    spec = importlib.util.spec_from_file_location("filters", ROOT / "lab" / "bench" / "filters.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    page = (ROOT / "docs" / "ledger.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    stated = {row[0]: row[1:] for row in rows}
    for name, events in bench.LISTS.items():
        for (epsilon, delta), cell in zip(bench.BUDGETS, stated[name], strict=True):
            chosen, fixed = map(int, cell.split(" of "))
            assert chosen <= fixed
            assert fits(events(chosen, delta), epsilon, delta)
            assert not fits(events(chosen + 1, delta), epsilon, delta)
