"""Cases: every kind of release, over files of every sort and over tables in memory."""

from collections.abc import Iterator
from typing import Any

import seeds
import suffice as sf
from golden.difference import differences, flat
from golden.record import digest, release_record
from golden.stage import Stage
from silence import silent

__all__ = ["COMMANDS", "chains", "family", "make_release", "readers"]

FEATURES = "--label sick --features age,dose,ward"
COURSE = "--label course --classes a,b,c --features age,dose,ward"
LAPLACE = f"{FEATURES} --epsilon 1 --noise laplace"
LINEAR = f"{LAPLACE} --map none"
PRIVATE = f"{FEATURES} --count 8 --standardize aux.csv"
RANGES = "--range age=0,100 --range dose=0,10 --categories ward=north,south,west"
PROTECT = (
    "--label sick --features age,dose,relapse --count 8 --range 0,100 --protect relapse"
    " --unprotected"
)
RECORDS = "--label sick --features ward,smokes,age --categories ward=north,south,west"
SMOKES = "--categories smokes=never,some,daily --range age=0,100"
DIRICHLET = (
    "--label sick --features age,dose --bag ward --epsilon 4 --delta 0.05"
    " --noise scaled-dirichlet --unprotected"
)
ROUND = "--label sick --party practice --enrolled 10 --aux aux.csv --epsilon 4 --delta 1e-5"

# What follows the table, by family and case; "~" marks numbers that differ by machine.
COMMANDS: dict[str, dict[str, str]] = {
    "mean-operator": {
        "laplace": LINEAR,
        "gaussian": f"{FEATURES} --epsilon 1 --delta 1e-6 --noise gaussian --map none",
        "knorm": f"{FEATURES} --epsilon 1 --noise knorm --map none",
        "response": f"{FEATURES} --epsilon 1 --noise response",
        "auto~": f"{FEATURES} --epsilon 1 --delta 1e-6",
        "sums~": f"{FEATURES} --epsilon 1 --noise sums --map none",
        "three classes, laplace": f"{COURSE} --epsilon 1 --noise laplace --map none",
        "three classes, gaussian": f"{COURSE} --epsilon 1 --delta 1e-6 --noise gaussian"
        " --map none",
        "three classes, knorm": f"{COURSE} --epsilon 1 --noise knorm --map none",
        "three classes, response": f"{COURSE} --epsilon 1 --noise response",
        "ranks": f"{LAPLACE} --map ranks",
        "ranks+polynomial": f"{LAPLACE} --map ranks+polynomial:2",
        "polynomial": f"{LAPLACE} --map polynomial:2",
        "rff~": f"{LAPLACE} --map rff:6",
        "nystroem~": f"{LAPLACE} --map nystroem:5",
        "pca~": f"{LAPLACE} --map pca:2",
        "whiten~": f"{LAPLACE} --map whiten:2",
        "components~": f"{LAPLACE} --map components:3",
        "clip, no intercept": f"{LINEAR} --clip 0.5 --intercept 0",
        "positive, address": f"{LINEAR} --classes 1,0"
        " --rows-url https://example.org/rows --min-count 30",
        "drop": "--label sick --drop practice --drop year --drop course --epsilon 2"
        " --noise gaussian --delta 1e-6 --map none",
        "categories": f"{LINEAR} --categories ward=west,south,north,east",
        "signed": f"{LINEAR} --sign owner.key",
    },
    "responses": {
        "labels": "--label sick --flip sick=0.25 --features ward --categories ward=north,south,west"
        " --flip 0.2",
        "labels by epsilon": "--label course --classes a,b,c --epsilon 1 --features ward"
        " --categories ward=north,south,west --flip 0.2",
        "records, gaussian": f"{RECORDS} {SMOKES} --flip sick=0.1 --flip 0.2"
        " --flip smokes=0.3 --noise-variance 400",
        "records, laplace": f"{RECORDS} {SMOKES} --epsilon 2 --flip 0.2"
        " --noise-variance 900 --noise laplace",
        "numbers only": "--label sick --flip sick=0.1 --features age,dose --range 0,100"
        " --noise-variance 400 --delta 1e-5",
    },
    "rados": {
        "labels": f"{PRIVATE} --unit label --epsilon 1",
        "labels, gaussian": f"{PRIVATE} --unit label --epsilon 1 --delta 1e-6",
        "labels, iid": f"{PRIVATE} --unit label --epsilon 1 --signs iid",
        "records": f"{PRIVATE} --unit record --epsilon 1 --delta 1e-6",
        "records, iid": f"{PRIVATE} --unit record --epsilon 1 --delta 1e-6 --signs iid",
        "records, support": f"{PRIVATE} --unit record --epsilon 1 --delta 1e-6 --support 20",
        "records, noise on each": f"{PRIVATE} --unit record --epsilon 1 --delta 1e-6"
        " --noise-on records --support 20",
        "attribute": f"{FEATURES} --count 8 {RANGES} --unit attribute --attribute dose --epsilon 1"
        " --delta 1e-6",
        "ranges": f"{FEATURES} --count 8 {RANGES} --unit record --epsilon 1 --delta 1e-6 --bound 2",
        "clip, intercept": f"{PRIVATE} --unit record --epsilon 1 --delta 1e-6 --clip 0.8"
        " --intercept 1",
        "plain": f"{FEATURES} --count 8 --unprotected",
        "plain, no scaling": f"{FEATURES} --count 8 --unprotected --standardize none"
        " --categories ward=north,south,west",
        "own rows": f"{FEATURES} --count 8 --unprotected --standardize rows --unit label"
        " --epsilon 1",
        "protect": f"{PROTECT} --delta 1e-3",
        "truncate": f"{PROTECT} --delta 0.09 --truncate 1",
        "default count": f"{FEATURES} --standardize aux.csv --unit label --epsilon 1",
    },
    "moments": {
        "public scale": f"{FEATURES} --epsilon 1 --delta 1e-6 --standardize aux.csv",
        "ranges": f"{FEATURES} --epsilon 1 --delta 1e-6 {RANGES}",
        "bound": f"{FEATURES} --epsilon 1 --delta 1e-6 {RANGES} --bound 1.5",
        "clip, zero": f"{FEATURES} --epsilon 1 --delta 1e-6 --standardize aux.csv --clip 0.5"
        " --missing zero",
        "three classes": f"{COURSE} --epsilon 1 --delta 1e-6 --standardize aux.csv",
        "ranks": f"{FEATURES} --epsilon 1 --delta 1e-6 --standardize aux.csv --map ranks",
        "ranks+polynomial": f"{FEATURES} --epsilon 1 --delta 1e-6 --standardize aux.csv"
        " --map ranks+polynomial:2",
    },
    "proportions": {
        "laplace": f"{FEATURES} --bag year --epsilon 1 --noise laplace",
        "gaussian": f"{FEATURES} --bag year --epsilon 1 --delta 1e-6 --noise gaussian",
        "laplace-prior": f"{FEATURES} --bag year --epsilon 1 --noise laplace-prior",
        "scaled-dirichlet-bounded": f"{FEATURES} --bag year --epsilon 1 --delta 1e-3"
        " --noise scaled-dirichlet-bounded",
        "kappa": f"{FEATURES} --bag year --epsilon 1 --delta 1e-2 --kappa 8"
        " --noise scaled-dirichlet-bounded",
        "scaled-dirichlet": DIRICHLET,
        "sigma by tail": f"{DIRICHLET} --sigma-rule tail",
        "auto": f"{FEATURES} --bag year --epsilon 1 --delta 1e-6",
        "three classes": f"{COURSE} --bag year --epsilon 1 --noise laplace",
        "two columns": f"{FEATURES} --bag year --bag smokes --epsilon 1 --noise laplace",
        "names": f"{FEATURES} --bag year --bag-names 2023,2021,2022 --epsilon 1"
        " --noise laplace --clip 0.5",
    },
    "bags": {
        "skew": f"{FEATURES} --skew 0.9",
        "epsilon": f"{FEATURES} --epsilon 1",
        "three classes": f"{COURSE} --epsilon 1 --rows-url https://example.org/rows",
    },
    "parties": {
        "operator, even": f"{ROUND} --method operator --noise-shape even",
        "auto~": f"{ROUND} --method auto --samples 16",
        "class-sums~": f"{ROUND} --method class-sums --samples 16",
        "class-sums, three classes~": f"{ROUND} --method class-sums --samples 16"
        " --classes a,b,c --label course",
        "operator~": f"{ROUND} --method operator",
        "operator, knorm~": f"{ROUND} --method operator --noise knorm",
        "vote-table": f"{ROUND} --method vote-table",
        "soft~": f"{ROUND} --method soft",
        "majority-model~": f"{ROUND} --method majority-model",
        "average~": f"{ROUND} --method average",
    },
}  # fmt: skip
TABLES: dict[str, tuple[str, ...]] = {
    "parquet": ("clinic.parquet",),
    "feather": ("clinic.feather",),
    "excel": ("clinic.xlsx",),
    "spss": ("clinic.sav",),
    "folder": ("clinic.folder",),
    "semicolons and commas": ("clinic.wide.csv", "--read", "decimal=,"),
    "sqlite": (
        "sqlite:///clinic.sqlite", "--read", "query=select * from clinic",
        "--read", "order-by=place",
    ),
}  # fmt: skip
GAPS = {
    "labels": "--label sick --features dose,smokes --missing-labels skip",
    "numbers by mean": "--label year --classes 2021,2022,2023 --features age,dose --missing mean",
    "numbers by zero": "--label year --classes 2021,2022,2023 --features age,dose --missing zero",
}


def make_release(stage: Stage, name: str, *words: str, output: str = "") -> bytes:
    """Make a release, with the noise of its name; return its bytes."""
    output = output or f"{name.replace('/', ' ')}.suffice"
    with seeds.seeded(name):
        stage.run("release", *words, "--force", "-o", output)
    return stage.read(output)


def _recorded(stage: Stage, name: str, *words: str, exact: bool = True) -> dict[str, Any]:
    seeded = make_release(stage, name, *words)
    with silent(name) as draws:
        stage.run("release", *words, "--force", "-o", "silent.suffice")
    return release_record(seeded, stage.read("silent.suffice"), draws, exact=exact)


def family(kind: str) -> Any:
    """Return the cases of one kind, over CSV; and over Parquet, what is different there."""

    def cases(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
        stage.key()
        for case, options in COMMANDS[kind].items():
            words = (*options.split(), "--no-ledger")
            exact = not case.endswith("~")
            name = f"{kind}/{case}"
            yield case, _recorded(stage, name, kind, "clinic.csv", *words, exact=exact)

    return cases


def readers(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each kind over each sort of table, as what is different from CSV."""
    for kind, commands in COMMANDS.items():
        case, options = next(iter(commands.items()))
        words, name = (*options.split(), "--no-ledger"), f"readers/{kind}"
        base = _recorded(stage, name, kind, "clinic.csv", *words)
        for reader, table in TABLES.items():
            record = _recorded(stage, name, kind, *table, *words)
            yield f"{kind}, {case}: {reader}", _unlike(base, record)
    for case, options in GAPS.items():
        words = (
            *options.split(),
            "--epsilon",
            "1",
            "--noise",
            "laplace",
            "--map",
            "none",
            "--no-ledger",
        )
        yield f"gaps: {case}", _recorded(stage, f"gaps/{case}", "mean-operator", "gaps.csv", *words)


def chains(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield releases that are made of other files: of a scaling, of bags, and of two releases."""
    for kind, case in (("mean-operator", "laplace"), ("rados", "records"), ("moments", "ranges")):
        words = (*COMMANDS[kind][case].split(), "--no-ledger")
        make_release(stage, f"first/{kind}", kind, "clinic.csv", *words, output="first.suffice")
        plain_words = [w for w in words if w not in ("--standardize", "aux.csv")]
        like = (kind, "other.csv", *plain_words, "--pipeline-from", "first.suffice")
        yield f"{kind}: scaling of another", _recorded(stage, f"second/{kind}", *like)
        make_release(stage, f"second/{kind}", *like, output="second.suffice")
        sf.merge([sf.load("first.suffice"), sf.load("second.suffice")]).save("merged.suffice")
        merged = stage.read("merged.suffice")
        yield f"{kind}: merged", release_record(merged, merged, [], exact=True)
    words = ("bags", "clinic.csv", *COMMANDS["bags"]["skew"].split(), "--no-ledger")
    make_release(stage, "bags", *words, "--write-rows", "bagged.csv", output="bags.suffice")
    yield "bags: rows", {"bytes": digest(stage.read("bagged.csv"))}
    words = ("proportions", "clinic.csv", *LAPLACE.split(), "--bags-file", "bags.suffice")
    yield "proportions: bags of a file", _recorded(stage, "of bags", *words, "--no-ledger")


def _unlike(base: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as its file's digest, and its members that are unlike those of ``base``."""
    members = flat(record)
    changed = {path for path, *_ in differences(base, record)}
    return {
        "file": record["seeded"]["file"],
        "unlike csv": {path: members.get(path, "absent") for path in sorted(changed)},
    }
