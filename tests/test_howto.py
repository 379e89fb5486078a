"""How-tos can be followed: what the pages say to type works on the demo's tables.

Pages are run as `followed_pages` describes: ``sh`` blocks in the order of the page, and ``text``
blocks compared with what the commands above them print.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from followed_pages import ROOT, check_output, run, steps
from suffice.demo.story import clinic_network, write_tables
from suffice.owner.mean_operator import MeanOperator
from suffice.privacy.guarantee import compose

DOCS = ROOT / "docs"
FOLLOWED = ("owner", "learner", "participant", "parties", "ledger", "officer", "service")


@pytest.fixture
def clinic(small_tables, tmp_path, monkeypatch) -> Path:
    """Return a folder with the demo's tables and nothing else, and go there."""
    for table in small_tables.iterdir():
        (tmp_path / table.name).symlink_to(table)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed(page, clinic):
    commands = [command for block, _ in steps(DOCS / f"{page}.md") for command in block]
    assert len(commands) >= 5
    for command in commands:
        run(command)
    for output in re.findall(r" -o (\S+)", " ".join(commands)):
        assert (clinic / output).exists(), output


def test_forecasts_on_how_to_choose_epsilon_are_what_plan_prints(tmp_path, monkeypatch):
    write_tables(clinic_network(), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    kinds = set()
    for commands, stated in steps(DOCS / "choosing-epsilon.md"):
        printed = "".join(run(command) for command in commands)
        kinds.update(command.split()[2] for command in commands if "plan" in command)
        if stated:
            check_output(stated, printed)
    assert kinds == {"mean-operator", "rados", "proportions", "parties"}


def cells(head: str) -> list[list[str]]:
    """Return the table of choosing-epsilon.md whose head begins so, without its rule."""
    text = (DOCS / "choosing-epsilon.md").read_text()
    table = text[text.index(f"| {head}") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [rows[0], *rows[2:]]


def test_what_epsilon_means_is_what_bayes_says():
    """Odds grow by e^epsilon at most."""
    head, *rows = cells("belief before")
    assert len(rows) == 3
    for row in rows:
        guess, *most = (float(cell.strip(" %")) / 100 for cell in row)
        for epsilon, stated in zip(head[1:], most, strict=True):
            odds = math.exp(float(epsilon)) * guess / (1 - guess)
            exact = odds / (1 + odds)
            assert exact <= stated < min(1, exact + 1e-3)  # rounded up


def test_several_releases_cost_what_the_page_says():
    head, *rows = cells("releases")
    rows_of_nobody = np.random.default_rng(0).standard_normal((100, 2))
    for row, delta in zip(rows, (1e-6, 0.0), strict=True):
        mechanism = MeanOperator(0.1, delta, mechanism=row[0].split(",")[0], map=None)
        guarantee = mechanism.forecast(rows_of_nobody).guarantee
        for count, stated in zip(head[1:], row[1:], strict=True):
            cost = compose([guarantee] * int(count), delta=1e-5).epsilon
            assert cost == pytest.approx(float(stated), abs=2e-3)
