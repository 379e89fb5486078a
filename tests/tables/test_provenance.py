"""Where a pipeline's numbers came from: what is stated, and what a file holds."""

from dataclasses import replace

import numpy as np
import pytest

from suffice.errors import CorruptFileError, ParameterError
from suffice.tables.pipeline import (
    DECLARED,
    PRIVATE_ROWS,
    UNKNOWN,
    Column,
    Origin,
    Pipeline,
    Provenance,
    public_rows,
    weakest,
)

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
MADE = Pipeline((Column("a"),), "error", np.zeros(1), np.ones(1), 2.0, 1.0)
ALL = [DECLARED, public_rows(ONE), PRIVATE_ROWS, UNKNOWN]


@pytest.mark.parametrize("origin", ALL)
def test_an_origin_travels_and_is_no_part_of_what_a_pipeline_does(origin):
    stated = replace(MADE, origin=origin)
    assert stated == MADE
    again = Pipeline.from_json(stated.to_json(), stated.arrays())
    assert again.origin == origin
    assert stated.digest() == MADE.digest()


def test_a_pipeline_of_which_nothing_is_said_is_unknown():
    assert MADE.origin == UNKNOWN
    assert not UNKNOWN.is_public


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "declared",
        {},
        {"source": "declared"},
        {"source": "declared", "rows": [], "more": 1},
        {"source": "declared", "rows": [ONE]},
        {"source": "unknown", "rows": [ONE]},
        {"source": "trusted", "rows": []},
        {"source": ["declared"], "rows": []},
        {"source": "public rows", "rows": []},
        {"source": "public rows", "rows": ONE},
        {"source": "public rows", "rows": [[ONE]]},
        {"source": "public rows", "rows": [ONE, ONE]},
        {"source": "public rows", "rows": [TWO, ONE]},
        {"source": "public rows", "rows": [ONE + "\n"]},
        {"source": "public rows", "rows": ["sha256:" + "\x1b" * 64]},
        {"source": "private rows", "rows": {}},
    ],
)
def test_an_origin_that_is_none_is_refused(origin):
    with pytest.raises(CorruptFileError, match="origin"):
        Pipeline.from_json({**MADE.to_json(), "origin": origin}, MADE.arrays())


def test_fields_are_neither_missing_nor_unknown():
    without = {key: value for key, value in MADE.to_json().items() if key != "origin"}
    for fields in (without, {**MADE.to_json(), "source": "declared"}):
        with pytest.raises(
            CorruptFileError, match=r"this member is missing|there is no such member"
        ):
            Pipeline.from_json(fields, MADE.arrays())
    with pytest.raises(ParameterError):
        Provenance(Origin.PUBLIC_ROWS)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([DECLARED, DECLARED], DECLARED),
        ([DECLARED, public_rows(ONE)], public_rows(ONE)),
        ([public_rows(TWO), public_rows(ONE)], Provenance(Origin.PUBLIC_ROWS, (ONE, TWO))),
        ([public_rows(ONE), UNKNOWN], UNKNOWN),
        ([DECLARED, PRIVATE_ROWS], PRIVATE_ROWS),
        ([UNKNOWN, PRIVATE_ROWS], PRIVATE_ROWS),
        ([PRIVATE_ROWS, UNKNOWN], PRIVATE_ROWS),
    ],
)
def test_the_weakest_origin_wins(stated, expected):
    assert weakest(stated) == expected


def test_many_hashes_are_shown_short():
    many = weakest(public_rows(f"sha256:{n:064x}") for n in range(5))
    assert str(many).endswith("and 2 more")
    assert len(many.rows) == 5
