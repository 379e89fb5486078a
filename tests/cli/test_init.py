"""`suffice init` writes down once what is private; later commands read it, and name open lines."""

import json
import re
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import suffice as sf
from suffice.releases.codec import load
from suffice.service.settings import Settings


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """Return a folder with a table of decimal commas, latin-1, ids, dates and gaps."""
    monkeypatch.chdir(tmp_path)
    rows = 900
    ill = rng.random(rows) < 0.4
    table = pd.DataFrame(
        {
            "Patient": [f"P{n:05}" for n in range(rows)],
            "Größe": rng.normal(170, 9, rows).round(1),
            "Druck": (125 + 20 * ill + rng.normal(0, 8, rows)).round(1),
            "Raucher": rng.choice(["nie", "früher"], rows),
            "Aufnahme": pd.date_range("2025-01-01", periods=rows, freq="9h").strftime("%Y-%m-%d"),
            "Diagnose": np.where(ill, "ja", "nein"),
        }
    )
    table.loc[rng.random(rows) < 0.05, "Druck"] = np.nan
    table.to_csv("klinik.csv", sep=";", decimal=",", encoding="latin-1", index=False)
    return tmp_path


START = ("init", "klinik.csv", "--label", "Diagnose", "--budget", "2", "--private")


def answer(name, **members):
    """Fill in a line of the sheet, as an owner does."""
    place = Path("columns.json")
    sheet = json.loads(place.read_text(encoding="utf-8"))
    (column,) = [column for column in sheet["columns"] if column["name"] == name]
    column.update(members)
    place.write_text(json.dumps(sheet), encoding="utf-8")


@pytest.mark.usefixtures("folder")
def test_four_commands_lead_from_a_messy_table_to_a_scored_model(streams):
    said, _ = streams(*START, "labels")
    assert "'Patient', which has a different text in most rows" in said
    assert "columns.json line 7: 'Diagnose' needs its classes" in said
    release = ("release", "klinik.csv", "--epsilon", "1", "-o", "out.suffice")
    _, refused = streams(*release, code=2)
    assert "columns.json line 7: list the classes of 'Diagnose'" in refused
    answer("Diagnose", categories=["nein", "ja"])
    said, _ = streams(*release)
    assert "charged  data set diagnose\n" in re.sub(" +\n", "\n", said)
    assert re.search(r"left +epsilon 1(\.\d+)? of 2 per label", said)
    assert "suffice inspect out.suffice --explain" in said
    assert load("out.suffice").guarantee.delta == pytest.approx(1e-6)
    streams("fit", "out.suffice", "--rows", "klinik.csv", "-o", "model.suffice")
    said, _ = streams("score", "model.suffice", "klinik.csv", "--label", "Diagnose")
    assert float(said.split()[1]) > 0.75  # about .88; always the larger class: .6


@pytest.mark.usefixtures("folder")
def test_a_second_release_of_the_same_request_is_said_to_be_free(streams):
    streams(*START, "labels", "--classes", "nein,ja")
    made = [
        streams("release", "klinik.csv", "--epsilon", "1", "-o", f"{name}.suffice") for name in "ab"
    ]
    assert "nothing" not in made[0][0]
    assert "nothing: this is the file of" in made[1][0]
    assert [balance.debits for balance in sf.Ledger("suffice.ledger").balances()] == [1]


@pytest.mark.usefixtures("folder")
def test_options_that_are_typed_come_before_what_is_written_down(streams):
    streams(*START, "labels", "--classes", "nein,ja")
    words = ("release", "mean-operator", "klinik.csv", "--epsilon", "1", "--missing", "mean")
    streams(*words, "--features", "Druck", "--no-ledger", "-o", "one.suffice")
    assert [column.name for column in load("one.suffice").pipeline.columns] == ["Druck"]
    assert not Path("suffice.ledger").exists()


@pytest.mark.usefixtures("folder")
def test_lines_of_private_records_stay_open_until_they_are_filled_in(streams):
    ids = ("--drop", "Patient,Aufnahme", "--classes", "nein,ja")
    said, _ = streams(*START, "records", *ids)
    assert said.count("needs minimum and maximum, or categories") == 3
    settings = Path("suffice.toml")
    lines = settings.read_text().splitlines()
    number = int(said.partition("suffice.toml line ")[2].partition(":")[0])
    assert lines[number - 1] == 'read = { decimal = "" }'
    release = ("release", "klinik.csv", "--epsilon", "1", "-o", "out.suffice")
    assert "columns.json line 3 (Größe)" in streams(*release, code=2)[1]
    answer("Größe", minimum=120, maximum=220)
    answer("Druck", minimum=60, maximum=220)
    answer("Raucher", datatype="string", categories=["nie", "früher"])
    assert "State the decimal mark of klinik.csv" in streams(*release, code=2)[1]
    settings.write_text(settings.read_text().replace('decimal = ""', 'decimal = ","'))
    streams(*release)
    made = load("out.suffice")
    assert (made.kind, str(made.guarantee.unit)) == ("moments", "record")
    streams("fit", "out.suffice", "-o", "model.suffice")
    said, _ = streams("score", "model.suffice", "klinik.csv", "--label", "Diagnose")
    assert float(said.split()[1]) > 0.5


@pytest.mark.usefixtures("folder")
def test_the_form_of_a_file_is_typed_once(streams):
    """A file whose first line does not say how it is written: commas, and another encoding."""
    text = Path("klinik.csv").read_text(encoding="latin-1").replace(",", ".").replace(";", "^")
    Path("strange.csv").write_text(text, encoding="utf-16-le")
    form = ("--read", "delimiter=^", "--read", "encoding=utf-16-le")
    start = ("init", "strange.csv", *START[2:], "labels", "--classes", "nein,ja")
    streams(*start, *form)
    assert 'read = { delimiter = "^", encoding = "utf-16-le" }' in Path("suffice.toml").read_text()
    streams("release", "strange.csv", "--epsilon", "1", "-o", "out.suffice")
    assert load("out.suffice").rows == 900
    assert "The service can start" in streams("serve", ".", "--task", "check")[0]


def test_no_byte_that_init_writes_depends_on_a_private_cell(folder, streams):
    written = []
    for private in ("labels", "records"):
        for label, size in (("ja", "170,0"), ("sonst;?", "nie 1.234,5")):
            place = folder / f"{private}-{len(written)}"
            place.mkdir()
            lines = (folder / "klinik.csv").read_text(encoding="latin-1").splitlines()
            cells = lines[5].split(";")
            cells[-1] = f'"{label}"'
            if private == "records":
                cells[1] = size
            lines[5] = ";".join(cells)
            (place / "klinik.csv").write_text("\n".join(lines), encoding="latin-1")
            words = ("--private", private, "-o", place, "--drop", "Patient")
            streams("init", place / "klinik.csv", *START[2:6], *words)
            written.append(
                [(place / name).read_bytes() for name in ("columns.json", "suffice.toml")]
            )
    assert written[0] == written[1]
    assert written[2] == written[3]


@pytest.mark.usefixtures("folder")
def test_the_settings_are_for_their_owner_alone_and_can_be_served(streams):
    streams(*START, "labels", "--classes", "nein,ja")
    mode = stat.S_IMODE((Settings.load(".").key.parent / "suffice.toml").stat().st_mode)
    assert mode == 0o600
    assert "The service can start" in streams("serve", ".", "--task", "check")[0]


@pytest.mark.usefixtures("folder")
def test_a_second_data_set_joins_the_settings_and_the_first_stays(streams):
    streams(*START, "labels", "--classes", "nein,ja")
    other = ("init", "klinik.csv", "--private", "labels", "--label", "Raucher", "--budget", "1")
    streams(*other, "--drop", "Diagnose")
    assert {*Settings.load(".").datasets} == {"diagnose", "raucher"}
    assert "has a data set 'diagnose' already" in streams(*START, "labels", code=2)[1]
    # A release is charged to the data set of its label, and to none where that is not clear.
    release = ("release", "klinik.csv", "--epsilon", ".5", "-o", "out.suffice")
    assert "several data sets of this table" in streams(*release, code=2)[1]
    streams(*release, "--label", "Diagnose")
    assert [balance.dataset for balance in sf.Ledger("suffice.ledger").balances()] == ["diagnose"]
    _, said = streams(*release, "--label", "Druck", "--force", code=2)  # of no data set
    assert "Say what is private" in said


@pytest.mark.usefixtures("folder")
def test_a_label_that_nobody_named_is_never_read_as_a_feature(streams):
    for words in (("release", "mean-operator"), ("plan", "mean-operator")):
        made = () if words[0] == "plan" else ("--no-ledger", "-o", "out.suffice")
        _, said = streams(*words, "klinik.csv", "--epsilon", "1", *made, code=2)
        assert "Name the column of private labels with --label" in said
    _, said = streams("advise", "klinik.csv", "--epsilon", "1", "--label", "Diagnose", code=2)
    assert "Say what is private" in said
