"""Text from files is shown, never obeyed: on a terminal, on a page, in a sheet."""

import ast
import doctest
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import crafted_files
from suffice import plain_text, strict_json
from suffice.cli import output
from suffice.privacy.events import Unbounded
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Unit

CLI = Path(output.__file__).parent
any_text = st.text(st.characters(), max_size=400)


@given(any_text)
def test_whatever_is_shown_is_one_line_that_can_be_seen(text):
    for shown in (
        plain_text.escaped(text),
        plain_text.quoted(text),
        plain_text.name(text),
        plain_text.phrase(text),
        plain_text.sheet_cell(text),
        plain_text.listed([text, text]),
    ):
        assert shown.isprintable()
        shown.encode()  # no half of a character
    assert not {"<", ">"} & set(plain_text.markup(text).replace("&lt;", "").replace("&gt;", ""))
    assert plain_text.markup(text).replace("\n", "").isprintable()


@given(st.text("abcxyz 0123456789", min_size=1, max_size=40).map(lambda t: " ".join(t.split())))
def test_plain_words_stay_as_they_are(text):
    if text:
        assert (
            plain_text.name(text) == plain_text.phrase(text) == plain_text.sheet_cell(text) == text
        )


@pytest.mark.parametrize("text", crafted_files.TEXTS[1:14])
def test_what_could_be_read_as_ours_is_quoted_and_cut(text):
    for shown in (plain_text.name(text), plain_text.phrase(text)):
        assert shown.startswith('"')
        assert shown.endswith('"')
        assert len(shown) < 2000
        assert "    " not in shown


@pytest.mark.parametrize(
    "text", ["a. Protects each label", "x = 1", "a  b", "a, b. c", "Really? Protects"]
)
def test_a_phrase_cannot_end_the_sentence_it_stands_in(text):
    assert plain_text.phrase(text) == f'"{text}"'


def test_many_names_are_counted():
    assert plain_text.listed(range(3)) == "0, 1, 2"
    assert plain_text.listed("ab", last=" and ") == "a and b"
    assert plain_text.listed(range(10_000)).endswith("and 9,988 more")


def test_formulas_become_text_and_numbers_stay():
    for text in ("=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "\uff1d1"):
        assert plain_text.sheet_cell(text).startswith("'")
    for text in ("-1", "+1.5", "-", "+", "healthy", "a=b", "1e-3"):
        assert plain_text.sheet_cell(text) == text


def test_a_promise_holds_no_sentence_of_a_stranger():
    paint = "x. Protects each label: epsilon = 0.1\n\x1b[2J"
    nothing = Guarantee(
        Unit.RECORD,
        Unbounded(),
        kind=Protection.NONE,
        public=(paint,),
        assumptions=(Assumption(paint, paint),),
    )
    assert str(nothing).isprintable()
    assert str(nothing).count('"x. Protects each label') == 3


def test_only_one_module_of_the_command_line_writes_to_a_terminal():
    for path in CLI.glob("*.py"):
        if path.name in {"output.py", "reference.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node, "attr", getattr(node, "id", ""))
            assert name not in {"print", "echo", "secho", "write", "Console"} or (
                name == "write"
                and path.name == "building.py"  # into the page of help, our own words
            ), f"{path.name}:{node.lineno}"


def test_tables_pairs_lines_and_json_show_escapes(capsys):
    paint = "\x1b[2J\u202ex\ny"
    output.show_table(paint, [paint], [[paint]])
    output.show_pairs([(paint, paint)])
    output.say(paint)
    output.say(paint, error=True)
    output.show_json({"a": paint})
    printed = capsys.readouterr()
    assert (printed.out + printed.err).replace("\n", "").isprintable()
    assert json.loads(printed.out[printed.out.index("{") :])["a"] == paint


def test_predictions_in_csv_hold_no_formula(tmp_path):
    from suffice.tables.files import write_table

    names = ["=1+1", "no", None, "\x1b[2J"]
    table = pa.table({"prediction": names, "probability": [0.5] * 4})
    write_table(table, tmp_path / "p.csv", for_sheets=True)
    text = (tmp_path / "p.csv").read_text()
    assert text.splitlines()[1].startswith('"\'=1+1"')
    assert "\x1b" not in text
    write_table(table, tmp_path / "q.csv")
    assert "'=" not in (tmp_path / "q.csv").read_text()
    write_table(table, tmp_path / "p.parquet", for_sheets=True)
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "p.parquet")["prediction"].to_pylist() == names


def test_pages_show_markup_and_controls():
    from suffice.pages.report import PageTable, page, prose, table_html

    paint = "<script>\x1b\u202e"
    for html in (
        page(paint, ""),
        prose([paint]),
        table_html(PageTable(f"{paint}.", (paint,), ((paint,),))),
    ):
        assert "<script" not in html
        assert html.replace("\n", "").isprintable()


@pytest.mark.parametrize("module", [plain_text, strict_json], ids=lambda module: module.__name__)
def test_examples_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("mark", ["\u0301", "\u20dd"], ids=["accent", "circle"])
def test_few_marks_stand_on_one_letter(mark):
    """More of them paint over the lines above; on the next letter as many are allowed again."""
    escape = mark.encode("unicode_escape").decode()
    for shown in (plain_text.escaped, plain_text.markup, plain_text.sheet_cell):
        assert shown("a" + 4 * mark) == "a" + 4 * mark
        assert shown("a" + 6 * mark) == "a" + 4 * mark + 2 * escape
        assert shown(2 * ("a" + 4 * mark)) == 2 * ("a" + 4 * mark)


def test_letters_that_look_blank_are_shown_as_escapes():
    for letter in "\u115f\u1160\u2800\u3164\uffa0":
        assert letter not in plain_text.escaped(f"a{letter}b")


def test_markup_cannot_leave_an_attribute():
    assert plain_text.markup("\"><a href='x'>") == "&quot;&gt;&lt;a href=&#x27;x&#x27;&gt;"


def test_text_in_quotes_cannot_close_them():
    assert plain_text.quoted('a" b') == '"a\\" b"'
    assert plain_text.quoted('a\\" b') == '"a\\\\\\" b"'


WATCHED = """
import sys, time
from suffice.plain_text import WATCH, sign_of_life
with sign_of_life("fitting", after=0.05), sign_of_life("inner", after=0.0):
    time.sleep(0.3)
with sign_of_life("short", after=60.0):
    pass
with WATCH, sign_of_life("behind a bar", after=0.0):
    time.sleep(0.1)
"""


def test_a_long_call_shows_a_person_that_it_lives_and_nobody_else():
    words = [sys.executable, "-c", WATCHED]
    assert subprocess.run(words, capture_output=True, check=True).stderr == b""
    ours, theirs = pty.openpty()
    subprocess.run(words, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert shown.startswith("\rfitting: 0 s")
    assert shown.endswith("\r")
    assert shown.count("fitting") == 1
    assert "inner" not in shown
    assert "bar" not in shown
    assert "short" not in shown
