"""Every table and figure of the papers that can be computed anew, by name, and their report."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from suffice._version import __version__
from suffice.errors import ParameterError
from suffice.pages.report import PageTable, figure_html, page, prose, table_html
from suffice.plain_text import markup
from suffice.release.files import write_whole
from suffice.study import barber, hamm, iyer, nock, patrini
from suffice.study.data_sets import require_files
from suffice.study.reproduction import Comparison, Progress, Reproduction, Result, Setting

__all__ = [
    "REPRODUCTIONS", "document", "left_out", "overview", "reproduce", "values_path", "write_report",
]  # fmt: skip

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
    """Return the result of each named reproduction; everything asked is checked before any runs.

    ``sets`` keeps some of the data sets; ``seeds`` is the number of repetitions.
    """
    entries = [_entry(name) for name in names]
    if seeds is not None and seeds < 1:
        raise ParameterError("seeds must be at least 1.")
    if seeds is not None and not any(entry.repeats for entry in entries):
        asked = ", ".join(entry.name for entry in entries)
        raise ParameterError(f"seeds (--seeds) mean nothing to {asked}: leave them out.")
    unknown = set(sets or ()) - {name for entry in entries for name in entry.files}
    if unknown:
        raise ParameterError(f"no data set of these reproductions: {', '.join(sorted(unknown))}.")
    settings = [_setting(entry, folder, sets, seeds, progress) for entry in entries]
    pairs = zip(entries, settings, strict=True)
    # Most products here are small: on a busy machine two BLAS threads that wait for each other took
    # ten times as long as one.
    with threadpool_limits(limits=1):
        return {entry.name: _timed(entry, setting) for entry, setting in pairs}


def _timed(entry: Reproduction, setting: Setting) -> Result:
    start = time.perf_counter()
    result = entry.run(setting)
    return replace(result, seconds=time.perf_counter() - start)


def _entry(name: str) -> Reproduction:
    if name not in REPRODUCTIONS:
        names = ", ".join(REPRODUCTIONS)
        raise ParameterError(f"no reproduction is called {name!r}; there are {names}.")
    return REPRODUCTIONS[name]


def _setting(
    entry: Reproduction,
    folder: Path | None,
    sets: Sequence[str] | None,
    seeds: int | None,
    progress: Progress,
) -> Setting:
    """Return what ``entry`` runs with, once its files are known to be there."""
    chosen = tuple(name for name in entry.files if sets is None or name in sets)
    if entry.files and folder is None:
        files = ", ".join(entry.files.values())
        raise ParameterError(f"{entry.name} needs data: --data, a folder with {files}.")
    if entry.files and not chosen:
        raise ParameterError(f"{entry.name} is left without a data set.")
    place = folder or Path()
    if chosen:
        require_files(place, [entry.files[name] for name in chosen])
    return Setting(place, chosen, entry.seeds if seeds is None else seeds, progress)


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
    """Return where the values of a page go: beside it, with the ending .json."""
    beside = output.with_suffix(".json")
    if beside == output:
        raise ParameterError(f"{output} is where the values go: name the page .html.")
    return beside


def write_report(results: Mapping[str, Result], output: Path, *, overwrite: bool = True) -> Path:
    """Write one HTML page to ``output`` and the values beside it; return the latter's path."""
    beside = values_path(output)
    body = "".join(_section(REPRODUCTIONS[name], result) for name, result in results.items())
    if set(results) == set(REPRODUCTIONS):
        body = f"{table_html(overview(results))}{table_html(left_out())}{body}"
    text = page("suffice: the papers, computed anew", body)
    write_whole(output, text.encode(), overwrite=overwrite)
    values = json.dumps(document(results), indent=2, allow_nan=False)
    write_whole(beside, (values + "\n").encode(), overwrite=overwrite)
    return beside


def overview(results: Mapping[str, Result]) -> PageTable:
    """Return every statement of the papers beside our number, or why there is none."""
    rows = []
    for name, result in results.items():
        entry = REPRODUCTIONS[name]
        where = _short(entry.paper)
        if not result.compared:
            nothing = ("nothing to compare", "see its tables", "none", entry.uncompared)
            rows.append((where, entry.title, *nothing))
        rows += [(where, statement.what, *statement.cells) for statement in result.compared]
    columns = ("paper", "what", *Comparison.COLUMNS)
    return PageTable("All that was compared", columns, tuple(rows))


def _short(paper: str) -> str:
    """Return the first author, the year, and which table or figure it is."""
    authors, year, place = re.match(r"(.*?) (\d{4}), ([^(]*)", paper).groups()  # type: ignore[union-attr]
    return f"{re.split(r'[ ,]', authors)[0]} {year}, {place.strip()}"


def left_out() -> PageTable:
    """Return what of the papers is not computed anew, one reason each."""
    rows = [(_et_al(paper.PAPER), what, why) for paper in _PAPERS for what, why in paper.LEFT_OUT]
    return PageTable("Not computed anew", ("paper", "what", "why"), tuple(rows))


def _et_al(paper: str) -> str:
    """Return the first author and the year."""
    authors, _, year = paper.rpartition(" ")
    first, *others = re.split(r"[ ,]", authors)
    return f"{first} et al. {year}" if others else paper


def _section(entry: Reproduction, result: Result) -> str:
    figures = "".join(figure_html(figure.svg, figure.caption) for figure in result.figures)
    return (
        f"<h2>{markup(entry.title)}</h2>{prose([f'After {entry.paper}.'])}{figures}"
        f"{''.join(map(table_html, result.shown))}"
        f"<h3>Notes</h3>{prose(result.notes)}"
    )
