"""The demo: five releases of a network of clinics, what was learnt from them, and their page."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice.audit.auditor import audit
from suffice.owner.ledger import Ledger
from suffice.pages.plots import Draw, figure_svg
from suffice.pages.report import PageTable, figure_html, page, paragraphs, prose, table_html
from suffice.plain_text import markup
from suffice.privacy.guarantee import Budget, Unit
from suffice.release.files import write_whole
from suffice.study.demo.chapter import Chapter, Measure
from suffice.study.demo.chapters import CHAPTERS
from suffice.study.demo.network import clinic_network, write_tables
from suffice.study.reproduction import Progress, Steps

__all__ = ["Story", "run_demo"]

_BUDGETS = {
    "diagnoses": Budget(2.0, 1e-5),
    "answers": Budget(2.0),
    "records": {Unit.RECORD: Budget(2.0, 1e-5)},
    "wards": Budget(0.5, 1e-5),
    "practices": {Unit.PARTY: Budget(2.0, 1e-5)},
}
_AUDITED = (
    "mean-operator knorm",
    "responses, a label",
    "rados, a record",
    "proportions laplace, 2 classes",
    "parties, operator, gaussian",
    "proportions laplace, 2 classes / half the noise",
)  # the mechanisms of the five releases, and one that is broken on purpose
_EFFORT = 0.25  # of what suffice audit takes
_DOUBT = """
Somebody who believes none of this ran each mechanism many times on two data sets that differ in
one unit, and asked how well the outputs tell them apart. A bound above the claim would refute it;
one below says how far this attack got, and is no proof. The last line is a mechanism with half of
its noise: an auditor must see that. suffice audit --all does this for every mechanism."""
_OPENING = """
A network of clinics wants to learn from what its members may not show. Five of them release
something small, each under a promise that stands in the file; learners work with the files alone.
Nobody in these tables exists: they are drawn after the Wisconsin breast cancer data that ship with
scikit-learn."""


@dataclass(frozen=True)
class Story:
    """What the demo has to tell: paragraphs, tables, and chapters for the page."""

    paragraphs: tuple[str, ...]
    tables: tuple[PageTable, ...]
    chapters: tuple[Chapter, ...]


def run_demo(
    output: Path,
    *,
    files: Path | None = None,
    repeats: int = 4,
    smaller: int = 1,
    progress: Progress = lambda *_: None,
    overwrite: bool = True,
) -> Story:
    """Release, load and learn, five times over; write the report to ``output``.

    ``files`` is a folder for the tables, to repeat everything by hand; ``repeats`` the number of
    further releases that show how much luck was in the first; ``smaller`` shrinks all tables.
    Without ``overwrite`` a file that exists is an error.
    """
    steps = Steps(progress, len(CHAPTERS) + 2)
    network = clinic_network(smaller=smaller)
    if files is not None:
        write_tables(network, files, overwrite=overwrite)
    chapters = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "network.ledger", _BUDGETS)
        for chapter in CHAPTERS:
            steps.begin(chapter.__name__)
            chapters.append(chapter(network, ledger, repeats))
        spent = _spent(ledger)
    steps.begin("the auditor")
    findings = _audit()
    steps.begin("the page")
    story = Story(paragraphs(_OPENING), (_outcome(chapters), spent, findings), tuple(chapters))
    write_whole(output, _report(story).encode(), overwrite=overwrite)
    return story


def _outcome(chapters: Sequence[Chapter]) -> PageTable:
    """Return one line per release: what it protects, at which price."""
    rows = []
    for chapter in chapters:
        guarantee, measure = chapter.release.guarantees[0], chapter.measure  # the narrowest
        rows.append(
            (
                chapter.name,
                str(guarantee.unit),
                f"{guarantee.epsilon:.3g}",
                measure.what,
                f"{np.mean(measure.values):.3f}",
                f"{measure.without_privacy:.3f}",
                f"{measure.without_release:.3f}",
            )
        )
    columns = ("release", "protects", "epsilon", "measured", "learnt")
    return PageTable(
        "Five releases: what was learnt from each, from open data, and without any",
        (*columns, "open data", "blind"),
        tuple(rows),
    )


def _spent(ledger: Ledger) -> PageTable:
    rows = tuple(
        (b.dataset, f"per {b.unit}", str(b.budget), f"{b.spent:.3f}") for b in ledger.balances()
    )
    return PageTable("The ledger afterwards", ("data", "unit", "allowed", "epsilon spent"), rows)


def _audit() -> PageTable:
    """Return what a short audit says."""
    findings = audit(_AUDITED, effort=_EFFORT)
    rows = tuple((f.name, f"{f.claimed:.3g}", f"{f.lower_bound:.3g}", f.verdict) for f in findings)
    return PageTable("What the auditor found", ("mechanism", "claims", "at least", "verdict"), rows)


def _report(story: Story) -> str:
    body = "".join(
        _section(number, chapter) for number, chapter in enumerate(story.chapters, start=1)
    )
    outcome, spent, findings = map(table_html, story.tables)
    return page(
        "suffice: learning from what clinics are willing to release",
        f"{prose(story.paragraphs)}{figure_svg(_ladder(story.chapters))}{outcome}{body}"
        f"<h2>What it cost</h2>{spent}<h2>Is it true?</h2>{prose(paragraphs(_DOUBT))}{findings}",
    )


def _section(number: int, chapter: Chapter) -> str:
    promises = "<br><br>".join(map(markup, map(str, chapter.release.guarantees)))
    return (
        f"<h2>{number}. {markup(chapter.title)}</h2>{prose(chapter.text)}"
        f"<blockquote>{promises}</blockquote>"
        f"{figure_html(figure_svg(chapter.draw), chapter.caption)}"
        f"<details><summary>The same by hand (suffice demo --files DIR writes the tables)</summary>"
        f"<pre>{markup(chapter.by_hand.strip())}</pre></details>"
    )


def _ladder(chapters: Sequence[Chapter]) -> Draw:
    """Return how to draw where each release lies between knowing nothing and no privacy."""

    def reached(measure: Measure) -> list[float]:
        whole = measure.without_privacy - measure.without_release
        return [(value - measure.without_release) / whole for value in measure.values]

    def draw(axes: Any) -> None:
        places = np.arange(len(chapters))[::-1]
        for place, chapter in zip(places, chapters, strict=True):
            values = reached(chapter.measure)
            axes.plot(
                [0, np.mean(values)], [place, place], color="tab:blue", linewidth=9, alpha=0.3
            )
            axes.plot(values, [place] * len(values), "o", color="tab:blue", markersize=5)
        axes.axvline(1, color="black", linestyle="--", linewidth=1, label="without privacy")
        axes.axvline(0, color="grey", linestyle=":", linewidth=1.2, label="without the release")
        axes.set_yticks(places, [chapter.name for chapter in chapters])
        axes.set(xlabel="how much of what could be learnt was learnt", xlim=(-0.05, 1.1))
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])

    return draw
