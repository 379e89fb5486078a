"""Figures show their panels and no others, and go to files of known kinds."""

from types import SimpleNamespace

import pytest

from suffice.errors import ParameterError
from suffice.pages.plots import check_plot, draw_plan, figure_svg


def test_a_figure_has_as_many_panels_as_drawings():
    for count in (1, 2, 3):
        svg = figure_svg(*[lambda axes: axes.plot([0, 1], label="line")] * count)
        assert svg.startswith("<svg")
        assert svg.count('id="matplotlib.axis_') == 2 * count
        assert svg.count('id="legend_1"') == 1


def test_a_plot_goes_to_a_file_whose_ending_says_how(tmp_path):
    for name in ("a.svg", "a.PNG", "a.pdf"):
        check_plot(tmp_path / name)
    with pytest.raises(ParameterError, match=r"ends in \.svg, \.png, \.pdf"):
        check_plot(tmp_path / "a.gif")


def test_a_plan_is_drawn_with_every_mechanism_and_a_band(tmp_path):
    curves = SimpleNamespace(
        epsilons=[0.5, 1.0],
        series={name: [(0.5, 0.7), (1.0, 0.75)] for name in ("a", "b")},
        band_name="auto, from hard to easy problems",
        band=[(0.6, 0.8), (0.65, 0.85)],
        without_noise=0.8,
        y_label="predicted accuracy",
    )
    draw_plan(curves, tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text()
    for label in ("<!-- a -->", "<!-- b -->", "<!-- auto, from hard to easy problems -->"):
        assert label in text
