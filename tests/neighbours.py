"""Neighbouring tables as CSV files, and what of their releases everybody can see.

Two tables that differ in one unit inside the declared domain must give releases that are equal byte
for byte but for the noisy arrays (docs/promise.md). Rows are so many that readers cut the file into
several blocks of bytes, and labels differ in length, so that the cuts move.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.mechanism import PrivateEnsemble
from suffice.owner.parties.records import PartyTable
from suffice.owner.proportions.mechanism import LabelProportions
from suffice.owner.rados.mechanism import Rados
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.release.artifact import Release
from suffice.release.codec import manifest_of

WIDTH = 6
BLOCK = 1 << 20  # bytes: where Arrow cuts a CSV file
NAMES = [f"x{j}" for j in range(WIDTH)]
RANGES = dict.fromkeys(NAMES, (-1e4, 1e4))
WARDS = ["north", "south", "west"]
FEATURES = [*NAMES, "ward"]
PARTIES = 20
# What noise, or a hash of it, is in; everything else of a release is public.
NOISY = {
    "mean-operator": {"mean_operator"},
    "label-responses": {"answers"},
    "responses": {"answers", "codes", "values"},
    "rados": {"rados"},
    "proportions": {"proportions", "counts"},
    "votes": {"votes"},
}
NAMED_BY_NOISE = {"responses", "rados"}  # whose rows are named by a hash of what leaves


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in row ``place``, and the classes that were declared for both."""

    one: pa.Table
    two: pa.Table
    classes: tuple[str, ...]
    place: int


def make_pair(rng: np.random.Generator, *, whole_record: bool) -> Pair:
    """Return neighbouring tables: another label, or another record."""
    rows = int(rng.integers(9_000, 24_000))
    columns = rng.normal(size=(WIDTH, rows))
    columns -= columns.mean(axis=1)[:, None]
    columns /= columns.std(axis=1)[:, None]  # as tables often come
    scales = np.where(rng.random(WIDTH) < 0.8, 1.0, 10.0 ** rng.integers(-3, 4, WIDTH))
    columns *= scales[:, None]
    ward = rng.choice(WARDS, rows)
    lengths = [1, 60, *rng.integers(1, 61, 1)] if rng.random() < 0.7 else rng.integers(1, 61, 3)
    classes = tuple(f"{k}".ljust(int(n), "m") for k, n in enumerate(lengths[: rng.integers(2, 4)]))
    labels = rng.integers(0, len(classes), rows)
    one = _table(columns, ward, np.array(classes)[labels])
    place = _place(rng, one)
    labels[place] = (labels[place] + 1) % len(classes)
    if whole_record:
        columns = columns.copy()
        columns[:, place] = rng.uniform(-1, 1, WIDTH) * scales
        ward = ward.copy()
        ward[place] = rng.choice(WARDS)
    return Pair(one, _table(columns, ward, np.array(classes)[labels]), classes, place)


def _place(rng: np.random.Generator, table: pa.Table) -> int:
    """Return a row: any, the last one before a block of bytes ends, or one of the first."""
    kind = rng.integers(3)
    if kind == 0:
        return int(rng.integers(table.num_rows))
    if kind == 1:
        return int(rng.integers(1000))
    written = pa.BufferOutputStream()
    pa.csv.write_csv(table, written)
    lines = bytes(memoryview(written.getvalue())[:BLOCK]).count(b"\n")
    return min(lines - 2, table.num_rows - 1)  # the first line is the header


def _table(columns: np.ndarray, ward: np.ndarray, labels: np.ndarray) -> pa.Table:
    party = [f"p{k % PARTIES}" for k in range(len(labels))]
    features = dict(zip(NAMES, columns, strict=True))
    return pa.table(features | {"ward": ward, "party": party, "label": labels})


@dataclass(frozen=True)
class Way:
    """One way to release a file, and whether its records are private or its labels only."""

    name: str
    release: Callable[[Path, tuple[str, ...], pa.Table], Release]
    whole_record: bool = False
    two_classes: bool = False


def _mean_operator(mechanism: str, **options: Any) -> Way:
    def release(path: Path, classes: tuple[str, ...], _: pa.Table) -> Release:
        operator = MeanOperator(0.5, 1e-6, mechanism, classes, **options)
        return operator.release(path, label="label", features=FEATURES, ledger=None)

    return Way(f"mean operator, {mechanism} {options or ''}", release)


def _proportions(path: Path, classes: tuple[str, ...], _: pa.Table) -> Release:
    mechanism = LabelProportions(0.5, 1e-6, classes=classes)
    return mechanism.release(path, bags="ward", label="label", features=NAMES, ledger=None)


def _responses(path: Path, classes: tuple[str, ...], _: pa.Table) -> Release:
    mechanism = RandomizedResponse(classes, 0.25, None, {"ward": WARDS}, RANGES, 0.3, 1e4)
    return mechanism.release(path, label="label", features=FEATURES, ledger=None)


def _parties(method: str) -> Way:
    """All parties from one table: one of their records is another, or one label."""

    def release(path: Path, classes: tuple[str, ...], _: pa.Table) -> Release:
        public = np.random.default_rng(0).normal(size=(40, WIDTH))
        auxiliary = AuxiliaryRows.read(pa.table(dict(zip(NAMES, public.T, strict=True))))
        enrolled = Enrolled.of([f"p{k}" for k in range(PARTIES)])
        own = PartyTable.read(
            path, auxiliary, label="label", classes=classes, party="party", enrolled=enrolled
        )
        ensemble = PrivateEnsemble(1.0, 1e-6, method, classes)
        votes = own.tally(auxiliary, 1e-2, enrolled)
        return ensemble.aggregate(votes, auxiliary, enrolled=enrolled, ledger=None).release

    return Way(f"parties, {method}", release, whole_record=True)


def _rados(unit: str, **options: Any) -> Way:
    def release(path: Path, classes: tuple[str, ...], _: pa.Table) -> Release:
        rados = Rados(
            count=8, epsilon=1.0, delta=1e-6, unit=unit, classes=classes, ranges=RANGES,
            categories={"ward": WARDS}, **options,
        )  # fmt: skip
        return rados.release(path, label="label", features=FEATURES, ledger=None)

    return Way(f"rados, {unit}", release, whole_record=unit != "label", two_classes=True)


WAYS = (
    _mean_operator("laplace"),
    _mean_operator("gaussian"),
    _mean_operator("knorm"),
    _mean_operator("response"),
    _mean_operator("gaussian", map="rff:16"),
    _mean_operator("laplace", map="nystroem:12"),
    Way("proportions", _proportions),
    Way("responses", _responses, whole_record=True),
    _rados("label"),
    _rados("record"),
    _parties("votes"),
    _parties("operator"),
)


def public_part(release: Release) -> dict[str, Any]:
    """Return everything of a release but what noise is in, as values that compare byte by byte."""
    manifest = manifest_of(release)
    del manifest["payload"]
    if release.kind in NAMED_BY_NOISE:
        for part in manifest["parts"]:
            del part["rows"]["hash"]
    arrays = {**release.arrays, **release.pipeline.arrays(), **release.noise.arrays()}
    shown = {n: a.tobytes() for n, a in arrays.items() if n not in NOISY[release.kind]}
    return {"manifest": manifest, **shown}


def differences(folder: Path, pairs: int, seed: int) -> Iterator[str]:
    """Yield what differs in public, pair by pair; the ways to release take turns."""
    rng = np.random.default_rng(seed)
    for number in range(pairs):
        way = WAYS[number % len(WAYS)]
        pair = make_pair(rng, whole_record=way.whole_record)
        classes = pair.classes[:2] if way.two_classes else pair.classes
        parts = []
        for name, table in (("one", pair.one), ("two", pair.two)):
            path = folder / f"{name}.csv"
            pa.csv.write_csv(_of_classes(table, classes), path)
            parts.append(public_part(way.release(path, classes, table)))
        one, two = parts
        for name in sorted(one.keys() | two.keys()):
            if one.get(name) != two.get(name):
                yield f"pair {number}: {way.name}, row {pair.place}: {name}"


def _of_classes(table: pa.Table, classes: tuple[str, ...]) -> pa.Table:
    """Return the table with its labels brought into the first classes, row by row."""
    labels = [x if x in classes else classes[-1] for x in table["label"].to_pylist()]
    return table.set_column(table.column_names.index("label"), "label", pa.array(labels))


if __name__ == "__main__":  # python tests/neighbours.py PAIRS SEED
    import sys
    import tempfile

    asked, first_seed = (int(word) for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as where:
        seen = list(differences(Path(where), asked, first_seed))
    sys.stdout.write("\n".join([*seen, f"{asked} pairs, {len(seen)} differences"]) + "\n")
