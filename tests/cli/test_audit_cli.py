"""`suffice audit`: a table, JSON, a page, and an exit code that scripts can rely on."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from suffice.audit import cases, cases_proportions
from suffice.cli.main import app
from suffice.errors import ParameterError


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["audit", *words], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def few(monkeypatch):
    """Audit fewer outputs: what is shown is under test here, not what is found."""
    small = {
        name: replace(case, samples=case.samples // 4) for name, case in cases.all_cases().items()
    }
    monkeypatch.setattr(cases, "all_cases", lambda: small)
    return small


@pytest.mark.usefixtures("few")
def test_json_holds_every_case_of_the_kind_and_the_page_its_plots(tmp_path):
    page = tmp_path / "audit.html"
    code, out, err = call("label-responses", "--json", "-o", str(page))
    assert code == 0, out
    document = json.loads(out)
    assert list(document) == ["results"]
    for result in document["results"]:
        assert {"name", "claimed", "delta", "lower_bound", "violated", "broken"} <= set(result)
        assert result["violated"] == result["broken"]
        assert result["kind"] == "label-responses"
        assert result["name"] in err  # a line of progress each
    assert {result["broken"] for result in document["results"]} == {True, False}
    text = page.read_text()
    assert text.count("<svg") >= 2
    assert "sets by response / sets by label" in text


def test_a_mechanism_that_breaks_its_promise_and_a_twin_that_hides_fail_the_run(few, monkeypatch):
    twin = few["label-responses, 2 classes / too few flips"]
    sound = few["label-responses, 2 classes"]
    for case in (replace(twin, broken=False), replace(sound, broken=True)):
        monkeypatch.setattr(cases, "all_cases", lambda case=case: {case.name: case})
        code, out, err = call("label-responses")
        assert code == 1
        assert "no proof of the claim" in out
        assert "Not as it should be" in err


@pytest.mark.usefixtures("few")
def test_what_to_audit_has_to_be_said():
    for words in ((), ("votes", "--all")):
        with pytest.raises(ParameterError, match="--all"):
            call(*words)
    with pytest.raises(ParameterError, match="no kind 'vote'"):
        call("vote")


def test_a_seed_is_a_natural_number():
    code, _, err = call("label-responses", "--seed", "-1")
    assert code == 2
    assert "--seed" in err


def test_an_epsilon_of_ones_own_is_audited_without_twins(monkeypatch):
    for name in ("CHEAP", "SOME"):
        monkeypatch.setattr(cases_proportions, name, 1000)
    done = CliRunner().invoke(app, ["audit", "proportions", "--epsilon", "0.7", "--json"])
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)["results"]
    assert {one["kind"] for one in results} == {"proportions"}
    assert all(one["claimed"] <= 0.7 * (1 + 1e-9) and not one["broken"] for one in results)
    with pytest.raises(ParameterError, match="not for 'rados'"):
        CliRunner().invoke(app, ["audit", "rados", "--epsilon", "1"], catch_exceptions=False)
