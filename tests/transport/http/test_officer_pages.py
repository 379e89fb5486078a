"""The officer's pages in a real browser: read, verify with an older checkpoint, export, print."""

import pytest
from browsing import PHONE, fits_sideways, needs_browser, open_browser, signed_in, take_picture
from in_process import settle_all
from served import make_clinic, running

from suffice.owner.ledger.ledger import LostEntriesError
from suffice.owner.ledger.log import Checkpoint, Kind
from suffice.protocol.export import Export

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Make a clinic whose service has granted and countered, and has one to decide."""
    made = make_clinic(tmp_path_factory.mktemp("officer") / "clinic")
    granted = made.proposal("<script>alert(1)</script> compare wards")
    sent = {
        "diagnosis": [granted, made.proposal("too much", 4.0)],
        "smoker": [made.proposal("wait for the owner")],
    }
    settle_all(made, sent)
    return made


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


def downloaded(page, link: str) -> bytes:
    with page.expect_download() as started:
        page.get_by_role("link", name=link).click()
    return started.value.path().read_bytes()


def compared(page, url: str, text: str) -> str:
    """Return the heading of the result of comparing a checkpoint."""
    page.goto(f"{url}/log")
    page.get_by_label("Or paste its seven lines").fill(text)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_load_state()
    return page.locator("#result").inner_text()


def test_an_officer_reads_verifies_and_exports(clinic, url, browser, tmp_path):
    officer = signed_in(browser, url, clinic.tokens["officer"])
    errors: list[str] = []
    officer.on("pageerror", lambda error: errors.append(str(error)))
    officer.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    take_picture(officer, "officer-overview")
    officer.get_by_role("link", name="Log", exact=True).click()
    officer.wait_for_url(f"{url}/log")
    assert officer.get_by_text("The log is whole:").count() == 1
    assert officer.get_by_text("Every budget, charge, token and stored release").count() == 1
    take_picture(officer, "log")
    checkpoint = downloaded(officer, "Download a checkpoint")
    (tmp_path / "a.checkpoint").write_bytes(checkpoint)
    signed = Checkpoint.load(tmp_path / "a.checkpoint", clinic.folder / "clinic.pub")
    assert officer.get_by_text(signed.head).count() == 2  # above, and with its entry
    officer.get_by_label("Choose its file").set_input_files(tmp_path / "a.checkpoint")
    officer.get_by_role("button", name="Compare").click()
    assert officer.locator("#result").inner_text() == "The checkpoint agrees"
    take_picture(officer, "log-agrees")
    export = Export.load(downloaded(officer, "Export as signed JSON"), clinic.folder / "clinic.pub")
    export.check_continues(signed)
    assert export.log == clinic.ledger.log()
    officer.goto(f"{url}/report")
    assert officer.get_by_text("<script>alert(1)</script> compare wards: granted").count() == 1
    assert officer.get_by_text("Protects each label.").count() == 1
    assert officer.get_by_text("Offered instead: epsilon 0.5").count() == 1
    take_picture(officer, "report")
    officer.get_by_role("link", name="Page for printing").click()
    officer.wait_for_url(f"{url}/print")
    assert officer.get_by_role("navigation").count() == 0
    officer.emulate_media(media="print")
    assert not officer.get_by_role("meter").first.is_visible()
    take_picture(officer, "print")
    assert errors == []


def test_nonsense_is_no_checkpoint(clinic, url, browser):
    officer = signed_in(browser, url, clinic.tokens["officer"])
    officer.goto(f"{url}/log")
    officer.get_by_label("Or paste its seven lines").fill("<b>nonsense</b>")
    officer.get_by_role("button", name="Compare").click()
    alert = officer.get_by_role("alert")
    assert alert.inner_text() == "This is not a checkpoint of a suffice ledger."
    assert officer.get_by_label("Or paste its seven lines").input_value() == "<b>nonsense</b>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_on_a_phone(clinic, url, browser, scheme):
    officer = signed_in(browser, url, clinic.tokens["officer"], viewport=PHONE, color_scheme=scheme)
    for path in ("/", "/log", "/report", "/print"):
        officer.goto(f"{url}{path}")
        assert fits_sideways(officer), path
        take_picture(officer, f"phone-{scheme}{path.replace('/', '-')}")


def test_an_officer_of_one_data_set_sees_no_other(clinic, url, browser):
    text = clinic.new_token("officer", ("diagnosis",))
    officer = signed_in(browser, url, text)
    for path in ("/", "/log", "/report", "/print"):
        officer.goto(f"{url}{path}")
        assert "smoker" not in officer.content(), path
    assert officer.get_by_text("It covers diagnosis").count() == 1


def test_a_rewritten_ledger_is_noticed(browser, tmp_path):
    clinic = make_clinic(tmp_path / "clinic")
    path = clinic.folder / "clinic.ledger"
    copy = path.read_bytes()
    clinic.ledger.record_answer("diagnosis", Kind.REFUSAL, {"reason": "what happened"})
    newer = clinic.ledger.checkpoint(clinic.folder / "clinic.key")
    path.write_bytes(copy)
    clinic.ledger.record_answer("diagnosis", Kind.REFUSAL, {"reason": "what is told now"})
    with running(clinic) as (url, _):
        officer = signed_in(browser, url, clinic.tokens["officer"], color_scheme="dark")
        assert compared(officer, url, newer.to_text()) == "The checkpoint does not agree"
        assert "rewritten" in officer.get_by_role("alert").inner_text()
        assert officer.title().startswith("The checkpoint does not match")
        take_picture(officer, "log-rewritten-dark")
        assert officer.get_by_text("The log is whole:").count() == 1  # by itself it looks right
        data = downloaded(officer, "Export as signed JSON")
    with pytest.raises(LostEntriesError):
        Export.load(data, clinic.folder / "clinic.pub").check_continues(newer)
