"""What `suffice.load` returns of a model file: a release in every respect, which predicts."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import suffice
from builders import clinic_table
from suffice.errors import ParameterError
from suffice.learner.fit import fit, model_of, release_of
from suffice.learner.model_file import LoadedModel, load
from suffice.releases import codec
from suffice.releases.release import Release

FILES = Path(__file__).parents[1] / "fixtures"
NEW = clinic_table(50, seed=1)


@pytest.mark.parametrize("name", ["responses", "rados"])
def test_a_loaded_model_predicts_as_the_fitted_one(name, tmp_path):
    model = fit(codec.load(FILES / f"{name}.suffice"))
    release_of(model).save(tmp_path / "m.suffice")
    loaded = suffice.load(tmp_path / "m.suffice")
    assert isinstance(loaded, LoadedModel)
    assert np.array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded.model.gives_probabilities == model.gives_probabilities
    if model.gives_probabilities:
        assert np.allclose(loaded.predict_proba(NEW), model.predict_proba(NEW), rtol=1e-12)
    else:  # the old randomised records are too few, and the old rados too noisy
        with pytest.raises(ParameterError, match=r"tell too little|has no probabilities"):
            loaded.predict_proba(NEW)
    truth = NEW["sick"].to_numpy()
    assert loaded.score(NEW, truth) == model.score(NEW, truth)
    assert loaded.model.classes_.tolist() == list(loaded.classes)


def test_a_loaded_model_stays_a_release(tmp_path):
    loaded, release = load(FILES / "model.suffice"), codec.load(FILES / "model.suffice")
    assert loaded == release
    assert release == loaded
    assert loaded.guarantees == release.guarantees
    loaded.save(tmp_path / "again.suffice")
    assert (tmp_path / "again.suffice").read_bytes() == (FILES / "model.suffice").read_bytes()
    assert loaded.unsigned() == release.unsigned()
    assert type(model_of(loaded)) is type(loaded.model)


def test_other_kinds_are_plain_releases_without_predict():
    release = load(FILES / "rados.suffice")
    assert type(release) is Release
    assert not hasattr(release, "predict")


def test_what_is_shown_is_short_and_says_how_to_predict():
    loaded = load(FILES / "model.suffice")
    assert ".predict(X)" in repr(loaded)
    assert len(repr(loaded)) < 200
    assert loaded._repr_html_().startswith("<table>")


def test_loading_a_release_needs_no_scikit_learn():
    path = FILES / "model.suffice"
    code = f"import sys, suffice; suffice.load({str(path)!r}); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
