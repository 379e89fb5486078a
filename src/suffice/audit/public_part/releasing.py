"""Two routes to one release, in process and by the program's own words, and what each shows."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from suffice.audit.public_part.exercise import AUXILIARY_DATASET, ExercisedMechanism
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

__all__ = [
    "BUDGET",
    "DATASET",
    "TIME",
    "Command",
    "ReleaseRequest",
    "Said",
    "by_command",
    "charged_unit",
    "in_process",
    "repeated_draws",
    "without_owners_report",
]

DATASET, _OUTPUT = "people", Path("out.suffice")
_LEDGER, _POOR = Path("ledger"), Path("poor")  # one that pays, and one that refuses
_DRAWS = 100  # a fair answer of .75 is the same in all of them once in 10^12
BUDGET = Budget(1e4, 1e-3)  # more than any exercise costs
TIME = re.compile(r'"(?:time|made)": [^,\n]*')  # of a charge


@dataclass(frozen=True)
class Said:
    """What a program said, and how it ended."""

    code: int
    out: str
    err: str


Command = Callable[[Sequence[str]], Said]


@dataclass(frozen=True)
class ReleaseRequest:
    """A mechanism, and the inputs of its release."""

    mechanism: Mechanism[Any]
    options: Mapping[str, Any]
    inputs: Mapping[str, Any]

    @classmethod
    def of(cls, exercised: ExercisedMechanism, handed: Handed) -> "ReleaseRequest":
        """Return what an owner asks for with this data set."""
        kind, exercise = mechanism_of(exercised.mechanism), exercised.exercise
        options = {name: _for_form(value, handed) for name, value in exercise.options.items()}
        if "classes" in {item.name for item in fields(kind)}:  # type: ignore[arg-type]  # a dataclass
            options["classes"] = handed.classes
        inputs = {name: _for_form(value, handed) for name, value in exercise.inputs.items()}
        inputs |= {"label": "label"} if handed.form.named else {"y": handed.column("label")}
        columns = [name for name in exercise.columns if handed.has(name)]
        inputs |= {"features": columns} if columns else {}
        return cls(kind(**options), options, inputs)

    def words(self, handed: Handed) -> list[str]:
        """Return the command line that asks for it, without a ledger and an output."""
        words = ["release", self.mechanism.name, str(handed.data)]
        dialect = handed.dialect_for(self.mechanism.source)
        words += [f"--{name}={value}" for name, value in dialect.items()]
        words += _words(self.mechanism, self.options)
        return words + _words(self.mechanism.source, self.inputs)


def _for_form(value: Any, handed: Handed) -> Any:
    """Return a declared value for the columns that this form has."""
    if callable(value):
        return value(handed)
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if handed.has(name)} or None


def in_process(exercised: ExercisedMechanism, handed: Handed) -> Shown:
    """Return what others see of a release that a program asks for, paid from a new ledger."""
    budgets: dict[str, Budget | Mapping[Unit | str, Budget]] = {
        DATASET: {charged_unit(exercised): BUDGET},
        AUXILIARY_DATASET: {Unit.RECORD: BUDGET},
    }
    ledger = Ledger(_LEDGER, budgets, anchor="none")
    try:
        with collected_notes():  # of what is set up for several pairs
            request = ReleaseRequest.of(exercised, handed)
        with collected_notes() as notes:
            release = request.mechanism.release(
                handed.table_for(request.mechanism.source),
                **request.inputs,
                ledger=ledger,
                dataset=DATASET,
                request="first",
            )
    except SufficeError as error:
        return {"refused": f"{type(error).__name__}: {error}".encode()} | ledger_part(ledger)
    said = {"notes": "\n".join(notes).encode()}
    return public_part(release) | ledger_part(ledger) | _names() | said


def by_command(run: Command) -> Callable[[ExercisedMechanism, Handed], Shown]:
    """Return the route through the program: what it wrote and said, and a refusal of it."""

    def release(exercised: ExercisedMechanism, handed: Handed) -> Shown:
        request = ReleaseRequest.of(exercised, handed)
        words = request.words(handed)
        commands = {
            "ledger init": ["ledger", "init", *_opened(_LEDGER, charged_unit(exercised), BUDGET)],
            "second ledger": [
                "ledger",
                "init",
                *_opened(_POOR, charged_unit(exercised), Budget(1e-6)),
            ],
            "release": [*words, *_charged_to(_LEDGER), "--request", "first", "-o", str(_OUTPUT)],
            "release in JSON": [*words, "--no-ledger", "--json", "-o", "again.suffice"],
            "refusal": [*words, *_charged_to(_POOR), "-o", "never.suffice"],
            "ledger history": ["ledger", "history", str(_LEDGER), "--json"],
            "ledger show": ["ledger", "show", str(_LEDGER)],
        }
        shown: Shown = {}
        for name, line in commands.items():
            said = run(line)
            for part in ("code", "out", "err"):
                text = TIME.sub("(time)", str(getattr(said, part)))
                shown[f"{part} of {name}"] = text.encode()
            if name == "release" and said.code:
                shown["refused"] = said.err.encode()
        released = public_part(load(_OUTPUT)) if _OUTPUT.exists() else {}
        return released | shown | _names()

    return release


def without_owners_report(shown: Shown) -> Shown:
    """Return what is shown but for how many cells and labels count as none: the owner's own."""
    owners = {"err of release", "out of release in JSON", "err of refusal"}
    return {where: said for where, said in shown.items() if where not in owners}


def charged_unit(exercised: ExercisedMechanism) -> Unit:
    """Return the unit whose budget pays: that which differs, or the party of an auxiliary row."""
    changed = exercised.exercise.changed
    return Unit.PARTY if changed is Changed.AUXILIARY else Unit(changed.value)


def _charged_to(ledger: Path) -> list[str]:
    return [f"--ledger={ledger}", f"--dataset={DATASET}"]


def _opened(ledger: Path, unit: Unit, budget: Budget) -> list[str]:
    """Return the words with which a budget is opened."""
    stated = [f"--epsilon={budget.epsilon}", f"--delta={budget.delta}", f"--unit={unit}"]
    return [str(ledger), f"--dataset={DATASET}", *stated, "--anchor=none"]


def _names() -> Shown:
    """Return the names of all files that there are now."""
    names = sorted(str(path) for path in Path().rglob("*"))
    return {"names of files": "\n".join(names).encode()}


def _words(kind: Any, values: Mapping[str, Any]) -> list[str]:
    """Return given fields of a mechanism or source as words of the command line."""
    declared = options_of(kind if isinstance(kind, type) else type(kind))
    words: list[str] = []
    for name, value in values.items():
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


def repeated_draws(exercised: ExercisedMechanism, handed: Handed) -> list[Release]:
    """Return many releases of one data set."""
    request = ReleaseRequest.of(exercised, handed)
    data = handed.table_for(request.mechanism.source)
    source: Source = request.mechanism.source(data, **request.inputs)
    with collected_notes():
        return repeated_releases(request.mechanism, source, _DRAWS)
