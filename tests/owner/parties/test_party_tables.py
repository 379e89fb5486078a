"""Parties from one table: each learns from its own records, and votes only for classes it has."""

import numpy as np
import pyarrow as pa
import pytest

from builders import auxiliary_rows
from suffice.engines.engine import fold
from suffice.errors import ParameterError, TableError
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import Aggregation, PrivateEnsemble
from suffice.owner.parties.gathering import Enrolled, Gathering, PartyTable, predicted
from suffice.releases.release import manifest_of

AUX = auxiliary_rows(50)


def records(classes: int, parties: int = 6, rows: int = 120) -> pa.Table:
    rng = np.random.default_rng(classes)
    X = rng.normal(size=(rows, 3)) * 3
    labels = np.digitize(X[:, 0] + X[:, 2], [-1.0, 1.0] if classes == 3 else [0.0])
    who = np.arange(rows) % parties
    labels[who == 1] = 1  # a party of one class
    labels[who == 2] = np.minimum(labels[who == 2], 1)  # and one that lacks the last
    columns = {f"x{j}": X[:, j] for j in range(3)}
    return pa.table({**columns, "label": labels, "who": [f"w{w}" for w in who]})


def read(table: pa.Table, classes: int, party: str | None = "who") -> PartyTable:
    declared = tuple(range(classes))
    return PartyTable.read(table, AUX, label="label", classes=declared, party=party)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_party_votes_only_for_classes_that_it_has(classes):
    own = read(records(classes), classes)
    votes = predicted(AUX.rows, own.parameters(0.01), own.present())
    assert votes.shape == (6, 50)
    assert (votes[1] == 1).all()
    assert set(np.unique(votes[2])) <= {0, 1}
    assert len(np.unique(votes[0])) > 1
    models = own.parameters(0.01)
    for party in (0, 3):  # slow twin: one party, one row at a time
        scores = AUX.rows @ models[party]
        expected = (scores > 0) if classes == 2 else scores.argmax(axis=1)
        assert np.array_equal(votes[party], expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_parties_of_a_table_contribute_what_each_would_alone(classes):
    table = records(classes)
    own = read(table, classes)
    declared, everybody = tuple(range(classes)), Enrolled.of(list(own.names))
    single_tables = []
    for name in own.names:
        mine = table.filter(pa.compute.equal(table["who"], name)).drop_columns(["who"])
        single_tables.append(read(mine, classes, None))
    for statistic in ("operator", "votes"):
        parts = [
            single_table.contribution(name, AUX, statistic, 0.01)
            for name, single_table in zip(own.names, single_tables, strict=True)
        ]
        together = own.tally(AUX, 0.01, everybody).gathered(statistic)
        single = fold([parts], Gathering(statistic, AUX, declared, everybody)).result()
        assert np.array_equal(together.total, single.total)
        assert single.rejected == together.rejected == ()
    averaged = list(own.averaged(AUX, 0.01))
    for name, single_table, part in zip(own.names, single_tables, averaged, strict=True):
        assert np.array_equal(
            single_table.contribution(name, AUX, "parameters", 0.01).array, part.array
        )


def test_close_votes_are_summed_in_the_order_of_coordinates():
    """Rows at right angles to a model: a product of matrices rounds their scores to either side."""
    rng = np.random.default_rng(1)
    models, width = rng.normal(size=(7, 40)), 40
    away = rng.normal(size=(400, width))
    toward = models[rng.integers(0, 7, 400)]
    rows = away - (away * toward).sum(axis=1, keepdims=True) / (toward**2).sum(1)[:, None] * toward
    votes = predicted(rows, models, np.ones((7, 2), dtype=bool))
    expected = [[sum((m * r).tolist()) > 0 for r in rows] for m in models]
    assert np.array_equal(votes, expected)
    assert (np.abs(models @ rows.T) < 1e-13).sum() > 300  # no more than roundings


def test_a_category_that_one_party_alone_has_stops_nobody():
    """It counts as none: whether there is a release must not tell that it occurs."""
    rng = np.random.default_rng(3)
    wards = rng.choice(["a", "b"], 40)
    aux = AuxiliaryRows.read(pa.table({"x": rng.normal(size=40), "ward": wards}))
    own = {"x": [0.5, -1.0, 2.0, 1.0], "ward": ["a", "b", "c", "a"], "label": [0, 1, 1, 0]}
    table = pa.table({**own, "who": ["p", "p", "q", "q"]})
    party_table = PartyTable.read(table, aux, label="label", classes=(0, 1), party="who")
    coded = [name.startswith("ward=") for name in aux.pipeline.outputs]
    inside, outside = party_table.rows[0][coded], party_table.rows[2][coded]
    assert len(party_table.rows) == 4
    assert not np.array_equal(inside, outside)


def test_blocks_of_parties_change_nothing(monkeypatch):
    own = read(records(3), 3)
    in_one_block = own.tally(AUX, 0.01, Enrolled(6)).gathered("votes")
    monkeypatch.setattr("suffice.owner.parties.gathering._SCORES_AT_ONCE", 50 * 3 * 2)
    parts = own.tally(AUX, 0.01, Enrolled(6)).gathered("votes")
    assert np.array_equal(in_one_block.total, parts.total)


def test_every_record_belongs_to_somebody():
    table = records(2)
    who = pa.array([None, *table["who"].to_pylist()[1:]])
    with pytest.raises(TableError, match="1 records name no party"):
        read(table.set_column(table.schema.get_field_index("who"), "who", who), 2)


def nasty(classes: int, changed: dict[str, list], *, without: bool = False) -> pa.Table:
    """Return parties alike, whose risks are flat, and a last one with records of its own."""
    rng = np.random.default_rng(3)
    X = np.tile(rng.normal(size=(6, 3)) * 0.05, (12, 1))
    labels = np.tile([0, 1, classes - 1, 0, 1, classes - 1], 12)
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"label": labels}
    alike = pa.table(columns | {"who": np.repeat([f"w{p:02d}" for p in range(12)], 6)})
    return alike if without else pa.concat_tables([alike, pa.table(changed)])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("map", [None, "rff:20"])
@pytest.mark.parametrize("largest", [300, 0])  # both solvers
def test_what_one_party_holds_moves_no_other_party(classes, map, largest, monkeypatch):  # noqa: A002
    """Bit by bit: auxiliary rows stand where rounding, or a coarser solution, turns a vote."""
    from suffice.models import local

    monkeypatch.setattr(local, "_LARGEST", largest)
    aux = AuxiliaryRows.read(np.random.default_rng(0).normal(size=(60, 3)) * 5, map=map, clip=1.0)
    records_of_one = [
        {"x0": [0.0], "x1": [0.0], "x2": [0.01], "label": [1], "who": ["zz"]},
        {
            "x0": [9.0, 90.0],
            "x1": [1.0, 9.0],
            "x2": [0.0, 90.0],
            "label": [0, 1],
            "who": ["zz"] * 2,
        },
        {
            "x0": [1e6] * 9,
            "x1": [0.0] * 9,
            "x2": [5.0] * 9,
            "label": [0, 1, 0] * 3,
            "who": ["aa"] * 9,
        },
    ]
    tables = [nasty(classes, h) for h in records_of_one] + [nasty(classes, {}, without=True)]
    results = []
    for table in tables:
        declared = tuple(range(classes))
        own = PartyTable.read(table, aux, label="label", classes=declared, party="who")
        is_other_party = [name.startswith("w") for name in own.names]
        models = own.parameters(1e-4)
        # On the boundary between two classes of the party, as nearly as floats can stand.
        normal = (
            models[is_other_party][0]
            if classes == 2
            else models[is_other_party][0] @ [1.0, -1.0, 0.0]
        )
        line = aux.rows - np.outer(aux.rows @ normal, normal) / (normal @ normal)
        votes = predicted(line, models, own.present())[is_other_party]
        results.append(
            (own.rows[np.array(is_other_party)[own.index]], models[is_other_party], votes)
        )
        assert (votes == votes[0]).all()
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert np.array_equal(mine, theirs)


# --- enrolled parties: public, never counted in the table


def enrolled_in(table: pa.Table, names: list[str] | int, classes: int = 3) -> PartyTable:
    declared, enrolled = tuple(range(classes)), Enrolled.of(names)
    return PartyTable.read(
        table, AUX, label="label", classes=declared, party="who", enrolled=enrolled
    )


def outcome(table: pa.Table, names: list[str] | int, method: str, **paid):
    """Return what `suffice release parties` computes."""
    ensemble, reports = PrivateEnsemble(1.0, 1e-5, method, classes=(0, 1, 2), lam=0.1), []
    columns = {"label": "label", "party": "who", "auxiliary": AUX, "enrolled": Enrolled.of(names)}
    paid = {"ledger": None, **paid}
    release = ensemble.release(table, **columns, report=reports.append, **paid)
    facts = {name: value for name, value in reports[0].facts.items() if name != "kind"}
    return Aggregation(release, **facts)


def public_part(release) -> dict:
    """Return everything in a release but its noisy arrays."""
    shapes = {name: array.shape for name, array in release.arrays.items()}
    manifest = {k: v for k, v in manifest_of(release).items() if k != "payload"}  # the arrays' hash
    return {**manifest, "shapes": shapes}


@pytest.mark.parametrize("names", [7, [f"w{i}" for i in range(7)]])
@pytest.mark.parametrize("method", ["operator", "vote-table", "soft", "majority-model", "average"])
def test_whether_a_party_has_records_shows_nowhere(method, names):
    """All six parties of a table, one of them less, and none at all: one public part."""
    table = records(3)
    who = np.array(table["who"].to_pylist())
    tables = [table, table.filter(pa.array(who != "w3")), table.slice(0, 0)]
    outcomes = [outcome(t, names, method) for t in tables]
    assert [out.accepted for out in outcomes] == [6, 5, 0]
    assert [out.absent for out in outcomes] == [1, 2, 7]
    assert public_part(outcomes[0].release) == public_part(outcomes[1].release)
    assert public_part(outcomes[0].release) == public_part(outcomes[2].release)


@pytest.mark.parametrize("method", ["operator", "average"])
def test_records_of_strangers_are_left_out_unread(method):
    """Neither their labels, nor their cells, nor empty names stop or change a release."""
    table, names = records(3), ["w0", "w1", "w3", "later"]
    mine = pa.compute.is_in(table["who"], pa.array(names))
    enrolled_only = table.filter(mine)
    mixed = {name: table[name].to_pylist() for name in table.column_names}
    for position, own in enumerate(mine.to_pylist()):
        if not own:
            mixed["label"][position] = 17 + position
            mixed["x0"][position] = None
            mixed["who"][position] = None if position % 5 == 0 else mixed["who"][position]
    party_table = enrolled_in(pa.table(mixed), names)
    assert party_table.names == ("w0", "w1", "w3")
    for part in ("rows", "codes", "index"):
        assert np.array_equal(
            getattr(party_table, part), getattr(enrolled_in(enrolled_only, names), part)
        )
    assert [r.party for r in party_table.strangers] == ["w2", "w4", "w5", "unknown party"]
    assert "records name no party" in party_table.strangers[-1].reason
    out = outcome(pa.table(mixed), names, method)
    assert (out.accepted, out.missing) == (3, ("later",))
    assert out.rejected == party_table.strangers


def test_more_parties_than_the_enrolled_number_are_an_error():
    for method in ("operator", "average"):
        with pytest.raises(ParameterError, match=r"[Mm]ore (parties )?than the 5"):
            outcome(records(3), 5, method)
