"""Who imports whom: draws the folders of the package for architecture.md, and looks for cycles.

    python docs/import_graph.py             write the drawing and the table again
    python docs/import_graph.py --check     exit with 1 if either is out of date, or for a cycle
    python docs/import_graph.py --numbers   count modules, lines, lone importers, long functions

Every import counts: at the top of a module, inside a function, or for type checkers alone. Names in
registries ("suffice.owner.rados:Rados") are data and no imports. Standard library only.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).parent
SRC = DOCS.parent / "src" / "suffice"
PAGE, PICTURE = DOCS / "architecture.md", DOCS / "images" / "imports.svg"
BEGIN, END = "<!-- imports: begin -->", "<!-- imports: end -->"
BASICS = "basics"  # single modules that know nothing of the others
BASIC = ("_version", "errors", "options", "plain_text", "strict_json")
DOORS = ("", "__main__")  # the package itself and `python -m suffice`: they only open others
LONG = 40  # lines of a function
Graph = dict[str, set[str]]


# --- the modules


def modules(src: Path = SRC) -> dict[str, str]:
    """Return the source of every module by its dotted name below the package."""
    sources = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        sources[".".join(part for part in parts if part != "__init__")] = path.read_text()
    return sources


def imports(sources: Mapping[str, str], package: str = SRC.name) -> Graph:
    """Return which modules each module imports, wherever it does so."""
    graph: Graph = {}
    for name, source in sources.items():
        imported = (full for node in ast.walk(ast.parse(source)) for full in _imported_names(node))
        names_below = (
            full.removeprefix(package).removeprefix(".")
            for full in imported
            if full == package or full.startswith(package + ".")
        )
        graph[name] = {_module(below, sources) for below in names_below} - {name}
    return graph


def _imported_names(node: ast.AST) -> Iterable[str]:
    """Yield the full names that a statement imports; relative imports have none here."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(name: str, module_names: Iterable[str]) -> str:
    """Return the module of a name: itself, or the one that it is an attribute of."""
    while name and name not in module_names:
        name = name.rpartition(".")[0]
    return name


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the sets of nodes that all lead to each other (Tarjan 1972), each sorted."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            first = stack.index(node)
            if len(stack) - first > 1:
                components.append(sorted(stack[first:]))
            del stack[first:]

    for node in graph:
        if node not in order:
            visit(node)
    return components


# --- the folders


def folder(module: str) -> str:
    """Return the box that a module is drawn in: its top folder, or its own name."""
    first = module.partition(".")[0]
    return BASICS if first in BASIC else first


def folders(graph: Mapping[str, Iterable[str]]) -> Graph:
    """Return which top-level folders each folder imports."""
    between: Graph = {folder(name): set() for name in graph if name not in DOORS}
    for name, others in graph.items():
        if name not in DOORS:
            between[folder(name)] |= {folder(o) for o in others if o not in DOORS} - {folder(name)}
    return between


def without_shortcuts(graph: Graph) -> Graph:
    """Return the arrows that no path of other arrows implies; the graph must have no cycle."""

    def reached(node: str) -> set[str]:
        return {node}.union(*(reached(other) for other in graph[node]))

    return {
        node: {o for o in others if not any(o in reached(p) for p in others - {o})}
        for node, others in graph.items()
    }


def layers(graph: Graph) -> dict[str, int]:
    """Return the height of every folder above all that it imports; leaves lie under their users."""

    def height(node: str) -> int:
        return max((height(other) + 1 for other in graph[node]), default=0)

    levels = {node: height(node) for node in graph}
    for node in graph:
        users = [levels[other] for other in graph if node in graph[other]]
        if users and not graph[node]:
            levels[node] = min(users) - 1
    return levels


# --- the drawing

# From left to right where arrows leave it open: the owner's side, what both share, the learner's.
SIDES = {"participant": -4, "transport": -3, "owner": -2, "privacy": -2, "audit": -1}
SIDES |= {"models": 2, "learner": 2, "registry": 3, "pages": 4}
COLOURS = {"owner": "#f6d8c4", "participant": "#f6d8c4", "learner": "#cfe0f3"}
WIDE, HIGH, GAP, DOWN, MARGIN = 112, 38, 34, 88, 16
Path2D = list[tuple[float, float]]


def drawing(graph: Graph) -> str:
    """Return the folders as SVG: boxes in layers, arrows down to what is imported."""
    rows, paths = _rows(without_shortcuts(graph), layers(graph))
    x = _across(rows, paths)
    left, right = min(x.values()) - WIDE / 2 - MARGIN, max(x.values()) + WIDE / 2 + MARGIN
    at = {
        node: (x[node] - left, MARGIN + HIGH / 2 + level * DOWN)
        for level, row in enumerate(rows)
        for node in row
    }
    size = f"{right - left:.0f} {2 * MARGIN + HIGH + (len(rows) - 1) * DOWN:.0f}"
    width, height = size.split()
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
        f' viewBox="0 0 {size}" font-family="sans-serif" font-size="15">',
        "<title>Folders of suffice: an arrow points at what is imported</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"',
        ' markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *map(_arrow, _ends([[at[node] for node in path] for path in paths])),
        *(_box(node, *at[node]) for row in rows for node in row if node in graph),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _rows(arrows: Graph, height: dict[str, int]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the layers from top to bottom, and each arrow as a path with one point a layer."""
    top = max(height.values())
    rows: list[list[str]] = [[] for _ in range(top + 1)]
    for node in sorted(height):
        rows[top - height[node]].append(node)
    paths = []
    for node in sorted(arrows):
        for other in sorted(arrows[node]):
            first, last = top - height[node], top - height[other]
            between = [f"{node}>{other}@{level}" for level in range(first + 1, last)]
            for level, point in enumerate(between, first + 1):
                rows[level].append(point)
            paths.append([node, *between, other])
    return rows, paths


def _across(rows: list[list[str]], paths: list[list[str]]) -> dict[str, float]:
    """Return how far right each box and point is: near what it is joined with, and apart."""
    near: dict[str, list[str]] = {node: [] for row in rows for node in row}
    for path in paths:
        for upper, lower in pairwise(path):
            near[upper].append(lower)
            near[lower].append(upper)
    x = {node: SIDES.get(node.partition(">")[0], 0.0) * WIDE for node in near}
    for turn in range(60):
        for row in rows:
            wanted = {
                node: sum(x[other] for other in near[node]) / (len(near[node]) or 1)
                + SIDES.get(node, 0) * WIDE / 8
                for node in row
            }
            if turn < 30:  # later the order stays
                row.sort(key=lambda node: (wanted[node], node))
            x |= _apart(row, wanted)
    return {node: round(position) for node, position in x.items()}


def _apart(row: list[str], wanted: dict[str, float]) -> dict[str, float]:
    """Return places near the wanted ones that keep the order, and gaps between boxes."""
    half = [5 if ">" in node else WIDE / 2 for node in row]
    gaps = [first + second + GAP for first, second in pairwise(half)]
    right = [wanted[node] for node in row]
    left = list(right)
    for i, gap in enumerate(gaps):
        right[i + 1] = max(right[i + 1], right[i] + gap)
    for i, gap in reversed(list(enumerate(gaps))):
        left[i] = min(left[i], left[i + 1] - gap)
    return {node: (a + b) / 2 for node, a, b in zip(row, left, right, strict=True)}


def _ends(paths: list[Path2D]) -> list[Path2D]:
    """Return the paths from the lower edge of a box to the upper edge of another, side by side."""
    moved = [list(path) for path in paths]
    for end, beside, sign in ((0, 1, 1), (-1, -2, -1)):
        for box in {path[end] for path in paths}:
            joined = [i for i, path in enumerate(paths) if path[end] == box]
            joined.sort(key=lambda i: paths[i][beside])
            for number, i in enumerate(joined):
                shift = (number - (len(joined) - 1) / 2) * min(22, WIDE / len(joined))
                moved[i][end] = (box[0] + shift, box[1] + sign * (HIGH / 2 + (sign < 0)))
    return moved


def _arrow(points: Path2D) -> str:
    """Return a smooth line through these points."""
    (x, y), *others = points
    steps = [f"M{x:g} {y:g}"]
    for next_x, next_y in others:
        half = (y + next_y) / 2
        steps.append(f"C{x:g} {half:g} {next_x:g} {half:g} {next_x:g} {next_y:g}")
        x, y = next_x, next_y
    return f'<path d="{" ".join(steps)}" fill="none" stroke="#555" marker-end="url(#tip)"/>'


def _box(name: str, x: float, y: float) -> str:
    colour = COLOURS.get(name, "#eeeeee")
    return (
        f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" rx="5"'
        f' fill="{colour}" stroke="#555"/>'
        f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle">{name}</text>'
    )


def table(graph: Graph) -> str:
    """Return all imports between folders, also those that the drawing leaves out."""
    height = layers(graph)
    lines = (
        f"| `{node}` | {', '.join(sorted(graph[node])) or 'nothing'} |"
        for node in sorted(graph, key=lambda n: (-height[n], n))
    )
    return "\n".join(["| folder | imports |", "|---|---|", *lines])


# --- the page


def written(page: str, graph: Graph) -> str:
    """Return the page with the table between its two marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} lacks its marks {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{table(graph)}\n{END}{after}"


def stale(graph: Graph, page: Path = PAGE, picture: Path = PICTURE) -> list[str]:
    """Return the names of the files that do not show this graph."""
    text = page.read_text()
    old_page = text != written(text, graph)
    old_picture = not picture.exists() or picture.read_text() != drawing(graph)
    return [page.name] * old_page + [picture.name] * old_picture


def numbers(src: Path = SRC) -> dict[str, int]:
    """Return counts that describe the size of the code; fewer is better."""
    sources = modules(src)
    importers = Counter(o for others in imports(sources, src.name).values() for o in others)
    functions = (
        node
        for source in sources.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return {
        "modules": sum(path.name != "__init__.py" for path in src.rglob("*.py")),
        "lines": sum(len(source.splitlines()) for source in sources.values()),
        "modules with one importer": sum(number == 1 for number in importers.values()),
        f"functions over {LONG} lines": sum(
            (node.end_lineno or 0) - node.lineno + 1 > LONG for node in functions
        ),
    }


def main(words: list[str]) -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is stale, write nothing")
    parser.add_argument("--numbers", action="store_true", help="print counts, write nothing")
    options = parser.parse_args(words)
    if options.numbers:
        for name, number in numbers().items():
            print(f"{number:>7,} {name}")
        return 0
    graph = imports(modules())
    between = folders(graph)
    circles = cycles(graph) + cycles(between)
    for circle in circles:
        print("cycle:", " ".join(circle))
    if circles:
        return 1
    if options.check:
        old = stale(between)
        for name in old:
            print(f"{name} is stale: run python docs/import_graph.py")
        return int(bool(old))
    PICTURE.write_text(drawing(between))
    PAGE.write_text(written(PAGE.read_text(), between))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
