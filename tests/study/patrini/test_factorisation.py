"""Of the printed losses only the hinge does not factor."""

import pytest

from suffice.papers.reproduce import reproduce


def test_only_the_hinge_does_not_factor():
    losses = dict(reproduce(["factorisation"])["factorisation"].values["losses"])
    hinge = losses.pop("hinge")
    assert hinge["odd_deviation"] > 0.1
    assert hinge["even_difference"] is None
    slopes = {"logistic": 1, "square": 4, "matsushita": 2, "linear": 2, "rho": 1}
    assert {name: factors["a"] for name, factors in losses.items()} == pytest.approx(slopes)
    for factors in losses.values():
        assert factors["odd_deviation"] <= 1e-8
        assert factors["even_difference"] <= 1e-8
