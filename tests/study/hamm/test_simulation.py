"""Simulated parties: methods agree with their definitions, and noise harms them."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from suffice.errors import ParameterError
from suffice.papers import hamm
from suffice.papers.hamm import (
    METHODS,
    simulate,
    simulate_table,
    step_count,
    write_simulation,
)
from suffice.papers.reproduction import Steps


def test_without_noise_methods_are_what_their_names_say(crowd):
    exact = simulate([crowd], [1.0], delta=1e-5, methods=["operator"])["without_noise"]
    rows, codes = crowd.parties.rows, crowd.parties.codes
    options = {"fit_intercept": False, "tol": 1e-8, "max_iter": 5000}
    batch = LogisticRegression(C=1 / (len(codes) * 1e-4), **options).fit(rows, codes)
    assert exact["batch"] == [pytest.approx(batch.score(crowd.test_rows, crowd.test_codes))]
    votes, local, mean = np.zeros((60, 3)), [], 0.0
    for party in range(40):
        own = crowd.parties.index == party
        model = LogisticRegression(C=1 / (own.sum() * 1e-4), **options).fit(rows[own], codes[own])
        votes[np.arange(60), model.predict(crowd.auxiliary.rows)] += 1
        local.append(model.score(crowd.test_rows, crowd.test_codes))
        full = np.zeros((5, 3))
        if len(model.classes_) > 2:  # scikit-learn has one vector for two classes
            full[:, model.classes_] = model.coef_.T
        mean += full / 40
    assert exact["indiv"] == [pytest.approx(np.mean(local), abs=2e-3)]
    vote = LogisticRegression(C=1 / (60 * 1e-4), **options)
    vote.fit(crowd.auxiliary.rows, votes.argmax(axis=1))
    accuracy = vote.score(crowd.test_rows, crowd.test_codes)
    assert exact["vote"] == [pytest.approx(accuracy, abs=0.01)]
    assert exact["average"] == [pytest.approx(crowd.accuracy(mean), abs=0.05)]
    assert min(exact["soft"]) > 0.9
    assert exact["larger_class"][0] < 0.5


def test_every_method_runs_and_hard_noise_harms(crowd):
    steps = []
    bar = Steps(lambda *step: steps.append(step), step_count(1, [200.0, 0.01]))
    outcome = simulate([crowd], [200.0, 0.01], delta=1e-5, steps=bar)
    runs = outcome["accuracies"]
    assert tuple(runs) == METHODS
    assert all(len(cell) == 1 for cells in runs.values() for cell in cells)
    for name in ("operator", "votes", "pate"):
        assert runs[name][0][0] > 0.9
    assert np.mean([cells[1][0] for cells in runs.values()]) < 0.7
    assert len(steps) == steps[-1][1] == 1 + 2 * len(METHODS)
    json.dumps(outcome, allow_nan=False)


def test_what_makes_no_sense_is_refused(crowd, table):
    with pytest.raises(ParameterError, match="methods must be one or more of"):
        simulate([crowd], [1.0], delta=1e-5, methods=["operator", "magic"])
    for bad in ([], [0.0], [np.inf]):
        with pytest.raises(ParameterError, match="positive numbers"):
            simulate([crowd], bad, delta=1e-5)
    with pytest.raises(ParameterError, match="trials"):
        simulate_table(table, [1.0], delta=1e-5, label="label", trials=0)


def test_trials_of_a_table_are_dealt_anew_and_repeat_with_their_seed(table, tmp_path):
    options = {"label": "label", "classes": (0, 1, 2), "party": "user", "methods": ["soft"]}
    outcome, again = (
        simulate_table(table, [5.0], delta=1e-5, trials=2, seed=3, **options) for _ in range(2)
    )
    assert outcome["without_noise"] == again["without_noise"]  # `seed` does not seed the noise
    assert len(set(outcome["without_noise"]["indiv"])) == 2
    table = write_simulation(outcome, tmp_path / "page.html")
    assert [row[0] for row in table.rows][:2] == ["soft", "batch"]
    page = (tmp_path / "page.html").read_text()
    assert "1 / epsilon" in page
    assert "mean and range of 2 trials" in page


def test_batch_is_trained_on_a_part_of_very_many_records(crowd, monkeypatch):
    monkeypatch.setattr(hamm, "_BATCH_ROWS", 100)
    trained = []
    learn = hamm._minimiser
    monkeypatch.setattr(hamm, "_minimiser", lambda *own: trained.append(len(own[0])) or learn(*own))
    assert simulate([crowd], [1.0], delta=1e-5, methods=["soft"])["without_noise"]["batch"][0] > 0.8
    assert trained[0] == -(-390 // 4)  # every fourth of them
