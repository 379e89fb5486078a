"""The owner's release commands: one per kind of release."""

from typing import Annotated, Any

import typer

from suffice.cli import options, parsing
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.groups import Leaving, MappedRows, grouped
from suffice.cli.output import progress
from suffice.errors import ParameterError

__all__ = ["release_app"]

release_app = typer.Typer(help="Publish a sanitised statistic, paid for from a ledger.")


@release_app.command("mean-operator")
@grouped
def release_mean_operator(
    table: options.TablePath,
    label: options.Label,
    epsilon: Annotated[float, typer.Option(help="What the release may cost each label.")],
    output: options.Output,
    delta: options.Delta = 0.0,
    mechanism: options.Mechanism = "auto",
    classes: options.DeclaredClasses = None,
    like: options.Like = None,
    found_at: options.FoundAt = None,
    unprotected: options.Unprotected = False,
    *,
    rows: MappedRows,
    leaving: Leaving,
) -> None:
    """Release the noisy mean operator of private labels and public rows."""
    from suffice.owner.mean_operator import MeanOperator
    from suffice.release.codec import load

    check_outputs(output, reads=(table, like, *leaving.files))
    operator = MeanOperator(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        classes=leaving.classes(classes, label),
        pipeline=load(like).pipeline if like else None,
        **rows.pipeline,
    )
    with progress("reading") as tell:
        release = operator.release(
            table,
            **leaving.paid(),
            label=label,
            features=rows.names,
            found_at=found_at,
            unprotected=unprotected,
            progress=tell,
        )
    leaving.write(release, output)


@release_app.command("responses")
@grouped
def release_responses(
    table: options.TablePath,
    label: options.Label,
    output: options.Output,
    label_flip: Annotated[
        float | None, typer.Option(help="The chance that a label becomes another one.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="In its place: what the release may cost each label.")
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=A,B,C or COLUMN=0..255: what it can hold (repeatable)."),
    ] = None,
    all_states: Annotated[
        str | None, typer.Option(help="The same, A,B,C or 0..255, for all other columns.")
    ] = None,
    feature_flip: Annotated[
        float | None, typer.Option(help="The chance that a state becomes another one.")
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="COLUMN=LO,HI: the range of numbers (repeatable); LO,HI: of all others."
        ),
    ] = None,
    feature_noise: Annotated[
        float | None, typer.Option(help="The variance of the noise on numbers.")
    ] = None,
    kernel: Annotated[
        str, typer.Option(help="That noise: gaussian (its epsilon is read at delta) or laplace.")
    ] = "gaussian",
    delta: Annotated[float, typer.Option(help="Where the epsilon of Gaussian noise is read.")] = (
        1e-6
    ),
    features: options.Features = None,
    classes: options.DeclaredClasses = None,
    *,
    leaving: Leaving,
) -> None:
    """Release whole records, every label and every feature randomised."""
    from suffice.owner.responses.mechanism import RandomizedResponse
    from suffice.tables.columns import feature_names
    from suffice.tables.sources import open_table

    check_outputs(output, reads=(table, *leaving.files))
    chosen = parsing.names(features)
    columns = chosen or feature_names(open_table(table, text=[label]).schema, [label])
    discrete, continuous = _domains(columns, states, all_states, limits)
    if not {*columns} - {*discrete, *continuous}:  # or else that is what is wrong
        if not continuous:
            refuse_unused("without numbers (--range)", {"--feature-noise": feature_noise})
        if not discrete:
            refuse_unused("without states (--states)", {"--feature-flip": feature_flip})
    mechanism = RandomizedResponse(
        classes=leaving.classes(classes, label),
        label_flip=label_flip,
        label_epsilon=epsilon,
        states=discrete,
        ranges=continuous,
        feature_flip=feature_flip,
        feature_noise=feature_noise,
        kernel=kernel,
        delta=delta,
    )
    with progress("reading") as tell:
        release = mechanism.release(
            table,
            **leaving.paid(),
            label=label,
            features=chosen,
            progress=tell,
        )
    leaving.write(release, output)


def _domains(
    columns: list[str], states: list[str] | None, all_states: str | None, limits: list[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return states and ranges by column; what is declared for all others goes to the rest."""
    discrete: dict[str, Any] = parsing.by_column(states, parsing.states, "--states")
    of_all, continuous = parsing.one_or_named(limits, parsing.pair, "--range")
    if of_all is not None and all_states is not None:
        raise ParameterError("say once what all other columns hold: --all-states, or --range.")
    rest = [name for name in columns if name not in discrete and name not in continuous]
    if all_states is not None:
        discrete |= dict.fromkeys(rest, parsing.states(all_states))
    if of_all is not None:
        continuous |= dict.fromkeys(rest, of_all)
    return discrete, continuous
