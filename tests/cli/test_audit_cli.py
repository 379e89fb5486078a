"""`suffice audit`: a table, JSON, a page, and an exit code that scripts can rely on."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from suffice.audit import auditor, cases_proportions, registry
from suffice.audit.case import Case
from suffice.audit.search import Pair
from suffice.cli.main import app
from suffice.errors import ParameterError


def call(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["audit", *words], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def few(monkeypatch):
    """Audit fewer outputs: what is shown is under test here, not what is found."""
    small = {
        name: replace(case, samples=case.samples // 4)
        for name, case in registry.all_cases().items()
    }
    monkeypatch.setattr(registry, "all_cases", lambda: small)
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
    broken_copy = few["label-responses, 2 classes / too few flips"]
    sound = few["label-responses, 2 classes"]
    for case in (replace(broken_copy, broken=False), replace(sound, broken=True)):
        monkeypatch.setattr(registry, "all_cases", lambda case=case: {case.name: case})
        code, out, err = call("label-responses")
        assert code == 1
        assert "does not prove the statement" in out
        assert "Not as expected" in err


@pytest.mark.usefixtures("few")
def test_what_to_audit_has_to_be_said():
    for words in ((), ("votes", "all")):
        with pytest.raises(ParameterError, match="or all"):
            call(*words)
    with pytest.raises(ParameterError, match="No kind of release is called 'vote'"):
        call("vote")


def test_a_seed_is_a_natural_number():
    with pytest.raises(ParameterError, match=r"^--seed must be 0 or more\.$"):
        call("label-responses", "--seed", "-1")
    with pytest.raises(ParameterError, match=r"^--effort must be a number above 0\.$"):
        call("rados", "--compare=releases", "--effort", "0")


def test_an_epsilon_of_ones_own_is_audited_without_twins(monkeypatch):
    for name in ("CHEAP", "SOME"):
        monkeypatch.setattr(cases_proportions, name, 1000)
    done = CliRunner().invoke(app, ["audit", "proportions", "--epsilon", "0.7", "--json"])
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)["results"]
    assert {result["kind"] for result in results} == {"proportions"}
    assert all(result["claimed"] <= 0.7 * (1 + 1e-9) and not result["broken"] for result in results)
    with pytest.raises(ParameterError, match="cannot be used with 'rados'"):
        CliRunner().invoke(app, ["audit", "rados", "--epsilon", "1"], catch_exceptions=False)


def coin_cases() -> Iterator[Case]:
    """Yield a coin that shows one private bit with probability .6, and one that shows it always."""

    def coin(keep: float) -> Callable[[tuple[int], int], np.ndarray]:
        rng = np.random.default_rng(3)
        return lambda bit, times: np.where(rng.random((times, 1)) < keep, bit[0], 1 - bit[0])

    case = Case(
        "coin", "coin-toss", claimed=math.log(0.6 / 0.4), delta=0.0, sample=coin(0.6), score=None,
        pairs=lambda _: [Pair((0,), (1,))], samples=4000,
    )  # fmt: skip
    yield case
    yield case.broken_copy("shown", "the bit leaves as it is", sample=coin(1.0))


def coin_at(epsilon: float) -> Iterator[Case]:
    case = next(iter(coin_cases()))
    yield replace(case, claimed=epsilon)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    registry.register_cases("coin-toss", coin_cases, coin_at)
    yield
    registry.read_again()


@pytest.mark.usefixtures("registered")
def test_cases_registered_in_process_are_audited_like_all_others():
    code, out, err = call("coin-toss", "--json")
    assert code == 0, err
    results = {result["name"]: result["violated"] for result in json.loads(out)["results"]}
    assert results == {"coin": False, "coin / shown": True}
    code, out, _ = call("coin-toss", "--epsilon", "0.5", "--json")
    assert code == 0, out
    assert [result["claimed"] for result in json.loads(out)["results"]] == [0.5]


@pytest.mark.usefixtures("registered")
def test_cases_registered_in_process_run_beside_those_of_other_processes(monkeypatch):
    """Processes that are started anew lack them: they run here, and keep their place."""
    monkeypatch.setattr(auditor, "_PER_WORKER", 1)
    names = ["coin", "label-responses, 2 classes", "coin / shown", "label-responses, 3 classes"]
    findings = auditor.audit(names, effort=0.05, workers=2)
    assert [finding.name for finding in findings] == names
    assert all(finding.expected for finding in findings)


@pytest.mark.usefixtures("registered")
def test_a_family_is_registered_once_and_its_names_are_its_own():
    for kind in ("coin-toss", "rados"):
        with pytest.raises(ParameterError, match="already"):
            registry.register_cases(kind, coin_cases)
    registry.register_cases("other-coins", coin_cases)
    with pytest.raises(ParameterError, match="Two audit cases are called 'coin'"):
        registry.all_cases()
