"""The site builds without a warning, and its reference has every public name in one place."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path

import suffice
from followed_pages import glossary

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENTED = re.compile(r"^\.\. auto(?:class|function):: (\w+)$", re.MULTILINE)


def test_every_public_name_is_in_exactly_one_page_of_the_reference():
    pages = [page.read_text() for page in sorted((DOCS / "api").glob("*.md"))]
    documented = Counter(name for page in pages for name in DOCUMENTED.findall(page))
    assert documented == Counter(list(suffice._HOMES))


def undocumented_fields(site: Path) -> list[str]:
    """Return the fields of public dataclasses that the page of their class does not list."""
    pages = "".join(page.read_text() for page in sorted((site / "api").glob("*.html")))
    parts = re.split(r'id="suffice\.(\w+)"', pages)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    classes = [getattr(suffice, name) for name in suffice._HOMES]
    classes = [kind for kind in classes if isinstance(kind, type) and is_dataclass(kind)]
    assert len(classes) > 10
    return [
        f"{kind.__name__}.{item.name}"
        for kind in classes
        for item in fields(kind)
        if item.repr and f"<strong>{item.name}</strong>" not in sections[kind.__name__]
    ]


def test_the_site_builds_without_a_warning(tmp_path):
    """As `make docs` does it: a dead link, a page that none leads to, a bad docstring fail."""
    site = tmp_path / "site"
    words = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", tmp_path / "trees"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, DOCS, site],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "MeanOperator" in (site / "api" / "owner.html").read_text()
    assert 'href="glossary.html"' in (site / "index.html").read_text()
    assert not undocumented_fields(site)
    explained = (site / "glossary.html").read_text()
    assert not [term for term in glossary() if f"<strong>{term}</strong>" not in explained]
    for page in site.rglob("*.html"):  # it needs no network to be read either
        loaded = re.findall(r'<(?:img|link|script)[^>]+(?:href|src)="([^"]+)', page.read_text())
        assert loaded
        assert not [address for address in loaded if "//" in address]
