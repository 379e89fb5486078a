"""A proof page names the code it covers and its digest; changed code makes the page stale."""

import ast
import hashlib
import re
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
PAGES = sorted((SRC / "suffice" / "privacy" / "proofs").glob("*.md"))
COVERED = re.compile(r"^- `([\w.]+):(\w+)` sha256:([0-9a-f]{12})$", re.MULTILINE)
SECTIONS = ("## Precondition", "## Code covered", "## Postcondition", "## Proof")


@cache
def statements(module: str) -> list[ast.stmt]:
    return ast.parse((SRC / Path(*module.split("."))).with_suffix(".py").read_text()).body


def definition(module: str, name: str) -> list[ast.AST]:
    """Return a function or class, and the constants that it reads, wherever they are set."""
    found = [n for n in statements(module) if getattr(n, "name", None) == name]
    assert len(found) == 1, f"{module}:{name}"
    assigned: dict[str, ast.AST] = {}
    waiting = [(module, found[0])]
    while waiting:  # constants are made of others
        of, node = waiting.pop()
        for where, constant in names_read(of, node):
            setting = [n for n in statements(where) if constant in stored(n)]
            new = {ast.unparse(n): n for n in setting if ast.unparse(n) not in assigned}
            waiting += [(where, n) for n in new.values()]
            assigned |= new
    return found + [assigned[text] for text in sorted(assigned)]  # wherever they have moved to


def names_read(module: str, node: ast.AST) -> set[tuple[str, str]]:
    """Return the names that code reads, each with the module of ours that sets it."""
    origin, inner = imported(module), list(ast.walk(node))
    read = {origin.get(n.id, (module, n.id)) for n in inner if isinstance(n, ast.Name)}
    for n in inner:
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name):
            read.add((".".join(origin.get(n.value.id, ("",))), n.attr))  # such as maps.TILE
    return {(of, name) for of, name in read if is_module(of)}


@cache
def imported(module: str) -> dict[str, tuple[str, str]]:
    """Return what a module imports of ours, wherever it does: name here, module and name there."""
    inner = [n for part in statements(module) for n in ast.walk(part)]
    imports = [n for n in inner if isinstance(n, ast.ImportFrom) and n.module]
    ours = [n for n in imports if n.module.startswith("suffice")]
    return {alias.asname or alias.name: (n.module, alias.name) for n in ours for alias in n.names}


def is_module(name: str) -> bool:
    return bool(name) and (SRC / Path(*name.split("."))).with_suffix(".py").is_file()


def stored(node: ast.AST) -> set[str]:
    """Return the constants that a statement of a module sets, or sets a part of."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [n.value if isinstance(n, ast.Subscript) else n for n in targets]
    return {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)}


def digest(nodes: list[ast.AST]) -> str:
    """Hash what the code does: comments, layout and docstrings may change freely."""
    return hashlib.sha256("\n".join(map(without_words, nodes)).encode()).hexdigest()[:12]


def without_words(node: ast.AST) -> str:
    node = deepcopy(node)
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
    "privacy.noise": ("needs_delta",),
    "privacy.randomness": (),
    "kernels.maps": ("_double", "add_fourier_sums", "add_kernel_sums"),
    "kernels.sums": (),
    "kernels.response": (),
    "kernels.rados": ("_edges", "_largest", "_normalise", "_pick", "boost"),
    "engines.sums": ("default_count",),
    "owner.ledger.ledger": ("Snapshot", "_balances", "_by_label", "store_at"),
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


@pytest.mark.parametrize(
    ("module", "name", "constant"),
    [
        ("engines.sums", "MappedSums", "LARGEST_CODE"),  # of another module
        ("tables.pipeline", "Pipeline", "LARGEST_NUMBER"),  # imported where it is used
        ("kernels.sums", "find_numbers", "_SORTS"),
        ("kernels.maps", "_cosines", "_COSINE"),
        ("kernels.maps", "_add_sixteen", "TILE"),  # of which another constant is made
    ],
)
def test_constants_are_covered_wherever_they_are_set(module, name, constant):
    assert constant in set().union(*map(stored, definition(f"suffice.{module}", name)))


def test_every_part_of_a_constant_is_covered():
    texts = [ast.unparse(n) for n in definition("suffice.kernels.sums", "find_numbers")]
    assert sum(text.startswith("_NEXT[") for text in texts) == 9
