"""Reports of all answers together: their law by enumeration, their cost, and what is refused."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest

from suffice import participant
from suffice.owner.survey import report_of
from suffice.participant import Report

WHOLE = 2**64


def law(report: Report, indices, monkeypatch) -> Counter:
    """Return the exact probability of each report, by all orders in which others can be drawn."""
    found: Counter = Counter()
    orders = list(itertools.permutations(range(report.count - 1), report.size))
    for word, chance in ((0, report.threshold), (report.threshold, WHOLE - report.threshold)):
        for order in orders:
            again = order[: report.size > 1]  # one is drawn twice, and left out
            waiting = iter([*again, *order])
            monkeypatch.setattr(participant, "_bits", lambda _, word=word: word)
            monkeypatch.setattr(participant, "_below", lambda _, waiting=waiting: next(waiting))
            drawn = report.draw(indices)
            assert report.fits(drawn)
            assert next(waiting, None) is None  # as many are taken for every truth and word
            found[tuple(drawn)] += Fraction(chance, WHOLE * len(orders))
    return found


@pytest.mark.parametrize("states", [[2], [3], [2, 2], [5], [2, 3], [7]])
def test_no_report_is_more_likely_than_stated(states, monkeypatch):
    count = math.prod(states)
    for size in {1, count // 2, count - 1}:
        for odds in (Fraction(11, 10), 3, 50):
            keep = float(size * odds / (size * odds + count - size))
            report = Report(states, size, keep)
            truths = list(itertools.product(*map(range, states)))
            laws = [law(report, truth, monkeypatch) for truth in truths]
            assert all(sum(one.values()) == 1 for one in laws)
            assert all(len(one) == math.comb(count, size) for one in laws)
            worst = max(a[s] / b[s] for a in laws for b in laws for s in a)
            exact = math.log(worst.numerator) - math.log(worst.denominator)
            assert exact <= report.pure <= exact + 1e-12
            assert report.pure == pytest.approx(math.log(odds), rel=1e-9)
            for truth, one in zip(truths, laws, strict=True):
                number = report.locate(truth)
                kept = sum(chance for drawn, chance in one.items() if number in drawn)
                assert kept == Fraction(report.threshold, WHOLE)


def test_combinations_are_numbered_with_the_last_answer_fastest():
    report = Report([2, 3, 4], 5, 0.5)
    numbers = [report.locate(truth) for truth in itertools.product(range(2), range(3), range(4))]
    assert numbers == list(range(24))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0])
@pytest.mark.parametrize("states", [[2], [2, 2], [4, 4, 4, 2, 2], [4] * 5])
def test_an_asked_epsilon_is_nearly_spent_and_never_exceeded(states, epsilon):
    chosen, count = report_of(states, epsilon), math.prod(states)
    report = Report(states, **chosen)
    assert epsilon - 1e-6 <= report.pure <= epsilon
    assert chosen["size"] == min(max(1, round(count / (math.exp(epsilon) + 1))), count - 1)


@pytest.mark.parametrize(
    "drawn", [[1], [1, 2, 3], [2, 1], [1, 1], [0, 6], [-1, 2], [0, True], [0, 1.0], "01", None]
)
def test_what_no_honest_program_sends_does_not_fit(drawn):
    assert not Report([2, 3], 2, 0.6).fits(drawn)


@pytest.mark.parametrize(
    ("states", "size", "keep"),
    [([2, 3], 0, 0.5), ([2, 3], 6, 0.99), ([2, 3], 2, 1 / 3), ([2, 3], 2, 1.0), ([32, 33], 2, 0.5)],
)
def test_a_report_that_hides_nothing_or_says_nothing_is_refused(states, size, keep):
    with pytest.raises(ValueError, match=r"report|keep|combinations"):
        Report(states, size, keep)


def test_one_memory_gives_one_report(tmp_path):
    questions = [{"name": name, "text": "", "states": ["no", "yes"]} for name in "abc"]
    survey = participant.make_survey("T", questions, "a", report=report_of([2, 2, 2], 1.0))
    truths, others = dict.fromkeys("abc", "no"), dict.fromkeys("abc", "yes")
    first, before = participant.respond(survey, truths, tmp_path / "memory")
    again, asked = participant.respond(survey, others, tmp_path / "memory")
    assert (first, before, asked) == (again, [], ["a", "b", "c"])
    assert participant.respond(survey, {}, tmp_path / "memory")[0] == first
    assert b'"no"' not in (tmp_path / "memory").read_bytes()
    fresh = {participant.respond(survey, truths, None)[0].split(b" ]")[0] for _ in range(40)}
    assert len(fresh) > 5
    with pytest.raises(ValueError, match="no truth"):
        participant.respond(survey, {"a": "no"}, None)


@pytest.mark.parametrize("language", participant.LANGUAGES)
def test_every_question_is_said_to_have_the_whole_epsilon(language):
    questions = [{"name": name, "text": "", "states": ["no", "yes"]} for name in "ab"]
    report = report_of([2, 2], 1.0)
    content = participant.make_survey("T", questions, "a", language=language, report=report).content
    cost = "(epsilon = 1)" if language == "en" else "(Epsilon = 1)"
    assert all(cost in question["guarantee"] for question in content["questions"])
    assert cost in content["guarantee"]
    assert participant._TEXTS[language]["each"] in content["guarantee"]
