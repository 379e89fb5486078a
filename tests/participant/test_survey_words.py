"""What a survey says in words: checked against its numbers, word by word."""

import doctest
import itertools
import json
import math
import re
import string

import pytest

from suffice import participant
from suffice.participant import (
    LANGUAGES,
    Choice,
    Number,
    SurveyError,
    make_survey,
    read_survey,
)
from suffice.privacy import guarantee as package_words

LONGEST = 30  # words of a sentence
FORBIDDEN = ("nobody can", "except with probability", "nothing can be", "anonymous", "niemand")
KEEPS = (0.5001, 0.6, 0.75, 0.9, 0.95, 0.953, 0.99, 0.9999, 0.99996, 1 - 1e-7, 1 - 1e-12)
TABLE = [[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]]
NOISES = [
    *(Choice(range(count), keep) for count in (2, 5, 256) for keep in KEEPS),
    Choice("abc", TABLE),
    *(Number(0, 120, kernel, variance) for kernel in ("laplace", "gaussian")
      for variance in (1.0, 144.0, 14400.0, 1.44e6, 1e9)),
]  # fmt: skip
DELTAS = (1e-9, 1e-6, 1e-3, 2e-3, 0.05, 0.0999)
NUMBER = r"(\d+(?:[.,]\d+)?(?:e-?\d+)?)"


# The file.


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_is_compared(language):
    questions = [
        {"name": "q", "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}},
        {"name": "n", "text": "", "range": [0, 1], "noise": {"kernel": "gaussian", "variance": 1}},
    ]
    data = make_survey("T", questions, "q", delta=0.05, language=language).data
    content = json.loads(data)
    for holder in (content, *content["questions"]):
        true = holder["guarantee"]
        holder["guarantee"] = f"{true} "
        with pytest.raises(SurveyError, match="This survey does not do what it says"):
            read_survey(json.dumps(content).encode())
        holder["guarantee"] = true
    assert content == json.loads(data)
    assert read_survey(data).data == data


# The catalogue.


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_language_says_the_same_things():
    english = participant._TEXTS["en"]
    for language in LANGUAGES:
        texts = participant._TEXTS[language]
        assert texts.keys() == english.keys()
        for key, text in texts.items():
            assert fields(text) == fields(english[key]), (language, key)
            assert participant._plain(text) == text.strip()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_survey_speaks_its_language(language):
    question = {"name": "q", "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}}
    survey = make_survey("T", [question], "q", language=language)
    assert survey.content["language"] == survey.language == language
    assert read_survey(survey.data).content == survey.content


def test_the_sentences_of_the_design():
    questions = [
        {"name": "q", "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}},
        {"name": "r", "text": "", "states": [1, 2, 3], "noise": {"keep": 0.75}},
    ]
    told = make_survey("T", questions, "q").content
    assert told["questions"][0]["guarantee"] == (
        "Your answer is changed at random before it leaves this computer. With a probability of"
        " 75 % it stays as it is. Whatever is sent could come from any true answer. No true answer"
        " makes it more than 3 times as likely as another (epsilon = 1.1)."
    )
    assert told["guarantee"] == (
        "For all your answers together the factor is 18 (epsilon = 2.9). This does not hide that"
        " you took part, or what other people's answers suggest about you."
    )
    told = make_survey("T", questions, "q", language="de").content
    assert told["questions"][0]["guarantee"] == (
        "Ihre Antwort wird zufällig verändert, bevor sie diesen Computer verlässt. Mit einer"
        " Wahrscheinlichkeit von 75 % bleibt sie, wie sie ist. Was gesendet wird, kann von jeder"
        " wahren Antwort stammen. Keine wahre Antwort macht es mehr als 3-mal so wahrscheinlich wie"
        " eine andere (Epsilon = 1,1)."
    )


def test_an_unknown_language_is_refused():
    question = {"name": "q", "text": "", "states": ["no", "yes"], "noise": {"keep": 0.75}}
    with pytest.raises(ValueError, match="the language must be en or de"):
        make_survey("T", [question], "q", language="fr")


# Numbers.


def told(noise, delta: float, language: str) -> tuple[str, str]:
    words = participant._Words(language)
    return words.about_question(noise, delta), words.about_all([noise], delta)


def parsed(text: str, pattern: str, language: str) -> list[float]:
    if language == "de":
        text = re.sub(r"(\d),(\d)", r"\1.\2", text)
    return [float(match) for match in re.findall(pattern, text)]


def never_below(printed: float, exact: float) -> bool:
    return exact * (1 - 1e-11) <= printed <= exact * 1.01


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_number_is_that_of_the_noise_rounded_up(language):
    for noise, delta in itertools.product(NOISES, DELTAS):
        epsilon, effective_delta = participant._cost([noise], delta)
        for text in told(noise, delta, language):
            (stated,) = parsed(text, rf"[Ee]psilon = {NUMBER}", language)
            assert never_below(stated, epsilon), text
            deltas = parsed(text, rf"[Dd]elta = {NUMBER}", language)
            assert bool(deltas) == bool(effective_delta)
            assert all(never_below(value, effective_delta) for value in deltas)
            patterns = {
                "en": rf"(?:more than|at most|factor is) {NUMBER}(?: times|,| \()",
                "de": rf"(?:mehr als|höchstens|Faktor) {NUMBER}(?:-mal|,| \()",
            }
            factors = parsed(text, patterns[language], language)
            assert len(factors) == (epsilon <= 10), text
            assert all(never_below(value, math.exp(epsilon)) for value in factors), text


@pytest.mark.parametrize("language", LANGUAGES)
def test_weak_and_useless_noise_is_called_so(language):
    weak = {"en": "only weakly", "de": "nur schwach"}[language]
    useless = {"en": "practically no", "de": "praktisch nicht"}[language]
    for noise, delta in itertools.product(NOISES, DELTAS):
        epsilon, effective_delta = participant._cost([noise], delta)
        for text in told(noise, delta, language):
            assert (weak in text) == (3 < epsilon <= 10)
            assert (useless in text) == (epsilon > 10)
            large = {"en": "Large delta: ", "de": "Großes Delta: "}[language]
            assert (large in text) == (effective_delta > 1e-3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_short_and_claim_nothing_forbidden(language):
    for noise, delta in itertools.product(NOISES, DELTAS):
        for text in told(noise, delta, language):
            assert not any(phrase in text for phrase in FORBIDDEN)
            for sentence in re.split(r"(?<=\.) (?=[A-ZÄÖÜ])", text):
                counted = [word for word in sentence.split() if re.search(r"\w", word)]
                assert len(counted) <= LONGEST, sentence


def test_noise_is_shown_rounded_down():
    words = participant._Words("en")
    assert "deviation about 63200)" in words.about_question(
        Number(0, 50000, "laplace", 63299.0**2), 1e-6
    )


def test_borders_are_those_of_a_release():
    assert participant._WEAK == package_words.WEAK
    assert participant._PRACTICALLY_NONE == package_words.PRACTICALLY_NONE
    for value in (1.0, 2.71828, 1e-6, 12345.6, 0.00123, 9.9999, 1e-12):
        assert participant._up(value) == package_words.round_up(value)


def test_examples_are_right():
    result = doctest.testmod(participant)
    assert result.attempted > 0
    assert result.failed == 0
