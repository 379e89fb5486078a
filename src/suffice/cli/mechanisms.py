"""The commands ``release NAME`` and ``plan NAME``: one for every mechanism that is registered."""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from typer.core import TyperCommand

from suffice.cli.building import Inputs, Parts, make_command, selected_fields
from suffice.cli.descriptions import plan_help, release_help
from suffice.cli.help import Context, HelpfulGroup
from suffice.cli.options import JsonOutput, Overwriting
from suffice.cli.output import owner_warnings, progress, say, show_json, show_table
from suffice.cli.reading import TABLE_HELP, Reading
from suffice.cli.releasing import (
    ReleaseOptions,
    ledger_arguments,
    with_ledger_classes,
    write_release,
)
from suffice.errors import ParameterError
from suffice.options import (
    REQUIRED,
    Option,
    data_option,
    numbers,
    options_of,
    output_option,
    values,
)

__all__ = ["PlanGroup", "ReleaseGroup"]


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
    from suffice.owner.mechanism import make_release, mechanism_of
    from suffice.owner.publish import Payment

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

    return make_command(name, parts, run, help=release_help(mechanism))


def _plan_command(name: str) -> TyperCommand:
    from suffice.owner.mechanism import mechanism_of

    mechanism: Any = mechanism_of(name)
    if mechanism.planner is not None:
        return _planner_command(name, mechanism.planner)
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

    return make_command(name, parts, run, help=plan_help(name))


def _planner_command(name: str, planner: Any) -> TyperCommand:
    """Return ``plan NAME`` of a mechanism that plans without a table of its own."""

    def run(inputs: Inputs) -> None:
        display = inputs.make("display", _PlanDisplay)
        display.check()
        display.show(planner(**inputs.values["planner"]).plan())

    parts: Parts = {"planner": planner, "display": _PlanDisplay}
    return make_command(name, parts, run, help=plan_help(name))


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
        if self.json:
            show_json(plan.to_json())
            return
        show_table(plan.title, plan.columns, plan.cells())
        for line in plan.advice:
            say(line)


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
