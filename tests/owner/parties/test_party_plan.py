"""The forecast for many parties: bounds that hold, and verdicts that follow from the numbers."""

import math

import numpy as np
import pytest
from scipy import stats

from builders import auxiliary_rows
from suffice.errors import ParameterError
from suffice.owner.parties.ensemble import PrivateEnsemble, plan_parties, theorem_4
from suffice.owner.parties.gathering import Enrolled


def printed(parties: int, rows: int, features: int, epsilon: float, lam: float) -> float:
    """Return Theorem 4 of Hamm et al. 2016 as it is printed, without its last term."""
    noise = 4 * features**2 * (0.25 + lam) * math.log(features / 0.05) ** 2
    noise /= (lam * parties * epsilon) ** 2
    return noise + 16 * (32 + math.log(1 / 0.05)) / (lam * rows)


def test_theorem_4_corrected_is_below_the_printed_one():
    for parties, features, epsilon in ((100, 5, 1.0), (1000, 50, 0.1)):
        rows, lam = 10**12, 1e-2  # so many rows that the noise's term is what is left
        corrected = theorem_4(parties, rows, features, classes=2, epsilon=epsilon, lam=lam)
        assert corrected < printed(parties, rows, features, epsilon, lam) / 4


def test_the_noise_of_theorem_4_is_exceeded_as_often_as_is_said():
    rng = np.random.default_rng(0)
    parties, features, lam, epsilon = 100, 8, 0.1, 2.0
    scale = 1 / (lam * parties * epsilon)
    radius = rng.gamma(features, scale, 20_000)  # density exp(-||eta|| / scale)
    bound = theorem_4(parties, 10**15, features, classes=2, epsilon=epsilon, lam=lam)
    exceeded = int(((0.25 + lam) * radius**2 > bound).sum())
    assert stats.binomtest(exceeded, 20_000, 0.05).pvalue > 1e-6


def test_a_plan_knows_the_noise_of_the_release():
    """Whitened noise has covariance (r z/M)^2 S, in the plan and in the release."""
    aux = auxiliary_rows(200)
    for classes, factor in ((2, 2.0), (3, math.sqrt(2))):
        ensemble = PrivateEnsemble(0.7, 1e-5, classes=tuple(range(classes)))
        dense = ensemble.procedure(aux, Enrolled(90)).covariance().dense(4)
        moment = aux.rows.T @ aux.rows / 200
        z = ensemble.guarantees(aux, enrolled=90)[0].event.multiplier
        expected = (factor * z / 90) ** 2 * moment
        assert np.linalg.norm(dense - expected) < 1e-4 * np.linalg.norm(expected)


def test_more_parties_and_more_epsilon_predict_more():
    def usual(parties: int, epsilon: float) -> float:
        plan = plan_parties(parties, epsilon, 1e-5, rows=500, features=20)
        return plan.rows[0]["accuracy"]["usual"]

    assert usual(50, 1.0) < usual(500, 1.0) < usual(500, 10.0) + 1e-9
    exact = plan_parties(10**7, 1.0, rows=500, features=20).facts["without_noise"]["usual"]
    assert usual(10**7, 1.0) == pytest.approx(exact, abs=1e-3)


def test_a_plan_is_a_table_and_words():
    plan = plan_parties(20, [0.5, 1.0], 1e-5, rows=300, features=10)
    assert len(plan.cells()) == 9
    assert all(len(line) == len(plan.columns) for line in plan.cells())
    assert str(plan).count("out of reach") == 2
    assert plan.to_json()["in_reach"] == [False, False]
    more, fewer = plan.facts["parties_needed"]
    assert more > fewer
    pure = plan_parties(20, 1.0, 0.0, rows=300, features=10)
    assert pure.facts["parties_needed"][0] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": None},
        {"features": 0},
        {"classes": 1},
        {"samples": 0},
        {"parties": 0},
        {"epsilon": []},
    ],
)
def test_a_plan_needs_numbers(wrong):
    good = {"parties": 20, "epsilon": 1.0, "rows": 300, "features": 10}
    with pytest.raises(ParameterError):
        plan_parties(**{**good, **wrong})


@pytest.mark.parametrize("wrong", [{"lam": 0.0}, {"lam": -1.0}, {"delta": -1.0}, {"epsilon": 0.0}])
def test_an_impossible_plan_is_refused(wrong):
    with pytest.raises(ParameterError, match="must"):
        plan_parties(**({"parties": 20, "epsilon": 1.0, "rows": 300, "features": 10} | wrong))
