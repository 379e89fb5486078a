"""`suffice inspect` shows every guarantee of a release; --explain, what each means for a belief."""

import json
from pathlib import Path

import pytest

from suffice.releases.codec import load

FOLDER = Path(__file__).parents[1] / "fixtures"


@pytest.mark.parametrize("name", ["mean-operator", "responses", "rados", "proportions", "votes"])
def test_every_guarantee_is_shown_and_explained(suffice, name):
    path = FOLDER / f"{name}.suffice"
    printed = suffice("inspect", str(path), "--explain")
    guarantees = load(path).guarantees
    for guarantee in guarantees:
        assert f"per {guarantee.unit} " in printed
    assert printed.count("How sure a reader may become of") == len(guarantees)
    assert printed.count("belief before") == sum(g.protected for g in guarantees)
    assert "How sure" not in suffice("inspect", str(path))


def test_a_program_gets_the_numbers(suffice):
    path = str(FOLDER / "survey.suffice")
    told = json.loads(suffice("inspect", path, "--explain", "--json"))
    assert [shown["rows"][0] for shown in told["odds"]] == [
        ["1 %", "3 %"],
        ["1 %", "5.8 %"],
        ["1 %", "42.8 %"],
    ]
    assert "odds" not in json.loads(suffice("inspect", path, "--json"))


def test_only_a_release_is_explained(suffice):
    refused = suffice("inspect", str(FOLDER / "proposal.json"), "--explain", code=2)
    assert "--explain" in refused
