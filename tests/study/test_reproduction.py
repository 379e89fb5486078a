"""What a reproduction shows: numbers beside the printed ones, and how often it repeated."""

from suffice.study.reproduction import Comparison, Result, describe_repeats, warn_of_luck


def test_comparisons_show_both_numbers_and_their_difference():
    share = Comparison("share", 0.3, 0.29999, "fine")
    gap = Comparison("gap", None, 0.5, "holds", 1)
    (table,) = Result((), (), ("none",), {}, (share, gap), "both").shown
    assert table.title == "both"
    assert table.rows == (
        ("share", "0.300", "0.300", "+0.000", "fine"),
        ("gap", "in words", "0.5", "see verdict", "holds"),
    )
    assert gap.to_json() == {
        "what": "gap",
        "printed": None,
        "ours": 0.5,
        "verdict": "holds",
        "difference": None,
    }


def test_numbers_say_of_how_many_runs_they_are():
    assert describe_repeats(1, "split") == "one split"
    assert describe_repeats(3, "split") == "mean and range of 3 splits"
    assert len(warn_of_luck(1)) == 1
    assert warn_of_luck(2) == ()
