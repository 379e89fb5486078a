"""Runs cases: a bound per mechanism, a verdict in words, and never the word "proved"."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from suffice.audit.case import Case
from suffice.audit.registry import case_named, in_this_process_only
from suffice.audit.scores import (
    Measure,
    OutputEvent,
    Score,
    Scored,
    choose_event,
    epsilon_measure,
    event_bound,
    learnt_score,
    mu_measure,
    off_grid,
)
from suffice.audit.search import Pair
from suffice.privacy.calibrate import gaussian_epsilon

__all__ = ["COLUMNS", "FAILURE", "Finding", "audit", "audit_case"]

COLUMNS = ("name", "claimed epsilon", "delta", "at least", "verdict")
FAILURE = 1e-3  # the probability that any bound of one run is wrong
_CHOOSING = 0.25  # as many outputs choose an event as 20 % of all: a quarter of the fresh ones
_BINS = 60
_PER_WORKER = 5  # cases at least: a process takes seconds to start
_ROUNDING = 1e-9  # of a claim: it is rounded up, and so is nothing here


@dataclass(frozen=True)
class Finding:
    """What came out for one case.

    ``lower_bound`` is on the epsilon at ``delta`` that is ``claimed``; ``mu_bound`` and ``mu`` are
    the same for the parameter of a Gaussian curve. ``alpha`` is the probability
    that it is wrong, ``samples`` how many fresh outputs of each data set it rests on. ``losses`` is
    a histogram of scores for a plot: edges, counts under D, counts under D'.
    """

    name: str
    kind: str
    claimed: float
    delta: float
    lower_bound: float
    mu: float | None
    mu_bound: float | None
    broken: bool
    what: str
    alpha: float
    samples: int
    losses: tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.lower_bound > self.claimed * (1 + _ROUNDING)

    @property
    def tightness(self) -> float:
        """How much of the claim the bound reaches."""
        return self.lower_bound / self.claimed

    @property
    def expected(self) -> bool:
        """Whether it came out as it should: twins are found out, mechanisms are not."""
        return self.violated == self.broken

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.violated:
            return "violated"
        return f"no evidence against, tight to {100 * max(self.tightness, 0.0):.0f} %"

    def cells(self) -> tuple[str, ...]:
        """Return the finding as text, one cell per entry of COLUMNS."""
        numbers = (f"{self.claimed:.4g}", f"{self.delta:g}", f"{self.lower_bound:.4g}")
        return (self.name, *numbers, self.verdict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        kept = ("name", "kind", "claimed", "delta", "lower_bound", "violated", "broken")
        more = ("verdict", "tightness", "mu", "mu_bound", "alpha", "samples", "what")
        return {key: getattr(self, key) for key in (*kept, *more)}


def audit(
    names: Sequence[str],
    *,
    seed: int = 0,
    effort: float = 1.0,
    failure: float = FAILURE,
    workers: int | None = None,
    progress: Callable[[int, int, Finding], None] | None = None,
) -> list[Finding]:
    """Return a finding per case; all of their bounds hold but for a probability of ``failure``.

    ``effort`` multiplies the number of outputs. ``seed`` decides where the search for neighbours
    starts and nothing about the noise, which is that of releases and cannot be repeated.
    """
    run_case = partial(_run_case, seed=seed, effort=effort, alpha=failure / max(1, len(names)))
    shared = [name for name in names if not in_this_process_only(name)]
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
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {name: pool.submit(run_case, name) for name in shared}
        for name in names:
            record_finding(running[name].result() if name in running else run_case(name))
    return findings


def _run_case(name: str, *, seed: int, effort: float, alpha: float) -> Finding:
    return audit_case(case_named(name), seed=seed, effort=effort, alpha=alpha)


def audit_case(case: Case, *, seed: int = 0, effort: float = 1.0, alpha: float = 1e-5) -> Finding:
    """Return the finding about one case; its bound is wrong with probability at most ``alpha``.

    Outputs that nobody looks at again choose pair, score and threshold, for both directions; fresh
    ones of the chosen pair are counted. So alpha is shared by the directions alone, and by the two
    readings of a Gaussian claim.
    """
    rng = np.random.default_rng([seed, *case.name.encode()])
    fresh = max(200, round(case.samples * effort / (1 + _CHOOSING)))
    measures: list[Measure] = [epsilon_measure(case.delta)]
    if case.mu is not None:
        measures.append(mu_measure)
    share = alpha / (2 * len(measures))
    plans = [
        _plan(case, pair, measures, fresh=fresh, alpha=share, seed=seed) for pair in case.pairs(rng)
    ]
    plan = max(plans, key=lambda p: p.promise(case))
    scored = _scored(plan.scores, *(case.sample(data, fresh) for data in plan.data))
    bounds = [
        max(event_bound(event, scored, measure, share) for event in events)
        for measure, events in zip(measures, plan.events, strict=True)
    ]
    return Finding(
        name=case.name,
        kind=case.kind,
        claimed=case.claimed,
        delta=case.delta,
        lower_bound=max(0.0, _read(bounds, case)),
        mu=case.mu,
        mu_bound=max(0.0, bounds[1]) if case.mu is not None else None,
        broken=case.broken,
        what=case.what,
        alpha=alpha,
        samples=fresh,
        losses=_histogram(scored[0]),
    )


@dataclass(frozen=True)
class _Plan:
    """A pair, its scores, and the events (both directions) for each measure."""

    pair: Pair
    scores: tuple[Score, ...]
    events: list[list[OutputEvent]]

    @property
    def data(self) -> tuple[Any, Any]:
        return self.pair.one, self.pair.two

    def promise(self, case: Case) -> float:
        """Return the bound on epsilon that this plan is expected to give."""
        return _read([max(e.promise for e in events) for events in self.events], case)


def _plan(
    case: Case, pair: Pair, measures: list[Measure], *, fresh: int, alpha: float, seed: int
) -> _Plan:
    """Return the events that look best on outputs of their own."""
    size = max(100, round(fresh * _CHOOSING))
    one, two = case.sample(pair.one, size), case.sample(pair.two, size)
    if case.score is not None:
        scores: tuple[Score, ...] = (case.score(pair),)
    else:  # half of these outputs teach a score, the other half choose its threshold
        middle = size // 2
        scores = learnt_score(one[:middle], two[:middle], seed)
        one, two = one[middle:], two[middle:]
    if np.issubdtype(one.dtype, np.floating):
        scores = (*scores, off_grid)
    scored = _scored(scores, one, two)
    events = [
        [choose_event(scored, measure, fresh, alpha, forward=way) for way in (True, False)]
        for measure in measures
    ]
    return _Plan(pair, scores, events)


def _scored(scores: Sequence[Score], one: np.ndarray, two: np.ndarray) -> list[Scored]:
    return [(np.asarray(score(one)), np.asarray(score(two))) for score in scores]


def _read(bounds: Sequence[float], case: Case) -> float:
    """Return a bound on epsilon: direct, or what the least Gaussian curve that is left states."""
    if case.mu is None or bounds[1] <= 0:
        return bounds[0]
    return max(bounds[0], gaussian_epsilon(case.delta, 1 / bounds[1]))


def _histogram(
    scored: Scored,
) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Return edges and both counts; infinite losses stand at the ends."""
    both = np.concatenate(scored)
    finite = both[np.isfinite(both)]
    low, high = np.quantile(finite, [0.0005, 0.9995]) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts = [np.histogram(np.clip(s, edges[0], edges[-1]), edges)[0] for s in scored]
    return tuple(edges.tolist()), tuple(counts[0].tolist()), tuple(counts[1].tolist())
