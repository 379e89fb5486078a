"""Cases: what commands print with --json, beyond those of the other families."""

from collections.abc import Iterator
from typing import Any

import seeds
from golden.record import plain
from golden.releases import COMMANDS, FEATURES, PRIVATE, make_release
from golden.stage import Stage

__all__ = ["printed"]

EPSILONS = "--epsilon 0.5 --epsilon 5"
PLANS = {
    "plan mean-operator": f"clinic.csv {FEATURES} {EPSILONS} --delta 1e-6",
    "plan mean-operator, three classes": f"clinic.csv --label course --classes a,b,c"
    f" --features age,dose,ward {EPSILONS} --map none",
    "plan responses": "clinic.csv --label sick --flip sick=0.25 --features ward,age"
    " --categories ward=north,south,west --flip 0.25 --range age=0,100"
    " --noise-variance 400",
    "plan rados": f"clinic.csv {PRIVATE} --epsilon 1 --delta 1e-6",
    "plan moments": f"clinic.csv {FEATURES} --standardize aux.csv {EPSILONS} --delta 1e-6",
    "plan proportions": f"clinic.csv --bag year {EPSILONS}",
    "plan bags": "--sizes 1500,1500 --epsilon 1",
    "plan parties": f"--parties 1000 --aux aux.csv --samples 6 {EPSILONS} --delta 1e-6",
    "advise, labels": f"clinic.csv {FEATURES} --private labels --epsilon 1 --delta 1e-6",
    "advise, records": f"clinic.csv {FEATURES} --private records --public public.csv --epsilon 1"
    " --delta 1e-6",
    "advise, attributes": f"clinic.csv {FEATURES} --private attributes --public public.csv"
    " --epsilon 1 --delta 1e-6",
}


def printed(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the output of each command."""
    stage.key()
    for case, options in PLANS.items():
        yield case, plain({"json": stage.json(*case.split(",")[0].split(), *options.split())})
    for kind, commands in COMMANDS.items():
        case, options = next(iter(commands.items()))
        words = (kind, "clinic.csv", *options.split(), "--no-ledger")
        with seeds.seeded(f"printed/{kind}"):
            told = stage.json("release", *words, "-o", f"{kind}.suffice")
        yield f"release: {kind}", {"json": told}
        told = stage.json("inspect", f"{kind}.suffice", "--explain")
        told = {name: told[name] for name in told if name not in ("payload", "pipeline")}
        yield f"inspect --explain: {kind}", {"json": told}
    words = ("wards.suffice", "--rows", "clinic.csv", "--bag", "year", "test.csv")
    make_release(
        stage, "printed/wards", "proportions", "clinic.csv", *FEATURES.split(), "--bag", "year",
        "--epsilon", "20", "--no-ledger", output="wards.suffice",
    )  # fmt: skip
    for method in ("moments", "likelihood"):
        yield f"ratio: {method}", plain({"json": stage.json("ratio", *words, "--method", method)})
    yield "frequencies", plain({"json": stage.json("frequencies", "responses.suffice")})
