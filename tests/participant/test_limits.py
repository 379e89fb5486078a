"""A number that is sent lies where its range and noise can bring it, on both sides of the wire."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from suffice import participant
from suffice.errors import CorruptFileError, ReleaseError
from suffice.learner.spread import SpreadClassifier
from suffice.owner.responses import Lattice
from suffice.owner.survey import collect, new_survey
from suffice.participant import Number, respond
from suffice.releases.codec import decode
from suffice.releases.columns import Added
from suffice.releases.release import Release, encode

CASES = [(0, 120, 900.0), (-1, 1, 16.0), (-3, 17, 1.7), (0, 1, 4e9), (5, 6, 1e-6)]


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize(("low", "high", "variance"), CASES)
def test_the_limits_are_those_of_an_owners_records(kernel, low, high, variance):
    number, added = Number(low, high, kernel, variance), Added(low, high, kernel, variance)
    assert number.limits == added.limits == Lattice.of(added).limits


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_an_honest_answer_lies_outside_once_in_2_to_the_64(kernel):
    number = Number(0, 120, kernel, 14400.0)
    far = number.limits[1] - 120
    law = stats.norm(scale=120) if kernel == "gaussian" else stats.laplace(scale=120 / math.sqrt(2))
    assert 2 * law.sf(far - number.step) < 2.0**-64
    assert 2 * law.sf(far / 1.35) > 2.0**-64  # and they are not much wider than that
    assert number.limits[0] == pytest.approx(-far)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("noise", [10**30, -(10**30)])
def test_what_would_leave_the_limits_is_held_to_them(monkeypatch, kernel, noise):
    monkeypatch.setattr(participant, f"_{kernel}", lambda _: noise)
    number = Number(0, 120, kernel, 14400.0)
    answer = number.draw(number.locate(44))
    assert number.fits(answer)
    end = number.limits[noise > 0]
    assert abs(answer - end) < number.step


def test_an_owners_cells_are_held_to_them_too():
    lattice = Lattice.of(Added(0.0, 120.0, "laplace", 14400.0))
    values = lattice.randomise(np.array([2**40, -(2**40), 5]))
    for value, end in zip(values, (lattice.limits[1], lattice.limits[0]), strict=False):
        assert abs(value - end) < lattice.step
        assert lattice.limits[0] <= value <= lattice.limits[1]


STRANGE = [2.0**1000, -(2.0**1000), 1e308, 10**400, 2**70, 1e5, math.nan, math.inf, -math.inf,
           True, False, "44", "0x1p10", None, [1.0], {"a": 1}, 0.1]  # fmt: skip


@pytest.mark.parametrize("answer", STRANGE, ids=str)
def test_what_no_honest_program_sends_does_not_fit(answer):
    assert not Number(0, 120, "laplace", 14400.0).fits(answer)


def survey():
    return new_survey(
        "T", states={"ill": ["no", "yes"]}, ranges={"age": (0, 120)}, flip=0.2, noise=14400.0
    )


def sheets(folder, made, count):
    rng = np.random.default_rng(0)
    paths = []
    for place in range(count):
        age = float(rng.uniform(20, 80))
        ill = "yes" if rng.random() < age / 100 else "no"
        paths.append(folder / f"{place}.json")
        paths[-1].write_bytes(respond(made, {"ill": ill, "age": age}, None)[0])
    return paths


def rewritten(path, value) -> None:
    sheet = json.loads(path.read_bytes())
    sheet["answers"]["age"] = value
    path.write_text(json.dumps(sheet))


@pytest.mark.parametrize("answer", STRANGE, ids=str)
def test_a_made_up_number_is_named_by_its_file_and_nothing_is_released(tmp_path, answer):
    example = survey()
    paths = sheets(tmp_path, example, 3)
    rewritten(paths[1], answer)
    with pytest.raises(ReleaseError, match=r"1 of 3 .*1\.json: ") as caught:
        collect(example, paths)
    assert "0.json" not in str(caught.value)
    if isinstance(answer, float) and math.isfinite(answer):
        assert "'age' cannot have come from this survey: it must be a multiple of" in str(
            caught.value
        )
        assert "between -3903.2" in str(caught.value)


@pytest.mark.parametrize("side", [0, 1])
def test_one_liar_of_401_moves_a_model_by_what_the_limits_allow(tmp_path, side):
    example = survey()
    paths = sheets(tmp_path, example, 401)
    honest = SpreadClassifier().fit_release(collect(example, paths))
    noise = example.noises["age"]
    rewritten(paths[200], math.trunc(noise.limits[side] / noise.step) * noise.step)
    model = SpreadClassifier().fit_release(collect(example, paths))
    for fitted in (honest, model):
        assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(fitted.decision_function(pa.table({"age": [44.0]}))).all()


@pytest.mark.parametrize("value", [2.0**1000, 1e308, 4100.0, -4100.0, math.nan])
def test_a_strangers_release_with_such_a_number_is_not_loaded(tmp_path, value):
    example = survey()
    release = collect(example, sheets(tmp_path, example, 5))
    assert decode(encode(release)) == release
    values = release.arrays["values"].copy()
    values[2, 0] = value
    with pytest.raises(CorruptFileError, match="its declared range and noise cannot give"):
        Release(**{**vars(release), "arrays": {**release.arrays, "values": values}})


@pytest.mark.parametrize(
    "limits", [(-1e308, 1e308, 1.0), (0.0, 1e200, 1e300), (0.0, 1.0, 1e-300), (0.0, 1.0, 1e300)]
)
def test_a_range_that_no_arithmetic_bears_is_refused(limits):
    with pytest.raises(ValueError, match="too large or too small"):
        Added(*limits[:2], "laplace", limits[2])
