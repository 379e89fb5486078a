"""What every release command ends with: who pays, where the file goes, and what is reported."""

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

__all__ = ["Written", "paid_by", "save_paid", "with_ledger_classes", "write_release"]


@dataclass(frozen=True, kw_only=True)
class Written(OutputFile):
    """Where a release goes, how it is signed, and how it is reported."""

    no_ledger: bool = budget_option(
        False, "Release without a ledger: nothing will limit the total."
    )
    sign: Path | None = output_option(
        None, "Sign the file with this private key.", parse=Path, path=Path
    )


def paid_by(payment: Mapping[str, Any], written: Written) -> dict[str, Any]:
    """Return who pays, as a mechanism wants to know it; that nobody does must be said aloud."""
    if ("ledger" in payment) == written.no_ledger:
        raise ParameterError(
            "Choose a ledger: --ledger FILE --dataset NAME. To release without a budget, use"
            " --no-ledger."
        )
    if written.no_ledger:
        named = {"--dataset": "dataset", "--request": "request", "--data-changed": "data_changed"}
        unused = {name: payment.get(field) or None for name, field in named.items()}
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


def write_release(release: Any, written: Written, report: Any = None) -> None:
    """Sign a release if there is a key, save it, and say what it promises.

    ``report`` is what the owner alone may know; it goes to the terminal, and into the JSON.
    """
    from suffice.release.signing import sign

    if written.sign is not None:
        release = sign(release, written.sign)
    if written.no_ledger:
        release.save(written.output, overwrite=written.force)
    else:
        save_paid(release, written.output, force=written.force)
    facts = {} if report is None else {key: _plain(v) for key, v in report.facts.items()}
    if written.json:
        promises = [guarantee.to_json() for guarantee in release.guarantees]
        counted = facts or {"rows": release.rows}
        show_json({"written": str(written.output), **counted, "guarantees": promises})
        return
    for line in () if report is None else report.lines:
        say(f"suffice: {line}", error=True)
    show_pairs(
        [
            ("written", str(written.output)),
            *(() if report is None else report.shown),
            ("features", listed([column.name for column in release.pipeline.columns]) or "none"),
            *((f"per {guarantee.unit}", str(guarantee)) for guarantee in release.guarantees),
        ]
    )


def save_paid(release: Any, output: Path, *, force: bool) -> None:
    """Save a release that a ledger paid for; if that fails, say that it is not lost."""
    try:
        release.save(output, overwrite=force)
    except StorageError as error:
        raise StorageError(
            f"{error} The release is paid for: run the same command again with another --output,"
            " and the ledger returns the same bytes at no further cost."
        ) from None


def _plain(value: Any) -> Any:
    """Return a fact as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
