"""Pages of studies: text is no markup, and a figure shows its panels and no others."""

from suffice.pages.report import Table, figure_svg, page, paragraphs, prose, spread, table_html


def test_text_is_never_markup():
    table = Table("a < b", ("<i>",), (("x & y",),))
    text = page("<title>", prose(["1 < 2"]) + table_html(table))
    for shown in ("&lt;title&gt;", "1 &lt; 2", "a &lt; b", "&lt;i&gt;", "x &amp; y"):
        assert shown in text


def test_a_figure_has_as_many_panels_as_drawings():
    for count in (1, 2, 3):
        svg = figure_svg(*[lambda axes: axes.plot([0, 1], label="line")] * count)
        assert svg.startswith("<svg")
        assert svg.count('id="matplotlib.axis_') == 2 * count
        assert svg.count('id="legend_1"') == 1


def test_paragraphs_and_spreads():
    assert paragraphs("\none\ntwo\n\nthree\n") == ("one two", "three")
    assert spread([0.5]) == "0.500"
    assert spread([0.25, 0.75]) == "0.500 (0.25-0.75)"
