"""Pictures come with what each pixel and each picture is promised."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from suffice.errors import TableError
from suffice.papers import barber
from suffice.papers.reproduce import reproduce


def test_pictures_come_with_what_each_pixel_and_each_picture_is_promised(
    tmp_path, draw_pictures, rng
):
    """At full size: the epsilon of a few Gaussian pixels takes longer than that of many."""
    pq.write_table(draw_pictures(rng, side=28), tmp_path / "mnist.parquet")
    result = reproduce(["spread-pictures"], folder=tmp_path)["spread-pictures"]
    assert len(result.figures) == 2
    assert all("data:image/png;base64," in figure.drawing for figure in result.figures)
    assert len(result.compared) == 6
    promises = {name: epsilons for name, *epsilons in result.values["promises"]}
    pixel, picture = promises["p_f = 0.2"]
    assert float(pixel) == pytest.approx(np.log(0.8 * 255 / 0.2), abs=0.01)
    assert picture == f"{784 * np.log(0.8 * 255 / 0.2) + np.log(4):,.0f}"


def test_pictures_are_square(tmp_path, draw_pictures, rng):
    pq.write_table(draw_pictures(rng).drop_columns(["f0"]), tmp_path / "mnist.parquet")
    with pytest.raises(TableError, match="8 pixels do not make a square"):
        reproduce(["spread-pictures"], folder=tmp_path)


def test_what_was_drawn_is_judged():
    assert barber._agrees("share", 0.3, 0.33, 0.01).verdict == "as stated"
    assert barber._agrees("share", 0.3, 0.35, 0.01).verdict == "too far off"
    assert barber._agrees("share", 0.3, 0.25, 0.01).verdict == "too far off"
