"""Parties that send contributions to a round of a clinic's service, for the tests of its doors."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from in_process import ask
from people import SURVEY
from served import Clinic, make_clinic
from typer.testing import CliRunner

from suffice import AuxiliaryRows, PartyContribution
from suffice.cli.main import app as commands
from suffice.owner.answers import AnswerStore
from suffice.owner.ledger import Ledger
from suffice.owner.parties.contribution import PartForm, encode_part
from suffice.owner.parties.rounds import RoundStore, RoundTerms, SignedRound, sign_round
from suffice.owner.survey import open_survey
from suffice.privacy.guarantee import Budget
from suffice.service.app import make_app
from suffice.service.settings import Settings

ROWS = 30
CLASSES = ("no", "yes")
CLOSES = (datetime.now(UTC) + timedelta(days=100)).isoformat(timespec="seconds")
AFTER = datetime.fromisoformat(CLOSES) + timedelta(days=1)
BEFORE = datetime.fromisoformat(CLOSES) - timedelta(days=1)


def auxiliary_rows(seed: int = 1, rows: int = ROWS) -> AuxiliaryRows:
    return AuxiliaryRows.read(np.random.default_rng(seed).normal(size=(rows, 3)))


def votes_of(seed: int, classes=CLASSES) -> list[str]:
    return np.random.default_rng(seed).choice(classes, ROWS).tolist()


def part_of(party: str, seed: int, auxiliary=None, classes=CLASSES) -> bytes:
    auxiliary = auxiliary or auxiliary_rows()
    votes = votes_of(seed, classes)[: auxiliary.count]
    part = PartyContribution.of(party, votes, auxiliary, classes=classes)
    return encode_part(part)


def terms_of(names, url: str = "http://127.0.0.1:1", closes: str = CLOSES, **more) -> RoundTerms:
    terms = {
        "title": "Spring",
        "address": url,
        "closes": closes,
        "enrolled": tuple(sorted(names)),
        "method": "operator",
        "epsilon": 1.0,
        "delta": 1e-6,
        "lam": 1e-4,
        "samples": None,
        "part": PartForm.of("operator", auxiliary_rows(), CLASSES),
    }
    return RoundTerms(**{**terms, **more})


def clinic_of_all(folder: Path) -> "Aggregator":
    """Make a clinic whose service has every route: proposals, a survey for all, and a round."""
    made = Aggregator(folder, ["north", "south"])
    path = folder / "suffice.toml"
    path.write_text(f'answers = "{folder / "clinic.answers"}"\n{path.read_text()}')
    store = AnswerStore(str(folder / "clinic.answers"))
    open_survey(SURVEY, made.clinic.place, store, None)
    return made


class Aggregator:
    """A clinic whose service holds one round, and the tokens of its parties."""

    def __init__(self, folder: Path, names, place: str | None = None, **terms) -> None:
        self.clinic: Clinic = make_clinic(folder)
        text = (folder / "suffice.toml").read_text()
        self.place = place or str(folder / "clinic.rounds")
        (folder / "suffice.toml").write_text(f'rounds = "{self.place}"\n{text}')
        Ledger(self.clinic.place, {"parties": {"party": Budget(2.0, 1e-5)}})
        self.made: SignedRound = sign_round(terms_of(names, **terms), folder / "clinic.key")
        (folder / "spring.round").write_bytes(self.made.data)
        self.tokens = self.open("spring.round")
        self.store = RoundStore(self.place)
        self.app = make_app(Settings.load(folder))

    @property
    def folder(self) -> Path:
        return self.clinic.folder

    def open(self, name: str) -> dict[str, str]:
        output = self.folder / f"{name}.csv"
        self.run("open", self.folder, self.folder / name, "-o", output)
        with output.open() as file:
            return {row["party"]: row["token"] for row in csv.DictReader(file)}

    def run(self, *words, status: int = 0) -> str:
        done = CliRunner().invoke(commands, ["round", *map(str, words)])
        if status:
            assert done.exit_code, done.output
            return str(done.exception)
        assert not done.exit_code, f"{done.output} {done.exception!r}"
        return done.output

    def close(self, output: Path, auxiliary: Path, status: int = 0) -> str:
        return self.run(
            "close", self.folder, self.folder / "spring.round", "--aux", auxiliary,
            "--dataset", "parties", "-o", output, status=status,
        )  # fmt: skip

    def ask(self, method: str, party: str, content: bytes = b"", path: str = "part"):
        token = self.tokens.get(party, party)
        return ask(self.app, method, f"/v1/rounds/{self.made.id}/{path}", token, content)
