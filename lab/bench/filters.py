"""How many events fit a budget: as one list that is fixed beforehand, and chosen one by one.

`python lab/bench/filters.py` prints the table of docs/ledger.md. No claim about speed.
"""

from collections.abc import Callable

from suffice.privacy.accounting import composed_epsilon, fits
from suffice.privacy.events import Event, Gaussian, Laplace, Pure, gaussian_multiplier

BUDGETS = [(epsilon, delta) for delta in (1e-6, 1e-5) for epsilon in (1.0, 2.0, 4.0)]


def _gaussian(epsilon: float, delta: float) -> Gaussian:
    return Gaussian(gaussian_multiplier(epsilon, delta), 1e-9)


def _mixed(times: int, epsilon: float, delta: float) -> list[Event]:
    pair = (Pure(epsilon), _gaussian(epsilon, delta))
    return [pair[number % 2] for number in range(times)]


LISTS: dict[str, Callable[[int, float], list[Event]]] = {
    "pure 0.1": lambda times, _: [Pure(0.1)] * times,
    "Laplace 0.1": lambda times, _: [Laplace(0.1)] * times,
    "Gaussian 0.1": lambda times, delta: [_gaussian(0.1, delta)] * times,
    "pure and Gaussian 0.1 in turn": lambda times, delta: _mixed(times, 0.1, delta),
    "pure and Gaussian 0.3 in turn": lambda times, delta: _mixed(times, 0.3, delta),
}


def most(allowed: Callable[[int], bool]) -> int:
    """Return the largest number that is allowed, where all smaller ones are."""
    refused = 1
    while allowed(refused):
        refused *= 2
    fitting = refused // 2
    while refused - fitting > 1:
        middle = (fitting + refused) // 2
        fitting, refused = (middle, refused) if allowed(middle) else (fitting, middle)
    return fitting


def cell(epsilon: float, delta: float, name: str) -> str:
    """Return how many events fit one by one, of those that fit as one list."""
    events = LISTS[name]
    fixed = most(lambda times: composed_epsilon(events(times, delta), delta) <= epsilon)
    chosen = most(lambda times: fits(events(times, delta), epsilon, delta))
    return f"{chosen} of {fixed}"


def main() -> None:
    budgets = [f"{epsilon:g} at {delta:g}".replace("e-0", "e-") for epsilon, delta in BUDGETS]
    print(f"| events | {' | '.join(budgets)} |\n|---|{'---|' * len(budgets)}")
    for name in LISTS:
        print(f"| {name} | {' | '.join(cell(*budget, name) for budget in BUDGETS)} |", flush=True)


if __name__ == "__main__":
    main()
