"""One table from kinds to learners: what each entry fits, refuses, reports and stores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from builders import clinic_table
from crafted_files import Container
from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.learner import fit as learners
from suffice.learner.base import LinearModel
from suffice.learner.fit import REPORTS, Learning, Report, fit, learning_from, model_of, release_of
from suffice.learner.operator import FactoredClassifier
from suffice.learner.rados import RadoBoost, RadoRidge
from suffice.learner.spread import SpreadClassifier
from suffice.learner.votes import VoteClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, VoteTally
from suffice.releases.codec import decode, load
from suffice.releases.kinds import KINDS
from suffice.releases.release import Release, encode, manifest_of

FILES = Path(__file__).parents[1] / "fixtures"
ROWS = clinic_table(200).drop_columns("sick")
LEARNT = [  # the release, its options, and the learner that they mean
    ("gaussian", {"rows": ROWS}, FactoredClassifier),
    ("laplace", {"rows": ROWS, "loss": "square", "lam": 0.1}, FactoredClassifier),
    ("response", {"rows": ROWS, "penalty": "l2"}, FactoredClassifier),
    ("responses", {}, SpreadClassifier),
    ("rados", {"rows": ROWS}, RadoRidge),
    ("rados", {"rows": ROWS, "loss": "square", "lam": 0.1}, RadoRidge),
    ("rados", {"rows": ROWS, "loss": "logistic"}, RadoBoost),
]


def stored(name: str) -> Release:
    return load(FILES / f"{name}.suffice")


def released(name: str) -> Release:
    """Return the release of a stored file, or what this mechanism makes of the rows' labels."""
    if name not in {"gaussian", "laplace", "response"}:
        return stored(name)
    owner = MeanOperator(epsilon=1.0, delta=1e-6 * (name == "gaussian"), mechanism=name, map=None)
    return owner.release(clinic_table(200), label="sick", ledger=None)


def altered(file: bytes, version=None, **details) -> bytes:
    """Return a file that is sealed again, with another version of its kind or other details."""
    container = Container.read(file)
    container.manifest["kind_version"] = version
    container.manifest["details"] |= details
    return container.sealed()


def votes(rows: np.ndarray) -> Release:
    """Return the noisy votes of two parties for three classes."""
    auxiliary = AuxiliaryRows.read(rows)
    tally = VoteTally(auxiliary, (0, 1, 2), Enrolled(3))
    codes = np.arange(len(rows)) % 3
    tally.add(["north", "south"], np.stack([codes, codes[::-1]]))
    ensemble = PrivateEnsemble(1.0, 1e-5, "vote-table", classes=(0, 1, 2))
    return ensemble.aggregate(tally, auxiliary, enrolled=3, ledger=None).release


@pytest.fixture
def table(monkeypatch):
    """Keep what a test registers out of the other tests."""
    monkeypatch.setattr(learners, "_LEARNING", dict(learners._LEARNING))


def test_every_kind_has_an_entry_that_fits_or_says_what_to_use_instead():
    assert set(KINDS) == set(learners._LEARNING)
    for kind in KINDS:
        learning = learning_from(kind)
        assert (learning.estimator is None) == bool(learning.instead)
    with pytest.raises(ParameterError, match="suffice ratio"):
        fit(stored("proportions"))
    with pytest.raises(ParameterError, match="suffice predict"):
        fit(stored("model"))
    with pytest.raises(ParameterError, match="no learner for releases of kind poll"):
        learning_from("poll")
    with pytest.raises(ParameterError, match="no release"):
        fit([])


def test_every_learner_that_a_file_may_name_can_be_loaded_and_reported():
    classifiers = set(KINDS["model"].details["learner"].among)
    assert classifiers | {"MomentRegressor"} == set(learners._MODULES)  # which has its own kind
    for name in learners._MODULES:
        learner = learners._class_of(name)
        assert learner.stored_as == learner.__name__ == name
        assert name in REPORTS


@pytest.mark.parametrize(("name", "options", "learner"), LEARNT)
def test_a_model_file_of_any_learner_loads_as_that_learner(name, options, learner, tmp_path):
    release = released(name)
    model = fit(release, **options)
    assert type(model) is learner
    report = learning_from(release.kind).report(model)
    assert report.lines[0][0] == "classes"
    assert report.values["classes"] == model.classes_.tolist()
    release_of(model).save(tmp_path / "m.suffice")
    again = model_of(load(tmp_path / "m.suffice"))
    assert type(again) is learner
    rows = FILES / "clinic.csv"
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert again.gives_probabilities == model.gives_probabilities
    if model.gives_probabilities:
        assert np.allclose(again.predict_proba(rows), model.predict_proba(rows), rtol=1e-12)
    else:
        for refused in (model, again):
            with pytest.raises(ParameterError, match=r"tell too little|has no probabilities"):
                refused.predict_proba(rows)
    assert release_of(again) == load(tmp_path / "m.suffice")  # written again as it was read


@pytest.mark.parametrize(
    ("name", "options", "unused"),
    [
        ("mean-operator", {"rows": ROWS, "estimator": DecisionTreeClassifier()}, "estimator"),
        ("responses", {"penalty": "l1"}, "penalty"),
        ("responses", {"rows": ROWS}, "rows"),
        ("rados", {"loss": "logistic", "lam": 1.0}, "lam"),
    ],
)
def test_an_option_without_meaning_is_refused(name, options, unused):
    with pytest.raises(ParameterError, match=f"^{unused} cannot be used with"):
        fit(stored(name), **options)
    defaults = dict.fromkeys(options)
    assert learning_from(stored(name).kind).unused(None, defaults) == []


@pytest.mark.parametrize("name", ["gaussian", "response"])
def test_progress_counts_the_rows_that_are_read(name):
    batches: list[int] = []
    fit(released(name), ROWS, progress=batches.append)
    assert sum(batches) == 200
    learning = learning_from(released(name).kind)
    learning.fit([released(name)], ROWS, {"progress": batches.append})  # as an option, too
    assert sum(batches) == 400


@pytest.mark.filterwarnings("ignore::suffice.learner.problem.NoiseWarning")
def test_votes_report_progress_whatever_trains_on_them(rng):
    rows, batches = rng.normal(size=(60, 4)), []
    release = votes(rows)
    fit(release, rows, progress=batches.append)
    fit(release, rows, estimator=DecisionTreeClassifier(), progress=batches.append)
    assert sum(batches) == 120


@pytest.mark.parametrize("name", ["rados", "responses"])
def test_kinds_without_rows_have_no_progress_to_report(name):
    batches: list[int] = []
    fit(stored(name), progress=batches.append)
    assert batches == []


def test_rows_that_are_missing_are_asked_for():
    for name in ("mean-operator", "label-responses", "votes"):
        with pytest.raises(ParameterError, match="public rows"):
            fit(stored(name))


def test_votes_train_what_the_caller_gives_which_has_no_file(rng):
    rows = rng.normal(size=(60, 4))
    release = votes(rows)
    from_shares = fit(release, rows, lam=0.1)
    assert type(from_shares) is FactoredClassifier
    model = fit([release], rows, estimator=DecisionTreeClassifier(max_depth=2), labels="shares")
    assert type(model) is VoteClassifier
    report = learning_from("votes").report(model)
    assert report.values == {"classes": [0, 1, 2], "estimator": "DecisionTreeClassifier"}
    with pytest.raises(ParameterError, match="cannot be stored in a file"):
        release_of(model)
    with pytest.raises(ParameterError, match=r"^lam cannot be used with"):
        fit(release, rows, estimator=DecisionTreeClassifier(), lam=0.1)


@pytest.mark.usefixtures("table")
def test_a_new_kind_registers_its_learner():
    class Constant:
        def __init__(self, lam: float = 1.0) -> None:
            self.lam = lam

        def fit_release(self, releases):
            self.classes_ = releases[0].classes
            return self

    counts = Learning(
        lambda options: Constant(**options),
        lambda _: ("lam",),
        report=lambda model: Report([("penalty", str(model.lam))], {"lam": model.lam}),
    )
    learners.register_learner("counts", counts)
    learners.register_learner("counts", counts)  # the same again changes nothing
    with pytest.raises(ParameterError, match="already"):
        learners.register_learner("rados", counts)
    model = learning_from("counts").fit([stored("rados")], None, {"lam": 3.0})
    assert model.classes_ == stored("rados").classes
    assert counts.report(model).values == {"lam": 3.0}
    with pytest.raises(ParameterError, match="Constant cannot be stored"):
        release_of(model)


def test_a_model_that_is_read_and_stored_again_keeps_its_bytes():
    file = (FILES / "model.suffice").read_bytes()
    model = model_of(decode(file))
    assert type(model) is FactoredClassifier
    assert encode(release_of(model)) == file


def test_another_version_of_a_model_file_is_refused():
    new = encode(fit(stored("rados")).to_release())
    assert manifest_of(decode(new))["kind_version"] == 1
    for version in (0, 2, 1.5, True, "1", None):
        with pytest.raises(UnsupportedFileError, match="version 1 only"):
            decode(altered(new, version))
    for name in ("Nobody", "VoteClassifier", "", None):
        with pytest.raises(CorruptFileError, match="learner"):
            decode(altered(new, 1, learner=name))


def test_a_model_is_loaded_by_its_own_learner_alone():
    model = fit(stored("rados")).to_release()
    with pytest.raises(ParameterError, match="learnt by RadoRidge"):
        FactoredClassifier.from_release(model)
    with pytest.raises(ParameterError, match="not a model"):
        model_of(stored("rados"))


def test_a_forged_model_of_rados_has_two_classes_or_is_refused():
    three = {"classes": [0, 1, 2], "learner": "RadoRidge"}
    model = fit(released("laplace"), ROWS).to_release()
    wide = np.repeat(model.arrays["coefficients"][:, None], 3, axis=1)
    forged = replace(model, details={**model.details, **three}, arrays={"coefficients": wide})
    with pytest.raises(CorruptFileError, match="two classes"):
        model_of(decode(encode(forged)))


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_what_only_a_fit_knows_is_missing_after_a_file(loss):
    fitted = fit(stored("rados"), loss=loss)
    again = model_of(decode(encode(fitted.to_release())))
    assert isinstance(again, LinearModel)
    if loss == "square":
        assert again.risk_ == fitted.risk_
        return
    with pytest.raises(AttributeError, match="does not store"):
        next(again.staged_predict(FILES / "clinic.csv"))
    with pytest.raises(AttributeError, match="does not store"):
        again.sampling_term()
