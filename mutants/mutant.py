"""What a privacy mutant is: a place in the package, and what a slip would make of it."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mutant", "Place", "StaleMutantError", "plant"]


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
        ast.parse(source, str(path))
    return changed
