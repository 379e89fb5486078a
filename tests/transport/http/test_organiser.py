"""The organiser's pages: a survey is made, tried out, opened, reminded of, closed and read."""

import csv
import io
import re

import httpx
import pytest
from browsing import PHONE, fits_sideways, needs_browser, open_browser, take_picture
from in_process import ask
from people import ABOUT, SURVEY, answers_in, asked, asking_clinic, body_of, sheet_of
from served import running
from test_accessibility import check
from test_asking import csrf_of
from test_participant_page import SEND, fill, link, opened, press, wait_for

from suffice import participant
from suffice.errors import ParameterError
from suffice.owner.answers import Outcome, Sent, new_invitations, trial_of
from suffice.owner.ledger import Ledger
from suffice.owner.survey import AnswerForm, name_in_ledger, open_survey, release_survey
from suffice.releases.codec import decode
from suffice.releases.signing import verify
from suffice.service.app import make_app
from suffice.service.settings import Settings
from suffice.service.surveys import estimates_of

WHOLE = {
    "title": "Health at work", "language": "en", "epsilon": "1", "people": "400", "shown": "2",
    "report": "per-question", "text 0": "Were you ill?", "name 0": "ill", "kind 0": "choice",
    "answers 0": "no, yes", "text 1": "How old are you?", "name 1": "age", "kind 1": "number",
    "answers 1": "0, 120", **ABOUT,
}  # fmt: skip


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return asking_clinic(tmp_path_factory.mktemp("organiser") / "clinic", 40)


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic[0]) as (address, _):
        yield address


@pytest.fixture
def begin(url, clinic):
    """Return a function that signs a role in."""
    clients = []

    def signed(role: str) -> httpx.Client:
        clients.append(httpx.Client(base_url=url, timeout=60))
        token = clinic[0].tokens.get(role, role)
        assert clients[-1].post("/login", data={"token": token}).status_code == 303
        return clients[-1]

    yield signed
    for client in clients:
        client.close()


def send(client, fields: dict[str, str], act: str):
    csrf = csrf_of(client.get("/new-survey").text)
    files = {"none": ("none", b"", "text/plain")}  # so that the form is sent in parts
    return client.post("/new-survey", data={**fields, "csrf": csrf, "act": act}, files=files)


# --- a trial


def test_a_trial_stores_no_answer_and_cannot_be_collected(tmp_path):
    clinic, store, _ = asking_clinic(tmp_path / "clinic", 1, survey=asked(purpose="Another"))
    one, two = new_invitations(2)
    ledger, before = Ledger(clinic.place), clinic.place.read_bytes()
    open_survey(SURVEY, clinic.place, store, [one], trial=True)
    assert clinic.place.read_bytes() == before
    app, trial = make_app(Settings.load(clinic.folder)), trial_of(SURVEY.id)
    body = body_of(one, sheet_of())

    def post(identity: str, content: bytes) -> int:
        return ask(app, "POST", f"/v1/surveys/{identity}/answers", "none", content).status_code

    assert post(SURVEY.id, body) == 404  # the survey itself is not open
    assert [post(trial, body), post(trial, body)] == [201, 200]
    assert post(trial, body_of(one, sheet_of())) == 409
    assert store.answered(trial) == 1
    with store._writing() as db:
        assert [bytes(row[0]) for row in db.execute("SELECT answer FROM answers")] == [b""]
    for work in (lambda: list(store.blocks(trial)), lambda: release_survey(SURVEY, ledger, store)):
        with pytest.raises(ParameterError, match=r"has no answers|never opened here"):
            work()
    open_survey(SURVEY, clinic.place, store, [two])
    assert post(trial, body) == 410  # opening the survey ends its trial
    assert post(SURVEY.id, body) == 404  # an invitation to the trial is none to the survey
    assert post(SURVEY.id, body_of(two, sheet_of())) == 201
    assert answers_in(store) == 1


def test_the_page_of_a_trial_says_so(tmp_path):
    page = ask_page(tmp_path, trial=True)
    assert 'data-trial="trial"' in page
    assert 'data-trial=""' in ask_page(tmp_path / "other", trial=False)


def ask_page(folder, *, trial: bool) -> str:
    folder.mkdir(exist_ok=True)
    other = asked(purpose="Another")
    clinic, store, _ = asking_clinic(folder / "clinic", 1, survey=other)
    open_survey(SURVEY, clinic.place, store, None, trial=trial)
    identity = trial_of(SURVEY.id) if trial else SURVEY.id
    return ask(make_app(Settings.load(clinic.folder)), "GET", f"/surveys/{identity}", "none").text


# --- making a survey


def test_a_form_makes_the_survey_of_the_command(begin):
    client = begin("organiser")
    shown = send(client, {**WHOLE, "organiser": ""}, "show")  # before it is said who asks
    assert shown.status_code == 200
    assert "With a probability of 73.1059 % it stays as it is." in shown.text
    assert "epsilon = 2" in shown.text  # of all answers together
    saved = send(client, WHOLE, "save")
    assert saved.headers["content-disposition"] == 'attachment; filename="survey.json"'
    survey = participant.read_survey(saved.content)
    assert [noise.pure for noise in survey.noises.values()] == pytest.approx([1, 1], abs=1e-4)
    assert max(noise.pure for noise in survey.noises.values()) <= 1
    assert survey.content["about"] == ABOUT
    assert client.get("/surveys").text.count("Health at work") == 0  # nothing is stored


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depends 1": "on"}, "Ask everybody, with a possible answer such as"),
        ({"report": "whole"}, "takes no question about a number"),
        ({"contact": ""}, "Say who asks"),
        ({"epsilon": "much"}, "epsilon must be a number"),
        ({"people": "nan"}, "number of people must be a number"),
        ({"answers 0": ""}, "Question 1 needs a text"),
        ({"answers 0": "0..99999999999999999999"}, "more than 256"),
        ({"name 1": "ill"}, "Two questions are named"),
        ({"answers 1": "120"}, "A range is two numbers"),
        ({"kind 0": "number", "answers 0": "0, 1"}, "list of possible answers"),
        ({"epsilon": "1e-6"}, "too small"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"title": "two  blanks"}, "printable line"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(begin, changes, words):
    response = send(begin("organiser"), {**WHOLE, **changes}, "save")
    assert response.status_code == 400
    problem = re.search(r'<p class="problem" role="alert">(.*?)</p>', response.text)[1]
    assert words in problem.replace("&#39;", "'")
    assert 'value="How old are you?"' in response.text  # what was written stays


def test_noise_that_is_too_strong_is_said(begin):
    client = begin("organiser")
    assert "is too strong for 30 people" in send(client, {**WHOLE, "people": "30"}, "show").text
    assert "is too strong" not in send(client, WHOLE, "show").text


def test_an_organiser_sees_surveys_and_nothing_else(begin, clinic, url):
    client = begin("organiser")
    assert client.get("/").headers["location"] == "/surveys"
    assert client.get("/surveys").status_code == 200
    for path in ("/report", "/log", "/tokens", "/data/diagnosis", "/ask/diagnosis", "/rounds"):
        assert client.get(path).status_code in (403, 404), path
    headers = {"Authorization": f"Bearer {clinic[0].tokens['organiser']}"}
    assert httpx.get(f"{url}/v1/datasets", headers=headers).status_code == 403
    learner, scoped = begin("learner"), begin(clinic[0].new_token("owner", ("diagnosis",)))
    for path in ("/surveys", "/new-survey", f"/surveys/{SURVEY.id}/results"):
        assert learner.get(path).status_code == 403
        assert httpx.get(f"{url}{path}").status_code == 303  # to the sign-in
        assert scoped.get(path).status_code == 403  # surveys belong to no data set
    assert send(client, {**WHOLE, "csrf": "x"}, "show").status_code == 200
    assert send(client, {**WHOLE, "shown": "7" * 9000}, "show").status_code == 200
    assert client.post("/new-survey", data={"csrf": "x"}).status_code == 403


# --- opening and closing


def post_survey(client, survey=SURVEY, **fields):
    csrf = csrf_of(client.get("/surveys").text)
    files = {"survey": ("survey.json", survey.data, "application/json")}
    return client.post("/surveys", data={"csrf": csrf, **fields}, files=files)


def test_an_organiser_opens_a_survey_and_closes_it_on_pages(tmp_path, begin, clinic):
    del begin, clinic
    made, store, _ = asking_clinic(tmp_path / "clinic", 1, survey=asked(purpose="Another"))
    others = [b for b in made.ledger.balances() if not b.dataset.startswith("survey ")]
    with running(made) as (url, _), httpx.Client(base_url=url, timeout=60) as client:

        def sign_in(role: str) -> None:
            client.cookies.clear()
            assert client.post("/login", data={"token": made.tokens[role]}).status_code == 303

        def send_all(links: str, identity: str) -> list[int]:
            lines = links.splitlines()
            assert lines[0] == "invitation,link"
            invited = [line.split(",")[0] for line in lines[1:]]
            page = f"{url}/surveys/{identity}"
            assert lines[1:] == [f"{one},{page}#{one}" for one in invited]
            return [
                client.post(
                    f"/v1/surveys/{identity}/answers", content=body_of(one, sheet_of())
                ).status_code
                for one in invited
            ]

        sign_in("officer")
        assert "Open a survey" not in client.get("/surveys").text
        assert post_survey(client, people="3").status_code == 403  # officers read
        sign_in("organiser")
        for fields, words in (
            ({}, "how many people"),
            ({"people": "0"}, "how many people"),
            ({"people": "99999999"}, "how many people"),
        ):
            response = post_survey(client, **fields)
            assert (response.status_code, words in response.text) == (400, True)
        assert post_survey(client, SURVEY._replace(data=b"{}"), people="3").status_code == 400
        trial = trial_of(SURVEY.id)
        links = post_survey(client, people="2", trial="on")
        assert send_all(links.text, trial) == [201, 201]
        links = post_survey(client, people="20")
        assert links.headers["content-disposition"] == 'attachment; filename="links.csv"'
        assert send_all(links.text, SURVEY.id) == [201] * 20
        assert store.survey(trial).state == "closed"
        place = f"/surveys/{SURVEY.id}"
        assert client.get(f"{place}/release").status_code == 404
        assert client.post(f"{place}/close", data={"csrf": "x"}).status_code == 403
        csrf = csrf_of(client.get(f"{place}/results").text)
        assert client.post(f"{place}/close", data={"csrf": csrf}).status_code == 303
        text = client.get(f"{place}/results").text
        assert "20 people answered" in text
        assert "Close and release" not in text
        again = client.post(f"{place}/close", data={"csrf": csrf})
        assert (again.status_code, "deleted" in again.text) == (400, True)
        release = decode(client.get(f"{place}/release").content)
        sign_in("officer")
        assert client.get(f"{place}/release").status_code == 200
        assert client.post(f"{place}/close", data={"csrf": csrf}).status_code == 403
        assert post_survey(client, asked(purpose="All"), who="everybody").status_code == 403
        sign_in("owner")
        opened = post_survey(client, asked(purpose="All"), who="everybody")
        assert opened.headers["location"] == f"/surveys/{asked(purpose='All').id}/results"
    verify(release, made.folder / "clinic.pub")
    assert (release.rows, store.survey(SURVEY.id).state) == (20, "deleted")
    assert others == [b for b in made.ledger.balances() if not b.dataset.startswith("survey ")]
    assert others
    assert all(b.left == 0 for b in made.ledger.balances(name_in_ledger(SURVEY)))


# --- reminders and results


def test_links_that_nobody_used_come_back(begin, clinic):
    _, store, invitations = clinic
    row = AnswerForm(SURVEY).read(sheet_of().encode())[1]
    used = invitations[:3]
    outcomes = store.take([Sent.of(SURVEY.id, one, "3c" * 16, b"", row) for one in used])
    assert set(outcomes) <= {Outcome.TAKEN, Outcome.AGAIN}
    rows = ["invitation,link", *(f"{one},https://x/surveys/y#{one}" for one in invitations[:8])]
    client = begin("organiser")
    csrf = csrf_of(client.get(f"/surveys/{SURVEY.id}/results").text)
    files = {"links": ("links.csv", "\n".join(rows).encode(), "text/csv")}
    place = f"/surveys/{SURVEY.id}/unused"
    response = client.post(place, data={"csrf": csrf}, files=files)
    assert response.text.splitlines() == [rows[0], *rows[4:]]
    assert client.post(place, data={"csrf": "x"}, files=files).status_code == 403


def test_results_are_those_of_the_release(tmp_path, begin, clinic):
    del begin, clinic
    made, store, _ = asking_clinic(tmp_path / "clinic", None)
    form, people = AnswerForm(SURVEY), new_invitations(300)
    rows = [form.read(sheet_of().encode())[1] for _ in people]
    store.take(
        [Sent.of(SURVEY.id, p, "3c" * 16, b"", r) for p, r in zip(people, rows, strict=True)]
    )
    with running(made) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        assert client.post("/login", data={"token": made.tokens["officer"]}).status_code == 303
        place = f"/surveys/{SURVEY.id}/results"
        assert "Results are here once it is closed" in client.get(place).text
        assert len(client.get(f"{place}.csv").text.splitlines()) == 1
        release = release_survey(SURVEY, made.ledger, store)
        text = client.get(place).text
        assert "There are no survey weights" in text
        assert text.count("<svg") == 2 + 3 + 20 + 1
        table = list(csv.DictReader(io.StringIO(client.get(f"{place}.csv").text)))
    assert len(table) == 26
    from suffice.learner.frequencies import release_frequencies, release_means

    first, age = release_frequencies(release)[0], release_means(release)[0]
    assert [float(row["estimate"]) for row in table[:2]] == first.shares.tolist()
    assert [row["question"] for row in table[:2]] == ["relapse", "relapse"]  # and not "label"
    assert float(table[-1]["low"]) == age.low


def test_results_of_a_whole_report_have_all_combinations():
    from suffice.owner.mechanism import Payment, make_release
    from suffice.owner.survey import _Answers, _Collection, new_survey
    from suffice.releases.release import encode

    states = {"a": ["no", "yes"], "b": [1, 2, 3]}
    survey = new_survey("T", states=states, epsilon=2.0, report="whole")
    form = AnswerForm(survey)
    sheets = (participant.respond(survey, {"a": "no", "b": 2}, None)[0] for _ in range(50))
    block = b"".join(form.read(sheet)[1] for sheet in sheets)
    release = make_release(_Collection(form), _Answers(lambda: [block], workers=1), Payment(None))
    found = estimates_of(survey.data, encode(release))
    assert [(one.name, len(one.rows)) for one in found][:2] == [("a", 2), ("b", 3)]
    assert [row[0] for row in found[2].rows][:2] == ["no / 1", "no / 2"]


# --- in a browser


@needs_browser
def test_the_organisers_pages_are_usable_by_everybody(tmp_path):
    clinic, store, _ = asking_clinic(tmp_path / "clinic", None)
    form, people = AnswerForm(SURVEY), new_invitations(300)
    rows = [form.read(sheet_of().encode())[1] for _ in people]
    store.take(
        [Sent.of(SURVEY.id, p, "3c" * 16, b"", r) for p, r in zip(people, rows, strict=True)]
    )
    other = asked(purpose="Another")
    invitations = new_invitations(3)
    open_survey(other, clinic.place, store, invitations, trial=True)
    wrong = []

    def look(page, name: str) -> None:
        for looks, shape in (("light", {"width": 1280, "height": 900}), ("dark", PHONE)):
            page.emulate_media(color_scheme=looks)
            page.set_viewport_size(shape)
            take_picture(page, f"organiser-{name}-{looks}")
            assert fits_sideways(page), name
            wrong.extend(check(page, name))
        page.emulate_media(color_scheme="light")

    with running(clinic) as (url, _), open_browser() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{url}/login")
        page.get_by_label("Token").fill(clinic.tokens["organiser"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Surveys").wait_for()
        page.get_by_role("link", name="Make a survey").click()
        look(page, "new")
        page.get_by_role("button", name="Add a question").click()
        page.get_by_role("group", name="Question 4").wait_for()
        for name, value in WHOLE.items():
            if name in ("shown", "language", "report") or name.startswith("kind"):
                continue
            page.locator(f'[name="{name}"]').fill(value)
        page.locator('[name="kind 1"]').select_option("number")
        page.locator('[name="people"]').fill("30")
        page.keyboard.press("Enter")  # shows, and adds no question
        page.get_by_role("heading", name="What it guarantees").wait_for()
        assert "too strong for 30 people" in page.inner_text("main")
        look(page, "promise")
        page.get_by_label("Only people with a certain earlier answer").first.check()
        page.get_by_role("button", name="Show guarantee and forecast").click()
        page.get_by_role("alert").wait_for()
        look(page, "refused")
        page.get_by_label("Only people with a certain earlier answer").first.uncheck()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download the survey").click()
        assert participant.read_survey(download.value.path().read_bytes()).noises.keys() == {
            "ill", "age",
        }  # fmt: skip
        page.goto(f"{url}/surveys/{trial_of(other.id)}/results")
        look(page, "trial")
        release_survey(SURVEY, clinic.ledger, store)
        page.goto(f"{url}/surveys")
        look(page, "surveys")
        page.get_by_role("link", name="After the clinic").last.click()
        page.goto(f"{url}/surveys/{SURVEY.id}/results")
        page.get_by_role("heading", name="Results").wait_for()
        look(page, "results")
        people_page = opened(browser.new_context(), link(url, invitations[0], other).replace(
            other.id, trial_of(other.id)))  # fmt: skip
        wait_for(people_page, "This is a trial.")
        look(people_page, "trial-page")
        fill(people_page)
        press(people_page, SEND)
        wait_for(people_page, "checked and thrown away, because this is a trial")
        look(people_page, "trial-sent")
    assert store.answered(trial_of(other.id)) == 1
    assert not wrong, "\n".join(wrong)
