"""The participant's page in a real browser: what leaves it, what it keeps, and what it shows.

``SUFFICE_PICTURES=FOLDER`` stores pictures of the pages, for people.
"""

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from browsing import _OPTIONS, CHROMIUM, needs_browser, open_browser, signed_in, take_picture
from people import ABOUT, SURVEY, TRUTHS, answers_in, asked, asking_clinic
from served import running
from test_accessibility import check

from suffice.owner.survey import new_survey
from suffice.owner.survey_page import page_of

pytestmark = needs_browser

READ = """() => new Promise((resolve) => {
  const request = indexedDB.open("suffice", 1);
  request.onsuccess = () => {
    const draws = request.result.transaction("draws").objectStore("draws").getAll();
    draws.onsuccess = () => { request.result.close(); resolve(draws.result); };
  };
})"""
SEND = "Change my answers at random and send them"
THANKS = "Your answer is stored. Thank you."
MARK = "41.73190284"  # a true answer that stands nowhere else


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return asking_clinic(tmp_path_factory.mktemp("page") / "clinic", 80)


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic[0]) as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser():
    with open_browser() as launched:
        yield launched


@pytest.fixture
def invitation(clinic):
    return clinic[2].pop()


def link(url: str, invitation: str = "", survey=SURVEY) -> str:
    return f"{url}/surveys/{survey.id}" + (f"#{invitation}" if invitation else "")


def opened(context, place: str):
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(place)
    return page


def fill(page, truths=TRUTHS) -> None:
    page.get_by_label(str(truths["relapse"]), exact=True).check()
    page.get_by_role("group", name="Question 2").get_by_label(
        str(truths["grade"]), exact=True
    ).check()
    page.get_by_role("combobox").select_option(str(truths["month"]))
    page.get_by_role("textbox", name="A number").fill(str(truths["age"]))


def press(page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def wait_for(page, text: str) -> None:
    page.get_by_text(text).wait_for()


def test_what_leaves_is_the_stored_draw_and_nothing_else(clinic, url, browser):
    """Fifty people with two different truths: requests are alike but for invitation, r and draw."""
    store, before = clinic[1], answers_in(clinic[1])
    traces = {0: set(), 1: set()}
    truths = (TRUTHS, {"relapse": "no", "grade": 1, "month": 3, "age": 99.5})
    for k in range(50):
        context = browser.new_context()
        page = opened(context, "about:blank")
        seen = []
        page.on("request", lambda request, seen=seen: seen.append(request))
        invitation = clinic[2].pop()
        page.goto(link(url, invitation))
        fill(page, truths[k % 2])
        press(page, SEND)
        wait_for(page, THANKS)
        (record,) = page.evaluate(READ)
        sent = json.loads(seen[-1].post_data)
        assert sent == {"invitation": invitation, "r": record["r"], "answer": record["sheet"]}
        assert invitation not in page.url
        size = len(seen[-1].post_data) - len(json.dumps(record["sheet"]))
        headers = {n: v for n, v in seen[-1].headers.items() if n != "content-length"}
        traces[k % 2].add(
            (
                tuple((r.method, r.url.partition("#")[0], r.resource_type) for r in seen),
                size,
                tuple(sorted(headers.items())),
            )
        )
        context.close()
    assert traces[0] == traces[1]
    assert len(traces[0]) == 1
    assert answers_in(store) == before + 50


def test_the_draw_alone_decides_the_size_of_an_answer(clinic, url, browser):
    """What is sent is what `participant.py` writes for the same draw, byte by byte."""
    for age in (3, 90):
        context = browser.new_context()
        page = opened(context, link(url, clinic[2].pop()))
        fill(page, {**TRUTHS, "age": age})
        with page.expect_request("**/answers") as sent:
            press(page, SEND)
        wait_for(page, THANKS)
        sheet = json.loads(sent.value.post_data)["answer"]
        written = json.dumps(json.loads(sheet), indent=1, sort_keys=True, ensure_ascii=False)
        assert sheet == f"{written}\n"
        context.close()


def test_reload_double_click_two_tabs_and_back_are_one_answer(clinic, url, browser, invitation):
    store, before = clinic[1], answers_in(clinic[1])
    context = browser.new_context()
    tabs = [opened(context, link(url, invitation)) for _ in range(2)]
    for k, page in enumerate(tabs):
        fill(page, {**TRUTHS, "relapse": ("yes", "no")[k]})
    bodies = []
    context.on("request", lambda r: bodies.append(r.post_data) if r.method == "POST" else None)
    for page in tabs:
        page.get_by_role("button", name=SEND).dblclick(no_wait_after=True)
    for page in tabs:
        wait_for(page, THANKS)
    assert len(set(bodies)) == 1
    first = tabs[0].locator("dd").all_inner_texts()
    assert first == tabs[1].locator("dd").all_inner_texts()
    tabs[0].reload()
    wait_for(tabs[0], THANKS)
    tabs[0].goto("about:blank")
    tabs[0].go_back()
    wait_for(tabs[0], THANKS)
    assert tabs[0].locator("dd").all_inner_texts() == first
    assert answers_in(store) == before + 1
    context.close()


def test_two_people_on_one_browser_have_two_draws(clinic, url, browser):
    store, before = clinic[1], answers_in(clinic[1])
    context = browser.new_context()
    page = opened(context, "about:blank")
    for one in (clinic[2].pop(), clinic[2].pop()):  # the second link opens in the same tab
        page.goto(link(url, one))
        fill(page)
        press(page, SEND)
        wait_for(page, THANKS)
    records = page.evaluate(READ)
    assert len({record["r"] for record in records}) == 2
    assert answers_in(store) == before + 2
    context.close()


def test_a_shared_computer_keeps_nothing(url, browser, invitation):
    context = browser.new_context()
    page = opened(context, link(url, invitation))
    fill(page)
    page.get_by_label("This is a shared computer").check()
    press(page, SEND)
    wait_for(page, "This browser keeps nothing")
    assert page.evaluate(READ) == []
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0
    page.reload()
    wait_for(page, "This survey is by invitation")
    context.close()


def test_without_a_network_the_answer_waits(url, browser, invitation):
    context = browser.new_context()
    page = opened(context, link(url, invitation))
    context.set_offline(True)
    fill(page)
    press(page, SEND)
    wait_for(page, "could not be sent")
    (record,) = page.evaluate(READ)
    assert page.locator("dd").count() == 0  # the draw is not shown before it is sent
    context.set_offline(False)
    press(page, "Send it")
    wait_for(page, THANKS)
    (after,) = page.evaluate(READ)
    assert after == {**record, "sent": True}
    context.close()


def test_what_is_wrong_is_said_and_nothing_leaves(url, browser, invitation):
    context = browser.new_context()
    page = opened(context, link(url, invitation))
    page.on("request", lambda request: pytest.fail(request.url))
    press(page, SEND)
    assert page.get_by_text("Answer this question.").count() == 4
    fill(page, {**TRUTHS, "age": "forty"})
    press(page, SEND)
    wait_for(page, "Write a number here.")
    assert page.evaluate(READ) == []
    context.close()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "not known here"),
        (409, "used for another answer"),
        (410, "survey is closed. Your"),
        (503, "busy"),
    ],
)
def test_what_the_service_answers_is_said(url, browser, status, words, invitation):
    context = browser.new_context()
    context.route("**/answers", lambda route: route.fulfill(status=status))
    page = opened(context, link(url, invitation))
    fill(page)
    press(page, SEND)
    wait_for(page, words)
    assert page.locator("dl:not(.organisers) dd").count() == 0
    context.close()


# --- the profile on disk


@contextmanager
def profile(browser, folder):
    """Yield a browser whose profile is a folder; it may be killed in the block."""
    context = browser.browser_type.launch_persistent_context(
        folder, executable_path=CHROMIUM, args=_OPTIONS
    )
    yield context
    with suppress(Exception):  # playwright's own, if it was killed
        context.close()


def kill_browser(folder) -> None:
    """End every process of the browser with this profile, as a power cut does: all at once.

    They are stopped first. Else the process that speaks to the network outlives the one that holds
    the request back, and lets it go.
    """
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True)
    lines = [line.strip().partition(" ") for line in listed.stdout.splitlines()]
    own = [int(pid) for pid, _, words in lines if f"--user-data-dir={folder}" in words]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def holds(folder, text: str) -> list[str]:
    """Return the files of a folder that hold a text, in one of the encodings of a browser."""
    forms = [text.encode(), text.encode("utf-16-le")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]


def test_a_killed_browser_sends_the_same_answer(tmp_path, clinic, url, browser, invitation):
    folder, bodies = tmp_path / "profile", []
    with profile(browser, folder) as context:
        context.on("request", lambda r: bodies.append(r.post_data) if r.method == "POST" else None)
        page = opened(context, link(url, invitation))
        fill(page)
        context.set_offline(True)  # a request that is held back may go when the browser ends
        press(page, SEND)
        while not bodies:  # it is about to leave, and does not
            page.wait_for_timeout(20)
        kill_browser(folder)
    assert clinic[1].unused(SURVEY.id, [invitation]) == [invitation]
    with profile(browser, folder) as context:
        page = opened(context, link(url, invitation))
        wait_for(page, "stored in this browser, but not sent yet")
        context.on("request", lambda r: bodies.append(r.post_data) if r.method == "POST" else None)
        press(page, "Send it")
        wait_for(page, THANKS)
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


def test_no_true_answer_is_in_the_profile_after_sending(tmp_path, url, browser, invitation):
    folder = tmp_path / "profile"
    with profile(browser, folder) as context:
        page = opened(context, link(url, invitation))
        fill(page, {**TRUTHS, "age": MARK})
        press(page, "Save and come back later")
        wait_for(page, "Your true answers are saved")
    assert holds(folder, MARK)  # because the person asked for it; and the search finds it
    with profile(browser, folder) as context:
        page = opened(context, link(url, invitation))
        wait_for(page, "These are the answers that you saved")
        assert page.get_by_role("textbox", name="A number").input_value() == MARK
        press(page, SEND)
        wait_for(page, THANKS)
        (record,) = page.evaluate(READ)
        assert set(record) == {"sheet", "r", "invitation", "sent"}
        assert holds(folder, MARK) == []
    assert holds(folder, MARK) == []
    assert holds(folder, record["r"])  # the search finds what is kept


# --- other ways


def test_an_open_survey_asks_who_answered(tmp_path, browser):
    clinic, store, _ = asking_clinic(tmp_path / "clinic", None)
    with running(clinic) as (url, _):
        context = browser.new_context()
        page = opened(context, link(url))
        wait_for(page, "Everybody who has the address")
        fill(page)
        press(page, SEND)
        wait_for(page, THANKS)
        page.reload()
        wait_for(page, "Has somebody else answered here?")
        press(page, "No, that was me")
        wait_for(page, "You have answered.")
        page.reload()
        press(page, "Yes, and I have not answered yet")
        fill(page)
        press(page, SEND)
        wait_for(page, THANKS)
        context.close()
    assert answers_in(store) == 2


def test_the_offline_page_sends_nothing_and_its_answer_is_taken(tmp_path, url, browser, invitation):
    (tmp_path / "survey.json").write_bytes(SURVEY.data)
    words = ["survey", "page", tmp_path / "survey.json", "-o", tmp_path / "page.html"]
    printed = subprocess.run(
        [sys.executable, "-m", "suffice", *words], capture_output=True, text=True, check=True
    ).stdout
    data = (tmp_path / "page.html").read_bytes()
    assert hashlib.sha256(data).hexdigest() in printed
    assert data == page_of(SURVEY, "offline")[0].encode()  # the same for everybody
    context = browser.new_context()
    page = opened(context, "about:blank")
    asked_for = []
    page.on("request", lambda request: asked_for.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    fill(page)
    press(page, "Change my answers at random")
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the answer file").click()
    sheet = Path(download.value.path()).read_text(encoding="utf-8")
    assert page.locator("#code").input_value() == sheet
    assert {place.partition(":")[0] for place in asked_for} <= {"file", "blob"}
    take_picture(page, "participant-offline-drawn")
    online = opened(context, link(url, invitation))
    online.get_by_text("I have an answer from the offline page").click()
    online.get_by_label("The text of the answer file").fill("nonsense")
    press(online, "Send this answer")
    wait_for(online, "This is not an answer to this survey.")
    online.get_by_label("The text of the answer file").fill(sheet)
    with online.expect_request("**/answers") as sent:
        press(online, "Send this answer")
    wait_for(online, THANKS)
    assert json.loads(sent.value.post_data)["answer"] == sheet
    context.close()


def test_the_policy_lets_nothing_else_run(url, browser, invitation):
    context = browser.new_context()
    page = opened(context, "about:blank")
    response = page.goto(link(url, invitation))
    policy = response.headers["content-security-policy"]
    for part in ("default-src 'none'", "connect-src 'self'", "base-uri 'none'",
                 "form-action 'none'", "frame-ancestors 'none'", "trusted-types 'none'",
                 "require-trusted-types-for 'script'"):  # fmt: skip
        assert part in policy
    assert "unsafe" not in policy
    assert response.headers["referrer-policy"] == "no-referrer"
    wait_for(page, "Question 1 of 4")
    assert page.evaluate("location.hash") == ""
    tried = """() => {
      const script = document.createElement("script");
      try { script.textContent = "window.hit = 1"; document.body.append(script); } catch { }
      return window.hit;
    }"""
    assert page.evaluate(tried) is None
    context.close()


def test_without_javascript_the_page_says_what_to_do(url, browser):
    context = browser.new_context(java_script_enabled=False)
    page = opened(context, link(url))
    assert "participant.py" in page.locator("main").inner_text()
    context.close()


def test_a_survey_that_says_something_else_is_refused(browser, tmp_path):
    altered = SURVEY._replace(data=SURVEY.data.replace(b"75 %", b"50 %"))
    (tmp_path / "page.html").write_text(page_of(altered, "offline")[0])
    context = browser.new_context()
    page = opened(context, (tmp_path / "page.html").as_uri())
    wait_for(page, "does not do what it says")
    assert page.locator("form").count() == 0
    context.close()


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_page_is_usable_by_everybody(tmp_path, browser, language):
    survey = asked(language)
    clinic, _, (invitation,) = asking_clinic(tmp_path / "clinic", 1, survey=survey)
    with running(clinic) as (url, _):
        context = browser.new_context()
        page = opened(context, link(url, invitation, survey))
        page.locator("form").wait_for()
        assert page.get_attribute("html", "lang") == language
        text = page.locator("main").inner_text()
        said = page.locator("dl.organisers dd").all_inner_texts()
        assert said == list(ABOUT.values())
        assert ("75 of 100 people's" if language == "en" else "Von 100 Menschen bleiben") in text
        wrong = []
        for step in ("asked", "sent"):
            for look, size in (("light", 1280), ("dark", 1280), ("light", 375), ("dark", 375)):
                page.emulate_media(color_scheme=look)
                page.set_viewport_size({"width": size, "height": 800})
                take_picture(page, f"participant-{language}-{step}-{look}-{size}")
            wrong += check(page, step)
            if step == "asked":
                page.locator("input[type=radio]").first.check()
                page.locator("fieldset").nth(1).locator("input").first.check()
                page.locator("select").select_option("4")
                page.locator("input[type=text]").fill("30,5" if language == "de" else "30.5")
                page.locator("button[type=submit]").click()
                page.locator("dl:not(.organisers)").wait_for()
        context.close()
    assert not wrong, "\n".join(wrong)


def test_a_report_of_all_answers_is_one_draw_of_all(tmp_path, browser):
    """The page of a whole report: one row arrives, it is what was shown, and true or not."""
    states = {"relapse": ["no", "yes"], "grade": [1, 2, 3], "pills": ["all", "some", "none"]}
    survey = new_survey("After the clinic", states=states, epsilon=1.0, report="whole", about=ABOUT)
    clinic, store, invitations = asking_clinic(tmp_path / "clinic", 12, survey=survey)
    sizes, traces, wrong = set(), {0: set(), 1: set()}, []
    with running(clinic) as (url, _):
        for k, one in enumerate(invitations):
            context = browser.new_context()
            page = opened(context, "about:blank")
            seen = []
            page.on("request", lambda request, seen=seen: seen.append(request))
            page.goto(link(url, one, survey))
            page.locator("form").wait_for()
            text = page.locator("main").inner_text()
            assert text.count("For 52 of 100 people, the true one is among them.") == 3
            answers = (("yes", "3", "some"), ("no", "1", "all"))[k % 2]
            for number, answer in enumerate(answers, 1):
                group = page.get_by_role("group", name=f"Question {number}")
                group.get_by_label(answer, exact=True).check()
            if k == 0:
                take_picture(page, "participant-whole-asked")
                wrong += check(page, "asked")
            press(page, SEND)
            wait_for(page, THANKS)
            if k == 0:
                take_picture(page, "participant-whole-sent")
                wrong += check(page, "sent")
            (record,) = page.evaluate(READ)
            body = json.loads(seen[-1].post_data)
            assert body == {"invitation": one, "r": record["r"], "answer": record["sheet"]}
            sheet = json.loads(record["sheet"])
            assert sheet.keys() == {"suffice", "version", "survey", "token", "report"}
            sizes.add(len(sheet["report"]))
            shown = page.locator("ul li").all_inner_texts()
            names = [" / ".join(map(str, names)) for names in itertools.product(*states.values())]
            assert shown == [names[number] for number in sheet["report"]]
            traces[k % 2].add(tuple((r.method, r.url.partition("#")[0]) for r in seen))
            context.close()
        assert sizes == {survey.report.size} == {5}
        assert traces[0] == traces[1]
    assert answers_in(store, survey) == 12
    assert not wrong, "\n".join(wrong)


def test_the_list_of_surveys_is_usable_by_everybody(clinic, url, browser):
    page = signed_in(browser, url, clinic[0].tokens["owner"])
    page.get_by_role("link", name="Surveys").click()
    page.get_by_role("cell", name="people with an invitation").wait_for()
    take_picture(page, "organiser-surveys")
    wrong = check(page, "surveys")
    assert not wrong, "\n".join(wrong)
