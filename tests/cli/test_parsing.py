"""What people write after an option."""

import pytest

from suffice.cli.parsing import lists_by_column, names, values


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
