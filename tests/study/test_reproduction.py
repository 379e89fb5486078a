"""What a reproduction shows: numbers beside the printed ones, and how sure it is."""

from pathlib import Path

import numpy as np
import pytest

from suffice.papers.reproduction import Comparison, Result, Setting, verdict_of


def test_comparisons_show_both_numbers_and_their_difference():
    share = Comparison("share", 0.3, 0.29999, "fine")
    gap = Comparison("gap", None, 0.5, "holds", 1)
    (table,) = Result((), (), ("none",), {}, (share, gap), "Both.").all_tables
    assert table.title == "Both."
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


def test_one_repetition_comes_with_a_warning():
    single, repeated = (Setting(Path(), (), seeds, lambda *_: None) for seeds in (1, 2))
    assert len(single.warnings) == 1
    assert repeated.warnings == ()


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([0.1, 0.12, 0.11], "holds"),
        ([-0.1, -0.12, -0.11], "does not hold"),
        ([0.1, -0.12, 0.05], "too close to tell"),
        ([0.1], "one repetition cannot tell"),
    ],
)
def test_a_verdict_follows_from_the_gains_of_its_run(gains, verdict):
    assert verdict_of(np.array(gains)) == verdict
