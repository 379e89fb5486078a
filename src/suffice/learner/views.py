"""The notebook view of a fitted learner: what it learnt from, and what that protects."""

from typing import Any

from suffice.plain_text import escaped, listed, markup
from suffice.release.artifact import Release
from suffice.release.kinds import kind_named

__all__ = ["html_summary", "summary_lines"]

_WITHOUT_RELEASE = "exact data, without a guarantee"


def summary_lines(model: Any) -> list[tuple[str, str]]:
    """Return what a fitted learner has learnt, as pairs of a heading and a text.

    Parameters
    ----------
    model : estimator
        A fitted learner of this library.

    Returns
    -------
    list of (str, str)
        Its name, the releases that it learnt from, the guarantees that it inherits, the columns
        that it reads, and its classes. Text that comes from files is escaped.
    """
    releases: tuple[Release, ...] = model.releases_
    lines = [("learner", type(model).__name__)]
    lines += [("learnt from", _origin(release)) for release in releases]
    if not releases:
        lines.append(("learnt from", _WITHOUT_RELEASE))
    guarantees = [str(guarantee) for release in releases for guarantee in release.guarantees]
    lines += [("guarantee", escaped(text)) for text in dict.fromkeys(guarantees)]
    columns = [column.name for column in model.pipeline_.columns]
    lines.append(("features", f"{len(columns)} ({listed(columns)})"))
    lines.append(("classes", listed(model.classes_)))
    return lines


def _origin(release: Release) -> str:
    """Return what kind of release this is, and how many rows and owners are behind it."""
    owners = "" if len(release.parts) == 1 else f" of {len(release.parts)} owners"
    title = "a model file" if "learner" in release.details else kind_named(release.kind).title
    return f"{title}: {release.rows:,} rows{owners}"


def html_summary(model: Any) -> str:
    """Return the same as an HTML table for notebooks; nothing in it can act as HTML."""
    rows = "".join(
        f'<tr><th style="text-align:left">{markup(heading)}</th>'
        f'<td style="text-align:left">{markup(text)}</td></tr>'
        for heading, text in summary_lines(model)
    )
    return f"<table>{rows}</table>"
