"""Commands of the owner: advise, plan, release and keygen.

There is one ``plan NAME`` and one ``release NAME`` for every mechanism that is registered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    Inputs,
    JsonOutput,
    OutputFile,
    Overwriting,
    Parts,
    make_command,
    refuse_unused,
    selected_fields,
)
from suffice.cli.help import Context, HelpfulCommand, HelpfulGroup, Maker
from suffice.cli.output import owner_warnings, progress, say, show_json, show_pairs, show_table
from suffice.errors import ParameterError, StorageError
from suffice.options import (
    REQUIRED,
    Option,
    budget_option,
    data_option,
    numbers,
    options_of,
    output_option,
    values,
)
from suffice.plain_text import listed

__all__ = [
    "COMMANDS",
    "TABLE_HELP",
    "PlanGroup",
    "Reading",
    "ReleaseGroup",
    "ReleaseOptions",
    "count_rows_of",
    "ledger_arguments",
    "register",
    "save_charged",
    "with_ledger_classes",
    "write_release",
]


TABLE_HELP = (
    "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them; also an address (s3://..., or"
    " that of a database with --query)."
)
_DATABASES = ("postgresql://", "postgres://", "sqlite:///", "duckdb:///")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The form of a table; what is not set is read from the file, where that may be done."""

    delimiter: str | None = data_option(
        None,
        "Character between the columns of a CSV file, for example ; or tab. Default: as in its"
        " first line.",
    )
    decimal: str | None = data_option(
        None, "Decimal mark of a CSV file: . or ,. Default: as in public columns, else a point."
    )
    encoding: str | None = data_option(
        None,
        "Encoding of a CSV file, for example latin-1. Default: as its first line and public columns"
        " show it, else utf-8.",
    )

    query: str | None = data_option(
        None,
        "SQL query whose rows are the table; the table is then the address of a database:"
        " postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE.",
    )
    order_by: list[str] | None = data_option(
        None,
        "Column that orders the rows of --query, for example a key (repeatable).",
        many=True,
    )

    def tables(self, paths: Sequence[str]) -> list[Any]:
        """Return several tables; a query is for those that are addresses of databases."""
        stored = [path.startswith(_DATABASES) for path in paths]
        if self.query is None or all(stored) or not any(stored):
            return [self.table(path) for path in paths]
        files = replace(self, query=None, order_by=None)
        databases = replace(self, delimiter=None, decimal=None, encoding=None)
        readings = [databases if in_database else files for in_database in stored]
        return [reading.table(path) for reading, path in zip(readings, paths, strict=True)]

    def table(self, path: str | Path) -> Any:
        """Return what the library reads as a table: a file, or the query of a database."""
        if self.query is None:
            from suffice.tables.files import TableFile

            refuse_unused("without --query", {"--order-by": self.order_by or None})
            return TableFile(path, self.delimiter, self.decimal, self.encoding)
        from suffice.tables.databases import Query

        for name in ("delimiter", "decimal", "encoding"):
            refuse_unused("with --query", {f"--{name}": getattr(self, name)})
        return Query(str(path), self.query, tuple(self.order_by or ()))


def count_rows_of(table: Any, count_rows: Callable[[int], None] | None) -> Any:
    """Return a table that reports the rows that are read of it."""
    if count_rows is None:
        return table
    from suffice.tables.sources import open_table

    return _CountedTable(open_table(table), count_rows)


class _CountedTable:
    """A table that reports its rows to a progress bar as they are read."""

    def __init__(self, table: Any, count_rows: Callable[[int], None]) -> None:
        self._table, self._count_rows = table, count_rows
        self.schema, self.parts = table.schema, table.parts

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of ``columns``, and report each batch."""
        from suffice.engines.engine import begin_pass

        begin_pass(self._count_rows)
        for batch in self._table.batches(columns):
            yield batch
            self._count_rows(batch.num_rows)


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(OutputFile):
    """Where a release goes, how it is signed, and how it is reported."""

    no_ledger: bool = budget_option(
        False, "Release without a ledger: nothing will limit the total."
    )
    sign: Path | None = output_option(
        None, "Sign the file with this private key.", parse=Path, path=Path
    )


def ledger_arguments(payment: Mapping[str, Any], options: ReleaseOptions) -> dict[str, Any]:
    """Return the ledger's arguments of a release; to have none takes an option of its own."""
    if ("ledger" in payment) == options.no_ledger:
        raise ParameterError(
            "Choose a ledger: --ledger FILE --dataset NAME. To release without a budget, use"
            " --no-ledger."
        )
    if options.no_ledger:
        unused = {f"--{name}": payment.get(name) for name in ("dataset", "request")}
        refuse_unused("with --no-ledger", unused)
    return {"ledger": None, **payment}


def with_ledger_classes(
    fields: Mapping[str, Any], payment: Mapping[str, Any], label: str | None, mechanism: Any
) -> dict[str, Any]:
    """Return the fields of a mechanism, with the classes of the ledger unless others are given."""
    ledger, dataset = payment.get("ledger"), payment.get("dataset")
    has_classes = "classes" in mechanism.__dataclass_fields__
    if not has_classes or "classes" in fields or ledger is None or not dataset:
        return dict(fields)
    declared = ledger.classes(dataset, label)
    return dict(fields) if declared is None else {**fields, "classes": declared}


def write_release(
    release: Any, options: ReleaseOptions, report: Any = None, made: Any = None
) -> None:
    """Sign a release if there is a key, save it, and print what it protects.

    ``report`` is for the owner only; it goes to the terminal, and into the JSON. ``made`` says when
    the release was charged, if it was.
    """
    from suffice.release.signing import sign

    if options.sign is not None:
        release = sign(release, options.sign)
    if options.no_ledger:
        release.save(options.output, overwrite=options.force)
    else:
        save_charged(release, options.output, force=options.force)
    facts = {} if report is None else {key: _json_value(v) for key, v in report.facts.items()}
    if options.json:
        guarantees = [guarantee.to_json() for guarantee in release.guarantees]
        counts = facts or {"rows": release.rows}
        charged = {}
        if made is not None:
            day = made.time.date().isoformat()
            charged = {"repeated": made.repeated, "made": day}
        show_json({"written": str(options.output), **charged, **counts, "guarantees": guarantees})
        return
    for line in () if report is None else report.lines:
        say(f"suffice: {line}", error=True)
    show_pairs(
        [
            ("written", str(options.output)),
            *(() if report is None else report.shown),
            ("features", listed([column.name for column in release.pipeline.columns]) or "none"),
            *((f"per {guarantee.unit}", str(guarantee)) for guarantee in release.guarantees),
        ]
    )


def save_charged(release: Any, output: Path, *, force: bool) -> None:
    """Save a release that was charged to a ledger; if that fails, say that it is not lost."""
    try:
        release.save(output, overwrite=force)
    except StorageError as error:
        raise StorageError(
            f"{error} The release was charged and is not lost. Run the same command with another"
            " --output: the ledger returns the same file at no charge."
        ) from None


def _json_value(value: Any) -> Any:
    """Return a fact as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else value


class _MechanismGroup(HelpfulGroup):
    """A group with a command for every mechanism of the registry."""

    make: ClassVar[Callable[..., TyperCommand]]

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all mechanisms."""
        from suffice.owner.mechanism import mechanism_names

        del ctx
        return mechanism_names()

    def get_command(self, ctx: Context, cmd_name: str) -> TyperCommand | None:
        """Return the command of one mechanism; nothing else is imported for it."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return type(self).make(cmd_name)


def _release_command(name: str) -> TyperCommand:
    from suffice.owner.mechanism import Payment, make_release, mechanism_of

    mechanism = mechanism_of(name)
    parts: Parts = {
        "table": _Table,
        "reading": Reading,
        "source": mechanism.source,
        "mechanism": selected_fields(mechanism, partial(_released, mechanism)),
        "positive": _Positive if "classes" in options_of(mechanism) else _NoOptions,
        "payment": Payment,
        "release": ReleaseOptions,
    }

    def run(inputs: Inputs) -> None:
        table = inputs.make("reading", Reading).table(inputs.values["table"]["table"])
        options = inputs.make("release", ReleaseOptions)
        source = inputs.fields("source", mechanism.source)
        payment = ledger_arguments(inputs.values["payment"], options)
        fields = with_ledger_classes(
            inputs.values["mechanism"], payment, source.get("label"), mechanism
        )
        fields = _with_positive(fields, inputs, mechanism)
        reports: list[Any] = []
        charges: list[Any] = []
        with owner_warnings(), progress("reading") as count_rows:
            data = mechanism.source(table, **source, report=reports.append, progress=count_rows)
            charged = Payment(**payment, report=charges.append)
            release = make_release(mechanism(**fields), data, charged)
        write_release(release, options, reports[0] if reports else None, *charges)

    summary = str(mechanism.__doc__).partition("\n")[0]
    return make_command(name, parts, run, help=mechanism.release_help or summary)


def _plan_command(name: str) -> TyperCommand:
    from suffice.owner.mechanism import mechanism_of

    mechanism: Any = mechanism_of(name)
    if mechanism.planner is not None:
        return _planner_command(mechanism)
    parts: Parts = {
        "table": _Table,
        "reading": Reading,
        "source": mechanism.source,
        "mechanism": selected_fields(mechanism, _planned),
        "positive": _Positive if "classes" in options_of(mechanism) else _NoOptions,
        "display": _PlanDisplay,
    }

    def run(inputs: Inputs) -> None:
        table = inputs.make("reading", Reading).table(inputs.values["table"]["table"])
        fields = _with_positive(dict(inputs.values["mechanism"]), inputs, mechanism)
        epsilons = fields.pop("epsilon", [])
        request = mechanism(**fields, **({"epsilon": epsilons[0]} if epsilons else {}))
        display = inputs.make("display", _PlanDisplay)
        display.check()
        compared = epsilons if len(epsilons) > 1 else ()
        with progress("reading") as count_rows:
            source = mechanism.source(
                table, **inputs.fields("source", mechanism.source), progress=count_rows
            )
            with source.running() as opened:
                plan = request.plan(opened, compared)
        display.show(plan)

    return make_command(name, parts, run, help=_plan_help(mechanism))


def _planner_command(mechanism: Any) -> TyperCommand:
    """Return ``plan NAME`` of a mechanism that plans without a table of its own."""

    def run(inputs: Inputs) -> None:
        display = inputs.make("display", _PlanDisplay)
        display.check()
        display.show(mechanism.planner(**inputs.values["planner"]).plan())

    parts: Parts = {"planner": mechanism.planner, "display": _PlanDisplay}
    return make_command(mechanism.name, parts, run, help=_plan_help(mechanism))


def _plan_help(mechanism: Any) -> str:
    summary = mechanism.plan_help or f"Predict what `release {mechanism.name}` would give."
    return f"{summary}\n\nA plan reads no private value, and is not charged to a budget."


class ReleaseGroup(_MechanismGroup):
    """``suffice release``."""

    make = staticmethod(_release_command)


class PlanGroup(_MechanismGroup):
    """``suffice plan``."""

    make = staticmethod(_plan_command)


@dataclass(frozen=True)
class _Table:
    table: str = data_option(
        REQUIRED,
        TABLE_HELP,
        path=Path,
        argument=True,
    )


@dataclass(frozen=True)
class _Positive:
    positive: str | None = data_option(
        None,
        "The positive one of two classes, for example yes. Default: the last of --classes.",
        kw_only=True,
    )


@dataclass(frozen=True)
class _NoOptions:
    """No option at all."""


def _with_positive(fields: dict[str, Any], inputs: Inputs, mechanism: Any) -> dict[str, Any]:
    """Return the fields of a mechanism, the positive one of two classes last."""
    from suffice.tables.labels import canonical_class

    word = inputs.values.get("positive", {}).get("positive")
    if word is None:
        return fields
    classes = fields.get("classes", mechanism.__dataclass_fields__["classes"].default)
    (positive,) = values(f'"{word}"') if "," in word else values(word)
    others = [name for name in classes if canonical_class(name) != canonical_class(positive)]
    if len(classes) != 2 or len(others) != 1:
        raise ParameterError(
            "--positive must be one of exactly two classes. List both with --classes."
        )
    last = next(name for name in classes if name not in others)
    return {**fields, "classes": (others[0], last)}


@dataclass(frozen=True, kw_only=True)
class _PlanDisplay(JsonOutput, Overwriting):
    """How a plan is shown."""

    plot: Path | None = output_option(
        None, "Draw the plan to this SVG, PNG or PDF file.", parse=Path, path=Path, writes=True
    )

    def check(self) -> None:
        """Raise if the plan could not be drawn."""
        if self.plot is not None:
            from suffice.pages.plots import check_plot

            check_plot(self.plot)

    def show(self, plan: Any) -> None:
        """Draw a plan, and print it."""
        if self.plot is not None:
            from suffice.pages.plots import draw_plan

            draw_plan(plan.curves(), self.plot, overwrite=self.force)
        _show_plan(plan, as_json=self.json)


def _show_plan(plan: Any, *, as_json: bool) -> None:
    """Print a plan as JSON, or as a table with its advice."""
    if as_json:
        show_json(plan.to_json())
        return
    show_table(plan.title, tuple(plan.columns), plan.cells())
    say(*plan.advice)


def _planned(name: str, declared: Option) -> Option | None:
    """Return the option of a field that a plan has a use for; epsilon can be repeated."""
    if not declared.planned:
        return None
    if name != "epsilon":
        return declared
    return replace(
        declared,
        help="Epsilon, for example 1. Repeat it to compare several.",
        parse=numbers,
        many=True,
        required=True,
    )


def _released(mechanism: Any, name: str, declared: Option) -> Option | None:
    """Return the option of a field that a release has a use for; required as the field is."""
    if not declared.released:
        return None
    required = mechanism.__dataclass_fields__[name].default is MISSING
    return replace(declared, required=declared.required or required)


_HELP = (
    "Say which release to make, with its options and its commands.\n\n"
    "Advice reads the columns, the number of rows and public tables. With private labels the rows"
    " are public, and the labels are not read. Advice is not charged to a budget."
)


def _advise_command() -> TyperCommand:
    """Return ``suffice advise``."""
    from suffice.owner.advice import Question
    from suffice.owner.source import Source

    parts: Parts = {
        "table": _Table,
        "reading": Reading,
        "source": Source,
        "question": Question,
        "output": JsonOutput,
    }

    def run(inputs: Inputs) -> None:
        from suffice.owner.advice import answer

        table = inputs.make("reading", Reading).table(inputs.values["table"]["table"])
        question = inputs.make("question", Question)
        with progress("reading") as count_rows:
            source = Source(table, **inputs.fields("source", Source), progress=count_rows)
            advice = answer(question, source)
        _show_plan(advice, as_json=inputs.make("output", JsonOutput).json)

    return make_command("advise", parts, run, help=_HELP)


COMMANDS: Mapping[str, Maker] = {"advise": _advise_command}


plan_app = typer.Typer(
    cls=PlanGroup, help="Predict how useful a release would be, before any charge."
)
release_app = typer.Typer(
    cls=ReleaseGroup, help="Publish statistics of private data, charged to a ledger."
)


@plan_app.callback()
@release_app.callback()
def _mechanisms() -> None:
    """Keep both groups, though their commands are made when they are needed."""


def register(app: typer.Typer) -> None:
    """Add the owner's commands."""
    app.add_typer(plan_app, name="plan", no_args_is_help=True)
    app.add_typer(release_app, name="release", no_args_is_help=True)
    app.command(cls=HelpfulCommand)(keygen)


def keygen(
    stem: Annotated[
        Path, typer.Argument(help="Name of the keys: clinic makes clinic.key and clinic.pub.")
    ],
) -> None:
    """Make a key pair that signs and verifies releases."""
    from suffice.release.signing import generate_keys

    private, public = generate_keys(stem)
    say(f"{private}: keep it secret.", f"{public}: give it to those who verify.")
