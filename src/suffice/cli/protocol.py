"""Commands of the two-agent protocol: propose (the learner), grant (the owner)."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice import options as parsing
from suffice.cli import options
from suffice.cli.checks import check_outputs
from suffice.cli.output import progress, say, show_json, show_pairs
from suffice.options import values
from suffice.plain_text import name, phrase
from suffice.strict_json import is_digest

__all__ = ["register", "show_message"]

_SHOWN = 8  # of many columns, or reasons


def register(app: typer.Typer) -> None:
    """Add the commands of both agents."""
    app.command()(propose)
    app.command()(grant)


def propose(
    rows: Annotated[Path, typer.Argument(help="The public rows, which both sides hold.")],
    epsilon: Annotated[float, typer.Option(help="What the release may cost each label.")],
    output: options.Output,
    delta: options.Delta = 0.0,
    mechanism: options.Mechanism = "auto",
    features: Annotated[
        list[str] | None,
        typer.Option(help="Feature columns, with commas (repeatable); default: all."),
    ] = None,
    classes: options.Classes = "0,1",
    feature_map: options.FeatureMap = None,
    missing: options.Missing = "error",
    like: options.Like = None,
    purpose: Annotated[str, typer.Option(help="What it is for, in words, for the owner.")] = "",
    json: options.Json = False,
) -> None:
    """Ask an owner for the mean operator of public rows, at a price; writes a proposal."""
    from suffice.release.codec import load
    from suffice.transport import protocol

    check_outputs(output, reads=(rows, like))
    proposal = protocol.propose(
        rows,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        features=parsing.names(features),
        classes=values(classes),
        map=feature_map,
        missing=missing,  # type: ignore[arg-type]  # checked where it is used
        pipeline=load(like).pipeline if like else None,
        purpose=purpose,
    )
    proposal.save(output)
    _show(proposal, {"written": [str(output)]}, json=json)


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
    like: Annotated[
        Path | None, typer.Option(help="The release whose pipeline the proposal names.")
    ] = None,
    sign: options.SigningKey = None,
    json: options.Json = False,
) -> None:
    """Answer a proposal; ends with status 0 if granted, 8 if countered, 9 if refused."""
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.policy import Policy
    from suffice.release.codec import load
    from suffice.transport import protocol
    from suffice.transport.messages import Proposal

    given = (proposal, table, policy, ledger, like, sign)
    check_outputs(output, answer, reads=given)
    reply_path = answer or output.with_suffix(".answer.json")
    check_outputs(reply_path, reads=given)
    asked, limits = Proposal.load(proposal), Policy.load(policy)
    with progress("reading") as tell:
        reply, release = protocol.grant(
            asked,
            table,
            policy=limits,
            ledger=Ledger(ledger),
            dataset=dataset,
            label=label,
            pipeline=load(like).pipeline if like else None,
            key=sign,
            tell=_tell_owner,
            progress=tell,
        )
    if release is not None:
        release.save(output)  # first: an answer must not name a file that is not there
    reply.save(reply_path)
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
