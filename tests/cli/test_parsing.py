"""What people write after an option."""

import pytest
from suffice.cli.parsing import lists_by_column, names, one_or_named, values

from suffice.errors import ParameterError


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
    assert lists_by_column([f"city={text}"], "--categories") == {"city": meant}


def test_names_may_come_in_several_pieces():
    assert names(["a,b", "c"]) == names("a, b,c") == ["a", "b", "c"]
    assert names(None) is names([]) is names("") is None


def test_one_value_for_all_others_stands_beside_named_ones():
    assert one_or_named(["1", "a=2", "b=3"], float, "--flip") == (1.0, {"a": 2.0, "b": 3.0})
    assert one_or_named(["a=2"], float, "--flip") == (None, {"a": 2.0})
    assert one_or_named(None, float, "--flip") == (None, {})
    with pytest.raises(ParameterError, match="--flip is given twice"):
        one_or_named(["1", "2"], float, "--flip")
    with pytest.raises(ParameterError, match="--flip names a column twice"):
        one_or_named(["a=1", "a=2"], float, "--flip")
