"""Pages that studies write: one self-contained HTML file, figures drawn inside it."""

import html
import io
from collections.abc import Callable
from typing import Any

__all__ = ["figure_svg", "page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem;
       color: #1d2733; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #d8dee6; }
svg { width: 100%; height: auto; }
"""


def page(title: str, body: str) -> str:
    """Return a whole HTML page; ``body`` is markup already."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>"
    )


def figure_svg(draw: Callable[[Any], None]) -> str:
    """Return what ``draw`` put on a pair of axes, as an SVG element; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.25)
    draw(axes)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().partition("<svg")[1] + file.getvalue().partition("<svg")[2]
