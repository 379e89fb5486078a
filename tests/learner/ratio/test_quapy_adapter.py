"""The quantifier for QuaPy, which lives beside its bench, works without QuaPy."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from test_class_ratio import draw_rows

from suffice.errors import ParameterError

ADAPTER = Path(__file__).parents[3] / "lab" / "bench" / "peers" / "quapy" / "adapter.py"


@pytest.fixture(scope="module")
def adapter():
    spec = importlib.util.spec_from_file_location("quapy_adapter", ADAPTER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_quantifier_for_quapy_needs_no_quapy(adapter, rng):
    """QuaPy clones a quantifier, sets its parameters, calls fit(X, y) and predict(X)."""
    rows, labels = draw_rows(rng, 600, [0.5, 0.5])
    new, truth = draw_rows(rng, 600, [0.8, 0.2])
    model = clone(adapter.QuaPyClassRatio(method="mmd")).set_params(kernel="linear")
    assert model.get_params()["method"] == "mmd"
    ratios = model.fit(rows, labels).predict(new.tolist())
    assert ratios.shape == (2,)
    assert ratios[1] == pytest.approx(truth.mean(), abs=0.08)
    assert np.array_equal(ratios, model.quantify(new))
    assert np.array_equal(model.classes_, [0, 1])


def test_errors_are_those_of_quapy(adapter):
    """Values computed with QuaPy 0.2.3."""
    p, q = [0.1, 0.2, 0.7], [0.2, 0.3, 0.5]
    assert adapter.ae(p, q) == pytest.approx(0.13333333333333333)
    assert adapter.rae(p, q, eps=0.005) == pytest.approx(0.5746245912307146)
    assert adapter.nkld(p, q, eps=0.005) == pytest.approx(0.04111900847588901)
    assert np.shape(adapter.ae([p, p], [q, p])) == (2,)
    with pytest.raises(ParameterError, match="same shape"):
        adapter.ae([0.5, 0.5], [1.0])
    with pytest.raises(ParameterError, match="eps"):
        adapter.rae(p, q, eps=0)
