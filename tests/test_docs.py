"""Documents that cannot drift: links lead somewhere, and the README's commands and code run."""

import math
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_reference import reference
from followed_pages import ROOT, check_output, glossary, run, steps
from suffice.audit.registry import all_cases
from suffice.demo.story import clinic_network, write_tables

README = ROOT / "README.md"
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
INVENTED = {("release", "class-counts")}  # the mechanism that architecture.md adds as an example
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        assert (page.parent / target).exists(), target


@pytest.fixture
def run_example(tmp_path, monkeypatch, capsys) -> Callable[[Path], str]:
    """Return what runs an example in an empty folder, warnings being errors.

    In this process, where noise repeats itself: other noise could make a learner warn.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))

    def run_it(example: Path) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(str(example), run_name="__main__")
        return capsys.readouterr().out

    return run_it


def test_the_code_of_the_readme_is_the_first_example_and_prints_what_it_says(run_example):
    block = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text(), re.DOTALL)
    example = ROOT / "examples" / "first_minute.py"
    assert example.read_text().endswith(block[1])
    assert run_example(example) == block[2]


def test_the_commands_of_the_readme_print_what_it_says(tmp_path, monkeypatch):
    """Whatever the noise is: it moves the accuracy by far less than the 2 % that are allowed."""
    write_tables(clinic_network(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    blocks = steps(README)
    assert len(blocks) == 2
    for commands, stated in blocks:
        assert stated, commands
        check_output(stated, "".join(run(command) for command in commands))


def test_a_wrong_number_in_an_output_is_noticed():
    check_output("accuracy 0.92 on\n...\nsigned no\n", "accuracy 0.921 on 3 rows\nsigned no\n")
    for stated in ("accuracy 0.82 on\n...\n", "accuracy 0.92 on\n", "...\nsigned yes\n"):
        with pytest.raises(AssertionError, match="the page states"):
            check_output(stated, "accuracy 0.921 on 3 rows\nsigned no\n")


def test_the_odds_of_the_readme_are_those_of_bayes_rounded_up():
    """Odds grow by e^epsilon at most; the table never states less, and at most .1 % more."""
    text = README.read_text()
    head, _, *rows = text[text.index("| before |") :].split("\n\n")[0].splitlines()
    epsilons = [float(cell.strip().removeprefix("epsilon ")) for cell in head.split("|")[2:-1]]
    assert len(rows) == 3
    for row in rows:
        before, *after = (float(cell.strip(" %")) / 100 for cell in row.split("|")[1:-1])
        for epsilon, stated in zip(epsilons, after, strict=True):
            odds = math.exp(epsilon) * before / (1 - before)
            assert 0 <= stated - odds / (1 + odds) < 1e-3


def test_the_figure_of_accuracy_shows_its_table():
    check = [sys.executable, str(ROOT / "docs" / "accuracy_figure.py"), "--check"]
    assert subprocess.run(check, check=False).returncode == 0, "run docs/accuracy_figure.py"


def test_the_promise_counts_the_audited_mechanisms():
    audited = sum(not case.broken for case in all_cases().values())
    promise = (ROOT / "docs" / "promise.md").read_text()
    assert f"{audited} mechanisms" in " ".join(promise.split())


def test_examples_run_one_after_the_other_in_one_folder(run_example):
    """Also a second time: what an example finds there is its own, or of no use to it."""
    for example in (*EXAMPLES, *EXAMPLES[:2]):
        assert run_example(example), example


def test_every_example_is_explained():
    for example in EXAMPLES:
        source = example.read_text()
        assert source.startswith('"""'), example
        assert source.count("\n# ") >= 2 or len(source.splitlines()) < 20, example
        assert f"[{example.name}]({example.name})" in (ROOT / "examples" / "README.md").read_text()


def test_the_tests_that_pages_name_exist():
    sources = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    definition = re.compile(r"^def (test_\w+)", re.MULTILINE)
    existing = {name for source in sources for name in definition.findall(source)}
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    assert len(named) > 20
    assert named <= existing, named - existing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_that_a_page_names_exist(page):
    paths = [tuple(path.split()) for path in re.findall(r"## `suffice (.*)`", reference())]
    groups = {path[0] for path in paths if len(path) > 1}
    code = re.findall(r"^```\w*\n.*?^```|`[^`]+`", page.read_text(), re.MULTILINE | re.DOTALL)
    mentions = re.findall(
        r"(?:^|(?<=`))suffice +([a-z][\w-]+)(?: +([a-z][\w-]+)\b(?![./]))?",
        "\n".join(code),
        re.MULTILINE,
    )
    for first, second in mentions:
        if first in groups and second:
            assert (first, second) in {*paths, *INVENTED}, (first, second)
        else:
            assert first in groups or (first,) in paths, first
    assert page != README or len(mentions) > 5


def test_the_glossary_is_sorted_and_every_word_is_used():
    terms = list(glossary())
    assert len(terms) > 30
    assert terms == sorted(terms, key=str.casefold)
    pages = [page for page in PAGES if page.name not in ("glossary.md", "cli.md")]
    text = " ".join(" ".join([*(page.read_text() for page in pages), reference()]).split())
    unused = [term for term in terms if not re.search(rf"\b{term}s?\b", text, re.IGNORECASE)]
    assert not unused


def test_every_make_target_that_is_promised_is_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("env", "demo", "serve", "test", "lint", "docs", "audit", "bench"):
        assert re.search(rf"^{target}: .*##", makefile, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_pinned_versions_are_names_and_numbers_only():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def test_changelog_fragments_have_a_known_type():
    for path in (ROOT / "changelog.d").glob("*.md"):
        assert path.suffixes[0] in (".added", ".changed", ".fixed", ".privacy")
        assert path.read_text().strip()
