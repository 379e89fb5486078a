"""Measure what the pages state, keep it in one store, and write the pages from the store.

    python lab/evidence.py --data DIR [NAME ...]    # measures what is missing or stale
    python lab/evidence.py --stale                  # lists it, with the reason
    python lab/evidence.py --write                  # writes the pages from the store alone

The store is lab/evidence.json: by name, the values with the commit, the machine, the versions, the
date and the seconds. It is written after every measurement, so that a run goes on where another
ended. A figure is stale if a file that it depends on has changed since its commit. The pages say at
which commit each was measured.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "lab" / "bench"))

from harness import commit, machine  # noqa: E402  # a script beside this one

from suffice.papers.reproduce import REPRODUCTIONS  # noqa: E402

STORE = ROOT / "lab" / "evidence.json"
RIVALS = ROOT / "lab" / "bench" / "rivals_label.jsonl"
SETS = ("spambase", "wine-white", "magic", "adult", "ijcnn1", "uci-har", "mnist-7v9")
LABELS = (  # what a release of labels and its model depend on most
    *("owner/mean_operator.py", "owner/labelled.py", "owner/scaling.py", "tables/pipeline.py"),
    *("learner/operator.py", "learner/denoise.py", "learner/penalty.py", "models/problem.py"),
)
PAPERS = {  # by the first words of a reproduction's paper: what it depends on
    "Patrini": ("papers/patrini.py", *LABELS),
    "Barber": ("papers/barber.py", "learner/spread.py", "learner/spread_likelihood.py"),
    "Nock": ("papers/nock.py", "owner/rados.py", "learner/rados.py", "kernels/rados.py"),
    "Iyer": ("papers/iyer.py", "owner/proportions.py", "learner/ratio", "privacy/dirichlet.py"),
    "Hamm": ("papers/hamm.py", "papers/output_perturbation.py", "owner/parties", *LABELS),
}
MISSING = (  # figures of the pages that are not in the store, and why
    ("accuracy.md: records, five data sets and seven methods", "hours; `lab/bench/rivals.py`"),
    (
        "coverage.md: intervals and forecasts",
        "its own store, not committed; `lab/bench/coverage.py`",
    ),
    ("coverage.md: regressions", "400 samples a line, hours; `lab/bench/regression.py`"),
    ("coverage.md: probabilities", "hours; `lab/bench/probabilities.py`"),
    ("known-holes.md, auditor.md: rates of attacks", "tests check them; `lab/attacks`"),
    ("service.md, scale.md: seconds and requests", "of one machine; `lab/bench/service.py`"),
)


@dataclass(frozen=True)
class Entry:
    """What is measured by one command, and which files of the package it depends on."""

    name: str
    command: tuple[str, ...]  # {data} and {out} are filled in
    modules: tuple[str, ...]

    def values(self, printed: str, out: Path) -> Any:
        """Return what the command found, from what it printed or wrote."""
        kind, _, own = self.name.partition("/")
        if kind == "reproduce":
            found = json.loads(out.with_suffix(".json").read_text())["reproductions"][own]
            return found["compared"]
        if kind == "label-privacy":
            written = json.loads((ROOT / "lab/bench/results/label_privacy.json").read_text())
            return {"seeds": written["seeds"], **written["sets"][own]["means"]}
        return printed.strip().splitlines()


def entries() -> tuple[Entry, ...]:
    """Return everything that the store may hold, cheap things first."""
    label = ("lab/bench/label_privacy.py", "--data", "{data}", "--seeds", "6")
    chosen = ("--epsilons", "0.05,0.1,1", "--sets")
    return (
        Entry("errata", ("lab/errata.py",), ("privacy", "learner/intervals.py")),
        *(
            Entry(
                f"reproduce/{name}",
                ("-m", "suffice", "reproduce", name, "--data", "{data}", "-o", "{out}"),
                next(files for paper, files in PAPERS.items() if entry.paper.startswith(paper)),
            )
            for name, entry in REPRODUCTIONS.items()
            if not entry.uncompared
        ),
        *(Entry(f"label-privacy/{of}", (*label, *chosen, of), LABELS) for of in SETS),
    )


def load() -> dict[str, Any]:
    """Return the store."""
    stored: dict[str, Any] = json.loads(STORE.read_text()) if STORE.exists() else {}
    return stored


def why_stale(entry: Entry, store: Mapping[str, Any]) -> str:
    """Return why a figure has to be measured, or an empty string."""
    if entry.name not in store:
        return "never measured"
    measured = store[entry.name]["commit"].removesuffix("-dirty")
    files = [f"src/suffice/{module}" for module in entry.modules]
    words = ["git", "-C", str(ROOT), "diff", "--name-only", measured, "--", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        return f"commit {measured} is not in this copy of the history"
    changed = done.stdout.split()
    return f"changed since {measured}: {', '.join(changed)}" if changed else ""


def measure(entry: Entry, data: Path) -> dict[str, Any]:
    """Run the command of an entry; return its values with where and when they were measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.html"
        words = [word.format(data=data, out=out) for word in entry.command]
        began = time.monotonic()
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise SystemExit(f"{entry.name} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        values = entry.values(done.stdout, out)
    facts = {"commit": commit(), "date": datetime.now(UTC).date().isoformat()}
    return {**facts, "seconds": round(time.monotonic() - began), **machine(), "values": values}


def keep(store: Mapping[str, Any]) -> None:
    """Write the store, whole."""
    fresh = STORE.with_suffix(".new")
    fresh.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n")
    fresh.replace(STORE)


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table in Markdown."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def accuracy_table(store: Mapping[str, Any]) -> str:
    """Return the table of accuracies with private labels."""
    keys = ("without noise", "auto 1", "auto 0.1", "auto 0.05", "majority")
    head = ("data set", "exact labels", "epsilon 1", "epsilon 0.1", "epsilon 0.05")
    rows = []
    for name in SETS:
        values = store[f"label-privacy/{name}"]["values"]
        rows.append((name, *(f"{values[key]:.3f}" for key in keys)))
    return table((*head, "always the larger class"), rows)


def default_table() -> str:
    """Return the table of releases and models without options, from the rivals' store."""
    found: dict[tuple[str, float, str], list[float]] = defaultdict(list)
    for line in map(json.loads, RIVALS.read_text().splitlines()):
        if "commit" not in line:
            found[line["method"], line["epsilon"], line["data_set"]].append(line["accuracy"])
    names = (*SETS, "covertype")
    rows = (
        ("epsilon 1", "default", 1.0),
        ("epsilon 0.1", "default", 0.1),
        ("boosted trees, exact labels", "exact labels", 1.0),
    )
    lines = [
        (title, *(f"{mean(found[method, epsilon, name]):.3f}" for name in names))
        for title, method, epsilon in rows
    ]
    return table(("default", *names), lines)


def evidence_page(store: Mapping[str, Any]) -> str:
    """Return the tables of docs/evidence.md."""
    known = [entry for entry in entries() if entry.name in store]
    measured = table(
        ("what", "measured at", "on", "seconds", "command"),
        (
            (
                e.name,
                of["commit"],
                of["date"],
                of["seconds"] or "unknown",
                f"`python lab/evidence.py {e.name}`",
            )
            for e in known
            if (of := store[e.name])
        ),
    )
    compared = table(
        ("result", "statement", "printed", "ours", "verdict"),
        (
            (
                e.name.partition("/")[2],
                line["what"].replace("|", "/"),
                "in words" if line["printed"] is None else f"{line['printed']:g}",
                f"{line['ours']:.3g}",
                line["verdict"],
            )
            for e in known
            if e.name.startswith("reproduce/")
            for line in store[e.name]["values"]
        ),
    )
    never = [(e.name, "never measured for the store") for e in entries() if e.name not in store]
    parts = (
        ("What was measured, and when", measured),
        ("What the papers say, and our numbers", compared),
        ("What is not in the store", table(("figures", "why"), [*never, *MISSING])),
    )
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts)


def pages(store: Mapping[str, Any]) -> dict[Path, str]:
    """Return every page that is written from the store, as it should be."""
    blocks = {"default": default_table(), "evidence": evidence_page(store)}
    if all(f"label-privacy/{name}" in store for name in SETS):
        blocks["accuracy"] = accuracy_table(store)
    found = {}
    for path in (ROOT / "docs" / "accuracy.md", ROOT / "docs" / "evidence.md"):
        text = path.read_text()
        for name, block in blocks.items():
            marks = rf"(<!-- evidence: {name} -->\n).*?(\n<!-- end -->)"
            text = re.sub(
                marks, lambda m, block=block: f"{m[1]}\n{block}\n{m[2]}", text, flags=re.DOTALL
            )
        found[path] = text
    return found


def main(arguments: list[str]) -> int:
    """Measure, list or write; return 1 if something is stale and was only listed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="what to measure; default: all that is stale")
    parser.add_argument("--data", type=Path, help="the folder of the data sets")
    parser.add_argument("--stale", action="store_true", help="list what is stale, and why")
    parser.add_argument("--write", action="store_true", help="write the pages from the store")
    asked = parser.parse_args(arguments)
    store, known = load(), {entry.name: entry for entry in entries()}
    if unknown := set(asked.names) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [known[name] for name in asked.names or known]
    stale = {e.name: why for e in chosen if (why := why_stale(e, store))}
    if asked.stale:
        print("\n".join(f"{name}: {why}" for name, why in stale.items()) or "nothing is stale")
        return int(bool(stale))
    if not asked.write:
        if asked.data is None:
            parser.error("--data names the folder of the data sets")
        for name in stale:
            print(f"{name} ...", flush=True)
            store[name] = measure(known[name], asked.data.resolve())
            keep(store)
        print(f"{len(stale)} measured, {len(chosen) - len(stale)} were up to date")
    for path, text in pages(store).items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
