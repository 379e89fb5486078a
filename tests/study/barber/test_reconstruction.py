"""Objectives of reconstruction against their definitions; Figure 1 end to end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suffice.papers.barber import likelihood_limit, reconstruction_limit
from suffice.papers.reproduce import reproduce

shares = st.floats(0.01, 0.99)
flips = st.floats(0.01, 0.45)


@given(theta=shares, true=shares, p=flips)
def test_the_reconstruction_objective_is_equation_38(theta, true, p):
    total = 0.0
    for answer in (0, 1):
        noise = [p if answer else 1 - p, 1 - p if answer else p]  # of x = 0, of x = 1
        model, law = [1 - theta, theta], [1 - true, true]
        evidence = sum(a * b for a, b in zip(noise, model, strict=True))
        chance = sum(a * b for a, b in zip(noise, law, strict=True))
        total += chance * sum(noise[x] * model[x] / evidence * np.log(model[x]) for x in (0, 1))
    assert reconstruction_limit(np.array([theta]), true, p)[0] == pytest.approx(total, rel=1e-9)


@given(true=shares, p=flips)
def test_the_reconstruction_is_best_at_the_ends_and_the_likelihood_at_the_truth(true, p):
    grid = np.linspace(0, 1, 501)
    values = reconstruction_limit(grid, true, p)
    assert values[0] == values[-1] == 0
    assert values[1:-1].max() < 0
    likelihood = likelihood_limit(np.append(grid, true), true, p)
    assert likelihood[:-1].max() <= likelihood[-1] + 1e-12


@given(true=shares)
def test_without_noise_the_reconstruction_is_the_plain_likelihood(true):
    grid = np.linspace(0.01, 0.99, 99)
    likelihood = true * np.log(grid) + (1 - true) * np.log(1 - grid)
    assert np.allclose(reconstruction_limit(grid, true, 0.0), likelihood)
    assert np.allclose(likelihood_limit(grid, true, 0.0), likelihood)


def test_figure_1_is_straight_without_noise_only():
    result = reproduce(["spread-reconstruction"])["spread-reconstruction"]
    values = result.values
    assert [statement.verdict for statement in result.compared] == [
        "straight, as the paper says",
        *["not straight, as the paper says"] * 5,
    ]
    truth = np.array(values["true"])
    for curve in values["curves"].values():
        assert np.allclose(curve["spread"], truth, atol=1e-9)
    noisy = values["curves"]["0.05"]
    sides = truth != 0.5
    assert np.array_equal(np.round(noisy["reconstruction"])[sides], np.round(truth)[sides])
    inner = {round(t, 2): theta for t, theta in zip(truth, noisy["inner"], strict=True)}
    assert inner[0.4] == pytest.approx(0.367, abs=0.002)
    assert inner[0.2] is None
    assert set(values["curves"]["0.2"]["inner"]) == {None}
