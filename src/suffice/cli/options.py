"""Options that several commands share, declared once; those of releases are their fields."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from suffice.options import REQUIRED, options_of, output_option

__all__ = [
    "AnchorPlace",
    "Force",
    "Json",
    "JsonOutput",
    "LedgerPath",
    "Output",
    "OutputFile",
    "Overwriting",
    "SigningKey",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
LedgerPath = Annotated[
    str, typer.Argument(help="The ledger's file, or postgresql://HOST/DATABASE.", metavar="PATH")
]
AnchorPlace = Annotated[
    str | None,
    typer.Option(
        "--anchor",
        metavar="FILE|command:PROGRAM|none",
        help="Where the end of the log is also kept. Default: a file in your state folder.",
    ),
]
SigningKey = Annotated[
    Path | None, typer.Option("--sign", help="Sign the file with this private key.")
]


@dataclass(frozen=True, kw_only=True)
class JsonOutput:
    """How a command reports."""

    json: bool = output_option(False, "Print JSON for programs.")


@dataclass(frozen=True, kw_only=True)
class Overwriting:
    """Whether a command may write over files that exist."""

    force: bool = output_option(
        False,
        "Overwrite a file that exists. Ledgers, private keys, surveys and their answers are never"
        " overwritten.",
    )


Force = Annotated[bool, typer.Option("--force", help=options_of(Overwriting)["force"].help)]


@dataclass(frozen=True, kw_only=True)
class OutputFile(JsonOutput, Overwriting):
    """The file that a command writes, and how it reports."""

    output: Path = output_option(
        REQUIRED,
        "The file to write.",
        name="--output",
        short="-o",
        parse=Path,
        path=Path,
        writes=True,
    )
