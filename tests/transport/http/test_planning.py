"""What pages say before a decision: guarantee, cost and forecast, from public things alone."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import numpy as np
import pyarrow as pa
import pytest
from every_kind import KINDS, make_every_kind, proposals, table_of
from served import running

from suffice.owner.ledger.ledger import Step
from suffice.owner.ledger.tokens import utc_now
from suffice.owner.policy import Policy
from suffice.protocol.grant import grant, propose
from suffice.service import planning
from suffice.service.planning import CANNOT, accuracy_picture, budget_picture, foresee
from suffice.service.records import State, StoredProposal
from suffice.service.settings import Settings
from suffice.tables.files import TableFile

FORESEEN = [name for name in KINDS if name != "people"]  # of people there is no number: see below
LONGEST_SECONDS = 120  # a guard against hanging, not a measurement


def stored(proposal, dataset: str) -> StoredProposal:
    return StoredProposal(dataset, proposal.digest, proposal.encode(), utc_now(), State.WAITING)


def changed(table: pa.Table, column: str) -> pa.Table:
    """Return a table that differs in one cell of a column."""
    values = table[column].to_pylist()
    values[7] = {"diagnosis": 1 - int(table["diagnosis"][7].as_py()), "ward": "west"}.get(
        column, 33
    )
    return table.set_column(table.schema.names.index(column), column, pa.array(values))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_every_kind(tmp_path_factory.mktemp("planning") / "clinic", grants="by-hand")


@pytest.mark.parametrize("column", ["diagnosis", "secret", "age"])
def test_what_pages_say_before_a_decision_is_the_same_for_neighbours(clinic, tmp_path, column):
    table = table_of(np.random.default_rng(5))
    key = (clinic.folder / "clinic.key").read_bytes()
    other = make_every_kind(tmp_path / "other", changed(table, column), "by-hand", key)
    for dataset in FORESEEN:
        if dataset == "labels" and column == "age":  # it is public there
            continue
        for proposal in proposals(clinic, dataset):
            first, second = (
                foresee(Settings.load(place.folder), stored(proposal, dataset))
                for place in (clinic, other)
            )
            assert first.guarantees
            assert first == second


def test_what_is_promised_before_is_what_the_release_states(clinic):
    settings = Settings.load(clinic.folder)
    for dataset in FORESEEN:
        served = settings.datasets[dataset]
        for proposal in proposals(clinic, dataset, purpose="to compare"):
            before = foresee(settings, stored(proposal, dataset))
            left = clinic.ledger.left_after(dataset, before.guarantees)
            answer, release = grant(
                proposal,
                TableFile(served.table),
                policy=served.policy,
                ledger=clinic.ledger,
                dataset=dataset,
                label=served.label,
                sheet=served.sheet,
            )
            assert answer.name == "granted"
            assert before.guarantees == release.guarantees
            after = {balance.unit: balance.left for balance in clinic.ledger.balances(dataset)}
            assert after == left
            steps = clinic.ledger.spent_after(dataset, 1)
            (balance,) = clinic.ledger.balances(dataset)
            assert [step.spent for step in steps[balance.unit]] == [0.0, balance.spent]


def test_the_noise_of_a_mean_operator_is_foreseen_from_its_public_rows(clinic):
    """Even noise follows the longest row; shaped noise, which `auto` takes here, does not."""
    settings, rows = Settings.load(clinic.folder), clinic.folder / "rows.csv"
    for mechanism, delta in (("laplace", 0.0), ("knorm", 0.0), ("gaussian", 1e-6)):
        for features in (["age"], ["age", "size"]):
            asked = {"features": features, "mechanism": mechanism, "purpose": "a study"}
            before = foresee(
                settings, stored(propose(rows, epsilon=0.4, delta=delta, **asked), "labels")
            )
            (promised,) = before.guarantees
            assert 0.399 < promised.epsilon <= 0.4
            assert before.accuracy


def test_what_does_not_fit_has_nothing_left(clinic):
    settings = Settings.load(clinic.folder)
    first = foresee(settings, stored(proposals(clinic, "labels")[0], "labels"))
    stronger = tuple(replace(g, event=type(g.event)(40.0)) for g in first.guarantees)
    assert clinic.ledger.left_after("labels", stronger) is None


def test_where_people_have_several_records_there_is_no_number(clinic):
    settings = Settings.load(clinic.folder)
    served = settings.datasets["records"]
    policy = Policy(1.0, 1e-5, kinds=("moments",), person="age")
    datasets = {"records": replace(served, policy=policy)}
    proposal = proposals(clinic, "records")[0]
    plan = foresee(replace(settings, datasets=datasets), stored(proposal, "records"))
    assert plan.trouble == CANNOT
    assert not plan.guarantees
    assert not plan.cells


def test_only_kinds_with_a_forecast_show_one(clinic):
    settings = Settings.load(clinic.folder)
    plans = {
        proposal.kind: foresee(settings, stored(proposal, dataset))
        for dataset in FORESEEN
        for proposal in proposals(clinic, dataset)
    }
    assert {kind for kind, plan in plans.items() if plan.accuracy} == {"mean-operator"}
    assert {kind for kind, plan in plans.items() if not plan.cells} == {"bags", "responses"}
    asked = next(point for point in plans["mean-operator"].accuracy if point[0] == 0.4)
    assert 0.5 <= asked[1] <= asked[2] <= asked[3] <= 1


def test_a_failure_says_nothing_of_the_reason(clinic, monkeypatch):
    def broken(*_):
        raise ValueError("a cell of the table")

    monkeypatch.setattr(planning, "new_pool", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(planning, "foresee", broken)
    plans = planning.Planning(Settings.load(clinic.folder))
    plan = plans.foresight(stored(proposals(clinic, "labels")[0], "labels"))
    assert plan == planning.Foresight(trouble=CANNOT)
    plans.close()


def test_pictures_hold_numbers_alone():
    points = ((0.1, 0.51, 0.55, 0.6), (0.2, 0.52, 0.6, 0.8))
    picture = str(accuracy_picture(points, 0.2, 0.7, 0.5))
    assert 'class="asked"' in picture
    assert "style" not in picture
    steps = [Step(datetime(2026, 1, day, tzinfo=UTC), day / 10, day + 1.0) for day in (1, 5)]
    picture = str(budget_picture(steps, "label"))
    assert "opened with epsilon 2 on 2026-01-01" in picture
    assert "raised to 6 on 2026-01-05" in picture
    assert "0.5 of it is spent" in picture


def test_a_page_says_it_all_before_the_decision_and_moves_on_by_itself(clinic):
    proposal = proposals(clinic, "labels", purpose="before the decision")[0]
    with running(clinic) as (url, _), httpx.Client(base_url=url, timeout=60) as owner:
        headers = {"Authorization": f"Bearer {clinic.tokens['learner']}"}
        place = "/v1/datasets/labels/proposals"
        owner.post(place, content=proposal.encode(), headers=headers).raise_for_status()
        owner.post("/login", data={"token": clinic.tokens["owner"]})
        seen, end = [], time.monotonic() + LONGEST_SECONDS

        def until(words: str) -> str:
            while True:
                page = owner.get(f"/data/labels/{proposal.digest}")
                seen.append(page.headers.get("refresh"))
                if words in page.text:
                    return page.text
                assert page.headers["refresh"] == "2", page.text
                assert time.monotonic() < end
                time.sleep(0.2)

        page = until("Grant and charge")
        assert seen[0] == "2"  # it was in the queue, or was being worked out
        assert seen[-1] is None  # a form would lose what is being typed
        for words in ("Protects each label.", "What becomes public", "After this release", "<svg"):
            assert words in page
        csrf = re.search(r'name="csrf" value="([^"]+)"', page)[1]
        form = {"csrf": csrf, "decision": "grant"}
        assert owner.post(f"/data/labels/{proposal.digest}", data=form).status_code == 303
        until("Download the release")
        assert seen[-1] is None
