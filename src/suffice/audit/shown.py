"""What others see of a release: every byte outside its noisy arrays, and what the ledger shows."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import Any
from zlib import crc32

import numpy as np

from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import Mechanism
from suffice.owner.source import Source
from suffice.privacy.guarantee import Unit
from suffice.release.codec import encode, manifest_of
from suffice.release.kinds import kind_named
from suffice.release.release import Release

__all__ = [
    "Shown",
    "frozen_cells",
    "ledger_part",
    "noisy_arrays",
    "outputs_of",
    "public_part",
    "repeated_releases",
]


Shown = dict[str, bytes]
"""What is shown, by where it is shown; it compares byte by byte."""


def public_part(release: Release) -> Shown:
    """Return everything of a release but what noise, or a digest of it, is in."""
    kind = kind_named(release.kind)
    manifest = manifest_of(release)
    del manifest["payload"]  # a digest of the noisy arrays
    for part, stated in zip(release.parts, manifest["parts"], strict=True):
        records = any(guarantee.unit is Unit.RECORD for guarantee in part.guarantees)
        if kind.named_by_noise == "always" or (kind.named_by_noise == "records" and records):
            del stated["rows"]["hash"]
    visible = _flat("manifest", manifest)
    arrays = {**release.arrays, **release.pipeline.arrays(), **release.noise.arrays()}
    for name, array in arrays.items():
        visible[f"shape of {name}"] = f"{array.dtype} {array.shape}".encode()
        if name not in kind.arrays or not kind.arrays[name].noisy:
            visible[f"array {name}"] = array.tobytes()
    visible["size of the file"] = str(len(encode(release))).encode()
    return visible


def _flat(where: str, value: Any) -> Shown:
    """Return a JSON value leaf by leaf, so that a difference has a place."""
    if isinstance(value, dict) and value:
        parts = [_flat(f"{where}.{key}", item) for key, item in value.items()]
    elif isinstance(value, list) and value:
        parts = [_flat(f"{where}[{k}]", item) for k, item in enumerate(value)]
    else:
        return {where: json.dumps(value).encode()}
    return {path: leaf for part in parts for path, leaf in part.items()}


def ledger_part(ledger: Ledger) -> Shown:
    """Return what a ledger shows: every charge but its time, the balances, and the audit log.

    Digests of releases, which noise is in, are left out, and so are random names.
    """
    visible: Shown = {}
    for entry in ledger.history():
        for name, value in asdict(entry).items():
            if name != "time":
                visible[f"history {entry.number}: {name}"] = repr(value).encode()
    for balance in ledger.balances():
        visible[f"balance of {balance.dataset} per {balance.unit}"] = repr(balance).encode()
    for line in ledger.log():
        facts = {k: v for k, v in line.facts.items() if k not in {"release", "ledger", "claim"}}
        visible[f"log {line.number}: {line.kind}"] = repr(facts).encode()
    return visible


def noisy_arrays(release: Release) -> dict[str, np.ndarray]:
    """Return the arrays of a release that noise is in."""
    rules = kind_named(release.kind).arrays
    return {name: array for name, array in release.arrays.items() if rules[name].noisy}


def frozen_cells(first: Sequence[Release], second: Sequence[Release]) -> list[str]:
    """Return the noisy cells that have no noise on one side, and are otherwise on the other.

    A cell that is the same in all draws of one side, and not that in those of the other, tells the
    two apart, whatever noise the others have.
    """
    draws = [[noisy_arrays(release) for release in side] for side in (first, second)]
    frozen = []
    for name in draws[0][0]:
        stacks = [np.stack([arrays[name] for arrays in side]) for side in draws]
        if stacks[0].shape[1:] != stacks[1].shape[1:]:
            continue  # a difference of shape is found in public
        still = [(stack == stack[0]).all(axis=0) for stack in stacks]
        differs = ~(still[0] & still[1] & (stacks[0][0] == stacks[1][0]))
        cells = np.argwhere((still[0] | still[1]) & differs)[:1]
        frozen += [f"no noise in {name}{cell.tolist()}" for cell in cells]
    return frozen


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
