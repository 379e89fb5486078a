"""The auditor's findings as a page: tables, and the privacy loss of every mechanism drawn."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suffice.audit.auditor import COLUMNS, Finding
from suffice.pages.report import Table, figure_svg, page, prose, table_html
from suffice.plain_text import markup

__all__ = ["audit_page"]

_TOGETHER = 6  # panels of one figure
_EXPLAINED = (
    "Each panel shows how an output's score is spread under two neighbouring data sets. Where the"
    " density is known the score is the privacy loss itself: a pure promise keeps it between the"
    " dashed lines, and one with delta lets a little of it out. Elsewhere its scale has no meaning."
)


def audit_page(findings: Sequence[Finding], failure: float) -> str:
    """Return a whole HTML page about ``findings``, all of which hold but for ``failure``."""
    sound = [finding for finding in findings if not finding.broken]
    twins = [finding for finding in findings if finding.broken]
    strange = [finding.name for finding in findings if not finding.expected]
    summary = (
        f"{sum(not f.violated for f in sound)} of {len(sound)} mechanisms: no evidence against"
        f" their promise. {sum(f.violated for f in twins)} of {len(twins)} broken twins found out."
        f" All bounds hold together but for a probability of {failure:g}. A bound below a claim is"
        " no proof of the claim: it says how far this attack got."
    )
    alarm = f"Not as it should be: {'; '.join(strange)}." if strange else ""
    body = [
        prose([part for part in (summary, alarm) if part]),
        table_html(Table("Mechanisms", COLUMNS, tuple(f.cells() for f in sound))),
        table_html(Table("Broken twins", COLUMNS, tuple(f.cells() for f in twins))),
        "<h2>What is wrong with each twin</h2><ul>",
        *(f"<li>{markup(f.name)}: {markup(f.what)}</li>" for f in twins),
        "</ul><h2>Privacy loss</h2>",
        prose([_EXPLAINED]),
    ]
    body.extend(
        f"<figure>{figure_svg(*(_drawing(finding) for finding in group))}</figure>"
        for group in _groups(findings)
    )
    return page("What the auditor found", "".join(body))


def _groups(findings: Sequence[Finding]) -> list[Sequence[Finding]]:
    return [findings[i : i + _TOGETHER] for i in range(0, len(findings), _TOGETHER)]


def _drawing(finding: Finding) -> Callable[[Any], None]:
    """Return what draws one finding: both histograms, the claim and the bound."""

    def draw(axes: Any) -> None:
        edges, one, two = (np.array(part) for part in finding.losses)
        axes.stairs(one, edges, fill=True, alpha=0.4, color="tab:blue", label="D")
        axes.stairs(two, edges, fill=True, alpha=0.4, color="tab:orange", label="D'")
        for sign in (-1, 1):
            own = {"label": "claim"} if sign > 0 else {}
            axes.axvline(sign * finding.claimed, color="black", linestyle="--", linewidth=1, **own)
        axes.axvline(finding.lower_bound, color="tab:red", linewidth=1.2, label="bound")
        axes.set_title(finding.name.replace(" / ", "\n"), fontsize=7)
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        wide = 1.3 * max(finding.claimed, finding.lower_bound)
        axes.set_xlim(min(edges[0], -wide), max(edges[-1], wide))

    return draw
