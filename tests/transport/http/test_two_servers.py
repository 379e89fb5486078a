"""Several servers on one PostgreSQL, with different host names: real processes, real kills.

Two servers share a clinic for the whole file. A third one stops in the middle of a grant, while the
first two are suspended; then it is killed, or its database is restarted, and they go on.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from process_hooks import STEPS, intervene
from served import Clinic, make_clinic, running, stored_proposals, workers_of

from database_servers import postgresql_server, restart
from suffice.owner.ledger.log import Kind
from suffice.protocol.grant import propose
from suffice.protocol.messages import Answer, Granted, Proposal, Refused
from suffice.protocol.remote import Remote
from suffice.releases.release import encode

LOST = "this proposal was charged, but its output was lost"
SECONDS = 300  # for everything that is waited for; nothing takes as long


@dataclass(frozen=True)
class Pair:
    """A clinic in a database, and its two servers."""

    clinic: Clinic
    database: str
    urls: tuple[str, str]
    processes: tuple[subprocess.Popen[str], subprocess.Popen[str]]
    draws: Path

    def proposal(self, purpose: str, epsilon: float = 0.1) -> Proposal:
        rows = self.clinic.folder / "rows.csv"
        return propose(rows, epsilon=epsilon, mechanism="laplace", purpose=purpose)

    def remote(self, url: str) -> Remote:
        return Remote(url, self.clinic.tokens["learner"], self.clinic.folder / "clinic.pub")

    def ask(self, url: str, proposal: Proposal) -> tuple[bytes, bytes | None]:
        """Return what a server answers, in bytes."""
        answer, release = self.remote(url).propose(proposal, "diagnosis")
        return answer.encode(), None if release is None else encode(release)

    def ask_both(self, proposal: Proposal) -> tuple[Answer, bytes | None]:
        """Send a proposal to both servers at once; both must answer the same."""
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(lambda url: self.ask(url, proposal), self.urls)
        assert first == second
        return Answer.load(first[0]), first[1]

    def send(self, url: str, proposal: Proposal, dataset: str = "diagnosis") -> None:
        headers = {"Authorization": f"Bearer {self.clinic.tokens['learner']}"}
        place = f"{url}/v1/datasets/{dataset}/proposals"
        response = httpx.post(place, content=proposal.encode(), headers=headers, timeout=SECONDS)
        assert response.status_code in (200, 202)

    def states(self, proposal: Proposal) -> list[str]:
        """Return what became of the charges of a proposal."""
        return [e.state for e in self.clinic.ledger.history() if e.request == proposal.request]

    def drawn(self) -> int:
        return len(self.draws.read_text().splitlines()) if self.draws.exists() else 0

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let both servers stand still; whoever of them has a turn finishes it before."""
        store = self.clinic.ledger.store
        with store.reading() as records:
            turns = [row[0] for row in records.db.execute("SELECT holder FROM leases")]
        wait_until(lambda: not any(map(store.held, turns)))
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.processes:
                process.send_signal(signal.SIGCONT)


def wait_until(happened) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("two")
    draws = folder / "draws"
    alpha, beta = (intervene(folder / host, host, draws=draws) for host in ("alpha", "beta"))
    with postgresql_server() as database:
        clinic = make_clinic(folder / "clinic", ledger=f"{database}#shared", smoker="automatic")
        with running(clinic, **alpha) as first, running(clinic, **beta) as second:
            urls, processes = zip(first, second, strict=True)
            yield Pair(clinic, database, urls, processes, draws)


@contextmanager
def stopping(pair: Pair, folder: Path, step: str) -> Iterator[tuple[str, Path, subprocess.Popen]]:
    """Yield a third server, whose workers stop at a step of each grant: address, file, process."""
    hooks = intervene(folder / "gamma", "gamma", step, pair.draws)
    with running(pair.clinic, **hooks) as (url, process):
        yield url, folder / "gamma" / "reached", process


def test_the_same_proposal_at_both_at_once_has_one_answer_and_one_charge(pair):
    proposal, before = pair.proposal("the same"), pair.drawn()
    answer, release = pair.ask_both(proposal)
    assert isinstance(answer, Granted)
    assert release is not None
    assert pair.states(proposal) == ["released"]
    assert pair.drawn() == before + 1


@pytest.mark.parametrize("step", STEPS)
def test_a_server_killed_with_its_worker_is_replaced_by_another(pair, tmp_path, step):
    proposal, before = pair.proposal(f"killed {step}"), pair.drawn()
    with pair.suspended(), stopping(pair, tmp_path, step) as (url, reached, process):
        pair.send(url, proposal)
        wait_until(reached.exists)
        process.kill()
        os.kill(int(reached.read_text()), signal.SIGKILL)
        process.wait()
    answer, _ = pair.ask_both(proposal)
    assert pair.drawn() == before + 1
    if step == "between debit and finish":
        assert isinstance(answer, Refused)
        assert answer.reasons[0].startswith(LOST)
        assert pair.states(proposal) == ["burnt"]
    else:
        assert isinstance(answer, Granted)
        assert pair.states(proposal) == ["released"]
    pair.clinic.ledger.verify()


def test_a_database_restarted_in_mid_grant_costs_no_second_draw(pair, tmp_path):
    stored, lost = pair.proposal("stored after all"), pair.proposal("declared lost")
    before = pair.drawn()
    with stopping(pair, tmp_path, STEPS[1]) as (url, reached, _):
        with pair.suspended():
            pair.send(url, stored)
            wait_until(reached.exists)
            restart(pair.database)
            reached.unlink()  # nobody has declared it lost: it is stored over a new connection
            assert isinstance(Answer.load(pair.ask(url, stored)[0]), Granted)
        assert isinstance(pair.ask_both(stored)[0], Granted)
        with pair.suspended():
            pair.send(url, lost)
            wait_until(reached.exists)
            restart(pair.database)
        refused, _ = pair.ask_both(lost)  # they found no lock
        reached.unlink()  # and its draw comes too late
        assert pair.ask(url, lost) == (refused.encode(), None)
    assert isinstance(refused, Refused)
    assert (pair.states(stored), pair.states(lost)) == (["released"], ["burnt"])
    assert pair.drawn() == before + 2
    assert pair.clinic.ledger.frozen == ""
    pair.clinic.ledger.verify()


def test_a_session_begun_at_one_is_good_at_the_other_until_its_token_is_revoked(pair):
    text = pair.clinic.new_token("owner")
    headers = {"Authorization": f"Bearer {text}"}
    owner = {"Authorization": f"Bearer {pair.clinic.tokens['owner']}"}
    first, second = pair.urls
    login = httpx.post(f"{first}/login", data={"token": text}, timeout=SECONDS)
    cookies = {"suffice_session": login.cookies["suffice_session"]}
    with httpx.Client(base_url=second, cookies=cookies, timeout=SECONDS) as page:
        assert page.get("/").status_code == 200
        assert page.get("/v1/datasets", headers=headers).status_code == 200
        place = f"{first}/v1/tokens/{text.split('_')[1]}"
        assert httpx.delete(place, headers=owner, timeout=SECONDS).status_code == 204
        assert page.get("/").status_code == 303
        assert page.get("/v1/datasets", headers=headers).status_code == 401
    assert [e.kind for e in pair.clinic.ledger.log()].count(Kind.REVOKED) == 1


def check_many(pair: Pair, count: int) -> None:
    """Send different proposals to both servers at once; the budget has room for six of them."""
    proposals = [pair.proposal(f"one of many {k}", epsilon=0.15) for k in range(count)]
    with ThreadPoolExecutor(8) as threads:
        sent = [
            threads.submit(pair.send, pair.urls[k % 2], proposal, "smoker")
            for k, proposal in enumerate(proposals)
        ]
        for request in sent:
            request.result()
    records = pair.clinic.records
    wait_until(lambda: all(p.answer for p in stored_proposals(records, "smoker")))
    stored = stored_proposals(records, "smoker")
    assert len(stored) == count
    granted = [p for p in stored if isinstance(Answer.load(p.answer), Granted)]
    (balance,) = [b for b in pair.clinic.ledger.balances() if b.dataset == "smoker"]
    assert balance.spent <= balance.budget.epsilon
    assert len(granted) == balance.debits == len({records.release(p) for p in granted}) == 6
    # In the order of arrival, whichever server it was: the order tells nothing about labels.
    charged = [e.request for e in pair.clinic.ledger.history() if e.dataset == "smoker"]
    assert charged == [Proposal.load(p.body).request for p in granted]
    assert granted == stored[:6]
    pair.clinic.ledger.verify()


def test_many_proposals_at_both_never_overspend_and_are_answered_in_order(pair):
    check_many(pair, 10)


LEARNERS, PROPOSALS, KILLS = 50, 8, 200
SMALL = 0.004  # 250 of these fit into the budget, of the 400 that are asked for


class Storm:
    """Two servers on one database that are shot, or lose their workers, and begin again."""

    def __init__(self, clinic: Clinic, folder: Path, draws: Path) -> None:
        self.clinic, self.urls, self.shots = clinic, ["", ""], Counter()
        self._hooks = [intervene(folder / host, host, draws=draws) for host in ("alpha", "beta")]
        self._servers: list = [None, None]

    def begin(self, number: int) -> None:
        """Start a server, in the place of the one that was shot."""
        block = running(self.clinic, **self._hooks[number])
        url, process = block.__enter__()
        self._servers[number], self.urls[number] = (block, process), url

    def end(self, number: int) -> None:
        self._servers[number][0].__exit__(None, None, None)

    def shoot(self, number: int, *, server: bool) -> None:
        """Kill the workers of a server, with the server or without."""
        _, process = self._servers[number]
        victims = workers_of(process)
        for pid in [process.pid] * server + victims:
            with suppress(ProcessLookupError):  # a worker ends with its server
                os.kill(pid, signal.SIGKILL)
        self.shots["server" if server else "worker"] += server or len(victims)
        if server:
            process.wait()
            self.end(number)
            self.begin(number)

    def learn(self, learner: int) -> list[str]:
        """Send the proposals of one learner; return those that a server has accepted."""
        accepted, rng = [], random.Random(learner)
        headers = {"Authorization": f"Bearer {self.clinic.new_token('learner')}"}
        for number in range(PROPOSALS):
            while sum(self.shots.values()) < number * KILLS // PROPOSALS:
                time.sleep(0.2)  # so that there is work until the last shot
            proposal = self.clinic.proposal(f"{learner} {number}", SMALL)
            status = 0
            while status not in (200, 202):
                time.sleep(rng.random())
                place = f"{rng.choice(self.urls)}/v1/datasets/diagnosis/proposals"
                with suppress(httpx.TransportError):  # nobody is there, or it was shot meanwhile
                    sent = httpx.post(place, content=proposal.encode(), headers=headers, timeout=60)
                    status = sent.status_code
                    assert status in (200, 202, 429, 503), sent.text
            accepted.append(proposal.digest)
        return accepted


@pytest.mark.audit
def test_servers_and_workers_killed_at_any_moment_lose_and_overspend_nothing(tmp_path):
    """Fifty learners and two hundred kills over two servers: every accepted proposal is answered.

    Each answer stays what it was, each release is charged once, and the log is one chain.
    """
    rng, draws = random.Random(8), tmp_path / "draws"
    with postgresql_server() as database:
        clinic = make_clinic(tmp_path / "clinic", ledger=f"{database}#shot")
        storm = Storm(clinic, tmp_path, draws)

        def drawn() -> int:
            return len(draws.read_text().splitlines()) if draws.exists() else 0

        for number in (0, 1):
            storm.begin(number)
        with ThreadPoolExecutor(LEARNERS) as threads:
            learners = [threads.submit(storm.learn, k) for k in range(LEARNERS)]
            while (shots := sum(storm.shots.values())) < KILLS:
                before, deadline = drawn(), time.monotonic() + 10
                while drawn() == before and time.monotonic() < deadline:
                    time.sleep(0.05)  # a worker that is shot while it begins shows little
                time.sleep(rng.random() / 4)
                storm.shoot(rng.randrange(2), server=shots % 5 == 4)
            accepted = [digest for learner in learners for digest in learner.result()]
        records = clinic.records
        found = partial(records.proposal, "diagnosis")
        wait_until(lambda: all(found(digest).answer for digest in accepted))
        for number in (0, 1):
            storm.end(number)
        answers = [Answer.load(found(digest).answer) for digest in accepted]
        history, balance = clinic.ledger.history(), clinic.ledger.balances()[0]
        ends = Counter(entry.state for entry in history)
        granted = sum(isinstance(answer, Granted) for answer in answers)
        shown = f"{len(accepted)} accepted, {granted} granted, {drawn()} drawn"
        print(storm.shots, shown, ends)  # noqa: T201
        assert len(set(accepted)) == LEARNERS * PROPOSALS
        assert balance.spent <= balance.budget.epsilon
        assert len({entry.request for entry in history}) == len(history)
        assert granted == ends["released"]
        assert all(records.release(found(d)) for d, a in zip(accepted, answers, strict=True)
                   if isinstance(a, Granted))  # fmt: skip
        assert ends["released"] <= drawn() <= len(history)
        clinic.ledger.verify()
