"""The demo: five releases of a network of clinics, what others learn from them, and its page.

The tables are invented, and imitate data which scikit-learn includes. A chapter is a real release,
and how well a learner does with it. Each is compared with the same learner without privacy, and
with a guess without the release.
"""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from sklearn.datasets import load_breast_cancer

from suffice.audit.auditor import audit
from suffice.learner.frequencies import release_frequencies
from suffice.learner.operator import FactoredClassifier
from suffice.learner.rados import RadoRidge
from suffice.learner.ratio.estimator import ClassRatio
from suffice.learner.spread import SpreadClassifier
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.parties.contribution import AuxiliaryRows
from suffice.owner.parties.ensemble import PrivateEnsemble
from suffice.owner.proportions import LabelProportions
from suffice.owner.rados import Rados
from suffice.owner.responses import RandomizedResponse
from suffice.pages.plots import BLUE, Draw, draw_panels, draw_proportions, draw_utility
from suffice.pages.report import PageTable, figure_html, page, paragraphs, prose, table_html
from suffice.papers.bags import classify_and_count
from suffice.papers.reproduction import Progress, Steps
from suffice.plain_text import collected_notes, markup
from suffice.privacy.guarantee import Budget, Guarantee, Unit
from suffice.releases.file import write_whole
from suffice.releases.release import Release

MEASURED = (
    "radius", "texture", "perimeter", "area", "smoothness",
    "compactness", "concavity", "indentations", "symmetry", "roughness",
)  # fmt: skip
ANSWERS = {
    "sleep": ("good", "poor"),
    "smokes": ("never", "sometimes", "daily"),
    "sport": ("no", "yes"),
    "pills": ("all", "some", "none"),
}  # what participants may say, question by question
_TENDS = {
    "sleep": (0.0, 1.0),
    "smokes": (0.0, 0.6, 1.6),
    "sport": (0.8, -0.4),
    "pills": (-1.0, 0.8, 2.0),
}  # log-odds of a relapse
_COMMON = {
    "sleep": (0.6, 0.4),
    "smokes": (0.55, 0.2, 0.25),
    "sport": (0.6, 0.4),
    "pills": (0.6, 0.3, 0.1),
}
_WARDS = {"north": 0.15, "south": 0.45, "west": 0.75}  # proportions of malignant samples
_NEW_WARD, _EVERYBODY = 0.30, 0.37  # those of the new ward, and of all others
_ROWS, _TEST, _WARD, _NEW, _AUXILIARY, _PARTICIPANTS = 3000, 3000, 1000, 800, 500, 4000
_PRACTICES, _EACH = 1000, 6
_BASE = -1.3
_FILES = (
    "biopsies", "unlabelled", "records", "test", "wards",
    "new_ward", "practices", "auxiliary", "answers", "later",
)  # fmt: skip


@dataclass(frozen=True)
class Network:
    """The tables of the demo. A ``diagnosis`` of 1 is malignant; a ``relapse`` of 1 is yes."""

    biopsies: pa.Table  # measurements and diagnoses, and so are the next two
    records: pa.Table
    test: pa.Table
    wards: pa.Table  # the same, with the ward
    new_ward: pa.Table  # measurements of the ward that has no diagnoses
    share: float  # of malignant samples in it
    practices: pa.Table  # measurements and diagnoses, with the practice
    auxiliary: pa.Table  # public measurements
    answers: pa.Table  # true answers of participants
    later: pa.Table  # and of other people


def clinic_network(seed: int = 0, *, smaller: int = 1) -> Network:
    """Return the tables of the demo; the same seed gives the same tables.

    Measurements are lognormal, with the means and covariances of benign and malignant samples in
    the Wisconsin breast cancer data (Street et al. 1993). The sizes of the tables are divided by
    ``smaller``.
    """
    rng = np.random.default_rng(seed)

    def patients(
        count: int, share: float | np.ndarray = _EVERYBODY, **more: np.ndarray
    ) -> pa.Table:
        sick = rng.random(count) < share
        table = _measured_network(sick, rng)
        for name, column in more.items():
            table = table.append_column(name, pa.array(column))
        return table.append_column("diagnosis", pa.array(sick.astype(np.int64)))

    wards = np.repeat(list(_WARDS), _WARD // smaller)
    shares = np.repeat(list(_WARDS.values()), _WARD // smaller)
    practices = np.repeat([f"p{n:04}" for n in range(_PRACTICES // smaller)], _EACH)
    new = patients(_NEW, _NEW_WARD)
    return Network(
        biopsies=patients(_ROWS // smaller),
        records=patients(_ROWS // smaller),
        test=patients(_TEST),
        wards=patients(len(wards), shares, ward=wards),
        new_ward=new.select(MEASURED),
        share=float(new["diagnosis"].to_numpy().mean()),
        practices=patients(len(practices), practice=practices),
        auxiliary=patients(_AUXILIARY).select(MEASURED),
        answers=_answered(_PARTICIPANTS // smaller, rng),
        later=_answered(_TEST, rng),
    )


def _measured_network(sick: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """Return measurements of benign and malignant samples."""
    samples = load_breast_cancer()
    logs = np.log(samples.data[:, : len(MEASURED)] + 0.01)  # some concavities are zero
    rows = np.empty((len(sick), len(MEASURED)))
    for malignant in (False, True):
        group = logs[samples.target == (0 if malignant else 1)]
        in_class = sick == malignant
        rows[in_class] = rng.multivariate_normal(
            group.mean(axis=0), np.cov(group.T), size=int(in_class.sum())
        )
    return pa.table({name: np.exp(rows[:, j]).round(4) for j, name in enumerate(MEASURED)})


def _answered(people: int, rng: np.random.Generator) -> pa.Table:
    """Return the true answers of participants, and whether they relapsed."""
    odds = np.full(people, _BASE)
    columns: dict[str, np.ndarray] = {}
    for name, states in ANSWERS.items():
        codes = rng.choice(len(states), size=people, p=_COMMON[name])
        odds += np.array(_TENDS[name])[codes]
        columns[name] = np.array(states)[codes]
    columns["relapse"] = (rng.random(people) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    return pa.table(columns)


def table_files(folder: Path) -> tuple[Path, ...]:
    """Return the files that `write_tables` writes into ``folder``."""
    return tuple(folder / f"{name}.csv" for name in _FILES)


def write_tables(network: Network, folder: Path, *, overwrite: bool = True) -> tuple[Path, ...]:
    """Write every table as CSV into ``folder``, and the biopsies without diagnoses beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    unlabelled = network.biopsies.drop_columns(["diagnosis"])
    paths = table_files(folder)
    for path in paths:
        table = unlabelled if path.stem == "unlabelled" else getattr(network, path.stem)
        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink)
        write_whole(path, sink.getvalue().to_pybytes(), overwrite=overwrite)
    return paths


PATIENT_COLUMNS = ("age", "size", "nodes", "stage")  # the public ones
_PATIENTS = 600
_SICK, _BACK = (0.03, 0.6, 0.5, 0.4), (0.01, 0.3, 0.2, 0.9)  # log-odds of one more of each column


def invented_patients(seed: int = 0) -> pa.Table:
    """Return 600 patients whom nobody ever met; the same seed gives the same patients.

    Columns are age, size, nodes and stage, and the labels diagnosis and relapse (0 or 1). Labels
    follow a logistic model of the centred columns, so a learner finds something.

    Examples
    --------
    >>> invented_patients().column_names
    ['age', 'size', 'nodes', 'stage', 'diagnosis', 'relapse']
    """
    rng = np.random.default_rng(seed)
    columns = np.column_stack(
        [
            rng.integers(25, 90, _PATIENTS),
            rng.lognormal(0.7, 0.5, _PATIENTS).round(2),
            rng.poisson(2.0, _PATIENTS),
            rng.integers(1, 5, _PATIENTS),
        ]
    )
    table = pa.table(dict(zip(PATIENT_COLUMNS, columns.T, strict=True)))
    for name, weights in (("diagnosis", _SICK), ("relapse", _BACK)):
        odds = (columns - columns.mean(axis=0)) @ np.array(weights)
        labels = (rng.random(_PATIENTS) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        table = table.append_column(name, pa.array(labels))
    return table


_EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_CHAPTER_EPSILON = 1.0  # of the release that the chapter is about


@dataclass(frozen=True)
class Measure:
    """How good a release is, over several draws of its noise."""

    what: str  # is measured, such as accuracy
    values: Sequence[float]  # of the release itself, then of repeated ones
    without_privacy: float  # the value of the same method on the exact data
    without_release: float  # the value of a guess that uses no release


@dataclass(frozen=True)
class Chapter:
    """One release of the demo, with its text, its plot, and commands that repeat it."""

    name: str  # a word for tables and plots
    title: str
    text: tuple[str, ...]  # paragraphs
    release: Release
    measure: Measure  # what was learnt from it
    draw: Draw
    caption: str
    by_hand: str  # commands that do the same with the demo's tables, in their folder


def accuracy(model: Any, table: pa.Table, label: str = "diagnosis") -> float:
    """Return the accuracy of a model on the rows of a table."""
    return float(model.score(table.drop_columns([label]), table[label].to_numpy()))


def share_of_larger_class(table: pa.Table, label: str = "diagnosis") -> float:
    """Return the accuracy of always predicting the larger class."""
    share = float(np.mean(table[label].to_numpy()))
    return max(share, 1 - share)


def measure_utility(
    make: Callable[..., Release],
    learn: Callable[[Release], Any],
    test: pa.Table,
    *,
    without_privacy: Any,
    unit: str,
    ledger: Ledger,
    dataset: str,
    repeats: int,
) -> tuple[Release, Measure, Draw]:
    """Return a release at epsilon 1, the accuracy of models learnt from it, and their plot.

    ``make`` makes a release at an epsilon, charged to the ledger that it gets. ``learn`` makes a
    model of it, and ``without_privacy`` is a model of the exact data. ``repeats`` further releases,
    charged to no ledger, are made at every epsilon.
    """
    release = make(_CHAPTER_EPSILON, ledger=ledger, dataset=dataset)
    curve = [
        [accuracy(learn(make(epsilon, ledger=None)), test) for _ in range(repeats)]
        for epsilon in _EPSILONS
    ]
    values = [accuracy(learn(release), test), *curve[_EPSILONS.index(_CHAPTER_EPSILON)]]
    exact, larger = accuracy(without_privacy, test), share_of_larger_class(test)

    draw = partial(
        draw_utility, epsilons=_EPSILONS, curves={"learnt from the release": curve},
        without_privacy=exact, larger_class=larger, unit=unit,
    )  # fmt: skip
    return release, Measure("accuracy", values, exact, larger), draw


_DELTA = 1e-6
_FLIP = 0.25
_LAM = 1e-4  # of the practices' own classifiers, as in the paper

_DIAGNOSES_BY_HAND = r"""
suffice release mean-operator biopsies.csv --label diagnosis --epsilon 1 --delta 1e-6 \
    --no-ledger -o diagnoses.suffice
suffice inspect diagnoses.suffice
suffice fit diagnoses.suffice --rows unlabelled.csv -o diagnoses-model.suffice
suffice score diagnoses-model.suffice test.csv --label diagnosis"""
_ANSWERS_BY_HAND = r"""
suffice release responses answers.csv --label relapse --flip 0.25 \
    --categories sleep=good,poor --categories smokes=never,sometimes,daily \
    --categories sport=no,yes --categories pills=all,some,none --no-ledger -o answers.suffice
suffice frequencies answers.suffice
suffice fit answers.suffice -o answers-model.suffice
suffice score answers-model.suffice later.csv --label relapse"""
_SUMS_BY_HAND = r"""
suffice release rados records.csv --label diagnosis --unit record --epsilon 1 --delta 1e-6 \
    --standardize auxiliary.csv --no-ledger -o sums.suffice
suffice fit sums.suffice -o sums-model.suffice
suffice score sums-model.suffice test.csv --label diagnosis"""
_PROPORTIONS_BY_HAND = r"""
suffice release proportions wards.csv --label diagnosis --bag ward --epsilon 0.1 --delta 1e-6 \
    --no-ledger -o wards.suffice
suffice ratio wards.suffice --rows wards.csv --bag ward new_ward.csv"""
_PRACTICES_BY_HAND = r"""
suffice release parties practices.csv --label diagnosis --party practice --aux auxiliary.csv \
    --enrolled 1000 --epsilon 1 --delta 1e-6 --no-ledger -o practices.suffice
suffice fit practices.suffice --rows auxiliary.csv -o practices-model.suffice
suffice score practices-model.suffice test.csv --label diagnosis"""


def diagnoses(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Release the diagnoses of a hospital whose measurements are public."""
    rows = network.biopsies.select(MEASURED)
    labels = network.biopsies["diagnosis"].to_numpy()

    def make(epsilon: float, **charged_to: Any) -> Release:
        return MeanOperator(epsilon, _DELTA, map=None).release(rows, labels, **charged_to)

    release, measure, draw = measure_utility(
        make,
        lambda release: FactoredClassifier().fit_release(release, rows),
        network.test,
        without_privacy=FactoredClassifier().fit(rows, labels),
        unit="label",
        ledger=ledger,
        dataset="diagnoses",
        repeats=repeats,
    )
    text = f"""
A hospital has {len(labels):,} samples. Their {len(MEASURED)} measurements are public; the
diagnoses are not. The hospital releases the mean operator of the diagnoses with noise, a vector of
{release.arrays["mean_operator"].size} numbers. A learner who has the public measurements trains a
logistic regression from it."""
    return Chapter(
        "diagnoses",
        "A hospital publishes one vector in place of its diagnoses",
        paragraphs(text),
        release,
        measure,
        draw,
        "Test accuracy of a model learnt from the release, against epsilon. The band is the range"
        " over repeated releases.",
        _DIAGNOSES_BY_HAND,
    )


def answers(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Release the answers of a survey, each changed at random."""
    table = network.answers
    mechanism = RandomizedResponse(label_flip=_FLIP, states=ANSWERS, feature_flip=_FLIP)

    def make(**charged_to: Any) -> Release:
        return mechanism.release(table, label="relapse", **charged_to)

    def learn(release: Release) -> float:
        return accuracy(SpreadClassifier().fit_release(release), network.later, "relapse")

    release = make(ledger=ledger, dataset="answers")
    accuracies = [learn(release), *(learn(make(ledger=None)) for _ in range(repeats))]
    rows = _one_hot(table)
    exact = FactoredClassifier().fit(rows.drop_columns(["relapse"]), rows["relapse"].to_numpy())
    text = f"""
{table.num_rows:,} people answer questions about their sleep, smoking, sport and pills, and whether
they relapsed. Each answer is replaced by another one with a probability of {100 * _FLIP:.0f} %
before it is stored, so nobody can be sure which answers are true. A learner estimates from the
stored answers how common each one is. It also trains a classifier of relapses, which takes the
changes into account."""
    return Chapter(
        "answers",
        "People answer questions that they would not answer openly",
        paragraphs(text),
        release,
        Measure(
            "accuracy",
            accuracies,
            accuracy(exact, _one_hot(network.later), "relapse"),
            share_of_larger_class(network.later, "relapse"),
        ),
        partial(_draw_answers, release, table),
        "Estimated proportion of each answer with its 95 % interval, and the true proportion,"
        " which is not in the release.",
        _ANSWERS_BY_HAND,
    )


def _one_hot(table: pa.Table) -> pa.Table:
    cells = {
        f"{name}: {state}": (table[name].to_numpy() == state).astype(float)
        for name, states in ANSWERS.items()
        for state in states
    }
    return pa.table({**cells, "relapse": table["relapse"]})


def _draw_answers(release: Release, table: pa.Table, axes: Any) -> None:
    """Draw the estimated proportion of every answer, and the true one."""
    estimates = [column for column in release_frequencies(release) if column.name in ANSWERS]
    names = [f"{column.name}: {state}" for column in estimates for state in column.states]
    shares, low, high = (
        np.concatenate([getattr(column, part) for column in estimates])
        for part in ("shares", "low", "high")
    )
    truth = [
        np.mean(table[name].to_numpy() == state)
        for name, states in ANSWERS.items()
        for state in states
    ]
    draw_proportions(axes, names, shares.tolist(), truth, low=low.tolist(), high=high.tolist())


def sums(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Release sums of the records of a clinic that may not show a single value."""
    table = network.records

    def make(epsilon: float, **charged_to: Any) -> Release:
        mechanism = Rados(
            unit="record", epsilon=epsilon, delta=_DELTA, standardize=network.auxiliary
        )
        return mechanism.release(table, label="diagnosis", **charged_to)

    release, measure, draw = measure_utility(
        make,
        lambda release: RadoRidge().fit_release(release),
        network.test,
        without_privacy=FactoredClassifier(loss="square").fit(*_measured(table)),
        unit="record",
        ledger=ledger,
        dataset="records",
        repeats=repeats,
    )
    text = f"""
A second clinic may not show its measurements either. It releases
{release.arrays["rados"].shape[0]:,} sums of records over secret random subsets (rados), with noise.
A learner trains from these sums and needs no rows and no labels."""
    return Chapter(
        "sums",
        "A clinic publishes sums in place of its records",
        paragraphs(text),
        release,
        measure,
        draw,
        "Test accuracy of a model learnt from the sums, against epsilon. The band is the range over"
        " repeated releases.",
        _SUMS_BY_HAND,
    )


def _measured(table: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return measurements and diagnoses."""
    return table.select(MEASURED), table["diagnosis"].to_numpy()


def proportions(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Release the class proportions of three wards, from which a fourth learns its own."""
    rows, labels = network.wards.drop_columns(["diagnosis"]), network.wards["diagnosis"].to_numpy()

    def make(**charged_to: Any) -> Release:
        return LabelProportions(0.1, _DELTA).release(rows, labels, "ward", **charged_to)

    def learn(release: Release) -> ClassRatio:
        model: ClassRatio = ClassRatio().fit_release(release, rows, bags="ward")
        return model

    release = make(ledger=ledger, dataset="wards")
    model = learn(release)
    estimate = model.estimate(network.new_ward)
    share, low, high = (
        float(values[1])
        for values in (estimate.estimates["label_shift"], estimate.low, estimate.high)
    )
    others = [
        learn(make(ledger=None)).estimate(network.new_ward, draws=2).estimates["label_shift"][1]
        for _ in range(repeats)
    ]
    ends = "an interval" if estimate.level else "a range under two assumptions"
    exact = FactoredClassifier().fit(*_measured(network.wards))
    counted = classify_and_count(exact, network.new_ward, (0, 1))[1]
    text = f"""
Three wards release the proportion of malignant samples among theirs, with noise. A fourth ward has
{network.new_ward.num_rows:,} samples without a diagnosis and wants to know their proportion. From
the three proportions and the measurements it estimates {share:.3f}, with {ends} from {low:.3f} to
{high:.3f}. {" ".join(estimate.words)} The true proportion is {network.share:.3f}. A classifier that
was trained on every diagnosis, and whose predictions are counted, gives {counted:.3f}."""
    errors = [abs(float(s) - network.share) for s in (share, *others, counted, labels.mean())]
    return Chapter(
        "proportions",
        "Three wards publish proportions, and another ward estimates its own",
        paragraphs(text),
        release,
        Measure("absolute error", errors[:-2], *errors[-2:]),
        partial(_draw_wards, release, network, (share, low, high)),
        "Proportion of malignant samples in each ward: as released, or for the new ward as"
        " estimated with a 95 % interval, next to the true proportion.",
        _PROPORTIONS_BY_HAND,
    )


def _draw_wards(
    release: Release, network: Network, estimate: tuple[float, float, float], axes: Any
) -> None:
    """Draw the proportion of every ward as released, and that of the new ward as estimated."""
    share, low, high = estimate
    released = release.arrays["proportions"][:, 1]
    wards = [str(bag) for bag in release.details["bags"]]
    ward, labels = (network.wards[name].to_numpy() for name in ("ward", "diagnosis"))
    truth = [*(float(labels[ward == name].mean()) for name in wards), network.share]
    ends = {"low": [*released, low], "high": [*released, high]}
    draw_proportions(axes, [*wards, "new ward"], [*released, share], truth, **ends)


def practices(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Release the votes of many practices, each a party of its own."""
    auxiliary = AuxiliaryRows.read(network.auxiliary)
    count = len(network.practices["practice"].unique())  # invented people, who may be counted

    def make(epsilon: float, **charged_to: Any) -> Release:
        return PrivateEnsemble(epsilon, _DELTA, lam=_LAM).release(
            network.practices,
            label="diagnosis",
            party="practice",
            enrolled=count,
            auxiliary=auxiliary,
            **charged_to,
        )

    release, measure, draw = measure_utility(
        make,
        lambda release: FactoredClassifier().fit_release(release, network.auxiliary),
        network.test,
        without_privacy=FactoredClassifier().fit(*_measured(network.practices)),
        unit="party",
        ledger=ledger,
        dataset="practices",
        repeats=repeats,
    )
    text = f"""
{count:,} practices have {network.practices.num_rows // count} patients each. Every practice trains
a classifier of its own and votes with it on {network.auxiliary.num_rows} public samples. An
aggregator publishes the sum of all votes once, with noise that limits how much any one practice can
change it."""
    return Chapter(
        "practices",
        "A thousand practices train a common classifier",
        paragraphs(text),
        release,
        measure,
        draw,
        "Test accuracy of the common classifier, against epsilon per practice. The band is the"
        " range over repeated releases.",
        _PRACTICES_BY_HAND,
    )


CHAPTERS = (diagnoses, answers, sums, proportions, practices)


_BUDGETS: dict[str, Budget | dict[Unit | str, Budget]] = {
    "diagnoses": Budget(2.0, 1e-5),
    "answers": Budget(2.0),
    "records": {Unit.RECORD: Budget(2.0, 1e-5)},
    "wards": Budget(0.5, 1e-5),
    "practices": {Unit.PARTY: Budget(2.0, 1e-5)},
}
_AUDITED_CASES = (
    "mean-operator knorm",
    "responses, a label",
    "rados, a record",
    "proportions laplace, 2 classes",
    "parties, operator, gaussian",
    "proportions laplace, 2 classes / half the noise",
)  # the mechanisms of the five releases, and one that is broken on purpose
_EFFORT = 0.25  # of what suffice audit takes
_AUDIT_TEXT = """
The audit does not trust any of this. It runs each mechanism many times on two data sets that differ
in one unit, and measures how well the outputs tell the two apart. From that it computes an epsilon
which the mechanism has at least. If this bound exceeded the stated epsilon, the guarantee would be
false. A bound below it proves nothing: it shows how far this attack came. The last line is a
mechanism with half of its noise, which the audit must catch. Run suffice audit all to test every
mechanism."""
_OPENING = """
Five members of a network of clinics hold data that they may not show. Each publishes a small, noisy
summary in a file, and the file states what it protects. Learners work with these files and with
public data. The tables are invented: they imitate the Wisconsin breast cancer data that come with
scikit-learn."""


@dataclass(frozen=True)
class Story:
    """The text of the demo, for a terminal and for its page."""

    paragraphs: tuple[str, ...]  # what the demo is about
    tables: tuple[PageTable, ...]  # what was learnt, what the ledger holds, what the audit found
    chapters: tuple[Chapter, ...]


def run_demo(
    output: Path,
    *,
    files: Path | None = None,
    repeats: int = 4,
    smaller: int = 1,
    progress: Progress = lambda *_: None,
    overwrite: bool = True,
) -> Story:
    """Make five releases, learn from each, write the page, and return the text.

    Parameters
    ----------
    output
        The HTML page to write.
    files
        A folder for the tables as CSV files, with which the commands on the page can be run.
    repeats
        How many further releases show how much the results vary.
    smaller
        The number by which the sizes of all tables are divided.
    progress
        Called with the steps done, the number of steps, and what is being done.
    overwrite
        Whether existing files may be replaced.

    Raises
    ------
    StorageError
        If a file exists and may not be replaced, or cannot be written.
    """
    steps = Steps(progress, len(CHAPTERS) + 2)
    network = clinic_network(smaller=smaller)
    if files is not None:
        write_tables(network, files, overwrite=overwrite)
    chapters = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "network.ledger", _BUDGETS, anchor="none")
        for chapter in CHAPTERS:
            steps.begin(chapter.__name__)
            chapters.append(chapter(network, ledger, repeats))
        spent = PageTable(
            "The ledger after the five releases.",
            ("data set", "unit", "budget", "epsilon spent"),
            tuple(
                (b.dataset, f"per {b.unit}", str(b.budget), f"{b.spent:.3f}")
                for b in ledger.balances()
            ),
        )
    steps.begin("the audit")
    findings = _audit_table()
    steps.begin("the page")
    story = Story(
        paragraphs(_OPENING), (_results_table(chapters), spent, findings), tuple(chapters)
    )
    write_whole(output, _page(story).encode(), overwrite=overwrite)
    return story


def _results_table(chapters: Sequence[Chapter]) -> PageTable:
    """Return a line per release: all of its guarantees, and what was learnt from it."""
    return PageTable(
        "What each of the five releases guarantees, and what was learnt from it.",
        (
            "release", "guarantees", "measured", "with the release", "without privacy",
            "without the release",
        ),
        tuple(
            (
                chapter.name,
                "; ".join(map(_short_guarantee, chapter.release.guarantees)),
                chapter.measure.what,
                f"{np.mean(chapter.measure.values):.3f}",
                f"{chapter.measure.without_privacy:.3f}",
                f"{chapter.measure.without_release:.3f}",
            )
            for chapter in chapters
        ),
    )  # fmt: skip


def _short_guarantee(guarantee: Guarantee) -> str:
    """Return the epsilon and delta of a guarantee, rounded up, and its unit."""
    unit = "value" if guarantee.unit is Unit.ATTRIBUTE else str(guarantee.unit)
    if guarantee.epsilon is None:
        return f"none per {unit}"
    delta = f", delta {guarantee.delta:g}" if guarantee.delta else ""
    # To two decimal places, never below its value but for rounding errors.
    epsilon = math.ceil(100 * guarantee.epsilon * (1 - 1e-12)) / 100
    return f"epsilon {epsilon:g}{delta} per {unit}"


def _audit_table() -> PageTable:
    """Return what a short audit finds about the mechanisms of the demo."""
    with collected_notes():  # about the small tables that it tries
        findings = audit(_AUDITED_CASES, effort=_EFFORT)
    rows = tuple((f.name, f"{f.claimed:.3g}", f"{f.lower_bound:.3g}", f.verdict) for f in findings)
    return PageTable(
        "What the audit found: the epsilon that each mechanism states, and what it is at least.",
        ("mechanism", "stated epsilon", "epsilon at least", "verdict"),
        rows,
    )


def _page(story: Story) -> str:
    sections = ""
    for number, chapter in enumerate(story.chapters, start=1):
        sections += (
            f"<h2>{number}. {markup(chapter.title)}</h2>{prose(chapter.text)}"
            f"<blockquote>{prose(map(str, chapter.release.guarantees))}</blockquote>"
            f"{figure_html(draw_panels(chapter.draw), chapter.caption)}"
            "<details><summary>Repeat this yourself (suffice demo FOLDER writes the tables)"
            f"</summary><pre>{markup(chapter.by_hand.strip())}</pre></details>"
        )
    results, spent, findings = map(table_html, story.tables)
    overview = figure_html(
        draw_panels(partial(_draw_results, story.chapters)),
        "How much of the possible gain each release brings: 0 % is a guess without the release,"
        " 100 % the same method on the exact data. A dot is one draw of the noise; a bar ends at"
        " their mean.",
    )
    return page(
        "suffice: learning from what clinics are willing to publish",
        f"{prose(story.paragraphs)}{overview}{results}{sections}"
        f"<h2>What it cost</h2>{spent}"
        f"<h2>Can you check it?</h2>{prose(paragraphs(_AUDIT_TEXT))}{findings}",
    )


def _draw_results(chapters: Sequence[Chapter], axes: Any) -> None:
    """Draw every release between no release and no privacy."""
    rows = np.arange(len(chapters))[::-1]
    axes.axvline(1, color="black", linestyle="--", linewidth=1, label="without privacy")
    axes.axvline(0, color="grey", linestyle=":", linewidth=1.2, label="without the release")
    for row, chapter in zip(rows, chapters, strict=True):
        without = chapter.measure.without_release
        largest_gain = chapter.measure.without_privacy - without
        values = [(value - without) / largest_gain for value in chapter.measure.values]
        axes.barh(row, np.mean(values), height=0.3, color=BLUE, alpha=0.3)
        axes.plot(values, [row] * len(values), "o", color=BLUE, markersize=5)
    axes.set_yticks(rows, [chapter.name for chapter in chapters])
    axes.set(xlabel="share of the possible gain", xlim=(-0.05, 1.15))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
