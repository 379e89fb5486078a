"""The owner's commands for rados: plan them, release them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options, parsing
from suffice.cli.checks import check_outputs
from suffice.cli.groups import Leaving, grouped
from suffice.cli.output import progress, say, show_json, show_table
from suffice.cli.warned import owner_warnings

__all__ = ["register"]

Count = Annotated[
    int | None, typer.Option(help="How many rados; default: the lesser of 1000 and half the rows.")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        help="COLUMN=LO,HI: the declared range of numbers (repeatable); LO,HI: of all others.",
    ),
]
Standardize = Annotated[
    str | None,
    typer.Option(
        help="Scale numbers by a public table (a file), by the private rows (rows: no guarantee, or"
        " a data-dependent one), or not at all (none). Default: rows for plain rados, else ranges."
    ),
]
Bound = Annotated[
    float | None, typer.Option(help="Declared norm bound, at which longer rows are clipped.")
]

_NO_TABLE = ("rows", "none")  # in the place of a file to standardise by


def register(plan: typer.Typer, release: typer.Typer) -> None:
    """Add ``plan rados`` and ``release rados``."""
    plan.command("rados")(plan_rados)
    release.command("rados")(release_rados)


@grouped
def release_rados(
    table: options.TablePath,
    label: options.Label,
    output: options.Output,
    count: Count = None,
    signs: Annotated[
        str, typer.Option(help="hadamard (structured, fast) or iid; auto: hadamard where it can.")
    ] = "auto",
    support: Annotated[
        int | None, typer.Option(help="Sum exactly so many records in each rado.")
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            help="DP-Feat: limit what this two-valued column shows when read alone (repeatable)."
            " Readers who combine columns may recover it, so it needs --unprotected."
        ),
    ] = None,
    truncate: Annotated[
        float | None, typer.Option(help="DP-Feat as in the paper: truncate at this epsilon a rado.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="What the release may cost each unit.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Needed by Gaussian noise and by --protect.")] = 0.0,
    unit: Annotated[
        str | None, typer.Option(help="What epsilon protects: label, record or attribute.")
    ] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="The columns of unit attribute (repeatable).")
    ] = None,
    noise: Annotated[
        str, typer.Option(help="joint: on the rados; edges: on every record before summing.")
    ] = "joint",
    standardize: Standardize = None,
    limits: Ranges = None,
    bound: Bound = None,
    clip: Annotated[
        float | None, typer.Option(help="Clip at this quantile of the public table's norms.")
    ] = None,
    intercept: Annotated[
        float | None, typer.Option(help="Weight of the intercept, 0 for none.")
    ] = None,
    missing: options.Missing = "error",
    features: options.Features = None,
    classes: options.DeclaredClasses = None,
    categories: options.Categories = None,
    like: options.Like = None,
    unprotected: options.Unprotected = False,
    *,
    leaving: Leaving,
) -> None:
    """Release rados: sums of private records over random subsets."""
    from suffice.owner.rados.mechanism import Rados
    from suffice.release.codec import load

    scales = None if standardize in _NO_TABLE else standardize
    check_outputs(output, reads=(table, like, scales, *leaving.files))
    chosen, lists = parsing.names(features), parsing.lists_by_column(categories, "--categories")
    mechanism = Rados(
        count=count,
        signs=signs,
        support=support,
        protect=protect,
        truncate=truncate,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        attributes=attribute,
        noise=noise,
        classes=leaving.classes(classes, label),
        standardize=standardize,
        ranges=_ranges(limits, table, chosen, but=[label, *(lists or ())]),
        bound=bound,
        clip=clip,
        intercept=intercept,
        missing=missing,  # type: ignore[arg-type]  # checked where it is used
        categories=lists,
        pipeline=load(like).pipeline if like else None,
    )
    with owner_warnings(), progress("reading") as tell:
        release = mechanism.release(
            table,
            **leaving.paid(),
            label=label,
            features=chosen,
            unprotected=unprotected,
            progress=tell,
        )
    leaving.write(release, output)


def plan_rados(
    table: options.TablePath,
    label: options.Label,
    epsilon: Annotated[float, typer.Option(help="What a release may cost.")],
    delta: Annotated[float, typer.Option(help="Of the Gaussian noise.")] = 1e-6,
    count: Count = None,
    standardize: Standardize = None,
    limits: Ranges = None,
    bound: Bound = None,
    features: options.Features = None,
    categories: options.Categories = None,
    json: options.Json = False,
) -> None:
    """Say whether noise would drown rados, and what to release instead; reads no row."""
    from suffice.owner.rados.plan import plan_rados as make_plan

    chosen, lists = parsing.names(features), parsing.lists_by_column(categories, "--categories")
    plan = make_plan(
        table,
        epsilon,
        delta,
        label=label,
        features=chosen,
        count=count,
        standardize=standardize,
        ranges=_ranges(limits, table, chosen, but=[label, *(lists or ())]),
        bound=bound,
        categories=lists,
    )
    if json:
        show_json(plan.to_json())
        return
    title = f"Noise on a coordinate of a rado, and what random signs make of it: {plan.rows} rows"
    show_table(title, plan.COLUMNS, plan.cells())
    for line in plan.advice:
        say(line)


def _ranges(
    limits: list[str] | None, table: Path, features: list[str] | None, *, but: list[str]
) -> Any:
    """Return the declared ranges; one for all others goes to all numbers ``but`` these columns."""
    of_all, named = parsing.one_or_named(limits, parsing.pair, "--range")
    if of_all is None:
        return named or None
    if not named:
        return of_all
    from suffice.tables.sources import column_names

    names = column_names(table)
    others = [name for name in features or names if name in names and name not in but]
    return {**dict.fromkeys(others, of_all), **named}
