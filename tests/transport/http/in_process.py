"""A service inside this process: its application is asked directly, and its workers are threads."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from suffice.protocol.export import Export
from suffice.service import workers
from suffice.service.app import make_app
from suffice.service.settings import Settings


def ask(app, method: str, path: str, token: str, content: bytes = b"") -> httpx.Response:
    """Return what an application in this process answers."""

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            headers = {"Authorization": f"Bearer {token}"}
            return await client.request(method, path, content=content, headers=headers)

    return asyncio.run(answer())


class Reader:
    """Somebody with a token who talks to the application in this process."""

    def __init__(self, clinic, token: str) -> None:
        self._app, self._token = make_app(Settings.load(clinic.folder)), token

    def get(self, path: str) -> httpx.Response:
        return ask(self._app, "GET", path, self._token)

    def post(self, path: str, content: str | bytes) -> httpx.Response:
        body = content.encode() if isinstance(content, str) else content
        return ask(self._app, "POST", path, self._token, body)

    def export(self) -> Export:
        response = self.get("/v1/export")
        assert response.status_code == 200, response.text
        return Export.load(response.content)


def settle_all(clinic, sent: dict[str, list]) -> None:
    """Let workers answer proposals, or leave them to the owner."""
    learner = Reader(clinic, clinic.tokens["learner"])
    at_work = workers.Service(Settings.load(clinic.folder)).workers
    for dataset, proposals in sent.items():
        for proposal in proposals:
            answer = learner.post(f"/v1/datasets/{dataset}/proposals", proposal.encode())
            assert answer.status_code == 202, answer.text
    with pytest.MonkeyPatch.context() as patch:  # a process takes seconds to start
        patch.setattr(workers._Worker, "_new_pool", lambda _: ThreadPoolExecutor(1))
        at_work.open()
        try:
            for dataset, proposals in sent.items():
                for proposal in proposals:
                    wait_until_settled(clinic, dataset, proposal)
        finally:
            at_work.close()


def wait_until_settled(clinic, dataset: str, proposal) -> None:
    for _ in range(2400):
        if clinic.records.proposal(dataset, proposal.digest).state in ("waiting", "answered"):
            return
        time.sleep(0.05)
    raise AssertionError(dataset)
