"""Every kind of the registry goes through every check; a new kind is one entry below."""

import dataclasses
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from suffice.errors import CorruptFileError, ParameterError, ReleaseError
from suffice.learner.operator import FactoredClassifier
from suffice.releases.codec import decode
from suffice.releases.kinds import ARRAY_CHECKS, DETAIL_CHECKS, KINDS
from suffice.releases.merge import _ARRAY_MERGES, _DETAIL_MERGES, merge
from suffice.releases.release import Release, encode

ROWS = 60


def labelled(classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 4))
    return X, rng.integers(0, classes, ROWS)


def released(mechanism: str, classes: int, seed: int, pipeline) -> Release:
    from suffice.owner.mean_operator import MeanOperator

    classes = tuple(range(classes))
    operator = MeanOperator(epsilon=1.0, mechanism=mechanism, classes=classes, pipeline=pipeline)
    return operator.release(*labelled(len(classes), seed), ledger=None)


def mean_operator(classes: int, seed: int = 0, pipeline=None) -> Release:
    return released("laplace", classes, seed, pipeline)


def label_responses(classes: int, seed: int = 0, pipeline=None) -> Release:
    return released("response", classes, seed, pipeline)


def model(classes: int, seed: int = 0, pipeline=None) -> Release:
    X, _ = labelled(classes, seed)
    release = mean_operator(classes, seed, pipeline)
    return FactoredClassifier(lam=1.0).fit_release(release, X).to_release()


def tree_model(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.learner.noisy_labels import NoisyLabelClassifier

    X, _ = labelled(classes, seed)
    release = label_responses(classes, seed, pipeline)
    small = [{"max_iter": 2, "max_leaf_nodes": 3}]
    return NoisyLabelClassifier(settings=small).fit_release(release, X).to_release()


def responses(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.responses import RandomizedResponse

    X, y = labelled(classes, seed)
    half = 1.0 if pipeline is None and seed else 2.0  # an owner of their own has their own range
    rows = {"ward": np.array(["north", "south", "west"])[y % 3], "size": X[:, 0], "sex": y % 2}
    mechanism = RandomizedResponse(
        classes=tuple(range(classes)),
        label_flip=0.2,
        states={"ward": ["north", "south", "west"], "sex": range(2)},
        ranges={"size": (-half, half)},
        feature_flip=0.3,
        feature_noise=1.0,
        kernel="laplace",
    )
    return mechanism.release(pa.table(rows), y, ledger=None)


def rados(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.rados import Rados

    mechanism = Rados(count=8, classes=tuple(range(classes)), pipeline=pipeline)
    return mechanism.release(*labelled(classes, seed), ledger=None, unprotected=True)


def moments(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.moments import Moments

    half = 3.0 if pipeline is None and seed else 4.0  # an owner of their own has their own range
    scaled = {"ranges": (-half, half)} if pipeline is None else {"pipeline": pipeline}
    mechanism = Moments(epsilon=1.0, delta=1e-6, classes=tuple(range(classes)), **scaled)
    return mechanism.release(*labelled(classes, seed), ledger=None)


def target_moments(_: int, seed: int = 0, pipeline=None, unit="record") -> Release:
    from suffice.owner.moments import Moments

    half = 3.0 if pipeline is None and seed else 4.0  # an owner of their own has their own range
    ranges = dict.fromkeys(("x0", "x1", "x2", "x3"), (-half, half)) | {"y": (0, 4)}
    X, y = labelled(3, seed)
    if pipeline is None:
        mechanism = Moments(1.0, 1e-6, unit, ranges=ranges)
    else:
        mechanism = Moments(1.0, 1e-6, unit, ranges={"y": (0, 4)}, pipeline=pipeline)
    return mechanism.release(X, y, target="y", ledger=None)


def regression_model(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.learner.moments import MomentRegressor

    release = target_moments(classes, seed, pipeline and replace(pipeline, intercept=0.0))
    return MomentRegressor().fit_release(release).to_release()


def proportions(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.proportions import LabelProportions

    mechanism = LabelProportions(
        epsilon=1.0 + seed, mechanism="laplace", classes=tuple(range(classes)), pipeline=pipeline
    )
    bags = np.array([f"ward {seed}.{i % 3}" for i in range(ROWS)])
    return mechanism.release(*labelled(classes, seed), bags, ledger=None)


def reports(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.survey import AnswerForm, _DeclaredReports, new_survey
    from suffice.participant import respond

    other = "c" if pipeline is None and seed else "b"  # an owner of their own asks something else
    asked = {"y": list(range(classes)), "x": ["a", other]}
    survey = new_survey("T", states=asked, label="y", epsilon=1.0, report="whole")
    form, declared = AnswerForm(survey), _DeclaredReports(survey)
    sheets = (respond(survey, {"y": k % classes, "x": "a"}, None)[0] for k in range(ROWS))
    counts = form.columns(form.read(sheet)[1] for sheet in sheets)
    return declared.release(counts, tuple(asked["y"]), declared.guarantees(0.0))


def votes(classes: int, seed: int = 0, pipeline=None) -> Release:
    from suffice.owner.parties.contribution import AuxiliaryRows
    from suffice.owner.parties.ensemble import PrivateEnsemble
    from suffice.owner.parties.gathering import Enrolled, VoteTally

    X, y = labelled(classes, seed)
    rows = AuxiliaryRows.read(X, pipeline=pipeline)
    tally = VoteTally(rows, tuple(range(classes)), Enrolled(3))
    tally.add(["north", "south"], np.stack([y, y[::-1]]))
    ensemble = PrivateEnsemble(1.0, 1e-5, "vote-table", classes=tuple(range(classes)))
    return ensemble.aggregate(tally, rows, enrolled=3, ledger=None).release


MAKERS = {
    "mean-operator": mean_operator,
    "label-responses": label_responses,
    "responses": responses,
    "reports": reports,
    "rados": rados,
    "moments": moments,
    "target-moments": target_moments,
    "target-operator": partial(target_moments, unit="label"),
    "regression-model": regression_model,
    "proportions": proportions,
    "votes": votes,
    "tree-model": tree_model,
    "model": model,
}
BINARY = {
    "rados",
    "target-moments",
    "target-operator",
    "regression-model",
}  # kinds of two classes, or of none
WRONG_VALUES = {  # what each of ARRAY_CHECKS must find
    "finite": lambda a: [np.full_like(a, v) for v in (np.nan, np.inf)],
    "codes": lambda a: [np.full_like(a, 255), np.full_like(a, 3)],
    "states": lambda a: [np.full_like(a, 255), np.full_like(a, 2)],
    "channel": lambda a: [
        *(np.full_like(a, v) for v in (np.nan, np.inf)),
        a * (1 + 1e-6),
        np.eye(len(a)),
        (1 + 1e-6) * np.eye(len(a)) - 1e-6 / len(a),
    ],
}
WRONG_VALUES |= {
    "shares": lambda a: [np.full_like(a, v) for v in (np.nan, np.inf, 1.0, -0.5)] + [a + 1e-8],
    "sizes": lambda a: [np.zeros_like(a), -a],
    "counts": lambda a: [-a],
    "nodes": lambda a: [np.full_like(a, v) for v in (-2, 0)],
    "noisy": lambda a: [np.full_like(a, v) for v in (np.nan, np.inf, -np.inf, 2.0**1000, 1e4)],
}
WRONG_DETAILS = {  # what each of DETAIL_CHECKS must find, beside a mapping and a bool
    "text": ([], None, -1.5),
    "labels": ([], None, -1.5, [0], [0, 0], [0, "a"], [0.5, 1.5]),
    "columns": (
        None,
        "x",
        [1],
        [{"name": "x"}],
        [{"name": "x", "range": [0, 1], "noise": {"keep": 0.8}}],
        [{"name": "x", "integers": [0, 1], "noise": {"keep": 0.8}}] * 2,
    ),
    "questions": (
        None,
        "x",
        [],
        [1],
        [["x"]],
        [["x", ["a"]]],
        [["x", ["a", "a"]]],
        [["x", [True, False]]],
        [["x", ["a", 1]]],
        [["x", ["a", "b"]]] * 2,
        [[1, [0, 1]]],
    ),
    "positive": ([], None, -1.5, 0, np.nan, np.inf, "1"),
    "non-negative": ([], None, -1.5, np.nan, np.inf, "1"),
    "number": ([], None, np.nan, np.inf, "1"),
    "column name": ([], None, 1, ""),
    "maybe a number": ([], np.nan, np.inf, "1"),
    "bags": ([], None, -1.5, "x", ["a", "a"], ["a", 1], [0.5, 1.5, 2.5], [True, False]),
    "two labels": ([], None, -1.5, [0], [0, 0], [0, "a"], [0, 1, 2]),
    "names": (None, "x", [1], [""], ["x", "x"]),
    "count": ([], None, -1, 0, 1.0, "1"),
    "maybe a count": ([], -1, 0, 1.0, "1"),
    "maybe deviations": ([], -1, 1.0, "1", [-1.0], [np.nan], [np.inf], ["1"], [True], [[1.0]]),
}
CASES = [(kind, classes) for kind in MAKERS for classes in ((2,) if kind in BINARY else (2, 3))]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def example(request) -> Release:
    kind, classes = request.param
    return MAKERS[kind](classes)


def test_every_kind_is_exercised_and_declares_known_rules():
    assert set(MAKERS) == set(KINDS)
    assert set(WRONG_VALUES) == set(ARRAY_CHECKS)
    assert set(WRONG_DETAILS) == set(DETAIL_CHECKS)
    for kind in KINDS.values():
        assert kind.title
        for rule in kind.arrays.values():
            assert rule.check in ARRAY_CHECKS
            assert rule.merge in _ARRAY_MERGES
        for detail in kind.details.values():
            assert detail.check in DETAIL_CHECKS
            assert detail.merge in _DETAIL_MERGES


def test_a_round_trip_changes_nothing_and_bytes_are_repeatable(example):
    data = encode(example)
    again = decode(data)
    assert again == example
    assert encode(again) == data
    assert again.guarantees == example.guarantees
    assert again.pipeline == example.pipeline


def test_every_array_is_checked_for_type_shape_and_values(example):
    for name, array in example.arrays.items():
        shapes = (array.astype(np.float32), array[:-1], array[None])
        for bad in (*shapes, *WRONG_VALUES[KINDS[example.kind].arrays[name].check](array)):
            with pytest.raises(CorruptFileError, match=name):
                dataclasses.replace(example, arrays={**example.arrays, name: bad})
    with pytest.raises(CorruptFileError):
        dataclasses.replace(example, arrays={})
    with pytest.raises(CorruptFileError):
        dataclasses.replace(example, arrays={**example.arrays, "more": np.zeros(3)})


def test_every_detail_is_checked(example):
    for name, rule in KINDS[example.kind].details.items():
        for bad in ({"x": 1}, True, *WRONG_DETAILS[rule.check]):
            with pytest.raises(CorruptFileError):
                dataclasses.replace(example, details={**example.details, name: bad})
    with pytest.raises(CorruptFileError):
        dataclasses.replace(example, details={**example.details, "more": 1})


def test_a_release_without_a_guarantee_cannot_exist(example):
    with pytest.raises(ReleaseError, match="guarantee"):
        dataclasses.replace(example, parts=())
    bare = dataclasses.replace(example.parts[0], guarantees=())
    with pytest.raises(ReleaseError, match="guarantee"):
        dataclasses.replace(example, parts=(bare,))


def test_merging_keeps_every_owners_rows_and_guarantees(example):
    other = MAKERS[example.kind](len(example.classes), 1, example.pipeline)
    if not KINDS[example.kind].merges:
        with pytest.raises(ParameterError, match="cannot be merged"):
            merge([example, other])
        return
    both = merge([example, other])
    own = example.parts + other.parts
    assert [part.rows for part in both.parts] == [part.rows for part in own]
    guarantees = example.guarantees + other.guarantees
    for merged, single in zip(both.guarantees, guarantees, strict=True):
        assert merged.assumptions[:-1] == single.assumptions
        assert dataclasses.replace(merged, assumptions=single.assumptions) == single
    assert both.rows == 2 * ROWS
    assert decode(encode(both)) == both
    assert merge([example]) is example


def test_merging_refuses_what_does_not_belong_together(example):
    foreign = MAKERS[example.kind](len(example.classes), 1)  # its own pipeline
    with pytest.raises(ParameterError):
        merge([example, foreign])
    with pytest.raises(ParameterError):
        merge([example, example])
    with pytest.raises(ParameterError, match="There is no release to merge"):
        merge([])
