"""What a privacy mutant is: a place in the package, what a slip makes of it, and a copy for it."""

import ast
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mutant", "Place", "StaleMutantError", "copy_tree", "plant", "write_sources"]

_COPIED = ("src", "tests", "lab", "examples", "docs", "pyproject.toml")


class StaleMutantError(Exception):
    """The place of a mutant is gone, or there are several of it: the data need mending."""


class Place(NamedTuple):
    """A text that stands once in a ``file`` under src/suffice, and what takes its place."""

    file: str
    text: str
    replacement: str


@dataclass(frozen=True)
class Mutant:
    """One slip that gives something away, and the tests that have to notice it.

    ``text`` stands exactly once in ``file``, a path under src/suffice. ``tests`` are files or test
    ids under tests/. ``reveals`` says what the slip would give away. ``also`` are further places,
    where a fault needs more than one.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    reveals: str
    also: tuple[Place, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place that is changed."""
        return (Place(self.file, self.text, self.replacement), *self.also)


def plant(mutant: Mutant, package: Path) -> dict[Path, str]:
    """Return the changed sources of ``package``, by file; nothing is written."""
    changed: dict[Path, str] = {}
    for place in mutant.places:
        path = package / place.file
        if not path.is_file():
            raise StaleMutantError(f"{mutant.name}: there is no file {place.file}")
        source = changed.get(path) or path.read_text()
        if (count := source.count(place.text)) != 1:
            raise StaleMutantError(
                f"{mutant.name}: its text stands {count} times in {place.file}, not once"
            )
        if place.text == place.replacement:
            raise StaleMutantError(f"{mutant.name}: what it puts into {place.file} changes nothing")
        changed[path] = source.replace(place.text, place.replacement)
    for path, source in changed.items():
        if path.suffix == ".py":
            ast.parse(source, str(path))
    return changed


def copy_tree(source: Path, target: Path) -> Path:
    """Copy what tests need; times stay, so that compiled kernels of other files stay valid."""
    for name in _COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("*.pyc"))
        elif (source / name).is_file():
            shutil.copy2(source / name, target / name)
    return target


def write_sources(changed: dict[Path, str]) -> None:
    """Write changed sources, and forget what was compiled from the old ones."""
    for path, source in changed.items():
        path.write_text(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()
