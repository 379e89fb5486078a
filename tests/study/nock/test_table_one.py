"""Table 1 runs on files like the real ones, and says what it compares."""

import numpy as np
import pytest

from suffice.papers.reproduce import document, reproduce, write_report


@pytest.mark.usefixtures("quick")
def test_table_one_sets_ours_beside_the_printed_errors(folder, tmp_path):
    steps = []
    results = reproduce(
        ["rados-table1"],
        folder=folder,
        sets=("magic", "transfusion"),
        seeds=2,
        progress=lambda *step: steps.append(step),
    )
    (result,) = results.values()
    for runs in result.values["sets"].values():
        assert all(len(errors) == 4 for errors in runs["errors"].values())
        assert all(0 <= np.mean(errors) < 45 for errors in runs["errors"].values())
        assert np.mean(runs["errors"]["RadoRidge, our options"]) < 30
    assert [step[0] for step in steps] == list(range(8))
    printed = {statement.what: statement.printed for statement in result.compared}
    assert printed["magic, RadoBoost"] == 22.75
    assert len(printed) == 3  # of transfusion nothing is printed
    write_report(results, tmp_path / "page.html")
    assert "21.07 ± 0.98" in (tmp_path / "page.html").read_text()
    assert document(results)["reproductions"]["rados-table1"]["paper"].endswith("Table 1")
