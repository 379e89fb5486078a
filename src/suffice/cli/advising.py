"""The command ``advise``: which release an owner should make."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

from suffice.cli.building import Inputs, Parts, make_command
from suffice.cli.help import Maker
from suffice.cli.options import JsonOutput
from suffice.cli.output import progress, say, show_json, show_table
from suffice.cli.reading import TABLE_HELP, Reading
from suffice.options import REQUIRED, data_option

__all__ = ["COMMANDS"]

_HELP = (
    "Say which release to make, with its options and its commands.\n\n"
    "Advice reads the columns, the number of rows and public tables. With private labels the rows"
    " are public, and the labels are not read. Advice is not charged to a budget."
)


@dataclass(frozen=True)
class _Table:
    table: str = data_option(REQUIRED, TABLE_HELP, path=Path, argument=True)


def _advise_command() -> TyperCommand:
    """Return ``suffice advise``."""
    from suffice.owner.advice.question import Question
    from suffice.owner.source import Source

    parts: Parts = {
        "table": _Table,
        "reading": Reading,
        "source": Source,
        "question": Question,
        "output": JsonOutput,
    }

    def run(inputs: Inputs) -> None:
        from suffice.owner.advice.advise import answer

        table = inputs.make("reading", Reading).table(inputs.values["table"]["table"])
        question = inputs.make("question", Question)
        with progress("reading") as count_rows:
            source = Source(table, **inputs.fields("source", Source), progress=count_rows)
            advice: Any = answer(question, source)
        if inputs.make("output", JsonOutput).json:
            show_json(advice.to_json())
            return
        show_table(advice.title, advice.columns, advice.cells())
        say(*advice.advice)

    return make_command("advise", parts, run, help=_HELP)


COMMANDS: Mapping[str, Maker] = {"advise": _advise_command}
