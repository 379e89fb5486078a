"""A mechanism that the package does not know: defined here, registered, and used by every command.

What stands between the two marks is all that it takes. Everything below comes for free.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from suffice.audit import exercises
from suffice.audit import registry as audits
from suffice.audit.case import SOME, Case, claim, half, repeated
from suffice.audit.exercises import Exercise
from suffice.audit.scores import shift_score
from suffice.audit.search import Pair
from suffice.cli.main import app
from suffice.errors import BudgetError, ParameterError, UnsupportedFileError
from suffice.learner import fit as learners
from suffice.learner.fit import Learning
from suffice.options import REQUIRED, option
from suffice.owner import mechanism as mechanisms
from suffice.owner.labelled import LabelledPass, LabelMechanism, LabelProcedure
from suffice.owner.ledger import Ledger
from suffice.owner.mechanism import CLASSES, EPSILON
from suffice.privacy.noise import LaplaceNoise, Sensitivity
from suffice.registry import register
from suffice.releases import kinds
from suffice.releases.codec import decode, load
from suffice.releases.kinds import ArrayRule, DetailRule, Kind
from suffice.releases.merge import merge
from suffice.releases.release import Covariance, encode

# ---------------------------------------------------------------- begin: all that has to be written


STEPS = 2**20  # of a count: so fine that the lattice costs nothing that shows


def in_steps(counts):
    return STEPS * np.array(counts)


def noise_of(classes, epsilon):
    """Return the noise of counts in steps: one label moves one unit from a count to another."""
    return LaplaceNoise.calibrated(Sensitivity(2 * STEPS, 1.5 * STEPS, classes), epsilon)


class Counts(LabelledPass):
    """Counts the labels of each class; an accumulator."""

    def __init__(self, public, classes):
        super().__init__(public, classes)
        self.counts = np.zeros(len(classes), dtype=np.int64)

    def _take(self, columns, codes):  # noqa: ARG002
        self.counts += np.bincount(codes, minlength=len(self.counts))

    def merge(self, other):
        super().merge(other)
        self.counts += other.counts

    def result(self):
        return self.counts


@dataclass(frozen=True, eq=False)
class NoisyCounts(LabelProcedure[Counts]):
    """Class counts with Laplace noise."""

    kind = "class-counts"
    noise: LaplaceNoise

    def accumulator(self, *, identified):  # noqa: ARG002
        return Counts(self.public.rows, self.public.classes)

    def event(self, exact):  # noqa: ARG002
        return self.noise.event

    def contents(self, exact):
        counts = self.noise.add(in_steps(exact.result())) / STEPS
        return {"counts": counts}, {}, Covariance("identity", self.noise.variance / STEPS**2)


@dataclass(frozen=True)
class ClassCounts(LabelMechanism):
    """Protects each label: the number of rows of each class leaves with noise."""

    name = "class-counts"
    epsilon: float = option(REQUIRED, **EPSILON)
    classes: Sequence[Any] = option((0, 1), **CLASSES)

    def choose(self, public):
        noise = noise_of(len(public.classes), self.epsilon)
        return NoisyCounts(public, {"epsilon": self.epsilon}, noise)


KIND = Kind("class-counts", 1, title="noisy class counts of a table", noise_along="K",
            arrays={"counts": ArrayRule("float64", ("K",), merge="sum", noisy=True)},
            details={"classes": DetailRule("labels")})  # fmt: skip


def audit_cases():
    noise, stated = noise_of(2, 1.0), claim(noise_of(2, 1.0).event, 0.0)
    case = Case("class-counts", "class-counts", pairs=lambda _: [Pair((3, 2), (2, 3))],
                sample=lambda counts, times: repeated(noise, in_steps(counts), times),
                score=lambda pair: shift_score(noise, in_steps(pair.first), in_steps(pair.second)),
                samples=SOME, **stated)  # fmt: skip
    yield case
    yield case.broken_copy("half the noise", "the scale is half of what it must be",
                    sample=lambda c, times: repeated(half(noise), in_steps(c), times))  # fmt: skip


LEARNER = Learning(instead="class counts teach no classifier: read them with suffice inspect.")
EXERCISES = (Exercise("laplace", {"epsilon": 0.5}),)

# --------------------------------------------------------------------------- end: 80 lines at most


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register it for one test, and forget it afterwards."""
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    monkeypatch.setattr(mechanisms, "_MECHANISMS", dict(mechanisms._MECHANISMS))
    monkeypatch.setattr(audits, "_REGISTERED", dict(audits._REGISTERED))
    monkeypatch.setattr(exercises, "_REGISTERED", dict(exercises._REGISTERED))
    monkeypatch.setattr(learners, "_LEARNING", dict(learners._LEARNING))
    register(ClassCounts, KIND, audit_cases, LEARNER, EXERCISES)
    yield
    monkeypatch.undo()
    audits.read_again()


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Return a folder with a table of 60 patients, 40 of whom are ill."""
    monkeypatch.chdir(tmp_path)
    ages = np.random.default_rng(0).integers(20, 90, 60)
    pd.DataFrame({"age": ages, "ill": [0, 1, 1] * 20}).to_csv("patients.csv", index=False)
    return tmp_path


def run(words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


RELEASE = "release class-counts patients.csv --label ill --epsilon 50"


def test_it_takes_no_more_than_80_lines():
    lines = Path(__file__).read_text().splitlines()
    marks = [i for i, line in enumerate(lines) if line.startswith("# ------")]
    written = [line for line in lines[marks[0] + 1 : marks[1]] if line.strip()]
    assert len(written) <= 80


@pytest.mark.usefixtures("desk")
def test_the_ledger_pays_and_the_same_request_costs_nothing():
    run("ledger init l --dataset d --epsilon 60")
    run(f"{RELEASE} --ledger l --dataset d -o a.suffice")
    first = Path("a.suffice").read_bytes()
    run(f"{RELEASE} --ledger l --dataset d -o a.suffice --force")
    assert Path("a.suffice").read_bytes() == first
    release = load("a.suffice")
    np.testing.assert_allclose(release.arrays["counts"], [20, 40], atol=3)
    (entry,) = Ledger("l").history()
    assert (entry.state, entry.parameters["kind"]) == ("released", "class-counts")
    refused = CliRunner().invoke(app, f"{RELEASE} --ledger l --dataset d --request b -o b".split())
    assert isinstance(refused.exception, BudgetError)
    assert decode(encode(release)) == release


@pytest.mark.usefixtures("desk")
def test_inspect_says_what_it_holds_and_promises():
    run(f"{RELEASE} --no-ledger -o a.suffice")
    printed = run("inspect a.suffice")
    assert "noisy class counts of a table" in printed
    assert "Practically no protection (epsilon = " in printed
    assert json.loads(run("inspect a.suffice --json"))["kind"] == "class-counts"
    words = CliRunner().invoke(app, ["fit", "a.suffice", "-o", "m"])
    assert "teach no classifier" in str(words.exception)


@pytest.mark.usefixtures("desk")
def test_help_and_plan_know_its_options():
    assert "class-counts" in run("release --help")
    assert "--classes" in run("release class-counts --help")
    printed = run("plan class-counts patients.csv --label ill --epsilon 1 --epsilon 2")
    assert "label" in printed
    rows = json.loads(run("plan class-counts patients.csv --label ill --epsilon 1 --json"))["rows"]
    assert rows[0]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    words = "release class-counts patients.csv --label ill --missing never --no-ledger --epsilon 1"
    bad = CliRunner().invoke(app, [*words.split(), "-o", "x"])
    assert isinstance(bad.exception, ParameterError)


def test_two_owners_merge_as_the_kind_says():
    first, second = (
        ClassCounts(50.0).release(np.arange(n)[:, None] + shift, [0, 1] * (n // 2), ledger=None)
        for n, shift in ((20, 0.0), (40, 0.5))
    )
    pipeline = first.pipeline
    second = ClassCounts(50.0, pipeline=pipeline).release(
        np.arange(40)[:, None] + 0.5, [0, 1] * 20, ledger=None
    )
    both = merge([first, second])
    np.testing.assert_allclose(both.arrays["counts"], [30, 30], atol=4)
    assert both.noise.variance == pytest.approx(first.noise.variance + second.noise.variance)


@pytest.mark.usefixtures("desk")
def test_the_auditor_attacks_it_and_finds_the_broken_copy():
    done = CliRunner().invoke(app, ["audit", "class-counts", "--json"])
    results = json.loads(done.stdout)["results"]
    assert done.exit_code == 0
    assert [item["violated"] for item in results] == [False, True]
    assert results[0]["tightness"] > 0.7


@pytest.mark.usefixtures("desk")
def test_its_public_part_is_checked_and_a_leak_beside_the_noise_is_found(monkeypatch):
    assert run("audit --compare releases class-counts --effort 0.1") == "no difference in 6 pairs\n"

    def leaky(self, exact):
        counts = self.noise.add(in_steps(exact.result())) / STEPS
        told = Covariance("identity", self.noise.variance + int(exact.result()[0]))
        return {"counts": counts}, {}, told

    monkeypatch.setattr(NoisyCounts, "contents", leaky)
    printed = run("audit --compare releases class-counts --effort 0.03", code=1)
    assert "the public part differs: pair 0 of seed 0, class-counts (laplace)" in printed


def test_a_mechanism_that_nobody_can_exercise_is_an_error(monkeypatch):
    monkeypatch.delitem(exercises._REGISTERED, "class-counts")
    with pytest.raises(ParameterError, match=r"'class-counts' .* Add one with register_exercises"):
        exercises.exercises_of()
    with pytest.raises(ParameterError, match="already"):
        exercises.register_exercises("rados", EXERCISES)


@pytest.mark.usefixtures("desk")
def test_files_of_a_kind_that_nobody_registered_are_refused(monkeypatch):
    run(f"{RELEASE} --no-ledger -o a.suffice")
    known = {name: kind for name, kind in kinds.KINDS.items() if name != "class-counts"}
    monkeypatch.setattr(kinds, "KINDS", known)
    with pytest.raises(UnsupportedFileError, match="of kind"):
        load("a.suffice")
    with pytest.raises(ParameterError, match="already"):
        mechanisms.register_mechanism(ClassCounts)


def test_a_statistic_that_does_not_say_how_it_merges_cannot_be_made():
    class Forgetful(LabelledPass):  # its counts of all parts but the first would be lost
        _take = result = None

    with pytest.raises(TypeError, match="merge"):
        Forgetful(None, (0, 1))
