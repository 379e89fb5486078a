"""Pages: text is no markup, and numbers come with their range."""

from suffice.pages.report import (
    PageTable,
    describe_repeats,
    figure_html,
    mean_and_range,
    page,
    paragraphs,
    prose,
    table_html,
)


def test_text_is_never_markup():
    table = PageTable("a < b", ("<i>",), (("x & y",),))
    text = page("<title>", prose(["1 < 2"]) + table_html(table) + figure_html("<svg/>", "<b>"))
    for shown in ("&lt;title&gt;", "1 &lt; 2", "a &lt; b", "&lt;i&gt;", "x &amp; y", "&lt;b&gt;"):
        assert shown in text
    assert figure_html("<svg/>") == "<figure><svg/></figure>"


def test_paragraphs_and_ranges():
    assert paragraphs("\none\ntwo\n\nthree\n") == ("one two", "three")
    assert mean_and_range([0.5]) == "0.500"
    assert mean_and_range([0.25, 0.75]) == "0.500 (0.25-0.75)"
    assert describe_repeats(1, "split") == "one split"
    assert describe_repeats(3, "split") == "mean and range of 3 splits"
