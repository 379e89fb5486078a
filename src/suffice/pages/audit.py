"""The audit's results as a page: tables, and a drawing of every mechanism's privacy loss."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from suffice.pages.plots import BLUE, ORANGE, RED, Draw, draw_panels
from suffice.pages.report import PageTable, figure_html, page, prose, table_html
from suffice.plain_text import markup

__all__ = ["AuditFinding", "audit_page"]

_FIGURE_PANELS = 6
_EXPLANATION = (
    "Each panel compares the outputs for two neighbouring data sets. It shows how often each score"
    " occurs for either of them. Where the probability density is known, the score is the privacy"
    " loss itself. A guarantee with delta = 0 keeps this loss between the dashed lines; one with a"
    " larger delta lets a few outputs leave them. Where the density is unknown, an attack computes"
    " the score, and only differences between the two data sets matter."
)


class AuditFinding(Protocol):
    """What the page shows of the result for one mechanism or broken copy.

    Attributes
    ----------
    name
        The mechanism, and after a slash what is broken.
    claimed
        The epsilon that the mechanism states.
    lower_bound
        The epsilon that it has at least, as the attack shows.
    broken
        Whether this is a mechanism that was broken on purpose.
    what
        What is wrong with a broken copy; empty for a mechanism.
    losses
        Edges of a histogram of scores, counts for one data set, counts for its neighbour.
    """

    name: str
    claimed: float
    lower_bound: float
    broken: bool
    what: str
    losses: tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def violated(self) -> bool:
        """Whether the attack refutes the stated epsilon."""

    @property
    def expected(self) -> bool:
        """Whether a broken copy was caught, or a mechanism was not refuted."""

    def cells(self) -> tuple[str, ...]:
        """Return the result as a row of text."""


def audit_page(findings: Sequence[AuditFinding], columns: Sequence[str], failure: float) -> str:
    """Return an HTML page about the results of an audit.

    Parameters
    ----------
    findings
        The results, for mechanisms and broken copies.
    columns
        The headings of the cells of each result.
    failure
        The probability that any of the lower bounds is wrong.
    """
    sound = [finding for finding in findings if not finding.broken]
    copies = [finding for finding in findings if finding.broken]
    body = [
        prose(_summary(sound, copies, failure)),
        table_html(
            PageTable(
                "What each mechanism guarantees, and what the attack found.",
                tuple(columns),
                tuple(finding.cells() for finding in sound),
            )
        ),
        table_html(
            PageTable(
                "Broken copies, which the audit must catch.",
                tuple(columns),
                tuple(finding.cells() for finding in copies),
            )
        ),
        "<h2>What is wrong with each broken copy</h2><ul>",
        *(f"<li>{markup(finding.name)}: {markup(finding.what)}</li>" for finding in copies),
        "</ul><h2>Privacy loss</h2>",
        prose([_EXPLANATION]),
    ]
    for first in range(0, len(findings), _FIGURE_PANELS):
        drawn_findings = findings[first : first + _FIGURE_PANELS]
        panels = [partial(_draw_scores, finding) for finding in drawn_findings]
        body.append(_scores_figure(panels, first + 1, len(findings)))
    return page("What the audit found", "".join(body))


def _summary(
    sound: Sequence[AuditFinding], copies: Sequence[AuditFinding], failure: float
) -> list[str]:
    """Return what came out, in sentences; a second paragraph only if something is wrong."""
    summary = (
        f"The attack refutes {sum(f.violated for f in sound)} of {len(sound)} mechanisms."
        f" It catches {sum(f.violated for f in copies)} of {len(copies)} broken copies."
        f" All lower bounds together are correct with probability {1 - failure:g} or more."
        " A lower bound below a guarantee does not prove the guarantee. It shows how far this"
        " attack came."
    )
    surprises = [finding.name for finding in [*sound, *copies] if not finding.expected]
    alarm = f"Not as expected: {'; '.join(surprises)}."
    return [summary, alarm] if surprises else [summary]


def _scores_figure(panels: Sequence[Draw], first: int, count: int) -> str:
    """Return some of the panels as a figure; ``first`` is the number of the first, from 1."""
    last = first + len(panels) - 1
    span = f"Result {first}" if first == last else f"Results {first} to {last}"
    caption = f"{span} of {count}: how often each score occurs for two neighbouring data sets."
    return figure_html(draw_panels(*panels), caption)


def _draw_scores(finding: AuditFinding, axes: Any) -> None:
    """Draw both histograms in front of the guarantee and the lower bound.

    A loss that only takes a few values is a spike, often exactly where the guarantee is: so lines
    stay behind, and every bar has an edge of its own.
    """
    edges, counts, neighbour_counts = (np.array(part) for part in finding.losses)
    for sign, label in ((-1, None), (1, "guarantee (epsilon)")):
        position = sign * finding.claimed
        axes.axvline(position, color="black", linestyle="--", linewidth=1, label=label, zorder=0.6)
    axes.axvline(finding.lower_bound, color=RED, linewidth=1.6, label="lower bound", zorder=0.7)
    for heights, colour, label in (
        (counts, BLUE, "one data set"),
        (neighbour_counts, ORANGE, "its neighbour"),
    ):
        axes.stairs(heights, edges, fill=True, alpha=0.35, color=colour, label=label, zorder=2)
        axes.stairs(heights, edges, color=colour, linewidth=1.1, zorder=3)
    axes.set_title(finding.name.replace(" / ", "\n"), fontsize=8)
    axes.set_yticks([])
    reach = 1.3 * max(finding.claimed, finding.lower_bound)
    low, high = min(edges[0], -reach), max(edges[-1], reach)
    axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))  # no spike on the frame
    axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(0, 1.08 * max(counts.max(), neighbour_counts.max(), 1))
