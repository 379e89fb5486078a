"""Commands that show what suffice can do, on data that are public."""

from pathlib import Path
from typing import Annotated

import typer

from suffice import options as parsing
from suffice.cli import options
from suffice.cli.checks import check_outputs, make_folder
from suffice.cli.output import say, show_json, show_table, steps
from suffice.errors import ParameterError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(demo)
    app.command()(reproduce)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML report to write.")
    ] = Path("suffice-demo.html"),
    files: Annotated[
        Path | None, typer.Option(help="A folder for its tables, to do everything by hand.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Play all five releases end to end, on invented patients; writes a report with plots."""
    from suffice.study.demo.network import table_files
    from suffice.study.demo.story import run_demo

    if files is not None:
        make_folder(files)  # first: the report may go there, too
    check_outputs(output, *(() if files is None else table_files(files)), force=force)
    with steps() as tell:
        story = run_demo(output, files=files, progress=tell, overwrite=force)
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
        list[str] | None, typer.Argument(help="Which tables or figures; --list shows them.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder with the public data sets, as Parquet files.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List every name, and what it needs.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every one, with an overview; about half an hour.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option(help="Only these data sets, with commas; default: all.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Repetitions; default: few enough for a few minutes.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML page; its values go beside it, .json.")
    ] = Path("reproduction.html"),
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Compute tables and figures of the papers anew, on public data; writes a page and JSON."""
    from suffice.study import reproduce as study

    if show_list:
        _list(json=json)
        return
    used = [] if data is None else list(data.glob("*.parquet"))
    check_outputs(output, study.values_path(output), reads=used, force=force)
    if everything:
        names = list(study.REPRODUCTIONS)
    if not names:
        raise ParameterError("name a table or figure, or say --all; suffice reproduce --list.")
    wanted = parsing.names(sets)
    with steps() as tell:
        results = study.reproduce(names, folder=data, sets=wanted, seeds=seeds, progress=tell)
    beside = study.write_report(results, output, overwrite=force)
    if json:
        show_json(study.document(results))
        return
    for name, result in results.items():
        say(f"{name}, {result.seconds:.0f} s")
        for table in result.all_tables:
            show_table(table.title, table.columns, table.rows)
        for note in result.notes:
            say(note)
    say("", f"The page with figures: {output}; its values: {beside}")


def _list(*, json: bool) -> None:
    from suffice.study.reproduce import REPRODUCTIONS

    entries = REPRODUCTIONS.values()
    if json:
        kept = ("name", "title", "paper", "seeds")
        shown = [{key: getattr(e, key) for key in kept} | {"files": dict(e.files)} for e in entries]
        show_json(shown)
        return
    columns = ("name", "what it shows", "paper", "needs in --data")
    rows = [(e.name, e.title, e.paper, ", ".join(e.files.values()) or "nothing") for e in entries]
    show_table("Tables and figures of the papers", columns, rows)
