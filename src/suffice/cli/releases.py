"""Commands of the owner: advise, plan, release and keygen.

There is one ``plan NAME`` and one ``release NAME`` for every mechanism that is registered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    PAPERS,
    PLOT,
    Context,
    HelpfulGroup,
    JsonOutput,
    OutputFile,
    Overwriting,
    Reading,
    make_command,
    refuse_unused,
    selected_fields,
)
from suffice.cli.output import owner_warnings, progress, say, show_json, show_pairs, show_table
from suffice.errors import ParameterError, StorageError
from suffice.options import (
    FILE,
    REQUIRED,
    ByColumn,
    budget_option,
    data_option,
    numbers,
    options_of,
    output_option,
)
from suffice.plain_text import listed

if TYPE_CHECKING:
    from suffice.cli.starting import Project

TABLE_HELP = (
    "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them; also an address (s3://..., or"
    " that of a database with --read query=SQL)."
)


@dataclass(frozen=True, kw_only=True)
class _Table(Reading):
    """The table of an owner, and its form."""

    table: str = data_option(REQUIRED, TABLE_HELP, path=Path, argument=True)


def project_of(
    table: str | Path, source: Mapping[str, Any], payment: Mapping[str, Any] | None
) -> "Project | None":
    """Return the data set of a table, by the settings beside it or in this folder; else None.

    A label or data set that was typed must be its own: nothing is charged to another one.
    """
    text, dataset = str(table), (payment or {}).get("dataset")
    place = None if "://" in text else Path(text).resolve()
    for folder in dict.fromkeys([Path(), *([] if place is None else [Path(text).parent])]):
        if not (folder / "suffice.toml").is_file():
            continue
        from suffice.cli.starting import Project
        from suffice.service.settings import Settings

        settings = Settings.load(folder)
        same = [
            name
            for name, served in settings.datasets.items()
            if served.table == text or (place is not None and Path(served.table).resolve() == place)
            if source.get("label") in (None, served.label) and dataset in (None, name)
        ]
        if len(same) > 1:
            raise ParameterError(
                f"{folder / 'suffice.toml'} has several data sets of this table:"
                f" {listed(same)}. Name one with --label or --dataset."
            )
        if same:
            return Project(folder, settings, same[0])
    return None


@dataclass(frozen=True, kw_only=True)
class _DeclaredTable(_Table):
    """The same, with what a data sheet declares."""

    sheet: Path | None = data_option(
        None,
        "Data sheet of the table, columns.json: the columns, ranges, categories and classes that no"
        " other option states.",
        **FILE,
    )

    def declare(
        self,
        mechanism: Any,
        source: dict[str, Any],
        fields: dict[str, Any],
        payment: dict[str, Any] | None = None,
    ) -> Any:
        """Add what settings and data sheet declare to options that were not given; open the table.

        ``payment`` is added to as well, unless it is None.
        """
        if self.sheet is not None:
            from suffice.tables.data_sheet import DataSheet

            _declare(DataSheet.load(self.sheet), mechanism, source, fields)
            return self.open(self.table)
        project = project_of(self.table, source, payment)
        if project is None:
            return self.open(self.table)
        project.fill(source, payment)
        if project.served.sheet is not None:
            if "classes" in mechanism.__dataclass_fields__ and "classes" not in fields:
                fields["classes"] = project.classes()
            _declare(project.served.sheet, mechanism, source, fields)
            project.check_filled(source["features"], fields)
        return self.open(self.table, project)


def _require_label(source: Mapping[str, Any]) -> None:
    """Raise unless the private column is named: no default may read it as a public one."""
    if source.get("label") is None and source.get("target") is None:
        raise ParameterError(
            "Name the column of private labels with --label, or tell `suffice init` once."
        )


def _declare(sheet: Any, mechanism: Any, source: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add what a data sheet declares to options that were not given."""
    label = source.get("target") or source.setdefault("label", sheet.label)
    others = {label, source.get("person"), *source.get("drop", ())}
    offered = sheet.public if mechanism.has_public_rows else sheet.features
    names = source.setdefault("features", [name for name in offered if name not in others])
    known = [name for name in names if name in sheet]
    if source.get("target") in sheet:
        known.append(source["target"])
    declared = {"ranges": sheet.ranges(known), "classes": sheet.classes}
    declared |= dict.fromkeys(("categories", "states"), sheet.categories(known))
    if mechanism.has_public_rows:
        del declared["ranges"]
    for name, value in declared.items():
        if name in mechanism.__dataclass_fields__ and value and name not in fields:
            fields[name] = value


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
    sign: Path | None = output_option(None, "Sign the file with this private key.", **FILE)


def make_and_write(
    mechanism: Callable[[], Any],
    source: Callable[..., Any],
    payment: Mapping[str, Any],
    options: ReleaseOptions,
    activity: str = "reading",
    left: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Make a release of a source, which is told who hears of it, charge it, and write it.

    ``left`` says what is left of the budgets, where that is told.
    """
    from suffice.owner.mechanism import Payment, make_release

    if ("ledger" in payment) == options.no_ledger:  # to have none takes an option of its own
        raise ParameterError(
            "Choose a ledger: --ledger FILE --dataset NAME. To release without a budget, use"
            " --no-ledger."
        )
    if options.no_ledger:
        unused = {f"--{name}": payment.get(name) for name in ("dataset", "request")}
        refuse_unused("with --no-ledger", unused)
    reports: list[Any] = []
    charges: list[Any] = []
    with owner_warnings(), progress(activity) as count_rows:
        private = source(report=reports.append, progress=count_rows)
        charged = Payment(**{"ledger": None, **payment}, report=charges.append)
        made = make_release(mechanism(), private, charged)
    write_release(made, options, reports[0] if reports else None, *charges)
    if not charges or options.json:
        return
    charge = f"nothing: this is the file of {charges[0].time:%Y-%m-%d}"
    if not charges[0].repeated:
        charge = f"data set {payment['dataset']}"
    shown = f"suffice ledger show {payment['ledger'].path} says it"
    more = f"suffice inspect {options.output} --explain says what it means for one person"
    show_pairs([("charged", charge), ("left", left(payment) if left else shown), ("next", more)])


def left_of(payment: Mapping[str, Any]) -> str:
    """Return what is left of the budgets that a release was charged to."""
    balances = payment["ledger"].balances(payment["dataset"])
    return ", ".join(f"epsilon {b.left:.4g} of {b.budget.epsilon:g} per {b.unit}" for b in balances)


def write_release(
    release: Any, options: ReleaseOptions, report: Any = None, made: Any = None
) -> None:
    """Sign a release if there is a key, save it, and print what it protects.

    ``report`` is for the owner only. Its lines go to stderr: no byte of stdout depends on private
    cells, also as JSON. ``made`` says when the release was charged, if it was.
    """
    from suffice.releases.signing import sign

    if options.sign is not None:
        release = sign(release, options.sign)
    if options.no_ledger:
        release.save(options.output, overwrite=options.force)
    else:
        save_charged(release, options.output, force=options.force)
    for line in () if report is None else report.lines:
        say(f"suffice: {line}", error=True)
    if options.json:
        charged = {}
        if made is not None:
            charged = {"repeated": made.repeated, "made": made.time.date().isoformat()}
        show_json(
            {
                "written": str(options.output),
                **charged,
                "rows": release.rows,
                "guarantees": [guarantee.to_json() for guarantee in release.guarantees],
            }
        )
        return
    show_pairs(
        [
            ("written", str(options.output)),
            ("features", listed([column.name for column in release.pipeline.columns]) or "none"),
            *((("clipped", release.pipeline.clipping),) if release.pipeline.clipped else ()),
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


def _split_flips(fields: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Give the label its part of --flip, which is one of every column that is not named."""
    flips = fields.pop("feature_flip")
    named, label = dict(flips.named), source["label"]
    if label in named:
        fields["label_flip"] = named.pop(label)
    elif "label_epsilon" not in fields:
        fields["label_flip"] = flips.others
    others = flips.others if fields.get("states") else None
    fields["feature_flip"] = ByColumn(named, others) or None


def _declared_classes(
    payment: Mapping[str, Any], source: Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the classes that the ledger declares for the label of a data set, if it does."""
    ledger, dataset = payment.get("ledger"), payment.get("dataset")
    if ledger is None or not dataset:
        return {}
    declared = ledger.classes(dataset, source.get("label"))
    return {} if declared is None else {"classes": declared}


def _release_command(name: str) -> TyperCommand:
    """Return ``suffice release NAME``."""
    if name == _ADVISED:
        return advised_command()
    from suffice.owner.mechanism import Payment, mechanism_of

    mechanism: Any = mechanism_of(name)

    def run(
        table: _DeclaredTable,
        source: dict[str, Any],
        fields: dict[str, Any],
        payment: dict[str, Any],
        release: ReleaseOptions,
    ) -> None:
        typed = "ledger" in payment
        data = table.declare(mechanism, source, fields, None if release.no_ledger else payment)
        _require_label(source)
        if "classes" in mechanism.__dataclass_fields__:
            fields = {**_declared_classes(payment, source), **fields}
        if "feature_flip" in fields:
            _split_flips(fields, source)
        private, told = partial(mechanism.source, data, **source), None if typed else left_of
        make_and_write(partial(mechanism, **fields), private, payment, release, left=told)

    offered = {
        field: replace(
            option,
            required=option.required or mechanism.__dataclass_fields__[field].default is MISSING,
        )
        for field, option in options_of(mechanism).items()
        if option.released
    }
    return make_command(
        run,
        name,
        mechanism.release_help or str(mechanism.__doc__).partition("\n")[0],
        source=mechanism.source,
        fields=selected_fields(mechanism, offered),
        payment=Payment,
    )


_ADVISED = "advised"


def advised_command() -> TyperCommand:
    """Return ``suffice release TABLE --private ...``."""
    from suffice.owner.advice import Question, answer
    from suffice.owner.mechanism import Payment
    from suffice.owner.source import TargetSource

    def run(
        question: dict[str, Any],
        table: _Table,
        source: dict[str, Any],
        release: ReleaseOptions,
        payment: dict[str, Any],
    ) -> None:
        """Publish what `suffice advise` picks for a table.

        The release is the one that public facts speak for, with its feature map and its noise. It
        protects what is private: what `suffice init` was told, or --private. With private labels
        the feature columns are public. Nothing is charged if noise would leave nothing to learn.
        The word `advised` may be left out.
        """
        project = _asked(table, source, question, None if release.no_ledger else payment)
        data = table.open(table.table, project)
        asked = Question(**{**_declared_classes(payment, source), **question})
        mechanism: Any
        if project is not None and asked.private == "records" and asked.public is None:
            # No public rows are there to compare releases by. At the same guarantee subset sums
            # of records were never more accurate than moments (lab/bench/rivals.py).
            from suffice.owner.moments import Moments

            declared: dict[str, Any] = {"classes": asked.classes}
            _declare(project.served.sheet, Moments, source, declared)
            mechanism = Moments(asked.epsilon, asked.delta, **declared)
            say("suffice: Released as moments, which protect whole records.", error=True)
        else:
            with progress("reading") as count_rows:
                opened = TargetSource(data, **source, progress=count_rows)
                opened.check()
                mechanism = answer(asked, opened).taken()
        private = partial(type(mechanism).source, data, **source)
        make_and_write(lambda: mechanism, private, payment, release, left=left_of)

    return make_command(run, _ADVISED, source=TargetSource, question=_asking(), payment=Payment)


def _asking() -> type:
    """Return a question whose private part `suffice init` may have been told."""
    from suffice.owner.advice import Question

    options = options_of(Question)
    private = replace(options["private"], required=False)
    return selected_fields(Question, {**options, "private": private})


def _asked(
    table: _Table,
    source: dict[str, Any],
    question: dict[str, Any],
    payment: dict[str, Any] | None = None,
) -> "Project | None":
    """Add what `suffice init` was told to a question; return the settings, if there are some."""
    project = project_of(table.table, source, payment)
    if project is not None:
        project.fill(source, payment)
        question.setdefault("private", project.private)
        question.setdefault("delta", project.served.policy.largest_delta)
        if project.served.sheet is not None:
            if "target" not in source:
                question.setdefault("classes", project.classes())
            project.check_filled(source["features"], {})
    _require_label(source)
    if "private" not in question:
        raise ParameterError(
            "Say what is private: --private labels or --private records, or tell `suffice init`"
            " once."
        )
    return project


@dataclass(frozen=True, kw_only=True)
class _PlanDisplay(JsonOutput, Overwriting):
    """How a plan is shown."""

    plot: Path | None = output_option(None, "Draw the plan to this SVG, PNG or PDF file.", **PLOT)

    def show(self, plan: Any) -> None:
        """Draw a plan, and print it."""
        if self.plot is not None:
            from suffice.pages.plots import draw_plan

            draw_plan(plan.curves(), self.plot, overwrite=self.force)
        _show_plan(plan, as_json=self.json)


def _show_plan(plan: Any, *, as_json: bool) -> None:
    """Print a plan or an advice as JSON, or as a table with its advice."""
    if as_json:
        show_json(plan.to_json())
        return
    show_table(plan.title, tuple(plan.columns), plan.cells())
    say(*plan.advice)


def _plan_command(name: str) -> TyperCommand:
    """Return ``suffice plan NAME``; some mechanisms plan without a table of their own."""
    from suffice.owner.mechanism import mechanism_of

    mechanism: Any = mechanism_of(name)
    summary = mechanism.plan_help or f"Predict what `release {name}` would give."
    summary += "\n\nA plan reads no private value, and is not charged to a budget."
    if mechanism.planner is not None:

        def run_planner(planner: dict[str, Any], display: _PlanDisplay) -> None:
            display.show(mechanism.planner(**planner).plan())

        return make_command(run_planner, name, summary, planner=mechanism.planner)

    def run(
        table: _DeclaredTable, source: dict[str, Any], fields: dict[str, Any], display: _PlanDisplay
    ) -> None:
        data = table.declare(mechanism, source, fields)
        _require_label(source)
        if "feature_flip" in fields:
            _split_flips(fields, source)
        epsilons = fields.pop("epsilon", [])
        request = mechanism(**fields, **({"epsilon": epsilons[0]} if epsilons else {}))
        with (
            progress("reading") as count_rows,
            mechanism.source(data, **source, progress=count_rows).running() as opened,
        ):
            plan = request.plan(opened, epsilons if len(epsilons) > 1 else ())
        display.show(plan)

    offered = {field: option for field, option in options_of(mechanism).items() if option.planned}
    if "epsilon" in offered:
        offered["epsilon"] = replace(
            offered["epsilon"],
            help="Epsilon, for example 1. Repeat it to compare several.",
            parse=numbers,
            many=True,
            required=True,
        )
    fields = selected_fields(mechanism, offered)
    return make_command(run, name, summary, source=mechanism.source, fields=fields)


class PlanGroup(HelpfulGroup):
    """``suffice plan``, with a command for every mechanism of the registry."""

    make = staticmethod(_plan_command)
    sections: ClassVar = {PAPERS: ("rados", "proportions", "parties")}
    leading: ClassVar[Sequence[str]] = ()  # what is listed before the mechanisms

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all mechanisms."""
        from suffice.owner.mechanism import mechanism_names

        del ctx
        return [*self.leading, *mechanism_names()]

    def get_command(self, ctx: Context, cmd_name: str) -> TyperCommand | None:
        """Return the command of one mechanism; nothing else is imported for it."""
        return self.make(cmd_name) if cmd_name in self.list_commands(ctx) else None


class ReleaseGroup(PlanGroup):
    """``suffice release``: a table alone is released as the rule of ``advise`` says."""

    make = staticmethod(_release_command)

    leading = (_ADVISED,)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Read a table, or an option, where a mechanism could stand, as the one verb."""
        first = args[0] if args else "--help"
        is_table = any(mark in first for mark in (".", "/", "\\")) or Path(first).exists()
        if is_table or (first.startswith("-") and not first.startswith("--help")):
            args = [_ADVISED, *args]
        return super().parse_args(ctx, args)


plan_app = typer.Typer(
    cls=PlanGroup, help="Predict how useful a release would be, before any charge."
)
release_app = typer.Typer(
    cls=ReleaseGroup, help="Publish statistics of private data, charged to a ledger."
)


def advise_command() -> TyperCommand:
    """Return ``suffice advise``."""
    from suffice.owner.advice import Question, answer
    from suffice.owner.source import TargetSource

    def advise(
        table: _Table, source: dict[str, Any], question: dict[str, Any], output: JsonOutput
    ) -> None:
        """Say which release to make, with its options and its commands.

        Advice reads the columns, the number of rows and public tables. With private labels the
        rows are public, and the labels are not read. Advice is not charged to a budget.
        """
        data = table.open(table.table, _asked(table, source, question))
        asked = Question(**question)
        with progress("reading") as count_rows:
            opened = TargetSource(data, **source, progress=count_rows)
            opened.check()
            advice = answer(asked, opened)
        _show_plan(advice, as_json=output.json)

    return make_command(advise, source=TargetSource, question=_asking())


def keygen(
    stem: Annotated[
        Path, typer.Argument(help="Name of the keys: clinic makes clinic.key and clinic.pub.")
    ],
) -> None:
    """Make a key pair that signs and verifies releases."""
    from suffice.releases.signing import generate_keys

    private, public = generate_keys(stem)
    say(f"{private}: keep it secret.", f"{public}: give it to those who verify.")
