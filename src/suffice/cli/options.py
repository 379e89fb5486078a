"""Options that several commands share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Categories",
    "Classes",
    "Clip",
    "DataChanged",
    "Dataset",
    "DeclaredClasses",
    "Delta",
    "FeatureMap",
    "Features",
    "FoundAt",
    "Intercept",
    "Json",
    "Label",
    "LedgerFile",
    "LedgerPath",
    "Like",
    "Mechanism",
    "Missing",
    "NoLedger",
    "Output",
    "Request",
    "SigningKey",
    "TablePath",
    "Unprotected",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TablePath = Annotated[
    Path, typer.Argument(help="Parquet, CSV or Feather file, or a folder of them.")
]
Label = Annotated[str, typer.Option(help="The private column.")]
Features = Annotated[
    list[str] | None,
    typer.Option(help="Feature columns, with commas (repeatable); default: all but the label."),
]
Classes = Annotated[
    str, typer.Option(help="The labels that can occur, with commas; the last of two is positive.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=A,B,C: declared categories (repeatable); in quotes if with a comma."),
]
FeatureMap = Annotated[
    str | None,
    typer.Option("--map", help="Public feature map: rff:512, nystroem:200, polynomial:2, pca:50."),
]
Clip = Annotated[
    float | None,
    typer.Option(help="Clip rows at this quantile of their norms; default: by their width."),
]
Intercept = Annotated[
    float | None,
    typer.Option(help="Weight of the intercept, 0 for none; default: a quarter of the norm bound."),
]
Mechanism = Annotated[
    str,
    typer.Option(
        help="laplace, gaussian, knorm, response; auto: the best for a classifier; sums: the best"
        " but response."
    ),
]
Missing = Annotated[str, typer.Option(help="Missing values: error, mean or zero.")]
Delta = Annotated[float, typer.Option(help="Needed by the Gaussian mechanism.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
Like = Annotated[
    Path | None, typer.Option(help="Use the pipeline of this release, so that both can merge.")
]
Unprotected = Annotated[
    bool,
    typer.Option(
        "--unprotected",
        help="Publish it even if it is not differentially private, or protects a column only when"
        " that is read alone.",
    ),
]
LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.")]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="The ledger that pays.")]
Dataset = Annotated[str | None, typer.Option(help="The data set's name in the ledger.")]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Release without one.")]
Request = Annotated[
    str | None, typer.Option(help="A name for this request; a new name draws (and pays) anew.")
]
DataChanged = Annotated[
    bool,
    typer.Option(
        "--data-changed",
        help="The data of this name were changed since earlier releases; same budget.",
    ),
]
DeclaredClasses = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="The labels that can occur, with commas; the last of two is positive; default: those"
        " of the ledger, or 0,1.",
    ),
]
FoundAt = Annotated[str | None, typer.Option(help="Where the public rows may be found.")]
SigningKey = Annotated[Path | None, typer.Option("--sign", help="Sign with this private key.")]
