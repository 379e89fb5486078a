"""Plain words: short sentences, no retired words in texts that people read, short commit subjects.

``python tests/test_words.py`` prints every offence, also those of files that are PENDING.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from followed_pages import ROOT
from retired_words import ALLOWED, RETIRED, exception
from suffice.cli.main import app

SRC = ROOT / "src" / "suffice"
DOCS = ROOT / "docs"
SHORT_PAGES = [
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in ("owner", "learner", "participant", "parties")),
    *(DOCS / f"{name}.md" for name in ("index", "glossary")),
    *sorted((DOCS / "api").glob("*.md")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "changelog.d").glob("*.md")),
]
DEVELOPER_PAGES = [
    ROOT / "CONTRIBUTING.md",
    DOCS / "architecture.md",
    *sorted((DOCS / "decisions").glob("*.md")),
]
USER_PAGES = [
    *SHORT_PAGES,
    *(
        DOCS / f"{name}.md"
        for name in (
            "auditor", "protocol", "choosing-epsilon", "promise",
            "known-holes", "threat-model", "tables", "scale",
        )
    ),
]  # fmt: skip
PAPERS = ("barber", "hamm", "iyer", "nock", "patrini")  # notes in papers/ speak each paper's words
LONGEST_SENTENCE = 30  # words
LONGEST_SUBJECT = 72  # characters
FIRST_COMMIT = "7da75cc"  # subjects are checked after this commit

# ------------------------------------------------------------------------------------------------
# TEMPORARY: files that somebody is rewriting at this moment. Empty this set after the merge.
PENDING: set[str] = set()
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A piece of text that people read, and where it stands."""

    file: str
    line: int
    words: str


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- Pages


_FENCE = re.compile(r"^\s*(```|~~~)")
_BLOCK_START = re.compile(r"^\s*(?:[-*+] |\d+\. |#{1,6} |>|\||!\[)")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_ABBREVIATION = re.compile(r"\b(?:et al|e\.g|i\.e|vs|cf|Fig|resp)\.$")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+")


def blocks(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of paragraphs, headings, list items, quotes and table cells; no code."""
    lines, start, fence = [], 0, ""
    text = re.sub(r"<!--.*?-->", lambda c: "\n" * c[0].count("\n"), markdown, flags=re.DOTALL)
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        mark = _FENCE.match(line)
        if mark and (not fence or fence == mark[1]):
            fence = "" if fence else mark[1]
        code = bool(fence) or mark is not None
        if lines and (code or not line.strip() or _BLOCK_START.match(line)):
            yield start, " ".join(lines)
            lines = []
        if code or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            cells = line.strip().strip("|").split("|")
            yield from ((number, cell.strip()) for cell in cells if re.search(r"\w", cell))
            continue
        start = start if lines else number
        lines.append(re.sub(r"^\s*(?:[-*+] |\d+\. |#+ |> ?)", "", line).strip())


def readable(block: str) -> str:
    """Return a block without the address of links, and with code as a single word."""
    return _LINK.sub(r"\1", re.sub(r"`+[^`]+`+", "CODE", block))


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (line of its block, sentence)."""
    for line, block in blocks(markdown):
        rest = ""
        for piece in _SENTENCE_END.split(readable(block)):
            rest = f"{rest} {piece}".strip()
            if not _ABBREVIATION.search(rest):
                yield line, rest
                rest = ""
        if rest:
            yield line, rest


def count_words(sentence: str) -> int:
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def long_sentences(page: Path) -> list[str]:
    return [
        f"{where(page)}:{line}: {count_words(sentence)} words: {sentence}"
        for line, sentence in sentences(page.read_text())
        if count_words(sentence) > LONGEST_SENTENCE
    ]


def page_texts(page: Path) -> Iterator[Text]:
    for line, block in blocks(page.read_text()):
        yield Text(where(page), line, _LINK.sub(r"\1", block))


# --- Help texts, as the program renders them


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield the command, and those below it."""
    yield path, command
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from commands(f"{path} {name}", command.get_command(context, name))


def help_texts() -> Iterator[Text]:
    """Yield the help of every command and option that is not hidden."""
    for path, command in commands("suffice", typer.main.get_command(app)):
        yield from (Text(path, 0, text) for text in (command.help or "").split("\n\n"))
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                yield Text(path, 0, f"{parameter.opts[0]}: {getattr(parameter, 'help', '') or ''}")


# --- Strings in the code: errors everywhere, all strings of cli/ and pages/, prose elsewhere


def _docstrings(tree: ast.Module) -> set[ast.Constant]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners)]
    return {
        body[0].value
        for body in bodies
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    }


def _string(node: ast.AST) -> str | None:
    """Return a string as it is written, with ``{}`` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(part) or "{}" for part in node.values)
    return None


def _strings(node: ast.AST, skipped: set[ast.Constant]) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the strings within ``node``; parts of an f-string as one."""
    text = None if node in skipped else _string(node)
    if text is not None:
        yield node.lineno, text
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child, skipped)


def code_texts(path: Path) -> Iterator[Text]:
    """Yield the strings of a module that people may read."""
    tree = ast.parse(path.read_text())
    docstrings = _docstrings(tree)
    raised = {
        item
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for item in _strings(node, set())
    }
    folders = path.relative_to(SRC).parts
    printing = folders[0] in ("cli", "pages")
    of_a_paper = folders[0] == "papers" and folders[-1].startswith(PAPERS)
    for line, text in _strings(tree, docstrings):
        prose = len(re.findall(r"[a-z]{2,} ", text)) >= 2 and not of_a_paper
        if printing or prose or (line, text) in raised:
            yield Text(where(path), line, text)


# --- Offences


_NAMES = re.compile(r"`+[^`]+`+|--[\w-]+|\bsuffice(?: [a-z][\w-]+){1,2}|\b\w+\.suffice\b")  # code


def retired_words(texts: Iterator[Text]) -> list[str]:
    """Return what is wrong, one line for each retired word."""
    return [
        f"{text.file}:{text.line}: {match[0]!r} (say: {entry.say}): {' '.join(text.words.split())}"
        for text in texts
        if not exception(text.file, text.words)
        for entry in RETIRED
        if (match := entry.search(_NAMES.sub(" ", text.words)))
    ]


def _report(offences: list[str], file: str) -> None:
    """Fail with every offence; print those of a pending file only."""
    print("\n".join(offences))  # noqa: T201
    if file not in PENDING:
        assert not offences, "\n" + "\n".join(offences)


def _report_all(places: Iterable[Path], offences_of: Callable[[Path], list[str]]) -> None:
    """Report each place, and fail with the offences of all of them."""
    failures = []
    for place in places:
        try:
            _report(offences_of(place), where(place))
        except AssertionError as error:
            failures.append(f"{where(place)}: {error}")
    assert not failures, "\n".join(failures)


def test_no_sentence_is_too_long():
    _report_all([*SHORT_PAGES, *DEVELOPER_PAGES], long_sentences)


def test_no_page_has_a_retired_word():
    _report_all(USER_PAGES, lambda page: retired_words(page_texts(page)))


def test_no_help_text_has_a_retired_word():
    _report(retired_words(help_texts()), "--help")


def test_no_message_has_a_retired_word():
    _report_all(sorted(SRC.rglob("*.py")), lambda module: retired_words(code_texts(module)))


def test_commit_subjects_fit_a_line():
    """From the first commit on that this test knows; skipped without that part of the history."""
    git = ["git", "-C", str(ROOT), "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if done.returncode:
        pytest.skip(f"commit {FIRST_COMMIT} is not in this copy of the history")
    subjects = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert not [line for line in subjects if len(line[1]) > LONGEST_SUBJECT]


# --- The tests above can fail


LONG = " ".join(["word"] * (LONGEST_SENTENCE + 1))


@pytest.mark.parametrize(
    "markdown",
    [
        f"Short. {LONG}. Short.",
        f"- item\n- {LONG}\n- item",
        f"1. {LONG}",
        f"> {LONG}",
        f"| a | {LONG} |",
        f"# {LONG}",
        f"[{LONG}](address.md)",
        f"See Hamm et al. {LONG}",
        "\n".join(LONG.split()),
        f"```\ncode\n```\n{LONG}\n```\ncode\n```",
    ],
)
def test_a_long_sentence_is_found_wherever_it_stands(markdown):
    lengths = [count_words(sentence) for _, sentence in sentences(markdown)]
    assert max(lengths) > LONGEST_SENTENCE


@pytest.mark.parametrize(
    "markdown",
    [
        f"```\n{LONG}\n```",
        f"<!-- {LONG} -->",
        f"`{LONG}`",
        "word " * 20 + "end. " + "suffice " + "word " * 20,
        "- " + "word " * 20 + "\n- " + "word " * 20,
        "| " + "word " * 20 + " | " + "word " * 20 + " |",
        "word " * 20 + "\n\n" + "word " * 20,
        "word " * 20 + "in an interval. " + "Word " * 20,
    ],
)
def test_what_is_no_long_sentence_is_not_reported(markdown):
    lengths = [count_words(sentence) for _, sentence in sentences(markdown)]
    assert max(lengths, default=0) <= LONGEST_SENTENCE


@pytest.mark.parametrize("entry", RETIRED, ids=lambda entry: entry.caught)
def test_a_pattern_finds_the_retired_use_only(entry):
    assert entry.search(entry.caught)
    assert not entry.search(entry.harmless)


def test_a_planted_word_is_found_in_every_place(tmp_path, monkeypatch):
    page, module = tmp_path / "page.md", tmp_path / "src" / "suffice" / "cli" / "module.py"
    module.parent.mkdir(parents=True)
    page.write_text("A page.\n\n- two crowds\n\n`crowd` is code.\n\n```\ncrowd\n```\n")
    module.write_text(
        '"""A crowd, in a docstring."""\n\n\ndef act(name):\n    print("crowd")\n'
        '    raise ValueError(f"{name} is a"\n        " crowd")\n'
    )
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "SRC", tmp_path / "src" / "suffice")
    assert [line.split(": ")[0] for line in retired_words(page_texts(page))] == ["page.md:3"]
    offences = [line.split(": ")[0] for line in retired_words(code_texts(module))]
    assert offences == ["src/suffice/cli/module.py:5", "src/suffice/cli/module.py:6"]
    assert any(text.words.startswith("--epsilon") for text in help_texts())


def test_every_exception_is_needed_and_has_a_reason():
    texts = [text for page in USER_PAGES for text in page_texts(page)]
    texts += [text for module in SRC.rglob("*.py") for text in code_texts(module)]
    texts += list(help_texts())
    for entry in ALLOWED:
        assert entry.reason
        assert any(
            entry.covers(text.file, text.words) and word.search(text.words)
            for text in texts
            for word in RETIRED
        ), entry


def test_a_pending_file_exists():
    assert all((ROOT / name).exists() or name == "--help" for name in PENDING)


if __name__ == "__main__":
    everything = [
        line for page in (*SHORT_PAGES, *DEVELOPER_PAGES) for line in long_sentences(page)
    ]
    everything += [line for page in USER_PAGES for line in retired_words(page_texts(page))]
    everything += retired_words(help_texts())
    for source in sorted(SRC.rglob("*.py")):
        everything += retired_words(code_texts(source))
    print("\n".join(everything))  # noqa: T201
