"""Whole releases as outputs: their noisy numbers, and everything else that others see of them."""

import json
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from zlib import crc32

import numpy as np

from suffice.audit.public_part.shown import Shown, noisy_arrays, public_part
from suffice.owner.mechanism import Mechanism
from suffice.owner.source import Source
from suffice.release.artifact import Release

__all__ = ["outputs_of", "repeated_releases"]

_FOLDS = 16  # numbers that all public numbers of a release are added up to, by their place


def repeated_releases(
    mechanism: Mechanism[Any], source: Source, times: int, *, read_again: bool = False
) -> list[Release]:
    """Return many releases of one source; all but the noise is computed once.

    ``read_again``: private cells are read for every release. Where a statistic is random before its
    noise is, as rados are, no other releases are independent.
    """
    public = mechanism.public(source)
    procedure = mechanism.choose(public)

    parts = procedure.parts(public)

    def read() -> Any:
        return source.fold(parts, partial(procedure.accumulator, identified=False))

    draws_while_reading = procedure.draws_while_reading
    first = source.fold(parts, procedure.identifier) if draws_while_reading else read()
    promised = procedure.guarantees(first)
    return [
        procedure.draw(read() if draws_while_reading or read_again else first, promised)
        for _ in range(times)
    ]


def outputs_of(releases: Sequence[Release]) -> np.ndarray:
    """Return what releases show, one a row: noisy numbers, a digest of all else, public numbers.

    The digest changes with any byte of the manifest, of a public array, of a shape or of the file's
    size. A detail that is random by itself has another digest in every release, so public numbers
    stand there too, those of equal hash added up. Releases of fewer numbers have NaN at the end.
    """
    rows = [_shown_numbers(release) for release in releases]
    outputs = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(outputs, rows, strict=True):
        line[: len(row)] = row
    return outputs


def _shown_numbers(release: Release) -> np.ndarray:
    noisy = [array.ravel().astype(np.float64) for array in noisy_arrays(release).values()]
    public = public_part(release)
    return np.concatenate([[_digest(public)], _folded(public), *noisy])


def _digest(public: Shown) -> float:
    """Return 48 bits of a hash of all that is shown: a float holds them exactly."""
    lines = [f"{path}\0{len(content)}\0".encode() + content for path, content in public.items()]
    return float(int.from_bytes(sha256(b"".join(sorted(lines))).digest()[:6], "big"))


def _folded(public: Shown) -> np.ndarray:
    folded = np.zeros(_FOLDS)
    for path, content in public.items():
        number = None if path.startswith(("array", "shape")) else json.loads(content)
        if isinstance(number, int | float):
            folded[crc32(path.encode()) % _FOLDS] += number
    return folded
