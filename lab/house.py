"""Measure the house: lines, rooms, crossings, doubles, constants. The limits are in tests/.

    python lab/house.py                all numbers, one a line
    python lab/house.py --crossings    also the functions and files that four commands cross
    python lab/house.py --list NAME    also the members of one number, or the functions of one walk

Lines are physical lines, docstrings included. A crossing is a function or a file of the package in
which a command, run in this process on a small table, executes at least one line
(``sys.setprofile``, threads included; what runs while modules are imported is left out). A double
is a pair of places with six or more lines of the same code. Standard library only, but for the
commands themselves.
"""

import argparse
import ast
import io
import re
import sys
import tempfile
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import combinations
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "suffice"
RUN = 6  # lines that make a double
FULL_LINES, FULL_TOKENS = 4, 6  # of a run that counts
POLICY = """{
  "largest_epsilon": 2, "largest_delta": 0.001, "classes": [0, 1],
  "features": ["age", "dose", "score", "ward"]
}"""
MOST_PLACES = 8  # of one run of lines: what stands in more places is a habit of the language


def modules(folder: Path = SRC) -> dict[str, str]:
    """Return the source of every module, by its path below the package."""
    return {p.relative_to(folder).as_posix(): p.read_text() for p in sorted(folder.rglob("*.py"))}


# --- rooms


def lone_importers(sources: dict[str, str]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    names = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
             for path in sources}  # fmt: skip
    users: dict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("suffice"):
                below = (node.module or "").removeprefix("suffice").removeprefix(".")
                for alias in node.names:
                    full = f"{below}.{alias.name}".removeprefix(".")
                    users[names.get(full) or names.get(below, "")].add(path)
    return sorted(path for path, found in users.items() if path and len(found - {path}) == 1)


def repeated_names(sources: dict[str, str]) -> list[str]:
    """Return the file names that stand more than once within one folder of the package."""
    found = []
    for folder in ("owner", "learner", "releases", "tables"):
        names = Counter(
            Path(path).name for path in sources
            if path.startswith(f"{folder}/") and not path.endswith("__init__.py")
        )  # fmt: skip
        found += [f"{folder}: {name}" for name, count in names.items() if count > 1]
    return found


def protocols(sources: dict[str, str]) -> list[str]:
    """Return the classes that are protocols."""
    return [
        f"{path}:{node.name}"
        for path, text in sources.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and any(re.match(r"(typing\.)?Protocol\b", ast.unparse(base)) for base in node.bases)
    ]


def numeric_constants(sources: dict[str, str], folder: str = "") -> list[str]:
    """Return the numbers that have a name at the top of a module."""
    return [
        f"{path}:{ast.unparse(target)}"
        for path, text in sources.items()
        if path.startswith(folder)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_number(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]


def _is_number(node: ast.expr | None) -> bool:
    """Whether an expression is made of numbers alone."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def private_functions_used_once(sources: dict[str, str]) -> list[str]:
    """Return the private functions and methods whose name stands once besides its definition."""
    uses: Counter[str] = Counter()
    defined: list[tuple[str, str]] = []
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_") and not node.name.startswith("__"):
                    defined.append((path, node.name))
            elif isinstance(node, ast.Name):
                uses[f"{path} {node.id}"] += 1
            elif isinstance(node, ast.Attribute):
                uses[f"{path} {node.attr}"] += 1
    return [f"{path}:{name}" for path, name in defined if uses[f"{path} {name}"] == 1]


# --- doubles


def code_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that hold code: no docstrings, comments, imports, lone signs, fields."""
    hidden: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.AnnAssign) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            hidden.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = " ".join(line.split("#")[0].split())
        if number not in hidden and re.search(r"\w", bare):
            kept.append((number, bare))
    return kept


def shape(line: str) -> str:
    """Return a line with every name, text and number replaced by one sign."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return line
    signs = {tokenize.NUMBER: "0", tokenize.STRING: "s"}
    keep = {"def", "return", "if", "for", "in", "not", "raise", "with", "class", "else", "yield"}
    return " ".join(
        token.string if token.string in keep else "n"
        if token.type == tokenize.NAME else signs.get(token.type, token.string)
        for token in tokens
    )  # fmt: skip


def doubles(sources: dict[str, str]) -> list[str]:
    """Return the pairs of places that share `RUN` or more lines of one shape, longest run first.

    One row stands for all runs that two files share. Runs of thin lines (lone arguments, closing
    brackets, lists of texts) do not count: at least `FULL_LINES` must hold `FULL_TOKENS` tokens.
    """
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for path, text in sources.items():
        lines = [(number, shape(line)) for number, line in code_lines(text)]
        for start in range(len(lines) - RUN + 1):
            run = tuple(line for _, line in lines[start : start + RUN])
            if sum(line.count(" ") + 1 >= FULL_TOKENS for line in run) >= FULL_LINES:
                places[run].append((path, lines[start][0]))
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for where in places.values():
        if 1 < len(where) <= MOST_PLACES:
            for (first, start), (second, other) in combinations(sorted(where), 2):
                if first != second or other - start >= RUN:
                    found[first, second].append((start, other))
    longest = sorted(found.items(), key=lambda item: -len(item[1]))
    return [f"{a}:{min(runs)[0]} ~ {b}:{min(runs)[1]}" for (a, b), runs in longest]


# --- crossings


def crossed(run: Callable[[], Any]) -> set[CodeType]:
    """Return the functions of the package that a call executes, in any thread."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    inside = str(SRC)
    return {
        code for code in found
        if code.co_filename.startswith(inside) and not code.co_name.startswith("<")
    }  # fmt: skip


def command(*words: str) -> Callable[[], None]:
    """Return a command that runs in this process, silently; it must succeed."""

    def run() -> None:
        from suffice.cli.main import app  # noqa: PLC0415  # numbers need no package

        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            try:
                app(list(words), standalone_mode=False)
            except SystemExit as left:
                if left.code:
                    raise RuntimeError(said.getvalue()) from None

    return run


def write_table(path: Path, rows: int = 400) -> None:
    """Write a table of three features, a ward and a label, the same in every run."""
    lines, state = ["age,dose,score,ward,sick"], 1
    for _ in range(rows):
        numbers = []
        for _ in range(5):
            state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
            numbers.append((state >> 33) / 2**31)
        age, dose, score, ward, luck = numbers
        sick = int(age + dose + 0.3 * luck > 1.1)
        lines.append(f"{20 + 60 * age:.1f},{dose:.3f},{score:.3f},{'abc'[int(3 * ward)]},{sick}")
    path.write_text("\n".join(lines) + "\n")


def walks(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the commands whose crossings are limited, each after those that it needs."""
    table, rows, ledger = (str(folder / name) for name in ("table.csv", "rows.csv", "a.ledger"))
    policy, release = folder / "policy.json", str(folder / "a.suffice")
    write_table(Path(table))
    lines = Path(table).read_text().split()
    Path(rows).write_text("".join(f"{line.rpartition(',')[0]}\n" for line in lines))
    policy.write_text(POLICY)
    said = ["--ledger", ledger, "--dataset", "sick", "--epsilon", "9", "--delta", "1e-4"]
    command("ledger", "init", ledger, *said[2:], "--anchor", "none")()
    spend = [*said[:4], "--epsilon", "1", "--delta", "1e-6"]
    label = ["--label", "sick"]
    yield (
        "release mean-operator",
        command("release", "mean-operator", table, *label, *spend, "-o", release),
    )
    yield "fit", command("fit", release, "--rows", rows, "-o", str(folder / "model.suffice"))
    proposal = str(folder / "proposal.json")
    command("propose", rows, "--epsilon", "1", "--delta", "1e-6", "-o", proposal)()
    yield "grant", command(
        "grant", proposal, table, *label, "--policy", str(policy), *said[:4],
        "-o", str(folder / "granted.suffice"),
    )  # fmt: skip
    ranges = [word for name in ("age=20,80", "dose=0,1", "score=0,1") for word in ("--range", name)]
    yield "release moments", command(
        "release", "moments", table, *label, "--drop", "ward", *ranges, "--epsilon", "1",
        "--delta", "1e-6", "--no-ledger", "-o", str(folder / "moments.suffice"),
    )  # fmt: skip


def crossings() -> dict[str, list[tuple[str, int, str]]]:
    """Return the functions of the package that each command crosses: file, line and name."""
    found = {}
    for _ in range(2):  # the first time modules are imported and tables of options made
        with tempfile.TemporaryDirectory() as folder:
            for name, run in walks(Path(folder)):
                found[name] = sorted(
                    (code.co_filename, code.co_firstlineno, code.co_qualname)
                    for code in crossed(run)
                )
    return found


def main() -> int:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description="Measure the house.")
    parser.add_argument("--crossings", action="store_true")
    parser.add_argument("--list", help="list one number or walk: doubles, 'release moments'")
    options = parser.parse_args()
    sources = modules()
    numbers: dict[str, Any] = {
        "lines": sum(len(text.splitlines()) for text in sources.values()),
        "modules": len(sources),
        "lone": lone_importers(sources),
        "protocols": protocols(sources),
        "constants": numeric_constants(sources),
        "constants_learner": numeric_constants(sources, "learner/"),
        "once": private_functions_used_once(sources),
        "names": repeated_names(sources),
        "doubles": doubles(sources),
    }
    for name, value in numbers.items():
        print(f"{name:20} {value if isinstance(value, int) else len(value)}")
        if options.list == name:
            print(*value, sep="\n")
    if options.crossings or options.list not in {None, *numbers}:
        for name, functions in crossings().items():
            files = {path for path, _, _ in functions}
            print(f"{name:25} {len(files)} files, {len(functions)} functions")
            if options.list == name:
                for path, line, function in functions:
                    print(f"{Path(path).relative_to(SRC)}:{line} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
