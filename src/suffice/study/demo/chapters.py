"""The five releases of the demo: each made for real, learnt from, and held against no privacy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.learner.factored import FactoredClassifier
from suffice.learner.frequencies import release_frequencies
from suffice.learner.rados.ridge import RadoRidge
from suffice.learner.ratio.baselines import classify_and_count
from suffice.learner.ratio.estimator import ClassRatio
from suffice.learner.spread.classifier import SpreadClassifier
from suffice.owner.ledger import Ledger
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.parties.aggregate import PrivateEnsemble
from suffice.owner.parties.auxiliary import AuxiliaryRows
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.tables import PartyTable
from suffice.owner.proportions.mechanism import LabelProportions
from suffice.owner.rados.mechanism import Rados
from suffice.owner.responses.mechanism import RandomizedResponse
from suffice.pages.curves import draw_shares, draw_utility
from suffice.pages.report import paragraphs
from suffice.release.artifact import Release
from suffice.study.demo.network import ANSWERS, MEASURED, Network

__all__ = [
    "CHAPTERS", "Chapter", "Measure", "answers", "diagnoses", "practices", "proportions", "sums",
]  # fmt: skip

_DELTA = 1e-6
_EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_AT_ONE = _EPSILONS.index(1.0)
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

Draw = Callable[[Any], None]


@dataclass(frozen=True)
class Measure:
    """How good a release turned out: over several draws, against none and against no privacy."""

    what: str
    found: Sequence[float]
    plain: float
    ignorant: float
    better: str = "higher"


@dataclass(frozen=True)
class Chapter:
    """One release of the story: who, what was released and promised, how it went, how to repeat it.

    ``by_hand`` are commands that do the same with the demo's tables, in their folder.
    """

    name: str
    title: str
    told: tuple[str, ...]
    release: Release
    measure: Measure
    draw: Draw
    caption: str
    by_hand: str


def _accuracy(model: Any, table: pa.Table, label: str = "diagnosis") -> float:
    return float(model.score(table.drop_columns([label]), table[label].to_numpy()))


def _larger(table: pa.Table, label: str = "diagnosis") -> float:
    share = float(np.mean(table[label].to_numpy()))
    return max(share, 1 - share)


def _curve(once: Callable[[float], float], repeats: int) -> list[list[float]]:
    """Return the results of several releases at every epsilon."""
    return [[once(epsilon) for _ in range(repeats)] for epsilon in _EPSILONS]


def _utility(curve: list[list[float]], measure: Measure, unit: str) -> Draw:
    def draw(axes: Any) -> None:
        ends = {"plain": measure.plain, "majority": measure.ignorant}
        draw_utility(axes, _EPSILONS, {"from the release": curve}, unit=unit, **ends)

    return draw


def diagnoses(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Tell of the hospital whose samples are public and whose diagnoses are not."""
    rows = network.biopsies.select(MEASURED)
    labels = network.biopsies["diagnosis"].to_numpy()

    def learn(release: Release) -> float:
        return _accuracy(FactoredClassifier().fit_release(release, rows), network.test)

    release = MeanOperator(1.0, _DELTA).release(rows, labels, ledger=ledger, dataset="diagnoses")
    again = _curve(
        lambda e: learn(MeanOperator(e, _DELTA).release(rows, labels, ledger=None)), repeats
    )
    plain = _accuracy(FactoredClassifier().fit(rows, labels), network.test)
    measure = Measure("accuracy", [learn(release), *again[_AT_ONE]], plain, _larger(network.test))
    told = f"""
A hospital has {len(labels):,} samples. Their {len(MEASURED)} measurements are public; the
diagnoses are not. It releases one noisy vector, the mean operator of the diagnoses:
{release.arrays["mean_operator"].size} numbers. Somebody with the public measurements trains a
logistic regression from that."""
    return Chapter(
        "diagnoses",
        "A hospital releases what its diagnoses say together",
        paragraphs(told),
        release,
        measure,
        _utility(again, measure, "label"),
        "Test accuracy of what was learnt, and its range over releases, against epsilon.",
        _DIAGNOSES_BY_HAND,
    )


def answers(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Tell of the survey whose participants' answers are randomised, one by one."""
    table = network.answers
    mechanism = RandomizedResponse(label_flip=_FLIP, states=ANSWERS, feature_flip=_FLIP)
    clean = {name: _shares(table[name], states) for name, states in ANSWERS.items()}

    def drawn(**kept: Any) -> Release:
        return mechanism.release(table, label="relapse", **kept)

    def learn(release: Release) -> float:
        return _accuracy(SpreadClassifier().fit_release(release), network.later, "relapse")

    release = drawn(ledger=ledger, dataset="answers")
    accuracies = [learn(release), *(learn(drawn(ledger=None)) for _ in range(repeats))]
    plain = _accuracy(_plain_answers(table), _one_hot(network.later), "relapse")
    found = [one for one in release_frequencies(release) if one.name in clean]

    def draw(axes: Any) -> None:
        names = [f"{one.name}: {state}" for one in found for state in one.states]
        shares, low, high = (
            np.concatenate([getattr(one, part) for one in found])
            for part in ("shares", "low", "high")
        )
        truth = np.concatenate(list(clean.values()))
        draw_shares(axes, names, shares, truth, low=low, high=high)

    told = f"""
{table.num_rows:,} people are asked about their sleep, smoking, sport and pills, and whether they
relapsed. Each answer is replaced by another with chance {_FLIP:g} before it is stored, so that
every answer can be denied. Shares are estimated from what is stored, and so is a classifier of
relapses, which takes the noise into account."""
    return Chapter(
        "answers",
        "People answer what they would not say",
        paragraphs(told),
        release,
        Measure("accuracy", accuracies, plain, _larger(network.later, "relapse")),
        draw,
        "Shares of each answer with 95 % intervals, and the true ones, which nobody reported.",
        _ANSWERS_BY_HAND,
    )


def _shares(column: Any, states: Sequence[str]) -> np.ndarray:
    values = column.to_numpy()
    return np.array([np.mean(values == state) for state in states])


def _one_hot(table: pa.Table) -> pa.Table:
    cells = {
        f"{name}: {state}": (table[name].to_numpy() == state).astype(float)
        for name, states in ANSWERS.items()
        for state in states
    }
    return pa.table({**cells, "relapse": table["relapse"]})


def _plain_answers(table: pa.Table) -> FactoredClassifier:
    rows = _one_hot(table)
    return FactoredClassifier().fit(rows.drop_columns(["relapse"]), rows["relapse"].to_numpy())


def sums(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Tell of the clinic whose whole records are private."""
    table = network.records

    def drawn(epsilon: float, **kept: Any) -> Release:
        mechanism = Rados(
            unit="record", epsilon=epsilon, delta=_DELTA, standardize=network.auxiliary
        )
        return mechanism.release(table, label="diagnosis", **kept)

    def learn(release: Release) -> float:
        return _accuracy(RadoRidge().fit_release(release), network.test)

    release = drawn(1.0, ledger=ledger, dataset="records")
    again = _curve(lambda e: learn(drawn(e, ledger=None)), repeats)
    plain = _accuracy(
        FactoredClassifier(loss="square").fit(
            table.select(MEASURED), table["diagnosis"].to_numpy()
        ),
        network.test,
    )
    measure = Measure("accuracy", [learn(release), *again[_AT_ONE]], plain, _larger(network.test))
    told = f"""
Another clinic may show no measurement either. It releases {release.arrays["rados"].shape[0]:,}
sums of whole records over random subsets (rados), with noise that hides any one record. A learner
needs nothing else: no rows and no labels."""
    return Chapter(
        "sums",
        "A clinic releases sums in the place of records",
        paragraphs(told),
        release,
        measure,
        _utility(again, measure, "record"),
        "Test accuracy of what was learnt from the sums, and its range, against epsilon.",
        _SUMS_BY_HAND,
    )


def proportions(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Tell of the wards that count, and of the ward that asks."""
    table = network.wards
    rows, labels = table.drop_columns(["diagnosis"]), table["diagnosis"].to_numpy()

    def drawn(**kept: Any) -> Release:
        return LabelProportions(0.1, _DELTA).release(rows, labels, "ward", **kept)

    def learn(release: Release) -> ClassRatio:
        return ClassRatio().fit_release(release, rows, bags="ward")

    def missed(share: float) -> float:
        return abs(float(share) - network.share)

    release = drawn(ledger=ledger, dataset="wards")
    model = learn(release)
    shares = [
        model.quantify(network.new)[1],
        *(learn(drawn(ledger=None)).quantify(network.new)[1] for _ in range(repeats)),
    ]
    low, high = model.interval(network.new)[:, 1]
    plain = FactoredClassifier().fit(rows.select(MEASURED), labels)
    counted = classify_and_count(plain, network.new, (0, 1))[1]

    def draw(axes: Any) -> None:
        known = release.arrays["proportions"][:, 1]
        names = [*map(str, release.details["bags"]), "new ward"]
        truth = [*(_ward_share(table, name) for name in names[:-1]), network.share]
        ends = {"low": [*known, low], "high": [*known, high]}
        draw_shares(axes, names, [*known, shares[0]], truth, **ends)

    told = f"""
Three wards release what share of their samples was malignant, with noise. A fourth has
{network.new.num_rows:,} samples that nobody has diagnosed and wants to know how many are
malignant. From the three shares and the measurements it estimates {shares[0]:.3f}, between
{low:.3f} and {high:.3f}; it is {network.share:.3f}. A classifier trained on every diagnosis,
applied and counted, says {counted:.3f}."""
    return Chapter(
        "shares",
        "Wards release counts, and another ward learns its own",
        paragraphs(told),
        release,
        Measure(
            "error",
            [missed(share) for share in shares],
            missed(counted),
            missed(labels.mean()),
            better="lower",
        ),
        draw,
        "Malignant samples by ward: as released, and for the new ward as estimated, with a 95 %"
        " interval; the true shares.",
        _PROPORTIONS_BY_HAND,
    )


def _ward_share(table: pa.Table, name: str) -> float:
    return float(table["diagnosis"].to_numpy()[table["ward"].to_numpy() == name].mean())


def practices(network: Network, ledger: Ledger, repeats: int) -> Chapter:
    """Tell of the practices that vote."""
    auxiliary = AuxiliaryRows.read(network.auxiliary)
    own = PartyTable.read(
        network.practices, auxiliary, label="diagnosis", classes=(0, 1), party="practice"
    )
    enrolled = Enrolled.of(len(own.names))  # invented people, who may be counted
    tally = own.tally(auxiliary, _LAM, enrolled)

    def drawn(epsilon: float, **kept: Any) -> Release:
        ensemble = PrivateEnsemble(epsilon, _DELTA)
        return ensemble.aggregate(tally, auxiliary, enrolled=enrolled, **kept).release

    def learn(release: Release) -> float:
        model = FactoredClassifier().fit_release(release, network.auxiliary)
        return _accuracy(model, network.test)

    release = drawn(1.0, ledger=ledger, dataset="practices")
    again = _curve(lambda e: learn(drawn(e, ledger=None)), repeats)
    together = FactoredClassifier().fit(
        network.practices.select(MEASURED), network.practices["diagnosis"].to_numpy()
    )
    measure = Measure(
        "accuracy",
        [learn(release), *again[_AT_ONE]],
        _accuracy(together, network.test),
        _larger(network.test),
    )
    told = f"""
{enrolled.count:,} practices have {len(own.codes) // enrolled.count} patients each. Every
practice trains its own classifier and votes on {network.auxiliary.num_rows} public samples; the sum
of all votes leaves once, with noise that hides everything any one practice holds."""
    return Chapter(
        "practices",
        "A thousand practices train one classifier",
        paragraphs(told),
        release,
        measure,
        _utility(again, measure, "party"),
        "Test accuracy of the common classifier, and its range, against epsilon per practice.",
        _PRACTICES_BY_HAND,
    )


CHAPTERS = (diagnoses, answers, sums, proportions, practices)
