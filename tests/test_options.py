"""What people write after an option."""

import pytest

from suffice.errors import ParameterError
from suffice.options import ByColumn, lists_by_column, names, value_or_by_column, values


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a,b", ("a", "b")),
        ("0, 1", (0, 1)),
        ("1,b", ("1", "b")),
        ('Bern,"Basel, Stadt"', ("Bern", "Basel, Stadt")),
        ('x, "Sankt ""Gallen"""', ("x", 'Sankt "Gallen"')),
    ],
)
def test_values_stand_between_commas_and_may_be_quoted(text, meant):
    assert values(text) == meant
    assert lists_by_column("--categories")([f"city={text}"]) == {"city": meant}


def test_names_may_come_in_several_pieces():
    assert names(["a,b", "c"]) == names("a, b,c") == ["a", "b", "c"]
    assert names(None) is names([]) is names("") is None


def test_one_value_for_all_others_stands_beside_named_ones():
    parse = value_or_by_column(float, "--flip")
    assert parse(["1", "a=2", "b=3"]) == ByColumn({"a": 2.0, "b": 3.0}, 1.0)
    assert parse(["a=2"]) == ByColumn({"a": 2.0})
    assert parse(None) is None
    assert parse(["1", "a=2"])["a"] == 2.0
    assert parse(["1", "a=2"])["z"] == 1.0
    with pytest.raises(ParameterError, match="--flip has two values"):
        parse(["1", "2"])
    with pytest.raises(ParameterError, match="--flip names a column twice"):
        parse(["a=1", "a=2"])
