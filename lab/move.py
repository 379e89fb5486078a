"""Move modules of the package, or merge several into one, and rewrite everything that names them.

    python lab/move.py PLAN            carry out a plan
    python lab/move.py PLAN --check    only say what stands in the way

A plan is a text file. A line names a module below ``suffice`` and the modules that it is made of.
Indented lines below it may give the first line of its docstring, and other names for some of what
its modules define::

    owner.ledger.store = owner.ledger.store owner.ledger.tables owner.ledger.rows
        "The ledger's store: what is read and written inside one transaction."
        owner.ledger.rows._lines -> _charge_lines

Each module comes after those that it imports. Imports follow, and so do texts that name a module
(``suffice.owner.x``, ``owner/x.py``): mutants, proofs' lists of covered code, pages. Equal
definitions are kept once. Different ones of one name, and cycles of imports, stand in the way. Run
``ruff check --fix`` and ``ruff format`` afterwards, then the tests. Standard library only.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "suffice"
TEXTS = (".py", ".md", ".toml", ".txt", ".rst", ".html")
Names = Mapping[tuple[str, str], str]  # new names, by module and old name
Span = tuple[int, int, str]


class PlanError(Exception):
    """A plan that cannot be carried out as it is."""


@dataclass
class Merge:
    """One line of a plan: the new module, its members, its title, names that change."""

    new: str
    members: list[str]
    title: str | None = None
    renames: dict[tuple[str, str], str] = field(default_factory=dict)


def read_plan(text: str) -> list[Merge]:
    """Return the merges of a plan."""
    merges: list[Merge] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            new, _, members = line.partition("=")
            merges.append(Merge(new.strip(), members.split()))
        elif "->" in line:
            old, _, name = line.partition("->")
            module, _, before = old.strip().rpartition(".")
            merges[-1].renames[module, before] = name.strip()
        else:
            merges[-1].title = line.strip().strip('"')
    return merges


# --- a source and its places


class Source:
    """A module's text, its tree, and where the nodes of the tree are in the text."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST, text: str) -> Span:
        """Return where a node is, and what shall stand there."""
        first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return self._offset(*first), self._offset(*last), text

    def _offset(self, line: int, column: int) -> int:
        """Return the offset in characters of a column that `ast` counts in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def name_span(self, node: ast.FunctionDef | ast.ClassDef, text: str) -> Span:
        """Return where the name of a definition is."""
        begin = self.text.index(node.name, self._offset(node.lineno, 0))
        return begin, begin + len(node.name), text

    def imports(self) -> Iterator[tuple[ast.ImportFrom, str]]:
        """Yield the imports from modules of the package, each with its module below it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                top, _, below = (node.module or "").partition(".")
                if top == PACKAGE:
                    yield node, below

    def attributes(self) -> Iterator[tuple[ast.Attribute, str]]:
        """Yield ``name.attribute`` and its name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield node, node.value.id

    def replaced(self, spans: Iterable[Span]) -> str:
        """Return the text with other texts in some places."""
        text = self.text
        for start, end, new in sorted(spans, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def joined_name(below: str, name: str) -> str:
    """Return what is imported by ``from below import name``, as a module would be called."""
    return f"{below}.{name}" if below else name


def renamed_definitions(text: str, names: Mapping[str, str]) -> str:
    """Return a source in which names, and what refers to them, are called otherwise."""
    if not names:
        return text
    source, spans = Source(text), list[Span]()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in names:
            spans.append(source.span(node, names[node.id]))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            if node.col_offset == 0:
                spans.append(source.name_span(node, names[node.name]))
        elif isinstance(node, ast.alias) and node.name in names and node.asname is None:
            spans.append(source.span(node, names[node.name]))
    return source.replaced(spans)


def renamed_imports(text: str, renames: Names) -> str:
    """Return a source that calls what it imports by its new name."""
    if not renames:
        return text
    source = Source(text)
    names, modules = dict[str, str](), dict[str, str]()
    for node, below in source.imports():
        for alias in node.names:
            modules[alias.asname or alias.name] = joined_name(below, alias.name)
            if (below, alias.name) in renames:
                names[alias.name] = renames[below, alias.name]
    spans = [
        source.span(node, f"{name}.{renames[modules[name], node.attr]}")
        for node, name in source.attributes()
        if (modules.get(name, ""), node.attr) in renames
    ]
    return renamed_definitions(source.replaced(spans), names)


# --- one module out of several


@dataclass
class Parts:
    """A module taken apart: title, imports, those for type checkers, public names, the rest."""

    title: str = ""
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    checked: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    public: list[str] = field(default_factory=list)
    body: str = ""
    defined: dict[str, str] = field(default_factory=dict)


def bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    loops = (n for n in ast.walk(node) if isinstance(n, ast.comprehension))
    inner = {n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)} - inner


def take_apart(text: str) -> Parts:
    """Return the parts of a module."""
    tree, lines, parts = ast.parse(text), text.splitlines(keepends=True), Parts()
    parts.title = (ast.get_docstring(tree, clean=False) or "").strip()
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts.imports.append(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.checked += [n for n in node.body if isinstance(n, ast.Import | ast.ImportFrom)]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            parts.public += ast.literal_eval(node.value)
        elif number or not parts.title:
            parts.defined.update(dict.fromkeys(bound_names(node), ast.unparse(node)))
            continue
        for line in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[line] = ""
    parts.body = "".join(lines).strip("\n")
    return parts


def without_definition(text: str, name: str) -> str:
    """Return a source without the top-level statement that binds a name, and its comment."""
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom) or name not in bound_names(node):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) - 1
        while first and lines[first - 1].startswith("#"):
            first -= 1
        for line in range(first, node.end_lineno or node.lineno):
            lines[line] = ""
    return "".join(lines)


def without_fellows(text: str, merge: Merge) -> str:
    """Return a source that names what its fellows define directly: ``rules.check`` is ``check``."""
    source, fellows, spans = Source(text), dict[str, str](), list[Span]()
    for node, below in source.imports():
        inside = below in merge.members and node.col_offset > 0
        kept = []
        for alias in node.names:
            if (module := joined_name(below, alias.name)) in merge.members:
                fellows[alias.asname or alias.name] = module
            elif not inside:
                kept.append(ast.unparse(alias))
        if len(kept) < len(node.names):
            import_kept = f"from {node.module} import {', '.join(kept)}"
            spans.append(source.span(node, import_kept if kept else "pass"))
    uses = [(node, fellows[name]) for node, name in source.attributes() if name in fellows]
    spans += [
        source.span(node, merge.renames.get((module, node.attr), node.attr))
        for node, module in uses
    ]
    _check_locals(source.tree, {id(node): node.attr for node, _ in uses})
    return source.replaced(spans)


def _check_locals(tree: ast.Module, used: Mapping[int, str]) -> None:
    """Raise if a function has a local name that a fellow's name would now mean."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef):
            inner = list(ast.walk(scope))
            stored = {n.id for n in inner if isinstance(n, ast.Name) and not _is_read(n)}
            stored |= {n.arg for n in inner if isinstance(n, ast.arg)}
            if clash := stored & {used[id(n)] for n in inner if id(n) in used}:
                raise PlanError(f"{scope.name} has a local name {min(clash)}")


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def in_order(members: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """Return members so that each comes after those that it imports."""
    graph = {member: imported_by(sources[member]) & {*members} - {member} for member in members}
    ordered: list[str] = []
    while len(ordered) < len(members):
        rest = [m for m in members if m not in ordered]
        ordered.append(next((m for m in rest if graph[m] <= {*ordered}), rest[0]))
    return ordered


def imported_by(text: str) -> set[str]:
    """Return what a module imports, below the package: modules, and names in them."""
    found = set()
    for node, below in Source(text).imports():
        found |= {below, *(joined_name(below, alias.name) for alias in node.names)}
    return found


def join(merge: Merge, sources: Mapping[str, str]) -> str:
    """Return the source of a new module, or raise with all that stands in the way."""
    merge.members = in_order(merge.members, sources)
    defined, parts, troubles = dict[str, tuple[str, str]](), list[Parts](), list[str]()
    for member in merge.members:
        text = without_fellows(sources[member], merge)
        for name, code in take_apart(text).defined.items():
            before = defined.setdefault(name, (member, code))
            if before[0] != member and before[1] == code:
                text = without_definition(text, name)
            elif before[0] != member:
                troubles.append(f"{name} is in {before[0]} and in {member}")
        parts.append(take_apart(text))
    imports, trouble = _joined_imports(merge, parts, defined)
    if troubles := [*troubles, *trouble]:
        raise PlanError("\n".join(f"{merge.new}: {line}" for line in troubles))
    title = merge.title or parts[0].title
    public = sorted({name for part in parts for name in part.public})
    text = [f'"""{title}{chr(10) * (chr(10) in title)}"""', "", *imports, ""]
    text += [f"__all__ = {public!r}", ""] if public else []
    return "\n".join([*text, *(f"\n{part.body}\n" for part in parts if part.body), ""])


def _joined_imports(
    merge: Merge, parts: Sequence[Parts], defined: Mapping[str, tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Return the imports of all members but of each other, and what stands in the way."""
    fellows = {f"{PACKAGE}.{member}" for member in merge.members}
    homes, troubles, imports, checked = dict[str, str](), list[str](), list[str](), list[str]()
    for part in parts:
        for node in part.imports:
            origin = getattr(node, "module", None)
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                if origin in fellows and alias.asname not in {None, alias.name}:
                    troubles.append(f"{alias.name} of {origin} is also called {alias.asname}")
                elif origin not in fellows and name in defined:
                    troubles.append(f"{name} is imported, and defined in {defined[name][0]}")
                elif origin and homes.setdefault(name, f"{origin} {alias.name}") != (
                    f"{origin} {alias.name}"
                ):
                    troubles.append(f"{name} is imported from two places")
            if origin not in fellows:
                imports.append(ast.unparse(node))
        foreign = [n for n in part.checked if getattr(n, "module", None) not in fellows]
        checked += [f"    {ast.unparse(node)}" for node in foreign]
    lines = [*dict.fromkeys(imports)]
    return lines + (["if TYPE_CHECKING:", *dict.fromkeys(checked)] if checked else []), troubles


# --- everything else that names a module


def path_text(module: str) -> str:
    """Return the path of a module below the package."""
    return module.replace(".", "/") + ".py"


def rewritten(text: str, moved: Mapping[str, str]) -> str:
    """Return a text with the names and paths of modules that moved."""
    names = "|".join(re.escape(old) for old in sorted(moved, key=len, reverse=True))
    paths = names.replace(r"\.", "/")
    text = re.sub(
        rf"\b{PACKAGE}\.({names})(?!\w)(?!\.py\b)",
        lambda found: f"{PACKAGE}.{moved[found[1]]}",
        text,
    )
    return re.sub(
        rf"(?<![\w/])((?:src/)?(?:{PACKAGE}/)?)({paths})\.py\b",
        lambda found: found[1] + path_text(moved[found[2].replace("/", ".")]),
        text,
    )


def rewritten_imports(text: str, moved: Mapping[str, str]) -> str:
    """Return a source whose ``from package import module`` names the module that it became."""
    source, spans, names = Source(text), list[Span](), dict[str, str]()
    taken = bound_anywhere(source.tree) | imported_names(source.tree, moved)
    for node, below in source.imports():
        lines, kept = [], []
        for alias in node.names:
            new = moved.get(joined_name(below, alias.name))
            if new is None:
                kept.append(ast.unparse(alias))
                continue
            package, _, module = f"{PACKAGE}.{new}".rpartition(".")
            clear = f"{package.rpartition('.')[2]}_{module}" if module in taken else module
            called = alias.asname or clear
            lines.append(f"from {package} import {module}")
            if called != module:
                lines[-1] += f" as {called}"
            if not alias.asname:
                names[alias.name] = called
        if lines:
            lines += [f"from {node.module} import {', '.join(kept)}"] if kept else []
            indented = f"\n{' ' * node.col_offset}".join(dict.fromkeys(lines))
            spans.append(source.span(node, indented))
    if not spans:
        return text
    for inner in ast.walk(source.tree):
        if isinstance(inner, ast.Name) and inner.id in names:
            spans.append(source.span(inner, names[inner.id]))
    return source.replaced(spans)


def bound_anywhere(tree: ast.Module) -> set[str]:
    """Return the names that a module binds by other means than imports, in any scope."""
    names = (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not _is_read(n))
    arguments = (n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))
    defined = (n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))
    return {*names, *arguments, *defined}


def imported_names(tree: ast.Module, moved: Mapping[str, str]) -> set[str]:
    """Return the names under which a module imports what does not move."""
    froms = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    return {
        alias.asname or alias.name
        for node in froms
        for alias in node.names
        if f"{node.module}.{alias.name}".removeprefix(f"{PACKAGE}.")
        not in {*moved, *moved.values()}
    }


# --- the repository


class House:
    """A repository with the package in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.src = root, root / "src" / PACKAGE

    def path(self, module: str) -> Path:
        """Return the file of a module, which need not be there."""
        folder = self.src / Path(*module.split("."))
        return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")

    def texts(self) -> Iterator[Path]:
        """Yield the texts that git tracks, or would."""
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for line in listed.splitlines():
            path = self.root / line
            own = path.name in {"move.py", "test_move.py"}
            if path.suffix in TEXTS and path.is_file() and not own:
                yield path

    def carry_out(self, merges: Sequence[Merge], *, check: bool = False) -> None:
        """Carry out a plan, or raise with what stands in its way."""
        renames = {key: name for merge in merges for key, name in merge.renames.items()}
        moved = {m: merge.new for merge in merges for m in merge.members if m != merge.new}
        sources = {}
        for merge in merges:
            for member in merge.members:
                names = {old: new for (where, old), new in renames.items() if where == member}
                text = renamed_definitions(self.path(member).read_text(), names)
                sources[member] = renamed_imports(text, renames)
        files = self._joined(merges, sources)
        self._check_cycles(merges)
        if check:
            return
        self._write(files, list(sources))
        for path in self.texts():
            before = after = path.read_text()
            if path.suffix == ".py":
                after = rewritten_imports(renamed_imports(before, renames), moved)
            after = rewritten(after, moved)
            if after != before:
                path.write_text(after)

    @staticmethod
    def _joined(merges: Sequence[Merge], sources: Mapping[str, str]) -> dict[str, str]:
        files, troubles = {}, []
        for merge in merges:
            try:
                files[merge.new] = join(merge, sources)
            except PlanError as trouble:
                troubles.append(str(trouble))
        if troubles:
            raise PlanError("\n".join(troubles))
        return files

    def _write(self, files: Mapping[str, str], old: Sequence[str]) -> None:
        """Write the new modules in place of the old ones; folders without a module go."""
        paths = [self.path(module) for module in old]
        for path in paths:
            path.unlink()
        for module, text in files.items():
            target = self.src / path_text(module)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for folder in sorted({path.parent for path in paths}, reverse=True):
            if [p.name for p in folder.glob("*") if p.name != "__pycache__"] == ["__init__.py"]:
                (folder / "__init__.py").unlink()

    def _check_cycles(self, merges: Sequence[Merge]) -> None:
        """Raise if modules would import each other, wherever they do so."""
        moved = {m: merge.new for merge in merges for m in merge.members}
        graph: dict[str, set[str]] = {}
        for path in self.src.rglob("*.py"):
            parts = path.relative_to(self.src).with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            here = moved.get(module, module)
            names = {n for n in imported_by(path.read_text()) if self.path(n).is_file()}
            wanted = {moved.get(name, name) for name in names if name != ""}
            packages = {n.rpartition(".")[0] for n in names}  # of a module that is imported itself
            graph.setdefault(here, set()).update(wanted - {here} - packages)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            raise PlanError(f"cycle: {' > '.join(reversed(error.args[1]))}") from None


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Move modules and what names them.")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--check", action="store_true", help="only say what stands in the way")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    try:
        House(options.root).carry_out(read_plan(options.plan.read_text()), check=options.check)
    except PlanError as trouble:
        print(trouble)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
