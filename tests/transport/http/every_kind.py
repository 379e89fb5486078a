"""A clinic that grants every kind of release of one table, and what a learner asks it for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from served import Clinic

from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import Role
from suffice.privacy.guarantee import Budget
from suffice.protocol.grant import propose
from suffice.protocol.messages import Proposal
from suffice.releases.signing import generate_keys
from suffice.tables.data_sheet import DataSheet

ROWS = 120
KNOWN = "known beforehand"
KINDS = {  # by data set: kind, epsilon and delta, options
    "labels": [
        ("mean-operator", 0.4, 0.0, {"features": ["age", "size"]}),
        ("proportions", 0.4, 0.0, {"features": ["age", "size"], "bags": ["ward"]}),
        ("bags", 0.4, 0.0, {"features": ["age", "size"]}),
    ],
    "records": [
        ("moments", 0.4, 1e-6, {"bound": 1.0}),
        ("rados", 0.4, 1e-6, {"count": 8}),
        ("responses", 0.4, 0.0, {"features": ["age", "ward"]}),
        ("moments", 0.4, 1e-6, {"target": "size"}),
    ],
    "people": [
        ("moments", 0.4, 1e-6, {}),
        ("moments", 0.4, 1e-6, {"target": "size"}),
    ],
}
SETTINGS = """
organisation = "Clinic"
ledger = "clinic.ledger"
key = "clinic.key"
[server]
port = 0
[limits]
requests_per_minute = 100000
"""
PART = """
[datasets.{name}]
table = "table.csv"
label = "diagnosis"
sheet = "{name}.json"
grants = "{grants}"
[datasets.{name}.policy]
largest_epsilon = 1
largest_delta = 1e-5
most_work = 100000000
kinds = [{kinds}]
{more}
"""


def sheet(*, public: bool) -> dict[str, Any]:
    """Return the data sheet of the table, whose columns are public or private."""

    def column(name: str, datatype: str, **values: Any) -> dict[str, Any]:
        return {"name": name, "datatype": datatype, "public": public, "source": KNOWN, **values}

    label = {"datatype": "integer", "categories": [0, 1], "source": KNOWN}
    return {
        "columns": [
            column("age", "integer", minimum=0, maximum=120),
            column("size", "number", minimum=-4, maximum=4),
            column("ward", "string", categories=["north", "south", "west"]),
            {"name": "diagnosis", "public": False, **label},
        ],
        "label": "diagnosis",
        "rows": ROWS,
        "rows_source": KNOWN,
        "ordered": public,
    }


def table_of(rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "age": rng.integers(20, 90, ROWS),
            "size": rng.normal(size=ROWS).round(4),
            "ward": np.array(["north", "south", "west"])[np.arange(ROWS) % 3],
            "patient": [f"p{row // 3}" for row in range(ROWS)],  # the sheets do not name it
            "secret": rng.integers(0, 9, ROWS),  # the sheets do not name it
            "diagnosis": rng.integers(0, 2, ROWS),
        }
    )


def make_every_kind(
    folder: Path, table: pa.Table | None = None, grants: str = "automatic", key: bytes | None = None
) -> Clinic:
    """Make a clinic whose data set labels has public rows, and records none."""
    folder.mkdir()
    table = table_of(np.random.default_rng(5)) if table is None else table
    pa_csv.write_csv(table, folder / "table.csv")
    pa_csv.write_csv(table.select(["age", "size", "ward"]), folder / "rows.csv")
    settings = SETTINGS
    for name, kinds in KINDS.items():
        (folder / f"{name}.json").write_text(json.dumps(sheet(public=name == "labels")))
        quoted = ", ".join(dict.fromkeys(f'"{kind}"' for kind, *_ in kinds))
        more = 'person = "patient"' if name == "people" else ""
        settings += PART.format(name=name, kinds=quoted, grants=grants, more=more)
    (folder / "suffice.toml").write_text(settings)
    budgets = {
        "labels": {"label": Budget(4.0, 1e-4)},
        "records": {"record": Budget(4.0, 1e-4)},
        "people": {"person": Budget(4.0, 1e-4)},
    }
    classes = {name: {"diagnosis": (0, 1)} for name in budgets}
    Ledger(folder / "clinic.ledger", budgets, classes)
    generate_keys(folder / "clinic")
    if key is not None:
        (folder / "clinic.key").write_bytes(key)
    clinic = Clinic(folder, {}, folder / "clinic.ledger")
    tokens = {role: clinic.new_token(role) for role in Role if role != Role.PARTY}
    return Clinic(folder, tokens, clinic.place)


def proposals(clinic: Clinic, dataset: str, purpose: str = "study") -> Sequence[Proposal]:
    """Return a proposal of each kind that a data set grants."""
    subject = clinic.folder / "rows.csv"
    if dataset != "labels":
        subject = DataSheet.load(clinic.folder / f"{dataset}.json")
    return [
        propose(subject, kind=kind, epsilon=epsilon, delta=delta, purpose=purpose, **options)
        for kind, epsilon, delta, options in KINDS[dataset]
    ]
