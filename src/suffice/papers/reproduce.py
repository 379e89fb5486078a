"""Every table and figure of the papers that can be computed again, and their page."""

import json
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from suffice._version import __version__
from suffice.errors import ParameterError
from suffice.learner.problem import NoiseWarning
from suffice.pages.report import PageTable, figure_html, page, prose, table_html
from suffice.papers import barber, hamm, iyer, nock, patrini
from suffice.papers.reproduction import (
    Comparison,
    Progress,
    Reproduction,
    Result,
    Setting,
    require_files,
)
from suffice.plain_text import markup
from suffice.releases.file import write_whole

_PAPERS = (patrini, barber, nock, iyer, hamm)

REPRODUCTIONS: Mapping[str, Reproduction] = {
    entry.name: entry for paper in _PAPERS for entry in paper.ENTRIES
}


def reproduce(
    names: Sequence[str],
    *,
    folder: Path | None = None,
    sets: Sequence[str] | None = None,
    seeds: int | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Result]:
    """Return the result of each named reproduction, after checking all options.

    ``sets`` are the data sets to use, None for all; ``seeds`` None stands for the default of each.
    """
    for name in names:
        if name not in REPRODUCTIONS:
            known = ", ".join(REPRODUCTIONS)
            raise ParameterError(f"No reproduction is called {name!r}. Use one of {known}.")
    entries = [REPRODUCTIONS[name] for name in names]
    if seeds is not None and seeds < 1:
        raise ParameterError("--seeds must be 1 or more.")
    if seeds is not None and not any(entry.repeats for entry in entries):
        unrepeated = ", ".join(entry.name for entry in entries)
        raise ParameterError(f"--seeds cannot be used with {unrepeated}. Remove --seeds.")
    unknown = set(sets or ()) - {name for entry in entries for name in entry.files}
    if unknown:
        raise ParameterError(
            f"These reproductions do not use {', '.join(sorted(unknown))}. Remove these names from"
            " --sets."
        )
    settings = []
    for entry in entries:
        chosen = tuple(name for name in entry.files if sets is None or name in sets)
        if entry.files and folder is None:
            files = ", ".join(entry.files.values())
            raise ParameterError(
                f"{entry.name} needs data. Use --data with a folder that contains {files}."
            )
        if entry.files and not chosen:
            used = ", ".join(entry.files)
            raise ParameterError(f"{entry.name} uses no data set in --sets. Add one of {used}.")
        data_folder = folder or Path()
        if chosen:
            require_files(data_folder, [entry.files[name] for name in chosen])
        repeats = entry.seeds if seeds is None else seeds
        settings.append(Setting(data_folder, chosen, repeats, progress))
    results = {}
    # Most products here are small: on a busy machine two BLAS threads that wait for each other took
    # ten times as long as one.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Of noise that hides the labels: the tables show what it does to a model.
        warnings.simplefilter("ignore", NoiseWarning)
        for entry, setting in zip(entries, settings, strict=True):
            start = time.perf_counter()
            result = entry.run(setting)
            results[entry.name] = replace(result, seconds=time.perf_counter() - start)
    return results


def document(results: Mapping[str, Result]) -> dict[str, Any]:
    """Return the results as plain JSON values."""
    return {
        "suffice": __version__,
        "reproductions": {
            name: {
                "title": REPRODUCTIONS[name].title,
                "paper": REPRODUCTIONS[name].paper,
                "seconds": round(result.seconds, 1),
                "notes": list(result.notes),
                "compared": [statement.to_json() for statement in result.compared],
                "uncompared": "" if result.compared else REPRODUCTIONS[name].uncompared,
                "values": dict(result.values),
            }
            for name, result in results.items()
        },
    }


def values_path(output: Path) -> Path:
    """Return the path of a page's values: next to the page, with the ending .json."""
    beside = output.with_suffix(".json")
    if beside == output:
        raise ParameterError(
            f"The values go to {output}, so the page cannot. Choose a name that ends in .html."
        )
    return beside


def write_report(results: Mapping[str, Result], output: Path, *, overwrite: bool = True) -> Path:
    """Write an HTML page to ``output`` and the values next to it; return the path of the values."""
    beside = values_path(output)
    body = ""
    for name, result in results.items():
        entry = REPRODUCTIONS[name]
        figures = "".join(figure_html(figure.drawing, figure.caption) for figure in result.figures)
        body += (
            f"<h2>{markup(entry.title)}</h2>{prose([f'After {entry.paper}.'])}{figures}"
            f"{''.join(map(table_html, result.all_tables))}"
            f"<h3>Notes</h3>{prose(result.notes)}"
        )
    if set(results) == set(REPRODUCTIONS):
        body = f"{table_html(overview(results))}{table_html(left_out())}{body}"
    text = page("suffice: results of the papers, reproduced", body)
    write_whole(output, text.encode(), overwrite=overwrite)
    values = json.dumps(document(results), indent=2, allow_nan=False)
    write_whole(beside, (values + "\n").encode(), overwrite=overwrite)
    return beside


def overview(results: Mapping[str, Result]) -> PageTable:
    """Return every statement of the papers next to our number, or why there is none."""
    rows = []
    for name, result in results.items():
        entry = REPRODUCTIONS[name]
        # The first author, the year, and which table or figure it is.
        match = re.match(r"(.*?) (\d{4}), ([^(]*)", entry.paper)
        where = entry.paper
        if match is not None:
            authors, year, part = match.groups()
            where = f"{re.split(r'[ ,]', authors)[0]} {year}, {part.strip()}"
        if not result.compared:
            no_comparison = ("nothing to compare", "see its tables", "none", entry.uncompared)
            rows.append((where, entry.title, *no_comparison))
        rows += [(where, statement.what, *statement.cells) for statement in result.compared]
    columns = ("paper", "what", *Comparison.COLUMNS)
    return PageTable(
        "All statements of the papers that we compare with our numbers.", columns, tuple(rows)
    )


def left_out() -> PageTable:
    """Return the results of the papers that we do not reproduce, each with a reason."""
    rows = []
    for paper in _PAPERS:
        authors, _, year = paper.PAPER.rpartition(" ")
        first, *others = re.split(r"[ ,]", authors)
        short = f"{first} et al. {year}" if others else paper.PAPER
        rows += [(short, what, why) for what, why in paper.LEFT_OUT.items()]
    return PageTable("What we do not reproduce, and why.", ("paper", "what", "why"), tuple(rows))
