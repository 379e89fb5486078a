"""How a release looks in a notebook: kind, every guarantee, arrays; no text of a file is markup."""

from dataclasses import replace
from pathlib import Path

import pytest

from suffice.privacy.guarantee import Assumption
from suffice.releases.codec import load
from suffice.releases.release import Part

FOLDER = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.suffice")), ids=lambda path: path.stem)
def test_every_kind_shows_all_of_its_guarantees_and_arrays(path):
    release = load(path)
    line, page = repr(release), release._repr_html_()
    assert line.startswith(f"<Release {release.kind}: {release.rows:,} rows; per ")
    for guarantee in release.guarantees:
        assert repr(guarantee).removeprefix("<Guarantee ").removesuffix(">") in line
        assert f">Per {guarantee.unit}</th>" in page
    assert all(f">Array {name}</th>" in page for name in release.arrays)
    assert page.count("<tr>") == page.count("</tr>")


def test_text_of_a_file_is_neither_markup_nor_control():
    release = load(FOLDER / "mean-operator.suffice")
    paint = "<script>alert(1)</script>\x1b[2J"
    (guarantee,) = release.guarantees
    lie = replace(guarantee, public=(paint,), assumptions=(Assumption(paint, paint),))
    painted = replace(release, parts=(Part(release.parts[0].rows, (lie,)),))
    page = painted._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;") == 3
