"""Nothing but the noise depends on a secret: neighbouring data through every mechanism and form."""

import pytest
import typer
from public_part_mutants import MUTANTS

from suffice.audit.exercises import Changed, exercises_of
from suffice.audit.public_part import FORMS, check_pair, check_public_part, compare
from suffice.cli.main import app
from suffice.cli.output import recorded
from suffice.owner.mechanism import mechanism_names

# Which mechanisms show a mutant, and in how many pairs of these it has to be found.
FOUND_IN = {
    "sums_by_block": (["mean-operator"], 60),
    "no_rounding": (["mean-operator"], 20),
    "laundered": (["rados"], 8),
    "absent_class": (["proportions"], 40),
    "parity_in_step": (["mean-operator"], 20),
    "sign_of_zero": (["mean-operator"], 20),
    "numbers_by_arrow": (["moments"], 32),
}


def command(words):
    return recorded(typer.main.get_command(app).main, words)


@pytest.mark.parametrize(
    ("mechanism", "pairs"),
    [
        pytest.param("mean-operator", 12, id="mean-operator"),
        pytest.param("proportions", 24, id="proportions"),
        pytest.param("rados", 8, id="rados"),
        pytest.param("moments", 32, id="moments"),
        pytest.param("responses", 6, id="responses"),
        pytest.param("bags", 6, id="bags"),
        pytest.param("parties", 6, id="parties"),
    ],
)
def test_pairs_differ_in_noise_alone(mechanism, pairs):
    """Where `test_the_pairs_find_what_gave_labels_away` finds a fault, there is none without it."""
    verdict = check_public_part([mechanism], pairs=pairs, seed=0, command=command)
    assert verdict.lines() == [f"no difference in {pairs} pairs"]


def test_every_mechanism_has_its_pairs():
    (mark,) = test_pairs_differ_in_noise_alone.pytestmark
    assert {case.values[0] for case in mark.args[1]} == {*mechanism_names()}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_pairs_find_what_gave_labels_away(mutant, monkeypatch):
    mutant(monkeypatch)
    mechanisms, pairs = FOUND_IN[mutant.__name__]
    exercises = exercises_of(*mechanisms)
    if mechanisms == ["mean-operator"]:  # tables of people have as few rows as people
        exercises = [e for e in exercises if e.changed is Changed.LABEL]
    verdict = compare(check_pair, exercises, pairs=pairs, seed=0, first_only=True)
    print(f"{mutant.__name__}: pair {verdict.pairs}, {verdict.lines()[0]}")  # noqa: T201
    assert verdict.differences


def test_every_mechanism_has_an_exercise_in_every_form_or_a_reason():
    for name in mechanism_names():
        for exercise in exercises_of(name):
            assert set(exercise.without) <= set(FORMS)
            assert all(exercise.without.values())
    assert {exercise.mechanism for exercise in exercises_of()} == set(mechanism_names())


def test_a_pair_is_the_same_pair_again():
    first, second = (check_public_part(["bags"], pairs=3, seed=5) for _ in range(2))
    assert first == second
