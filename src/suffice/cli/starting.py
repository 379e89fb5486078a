"""`suffice init`: the sheet and the settings of a table, which other commands then read.

Header and public columns are read, and nothing else. What only private cells could tell stays open
in the data sheet, as a line that the owner fills in.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffice.cli.building import Overwriting, Reading, make_command, refuse_unused
from suffice.cli.output import say
from suffice.errors import BudgetError, ParameterError
from suffice.options import (
    REQUIRED,
    budget_option,
    data_option,
    names,
    output_option,
    privacy_option,
    states,
)
from suffice.plain_text import listed, note
from suffice.strict_json import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from suffice.owner.ledger import Ledger
    from suffice.privacy.guarantee import Budget, Unit
    from suffice.service.settings import ServedData, Settings
    from suffice.tables.data_sheet import DataSheet, SheetColumn

_PRIVATE = ("labels", "records")


@dataclass(frozen=True)
class Project:
    """One data set of a ``suffice.toml``, with its sheet: what a command need not be told."""

    folder: Path
    settings: "Settings"
    name: str  # of the data set in the ledger

    @property
    def served(self) -> "ServedData":
        """The part of the settings about this data set."""
        return self.settings.datasets[self.name]

    @property
    def private(self) -> str:
        """What is private: labels where other columns are public, else whole records."""
        sheet = self.served.sheet
        return "labels" if sheet is None or sheet.public else "records"

    def fill(self, source: dict[str, Any], payment: dict[str, Any] | None) -> None:
        """Add label, ids and features to a source, and ledger and data set to a payment."""
        served = self.served
        if served.policy.person is not None:
            source.setdefault("person", served.policy.person)
        if "target" not in source:
            source.setdefault("label", served.label)
        others = {source.get("label"), source.get("target"), source.get("person")}
        others |= {*source.get("drop", ())}
        public = served.sheet is not None and self.private == "labels"
        offered = served.sheet.public if served.sheet and public else served.columns
        source.setdefault("features", [name for name in offered if name not in others])
        if payment is not None and "ledger" not in payment:
            payment.setdefault("dataset", self.name)
            payment["ledger"] = self.ledger()

    def ledger(self) -> "Ledger":
        """Return the ledger; a budget that the settings state is written into it once."""
        from suffice.owner.ledger import Ledger

        served, place = self.served, self.settings.ledger
        if served.budget is None:
            return Ledger(place)
        declared = None if served.sheet is None else {self.name: {served.label: self.classes()}}
        budgets: dict[Unit | str, Budget] = {served.unit: served.budget}
        stored = {b.unit: b.budget for b in Ledger(place, {}).balances() if b.dataset == self.name}
        if not stored and served.approvers > 1:
            raise BudgetError(
                f"Data set {self.name!r} has no budget yet. Two people open it, on its page of the"
                " service."
            )
        if stored and stored != budgets:  # it was raised, or the settings were edited
            note(
                f"The settings state another budget of {self.name!r} than the ledger, which counts."
            )
        return Ledger(place, {} if stored else {self.name: budgets}, declared)

    def classes(self) -> tuple[Any, ...]:
        """Return the classes that the sheet lists; where it leaves them open, name the line."""
        sheet = self.served.sheet
        assert sheet is not None  # noqa: S101  # for the type checker: callers ask
        if sheet.classes is None:
            raise ParameterError(
                f"{self._line(self.served.label)}: list the classes of {self.served.label!r} as"
                ' categories, for example ["no", "yes"]. suffice never reads them from private'
                " cells."
            )
        return sheet.classes

    def check_filled(self, features: Sequence[str], given: Mapping[str, Any]) -> None:
        """Raise where a private column has no range and no categories yet; name the lines."""
        sheet = self.served.sheet
        if sheet is None or self.private == "labels" or {"ranges", "standardize"} & given.keys():
            return
        unfilled = sheet.open_columns(name for name in features if name in sheet)
        if unfilled:
            places = listed((f"{self._line(name)} ({name})" for name in unfilled), each=str)
            raise ParameterError(
                f"Fill in minimum and maximum, or categories: {places}. suffice never"
                " reads them from private cells."
            )

    def _line(self, column: str) -> str:
        """Return where a column stands in the sheet's file, as FILE line NUMBER."""
        import tomllib

        data = tomllib.loads((self.folder / "suffice.toml").read_text())
        place = self.folder / data["datasets"][self.name]["sheet"]
        return f"{place} line {_line_of(place.read_text(), column)}"


def _line_of(text: str, column: str) -> int:
    written = json.dumps(column, ensure_ascii=False)
    found = re.search(rf'"name":\s*{re.escape(written)}', text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


@dataclass(frozen=True, kw_only=True)
class Start(Overwriting):
    """What the sheet and the settings of a table cannot find out."""

    table: str = data_option(REQUIRED, "The table, as other commands take it.", argument=True)
    private: str = privacy_option(
        REQUIRED,
        "What is private: labels (all other columns are public) or records (whole rows).",
        choices=_PRIVATE,
    )
    label: str = data_option(
        REQUIRED, "Column that holds the private labels, for example diagnosis."
    )
    budget: float = budget_option(
        REQUIRED, "Largest epsilon of all releases together, for example 2. It is never lowered."
    )
    delta: float = budget_option(
        1e-5, "Delta at which that epsilon is counted. One release may use a tenth of it."
    )
    classes: Any = data_option(
        None, "All classes, with commas, if you know them beforehand.", parse=states
    )
    person: str | None = data_option(
        None, "Public column of ids: all rows of a person are then protected together."
    )
    drop: Any = data_option(
        None, "Column to leave out, for example an id (repeatable).", parse=names, many=True
    )
    name: str | None = data_option(
        None, "Name of the data set. Default: the name of the label column.", name="--dataset"
    )
    folder: Path = output_option(
        Path(), "Folder of suffice.toml and columns.json.", name="--output", short="-o", parse=Path
    )


def init_command() -> Any:
    """Return ``suffice init``."""
    return make_command(init)


def init(start: Start, reading: Reading) -> None:
    """Write the data sheet and the settings of a table, once.

    Reads the header and public columns, and no private cell. What only private cells could tell
    stays open in columns.json, as lines that you fill in. Afterwards `suffice release TABLE
    --epsilon 1` needs no more options, and `suffice serve` can serve the folder.
    """
    from suffice.privacy.guarantee import Budget
    from suffice.releases.file import write_whole
    from suffice.releases.signing import generate_keys
    from suffice.service.settings import FILE_NAME, Settings

    name = start.name or re.sub(r"\W+", "-", start.label).strip("-").lower() or "data"
    Budget(start.budget, start.delta)
    if start.person is not None and start.private == "records":
        raise ParameterError("--person needs public ids here: it cannot be used with records yet.")
    start.folder.mkdir(parents=True, exist_ok=True)
    settings, sheet_file = start.folder / FILE_NAME, start.folder / "columns.json"
    if sheet_file.exists() and not start.force:
        sheet_file = start.folder / f"{name}.columns.json"
    former = settings.read_text() if settings.exists() else ""
    if former and (served := Settings.load(start.folder).datasets.get(name)) is not None:
        raise ParameterError(
            f"{settings} has a data set {name!r} already, the table {served.table}. Choose another"
            " --dataset."
        )
    refuse_unused("with init", {"--read query": reading.query})
    data = reading.open(start.table)
    sheet, left_out = sheet_of(start, data)
    text, form = sheet_text(sheet), form_of(data, private=start.private)
    write_whole(sheet_file, text.encode(), overwrite=start.force)
    head = former or _HEAD.format(organisation=json.dumps(f"The owner of {name}"))
    table, base = start.table, start.folder.resolve()
    if "://" not in table and not Path(table).resolve().is_relative_to(base):
        table = str(Path(table).resolve())
    elif "://" not in table:
        table = str(Path(table).resolve().relative_to(base))
    part = _PART.format(
        name=json.dumps(name),
        table=json.dumps(table),
        label=json.dumps(start.label, ensure_ascii=False),
        sheet=json.dumps(sheet_file.name),
        epsilon=start.budget,
        delta=f"{start.delta:g}",
        largest=min(1.0, start.budget),
        most=f"{start.delta / 10:g}",
        kinds=json.dumps(["mean-operator" if start.private == "labels" else "moments"]),
        person=f"person = {json.dumps(start.person)}\n" if start.person else "",
        read=f"read = {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in form.items())} }}\n"
        if form
        else "",
    )
    write_whole(settings, (head + part).encode(), overwrite=True, mode=0o600)
    loaded = Settings.load(start.folder)
    if loaded.key.suffix == ".key" and not loaded.key.exists():
        generate_keys(loaded.key.with_suffix(""))
    say(f"{sheet_file}: the columns of {start.table}, as everybody may know them.")
    say(f"{settings}: data set {name!r} with a budget of {Budget(start.budget, start.delta)}.")
    for column, reason in left_out.items():
        say(f"Left out: {column!r}, which {reason}. To use it, add it to {sheet_file}.")
    unfilled = [c.name for c in sheet.columns if _is_open(c, sheet)]
    for column in unfilled:
        wanted = "its classes" if column == sheet.label else "minimum and maximum, or categories"
        say(f"Fill in {sheet_file} line {_line_of(text, column)}: {column!r} needs {wanted}.")
    if form.get("decimal") == "":
        number = head.count("\n") + part.partition('decimal = ""')[0].count("\n") + 1
        say(f'Fill in {settings} line {number}: the decimal mark of {start.table}, "," or ".".')
    if unfilled:
        say('State what you know beforehand. For numbers of private cells, say so in "source".')
    say(f"Next: suffice release {start.table} --epsilon {min(1.0, start.budget):g} -o out.suffice")


def _is_open(column: "SheetColumn", sheet: "DataSheet") -> bool:
    return (
        (not column.public)
        and column.categories is None
        and column.minimum is None
        and (column.name == sheet.label or not sheet.public)
    )


def form_of(data: Any, *, private: str) -> dict[str, str]:
    """Return how a CSV file is written, as far as it was typed; "" where its owner has to say it.

    Where all cells are private and columns are separated by semicolons, none shows the decimal
    mark.
    """
    from suffice.tables.files import TableFile, read_header

    if not isinstance(data, TableFile):
        return {}
    typed = {name: getattr(data, name) for name in ("delimiter", "decimal", "encoding")}
    form = {name: value for name, value in typed.items() if value is not None}
    place = data.place
    if private == "labels" or data.decimal is not None or data.format != "csv":
        return form
    if isinstance(place, Path) and place.is_file():
        _, dialect = read_header(place, data.dialect)
        form |= {"decimal": ""} if dialect.delimiter == ";" else {}
    return form


def sheet_of(start: Start, data: Any = None) -> tuple["DataSheet", dict[str, str]]:
    """Return the sheet, and the columns that it does not name with the reasons.

    ``data`` is the table, where more is known of it than its name.
    """
    import pyarrow as pa

    from suffice.engines.summary import MOST_CATEGORIES
    from suffice.tables.columns import resolve_roles
    from suffice.tables.data_sheet import DataSheet, SheetColumn
    from suffice.tables.sources import column_names, open_columns

    data = start.table if data is None else data
    stored = [name for name in column_names(data) if name not in (start.drop or ())]
    roles = resolve_roles(
        pa.schema([(name, pa.string()) for name in stored]),
        label=start.label,
        features=None,
        person=start.person,
    )
    label = SheetColumn(start.label, "string", categories=start.classes, source="known beforehand")
    if start.private == "records":
        columns = [
            SheetColumn(name, source="known beforehand") for name in roles.features
        ]  # numbers, until the owner says otherwise: a type would have to be looked up in cells
        return DataSheet((*columns, label), label=start.label), {}
    table = open_columns(data, roles.features, label=start.label)
    public: list[SheetColumn] = []
    left_out: dict[str, str] = {}
    rows = 0
    texts: dict[str, set[Any]] = {}
    kinds = {name: table.schema.field(name).type for name in roles.features}
    for batch in table.batches(roles.features):
        if rows == 0:
            left_out |= ids_of(batch)
        rows += batch.num_rows
        for name, kind in kinds.items():
            if name not in left_out and _datatype(kind) == "string":
                seen = texts.setdefault(name, set())
                seen.update(batch.column(name).unique().drop_null().to_pylist())
                if len(seen) > MOST_CATEGORIES:
                    left_out[name] = f"has more than {MOST_CATEGORIES:,} different texts"
    for name, kind in kinds.items():
        if name in left_out:
            continue
        column = SheetColumn(name, _datatype(kind), public=True)
        if texts.get(name):
            column = replace(
                column, categories=tuple(sorted(map(str, texts[name]))), source="public rows"
            )
        public.append(column)
    if start.person is not None:
        public.append(SheetColumn(start.person, "string", public=True))
    sheet = DataSheet((*public, label), label=start.label, rows=rows, rows_source="public rows")
    return sheet, left_out


def ids_of(batch: "pa.RecordBatch") -> dict[str, str]:
    """Return columns of public rows that number or name the rows, with what they do."""
    from suffice.owner.source import FEW_ROWS

    found = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        cells = column.drop_null()
        kind = _datatype(column.type)
        different = len(cells.unique())
        if kind == "string" and different > len(cells) / 2 and len(cells) > FEW_ROWS:
            found[name] = "has a different text in most rows"
        if kind == "integer" and len(cells) > FEW_ROWS and different == len(cells):
            first, last = cells[0].as_py(), cells[len(cells) - 1].as_py()
            if abs(last - first) == len(cells) - 1:
                found[name] = "numbers the rows"
    return found


def _datatype(kind: "pa.DataType") -> Any:
    """Return the datatype of a sheet for a type of Arrow."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_temporal(kind):
        return "date"
    numbers = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if numbers else "string"


def sheet_text(sheet: "DataSheet") -> str:
    """Return the sheet as JSON with a line for each column, so that a line can be named."""
    about = sheet.to_json()
    del about["columns"]
    lines = []
    for column in sheet.columns:
        members = {key: value for key, value in plain(column).items() if value is not None}
        if _is_open(column, sheet):
            ends = () if column.name == sheet.label else ("minimum", "maximum")
            members |= dict.fromkeys([*ends, "categories"])  # to be filled in
        lines.append(f"    {json.dumps(members, ensure_ascii=False)}")
    rest = [
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in about.items()
    ]
    return "{\n" + ",\n".join(['  "columns": [\n' + ",\n".join(lines) + "\n  ]", *rest]) + "\n}\n"


_HEAD = """\
# Written by `suffice init`. `suffice serve --task example` explains every setting.
organisation = {organisation}
ledger = "suffice.ledger"
key = "suffice.key"
"""
_PART = """
[datasets.{name}]
table = {table}
label = {label}
sheet = {sheet}
{read}# The budget of all releases together. It is written into the ledger once.
# Later it can only be raised, on a page of the service.
budget = {{ epsilon = {epsilon}, delta = {delta} }}
# by-hand: you decide on each proposal of a learner. automatic: the policy decides.
grants = "by-hand"
[datasets.{name}.policy]
# Of one release.
largest_epsilon = {largest}
largest_delta = {most}
kinds = {kinds}
{person}"""
