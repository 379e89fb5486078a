"""`suffice card` prints a card, or writes it as its name ends."""

import json
from pathlib import Path

RELEASE = Path(__file__).parents[1] / "fixtures" / "mean-operator.suffice"
SCORE = {"rows": 120, "accuracy": 0.875}


def test_the_command_writes_and_prints_cards(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(RELEASE)
    Path("score.json").write_text(json.dumps(SCORE))
    assert suffice("card", path).startswith("# Card of a release\n")
    for name in ("card.html", "card.md", "card.json"):
        suffice("card", path, "--quality", "score.json", "--purpose", "Teach.", "-o", name)
        assert "Teach." in Path(name).read_text()
        assert "exists" in suffice("card", path, "-o", name, code=6)
    assert ".html, .md or .json" in suffice("card", path, "-o", "card.pdf", code=2)
    Path("score.json").write_text("[1]")
    assert "score" in suffice("card", path, "--quality", "score.json", code=2)
