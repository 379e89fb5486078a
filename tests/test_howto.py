"""How-tos can be followed: what the pages say to type works on the demo's tables.

A block of language ``sh`` holds commands, run here in the order of the page. A block of language
``text`` right after one holds what they print, word by word and number by number.
"""

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from suffice.cli.main import app
from suffice.owner.operator.mechanism import MeanOperator
from suffice.privacy.guarantee import compose
from suffice.study.demo.network import clinic_network, write_tables

DOCS = Path(__file__).parents[1] / "docs"
FOLLOWED = ("owner", "learner", "participant", "parties")
BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def steps(page: str) -> list[tuple[list[str], str]]:
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text())
    return [(code.replace("\\\n", " ").splitlines(), shown) for code, shown in blocks]


def run(command: str) -> str:
    program, *words = shlex.split(command)
    assert program == "suffice", command
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, (command, result.output)
    return result.stdout


def words(text: str) -> list[str | float]:
    """Return what is written, numbers as numbers, without the lines of tables."""
    found = re.sub(r"[┏┳┓┡╇┩└┴┘━│┃]", " ", text).split()
    return [float(w) if re.fullmatch(r"[\d.]+(e[+-]?\d+)?", w) else w for w in found]


@pytest.fixture
def clinic(small_tables, tmp_path, monkeypatch) -> Path:
    """Return a folder with the demo's tables and nothing else, and go there."""
    for table in small_tables.iterdir():
        (tmp_path / table.name).symlink_to(table)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(page, clinic):
    commands = [command for block, _ in steps(page) for command in block]
    assert len(commands) >= 5
    for command in commands:
        run(command)
    for made in re.findall(r" -o (\S+)", " ".join(commands)):
        assert (clinic / made).exists(), made


def test_forecasts_on_how_to_choose_epsilon_are_what_plan_prints(tmp_path, monkeypatch):
    write_tables(clinic_network(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    kinds = set()
    for commands, shown in steps("choosing-epsilon"):
        printed = words("".join(run(command) for command in commands))
        kinds.update(command.split()[2] for command in commands if "plan" in command)
        if shown:
            assert len(words(shown)) == len(printed)
            for told, found in zip(words(shown), printed, strict=True):
                if isinstance(told, float):
                    assert found == pytest.approx(told, rel=0.02)
                else:
                    assert found == told
    assert kinds == {"mean-operator", "rados", "proportions", "parties"}


def cells(head: str) -> list[list[str]]:
    """Return the table of choosing-epsilon.md whose head begins so, without its rule."""
    text = (DOCS / "choosing-epsilon.md").read_text()
    table = text[text.index(f"| {head}") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [rows[0], *rows[2:]]


def test_what_epsilon_means_is_what_bayes_says():
    """Odds grow by e^epsilon at most."""
    head, *rows = cells("guess before")
    assert len(rows) == 3
    for row in rows:
        guess, *most = (float(cell.strip(" %")) / 100 for cell in row)
        for epsilon, stated in zip(head[1:], most, strict=True):
            odds = math.exp(float(epsilon)) * guess / (1 - guess)
            assert stated == pytest.approx(odds / (1 + odds), abs=5.1e-4)


def test_several_releases_cost_what_the_page_says():
    head, *rows = cells("releases")
    rows_of_nobody = np.random.default_rng(0).standard_normal((100, 2))
    for row, delta in zip(rows, (1e-6, 0.0), strict=True):
        mechanism = MeanOperator(0.1, delta, mechanism=row[0].split(",")[0])
        one = mechanism.forecast(rows_of_nobody).guarantee
        for count, stated in zip(head[1:], row[1:], strict=True):
            cost = compose([one] * int(count), delta=1e-5).epsilon
            assert cost == pytest.approx(float(stated), abs=2e-3)
