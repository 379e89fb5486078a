"""The demo: five releases of a network of clinics, what others learn from them, and its page."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice.audit.auditor import audit
from suffice.notes import collected_notes
from suffice.owner.ledger import Ledger
from suffice.pages.plots import BLUE, Draw, draw_panels
from suffice.pages.report import PageTable, figure_html, page, paragraphs, prose, table_html
from suffice.plain_text import markup
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.release.files import write_whole
from suffice.study.demo.chapter import Chapter, Measure
from suffice.study.demo.chapters import CHAPTERS
from suffice.study.demo.network import clinic_network, write_tables
from suffice.study.reproduction import Progress, Steps

__all__ = ["Story", "run_demo"]

_BUDGETS: dict[str, Budget | dict[Unit | str, Budget]] = {
    "diagnoses": Budget(2.0, 1e-5),
    "answers": Budget(2.0),
    "records": {Unit.RECORD: Budget(2.0, 1e-5)},
    "wards": Budget(0.5, 1e-5),
    "practices": {Unit.PARTY: Budget(2.0, 1e-5)},
}
_AUDITED_CASES = (
    "mean-operator knorm",
    "responses, a label",
    "rados, a record",
    "proportions laplace, 2 classes",
    "parties, operator, gaussian",
    "proportions laplace, 2 classes / half the noise",
)  # the mechanisms of the five releases, and one that is broken on purpose
_EFFORT = 0.25  # of what suffice audit takes
_AUDIT_TEXT = """
The audit does not trust any of this. It runs each mechanism many times on two data sets that differ
in one unit, and measures how well the outputs tell the two apart. From that it computes an epsilon
which the mechanism has at least. If this bound exceeded the stated epsilon, the guarantee would be
false. A bound below it proves nothing: it shows how far this attack came. The last line is a
mechanism with half of its noise, which the audit must catch. Run suffice audit --all to test every
mechanism."""
_OPENING = """
Five members of a network of clinics hold data that they may not show. Each publishes a small, noisy
summary in a file, and the file states what it protects. Learners work with these files and with
public data. The tables are invented: they imitate the Wisconsin breast cancer data that come with
scikit-learn."""
_RESULTS_CAPTION = (
    "How much of the possible gain each release brings: 0 % is a guess without the release, 100 %"
    " the same method on the exact data. A dot is one draw of the noise; a bar ends at their mean."
)


@dataclass(frozen=True)
class Story:
    """The text of the demo, for a terminal and for its page.

    Parameters
    ----------
    paragraphs
        What the demo is about.
    tables
        What was learnt, what the ledger holds afterwards, and what the audit found.
    chapters
        One for each release.
    """

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
    """Make five releases, learn from each, write the page, and return the text.

    Parameters
    ----------
    output
        The HTML page to write.
    files
        A folder for the tables as CSV files, with which the commands on the page can be run.
    repeats
        How many further releases show how much the results vary.
    smaller
        The number by which the sizes of all tables are divided.
    progress
        Called with the steps done, the number of steps, and what is being done.
    overwrite
        Whether existing files may be replaced.

    Raises
    ------
    StorageError
        If a file exists and may not be replaced, or cannot be written.
    """
    steps = Steps(progress, len(CHAPTERS) + 2)
    network = clinic_network(smaller=smaller)
    if files is not None:
        write_tables(network, files, overwrite=overwrite)
    chapters = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "network.ledger", _BUDGETS, anchor="none")
        for chapter in CHAPTERS:
            steps.begin(chapter.__name__)
            chapters.append(chapter(network, ledger, repeats))
        spent = _ledger_table(ledger)
    steps.begin("the audit")
    findings = _audit_table()
    steps.begin("the page")
    story = Story(
        paragraphs(_OPENING), (_results_table(chapters), spent, findings), tuple(chapters)
    )
    write_whole(output, _page(story).encode(), overwrite=overwrite)
    return story


def _results_table(chapters: Sequence[Chapter]) -> PageTable:
    """Return a line per release: all of its guarantees, and what was learnt from it."""
    rows = []
    for chapter in chapters:
        measure = chapter.measure
        rows.append(
            (
                chapter.name,
                "; ".join(map(_short_guarantee, chapter.release.guarantees)),
                measure.what,
                f"{np.mean(measure.values):.3f}",
                f"{measure.without_privacy:.3f}",
                f"{measure.without_release:.3f}",
            )
        )
    return PageTable(
        "What each of the five releases guarantees, and what was learnt from it.",
        (
            "release", "guarantees", "measured", "with the release", "without privacy",
            "without the release",
        ),
        tuple(rows),
    )  # fmt: skip


def _short_guarantee(guarantee: Guarantee) -> str:
    """Return the epsilon and delta of a guarantee, rounded up, and its unit."""
    unit = "value" if guarantee.unit is Unit.ATTRIBUTE else str(guarantee.unit)
    if guarantee.epsilon is None:
        return f"none per {unit}"
    delta = f", delta {guarantee.delta:g}" if guarantee.delta else ""
    return f"epsilon {_rounded_up(guarantee.epsilon)}{delta} per {unit}"


def _rounded_up(epsilon: float) -> str:
    """Return an epsilon to two decimal places, never below its value but for rounding errors."""
    return f"{math.ceil(100 * epsilon * (1 - 1e-12)) / 100:g}"


def _ledger_table(ledger: Ledger) -> PageTable:
    """Return how much of each budget the five releases used."""
    rows = tuple(
        (b.dataset, f"per {b.unit}", str(b.budget), f"{b.spent:.3f}") for b in ledger.balances()
    )
    return PageTable(
        "The ledger after the five releases.",
        ("data set", "unit", "budget", "epsilon spent"),
        rows,
    )


def _audit_table() -> PageTable:
    """Return what a short audit finds about the mechanisms of the demo."""
    with collected_notes():  # about the small tables that it tries
        findings = audit(_AUDITED_CASES, effort=_EFFORT)
    rows = tuple((f.name, f"{f.claimed:.3g}", f"{f.lower_bound:.3g}", f.verdict) for f in findings)
    return PageTable(
        "What the audit found: the epsilon that each mechanism states, and what it is at least.",
        ("mechanism", "stated epsilon", "epsilon at least", "verdict"),
        rows,
    )


def _page(story: Story) -> str:
    sections = "".join(
        _section(number, chapter) for number, chapter in enumerate(story.chapters, start=1)
    )
    results, spent, findings = map(table_html, story.tables)
    overview = figure_html(draw_panels(_draw_results(story.chapters)), _RESULTS_CAPTION)
    return page(
        "suffice: learning from what clinics are willing to publish",
        f"{prose(story.paragraphs)}{overview}{results}{sections}"
        f"<h2>What it cost</h2>{spent}"
        f"<h2>Can you check it?</h2>{prose(paragraphs(_AUDIT_TEXT))}{findings}",
    )


def _section(number: int, chapter: Chapter) -> str:
    """Return one release with all of its guarantees, its plot, and commands to repeat it."""
    guarantees = prose(map(str, chapter.release.guarantees))
    return (
        f"<h2>{number}. {markup(chapter.title)}</h2>{prose(chapter.text)}"
        f"<blockquote>{guarantees}</blockquote>"
        f"{figure_html(draw_panels(chapter.draw), chapter.caption)}"
        "<details><summary>Repeat this yourself (suffice demo --files FOLDER writes the tables)"
        f"</summary><pre>{markup(chapter.by_hand.strip())}</pre></details>"
    )


def _draw_results(chapters: Sequence[Chapter]) -> Draw:
    """Return a function that draws every release between no release and no privacy."""

    def gains(measure: Measure) -> list[float]:
        largest_gain = measure.without_privacy - measure.without_release
        return [(value - measure.without_release) / largest_gain for value in measure.values]

    def draw(axes: Any) -> None:
        rows = np.arange(len(chapters))[::-1]
        axes.axvline(1, color="black", linestyle="--", linewidth=1, label="without privacy")
        axes.axvline(0, color="grey", linestyle=":", linewidth=1.2, label="without the release")
        for row, chapter in zip(rows, chapters, strict=True):
            values = gains(chapter.measure)
            axes.barh(row, np.mean(values), height=0.3, color=BLUE, alpha=0.3)
            axes.plot(values, [row] * len(values), "o", color=BLUE, markersize=5)
        axes.set_yticks(rows, [chapter.name for chapter in chapters])
        axes.set(xlabel="share of the possible gain", xlim=(-0.05, 1.15))
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])

    return draw
