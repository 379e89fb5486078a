"""The party's page and the aggregator's, in a browser: uploads, reasons, withdrawals, axe."""

import pytest
from browsing import PHONE, needs_browser, open_browser, signed_in, take_picture
from parties import Aggregator, auxiliary_rows, part_of, terms_of
from served import running
from test_accessibility import check

from suffice.owner.parties.rounds import sign_round

pytestmark = needs_browser


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    return Aggregator(tmp_path_factory.mktemp("pages") / "clinic", ["north", "south", "west"])


def pictures(page, name: str) -> None:
    for size, shape in (("desk", {"width": 1280, "height": 900}), ("phone", PHONE)):
        page.set_viewport_size(shape)
        take_picture(page, f"{name}-{size}")


def test_a_party_sends_mends_and_withdraws_on_its_page(held):
    north = held.tokens["north"]
    with running(held.clinic) as (url, _), open_browser() as browser:
        page = browser.new_context().new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{url}/rounds/{held.made.id}")
        result = page.get_by_role("status")

        def send(data: bytes, token: str = north) -> str:
            page.get_by_label("Token of your party").fill(token)
            file = {"name": "north.part", "mimeType": "application/octet-stream", "buffer": data}
            page.get_by_label("Contribution (.part file)").set_input_files(file)
            with page.expect_response(lambda answer: answer.request.method == "PUT"):
                page.get_by_role("button", name="Send").click()
            page.wait_for_timeout(300)
            return result.inner_text()

        pictures(page, "party-empty")
        assert "not good" in send(part_of("north", 1), "suffice_a_b")
        wrong = check(page, "the party's page")
        assert "other auxiliary rows" in send(part_of("north", 1, auxiliary_rows(2)))
        pictures(page, "party-rejected")
        wrong += check(page, "a rejection")
        assert "is stored" in send(part_of("north", 1))
        pictures(page, "party-stored")
        wrong += check(page, "a contribution that is stored")
        assert "Withdraw that one first" in send(part_of("north", 2))
        page.get_by_role("button", name="Withdraw").click()
        page.get_by_role("heading", name="Withdrawn").wait_for()
        assert "Nothing is stored" in result.inner_text()
        assert held.store.standings(held.made)["north"].state == "missing"
        assert {one.partition("?")[0].startswith(url) for one in asked} == {True}
        assert page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == [
            "", 0, 0,
        ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def test_the_aggregator_sees_who_is_missing_and_an_officer_does_not(held):
    other = sign_round(terms_of(["east"], title="Summer"), held.folder / "clinic.key")
    (held.folder / "summer.round").write_bytes(other.data)
    held.open("summer.round")
    held.ask("PUT", "south", part_of("south", 1))
    held.ask("PUT", "west", part_of("west", 1, auxiliary_rows(2)))
    with running(held.clinic) as (url, _), open_browser() as browser:
        page = signed_in(browser, url, held.clinic.tokens["owner"])
        page.get_by_role("link", name="Rounds").click()
        page.get_by_role("heading", name="Rounds").wait_for()
        assert "other auxiliary rows" in page.inner_text("main")
        pictures(page, "aggregator")
        wrong = check(page, "the aggregator's page")
        officer = signed_in(browser, url, held.clinic.tokens["officer"])
        officer.goto(f"{url}/rounds")
        assert "Spring" in officer.inner_text("main")
        assert "auxiliary rows" not in officer.inner_text("main")
    assert not wrong, "\n".join(wrong)
