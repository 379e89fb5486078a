"""Plant privacy mutants one by one in a copy of the package; the tests named have to notice each.

    python lab/mutants/run.py [NAME ...] [--workers N]

A mutant is killed if a test fails. One that no test notices survives, and is printed with the tests
that should have noticed. One that cannot be imported, runs into a name that does not exist or never
ends tells nothing, and is called broken. The exit code is 0 if all were killed.

First the copy is tested as it is: if that fails, no mutant is tried. Every mutant has a copy and a
process of its own, forked from one that has imported the libraries, but nothing of the package.
"""

import argparse
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mutant import Mutant, StaleMutantError, copy_tree, plant, write_sources

ROOT = Path(__file__).resolve().parents[2]
_LIBRARIES = (  # what takes seconds to import; not hypothesis, which pytest wants to import itself
    *("numpy", "scipy.stats", "scipy.optimize", "pyarrow.dataset", "pyarrow.parquet"),
    *("numba", "mpmath", "opendp.measurements", "dp_accounting.pld.privacy_loss_distribution"),
    *("cryptography.hazmat.primitives.ciphers", "sklearn.linear_model", "typer", "pytest"),
)
_MOST_SECONDS = 600
_NOT_THE_COPY = 99
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


class Attempt(NamedTuple):
    """A mutant whose tests are running, its copy, and since when."""

    mutant: Mutant
    tree: Path
    began: float


def every_mutant() -> tuple[Mutant, ...]:
    """Return all mutants, those of every module of_*.py beside this one."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("of_*.py"))
    return tuple(m for name in modules for m in importlib.import_module(name).MUTANTS)


def words_for(tests: Iterable[str], *more: str) -> list[str]:
    """Return what pytest is told."""
    return ["-q", "-p", "no:cacheprovider", "--tb=line", *more, *(f"tests/{t}" for t in tests)]


def environment(tree: Path) -> dict[str, str]:
    """Return what makes every process, those that tests start too, import the copy."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", **threads}


def test_in_this_process(tree: Path, tests: Iterable[str]) -> int:
    """Run tests of a copy against the package in it, in a process that was forked for that."""
    os.setsid()
    file = os.open(tree / "output", os.O_CREAT | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(tree)
    os.environ.update(environment(tree))
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree / "src"))
    try:
        code = int(importlib.import_module("pytest").main(words_for(tests, "-x")))
        imported = Path(importlib.import_module("suffice").__file__ or "")
    except BaseException:  # noqa: BLE001  # nothing may return to the parent's code
        traceback.print_exc()
        return _NOT_THE_COPY
    finally:
        sys.stdout.flush()
    return code if imported.is_relative_to(tree) else _NOT_THE_COPY


def start(mutant: Mutant, clean: Path, folder: Path) -> tuple[int, Attempt]:
    """Begin to test a mutant; return the process that does so."""
    tree = copy_tree(clean, folder / mutant.name)
    write_sources(plant(mutant, tree / "src" / "suffice"))
    if (process := os.fork()) == 0:
        os._exit(test_in_this_process(tree, mutant.tests))
    return process, Attempt(mutant, tree, time.monotonic())


def finish(attempt: Attempt, code: int) -> Outcome:
    """Return what became of a mutant whose tests have ended."""
    lines = (attempt.tree / "output").read_text(errors="replace").strip().splitlines() or [""]
    shutil.rmtree(attempt.tree)
    first = next((x for x in lines if x.startswith(("FAILED", "ERROR"))), lines[-1])
    message = "" if code == 0 else re.sub(r"^(FAILED|ERROR) tests/", "", first)
    return Outcome(
        attempt.mutant, verdict_of(code, first), time.monotonic() - attempt.began, message
    )


def verdict_of(code: int, first: str) -> str:
    """Return what pytest's exit code, and its line about the first failure, say of a mutant."""
    if code == 1 and not _NO_TELLING.search(first):
        return "killed"
    return "broken" if code else "SURVIVED"


def test_clean(clean: Path, tests: Iterable[str], workers: int) -> None:
    """Raise unless the tests pass without any mutant; this also compiles the copy's kernels."""
    words = words_for(sorted(set(tests)), "-n", str(workers))
    arguments = [sys.executable, "-m", "pytest", *words]
    settings = {"cwd": clean, "env": {**os.environ, **environment(clean)}}
    ended = subprocess.run(arguments, **settings, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"{ended.stdout}\nthe tests fail without any mutant: nothing is learnt.")
    print(f"without a mutant: {ended.stdout.strip().splitlines()[-1]}", flush=True)


def try_all(mutants: Sequence[Mutant], workers: int) -> list[Outcome]:
    """Try every mutant and print what became of it; the copy itself must pass first."""
    waiting, running, outcomes = list(mutants), {}, []
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        clean = copy_tree(ROOT, folder / "clean")
        test_clean(clean, [test for mutant in mutants for test in mutant.tests], workers)
        for library in _LIBRARIES:
            importlib.import_module(library)
        while waiting or running:
            while waiting and len(running) < workers:
                process, attempt = start(waiting.pop(0), clean, folder)
                running[process] = attempt
            process, status = os.waitpid(-1, os.WNOHANG)
            if process in running:
                code = os.waitstatus_to_exitcode(status)
                outcomes.append(finish(running.pop(process), code))
                show(outcomes[-1])
                continue
            for overdue, attempt in running.items():
                if time.monotonic() - attempt.began > _MOST_SECONDS:
                    with suppress(ProcessLookupError):
                        os.killpg(overdue, signal.SIGKILL)
            time.sleep(0.05)
    return outcomes


def show(outcome: Outcome) -> None:
    """Print one line of the table."""
    message = outcome.test if outcome.verdict == "broken" else outcome.test.partition(" - ")[0]
    name, seconds = outcome.mutant.name, outcome.seconds
    print(f"{name:40} {outcome.verdict:8} {seconds:4.0f} s  {message}", flush=True)


def main() -> int:
    """Print the table and what follows from it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="mutants to try; default: all")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at once")
    arguments = parser.parse_args()
    by_name = {mutant.name: mutant for mutant in every_mutant()}
    if unknown := [name for name in arguments.names if name not in by_name]:
        parser.error(f"no mutant is called {', '.join(unknown)}")
    chosen = [by_name[name] for name in arguments.names or by_name]
    try:
        for mutant in chosen:
            plant(mutant, ROOT / "src" / "suffice")
    except StaleMutantError as stale:
        parser.error(str(stale))
    began = time.monotonic()
    os.environ.update({k: v for k, v in environment(ROOT).items() if k.endswith("THREADS")})
    outcomes = try_all(chosen, arguments.workers)
    for outcome in outcomes:
        if outcome.verdict == "SURVIVED":
            print(f"SURVIVED {outcome.mutant.name}: {outcome.mutant.reveals}")
            print(f"  should have noticed: {', '.join(outcome.mutant.tests)}")
    killed = sum(outcome.verdict == "killed" for outcome in outcomes)
    print(f"{len(outcomes)} tried, {killed} killed, {time.monotonic() - began:.0f} s")
    return 0 if killed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
