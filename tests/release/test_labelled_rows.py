"""Which rows have a label travels as one bit a row; what is no such list is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError
from suffice.releases.release import LabelledRows, RowSet

HASH = "sha256:" + "0" * 64


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_rows_come_back_as_they_were(mask):
    rows = LabelledRows.of(np.array(mask))
    again = strict_json.read(LabelledRows, strict_json.plain(rows))
    assert again == rows
    assert again.mask.tolist() == mask
    assert again.count == sum(mask)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"rows": 3},
        {"rows": 3, "bits": "4A==", "more": 1},
        {"rows": True, "bits": "gA=="},
        {"rows": "3", "bits": "4A=="},
        {"rows": 0, "bits": ""},
        {"rows": 3, "bits": "4A=="[:-1]},
        {"rows": 3, "bits": "/w=="},  # bits behind the last row
        {"rows": 9, "bits": "/w=="},
        {"rows": 1 << 40, "bits": "/w=="},
        {"rows": 3, "bits": "4A= ="},
        {"rows": 3, "bits": 4},
    ],
)
def test_what_is_no_list_of_rows_is_refused(data):
    with pytest.raises((CorruptFileError, ParameterError)):
        strict_json.read(LabelledRows, data)


def test_the_number_of_rows_is_that_of_the_rows_with_labels():
    some = LabelledRows.of(np.array([True, False, True]))
    assert strict_json.plain(RowSet(2, HASH, None, some))["labelled"] == strict_json.plain(some)
    with pytest.raises(ParameterError, match="number of rows with a label"):
        RowSet(3, HASH, None, some)
    assert strict_json.plain(RowSet(3, HASH))["labelled"] is None
