"""The commands ``release NAME`` and ``plan NAME``: one for every mechanism that is registered."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from suffice.cli.building import Asked, Parts, make_command, selected_fields
from suffice.cli.options import TABLE_HELP, Overwriting
from suffice.cli.output import owner_warnings, progress, say, show_json, show_table
from suffice.cli.reading import Reading
from suffice.cli.releasing import Written, paid_by, with_ledger_classes, write_release
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


class _MechanismGroup(TyperGroup):
    """A group whose commands are made when they are asked for, from the registry."""

    make: ClassVar[Callable[[str], TyperCommand]]

    def list_commands(self, ctx: typer.Context) -> list[str]:
        """Return the names of all mechanisms."""
        from suffice.owner.mechanism import mechanism_names

        del ctx
        return mechanism_names()

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | None:
        """Return the command of one mechanism; nothing else is imported for it."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return type(self).make(cmd_name)


def _release_command(name: str) -> TyperCommand:
    from suffice.owner.mechanism import mechanism_of
    from suffice.owner.publish import Payment

    mechanism = mechanism_of(name)
    parts: Parts = {
        "table": _Table,
        "reading": Reading,
        "source": mechanism.source,
        "mechanism": selected_fields(mechanism, partial(_released, mechanism)),
        "positive": _Positive if "classes" in options_of(mechanism) else _Nothing,
        "payment": Payment,
        "written": Written,
    }

    def run(asked: Asked) -> None:
        table = asked.make("reading", Reading).table(asked.values["table"]["table"])
        written = Written(**asked.values["written"])
        source = asked.fields("source", mechanism.source)
        fields = asked.values["mechanism"]
        payment = paid_by(asked.values["payment"], written)
        fields = with_ledger_classes(fields, payment, source.get("label"), mechanism)
        fields = _with_positive(fields, asked.values, mechanism)
        reports: list[Any] = []
        with owner_warnings(), progress("reading") as tell:
            release = mechanism(**fields).release(
                table, **source, **payment, report=reports.append, progress=tell
            )
        write_release(release, written, reports[0] if reports else None)

    return make_command(name, parts, run, help=_summary(mechanism))


def _plan_command(name: str) -> TyperCommand:
    from suffice.owner.mechanism import mechanism_of

    mechanism = mechanism_of(name)
    if mechanism.planner is not None:
        planner = mechanism.planner
        parts: Parts = {"planner": planner, "shown": _Shown}

        def run(asked: Asked) -> None:
            shown = _Shown(**asked.values["shown"])
            shown.show(lambda: planner(**asked.values["planner"]).plan())

        return make_command(name, parts, run, help=_plan_summary(name))
    parts = {
        "table": _Table,
        "reading": Reading,
        "source": mechanism.source,
        "mechanism": selected_fields(mechanism, _planned),
        "positive": _Positive if "classes" in options_of(mechanism) else _Nothing,
        "shown": _Shown,
    }

    def run_on_table(asked: Asked) -> None:
        table = asked.make("reading", Reading).table(asked.values["table"]["table"])
        fields = _with_positive(dict(asked.values["mechanism"]), asked.values, mechanism)
        epsilons = fields.pop("epsilon")
        request = mechanism(epsilon=epsilons[0], **fields)
        source = mechanism.source(table, **asked.fields("source", mechanism.source))
        several = epsilons if len(epsilons) > 1 else ()
        with source.running() as opened:
            _Shown(**asked.values["shown"]).show(lambda: request.plan(opened, several))

    return make_command(name, parts, run_on_table, help=_plan_summary(name))


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
        None, "Which of two classes is the positive one. Default: the last.", kw_only=True
    )


@dataclass(frozen=True)
class _Nothing:
    """No option at all."""


def _with_positive(
    fields: dict[str, Any], given: Mapping[str, Any], mechanism: Any
) -> dict[str, Any]:
    """Return the fields of a mechanism, the positive one of two classes last."""
    from suffice.tables.labels import canonical_class

    wanted = given.get("positive", {}).get("positive")
    if wanted is None:
        return fields
    classes = fields.get("classes", mechanism.__dataclass_fields__["classes"].default)
    (positive,) = values(f'"{wanted}"') if "," in wanted else values(wanted)
    others = [name for name in classes if canonical_class(name) != canonical_class(positive)]
    if len(classes) != 2 or len(others) != 1:
        raise ParameterError("--positive must be one of two classes (--classes).")
    last = next(name for name in classes if name not in others)
    return {**fields, "classes": (others[0], last)}


@dataclass(frozen=True)
class _Shown(Overwriting):
    """How a plan is shown."""

    plot: Path | None = output_option(
        None, "Draw the plan to this SVG, PNG or PDF file.", parse=Path, path=Path, writes=True
    )
    json: bool = output_option(False, "Print JSON for programs.")

    def show(self, make: Callable[[], Any]) -> None:
        """Make a plan; draw it, and print it."""
        if self.plot is not None:
            from suffice.pages.plots import check_plot

            check_plot(self.plot)
        plan = make()
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
        help="Epsilon, for example 1; repeat it, or see a range around one.",
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


def _summary(mechanism: Any) -> str:
    """Return what a mechanism promises, the first line of its docstring."""
    return str(mechanism.__doc__).partition("\n")[0]


def _plan_summary(name: str) -> str:
    return f"Forecast a release of {name} from what is public: no private cell is read."
