"""The demo runs, tells the truth about what it did, and writes a page that stands alone."""

from suffice.study import demo


def test_the_demo_ends_with_a_table_and_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_REPEATS", 2)
    monkeypatch.setattr(demo, "_EPSILONS", (0.5, 20.0))
    page = tmp_path / "demo.html"
    story = demo.run_demo(page)
    text = page.read_text()
    assert "<svg" in text
    assert "Protects each label" in text
    assert "src=" not in text
    assert len(story.table.rows) == 2
    at_large_epsilon = [float(cell.split()[0]) for cell in story.table.rows[-1][1:]]
    assert min(at_large_epsilon) > 0.85
