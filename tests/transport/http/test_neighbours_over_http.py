"""What a learner sees over HTTP is the same for neighbouring labels, in every byte but the noise.

A pair is two clinics that differ in one label. The same learner sends the same proposals to both,
and writes down everything that it gets: status, headers, body, size, and what is answered when. The
application, its records, its ledger and `answer_proposal` are the real ones; only the process of
the worker is this one, so that many pairs take little time. One pair meets a real server.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from served import running, stored_proposals

from suffice.audit.public_part import public_part
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import mint
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import propose
from suffice.protocol.messages import Proposal, Refused
from suffice.releases.codec import decode
from suffice.releases.signing import generate_keys
from suffice.service import api, workers
from suffice.service.app import make_app
from suffice.service.operation import Troubles
from suffice.service.records import ServiceRecords, StoredProposal
from suffice.service.settings import Settings
from suffice.service.workers import Workers

ROWS = 24
PAIRS, MANY_PAIRS = 4, 60
DATASETS = ("people", "waiting")
SETTINGS = """
organisation = "Clinic"
ledger = "clinic.ledger"
key = "clinic.key"
[server]
port = 0
[limits]
requests_per_minute = 100000
[datasets.people]
table = "{table}"
label = "label"
grants = "automatic"
[datasets.people.policy]
{policy}
[datasets.waiting]
table = "{table}"
label = "label"
[datasets.waiting.policy]
{policy}
"""
POLICIES = (
    'largest_epsilon = 0.5\nfeatures = ["age", "ward"]',
    'largest_epsilon = 0.3\nlargest_delta = 1e-6\nmechanisms = ["gaussian"]\nfeatures = ["age"]',
    'largest_epsilon = 1\nmaps = true\nmechanisms = ["knorm", "laplace"]\nfeatures = ["age"]',
    'largest_epsilon = 1\nleast_rows = 100\nfeatures = ["age", "ward"]',
)
STRANGE = ("", "no class", "x" * 300, 'a,"b"\nc', "NaN", "0", "\u202e\u00e9", None)


@dataclass(frozen=True)
class Case:
    """A pair: public rows, two label columns, and what becomes of them."""

    rows: pa.Table
    labels: tuple[list[Any], list[Any]]
    classes: tuple[Any, ...]
    policy: str
    form: str
    budget: float
    relabelled: bool  # the owner changes a label between two proposals, in the second clinic alone

    @classmethod
    def drawn(cls, number: int) -> "Case":
        """Return the pair of this number, always the same one."""
        rng = np.random.default_rng([7, number])
        classes: tuple[Any, ...] = (0, 1)
        if number % 3:
            classes = tuple(name.ljust(int(rng.integers(1, 40)), "m") for name in "abc")
        labels = [classes[int(k)] for k in rng.integers(0, len(classes), ROWS)]
        row = int(rng.choice([0, ROWS - 1, int(rng.integers(ROWS))]))
        if number % 2:  # the class of this row is nobody else's
            labels = [classes[1] if k == classes[0] else k for k in labels]
            labels[row] = classes[0]
        other = list(labels)
        if number % 4 < 2:
            other[row] = next(k for k in classes[::-1] if k != labels[row])
        else:
            other[row] = STRANGE[int(rng.integers(len(STRANGE)))]
        rows = pa.table(
            {
                "age": rng.integers(20, 90, ROWS),
                "ward": np.array(["north", "south", "west"])[rng.integers(0, 3, ROWS)],
            }
        )
        return cls(
            rows,
            (labels, other),
            classes,
            POLICIES[number % len(POLICIES)],
            ("csv", "parquet")[int(rng.integers(2))],
            float(rng.choice([0.45, 2.0])),
            bool(rng.integers(2)),
        )

    def proposals(self, folder: Path) -> Iterator[Proposal]:
        """Yield what a learner asks for: what is granted, countered, refused and impossible."""
        policy = POLICIES.index(self.policy)
        features = ["age"] if policy in (1, 2) else ["age", "ward"]
        delta, mechanism = (
            (1e-6, "gaussian") if policy == 1 else (0.0, "laplace" if policy == 2 else "auto")
        )
        good = propose(
            folder / "rows.parquet",
            epsilon=0.2,
            delta=delta,
            mechanism=mechanism,
            features=features,
            classes=self.classes,
        )
        yield good
        yield replace(good, terms=replace(good.terms, epsilon=4.0))  # countered
        yield replace(good, rows=replace(good.rows, hash="sha256:" + "0" * 64))  # foreign rows
        yield replace(good, features=("label",))
        yield replace(good, classes=(*self.classes, 2 if self.classes == (0, 1) else "another"))
        yield replace(good, map="rff:8", purpose="mapped")
        yield replace(good, pipeline="sha256:" + "1" * 64)
        yield replace(good, missing="zero", purpose="with zeros")
        yield replace(good, purpose="second")
        yield replace(good, purpose="third")  # the smaller budget does not allow it


def write_clinic(case: Case, side: int, folder: Path, key: Path) -> str:
    """Write one clinic of a pair; return the learner's token."""
    folder.mkdir()
    write_table(case, case.labels[side], folder)
    pq.write_table(case.rows, folder / "rows.parquet")
    classes = {name: {"label": case.classes} for name in DATASETS}
    budgets = {name: {"label": Budget(case.budget, 1e-5)} for name in DATASETS}
    ledger = Ledger(folder / "clinic.ledger", budgets, classes)
    (folder / "clinic.key").write_bytes(key.read_bytes())
    settings = SETTINGS.format(table=f"table.{case.form}", policy=case.policy)
    (folder / "suffice.toml").write_text(settings)
    token, text = mint("learner", holder="Ada")
    ServiceRecords(ledger).add_token(token)
    return text


def write_table(case: Case, labels: Sequence[Any], folder: Path) -> None:
    try:
        column = pa.array(labels)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and texts: a file holds texts
        column = pa.array([None if label is None else str(label) for label in labels])
    table = case.rows.append_column("label", column)
    if case.form == "csv":
        pa_csv.write_csv(table, folder / "table.csv")
    else:
        pq.write_table(table, folder / "table.parquet")


class SameProcess:
    """A worker without a process of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def answer(self, stored: StoredProposal) -> workers.Outcome:
        return workers.answer_proposal(self._settings, stored)


def seen_by_learner(
    case: Case, side: int, folder: Path, key: Path, datasets: Sequence[str] = DATASETS
) -> list[tuple[str, Any]]:
    """Return everything that a learner sees of one clinic, in order."""
    text = write_clinic(case, side, folder, key)
    settings = Settings.load(folder)
    app, records = make_app(settings), ServiceRecords(Ledger(settings.ledger))
    workers, worker = Workers(settings, records, Troubles()), SameProcess(settings)
    seen: list[tuple[str, Any]] = []

    async def look(client: httpx.AsyncClient, path: str, body: bytes | None = None) -> None:
        response = await client.request("GET" if body is None else "POST", path, content=body)
        seen.append((path, shown(response)))

    async def visit() -> None:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app),
            base_url="http://clinic",
            headers={"Authorization": f"Bearer {text}"},
        ) as client:
            for dataset in datasets:
                place = f"/v1/datasets/{dataset}/proposals"
                proposals = list(case.proposals(folder))
                for k, proposal in enumerate(proposals):
                    await look(client, place, proposal.encode())
                    if k % 2 == 0 or k == len(proposals) - 1:
                        continue  # two wait at a time, so that their order can show
                    while workers._work_once(dataset, worker):
                        await look(client, place)
                    if case.relabelled and k == 1 and side == 1:
                        write_table(case, case.labels[0], folder)
                while workers._work_once(dataset, worker):
                    await look(client, place)
                for proposal in [*proposals, replace(proposals[0], purpose="never sent")]:
                    await look(client, f"{place}/{proposal.digest}")
                    await look(client, f"{place}/{proposal.digest}/release")
                await look(client, place, proposals[0].encode())
                await look(client, f"/v1/datasets/{dataset}/balance")
            await look(client, "/v1/datasets")

    asyncio.run(visit())
    return seen


_TIME = re.compile(rb'"received":"[^"]*"')
_DRAWN = re.compile(rb'"(release|digest)":"sha256:[0-9a-f]{64}"')


def shown(response: httpx.Response) -> tuple[Any, ...]:
    """Return a response without its date and its noise: but with the size of everything."""
    headers = sorted((n, v) for n, v in response.headers.items() if n != "date")
    body: Any = response.content
    if response.headers.get("content-type") == "application/octet-stream":
        body = public_part(decode(response.content))
    else:
        body = _TIME.sub(b"(time)", body)
        if b'"message":"granted"' in body:
            body = _DRAWN.sub(b"(of noise)", body)
    return response.status_code, headers, len(response.content), body


def differences(
    numbers: Sequence[int], folder: Path, datasets: Sequence[str] = DATASETS
) -> list[str]:
    """Return where a learner can tell the two clinics of a pair apart, pair by pair."""
    key, _ = generate_keys(folder / "signing")
    places: list[str] = []
    for number in numbers:
        case = Case.drawn(number)
        first, second = (
            seen_by_learner(case, side, folder / f"{number}-{side}", key, datasets)
            for side in (0, 1)
        )
        assert len(first) > 30
        pairs = zip(first, second, strict=False)
        places += [f"pair {number}: {a[0]}" for a, b in pairs if a != b]
        places += [f"pair {number}: more answers"] * (len(first) != len(second))
    return places


def test_neighbouring_labels_look_the_same_over_http(tmp_path):
    assert differences(range(PAIRS), tmp_path) == []


@pytest.mark.audit
def test_many_neighbouring_labels_look_the_same_over_http(tmp_path):
    assert differences(range(MANY_PAIRS), tmp_path) == []


def test_pairs_meet_every_kind_of_answer(tmp_path):
    """A harness that only ever sees refusals would find nothing."""
    key, _ = generate_keys(tmp_path / "signing")
    answers = set()
    for number in (0, 1, 2):
        seen = seen_by_learner(Case.drawn(number), 0, tmp_path / f"{number}", key, DATASETS[:1])
        for path, (status, _, _, body) in seen:
            if "sha256" in path and status == 200 and isinstance(body, bytes):
                answer = json.loads(body.replace(b"(of noise)", b'"x":1'))
                answers |= {answer["message"], *answer.get("reasons", ())}
    words = " ".join(sorted(answers))
    assert {"granted", "countered", "refused"} <= answers
    for part in (
        "not those of the data set", "private labels", "the classes are", "feature maps",
        "cannot answer this proposal", "what remains of the budget",
    ):  # fmt: skip
        assert part in words, words


# --- faults that the pairs have to find


def label_sum(settings: Settings, dataset: str) -> int:
    path = Path(settings.datasets[dataset].table)
    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    return sum(len(str(value)) + hash_of(value) for value in table["label"].to_pylist())


def hash_of(value: object) -> int:
    return sum(str(value).encode()) % 97


def says_how_many(monkeypatch) -> None:
    """Count labels in a refusal."""
    usual = workers.answer_proposal

    def leaky(settings, stored):
        outcome = usual(settings, stored)
        if outcome.release is None and outcome.answer is not None:
            reason = f"there are {label_sum(settings, stored.dataset)} of these"
            outcome = workers.Outcome(Refused(stored.digest, (reason,)).encode())
        return outcome

    monkeypatch.setattr(workers, "answer_proposal", leaky)


def has_a_length(monkeypatch) -> None:
    """Make an answer as long as the labels are."""
    usual = workers.answer_proposal

    def leaky(settings, stored):
        outcome = usual(settings, stored)
        if outcome.release is not None and label_sum(settings, stored.dataset) % 2:
            outcome = workers.Outcome(outcome.answer + b" ", outcome.release)
        return outcome

    monkeypatch.setattr(workers, "answer_proposal", leaky)


def stops_at_strange_labels(monkeypatch) -> None:
    """Refuse what some labels would break."""
    usual = workers.answer_proposal

    def leaky(settings, stored):
        if label_sum(settings, stored.dataset) % 3 == 0:
            return workers.Outcome(Refused(stored.digest, (workers._CANNOT,)).encode())
        return usual(settings, stored)

    monkeypatch.setattr(workers, "answer_proposal", leaky)


def answers_out_of_turn(monkeypatch) -> None:
    """Let a label decide which of two proposals is answered first."""
    first = ServiceRecords.next_to_work_on

    def leaky(records, dataset):
        proposal = first(records, dataset)
        others = [p for p in stored_proposals(records, dataset) if p.state == "received"]
        settings = Settings.load(records._store.path.parent)
        if proposal is not None and others and label_sum(settings, dataset) % 2:
            return others[-1]
        return proposal

    monkeypatch.setattr(ServiceRecords, "next_to_work_on", leaky)


def adds_a_header(monkeypatch) -> None:
    """State in a header how large the table is."""
    respond = api._answer_response

    def leaky(stored):
        response = respond(stored)
        response.headers["x-table"] = str(leaky.size)
        return response

    usual = workers.answer_proposal

    def watch(settings, stored):
        leaky.size = Path(settings.datasets[stored.dataset].table).stat().st_size
        return usual(settings, stored)

    leaky.size = 0
    monkeypatch.setattr(workers, "answer_proposal", watch)
    monkeypatch.setattr(api, "_answer_response", leaky)


@pytest.mark.parametrize(
    "plant",
    [says_how_many, has_a_length, stops_at_strange_labels, answers_out_of_turn, adds_a_header],
    ids=lambda plant: plant.__name__,
)
def test_the_pairs_find_a_planted_fault(tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    for number in range(12):
        (tmp_path / str(number)).mkdir()
        if differences([number], tmp_path / str(number), DATASETS[:1]):
            return
    raise AssertionError(plant.__doc__)


# --- a real server


def seen_on_the_wire(case: Case, side: int, folder: Path, key: Path) -> list[tuple[str, Any]]:
    text = write_clinic(case, side, folder, key)
    seen: list[tuple[str, Any]] = []

    class Place:
        pass

    Place.folder = folder
    with running(Place) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {text}"
        for dataset in DATASETS:
            place = f"/v1/datasets/{dataset}/proposals"
            proposals = list(case.proposals(folder))[:4]  # the other pairs send all
            for proposal in proposals:
                client.post(place, content=proposal.encode())
            for proposal in proposals:
                response = client.get(f"{place}/{proposal.digest}")
                while response.status_code == 202 and response.json()["state"] == "received":
                    time.sleep(0.05)
                    response = client.get(f"{place}/{proposal.digest}")
                seen.append((proposal.purpose, shown(response)))
                release = client.get(f"{place}/{proposal.digest}/release")
                seen.append((proposal.purpose, shown(release)))
            paths = (place, f"/v1/datasets/{dataset}/balance", "/v1/datasets")
            seen += [(path, shown(client.get(path))) for path in paths]
    return seen


def test_a_real_server_shows_the_same_for_neighbours(tmp_path):
    key, _ = generate_keys(tmp_path / "signing")
    case = replace(Case.drawn(2), form="csv", policy=POLICIES[0])
    sides = [seen_on_the_wire(case, side, tmp_path / f"{side}", key) for side in (0, 1)]
    assert sides[0] == sides[1]
    assert {part[0] for _, part in sides[0]} >= {200, 202, 404}
