"""Many proposals at once: every accepted one gets an answer, and the budget is kept exactly."""

import asyncio
import time
from dataclasses import replace

import httpx
import pytest
from served import Clinic, make_clinic, running

from suffice.protocol.messages import Answer, Granted, Proposal
from suffice.service.limits import Connection

PLACE = "/v1/datasets/diagnosis/proposals"
LEARNERS = 10
EPSILON = 0.15  # six of these fit into the budget of 1


def busy_clinic(tmp_path, waiting: int) -> Clinic:
    clinic = make_clinic(tmp_path / "clinic", most=waiting)
    text = (clinic.folder / "suffice.toml").read_text()
    more = "[limits]\nwaiting_of_one_token = 100000"
    (clinic.folder / "suffice.toml").write_text(text.replace("[limits]", more))
    return clinic


async def post_all(
    url: str, tokens: list[str], proposals: list[Proposal]
) -> list[tuple[int, str | None]]:
    """Send all at the same time, each on its own connection; return statuses and Retry-After."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:

        async def send(k: int) -> tuple[int, str | None]:
            headers = {"Authorization": f"Bearer {tokens[k % len(tokens)]}"}
            response = await client.post(PLACE, content=proposals[k].encode(), headers=headers)
            return response.status_code, response.headers.get("retry-after")

        return await asyncio.gather(*(send(k) for k in range(len(proposals))))


def answers_of(url: str, token: str, proposals: list[Proposal]) -> list[Answer]:
    """Wait for the answer to each proposal, as an officer reads it."""
    answers = []
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=600) as client:
        for proposal in proposals:
            response = client.get(f"{PLACE}/{proposal.digest}")
            while response.status_code == 202:
                time.sleep(0.2)
                response = client.get(f"{PLACE}/{proposal.digest}")
            assert response.status_code == 200
            answers.append(Answer.load(response.content))
    return answers


def check_load(tmp_path, count: int, waiting: int) -> None:
    clinic = busy_clinic(tmp_path, waiting)
    tokens = [clinic.new_token("learner") for _ in range(LEARNERS)]
    good = clinic.proposal(epsilon=EPSILON)
    proposals = [replace(good, purpose=f"study {k}") for k in range(count)]
    with running(clinic) as (url, _):
        sent = asyncio.run(post_all(url, tokens, proposals))
        assert {status for status, _ in sent} <= {200, 202, 429}
        assert all(after is not None for status, after in sent if status == 429)
        accepted = [p for p, (status, _) in zip(proposals, sent, strict=True) if status != 429]
        assert len(accepted) >= min(count, waiting)
        answers = answers_of(url, clinic.tokens["officer"], accepted)
        again = asyncio.run(post_all(url, tokens[:1], accepted[:20]))
        assert {status for status, _ in again} == {200}
    assert [answer.proposal for answer in answers] == [p.digest for p in accepted]
    granted = [answer for answer in answers if isinstance(answer, Granted)]
    (balance,) = (b for b in clinic.ledger.balances() if b.dataset == "diagnosis")
    assert len(granted) == balance.debits == clinic.charges("diagnosis")
    assert len({answer.release for answer in granted}) == len(granted)
    assert balance.spent <= balance.budget.epsilon < balance.spent + EPSILON
    assert len(granted) == 6


def test_proposals_at_once_keep_the_budget(tmp_path):
    check_load(tmp_path, count=100, waiting=1000)


def test_more_at_once_than_may_wait_are_turned_away(tmp_path):
    check_load(tmp_path, count=60, waiting=20)


@pytest.mark.audit
def test_a_thousand_proposals_at_once(tmp_path):
    Connection.make_room()  # this process opens as many connections as the server
    check_load(tmp_path, count=1000, waiting=1000)
