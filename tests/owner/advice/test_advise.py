"""Advice on which release to make: from public facts alone, and what it says."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.engines.engine import Computing
from suffice.errors import BudgetError, ParameterError, TableError
from suffice.learner.fit import fit
from suffice.owner.advice import (
    Private,
    Question,
    _kept_by_responses,
    _kept_by_sums,
    candidates,
    heavy_tails,
)
from suffice.owner.forecast import PublicMoments, effective_labels
from suffice.owner.labelled import public_summary
from suffice.owner.mean_operator import kernel_map
from suffice.plain_text import collected_notes
from suffice.releases.release import encode
from suffice.tables.sources import open_table

KINDS = tuple(map(str, Private))


def table_of(seed: int = 0, count: int = 600) -> pd.DataFrame:
    """Return three features, one of them a category, and a label."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, count).round(1), rng.lognormal(size=count).round(3)
    ward = rng.choice(["north", "south", "west"], count)
    ill = (age / 20 + np.log(dose) + rng.normal(size=count) > 2.5).astype(int)
    return pd.DataFrame({"age": age, "dose": dose, "ward": ward, "ill": ill})


def advice_on(table, private, **more):
    public = table_of(seed=9, count=300).drop(columns="ill") if private != "labels" else None
    options = {"epsilon": 1.0, "delta": 1e-6, "label": "ill", "public": public, **more}
    return sf.advise(table, private=private, **options)


class Unreadable:
    """A cell that nobody can turn into a value, and that tells who tried."""

    def __init__(self, readers: list[str]) -> None:
        self._readers = readers

    def __str__(self):
        self._readers.append("a private cell was read")
        raise ValueError

    __repr__ = __eq__ = __hash__ = __float__ = __str__


class Guarded:
    """A table of a known number of rows that lets nobody read private columns."""

    def __init__(self, table: pa.Table, private: set[str]) -> None:
        self._table, self._private = table, private
        self.schema, self.rows, self.stays = table.schema, table.num_rows, ""

    def parts(self):
        return [self]

    def batches(self, columns):
        assert not self._private & {*columns}, "a private cell was read"
        return iter(self._table.select(list(columns)).to_batches())


@pytest.mark.parametrize("private", KINDS)
def test_no_private_cell_is_read(private):
    table = pa.Table.from_pandas(table_of(), preserve_index=False)
    secret = {"ill"} if private == "labels" else set(table.column_names)
    guarded = advice_on(Guarded(table, secret), private, epsilon=2.0)  # enough for every map
    assert str(guarded) == str(advice_on(table, private, epsilon=2.0))
    assert guarded.facts["rows"] == 600
    assert any((one.map or "").startswith("ranks+kernel") for one in guarded.candidates)


@pytest.mark.parametrize("private", KINDS)
def test_labels_of_a_frame_are_not_even_converted(private):
    table = table_of()
    expected = str(advice_on(table, private))
    readers: list[str] = []
    table["ill"] = [Unreadable(readers) for _ in range(len(table))]
    assert str(advice_on(table, private)) == expected
    if private != "labels":
        for name in ("age", "dose", "ward"):
            table[name] = [Unreadable(readers) for _ in range(len(table))]
        assert str(advice_on(table, private)) == expected
    assert not readers


@pytest.mark.parametrize("private", KINDS)
def test_parquet_neighbours_get_the_same_advice(private, tmp_path):
    table, path = table_of(), tmp_path / "table.parquet"

    def advised() -> str:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)
        advice = advice_on(path, private)
        return f"{advice!r}{advice.to_json()}{advice._repr_html_()}"

    expected = advised()
    table["ill"] = 7 - 100 * table["ill"]
    assert advised() == expected
    if private == "labels":
        table["age"] = 0.5 * table["age"] ** 2  # a public column counts
        assert advised() != expected
    else:
        table["age"], table["dose"] = np.nan, np.inf
        table["ward"] = [f"ward {i}" for i in range(len(table))]
        assert advised() == expected


@pytest.mark.parametrize("private", KINDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_every_candidate_can_be_released_and_learnt_from(private, epsilon):
    table = table_of()
    rows, labels = table.drop(columns="ill"), table["ill"].to_numpy()
    advice = advice_on(table, private, epsilon=epsilon)
    assert len(advice.candidates) >= 4
    for candidate in advice.candidates:
        if candidate.estimator is not None:
            continue  # trees take seconds; lab/bench/advise.py runs them
        with_labels = rows.assign(ill=labels)
        release = candidate.mechanism.release(with_labels, label="ill", ledger=None)
        guarantees = [g for part in release.parts for g in part.guarantees]
        unit = {"labels": ("label",), "records": ("record",), "attributes": ("attribute", "record")}
        kept = [g.epsilon for g in guarantees if str(g.unit) in unit[private]]
        assert min(kept) <= epsilon
        model = fit(release, rows if private == "labels" else None)
        assert set(model.predict(rows)) <= {0, 1}


def test_the_advised_mechanism_is_the_first_candidate():
    advice = advice_on(table_of(), "records")
    assert advice.mechanism is advice.candidates[0].mechanism
    assert advice.to_json()["candidates"][0]["release"] == advice.mechanism.name == "moments"
    assert advice.commands[1].startswith("suffice release moments TABLE --label ill")
    assert "--standardize PUBLIC" in advice.commands[1]


def test_effective_labels_are_those_of_the_unbiased_estimate():
    """Its variance by simulation, within 5 standard errors; tanh^2(eps/2) for equal classes."""
    assert effective_labels(1000, 0.4, 2) == pytest.approx(1000 * math.tanh(0.2) ** 2)
    rng = np.random.default_rng(0)
    epsilon, p, count = 1.0, 0.05, 400_000
    y = np.where(rng.random(count) < p, 1.0, -1.0)
    flip = 1 / (1 + math.exp(epsilon))
    seen = np.where(rng.random(count) < flip, -y, y) / (1 - 2 * flip)
    ratio = y.var() / seen.var()
    assert effective_labels(1, epsilon, 2, balance=p) == pytest.approx(ratio, rel=0.02)
    odds = math.exp(epsilon)
    assert effective_labels(1, epsilon, 5) == pytest.approx(((odds - 1) / (odds + 4)) ** 2)


def test_trees_are_advised_from_1500_effective_labels_on():
    """Of balanced labels at epsilon 1, 1 in 4.683 counts: 7,024 of them are 1,500."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7_100, 2))
    few = sf.advise(rows[:7_000], epsilon=1.0, private="labels")
    many = sf.advise(rows, epsilon=1.0, private="labels")
    assert few.best.estimator is None
    assert many.best.estimator == "hist-gradient-boosting"
    assert "--estimator hist-gradient-boosting" in many.commands[2]
    unequal = sf.advise(rows, epsilon=1.0, private="labels", balance=0.05)
    assert unequal.best.estimator is None


@pytest.mark.parametrize(
    ("epsilon", "components"), [(0.1, 50), (1.0, 100), (5.0, 200), (30.0, 400)]
)
def test_components_grow_with_what_noise_leaves(epsilon, components):
    assert kernel_map(4_000, epsilon) == f"ranks+kernel:{components}"


def test_products_of_moments_are_advised_where_tails_are_heavy_and_the_noise_leaves_them():
    rng = np.random.default_rng(0)
    heavy, light = rng.laplace(size=(6000, 6)), rng.normal(size=(6000, 6))

    def advised(rows: np.ndarray, epsilon: float, end: int = 5040) -> str | None:
        own, public = rows[:5000], rows[5000:end]
        return sf.advise(own, epsilon, 1e-6, private="records", public=public).best.map

    # Of 40 public rows no 50 components can be fitted.
    assert advised(heavy, 3.0) == "ranks+polynomial:2"
    assert advised(heavy, 0.01) != "ranks+polynomial:2"
    assert advised(light, 3.0) != "ranks+polynomial:2"
    # From 1,000 records times epsilon on, they are taken whatever the tails.
    assert {advised(rows, 0.21, 6000) for rows in (heavy, light)} == {"ranks+kernel:50"}
    assert {advised(rows, 0.19, 6000) for rows in (heavy, light)} == {"ranks", None}


def test_advice_states_the_price_of_own_columns_and_names_a_delta_that_buys_a_point():
    rows = np.random.default_rng(0).normal(size=(2000, 20))
    asked = {"private": "labels", "classes": (0, 1)}
    pure = sf.advise(rows, 0.3, **asked)
    predicted = pure.to_json()["predicted_accuracy"]
    assert predicted["with_delta"] >= predicted["advised"] + 0.01
    assert f"With --delta 1e-6 the predicted accuracy is {predicted['with_delta']:.3f}" in str(pure)
    gaussian = sf.advise(rows, 0.3, 1e-6, **asked).to_json()["predicted_accuracy"]
    assert gaussian["advised"] == predicted["with_delta"]
    assert "with_delta" not in gaussian
    bent = sf.advise(rows, 1.0, 1e-6, **asked)
    predicted = bent.to_json()["predicted_accuracy"]
    points = round(100 * (predicted["advised"] - predicted["linear"]))
    assert points >= 2
    assert f"costs about {points} points of accuracy." in str(bent)
    # Trees have no such forecast, nor has a mean operator of plain rows a price.
    trees = sf.advise(np.tile(rows, (10, 1)), 3.0, **asked)
    assert trees.to_json()["predicted_accuracy"] == {}


def test_one_call_makes_the_advised_release_and_fit_takes_its_learner():
    """Products of columns, which plain rows tell nothing of; then enough labels for trees."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8_000, 3))
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    settings = {"private": "labels", "delta": 1e-6, "ledger": None}
    with collected_notes() as lines:
        few = sf.release(rows[:3_000], labels[:3_000], epsilon=1.0, **settings)
    assert lines[0].startswith("Released by the rule of advise: mean operator, ranks+kernel:100. ")
    assert lines[0].endswith(" % of the signal left.")
    assert few.pipeline.map.kind == "ranks+kernel"
    assert few.guarantee.epsilon <= 1
    assert fit(few, rows[:3_000]).score(rows, labels) > 0.85
    plain = sf.MeanOperator(1.0, 1e-6, map=None).release(rows[:3_000], labels[:3_000], ledger=None)
    assert fit(plain, rows[:3_000]).score(rows, labels) < 0.6
    many = sf.release(rows, labels, epsilon=1.0, **settings)
    assert many.kind == "label-responses"
    assert type(fit(many, rows)).__name__ == "NoisyLabelClassifier"
    assert type(fit(many, rows, lam=0.1)).__name__ == "FactoredClassifier"


def test_one_call_charges_the_ledger_and_repeats_its_bytes(tmp_path):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    ledger = sf.Ledger(tmp_path / "a.ledger", {"ill": sf.Budget(epsilon=1.5)})
    call = {"private": "labels", "epsilon": 1.0, "ledger": ledger, "dataset": "ill"}
    first = sf.release(rows, labels, **call)
    again = sf.release(rows, 1 - labels, **call)
    assert encode(first) == encode(again)
    with pytest.raises(BudgetError):
        sf.release(rows, labels, **call | {"epsilon": 0.7})


def test_kernel_components_are_advised_where_the_noise_leaves_them():
    rows = np.random.default_rng(0).normal(size=(12_000, 5))
    with_delta, without = (
        sf.advise(rows, 0.1, delta, private="labels").best.map for delta in (1e-6, 0.0)
    )
    assert with_delta == "ranks+kernel:50"
    assert without == "ranks"


def test_one_call_refuses_to_guess_without_public_rows():
    with pytest.raises(ParameterError, match="public rows"):
        sf.release(
            np.ones((9, 2)), np.ones(9), private="records", epsilon=1.0, delta=1e-6, ledger=None
        )


def test_more_noise_leaves_less():
    rows = np.random.default_rng(0).normal(size=(500, 5))
    moments = PublicMoments.of(rows - rows.mean(axis=0), 2000, 2)
    assert moments.kept(0.0) == 1
    left = [
        _kept_by_sums(moments, 3.0, sf.Moments(epsilon, 1e-6)) for epsilon in (0.01, 0.1, 1.0, 10.0)
    ]
    assert left == sorted(left)
    assert left[0] < 0.2
    assert 0.95 < left[-1] < 1
    assert _kept_by_sums(moments, 3.0, sf.Rados(epsilon=1.0, delta=1e-6)) < left[2]
    labels = effective_labels(2000, 1.0, 2)
    assert _kept_by_responses(moments, labels, 5.0) < _kept_by_responses(moments, labels, 1.0) < 1


def test_the_forecast_is_what_a_learner_reaches():
    """A least-squares model of noisy moments of Gaussian rows: predicted within 0.05.

    The signal is drawn 40 times in no preferred direction; the mean has a deviation of 0.01.
    """
    rng = np.random.default_rng(1)
    count, deviation = 1000, 0.1
    rows = rng.normal(size=(count, 8)) * np.linspace(0.4, 1.6, 8)
    second = rows.T @ rows / count
    values, penalties = np.linalg.eigvalsh(second), 10.0 ** np.arange(-3.0, 2.0, 0.5)
    left = []
    for _ in range(40):
        beta = rng.normal(size=8)
        beta *= math.sqrt(0.2 / (beta @ second @ beta))
        signs = rows @ beta + math.sqrt(0.8) * rng.normal(size=count)
        noisy = rows.T @ signs / count + deviation * rng.normal(size=8)
        reached = []
        for penalty in penalties:
            theta = np.linalg.solve(second + penalty * np.eye(8), noisy)
            reached.append(theta @ second @ beta / math.sqrt(theta @ second @ theta))
        left.append(reached)
    noise = np.full(8, deviation**2)
    moments = PublicMoments(values, np.eye(8), count, 2)
    forecast = moments._correlations(noise, 0.2, moments.curvature * penalties)
    assert np.max(np.mean(left, axis=0)) == pytest.approx(np.max(forecast), abs=0.05)


def test_without_delta_records_leave_randomised_cells_alone():
    advice = advice_on(table_of(), "attributes", delta=0.0)
    assert [candidate.name for candidate in advice.candidates] == ["randomised records"]
    assert "--delta 1e-6" in str(advice)
    assert advice.best.signal_left is None  # it would be no honest figure


def test_without_public_rows_there_are_ranges_to_fill_in():
    advice = sf.advise(table_of(), 1.0, 1e-6, private="records", label="ill")
    assert advice.best.name == "moments"
    assert "--range LO,HI" in advice.commands[1]
    assert "unknown without public rows" in str(advice)
    with pytest.raises(ParameterError, match="nothing to compare"):
        sf.advise(table_of(), 1.0, private="records", label="ill")


def test_missing_public_cells_are_filled_in_the_command():
    table = table_of()
    assert "--missing" not in advice_on(table, "labels").commands[1]
    table.loc[3, "age"] = np.nan
    assert "--missing mean" in advice_on(table, "labels").commands[1]


def test_classes_that_nobody_listed_are_named():
    """Each of text, JSON and commands says which labels it is for."""
    advice = advice_on(table_of(), "labels")
    assert "The labels are taken to be 0 and 1" in str(advice)
    assert "--classes 0,1" in advice.commands[1]
    assert advice.facts["classes"] == [0, 1]
    listed = advice_on(table_of(), "labels", classes=("no", "yes"))
    assert "taken to be" not in str(listed)
    assert listed.facts["classes"] == ["no", "yes"]


def test_many_classes_leave_rados_out():
    table = table_of()
    advice = advice_on(table, "records", classes=("a", "b", "c,d"))
    assert {candidate.mechanism.name for candidate in advice.candidates} == {"moments", "responses"}
    assert "--classes 'a,b,\"c,d\"'" in advice.commands[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"private": "rows"}, "private must be one of"),
        ({"private": "labels", "public": table_of()}, "Remove --public"),
        ({"private": "labels", "epsilon": -1.0}, "epsilon"),
        ({"private": "labels", "balance": 2.0}, "class balance"),
    ],
)
def test_a_wrong_question_is_an_error(wrong, message):
    with pytest.raises(ParameterError, match=message):
        sf.advise(table_of(), **{"epsilon": 1.0, "label": "ill", **wrong})


def test_a_public_table_without_a_column_is_an_error():
    with pytest.raises(TableError, match="'dose'"):
        advice_on(table_of(), "records", public=table_of().drop(columns=["dose", "ill"]))


def test_wide_tables_are_not_offered_products():
    table = open_table(np.random.default_rng(0).normal(size=(50, 2)))
    summary = public_summary(table, table.schema.names, frozenset(), Computing())
    question = Question(private="records", epsilon=1.0, delta=1e-6)
    wide, narrow = (
        [c.map for c in candidates(question, width, summary) if c.mechanism.name == "moments"]
        for width in (30, 10)
    )
    assert wide == [None, "ranks"]
    assert narrow == [None, "ranks", "ranks+polynomial:2"]


def test_tails_are_the_median_excess_kurtosis_of_public_numbers():
    """0 for normal columns (deviation 0.05 of 10,000 rows), 3 for Laplace ones, any size."""
    rng = np.random.default_rng(0)
    size = 10_000

    def tails(*columns: np.ndarray) -> float:
        table = open_table(np.column_stack(columns))
        return heavy_tails(public_summary(table, table.schema.names, frozenset(), Computing()))

    normal, laplace = rng.normal(size=size), rng.laplace(size=size)
    assert abs(tails(normal, np.ones(size), rng.integers(0, 2, size))) < 0.25
    assert tails(1e150 * laplace) == pytest.approx(tails(laplace), rel=1e-6)
    assert 2 < tails(laplace) < 4
    assert tails(np.ones(size)) == 0


def test_numbers_of_numpy_are_written_as_a_command_line_takes_them():
    advice = advice_on(table_of(), "records", epsilon=np.float64(0.5), delta=np.float64(1e-6))
    assert all("--epsilon 0.5 --delta 1e-6" in command for command in advice.commands[:2])


@pytest.mark.parametrize("private", KINDS)
def test_a_number_to_predict_is_advised_and_no_private_cell_is_read(private):
    table, readers = table_of(), []
    asked = {"target": "dose", "ranges": {"dose": (0, 20)}, "label": None, "drop": ("ill",)}
    for name in ["dose"] if private == "labels" else [*table.columns]:
        table[name] = [Unreadable(readers) for _ in range(len(table))]
    advice = advice_on(table, private, **asked)
    assert not readers
    budget, release, _, inspect = advice.commands
    assert "--target dose" in release
    assert "--range dose=0,20" in release
    assert "--classes" not in release
    assert ("--unit label --standardize TABLE" in release) == (private == "labels")
    assert ("--unit record" in budget) == (private != "labels")
    assert inspect.endswith("--explain")
    assert advice.facts["candidates"][0]["verdict"] == "fine"


def test_a_number_to_predict_is_released_as_advised_or_refused_in_words():
    asked = {
        "private": "records", "public": table_of(9).drop(columns="ill"), "delta": 1e-6,
        "drop": ("ill",), "target": "dose", "ledger": None,
    }  # fmt: skip
    made = sf.release(table_of(), epsilon=1.0, ranges={"dose": (0, 20)}, **asked)
    assert (made.kind, made.details["target"]) == ("target-moments", "dose")
    with pytest.raises(ParameterError, match="noise would be larger"):
        sf.release(table_of(), epsilon=0.01, ranges={"dose": (0, 20)}, **asked)
    with pytest.raises(ParameterError, match="both its column and its range"):
        sf.release(table_of(), epsilon=1.0, **asked)
    with pytest.raises(ParameterError, match="Add --delta"):
        sf.release(table_of(), epsilon=1.0, ranges={"dose": (0, 20)}, **{**asked, "delta": 0.0})


def test_a_plan_becomes_a_data_frame(rng):
    plan = sf.plan_mean_operator(rng.normal(size=(200, 3)), epsilon=1.0)
    frame = plan.to_pandas()
    assert len(frame) == len(plan.rows)
    assert frame["epsilon"].tolist() == [row["epsilon"] for row in plan.rows]
    assert frame["accuracy.usual"].tolist() == [row["accuracy"]["usual"] for row in plan.rows]
