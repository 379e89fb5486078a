"""A proof page names the code it covers and its digest; changed code makes the page stale."""

import ast
import hashlib
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
PAGES = sorted((SRC / "suffice" / "privacy" / "proofs").glob("*.md"))
COVERED = re.compile(r"^- `([\w.]+):(\w+)` sha256:([0-9a-f]{12})$", re.MULTILINE)
SECTIONS = ("## Precondition", "## Code covered", "## Postcondition", "## Proof")


def definition(module: str, name: str) -> ast.AST:
    path = SRC / Path(*module.split(".")).with_suffix(".py")
    found = [n for n in ast.parse(path.read_text()).body if getattr(n, "name", None) == name]
    assert len(found) == 1, f"{module}:{name}"
    return found[0]


def digest(node: ast.AST) -> str:
    """Hash what the code does: comments, layout and docstrings may change freely."""
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            inner.body = [
                n for n in body if not isinstance(getattr(n, "value", None), ast.Constant)
            ]
    return hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:12]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_proof_covers_the_code_as_it_is(page):
    text = page.read_text()
    assert all(section in text for section in SECTIONS)
    covered = COVERED.findall(text)
    assert len(covered) == len([x for x in text.splitlines() if x.startswith("- `suffice.")]) > 0
    stale = {
        f"- `{module}:{name}` sha256:{now}"
        for module, name, then in covered
        if (now := digest(definition(module, name))) != then
    }
    assert not stale, f"read {page.name} again beside the code, then put:\n" + "\n".join(stale)


def test_every_mechanism_has_a_proof():
    noise = ast.parse((SRC / "suffice/privacy/noise.py").read_text())
    mechanisms = {
        n.name for n in noise.body if isinstance(n, ast.ClassDef) and n.name.endswith("Noise")
    }
    covered = {name for page in PAGES for _, name, _ in COVERED.findall(page.read_text())}
    assert mechanisms - {"Noise"} <= covered
    assert "Response" in covered


def test_a_changed_line_changes_the_digest():
    before = ast.parse("def f(x):\n    '''Say.'''\n    return x + 1").body[0]
    same = ast.parse("def f(x):\n    # why\n    return (x + 1)").body[0]
    after = ast.parse("def f(x):\n    return x + 2").body[0]
    assert digest(before) == digest(same) != digest(after)
