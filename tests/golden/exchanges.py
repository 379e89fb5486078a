"""Cases: files that people send each other: surveys, answers, contributions, proposals, logs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import seeds
import suffice as sf
from golden.record import about, digest, release_record, values
from golden.releases import ROUND
from golden.stage import Stage
from silence import silent

__all__ = ["contributions", "ledgers", "proposals", "surveys"]

PEOPLE = 6
STATES = "--categories sick=no,yes --categories grade=1..5 --range age=0,120"
GAUSSIAN = "--epsilon 1 --noise-variance 3600 --noise gaussian --delta 1e-5"
SURVEYS = {
    "flips, laplace": (f"{STATES} --flip 0.1 --epsilon grade=2 --noise-variance 3600", ()),
    "gaussian, german": (
        f"{STATES} {GAUSSIAN} --about language=de --label grade",
        ("--about", "title=Nach der Klinik", "--text", "sick=Waren Sie krank?"),
    ),
    "whole": ("--categories sick=no,yes --categories grade=1..5 --epsilon 1 --report whole", ()),
    "matrix": ("--categories sick=no,yes,unsure --flip sick=table.json", ("--about", "title=One")),
}
MATRIX = [[0.8, 0.2, 0.1], [0.1, 0.7, 0.1], [0.1, 0.1, 0.8]]
TRUTHS = {"sick": ("no", "yes"), "grade": ("1", "5", "3"), "age": ("44.5", "81", "0", "120")}


def _document(stage: Stage, name: str) -> dict[str, Any]:
    """Return a JSON file, readable, and its bytes."""
    data = stage.read(name)
    return {"content": json.loads(data), "bytes": digest(data)}


def surveys(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each survey, the answers of its participants, and what is collected from them."""
    Path("table.json").write_text(json.dumps(MATRIX))
    for case, (options, more) in SURVEYS.items():
        told = stage.json("survey", "new", *options.split(), *more, "-o", f"{case}.json")
        asked = [q["name"] for q in told["questions"]]
        yield f"new: {case}", {"json": told, "file": _document(stage, f"{case}.json")}
        with seeds.seeded(f"survey/{case}"):
            seeded = [_answer(stage, case, asked, person, "seeded") for person in range(PEOPLE)]
        with silent(f"survey/{case}") as draws:
            clean = [_answer(stage, case, asked, person, "silent") for person in range(PEOPLE)]
        record = {
            "people": [_document(stage, name) for name in seeded],
            "silent": _document(stage, clean[1]),
            "draws": list(draws),
            "memory": stage.read(f"{seeded[1]}.memory").decode().splitlines(),
        }
        yield f"respond: {case}", record
        for answers, output in ((seeded, "seeded.suffice"), (clean, "silent.suffice")):
            stage.run("survey", "collect", f"{case}.json", *answers, "-o", f"{case} {output}")
        files = (stage.read(f"{case} {name}.suffice") for name in ("seeded", "silent"))
        yield f"collect: {case}", release_record(*files, [], exact=True)


def _answer(stage: Stage, case: str, asked: list[str], person: int, noise: str) -> str:
    output = f"{case} {person} {noise}.json"
    truths = [f"{name}={TRUTHS[name][person % len(TRUTHS[name])]}" for name in asked]
    words = [word for truth in truths for word in ("--truth", truth)]
    stage.run("survey", "respond", f"{case}.json", *words, "-o", output)
    return output


# Options of the parties and of the aggregator, and those of the aggregator alone.
METHODS = {
    "class-sums~": ("--samples 16", ""),
    "operator": ("", "--noise-shape even"),
    "vote-table": ("", ""),
    "soft~": ("", ""),
    "average~": ("", ""),
}


def contributions(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the contributions of parties, and their aggregates."""
    for case, (shared, own) in METHODS.items():
        method, exact = case.removesuffix("~"), not case.endswith("~")
        words = ("--method", method, *shared.split())
        parts = [f"p{party}-{method}.part" for party in range(4)]
        for party, part in enumerate(parts):
            table = (f"p{party}.csv", "--label", "sick", "--party", f"p{party}")
            stage.run("contribute", *table, "--aux", "aux.csv", *words, "-o", part)
        yield f"contribute: {case}", _contribution(stage, parts[1], exact=exact)
        paid = ROUND[ROUND.index("--enrolled") :].split()
        words = ("aggregate", *parts, *paid, *words, *own.split(), "--no-ledger")
        with seeds.seeded(f"aggregate/{method}"):
            told = stage.json(*words, "-o", f"{method}.suffice")
        with silent(f"aggregate/{method}") as draws:
            stage.run(*words, "-o", f"{method} silent.suffice")
        files = (stage.read(f"{method}{noise}.suffice") for noise in ("", " silent"))
        told.pop("guarantees")  # they are in the manifest
        yield f"aggregate: {case}", {"json": told, **release_record(*files, draws, exact=exact)}


def _contribution(stage: Stage, name: str, *, exact: bool) -> dict[str, Any]:
    told = {"inspect": stage.json("inspect", name)}
    array = sf.PartyContribution.load(name).array
    if exact:
        return {**told, "array": about(array), "bytes": digest(stage.read(name))}
    return {**told, "array": values(array)}


LEDGER = ("--ledger", "clinic.ledger", "--dataset")
LAPLACE = ("--noise", "laplace")
GRANT = (
    "clinic.csv --label sick --policy policy.json --ledger clinic.ledger --dataset diagnosis"
    " --sign owner.key"
)
POLICY = {"largest_epsilon": 1, "largest_delta": 1e-6, "least_rows": 10}


def _opened(stage: Stage) -> None:
    stage.key()
    with seeds.seeded("ledger"):
        for words in (
            "diagnosis --epsilon 4 --delta 1e-5 --classes 0,1 --label sick",
            "records --epsilon 4 --delta 1e-5 --unit record",
            "practices --epsilon 9 --delta 1e-4 --unit party",
        ):
            stage.run("ledger", "init", "clinic.ledger", "--dataset", *words.split())


def proposals(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield proposals, the owner's answers, and the release that was granted."""
    _opened(stage)
    asked = {
        "granted": ("0.5", POLICY, 0),
        "countered": ("3", POLICY, 8),
        "refused": ("0.25", {**POLICY, "least_rows": 1000}, 9),
    }
    for case, (epsilon, policy, code) in asked.items():
        Path("policy.json").write_text(json.dumps(policy))
        words = ("propose", "rows.csv", "--epsilon", epsilon, "--classes", "0,1", *LAPLACE)
        told = stage.json(*words, "--purpose", "study", "-o", f"{case}.json")
        yield f"propose: {case}", {"json": told, "file": _document(stage, f"{case}.json")}
        words = ("grant", f"{case}.json", *GRANT.split(), "-o", f"{case}.suffice")
        with seeds.seeded(f"grant/{case}"):
            told = stage.json(*words, code=code)
        yield f"grant: {case}", {"json": told, "file": _document(stage, f"{case}.answer.json")}
    data = stage.read("granted.suffice")
    yield "grant: the release", release_record(data, data, [], exact=True)
    yield "grant: the log", {"log": stage.json("ledger", "log", "clinic.ledger")}


def ledgers(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a ledger tells after charges of several units."""
    _opened(stage)
    table = ("clinic.csv", "--label", "sick", "--features", "age,dose,ward")
    one = (
        "release",
        "mean-operator",
        "--map",
        "none",
        *table,
        "--epsilon",
        "1",
        *LAPLACE,
        *LEDGER,
        "diagnosis",
    )
    releases = {
        "first": one,
        "first again": one,
        "second": (*one, "--request", "two"),
        "records": (
            "release", "moments", *table, "--epsilon", "1", "--delta", "1e-6", "--standardize",
            "aux.csv", *LEDGER, "records",
        ),
        "parties": (
            "release", "parties", "clinic.csv", *ROUND.split(), "--noise-shape", "even", *LEDGER,
            "practices",
        ),
    }  # fmt: skip
    for case, words in releases.items():
        with seeds.seeded(f"ledger/{case}"):
            yield f"release: {case}", {"json": stage.json(*words, "-o", f"{case}.suffice")}
    with seeds.seeded("ledger/told"):
        for what in ("show", "history", "log", "verify"):
            yield what, {"json": stage.json("ledger", what, "clinic.ledger")}
        told = stage.json("ledger", "what-if", "clinic.ledger", "--dataset", "diagnosis")
        yield "what-if", {"json": told}
        words = ("ledger", "checkpoint", "clinic.ledger", "--sign", "owner.key", "-o", "today")
        told = stage.json(*words)
        lines = stage.read("today").decode().splitlines()
        yield "checkpoint", {"json": told, "file": lines}
        yield "inspect", {"json": stage.json("inspect", "clinic.ledger")}
