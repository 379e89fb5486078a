"""Two routes to one release, in process and by the program's own words, and what each shows."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from suffice.audit.public_part.exercise import AUXILIARY_DATASET, Way
from suffice.audit.public_part.forms import Handed
from suffice.audit.public_part.neighbours import Changed
from suffice.audit.public_part.shown import Shown, ledger_part, public_part
from suffice.audit.whole import repeated_releases
from suffice.errors import SufficeError
from suffice.notes import collected_notes
from suffice.options import options_of
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import Mechanism, mechanism_of
from suffice.owner.source import Source
from suffice.privacy.guarantee import Budget, Unit
from suffice.release.artifact import Release
from suffice.release.codec import load

__all__ = ["Command", "Said", "by_command", "in_process", "repeated_draws"]

_DATASET, _OUTPUT = "people", Path("out.suffice")
_LEDGER, _POOR = Path("ledger"), Path("poor")  # one that pays, and one that refuses
_DRAWS = 100  # a fair answer of .75 is the same in all of them once in 10^12
_BUDGET = Budget(1e4, 1e-3)  # more than any exercise costs
_TIME = re.compile(r'"time": [^,\n]*')  # of a charge


@dataclass(frozen=True)
class Said:
    """What a program said, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[[Sequence[str]], Said]


@dataclass(frozen=True)
class _Asked:
    """A mechanism, and the inputs of its release."""

    mechanism: Mechanism[Any]
    options: Mapping[str, Any]
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, way: Way, handed: Handed) -> "_Asked":
        """Return what an owner asks for with this data set."""
        kind, exercise = mechanism_of(way.mechanism), way.exercise
        options = {name: _held(value, handed) for name, value in exercise.options.items()}
        if "classes" in {item.name for item in fields(kind)}:  # type: ignore[arg-type]
            options["classes"] = handed.classes
        inputs = {name: _held(value, handed) for name, value in exercise.inputs.items()}
        inputs |= {"label": "label"} if handed.form.named else {"y": handed.column("label")}
        columns = [name for name in exercise.columns if handed.has(name)]
        inputs |= {"features": columns} if columns else {}
        return cls(kind(**options), options, inputs)


def _held(value: Any, handed: Handed) -> Any:
    """Return a declared value for the columns that this form has."""
    if callable(value):
        return value(handed)
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if handed.has(name)} or None


def in_process(way: Way, handed: Handed) -> Shown:
    """Return what others see of a release that a program asks for, paid from a new ledger."""
    budgets = {
        _DATASET: {_unit(way): _BUDGET},
        AUXILIARY_DATASET: {Unit.RECORD: _BUDGET},
    }
    ledger = Ledger(_LEDGER, budgets)
    try:
        with collected_notes():  # of what is set up for several pairs
            asked = _Asked.of(way, handed)
        with collected_notes() as notes:
            release = asked.mechanism.release(
                handed.table_for(asked.mechanism.source),
                **asked.inputs,
                ledger=ledger,
                dataset=_DATASET,
                request="first",
            )
    except SufficeError as error:
        return {"refused": f"{type(error).__name__}: {error}".encode()} | ledger_part(ledger)
    said = {"notes": "\n".join(notes).encode()}
    return public_part(release) | ledger_part(ledger) | _names() | said


def by_command(run: Command) -> Callable[[Way, Handed], Shown]:
    """Return the route through the program: what it wrote and said, and a refusal of it."""

    def release(way: Way, handed: Handed) -> Shown:
        asked = _Asked.of(way, handed)
        words = ["release", way.mechanism, str(handed.data)]
        told = handed.told(asked.mechanism.source)
        words += [f"--{name}={value}" for name, value in told.items()]
        words += _words(asked.mechanism, asked.options)
        words += _words(asked.mechanism.source, asked.inputs)
        spoken = {
            "ledger init": ["ledger", "init", *_opened(_LEDGER, _unit(way), _BUDGET)],
            "second ledger": ["ledger", "init", *_opened(_POOR, _unit(way), Budget(1e-6))],
            "release": [*words, *_paid(_LEDGER), "--request", "first", "-o", str(_OUTPUT)],
            "release in JSON": [*words, "--no-ledger", "--json", "-o", "again.suffice"],
            "refusal": [*words, *_paid(_POOR), "-o", "never.suffice"],
            "ledger history": ["ledger", "history", str(_LEDGER), "--json"],
            "ledger show": ["ledger", "show", str(_LEDGER)],
        }
        shown: Shown = {}
        for name, line in spoken.items():
            said = run(line)
            for part in ("code", "out", "err"):
                text = _TIME.sub("(time)", str(getattr(said, part)))
                shown[f"{part} of {name}"] = text.encode()
            if name == "release" and said.code:
                shown["refused"] = said.err.encode()
        released = public_part(load(_OUTPUT)) if _OUTPUT.exists() else {}
        return released | shown | _names()

    return release


def _unit(way: Way) -> Unit:
    """Return the unit whose budget pays: that which differs, or the party of an auxiliary row."""
    changed = way.exercise.changed
    return Unit.PARTY if changed is Changed.AUXILIARY else Unit(changed.value)


def _paid(ledger: Path) -> list[str]:
    return [f"--ledger={ledger}", f"--dataset={_DATASET}"]


def _opened(ledger: Path, unit: Unit, budget: Budget) -> list[str]:
    """Return the words with which a budget is opened."""
    stated = [f"--epsilon={budget.epsilon}", f"--delta={budget.delta}", f"--unit={unit}"]
    return [str(ledger), f"--dataset={_DATASET}", *stated]


def _names() -> Shown:
    """Return the names of all files that there are now."""
    names = sorted(str(path) for path in Path().rglob("*"))
    return {"names of files": "\n".join(names).encode()}


def _words(kind: Any, given: Mapping[str, Any]) -> list[str]:
    """Return given fields of a mechanism or source as words of the command line."""
    declared = options_of(kind if isinstance(kind, type) else type(kind))
    words: list[str] = []
    for name, value in given.items():
        if value is True:
            words.append(declared[name].name)
        elif isinstance(value, Mapping):
            for column, item in value.items():
                words.append(f"{declared[name].name}={column}={_word(item)}")
        elif value is not None and value is not False:
            words.append(f"{declared[name].name}={_word(value)}")
    return words


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def repeated_draws(way: Way, handed: Handed) -> list[Release]:
    """Return many releases of one data set."""
    asked = _Asked.of(way, handed)
    data = handed.table_for(asked.mechanism.source)
    source: Source = asked.mechanism.source(data, **asked.inputs)
    with collected_notes():
        return repeated_releases(asked.mechanism, source, _DRAWS)
