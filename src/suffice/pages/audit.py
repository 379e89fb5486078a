"""The auditor's findings as a page: tables, and the privacy loss of every mechanism drawn."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from suffice.pages.plots import figure_svg
from suffice.pages.report import PageTable, figure_html, page, prose, table_html
from suffice.plain_text import markup

__all__ = ["AuditFinding", "audit_page"]

_TOGETHER = 6  # panels of one figure
_EXPLAINED = (
    "Each panel shows how an output's score is spread under two neighbouring data sets. Where the"
    " density is known the score is the privacy loss itself: a pure promise keeps it between the"
    " dashed lines, and one with delta lets a little of it out. Elsewhere its scale has no meaning."
)


class AuditFinding(Protocol):
    """What the page shows of a finding; ``losses`` are edges, counts under D, counts under D'."""

    name: str
    claimed: float
    lower_bound: float
    broken: bool
    what: str
    losses: tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""

    @property
    def expected(self) -> bool:
        """Whether it came out as it should."""

    def cells(self) -> tuple[str, ...]:
        """Return the finding as a row of text."""


def audit_page(findings: Sequence[AuditFinding], columns: Sequence[str], failure: float) -> str:
    """Return a whole HTML page about ``findings``, all of which hold but for ``failure``.

    ``columns`` are the names of what each finding has in its cells.
    """
    sound = [finding for finding in findings if not finding.broken]
    copies = [finding for finding in findings if finding.broken]
    surprises = [finding.name for finding in findings if not finding.expected]
    summary = (
        f"{sum(not f.violated for f in sound)} of {len(sound)} mechanisms: no evidence against"
        f" their promise. {sum(f.violated for f in copies)} of {len(copies)} broken twins found"
        f" out. All bounds hold together but for a probability of {failure:g}. A bound below a"
        " claim is no proof of the claim: it says how far this attack got."
    )
    alarm = f"Not as it should be: {'; '.join(surprises)}." if surprises else ""
    body = [
        prose([part for part in (summary, alarm) if part]),
        table_html(PageTable("Mechanisms", tuple(columns), tuple(f.cells() for f in sound))),
        table_html(PageTable("Broken twins", tuple(columns), tuple(f.cells() for f in copies))),
        "<h2>What is wrong with each twin</h2><ul>",
        *(f"<li>{markup(f.name)}: {markup(f.what)}</li>" for f in copies),
        "</ul><h2>Privacy loss</h2>",
        prose([_EXPLAINED]),
    ]
    for first in range(0, len(findings), _TOGETHER):
        panels = (partial(_draw, finding) for finding in findings[first : first + _TOGETHER])
        body.append(figure_html(figure_svg(*panels)))
    return page("What the auditor found", "".join(body))


def _draw(finding: AuditFinding, axes: Any) -> None:
    """Draw one finding: both histograms, the claim and the bound."""
    edges, counts, neighbour_counts = (np.array(part) for part in finding.losses)
    axes.stairs(counts, edges, fill=True, alpha=0.4, color="tab:blue", label="D")
    axes.stairs(neighbour_counts, edges, fill=True, alpha=0.4, color="tab:orange", label="D'")
    for sign in (-1, 1):
        own = {"label": "claim"} if sign > 0 else {}
        axes.axvline(sign * finding.claimed, color="black", linestyle="--", linewidth=1, **own)
    axes.axvline(finding.lower_bound, color="tab:red", linewidth=1.2, label="bound")
    axes.set_title(finding.name.replace(" / ", "\n"), fontsize=7)
    axes.tick_params(labelsize=7)
    axes.set_yticks([])
    wide = 1.3 * max(finding.claimed, finding.lower_bound)
    axes.set_xlim(min(edges[0], -wide), max(edges[-1], wide))
