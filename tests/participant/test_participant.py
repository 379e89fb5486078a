"""The participant's own program: one answer per question, at the cost it states, from one file.

Its samplers run as they are, on bits that repeat themselves (`seeds`). With another seed each
statistical test below fails in about one of a million cases, and misses 10 % too little noise as
seldom.
"""

import json
import math
import os
import pty
import random
import re
import secrets
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import seeds
from suffice import participant
from suffice.owner.responses import Lattice
from suffice.participant import (
    Choice,
    Memory,
    MemoryEntry,
    Number,
    Randomizer,
    SurveyError,
    make_survey,
    read_survey,
    respond,
)
from suffice.privacy.events import Gaussian, _exact_delta
from suffice.privacy.response import Response
from suffice.releases.columns import Added

ALARM = 1e-6
ANY = [[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]]
QUESTIONS = (
    {"name": "vote", "text": "Did you vote?", "states": ["no", "yes"], "noise": {"keep": 0.75}},
    {"name": "grade", "text": "", "states": [1, 2, 3], "noise": {"table": ANY}},
    {"name": "age", "text": "How old?", "range": [0, 120],
     "noise": {"kernel": "gaussian", "variance": 14400.0}},
)  # fmt: skip
TRUTHS = {"vote": "yes", "grade": 2, "age": 44}


def survey(questions=QUESTIONS, label="vote", delta=1e-6):
    return make_survey("A poll", questions, label, delta)


# What one answer is.


def test_asking_twice_gives_the_same_answer():
    randomizer = Randomizer(["yes", "no"], 0.6)
    answers = {q: randomizer.answer(q, "yes") for q in range(200)}
    assert all(randomizer.answer(q, "no") == answers[q] for q in answers)
    assert set(answers.values()) == {"yes", "no"}


def test_answers_are_kept_as_often_as_promised_and_less_noise_is_rejected():
    count, keep = 60_000, 0.7  # the wrong rate is 7 standard errors beyond the threshold
    randomizer = Randomizer(range(4), keep)
    answers = [randomizer.answer(q, 2) for q in range(count)]
    observed = [answers.count(state) for state in range(4)]
    other = (1 - keep) / 3 * count
    assert stats.chisquare(observed, [other, other, keep * count, other]).pvalue > ALARM
    less = other * 0.9
    wrong = [less, less, count - 3 * less, less]
    assert stats.chisquare(observed, wrong).pvalue < ALARM


@pytest.mark.parametrize("truth", [0, 1, 2])
def test_any_matrix_is_followed_and_less_noise_is_rejected(truth):
    count, choice = 40_000, Choice("abc", ANY)
    answers = [choice.draw(choice.locate("abc"[truth])) for _ in range(count)]
    observed = [answers.count(state) for state in "abc"]
    right = np.array(ANY)[:, truth]
    assert stats.chisquare(observed, right * count).pvalue > ALARM
    less = right * 0.9
    less[truth] = 1 - np.delete(less, truth).sum()
    assert stats.chisquare(observed, less * count).pvalue < ALARM


@given(
    st.integers(2, 6).flatmap(
        lambda k: st.lists(
            st.lists(st.floats(0.01, 1), min_size=k, max_size=k), min_size=k, max_size=k
        )
    )
)
def test_words_are_dealt_out_exactly_as_for_an_owners_records(rows):
    table = np.array(rows) + 2 * np.eye(len(rows))
    table /= table.sum(axis=0)
    choice, bulk = Choice(range(len(rows)), table.tolist()), Response.from_matrix(table)
    assert [tuple(choice.weights(j)) for j in range(len(rows))] == list(bulk.weights)
    assert choice.pure == bulk.event.bound


@pytest.mark.parametrize(("states", "keep"), [(2, 0.75), (5, 0.5), (256, 0.8), (3, 1 - 1e-12)])
def test_keeping_costs_what_it_costs_in_an_owners_records(states, keep):
    randomizer = Randomizer(range(states), keep)
    assert randomizer.epsilon == pytest.approx(math.log(keep * (states - 1) / (1 - keep)))
    bulk = Response.keep_else_uniform(states, keep)
    assert (randomizer.epsilon, randomizer.delta) == (bulk.event.bound, 0.0)
    assert tuple(randomizer.noise.weights(1)) == bulk.weights[1]


def pmf(weight, reach: int) -> dict[int, float]:
    total = {n: weight(abs(n)) for n in range(-reach, reach + 1)}
    return {n: w / math.fsum(total.values()) for n, w in total.items()}


@pytest.mark.chance(0)  # nothing here depends on what is drawn
def test_every_draw_comes_from_the_operating_system(monkeypatch):
    """No draw moves Python's own generator, and the word that decides is the system's."""
    assert seeds._real_secrets is secrets
    before = random.getstate()
    choice = Choice(["no", "yes"], 0.75)
    numbers = [Number(0, 1, kernel, 1.0) for kernel in ("laplace", "gaussian")]
    for _ in range(5):
        choice.draw(1)
        for number in numbers:
            number.draw(number.locate(0.5))
    assert random.getstate() == before
    first = choice.weights(1)[0]
    for word, answer in ((0, "no"), (first - 1, "no"), (first, "yes"), (2**64 - 1, "yes")):
        fresh = word.to_bytes(8, "big")
        monkeypatch.setattr(participant.secrets, "token_bytes", lambda _, fresh=fresh: fresh)
        assert choice.draw(1) == answer


def bytes_given(monkeypatch, fresh: bytes) -> list[int]:
    """Let the program draw these bytes, and return the list of how many it took at a time."""
    rest, taken = bytearray(fresh), []

    def token_bytes(size):
        taken.append(size)
        found, rest[:size] = bytes(rest[:size]), b""
        assert len(found) == size
        return found

    monkeypatch.setattr(participant.secrets, "token_bytes", token_bytes)
    return taken


def test_bits_are_the_first_ones_of_as_few_bytes_as_hold_them(monkeypatch):
    taken = bytes_given(monkeypatch, bytes.fromhex("80 c1ff 0102030405060708"))
    assert [participant._bits(count) for count in (0, 1, 10, 64)] == [
        0,
        1,
        0x307,
        0x102030405060708,
    ]
    assert taken == [0, 1, 2, 8]


def test_an_integer_below_a_limit_is_drawn_again_and_never_wrapped(monkeypatch):
    """Of the eight values of three bits, 5 to 7 are none of the five that are wanted."""
    taken = bytes_given(monkeypatch, bytes(value << 5 for value in (5, 6, 7, 4, 0, 3)))
    assert [participant._below(5) for _ in range(3)] == [4, 0, 3]
    assert taken == [1] * 6
    taken = bytes_given(monkeypatch, b"\xff\xff")
    assert [participant._below(limit) for limit in (1, 256, 4)] == [0, 255, 3]
    assert taken == [0, 1, 1]


@pytest.mark.parametrize("exponent", [-900, -30, -1, 0, 3, 29, 47, 900])
def test_the_step_is_right_one_ulp_around_a_power_of_two(exponent):
    """A logarithm is rounded: that of the float below 2^29 is 29."""
    power = 2.0**exponent
    assert participant.grid_step(power) == power / 2**20
    assert participant.grid_step(math.nextafter(power, 0)) == power / 2**21
    assert participant.grid_step(math.nextafter(power, math.inf)) == power / 2**20


@pytest.mark.parametrize(
    ("sample", "scale", "weight"),
    [
        ("_laplace", Fraction(5, 2), lambda n, scale: math.exp(-n / scale)),
        ("_gaussian", Fraction(5, 2), lambda n, scale: math.exp(-(n**2) / (2 * scale**2))),
    ],
)
def test_samplers_are_exact_on_a_grid_where_it_shows(sample, scale, weight):
    count, edge = 16_000, 7  # 75 answers or more beyond either edge
    samples = np.array([getattr(participant, sample)(scale) for _ in range(count)])
    observed = np.bincount(np.clip(samples, -edge, edge) + edge, minlength=2 * edge + 1)

    def fit(by: float) -> float:
        law = pmf(lambda n: weight(n, float(scale) * by), 80)
        near = [law[n] for n in range(1 - edge, edge)]
        far = (1 - math.fsum(near)) / 2
        return stats.chisquare(observed, np.array([far, *near, far]) * count).pvalue

    assert fit(1.0) > ALARM
    assert fit(0.9) < ALARM


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_numbers_gain_the_stated_noise_and_ten_percent_less_is_rejected(kernel):
    count, number = 8_000, Number(-1, 1, kernel, 0.25)
    truths = [-7.0, -0.5, "0.123456789", math.inf]
    values = np.array([number.draw(number.locate(t)) for t in truths for _ in range(count // 4)])
    assert all(number.fits(value) for value in values)
    assert not number.fits(values[0] + number.step / 2)
    noise = values - np.repeat([-1, -0.5, 0.123456789, 1], count // 4)  # held to the range
    law = stats.norm(scale=0.5) if kernel == "gaussian" else stats.laplace(scale=0.5 / math.sqrt(2))
    assert stats.kstest(noise, law.cdf).pvalue > ALARM

    def deviation(sample: np.ndarray) -> tuple[float, float]:
        """Return the likeliest deviation over the right one, and its standard error."""
        if kernel == "gaussian":
            return math.sqrt((sample**2).mean()) / 0.5, math.sqrt(1 / (2 * count))
        return np.abs(sample).mean() / law.kwds["scale"], math.sqrt(1 / count)

    ratio, error = deviation(noise)
    assert abs(ratio - 1) < 5 * error
    ratio, error = deviation(0.9 * noise)
    assert ratio < 1 - 5 * error
    for part in noise.reshape(4, -1):
        assert abs(part.mean()) < 5 * 0.5 / math.sqrt(count / 4)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("low", "high", "variance"), [(0, 120, 900.0), (-1, 1, 16.0), (-3, 17, 1.7), (0, 1, 4e9)]
)
def test_numbers_have_the_grid_and_the_cost_of_an_owners_records(kernel, low, high, variance):
    number, bulk = (
        Number(low, high, kernel, variance),
        Lattice.of(Added(low, high, kernel, variance)),
    )
    assert number.step == bulk.step
    assert float(number.scale) == bulk.noise.scale
    cells = [low - 5.0, low, (2 * low + high) / 3, high, math.inf]
    assert [number.locate(cell) for cell in cells] == bulk.exact(np.array(cells)).tolist()
    randomizer = Randomizer(number, delta=1e-5)
    assert randomizer.delta == (1e-5 if kernel == "gaussian" else 0.0)
    stated = bulk.event.epsilon(randomizer.delta)
    assert stated * (1 - 1e-15) <= randomizer.epsilon <= stated * (1 + 1e-8)


@pytest.mark.parametrize("z", [0.04, 0.3, 1.0, 17.0, 2.0**16])
@pytest.mark.parametrize("delta", [1e-1, 1e-6, 1e-12, 1e-30])
def test_the_cost_of_gaussian_noise_is_right_to_nine_digits_and_rounded_up(z, delta):
    epsilon = participant._gaussian_epsilon(z, delta)
    assert _exact_delta(epsilon, z) <= delta
    assert epsilon > 700 or epsilon < 1e-9 or _exact_delta(epsilon * (1 - 3e-9), z) > delta


def test_several_numbers_together_cost_what_their_noise_joined_does():
    """K equal Gaussian answers are one of 1/sqrt(k) of the noise; a choice is added on top."""
    number, choice = Number(0, 1, "gaussian", 16.0), Choice(["no", "yes"], 0.75)
    for count in (1, 2, 9):
        joined = Gaussian(4.0 / math.sqrt(count)).epsilon(1e-6)
        epsilon, delta = participant._cost([number] * count, 1e-6)
        assert joined <= epsilon == pytest.approx(joined, rel=1e-5)
        assert delta == 1e-6
        both = participant._cost([*[number] * count, choice], 1e-6)[0]
        assert both == pytest.approx(epsilon + choice.pure, rel=1e-9)


@pytest.mark.parametrize(
    ("states", "keep", "reason"),
    [
        (["a"], 0.9, "states"),
        (["a", "a"], 0.9, "states"),
        (range(257), 0.9, "states"),
        ("ab", 0.5, "keep"),
        ("ab", 1.0, "keep"),
        ("ab", 0.2, "keep"),
        ("ab", math.nan, "keep"),
        ("ab", None, "keep"),
        ("ab", "x", "probability to keep"),
        ("ab", [[0.9, 0.2], [0.1, 0.7]], "sum to one"),
        ("ab", [[1.0, 0.2], [0.0, 0.8]], "epsilon infinite"),
        ("ab", [[0.9, math.nan], [0.1, 0.8]], "positive"),
        ("ab", [[1.1, 0.2], [-0.1, 0.8]], "positive"),
        ("ab", [[0.4, 0.4], [0.6, 0.6]], "singular"),
        ("abc", [[0.6, 0.3, 0.45], [0.2, 0.5, 0.35], [0.2, 0.2, 0.2]], "singular"),
        ("abc", [[0.9, 0.1], [0.1, 0.9]], "3 rows"),
    ],
)
def test_what_protects_nothing_or_loses_all_is_refused(states, keep, reason):
    with pytest.raises(ValueError, match=reason):
        Randomizer(states, keep)


@pytest.mark.parametrize("spread", [1e-3, 1e-6])
def test_a_matrix_is_singular_or_it_is_not(spread):
    """Keep-else-uniform with keep barely above 1/K: hard to learn from, but invertible."""
    even = np.full((6, 6), (1 - spread) / 6) + spread * np.eye(6)
    assert Choice(range(6), even.tolist()).pure < 10 * spread
    for hardly in (0.0, 1e-11):
        nearly = np.full((6, 6), (1 - hardly) / 6) + hardly * np.eye(6)
        with pytest.raises(ValueError, match="singular"):
            Choice(range(6), nearly.tolist())


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ((1, 1, "laplace", 1.0), "low < high"),
        ((0, math.inf, "laplace", 1.0), "low < high"),
        ((math.nan, 1, "laplace", 1.0), "low < high"),
        ((0, 1, "uniform", 1.0), "gaussian or laplace"),
        ((0, 1, "laplace", 0.0), "1/4096"),
        ((0, 1, "laplace", 1e-9), "1/4096"),
        ((0, 1, "laplace", 1e11), "65536"),
        ((1e12, 1e12 + 1, "laplace", 1e-2), "far from zero"),
    ],
)
def test_noise_that_hides_nothing_or_leaves_nothing_is_refused(limits, reason):
    with pytest.raises(ValueError, match=reason):
        Number(*limits)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1e-50])
def test_gaussian_noise_needs_a_delta(delta):
    with pytest.raises(ValueError, match="delta"):
        Randomizer(Number(0, 1, "gaussian", 1.0), delta=delta)


@pytest.mark.parametrize("noise", [Choice("ab", 0.9), Number(0, 1, "laplace", 1.0)])
@pytest.mark.parametrize("truth", ["secret", None, math.nan, True, ["a"]])
def test_a_truth_outside_the_domain_is_refused_without_repeating_it(noise, truth):
    with pytest.raises(ValueError, match=r"The truth must be") as caught:
        Randomizer(noise).answer("q", truth)
    assert "secret" not in str(caught.value)


# What is kept.


def test_a_file_remembers_across_restarts_and_only_its_owner_reads_it(tmp_path):
    path = tmp_path / "memory"
    choice, number = Choice(range(9), 0.2), Number(0, 1, "gaussian", 1.0)
    first = [Randomizer(choice, memory=path).answer(q, 3) for q in range(20)]
    value = Randomizer(number, memory=path).answer("x", 0.5)
    assert [Randomizer(choice, memory=path).answer(q, 7) for q in range(20)] == first
    assert Randomizer(number, memory=path).answer("x", 0.9) == value
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(set(first)) > 1
    with pytest.raises(ValueError, match="another question of that name"):
        Randomizer(choice, memory=path).answer("x", 3)


def test_two_at_once_take_the_first_line(tmp_path):
    first_memory, second_memory = Memory(tmp_path / "memory"), Memory(tmp_path / "memory")
    q = MemoryEntry("answer", None, "q")
    assert first_memory.get_or_draw(q, lambda: 1) == 1
    assert (
        second_memory.get_or_draw(q, lambda: 2) == 1
    )  # it had read the file before that line was there
    assert Memory(tmp_path / "memory").get_or_draw(q, lambda: 3) == 1


@pytest.mark.parametrize(
    "damage", [b'["q", 1]', b"\xff\n", b"[1]\n", b"{}\n", b'[["q"], 1]\n', b"7\n"]
)
def test_a_damaged_memory_is_never_overruled(tmp_path, damage):
    (tmp_path / "memory").write_bytes(damage)
    with pytest.raises(ValueError, match="damaged"):
        Randomizer("ab", 0.9, memory=tmp_path / "memory")
    assert (tmp_path / "memory").read_bytes() == damage


def test_what_a_file_cannot_keep_is_not_half_kept(tmp_path):
    randomizer = Randomizer("ab", 0.9, memory=tmp_path / "memory")
    with pytest.raises(ValueError, match="texts and numbers"):
        randomizer.answer(("a", "pair"), "a")
    assert not (tmp_path / "memory").exists()


# What a survey says.


def test_a_survey_says_what_its_numbers_mean():
    example = survey()
    again = read_survey(example.data)
    assert (again.content, again.data, again.id) == (example.content, example.data, example.id)
    texts = [question["guarantee"] for question in example.content["questions"]]
    assert "probability of 75 %" in texts[0]
    assert "more than 3 times as likely as another (epsilon = 1.1)" in texts[0]
    assert "at most 80 % it stays" in texts[1]
    assert "more than 8 times as likely as another (epsilon = 2.08)" in texts[1]
    assert "limited to the range from 0 to 120" in texts[2]
    age = Randomizer(Number(0, 120, "gaussian", 14400.0))
    assert f"epsilon = {math.ceil(age.epsilon * 100) / 100:.3g}, delta = 1e-6" in texts[2]
    together = math.log(3) + math.log(8) + age.epsilon
    assert f"epsilon = {math.ceil(together * 100) / 100:.3g}," in example.content["guarantee"]


def test_tiny_noise_is_called_nothing():
    tiny = {**QUESTIONS[0], "noise": {"keep": 1 - 1e-10}}
    texts = survey([tiny]).content
    assert "This hides practically nothing (epsilon = 23.1)" in texts["questions"][0]["guarantee"]
    assert "practically not hidden (epsilon = 23.1)" in texts["guarantee"]


def altered(change) -> bytes:
    content = json.loads(survey().data)
    change(content)
    return json.dumps(content).encode()


def less_noise(content):
    content["questions"][0]["noise"]["keep"] = 0.999


def kinder_words(content):
    sentence = content["questions"][0]["guarantee"]
    content["questions"][0]["guarantee"] = sentence.replace("1.1)", "0.1)")


def kinder_sheet(content):
    content["guarantee"] = "For all your answers together the factor is 1."


def other_language(content):
    content["language"] = "de"


@pytest.mark.parametrize("change", [less_noise, kinder_words, kinder_sheet, other_language])
def test_words_that_do_not_match_the_numbers_are_refused(change):
    with pytest.raises(SurveyError, match="This survey does not do what it says"):
        read_survey(altered(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(title="Another"),
        lambda c: c.update(id="sha256:" + "0" * 64),
        lambda c: c.update(more=1),
        lambda c: c["questions"][0].update(text="Do you love us?"),
        lambda c: c["questions"][0]["states"].reverse(),
        lambda c: c.update(label="grade"),
    ],
)
def test_an_altered_survey_is_noticed(change):
    with pytest.raises(SurveyError, match="altered or damaged"):
        read_survey(altered(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("title"),
        lambda c: c.pop("version"),
        lambda c: c.update(version=1),
        lambda c: c.update(version=2.0),
        lambda c: c.update(version=True),
        lambda c: c.update(version="1"),
        lambda c: c.pop("language"),
        lambda c: c.update(language="fr"),
        lambda c: c.update(language=["en"]),
        lambda c: c.update(questions=[]),
        lambda c: c.update(questions=7),
        lambda c: c.update(label="age"),
        lambda c: c.update(label=["vote"]),
        lambda c: c.update(delta=0),
        lambda c: c.update(delta="x"),
        lambda c: c.update(delta=10**400),
        lambda c: c.update(title="\x1b[2J"),
        lambda c: c["questions"].append(c["questions"][0]),
        lambda c: c["questions"][0].pop("guarantee"),
        lambda c: c["questions"][0].update(name="a=b"),
        lambda c: c["questions"][0].update(name=""),
        lambda c: c["questions"][0].update(range=[0, 1]),
        lambda c: c["questions"][0].update(states=["no", 1]),
        lambda c: c["questions"][0].update(states=[False, True]),
        lambda c: c["questions"][0].update(states="no"),
        lambda c: c["questions"][0].update(states=[]),
        lambda c: c["questions"][0].update(noise={}),
        lambda c: c["questions"][0].update(noise={"keep": True}),
        lambda c: c["questions"][0].update(noise={"keep": 0.8, "table": ANY}),
        lambda c: c["questions"][1].update(noise={"table": 3}),
        lambda c: c["questions"][2].update(range=[0]),
        lambda c: c["questions"][2].update(range=[120, 0]),
    ],
)
def test_what_is_no_survey_is_refused(change):
    with pytest.raises(SurveyError, match="not a valid survey"):
        read_survey(altered(change))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"title":1,"title":2}', b"[" * 100_000, b'{"delta":NaN}']
)
def test_what_is_no_json_is_no_survey(data):
    with pytest.raises(SurveyError, match="not a valid survey"):
        read_survey(data)


def test_a_number_that_is_not_finite_is_refused():
    data = survey().data.replace(b"14400.0", b"1e999")
    with pytest.raises(SurveyError, match="a number belongs"):
        read_survey(data)


# What is answered.


def test_a_second_answer_is_the_first_whatever_the_truth(tmp_path):
    example, path = survey(), tmp_path / "memory"
    first, before = respond(example, TRUTHS, path)
    assert before == []
    sheet = json.loads(first)
    assert sheet["survey"] == example.id
    assert re.fullmatch("[0-9a-f]{32}", sheet["token"])
    for truths in ({"vote": "no", "grade": 3, "age": 99}, {"vote": "no"}, {}):
        assert respond(example, truths, path) == (first, ["vote", "grade", "age"])
    assert respond(example, TRUTHS, None)[0] != first


def test_other_surveys_get_other_answers_from_the_same_memory(tmp_path):
    many = [{**QUESTIONS[0], "name": f"q{j}"} for j in range(40)]
    truths = dict.fromkeys([question["name"] for question in many], "no")
    first, second = make_survey("one", many, "q0"), make_survey("two", many, "q0")
    sheets = [
        json.loads(respond(example, truths, tmp_path / "m")[0]) for example in (first, second)
    ]
    assert sheets[0]["answers"] != sheets[1]["answers"]  # alike once in 10^8 runs
    assert sheets[0]["token"] != sheets[1]["token"]


@pytest.mark.parametrize(
    ("truths", "reason"),
    [
        ({"vote": "yes"}, 'There is no truth for "grade", "age"'),
        ({**TRUTHS, "shoe": 1}, "no question has"),
        ({**TRUTHS, "grade": 9}, '^"grade": The truth must be one'),
        ({**TRUTHS, "age": "old"}, '^"age": The truth must be a number'),
    ],
)
def test_nothing_is_drawn_before_every_truth_is_checked(tmp_path, truths, reason):
    with pytest.raises(ValueError, match=reason):
        respond(survey(), truths, tmp_path / "memory")
    assert not (tmp_path / "memory").exists()


def test_a_memory_with_a_strange_answer_is_refused(tmp_path):
    example = survey()
    Memory(tmp_path / "m").get_or_draw(MemoryEntry("answer", example.id, "vote"), lambda: "perhaps")
    with pytest.raises(ValueError, match="was changed"):
        respond(example, TRUTHS, tmp_path / "m")


# The file alone, as a participant runs it.


@pytest.fixture
def desk(tmp_path) -> Path:
    (tmp_path / "participant.py").write_text(Path(participant.__file__).read_text())
    (tmp_path / "s.json").write_bytes(survey().data)
    return tmp_path


def alone(desk: Path, *words: str, code: int = 0, **options) -> str:
    """Run the one file without anything installed; return what it printed."""
    command = [sys.executable, "-I", "-S", "participant.py", "respond", *words]
    options = {"stdin": subprocess.DEVNULL, **options}
    done = subprocess.run(
        command, cwd=desk, capture_output=True, text=True, check=False, timeout=60, **options
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


SAID = ("--truth", "vote=yes", "--truth", "grade=2", "--truth", "age=44")


def test_the_file_alone_answers_once(desk):
    printed = alone(desk, "s.json", *SAID, "-o", "a.json")
    for question in survey().content["questions"]:
        assert question["guarantee"] in printed
    assert survey().content["guarantee"] in printed
    assert "You have answered before" not in printed
    first = (desk / "a.json").read_bytes()
    assert stat.S_IMODE((desk / "a.json.memory").stat().st_mode) == 0o600
    (desk / "truth.json").write_text('{"vote": "no", "grade": 1, "age": 1e3}')
    printed = alone(desk, "s.json", "--truth-file", "truth.json", "-o", "a.json")
    assert "You have answered before. The program gives the same answers again" in printed
    assert (desk / "a.json").read_bytes() == first
    alone(desk, "s.json", "-o", "b.json", "--memory", "a.json.memory")
    assert (desk / "b.json").read_bytes() == first


def test_an_answer_whose_memory_is_gone_is_not_replaced(desk):
    alone(desk, "s.json", *SAID, "-o", "a.json")
    first = (desk / "a.json").read_bytes()
    (desk / "a.json.memory").unlink()
    error = alone(desk, "s.json", *SAID, "-o", "a.json", code=2)
    assert "does not overwrite it" in error
    assert (desk / "a.json").read_bytes() == first


def test_four_programs_at_once_give_one_answer(desk):
    command = [sys.executable, "-I", "-S", "participant.py", "respond", "s.json", *SAID]
    running = [
        subprocess.Popen(
            [*command, "-o", f"{n}.json", "--memory", "m"], cwd=desk, stdout=subprocess.DEVNULL
        )
        for n in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len({(desk / f"{n}.json").read_bytes() for n in range(4)}) == 1


def test_several_surveys_are_added_up(desk):
    (desk / "t.json").write_bytes(make_survey("Again", QUESTIONS, "vote").data)
    alone(desk, "s.json", *SAID, "-o", "a.json", "--memory", "m")
    printed = alone(desk, "t.json", *SAID, "-o", "b.json", "--memory", "m")
    stated = float(re.search(r"epsilon = ([\d.]+),", survey().content["guarantee"]).group(1))
    total = re.search(r"All 2 surveys in m together: epsilon = ([\d.]+), delta = 2e-6", printed)
    assert float(total.group(1)) == pytest.approx(2 * stated, rel=1e-2)


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("s.json", "-o", "a.json"), 2, 'There is no truth for "vote", "grade", "age"'),
        (("s.json", "-o", "a.json", "--truth", "vote"), 2, "NAME=VALUE"),
        (("s.json", "-o", "a.json", *SAID, "--truth", "grade=17"), 2, '"grade": The truth must be'),
        (("s.json", "-o", "a.json", "--truth-file", "list.json"), 2, "{NAME: VALUE}"),
        (("s.json", "-o", "a.json", "--truth-file", "s.json"), 2, "no question has"),
        (("none.json", "-o", "a.json"), 6, "none.json"),
        (("participant.py", "-o", "a.json"), 3, "not a valid survey"),
        (("tampered.json", "-o", "a.json", *SAID), 3, "This survey does not do what it says"),
        (("large.json", "-o", "a.json", *SAID), 2, "larger than"),
    ],
)
def test_the_file_alone_refuses_in_one_line(desk, words, code, reason):
    (desk / "tampered.json").write_bytes(altered(less_noise))
    (desk / "large.json").write_bytes(b" " * (2**20 + 1))
    (desk / "list.json").write_text("[1]")
    error = alone(desk, *words, code=code)
    assert reason in error
    assert error.count("\n") == 1
    assert "17" not in error
    assert not (desk / "a.json").exists()
    assert not (desk / "a.json.memory").exists()


ASK = "Your true answer (this program changes it at random before it writes it): "


def test_a_person_at_a_terminal_is_asked(desk):
    typist, terminal = pty.openpty()
    os.write(typist, b"perhaps\nyes\n2\n44\n")
    printed = alone(desk, "s.json", "-o", "a.json", stdin=terminal)
    os.close(terminal)
    os.close(typist)
    expected = '\n  | "vote": "Did you vote?"\n  | Answers: "no" / "yes"\n'
    assert printed.count(expected) == 2  # with all others, and when it is asked
    assert f"{ASK}This is not one of the possible answers.\n{ASK}" in printed
    assert printed.count("  | Answers: 0 to 120\n") == 2
    assert set(json.loads((desk / "a.json").read_text())["answers"]) == {"vote", "grade", "age"}
