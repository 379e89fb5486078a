"""The printed estimate of a vote is wrong, and ours is right."""

import pytest

from suffice.papers.reproduce import reproduce


def test_the_printed_estimate_of_a_vote_is_wrong_and_ours_is_right():
    compared = reproduce(["voting"])["voting"].compared
    assert [election.printed for election in compared] == pytest.approx([0.967, 0.633], abs=0.005)
    for election in compared:
        assert election.ours == pytest.approx(0.3, abs=0.005)  # six standard errors
        assert election.difference == election.ours - election.printed
        assert "print wrong, ours right" in election.verdict
        assert "holds the truth" in election.verdict
