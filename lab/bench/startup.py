"""How long the commands of a first hour take to start, in turns with imports of what they rest on.

    python lab/bench/startup.py [--against DIR]

DIR is the ``src`` folder of another version (``git worktree add``). Each measurement is a process
of its own; a first round, which is not counted, fills the caches of byte code and kernels.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import claim, ratio_of

HERE = Path(__file__).resolve().parents[2] / "src"
ROWS, COLUMNS, TIMES = 800, 6, 9
IMPORTS = ("-c", "import sklearn, numba, pyarrow")


def table(path: Path) -> Path:
    """Write a small table whose last column is private."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
    pyarrow.csv.write_csv(pa.table(columns | {"y": (X[:, 0] > 0).astype(np.int64)}), path)
    return path


def python(source: Path, *words: str) -> Callable[[], object]:
    """Return what runs Python with these words, the package being that of ``source``."""
    env = {**os.environ, "PYTHONPATH": str(source)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return lambda: subprocess.run(
        [sys.executable, *words], env=env, check=True, stdout=subprocess.DEVNULL
    )


def processor_seconds() -> float:
    """Return the processor time of the processes that have ended; others' work does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(words: tuple[str, ...] | None = None) -> list[dict]:
    """Measure and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    options = parser.parse_args(words)
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "r.suffice")
        release_options = ("--label", "y", "--epsilon", "1", "--delta", "1e-6", "--no-ledger")
        release_options += ("-o", file, "--force")
        release = (
            "-m",
            "suffice",
            "release",
            "mean-operator",
            "--map",
            "none",
            str(table(Path(folder) / "t.csv")),
        )
        inspect = ("-m", "suffice", "inspect", file)
        commands = {"release": (*release, *release_options), "inspect": inspect}
        imports = python(HERE, *IMPORTS)
        limits = {"release": 1.4, "inspect": 0.3}
        for name, limit in limits.items():
            command = python(HERE, *commands[name])
            ratio_of(command, imports, 1)
            ratio = ratio_of(command, imports, TIMES)
            claims.append(claim(f"suffice {name}, to {IMPORTS[1]}", ratio, limit))
        typer = python(HERE, "-c", "import typer")
        for name, words_of, limit in (
            ("--help", ("-m", "suffice", "--help"), 4),
            ("inspect", inspect, 6),
        ):
            command = python(HERE, *words_of)
            ratio_of(command, typer, 1)
            ratio = ratio_of(command, typer, TIMES, processor_seconds)
            claims.append(claim(f"processor time of suffice {name}, to import typer", ratio, limit))
        if options.against is not None:
            ours, theirs = (python(source, *inspect) for source in (HERE, options.against))
            ratio_of(ours, theirs, 1)
            ratio = ratio_of(ours, theirs, TIMES)
            claims.append(claim(f"suffice inspect, to {options.against}", ratio, 0.5))
    return claims


if __name__ == "__main__":
    sys.exit(not all(one["met"] for one in main()))
