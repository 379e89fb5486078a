"""Models leave: scikit-learn's own parts, and ONNX, predict what the model predicts."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest

import suffice as sf
from suffice.errors import MissingPackageError, ParameterError, StorageError

ort = pytest.importorskip("onnxruntime")


def rows(rng, n: int, kinds: int = 2) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.1] + [0.0, 40.0, 1e3]
    scores = (X - X.mean(0)) / X.std(0) @ rng.normal(size=(3, kinds)) + rng.normal(size=kinds)
    return X, scores.argmax(axis=1)


def frame(rng, n: int, *, gaps: bool) -> tuple[pd.DataFrame, np.ndarray]:
    ages, wards = rng.normal(50, 20, n), rng.choice(["north", "south", "east"], n)
    y = ((ages > 50) ^ (wards == "south")).astype(int)
    table = pd.DataFrame(
        {"age": ages, "ward": pd.Series(wards, dtype=object), "dose": rng.random(n)}
    )
    if gaps:
        table.loc[::7, "age"] = np.nan
        table.loc[::11, "ward"] = None
    return table, y


def onnx_outputs(model, X) -> dict:
    session = ort.InferenceSession(model.to_onnx())
    names = [item.name for item in session.get_inputs()]
    feed = {"X": np.asarray(X, dtype=float)} if names == ["X"] else {}
    for name in names if not feed else ():
        cells = X[name]
        texts = cells.dtype == object or str(cells.dtype).startswith("str")
        cells = cells.where(cells.notna(), "") if texts else cells
        kind = object if texts else float
        feed[name] = cells.to_numpy(dtype=kind)[:, None]
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))


def models(rng):
    """Yield 20 fitted models, with new rows that hold outliers, gaps and strange categories."""
    for kinds in (2, 3):
        X, y = rows(rng, 400, kinds)
        new = np.vstack([rows(rng, 300, kinds)[0], 1e4 * rng.normal(size=(20, 3))])
        release = sf.MeanOperator(9.0, map=None, classes=range(kinds)).release(X, y, ledger=None)
        for loss in ("logistic", "square"):
            yield (
                f"operator, {loss}, {kinds}",
                sf.FactoredClassifier(loss).fit_release(release, X),
                new,
            )
        answers = sf.MeanOperator(
            9.0, map=None, mechanism="response", classes=range(kinds)
        ).release(X, y, ledger=None)
        for estimator in ("logistic", "hist-gradient-boosting"):
            few = {"settings": [{"max_iter": 20, "min_samples_leaf": 20}], "folds": 2}
            learner = sf.NoisyLabelClassifier(estimator, **few if "boost" in estimator else {})
            yield f"{estimator}, {kinds}", learner.fit_release(answers, X), new
        moments = sf.Moments(
            epsilon=9.0, delta=1e-6, ranges={"x0": (-3, 3), "x1": (20, 60), "x2": (999, 1001)},
            classes=range(kinds),
        ).release(X, y, ledger=None)  # fmt: skip
        yield f"moments, {kinds}", sf.MomentClassifier().fit_release(moments), new
        names = np.array(["yes", "no", "so"])[:kinds]
        yield f"exact, {kinds}", sf.FactoredClassifier().fit(X, names[y]), new
        yield f"votes, {kinds}", sf.VoteClassifier().fit(X, y), new
    X, y = rows(rng, 3000)
    new = np.vstack([rows(rng, 300)[0], 1e4 * rng.normal(size=(20, 3))])
    rados = sf.Rados(
        epsilon=50.0,
        delta=1e-6,
        ranges={"x0": (-3, 3), "x1": (20, 60), "x2": (999, 1001)},
        unit="record",
    )
    release = rados.release(X, y, ledger=None)
    yield "rados", sf.RadoRidge().fit_release(release), new
    yield "boosted rados", sf.RadoBoost().fit_release(release), new
    target = sf.Moments(
        epsilon=50.0,
        delta=1e-6,
        ranges={"x0": (-3, 3), "x1": (20, 60), "x2": (999, 1001), "h": (0, 1)},
    )
    numbers = 0.5 + 0.2 * X[:, 0]
    yield (
        "number",
        sf.MomentRegressor().fit_release(target.release(X, numbers, target="h", ledger=None)),
        new,
    )
    whitened = sf.MeanOperator(9.0, map="whiten:3").release(X, y, ledger=None)
    yield "whitened", sf.FactoredClassifier().fit_release(whitened, X), new
    for missing in ("mean", "zero"):
        table, labels = frame(rng, 400, gaps=True)
        owner = sf.MeanOperator(
            9.0, map=None, missing=missing, categories={"ward": ["north", "south", "east"]}
        )
        release = owner.release(table, labels, ledger=None)
        fresh = frame(rng, 200, gaps=True)[0]
        fresh.loc[::13, "ward"] = "west"
        yield f"gaps, {missing}", sf.FactoredClassifier().fit_release(release, table), fresh


def test_scikit_learn_and_onnx_predict_the_same_on_20_models(rng):
    done = []
    for name, model, new in models(rng):
        expected = model.predict(new)
        stored = pickle.dumps(model.to_sklearn())
        assert b"suffice" not in stored, name  # a program without it can load the pipeline
        pipeline = pickle.loads(stored)
        outputs = onnx_outputs(model, new)
        if name == "number":
            assert np.allclose(pipeline.predict(new), expected, rtol=1e-9), name
            assert np.allclose(outputs["number"], expected, rtol=1e-9), name
        else:
            assert (pipeline.predict(new) == expected).all(), name
            assert (outputs["label"] == expected).all(), name
            if hasattr(pipeline, "predict_proba"):
                assert np.allclose(
                    pipeline.predict_proba(new), model.predict_proba(new), atol=1e-9
                ), name
        assert len({*np.asarray(expected).tolist()}) > 1, name
        done.append(name)
    assert len(done) == 20


def test_what_other_programs_cannot_do_is_refused_in_words(rng, tmp_path, monkeypatch):
    X, y = rows(rng, 400)
    ranks = sf.FactoredClassifier().fit_release(
        sf.MeanOperator(9.0, map="ranks").release(X, y, ledger=None), X
    )
    weighted = sf.FactoredClassifier(class_weight="balanced").fit(X, y)
    dated = pd.DataFrame({"born": pd.date_range("1950-01-01", periods=400), "dose": X[:, 0]})
    trees = sf.NoisyLabelClassifier(settings=[{"max_iter": 5}], folds=2).fit_release(
        sf.MeanOperator(9.0, map=None, mechanism="response").release(X, y, ledger=None), X
    )
    trees.save(tmp_path / "trees.suffice")
    loaded = sf.load(tmp_path / "trees.suffice")
    refused = {
        "feature map ranks": ranks,
        "class_weight": weighted,
        "'?born'? holds dates": sf.FactoredClassifier().fit(dated, y),
    }
    for words, model in refused.items():
        for leave in (model.to_sklearn, model.to_onnx):
            with pytest.raises(ParameterError, match=words):
                leave()
    with pytest.raises(ParameterError, match="where the model was fitted"):
        loaded.model.to_sklearn()
    assert (onnx_outputs(loaded.model, X)["label"] == trees.predict(X)).all()
    assert str(trees.releases_[0].guarantees[0]).encode() in trees.to_onnx()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'suffice\[onnx\]'"):
        trees.to_onnx()


def test_a_model_saves_itself(rng, tmp_path):
    X, y = rows(rng, 400)
    path = tmp_path / "model.suffice"
    model = sf.FactoredClassifier().fit_release(
        sf.MeanOperator(9.0, map=None).release(X, y, ledger=None), X
    )
    model.save(path)
    assert (sf.load(path).predict(X) == model.predict(X)).all()
    with pytest.raises(StorageError):
        model.save(path)
    model.save(path, overwrite=True)
    with pytest.raises(ParameterError, match="cannot be stored"):
        sf.VoteClassifier().fit(X, y).save(path)
    with pytest.raises(ParameterError, match="no guarantee"):
        sf.FactoredClassifier().fit(X, y).save(path)
