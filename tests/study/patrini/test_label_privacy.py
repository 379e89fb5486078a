"""Label privacy is measured for every mechanism on every data set."""

import numpy as np

from suffice.papers import patrini
from suffice.papers.reproduce import reproduce, write_report


def test_label_privacy_measures_every_mechanism_on_every_set(data_folder, monkeypatch, tmp_path):
    monkeypatch.setattr(patrini, "_EPSILONS", (0.5, 20.0))
    steps = []
    sets = ("magic", "uci-har")
    results = reproduce(
        ["label-privacy"],
        folder=data_folder,
        sets=sets,
        seeds=2,
        progress=lambda *step: steps.append(step),
    )
    values = results["label-privacy"].values
    assert tuple(values["sets"]) == sets
    for runs in values["sets"].values():
        assert set(runs["accuracies"]) == {"auto", "laplace", "gaussian", "knorm", "response"}
        assert all(len(runs) == 2 for curve in runs["accuracies"].values() for runs in curve)
        assert np.mean(runs["accuracies"]["auto"][-1]) > np.mean(runs["larger_class"]) + 0.1
        assert np.mean(runs["without_privacy"]) > np.mean(runs["larger_class"]) + 0.1
    done, totals, _ = zip(*steps, strict=True)
    assert done == tuple(range(totals[0]))
    assert set(totals) == {2 * 2 * (1 + 5 * 2)}
    write_report(results, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "The paper has no experiments." in text
    assert "<td>auto chose</td>" in text
