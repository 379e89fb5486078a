"""docs/format.md is enough to read a file: a reader in another language, and a JSON schema."""

import json
from pathlib import Path

import jsonschema_rs
import numpy as np
import pyarrow as pa
import pytest
import quickjs

import format_reference
from suffice.learner.operator import FactoredClassifier
from suffice.owner.mean_operator import MeanOperator
from suffice.releases.file import split

ROOT = Path(__file__).parents[2]
READER = (ROOT / "examples" / "read_model.js").read_text(encoding="utf-8")
FILES = sorted((ROOT / "tests" / "fixtures").glob("*.suffice"))
HARNESS = """
function scored(hex, rows) {
  const model = readFile(Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16)));
  return JSON.stringify(JSON.parse(rows).map((row) => predict(model, row)));
}
"""


@pytest.fixture(scope="module")
def scored():
    context = quickjs.Context()
    context.eval(READER + HARNESS)
    call = context.get("scored")

    def run(data: bytes, rows: list[dict]) -> list[dict]:
        return json.loads(call(data.hex(), json.dumps(rows)))

    run.context = context  # it lives as long as the function
    return run


def trained(seed: int, *, drawn: int = 300):
    """Return a model and its rows; classes, columns, clipping and holes differ by the seed."""
    rng = np.random.default_rng(seed)
    classes = ((0, 1), ("fine", "ill"), ("a", "b", "c"))[seed % 3]
    columns = {f"n{i}": rng.normal(size=drawn) * 10**i for i in range(1 + seed % 4)}
    if seed % 2:
        columns["ward"] = rng.choice(["Nord", "Süd", "あ"], drawn)
    holes = seed % 5 == 4
    if holes:
        columns["n0"] = pa.array(columns["n0"], mask=rng.random(drawn) < 0.1)
    table = pa.table(columns)
    codes = np.digitize(columns["n0"] if not holes else rng.normal(size=drawn), [-0.4, 0.4])
    labels = [classes[min(code, len(classes) - 1)] for code in codes]
    owner = MeanOperator(
        epsilon=20.0,
        classes=classes,
        map=None,
        missing="mean" if holes else "error",
        clip=0.5 if seed % 4 == 0 else None,
        intercept=0.0 if seed % 7 == 6 else 1.0,
    )
    release = owner.release(table, labels, ledger=None)
    return FactoredClassifier(lam=1e-3).fit_release(release, table), table


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_in_another_language_computes_the_same_scores(scored, seed, tmp_path):
    model, table = trained(seed)
    model.to_release().save(tmp_path / "model.suffice")
    answers = scored((tmp_path / "model.suffice").read_bytes(), table.to_pylist())
    assert [answer["label"] for answer in answers] == list(model.predict(table))
    ours = np.reshape(model.decision_function(table), (len(table), -1))
    theirs = [answer["scores"] for answer in answers]
    np.testing.assert_allclose(theirs, ours, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("at", [3, 20, 100, -40, -1])
def test_the_reader_notices_an_altered_file(scored, at):
    data = bytearray((ROOT / "tests" / "fixtures" / "model.suffice").read_bytes())
    data[at] ^= 1
    with pytest.raises(quickjs.JSException, match="no model file"):
        scored(bytes(data), [])


def test_the_reader_refuses_what_it_does_not_read(scored):
    row = {"age": 50, "dose": 1.0, "ward": "nowhere"}
    model = (ROOT / "tests" / "fixtures" / "model.suffice").read_bytes()
    with pytest.raises(quickjs.JSException, match="not listed"):
        scored(model, [row])
    with pytest.raises(quickjs.JSException, match="missing"):
        scored(model, [{**row, "ward": None}])
    with pytest.raises(quickjs.JSException, match="kind"):
        scored((ROOT / "tests" / "fixtures" / "mean-operator.suffice").read_bytes(), [])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_schema_describes_every_file(path):
    manifest = json.loads(split(path.read_bytes())[0])
    schema = json.loads(format_reference.SCHEMA.read_text(encoding="utf-8"))
    jsonschema_rs.validate(schema, manifest)
    for member in schema["required"]:
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(schema, {k: v for k, v in manifest.items() if k != member})
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {**manifest, "more": 1})


def test_page_and_schema_are_those_of_the_code():
    assert format_reference.PAGE.read_text(encoding="utf-8") == format_reference.page()
    assert format_reference.SCHEMA.read_text(encoding="utf-8") == format_reference.schema_text()
