"""Options that several commands share, declared once; those of releases are their fields."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Json", "Label", "LedgerPath", "Output", "SigningKey", "TablePath"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TablePath = Annotated[
    Path, typer.Argument(help="Parquet, CSV or Feather file, or a folder of them.")
]
Label = Annotated[str, typer.Option(help="The private column.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.")]
SigningKey = Annotated[Path | None, typer.Option("--sign", help="Sign with this private key.")]
