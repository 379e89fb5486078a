"""Options that several commands share, declared once; those of releases are their fields."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from suffice.engines.opening import Computing, EngineName
from suffice.options import REQUIRED, options_of, output_option
from suffice.tables.missing_rule import MissingRule

__all__ = [
    "TABLE_HELP",
    "Engine",
    "Force",
    "Json",
    "Label",
    "LedgerPath",
    "MissingValues",
    "Output",
    "OutputFile",
    "Overwriting",
    "Scheduler",
    "SigningKey",
    "TablePath",
    "Workers",
]

TABLE_HELP = (
    "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them; also an address (s3://..., or"
    " that of a database with --query)."
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TablePath = Annotated[
    str,
    typer.Argument(help=TABLE_HELP),
]
Label = Annotated[str, typer.Option(help="The private column.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.")]
MissingValues = Annotated[
    MissingRule | None,
    typer.Option(
        "--missing",
        help="What a missing value becomes: an error, the mean of its column, or zero. Default: as"
        " the release has it.",
    ),
]
SigningKey = Annotated[Path | None, typer.Option("--sign", help="Sign with this private key.")]
_COMPUTING = options_of(Computing)
Engine = Annotated[EngineName | None, typer.Option(help=_COMPUTING["engine"].help)]
Workers = Annotated[int | None, typer.Option(help=_COMPUTING["workers"].help)]
Scheduler = Annotated[str | None, typer.Option(help=_COMPUTING["scheduler"].help)]


@dataclass(frozen=True, kw_only=True)
class Overwriting:
    """Whether a command may write over files that exist."""

    force: bool = output_option(
        False,
        "Write over a file that exists; never over a ledger, a private key, or a survey and its"
        " answers.",
    )


Force = Annotated[bool, typer.Option("--force", help=options_of(Overwriting)["force"].help)]


@dataclass(frozen=True, kw_only=True)
class OutputFile(Overwriting):
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
    json: bool = output_option(False, "Print JSON for programs.")
