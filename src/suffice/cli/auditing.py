"""Commands of those who want to know what they have before them: inspect, verify."""

from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options
from suffice.cli.output import show_json, show_pairs

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(inspect)
    app.command()(verify)


def inspect(
    path: Annotated[Path, typer.Argument(help="A release or model file.")],
    json: options.Json = False,
) -> None:
    """Say in words what a file holds and what was promised about it."""
    from suffice.release.codec import load, manifest_of

    release = load(path)
    if json:
        sentences = [str(guarantee) for guarantee in release.guarantees]
        signer = None if release.signature is None else release.signature.key.hex()
        show_json({**manifest_of(release), "sentences": sentences, "signed_by": signer})
        return
    show_pairs(_description(release))


def _description(release: Any) -> list[tuple[str, str]]:
    import math

    from suffice.release.kinds import kind_named
    from suffice.release.signing import fingerprint

    lines = [("holds", kind_named(release.kind).title)]
    for number, part in enumerate(release.parts, 1):
        owner = f"owner {number}: " if len(release.parts) > 1 else ""
        lines += [(f"{owner}per {g.unit}", str(g)) for g in part.guarantees]
        where = f", to be found at {part.rows.found_at}" if part.rows.found_at else ""
        lines.append((f"{owner}rows", f"{part.rows.count:,} ({part.rows.hash[:23]}...){where}"))
    lines.append(("classes", ", ".join(map(str, release.classes))))
    lines += [(name, str(value)) for name, value in release.details.items() if name != "classes"]
    lines.append(("coordinates", _coordinates(release.pipeline.outputs)))
    if release.noise.form == "identity":
        lines.append(("noise", f"{math.sqrt(release.noise.variance):.4g} on each coordinate"))
    lines.append(("clipped", f"rows have 2-norm at most {release.pipeline.norm_bound:.4g}"))
    lines.append(("written by", release.library))
    signed = "no"
    if release.signature is not None:
        signed = f"by key {fingerprint(release.signature)}; check whose it is with suffice verify"
    lines.append(("signed", signed))
    return lines


def _coordinates(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:6])
    return f"{len(names)}: {shown}" + (", ..." if len(names) > 6 else "")


def verify(
    path: Annotated[Path, typer.Argument(help="A release or model file.")],
    key: Annotated[Path, typer.Option(help="The public key of whoever should have signed it.")],
) -> None:
    """Check that a file is unaltered and signed with this key."""
    from suffice.release.codec import load
    from suffice.release.signing import verify as verify_release

    verify_release(load(path), key)
    typer.echo(f"{path}: unaltered, and signed with {key}.")
