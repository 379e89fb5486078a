"""How a release looks in a notebook: what it is, its guarantees in words, and its arrays."""

from collections.abc import Sequence

from suffice.plain_text import listed, markup, name
from suffice.privacy.guarantee import Guarantee
from suffice.privacy.words import lists, sentences
from suffice.release.claims import Stated
from suffice.release.kinds import kind_named

__all__ = ["html_of", "line_of"]

_MOST = 20  # guarantees in a notebook; all are in ``release.guarantees``


def line_of(release: Stated) -> str:
    """Return a release in one line: kind, rows and guarantees."""
    costs = [repr(guarantee)[len("<Guarantee ") : -1] for guarantee in release.guarantees[:_MOST]]
    more = len(release.guarantees) - len(costs)
    listing = "; ".join(dict.fromkeys(costs)) + (f"; and {more} more" if more else "")
    return f"<Release {release.kind}: {release.rows:,} rows; {listing}>"


def html_of(release: Stated) -> str:
    """Return a release as HTML in which no text from a file is markup."""
    rows = [("Holds", kind_named(release.kind).title), ("Rows", f"{release.rows:,}")]
    if len(release.parts) > 1:
        rows.append(("Owners", f"{len(release.parts):,}"))
    rows.append(("Classes", listed(release.classes)))
    said = dict.fromkeys((str(g.unit), " ".join(sentences(g))) for g in release.guarantees[:_MOST])
    rows += [(f"Per {unit}", text) for unit, text in said]
    rows += _lists(release.guarantees[:_MOST])
    if len(release.guarantees) > _MOST:
        rows.append(("More", f"{len(release.guarantees) - _MOST:,} more guarantees"))
    for array_name, array in release.arrays.items():
        rows.append((f"Array {name(array_name)}", f"{array.dtype}, shape {array.shape}"))
    cells = (f"<tr><th>{markup(head)}</th><td>{markup(text)}</td></tr>" for head, text in rows)
    return f"<table>{''.join(cells)}</table>"


def _lists(guarantees: Sequence[Guarantee]) -> list[tuple[str, str]]:
    """Return what is public and what is assumed, each list once."""
    lines = dict.fromkeys(line for guarantee in guarantees for line in lists(guarantee))
    pairs = (line.partition(": ") for line in lines)
    return [(head, text) for head, _, text in pairs]
