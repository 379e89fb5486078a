"""The five releases of the demo, each with its text and its plot."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.learner.operator.factored import FactoredClassifier
from suffice.learner.rados.ridge import RadoRidge
from suffice.learner.ratio.baselines import classify_and_count
from suffice.learner.ratio.estimator import ClassRatio
from suffice.learner.spread.classifier import SpreadClassifier
from suffice.learner.spread.frequencies import release_frequencies
from suffice.owner.ledger import Ledger
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.mechanism import PrivateEnsemble
from suffice.owner.proportions.mechanism import LabelProportions
from suffice.owner.rados.mechanism import Rados
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.pages.plots import draw_proportions
from suffice.pages.report import paragraphs
from suffice.release.artifact import Release
from suffice.study.demo.chapter import (
    Chapter,
    Measure,
    accuracy,
    measure_utility,
    share_of_larger_class,
)
from suffice.study.demo.network import ANSWERS, MEASURED, Network

__all__ = ["CHAPTERS", "answers", "diagnoses", "practices", "proportions", "sums"]

_DELTA = 1e-6
_FLIP = 0.25
_LAM = 1e-4  # of the practices' own classifiers, as in the paper

_DIAGNOSES_BY_HAND = r"""
suffice release mean-operator biopsies.csv --label diagnosis --epsilon 1 --delta 1e-6 \
    --no-ledger -o diagnoses.suffice
suffice inspect diagnoses.suffice
suffice fit diagnoses.suffice --rows public.csv -o diagnoses-model.suffice
suffice score diagnoses-model.suffice test.csv --label diagnosis"""
_ANSWERS_BY_HAND = r"""
suffice release responses answers.csv --label relapse --label-flip 0.25 --feature-flip 0.25 \
    --states sleep=good,poor --states smokes=never,sometimes,daily --states sport=no,yes \
    --states pills=all,some,none --no-ledger -o answers.suffice
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
        return MeanOperator(epsilon, _DELTA).release(rows, labels, **charged_to)

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
    estimate = model.estimate(network.new)
    share, low, high = (
        float(values[1])
        for values in (estimate.estimates["label_shift"], estimate.low, estimate.high)
    )
    others = [
        learn(make(ledger=None)).estimate(network.new, draws=2).estimates["label_shift"][1]
        for _ in range(repeats)
    ]
    ends = "an interval" if estimate.level else "a range under two assumptions"
    exact = FactoredClassifier().fit(*_measured(network.wards))
    counted = classify_and_count(exact, network.new, (0, 1))[1]
    text = f"""
Three wards release the proportion of malignant samples among theirs, with noise. A fourth ward has
{network.new.num_rows:,} samples without a diagnosis and wants to know their proportion. From the
three proportions and the measurements it estimates {share:.3f}, with {ends} from {low:.3f} to
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
