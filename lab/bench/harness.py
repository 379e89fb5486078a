"""What every benchmark shares: a ratio measured in turns, and a claim with its limit."""

import math
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from statistics import median

__all__ = ["claim", "machine", "ratio_of"]

LIBRARIES = ("numpy", "scikit-learn", "numba", "pyarrow", "opendp", "suffice")


def machine() -> dict[str, str]:
    """Return what the figures were measured with."""
    return {
        "python": platform.python_version(),
        "processor": platform.machine(),
        **{name: version(name) for name in LIBRARIES},
    }


def ratio_of(work: Callable[[], object], base: Callable[[], object], times: int = 15) -> float:
    """Return the median ratio of ``work`` to ``base``, run in turns so that both share the load."""
    return median(_seconds(work) / _seconds(base) for _ in range(times))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def claim(name: str, value: float, limit: float) -> dict:
    """Print a measured figure beside the most it may be, and return both.

    A limit is what the documents print, and something that can be missed. Time is a ratio to other
    work of the same run: seconds are those of a machine (`tests/test_bench.py`).
    """
    if not math.isfinite(limit):
        raise ValueError(f"{name}: a limit of {limit} can never be missed.")
    print(f"{'ok  ' if value <= limit else 'MISS'} {value:10.2f}  (at most {limit:g})  {name}")
    return {"name": name, "value": value, "limit": limit, "met": value <= limit}
