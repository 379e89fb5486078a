"""Commands that show what suffice can do, on public data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice import options as parsing
from suffice.cli import building
from suffice.cli.building import check_outputs, make_folder
from suffice.cli.help import HelpfulCommand
from suffice.cli.output import say, show_json, show_table, steps
from suffice.errors import ParameterError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=HelpfulCommand)(demo)
    app.command(cls=HelpfulCommand)(reproduce)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML report to write.")
    ] = Path("suffice-demo.html"),
    files: Annotated[
        Path | None,
        typer.Option(help="Folder for the tables, to repeat everything by hand, such as clinic."),
    ] = None,
    force: building.Force = False,
) -> None:
    """Play five releases from start to end, on invented patients."""
    from suffice.demo.story import run_demo, table_files

    if files is not None:
        make_folder(files)  # first: the report may go there, too
    check_outputs(output, *(() if files is None else table_files(files)), force=force)
    with steps("playing the demo") as show_step:
        story = run_demo(output, files=files, progress=show_step, overwrite=force)
    for paragraph in story.paragraphs:
        say(paragraph, "")
    for number, chapter in enumerate(story.chapters, start=1):
        say(f"{number}. {chapter.title}. {' '.join(chapter.text)}", "")
    for table in story.tables:
        show_table(table.title, table.columns, table.rows)
    say("", f"The report with plots: {output}")
    if files is not None:
        say(f"Its tables, as CSV: {files}")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of tables or figures; see --list.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that holds the public data sets, as Parquet files.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List all names, and the data that each needs.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Reproduce all of them; takes about half an hour.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option(help="Names of data sets, with commas. Default: all.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of repetitions. Default: few, for a few minutes.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The HTML page to write; values go to a .json file of the same name.",
        ),
    ] = Path("reproduction.html"),
    force: building.Force = False,
    json: building.Json = False,
) -> None:
    """Recompute tables and figures of the papers, on public data."""
    from suffice.papers import reproduce as study

    if show_list:
        _list(json=json)
        return
    used = [] if data is None else list(data.glob("*.parquet"))
    check_outputs(output, study.values_path(output), reads=used, force=force)
    if everything:
        names = list(study.REPRODUCTIONS)
    if not names:
        raise ParameterError(
            "Choose what to reproduce: names, or --all. suffice reproduce --list shows them."
        )
    wanted = parsing.names(sets)
    with steps("reproducing") as show_step:
        results = study.reproduce(names, folder=data, sets=wanted, seeds=seeds, progress=show_step)
    values = study.write_report(results, output, overwrite=force)
    if json:
        show_json(study.document(results))
        return
    _show_results(results)
    say("", f"The page with figures: {output}; its values: {values}")


def _show_results(results: Mapping[str, Any]) -> None:
    for name, result in results.items():
        say(f"{name}, {result.seconds:.0f} s")
        for table in result.all_tables:
            show_table(table.title, table.columns, table.rows)
        for note in result.notes:
            say(note)


def _list(*, json: bool) -> None:
    from suffice.papers.reproduce import REPRODUCTIONS

    entries = REPRODUCTIONS.values()
    if json:
        keys = ("name", "title", "paper", "seeds")
        show_json(
            [{key: getattr(e, key) for key in keys} | {"files": dict(e.files)} for e in entries]
        )
        return
    columns = ("name", "what it shows", "paper", "needs in --data")
    rows = [(e.name, e.title, e.paper, ", ".join(e.files.values()) or "nothing") for e in entries]
    show_table("Tables and figures of the papers", columns, rows)
