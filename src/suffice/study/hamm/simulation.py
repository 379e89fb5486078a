"""Many parties simulated on public data: every method, at every epsilon, on the same crowd.

Owner, aggregator and learner are the real ones: noise is drawn as for a release, and every model is
learnt from what was released. Only who belongs to which party is simulated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from suffice.errors import ParameterError
from suffice.learner.factored import FactoredClassifier
from suffice.learner.losses import LOSSES
from suffice.learner.problem import FactoredProblem
from suffice.learner.votes import VoteClassifier
from suffice.owner.parties.aggregate import PrivateEnsemble
from suffice.owner.parties.auxiliary import VOTE
from suffice.owner.parties.contribution import PartyContribution
from suffice.owner.parties.enrolled import Enrolled
from suffice.owner.parties.tables import predicted
from suffice.owner.parties.tally import VoteTally
from suffice.pages.report import Table, figure_svg, page, spread, table_html
from suffice.release.artifact import Release
from suffice.release.files import write_whole
from suffice.study.hamm.crowds import Crowd, crowd_of_table
from suffice.study.reproduction import Progress, Steps
from suffice.tables.sources import open_table

__all__ = [
    "LAM",
    "METHODS",
    "draw_crowd",
    "outcome_table",
    "simulate",
    "simulate_table",
    "step_count",
    "write_simulation",
]

LAM = 1e-4  # Hamm et al. 2016, Section 6: of local and global classifiers
_WITHOUT_NOISE = ("batch", "soft", "vote", "average", "indiv")
_LOCAL = 200  # parties whose own classifiers are tested
_LOCAL_ROWS = 5000  # test rows that they are tested on
_BATCH_ROWS = 100_000  # private rows that the batch classifier is trained on
_TOL = 1e-6


class _Sent:
    """What the parties of a crowd send, computed once for every epsilon."""

    def __init__(self, crowd: Crowd, lam: float) -> None:
        self.crowd, self.lam = crowd, lam

    @cached_property
    def tally(self) -> VoteTally:
        """The votes on the auxiliary rows."""
        everybody = Enrolled(self.crowd.count)  # of a table that is public
        return self.crowd.parties.tally(self.crowd.auxiliary, self.lam, everybody)

    @cached_property
    def parameters(self) -> list[PartyContribution]:
        """The parameters of every party's classifier."""
        return list(self.crowd.parties.averaged(self.crowd.auxiliary, self.lam))

    @cached_property
    def models(self) -> np.ndarray:
        """The same, as numbers."""
        return self.crowd.parties.parameters(self.lam)

    @cached_property
    def soft_labels(self) -> np.ndarray:
        """The exact share of parties that vote for each class, (N, K)."""
        total = self.tally.gathered("votes").total
        return total / (VOTE * self.crowd.count)

    def released(self, method: str, epsilon: float, delta: float) -> Release:
        """Return the release of one method, with fresh noise."""
        ensemble = PrivateEnsemble(epsilon, delta, method, classes=self.crowd.classes, lam=self.lam)
        sent = self.parameters if method == "average" else self.tally
        count = self.crowd.count
        return ensemble.aggregate(sent, self.crowd.auxiliary, enrolled=count, ledger=None).release


def _learnt(crowd: Crowd, release: Release) -> float:
    """Return the accuracy of what our learner makes of a release and the auxiliary rows."""
    model = FactoredClassifier().fit_release(release, crowd.auxiliary.given)
    return crowd.accuracy(model.coef_)


def _largest_votes(crowd: Crowd, release: Release) -> float:
    """Return the accuracy of a logistic regression on the largest vote of every row."""
    model = VoteClassifier().fit_release(release, crowd.auxiliary.given)
    labels = model.estimator_.predict(crowd.test_rows)  # which are mapped already
    return float(np.mean(labels == model.classes_[crowd.test_codes]))


def _as_released(crowd: Crowd, release: Release) -> float:
    """Return the accuracy of a classifier that was itself released."""
    return crowd.accuracy(release.arrays["coefficients"])


# What each method releases, and how a model comes of it.
_WAYS: Mapping[str, tuple[str, Callable[[Crowd, Release], float]]] = {
    "operator": ("operator", _learnt),
    "votes": ("votes", _learnt),
    "pate": ("votes", _largest_votes),
    "soft": ("soft", _as_released),
    "vote": ("vote", _as_released),
    "average": ("average", _as_released),
}
METHODS = tuple(_WAYS)


def simulate(
    crowds: Iterator[Crowd] | Sequence[Crowd],
    epsilons: Sequence[float],
    *,
    delta: float,
    methods: Sequence[str] = METHODS,
    lam: float = LAM,
    steps: Steps | None = None,
) -> dict[str, Any]:
    """Return test accuracies as plain values: one run per crowd, of every method at every epsilon.

    ``without_noise`` holds batch (all private records in one place), soft, vote and average without
    noise, and indiv (the mean over parties of their own classifiers); ``larger_class`` is what the
    larger class of the private records gives. `step_count` says how many ``steps`` a crowd takes.
    """
    unknown = set(methods) - set(METHODS)
    if unknown or not methods:
        raise ParameterError(f"methods must be some of {', '.join(METHODS)}.")
    if not epsilons or not all(np.isfinite(e) and e > 0 for e in epsilons):
        raise ParameterError("epsilons must be positive numbers.")
    tell = (lambda _: None) if steps is None else steps.begin
    runs: dict[str, list[list[float]]] = {name: [[] for _ in epsilons] for name in methods}
    plain: dict[str, list[float]] = {name: [] for name in (*_WITHOUT_NOISE, "larger_class")}
    sizes: dict[str, list[int]] = {name: [] for name in ("parties", "auxiliary", "records")}
    for crowd in crowds:
        tell(f"{crowd.count:,} parties train and vote")
        sent = _Sent(crowd, lam)
        for name, value in _without_noise(sent).items():
            plain[name].append(value)
        for name, value in _sizes(crowd).items():
            sizes[name].append(value)
        for i, epsilon in enumerate(epsilons):
            for name in methods:
                tell(f"{crowd.count:,} parties, {name}, epsilon {epsilon:g}")
                way, score = _WAYS[name]
                runs[name][i].append(score(crowd, sent.released(way, epsilon, delta)))
    return {
        "epsilons": list(epsilons),
        "delta": delta,
        "lam": lam,
        **sizes,
        "without_noise": plain,
        "accuracies": runs,
    }


def step_count(crowds: int, epsilons: Sequence[float], methods: Sequence[str] = METHODS) -> int:
    """Return how many steps `simulate` counts."""
    return crowds * (1 + len(epsilons) * len(methods))


def simulate_table(
    data: Any,
    epsilons: Sequence[float],
    *,
    delta: float,
    label: str,
    trials: int = 1,
    seed: int = 0,
    methods: Sequence[str] = METHODS,
    lam: float = LAM,
    progress: Progress = lambda *_: None,
    **crowd: Any,
) -> dict[str, Any]:
    """Return `simulate` of a table that is declared public; every trial cuts and deals it anew.

    ``crowd`` holds what `crowd_of_table` takes.
    """
    if trials < 1:
        raise ParameterError("trials must be at least 1.")
    source = open_table(data)
    table = pa.Table.from_batches(list(source.batches(source.schema.names)), source.schema)
    crowds = (
        crowd_of_table(table, np.random.default_rng((seed, trial)), label=label, **crowd)
        for trial in range(trials)
    )
    steps = Steps(progress, step_count(trials, epsilons, methods))
    return simulate(crowds, epsilons, delta=delta, methods=methods, lam=lam, steps=steps)


def write_simulation(found: Mapping[str, Any], output: Path) -> Table:
    """Write a page with the plot against 1/epsilon; return its table."""
    trials = len(found["parties"])
    repeats = "one trial" if trials == 1 else f"mean and range of {trials} trials"
    table = outcome_table(
        f"{found['parties'][0]:,} parties, {found['auxiliary'][0]:,} auxiliary rows: test accuracy,"
        f" {repeats}, delta = {found['delta']:g}",
        found,
    )
    figure = figure_svg(partial(draw_crowd, found))
    body = f"<figure>{figure}</figure>{table_html(table)}"
    write_whole(output, page("suffice: many parties, simulated", body).encode())
    return table


def _sizes(crowd: Crowd) -> dict[str, int]:
    count = len(crowd.parties.codes)
    return {"parties": crowd.count, "auxiliary": crowd.auxiliary.count, "records": count}


def _without_noise(sent: _Sent) -> dict[str, float]:
    """Return the accuracies that no noise has touched."""
    crowd, soft = sent.crowd, sent.soft_labels
    shares = np.bincount(crowd.parties.codes, minlength=len(crowd.classes))
    majority = np.eye(len(crowd.classes))[soft.argmax(axis=1)]
    auxiliary, private = crowd.auxiliary.rows, slice(None, None, _stride(crowd))
    labels = np.eye(len(crowd.classes))[crowd.parties.codes[private]]
    return {
        "batch": crowd.accuracy(_minimiser(crowd.parties.rows[private], labels, sent.lam)),
        "soft": crowd.accuracy(_minimiser(auxiliary, soft, sent.lam)),
        "vote": crowd.accuracy(_minimiser(auxiliary, majority, sent.lam)),
        "average": crowd.accuracy(sent.models.mean(axis=0)),
        "indiv": _local_accuracy(sent),
        "larger_class": float(np.mean(crowd.test_codes == shares.argmax())),
    }


def _stride(crowd: Crowd) -> int:
    return -(-len(crowd.parties.codes) // _BATCH_ROWS)


def _minimiser(rows: np.ndarray, shares: np.ndarray, lam: float) -> np.ndarray:
    """Return the classifier of least risk under soft labels (m, K) (Hamm et al. 2016, eq. 19)."""
    operator = rows.T @ shares / len(rows)
    if operator.shape[1] == 2:
        problem = FactoredProblem(rows, operator[:, 1] - operator[:, 0], LOSSES["logistic"])
    else:
        problem = FactoredProblem(rows, operator, None)
    return problem.solve(lam, tol=_TOL, max_iter=10_000).parameters


def _local_accuracy(sent: _Sent) -> float:
    """Return the mean test accuracy of the parties' own classifiers, over some of both."""
    crowd = sent.crowd
    some = slice(None, None, -(-crowd.count // _LOCAL))
    rows = slice(None, None, -(-len(crowd.test_codes) // _LOCAL_ROWS))
    found = predicted(crowd.test_rows[rows], sent.models[some], crowd.parties.present()[some])
    return float(np.mean(found == crowd.test_codes[rows]))


def outcome_table(title: str, found: Mapping[str, Any]) -> Table:
    """Return the accuracies as rows of text: a method per row, without noise first."""
    columns = ("method", "no noise", *(f"epsilon {epsilon:g}" for epsilon in found["epsilons"]))
    plain, runs = found["without_noise"], found["accuracies"]
    named = [
        (
            name,
            spread(plain[name]) if name in plain else "not run",
            *(spread(cell) for cell in cells),
        )
        for name, cells in runs.items()
    ]
    others = [name for name in plain if name not in runs]
    blank = ("no noise",) * len(found["epsilons"])
    return Table(title, columns, (*named, *((n, spread(plain[n]), *blank) for n in others)))


def draw_crowd(found: Mapping[str, Any], axes: Any) -> None:
    """Draw the mean accuracy of every method against 1/epsilon, with the range of its runs.

    Broken lines are what has no noise: batch above, indiv and the larger class below.
    """
    privacy = [1 / epsilon for epsilon in found["epsilons"]]
    for name, marker in zip(found["accuracies"], "osP^vD", strict=False):
        cells = found["accuracies"][name]
        ours = {"color": "black", "linewidth": 2.2, "zorder": 3} if name == "operator" else {}
        means = [np.mean(cell) for cell in cells]
        (line,) = axes.plot(privacy, means, marker=marker, markersize=5, label=name, **ours)
        low, high = [min(cell) for cell in cells], [max(cell) for cell in cells]
        axes.fill_between(privacy, low, high, alpha=0.12, color=line.get_color(), linewidth=0)
    for name, style in (("batch", "--"), ("indiv", "-."), ("larger_class", ":")):
        level = float(np.mean(found["without_noise"][name]))
        axes.axhline(level, color="grey", linestyle=style, label=name.replace("_", " "))
    axes.set(xscale="log", xlabel="1 / epsilon (privacy of a party)", ylabel="test accuracy")
    axes.set_xticks(privacy, [f"{value:.3g}" for value in privacy])
    axes.set_xticks([], minor=True)
