"""Pages: text is never markup, captions are sentences, and pages fit any screen, day and night."""

import re

import pytest

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
    table = PageTable("a < b.", ("first", "<i>"), (("x & y", '"z"'),))
    text = page("<title>", prose(["1 < 2"]) + table_html(table) + figure_html("<svg/>", "<b>."))
    for escaped in (
        "&lt;title&gt;", "1 &lt; 2", "a &lt; b", "&lt;i&gt;", "x &amp; y", "&quot;z&quot;",
        "&lt;b&gt;",
    ):  # fmt: skip
        assert escaped in text
    assert "<i>" not in text
    assert "<b>" not in text


def test_captions_and_titles_are_sentences():
    assert figure_html("<svg/>", "It rises.") == (
        '<figure><div role="img" aria-label="It rises."><svg/></div>'
        "<figcaption>It rises.</figcaption></figure>"
    )
    for caption in ("", "Accuracy by epsilon"):
        with pytest.raises(ValueError, match="must be a sentence with a full stop"):
            figure_html("<svg/>", caption)
        with pytest.raises(ValueError, match="must be a sentence with a full stop"):
            PageTable(caption, (), ())


def test_a_row_has_a_cell_for_every_column():
    with pytest.raises(ValueError, match="every row needs 2 cells"):
        PageTable("All.", ("a", "b"), (("1",),))


def test_cells_name_their_column_for_screens_without_room_for_a_table():
    text = table_html(PageTable("All.", ("name", "size"), (("a", "1"), ("b", "2"))))
    assert text.startswith('<div class="table"><table><caption>All.</caption>')
    assert '<tr><td>b</td><td data-column="size">2</td></tr>' in text


def rules(style: str, selector: str) -> str:
    """Return the declarations of all rules of a style sheet for exactly this selector."""
    return " ".join(
        match[2]
        for match in re.finditer(r"([^{};]+)\{([^{}]*)\}", style)
        if selector == match[1].strip()
    )


def test_a_page_fits_a_phone():
    text = page("title", "")
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "max-width: 46rem" in rules(style, "body")
    assert "overflow-wrap: anywhere" in rules(style, "body")
    assert "overflow-x: auto" in rules(style, ".table")
    assert "max-width: 100%" in rules(style, "svg")
    assert "white-space: pre-wrap" in rules(style, "pre")
    assert "minmax(min(100%, 18rem), 1fr)" in rules(style, ".panels")
    narrow = style.partition("@media (max-width: 38rem)")[2]
    assert "attr(data-column)" in narrow
    assert re.search(r"table, caption, tbody, tr, td \{ display: block", narrow)
    # No width in absolute units: it could exceed a screen.
    assert not re.search(r"(?<!max-)(?<!min-)width: \d+(px|in|cm|pt)", style)


def test_a_page_has_light_and_dark_colours_and_every_colour_has_both():
    text = page("title", "")
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert '<meta name="color-scheme" content="light dark">' in text
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{([^}]*)\}", style)
    light = re.search(r":root \{ color-scheme: light dark;([^}]*)\}", style)
    colours = [set(re.findall(r"(--\w+): #", block[1])) for block in (light, dark)]
    assert colours[0] == colours[1]
    rest = style.replace(dark[0], "").replace(light[0], "")
    assert not re.search(r"#[0-9a-f]{3,6}\b", rest)
    assert set(re.findall(r"var\((--\w+)\)", rest)) <= colours[0]


def test_paragraphs_and_ranges():
    assert paragraphs("\none\ntwo\n\nthree\n") == ("one two", "three")
    assert mean_and_range([0.5]) == "0.500"
    assert mean_and_range([0.25, 0.75]) == "0.500 (0.25-0.75)"
    assert describe_repeats(1, "split") == "one split"
    assert describe_repeats(3, "split") == "mean and range of 3 splits"
