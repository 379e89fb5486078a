"""`suffice inspect` reads every kind of file that suffice writes, and shows nothing private."""

import json
from pathlib import Path

import pytest

from suffice.protocol.messages import Proposal


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    rows = "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("x,y,sick\n" + rows)
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{k % 7},{k % 5}\n" for k in range(60)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def both(suffice, path: str) -> tuple[str, dict]:
    """Return what is printed for people, and for programs."""
    return suffice("inspect", path), json.loads(suffice("inspect", path, "--json"))


@pytest.mark.usefixtures("desk")
def test_a_ledger(suffice):
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", "2", "--delta", "1e-5")
    before = Path("l").read_bytes()
    text, data = both(suffice, "l")
    assert "a ledger: budgets, and the charges of all releases" in text
    assert data["budgets"][0]["dataset"] == "d"
    assert data["charges"] == 0
    assert Path("l").read_bytes() == before


@pytest.mark.usefixtures("desk")
def test_keys_and_no_secret(suffice):
    suffice("keygen", "clinic")
    secret = Path("clinic.key").read_text().splitlines()[1]
    public, data = both(suffice, "clinic.pub")
    assert "a public key, which verifies signatures" in public
    assert data["key"] == "public"
    private, other = both(suffice, "clinic.key")
    assert "Keep it secret." in private
    assert other["fingerprint"] == data["fingerprint"]
    assert secret not in private + json.dumps(other)
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "t.csv",
        "--label",
        "sick",
        "--epsilon",
        "1",
    )
    suffice(*words, "--no-ledger", "--sign", "clinic.key", "-o", "r.suffice")
    assert f"by key {data['fingerprint']}" in suffice("inspect", "r.suffice")
    Path("odd.pub").write_text("-----BEGIN PUBLIC KEY-----\nnone\n-----END PUBLIC KEY-----\n")
    assert "holds no Ed25519 key" in suffice("inspect", "odd.pub", code=3)


@pytest.mark.usefixtures("desk")
def test_a_survey_its_answers_and_the_memory_of_them(suffice):
    new = ("survey", "new", "--categories", "ill=no,yes", "--range", "age=0,120")
    noise = ("--noise-variance", "400", "--flip", "0.25")
    suffice(*new, *noise, "--text", "ill=Are you ill?", "-o", "s.json")
    text, data = both(suffice, "s.json")
    assert "question ill" in text
    assert "Are you ill?" in text
    assert "a number from 0 to 120" in text
    assert data["suffice"] == "survey"
    suffice("survey", "respond", "s.json", "--truth", "ill=no", "--truth", "age=40", "-o", "a.json")
    text, data = both(suffice, "a.json")
    assert "a participant's answers, changed at random" in text
    assert set(data["answers"]) == {"ill", "age"}
    text, data = both(suffice, "a.json.memory")
    assert "Keep it, and do not send it." in text
    assert len(data["memory"]["costs"]) == 1
    assert data["memory"]["costs"][0][0] > 1


@pytest.mark.usefixtures("desk")
def test_a_contribution_and_none_of_its_numbers(suffice):
    contribute = ("contribute", "t.csv", "--label", "sick", "--aux", "rows.csv", "-o", "north.part")
    suffice(*contribute)
    text, data = both(suffice, "north.part")
    assert "not private. Only the aggregator, whom the party trusts, may read it." in text
    assert "the mean operator of the party's votes" in text
    assert data["contribution"]["party"] == "north"
    assert data["contribution"]["shape"][0] == 1
    assert "array" not in data["contribution"]


@pytest.mark.usefixtures("desk")
def test_a_proposal_with_all_columns_a_policy_and_every_answer(suffice):
    suffice("propose", "rows.csv", "--epsilon", "2", "--purpose", "a trial", "-o", "p.json")
    text, data = both(suffice, "p.json")
    for word in ("a learner's proposal", "epsilon 2, delta 0", "2 columns", "x, y", "a trial"):
        assert word in text
    assert data["features"] == ["x", "y"]
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", "3", "--classes", "0,1")
    answers = {"1": (8, "a counter-proposal"), "2": (0, "the proposal is granted")}
    for largest, (code, words) in answers.items():
        Path("policy.json").write_text(json.dumps({"largest_epsilon": float(largest)}))
        assert f"epsilon {largest}, delta 0" in suffice("inspect", "policy.json")
        grant = ("grant", "p.json", "t.csv", "--label", "sick", "--policy", "policy.json")
        files = ("--ledger", "l", "--dataset", "d", "-o", f"{largest}.suffice")
        suffice(*grant, *files, code=code)
        assert words in suffice("inspect", f"{largest}.answer.json")
    assert "would grant" in suffice("inspect", "1.answer.json")
    Path("policy.json").write_text(json.dumps({"largest_epsilon": 5, "features": ["x"]}))
    suffice("propose", "rows.csv", "--epsilon", "1", "-o", "q.json")
    files = ("--ledger", "l", "--dataset", "d", "-o", "no.suffice")
    suffice("grant", "q.json", *grant[2:], *files, code=9)
    assert "the proposal is refused" in suffice("inspect", "no.answer.json")


@pytest.mark.usefixtures("desk")
def test_many_columns_are_all_shown(suffice):
    suffice("propose", "rows.csv", "--epsilon", "2", "-o", "p.json")
    proposal = Proposal.load("p.json")
    names = tuple(f"column{k}" for k in range(300))
    content = proposal.to_json() | {"features": list(names)}
    fields = {key: content[key] for key in ("kind", "missing", "purpose")}
    Proposal(
        **fields, terms=proposal.terms, rows=proposal.rows, features=names, classes=(0, 1)
    ).save("q.json")
    text = suffice("inspect", "q.json")
    assert "300 columns" in text
    assert all(name in text for name in names)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("content", ['{"a": 1}', "[1]", "{", '{"suffice": "answer"}'])
def test_other_files_are_refused_in_one_line(suffice, content):
    Path("other.json").write_text(content)
    line = suffice("inspect", "other.json", code=3)
    assert line.count("\n") == 1
