"""Commands of those who check releases and mechanisms: verify, audit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from suffice.cli.building import Inputs, make_command
from suffice.cli.checks import refuse_unused
from suffice.cli.help import HelpfulCommand
from suffice.cli.options import JsonOutput, Overwriting
from suffice.cli.output import on_terminal, say, show_json, show_table, steps
from suffice.cli.signed_files import (
    CHECKPOINT_HEAD,
    EXPORT_HEAD,
    file_head,
    verify_checkpoint,
    verify_export,
)
from suffice.errors import ParameterError
from suffice.notes import collected_notes
from suffice.options import computing_option, data_option, output_option, privacy_option

__all__ = ["COMMANDS", "register"]

_PAIRS = 60  # of neighbours, unless --pairs says otherwise
_THOROUGH = 5.0  # times as many outputs


def register(app: typer.Typer) -> None:
    """Add ``verify``."""
    app.command(cls=HelpfulCommand)(verify)


def verify(
    path: Annotated[
        Path, typer.Argument(help="A release or model, an export of a service, or a checkpoint.")
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
    head = file_head(path)
    answers = {"--proposal": proposal, "--answer": answer}
    if head.startswith(EXPORT_HEAD):
        refuse_unused("with an export", answers)
        verify_export(path, key, checkpoint)
        return
    refuse_unused("with this file, which is no export", {"--checkpoint": checkpoint})
    if head.startswith(CHECKPOINT_HEAD):
        refuse_unused("with a checkpoint", answers)
        if key is None:
            raise ParameterError("Name the public key of the expected signer with --key.")
        verify_checkpoint(path, key)
        return
    _verify_release(path, key, proposal, answer)


def _verify_release(
    path: Path, key: Path | None, proposal: Path | None, answer: Path | None
) -> None:
    from suffice.release.codec import load
    from suffice.release.signing import verify as verify_release

    if (proposal is None) != (answer is None) or (key is None and answer is None):
        raise ParameterError("Choose what to check: --key, or --proposal with --answer, or all.")
    if key is not None:
        verify_release(load(path), key)
        say(f"{path}: unaltered, and signed with {key}.")
    if proposal is not None and answer is not None:
        from suffice.transport.messages import Answer, Proposal
        from suffice.transport.protocol import check_answer

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
        None, "Also write a page with plots to this HTML file.", name="--output", short="-o",
        parse=Path, path=Path, writes=True,
    )  # fmt: skip

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


def _audit_command() -> TyperCommand:
    """Return ``suffice audit``."""

    def run(inputs: Inputs) -> None:
        options = inputs.make("audit", _Audit)
        options.check()
        if options.public_part:
            with collected_notes():  # of the releases that are compared
                _audit_public_part(options, inputs.program)
            return
        from suffice.audit.auditor import FAILURE

        findings = _findings(options)
        if options.output is not None:
            _write_page(findings, options.output, overwrite=options.force)
        if options.json:
            show_json({"results": [finding.to_json() for finding in findings]})
        else:
            _show_findings(findings, FAILURE)
        if not all(finding.expected for finding in findings):
            raise typer.Exit(1)

    summary = (
        "Attack mechanisms, to bound their true epsilon from below.\n\nEvery mechanism has broken"
        " copies, which the audit must catch. The exit code is 1 if a mechanism breaks its"
        " guarantee, or if a broken copy is not caught. With --public-part it is 1 if anything but"
        " the noise depends on a secret."
    )
    return make_command("audit", {"audit": _Audit}, run, help=summary)


def _findings(options: _Audit) -> Sequence[Any]:
    """Return what the attacks found, case by case."""
    from suffice.audit import auditor
    from suffice.audit.registry import cases_at, selected

    kinds, effort = tuple(options.kinds or ()), _THOROUGH if options.thorough else 1.0
    with steps("auditing") as show_step:

        def report(done: int, total: int, finding: Any) -> None:
            show_step(done, total, f"{finding.name}: {finding.verdict}")
            if not on_terminal():
                say(f"{done}/{total} {finding.name}: {finding.verdict}", error=True)

        if options.epsilon is None:
            names = list(selected(kinds))
            show_step(0, len(names), "the first cases")
            return auditor.audit(names, seed=options.seed, effort=effort, progress=report)
        cases = cases_at(options.epsilon, kinds)
        findings = []
        for case in cases:
            alpha = auditor.FAILURE / len(cases)
            finding = auditor.audit_case(case, seed=options.seed, effort=effort, alpha=alpha)
            findings.append(finding)
            report(len(findings), len(cases), finding)
    return findings


def _write_page(findings: Sequence[Any], output: Path, *, overwrite: bool) -> None:
    from suffice.audit import auditor
    from suffice.pages.audit import audit_page
    from suffice.release.files import write_whole

    page = audit_page(findings, auditor.COLUMNS, auditor.FAILURE)
    write_whole(output, page.encode(), overwrite=overwrite)


def _audit_public_part(options: _Audit, program: Callable[..., Any]) -> None:
    from suffice.audit.public_part.checking import check_public_part
    from suffice.audit.public_part.histories import check_histories
    from suffice.audit.public_part.releasing import Said
    from suffice.cli.running import recorded

    def command(words: Sequence[str]) -> Said:
        return Said(*recorded(program, words))

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


def _show_findings(findings: Sequence[Any], failure: float) -> None:
    from suffice.audit.auditor import COLUMNS

    titles = {False: "Mechanisms", True: "Broken copies, which the audit must catch"}
    for broken, title in titles.items():
        rows = [finding.cells() for finding in findings if finding.broken == broken]
        if rows:
            show_table(title, COLUMNS, rows)
    say(
        f"All lower bounds hold together with a probability of at least {1 - failure:g}. A lower"
        " bound below the stated epsilon does not prove the statement."
    )
    unexpected = [finding.name for finding in findings if not finding.expected]
    if unexpected:
        say(f"Not as expected: {'; '.join(unexpected)}.", error=True)


COMMANDS: Mapping[str, Callable[[], TyperCommand]] = {"audit": _audit_command}
