"""Commands that check claims: verify, audit, demo and reproduce."""

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice import options as parsing
from suffice.cli import building
from suffice.cli.building import (
    OUTPUT,
    JsonOutput,
    Overwriting,
    check_outputs,
    make_folder,
    refuse_unused,
)
from suffice.cli.output import recorded, say, show_json, show_table, steps
from suffice.errors import ParameterError
from suffice.options import computing_option, data_option, output_option, privacy_option
from suffice.plain_text import collected_notes

CHECKPOINT_HEAD = b"suffice ledger checkpoint "
ARCHIVE_HEAD = b"PK\3\4"  # of a zip file
EXPORT_HEAD = b'{"anchor":'  # canonical JSON: the fields are in the order of their names


def file_head(path: Path) -> bytes:
    """Return the first bytes of a file; what cannot be read is for the reader of it to report."""
    try:
        with path.open("rb") as file:
            return file.read(64) if path.is_file() else b""
    except OSError:
        return b""


_PAIRS = 60  # of neighbours, at an effort of 1


def verify(
    path: Annotated[
        Path,
        typer.Argument(
            help="A release or model, an export of a service, a checkpoint or an archive."
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option(help="Public key of the expected signer, for example clinic.pub."),
    ] = None,
    answered: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PROPOSAL ANSWER", help="What was asked for, and the owner's answer to it."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="An older checkpoint that the log of an export continues.")
    ] = None,
) -> None:
    """Check who signed a file, and that it is what was granted."""
    from suffice.releases.codec import load
    from suffice.releases.signing import verify as verify_release

    head = file_head(path)
    answers = {"PROPOSAL": answered or None}
    if head.startswith(EXPORT_HEAD):
        refuse_unused("with an export", answers)
        from suffice.protocol.export import Export

        export = Export.load(path, key)
        if key is not None:
            say(f"{path}: unaltered, and signed with {key}.")
        else:
            say(f"{path}: unaltered, and signed with key {export.key_id}. Is it the one you know?")
        if export.is_complete:
            say(f"Its log is whole: {export.content.entries:,} entries in one unbroken chain.")
        if checkpoint is not None:
            from suffice.owner.ledger.log import Checkpoint

            older = Checkpoint.load(checkpoint, key)
            export.check_continues(older)
            say(f"The log continues {checkpoint}, which was signed at {older.time}.")
        return
    refuse_unused("with this file, which is no export", {"--checkpoint": checkpoint})
    if head.startswith((CHECKPOINT_HEAD, ARCHIVE_HEAD)):
        from suffice.owner.ledger.archive import Archive
        from suffice.owner.ledger.log import Checkpoint

        is_archive = head.startswith(ARCHIVE_HEAD)
        refuse_unused("with an archive" if is_archive else "with a checkpoint", answers)
        if key is None:
            raise ParameterError("Name the public key of the expected signer with --key.")
        (Archive if is_archive else Checkpoint).load(path, key)
        say(f"{path}: unaltered, and signed with {key}.")
        return
    if len(answered or ()) not in (0, 2) or (key is None and not answered):
        raise ParameterError("Choose what to check: --key, or PROPOSAL and ANSWER, or all.")
    if key is not None:
        verify_release(load(path), key)
        say(f"{path}: unaltered, and signed with {key}.")
    if answered:
        proposal, answer = answered
        from suffice.protocol.grant import check_answer
        from suffice.protocol.messages import Answer, Proposal

        check_answer(Proposal.load(proposal), Answer.load(answer), path)
        say(f"{path}: unaltered, and what {answer} grants to {proposal}.")


@dataclass(frozen=True, kw_only=True)
class _Audit(JsonOutput, Overwriting):
    """Which mechanisms are attacked, and how."""

    kinds: list[str] | None = data_option(
        None,
        "Kinds of release, for example moments, or all; with --compare, names of mechanisms.",
        argument=True,
        many=True,
    )
    compare: str | None = data_option(
        None,
        "Instead, compare everything but the noise in releases of data that differ in one secret;"
        " or in histories of releases, grants and restarts, in which data change.",
        choices=("releases", "histories"),
    )
    epsilon: float | None = privacy_option(
        None, "Attack mechanisms at this epsilon, for example 0.5, without their broken copies."
    )
    effort: float = computing_option(
        1.0,
        "How many times as many outputs are drawn, or pairs of data compared, as usual, for"
        " example 5: tighter bounds.",
        parse=float,
    )
    seed: int = computing_option(
        0, "Start of the search for data that differ in one secret, 0 or more. Default: 0."
    )
    output: Path | None = output_option(
        None, "Also write a page with plots to this HTML file.", **OUTPUT
    )

    def check(self) -> None:
        """Raise if an option has no effect, or is out of range."""
        if self.seed < 0:
            raise ParameterError("--seed must be 0 or more.")
        if not 0 < self.effort < math.inf:
            raise ParameterError("--effort must be a number above 0.")
        if self.compare is None:
            if not self.kinds or ("all" in self.kinds and len(self.kinds) > 1):
                raise ParameterError("Choose what to audit: kinds of release, or all.")
            return
        values = {"--epsilon": self.epsilon, "--output": self.output}
        refuse_unused("with --compare", {**values, "--force": self.force or None})


@collected_notes()  # of the releases that are attacked or compared
def audit(options: _Audit, context: typer.Context) -> None:
    """Attack mechanisms, to bound their true epsilon from below.

    Every mechanism has broken copies, which the audit must catch. The exit code is 1 if a mechanism
    breaks its guarantee, or if a broken copy is not caught. With --compare it is 1 if anything but
    the noise depends on a secret.
    """
    options.check()
    if options.compare is not None:
        _audit_public_part(options, context)
        return
    from suffice.audit import auditor
    from suffice.audit.registry import cases_at, selected

    kinds, effort = tuple(name for name in options.kinds or () if name != "all"), options.effort
    with steps("auditing") as show_step:

        def report(done: int, total: int, finding: Any) -> None:
            show_step(done, total, f"{finding.name}: {finding.verdict}")
            if not sys.stderr.isatty():
                say(f"{done}/{total} {finding.name}: {finding.verdict}", error=True)

        cases: Sequence[Any]
        findings: Any
        if options.epsilon is None:
            cases = list(selected(kinds))
            show_step(0, len(cases), "the first cases")
            findings = auditor.audit(cases, seed=options.seed, effort=effort, progress=report)
        else:
            cases, findings = cases_at(options.epsilon, kinds), []
            for done, case in enumerate(cases, 1):
                alpha = auditor.FAILURE / len(cases)
                finding = auditor.audit_case(case, seed=options.seed, effort=effort, alpha=alpha)
                findings.append(finding)
                report(done, len(cases), finding)
    if options.output is not None:
        from suffice.pages.report import audit_page
        from suffice.releases.file import write_whole

        page = audit_page(findings, auditor.COLUMNS, auditor.FAILURE)
        write_whole(options.output, page.encode(), overwrite=options.force)
    unexpected = [finding.name for finding in findings if not finding.expected]
    if options.json:
        show_json({"results": [finding.to_json() for finding in findings]})
    else:
        titles = {False: "Mechanisms", True: "Broken copies, which the audit must catch"}
        for broken, title in titles.items():
            rows = [finding.cells() for finding in findings if finding.broken == broken]
            if rows:
                show_table(title, auditor.COLUMNS, rows)
        say(
            f"All lower bounds hold together with a probability of at least"
            f" {1 - auditor.FAILURE:g}. A lower bound below the stated epsilon does not prove the"
            " statement."
        )
        if unexpected:
            say(f"Not as expected: {'; '.join(unexpected)}.", error=True)
    if unexpected:
        raise typer.Exit(1)


def _audit_public_part(options: _Audit, context: typer.Context) -> None:
    from suffice.audit.histories import check_histories
    from suffice.audit.public_part import check_public_part

    command = partial(recorded, context.find_root().command.main)
    with steps("comparing releases") as show_step:
        check = check_histories if options.compare == "histories" else check_public_part
        verdict = check(
            options.kinds or (),
            pairs=max(round(options.effort * _PAIRS), 1),
            seed=options.seed,
            command=command,
            progress=show_step,
        )
    if options.json:
        show_json(verdict.to_json())
    else:
        say(*verdict.lines())
    if verdict.differences:
        raise typer.Exit(1)


def demo(
    files: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Where the tables go, to repeat everything by hand."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The HTML report to write. Default: demo.html in the folder, or"
            " suffice-demo.html.",
        ),
    ] = None,
    force: building.Force = False,
) -> None:
    """Play five releases from start to end, on invented patients."""
    from suffice.demo.story import run_demo, table_files

    if output is None:
        output = Path("suffice-demo.html") if files is None else files / "demo.html"
    if files is not None:
        make_folder(files)  # first: the report may go there, too
    check_outputs(output, *(() if files is None else table_files(files)), force=force)
    from suffice.learner.problem import NoiseWarning

    # The report has the same sentences, and not on stderr.
    with warnings.catch_warnings(), steps("playing the demo") as show_step:
        warnings.simplefilter("ignore", NoiseWarning)
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
        entries = study.REPRODUCTIONS.values()
        if json:
            keys = ("name", "title", "paper", "seeds")
            show_json(
                [{k: getattr(e, k) for k in keys} | {"files": dict(e.files)} for e in entries]
            )
            return
        heads = ("name", "what it shows", "paper", "needs in --data")
        rows = [
            (e.name, e.title, e.paper, ", ".join(e.files.values()) or "nothing") for e in entries
        ]
        show_table("Tables and figures of the papers", heads, rows)
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
    for title, result in results.items():
        say(f"{title}, {result.seconds:.0f} s")
        for table in result.all_tables:
            show_table(table.title, table.columns, table.rows)
        for note in result.notes:
            say(note)
    say("", f"The page with figures: {output}; its values: {values}")
