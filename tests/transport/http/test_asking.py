"""Learners, and owners who release, ask by a form: what it shows, takes and refuses."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import unescape

import httpx
import numpy as np
import pyarrow as pa
import pytest
from browsing import PHONE, fits_sideways, needs_browser, open_browser, signed_in, take_picture
from every_kind import KINDS, make_every_kind, proposals, table_of
from in_process import settle_all
from served import running, workers_of

from suffice.releases.codec import decode
from suffice.service.app import make_app
from suffice.service.auth import multipart_fields
from suffice.service.planning import offers_of
from suffice.service.settings import Settings

LONGEST_SECONDS = 120  # a guard against hanging, not a measurement


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return make_every_kind(tmp_path_factory.mktemp("asking") / "clinic")


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@pytest.fixture
def session(url):
    """Return a client of whoever signs in with a token; all end with the test."""
    with ExitStack() as stack:

        def begin(text: str) -> httpx.Client:
            client = stack.enter_context(httpx.Client(base_url=url, timeout=60))
            assert client.post("/login", data={"token": text}).status_code == 303
            return client

        yield begin


def csrf_of(text: str) -> str:
    return re.search(r'name="csrf" value="([^"]+)"', text)[1]


def filled(kind: str, epsilon: float, delta: float, options: dict) -> dict[str, str]:
    """Return the fields of the form for a kind, as a browser sends them."""
    columns = options.get("features", ["age", "size", "ward"])
    chosen = [n for n in columns if n not in options.get("bags", ())]
    places = {"age": 0, "size": 1, "ward": 2}
    texts = {"bound": "bound", "count": "sums"}
    named = {texts[name]: str(options[name]) for name in texts if name in options}
    noise = {"moments": "gaussian", "rados": "gaussian", "responses": "response"}.get(kind, "auto")
    return {
        "kind": kind,
        "epsilon": str(epsilon),
        "delta": str(delta),
        "noise": noise,
        "purpose": f"by form, {kind}",
        **{f"column {places[name]}": "on" for name in chosen},
        "bags": "".join(options.get("bags", ())),
        **named,
    }


def send(client: httpx.Client, dataset: str, fields: dict[str, str], rows: bytes | None = None):
    csrf = csrf_of(client.get(f"/ask/{dataset}").text)
    files = {"rows": ("rows.csv", rows or b"", "text/csv")}
    end = time.monotonic() + LONGEST_SECONDS
    while True:
        answer = client.post(f"/ask/{dataset}", data={**fields, "csrf": csrf}, files=files)
        if "is still reading the rows" not in answer.text:
            return answer
        assert time.monotonic() < end


def settled(client: httpx.Client, place: str) -> str:
    end = time.monotonic() + LONGEST_SECONDS
    while (page := client.get(place)).headers.get("refresh"):
        assert time.monotonic() < end
        time.sleep(0.1)
    return page.text


@pytest.mark.parametrize(
    ("dataset", "wanted"), [(name, kind) for name, kinds in KINDS.items() for kind in kinds]
)
def test_every_kind_is_asked_for_granted_and_used_as_the_page_says(
    clinic, session, tmp_path, dataset, wanted
):
    kind = wanted[0]
    learner = session(clinic.tokens["learner"])
    rows = (clinic.folder / "rows.csv").read_bytes()
    response = send(learner, dataset, filled(*wanted), rows if dataset == "labels" else None)
    assert response.status_code == 303, response.text
    page = settled(learner, response.headers["location"])
    assert "The release is made." in page
    file = re.search(r'download="([^"]+)"', page)[1]
    release = learner.get(f"{response.headers['location']}/release")
    (tmp_path / file).write_bytes(release.content)
    (tmp_path / "owner.pub").write_bytes((clinic.folder / "clinic.pub").read_bytes())
    for name in ("rows.csv", "new.csv"):
        (tmp_path / name).write_bytes(rows)
    blocks = [
        unescape(text) for text in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)
    ]
    for command in blocks[0].splitlines():
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        # Labels and noise are drawn at random here: proportions may say too little.
        says_why = kind == "proportions" and " Use " in done.stderr
        assert done.returncode == 0 or says_why, (command, done.stderr)
    if kind != "proportions":
        done = subprocess.run(
            [sys.executable, "-c", blocks[1]], cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_the_form_makes_the_proposal_that_the_command_makes(clinic, session):
    learner = session(clinic.tokens["learner"])
    operator = proposals(clinic, "labels", purpose="by form, mean-operator")[0]
    rows = {"count": str(operator.rows.count), "hash": operator.rows.hash}
    fields = filled(*KINDS["labels"][0]) | rows
    response = send(learner, "labels", fields)
    assert response.headers["location"] == f"/ask/labels/{operator.digest}"


def test_an_owner_proposes_the_rows_of_the_data_set_itself(clinic, session):
    owner = session(clinic.tokens["owner"])
    fields = filled(*KINDS["labels"][0]) | {"purpose": "our own"}
    response = send(owner, "labels", fields)
    digest = proposals(clinic, "labels", purpose="our own")[0].digest
    assert response.headers["location"] == f"/data/labels/{digest}"
    assert "Download the release" in settled(owner, response.headers["location"])


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"kind": "parties"}, 404, "nothing here"),
        ({"kind": "moments"}, 404, "nothing here"),  # of another data set
        ({"noise": "unprotected"}, 400, "noise type"),
        ({"bags": "secret", "kind": "proportions"}, 400, "cannot form bags"),
        ({"bags": "/etc/passwd", "kind": "proportions"}, 400, "cannot form bags"),
        ({"epsilon": "much"}, 400, "must be a number"),
        ({"epsilon": "-1"}, 400, "epsilon"),
        ({"epsilon": "nan"}, 400, "epsilon"),
        ({"hash": "/data/table.csv"}, 400, "Send a file of rows"),
        ({"hash": "postgresql://db/clinic"}, 400, "Send a file of rows"),
        ({"purpose": "two\nlines"}, 400, "printable line"),
    ],
)
def test_what_no_form_offers_is_refused_and_stored_nowhere(clinic, session, change, status, words):
    learner = session(clinic.tokens["learner"])
    operator = proposals(clinic, "labels")[0]
    rows = {"count": str(operator.rows.count), "hash": operator.rows.hash}
    before = clinic.records.counts("labels")
    response = send(learner, "labels", filled(*KINDS["labels"][0]) | rows | change)
    assert response.status_code == status
    assert words in response.text.lower() or words in response.text
    assert clinic.records.counts("labels") == before


@pytest.mark.parametrize(
    "field",
    [
        {"unprotected": "on"}, {"column 3": "on"}, {"column secret": "on"}, {"table": "/etc/pwd"},
        {"query": "SELECT * FROM people"}, {"protect": "age"}, {"map": "rff:64"},
    ],
)  # fmt: skip
def test_a_field_that_the_form_does_not_have_changes_nothing(clinic, session, field):
    """An owner's page takes no path, no address, no query, and nothing that is unprotected."""
    owner = session(clinic.tokens["owner"])
    response = send(owner, "labels", filled(*KINDS["labels"][0]) | {"purpose": "our own"} | field)
    digest = proposals(clinic, "labels", purpose="our own")[0].digest
    assert response.headers["location"] == f"/data/labels/{digest}"


def test_columns_that_are_offered_are_those_of_policy_and_sheet(clinic):
    settings = Settings.load(clinic.folder)
    for dataset in KINDS:
        for offer in offers_of(settings.datasets[dataset]):
            assert offer.columns == ("age", "size", "ward")


@pytest.mark.parametrize(
    "body", [b"", b"no,rows\n", b"\x00\xff" * 50, b"age,size,ward\n", b"size\n2\n"]
)
def test_a_file_that_is_no_table_is_the_senders_fault(clinic, session, body):
    learner = session(clinic.tokens["learner"])
    response = send(learner, "labels", filled(*KINDS["labels"][0]), body)
    assert response.status_code == 400
    assert response.headers["content-type"].startswith(("text/html", "application/problem"))


def test_many_files_that_are_read_slowly_keep_no_page_waiting(clinic):
    """Sixty uploads at once wait for rows, and none of the forty threads that make pages waits."""
    with running(clinic) as (url, process), ThreadPoolExecutor(60) as threads:
        learner, owner = (httpx.Client(base_url=url, timeout=60) for _ in range(2))
        with learner, owner:
            for client, role in ((learner, "learner"), (owner, "owner")):
                client.post("/login", data={"token": clinic.tokens[role]})
            owner.get("/")
            fields = filled(*KINDS["labels"][0]) | {
                "csrf": csrf_of(learner.get("/ask/labels").text)
            }
            end = time.monotonic() + LONGEST_SECONDS
            while not (stopped := workers_of(process)):  # the one that reads rows
                assert time.monotonic() < end
                time.sleep(0.05)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)

            def upload(number: int) -> int:
                files = {"rows": ("rows.csv", f"age,size,ward\n{number},2,3\n".encode())}
                return learner.post("/ask/labels", data=fields, files=files).status_code

            sent = [threads.submit(upload, number) for number in range(60)]
            while not any(future.done() for future in sent):  # those for which there is no room
                time.sleep(0.05)
            began = time.monotonic()
            assert owner.get("/").status_code == 200
            waited = time.monotonic() - began
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            assert {future.result() for future in sent} <= {303, 400}
    assert waited < 5  # reading may take ten seconds


# --- who may


def test_learners_see_their_own_pages_alone(clinic, session):
    learner, other = (session(clinic.new_token("learner")) for _ in range(2))
    fields = filled(*KINDS["records"][0]) | {"purpose": "of one learner alone"}
    mine = send(learner, "records", fields).headers["location"]
    assert learner.get(mine).status_code == 200
    for place in (mine, f"{mine}/release"):
        missing = place.replace(mine[-64:], "0" * 64)
        answers = [other.get(place), other.get(missing)]
        assert {answer.status_code for answer in answers} == {404}
        assert answers[0].content == answers[1].content
    assert "of one learner alone" in learner.get("/").text
    assert "of one learner alone" not in other.get("/").text
    digest = mine.rpartition("/")[2]
    pages = ("/report", "/print", "/log", "/log/checkpoint", "/export", "/tokens", "/data/records")
    for place in (*pages, f"/data/records/{digest}", f"/data/records/{digest}/release"):
        assert learner.get(place).status_code == 403, place
    csrf = csrf_of(learner.get("/").text)
    for place in ("/log", "/tokens", f"/data/records/{digest}", "/tokens/x/revoke"):
        form = {"csrf": csrf, "decision": "grant", "role": "owner", "days": "9"}
        assert learner.post(place, data=form).status_code == 403, place
    assert learner.post("/logout", data={"csrf": csrf}).status_code == 303
    assert learner.get("/").status_code == 303


def test_officers_and_strangers_ask_for_nothing(clinic, url, session):
    digest = "sha256:" + "0" * 64
    places = ("/ask/labels", "/ask/labels/columns.json", f"/ask/labels/{digest}")
    officer = session(clinic.tokens["officer"])
    for place in (*places, f"/ask/labels/{digest}/release"):
        assert officer.get(place).status_code == 403
        response = httpx.get(f"{url}{place}")
        assert (response.status_code, response.headers["location"]) == (303, "/login")
    csrf = csrf_of(officer.get("/").text)
    assert officer.post("/ask/labels", data={"csrf": csrf}).status_code == 403
    assert httpx.post(f"{url}/ask/labels").status_code == 303
    narrow = session(clinic.new_token("learner", ("records",)))
    for place in places:
        missing = place.replace("labels", "nothing")
        assert narrow.get(place).status_code == narrow.get(missing).status_code == 404
    assert "labels" not in re.sub("Private labels|private labels", "", narrow.get("/").text)


def test_a_form_from_elsewhere_asks_for_nothing(clinic, session):
    learner = session(clinic.tokens["learner"])
    fields = filled(*KINDS["records"][0])
    csrf = csrf_of(learner.get("/ask/records").text)
    before = clinic.records.counts("records")
    for given in ({}, {"csrf": "x" * 43}):
        files = {"rows": ("rows.csv", b"")}
        response = learner.post("/ask/records", data={**fields, **given}, files=files)
        assert response.status_code == 403
    good = {**fields, "csrf": csrf}
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert learner.post("/ask/records", data=good, headers=headers).status_code == 403
    large = {"rows": ("rows.csv", b"1" * 2_000_000)}
    assert learner.post("/ask/records", data=good, files=large).status_code == 413
    assert clinic.records.counts("records") == before


def test_forms_with_files_are_read_as_they_were_sent():
    request = httpx.Request(
        "POST", "http://clinic", data={"a": "b", "c": "ä"}, files={"rows": ("x", b"1,2\r\n3,4\n")}
    )
    kind = request.headers["content-type"]
    assert multipart_fields(kind, request.read()) == {"a": "b", "c": "ä", "rows": "1,2\r\n3,4\n"}
    nested = request.read().replace(b"1,2", b"--x\r\nContent-Type: multipart/mixed; boundary=x")
    for body in (b"", b"--", request.read()[:40]):
        with pytest.raises(ValueError, match=r"^$|."):
            multipart_fields(kind, body)
    assert multipart_fields(kind, nested)["a"] == "b"


# --- nothing depends on a private cell


def seen_by_learner(clinic) -> list[tuple]:
    """Return everything on a learner's pages, without times, keys and names of noise."""

    async def visit() -> list[tuple]:
        transport = httpx.ASGITransport(app=make_app(Settings.load(clinic.folder)))
        seen = []
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            await client.post("/login", data={"token": clinic.tokens["learner"]})
            places = ["/"]
            for dataset in KINDS:
                places += [f"/ask/{dataset}", f"/ask/{dataset}/columns.json"]
                for proposal in proposals(clinic, dataset):
                    places.append(f"/ask/{dataset}?kind={proposal.kind}")
                    places.append(f"/ask/{dataset}/{proposal.digest}")
            for place in places:
                answer = await client.get(place)
                text = re.sub(r'value="[\w-]{43}"|<time.*?</time>', "", answer.text)
                headers = {k: v for k, v in answer.headers.items() if k != "set-cookie"}
                seen.append((place, answer.status_code, headers, text))
        return seen

    return asyncio.run(visit())


@pytest.mark.parametrize("column", ["diagnosis", "secret"])
def test_learners_pages_are_the_same_for_neighbours(tmp_path, column):
    table = table_of(np.random.default_rng(5))
    values = table[column].to_pylist()
    values[3] = 1 - values[3] if column == "diagnosis" else 77
    changed = table.set_column(table.schema.names.index(column), column, pa.array(values))
    first = make_every_kind(tmp_path / "first", table)
    key = (first.folder / "clinic.key").read_bytes()
    second = make_every_kind(tmp_path / "second", changed, key=key)
    seen = []
    for clinic in (first, second):
        settle_all(clinic, {dataset: list(proposals(clinic, dataset)) for dataset in KINDS})
        seen.append(seen_by_learner(clinic))
    assert seen[0] == seen[1]
    assert sum("The release is made." in text for *_, text in seen[0]) == sum(
        map(len, KINDS.values())
    )


# --- in a real browser


@needs_browser
def test_a_learner_asks_and_an_owner_releases_in_a_browser(clinic, url):
    errors: list[str] = []
    with open_browser() as browser:
        learner = signed_in(browser, url, clinic.tokens["learner"], viewport=PHONE)
        learner.on("pageerror", lambda error: errors.append(str(error)))
        take_picture(learner, "learner-home")
        learner.get_by_role("link", name="Ask for a release of labels").click()
        learner.wait_for_url(f"{url}/ask/labels")
        learner.get_by_label("ward").uncheck()
        learner.get_by_label("File of rows").set_input_files(clinic.folder / "rows.csv")
        learner.get_by_label("Epsilon").fill("0.1")
        learner.get_by_label("Purpose").fill("from a phone")
        take_picture(learner, "learner-form")
        learner.get_by_role("button", name="Send the proposal").click()
        learner.get_by_role("heading", name="Train on it").wait_for()  # it moves on by itself
        assert fits_sideways(learner)
        take_picture(learner, "learner-granted")
        with learner.expect_download() as started:
            learner.get_by_role("link", name="Download the release").click()
        assert decode(started.value.path().read_bytes()).kind == "mean-operator"
        owner = signed_in(browser, url, clinic.tokens["owner"])
        owner.on("pageerror", lambda error: errors.append(str(error)))
        owner.goto(f"{url}/data/records")
        take_picture(owner, "owner-data")
        owner.get_by_role("link", name="Make a release").click()
        owner.get_by_label("Purpose").fill("by the owner")
        owner.get_by_label("Epsilon").fill("0.2")
        take_picture(owner, "owner-form")
        owner.get_by_role("button", name="Propose it").click()
        owner.get_by_role("link", name="Download the release").wait_for()
        take_picture(owner, "owner-released")
    assert errors == []
