"""Commands made from declarations: the fields of dataclasses become options, and no list is typed.

A command is described by parts, dataclasses whose fields carry an `Option` each. Its function is
given what was asked for, part by part.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from suffice.cli.checks import check_outputs
from suffice.errors import ParameterError, SufficeError
from suffice.options import Group, Option, options_of

__all__ = ["Asked", "Parts", "group_with", "make_command", "selected_fields"]

Parts = Mapping[str, type]
_PLAIN = (bool, int, float, str, Path)
_FORCE = "--force"


def group_with(made: Mapping[str, Callable[[], TyperCommand]]) -> type[TyperGroup]:
    """Return a group some of whose commands are made when they are asked for."""

    class Commands(TyperGroup):
        def list_commands(self, ctx: typer.Context) -> list[str]:
            return [*super().list_commands(ctx), *made]

        def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | None:
            make = made.get(cmd_name)
            return super().get_command(ctx, cmd_name) if make is None else make()

    return Commands


def selected_fields(kind: type, select: Callable[[str, Option], Option | None]) -> type:
    """Return a dataclass with some fields of another, none of them required by the library."""
    fields = []
    for name, declared in options_of(kind).items():
        option = select(name, declared)
        if option is not None:
            metadata = {"option": option}
            item = dataclasses.field(default=None, kw_only=True, metadata=metadata)
            fields.append((name, get_type_hints(kind)[name], item))
    return dataclasses.make_dataclass(f"Some{kind.__name__}", fields)


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line: the fields of each part that were given."""

    values: Mapping[str, dict[str, Any]]

    def make(self, part: str, kind: type, **more: Any) -> Any:
        """Return the value of a part; dataclasses in it are made from their own fields."""
        return kind(**self.fields(part, kind), **more)

    def fields(self, part: str, kind: type) -> dict[str, Any]:
        """Return the fields of a part that were given, those of dataclasses in it as values."""
        given = dict(self.values[part])
        for name in dataclasses.fields(kind):
            inside = f"{part}.{name.name}"
            if self.values.get(inside):
                given[name.name] = self.make(inside, get_type_hints(kind)[name.name])
        return given


@dataclass(frozen=True)
class _Slot:
    """One option of the command line, and the field that it sets."""

    key: str
    part: str
    field: str
    option: Option
    annotation: Any
    default: Any
    standing: Any  # what the field holds if the option is not given


def make_command(
    name: str,
    parts: Parts,
    run: Callable[[Asked], None],
    *,
    help: str,  # noqa: A002  # as command lines call it
    example: str = "",
) -> TyperCommand:
    """Return a command whose options are the fields of ``parts``."""
    slots = [slot for part, kind in parts.items() for slot in _slots(part, kind)]
    slots.sort(key=lambda slot: not slot.option.argument)

    def called(**given: Any) -> None:
        _check_files(slots, given)
        run(_asked(slots, given))

    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                slot.key,
                inspect.Parameter.KEYWORD_ONLY,
                default=slot.default,
                annotation=slot.annotation,
            )
            for slot in slots
        ]
    )
    called.__annotations__ = {slot.key: slot.annotation for slot in slots}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=_Grouped, help=help, epilog=example or None)(called)
    made: Any = typer.main.get_command(app)
    made.slots = slots  # for those who want to know what it takes
    return made


class _Grouped(TyperCommand):
    """A command that shows its options under the headings of their groups."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:
        """Write the arguments, then the options group by group."""
        headed: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            argument = parameter.param_type_name == "argument"
            head = "Arguments" if argument else getattr(parameter, "rich_help_panel", None)
            headed.setdefault(str(head or Group.OUTPUT), []).append(record)
        for head in ["Arguments", *Group]:
            if head in headed:
                with formatter.section(str(head)):
                    formatter.write_dl(headed[head])


def _slots(part: str, kind: type) -> Iterator[_Slot]:
    """Yield the options of a dataclass, those of other dataclasses in it as well."""
    hints = get_type_hints(kind)
    declared = options_of(kind)
    for item in dataclasses.fields(kind):
        inner = hints[item.name]
        if item.name not in declared:
            if isinstance(inner, type) and dataclasses.is_dataclass(inner) and options_of(inner):
                yield from _slots(f"{part}.{item.name}", inner)
            continue
        for number, option in enumerate(declared[item.name].every()):
            key = f"{part}_{item.name}_{number}".replace(".", "_")
            yield _slot(key, part, item, option, inner, first=number == 0)


def _slot(key: str, part: str, item: Any, option: Option, hint: Any, *, first: bool) -> _Slot:
    """Return one option as typer wants it declared."""
    kind = _type_of(option, hint)
    free = item.default is not MISSING and not option.required
    alone = first and not any(not other.hidden for other in option.others)
    required = alone and not free
    more: dict[str, Any] = {"help": option.help, "rich_help_panel": str(option.group)}
    more["metavar"] = _metavar(option, kind)
    if option.choices is not None:
        choices = [str(choice) for choice in option.choices]
        more |= {"metavar": f"[{'|'.join(choices)}]", "autocompletion": lambda: choices}
    if option.argument:
        shown = Annotated[kind | None, typer.Argument(help=option.help, metavar=item.name.upper())]
    else:
        shown = Annotated[
            kind if required else kind | None,
            typer.Option(*_names(option), hidden=option.hidden, show_default=False, **more),
        ]
    default = inspect.Parameter.empty if required and not option.argument else None
    if option.argument and not free:
        shown = Annotated[kind, typer.Argument(help=option.help, metavar=item.name.upper())]
        default = inspect.Parameter.empty
    standing = None if item.default is MISSING else item.default
    return _Slot(key, part, item.name, option, shown, default, standing)


def _metavar(option: Option, kind: Any) -> str | None:
    """Return what help shows in the place of a value."""
    if kind is bool:
        return None
    if option.path is not None:
        return "FILE"
    return "NUMBER" if kind in (int, float) else "TEXT"


def _names(option: Option) -> list[str]:
    return [option.name, option.short] if option.short else [option.name]


def _type_of(option: Option, hint: Any) -> Any:
    """Return the type of an option's value: texts where they are parsed here."""
    if option.many:
        return list[str]
    if option.parse is not None or option.choices is not None:
        return str
    plain = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    return next((kind for kind in _PLAIN if kind in plain), str)


def _chosen(option: Option, word: str) -> str:
    """Return one of an enumeration; a word of an earlier version counts as the new one."""
    choices = [str(choice) for choice in option.choices or ()]
    now = option.former.get(word, word)
    if now not in choices:
        raise ParameterError(f"{option.name} must be one of {', '.join(choices)}; got {word!r}.")
    return now


def _check_files(slots: Sequence[_Slot], given: Mapping[str, Any]) -> None:
    """Raise before any work if a file would be written over that is read, or cannot be written."""
    files: dict[bool, list[Path | None]] = {True: [], False: []}
    for slot in slots:
        value, option = given[slot.key], slot.option
        if value is None and option.writes:
            value = slot.standing
        for text in value if isinstance(value, list) else [value]:
            if option.path is not None and text is not None:
                files[option.writes].append(option.path(str(text)))
    force = any(given[slot.key] for slot in slots if slot.option.name == _FORCE)
    check_outputs(*files[True], reads=files[False], force=force)


def _asked(slots: Sequence[_Slot], given: Mapping[str, Any]) -> Asked:
    """Return the fields that were given, parsed; one that was given in two ways is an error."""
    values: dict[str, dict[str, Any]] = {slot.part: {} for slot in slots}
    used: dict[tuple[str, str], tuple[_Slot, Any]] = {}
    for slot in slots:
        value = given[slot.key]
        if value is None or value == []:
            continue
        place = (slot.part, slot.field)
        if place in used:
            before, former = used[place]
            if not (slot.option.many and slot.option.hidden):
                names = f"{before.option.name}, or {slot.option.name}"
                raise ParameterError(f"say it once: {names}.")
            value = [*former, *value]  # an old name that could stand beside the new one
        used[place] = (slot, value)
        values[slot.part][slot.field] = _parsed(slot.option, value)
    return Asked(values)


def _parsed(option: Option, value: Any) -> Any:
    """Return the value of a field from the text of its option."""
    if option.choices is not None:
        return _chosen(option, value)
    if option.parse is None:
        return value
    try:
        return option.parse(value)
    except ValueError as error:
        if isinstance(error, SufficeError):
            raise
        shown = value if isinstance(value, str) else ", ".join(value)
        raise ParameterError(f"{option.name} cannot be {shown!r}: it takes a number.") from None
