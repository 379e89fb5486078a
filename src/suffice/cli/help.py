"""How help is shown: commands by the role that uses them, options by subject, an example last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from suffice.cli.examples import example_of
from suffice.options import Group

__all__ = [
    "Context",
    "HelpfulCommand",
    "HelpfulGroup",
    "Maker",
    "group_with",
    "option_tables",
    "summary_of",
]

Maker = Callable[[], TyperCommand]
Context = Any  # typer's own, of whatever release of click it carries
_ARGUMENTS, _OPTIONS, _COMMANDS = "Arguments", "Options", "Commands"


class HelpfulCommand(TyperCommand):
    """A command that shows its options under the headings of their groups, and an example."""

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the arguments, then the options group by group."""
        for heading, parameters in option_tables(self.get_params(ctx)).items():
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])

    def format_epilog(self, ctx: Context, formatter: Any) -> None:
        """Write the example."""
        _write_example(ctx, formatter)


class HelpfulGroup(TyperGroup):
    """A group whose commands are made when they are needed, and listed under headings.

    ``makers`` are the commands that are not functions; ``sections`` are headings with the names
    below them, in this order. Commands in no section come last.
    """

    makers: ClassVar[Mapping[str, Maker]] = {}
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all commands, in the order of their sections."""
        names = [*super().list_commands(ctx), *self.makers]
        order = [name for section in self.sections.values() for name in section]
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Context, cmd_name: str) -> Any:
        """Return one command; nothing else is imported for it."""
        maker = self.makers.get(cmd_name)
        return super().get_command(ctx, cmd_name) if maker is None else maker()

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the commands section by section, and the few options last."""
        names = self.list_commands(ctx)
        headings = {name: heading for heading, part in self.sections.items() for name in part}
        tables: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            row = (name, summary_of(self.get_command(ctx, name)))
            tables.setdefault(headings.get(name, _COMMANDS), []).append(row)
        width = max(map(len, names), default=0)
        for heading, rows in tables.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section(_OPTIONS):
            formatter.write_dl([record for record in records if record is not None])

    def format_epilog(self, ctx: Context, formatter: Any) -> None:
        """Write the example."""
        _write_example(ctx, formatter)


def group_with(
    makers: Mapping[str, Maker], sections: Mapping[str, Sequence[str]] | None = None
) -> type[HelpfulGroup]:
    """Return a group with commands that are made when they are needed, and with headings."""
    return type("Commands", (HelpfulGroup,), {"makers": makers, "sections": sections or {}})


def option_tables(parameters: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the parameters that help shows, by heading; those of no group go to the last one."""
    tables: dict[str, list[Any]] = {heading: [] for heading in (_ARGUMENTS, *Group, _OPTIONS)}
    grouped = any(getattr(parameter, "rich_help_panel", None) for parameter in parameters)
    for parameter in parameters:
        heading = getattr(parameter, "rich_help_panel", None)
        if parameter.param_type_name == "argument":
            heading = _ARGUMENTS
        tables[str(heading or (Group.OUTPUT if grouped else _OPTIONS))].append(parameter)
    return {str(heading): rows for heading, rows in tables.items() if rows}


def summary_of(command: Any) -> str:
    """Return the first line of a command's help, which says all of it in short."""
    return str(command.help or "").strip().partition("\n")[0]


def _write_example(ctx: Context, formatter: Any) -> None:
    path = ctx.command_path.partition(" ")[2]
    example = example_of(path)
    if example is not None:
        formatter.write_paragraph()
        formatter.write("".join(f"{line}\n" for line in example.lines()))
