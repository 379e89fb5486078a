"""What several events cost together: of one release by distributions, of a budget by filters.

The events of one release are a list that is fixed beforehand. Its cost is the smaller of two valid
bounds: that of dp-accounting's privacy-loss distributions, which are discretised pessimistically,
and the plain sum of the parts. Distributions are not asked where their floats cannot answer: for a
tiny delta or an enormous loss.

The charges of a budget may each be chosen by what came out before. `fits` is a filter: it holds
however they are chosen (proofs/accounting.md).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.privacy.events import (
    Approximate,
    Event,
    Gaussian,
    Laplace,
    Pure,
    Unbounded,
    gaussian_delta,
    single_event,
)

_INTERVAL = 1e-4  # of a single loss; the sum of n losses is at most n intervals too high
_ROUNDING = 1e-9  # far above what the floats of a convolution can lose
CONVOLUTION_ERROR = 1e-12  # of delta, absolute: Fourier transforms lose about 1e-14
LEAST_DELTA = 1e-11  # below this, only sums are trusted
_MOST_EPSILON = 200.0  # above this nothing is protected, and a distribution would fill the memory
_AGREES = 1e-9  # relative: two computations of one epsilon differ by less
_MOST_POINTS = 50_000  # of distributions that are computed for a stranger: a fraction of a second
_MOST_WORK = 600_000  # of all distributions of a stranger's file, as `Effort` counts: a second
_MOST_EVENTS = 4096  # of all composed events in a stranger's file: each has a curve to be read
_FINE_EVENTS = 100  # with more events than this the interval shrinks in proportion
_MOST_PARTS = 256  # a stranger's file must not keep us convolving
_ORDERS = (1.0, 2.0, 4.0)  # of the Renyi filters, less one, in 2 ln(1/share of delta) / epsilon
_MOST_SLACK = 1e-6  # of all Gaussians that the Gaussian filter allows together


class _Shares(NamedTuple):
    """How a budget's delta is divided; the parts sum to at most one."""

    gaussian: float  # for the filter of Gaussian events alone
    stated: float  # for the deltas of events, and the tails of Gaussians
    renyi: float  # for the Renyi filters together


_AFTER_GAUSSIAN = _Shares(0.9, 0.01, 0.09)  # where the first event of a budget is a Gaussian
_AFTER_OTHER = _Shares(0.0, 0.5, 0.5)
_WIDTH = 1e-12  # of an interval that is searched for an epsilon, relative
_POWERS = tuple(2.0**k for k in range(-10, 20))  # where a search for an epsilon begins


@dataclass(frozen=True)
class Composed(Event):
    """Several events on the same unit, one after the other; each may look at what came before.

    What holds where the list itself is chosen by earlier outputs is in proofs/accounting.md.
    ``stated`` is a point (delta, epsilon) of theirs that a file states and that was checked
    (`as_stated`): there it is not computed anew.
    """

    events: tuple[Event, ...]
    stated: tuple[float, float] | None = field(default=None, compare=False, repr=False)
    name: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        if not self.events:
            raise ParameterError("A composed event has at least one part.")

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of the composition, by privacy-loss distributions."""
        if self.stated is not None and self.stated[0] == delta:
            return self.stated[1]
        return composed_epsilon(self.events, delta)

    def to_json(self) -> dict[str, Any]:
        """Return the event and its parts as plain JSON values."""
        return {"event": self.name, "events": [event.to_json() for event in self.events]}


def event_from_json(data: object) -> Event:
    """Return the event that `Event.to_json` wrote; anything else is an error of the library."""
    if not isinstance(data, dict):
        raise CorruptFileError("A privacy event must be a JSON object.")
    if data.get("event") != Composed.name:
        return single_event(data)
    parts = data.get("events")
    few = isinstance(parts, list) and 1 <= len(parts) <= _MOST_PARTS
    inner = [part.get("event") for part in parts or () if isinstance(part, dict)] if few else []
    if set(data) != {"event", "events"} or not few or Composed.name in inner:
        raise CorruptFileError("A composed privacy event must hold a flat list of events.")
    return Composed(tuple(event_from_json(part) for part in parts or ()))


def compose_events(events: Iterable[Event]) -> Event:
    """Return one event for all of ``events``: the event itself if there is just one."""
    flat = _flat(events)
    if not flat:
        raise ParameterError("There is no event to compose.")
    return flat[0] if len(flat) == 1 else Composed(tuple(flat))


def _flat(events: Iterable[Event]) -> list[Event]:
    flat: list[Event] = []
    for event in events:
        flat.extend(event.events if isinstance(event, Composed) else (event,))
    return flat


def _basic_sum(events: Sequence[Event], delta: float) -> float:
    """Return the best epsilon of basic composition: pure parts add, the rest share delta evenly."""
    pure = [event.bound for event in events if isinstance(event, Pure)]
    points = [event for event in events if isinstance(event, Approximate)]
    other = [event for event in events if not isinstance(event, Pure | Approximate)]
    remaining = delta - math.fsum(event.at_delta for event in points)
    if remaining < 0 or (other and remaining <= 0):
        return math.inf
    share = remaining / max(1, len(other))
    return math.fsum(
        [*pure, *(event.bound for event in points), *(event.epsilon(share) for event in other)]
    )


def loss_distribution(event: Event, interval: float = _INTERVAL) -> Any:
    """Return a privacy-loss distribution that dominates ``event`` (without a Gaussian's slack)."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    options: dict[str, Any] = {"value_discretization_interval": interval}
    match event:
        case Laplace():
            return pld.from_laplace_mechanism(1 / event.bound, **options)
        case Pure():
            return pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(event.bound, 0), **options
            )
        case Approximate():
            return pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(event.bound, event.at_delta), **options
            )
        case Gaussian():
            return pld.from_gaussian_mechanism(event.multiplier, **options)
    raise ParameterError(f"A {event.name} event has no privacy-loss distribution.")


def _joint(counts: Mapping[Event, int]) -> Gaussian | None:
    """Return one Gaussian that costs exactly as much as these together; None if that is none.

    It is none if one of them is another event, or they hide nothing together.
    """
    gaussians = {event: times for event, times in counts.items() if isinstance(event, Gaussian)}
    if not gaussians or len(gaussians) < len(counts):
        return None
    if sum(gaussians.values()) == 1:
        return next(iter(gaussians))
    precision = _times((times, event.multiplier**-2) for event, times in gaussians.items())
    slack = _times((times, event.slack) for event, times in gaussians.items())
    tail = _times((times, event.tail) for event, times in gaussians.items())
    try:
        return Gaussian(precision**-0.5, slack, tail)
    except ParameterError:
        return None


def _joined(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events with all Gaussians as one, which costs exactly as much as they do.

    Where no event can state it (they hide nothing together) they stay as they are.
    """
    joint = _joint(Counter(event for event in events if isinstance(event, Gaussian)))
    if joint is None:
        return tuple(events)
    return (joint, *(event for event in events if not isinstance(event, Gaussian)))


def _by_distribution(events: Sequence[Event], delta: float) -> float:
    """Return epsilon by convolving the parts."""
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    slack = math.fsum(event.slack for event in gaussians)
    remaining = (delta - math.fsum(event.tail for event in gaussians)) * math.exp(-slack)
    remaining -= CONVOLUTION_ERROR
    if remaining <= 0:
        return math.inf
    counts = Counter(events)
    interval = _INTERVAL * min(1.0, _FINE_EVENTS / counts.total())
    total = None
    for event, times in counts.items():
        part = loss_distribution(event, interval)
        part = part.self_compose(times) if times > 1 else part
        total = part if total is None else total.compose(part)
    assert total is not None  # noqa: S101  # for the type checker: there are events
    return float(total.get_epsilon_for_delta(remaining)) * (1 + _ROUNDING) + _ROUNDING + 2 * slack


def composed_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the smallest epsilon we can prove for all ``events`` together at ``delta``."""
    return _composed_epsilon(tuple(_flat(events)), delta)


@lru_cache(maxsize=64)  # a guarantee is read often, and convolving takes a second
def _composed_epsilon(parts: tuple[Event, ...], delta: float) -> float:
    if any(isinstance(event, Unbounded) for event in parts):
        return math.inf
    joined = _joined(parts)
    sum_bound = min(_basic_sum(parts, delta), _basic_sum(joined, delta))
    if len(joined) == 1 or delta <= LEAST_DELTA or sum_bound > _MOST_EPSILON:
        return sum_bound
    return min(sum_bound, _by_distribution(joined, delta))


class Effort:
    """What may be computed to check one stranger's file, however many guarantees it states."""

    def __init__(self) -> None:
        self._events, self._work = 0, 0.0
        self._computed: set[tuple[tuple[Event, ...], float]] = set()

    def read(self, events: Sequence[Event]) -> None:
        """Raise if a file composes too many events, these among them."""
        self._events += len(events)
        if self._events > _MOST_EVENTS:
            raise _too_many()

    def convolve(self, events: Sequence[Event], delta: float) -> None:
        """Raise if the distribution of these is large, or one too many; twice is once."""
        if (computation := (tuple(events), delta)) in self._computed:
            return
        self._computed.add(computation)
        # About how many numbers the distributions of the events have, all together.
        interval, bounded = _INTERVAL * min(1.0, _FINE_EVENTS / len(events)), Pure | Approximate
        losses = (
            event.bound if isinstance(event, bounded) else event.epsilon(CONVOLUTION_ERROR)
            for event in events
        )
        points = 2 / interval * math.fsum(losses)
        self._work += points * (1 + len(events) / 40)  # as measured: convolving starts small
        if points > _MOST_POINTS or self._work > _MOST_WORK:
            raise _too_many()


def _too_many() -> UnsupportedFileError:
    return UnsupportedFileError(
        "The file composes more privacy events than suffice checks for one file."
    )


def as_stated(event: Composed, delta: float, epsilon: float, effort: Effort) -> Composed:
    """Return a stranger's composed event with the epsilon that its file states at ``delta``.

    No distribution is computed unless it is a small one, and few were for this file. The plain sum
    bounds epsilon from above. From below it is bounded by the exact curve of a pure loss b with a
    Gaussian,

        delta(epsilon) = p G(epsilon - b) + (1 - p) G(epsilon + b),   p = 1 / (1 + e^-b),

    which is all that mechanisms compose today, and of which b = 0 is the Gaussian alone.
    """
    parts = _flat([event])
    effort.read(parts)
    joined = _joined(parts)
    sum_bound = min(_basic_sum(parts, delta), _basic_sum(joined, delta))
    if not math.isfinite(sum_bound):
        raise ParameterError("At this delta the event has no finite epsilon. Raise delta.")
    most, least = sum_bound * (1 + _AGREES), epsilon * (1 + _AGREES)
    dearest = max(part.epsilon(delta) for part in joined)
    if epsilon > most or least < dearest or not _within(joined, delta, least):
        raise CorruptFileError("The epsilon stated in the file is not the one its event has.")
    is_pair = len(joined) == 2 and {type(part) for part in joined} == {Pure, Gaussian}
    if least < sum_bound and not is_pair:  # of a pair the exact curve is known
        effort.convolve(joined, delta)
        if not math.isclose(epsilon, _composed_epsilon(tuple(parts), delta), rel_tol=_AGREES):
            raise CorruptFileError("The epsilon stated in the file is not the one its event has.")
    return replace(event, stated=(delta, epsilon))


def _within(events: Sequence[Event], delta: float, epsilon: float) -> bool:
    """Say whether the largest pure loss and the Gaussian among ``events`` stay within a point."""
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    if len(gaussians) != 1:
        return True
    bound = max((event.bound for event in events if type(event) is Pure), default=0.0)
    gaussian, loss = gaussians[0], epsilon - 2 * gaussians[0].slack
    likelier = 1 / (1 + math.exp(-bound))
    cost = likelier * gaussian_delta(loss - bound, gaussian.multiplier)
    cost += (1 - likelier) * gaussian_delta(loss + bound, gaussian.multiplier)
    return cost <= (delta - gaussian.tail) * math.exp(-gaussian.slack) * (1 + _AGREES)


@dataclass(eq=False)
class Tally:
    """What was charged to a budget: how often each event occurs, the first of all first.

    It says what a list of charges says (`fits`), in a size that does not grow with charges that
    are alike. A charge of several events is a `Composed` one.
    """

    charges: int = 0
    counts: Counter[Event] = field(default_factory=Counter)
    before: "tuple[Tally, Counter[Event]] | None" = None  # another one, and what this has more
    divergences: dict[float, float] = field(default_factory=dict)  # that are known, by order

    def add(self, charge: Event) -> None:
        """Count one more charge, the newest."""
        self.counts.update(_flat([charge]))
        self.charges += 1
        self.divergences.clear()

    def plus(self, charge: Event) -> "Tally":
        """Return another tally with one more charge."""
        new = Counter(_flat([charge]))
        return Tally(self.charges + 1, self.counts + new, (self, new))


def _times(pairs: Iterable[tuple[int, float]]) -> float:
    """Return the sum of times * value of all pairs, rounded once as a list of the values is."""
    return math.fsum(
        math.ldexp(value, bit)
        for times, value in pairs
        for bit in range(times.bit_length())
        if times >> bit & 1
    )


def _tallied(charges: Iterable[Event]) -> Tally:
    """Return what a list of charges, oldest first, says."""
    tally = Tally()
    for charge in charges:
        tally.add(charge)
    return tally


def fits(charges: Iterable[Event] | Tally, epsilon: float, delta: float) -> bool:
    """Say whether a budget (epsilon, delta) allows these charges, oldest first.

    Each charge may be chosen by what came out before: the budget holds all the same. A charge of
    several events is a `Composed` one.
    """
    tally = charges if isinstance(charges, Tally) else _tallied(charges)
    return _least_epsilon(tally, delta) <= epsilon or _renyi_allows(tally, epsilon, delta)


def spent_epsilon(charges: Iterable[Event] | Tally, delta: float) -> float:
    """Return the epsilon of the smallest budget with this delta that allows these charges."""
    tally = charges if isinstance(charges, Tally) else _tallied(charges)
    upper = _least_epsilon(tally, delta)
    if math.isinf(upper):
        upper = next((e for e in _POWERS if _renyi_allows(tally, e, delta)), math.inf)
    if math.isinf(upper) or not _renyi_allows(tally, upper, delta):
        return upper
    lower = 0.0
    while upper - lower > _WIDTH * upper:
        middle = (lower + upper) / 2
        if _renyi_allows(tally, middle, delta):
            upper = middle
        else:
            lower = middle
    return upper


def _shares(tally: Tally) -> _Shares:
    first = next(iter(tally.counts))
    return _AFTER_GAUSSIAN if isinstance(first, Gaussian) else _AFTER_OTHER


def _is_covered(tally: Tally, delta: float) -> bool:
    """Say whether the deltas that events state, and their tails, stay within their share."""
    counts = tally.counts.items()
    stated = [(times, event.at_delta) for event, times in counts if isinstance(event, Approximate)]
    tails = [(times, event.tail) for event, times in counts if isinstance(event, Gaussian)]
    return _times([*stated, *tails]) <= _shares(tally).stated * delta


def _least_epsilon(tally: Tally, delta: float) -> float:
    """Return the epsilon from which on a filter without orders allows the charges.

    These are the filters of sums and of Gaussians alone, and the first charge by itself.
    """
    counts = tally.counts
    if not counts:
        return 0.0
    first = math.inf
    if tally.charges == 1:
        first = composed_epsilon(list(counts.elements()), delta)
    if not _is_covered(tally, delta):
        return first
    bounds = [
        (n, event.bound) for event, n in counts.items() if isinstance(event, Pure | Approximate)
    ]
    if len(bounds) == len(counts):
        return min(first, _times(bounds))
    joint = _joint(counts)
    if joint is not None and joint.slack <= _MOST_SLACK:
        on_grid = Gaussian(joint.multiplier, _MOST_SLACK)
        return min(first, on_grid.epsilon(_shares(tally).gaussian * delta))
    return first


def _renyi_allows(tally: Tally, epsilon: float, delta: float) -> bool:
    """Say whether the Renyi divergences of the charges fit at one of the orders of a budget."""
    known = all(isinstance(event, Pure | Approximate | Gaussian) for event in tally.counts)
    possible = tally.counts and known and epsilon > 0 and delta > 0
    if not possible or not _is_covered(tally, delta):
        return False
    parts = [(tally.counts, tally.divergences)]
    if tally.before is not None:  # which is known already where several candidates are tried
        earlier, new = tally.before
        parts = [(earlier.counts, earlier.divergences), (new, {})]
    log_share = -math.log(_shares(tally).renyi * delta / len(_ORDERS))
    for multiple in _ORDERS:
        above = multiple * 2 * log_share / epsilon  # the order less one
        order = 1 + above
        conversion = (log_share - math.log(order)) / above - math.log1p(1 / above)
        total = 0.0
        for counts, divergences in parts:
            if above not in divergences:
                terms = (times * _renyi(event, above) for event, times in counts.items())
                divergences[above] = math.fsum(terms)
            total += divergences[above]
        if (total + conversion) * (1 + _ROUNDING) <= epsilon:
            return True
    return False


def _renyi(event: Event, above: float) -> float:
    """Return the Renyi divergence of an event's pair of laws at the order 1 + ``above``."""
    match event:
        case Laplace():
            width = 1 + 2 * above
            inner = (1 + above + above * math.exp(-width * event.bound)) / width
            return event.bound + math.log(inner) / above
        case Pure() | Approximate():
            half = event.bound / 2
            return (_log_cosh((1 + 2 * above) * half) - _log_cosh(half)) / above
        case Gaussian():
            order = 1 + above
            return order / (2 * event.multiplier**2) + event.slack * (order + above) / above
    raise ParameterError(f"A {event.name} event has no Renyi divergence.")


def _log_cosh(x: float) -> float:
    """Return ln cosh(x) for x >= 0, to a few units of the last digit."""
    if x < 1:
        return math.log1p(2 * math.sinh(x / 2) ** 2)
    return x + math.log1p(math.exp(-2 * x)) - math.log(2)
