"""Proposals of every kind, as files: what policy, data sheet and ledger grant and refuse."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from typer.testing import CliRunner

from suffice.cli.main import app
from suffice.errors import ForeignAnswerError, ParameterError, UnitError
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import mechanism_names, mechanism_of
from suffice.owner.policy import Policy
from suffice.privacy.guarantee import Budget, Unit
from suffice.protocol.grant import check_answer, checked_options, grant, propose
from suffice.protocol.messages import Countered, Granted, Proposal, Refused
from suffice.releases.codec import load
from suffice.releases.release import encode
from suffice.tables.data_sheet import DataSheet

ROWS = 90
KNOWN = "known beforehand"
KINDS = ("mean-operator", "proportions", "bags", "moments", "rados", "responses")
POLICY = Policy(1.0, 1e-5, kinds=KINDS)
RNG = np.random.default_rng(4)
PUBLIC = pa.table(
    {
        "age": RNG.integers(20, 90, ROWS),
        "size": RNG.normal(size=ROWS).round(3),
        "ward": np.array(["n", "s"])[np.arange(ROWS) % 2],
    }
)
TABLE = PUBLIC.append_column("sick", pa.array(RNG.integers(0, 2, ROWS)))


def sheet_of(*, public: bool = False, **change) -> DataSheet:
    def column(name, **values):
        return {"name": name, "public": public, "source": KNOWN, **values}

    columns = [
        column("age", minimum=0, maximum=120),
        column("size", minimum=-4, maximum=4),
        column("ward", datatype="string", categories=["n", "s"]),
        {"name": "sick", "datatype": "integer", "categories": [0, 1], "source": KNOWN},
    ]
    values = {"columns": columns, "label": "sick", "rows": ROWS, "rows_source": KNOWN}
    return DataSheet.from_json({**values, "ordered": public, **change})


@pytest.fixture
def ledger(tmp_path):
    budgets = {
        "labels": {"label": Budget(3.0, 1e-4)},
        "records": {"record": Budget(3.0, 1e-4)},
        "people": {"person": Budget(3.0, 1e-4)},
    }
    return Ledger(tmp_path / "l", budgets)


def answer(proposal, ledger, dataset="records", sheet=None, *, policy=POLICY, table=TABLE):
    return grant(
        proposal, table, policy=policy, ledger=ledger, dataset=dataset, label="sick",
        sheet=sheet_of() if sheet is None else sheet,
    )  # fmt: skip


def moments(**options) -> Proposal:
    return propose(sheet_of(), kind="moments", epsilon=0.5, delta=1e-6, **options)


def test_every_mechanism_of_one_table_can_be_proposed_and_no_other():
    proposable = [name for name in mechanism_names() if mechanism_of(name).noises]
    assert sorted(proposable) == sorted(KINDS)
    with pytest.raises(ParameterError, match="parties cannot be proposed"):
        Policy(1.0, kinds=("parties",))
    with pytest.raises(ParameterError, match="kinds"):
        Policy(1.0, kinds=("of tomorrow",))


def test_a_grant_states_the_unit_of_its_budget_and_comes_back_the_same(ledger):
    proposal = propose(sheet_of(), kind="responses", epsilon=0.5)
    reply, release = answer(proposal, ledger)
    assert isinstance(reply, Granted)
    stated = {guarantee.unit: guarantee.epsilon for guarantee in release.guarantees}
    assert 0.4999 < stated[Unit.RECORD] <= 0.5
    assert ledger.balances("records")[0].spent <= 0.5
    again, same = answer(Proposal.load(proposal.encode()), ledger)
    assert (again, encode(same)) == (reply, encode(release))
    assert len(ledger.history()) == 1


def test_the_budget_must_be_of_the_unit_that_a_kind_protects(ledger):
    with pytest.raises(UnitError, match="no budget per record"):
        answer(moments(), ledger, "labels")
    operator = propose(PUBLIC, epsilon=0.5, features=["age"])
    with pytest.raises(UnitError, match="no budget per label"):
        answer(operator, ledger, sheet=sheet_of(public=True))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": None, "rows_source": None}, "about how many"),
        ({"columns": "private"}, "or has them from private cells"),
        ({"columns": "open"}, "leaves ranges or categories open"),
    ],
)
def test_a_sheet_that_leaves_something_open_grants_no_records(ledger, change, says):
    if "columns" in change:
        columns = sheet_of().to_json()["columns"]
        source = "private cells" if change["columns"] == "private" else None
        empty = {} if source else {"minimum": None, "maximum": None}
        columns[0] |= {"source": source, **empty}
        change = {"columns": columns}
    reply, release = answer(moments(), ledger, sheet=sheet_of(**change))
    assert isinstance(reply, Refused)
    assert says in reply.reasons[0]
    assert release is None
    assert not ledger.history()


def test_private_columns_are_no_public_rows_and_rows_need_their_order(ledger):
    operator = propose(PUBLIC, epsilon=0.5, features=["age"])
    reply, _ = answer(operator, ledger, "labels", sheet_of())
    assert reply.reasons == ("these features are not granted: 'age'",)
    bags = propose(PUBLIC, kind="bags", epsilon=0.5, features=["age"])
    reply, _ = answer(bags, ledger, "labels", sheet_of(public=True, ordered=False))
    assert "speaks of rows one by one" in reply.reasons[0]
    reply, _ = grant(bags, TABLE, policy=POLICY, ledger=ledger, dataset="labels", label="sick")
    assert "no data sheet says that their order is public" in reply.reasons[0]
    reply, release = answer(bags, ledger, "labels", sheet_of(public=True))
    assert isinstance(reply, Granted)
    assert release.arrays["answers"].shape == (ROWS,)


def test_noise_that_needs_unprotected_is_never_granted(ledger):
    wards = propose(
        PUBLIC, kind="proportions", epsilon=0.5, delta=1e-6, features=["age"], bags="ward"
    )
    for noise in ("scaled-dirichlet", "scaled-dirichlet-bounded"):
        asked = replace(wards, terms=replace(wards.terms, mechanism=noise))
        reply, release = answer(asked, ledger, "labels", sheet_of(public=True))
        assert isinstance(reply, Countered)
        assert (reply.terms.mechanism, release) == ("auto", None)
    for options in ({"unprotected": 1}, {"standardize": ("rows",)}, {"noise_on": ("records",)}):
        reply, _ = answer(replace(moments(), options=options), ledger)
        assert reply.reasons == ("a proposal of kind moments has the options bound, target",)
    assert not ledger.history()


def test_labels_of_no_class_count_in_no_bag(ledger):
    strange = TABLE.set_column(3, "sick", pa.array(["7"] * ROWS))
    wards = propose(PUBLIC, kind="proportions", epsilon=1, features=["age"], bags="ward")
    reply, release = answer(wards, ledger, "labels", sheet_of(public=True), table=strange)
    assert isinstance(reply, Granted)
    assert release.arrays["proportions"].shape == (2, 2)


def test_only_purposes_of_the_policy_are_granted(ledger):
    policy = replace(POLICY, purposes=("study 7",))
    reply, _ = answer(moments(purpose="other"), ledger, policy=policy)
    assert reply.reasons == ("these purposes are granted, word by word: 'study 7'",)
    reply, _ = answer(moments(purpose="study 7"), ledger, policy=policy)
    assert isinstance(reply, Granted)


def test_people_are_protected_where_a_kind_can_do_it(ledger):
    policy = replace(POLICY, person="who")
    table = TABLE.append_column("who", pa.array(np.arange(ROWS) // 3))
    reply, release = answer(moments(), ledger, "people", policy=policy, table=table)
    assert isinstance(reply, Granted)
    assert [guarantee.unit for guarantee in release.guarantees] == [Unit.PERSON]
    rados = propose(sheet_of(), kind="rados", epsilon=0.5, delta=1e-6, count=4)
    reply, _ = answer(rados, ledger, "people", policy=policy, table=table)
    assert "cannot protect all rows of a person" in reply.reasons[0]


def test_a_number_to_predict_is_proposed_and_needs_no_classes(ledger):
    reply, release = answer(moments(target="size"), ledger)
    assert isinstance(reply, Granted)
    assert (release.kind, release.details["low"], release.details["high"]) == (
        "target-moments", -4.0, 4.0,
    )  # fmt: skip
    assert [column.name for column in release.pipeline.columns] == ["age", "ward"]
    columns = sheet_of().to_json()["columns"][:3]
    sheet = sheet_of(columns=columns, label="size")  # the label is a number
    asked = propose(sheet, kind="moments", epsilon=0.5, delta=1e-6, target="size", purpose="b")
    ask = {"ledger": ledger, "dataset": "records", "label": "size", "sheet": sheet}
    reply, release = grant(asked, TABLE, policy=POLICY, **ask)
    assert isinstance(reply, Granted)
    assert check_answer(asked, reply, encode(release)).details["target"] == "size"
    other = propose(sheet, kind="moments", epsilon=0.5, delta=1e-6, target="age", purpose="c")
    with pytest.raises(ForeignAnswerError):
        check_answer(other, replace(reply, proposal=other.digest), encode(release))
    narrow = replace(POLICY, features=("age", "ward"))  # a policy says what can be predicted, too
    reply, _ = grant(replace(asked, purpose="d"), TABLE, policy=narrow, **ask)
    assert reply.reasons == ("these features are not granted: 'size'",)
    classes = replace(asked, options={}, features=("age", "ward"), purpose="e")
    with pytest.raises(ParameterError, match="no declared classes"):
        grant(classes, TABLE, policy=POLICY, **ask)


def test_options_have_their_types():
    assert checked_options("moments", {"bound": 2}) == {"bound": 2.0}
    assert checked_options("proportions", {"bags": "ward"}) == {"bags": ("ward",)}
    for kind, options in (
        ("rados", {"count": 1.5}), ("rados", {"count": True}), ("rados", {"count": ("a",)}),
        ("proportions", {"bags": 3}), ("moments", {"target": 1}),
        ("mean-operator", {"bound": 1.0}),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match="option"):
            checked_options(kind, options)
    with pytest.raises(ParameterError, match="name one target"):
        checked_options("moments", {"target": ("a", "b")})


def test_a_proposal_of_private_records_needs_their_sheet():
    with pytest.raises(ParameterError, match="data sheet"):
        propose(PUBLIC, kind="moments", epsilon=1, delta=1e-6)
    with pytest.raises(ParameterError, match="delta"):
        propose(sheet_of(), kind="moments", epsilon=1)
    with pytest.raises(ParameterError, match="no column 'income'"):
        propose(sheet_of(), kind="moments", epsilon=1, delta=1e-6, features=["income"])


def test_sheets_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pa_csv.write_csv(TABLE, "table.csv")
    (tmp_path / "columns.json").write_text(json.dumps(sheet_of().to_json()))
    policy = {"largest_epsilon": 1, "largest_delta": 1e-5, "kinds": ["moments"]}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    Ledger("l", {"records": {"record": Budget(3.0, 1e-4)}})
    ledger = ["--ledger", "l", "--dataset", "records"]

    def run(*words, code=0):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert done.exit_code == code, done.output
        return done.output

    terms = ["--epsilon", 0.5, "--delta", 1e-6]
    asked = ["propose", "columns.json", "--kind", "moments", *terms, "--bound", 1]
    assert "private records" in run(*asked, "-o", "p.json")
    given = ["grant", "p.json", "table.csv", "--label", "sick", "--policy", "policy.json", *ledger]
    assert "data sheet" in run(*given, "-o", "none.suffice", code=9)
    run(*given, "--sheet", "columns.json", "-o", "out.suffice")
    names = ["verify", "out.suffice", "p.json", "out.answer.json"]
    run(*names)
    run("fit", "out.suffice", "-o", "model.suffice")
    run(
        "release", "moments", "table.csv", "--label", "sick", *terms, *ledger,
        "--sheet", "columns.json", "-o", "own.suffice",
    )  # fmt: skip
    own, granted = load("own.suffice"), load("out.suffice")
    assert own.pipeline.columns == granted.pipeline.columns
    planned = run(
        "plan", "moments", "table.csv", "--label", "sick", "--epsilon", 1, "--delta", 1e-6,
        "--sheet", "columns.json",
    )  # fmt: skip
    assert "a learner can use how columns vary together" in planned
