"""Makes the golden files anew, and prints what changed: ``make golden``.

``expected/`` has one file for each family of cases. Arrays before noise, scales, manifests and
seeded bytes must be equal. Numbers of linear algebra, which follow a "~" in a case or belong to a
family of learners, plans or ledgers, may differ by a millionth: machines round them differently.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import seeds
from golden import commands, exchanges, learners, memory, releases
from golden.difference import differences, told
from golden.stage import Stage, stage

__all__ = ["FAMILIES", "changes", "expected", "made", "main", "path_of", "text_of"]

FOLDER = Path(__file__).parent / "expected"
CASE_DEPTH = 2  # of the members of a case: its name and its members have lines of their own
Record = dict[str, Any]


class Family(NamedTuple):
    """What makes the cases of one file, and whether its numbers are the same on every machine."""

    cases: Callable[[Stage], Iterator[tuple[str, Record]]]
    exact: bool = True


FAMILIES: dict[str, Family] = {
    **{f"release {kind}": Family(releases.family(kind)) for kind in releases.COMMANDS},
    "readers": Family(releases.readers),
    "chains": Family(releases.chains),
    "memory": Family(memory.frames),
    "surveys": Family(exchanges.surveys),
    "contributions": Family(exchanges.contributions),
    "proposals": Family(exchanges.proposals),
    "ledgers": Family(exchanges.ledgers, exact=False),
    "commands": Family(commands.printed, exact=False),
    "models": Family(learners.models, exact=False),
    "estimators": Family(learners.estimators, exact=False),
}


def made(family: str) -> Record:
    """Return the cases of a family as the package makes them now."""
    with stage() as here, seeds.seeded(f"golden/{family}"):
        cases = dict(FAMILIES[family].cases(here))
    return json.loads(text_of(cases))  # as it will be read: tuples are lists


def expected(family: str) -> Record:
    """Return the cases of a family as they were kept."""
    path = path_of(family)
    return json.loads(path.read_text()) if path.exists() else {}


def changes(family: str, old: Record, new: Record) -> list[str]:
    """Return one line for each member of each case that changed."""
    lines = []
    for case in [*old, *(case for case in new if case not in old)]:
        name = f"{family}/{case}"
        if case not in old or case not in new:
            lines.append(f"{name}: {'gone' if case in old else 'new'}")
            continue
        exact = FAMILIES[family].exact and not case.endswith("~")
        found = differences(old[case], new[case], exact=exact)
        lines += [told(name, *difference) for difference in found]
    return lines


def text_of(cases: Record) -> str:
    """Return a file's text: JSON in which what holds no list and no object takes one line."""
    return _written(cases, 0) + "\n"


def _written(value: Any, depth: int) -> str:
    inner = list(value.values() if isinstance(value, dict) else value) if _nests(value) else []
    if depth >= CASE_DEPTH and not any(map(_nests, inner)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    texts = [_written(item, depth + 1) for item in inner]
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) for key in value]
        texts = [f"{key}: {text}" for key, text in zip(keys, texts, strict=True)]
        texts = texts if depth == 0 else sorted(texts)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = ",\n".join(" " * (depth + 1) + text for text in texts)
    return f"{opening}\n{lines}\n{' ' * depth}{closing}"


def _nests(value: Any) -> bool:
    return isinstance(value, dict | list)


def path_of(family: str) -> Path:
    """Return the file that keeps the cases of a family."""
    return FOLDER / f"{family.replace(' ', '-')}.json"


def main(names: Sequence[str]) -> None:
    """Make the golden files of these families, or of all; print what changed."""
    count = 0
    for family in names or FAMILIES:
        new = made(family)
        lines = changes(family, expected(family), new)
        count += len(lines)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        if lines:  # else last digits of another machine would be kept
            path_of(family).write_text(text_of(new))
    sys.stdout.write(f"golden files: {count} changes\n")


if __name__ == "__main__":
    seeds.install()
    main(sys.argv[1:])
