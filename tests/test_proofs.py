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


def definition(module: str, name: str) -> list[ast.AST]:
    """Return a function or class, and the module's constants that it reads."""
    path = SRC / Path(*module.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text()).body
    found = [n for n in body if getattr(n, "name", None) == name]
    assert len(found) == 1, f"{module}:{name}"
    read = {n.id for n in ast.walk(found[0]) if isinstance(n, ast.Name)}
    assigned = [n for n in body if isinstance(n, ast.Assign | ast.AnnAssign)]
    return found + [node for node in assigned if read & stored(node)]


def stored(node: ast.AST) -> set[str]:
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def digest(nodes: list[ast.AST]) -> str:
    """Hash what the code does: comments, layout and docstrings may change freely."""
    return hashlib.sha256("\n".join(map(without_words, nodes)).encode()).hexdigest()[:12]


def without_words(node: ast.AST) -> str:
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        if isinstance(body, list) and body and is_docstring(body[0]):
            inner.body = body[1:]
    return ast.unparse(node)


def is_docstring(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


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


def test_the_promise_lists_every_page():
    listed = (SRC.parent / "docs" / "promise.md").read_text().split("## Proofs")[1].split("## ")[0]
    assert sorted(re.findall(r"`(\w+)`", listed)) == [page.stem for page in PAGES]


def test_every_mechanism_has_a_proof():
    noise = ast.parse((SRC / "suffice/privacy/noise.py").read_text())
    mechanisms = {
        n.name for n in noise.body if isinstance(n, ast.ClassDef) and n.name.endswith("Noise")
    }
    covered = {name for page in PAGES for _, name, _ in COVERED.findall(page.read_text())}
    assert mechanisms - {"Noise"} <= covered
    assert "Response" in covered


# Modules of which every function draws, sums or charges, but for those named here.
WHOLE = {
    "privacy.knorm": (),
    "privacy.noise": ("needs_delta",),
    "privacy.randomness": (),
    "kernels.maps": ("_double", "add_fourier_sums", "add_kernel_sums"),
    "kernels.sums": (),
    "kernels.cells": ("_walk",),
    "kernels.response": (),
    "kernels.rados": ("_edges", "_largest", "_normalise", "_pick", "boost"),
    "engines.sums": ("default_count",),
    "owner.ledger.ledger": ("_by_label", "_summed", "store_at"),
    "owner.ledger.store": ("Claim", "Store", "_token", "token_facts", "unread_version"),
    "owner.ledger.postgres": (),
}


@pytest.mark.parametrize("module", WHOLE)
def test_every_function_of_these_modules_is_covered(module):
    body = ast.parse((SRC / "suffice" / Path(*module.split("."))).with_suffix(".py").read_text())
    made = {n.name for n in body.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    pages = [COVERED.findall(page.read_text()) for page in PAGES]
    covered = {name for page in pages for of, name, _ in page if of == f"suffice.{module}"}
    assert made - covered == {*WHOLE[module]}


def test_a_changed_line_changes_the_digest():
    before = ast.parse("def f(x):\n    '''Say.'''\n    return x + 1").body
    same = ast.parse("def f(x):\n    # why\n    return (x + 1)").body
    after = ast.parse("def f(x):\n    return x + 2").body
    assert digest(before) == digest(same) != digest(after)


@pytest.mark.parametrize("line", ["x = {}", "return {}", "x: str = {}", "x += {}"])
def test_a_changed_constant_changes_the_digest_below_a_docstring(line):
    one, two = (
        f"def f(x):\n    'Say.'\n    {line.format(c)}\n    return x" for c in ("'a'", "'b'")
    )
    assert digest(ast.parse(one).body) != digest(ast.parse(two).body)


def test_constants_that_covered_code_reads_are_covered():
    names = [stored(node) for node in definition("suffice.privacy.randomness", "private_blocks")]
    assert {"_KEY_BYTES"} in names
    assert {"_BLOCK_WORDS"} in names
    assert {"__all__"} not in names
