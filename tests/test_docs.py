"""Documents that cannot drift: links lead somewhere, the README's code is an example that runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_code_of_the_readme_is_the_first_example():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    assert (ROOT / "examples" / "first_minute.py").read_text().endswith(code)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_run(example, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_commands_of_the_readme_exist():
    from suffice.cli.reference import reference

    commands = re.findall(
        r"^suffice +([\w-]+(?: +(?:init|mean-operator))?)",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(commands) >= 5
    for command in commands:
        assert f"## `suffice {' '.join(command.split())}`" in reference()


def test_every_make_target_that_is_promised_is_there():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("env", "demo", "test", "lint", "docs", "audit", "bench"):
        assert re.search(rf"^{target}: .*##", makefile, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_pinned_versions_are_names_and_numbers_only():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line


def test_changelog_fragments_have_a_known_type():
    for path in (ROOT / "changelog.d").glob("*.md"):
        assert path.suffixes[0] in (".added", ".changed", ".fixed", ".privacy")
        assert path.read_text().strip()
