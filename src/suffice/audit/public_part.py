"""Release pairs of neighbouring data sets, and report where others see a difference.

What others see of a release is every byte outside its noisy arrays, and what the ledger shows. Each
table is handed over in many forms (arrays, frames, files, folders, databases), and released in
process and by the program's own words. Every number that decides a pair follows from the seed and
the pair's number, so that one pair can be run again.
"""

import gzip
import io
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq

from suffice.audit.exercises import (
    AUXILIARY_DATASET,
    NAMES,
    Changed,
    Exercise,
    Neighbours,
    exercises_of,
    neighbours,
    with_ugly_cells,
)
from suffice.errors import SufficeError, UnprotectedError
from suffice.options import options_of
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import Mechanism, mechanism_of
from suffice.owner.source import PublicSource, Source
from suffice.plain_text import collected_notes
from suffice.privacy.guarantee import Budget, Unit
from suffice.releases.codec import load
from suffice.releases.kinds import kind_named
from suffice.releases.release import Release, encode, manifest_of
from suffice.tables import files
from suffice.tables import table as tables_table
from suffice.tables.databases import Query
from suffice.tables.files import TableFile

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
    rows = []
    for release in releases:
        public, folded = public_part(release), np.zeros(_FOLDS)
        lines = [f"{path}\0{len(content)}\0".encode() + content for path, content in public.items()]
        digest = int.from_bytes(sha256(b"".join(sorted(lines))).digest()[:6], "big")  # in a float
        for path, content in public.items():
            number = None if path.startswith(("array", "shape")) else json.loads(content)
            if isinstance(number, int | float):
                folded[crc32(path.encode()) % _FOLDS] += number
        noisy = [array.ravel().astype(np.float64) for array in noisy_arrays(release).values()]
        rows.append(np.concatenate([[float(digest)], folded, *noisy]))
    outputs = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(outputs, rows, strict=True):
        line[: len(row)] = row
    return outputs


SERVER = "SUFFICE_POSTGRESQL"  # the variable that holds the address of a server to write tables to
_KEY = "key"
_PARTS = 3  # files of a folder
_numbers = count()


@dataclass(frozen=True)
class Form:
    """One form of a table, such as an array or a file.

    ``hand(table)`` returns what an owner gives to a release; files go to the current folder.
    """

    name: str
    hand: Callable[[pa.Table], Any]
    named: bool = True  # whether columns have names; if not, labels and categories go beside it
    in_file: bool = False  # so that the command line can read it
    needs: str = ""  # a library
    dialect: Mapping[str, str] = field(default_factory=dict)  # to be stated, if columns are private


@dataclass(frozen=True)
class Handed:
    """A data set as an owner hands it over: ``data`` is the table in its form."""

    form: Form
    data: Any
    table: pa.Table
    auxiliary: Path  # a file of auxiliary rows
    classes: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Say whether the form has a column of this name."""
        return self.form.named or name in NAMES

    def column(self, name: str) -> Any:
        """Return a column as a source takes it: its name, or its cells where names are lacking."""
        return name if self.form.named else self.table[name].to_numpy(zero_copy_only=False)


def handed(form: Form, table: pa.Table, auxiliary: pa.Table, classes: tuple[str, ...]) -> Handed:
    """Return a data set in this form; files go to the current folder."""
    path = Path("auxiliary.parquet")
    pq.write_table(auxiliary, path)
    return Handed(form, form.hand(table), table, path, classes)


def _file(
    name: str, ending: str, write: Callable[[pa.Table, Path], Any], needs: str = "", **dialect: str
) -> Form:
    def hand(table: pa.Table) -> Path:
        path = Path(f"table{ending}")
        write(table, path)
        return path

    return Form(name, hand, in_file=True, needs=needs, dialect=dialect)


def _text(table: pa.Table, sign: str) -> str:
    """Return a table as CSV with this sign between columns."""
    lines = io.BytesIO()
    pa.csv.write_csv(table, lines, pa.csv.WriteOptions(delimiter=sign))
    return lines.getvalue().decode()


def _spreadsheet(table: pa.Table, path: Path) -> None:
    """Write semicolons, decimal commas and Latin-1, as spreadsheets of many countries do."""
    columns = [
        pc.replace_substring(column.cast(pa.string()), ".", ",") if name in NAMES else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    text = _text(pa.table(columns, names=table.column_names), ";")
    path.write_bytes(text.encode("latin-1", errors="replace"))


def _folder(table: pa.Table, path: Path) -> None:
    """Write several CSV files; the first ones have equally many rows."""
    path.mkdir()
    rows = table.num_rows // _PARTS + 1
    for k in range(_PARTS):
        pa.csv.write_csv(table.slice(k * rows, rows), path / f"{k}.csv")


def _excel(table: pa.Table, path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(table.column_names)
    for row in _rows(table):
        sheet.append(row)
    book.save(path)


def _dataset(table: pa.Table) -> Any:
    pq.write_table(table, "set.parquet")
    return ds.dataset("set.parquet")


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _query(name: str, needs: str, write: Callable[[pa.Table, str], str]) -> Form:
    """Return what writes a table to a database, with a key, and hands over a query.

    ``write(table, name)`` returns the address.
    """

    def hand(table: pa.Table) -> Query:
        alone = write is _in_postgresql  # where a table that is still read cannot be replaced
        named = f"people_{os.getpid()}_{next(_numbers)}" if alone else "people"
        address = write(table.append_column(_KEY, pa.array(np.arange(table.num_rows))), named)
        return Query(address, f"select * from {named}", (_KEY,))  # noqa: S608

    return Form(name, hand, needs=needs)


def _in_sqlite(table: pa.Table, name: str) -> str:
    """Write cells of no declared type: SQLite's own are all that a reader has."""
    names = ", ".join(f'"{column}"' for column in table.column_names)
    marks = ", ".join("?" for _ in table.column_names)
    connection = sqlite3.connect("table.db")
    with connection:
        connection.execute(f"create table {name} ({names})")
        connection.executemany(f"insert into {name} values ({marks})", _rows(table))  # noqa: S608
    connection.close()
    return "sqlite:///table.db"


def _in_duckdb(table: pa.Table, name: str) -> str:
    import duckdb

    with duckdb.connect("table.duckdb") as connection:
        connection.register("given", table)
        connection.execute(f"create table {name} as select * from given")  # noqa: S608
    return "duckdb:///table.duckdb"


def _in_postgresql(table: pa.Table, name: str) -> str:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(os.environ[SERVER]) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, table, mode="create")
        connection.commit()
    return os.environ[SERVER]


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form(
            "numpy", lambda table: np.column_stack([table[name].to_numpy() for name in NAMES]),
            named=False,
        ),
        Form("pandas", lambda table: table.to_pandas(), needs="pandas"),
        _file("Parquet", ".parquet", pq.write_table),
        _file("CSV", ".csv", pa.csv.write_csv),
        _file("CSV.gz", ".csv.gz",
              lambda t, path: path.write_bytes(gzip.compress(_text(t, ",").encode(), mtime=0))),
        _file("spreadsheet CSV", ".txt", _spreadsheet, decimal=",", encoding="latin-1"),
        _file("UTF-16", ".tsv", lambda t, path: path.write_bytes(_text(t, "\t").encode("utf-16"))),
        _file("Feather", ".feather", pa.feather.write_feather),
        _file("folder", "s", _folder),
        _file("Excel", ".xlsx", _excel, "openpyxl"),
        _file("SPSS", ".sav", lambda t, path: import_module("pyreadstat").write_sav(
            t.to_pandas(), str(path)), "pyreadstat"),
        Form("polars", lambda table: import_module("polars").from_arrow(table), needs="polars"),
        Form("data set", _dataset),
        _query("SQLite", "adbc_driver_sqlite", _in_sqlite),
        _query("DuckDB", "duckdb", _in_duckdb),
        _query("PostgreSQL", "adbc_driver_postgresql", _in_postgresql),
    )
    if (not form.needs or find_spec(form.needs) is not None)
    and (form.name != "PostgreSQL" or os.environ.get(SERVER))
}  # fmt: skip


DATASET, _OUTPUT = "people", Path("out.suffice")
_LEDGER, _POOR = Path("ledger"), Path("poor")  # one that pays, and one that refuses
_DRAWS = 100  # a fair answer of .75 is the same in all of them once in 10^12
BUDGET = Budget(1e4, 1e-3)  # more than any exercise costs
TIME = re.compile(r'"(?:time|made)": [^,\n]*')  # of a charge


Command = Callable[[Sequence[str]], tuple[int, str, str]]  # exit code, stdout and stderr


@dataclass(frozen=True)
class ReleaseRequest:
    """A mechanism, the inputs of its release, and the data set."""

    mechanism: Mechanism[Any]
    options: Mapping[str, Any]
    inputs: Mapping[str, Any]
    handed: Handed

    @classmethod
    def of(cls, exercise: Exercise, handed: Handed) -> "ReleaseRequest":
        """Return what an owner asks for with this data set."""

        def for_form(value: Any) -> Any:
            """Return a declared value for the columns that this form has."""
            if callable(value):
                return value(handed)
            if not isinstance(value, Mapping):
                return value
            return {name: item for name, item in value.items() if handed.has(name)} or None

        kind = mechanism_of(exercise.mechanism)
        options = {name: for_form(value) for name, value in exercise.options.items()}
        if "classes" in {item.name for item in fields(kind)}:  # type: ignore[arg-type]  # a dataclass
            options["classes"] = handed.classes
        inputs = {name: for_form(value) for name, value in exercise.inputs.items()}
        if "target" not in inputs:
            inputs |= {"label": "label"} if handed.form.named else {"y": handed.column("label")}
        columns = [name for name in exercise.columns if handed.has(name)]
        inputs |= {"features": columns} if columns else {}
        return cls(kind(**options), options, inputs, handed)

    @property
    def dialect(self) -> Mapping[str, str]:
        """What the owner must state about a file; nothing if the columns are public."""
        public = issubclass(self.mechanism.source, PublicSource)
        return {} if public else self.handed.form.dialect

    @property
    def table(self) -> Any:
        """The table as an owner gives it to a release."""
        return TableFile(self.handed.data, **self.dialect) if self.dialect else self.handed.data

    def release(self, **charged_to: Any) -> Release:
        """Make the release."""
        return self.mechanism.release(self.table, **self.inputs, **charged_to)

    def words(self) -> list[str]:
        """Return the command line that asks for it, without a ledger and an output."""
        words = ["release", self.mechanism.name, str(self.handed.data)]
        words += [f"--read={name}={value}" for name, value in self.dialect.items()]
        for kind, values in (
            (type(self.mechanism), self.options),
            (self.mechanism.source, self.inputs),
        ):
            declared = options_of(kind)
            for name, value in values.items():
                if name == "label_flip":
                    words.append(f"--flip={self.inputs['label']}={value}")
                elif value is True:
                    words.append(declared[name].name)
                elif isinstance(value, Mapping):
                    items = value.items()
                    words += [f"{declared[name].name}={key}={_word(item)}" for key, item in items]
                elif value is not None and value is not False:
                    words.append(f"{declared[name].name}={_word(value)}")
        return words


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def in_process(exercise: Exercise, handed: Handed) -> Shown:
    """Return what others see of a release that a program asks for, paid from a new ledger."""
    budgets: dict[str, Budget | Mapping[Unit | str, Budget]] = {
        DATASET: {charged_unit(exercise): BUDGET},
        AUXILIARY_DATASET: {Unit.RECORD: BUDGET},
    }
    ledger = Ledger(_LEDGER, budgets, anchor="none")
    try:
        with collected_notes():  # of what is set up for several pairs
            request = ReleaseRequest.of(exercise, handed)
        with collected_notes() as notes:
            release = request.release(ledger=ledger, dataset=DATASET, request="first")
    except SufficeError as error:
        return {"refused": f"{type(error).__name__}: {error}".encode()} | ledger_part(ledger)
    said = {"notes": "\n".join(notes).encode()}
    return public_part(release) | ledger_part(ledger) | _names() | said


def by_command(run: Command) -> Callable[[Exercise, Handed], Shown]:
    """Return the route through the program: what it wrote and said, and a refusal of it."""
    rich, poor = ([f"--ledger={path}", f"--dataset={DATASET}"] for path in (_LEDGER, _POOR))

    def release(exercise: Exercise, handed: Handed) -> Shown:
        words = ReleaseRequest.of(exercise, handed).words()

        def opened(ledger: Path, budget: Budget) -> list[str]:
            stated = [f"--epsilon={budget.epsilon}", f"--delta={budget.delta}"]
            unit = f"--unit={charged_unit(exercise)}"
            return ["ledger", "init", str(ledger), rich[1], *stated, unit, "--anchor=none"]

        commands = {
            "ledger init": opened(_LEDGER, BUDGET),
            "second ledger": opened(_POOR, Budget(1e-6)),
            "release": [*words, *rich, "--request", "first", "-o", str(_OUTPUT)],
            "release in JSON": [*words, "--no-ledger", "--json", "-o", "again.suffice"],
            "refusal": [*words, *poor, "-o", "never.suffice"],
            "ledger history": ["ledger", "history", str(_LEDGER), "--json"],
            "ledger show": ["ledger", "show", str(_LEDGER)],
        }
        shown: Shown = {}
        for name, line in commands.items():
            code, out, err = run(line)
            for part, said in (("code", str(code)), ("out", out), ("err", err)):
                shown[f"{part} of {name}"] = TIME.sub("(time)", said).encode()
            if name == "release" and code:
                shown["refused"] = err.encode()
        released = public_part(load(_OUTPUT)) if _OUTPUT.exists() else {}
        return released | shown | _names()

    return release


def charged_unit(exercise: Exercise) -> Unit:
    """Return the unit whose budget pays: that which differs, or the party of an auxiliary row."""
    changed = exercise.changed
    named = {Changed.AUXILIARY: Unit.PARTY, Changed.TARGET: Unit.LABEL}
    return named.get(changed) or Unit(changed.value)


def _names() -> Shown:
    """Return the names of all files that there are now."""
    names = sorted(str(path) for path in Path().rglob("*"))
    return {"names of files": "\n".join(names).encode()}


def _repeated_draws(exercise: Exercise, handed: Handed) -> list[Release]:
    """Return many releases of one data set."""
    request = ReleaseRequest.of(exercise, handed)
    source: Source = request.mechanism.source(request.table, **request.inputs).prepared()
    with collected_notes():
        return repeated_releases(request.mechanism, source, _DRAWS)


_BATCHES = (61, 128, 500, 1 << 16)  # rows of a batch: several of them, or one
_BLOCKS = (1 << 14, 1 << 15, 1 << 20)  # bytes of CSV that are parsed at once
_COMMANDS = 5  # of so many pairs that could go through the command line, one does
_DRAWN = 8  # of so many pairs, one is drawn again and again
_FEW_ROWS, _MOST_ROWS = 240, 1500


# Told to the owner alone: how many cells and labels count as none.
_OWNERS_REPORT = {"err of release", "err of release in JSON", "err of refusal"}


@dataclass(frozen=True)
class Pair:
    """One pair of neighbouring data sets: its number and the seed decide everything about it."""

    number: int
    seed: int
    turn: int  # of the forms, and of the stores of ledgers
    exercise: Exercise
    form: Form

    def __str__(self) -> str:
        return f"pair {self.number} of seed {self.seed}, {self.exercise}, {self.form.name}"


@dataclass(frozen=True)
class Difference:
    """A difference between two data sets that others can see, and where."""

    pair: Pair
    where: str

    def __str__(self) -> str:
        return f"{self.pair}: {self.where}"


@dataclass(frozen=True)
class Verdict:
    """The number of pairs that were compared, and all differences that others can see."""

    pairs: int
    differences: tuple[Difference, ...]

    def lines(self) -> list[str]:
        """Return the verdict in words."""
        if not self.differences:
            return [f"no difference in {self.pairs:,} pairs"]
        return [f"the public part differs: {difference}" for difference in self.differences]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        differences = [
            {
                "pair": difference.pair.number,
                "seed": difference.pair.seed,
                "mechanism": difference.pair.exercise.mechanism,
                "exercise": difference.pair.exercise.name,
                "form": difference.pair.form.name,
                "where": difference.where,
            }
            for difference in self.differences
        ]
        return {"pairs": self.pairs, "differs": bool(differences), "differences": differences}


def check_public_part(mechanisms: Sequence[str] = (), **run: Any) -> Verdict:
    """Return where releases of neighbouring data sets differ outside their noise.

    ``mechanisms`` are names, empty for all; ``run`` is as in `compare`.
    """
    return compare(check_pair, exercises_of(*mechanisms), **run)


def compare(
    check: Callable[[Pair, Command | None], Iterable[str]],
    exercises: Sequence[Exercise],
    *,
    pairs: int,
    seed: int = 0,
    command: Command | None = None,
    first_only: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Verdict:
    """Return what ``check`` finds in so many pairs; exercises take turns, and so do their forms.

    Parameters
    ----------
    check
        Returns where others can see a difference between the two sides of a pair.
    exercises
        What is released.
    pairs
        How many pairs to try.
    seed
        Decides everything about the pairs but the noise.
    command
        Runs the program with words, for the pairs that use the command line.
    first_only
        Whether to stop at the first pair that differs.
    progress
        Called with the number of pairs done, the number of pairs, and the exercise.
    """
    differences: list[Difference] = []
    for number in range(pairs):
        exercise = exercises[number % len(exercises)]
        forms = [form for form in FORMS.values() if form.name not in exercise.without]
        turn = sum(divmod(number, len(exercises)))  # so that each exercise gets all forms
        pair = Pair(number, seed, turn, exercise, forms[turn % len(forms)])
        if progress is not None:
            progress(number, pairs, str(exercise))
        differences += [Difference(pair, where) for where in check(pair, command)]
        if differences and first_only:
            return Verdict(number + 1, tuple(differences))
    return Verdict(pairs, tuple(differences))


def check_pair(pair: Pair, command: Command | None = None) -> Iterator[str]:
    """Yield where others can see a difference between the two data sets of a pair."""
    rng = np.random.default_rng([pair.seed, pair.number])
    exercise = pair.exercise
    draws_often = rng.integers(_DRAWN) == 0
    batches = rng.choice(_BATCHES, 2)  # the batch must not show either
    data = neighbours(
        rng,
        exercise.changed,
        rows=_FEW_ROWS if draws_often else int(rng.integers(_FEW_ROWS, _MOST_ROWS)),
        batch=int(batches[0]),
        classes=int(rng.integers(2, exercise.most_classes + 1)),
        lone=bool(draws_often or rng.random() < 0.3),
    )
    ugly = exercise.any_cells and pair.form.named and bool(rng.integers(2))
    if ugly:
        data = with_ugly_cells(data, rng, exercise.changed)
    block = int(rng.choice(_BLOCKS))
    route: Callable[[Exercise, Handed], Shown] = in_process
    if command is not None and exercise.command and pair.form.in_file:
        route = by_command(command) if rng.integers(_COMMANDS) == 0 else in_process
    first, second = (
        _on_its_own(pair, data, side, (int(batches[side]), block), route) for side in (0, 1)
    )
    yield from differing(first, second, _OWNERS_REPORT if ugly else set())
    answer = first.get("refused", b"").decode()
    if exercise.refused and not answer:
        yield "the release was made, and should have been refused"
    elif answer and not (exercise.refused and answer.startswith(UnprotectedError.__name__)):
        yield f"nothing was released: {answer}"
    if draws_often and not answer and not exercise.refused:
        cuts = (max(_BATCHES), block)
        try:
            draws = [_on_its_own(pair, data, side, cuts, _repeated_draws) for side in (0, 1)]
        except SufficeError as error:
            yield f"many draws were refused: {error}"
        else:
            yield from frozen_cells(*draws)


def _on_its_own(
    pair: Pair, data: Neighbours, side: int, cuts: tuple[int, int], run: Callable[..., Any]
) -> Any:
    """Return what ``run`` returns for one side, in a new folder."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), _cut(*cuts):
        table, auxiliary = data.tables[side], data.auxiliary[side]
        return run(pair.exercise, handed(pair.form, table, auxiliary, data.classes))


@contextmanager
def _cut(batch: int, block: int) -> Iterator[None]:
    """Read tables in batches of so many rows, and CSV in blocks of so many bytes."""
    usual_batch, usual_blocks = tables_table.BATCH_ROWS, files.BLOCKS
    tables_table.BATCH_ROWS = batch
    files.BLOCKS = (block, *usual_blocks)  # type: ignore[assignment]  # one more, for this block
    try:
        yield
    finally:
        tables_table.BATCH_ROWS, files.BLOCKS = usual_batch, usual_blocks


def differing(first: Shown, second: Shown, unseen: Container[str] = ()) -> Iterator[str]:
    """Yield where two sides show something else, but for what others do not see."""
    for where in dict.fromkeys([*first, *second]):
        if where not in unseen and first.get(where) != second.get(where):
            yield where
