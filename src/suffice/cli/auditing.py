"""Commands of those who want to know what they have before them: inspect, verify, audit."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.output import say, show_json, show_pairs, show_table, steps
from suffice.cli.protocol import show_message
from suffice.errors import ParameterError
from suffice.notes import collected_notes
from suffice.plain_text import listed, name, phrase

__all__ = ["register"]


_PAIRS = 60  # of neighbours, unless given
_SHOWN = 6  # of many columns
_PROMISES = 100  # shown of those in one file; --json has all of them
_NO_CLIP = 1e30  # a bound that no row of numbers reaches


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(inspect)
    app.command()(verify)
    app.command()(audit)


def inspect(
    path: Annotated[Path, typer.Argument(help="A release, a model, a proposal or an answer.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also show how sure a reader may become.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Say in words what a file holds, and every guarantee that it states."""
    import numpy as np

    from suffice.release.codec import MOST_BYTES, load, manifest_of
    from suffice.release.files import read_bounded

    data = read_bounded(path, MOST_BYTES)
    if data[:1] == b"{":  # a message; a release begins with its own name
        refuse_unused("with this file, which is no release", {"--explain": explain or None})
        show_message(data, json=json)
        return
    release = load(data)
    if json:
        sentences = [str(guarantee) for guarantee in release.guarantees]
        signer = None if release.signature is None else release.signature.key.hex()
        content = {**manifest_of(release), "sentences": sentences, "signed_by": signer}
        odds = {"odds": [shown.to_json() for shown in _explanations(release)]} if explain else {}
        show_json(content | odds)
        return
    with np.errstate(all="ignore"):  # numbers as large as a stranger likes
        lines = _description(release)
    show_pairs(lines)
    for shown in _explanations(release) if explain else ():
        if shown.rows:
            show_table(shown.title, ("belief before", "after, at most"), shown.rows)
        say(*([] if shown.rows else [f"{shown.title}:"]), *shown.notes)


def _explanations(release: Any) -> list[Any]:
    """Return what each guarantee means for a belief; guarantees of the same numbers once."""
    from suffice.privacy.odds import explain

    shown = [explain(guarantee) for guarantee in release.guarantees[:_PROMISES]]
    return [item for i, item in enumerate(shown) if item not in shown[:i]]


def _description(release: Any) -> list[tuple[str, str]]:
    from suffice.release.kinds import kind_named

    kind = kind_named(release.kind)
    lines = [("holds", kind.title), *_part_lines(release)]
    lines.append(("classes", listed(release.classes)))
    lines += kind.words(release)
    lines.append(("coordinates", _coordinates(release.pipeline.outputs)))
    temporal = [column for column in release.pipeline.columns if column.unit]
    if temporal:
        counted = listed(temporal, each=lambda column: f"{name(column.name)} in {column.unit}")
        lines.append(("dates", counted))
    lines.append(("scaling from", str(release.pipeline.origin)))
    if release.noise.form != "none":
        lines.append(("noise", kind.noise_words(release)))
    if release.pipeline.norm_bound < _NO_CLIP:
        lines.append(("clipped", f"rows have 2-norm at most {release.pipeline.norm_bound:.4g}"))
    lines.append(("written by", name(release.library)))
    signed = "no"
    if release.signature is not None:
        from suffice.release.signing import fingerprint

        signed = f"by key {fingerprint(release.signature)}; check whose it is with suffice verify"
    lines.append(("signed", signed))
    return lines


def _part_lines(release: Any) -> list[tuple[str, str]]:
    """Return what was promised about whose rows, owner by owner."""
    lines: list[tuple[str, str]] = []
    for number, part in enumerate(release.parts, 1):
        owner = f"owner {number}: " if len(release.parts) > 1 else ""
        lines += [(f"{owner}per {g.unit}", str(g)) for g in part.guarantees[:_PROMISES]]
        where = f", to be found at {phrase(part.rows.found_at)}" if part.rows.found_at else ""
        some = part.rows.labelled
        among = "" if some is None else f" of {some.rows:,}, those that have a label"
        rows = f"{part.rows.count:,}{among} ({part.rows.hash[:23]}...){where}"
        lines.append((f"{owner}rows", rows))
        if len(lines) > _PROMISES:
            break
    left_out = len(release.guarantees) - sum(head.split(": ")[-1] != "rows" for head, _ in lines)
    more = f"{left_out:,} more guarantees are in the file. Read all of them with --json."
    return [*lines, ("warning", more)] if left_out else lines


def _coordinates(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(name, names[:_SHOWN]))
    return f"{len(names)}: {shown}" + (", ..." if len(names) > _SHOWN else "")


def verify(
    path: Annotated[Path, typer.Argument(help="A release or model file.")],
    key: Annotated[
        Path | None, typer.Option(help="The public key of whoever should have signed it.")
    ] = None,
    proposal: Annotated[
        Path | None, typer.Option(help="The proposal that it should be granted to.")
    ] = None,
    answer: Annotated[Path | None, typer.Option(help="The answer that it came with.")] = None,
) -> None:
    """Check that a file is unaltered, signed with this key, and the one that was granted."""
    from suffice.release.codec import load
    from suffice.release.signing import verify as verify_release

    if (proposal is None) != (answer is None) or (key is None and answer is None):
        raise ParameterError("say what to check: --key, or --proposal with --answer, or all three.")
    if key is not None:
        verify_release(load(path), key)
        say(f"{path}: unaltered, and signed with {key}.")
    if proposal is not None and answer is not None:
        from suffice.transport.messages import Answer, Proposal
        from suffice.transport.protocol import check_answer

        check_answer(Proposal.load(proposal), Answer.load(answer), path)
        say(f"{path}: unaltered, and what {answer} grants to {proposal}.")


def audit(
    context: typer.Context,
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            help="Kinds of release, as inspect names them; with --public-part, as release does."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every kind.")] = False,
    thorough: Annotated[
        bool, typer.Option(help="Five times the outputs: tighter bounds, for patient people.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="Mechanisms at this epsilon, without their twins.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Where the search for neighbours starts; noise has no seed.")
    ] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write a page with plots, HTML.")
    ] = None,
    force: options.Force = False,
    public_part: Annotated[
        bool,
        typer.Option(
            "--public-part",
            help="Compare what releases of neighbouring data show beside the noise.",
        ),
    ] = False,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Neighbours that --public-part tries. Default: 60.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Attack mechanisms, and broken twins of them: say what each gives away at least.

    Exit code 1 if a mechanism is found to break its promise, or if a twin is not found out. With
    --public-part nothing is counted: exit code 1 if anything but the noise depends on a secret.
    """
    if public_part:
        flags = {"--all": everything, "--thorough": thorough, "--force": force}
        unused = {option: flag or None for option, flag in flags.items()}
        refuse_unused("with --public-part", unused | {"--epsilon": epsilon, "--output": output})
        with collected_notes():  # of the releases that are compared
            _audit_public_part(context, kinds or (), pairs or _PAIRS, seed, json=json)
        return
    refuse_unused("without --public-part", {"--pairs": pairs})
    from suffice.audit import auditor
    from suffice.audit.registry import cases_at, selected

    check_outputs(output, force=force)
    if bool(kinds) == everything:
        raise ParameterError("say what to audit: kinds of release, or --all.")
    chosen, effort = tuple(kinds or ()), 5.0 if thorough else 1.0

    def report_progress(done: int, total: int, finding: Any) -> None:
        say(f"{done}/{total} {finding.name}: {finding.verdict}", error=True)

    if epsilon is None:
        names = list(selected(chosen))
        findings = auditor.audit(names, seed=seed, effort=effort, progress=report_progress)
    else:
        cases = cases_at(epsilon, chosen)
        alpha = auditor.FAILURE / len(cases)
        findings = [
            auditor.audit_case(case, seed=seed, effort=effort, alpha=alpha) for case in cases
        ]
    if output is not None:
        from suffice.pages.audit import audit_page
        from suffice.release.files import write_whole

        page = audit_page(findings, auditor.COLUMNS, auditor.FAILURE)
        write_whole(output, page.encode(), overwrite=force)
    if json:
        show_json({"results": [finding.to_json() for finding in findings]})
    else:
        _show_findings(findings, auditor.FAILURE)
    if not all(finding.expected for finding in findings):
        raise typer.Exit(1)


def _audit_public_part(
    context: typer.Context, mechanisms: Sequence[str], pairs: int, seed: int, *, json: bool
) -> None:
    from suffice.audit.public_part.checking import check_public_part
    from suffice.audit.public_part.releasing import Said
    from suffice.cli.running import recorded

    program = context.find_root().command.main

    def command(words: Sequence[str]) -> Said:
        return Said(*recorded(program, words))

    with steps() as tell:
        asked = {"pairs": pairs, "seed": seed, "command": command, "progress": tell}
        verdict = check_public_part(mechanisms, **asked)
    if json:
        show_json(verdict.to_json())
    else:
        say(*verdict.lines())
    if verdict.differences:
        raise typer.Exit(1)


def _show_findings(findings: Sequence[Any], failure: float) -> None:
    from suffice.audit.auditor import COLUMNS

    for broken, title in ((False, "Mechanisms"), (True, "Broken twins, which must be found out")):
        rows = [finding.cells() for finding in findings if finding.broken == broken]
        if rows:
            show_table(title, COLUMNS, rows)
    strange = [finding.name for finding in findings if not finding.expected]
    say(
        f"All bounds hold together but for a probability of {failure:g}. A bound below a claim is"
        " no proof of the claim."
    )
    if strange:
        say(f"Not as it should be: {'; '.join(strange)}.", error=True)
