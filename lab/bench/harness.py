"""What every benchmark shares: a ratio measured in turns, and a claim with its limit."""

import math
import platform
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median

__all__ = ["claim", "commit", "machine", "ratio_of"]

LIBRARIES = ("numpy", "scikit-learn", "numba", "pyarrow", "opendp", "suffice")


def machine() -> dict[str, str]:
    """Return what the figures were measured with."""
    return {
        "python": platform.python_version(),
        "processor": _processor(),
        **{name: version(name) for name in LIBRARIES},
    }


def commit() -> str:
    """Return the commit that is measured, with ``-dirty`` where files differ from it."""
    words = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    """Return the name of the processor where Linux tells it, else its kind."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def ratio_of(
    work: Callable[[], object],
    base: Callable[[], object],
    times: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median ratio of ``work`` to ``base``, run in turns so that both share the load.

    Where both run on one thread, the clock ``time.process_time`` does not see other processes.
    """

    def seconds(call: Callable[[], object]) -> float:
        start = clock()
        call()
        return clock() - start

    return median(seconds(work) / seconds(base) for _ in range(times))


def claim(name: str, value: float, limit: float) -> dict:
    """Print a measured figure beside the most it may be, and return both.

    A limit is what the documents print, and something that can be missed. Time is a ratio to other
    work of the same run: seconds are those of a machine (`tests/test_bench.py`).
    """
    if not math.isfinite(limit):
        raise ValueError(f"{name}: a limit of {limit} can never be missed.")
    print(f"{'ok  ' if value <= limit else 'MISS'} {value:10.2f}  (at most {limit:g})  {name}")
    return {"name": name, "value": value, "limit": limit, "met": value <= limit}
