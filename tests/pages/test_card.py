"""A card describes a release from its file alone, for people and as a record for a registry."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

import suffice
from suffice import strict_json
from suffice.errors import ParameterError
from suffice.pages.card import Record
from suffice.privacy.guarantee import explain

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures").glob("*.suffice"))
SCHEMA = Path(__file__).parents[2] / "docs" / "card.schema.json"
EVIL = "<script>alert(1)</script> [x](y) | `z`"
SCORE = {"rows": 120, "accuracy": 0.875, "auc": 0.9, "no_probabilities": "words"}


def words(markup: str) -> str:
    return re.sub(r"<[^>]+>", " ", markup)


def test_every_kind_has_a_card_that_fits_the_schema_and_repeats_its_guarantees():
    schema = json.loads(SCHEMA.read_text())
    assert schema == strict_json.schema(Record)
    validator = jsonschema_rs.validator_for(schema)
    assert len(FIXTURES) >= 13
    for path in FIXTURES:
        card = suffice.card(path, quality=SCORE)
        record = json.loads(json.dumps(card.to_json(), allow_nan=False))
        validator.validate(record)
        page, text = card.to_html(), card.to_markdown()
        for guarantee, stated in zip(card.release.guarantees, record["guarantees"], strict=True):
            assert stated["words"] == str(guarantee)
            for note in explain(guarantee).notes:  # the words that `inspect --explain` has
                assert note in text
                assert note in page
        parameters = record["deployment"]["privacy_loss"]["privacy_parameters"]
        least = [g for g in card.release.guarantees if not g.protected]
        assert (parameters["epsilon"] is None) == bool(least)
        assert ("personal data" in text) == bool(least)
    with pytest.raises(jsonschema_rs.ValidationError):
        validator.validate({**record, "status": "Signed"})


def test_a_card_says_who_what_for_and_what_a_learner_measured():
    card = suffice.card(
        FIXTURES[0], curator="Clinic", purpose="Teach.", audience="Students.", quality=SCORE
    )
    text = card.to_markdown()
    for said in ("- by: Clinic", "- purpose: Teach.", "- for: Students.", "on 120 rows of its own"):
        assert said in text
    record = card.to_json()
    assert record["deployment"]["data_curator"] == "Clinic"
    assert record["model_card"]["metrics"] == {"accuracy": 0.875, "auc": 0.9}
    assert "Nobody has measured it" in str(suffice.card(FIXTURES[0]))
    assert suffice.card(FIXTURES[0]).to_json()["deployment"]["intended_use"] is None
    with pytest.raises(ParameterError, match="number of rows"):
        suffice.card(FIXTURES[0], quality={"accuracy": 1.0})


def test_no_text_of_others_is_markup():
    card = suffice.card(FIXTURES[0], curator=EVIL, purpose=EVIL, audience=EVIL)
    for page in (card.to_html(), card._repr_html_()):
        assert "<script" not in page
        assert "alert(1)" in words(page)
    assert "<script" not in card.to_markdown().replace("\\<script", "")
    assert "[x](y)" not in card.to_markdown()
