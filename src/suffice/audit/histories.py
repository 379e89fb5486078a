"""Whether a history of releases tells a secret: pairs of histories that differ in one unit.

An owner makes two to four releases of data that change on the way. Grants to a learner and restarts
lie in between, and some releases are charged under a second name. The two histories of a pair begin
with the same data. What comes later differs in one unit, and may be unchanged on one side. Others
must see the same: bytes outside the noise, which bytes repeat, charges, exit codes, refusals, and
what still fits.

Two things are left out, and no others: what the owner alone sees on stderr, and pairs in which a
known limit refuses a release (`KNOWN_LIMITS`).
"""

import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.audit.exercises import (
    AUXILIARY_DATASET,
    NAMES,
    Changed,
    Neighbours,
    exercises_of,
    neighbours,
)
from suffice.audit.public_part import (
    BUDGET,
    DATASET,
    SERVER,
    TIME,
    Command,
    Handed,
    Pair,
    ReleaseRequest,
    Shown,
    Verdict,
    charged_unit,
    compare,
    differing,
    handed,
    ledger_part,
    noisy_arrays,
    public_part,
)
from suffice.errors import OptimisationError, SufficeError
from suffice.owner.ledger import Ledger
from suffice.owner.policy import Policy
from suffice.plain_text import collected_notes
from suffice.privacy.guarantee import Budget, Unit
from suffice.protocol.grant import grant, propose
from suffice.releases.codec import load
from suffice.releases.release import Release, encode
from suffice.tables.columns import StrangeLabelsError

KNOWN_LIMITS: Mapping[type[SufficeError], int] = {StrangeLabelsError: 4, OptimisationError: 14}
"""The refusals that are left out, and their numbers in docs/known-holes.md."""

_FEW_ROWS, _MOST_ROWS = 120, 400
_MOST_RELEASES = 4
_COMMANDS = 6  # of so many pairs that could go through the command line, one does
_SECOND = "others"  # another name for the same data
_NAMES = (None, None, None, "monthly", "other")  # of requests; most have none
_POLICY_EPSILON = 0.5
_REPEATS = "whether"
_RUNS = 5  # of a pair in which bytes repeat on one side only: 500^-5 is no chance


class _LeftOutError(Exception):
    """A known limit refused a release."""


@dataclass(frozen=True)
class _Step:
    """One thing that an owner does.

    ``data`` is 0 for the first data and 1 for those that follow. ``request`` is a request's name.
    ``purpose`` is that of a learner's proposal, empty if the owner releases. A proposal that was
    granted is granted again whatever is left; a new one shows what was charged before it.
    """

    data: int
    request: str | None
    dataset: str
    purpose: str
    restarted: bool


@dataclass(frozen=True)
class _History:
    """What happens in a pair of histories, the same on both sides."""

    pair: Pair
    steps: tuple[_Step, ...]
    budgets: Mapping[str, Budget]
    store: str
    command: Command | None


def check_histories(mechanisms: Sequence[str] = (), **run: Any) -> Verdict:
    """Return where others see a difference between histories that differ in one unit.

    ``mechanisms`` are names, empty for all; ``run`` is as in `compare`. If SUFFICE_POSTGRESQL holds
    the address of a database, ledgers are in SQLite files and in it, in turns.
    """
    exercises = [e for e in exercises_of(*mechanisms) if not e.refused]
    return compare(check_history, exercises, **run)


def check_history(pair: Pair, command: Command | None = None) -> list[str]:
    """Return where others can see a difference between the two histories of a pair."""
    rng = np.random.default_rng([pair.seed, pair.number, 1])
    exercise, server = pair.exercise, os.environ.get(SERVER)
    rows = int(rng.integers(_FEW_ROWS, _MOST_ROWS))
    classes = int(rng.integers(2, exercise.most_classes + 1))
    data = neighbours(
        rng, exercise.changed, rows=rows, batch=rows, classes=classes, lone=rng.random() < 0.3
    )
    use_command = exercise.command and pair.form.in_file and rng.integers(_COMMANDS) == 0
    steps = _steps(rng, exercise.changed)
    epsilon = exercise.options.get("epsilon")
    charged = {DATASET: {DATASET}, _SECOND: {_SECOND}, AUXILIARY_DATASET: {DATASET, _SECOND}}
    budgets = dict.fromkeys(charged, BUDGET)
    if epsilon is not None and rng.random() < 0.5:
        budgets = {name: _just_enough(steps, by, epsilon) for name, by in charged.items()}
    store = server if server and pair.turn % 2 else ""
    history = _History(pair, steps, budgets, store, command if use_command else None)
    # Both histories begin with the same data. Most often they are those of one side later: nothing
    # has changed there. Else the table grows.
    side = int(rng.integers(2))
    begun = data.tables[side], data.auxiliary[side]
    if rng.random() >= 0.8:
        begun = data.tables[0].slice(0, data.tables[0].num_rows - 20), data.auxiliary[0]

    def differences() -> list[str]:
        """Return where others see a difference; nowhere if a known limit refused a release."""
        try:
            first, second = (_shown(history, begun, data, side) for side in (0, 1))
        except _LeftOutError:
            return []
        return list(differing(first, second))

    # A few noisy counts can be the same twice by chance, once in 500 pairs at most: bytes that
    # repeat must do so in every run.
    found = differences()
    for _ in range(_RUNS - 1):
        if not any(where.startswith(_REPEATS) for where in found):
            break
        again = differences()
        found = [where for where in found if not where.startswith(_REPEATS) or where in again]
    return found


def _steps(rng: np.random.Generator, changed: Changed) -> tuple[_Step, ...]:
    """Return what the owner does: the data change after the first release, or later."""
    releases = int(rng.integers(2, _MOST_RELEASES + 1))
    changes = int(rng.integers(1, releases))
    steps = []
    for number in range(releases):
        late = int(number >= changes)
        named = _NAMES[rng.integers(len(_NAMES))]
        dataset = _SECOND if rng.random() < 0.2 else DATASET
        steps.append(_Step(late, named, dataset, "", restarted=rng.random() < 0.4))
        if changed is Changed.LABEL and rng.random() < 0.5:
            purpose = f"study {len(steps) % 3}"
            steps.append(_Step(late, None, dataset, purpose, restarted=rng.random() < 0.4))
    return tuple(steps)


def _just_enough(steps: Sequence[_Step], datasets: set[str], epsilon: float) -> Budget:
    """Return a budget for all that is asked of data sets, and for no charge that data add."""
    asked = {(s.dataset, s.request, s.purpose) for s in steps if s.dataset in datasets}
    costs = (_POLICY_EPSILON if purpose else epsilon for *_, purpose in asked)
    return Budget(sum(costs) + epsilon / 4, 1e-3)


def _shown(
    history: _History, begun: tuple[pa.Table, pa.Table], data: Neighbours, side: int
) -> Shown:
    """Return what others see of one history."""
    form = history.pair.form
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        address: str | Path = folder / "ledger"
        if history.store:
            address = f"{history.store}#h{secrets.token_hex(8)}"
        tables = (begun, (data.tables[side], data.auxiliary[side]))
        given = []
        for number, (table, auxiliary) in enumerate(tables):
            place = folder / str(number)
            place.mkdir()
            with chdir(place):
                given.append((place, handed(form, table, auxiliary, data.classes)))
        owner = _Owner(history, address)
        for number, step in enumerate(history.steps):
            place, current = given[step.data]
            with chdir(place), collected_notes():  # the owner's stderr
                owner.act(number, step, current)
        return owner.seen()


class _Owner:
    """An owner who goes through a history, and what others see of it."""

    def __init__(self, history: _History, address: str | Path) -> None:
        self._history, self._address = history, address
        unit = charged_unit(history.pair.exercise)
        budgets: dict[str, Mapping[Unit | str, Budget]] = {
            name: {Unit.RECORD if name == AUXILIARY_DATASET else unit: budget}
            for name, budget in history.budgets.items()
        }
        self._ledger = Ledger(address, {**budgets}, anchor="none")
        self._shown: Shown = {}
        self._releases: dict[str, Release] = {}

    def act(self, number: int, step: _Step, data: Handed) -> None:
        """Take one step, and note what others see."""
        where = f"{'grant' if step.purpose else 'release'} {number}"
        if step.restarted:
            self._ledger = Ledger(self._address)
        try:
            if step.purpose:
                release = self._grant(where, step, data)
            elif self._history.command is not None:
                release = self._command(where, step, data, self._history.command)
            else:
                release = ReleaseRequest.of(self._history.pair.exercise, data).release(
                    ledger=self._ledger, dataset=step.dataset, request=step.request
                )
        except SufficeError as error:
            if type(error) in KNOWN_LIMITS:
                raise _LeftOutError from None
            self._shown[f"{where}: refused"] = f"{type(error).__name__}: {error}".encode()
            release = None
        if release is not None:
            self._releases[where] = release
            self._add(where, public_part(release))
        self._add(f"ledger after {where}", ledger_part(self._ledger))
        for dataset in (DATASET, _SECOND):
            fits = self._ledger.largest_epsilon(dataset)
            self._shown[f"what fits {dataset} after {where}"] = repr(fits).encode()

    def _add(self, where: str, shown: Shown) -> None:
        self._shown |= {f"{where}: {name}": value for name, value in shown.items()}

    def _command(self, where: str, step: _Step, data: Handed, run: Command) -> Release | None:
        output = Path(f"{where.replace(' ', '')}.suffice")
        words = ReleaseRequest.of(self._history.pair.exercise, data).words()
        words += [f"--ledger={self._address}", f"--dataset={step.dataset}", f"--output={output}"]
        words += ["--json", *([] if step.request is None else [f"--request={step.request}"])]
        code, out, _ = run(words)
        if code == OptimisationError.exit_code:
            raise _LeftOutError
        self._shown[f"{where}: exit code"] = str(code).encode()
        self._shown[f"{where}: output"] = TIME.sub("(time)", out).encode()
        return load(output) if code == 0 else None

    def _grant(self, where: str, step: _Step, data: Handed) -> Release | None:
        """Grant the mean operator of the rows, if the budget allows it."""
        rows = data.table.select(NAMES)
        asked: dict[str, Any] = {"classes": data.classes, "purpose": step.purpose}
        proposal = propose(rows, epsilon=_POLICY_EPSILON, **asked)
        answer, release = grant(
            proposal,
            rows,
            data.table["label"].to_pylist(),
            policy=Policy(_POLICY_EPSILON, classes=data.classes),
            ledger=self._ledger,
            dataset=step.dataset,
        )
        facts = {k: v for k, v in answer.to_json().items() if k not in {"release", "digest"}}
        self._shown[f"{where}: answer"] = repr(facts).encode()
        return release

    def seen(self) -> Shown:
        """Return all that others saw, with the pattern of repeated bytes."""
        for (one, first), (other, second) in combinations(self._releases.items(), 2):
            arrays = noisy_arrays(first), noisy_arrays(second)
            shared = sorted(arrays[0].keys() & arrays[1].keys())
            same = [n for n in shared if np.array_equal(arrays[0][n], arrays[1][n])]
            repeated = [encode(first) == encode(second), same]
            self._shown[f"{_REPEATS} {one} and {other} repeat"] = repr(repeated).encode()
        return self._shown
