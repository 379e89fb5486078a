"""The two-agent protocol as files: propose, grant, fit, and every way in which it can go wrong."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.cli.main import run
from suffice.errors import BurntRequestError, ForeignAnswerError, LedgerError, UnitError
from suffice.owner.ledger import Ledger
from suffice.owner.policy import Policy, Terms
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import check_answer, grant, propose
from suffice.protocol.messages import Answer, Countered, Granted, Message, Proposal, Refused
from suffice.releases.codec import load

POLICY = {"largest_epsilon": 5, "largest_delta": 1e-6, "least_rows": 100}
GRANT = ("--label", "sick", "--policy", "policy.json", "--ledger", "l", "--dataset", "d")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Make a folder with both sides' tables, a policy and a ledger with epsilon 8."""
    from builders import clinic_table

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    table = clinic_table(rows=400)
    pq.write_table(table, "clinic.parquet")
    pq.write_table(table.drop_columns(["sick"]).take(np.arange(400)[::-1]), "public.parquet")
    Path("policy.json").write_text(json.dumps(POLICY))
    Ledger("l", {"d": Budget(8.0, 1e-5)}, {"d": {"sick": (0, 1)}})
    return tmp_path


@pytest.fixture
def suffice(desk, monkeypatch, capsys):
    """Return the program, run whole but in this process: quick, and with its exit status."""
    assert Path.cwd() == desk

    def call(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["suffice", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            run()
        done = capsys.readouterr()
        assert end.value.code == code, done.err
        if code not in (0, 8, 9):
            assert done.err.startswith("suffice: ")
            assert done.err.count("\n") == 1
        return done.err if code not in (0, 8, 9) else done.out

    return call


def spent() -> float:
    return Ledger("l").balances()[0].spent


def test_the_whole_story_from_proposal_to_model(suffice):
    out = suffice(
        "propose", "public.parquet", "--epsilon", 5, "--purpose", "a [/b] study", "-o", "p"
    )
    assert "a [/b] study" in out
    suffice("keygen", "owner")
    suffice("inspect", "p")
    words = ("grant", "p", "clinic.parquet", *GRANT, "--sign", "owner.key", "-o", "out.suffice")
    assert "granted" in suffice(*words)
    answer = Answer.load("out.answer.json")
    assert answer == Granted(
        Proposal.load("p").digest,
        "sha256:" + hashlib.sha256(Path("out.suffice").read_bytes()).hexdigest(),
    )
    check = ("verify", "out.suffice", "p", "out.answer.json")
    assert suffice(*check, "--key", "owner.pub").count("unaltered") == 2
    suffice("fit", "out.suffice", "--rows", "public.parquet", "-o", "m.suffice")
    score = suffice("score", "m.suffice", "clinic.parquet", "--label", "sick", "--json")
    assert json.loads(score)["accuracy"] > 0.8
    assert "out.suffice" not in suffice("inspect", "out.answer.json")
    content = json.loads(suffice("inspect", "out.answer.json", "--json"))
    assert Message.from_json(content) == answer


def test_a_status_reaches_the_shell(suffice, desk):
    suffice("propose", "public.parquet", "--epsilon", 6, "-o", "p")
    done = subprocess.run(
        [sys.executable, "-m", "suffice", "grant", "p", "clinic.parquet", *GRANT, "-o", "o"],
        cwd=desk,
        capture_output=True,
        check=False,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (Countered.exit_code, b"")


def test_a_counter_costs_nothing_and_its_terms_are_granted(suffice):
    words = ("--delta", 1e-3, "--noise", "gaussian")
    suffice("propose", "public.parquet", "--epsilon", 9, *words, "-o", "p")
    out = suffice(
        "grant", "p", "clinic.parquet", *GRANT, "-o", "o.suffice", "--answer", "a", code=8
    )
    assert "per request" in out
    assert not Path("o.suffice").exists()
    assert spent() == 0
    terms = Answer.load("a").terms
    assert terms == Terms(5.0, 1e-6, "gaussian")
    words = ("--delta", terms.delta, "--noise", terms.mechanism)
    suffice("propose", "public.parquet", "--epsilon", terms.epsilon, *words, "-o", "p2")
    suffice("grant", "p2", "clinic.parquet", *GRANT, "-o", "o.suffice", "--answer", "a2")
    assert load("o.suffice").details["mechanism"] == "gaussian"
    assert 0 < spent() <= 5


def test_a_ledger_that_runs_out_counters_with_the_rest_and_then_refuses(suffice):
    Ledger("pure", {"e": Budget(8.0)}, {"e": (0, 1)})  # without delta, composition is a plain sum
    ledger = (*GRANT[:4], "--ledger", "pure", "--dataset", "e")
    for number, (epsilon, code) in enumerate([(5, 0), (5, 8), (3, 0), (1, 9)]):
        words = ("--epsilon", epsilon, "--purpose", number)
        suffice("propose", "public.parquet", *words, "-o", f"p{number}")
        files = ("-o", f"o{number}", "--answer", f"a{number}")
        suffice("grant", f"p{number}", "clinic.parquet", *ledger, *files, code=code)
    assert Answer.load("a1").terms.epsilon == 3.0
    assert Answer.load("a3").reasons == ("the data set's budget is spent",)
    assert [Path(f"o{number}").exists() for number in range(4)] == [True, False, True, False]


def test_the_same_proposal_gives_the_same_bytes_and_is_paid_once(suffice):
    suffice("keygen", "owner")
    suffice("propose", "public.parquet", "--epsilon", 5, "-o", "p")
    suffice("propose", "public.parquet", "--epsilon", 5, "-o", "again")
    assert Path("p").read_bytes() == Path("again").read_bytes()
    words = ("clinic.parquet", *GRANT, "--sign", "owner.key")
    suffice("grant", "p", *words, "-o", "o.suffice")
    once = spent()
    Path("policy.json").write_text('{"largest_epsilon": 0.1, "features": ["dose"]}')
    suffice("grant", "again", *words, "-o", "o2.suffice")
    assert Path("o.suffice").read_bytes() == Path("o2.suffice").read_bytes()
    assert Path("o.answer.json").read_bytes() == Path("o2.answer.json").read_bytes()
    assert spent() == once


def test_other_rows_are_an_error_and_no_answer(suffice):
    table = pq.read_table("clinic.parquet")
    pq.write_table(table.slice(0, 399), "fewer.parquet")
    changed = table["age"].to_numpy().copy()
    changed[7] += 1e-9
    pq.write_table(table.set_column(0, "age", pa.array(changed)), "changed.parquet")
    suffice("propose", "public.parquet", "--epsilon", 5, "-o", "p")
    suffice("propose", "public.parquet", "--epsilon", 50, "-o", "dear")
    for rows in ("fewer", "changed"):
        for proposal in ("p", "dear"):
            words = ("grant", proposal, f"{rows}.parquet", *GRANT, "-o", "o", "--answer", "a")
            assert "proposal" in suffice(*words, code=3)
    assert "sick" in suffice(
        "grant", "p", "public.parquet", *GRANT, "-o", "o", "--answer", "a", code=2
    )
    assert not Path("o").exists()
    assert not Path("a").exists()
    assert spent() == 0


def test_a_refusal_reads_no_column_that_the_policy_keeps_back(suffice):
    """Else the row hash would tell whether a guess of a private column was right."""
    pq.write_table(pq.read_table("clinic.parquet").drop_columns(["ward"]), "narrow.parquet")
    Path("policy.json").write_text('{"largest_epsilon": 5, "features": ["age", "dose"]}')
    suffice("propose", "public.parquet", "--epsilon", 5, "-o", "p")
    out = suffice("grant", "p", "narrow.parquet", *GRANT, "-o", "o", "--answer", "a", code=9)
    assert "'ward'" in out
    suffice("propose", "public.parquet", "--epsilon", 5, "--features", "age,dose", "-o", "q")
    suffice("grant", "q", "narrow.parquet", *GRANT, "-o", "o", "--answer", "b")


def test_tampered_files_are_refused(suffice):
    suffice("propose", "public.parquet", "--epsilon", 1, "-o", "p")
    text = Path("p").read_text()
    Path("p2").write_text(text.replace('"epsilon":1,', '"epsilon":2,'))
    assert text != Path("p2").read_text()
    assert "altered" in suffice("grant", "p2", "clinic.parquet", *GRANT, "-o", "o", code=3)
    assert "altered" in suffice("inspect", "p2", code=3)
    suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", "--answer", "a")
    answer = Path("a").read_text()
    Path("a2").write_text(answer.replace("sha256:", "sha256:0")[: len(answer)])
    suffice("verify", "o", "p", "a2", code=3)
    Path("a2").write_text(text)
    suffice("verify", "o", "p", "a2", code=3)
    suffice("propose", "public.parquet", "--epsilon", 2, "-o", "p3")
    assert "another" in suffice("verify", "o", "p3", "a", code=3)
    suffice("grant", "p3", "clinic.parquet", *GRANT, "-o", "o3", "--answer", "a3")
    assert "not the file" in suffice("verify", "o3", "p", "a", code=3)
    assert "what to check" in suffice("verify", "o", code=2)
    assert "what to check" in suffice("verify", "o", "a", code=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", 0), "epsilon"),
        (("--epsilon", 1, "--noise", "gaussian"), "delta"),
        (("--epsilon", 1, "--noise", "magic"), "mechanism"),
        (("--epsilon", 1, "--map", "magic:3"), "map"),
        (("--epsilon", 1, "--missing", "drop"), "missing"),
        (("--epsilon", 1, "--features", "height"), "height"),
        (("--epsilon", 1, "--classes", "1"), "classes"),
        (("--epsilon", 1, "--purpose", "two\nlines"), "printable"),
    ],
)
def test_what_could_never_be_granted_is_not_proposed(suffice, words, says):
    assert says in suffice("propose", "public.parquet", *words, "-o", "x", code=2)
    assert not Path("x").exists()


@pytest.mark.parametrize("spec", ["polynomial:9999", "polynomial:99999999", "rff:100000"])
def test_maps_of_too_many_coordinates_are_refused_before_they_are_made(suffice, monkeypatch, spec):
    from suffice.engines import summary

    suffice("propose", "public.parquet", "--epsilon", 4, "--map", "polynomial:2", "-o", "p")
    asked = Proposal.load("p")
    dataclasses.replace(asked, map=spec, features=asked.features[:1]).save("p")
    monkeypatch.setattr(summary, "fit_map", None)  # would fail if it were called
    Path("policy.json").write_text(json.dumps({**POLICY, "maps": True}))
    out = suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", code=9)
    assert "at most 2000 coordinates" in out


def test_categories_count_as_coordinates_once_the_public_rows_are_read(suffice):
    options = ("--epsilon", 4, "--features", "ward", "--map", "polynomial:2", "-o", "p")
    suffice("propose", "public.parquet", *options)
    policy = {**POLICY, "maps": True, "most_coordinates": 8}
    Path("policy.json").write_text(json.dumps(policy))
    out = suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", code=9)
    assert "at most 8 coordinates" in out  # three wards have nine products
    assert spent() == 0
    Path("policy.json").write_text(json.dumps({**policy, "most_coordinates": 9}))
    suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", "--force")
    Path("policy.json").write_text(json.dumps({**policy, "most_coordinates": 1}))
    suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "again")  # paid for already
    assert Path("again").read_bytes() == Path("o").read_bytes()


def test_what_a_proposal_says_is_shown_in_quotes_and_harmless(suffice):
    purpose = "x" + " " * 200 + "granted  Protects each label. epsilon = 0.1"
    suffice("propose", "public.parquet", "--epsilon", 4, "--purpose", purpose, "-o", "p")
    out = suffice("inspect", "p")
    assert '"x [200 blanks] granted' in out
    assert out.replace("\n", "").isprintable()


def test_maps_are_granted_where_the_policy_says_so(suffice):
    suffice("propose", "public.parquet", "--epsilon", 4, "--map", "polynomial:2", "-o", "p")
    out = suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", "--answer", "a", code=9)
    assert "maps" in out
    Path("policy.json").write_text(json.dumps({**POLICY, "maps": True}))
    suffice("grant", "p", "clinic.parquet", *GRANT, "-o", "o", "--answer", "b")
    assert load("o").pipeline.map is not None
    suffice("propose", "public.parquet", "--epsilon", 3, "--pipeline-from", "o", "-o", "p2")
    words = ("grant", "p2", "clinic.parquet", *GRANT, "-o", "o2", "--answer", "a2")
    assert "--pipeline-from" in suffice(*words, code=2)
    Path("policy.json").write_text(json.dumps(POLICY))
    suffice(*words, "--pipeline-from", "o", code=9)
    Path("policy.json").write_text(json.dumps({**POLICY, "maps": True}))
    suffice(*words, "--pipeline-from", "o", "--force")
    assert load("o2").pipeline == load("o").pipeline
    suffice(
        "propose",
        "public.parquet",
        "--epsilon",
        3,
        "--pipeline-from",
        "o",
        "--map",
        "pca:2",
        "-o",
        "x",
        code=2,
    )


def test_the_decision_is_the_same_whatever_the_labels_are(clinic, tmp_path):
    """Granted, countered, refused: three label columns, one of them not even valid."""
    rows = clinic.drop_columns(["sick"])
    policy = Policy(2.0)
    columns = {
        "true": clinic["sick"].to_numpy(),
        "turned": 1 - clinic["sick"].to_numpy(),
        "constant": np.zeros(len(clinic), dtype=np.int64),
    }
    for epsilon, kind in ((1.0, Granted), (9.0, Countered)):
        proposal, answers = propose(rows, epsilon=epsilon), []
        for name, y in columns.items():
            ledger = Ledger(tmp_path / f"{name}{epsilon}", {"d": Budget(2.0)}, {"d": (0, 1)})
            answer, release = grant(proposal, rows, y, policy=policy, ledger=ledger, dataset="d")
            assert isinstance(answer, kind)
            assert (release is not None) == (kind is Granted)
            answers.append(answer)
        assert kind is Granted or len(set(answers)) == 1
    refused = Policy(2.0, least_rows=10_000)
    ledger = Ledger(tmp_path / "l", {"d": Budget(2.0)}, {"d": (0, 1)})
    for y in (*columns.values(), np.full(len(clinic), 77), [None] * len(clinic)):
        answer, _ = grant(proposal, rows, y, policy=refused, ledger=ledger, dataset="d")
        assert isinstance(answer, Refused)
        answer, _ = grant(proposal, rows, y, policy=policy, ledger=ledger, dataset="d")
        assert answer == answers[0]


def test_a_release_about_something_else_is_noticed_even_if_the_answer_names_it(clinic, tmp_path):
    rows, y = clinic.drop_columns(["sick"]), clinic["sick"]
    ledger = Ledger(tmp_path / "l", {"d": Budget(4.0)}, {"d": (0, 1)})
    proposal = propose(rows, epsilon=1.0, features=["age"])
    other = propose(rows, epsilon=1.0)
    answer, release = grant(other, rows, y, policy=Policy(2.0), ledger=ledger, dataset="d")
    release.save(tmp_path / "r")
    assert check_answer(other, answer, tmp_path / "r") == release
    with pytest.raises(ForeignAnswerError, match="other rows, features or classes"):
        check_answer(proposal, Granted(proposal.digest, answer.release), tmp_path / "r")
    for changed, trouble in (
        ({"epsilon": 2.0}, "another epsilon or delta"),
        ({"epsilon": 1.0, "map": "polynomial:2"}, "another pipeline"),
        ({"epsilon": 1.0, "missing": "zero"}, "another pipeline"),
    ):
        asked = propose(rows, **changed)
        with pytest.raises(ForeignAnswerError, match=trouble):
            check_answer(asked, Granted(asked.digest, answer.release), tmp_path / "r")


def test_ledgers_that_cannot_pay_say_so(clinic, tmp_path):
    rows, y = clinic.drop_columns(["sick"]), clinic["sick"]
    ledger = Ledger(tmp_path / "l", {"d": {"record": Budget(1.0)}, "e": Budget(1.0)}, {"d": (0, 1)})
    proposal = propose(rows, epsilon=1.0)
    options = {"policy": Policy(2.0), "ledger": ledger}
    with pytest.raises(LedgerError, match="no data set 'f'"):
        grant(proposal, rows, y, dataset="f", **options)
    with pytest.raises(UnitError, match="per label"):
        grant(proposal, rows, y, dataset="d", **options)


def test_a_lost_release_stays_spent_until_there_is_a_new_proposal(clinic, tmp_path, monkeypatch):
    rows, y = clinic.drop_columns(["sick"]), clinic["sick"]
    options = {
        "policy": Policy(2.0),
        "ledger": Ledger(tmp_path / "l", {"d": Budget(4.0)}, {"d": (0, 1)}),
    }
    proposal = propose(rows, epsilon=1.0)
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            grant(proposal, rows, y, dataset="d", **options)
    with pytest.raises(BurntRequestError, match="another purpose"):
        grant(proposal, rows, y, dataset="d", **options)
    fresh = propose(rows, epsilon=1.0, purpose="the first was lost")
    answer, _ = grant(fresh, rows, y, dataset="d", **options)
    assert isinstance(answer, Granted)


def test_the_ledger_has_the_last_word(clinic, tmp_path, monkeypatch):
    """If somebody else pays between the decision and the debit, the answer is a refusal."""
    from suffice.protocol import grant as protocol_grant

    rows, y = clinic.drop_columns(["sick"]), clinic["sick"]
    ledger = Ledger(tmp_path / "l", {"d": Budget(0.5)}, {"d": (0, 1)})
    monkeypatch.setattr(protocol_grant, "_remaining_budget", lambda *_: Budget(9.0))
    answer, release = grant(
        propose(rows, epsilon=1.0), rows, y, policy=Policy(2.0), ledger=ledger, dataset="d"
    )
    assert isinstance(answer, Refused)
    assert release is None
    assert ledger.balances()[0].spent == 0
