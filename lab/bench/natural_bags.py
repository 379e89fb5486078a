"""Class ratios where bags are natural, and the price of finding out: ranges, tests, intervals.

    OMP_NUM_THREADS=1 python lab/bench/natural_bags.py --data ../shared/data [--parts natural,nulls]

natural: bags by a column (occupation, elevation, ...), which contradict label shift. New tables
    hold rows of all bags at shares .1, .4 and .8: how often the test rejects, how often the printed
    range holds the truth, and how wide it is.
private: the same with private proportions, at epsilon 1 and .1.
classes: the same with three to five classes, on natural tables and a synthetic one; and whole bags.
left_out: whole natural bags as new tables, learnt from the others.
nulls: bags of one distribution per class: how often the test rejects them, with known and private
    proportions, and bags of 100 rows.
coverage: the same bags and new tables at shares .1 to .9: how often the printed ends hold the
    truth, and their width against that of the likelihood's interval without the test.
skewed: two bags of `suffice release bags` with private proportions, from tables with few ones, and
    new tables at share .8: the bias and the coverage, and those of the likelihood.

The widening of ranges was chosen on the families in CHOSEN; the others are held out. Every case is
stored in lab/bench/results/natural_bags.jsonl when it is done, and is not run twice.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from class_ratio import Pool, table_of
from harness import claim, machine

from suffice.errors import ParameterError
from suffice.learner.ratio.estimator import ClassRatio
from suffice.owner.proportions import LabelProportions, assign_bags

RESULTS = Path(__file__).parent / "results"
CASES = RESULTS / "natural_bags.jsonl"
ROWS, TABLE, FEWEST = 6000, 600, 50
CHOSEN = ("adult:occupation", "adult:workclass", "covertype:Elevation", "magic:fAlpha",
          "abalone:Length")  # fmt: skip
HELD_OUT = ("adult:education", "covertype:Soil", "wine_white:alcohol")
FAMILIES = (*CHOSEN, *HELD_OUT)
POSITIVE = {
    "covertype": lambda y: y == 1,
    "abalone": lambda y: y > 9,
    "wine_white": lambda y: y > 5,
}
MANY = {
    "covertype:Elevation": (1, 2),
    "covertype:Soil": (1, 2),
    "wine_white:alcohol": (6, 7),
    "abalone:Length": (8, 10, 13),
    "synthetic:3": (1, 2),
    "synthetic:5": (1, 2, 3, 4),
}  # where labels are cut into classes
BANDS = 10
SHARES, TEST_SHARES = (0.1, 0.4, 0.8), (0.1, 0.3, 0.5, 0.7, 0.9)
SETS = ("adult", "magic", "ijcnn1")
EPSILONS = (None, 1.0, 0.1)
LAYOUTS = {"8 x 100": (100, np.linspace(0.1, 0.9, 8)), "6 x 400": (400, np.linspace(0.1, 0.9, 6))}
COVERED = (300, np.linspace(0.1, 0.9, 6))
COMPARED, OLD_SKEWED = 4, 12  # repeats in which the old interval is computed too: it resamples


@dataclass(frozen=True, eq=False)
class Family:
    """A table of two classes whose rows lie in natural bags."""

    rows: pa.Table
    labels: np.ndarray
    bags: np.ndarray


@cache
def whole(folder: Path, name: str) -> tuple[pa.Table, np.ndarray]:
    """Return the rows and the labels, 0 or 1, of a data set."""
    if name in ("adult", "ijcnn1"):
        return table_of(folder, name)
    import pyarrow.parquet as pq

    table = pq.read_table(folder / f"{name}.parquet")
    labels = POSITIVE.get(name, lambda y: y)(table["label"].to_numpy()).astype(np.int64)
    return table.drop_columns(["label"]).combine_chunks(), labels


def family_of(folder: Path, name: str) -> Family:
    """Return a family: bags are values or tenths of a column, of which values are no feature."""
    table, column = name.split(":")
    rows, labels = whole(folder, table)
    if column == "Soil":
        soils = [c for c in rows.column_names if c.startswith("Soil")]
        codes = np.column_stack([rows[c].to_numpy() for c in soils]).argmax(axis=1)
        return Family(rows.drop_columns(soils), labels, codes)
    if pa.types.is_dictionary(rows.schema.field(column).type):
        codes = rows[column].combine_chunks().indices.to_numpy()
        return Family(rows.drop_columns([column]), labels, codes)
    values = rows[column].to_numpy()
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BANDS + 1)[1:-1]))
    return Family(rows, labels, np.searchsorted(edges, values, side="right"))


def classes_of(folder: Path, name: str) -> Family:
    """Return a family with more classes: their labels are cut at values, or drawn from a model."""
    table, column = name.split(":")
    if table == "synthetic":
        rng, classes = np.random.default_rng(3), int(column)
        bags = np.repeat(np.arange(12), 1500)
        X = rng.normal(size=(12, 6))[bags] + rng.normal(size=(len(bags), 6))
        scores = X @ (1.2 * np.eye(6, classes)) + rng.gumbel(size=(len(X), classes))
        rows = pa.table({f"x{j}": X[:, j] for j in range(6)})
        return Family(rows, scores.argmax(axis=1), bags)
    import pyarrow.parquet as pq

    family = family_of(folder, name)
    labels = pq.read_table(folder / f"{table}.parquet", columns=["label"])["label"].to_numpy()
    return Family(family.rows, np.digitize(labels, MANY[name]), family.bags)


def learnt(family: Family, members: np.ndarray, epsilon: float | None = None) -> ClassRatio:
    """Return the learner of the bags' true proportions, or of released ones."""
    _, codes = np.unique(family.bags[members], return_inverse=True)
    rows, labels, many = family.rows.take(members), family.labels[members], family.labels.max() + 1
    classes = list(range(many))
    if epsilon is not None:
        owner = LabelProportions(epsilon, classes=classes)
        release = owner.release(rows, labels, bags=codes, ledger=None)
        return ClassRatio().fit_release(release, rows, bags=codes)
    counts = np.zeros((codes.max() + 1, many))
    np.add.at(counts, (codes, labels), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return ClassRatio().fit_proportions(rows, codes, shares, classes=classes)


def outcome(model: ClassRatio, table: pa.Table, truth: float) -> dict:
    """Return what is printed of one table."""
    estimate = model.estimate(table)
    return {
        "p": model.label_shift_.p,
        "truth": truth,
        "low": float(estimate.low[1]),
        "high": float(estimate.high[1]),
        "new_bag": estimate.new_bag,
        **{name: float(values[1]) for name, values in estimate.estimates.items()},
    }


def sampled(family: Family, repeat: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return rows of large enough bags to learn from, and other rows of these bags."""
    rng = np.random.default_rng(repeat)
    order = rng.permutation(len(family.labels))
    count = min(ROWS, int(0.6 * len(order)))
    learn, rest = order[:count], order[count:]
    large = np.bincount(family.bags[learn], minlength=family.bags.max() + 1) >= FEWEST
    return learn[large[family.bags[learn]]], rest[large[family.bags[rest]]], rng


def natural_case(folder: Path, name: str, repeat: int, epsilon: float | None = None) -> list[dict]:
    """Return the outcomes of tables at three shares, drawn from rows of all bags."""
    family = family_of(folder, name)
    learn, rest, rng = sampled(family, repeat)
    model, outcomes = learnt(family, learn, epsilon), []
    by_class = [rng.permutation(rest[family.labels[rest] == k]) for k in (0, 1)]
    for share in SHARES:
        size = min(TABLE, int(len(by_class[1]) / share), int(len(by_class[0]) / (1 - share)))
        ones = round(size * share)
        members = np.concatenate([by_class[1][:ones], by_class[0][: size - ones]])
        outcomes.append(outcome(model, family.rows.take(members), ones / size))
    return outcomes


def private_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return the same from released proportions; none where the learner refuses them."""
    family, epsilon = json.loads(name)
    try:
        return natural_case(folder, family, repeat, epsilon)
    except ParameterError:
        return []


def classes_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return what is printed of each class in two tables of all bags' rows, and in a new bag."""
    family = classes_of(folder, name)
    learn, rest, rng = sampled(family, repeat)
    bag = rng.choice(np.unique(family.bags[learn]))
    model = learnt(family, learn[family.bags[learn] != bag])
    many = family.labels.max() + 1
    tables = [("new bag", rng.permutation(rest[family.bags[rest] == bag])[:TABLE])]
    by_class = [rest[(family.labels[rest] == k) & (family.bags[rest] != bag)] for k in range(many)]
    for _ in range(2):
        counts = np.rint(TABLE * rng.dirichlet(np.ones(many))).astype(int)
        parts = [rng.permutation(rows)[:n] for rows, n in zip(by_class, counts, strict=True)]
        tables.append(("mixed", np.concatenate(parts)))
    outcomes = []
    for kind, members in tables:
        truth = np.bincount(family.labels[members], minlength=many) / len(members)
        estimate = model.estimate(family.rows.take(members))
        line = {"kind": kind, "p": model.label_shift_.p}
        outcomes += [
            {**line, "truth": truth[k], "low": estimate.low[k], "high": estimate.high[k],
             **{name: values[k] for name, values in estimate.estimates.items()}}
            for k in range(many)
        ]  # fmt: skip
    return outcomes


def left_out_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return the outcome of one whole bag, learnt from the others."""
    family = family_of(folder, name)
    learn, _, rng = sampled(family, 100)
    bags = np.random.default_rng(5).permutation(np.unique(family.bags[learn]))
    if repeat >= len(bags):
        return []
    new = rng.permutation(np.flatnonzero(family.bags == bags[repeat]))[:TABLE]
    model = learnt(family, learn[family.bags[learn] != bags[repeat]])
    return [outcome(model, family.rows.take(new), float(family.labels[new].mean()))]


def shifted_bags(
    folder: Path, name: str, layout: tuple, seed: int, tests: Sequence[float] = ()
) -> tuple:
    """Return rows, bags and labels of label-shifted bags, and tables at shares with their truth."""
    rows, labels = whole(folder, name)
    pool, (size, shares) = Pool(labels, seed), layout
    parts = [pool.take(size, np.array([1 - share, share])) for share in shares]
    members, bags = np.concatenate(parts), np.repeat(np.arange(len(parts)), size)
    others = [pool.take(TABLE, np.array([1 - share, share])) for share in tests]
    tables = [rows.take(other) for other in others]
    truth = [float(labels[other].mean()) for other in others]
    return rows.take(members), bags, labels[members], tables, truth


def learn_shifted(drawn: tuple, epsilon: float | None, **options: Any) -> ClassRatio:
    """Return the learner of known proportions, or of released ones."""
    rows, bags, labels, *_ = drawn
    if epsilon is None:
        ones = np.bincount(bags, weights=labels) / np.bincount(bags)
        shares = np.column_stack([1 - ones, ones])
        return ClassRatio(**options).fit_proportions(rows, bags, shares, classes=[0, 1])
    release = LabelProportions(epsilon).release(rows, labels, bags=bags, ledger=None)
    return ClassRatio(**options).fit_release(release, rows, bags=bags)


def null_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return whether bags under label shift are rejected; none where the learner refuses them."""
    table, layout, epsilon = json.loads(name)
    drawn = shifted_bags(folder, table, LAYOUTS[layout], repeat)
    try:
        test = learn_shifted(drawn, epsilon, method="mmd", kernel="linear").label_shift_
    except ParameterError:
        return []
    return [{"p": test.p, "rejected": test.rejected, "excess": test.excess}]


def coverage_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return what is printed of tables at five shares, and the old width in some repeats."""
    table, epsilon = json.loads(name)
    drawn = shifted_bags(folder, table, COVERED, repeat, TEST_SHARES)
    model = learn_shifted(drawn, epsilon)
    outcomes = [outcome(model, new, truth) for new, truth in zip(drawn[3], drawn[4], strict=True)]
    if repeat < COMPARED:
        old = learn_shifted(drawn, epsilon, method="likelihood")
        ends = old.interval(drawn[3])[:, :, 1]
        widths = (ends[:, 1] - ends[:, 0]) / np.sqrt(old.label_shift_.excess)
        for printed, width in zip(outcomes, widths, strict=True):
            printed["old_width"] = float(width) if not old.label_shift_.rejected else None
    return outcomes


def skewed_case(folder: Path, name: str, repeat: int) -> list[dict]:
    """Return what is printed at share .8, far from the bags', and the likelihood's estimate."""
    rows, labels = whole(folder, name)
    pool = Pool(labels, repeat)
    members, new = pool.take(1200, np.array([0.75, 0.25])), pool.take(TABLE, np.array([0.2, 0.8]))
    table, private = rows.take(members), labels[members]
    bags = assign_bags(table, private, skew=0.8, ledger=None).arrays["answers"]
    release = LabelProportions(0.1).release(table, private, bags=bags, ledger=None)
    printed = {}
    for method in ("auto", "likelihood") if repeat < OLD_SKEWED else ("auto",):
        model = ClassRatio(method=method).fit_release(release, table, bags=bags)
        printed[method] = outcome(model, rows.take(new), float(labels[new].mean()))
    return [{**printed["auto"], "likelihood": printed.get("likelihood")}]


def skewed(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on skewed private bags far from the pooled share."""
    cases = ((name, repeat) for repeat in range(repeats) for name in SETS)
    outcomes = stored("skewed", cases, lambda n, r: skewed_case(folder, n, r))
    claims = []
    for name, values in outcomes.items():
        old = [o["likelihood"] for o in values if o["likelihood"] is not None]
        for title, some in (("now", values), ("likelihood", old)):
            mean = np.mean([o["label_shift"] for o in some])
            print(
                f"skewed {name}, share .8, {title}: mean {mean:.3f}, covered"
                f" {covered(some).mean():.2f}, width {widths(some).mean():.2f}"
            )
        off = abs(np.mean([o["label_shift"] - o["truth"] for o in values]))
        claims += [
            claim(f"skewed {name}: bias at share .8", off, 0.05),
            claim(f"skewed {name}: without the truth", 1 - covered(values).mean(), 0.1),
        ]
    return claims


def stored(part: str, cases: Iterator[tuple[str, int]], work: Callable) -> dict[str, list[dict]]:
    """Return the outcomes of all cases by name; those that are stored are not run again."""
    CASES.parent.mkdir(exist_ok=True)
    lines = CASES.read_text().splitlines() if CASES.exists() else []
    done = {(d["part"], d["name"], d["repeat"]): d["outcomes"] for d in map(json.loads, lines)}
    outcomes: dict[str, list[dict]] = {}
    for name, repeat in cases:
        if (part, name, repeat) not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[part, name, repeat] = work(name, repeat)
            line = {"part": part, "name": name, "repeat": repeat}
            with CASES.open("a") as file:
                file.write(json.dumps({**line, "outcomes": done[part, name, repeat]}) + "\n")
        outcomes.setdefault(name, []).extend(done[part, name, repeat])
    return outcomes


def covered(outcomes: Sequence[dict]) -> np.ndarray:
    """Return whether each printed range holds the truth."""
    return np.array([o["low"] <= o["truth"] <= o["high"] for o in outcomes])


def widths(outcomes: Sequence[dict]) -> np.ndarray:
    """Return the widths of what is printed."""
    return np.array([o["high"] - o["low"] for o in outcomes])


def joined(outcomes: dict[str, list[dict]], names: Sequence[str]) -> list[dict]:
    """Return the outcomes of several families."""
    return [o for name in names for o in outcomes[name]]


def natural(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on tables of all bags' rows."""
    cases = ((name, repeat) for repeat in range(repeats) for name in FAMILIES)
    outcomes = stored("natural", cases, lambda n, r: natural_case(folder, n, r))
    for name, values in outcomes.items():
        error = {
            k: np.mean([abs(o[k] - o["truth"]) for o in values]) for k in ("label_shift", "stable")
        }
        print(
            f"{name:20s} covered {covered(values).mean():.2f}, width {widths(values).mean():.2f};"
            f" errors: label shift {error['label_shift']:.3f}, stable {error['stable']:.3f}"
        )
    claims = []
    for title, names in (("all", FAMILIES), ("held out", HELD_OUT)):
        some = joined(outcomes, names)
        missed = [o["p"] >= 0.05 for o in some]
        claims += [
            claim(f"natural bags, {title}: not rejected", float(np.mean(missed)), 0.05),
            claim(
                f"natural bags, {title}: ranges without the truth", 1 - covered(some).mean(), 0.1
            ),
            claim(f"natural bags, {title}: mean width", float(widths(some).mean()), 0.55),
            claim(f"natural bags, {title}: wider than .9", float((widths(some) > 0.9).mean()), 0.1),
        ]
    return claims


def private(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on natural bags with private proportions."""
    names = [json.dumps([family, epsilon]) for family in FAMILIES for epsilon in EPSILONS[1:]]
    cases = ((name, repeat) for repeat in range(repeats) for name in names)
    outcomes = stored("private", cases, lambda n, r: private_case(folder, n, r))
    claims = []
    for epsilon in EPSILONS[1:]:
        some = joined(outcomes, [name for name in names if json.loads(name)[1] == epsilon])
        missed = [o["p"] >= 0.05 for o in some]
        title = f"natural bags, epsilon {epsilon:g}"
        claims += [
            claim(f"{title}: not rejected", float(np.mean(missed)), 0.05),
            claim(f"{title}: ranges without the truth", 1 - covered(some).mean(), 0.1),
            claim(f"{title}: mean width", float(widths(some).mean()), 0.55),
            claim(f"{title}: wider than .9", float((widths(some) > 0.9).mean()), 0.1),
        ]
        print(f"{title}: {len(some)} ranges")
    return claims


def classes(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on natural bags with three to five classes."""
    cases = ((name, repeat) for repeat in range(repeats) for name in MANY)
    outcomes = stored("classes", cases, lambda n, r: classes_case(folder, n, r))
    claims = []
    for kind in ("mixed", "new bag"):
        everything = []
        for name, values in outcomes.items():
            some = [o for o in values if o["kind"] == kind]
            everything += some
            error = [np.mean([abs(o[k] - o["truth"]) for o in some if k in o])
                     for k in ("label_shift", "stable")]  # fmt: skip
            print(
                f"{name:20s} {len(MANY[name]) + 1} classes, {kind}: covered"
                f" {covered(some).mean():.2f}, width {widths(some).mean():.2f}; errors: label"
                f" shift {error[0]:.3f}, stable {error[1]:.3f}"
            )
        title = f"3 to 5 classes, {kind}, {len(everything)} ranges"
        limit = 0.1 if kind == "mixed" else 0.15
        wide, width = float((widths(everything) > 0.9).mean()), float(widths(everything).mean())
        claims.append(claim(f"{title}: without the truth", 1 - covered(everything).mean(), limit))
        print(f"{title}: mean width {width:.2f}, wider than .9 {wide:.2f}")
        if kind == "mixed":
            claims += [claim(f"{title}: mean width", width, 0.55),
                       claim(f"{title}: wider than .9", wide, 0.1)]  # fmt: skip
    return claims


def left_out(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on whole bags as new tables."""
    cases = ((name, repeat) for repeat in range(repeats) for name in FAMILIES)
    outcomes = stored("left_out", cases, lambda n, r: left_out_case(folder, n, r))
    claims = []
    for name, values in outcomes.items():
        recognised = np.mean([o["new_bag"] for o in values])
        print(f"{name:20s} recognised {recognised:.2f}, covered {covered(values).mean():.2f}")
    for title, names in (("all", FAMILIES), ("held out", HELD_OUT)):
        some = joined(outcomes, names)
        missed = float(np.mean([not o["new_bag"] for o in some]))
        claims += [
            claim(f"bags left out, {title}: not recognised", missed, 0.3),
            claim(
                f"bags left out, {title}: ranges without the truth", 1 - covered(some).mean(), 0.15
            ),
        ]
        print(f"bags left out, {title}: mean width {widths(some).mean():.2f}")
    return claims


def nulls(folder: Path, repeats: int) -> list[dict]:
    """Return the claim on false alarms."""
    names = [json.dumps([s, lay, e]) for s in SETS for lay in LAYOUTS for e in EPSILONS]
    cases = ((name, repeat) for repeat in range(repeats) for name in names)
    outcomes = stored("nulls", cases, lambda n, r: null_case(folder, n, r))
    for name in names:
        values = outcomes[name]
        alarms = sum(o["rejected"] for o in values)
        print(f"{name:30s} {alarms} of {len(values)} rejected")
    everything = joined(outcomes, names)
    rate = float(np.mean([o["rejected"] for o in everything]))
    return [claim(f"false alarms at level .05, {len(everything)} nulls", rate, 0.08)]


def coverage(folder: Path, repeats: int) -> list[dict]:
    """Return the claims on label-shifted bags: coverage and width."""
    names = [json.dumps([s, e]) for s in SETS for e in EPSILONS]
    cases = ((name, repeat) for repeat in range(repeats) for name in names)
    outcomes = stored("coverage", cases, lambda n, r: coverage_case(folder, n, r))
    claims, by_share = [], {}
    for name in names:
        values = outcomes[name]
        inside = covered(values).reshape(-1, len(TEST_SHARES))
        by_share[name] = inside.mean(axis=0)
        old = [o for o in values if o.get("old_width") is not None]
        ratio = widths(old).mean() / np.mean([o["old_width"] for o in old])
        known = json.loads(name)[1] is None
        claims += [
            claim(f"label shift, {name}: without the truth", 1 - inside.mean(), 0.1),
            claim(f"label shift, {name}: worst share", 1 - by_share[name].min(), 0.15),
            claim(f"label shift, {name}: width over the old one", ratio, 1.15 if known else 1.5),
        ]
    return claims


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print every claim and write lab/bench/results/natural_bags.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--parts", default="natural,private,classes,left_out,nulls,skewed,coverage")
    parser.add_argument("--repeats", type=int, help="of each case; default: those of the claims")
    options = parser.parse_args(arguments)
    parts = {"natural": (natural, 8), "left_out": (left_out, 8), "nulls": (nulls, 23),
             "skewed": (skewed, 40), "coverage": (coverage, 100), "private": (private, 4),
             "classes": (classes, 8)}  # fmt: skip
    claims = []
    for name in options.parts.split(","):
        work, repeats = parts[name]
        claims += work(options.data, options.repeats or repeats)
    path = RESULTS / "natural_bags.json"
    claims = [{**item, "value": float(item["value"]), "met": bool(item["met"])} for item in claims]
    path.write_text(json.dumps({"machine": machine(), "claims": claims}, indent=2) + "\n")
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
