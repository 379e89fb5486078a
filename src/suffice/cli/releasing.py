"""What every release command ends with: which ledger is charged, which file is written."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from suffice.cli.checks import refuse_unused
from suffice.cli.options import OutputFile
from suffice.cli.output import say, show_json, show_pairs
from suffice.errors import ParameterError, StorageError
from suffice.options import budget_option, output_option
from suffice.plain_text import listed

__all__ = [
    "ReleaseOptions",
    "ledger_arguments",
    "save_charged",
    "with_ledger_classes",
    "write_release",
]


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(OutputFile):
    """Where a release goes, how it is signed, and how it is reported."""

    no_ledger: bool = budget_option(
        False, "Release without a ledger: nothing will limit the total."
    )
    sign: Path | None = output_option(
        None, "Sign the file with this private key.", parse=Path, path=Path
    )


def ledger_arguments(payment: Mapping[str, Any], options: ReleaseOptions) -> dict[str, Any]:
    """Return the ledger's arguments of a release; to have none takes an option of its own."""
    if ("ledger" in payment) == options.no_ledger:
        raise ParameterError(
            "Choose a ledger: --ledger FILE --dataset NAME. To release without a budget, use"
            " --no-ledger."
        )
    if options.no_ledger:
        unused = {f"--{name}": payment.get(name) for name in ("dataset", "request")}
        refuse_unused("with --no-ledger", unused)
    return {"ledger": None, **payment}


def with_ledger_classes(
    fields: Mapping[str, Any], payment: Mapping[str, Any], label: str | None, mechanism: Any
) -> dict[str, Any]:
    """Return the fields of a mechanism, with the classes of the ledger unless others are given."""
    ledger, dataset = payment.get("ledger"), payment.get("dataset")
    has_classes = "classes" in mechanism.__dataclass_fields__
    if not has_classes or "classes" in fields or ledger is None or not dataset:
        return dict(fields)
    declared = ledger.classes(dataset, label)
    return dict(fields) if declared is None else {**fields, "classes": declared}


def write_release(
    release: Any, options: ReleaseOptions, report: Any = None, made: Any = None
) -> None:
    """Sign a release if there is a key, save it, and print what it protects.

    ``report`` is for the owner only; it goes to the terminal, and into the JSON. ``made`` says when
    the release was charged, if it was.
    """
    from suffice.release.signing import sign

    if options.sign is not None:
        release = sign(release, options.sign)
    if options.no_ledger:
        release.save(options.output, overwrite=options.force)
    else:
        save_charged(release, options.output, force=options.force)
    facts = {} if report is None else {key: _json_value(v) for key, v in report.facts.items()}
    if options.json:
        guarantees = [guarantee.to_json() for guarantee in release.guarantees]
        counts = facts or {"rows": release.rows}
        charged = {}
        if made is not None:
            day = made.time.date().isoformat()
            charged = {"repeated": made.repeated, "made": day}
        show_json({"written": str(options.output), **charged, **counts, "guarantees": guarantees})
        return
    for line in () if report is None else report.lines:
        say(f"suffice: {line}", error=True)
    show_pairs(
        [
            ("written", str(options.output)),
            *(() if report is None else report.shown),
            ("features", listed([column.name for column in release.pipeline.columns]) or "none"),
            *((f"per {guarantee.unit}", str(guarantee)) for guarantee in release.guarantees),
        ]
    )


def save_charged(release: Any, output: Path, *, force: bool) -> None:
    """Save a release that was charged to a ledger; if that fails, say that it is not lost."""
    try:
        release.save(output, overwrite=force)
    except StorageError as error:
        raise StorageError(
            f"{error} The release was charged and is not lost. Run the same command with another"
            " --output: the ledger returns the same file at no charge."
        ) from None


def _json_value(value: Any) -> Any:
    """Return a fact as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_json_value(item) for item in value] if isinstance(value, list | tuple) else value
