"""What tests of engines share: a table in random pieces, and every accumulator that can travel.

``python engine_cases.py PLACE`` prints the digests of all cases, for processes of another kind.
"""

import hashlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.engines.engine import Task, read_run
from suffice.engines.summary import PublicSummary
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import Candidates, MeanOperator, NoisySums, Shape
from suffice.owner.proportions import BagSource, LabelProportions
from suffice.owner.source import PublicSource
from suffice.privacy.guarantee import Budget
from suffice.releases.release import encode
from suffice.tables.sources import open_table
from suffice.tables.table import rows_parts

ROWS = 6000
FEATURES = ("age", "dose", "rare", "ward")
GRADES = (0, 1, 2)


def patients(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Return rows whose sums would show any order in which floats were added."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, rows)
    dose = rng.normal(3.0, 1.0, rows).astype(np.float32)
    rare = rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9, rows)
    ward = np.array(["north", "south", "west"])[rng.integers(0, 3, rows)]
    grade = rng.integers(0, 3, rows)
    sick = ((age + 10 * dose + rng.normal(0, 5, rows)) > 80).astype(np.int64)
    named = {"age": age, "dose": dose, "rare": rare, "ward": ward, "grade": grade, "sick": sick}
    return pa.table(named)


def every_type(rows: int = 600, seed: int = 0) -> pa.Table:
    """Return rows with a column of every type that features can have, and holes in all of them."""
    rng = np.random.default_rng(seed)
    whole, gone = rng.integers(0, 100, rows), rng.random((32, rows)) < 0.05
    words = np.array(["north", "south", "west"])[rng.integers(0, 3, rows)]
    texts, days = pa.string(), pa.array(whole, pa.int32())
    ticks = pa.array(whole * 86_400_000 + 7, pa.int64())
    columns = {
        **{f"int {kind}": pa.array(whole, kind) for kind in (pa.int8(), pa.int64(), pa.uint16())},
        **{
            f"float {kind}": pa.array(whole / 7).cast(kind) for kind in (pa.float32(), pa.float64())
        },
        "half": pa.array((whole / 8).astype(np.float16)),
        "decimal": pa.array(whole).cast(pa.decimal128(21, 2)),
        "wide decimal": pa.array(whole).cast(pa.decimal256(40, 5)),
        "boolean": pa.array(whole > 50),
        "date": days.cast(pa.date32()),
        "long date": days.cast(pa.date32()).cast(pa.date64()),
        "time": pa.array(whole, pa.int32()).cast(pa.time32("s")),
        "long time": pa.array(whole, pa.int64()).cast(pa.time64("us")),
        "instant": ticks.cast(pa.timestamp("ms")),
        "instant there": ticks.cast(pa.timestamp("ms", "Europe/Zurich")),
        "duration": pa.array(whole, pa.int64()).cast(pa.duration("s")),
        "text": pa.array(words, texts),
        "large text": pa.array(words, pa.large_string()),
        "dictionary": pa.array(words, texts).dictionary_encode(),
        "small dictionary": pa.array(words).cast(pa.dictionary(pa.int8(), texts)),
        "dictionary of numbers": pa.array(whole % 4, pa.int64()).dictionary_encode(),
    }
    holes = (pa.array(gone[k]) for k in range(len(columns)))
    with_holes = {
        name: pc.if_else(hole, pa.scalar(None, column.type), column)
        for hole, (name, column) in zip(holes, columns.items(), strict=False)
    }
    return pa.table({**with_holes, "sick": rng.integers(0, 2, rows)})


def released_on(place: Path, ledger: Path, engine: Any) -> bytes:
    """Return a release of every type; a ledger answers the same request with the same bytes."""
    paid = {"ledger": new_ledger(ledger), "dataset": "patients", "request": "one"}
    operator = MeanOperator(1.0, mechanism="laplace", missing="mean", map=None)
    return encode(operator.release(place, label="sick", engine=engine, **paid))


def write_pieces(table: pa.Table, folder: Path, cuts: list[int], group: int = 1 << 20) -> Path:
    """Write a table as files that end at ``cuts``; their names are in the order of the rows."""
    folder.mkdir()
    ends = [0, *sorted(cuts), table.num_rows]
    for k, (first, end) in enumerate(itertools.pairwise(ends)):
        pq.write_table(table.slice(first, end - first), folder / f"{k:03}.parquet", group)
    return folder


def write_at_random(table: pa.Table, folder: Path, rng: np.random.Generator) -> Path:
    """Write a table as 3 to 9 files of random sizes, in row groups of a random size."""
    cuts = rng.choice(table.num_rows - 1, size=rng.integers(2, 9), replace=False) + 1
    return write_pieces(table, folder, cuts.tolist(), int(rng.integers(100, 2000)))


@dataclass(frozen=True)
class Case:
    """One accumulator over one table: its parts, how it starts, and what it says in the end."""

    parts: Any
    make: Any
    facts: Any


def cases(place: Any, **computing: Any) -> dict[str, Case]:
    """Return every accumulator that may leave the owner's process, over a table of patients.

    The public passes that they need run as ``computing`` says.
    """
    table = open_table(place, text=["sick", "grade"])
    schema = pa.schema([table.schema.field(name) for name in FEATURES])
    found = {"summary": Case(rows_parts(table, FEATURES), partial(PublicSummary, schema), _summed)}
    inputs = {"features": FEATURES, **computing}
    even = MeanOperator(1.0, 1e-6, mechanism="gaussian", map=None)
    public = even.public(PublicSource(place, label="sick", **inputs))
    plain = Candidates(public.rows, 2).of("gaussian", 1.0, 1e-6)
    weights = 1.0 + np.arange(len(public.rows.pipeline.outputs))
    shaped = replace(plain, shape=Shape.of(np.diag(weights)))
    request = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6}
    found["sums"] = _case(NoisySums(public, request, plain), public)
    found["shaped sums"] = _case(NoisySums(public, request, shaped), public)
    answers = MeanOperator(1.0, mechanism="response")
    found["labels"] = _case(answers.choose(public), public)
    mapped = MeanOperator(1.0, mechanism="laplace", classes=GRADES, map="rff:8")
    public = mapped.public(PublicSource(place, label="grade", **inputs))
    found["mapped sums"] = _case(mapped.choose(public), public)
    bags = LabelProportions(1.0, classes=GRADES)
    inputs["features"] = FEATURES[:3]
    public = bags.public(BagSource(place, label="grade", bags="ward", **inputs))
    found["counts"] = _case(bags.choose(public), public)
    return found


def _case(procedure: Any, public: Any) -> Case:
    make = partial(procedure.accumulator, identified=True)
    return Case(procedure.parts(public), make, partial(_counted, procedure))


def _summed(exact: PublicSummary) -> tuple[bytes, bytes]:
    found = exact.result()
    facts = [found.rows, found.rows_hash, found.mean, found.deviation, found.missing]
    counts = {name: sorted(counter.items()) for name, counter in found.counts.items()}
    sample = [found.sample.rows.to_pydict(), found.sample.weights.tolist()]
    return json.dumps([facts, counts, sample], sort_keys=True).encode(), b""


def _counted(procedure: Any, exact: Any) -> tuple[bytes, bytes]:
    """Return what is the same in any order of rows, and what has an order."""
    ordered = procedure.kind == "responses" or getattr(exact, "ordered", False)
    public = {**procedure.parameters(exact), "promised": str(procedure.guarantees(exact))}
    if ordered:
        public.pop("rows")
    shared = json.dumps(
        [public, exact.count, exact.rows.unordered(), exact.labels.outside], sort_keys=True
    )
    result = np.ascontiguousarray(exact.result()).tobytes()
    private = exact.fingerprint
    rows = exact.rows.result().encode()
    if ordered:
        return shared.encode(), private + result + rows
    return shared.encode() + result + rows, private


def digests(facts: dict[str, tuple[bytes, bytes]]) -> dict[str, list[str]]:
    return {name: [hashlib.sha256(f).hexdigest() for f in both] for name, both in facts.items()}


def folded(place: Any, engine: Any) -> dict[str, list[str]]:
    """Return the digests of all cases, with every pass on this engine."""
    found = cases(place, engine=engine)
    return digests({n: c.facts(engine.fold(c.parts, c.make)) for n, c in found.items()})


def merged_at_random(case: Case, start: Any, rng: np.random.Generator) -> tuple[bytes, bytes]:
    """Read parts in a random order, merge neighbours in a random tree, and return the facts.

    ``start`` starts a task on a run and returns it.
    """
    runs = [(part,) for part in case.parts]
    tasks: dict[int, Task] = {int(k): start(runs[k]) for k in rng.permutation(len(runs))}
    pieces = [tasks[k].result().accumulator for k in range(len(runs))]
    while len(pieces) > 1:
        k = int(rng.integers(len(pieces) - 1))
        pieces[k].merge(pieces.pop(k + 1))
    return case.facts(pieces[0])


@dataclass(frozen=True)
class Here:
    """A task that is done at once, in this process."""

    empty: Any
    run: Any

    def result(self) -> Any:
        return read_run(self.empty, self.run)


def new_ledger(path: Path) -> Ledger:
    return Ledger(path, {"patients": {"label": Budget(10.0, 1e-3)}})


def debits(path: Path) -> int:
    return len(Ledger(path).history())


def splits(tmp_path: Path, times: int = 20) -> Iterator[tuple[Path, np.random.Generator]]:
    """Yield the same patients, split anew each time, and a generator for what else is random."""
    for seed in range(times):
        rng = np.random.default_rng(seed)
        yield write_at_random(patients(), tmp_path / f"split{seed}", rng), rng


if __name__ == "__main__":
    from suffice.engines.engine import Threads

    print(json.dumps(folded(Path(sys.argv[1]), Threads(1))))  # noqa: T201  # for its parent
