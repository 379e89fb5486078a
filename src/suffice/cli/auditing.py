"""Commands that check claims: verify, audit, demo and reproduce."""

import sys
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


_PAIRS = 60  # of neighbours, unless --pairs says otherwise
_THOROUGH = 5.0  # times as many outputs


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
    proposal: Annotated[
        Path | None, typer.Option(help="The proposal that the release answers.")
    ] = None,
    answer: Annotated[Path | None, typer.Option(help="The owner's answer to the proposal.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="An older checkpoint that the log of an export continues.")
    ] = None,
) -> None:
    """Check who signed a file, and that it is what was granted."""
    from suffice.releases.codec import load
    from suffice.releases.signing import verify as verify_release

    head = file_head(path)
    answers = {"--proposal": proposal, "--answer": answer}
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
    if (proposal is None) != (answer is None) or (key is None and answer is None):
        raise ParameterError("Choose what to check: --key, or --proposal with --answer, or all.")
    if key is not None:
        verify_release(load(path), key)
        say(f"{path}: unaltered, and signed with {key}.")
    if proposal is not None and answer is not None:
        from suffice.protocol.grant import check_answer
        from suffice.protocol.messages import Answer, Proposal

        check_answer(Proposal.load(proposal), Answer.load(answer), path)
        say(f"{path}: unaltered, and what {answer} grants to {proposal}.")


@dataclass(frozen=True, kw_only=True)
class _Audit(JsonOutput, Overwriting):
    """Which mechanisms are attacked, and how."""

    kinds: list[str] | None = data_option(
        None,
        "Kinds of release, for example proportions; with --public-part, names of mechanisms.",
        argument=True,
        many=True,
    )
    everything: bool = data_option(False, "Attack every kind.", name="--all")
    public_part: bool = data_option(
        False, "Instead, compare everything but the noise in releases of data that differ in one"
        " secret.",
    )  # fmt: skip
    histories: bool = data_option(
        False, "With --public-part: compare histories of releases, grants and restarts, in which"
        " data change.",
    )  # fmt: skip
    epsilon: float | None = privacy_option(
        None, "Attack mechanisms at this epsilon, for example 0.5, without their broken copies."
    )
    thorough: bool = computing_option(False, "Draw five times as many outputs: tighter bounds.")
    pairs: int | None = computing_option(
        None, f"Number of pairs of data that --public-part compares. Default: {_PAIRS}."
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
        if self.pairs is not None and self.pairs < 1:
            raise ParameterError("--pairs must be 1 or more.")
        if not self.public_part:
            unused = {"--pairs": self.pairs, "--histories": self.histories or None}
            refuse_unused("without --public-part", unused)
            if bool(self.kinds) == self.everything:
                raise ParameterError("Choose what to audit: kinds of release, or --all.")
            return
        flags = {"--all": self.everything, "--thorough": self.thorough, "--force": self.force}
        refuse_unused("with --public-part", {name: flag or None for name, flag in flags.items()})
        values = {"--epsilon": self.epsilon, "--output": self.output}
        refuse_unused("with --public-part", values)


def audit(options: _Audit, context: typer.Context) -> None:
    """Attack mechanisms, to bound their true epsilon from below.

    Every mechanism has broken copies, which the audit must catch. The exit code is 1 if a mechanism
    breaks its guarantee, or if a broken copy is not caught. With --public-part it is 1 if anything
    but the noise depends on a secret.
    """
    options.check()
    if options.public_part:
        with collected_notes():  # of the releases that are compared
            _audit_public_part(options, context)
        return
    from suffice.audit import auditor
    from suffice.audit.registry import cases_at, selected

    kinds, effort = tuple(options.kinds or ()), _THOROUGH if options.thorough else 1.0
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
        check = check_histories if options.histories else check_public_part
        verdict = check(
            options.kinds or (),
            pairs=options.pairs or _PAIRS,
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
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML report to write.")
    ] = Path("suffice-demo.html"),
    files: Annotated[
        Path | None,
        typer.Option(help="Folder for the tables, to repeat everything by hand, such as clinic."),
    ] = None,
    force: building.Force = False,
) -> None:
    """Play five releases from start to end, on invented patients."""
    from suffice.demo.story import run_demo, table_files

    if files is not None:
        make_folder(files)  # first: the report may go there, too
    check_outputs(output, *(() if files is None else table_files(files)), force=force)
    with steps("playing the demo") as show_step:
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
