"""Every kind of release of one table is proposed, granted, fetched and used, over HTTP."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from every_kind import KINDS, make_every_kind, proposals, table_of
from in_process import Reader, settle_all
from served import running

from suffice import Remote
from suffice.audit.public_part import public_part
from suffice.errors import ParameterError, ServiceError
from suffice.learner.fit import fit
from suffice.protocol.grant import check_answer, propose
from suffice.protocol.messages import Answer, Granted
from suffice.releases.codec import decode
from suffice.releases.signing import generate_keys

CHANGED = {  # of one row: a neighbour, and worse ones
    "labels": [{"diagnosis": "1"}, {"diagnosis": ""}, {"diagnosis": "x" * 40}],
    "records": [
        {"diagnosis": "0", "age": "119", "size": "4", "ward": "north"},
        {"diagnosis": "", "age": "", "size": "", "ward": ""},
        {"diagnosis": "none", "age": "abc", "size": "1e400", "ward": "nobody's"},
        {"diagnosis": "1", "age": "-1e9", "size": "nan", "ward": '"'},
    ],
    "people": [  # of a person with three rows, that row is here so many times
        {"diagnosis": "0", "age": "119", "size": "4", "ward": "north", "times": "1"},
        {"diagnosis": "", "age": "", "size": "", "ward": "", "times": "9"},
        {"diagnosis": "none", "age": "abc", "size": "1e400", "ward": '"', "times": "0"},
    ],
}


def test_every_kind_is_granted_and_used_through_remote(tmp_path):
    clinic = make_every_kind(tmp_path / "clinic")
    with running(clinic) as (url, _):
        remote = Remote(url, clinic.tokens["learner"], clinic.folder / "clinic.pub")
        for dataset, kinds in KINDS.items():
            sheet = remote.sheet(dataset)
            subject: Any = clinic.folder / "rows.csv" if dataset == "labels" else sheet
            for kind, epsilon, delta, options in kinds:
                asked = propose(subject, kind=kind, epsilon=epsilon, delta=delta, **options)
                answer, release = remote.propose(asked, dataset)
                assert isinstance(answer, Granted), (kind, answer)
                stated = max(guarantee.epsilon for guarantee in release.guarantees)
                assert 0.95 * epsilon <= stated <= epsilon
                unit = {"labels": "label", "records": "record", "people": "person"}[dataset]
                assert unit in {str(guarantee.unit) for guarantee in release.guarantees}
                if "target" in options:
                    assert release.details["target"] == options["target"]
                    assert fit(release).target_ == ("size", -4, 4)
                    continue
                check_use(kind, release, clinic.folder / "rows.csv")
        with pytest.raises(ServiceError, match="no data sheet"):
            remote.sheet("another")


def check_use(kind: str, release: Any, rows: Any) -> None:
    """Fit what the learner of this kind fits."""
    if kind == "proportions":
        assert release.arrays["proportions"].shape == (3, 2)
        with pytest.raises(ParameterError, match="Use `suffice ratio`"):
            fit(release, rows)
        return
    public = kind in ("mean-operator", "bags")
    model = fit(release, rows) if public else fit(release)
    assert set(model.classes_) == {0, 1}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Return a clinic that was asked for what it never grants, and its learner."""
    clinic = make_every_kind(tmp_path_factory.mktemp("every") / "clinic")
    labels, records = proposals(clinic, "labels"), proposals(clinic, "records")
    operator, wards, bags = labels
    moments, rados, _, regression = records
    refused = {
        "labels": [
            replace(operator, features=("secret",)),
            replace(operator, features=("nowhere",)),
            replace(operator, features=("diagnosis",)),
            replace(wards, options={"bags": ("secret",)}),
            replace(wards, options={"bags": ("ward",), "unprotected": 1}),
            replace(wards, options={"bags": ("diagnosis",)}),
            replace(bags, rows=replace(bags.rows, hash=operator.rows.hash)),  # in no order
            moments,
            replace(operator, rows=None),
        ],
        "records": [
            operator,
            replace(moments, features=("age", "secret")),
            replace(moments, features=("age", "nowhere")),
            replace(rados, options={"protect": ("age",)}),
            replace(rados, options={"count": 10**9}),
            replace(rados, options={"count": 2**20}, terms=replace(rados.terms, epsilon=1.0)),
            replace(moments, missing="error"),
            replace(moments, map="ranks"),
            replace(moments, rows=operator.rows),
            replace(moments, kind="parties"),
            replace(regression, options={"target": ("secret",)}),
            replace(regression, options={"target": ("nowhere",)}),
            replace(regression, options={"target": ("age",)}),
            replace(regression, options={"target": ("diagnosis",)}),
            replace(regression, options={"target": ("size", "age")}),
            replace(rados, options={"target": ("size",), "count": 8}),
        ],
        "people": [
            replace(regression, options={"target": ("patient",)}),
            rados,
        ],
    }
    settle_all(clinic, refused)
    return clinic, refused, Reader(clinic, clinic.tokens["learner"])


def answer_to(asked: Any, dataset: str, number: int) -> Any:
    _, refused, learner = asked
    digest = refused[dataset][number].digest
    return learner.get(f"/v1/datasets/{dataset}/proposals/{digest}").json()


def test_what_is_never_granted_is_refused_in_words(asked):
    clinic, refused, _ = asked
    reasons = {
        dataset: [answer_to(asked, dataset, k)["reasons"][0] for k in range(len(sent))]
        for dataset, sent in refused.items()
    }
    words = {
        "labels": (
            "not granted: 'secret'", "not granted: 'nowhere'", "not granted: 'diagnosis'",
            "not granted: 'secret'", "has the options bags", "not granted: 'diagnosis'",
            "rows of the proposal are not those", "only these kinds", "name the public rows",
        ),
        "records": (
            "only these kinds", "not granted: 'secret'", "not granted: 'nowhere'",
            "has the options bound, count", "count", "too much work",
            "missing is mean or zero",
            "no map", "name no rows", "only these kinds",
            "not granted: 'secret'", "not granted: 'nowhere'", "is no feature",
            "has no declared range", "one number", "has the options bound, count",
        ),
        "people": ("not granted: 'patient'", "only these kinds"),
    }  # fmt: skip
    for dataset, expected in words.items():
        for reason, said in zip(reasons[dataset], expected, strict=True):
            assert said in reason, (dataset, reason, said)
    assert clinic.ledger.history() == []


def test_a_column_that_the_sheet_does_not_name_is_as_one_that_does_not_exist(asked):
    for dataset, (hidden, absent) in {"labels": (0, 1), "records": (1, 2)}.items():
        first, second = answer_to(asked, dataset, hidden), answer_to(asked, dataset, absent)
        del first["proposal"], first["digest"], second["proposal"], second["digest"]
        assert json.dumps(first).replace("secret", "nowhere") == json.dumps(second)


def test_what_learners_see_of_private_records_is_the_sheet(asked):
    _, _, learner = asked
    served = {part["name"]: part for part in learner.get("/v1/datasets").json()}
    assert [c["name"] for c in served["records"]["sheet"]["columns"]] == [
        "age", "size", "ward", "diagnosis",
    ]  # fmt: skip
    text = json.dumps(served)
    for hidden in ("secret", "table.csv", "clinic.ledger"):
        assert hidden not in text


# --- neighbours


def neighbour(table: pa.Table, cells: dict[str, str], row: int = 7) -> pa.Table:
    for name, cell in cells.items():
        if name == "times":
            continue
        column = [*map(str, table[name].to_pylist())]
        column[row] = cell
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    copies = [row] * int(cells.get("times", 1))
    return table.take([*range(row), *copies, *range(row + 1, len(table))])


def seen(folder: Any, dataset: str, tables: list[pa.Table], key: bytes) -> list[Any]:
    """Return all that a learner sees: of each table in turn, as an owner's data change."""
    clinic = make_every_kind(folder, tables[0], key=key)
    shown: list[Any] = []
    for turn, table in enumerate(tables):
        pa_csv.write_csv(table, folder / "table.csv")
        sent = proposals(clinic, dataset, f"turn {turn}")
        settle_all(clinic, {dataset: sent})
        learner = Reader(clinic, clinic.tokens["learner"])
        for proposal in sent:
            place = f"/v1/datasets/{dataset}/proposals/{proposal.digest}"
            answer, release = learner.get(place), learner.get(f"{place}/release")
            assert release.status_code == 200, answer.text
            check_answer(proposal, Answer.load(answer.content), release.content)
            part = public_part(decode(release.content))
            shown.append((answer.status_code, len(answer.content), len(release.content), part))
        balance = learner.get(f"/v1/datasets/{dataset}/balance").json()
        text = learner.get("/v1/datasets").text + json.dumps(balance)
        shown.append(re.sub("[0-9a-f]{16,}", "#", text))
    return shown


@pytest.mark.parametrize("dataset", KINDS)
def test_neighbouring_tables_look_the_same_for_every_kind(tmp_path, dataset):
    table = table_of(np.random.default_rng(5))
    _, _ = generate_keys(tmp_path / "signing")
    key = (tmp_path / "signing.key").read_bytes()
    text = neighbour(table, {name: str(table[name][7]) for name in CHANGED["records"][0]})
    expected = seen(tmp_path / "first", dataset, [text, text], key)
    for number, cells in enumerate(CHANGED[dataset]):
        other = neighbour(table, cells)
        history = seen(tmp_path / f"{number}", dataset, [other, text], key)
        assert history == expected, cells
