"""What a release consists of: its changelog, its components and their licences."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _script():
    spec = importlib.util.spec_from_file_location("release", ROOT / "lab" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = _script()


def test_the_changelog_holds_every_fragment_under_its_type():
    text = release.changelog("1.2.3")
    assert text.startswith("# Changes in 1.2.3\n\n## Privacy: what changes a guarantee\n\n- ")
    fragments = sorted((ROOT / "changelog.d").glob("*.md"))
    assert {path.name.split(".")[-2] for path in fragments} <= set(release.TYPES)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(fragments)
    sections = dict(part.split("\n\n", 1) for part in text.split("\n## ")[1:])
    for path in fragments:
        title = release.TYPES[path.name.split(".")[-2]]
        assert "- " + " ".join(path.read_text().split()) in sections[title]


def test_components_are_all_that_an_installation_needs_and_have_licences():
    found = json.loads(release.sbom("1.2.3"))
    names = {component["name"] for component in found["components"]}
    assert {"numpy", "opendp", "llvmlite", "pygments"} <= names  # the last two are needed by others
    assert not {"pytest", "fastapi", "suffice"} & names  # of extras
    page = (ROOT / "docs" / "licences.md").read_text()
    for component in found["components"]:
        (licence,) = (entry["license"]["name"] for entry in component["licenses"])
        assert licence != "not stated", component
        assert f"| {component['name']} | {licence} |" in page
