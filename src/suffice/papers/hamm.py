"""Accuracy against the privacy of a party (Hamm et al. 2016, Figures 2 and 3)."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.pages.plots import draw_panels
from suffice.pages.report import PageTable, describe_repeats, paragraphs
from suffice.papers.crowds import (
    LAM,
    Crowd,
    auxiliary_of_unit_norm,
    crowd_of_parts,
    deal,
    draw_crowd,
    outcome_table,
    simulate,
    step_count,
)
from suffice.papers.reproduction import (
    Comparison,
    Figure,
    Reproduction,
    Result,
    Setting,
    Steps,
    real_numbers,
)
from suffice.tables.maps import FeatureMap
from suffice.tables.pipeline import Column, Pipeline

__all__ = [
    "ACTIVITIES",
    "ENTRIES",
    "INTRUSIONS",
    "LEFT_OUT",
    "PAPER",
    "detect_intrusions",
    "recognise_activities",
]


_DELTA = 1e-5
_EPSILONS = (10.0, 3.0, 1.0, 0.3, 0.1)

ACTIVITIES = "uci_har_train.parquet"
_COMPONENTS = 50
_PARTIES = 1000
_AUXILIARY = 550
# Section 6.1, in words: around .90, around .47, and at 1/epsilon = 0.
_PRINTED = {"batch": 0.90, "indiv": 0.47, "vote": 0.79, "soft": 0.76, "average": 0.67}

INTRUSIONS = "kddcup99_10pct.parquet"
_CROWDS = (5_000, 10_000, 20_000)
_SAMPLES = 22
_INTRUSION_AUXILIARY = 43_000

_COMMON_NOTES = f"""
batch, soft, avg, vote and indiv are the paper's, at its lam = {LAM:g}; soft, vote and average leave
with Gaussian noise at delta = {_DELTA:g} in the place of its pure noise, with the logistic factor
two used and the exact mean norm of the rows. operator is ours: one noisy mean operator of the
votes, learnt from by FactoredClassifier with everything chosen from the release. votes is the noisy
table of votes, learnt from by the same; pate takes its largest vote per row as a label (Gaussian
noise, logistic regression at lam = {LAM:g}).

A party's softmax is over the classes it has; it never votes for another. Every trial deals the
records anew, and the noise is drawn afresh from the operating system: figures move a little.
"""
_NEARLY_BATCH = 0.1  # the epsilon down to which soft is said to do as well as batch
_ACTIVITY_NOTES = f"""
The official test part of UCI HAR could not be had: test subjects are every fourth of the 21 sorted
training subjects, from the first on. {_AUXILIARY} of the other subjects' rows, drawn at random, are
the auxiliary ones; the others are dealt to {_PARTIES:,} parties, 4 or 5 each (the paper has 6, and
1K auxiliary rows). The {_COMPONENTS} principal components are those of the auxiliary rows alone,
divided by their largest norm; longer rows are clipped to norm one.

The paper says that soft and avg stay above indiv until 1/epsilon = 1. We do not see that: at M =
1000 and lam = 1e-4 the sensitivity is sqrt(2)/(lam M) = 14 and more, the noise is longer than the
model at epsilon 10 already, and both are near chance.
"""
_INTRUSION_NOTES = f"""
The 10 % file of KDD-99 for training and its corrected test set, as the paper. Each of M parties has
{_SAMPLES} records; {_INTRUSION_AUXILIARY:,} others are auxiliary rows, from which columns are
standardised and clipped to norm one; categories are those that the training file lists. The smaller
crowds are the first parties of the largest. batch is trained on at most 100,000 records. The paper
prints no numbers here but says that soft is nearly as good as batch until about 1/epsilon = 10 at M
= 20K.
"""


def recognise_activities(setting: Setting) -> Result:
    """Return Figure 2: accuracies on UCI HAR with 1000 parties."""
    steps = Steps(setting.progress, step_count(setting.seeds, _EPSILONS))
    table = pq.read_table(setting.folder / ACTIVITIES)
    crowds = (_activity_crowd(table, seed) for seed in range(setting.seeds))
    outcome = simulate(crowds, _EPSILONS, delta=_DELTA, steps=steps)
    exact = outcome["without_noise"]
    compared = [
        Comparison(f"{name}, no noise", value, float(np.mean(exact[name])), _nearness(name))
        for name, value in _PRINTED.items()
    ]
    title = f"Test accuracy on UCI HAR with {_PARTIES:,} parties ({_repeats(setting)})."
    tables = (outcome_table(title, outcome),)
    values = {"crowds": {str(_PARTIES): outcome}}
    return _result(tables, {"UCI HAR": outcome}, _ACTIVITY_NOTES, values, compared)


def _nearness(name: str) -> str:
    reasons = {
        "batch": "other test subjects",
        "average": "4 or 5 samples per party, a softmax over its own classes only",
    }
    return f"not the same: {reasons.get(name, '4 or 5 samples per party against 6')}"


def _activity_crowd(table: pa.Table, seed: int) -> Crowd:
    subjects = np.sort(pc.unique(table["subject"]).to_numpy())
    is_test = np.isin(table["subject"].to_numpy(), subjects[::4])
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~is_test))
    rows = table.drop_columns(["subject"])
    public = rows.take(order[:_AUXILIARY]).drop_columns(["label"])
    auxiliary = AuxiliaryRows.read(public, pipeline=_components(public))
    records, party = deal(rows.take(order[_AUXILIARY:]), _PARTIES)
    tested = rows.take(np.flatnonzero(is_test))
    return crowd_of_parts(
        auxiliary, records, tested, label="label", classes=tuple(range(6)), party=party
    )


def _components(public: pa.Table) -> Pipeline:
    """Return the pipeline of the paper: principal components, norms at most one, an intercept.

    The components keep their own variances, which `fit_map` would take from them.
    """
    names = public.column_names
    matrix = np.column_stack([column.to_numpy() for column in public.columns]).astype(np.float64)
    centre = matrix.mean(axis=0)
    _, _, vectors = np.linalg.svd(matrix - centre, full_matrices=False)
    components = np.ascontiguousarray(vectors[:_COMPONENTS])
    arrays = {"centre": centre, "spread": np.ones(len(names)), "components": components}
    longest = float(np.linalg.norm((matrix - centre) @ components.T, axis=1).max())
    return Pipeline(
        origin=AuxiliaryRows.read(public).pipeline.origin,
        columns=tuple(Column(name) for name in names),
        missing="error",
        mean=np.zeros(len(components)),
        scale=np.full(len(components), longest),
        bound=1.0,
        intercept=1.0,
        map=FeatureMap("pca", len(components), arrays),
    )


def detect_intrusions(setting: Setting) -> Result:
    """Return Figure 3: accuracies on KDD-99 with 5, 10 and 20 thousand parties."""
    each = step_count(setting.seeds, _EPSILONS)
    steps = Steps(setting.progress, each * len(_CROWDS))
    largest = [_intrusion_crowd(setting.folder, seed) for seed in range(setting.seeds)]
    outcomes = {
        count: simulate(
            (crowd.first(count) for crowd in largest), _EPSILONS, delta=_DELTA, steps=steps
        )
        for count in _CROWDS
    }
    tables = tuple(
        outcome_table(
            f"Test accuracy on KDD-99 with {count:,} parties ({_repeats(setting)}).", outcome
        )
        for count, outcome in outcomes.items()
    )
    panels = {f"M = {count:,}": outcome for count, outcome in outcomes.items()}
    values = {"crowds": {str(count): outcome for count, outcome in outcomes.items()}}
    return _result(tables, panels, _INTRUSION_NOTES, values, _sentences(outcomes[max(_CROWDS)]))


def _sentences(outcome: Mapping[str, Any]) -> list[Comparison]:
    """Return what Section 6.2 says of the largest crowd, each with the number that decides it."""
    batch, indiv = (float(np.mean(outcome["without_noise"][name])) for name in ("batch", "indiv"))
    least = min(epsilon for epsilon in outcome["epsilons"] if epsilon >= _NEARLY_BATCH)
    index = outcome["epsilons"].index(least)
    soft, average = (
        float(np.mean(outcome["accuracies"][name][index])) for name in ("soft", "average")
    )
    verdicts = {True: "as the text says", False: "against the text"}
    return [
        Comparison(
            f"soft less batch, epsilon {least:g}: nearly as good",
            None,
            soft - batch,
            verdicts[soft > batch - 0.02],
        ),
        Comparison(
            f"soft less avg, epsilon {least:g}: better",
            None,
            soft - average,
            verdicts[soft > average],
        ),
        Comparison(
            f"soft less indiv, epsilon {least:g}: better",
            None,
            soft - indiv,
            verdicts[soft > indiv],
        ),
    ]


def _intrusion_crowd(folder: Path, seed: int) -> Crowd:
    table = real_numbers(pq.read_table(folder / INTRUSIONS).drop_columns(["attack"]))
    parts = {
        name: table.filter(pc.equal(table["split"], name)).drop_columns(["split"])
        for name in ("train", "test")
    }
    order = np.random.default_rng(seed).permutation(len(parts["train"]))
    public = parts["train"].drop_columns(["label"]).take(order[:_INTRUSION_AUXILIARY])
    listed = {
        field.name: sorted(pc.unique(parts["train"][field.name].cast(pa.string())).to_pylist())
        for field in public.schema
        if pa.types.is_dictionary(field.type)
    }
    auxiliary = auxiliary_of_unit_norm(public, categories=listed)
    own = order[_INTRUSION_AUXILIARY : _INTRUSION_AUXILIARY + _SAMPLES * max(_CROWDS)]
    records, party = deal(parts["train"].take(own), max(_CROWDS))
    return crowd_of_parts(
        auxiliary, records, parts["test"], label="label", classes=(0, 1), party=party
    )


def _repeats(setting: Setting) -> str:
    return describe_repeats(setting.seeds, "trial")


def _result(
    tables: tuple[PageTable, ...],
    panels: Mapping[str, Mapping[str, Any]],
    notes: str,
    values: Mapping[str, Any],
    compared: Sequence[Comparison],
) -> Result:
    figure = draw_panels(*(partial(_draw, name, outcome) for name, outcome in panels.items()))
    caption = (
        "Test accuracy against 1/epsilon per party, so that privacy is stronger to the right."
        " operator is one release, and the learner chooses all its settings from it."
    )
    return Result(
        tables,
        (Figure(caption, figure),),
        paragraphs(notes + _COMMON_NOTES),
        values,
        compared=tuple(compared),
    )


def _draw(name: str, outcome: Mapping[str, Any], axes: Any) -> None:
    draw_crowd(outcome, axes)
    axes.set(title=name)


PAPER = "Hamm, Cao & Belkin 2016"

ENTRIES = (
    Reproduction(
        "parties-har",
        "Activity recognition by many parties",
        f"{PAPER}, Figure 2",
        recognise_activities,
        files={"uci-har": ACTIVITIES},
        seeds=3,
    ),
    Reproduction(
        "parties-kdd99",
        "Intrusion detection by many parties",
        f"{PAPER}, Figure 3",
        detect_intrusions,
        files={"kddcup99": INTRUSIONS},
    ),
)

LEFT_OUT = (
    (
        "Figure 1",
        "a drawing of how it works, without data",
    ),
    (
        "Figure 4: malicious URLs",
        "data not at hand; KDD-99 is the paper's other experiment of that size",
    ),
)
