"""`suffice ledger`: what fits, what several charges cost together, and a charge without output."""

import json
import re
from pathlib import Path

import pytest

from suffice.owner.ledger import Ledger
from suffice.owner.ledger.rules import Request
from suffice.privacy.events import Gaussian
from suffice.privacy.guarantee import Budget, Guarantee, Unit


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(400))
    (tmp_path / "t.csv").write_text("x,sick\n" + rows)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def release(suffice, epsilon: str, request: str, *more: str) -> None:
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "t.csv",
        "--label",
        "sick",
        "--epsilon",
        epsilon,
    )
    suffice(*words, "--ledger", "l", "--dataset", "d", "--request", request, "-o", request, *more)


@pytest.mark.usefixtures("desk")
def test_what_if_names_an_epsilon_that_fits_and_no_larger_one_does(suffice):
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", "2", "--classes", "0,1")
    release(suffice, "0.5", "a")
    text = suffice("ledger", "what-if", "l", "--dataset", "d")
    assert text == "A release of 'd' may have epsilon 1.5 at most, at delta 0.\n"
    data = json.loads(suffice("ledger", "what-if", "l", "--dataset", "d", "--json"))
    assert data["largest_epsilon"] == 1.5
    release(suffice, "1.5", "b")
    assert "No further release of 'd'" in suffice("ledger", "what-if", "l", "--dataset", "d")
    assert suffice("ledger", "what-if", "l", "--dataset", "e", code=5).count("\n") == 1


@pytest.mark.usefixtures("desk")
def test_history_gives_the_sum_and_what_all_charges_cost_together(suffice):
    budget = ("--epsilon", "4", "--delta", "1e-5", "--classes", "0,1")
    suffice("ledger", "init", "l", "--dataset", "d", *budget)
    gaussian = ("--delta", "1e-6", "--noise", "gaussian")
    release(suffice, "0.5", "a", *gaussian)
    for request in "bcd":
        release(suffice, "0.5", request, *gaussian)
    text = suffice("ledger", "history", "l")
    line = re.search(
        r"d, per label: the charges' epsilons add up to (\S+); spent is (\S+) of 4", text
    )
    assert line is not None
    assert float(line[1]) == pytest.approx(2.0, rel=1e-3)
    assert float(line[2]) == pytest.approx(Ledger("l").balances()[0].spent, rel=1e-3)
    assert float(line[2]) < 1.2


def test_a_charge_without_output_is_not_called_burnt(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("l", {"d": Budget(2.0, 1e-5)})
    guarantee = Guarantee(Unit.LABEL, Gaussian(5.0), 1e-6)
    ledger.debit("d", [guarantee], Request("r", {"delta": 1e-6}, "print"))
    ledger.abandon("d", "r")
    text = suffice("ledger", "history", "l")
    assert "charged, output lost" in text
    assert "burnt" not in text
