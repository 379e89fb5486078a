"""Records from rados: a category with one member shows that member, and with it complete records.

The attacker has the release and nothing else. Plain rados guarantee nothing; those with noise for
records do.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from rado_attacks import examples_of, invert, lone_members
from run import Rate

from suffice.owner.rados import Rados
from suffice.releases.release import Release

_ROWS, _COUNT = 60, 64
_PRIVATE = {
    "unit": "record",
    "epsilon": 1.0,
    "delta": 1e-6,
    "ranges": {"age": (20, 80)},
}


def _patients(rng: np.random.Generator, rare: str) -> pa.Table:
    ward = np.array(["north", "south"])[rng.integers(0, 2, _ROWS)].astype(object)
    if rare:
        ward[0] = rare
    sick = rng.integers(0, 2, _ROWS)
    return pa.table({"age": rng.uniform(20, 80, _ROWS), "ward": ward.astype(str), "sick": sick})


def _released(table: pa.Table, **options: object) -> Release:
    mechanism = Rados(count=_COUNT, categories=_wards(), **options)
    return mechanism.release(table, label="sick", ledger=None, unprotected=True)


def _wards() -> dict[str, list[str]]:
    return {"ward": ["north", "south", "island"]}


def _complete_record(rng: np.random.Generator, **options: object) -> bool:
    """Say whether the only patient from the island is found, age and all."""
    table = _patients(rng, "island")
    release = _released(table, **options)
    members = lone_members(release)
    (k,) = (i for i, name in enumerate(members.names) if name == "ward=island")
    truth = release.pipeline.transform(table.combine_chunks().to_batches()[0])[0]
    record = members.edges[k] * members.labels.values[k]
    return bool(members.labels.claimed[k] and np.abs(record - truth).max() < 1e-6)


def _membership(rng: np.random.Generator, **options: object) -> bool:
    """Say whether the attack finds out if anybody is from the island."""
    is_member = bool(rng.integers(0, 2))
    members = lone_members(_released(_patients(rng, "island" if is_member else ""), **options))
    (k,) = (i for i, name in enumerate(members.names) if name == "ward=island")
    guess = members.labels.values[k] != 0 if members.labels.claimed[k] else bool(rng.integers(0, 2))
    return bool(guess) == is_member


def _everybody(rng: np.random.Generator, signs: str) -> bool:
    """Say whether a column of names reveals every record."""
    names = [f"person {i}" for i in range(30)]
    sick = rng.integers(0, 2, 30)
    table = pa.table({"age": rng.uniform(20, 80, 30), "name": names, "sick": sick})
    mechanism = Rados(count=_COUNT, signs=signs)
    release = mechanism.release(table, label="sick", ledger=None, unprotected=True)
    members = lone_members(release)
    rows, labels = examples_of(invert(release.arrays["rados"], members.inside))
    order = [names.index(name.removeprefix("name=")) for name in members.names]
    truth = release.pipeline.transform(table.combine_chunks().to_batches()[0])[order]
    return rows.rate(truth) == labels.rate(2.0 * sick[order] - 1) == 1.0


def rates(trials: int) -> Iterator[Rate]:
    """Yield how often records and members are found, in plain rados and in private ones."""
    rng = np.random.default_rng(0)
    unprotected = {"standardize": "none"}
    attempts: list[tuple[str, Callable[[], bool], str]] = [
        ("whole record, plain rados", lambda: _complete_record(rng, **unprotected), "1"),
        ("whole record, epsilon 1 per record", lambda: _complete_record(rng, **_PRIVATE), "0"),
        ("membership, plain rados", lambda: _membership(rng, **unprotected), "1"),
        ("membership, epsilon 1 per record", lambda: _membership(rng, **_PRIVATE), "a coin, .5"),
        ("all records, names, structured signs", lambda: _everybody(rng, "hadamard"), "1"),
        ("all records, names, independent signs", lambda: _everybody(rng, "iid"), "1"),
    ]  # fmt: skip
    for target, attempt, expected in attempts:
        yield Rate(target, sum(attempt() for _ in range(trials)), trials, expected)
