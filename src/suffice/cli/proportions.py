"""The owner's commands for label proportions: plan them, form sets, release them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options, parsing
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.groups import Leaving, grouped
from suffice.cli.output import progress, show_json, show_table
from suffice.errors import ParameterError

__all__ = ["register"]

Bag = Annotated[
    list[str] | None,
    typer.Option(help="The public column that says which set a row is in; repeat it for several."),
]
Kappa = Annotated[
    int | None, typer.Option(help="Of scaled-dirichlet-bounded: added to every count; public.")
]


def register(plan: typer.Typer, release: typer.Typer) -> None:
    """Add ``plan proportions``, ``release proportions`` and ``release bags``."""
    plan.command("proportions")(plan_proportions)
    release.command("proportions")(release_proportions)
    release.command("bags")(release_bags)


@grouped
def release_proportions(
    table: options.TablePath,
    label: options.Label,
    epsilon: Annotated[float, typer.Option(help="What the release may cost each label.")],
    output: options.Output,
    bag: Bag = None,
    sets: Annotated[
        Path | None, typer.Option(help="In its place: the sets that `release bags` wrote.")
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="The sets, with commas, in this order; default: all sorted.")
    ] = None,
    delta: options.Delta = 0.0,
    mechanism: Annotated[
        str,
        typer.Option(
            help="laplace, gaussian, laplace-prior, scaled-dirichlet-bounded, or scaled-dirichlet"
            " (only with --unprotected); auto: the least distortion."
        ),
    ] = "auto",
    kappa: Kappa = None,
    sigma_rule: Annotated[
        str | None,
        typer.Option(
            help="Of scaled-dirichlet: exact (the default), tail (eq. 9) or chebyshev (eq. 10)."
        ),
    ] = None,
    unprotected: options.Unprotected = False,
    features: options.Features = None,
    classes: options.DeclaredClasses = None,
    categories: options.Categories = None,
    feature_map: options.FeatureMap = None,
    missing: options.Missing = "error",
    like: options.Like = None,
    found_at: options.FoundAt = None,
    *,
    leaving: Leaving,
) -> None:
    """Release the noisy label proportions of public sets of rows."""
    from suffice.owner.proportions.mechanism import LabelProportions
    from suffice.release.codec import load

    check_outputs(output, reads=(table, sets, like, *leaving.files))
    _refuse_settings(mechanism, delta, kappa, sigma_rule)
    if (not bag) == (sets is None):
        raise ParameterError("say once which set each row is in: --bag COLUMN, or --sets FILE.")
    if sets is not None:
        refuse_unused("with --sets", {"--names": names})
    mechanism_of_counts = LabelProportions(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        classes=leaving.classes(classes, label),
        names=None if names is None else parsing.values(names),
        kappa=kappa,
        sigma_rule=sigma_rule or "exact",
        missing=missing,  # type: ignore[arg-type]  # checked where it is used
        categories=parsing.lists_by_column(categories, "--categories"),
        map=feature_map,
        pipeline=load(like).pipeline if like else None,
    )
    with progress("reading") as tell:
        release = mechanism_of_counts.release(
            table,
            bags=_columns(bag) if sets is None else load(sets),
            **leaving.paid(),
            label=label,
            features=parsing.names(features),
            found_at=found_at,
            unprotected=unprotected,
            progress=tell,
        )
    leaving.write(release, output)


def _refuse_settings(
    mechanism: str, delta: float, kappa: int | None, sigma_rule: str | None
) -> None:
    """Raise if a mechanism is told what it has no use for; auto knows kappa, if it has a delta."""
    if mechanism == "auto" and not delta:
        refuse_unused("without --delta", {"--kappa": kappa})
    elif mechanism not in {"auto", "scaled-dirichlet-bounded"}:
        refuse_unused(f"to mechanism {mechanism}", {"--kappa": kappa})
    if mechanism != "scaled-dirichlet":
        refuse_unused(f"to mechanism {mechanism}", {"--sigma-rule": sigma_rule})


@grouped
def release_bags(
    table: options.TablePath,
    label: options.Label,
    output: options.Output,
    skew: Annotated[
        float | None, typer.Option(help="The chance that a row goes to the set of its own class.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="In its place: what the sets may cost each label.")
    ] = None,
    write_rows: Annotated[
        Path | None,
        typer.Option(help="Also write the public rows with their sets (column bag) to this file."),
    ] = None,
    features: options.Features = None,
    classes: options.DeclaredClasses = None,
    *,
    leaving: Leaving,
) -> None:
    """Form one skewed set per class by randomised response on the labels, at its own cost."""
    from suffice.owner.proportions.adviser import assign_bags
    from suffice.tables.columns import feature_names
    from suffice.tables.sources import open_table
    from suffice.tables.writing import check_ending

    # What would be refused is refused before anything is paid.
    check_outputs(output, write_rows, reads=(table, *leaving.files))
    chosen = parsing.names(features)
    if write_rows is not None:
        check_ending(write_rows)
        if "bag" in (chosen or feature_names(open_table(table, text=[label]).schema, [label])):
            raise ParameterError("the table has a feature named bag already; rename it first.")
    with progress("reading") as tell:
        release = assign_bags(
            table,
            skew=skew,
            epsilon=epsilon,
            classes=leaving.classes(classes, label),
            **leaving.paid(),
            label=label,
            features=chosen,
            progress=tell,
        )
    leaving.write(release, output)
    if write_rows is not None:
        _write_rows(table, release, write_rows)


def _write_rows(table: Path, release: Any, path: Path) -> None:
    """Write the public columns and the column bag: what a learner needs."""
    import numpy as np
    import pyarrow as pa

    from suffice.tables.sources import open_table
    from suffice.tables.writing import write_table

    features = [column.name for column in release.pipeline.columns]
    public = pa.Table.from_batches(list(open_table(table).batches(features)))
    sets = np.array(release.classes)[release.arrays["answers"]]
    write_table(public.append_column("bag", pa.array(sets)), path)


def plan_proportions(
    epsilon: Annotated[
        list[float],
        typer.Option(help="What a release may cost; repeat it, or see a range around one."),
    ],
    table: Annotated[
        Path | None, typer.Argument(help="Rows with their sets; the label is never read.")
    ] = None,
    bag: Bag = None,
    sizes: Annotated[
        str | None, typer.Option(help="In place of a table: the sizes of the sets, with commas.")
    ] = None,
    classes: Annotated[
        str, typer.Option(help="The labels that can occur, with commas, or how many there are.")
    ] = "0,1",
    delta: options.Delta = 0.0,
    kappa: Kappa = None,
    skew: Annotated[
        bool,
        typer.Option(
            "--skew",
            help="Show instead how the skew of sets formed by the labels trades against their cost,"
            " at this epsilon in all.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Predict the L1 distortion of proportions by each mechanism from public numbers alone."""
    many, overlap = _sizes(table, bag, sizes, joined=skew)
    number = _class_count(classes)
    if skew:
        refuse_unused("with --skew", {"--kappa": kappa})
        _show_skew(sum(many), number, epsilon, delta, json=json)
        return
    _refuse_settings("auto", delta, kappa, None)
    from suffice.owner.proportions.plan import plan_proportions as make_plan

    asked = epsilon[0] if len(epsilon) == 1 else epsilon
    plan = make_plan(many, number, asked, delta, overlap=overlap, kappa=kappa)
    if json:
        show_json(plan.to_json())
        return
    show_table(
        "Predicted mean L1 distance of released proportions, over all sets and in the worst;"
        " Dirichlet mechanisms for even classes; * is what auto takes",
        plan.COLUMNS,
        plan.cells(),
    )


def _show_skew(rows: int, classes: int, epsilon: list[float], delta: float, *, json: bool) -> None:
    from suffice.owner.proportions.adviser import plan_skew

    if len(epsilon) != 1:
        raise ParameterError("--skew shares one epsilon; give --epsilon once.")
    plan = plan_skew(rows, classes, epsilon[0], delta)
    if json:
        show_json(plan.to_json())
        return
    show_table(
        f"{rows:,} rows in {classes} sets, formed by the labels, at epsilon {epsilon[0]:g} in all:"
        " more skew is easier to learn from and leaves noisier proportions; * has the least error",
        plan.COLUMNS,
        plan.cells(),
    )


def _sizes(
    table: Path | None, bag: list[str] | None, sizes: str | None, *, joined: bool
) -> tuple[list[int], int]:
    """Return the sizes of the sets and how much they overlap; ``joined``: of all rows."""
    if (table is None) == (sizes is None):
        raise ParameterError("give the sets once: a table (with --bag), or --sizes.")
    if sizes is not None or joined:
        refuse_unused("with --skew" if joined else "with --sizes", {"--bag": bag or None})
    if sizes is not None:
        many = parsing.values(sizes)
        if not all(isinstance(n, int) for n in many):
            raise ParameterError("--sizes takes numbers of rows, with commas.")
        return list(many), 1
    from suffice.tables.bags import read_bags
    from suffice.tables.sources import open_table

    opened = open_table(table)
    if joined:
        columns = opened.schema.names[:1]
        return [sum(batch.num_rows for batch in opened.batches(columns))], 1
    if not bag:
        raise ParameterError("say which column holds the sets: --bag COLUMN.")
    found = read_bags(opened, _columns(bag))
    return found.sizes.tolist(), found.overlap


def _columns(bag: list[str] | None) -> Any:
    names = tuple(bag or ())
    return names[0] if len(names) == 1 else names


def _class_count(text: str) -> int:
    declared = parsing.values(text)
    if not declared:
        raise ParameterError("--classes takes labels with commas, or how many there are.")
    alone = declared[0]
    return alone if len(declared) == 1 and isinstance(alone, int) else len(declared)
