"""The sentences of a guarantee claim what its event gives, and no more: every unit, every kind."""

import doctest
import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.errors import UnitError
from suffice.privacy import events, guarantee
from suffice.privacy.events import Approximate, Gaussian, Laplace, Pure, Unbounded
from suffice.privacy.guarantee import Assumption, Guarantee, Protection, Scope, Unit

FORBIDDEN = (
    "except with probability",
    "nobody can learn",
    "hides everything",
    "cannot be overspent",
    "whatever else they know",
    "had any",
    "nothing can be",
    "promise",
)
LONGEST = 30  # words of a sentence
EPSILONS = (1e-6, 0.01, 0.1, 0.5, 1.0, math.log(3), 2.0, 2.999, 3.0, 3.001, 3.753, 7.5, 9.99, 10.0,
            10.001, 15.0, 700.0, 5431.0)  # fmt: skip
DELTAS = (0.0, 1e-12, 1e-6, 2.5e-6, 1e-5, 1e-3, 1.001e-3, 0.05, 0.0999, 0.1, 0.5)
COLUMNS = {
    Unit.LABEL: ((), ("the auxiliary rows",)),
    Unit.ATTRIBUTE: ((), ("age",), ("age", "income")),
    Unit.RECORD: ((), ("the auxiliary rows",)),
    Unit.PARTY: ((),),
    Unit.PERSON: ((),),
    Unit.PERSON_LABELS: ((),),
}
KINDS = ("global", "data-dependent", "none", "marginal", "marginal data-dependent")
EACH = {
    (Unit.LABEL, ()): ("each label", "any one label"),
    (Unit.LABEL, ("the auxiliary rows",)): (
        "each label of the auxiliary rows", "any one of these labels",
    ),
    (Unit.ATTRIBUTE, ()): ("each value of each record, labels included", "any one value"),
    (Unit.ATTRIBUTE, ("age",)): ("each value in column age", "any one value in column age"),
    (Unit.ATTRIBUTE, ("age", "income")): (
        "each value in columns age and income", "any one of these values",
    ),
    (Unit.RECORD, ()): ("each record", "any one record"),
    (Unit.RECORD, ("the auxiliary rows",)): (
        "each record of the auxiliary rows", "any one of these records",
    ),
    (Unit.PARTY, ()): ("each party's data as a whole", "all data of any one party"),
    (Unit.PERSON, ()): ("each person, with all of their rows", "all rows of any one person"),
    (Unit.PERSON_LABELS, ()): ("all labels of each person", "all labels of any one person"),
}  # fmt: skip
NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"


def stated(unit: Unit, columns: tuple[str, ...], kind: str, epsilon: float, delta: float):
    """Return a guarantee with just these numbers."""
    marginal = kind.startswith("marginal")
    protection = "data-dependent" if kind.endswith("data-dependent") else "global"
    event = Approximate(epsilon, delta) if delta else Pure(epsilon)
    if kind == "none":
        protection, event = "none", Unbounded()
    return Guarantee(
        unit,
        event,
        delta,
        scope=Scope.MARGINAL if marginal else Scope.JOINT,
        kind=Protection(protection),
        columns=columns or (("hiv",) if marginal else ()),
    )


ALL = [
    pytest.param(unit, columns, kind, id=f"{unit}-{len(columns)}-{kind}")
    for unit in Unit
    for columns, kind in itertools.product(COLUMNS[unit], KINDS)
]
POINTS = list(itertools.product(EPSILONS, DELTAS))


def numbers(text: str, pattern: str) -> list[float]:
    return [float(match) for match in re.findall(pattern, text)]


def just_above(printed: str, exact: float) -> bool:
    """Say whether a printed number is the exact one, rounded up in its last digit of three."""
    mantissa = re.sub(r"e.*", "", printed).replace(".", "").strip("0")
    unit_of_last = 10.0 ** (math.floor(math.log10(exact * (1 + 1e-13))) - 2)
    excess = float(printed) - exact
    return len(mantissa) <= 3 and -1e-11 * exact <= excess < unit_of_last * (1 + 1e-9)


@pytest.mark.parametrize(("unit", "columns", "kind"), ALL)
def test_every_number_is_the_events_own_rounded_up(unit, columns, kind):
    for epsilon, delta in POINTS:
        example = stated(unit, columns, kind, epsilon, delta)
        text = " ".join(guarantee.guarantee_sentences(example))
        costs = re.findall(f"epsilon = {NUMBER}", text)
        assert len(costs) == (kind != "none"), text
        assert all(just_above(cost, example.epsilon) for cost in costs), text
        allowances = re.findall(f"(?:delta = |plus ){NUMBER}", text)
        assert bool(allowances) == (bool(delta) and kind != "none"), text
        assert all(just_above(allowance, delta) for allowance in allowances), text
        factors = re.findall(f"(?:a factor of|at most) {NUMBER}", text)
        bounded = example.epsilon is not None and epsilon <= 10 and delta < 0.1
        assert len(factors) == (bounded and example.kind is Protection.GLOBAL), text
        assert all(just_above(factor, math.exp(example.epsilon)) for factor in factors), text


@pytest.mark.parametrize(("unit", "columns", "kind"), ALL)
def test_no_sentence_is_long_and_none_claims_what_is_forbidden(unit, columns, kind):
    for epsilon, delta in POINTS:
        for sentence in guarantee.guarantee_sentences(stated(unit, columns, kind, epsilon, delta)):
            assert not any(phrase in sentence.lower() for phrase in FORBIDDEN)
            for single in re.split(r"(?<=\.) (?=[A-Z])", sentence):
                counted = [word for word in single.split() if re.search(r"\w", word)]
                assert len(counted) <= LONGEST, single


def beginning(kind: str, epsilon: float, delta: float, each: str) -> str:
    """Return how the sentences must begin, after what is said of a large delta."""
    if kind == "none":
        return "No protection. A reader may be able to work out "
    if kind.endswith("data-dependent"):
        return "Not differentially private. The noise or the scaling was computed from"
    if delta >= 0.1:
        return "With a delta this large, no epsilon is a protection ("
    if epsilon > 10:
        return "Practically no protection"
    if kind == "marginal":
        return f"Limited {'and weak ' if epsilon > 3 else ''}protection (epsilon = "
    return f"{'Weakly protects' if epsilon > 3 else 'Protects'} {each}. If "


@pytest.mark.parametrize(("unit", "columns", "kind"), ALL)
def test_the_first_words_say_the_kind(unit, columns, kind):
    each = EACH[unit, columns][0]
    for epsilon, delta in POINTS:
        first, *rest = guarantee.guarantee_sentences(stated(unit, columns, kind, epsilon, delta))
        if kind != "none" and delta > events.EXPLAINED_DELTA:
            often = math.floor(1 / delta)
            assert first.startswith("No protection: " if delta >= 0.1 else "Large delta: ")
            assert first.endswith(f" (1 in {often}).")
            first, *rest = rest
        assert " ".join([first, *rest]).startswith(beginning(kind, epsilon, delta, each))


@pytest.mark.parametrize(("unit", "columns", "kind"), ALL)
def test_only_differential_privacy_of_a_small_epsilon_is_said_to_protect(unit, columns, kind):
    for epsilon, delta in POINTS:
        example = stated(unit, columns, kind, epsilon, delta)
        text = str(example)
        assert ("rotects " in text) == (example.protected and epsilon <= 10)
        assert ("any result of this release" in text) <= example.protected
        assert ("would change by at most a factor" in text) <= (delta == 0)
        if "rotects " in text:
            assert f"If {EACH[unit, columns][1]} were different, the probability" in text
            assert "This does not hide what the rest of the data says about that " in text
        if kind.startswith("marginal") and delta < 0.1:
            assert "with other columns may recover " in text
            assert " only what column" in text or epsilon > 10
        if kind == "global" and unit is Unit.ATTRIBUTE and columns and "rotects " in text:
            assert text.endswith("This guarantee does not cover labels or other columns.")


def test_the_sentences_of_the_design():
    """Word by word, one of each kind."""
    protected = "This does not hide what the rest of the data says about that"
    expected_texts = {
        str(Guarantee(Unit.LABEL, Laplace(1.0))): (
            "Protects each label. If any one label were different, the probability of any result of"
            f" this release would change by at most a factor of 2.72 (epsilon = 1). {protected}"
            " label."
        ),
        str(Guarantee(Unit.RECORD, Approximate(1.0, 1e-6), 1e-6)): (
            "Protects each record. If any one record were different, the probability of any result"
            " of this release would be at most 2.72 times what it is now, plus 0.000001"
            f" (epsilon = 1, delta = 1e-6). {protected} record."
        ),
        str(stated(Unit.PARTY, (), "global", 1.0, 1e-6)): (
            "Protects each party's data as a whole. If all data of any one party were different,"
            " the probability of any result would be at most 2.72 times what it is now, plus"
            f" 0.000001 (epsilon = 1, delta = 1e-6). {protected} party."
        ),
        str(stated(Unit.ATTRIBUTE, ("hiv",), "marginal", 3.753, 0.001)): (
            "Limited and weak protection (epsilon = 3.76, delta = 0.001): covers only what column"
            " hiv shows when read alone. Read that way, if any one value in column hiv were"
            " different, the probability of any result would be at most 42.7 times what it is now,"
            " plus 0.001. A reader who combines hiv with other columns may recover its values"
            " exactly."
        ),
        str(stated(Unit.RECORD, (), "data-dependent", 1.0, 1e-6)): (
            "Not differentially private. The noise or the scaling was computed from the private"
            " data, and the release shows it. If these settings were fixed, the guarantee for each"
            " record would be epsilon = 1, delta = 1e-6. They are not fixed, so do not rely on this"
            " number."
        ),
        str(stated(Unit.RECORD, (), "none", 1.0, 0.0)): (
            "No protection. A reader may be able to work out any record exactly."
        ),
        str(stated(Unit.RECORD, (), "global", 15.0, 0.0)): (
            "Practically no protection (epsilon = 15): a reader may become almost certain of any"
            " record."
        ),
    }
    for example, expected in expected_texts.items():
        assert example == expected


def test_lists_name_what_is_public_and_what_is_assumed():
    example = Guarantee(
        Unit.LABEL,
        Pure(1.0),
        public=("the rows", "their number"),
        assumptions=(Assumption("a", "b"), Assumption("c", "d")),
    )
    assert guarantee.lists(example.public, example.assumptions) == [
        "Public, not protected: the rows and their number.",
        "Assumes: a (b); c (d).",
    ]
    assert guarantee.lists((), ()) == []


@pytest.mark.parametrize("name", ["blood pressure", "a, b", "x" * 70])
def test_a_long_name_stands_once_and_is_not_cut(name):
    for kind in KINDS[:2]:
        text = str(stated(Unit.ATTRIBUTE, (name, "age", "dose"), kind, 1.0, 1e-6))
        assert text.count("columns") == (2 if kind == "global" else 1)
        assert "age and dose" in text


def test_a_guarantee_about_one_table_claims_nothing_about_others():
    """Narrowed to labels it still names the table; single values would look like a column."""
    record = Guarantee(Unit.RECORD, Pure(1.0), columns=("the auxiliary rows",))
    assert "Protects each label of the auxiliary rows." in str(record.narrowed("label"))
    assert "does not cover other labels" in str(record.narrowed("label"))
    with pytest.raises(UnitError, match="cannot be narrowed to single values"):
        record.narrowed("attribute")
    marginal = str(stated(Unit.RECORD, ("hiv",), "marginal", 1.0, 0.0))
    assert "if any one record were different" in marginal


@given(st.floats(5e-324, 1e300), st.integers(1, 6))
def test_rounding_up_never_flatters(value, digits):
    printed = guarantee.round_up(value, digits)
    assert float(printed) >= value * (1 - 1e-11)
    assert float(printed) <= value * (1 + 10.0 ** (1 - digits) * (1 + 1e-9)) + 5e-324


# Beliefs.


@pytest.mark.parametrize(
    ("epsilon", "after"),
    [
        (0.1, ["1.2 %", "11 %", "52.5 %"]),
        (1.0, ["2.7 %", "23.2 %", "73.2 %"]),
        (3.0, ["16.9 %", "69.1 %", "95.3 %"]),
        (10.0, ["99.6 %", "99.96 %", "99.996 %"]),
        (math.log(3), ["3 %", "25 %", "75 %"]),
        (50.0, ["almost 100 %"] * 3),
        (5431.0, ["almost 100 %"] * 3),
    ],
)
def test_beliefs_are_bayes_rule_rounded_up(epsilon, after):
    assert [row[1] for row in guarantee.belief_rows(epsilon)] == after


@given(st.floats(1e-6, 20))
def test_a_belief_is_never_shown_too_small(epsilon):
    for before, (_, explanation) in zip(
        guarantee.BEFORE, guarantee.belief_rows(epsilon), strict=True
    ):
        exact = before / (before + (1 - before) * math.exp(-epsilon))
        assert exact * (1 - 1e-11) <= float(explanation.rstrip(" %")) / 100 < min(1, exact + 0.0011)


def test_binary_answers_reach_the_limit_of_the_table():
    """Randomised response with keep e^epsilon / (1 + e^epsilon) moves beliefs as far as is said."""
    for epsilon in (0.1, 1.0, 3.0):
        for before, (_, shown) in zip(
            guarantee.BEFORE, guarantee.belief_rows(epsilon), strict=True
        ):
            keep = 1 / (1 + math.exp(-epsilon))
            after = before * keep / (before * keep + (1 - before) * (1 - keep))
            assert 0 <= float(shown.rstrip(" %")) / 100 - after < 0.0011


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("multiplier", [0.5, 1.0, 4.0])
def test_what_delta_adds_holds_for_gaussian_noise(delta, multiplier):
    """P[ratio > 2 e^epsilon] <= 2 delta, though P[ratio > e^epsilon] > delta by far."""
    from scipy.stats import norm

    example = Guarantee(Unit.LABEL, Gaussian(multiplier), delta)

    def exceeds(factor: float) -> float:  # the privacy loss is normal: N(1/2z^2, 1/z^2)
        return norm.sf((math.log(factor) - 0.5 / multiplier**2) * multiplier)

    factor = math.exp(example.epsilon)
    assert exceeds(factor) > delta
    assert exceeds(2 * factor) <= 2 * delta
    notes = " ".join(guarantee.explain(example).notes)
    if example.epsilon <= 10:
        chance, printed = re.search(f"at most {NUMBER}, .* factor of {NUMBER}", notes).groups()
        assert just_above(chance, 2 * delta)
        assert just_above(printed, 2 * factor)


def test_delta_is_not_the_chance_to_exceed_epsilon():
    """The reason why "except with probability delta" is forbidden."""
    from scipy.stats import norm

    multiplier = events.gaussian_multiplier(1.0, 1e-6)
    beyond = norm.sf((1.0 - 0.5 / multiplier**2) * multiplier)
    assert beyond > 15e-6


@pytest.mark.parametrize(("unit", "columns", "kind"), ALL)
def test_only_differential_privacy_has_a_table(unit, columns, kind):
    for epsilon, delta in POINTS:
        example = stated(unit, columns, kind, epsilon, delta)
        explanation = guarantee.explain(example)
        assert bool(explanation.rows) == example.protected
        assert all(len(note.split()) <= LONGEST for note in explanation.notes)
        assert not any(phrase in note for note in explanation.notes for phrase in FORBIDDEN)
        assert explanation.to_json()["rows"] == [list(row) for row in explanation.rows]


def test_a_table_without_delta_says_so():
    assert "Delta is 0" in " ".join(guarantee.explain(Guarantee(Unit.LABEL, Pure(1.0))).notes)
    notes = " ".join(guarantee.explain(Guarantee(Unit.LABEL, Gaussian(4.0), 1e-6)).notes)
    assert "only where delta is 0" in notes
    assert "a larger delta" in notes


@pytest.mark.parametrize("module", [events, guarantee])
def test_examples_are_right(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_points_cross_every_border():
    assert {np.sign(epsilon - edge) for epsilon in EPSILONS for edge in (3, 10)} == {-1, 0, 1}
    assert min(DELTAS) == 0
    assert {delta >= 0.1 for delta in DELTAS} == {True, False}
