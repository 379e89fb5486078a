"""Drawings to files, by the ending of their name."""

import io
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError
from suffice.release.files import write_whole

__all__ = ["check_plot", "save_plot"]

_FORMATS = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Raise unless a drawing can be written to a file of that name."""
    if path.suffix.lower() not in _FORMATS:
        raise ParameterError(
            f"a plot must be written to a file that ends in {', '.join(_FORMATS)}."
        )


def save_plot(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib's to ``path``, whole or not at all."""
    check_plot(path)
    file = io.BytesIO()
    figure.savefig(file, format=path.suffix.lower().removeprefix("."))
    write_whole(path, file.getvalue())
