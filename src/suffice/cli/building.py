"""Commands made from declarations: the fields of dataclasses become options.

A command is described by parts, dataclasses whose fields carry an `Option` each. Its function
receives the inputs that were typed, part by part.

Before a command does any work, it is checked where it writes and which options have no effect.
"""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from suffice.cli.help import HelpfulCommand
from suffice.errors import ParameterError, StorageError, SufficeError
from suffice.options import REQUIRED, Option, options_of, output_option
from suffice.participant import MOST_BYTES

__all__ = [
    "AnchorPlace",
    "Force",
    "Inputs",
    "Json",
    "JsonOutput",
    "LedgerPath",
    "MadeCommand",
    "Output",
    "OutputFile",
    "Overwriting",
    "Parts",
    "SigningKey",
    "check_outputs",
    "make_command",
    "make_folder",
    "refuse_unused",
    "selected_fields",
]


# What is never written over, by how its contents begin. The keys of a survey stand in the order of
# their names, so that its questions come before what says that it is one.
_PRECIOUS = {
    "a ledger, or another database": re.compile(
        rb"SQLite format 3\0|\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # or its journal
    ),
    "a survey, or an answer to one": re.compile(
        rb"""\s*\{(?s:.*)"suffice"\s*:\s*"(survey|answer)\""""
    ),
    "the memory of answers to surveys": re.compile(
        rb"""\{"version": \d+, "kind": "(cost|token|answer)\""""
    ),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}


def check_outputs(
    *outputs: Path | None,
    reads: Iterable[Path | str | None] = (),
    appends: Iterable[Path] = (),
    force: bool | None = False,
) -> None:
    """Raise unless every output can be written, to a file of its own that is not one of ``reads``.

    A file that exists is not written over without ``force``; a ledger, a survey, the memory of
    answers or a private key never is, whatever its name. ``force`` is None for a command that has
    no such option. Files in ``appends`` may exist: they only grow. Of a folder that is read every
    file is taken to be read. None stands for an option that is not set.
    """
    new_files = [path for path in outputs if path is not None]
    written = [*new_files, *appends]
    if force and not written:
        raise ParameterError("--force cannot be used without a file to write. Remove --force.")
    sources = [Path(source) for source in reads if source is not None]
    for path in written:
        folder = path.parent
        if not folder.is_dir():
            raise StorageError(f"{path} cannot be written. Make the folder {folder} first.")
        if path.is_dir():
            raise StorageError(
                f"{path} cannot be written, because it is a folder. Name a file in it."
            )
        if not os.access(folder, os.W_OK):
            raise StorageError(
                f"{path} cannot be written, because its folder is protected. Choose another."
            )
        if any(_holds(source, path) for source in sources):
            raise ParameterError(
                f"{path} is read by this command and would be overwritten. Write to another file."
            )
    resolved = [path.resolve() for path in written]
    for path, target in zip(written, resolved, strict=True):
        if resolved.count(target) > 1:
            raise ParameterError(f"{path} would be written twice. Give each output its own file.")
    for path in new_files:
        _check_free(path, force=force)


def _check_free(path: Path, *, force: bool | None) -> None:
    """Raise if there is a file that may not be written over."""
    if not os.path.lexists(path):
        return
    if path.exists():
        if not path.is_file():
            raise StorageError(f"{path} is not a file that can be overwritten. Name another file.")
        if (kind := _precious(path)) is not None:
            raise StorageError(f"{path} is {kind}, and never overwritten. Write to another file.")
    if not force:
        hint = "" if force is None else ", or use --force"
        raise StorageError(f"{path} exists. Write to another file{hint}.")


def _precious(path: Path) -> str | None:
    """Return what a file holds that is never written over, or None."""
    try:
        with path.open("rb") as file:
            head = file.read(MOST_BYTES)
    except OSError:
        raise StorageError(
            f"{path} exists and cannot be read, so it may be a ledger. Write to another file."
        ) from None
    return next((kind for kind, begins in _PRECIOUS.items() if begins.match(head)), None)


def _holds(source: Path, path: Path) -> bool:
    """Say whether a file that is there is ``source``, by whatever name, or lies in it."""
    if not (source.exists() and path.exists()):
        return False
    return source.samefile(path) or source.resolve() in path.resolve().parents


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The folder {path} cannot be made: {error.strerror}.") from None


def refuse_unused(where: str, options: Mapping[str, Any]) -> None:
    """Raise if an option is set (is not None) that has no effect ``where``: none is ignored."""
    for option, value in options.items():
        if value is not None:
            raise ParameterError(f"{option} cannot be used {where}. Remove {option}.")


Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
LedgerPath = Annotated[
    str, typer.Argument(help="The ledger's file, or postgresql://HOST/DATABASE.", metavar="PATH")
]
AnchorPlace = Annotated[
    str | None,
    typer.Option(
        "--anchor",
        metavar="FILE|command:PROGRAM|none",
        help="Where the end of the log is also kept. Default: a file in your state folder.",
    ),
]
SigningKey = Annotated[
    Path | None, typer.Option("--sign", help="Sign the file with this private key.")
]


@dataclass(frozen=True, kw_only=True)
class JsonOutput:
    """How a command reports."""

    json: bool = output_option(False, "Print JSON for programs.")


@dataclass(frozen=True, kw_only=True)
class Overwriting:
    """Whether a command may write over files that exist."""

    force: bool = output_option(
        False,
        "Overwrite a file that exists. Ledgers, private keys, surveys and their answers are never"
        " overwritten.",
    )


Force = Annotated[bool, typer.Option("--force", help=options_of(Overwriting)["force"].help)]


@dataclass(frozen=True, kw_only=True)
class OutputFile(JsonOutput, Overwriting):
    """The file that a command writes, and how it reports."""

    output: Path = output_option(
        REQUIRED,
        "The file to write.",
        name="--output",
        short="-o",
        parse=Path,
        path=Path,
        writes=True,
    )


Parts = Mapping[str, type]
T = TypeVar("T")
_SIMPLE_TYPES = (bool, int, float, str, Path)
_CONTEXT, _FORCE = "context", "--force"


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
class Inputs:
    """What was typed on the command line: part -> field -> value.

    ``program`` runs the program itself with other words.
    """

    values: Mapping[str, dict[str, Any]]
    program: Callable[..., Any]

    def make(self, part: str, kind: type[T], **more: Any) -> T:
        """Return the value of a part; dataclasses in it are made from their own fields."""
        return kind(**self.fields(part, kind), **more)

    def fields(self, part: str, kind: type) -> dict[str, Any]:
        """Return the fields of a part that were typed, those of dataclasses in it as values."""
        values = dict(self.values[part])
        for item in dataclasses.fields(kind):
            inner_part = f"{part}.{item.name}"
            if self.values.get(inner_part):
                values[item.name] = self.make(inner_part, get_type_hints(kind)[item.name])
        return values


@dataclass(frozen=True)
class Slot:
    """One option of the command line, and the field that it sets.

    ``fallback`` is what the field holds if the option is not typed.
    """

    key: str
    part: str
    field: str
    option: Option
    annotation: Any
    default: Any
    fallback: Any


class MadeCommand(HelpfulCommand):
    """A command that was made from declarations; ``slots`` are its options."""

    slots: Sequence[Slot] = ()


def make_command(
    name: str,
    parts: Parts,
    run: Callable[[Inputs], None],
    *,
    help: str,  # noqa: A002  # as command lines call it
) -> TyperCommand:
    """Return a command whose options are the fields of ``parts``."""
    slots = [slot for part, kind in parts.items() for slot in _slots(part, kind)]
    slots.sort(key=lambda slot: not slot.option.argument)

    def call(context: typer.Context, **texts: Any) -> None:
        files: dict[bool, list[Path | None]] = {True: [], False: []}
        for slot in slots:
            value, option = texts[slot.key], slot.option
            if value is None and option.writes:
                value = slot.fallback
            for text in value if isinstance(value, list) else [value]:
                if option.path is not None and text is not None:
                    files[option.writes].append(option.path(str(text)))
        force = any(texts[slot.key] for slot in slots if slot.option.name == _FORCE)
        check_outputs(*files[True], reads=files[False], force=force)
        run(Inputs(_values(slots, texts), context.find_root().command.main))

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for key, default, hint in [
                (_CONTEXT, inspect.Parameter.empty, typer.Context),
                *((slot.key, slot.default, slot.annotation) for slot in slots),
            ]
        ]
    )
    call.__annotations__ = {_CONTEXT: typer.Context} | {s.key: s.annotation for s in slots}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=MadeCommand, help=help)(call)
    command = typer.main.get_command(app)
    assert isinstance(command, MadeCommand)  # noqa: S101  # for the type checker
    command.slots = slots
    return command


def _slots(part: str, kind: type) -> Iterator[Slot]:
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


def _slot(key: str, part: str, item: Any, option: Option, hint: Any, *, first: bool) -> Slot:
    """Return one option as typer wants it declared."""
    kind = _type_of(option, hint)
    has_default = item.default is not MISSING and not option.required
    only_option = first and not option.others
    required = (option.argument or only_option) and not has_default
    if option.argument:
        parameter = typer.Argument(help=option.help, metavar=item.name.upper())
    else:
        choices = option.choices
        parameter = typer.Option(
            *([option.name, option.short] if option.short else [option.name]),
            show_default=False,
            help=option.help,
            rich_help_panel=str(option.group),
            metavar=_metavar(option, kind),
            autocompletion=(
                None if choices is None else lambda: [str(choice) for choice in choices]
            ),
        )
    annotation: Any = Annotated[kind if required else kind | None, parameter]
    default = inspect.Parameter.empty if required else None
    fallback = None if item.default is MISSING else item.default
    return Slot(key, part, item.name, option, annotation, default, fallback)


def _metavar(option: Option, kind: Any) -> str | None:
    """Return what help shows in the place of a value."""
    if option.choices is not None:
        return f"[{'|'.join(map(str, option.choices))}]"
    if kind is bool:
        return None
    if option.path is not None:
        return "FILE"
    return "NUMBER" if kind in (int, float) else "TEXT"


def _type_of(option: Option, hint: Any) -> Any:
    """Return the type of an option's value: texts where they are parsed here."""
    if option.many:
        return list[str]
    if option.parse is not None or option.choices is not None:
        return str
    types = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    return next((kind for kind in _SIMPLE_TYPES if kind in types), str)


def _values(slots: Sequence[Slot], texts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields that were typed, parsed; a field that two options set is an error."""
    values: dict[str, dict[str, Any]] = {slot.part: {} for slot in slots}
    used: dict[tuple[str, str], str] = {}
    for slot in slots:
        value = texts[slot.key]
        if value is None or value == []:
            continue
        target = (slot.part, slot.field)
        if target in used:
            raise ParameterError(
                f"{used[target]} and {slot.option.name} set the same value. Use only one of them."
            )
        used[target] = slot.option.name
        values[slot.part][slot.field] = _parsed(slot.option, value)
    return values


def _parsed(option: Option, value: Any) -> Any:
    """Return the value of a field from the text of its option."""
    if option.choices is not None:
        choices = [str(choice) for choice in option.choices or ()]
        if value not in choices:
            raise ParameterError(
                f"{option.name} must be one of {', '.join(choices)}; got {value!r}."
            )
        return value
    if option.parse is None:
        return value
    try:
        return option.parse(value)
    except ValueError as error:
        if isinstance(error, SufficeError):
            raise
        text = value if isinstance(value, str) else ", ".join(value)
        raise ParameterError(f"{option.name} must be a number; got {text!r}.") from None
