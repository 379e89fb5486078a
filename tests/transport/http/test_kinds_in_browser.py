"""Each kind of release in a browser: a learner asks, an owner decides, the learner trains."""

import shlex
import subprocess
import sys

import pytest
from browsing import needs_browser, open_browser, signed_in, take_picture
from every_kind import KINDS
from served import running
from test_desk import desk_clinic

from suffice.releases.codec import decode

WANTED = [(dataset, *wanted) for dataset in ("labels", "records") for wanted in KINDS[dataset][:3]]
NOISE = {"moments": "gaussian", "rados": "gaussian", "responses": "response"}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    return desk_clinic(tmp_path_factory.mktemp("browser") / "clinic")


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@pytest.fixture(scope="module")
def people(clinic, url):
    """Yield the browsers of a learner and of an owner, and what failed in their pages."""
    errors: list[str] = []
    with open_browser() as browser:
        pages = [signed_in(browser, url, clinic.tokens[role]) for role in ("learner", "owner")]
        for page in pages:
            page.on("pageerror", lambda error: errors.append(str(error)))
        yield *pages, errors


def asked_for(page, url, clinic, wanted) -> str:
    """Fill in the form of a kind and send it; return the name of the proposal."""
    dataset, kind, epsilon, delta, options = wanted
    page.goto(f"{url}/ask/{dataset}?kind={kind}")
    for name in {"age", "size", "ward"} - {*options.get("features", ("age", "size", "ward"))}:
        page.get_by_label(name, exact=True).uncheck()
    if "bags" in options:
        page.get_by_label("Column that forms the bags").select_option(*options["bags"])
    if dataset == "labels":
        page.get_by_label("File of rows").set_input_files(clinic.folder / "rows.csv")
    page.get_by_label("Epsilon").fill(f"{epsilon}")
    page.get_by_label("Delta").fill(f"{delta}")
    if page.get_by_label("Noise type").count():
        page.get_by_label("Noise type").select_option(NOISE.get(kind, "auto"))
    for label, name in (("Length at which", "bound"), ("Number of sums", "count")):
        if name in options:
            page.get_by_label(label).fill(str(options[name]))
    page.get_by_label("Purpose").fill(f"in a browser, {kind}")
    page.get_by_role("button", name="Send the proposal").click()
    page.wait_for_url(f"{url}/ask/{dataset}/sha256:*")
    return page.url.rsplit("/", 1)[1]


@needs_browser
def test_each_kind_is_proposed_granted_fetched_and_fitted(clinic, url, people, tmp_path):
    learner, owner, errors = people
    digests = {wanted[1]: asked_for(learner, url, clinic, wanted) for wanted in WANTED}
    for dataset, kind, *_ in WANTED:
        owner.goto(f"{url}/data/{dataset}")
        owner.get_by_role("link", name=f"in a browser, {kind}").click()
        owner.get_by_role("button", name="Grant and charge epsilon 0.4").click()
    names = {"labels": ("rows.csv", "new.csv"), "records": ("new.csv",)}
    made = {}
    for dataset, kind, *_ in WANTED:
        learner.goto(f"{url}/ask/{dataset}/{digests[kind]}")
        learner.get_by_role("heading", name="Train on it").wait_for()  # it moves on by itself
        with learner.expect_download() as started:
            learner.get_by_role("link", name="Download the release").click()
        folder = tmp_path / kind
        folder.mkdir()
        started.value.save_as(folder / started.value.suggested_filename)
        for name in names[dataset]:
            (folder / name).write_bytes((clinic.folder / "rows.csv").read_bytes())
        made[kind] = decode(next(folder.glob("*.suffice")).read_bytes()).kind
        train = learner.locator("pre").first.inner_text().splitlines()[1]
        words = [sys.executable, "-m", *shlex.split(train)]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        # Labels and noise are drawn at random here: proportions may say too little.
        says_why = kind == "proportions" and " Use " in done.stderr
        assert done.returncode == 0 or says_why, (train, done.stderr)
    expected = {kind: kind for _, kind, *_ in WANTED}
    assert made == expected | {"bags": made["bags"]}
    for name in ("labels", "records"):
        owner.goto(f"{url}/data/{name}")
        picture = owner.get_by_role("img", name="The budget per")
        assert "is spent" in picture.get_attribute("aria-label")
        take_picture(owner, f"kinds-{name}")
    assert errors == []


@needs_browser
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("kind", "parties"), "There is nothing here"),  # no form has it
        (("kind", "moments"), "There is nothing here"),  # of records, and these are labels
        (("noise", "unprotected"), "This noise type cannot be chosen here"),
        (("bags", "secret"), "This column cannot form bags"),  # the sheet does not name it
        (("bags", "/etc/passwd"), "This column cannot form bags"),
        (("bags", "postgresql://db/clinic"), "This column cannot form bags"),
    ],
)
def test_an_owner_who_alters_the_form_is_refused(clinic, url, people, change, words):
    _, owner, _ = people
    before = clinic.records.counts("labels")
    owner.goto(f"{url}/ask/labels?kind=proportions")
    owner.get_by_label("Purpose").fill("altered")
    owner.evaluate(
        """([field, value]) => {
          const old = document.querySelector(`[name=${field}]`);
          const input = document.createElement("input");
          Object.assign(input, {type: "hidden", name: field, value: value});
          old.replaceWith(input);
        }""",
        list(change),
    )
    owner.get_by_role("button", name="Propose it").click()
    owner.get_by_text(words).wait_for()
    assert clinic.records.counts("labels") == before


@needs_browser
def test_an_owner_adds_a_data_set_and_raises_its_budget_in_a_browser(url, people):
    _, owner, errors = people
    owner.goto(f"{url}/")
    owner.get_by_role("link", name="Add fresh").click()
    owner.get_by_label("Epsilon of the budget").fill("2")
    owner.get_by_label("Delta of the budget").fill("1e-5")
    owner.get_by_role("button", name="Show what that means").click()
    take_picture(owner, "desk-add")
    owner.get_by_label("Reason").fill("the study begins")
    owner.get_by_role("button", name="Add the data set with epsilon 2").click()
    owner.wait_for_url(f"{url}/data/fresh")
    owner.get_by_role("link", name="Raise the budget").click()
    owner.get_by_label("Epsilon of the budget").fill("1")
    owner.get_by_role("button", name="Show what that means").click()
    owner.get_by_role("alert").get_by_text("never lowered").wait_for()
    owner.get_by_label("Epsilon of the budget").fill("3")
    owner.get_by_role("button", name="Show what that means").click()
    take_picture(owner, "desk-raise")
    owner.get_by_label("Reason").fill("the study goes on")
    owner.get_by_role("button", name="Raise the budget to epsilon 3").click()
    owner.wait_for_url(f"{url}/data/fresh")
    owner.get_by_role("img", name="It was raised to 3").wait_for()
    take_picture(owner, "desk-history")
    assert owner.goto(f"{url}/data/%2Fetc%2Fpasswd/budget").status == 404
    assert errors == []
