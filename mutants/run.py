"""Plant privacy mutants one by one in a copy of the package; the tests named have to notice each.

    python mutants/run.py [NAME ...] [--workers N]

A mutant is killed if a test fails. One that no test notices survives, and is printed with the tests
that should have noticed. One that cannot be imported, runs into a name that does not exist or never
ends tells nothing, and is called broken. The exit code is 0 if all were killed.

First the copy is tested as it is: if that fails, no mutant is tried.
"""

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutant import Mutant, StaleMutantError, plant

ROOT = Path(__file__).resolve().parents[1]
MODULES = (
    "of_noise",
    "of_accounting",
    "of_ledger",
    "of_publishing",
    "of_labels",
    "of_records",
    "of_rados",
    "of_parties",
    "of_tables",
    "of_files",
)
_COPIED = ("src", "tests", "attacks", "examples", "docs", "pyproject.toml")
_MOST_SECONDS = 600
_NO_TELLING = re.compile(
    r"- (NameError|AttributeError|ImportError|ModuleNotFoundError|SyntaxError|TypeError"
    r"|UnboundLocalError|numba\.)"
)  # a mutant that falls over its own feet shows nothing about the tests


class Outcome(NamedTuple):
    """What became of a mutant: killed, SURVIVED or broken, and by which test."""

    mutant: Mutant
    verdict: str
    seconds: float
    test: str


def every_mutant() -> tuple[Mutant, ...]:
    """Return all mutants, in the order of their modules."""
    return tuple(m for name in MODULES for m in importlib.import_module(name).MUTANTS)


def copy_tree(source: Path, target: Path) -> Path:
    """Copy what tests need; times stay, so that compiled kernels of other files stay valid."""
    for name in _COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("*.pyc"))
        elif (source / name).is_file():
            shutil.copy2(source / name, target / name)
    return target


def write_sources(changed: dict[Path, str]) -> None:
    """Write changed sources, and forget what was compiled from the old ones."""
    for path, source in changed.items():
        path.write_text(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()


def run_tests(tree: Path, tests: Iterable[str], *more: str) -> tuple[int, str]:
    """Run tests of a copy against the package in it; return pytest's exit code and output."""
    package = tree / "src"
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    settings = {"cwd": tree, "env": environment, "capture_output": True, "text": True}
    asked = [sys.executable, "-c", "import suffice; print(suffice.__file__)"]
    imported = subprocess.run(asked, **settings, check=False)
    if imported.returncode == 0 and not Path(imported.stdout.strip()).is_relative_to(package):
        raise SystemExit(f"the tests would run against {imported.stdout.strip()}, not the copy.")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *more]
    try:
        ended = subprocess.run(
            [*words, *(f"tests/{test}" for test in tests)],
            **settings,
            check=False,
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return -1, f"FAILED nothing - it took more than {_MOST_SECONDS} seconds"
    return ended.returncode, ended.stdout + ended.stderr


def try_mutant(mutant: Mutant, clean: Path, folder: Path) -> Outcome:
    """Return what became of one mutant, in a copy of its own."""
    began = time.monotonic()
    tree = copy_tree(clean, folder / mutant.name)
    try:
        write_sources(plant(mutant, tree / "src" / "suffice"))
        code, output = run_tests(tree, mutant.tests, "-x")
    finally:
        shutil.rmtree(tree)
    lines = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    first = lines[0] if lines else (output.strip().splitlines() or [""])[-1]
    told = "" if code == 0 else first
    return Outcome(mutant, verdict_of(code, first), time.monotonic() - began, told)


def verdict_of(code: int, first: str) -> str:
    """Return what pytest's exit code, and its line about the first failure, say of a mutant."""
    if code == 1 and not _NO_TELLING.search(first):
        return "killed"
    return "broken" if code else "SURVIVED"


def show(outcome: Outcome) -> None:
    """Print one line of the table."""
    noticed = re.sub(r"^(FAILED|ERROR) tests/", "", outcome.test)
    told = noticed if outcome.verdict == "broken" else noticed.partition(" - ")[0]
    name, seconds = outcome.mutant.name, outcome.seconds
    print(f"{name:42} {outcome.verdict:8} {seconds:5.0f} s  {told}", flush=True)


def try_all(mutants: Sequence[Mutant], workers: int) -> list[Outcome]:
    """Try every mutant and print what became of it; the copy itself must pass first."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        clean = copy_tree(ROOT, folder / "clean")
        union = sorted({test for mutant in mutants for test in mutant.tests})
        code, output = run_tests(clean, union, "-n", str(workers))
        if code != 0:
            print(output)
            raise SystemExit("the tests fail without any mutant: nothing is learnt from them.")
        print(f"without a mutant: {output.strip().splitlines()[-1]}", flush=True)
        with ThreadPoolExecutor(workers) as pool:
            begun = [pool.submit(try_mutant, mutant, clean, folder) for mutant in mutants]
            outcomes = []
            for future in begun:
                outcomes.append(future.result())
                show(outcomes[-1])
    return outcomes


def main() -> int:
    """Print the table and what follows from it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="mutants to try; default: all")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at once")
    asked = parser.parse_args()
    known = {mutant.name: mutant for mutant in every_mutant()}
    if unknown := [name for name in asked.names if name not in known]:
        parser.error(f"no mutant is called {', '.join(unknown)}")
    chosen = [known[name] for name in asked.names or known]
    try:
        for mutant in chosen:
            plant(mutant, ROOT / "src" / "suffice")
    except StaleMutantError as stale:
        parser.error(str(stale))
    began = time.monotonic()
    outcomes = try_all(chosen, asked.workers)
    for outcome in outcomes:
        if outcome.verdict == "SURVIVED":
            print(f"SURVIVED {outcome.mutant.name}: {outcome.mutant.reveals}")
            print(f"  should have noticed: {', '.join(outcome.mutant.tests)}")
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    print(f"{len(outcomes)} tried, {killed} killed, {time.monotonic() - began:.0f} s")
    return 0 if killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
