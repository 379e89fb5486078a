"""Figures show their panels, can be read in any colour scheme, and go to files of known kinds."""

import re
from types import SimpleNamespace

import pytest

from suffice.errors import ParameterError
from suffice.pages.plots import check_plot, draw_panels, draw_plan, draw_proportions, draw_utility


def test_a_figure_has_as_many_panels_as_drawings_and_one_legend():
    for count in (1, 2, 3):
        drawing = draw_panels(*[lambda axes: axes.plot([0, 1], label="a < b")] * count)
        legend, _, panels = drawing.partition('<div class="panels')
        assert panels.startswith(" single" if count == 1 else '">')
        assert panels.count("<svg") == count
        assert panels.count('id="matplotlib.axis_') == 2 * count
        assert legend.count("<svg") == 1
        assert "a &lt; b</span>" in legend


def test_the_same_drawing_gives_the_same_bytes():
    drawings = {draw_panels(lambda axes: axes.plot([0, 1], "o-", label="x")) for _ in range(2)}
    assert len(drawings) == 1


def draw_accuracies(axes) -> None:
    curves = {"auto": [[0.5], [0.6]], "b": [[0.5], [0.7]]}
    draw_utility(axes, (0.1, 1.0), curves, without_privacy=0.8, larger_class=0.5)


def draw_intervals(axes) -> None:
    draw_proportions(axes, ["x"], [0.5], [0.6], low=[0.4], high=[0.6])


def test_drawings_have_no_background_and_nothing_black_or_white():
    drawing = draw_panels(draw_accuracies, draw_intervals)
    assert drawing.count('<svg fill="currentColor"') == drawing.count("<svg")
    assert "currentColor" in drawing
    assert not re.search(r"#000000|#ffffff|fill: (black|white)", drawing)
    background = re.search(r'<g id="patch_1">\s*<path [^>]*style="([^"]*)"', drawing)
    assert "fill: none" in background[1]


def test_a_plot_goes_to_a_file_whose_ending_says_how(tmp_path):
    for name in ("a.svg", "a.PNG", "a.pdf"):
        check_plot(tmp_path / name)
    with pytest.raises(ParameterError, match=r"must end in one of \.svg, \.png, \.pdf"):
        check_plot(tmp_path / "a.gif")


def test_a_plan_is_drawn_with_every_mechanism_and_a_band(tmp_path):
    curves = SimpleNamespace(
        series={name: [(0.5, 0.7), (1.0, 0.75)] for name in ("a", "b")},
        band=[(0.5, 0.6, 0.8), (1.0, 0.65, 0.85)],
        without_noise=0.8,
    )
    draw_plan(curves, tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text()
    for label in ("<!-- a -->", "<!-- b -->", "<!-- auto, from hard to easy problems -->"):
        assert label in text
