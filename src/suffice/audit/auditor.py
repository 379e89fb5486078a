"""Run the audit: a lower bound on epsilon for every case, and a verdict in words.

The audit can refute a stated guarantee. It can never prove one.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from typing import Any

import numpy as np

from suffice.audit.case import Case
from suffice.audit.registry import case_named, names_here
from suffice.audit.scores import (
    Measure,
    OutputEvent,
    Score,
    Scored,
    choose_event,
    epsilon_measure,
    event_bound,
    mu_measure,
)
from suffice.audit.search import Pair
from suffice.privacy.events import gaussian_epsilon

FEW_OUTCOMES = 64  # up to which each counts, however rare it is
_OFTEN = 3  # times that a value must come to be an atom, where there are more
_COMPARED = 8  # numbers, up to which all differences are looked at
_ZERO, _NO_NUMBER = 2000.0, 3000.0  # lowest bits of what has none, beyond those of floats
_MIXING = 0x9E3779B97F4A7C15  # an odd number without pattern: 2^64 over the golden ratio

Keys = Callable[[np.ndarray], np.ndarray]


def varying(outputs: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return which numbers of an output are not the same in all of these."""
    both = _bits(np.concatenate([outputs, neighbours]))
    return np.flatnonzero((both != both[0]).any(axis=0))


def support_scores(sample: np.ndarray, neighbours: np.ndarray) -> dict[str, Score]:
    """Return scores of exact values, grids, differences and ranges, learnt from outputs.

    They find outputs that only one of two data sets can give. Noise hides a number only if every
    output is possible under both. So these scores look at outputs bit by bit: values that come
    again and again (a zero of either sign, a NaN, a bound, a digest), the grid that a number lies
    on, numbers that are equal or a constant apart, and the range of each. All are learnt from
    outputs that are never counted, so that they cost nothing.
    """
    columns, both = varying(sample, neighbours), np.concatenate([sample, neighbours])
    # What may come again: whole outputs, single numbers, differences of two.
    keys: dict[str, Keys] = {"atoms": lambda outputs: _mixed(_bits(outputs[:, columns]))}
    keys |= {f"atoms of number {j + 1}": _of_column(j, _bits) for j in columns}
    if len(columns) <= _COMPARED:
        for i, j in combinations(columns, 2):
            keys[f"difference of numbers {i + 1} and {j + 1}"] = _difference(i, j)
    counted = {name: counted_score(key, sample, neighbours) for name, key in keys.items()}
    scores = {name: score for name, score in counted.items() if score is not None}
    scores["equal numbers"] = _equal_numbers
    for j in columns:
        scores[f"number {j + 1}"] = _of_column(j, _ordered)
        scores[f"grid of number {j + 1}"] = _of_column(j, lowest_bits)
    if len(columns) > 1:
        scores["grid"] = lambda outputs: lowest_bits(outputs[:, columns]).min(axis=1)
    return {name: score for name, score in scores.items() if len(np.unique(score(both))) > 1}


def _of_column(j: int, score: Score) -> Score:
    return lambda outputs: score(outputs[:, j])


def _difference(i: int, j: int) -> Keys:
    return lambda outputs: _bits(outputs[:, i] - outputs[:, j])


def counted_score(keys: Keys, sample: np.ndarray, neighbours: np.ndarray) -> Score | None:
    """Return ln of how much oftener a key came under D than under D', or None if none comes again.

    A key that came too rarely, or never, scores 0. Half a time is added to every count.
    """
    with np.errstate(all="ignore"):
        first, second = keys(sample), keys(neighbours)
    values, indices = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = [
        np.bincount(part, minlength=len(values))
        for part in (indices[: len(first)], indices[len(first) :])
    ]
    if len(values) > FEW_OUTCOMES:
        often = counts[0] + counts[1] >= _OFTEN
        values, counts = values[often], [count[often] for count in counts]
    if not values.size:
        return None
    ratios = np.log((counts[0] + 0.5) / (counts[1] + 0.5))

    def score(outputs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            output_keys = keys(outputs)
        at = np.minimum(np.searchsorted(values, output_keys), len(values) - 1)
        return np.where(values[at] == output_keys, ratios[at], 0.0)

    return score


def lowest_bits(numbers: np.ndarray) -> np.ndarray:
    """Return e where a number is an odd multiple of 2^e: it lies on the grid of 2^e, no coarser.

    Noise in floating point shows by it what it was added to (Mironov 2012), and so does a step that
    follows from private data.
    """
    if np.issubdtype(numbers.dtype, np.integer):
        numbers = numbers.astype(np.longdouble)  # holds 64-bit integers exactly, where it can
    finite = np.isfinite(numbers)
    mantissa, exponent = np.frexp(np.where(finite, numbers, 1))
    digits = np.abs(np.ldexp(mantissa, 63)).astype(np.uint64)
    lowest = np.frexp((digits & (~digits + np.uint64(1))).astype(np.float64))[1] - 1
    low = np.where(digits == 0, _ZERO, exponent - 63.0 + lowest)
    return np.asarray(np.where(finite, low, _NO_NUMBER), dtype=np.float64)


def _equal_numbers(outputs: np.ndarray) -> np.ndarray:
    """Return how many numbers of an output are equal to another one."""
    equal = np.diff(np.sort(outputs, axis=1), axis=1) == 0
    return np.asarray(np.count_nonzero(equal, axis=1), dtype=np.float64)


def _ordered(numbers: np.ndarray) -> np.ndarray:
    """Return numbers as floats, what is no number below all others."""
    floats = numbers.astype(np.float64)
    return np.where(np.isnan(floats), -np.inf, floats)


def _bits(outputs: np.ndarray) -> np.ndarray:
    """Return every number as the bits that it is stored in: -0 is not 0, and NaN equals itself."""
    is_integer = np.issubdtype(outputs.dtype, np.integer) or outputs.dtype == bool
    wide = np.ascontiguousarray(outputs, dtype=np.int64 if is_integer else np.float64)
    return np.asarray(wide.view(np.uint64))


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Return one key for each line of bits; two lines share one next to never."""
    key = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        key = (key ^ column) * np.uint64(_MIXING)
        key ^= key >> np.uint64(29)
    return key


_MOST = 2000  # outputs of each data set that teach: more would cost more than it gains
_LARGEST = 1e50  # to which numbers are held: their squares are numbers too


def learnt_scores(sample: np.ndarray, neighbours: np.ndarray, seed: int) -> dict[str, Score]:
    """Return scores of classifiers, a linear one and trees, that learnt from outputs of both.

    Where outputs are few and discrete there are none: to count them is better.
    """
    columns = varying(sample, neighbours)
    outputs = np.concatenate([sample[:_MOST, columns], neighbours[:_MOST, columns]])
    if not columns.size or len(np.unique(outputs, axis=0)) <= FEW_OUTCOMES:
        return {}
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    labels = np.repeat([1, 0], [len(sample[:_MOST]), len(neighbours[:_MOST])])
    models = {
        "linear classifier": make_pipeline(StandardScaler(), LogisticRegression()),
        "trees": HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, min_samples_leaf=30, random_state=seed
        ),
    }

    def score_by(model: Any) -> Score:
        return lambda fresh: model.decision_function(_numbers(fresh[:, columns]))

    return {name: score_by(model.fit(_numbers(outputs), labels)) for name, model in models.items()}


def _numbers(outputs: np.ndarray) -> np.ndarray:
    return np.nan_to_num(outputs.astype(np.float64)).clip(-_LARGEST, _LARGEST)


COLUMNS = (
    "mechanism", "stated epsilon", "delta", "epsilon at least", "verdict", "neighbours",
    "distinguished by",
)  # fmt: skip
FAILURE = 1e-3  # the probability that any bound of one run is wrong
EXACT = "exact loss"
_CHOOSING = 0.25  # as many outputs choose an event as 20 % of all: a quarter of the fresh ones
_TEACHING = 4000  # of them at most teach scores, and half of them: the others choose among those
_LEAST = 200  # fresh outputs
_SCREENING = 1000  # outputs at most, with which each of many pairs is tried
_FINALISTS = 2  # pairs that are tried with all outputs that choose
_BINS = 60
_PER_WORKER = 5  # cases at least: a process takes seconds to start
_ROUNDING = 1e-9  # of a claim: it is rounded up, and so is nothing here


Histogram = tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Finding:
    """The result of the audit for one case."""

    name: str
    kind: str  # of release
    claimed: float  # the epsilon that the mechanism states
    delta: float  # that it states
    lower_bound: float  # the epsilon at ``delta`` that the mechanism has at least
    mu: float | None  # the parameter of a Gaussian curve, if it states one
    mu_bound: float | None  # what it is at least
    broken: bool  # whether this is a broken copy
    what: str  # is wrong with a broken copy
    pair: str  # the neighbouring data sets that were told apart best, in words
    score: str  # what told them apart
    alpha: float  # the probability that the bound is wrong
    samples: int  # fresh outputs of each data set that the bound uses
    losses: Histogram  # of scores: edges, counts for one data set, counts for its neighbour

    @property
    def violated(self) -> bool:
        """Whether the lower bound exceeds the stated epsilon."""
        return self.lower_bound > self.claimed * (1 + _ROUNDING)

    @property
    def tightness(self) -> float:
        """The lower bound, divided by the stated epsilon."""
        return self.lower_bound / self.claimed

    @property
    def expected(self) -> bool:
        """Whether a broken copy was caught, or a mechanism was not refuted."""
        return self.violated == self.broken

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.violated:
            return "violated"
        return f"no violation found; bound at {100 * max(self.tightness, 0.0):.0f} % of epsilon"

    def cells(self) -> tuple[str, ...]:
        """Return the finding as text, one cell per entry of COLUMNS."""
        numbers = (f"{self.claimed:.4g}", f"{self.delta:g}", f"{self.lower_bound:.4g}")
        return (self.name, *numbers, self.verdict, self.pair, self.score)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {key: getattr(self, key) for key in _JSON_FIELDS}


_JSON_FIELDS = (
    "name", "kind", "claimed", "delta", "lower_bound", "violated", "broken", "verdict", "tightness",
    "mu", "mu_bound", "alpha", "samples", "what", "pair", "score",
)  # fmt: skip


def audit(
    names: Sequence[str],
    *,
    seed: int = 0,
    effort: float = 1.0,
    failure: float = FAILURE,
    workers: int | None = None,
    progress: Callable[[int, int, Finding], None] | None = None,
) -> list[Finding]:
    """Return a finding for every case; all bounds together hold with probability 1 - ``failure``.

    Parameters
    ----------
    names
        The cases, as `suffice.audit.registry.selected` names them.
    seed
        Where the search for neighbours starts. The noise has no seed: it is that of releases.
    effort
        Multiplies the number of outputs.
    failure
        The probability that any of the bounds is wrong.
    workers
        How many processes to use; None for as many as there are processors.
    progress
        Called with the number of findings, their total number, and the latest.
    """
    run_case = partial(_run_case, seed=seed, effort=effort, alpha=failure / max(1, len(names)))
    here = names_here()
    shared = [name for name in names if name not in here]
    workers = min(workers or os.cpu_count() or 1, len(shared) // _PER_WORKER)
    findings: list[Finding] = []

    def record_finding(finding: Finding) -> None:
        findings.append(finding)
        if progress is not None:
            progress(len(findings), len(names), finding)

    if workers <= 1:
        for name in names:
            record_finding(run_case(name))
        return findings
    # Processes that are forked would share locks with threads of the libraries that draw; those
    # that are started anew lack what was registered here, which runs here meanwhile.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_use_one_thread) as pool:
        running = {name: pool.submit(run_case, name) for name in shared}
        for name in names:
            record_finding(running[name].result() if name in running else run_case(name))
    return findings


def _use_one_thread() -> None:
    """Let the libraries of this process use one thread: the others are for other processes."""
    import sklearn.ensemble  # noqa: F401  # loads the threads that trees use
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)


def _run_case(name: str, **options: Any) -> Finding:
    return audit_case(case_named(name), **options)


@dataclass(frozen=True)
class _Reading:
    """What limits of probabilities say, and what that says about epsilon."""

    measure: Measure
    epsilon: Callable[[float], float]


@dataclass(frozen=True)
class _Plan:
    """A pair, its scores by name, and events for every reading and direction."""

    pair: Pair
    scores: Mapping[str, Score]
    events: list[tuple[_Reading, OutputEvent]]
    expected_bound: float


def audit_case(case: Case, *, seed: int = 0, effort: float = 1.0, alpha: float = 1e-5) -> Finding:
    """Return the finding about one case; its bound is wrong with probability at most ``alpha``.

    Some outputs choose pair, score and threshold, for both directions. Fresh outputs of the chosen
    pair are counted, and no others. So alpha is shared only by the two directions, and by the two
    bounds of a Gaussian mechanism.

    ``effort`` multiplies the number of outputs, and the search for neighbours starts at ``seed``.
    """
    rng = np.random.default_rng([seed, *case.name.encode()])
    fresh = max(_LEAST, round(case.samples * effort / (1 + _CHOOSING)))
    readings = [_Reading(epsilon_measure(case.delta), lambda bound: bound)]
    if case.mu is not None:
        readings.append(
            _Reading(
                mu_measure,
                lambda mu: gaussian_epsilon(case.delta, 1 / mu) if mu > 0 else -np.inf,
            )
        )
    share = alpha / (2 * len(readings))

    def plan(pair: Pair, size: int) -> _Plan:
        """Return the most promising events: some of ``size`` outputs teach, the others choose."""
        outputs, neighbours = _outputs(case, pair, size)
        taught = min(size // 2, _TEACHING)
        teaching = outputs[:taught], neighbours[:taught]
        exact = {} if case.score is None else {EXACT: case.score(pair)}
        other = learnt_scores(*teaching, seed) | support_scores(*teaching)
        # Outputs that are all the same have no score.
        scores = exact | other or {"none": lambda outputs: np.zeros(len(outputs))}
        # An exact loss learns nothing, so that all of these outputs may choose its threshold.
        choosing = outputs[taught:], neighbours[taught:]
        scored = _scored(exact, outputs, neighbours) | _scored(other or scores, *choosing)
        events = [
            (reading, choose_event(scored, reading.measure, fresh, share, forward=forward))
            for reading in readings
            for forward in (True, False)
        ]
        expected = max(reading.epsilon(event.expected_bound) for reading, event in events)
        return _Plan(pair, scores, events, expected)

    def expected_bound(plan: _Plan) -> float:
        return plan.expected_bound

    # Many pairs are tried with few outputs first. The first of them, which the search takes for the
    # worst, is tried with many in any case. All of these outputs are other ones than those that are
    # counted.
    pairs = case.pairs(rng)
    size = max(_LEAST // 2, round(fresh * _CHOOSING))
    if len(pairs) > _FINALISTS:
        few = min(_SCREENING, max(_LEAST // 2, round(size * _CHOOSING)))
        tried = sorted((plan(pair, few) for pair in pairs[1:]), key=expected_bound, reverse=True)
        pairs = [pairs[0], *(one.pair for one in tried[: _FINALISTS - 1])]
    best = max((plan(pair, size) for pair in pairs), key=expected_bound)
    drawn = EXACT if EXACT in best.scores else best.events[0][1].score
    used = {event.score for _, event in best.events} | {drawn}
    scores = {name: score for name, score in best.scores.items() if name in used}
    scored = _scored(scores, *_outputs(case, best.pair, fresh))
    bounds = [event_bound(event, scored, by.measure, share) for by, event in best.events]
    lower_bound, score = max(
        (by.epsilon(bound), event.score)
        for bound, (by, event) in zip(bounds, best.events, strict=True)
    )
    return Finding(
        name=case.name,
        kind=case.kind,
        claimed=case.claimed,
        delta=case.delta,
        lower_bound=max(0.0, lower_bound),
        mu=case.mu,
        mu_bound=max(0.0, *bounds[2:]) if case.mu is not None else None,
        broken=case.broken,
        what=case.what,
        pair=str(best.pair),
        score=score,
        alpha=alpha,
        samples=fresh,
        losses=_histogram(scored[drawn]),
    )


def _outputs(case: Case, pair: Pair, size: int) -> list[np.ndarray]:
    """Return outputs of both data sets; those with fewer numbers are filled up with NaN."""
    samples = [case.sample(data, size) for data in (pair.first, pair.second)]
    width = max(outputs.shape[1] for outputs in samples)
    if all(outputs.shape[1] == width for outputs in samples):
        return samples
    lacking = [((0, 0), (0, width - outputs.shape[1])) for outputs in samples]
    return [
        np.pad(outputs.astype(np.float64), pad, constant_values=np.nan)
        for outputs, pad in zip(samples, lacking, strict=True)
    ]


def _scored(
    scores: Mapping[str, Score], outputs: np.ndarray, neighbours: np.ndarray
) -> dict[str, Scored]:
    """Return all scores of the outputs of both data sets; a score of NaN counts as 0."""

    def values(score: Score, outputs: np.ndarray) -> np.ndarray:
        raw = np.asarray(score(outputs), dtype=np.float64)
        return np.where(np.isnan(raw), 0.0, raw)

    return {
        name: (values(score, outputs), values(score, neighbours)) for name, score in scores.items()
    }


def _histogram(scored: Scored) -> Histogram:
    """Return edges and both counts; infinite losses stand at the ends."""
    both = np.concatenate(scored)
    finite = both[np.isfinite(both)]
    low, high = np.quantile(finite, [0.0005, 0.9995]) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] for s in scored]
    return tuple(edges.tolist()), tuple(counts[0].tolist()), tuple(counts[1].tolist())
