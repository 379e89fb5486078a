"""What every benchmark shares: the best of a few runs, and a claim with its limit."""

import time
from collections.abc import Callable

__all__ = ["best_of", "claim", "ratio_of"]


def best_of(work: Callable[[], object], times: int = 7) -> float:
    """Return the least seconds of several runs: on a shared machine the least is truest."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def ratio_of(work: Callable[[], object], base: Callable[[], object], times: int = 15) -> float:
    """Return the least time of ``work`` over that of ``base``, run in turns."""
    pairs = [(best_of(work, 1), best_of(base, 1)) for _ in range(times)]
    return min(a for a, _ in pairs) / min(b for _, b in pairs)


def claim(name: str, value: float, limit: float) -> dict:
    """Print a measured figure beside the most it may be, and return both."""
    print(f"{'ok  ' if value <= limit else 'MISS'} {value:10.2f}  (at most {limit:g})  {name}")
    return {"name": name, "value": value, "limit": limit, "met": value <= limit}
