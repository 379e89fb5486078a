"""Commands of the two-agent protocol: propose (the learner), grant (the owner)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from suffice.cli import options
from suffice.cli.building import Asked, make_command, selected_fields
from suffice.cli.checks import check_outputs
from suffice.cli.options import OutputFile
from suffice.cli.output import progress, say, show_json, show_pairs
from suffice.cli.reading import Decimal, Delimiter, Encoding, OrderBy, Reading, SqlQuery
from suffice.cli.releasing import save_paid
from suffice.options import REQUIRED, Option, data_option, names, output_option
from suffice.plain_text import name, phrase
from suffice.strict_json import is_digest

__all__ = ["COMMANDS", "register", "show_message"]

_SHOWN = 8  # of many columns, or reasons


def register(app: typer.Typer) -> None:
    """Add the owner's command; that of the learner is made when it is asked for."""
    app.command()(grant)


@dataclass(frozen=True, kw_only=True)
class _Proposed(OutputFile):
    """What a proposal needs beside the fields of the release that it asks for."""

    rows: Path = data_option(
        REQUIRED, "The public rows, which both sides hold.", path=Path, argument=True
    )
    features: list[str] | None = data_option(
        None,
        "Feature columns, with commas (repeatable). Default: all columns.",
        parse=names,
        many=True,
    )
    purpose: str = output_option("", "What it is for, in words, for the owner.")


def _propose_command() -> TyperCommand:
    """Return ``suffice propose``."""
    from suffice.owner.operator.mechanism import MeanOperator

    asked_for = ("epsilon", "delta", "mechanism", "classes", "map", "missing", "pipeline")

    def shared(name: str, declared: Option) -> Option | None:
        required = replace(declared, required=name == "epsilon")
        return required if name in asked_for else None

    def run(asked: Asked) -> None:
        from suffice.transport import protocol

        given = _Proposed(**asked.values["given"])
        proposal = protocol.propose(
            asked.make("reading", Reading).table(given.rows),
            features=given.features,
            purpose=given.purpose,
            **asked.values["operator"],
        )
        proposal.save(given.output, overwrite=given.force)
        _show(proposal, {"written": [str(given.output)]}, json=given.json)

    parts = {
        "given": _Proposed,
        "reading": Reading,
        "operator": selected_fields(MeanOperator, shared),
    }
    summary = "Ask an owner for the mean operator of public rows, at a price; writes a proposal."
    return make_command("propose", parts, run, help=summary)


COMMANDS = {"propose": _propose_command}


def grant(
    proposal: Annotated[Path, typer.Argument(help="What a learner proposed.")],
    table: options.TablePath,
    label: options.Label,
    policy: Annotated[Path, typer.Option(help="What you grant, as JSON; see docs/protocol.md.")],
    ledger: Annotated[Path, typer.Option(help="The ledger that pays.")],
    dataset: Annotated[str, typer.Option(help="The data set's name in the ledger.")],
    output: options.Output,
    answer: Annotated[
        Path | None, typer.Option(help="The answer to write; default: OUTPUT with .answer.json.")
    ] = None,
    pipeline_from: Annotated[
        Path | None, typer.Option(help="The release whose pipeline the proposal names.")
    ] = None,
    like: Annotated[Path | None, typer.Option(hidden=True)] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    query: SqlQuery = None,
    order_by: OrderBy = None,
    sign: options.SigningKey = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Answer a proposal; ends with status 0 if granted, 8 if countered, 9 if refused."""
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.policy import Policy
    from suffice.release.codec import load
    from suffice.transport import protocol
    from suffice.transport.messages import Proposal

    named = pipeline_from or like  # its former name
    given = (proposal, table, policy, ledger, named, sign)
    reply_path = answer or output.with_suffix(".answer.json")
    check_outputs(output, reply_path, reads=given, force=force)
    asked, limits = Proposal.load(proposal), Policy.load(policy)
    with progress("reading") as tell:
        reply, release = protocol.grant(
            asked,
            Reading(
                delimiter=delimiter,
                decimal=decimal,
                encoding=encoding,
                query=query,
                order_by=order_by,
            ).table(table),
            policy=limits,
            ledger=Ledger(ledger),
            dataset=dataset,
            label=label,
            pipeline=load(named).pipeline if named else None,
            key=sign,
            tell=_tell_owner,
            progress=tell,
        )
    if release is not None:
        save_paid(release, output, force=force)  # first: an answer must not name what is not there
    reply.save(reply_path, overwrite=force)
    written = [str(path) for path in ([] if release is None else [output]) + [reply_path]]
    _show(reply, {"written": written}, json=json)
    raise typer.Exit(reply.exit_code)


def _tell_owner(note: str) -> None:
    """Print what depends on labels where the owner alone sees it; no file and no status does."""
    say(f"suffice: for you alone: {note}", error=True)


def show_message(data: bytes, *, json: bool) -> None:
    """Print what a proposal or an answer says."""
    from suffice.transport.messages import Message

    _show(Message.load(data), {}, json=json)


def _show(message: Any, more: dict[str, Any], *, json: bool) -> None:
    content = message.to_json()
    if json:
        show_json({**more, **content})
        return

    hidden = {"message", "version", "digest"}
    told = {key: v for key, v in content.items() if key not in hidden and v not in (None, "")}
    lines = {**more, message.name: message.digest, **told}
    show_pairs([(key, _words(value)) for key, value in lines.items()])


def _words(value: Any) -> str:
    """Return a field of a message for reading."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        words = [phrase(str(item)) for item in value[:_SHOWN]]
        more = f" and {len(value) - _SHOWN} more" if len(value) > _SHOWN else ""
        return "; ".join(words) + more
    if isinstance(value, str) and is_digest(value):
        return f"{value[:23]}..."
    return phrase(value) if isinstance(value, str) else name(value)
