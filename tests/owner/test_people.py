"""Releases that protect each person: what leaves, what is refused, and who pays."""

import dataclasses
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import suffice as sf
from suffice.audit.public_part import public_part
from suffice.errors import CorruptFileError, ParameterError, TableError, UnitError
from suffice.owner.moments import Moments
from suffice.owner.policy import Policy
from suffice.owner.proportions import SkewedBags
from suffice.owner.source import Source
from suffice.privacy.guarantee import Unit
from suffice.releases.codec import decode
from suffice.releases.release import encode
from suffice.tables import table as tables_table

IDS = "patient of this clinic"
MOMENTS = Moments(epsilon=1.0, delta=1e-6, ranges=(-1, 1))


@pytest.fixture
def frame(rng):
    """Return 40 people with one to 20 rows each; ids are spelt in two ways."""
    rows = np.repeat(np.arange(40), [1 + k % 20 for k in range(40)])
    rows = rng.permutation(rows)
    columns = {"a": rng.uniform(-1, 1, len(rows)), "b": rng.uniform(-1, 1, len(rows))}
    ids = [f"{7919 + k}{'.0' * (i % 2)}" for i, k in enumerate(rows)]
    return pd.DataFrame({**columns, IDS: ids, "y": rng.integers(0, 2, len(rows))})


def of_people(frame, mechanism=MOMENTS, **inputs):
    inputs = {"label": "y", "person": IDS, "ledger": None, **inputs}
    return mechanism.release(frame, **inputs)


def exact_sums(frame, mechanism=MOMENTS):
    source = Source(frame, label="y", person=IDS)
    public = mechanism.public(source)
    procedure = mechanism.choose(public)
    exact = source.fold(public.parts(), partial(procedure.accumulator, identified=False))
    procedure.check(exact)
    return exact


def test_every_person_counts_once_whatever_the_number_of_rows(frame):
    exact, one = exact_sums(frame).result(), 2**18
    person = frame[IDS].str.removesuffix(".0")
    weights = one // person.map(person.value_counts()).to_numpy()
    signs = np.where(frame["y"] == 1, 1, -1)
    assert exact.counts.tolist() == [int((weights * signs).sum())]
    assert 40 * one * (1 - 1e-4) < weights.sum() <= 40 * one
    rows = frame[["a", "b"]].to_numpy() / np.sqrt(2) * 2**15
    second = (rows.T * weights) @ rows / one
    assert np.abs(exact.second - second).max() < 2e-4 * 2**30 * 40


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_people_are_the_same_in_any_batches_and_any_form(frame, batch, monkeypatch, tmp_path):
    whole = exact_sums(frame).result()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    numbers = frame.assign(**{IDS: frame[IDS].astype(float)})
    monkeypatch.setattr(tables_table, "BATCH_ROWS", batch)
    for data in (frame, tmp_path / "t.csv", tmp_path / "t.parquet", numbers):
        cut = exact_sums(data).result()
        for name in ("second", "mean", "operator", "counts"):
            assert np.array_equal(getattr(whole, name), getattr(cut, name))


def test_the_file_says_people_and_never_rows(frame):
    release = of_people(frame)
    assert release.rows == 40
    assert release.guarantee.unit is Unit.PERSON
    text = str(release.guarantee)
    assert text.startswith("Protects each person, with all of their rows.")
    assert "the number of people" in text
    assert "number of rows" not in text
    content = encode(release)
    for private in (IDS, "7919", "7925", str(len(frame))):
        assert private.encode() not in content
    assert decode(content).guarantee == release.guarantee


def test_more_or_fewer_rows_of_a_person_show_nowhere(frame, rng):
    """Neighbours: all rows of a person are others, and there are more or fewer of them."""
    shown = public_part(of_people(frame))
    theirs = frame[IDS].str.removesuffix(".0") == str(7919 + 19)
    for rows in (1, 5, 60):
        new = pd.DataFrame({"a": rng.uniform(-1, 1, rows), "b": 1.0, "y": 1, IDS: str(7919 + 19)})
        other = pd.concat([frame[~theirs], new]).sample(frac=1, random_state=1)
        assert public_part(of_people(other)) == shown


def test_a_number_to_predict_is_of_people_too(frame, rng):
    """A person of many rows counts once, and how many rows there are shows nowhere."""
    mechanism = Moments(epsilon=1e4, delta=1e-3, ranges={"a": (-1, 1), "b": (-1, 1)})
    made = partial(of_people, mechanism=mechanism, label=None, target="b", features=["a"])
    release = made(frame)
    assert (release.kind, release.rows) == ("target-moments", 40)
    assert release.guarantee.unit is Unit.PERSON
    by_person = frame.groupby(frame[IDS].str.removesuffix(".0"))[["a", "b"]]
    means = by_person.mean().mean()
    squares = by_person.agg(lambda cells: (cells**2).mean()).mean()
    assert release.arrays["target_moments"] == pytest.approx([means["b"], squares["b"]], abs=0.01)
    bound = release.pipeline.bound
    assert release.arrays["mean"] / bound == pytest.approx([means["a"]], abs=0.01)
    theirs = frame[IDS].str.removesuffix(".0") == str(7919 + 19)
    new = pd.DataFrame({"a": rng.uniform(-1, 1, 60), "b": 1.0, "y": 1, IDS: str(7919 + 19)})
    other = made(pd.concat([frame[~theirs], new]))
    assert public_part(other) == public_part(release)
    model = sf.MomentRegressor().fit_release(release)
    assert model.predict(frame[["a"]]).shape == (len(frame),)
    assert decode(encode(release)).guarantee == release.guarantee


def test_a_row_without_an_id_counts_for_nobody(frame):
    told = []
    nobody = pd.concat([frame, frame.iloc[:5].assign(**{IDS: None})])
    for name in ("second", "counts"):
        ours, theirs = (getattr(exact_sums(f).result(), name) for f in (nobody, frame))
        assert np.array_equal(ours, theirs)
    of_people(nobody, ledger=None)
    source = Source(nobody, label="y", person=IDS, report=told.append)
    exact = exact_sums(nobody)
    assert "5 of" in exact.report().lines[0]
    assert source.person == IDS
    with pytest.raises(TableError, match="No row has an id"):
        of_people(frame.assign(**{IDS: ""}))


def test_a_table_that_changes_between_the_passes_is_refused(frame):
    source = Source(frame, label="y", person=IDS)
    public = MOMENTS.public(source)
    procedure = MOMENTS.choose(public)
    swapped = frame.copy()
    swapped.loc[0, IDS] = swapped.loc[1, IDS] if swapped.loc[0, IDS] != swapped.loc[1, IDS] else "7"
    later = MOMENTS.public(Source(swapped, label="y", person=IDS))
    exact = source.fold(later.parts(), partial(procedure.accumulator, identified=False))
    with pytest.raises(TableError, match="changed while it was read"):
        procedure.check(exact)


def test_ids_are_no_feature_and_no_private_cell_decides_their_type(frame):
    assert [c.name for c in of_people(frame).pipeline.columns] == ["a", "b"]
    with pytest.raises(TableError, match="two roles"):
        of_people(frame, features=["a", IDS])
    with pytest.raises(TableError, match="two roles"):
        of_people(frame, person="y")
    with pytest.raises(ParameterError, match="cannot be left out"):
        of_people(frame, drop=[IDS])
    with pytest.raises(TableError, match="has no column"):
        of_people(frame, person="nobody")
    with pytest.raises(ParameterError, match="a column of the table"):
        MOMENTS.release(frame.drop(columns="y"), frame["y"], person=IDS, ledger=None)


SHOW_ROWS = (
    sf.Rados(epsilon=1.0, delta=1e-6, unit="record", ranges=(-1, 1)),
    sf.RandomizedResponse(label_flip=0.25, feature_noise=1.0, ranges=(-1, 1)),
    SkewedBags(skew=0.7),
)


@pytest.mark.parametrize("mechanism", SHOW_ROWS, ids=lambda mechanism: mechanism.name)
def test_releases_that_show_rows_refuse_people(frame, mechanism):
    with pytest.raises(ParameterError, match="cannot protect all rows of a person"):
        of_people(frame, mechanism)


PURE = {"laplace": 1.0, "gaussian": 1.0, "knorm": 1.0, "response": 5.0}


@pytest.mark.parametrize("name", PURE)
def test_all_labels_of_a_person_are_protected_together(frame, name):
    """All people have two rows, so that one row of each has as much noise, and fewer labels."""
    frame[IDS] = [str(7919 + i % 210) for i in range(len(frame))]
    operator = sf.MeanOperator(epsilon=PURE[name], delta=1e-6, mechanism=name)
    release, of_labels = of_people(frame, operator), of_people(frame, operator, person=None,
                                                               features=["a", "b"])  # fmt: skip
    assert release.guarantee.unit is Unit.PERSON_LABELS
    promised = "Protects all labels of each person."
    assert promised.lower() in str(release.guarantee).lower()
    assert release.guarantee.epsilon == pytest.approx(PURE[name])
    assert release.guarantee.epsilon <= PURE[name]
    assert release.rows == len(frame)
    assert IDS.encode() not in encode(release)
    decode(encode(release))
    if name == "response":
        flip = release.arrays["channel"][0, 0]
        assert np.log(flip / (1 - flip)) == pytest.approx(5 / 2, rel=1e-6)
    else:
        assert release.noise.variance > 2 * of_labels.noise.variance


@pytest.mark.parametrize("name", ["auto", "gaussian", "response"])
def test_one_row_of_each_person_is_used_where_some_have_many(frame, name):
    operator = sf.MeanOperator(epsilon=1.0, delta=1e-6, mechanism=name, map=None)
    release = of_people(frame, operator)
    (part,) = release.parts
    kept, person = part.rows.labelled.mask, frame[IDS].str.removesuffix(".0")
    assert sorted(person[kept]) == sorted(person.unique())
    assert release.rows == 40
    assert release.guarantee.unit is Unit.PERSON_LABELS
    assert release.guarantee.epsilon == pytest.approx(1.0)
    if name == "response":  # the label that is left has all of epsilon
        flip = release.arrays["channel"][0, 0]
        assert np.log(flip / (1 - flip)) == pytest.approx(1.0)
    model = sf.FactoredClassifier().fit_release(release, frame[["a", "b"]])
    assert model.predict(frame[["a", "b"]]).shape == (len(frame),)
    others = of_people(frame.assign(y=1 - frame["y"]), operator)
    assert np.array_equal(others.parts[0].rows.labelled.mask, kept)
    turned = of_people(frame.iloc[::-1], operator)
    assert np.array_equal(turned.parts[0].rows.labelled.mask[::-1], kept)


def test_rows_that_have_no_label_are_not_the_one_of_a_person(frame):
    frame["y"] = frame["y"].astype("Int64")
    frame.loc[::2, "y"] = None
    operator = sf.MeanOperator(epsilon=1.0, delta=1e-6)
    release = of_people(frame, operator, missing_labels="skip")
    mask = release.parts[0].rows.labelled.mask
    assert not mask[::2].any()
    assert len(mask) == len(frame)
    assert mask.sum() == release.rows == frame.dropna()[IDS].str.removesuffix(".0").nunique()
    sf.FactoredClassifier().fit_release(release, frame[["a", "b"]])


def test_public_rows_must_have_ids(frame):
    frame.loc[3, IDS] = None
    with pytest.raises(TableError, match="no id"):
        of_people(frame, sf.MeanOperator(epsilon=1.0))
    with pytest.raises(TableError, match="no id"):
        of_people(frame.assign(ward="x"), sf.LabelProportions(epsilon=1.0), bags="ward")


def test_class_counts_protect_all_labels_of_a_person(frame, rng):
    frame["ward"] = rng.choice(["north", "south"], len(frame))
    release = of_people(frame, sf.LabelProportions(epsilon=5.0), bags="ward")
    assert release.guarantee.unit is Unit.PERSON_LABELS
    assert [c.name for c in release.pipeline.columns] == ["a", "b"]
    one = of_people(
        frame.drop(columns=IDS), sf.LabelProportions(epsilon=5.0), bags="ward", person=None
    )
    assert release.noise.variance == pytest.approx(20**2 * one.noise.variance, rel=1e-3)
    dirichlet = sf.LabelProportions(epsilon=5.0, delta=0.01, mechanism="scaled-dirichlet-bounded")
    with pytest.raises(ParameterError, match="cannot protect all labels of a person"):
        of_people(frame, dirichlet, bags="ward")
    formed = sf.assign_bags(frame[["a", "b"]], frame["y"], skew=0.7, ledger=None)
    with pytest.raises(ParameterError, match="protect each label"):
        of_people(frame[["a", "b", "y", IDS]], sf.LabelProportions(epsilon=5.0), bags=formed)


BUDGET = sf.Budget(3.0, 1e-5)


@pytest.mark.parametrize("unit", ["person", "record", "label", "attribute"])
def test_a_release_per_person_pays_for_what_a_person_contains(frame, unit, tmp_path):
    ledger = sf.Ledger(tmp_path / "l", {"people": {unit: BUDGET}})
    of_people(frame, ledger=ledger, dataset="people")
    assert ledger.balances()[0].spent > 0.5


def test_a_release_per_record_does_not_pay_for_people(frame, tmp_path):
    ledger = sf.Ledger(tmp_path / "l", {"people": {"person": BUDGET}})
    with pytest.raises(UnitError, match="no budget for what this release"):
        of_people(frame.drop(columns=IDS), person=None, ledger=ledger, dataset="people")
    with pytest.raises(
        UnitError, match="no budget for what this release"
    ):  # features are public there
        of_people(frame, sf.MeanOperator(epsilon=1.0), ledger=ledger, dataset="people")
    records = sf.Ledger(tmp_path / "r", {"people": {"record": BUDGET}})
    with pytest.raises(UnitError, match="no budget for what this release"):
        of_people(frame, sf.MeanOperator(epsilon=1.0), ledger=records, dataset="people")
    labels = sf.Ledger(tmp_path / "m", {"people": {"person-labels": BUDGET}})
    of_people(frame, sf.MeanOperator(epsilon=1.0), ledger=labels, dataset="people")
    with pytest.raises(UnitError, match="no budget for what this release"):
        of_people(frame.drop(columns=IDS), sf.MeanOperator(epsilon=1.0), person=None,
                  ledger=labels, dataset="people")  # fmt: skip


def test_rows_of_today_repeat_the_request_of_a_name_and_the_count_of_people_names_it(
    frame, tmp_path
):
    ledger = sf.Ledger(tmp_path / "l", {"people": {"person": sf.Budget(9.0, 1e-5)}})
    paid = partial(of_people, ledger=ledger, dataset="people")
    first = encode(paid(frame))
    twice = pd.concat([frame, frame])  # more rows of the same people: the same request
    assert encode(paid(twice)) == first
    (entry,) = ledger.history()
    assert entry.parameters["people"] == 40
    assert str(len(frame)) not in str(entry.parameters)
    fewer = frame[~frame[IDS].str.startswith("7919")]
    assert encode(paid(fewer)) != first


def test_a_file_cannot_claim_more_for_people_than_its_noise_keeps(frame):
    release = of_people(frame)
    event = release.guarantee.event
    louder = dataclasses.replace(event, multiplier=2 * event.multiplier)
    stated = dataclasses.replace(release.guarantee, event=louder)
    (part,) = release.parts
    forged = dataclasses.replace(release, parts=(dataclasses.replace(part, guarantees=(stated,)),))
    with pytest.raises(CorruptFileError):
        decode(encode(forged))


def test_a_plan_counts_people(frame):
    plan = MOMENTS.plan(Source(frame, label="y", person=IDS))
    assert plan.facts["rows"] == 40
    assert "40 people" in plan.title
    operator = sf.MeanOperator(epsilon=1.0, mechanism="laplace")
    source = sf.MeanOperator.source(frame, label="y", person=IDS)
    noisier, plainer = (operator.plan(s).rows[0]["noise"] for s in (
        source, dataclasses.replace(source, person=None, features=["a", "b"])))  # fmt: skip
    assert noisier > 5 * plainer  # 40 of 420 rows are used


def test_moments_of_people_are_learnt_and_merged(frame):
    release = of_people(frame)
    pipeline = release.pipeline
    other = of_people(frame.iloc[::-1], Moments(epsilon=1.0, delta=1e-6, pipeline=pipeline))
    model = sf.MomentClassifier().fit_release(release)
    assert model.predict(frame[["a", "b"]]).shape == (len(frame),)
    merged = sf.merge([release, other])
    assert {g.unit for g in merged.guarantees} == {Unit.PERSON}
    assert decode(encode(merged)).rows == 80


def test_ids_of_arrow_types_are_people(frame):
    table = pa.Table.from_pandas(frame.assign(**{IDS: frame[IDS].astype(float).astype(int)}))
    for kind in (pa.int32(), pa.uint64(), pa.float32(), pa.large_string(), pa.string_view()):
        place = table.column_names.index(IDS)
        cast = table.set_column(place, IDS, table[IDS].cast(kind))
        assert of_people(cast).rows == 40
    coded = table.set_column(place, IDS, table[IDS].cast(pa.string()).dictionary_encode())
    assert of_people(coded).rows == 40


def test_a_policy_can_demand_that_people_are_protected(frame, tmp_path):
    columns = ("a", "b")
    proposal = sf.propose(frame, features=columns, epsilon=1.0, delta=1e-6,
                          purpose="a model", classes=(0, 1))  # fmt: skip
    policy = Policy(largest_epsilon=2.0, largest_delta=1e-5, features=columns, person=IDS)
    owner = {"policy": policy, "dataset": "people", "label": "y"}
    budgets = {"people": {"person-labels": BUDGET}}
    ledger = sf.Ledger(tmp_path / "l", budgets, classes={"people": (0, 1)})
    answer, release = sf.grant(proposal, frame, ledger=ledger, **owner)
    assert answer.name == "granted"
    assert release.guarantee.unit is Unit.PERSON_LABELS
    assert release.rows == 40
    sf.FactoredClassifier().fit_release(release, frame)
    labels = sf.Ledger(tmp_path / "m", {"people": BUDGET}, classes={"people": (0, 1)})
    with pytest.raises(UnitError, match="no budget per person-labels"):
        sf.grant(proposal, frame, ledger=labels, **owner)
    greedy = sf.propose(frame, features=("a", IDS), epsilon=1.0, delta=1e-6,
                        purpose="a model", classes=(0, 1))  # fmt: skip
    owner["policy"] = dataclasses.replace(policy, features=None)
    assert sf.grant(greedy, frame, ledger=ledger, **owner)[0].name == "refused"


def test_advice_is_about_people(frame, rng):
    public = pd.DataFrame(rng.uniform(-1, 1, (300, 2)), columns=["a", "b"])
    advice = sf.advise(frame, 1.0, 1e-6, private="records", label="y", public=public, person=IDS)
    assert {row["release"] for row in advice.rows} == {"moments"}
    people = frame[IDS].str.removesuffix(".0").nunique()
    assert f"each person (epsilon = 1, delta = 1e-6) of {people} people" in advice.title
    budget, release, _ = advice.commands
    assert budget.endswith("--unit person")
    assert f"--person '{IDS}'" in release
    advice = sf.advise(frame, 1.0, 1e-6, private="labels", label="y", person=IDS)
    assert advice.commands[0].endswith("--unit person-labels")
    public = advice.mechanism.public(sf.MeanOperator.source(frame, label="y", person=IDS))
    assert public.rows.roles.features == ("a", "b")
    made = sf.release(frame, private="labels", epsilon=1.0, label="y", person=IDS, ledger=None)
    assert made.guarantee.unit is Unit.PERSON_LABELS
