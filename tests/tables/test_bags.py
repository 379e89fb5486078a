"""Which sets rows are in, however they are given, and the name of rows with their sets."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from suffice.errors import ParameterError, TableError
from suffice.tables.bags import BagDigest, check_bag_names, read_bags
from suffice.tables.sources import open_table

WARDS = ["south", "north", "south", "west", "north", "south"]
ROWS = pa.table({"x": np.arange(6.0), "ward": WARDS, "year": [1, 2, 1, 2, 1, 2]})


def bag_names_of(table: pa.Table, bags, names=None, order=slice(None)) -> tuple[str, int]:
    """Return the hash and the number of lines of these rows with their sets."""
    opened = open_table(table)
    row_bags = read_bags(opened, bags, names)
    digest = BagDigest(table.schema, ["x"], row_bags.names)
    batch = table.select(["x"]).to_batches()[0]
    picked = np.arange(table.num_rows)[order]
    digest.update(batch.take(picked), row_bags.codes[picked])
    return digest.result(), digest.count


def test_a_column_an_array_and_index_sets_say_the_same():
    column = read_bags(open_table(ROWS), "ward")
    assert column.names == ("north", "south", "west")
    assert column.sizes.tolist() == [2, 3, 1]
    assert column.overlap == 1
    sets = {"north": [1, 4], "south": [0, 2, 5], "west": [3]}
    for bags in (WARDS, np.array(WARDS), pd.Series(WARDS), pa.array(WARDS), sets):
        row_bags = read_bags(open_table(ROWS), bags)
        assert row_bags.names == column.names
        assert row_bags.codes.tolist() == column.codes.tolist()
        assert bag_names_of(ROWS, bags) == bag_names_of(ROWS, "ward")


def test_the_name_of_rows_with_their_sets_does_not_depend_on_order_but_on_both():
    assert bag_names_of(ROWS, "ward", order=slice(None, None, -1)) == bag_names_of(ROWS, "ward")
    assert bag_names_of(ROWS, "ward", ["west", "south", "north"]) == bag_names_of(ROWS, "ward")
    moved = np.array(WARDS)[[1, 0, 2, 3, 4, 5]]  # two rows change places between sets
    assert bag_names_of(ROWS, moved) != bag_names_of(ROWS, "ward")
    renamed = np.where(np.array(WARDS) == "west", "east", WARDS)
    assert bag_names_of(ROWS, renamed) != bag_names_of(ROWS, "ward")


def test_whole_numbers_are_names_whatever_their_type():
    for values in ([3, 1, 3, 1, 1, 3], [3.0, 1.0, 3.0, 1.0, 1.0, 3.0]):
        row_bags = read_bags(open_table(ROWS), np.array(values))
        assert row_bags.names == (1, 3)
        assert row_bags.codes[:, 0].tolist() == [1, 0, 1, 0, 0, 1]
    coded = pa.table({"x": np.arange(6.0), "ward": pa.array(WARDS).dictionary_encode()})
    assert read_bags(open_table(coded), "ward").names == ("north", "south", "west")


def test_several_columns_and_index_sets_can_overlap():
    both = read_bags(open_table(ROWS), ("ward", "year"))
    assert both.names == ("ward=north", "ward=south", "ward=west", "year=1", "year=2")
    assert both.overlap == 2
    assert both.sizes.tolist() == [2, 3, 1, 3, 3]
    assert bag_names_of(ROWS, ("ward", "year"))[1] == 12
    reversed_bags = read_bags(open_table(ROWS), ("ward", "year"), both.names[::-1])
    assert reversed_bags.names == both.names[::-1]
    assert np.array_equal(4 - reversed_bags.codes, both.codes)
    sets = read_bags(open_table(ROWS), [[0, 1, 2], [2, 3], np.array([2])])
    assert sets.names == (0, 1, 2)
    assert sets.overlap == 3
    assert sets.sizes.tolist() == [3, 2, 1]
    assert (sets.codes[5] == -1).all()  # in no set, and left out


@pytest.mark.parametrize(
    ("bags", "names", "says"),
    [
        (["a"] * 5, None, "6 rows but 5 bags"),
        (["a", "b", None, "a", "b", None], None, "2 rows are in no bag"),
        ([0.5] * 6, None, "texts or whole numbers"),
        (np.zeros((6, 2)), None, "one bag for each row"),
        ("nowhere", None, "no column 'nowhere'"),
        ("ward", ["north", "south"], "1 rows are in bags that are not in the list"),
        ("ward", ["north", "south", "west", "east"], "for example 'east'"),
        ("ward", ["north", "north", "south", "west"], "same name"),
        ("ward", ["north", 1], "all texts"),
        (("ward", "year"), ["north"], "several columns are written COLUMN=NAME"),
        ({"a": [0, 1], "b": []}, None, "1 of 2 bags have no rows, for example 'b'"),
        ({"a": [0, 6]}, None, "between 0 and 5"),
        ({"a": [0, 0]}, None, "twice"),
        ({"a": [0.5]}, None, "row numbers"),
        ([[0, 1], [2]], ["a"], "one name for each bag"),
        ([[0, 1], [2]], ["a", "a"], "same name"),
    ],
)
def test_what_is_no_set_of_sets_is_refused_with_the_reason(bags, names, says):
    with pytest.raises((TableError, ParameterError), match=says):
        read_bags(open_table(ROWS), bags, names)


def test_names_are_plain_values():
    assert check_bag_names([np.int64(1), np.int64(2)]) == (1, 2)
    for bad in ([], [""], [True, False], [2**60], [1.5]):
        with pytest.raises(ParameterError):
            check_bag_names(bad)
