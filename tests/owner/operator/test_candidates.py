"""The way to release is chosen from public rows: which wins where, and that no label is read."""

import dataclasses
import math

import numpy as np
import pyarrow as pa
import pytest

from suffice.engines.engine import fold
from suffice.errors import ParameterError
from suffice.owner.forecast import Utility
from suffice.owner.mean_operator import (
    MOST_STATES,
    Candidate,
    Candidates,
    MeanOperator,
    Shape,
    choose,
    paired_transform,
)
from suffice.owner.source import PublicSource, Source, labelled_batches
from suffice.privacy.noise import NOISES
from suffice.privacy.response import Response

rng = np.random.default_rng(4)
WIDE = rng.normal(size=(100, 200))
LONG = rng.normal(size=(3000, 100))
SMALL = rng.normal(size=(2000, 5))
UNEVEN = rng.normal(size=(3000, 1)) * rng.normal(size=100) + rng.normal(size=(3000, 100)) / 2


def candidates_of(
    rows: np.ndarray, epsilon: float, delta: float = 0.0, classes: int = 2, name="auto"
):
    public = MeanOperator(epsilon=epsilon, map=None).public_rows(rows)
    return Candidates(public, classes).every(name, epsilon, delta)


def best_of(offered: list[Candidate]) -> dict[str, float]:
    """Return the largest correlation of each mechanism."""
    return {
        name: max(c.utility.correlation for c in offered if c.mechanism == name)
        for name in {c.mechanism for c in offered}
    }


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_and_many_columns_are_best_released_as_randomised_labels(delta):
    assert choose(candidates_of(WIDE, 1.0, delta)).mechanism == "response"


def test_many_rows_and_few_columns_are_best_released_as_sums():
    for delta in (0.0, 1e-6):
        assert choose(candidates_of(SMALL, 1.0, delta)).mechanism in NOISES


def test_in_many_dimensions_gaussian_noise_beats_laplace():
    by_name = best_of(candidates_of(LONG, 1.0, 1e-6))
    assert by_name["gaussian"] > 1.3 * by_name["laplace"]
    assert choose(candidates_of(LONG, 1.0, 1e-6)).mechanism == "gaussian"


def test_without_delta_there_is_no_gaussian_noise_and_every_other_mechanism():
    assert set(best_of(candidates_of(SMALL, 1.0))) == {"laplace", "knorm", "response"}
    assert set(best_of(candidates_of(SMALL, 1.0, 1e-6))) == {
        "laplace",
        "knorm",
        "gaussian",
        "response",
    }
    assert set(best_of(candidates_of(SMALL, 1.0, name="laplace"))) == {"laplace"}
    with pytest.raises(ParameterError, match="mechanism must be"):
        MeanOperator(1.0, mechanism="magic", map=None)


def test_more_epsilon_never_predicts_less():
    offered = [best_of(candidates_of(LONG, epsilon, 1e-6)) for epsilon in (0.1, 1.0, 10.0)]
    for name in offered[0]:
        assert offered[0][name] < offered[1][name] < offered[2][name] * (1 + 1e-9)


def candidate(mechanism: str, rho: float) -> Candidate:
    return Candidate(mechanism, 1.0, 0.1, Utility(rho, {"usual": 0.5}, 0.1, 1.0))


def test_noise_on_sums_gives_way_only_to_labels_that_are_clearly_better():
    laplace, other = candidate("laplace", 0.40), candidate("knorm", 0.401)
    assert choose([laplace, other]) is other
    for rho, wins in ((0.402, False), (0.410, True)):
        rival = candidate("response", rho)
        assert (choose([laplace, other, rival]) is rival) == wins
    only = candidate("response", 0.1)
    assert choose([only]) is only


def test_noise_is_even_also_where_one_direction_has_most_of_the_rows():
    (even,) = candidates_of(UNEVEN, 1.0, name="laplace")
    labels = np.arange(len(UNEVEN)) % 2
    release = MeanOperator(epsilon=1.0, mechanism="laplace", map=None).release(
        UNEVEN, labels, ledger=None
    )
    assert release.noise.form == "identity"
    assert (
        MeanOperator(epsilon=1.0, mechanism="laplace", map=None).forecast(UNEVEN).utility
        == even.utility
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_variance_of_responses_is_that_of_the_formula(epsilon):
    (candidate,) = candidates_of(SMALL, epsilon, name="response")
    rows, count = MeanOperator(epsilon=1.0, map=None).public_rows(SMALL).sample()
    q = Response.from_epsilon(2, epsilon).matrix[0, 1]
    variance = 4 * q * (1 - q) / (1 - 2 * q) ** 2 * np.mean(rows**2) / count
    assert candidate.deviation == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_the_variance_of_responses_of_three_classes_has_the_right_trace():
    """The trace over all columns of M does not depend on the labels: here it is simulated."""
    (candidate,) = candidates_of(SMALL, 1.0, classes=3, name="response")
    rows, count = MeanOperator(epsilon=1.0, map=None).public_rows(SMALL).sample()
    channel = Response.from_epsilon(3, 1.0).matrix
    local = np.random.default_rng(0)
    answers = local.choice(3, size=(400, count), p=channel[:, 1])  # all labels are the second class
    weights = np.linalg.inv(channel).T[answers]  # (400, count, 3)
    operators = np.einsum("rik,id->rdk", weights, rows) / count
    power = operators.var(axis=0).sum() / (rows.shape[1] * 3)
    assert candidate.deviation**2 == pytest.approx(power, rel=6 * math.sqrt(2 / (400 * 2)))


def test_too_many_classes_leave_no_response():
    assert "response" not in best_of(candidates_of(SMALL, 1.0, classes=MOST_STATES + 1))
    with pytest.raises(ParameterError, match="at most 256 classes"):
        choose(candidates_of(SMALL, 1.0, classes=MOST_STATES + 1, name="response"))


def test_a_direction_that_hardly_any_row_has_makes_no_shape():
    """The integer matrix of such a shape could not be inverted."""
    public = MeanOperator(epsilon=1.0, intercept=0.0, map=None).public_rows(SMALL)
    odd = dataclasses.replace(public.pipeline, bound=2.0**60, scale=public.pipeline.scale / 2**40)
    offered = Candidates(dataclasses.replace(public, pipeline=odd), 2).every("laplace", 1.0, 0.0)
    assert all(math.isfinite(c.utility.correlation) for c in offered)
    for candidate in offered:
        if candidate.shape is not None:
            assert np.linalg.cond(candidate.shape.matrix) < 2.0**12


def test_no_label_is_read_for_a_choice():
    """A column of nothing, of one class or of chance: the forecast is the same object."""
    labels = [
        pa.nulls(len(SMALL), pa.int64()),
        pa.array(np.ones(len(SMALL), dtype=int)),
        pa.array((SMALL[:, 0] > 0).astype(int)),
        pa.array(["no class"] * len(SMALL)),
    ]
    features = {f"x{j}": SMALL[:, j] for j in range(5)}
    forecasts = [
        MeanOperator(epsilon=1.0, delta=1e-6, map=None).forecast(
            pa.table({**features, "secret": label}), label="secret"
        )
        for label in labels
    ]
    assert all(forecast == forecasts[0] for forecast in forecasts[1:])


def test_the_choice_is_the_same_whatever_the_labels_are():
    operator = MeanOperator(epsilon=1.0, delta=1e-6, map=None)
    chosen = {
        operator.release(SMALL, labels, ledger=None).details["mechanism"]
        for labels in ((SMALL[:, 0] > 0).astype(int), np.ones(len(SMALL), dtype=int))
    }
    assert chosen == {operator.forecast(SMALL).mechanism}


# --- the larger class on few rows

FEW = rng.normal(size=(300, 6))


def best_for(rows: np.ndarray, epsilon: float, name: str = "auto", **options) -> Candidate:
    public = MeanOperator(epsilon=epsilon, **{"map": None, **options}).public_rows(rows)
    return Candidates(public, 2).best(name, epsilon, options.get("delta", 0.0))


@pytest.mark.parametrize("name", ["auto", "sums"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_on_few_rows_the_intercept_is_released_with_a_direction(name, delta):
    public = MeanOperator(0.1, map=None).public_rows(FEW)
    every = Candidates(public, 2)
    best = every.best(name, 0.1, delta)
    weight = public.pipeline.intercept
    assert (best.mechanism, best.paired, best.counted) == ("laplace", True, 0.0)
    # Two sums of Laplace noise that a label moves by 2 together, and 2 % for all the others.
    deviation = math.sqrt(best.intercept_variance) / weight
    assert 4 / 30 <= deviation <= 1.02 * 4 / 30
    even = choose(every.every(name, 0.1, delta))
    assert math.sqrt(even.intercept_variance) / weight > 0.5


@pytest.mark.parametrize("name", ["auto", "sums"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_on_fewer_rows_the_intercept_has_a_part_of_epsilon_for_itself(name, delta):
    public = MeanOperator(0.05, map=None).public_rows(FEW)
    every = Candidates(public, 2)
    best = every.best(name, 0.05, delta)
    # Laplace noise of 0.95 of epsilon on a sum that a label moves by 2.
    assert (best.mechanism, best.paired, best.counted) == ("laplace", False, 0.95)
    deviation = math.sqrt(best.intercept_variance) / public.pipeline.intercept
    assert deviation == pytest.approx(math.sqrt(8) / (15 * 0.95), rel=0.01)


def test_the_count_stays_sure_where_other_directions_are_released_too():
    public = MeanOperator(0.4, map=None).public_rows(FEW)
    best = Candidates(public, 2).best("auto", 0.4, 0.0)
    assert best.paired
    assert math.sqrt(best.intercept_variance) / public.pipeline.intercept <= 0.1


def test_where_rows_are_not_so_few_the_better_prediction_wins():
    """An intercept that is unsure (0.117), and even noise that predicts more of a usual signal."""
    offered = Candidates(MeanOperator(0.5, map=None).public_rows(FEW), 2)
    best = offered.best("auto", 0.5, 0.0)
    transform = paired_transform(offered._signal, 0.5, 0.1, 0.2)
    pair = offered._shaped_laplace(0.5, Shape.of(transform))
    assert math.sqrt(best.intercept_variance) > 0.1 * offered._weight
    assert not is_special(best)
    assert offered._captured(best) > offered._captured(pair)
    mixing = np.random.default_rng(5).normal(size=(6, 60))
    rows = FEW @ np.diag([20.0, 1, 1, 1, 1, 1]) @ mixing  # one large direction
    offered = Candidates(MeanOperator(0.5, map=None).public_rows(rows), 2)
    best, even = offered.best("auto", 0.5, 0.0), choose(offered.every("auto", 0.5, 0.0))
    assert best.paired
    assert offered._captured(best) > offered._captured(even)


def is_special(candidate: Candidate) -> bool:
    return candidate.paired or candidate.counted > 0


def test_where_rows_are_many_or_someone_else_chose_it_has_none():
    assert not is_special(best_for(SMALL, 0.5))
    assert not is_special(best_for(FEW, 10.0))
    assert not is_special(best_for(FEW, 0.1, intercept=0.0))
    for name in ("laplace", "knorm", "response"):
        assert not is_special(best_for(FEW, 0.1, name))
    assert best_for(FEW, 0.02).counted == 0.95


@pytest.mark.parametrize(("epsilon", "form"), [(0.05, "diagonal"), (0.1, "factor")])
@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_such_a_release_has_the_noise_that_it_states_and_the_guarantee_that_was_asked_for(
    classes, epsilon, form
):
    """Means of 300 squares of Laplace noise: within 5 standard errors of 13 % (1 in 10^6)."""
    labels = np.random.default_rng(1).integers(len(classes), size=300)
    mechanism = MeanOperator(epsilon, classes=classes, map=None)
    release = mechanism.release(FEW, labels, ledger=None)
    (guarantee,) = release.guarantees
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 0.0)
    assert release.details["mechanism"] == "laplace"
    assert release.noise.form == form
    public = mechanism.public(PublicSource(FEW, labels))
    procedure, rows = mechanism.choose(public), public.rows
    exact = procedure.accumulator(identified=False)
    fold(labelled_batches(rows.table, rows.roles, classes, Source(None, labels)), exact)
    drawn = np.array([procedure.contents(exact)[0]["mean_operator"] for _ in range(300)])
    truth = MeanOperator(1e6, classes=classes, mechanism="laplace", map=None).release(
        FEW, labels, ledger=None
    )
    squares = ((drawn - truth.arrays["mean_operator"]) ** 2).mean(axis=0)
    squares = squares.reshape(len(squares), -1).mean(axis=1)
    assert squares == pytest.approx(release.noise.diagonal(len(squares)), rel=0.65)
    assert squares[-1] < squares[:-1].min() / 50


@pytest.mark.parametrize(("epsilon", "paired"), [(0.05, False), (0.1, True)])
def test_a_plan_shows_what_a_release_would_do(epsilon, paired):
    plan = MeanOperator(epsilon, map=None).plan(PublicSource(FEW), [epsilon])
    (chosen,) = plan.chosen
    best = Candidates(MeanOperator(epsilon, map=None).public_rows(FEW), 2).best(
        "auto", epsilon, 0.0
    )
    assert (best.paired, best.counted > 0) == (paired, not paired)
    assert (chosen["noise"], chosen["accuracy"]) == (best.deviation, best.utility.accuracy)
    forecast = MeanOperator(epsilon, map=None).forecast(FEW)
    assert forecast.mechanism == "laplace"
    assert forecast.noise_deviation == pytest.approx(best.deviation, rel=0.01)
    rare = MeanOperator(epsilon, balance=0.1, map=None).plan(PublicSource(FEW), [epsilon])
    assert rare.chosen[0]["noise"] == pytest.approx(best.deviation, rel=1e-9)


@pytest.mark.parametrize("mechanism", ["auto", "sums", "laplace", "gaussian", "knorm"])
@pytest.mark.parametrize("rows", [WIDE, LONG[:60], UNEVEN], ids=["wide", "few", "uneven"])
def test_with_a_given_pipeline_the_noise_is_even(rows, mechanism):
    """What is merged must not give up the directions that other owners need."""
    pipeline = MeanOperator(epsilon=1.0, map=None).public_rows(rows).pipeline
    asked = MeanOperator(1.0, 1e-6, mechanism, pipeline=pipeline)
    best = asked.choose(asked.public(PublicSource(rows))).best
    assert (best.mechanism in NOISES, best.shape) == (True, None)
    plan = asked.plan(PublicSource(rows))
    at_one = next(row for row in plan.chosen if row["epsilon"] == 1.0)
    assert (at_one["mechanism"], at_one["noise"]) == (best.mechanism, best.deviation)


def test_without_one_these_rows_would_have_other_noise():
    best = [
        Candidates(MeanOperator(1.0, map=None).public_rows(rows), 2).best("auto", 1.0, 1e-6)
        for rows in (WIDE, LONG[:60])
    ]
    assert all(each.shape is not None or each.mechanism == "response" for each in best)
