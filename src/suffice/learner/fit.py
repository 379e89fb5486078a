"""Which learner takes which kind of release, in one table, and which one a model file belongs to.

`fit` learns from releases of any kind, `model_of` loads any model file. A new kind of release is
taught with one entry: `register_learner(kind, Learning(...))`. The command line reads the same
table, and knows no kind by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

from suffice.errors import ParameterError
from suffice.learner.base import LinearModel, learner_name
from suffice.plain_text import listed
from suffice.release.artifact import Release

__all__ = [
    "PASSES",
    "Learning",
    "Report",
    "fit",
    "learning_from",
    "model_of",
    "register_learner",
    "release_of",
]

Options = Mapping[str, Any]
# Where passes over public rows run (`suffice.engines.opening.Computing`).
PASSES = ("engine", "workers", "scheduler", "progress")


@dataclass(frozen=True)
class Report:
    """Holds what is known of a fitted model: ``lines`` for people, ``values`` for programs."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def _report(model: Any) -> Report:
    """Report the classes, and what the learner's own report says."""
    own = _REPORTS[type(model).__name__](model)
    lines = [("classes", listed(model.classes_)), *own.lines]
    return Report(lines, {"classes": model.classes_.tolist(), **own.values})


@dataclass(frozen=True)
class Learning:
    """Describes what is learnt from releases of one kind.

    ``estimator`` makes the learner from the options that were given, and ``options`` names those
    that mean something, given the others; those of `PASSES` say where public rows are read.
    ``rows``: whether it needs the public rows that the releases belong to. ``report`` says what is
    known of the fitted model. A kind that no classifier learns from has no estimator and says
    ``instead`` what does.
    """

    estimator: Callable[[Options], Any] | None = None
    options: Callable[[Options], Sequence[str]] = lambda _: ()
    rows: bool = False
    report: Callable[[Any], Report] = _report
    instead: str = ""

    def unused(self, rows: Any, options: Options) -> list[str]:
        """Return the names of what was given (is not None) and means nothing to this kind."""
        if self.estimator is None:
            return []
        known = _given(options)
        used = self.options(known)
        extra = [] if self.rows or rows is None else ["rows"]
        return extra + [name for name in known if name not in used]

    def fit(self, releases: Sequence[Release], rows: Any, options: Options) -> Any:
        """Return the estimator, fitted to these releases and the rows that they need."""
        if self.estimator is None:
            raise ParameterError(self.instead)
        if self.rows and rows is None:
            raise ParameterError("these releases belong to public rows: give them with --rows.")
        known = _given(options)
        passes = {name: known.pop(name) for name in PASSES if name in known}
        learner = self.estimator(known)
        given = (releases, rows) if self.rows else (releases,)
        return learner.fit_release(*given, **passes)


def _given(options: Options) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def fit(releases: Release | Sequence[Release], rows: Any = None, **options: Any) -> Any:
    """Return the classifier of one release or several owners', by the learner of their kind.

    ``rows`` are the public rows they belong to, where the kind needs them; ``options`` (loss,
    penalty, lam and whatever else the kind has) are None where its own default will do. Of the
    kinds that need rows, ``engine``, ``workers`` and ``scheduler`` say where rows are read that do
    not fit into memory.
    """
    several = [releases] if isinstance(releases, Release) else list(releases)
    if not several:
        raise ParameterError("there is no release to learn from.")
    kind = several[0].kind
    learning = learning_from(kind)
    for name in learning.unused(rows, options):
        raise ParameterError(f"{name} means nothing to what is learnt from {kind}: leave it out.")
    return learning.fit(several, rows, options)


def learning_from(kind: str) -> Learning:
    """Return what is learnt from releases of this kind."""
    if kind not in _LEARNING:
        raise ParameterError(f"no learner is known for releases of kind {kind}.")
    return _LEARNING[kind]


def register_learner(kind: str, learning: Learning) -> None:
    """Let `fit` learn from releases of a new kind, for as long as the process lives."""
    if _LEARNING.get(kind, learning) != learning:
        raise ParameterError(f"releases of kind {kind} have a learner already.")
    _LEARNING[kind] = learning


def release_of(model: Any) -> Release:
    """Return the model file of a fitted estimator, or say that it has none."""
    if not hasattr(model, "to_release"):
        raise ParameterError(
            f"a model of {type(model).__name__} cannot be stored in a file: use it in Python."
        )
    stored: Release = model.to_release()
    return stored


def model_of(release: Release) -> LinearModel:
    """Return the fitted estimator of a model file, of the class that it was learnt by."""
    return _MODELS[learner_name(release)]().from_release(release)


def _factored() -> type[LinearModel]:
    from suffice.learner.operator.factored import FactoredClassifier

    return FactoredClassifier


def _spread() -> type[LinearModel]:
    from suffice.learner.spread.classifier import SpreadClassifier

    return SpreadClassifier


def _ridge() -> type[LinearModel]:
    from suffice.learner.rados.ridge import RadoRidge

    return RadoRidge


def _boost() -> type[LinearModel]:
    from suffice.learner.rados.radoboost import RadoBoost

    return RadoBoost


def _moments() -> type[LinearModel]:
    from suffice.learner.moments.classifier import MomentClassifier

    return MomentClassifier


# Every name that a model file may have (`suffice.release.kinds`), and its class.
_MODELS: Mapping[str, Callable[[], type[LinearModel]]] = {
    "FactoredClassifier": _factored,
    "SpreadClassifier": _spread,
    "RadoRidge": _ridge,
    "RadoBoost": _boost,
    "MomentClassifier": _moments,
}


def _factored_report(model: Any) -> Report:
    """Report the estimated risk, with a warning where it may be that of knowing nothing."""
    low, high = (float(end) for end in model.risk_interval_)
    votes = any(guarantee.unit == "party" for guarantee in model.releases_[0].guarantees)
    about = "of what the parties vote" if votes else "estimated without labels"
    joint = model.loss in ("logistic", "softmax")
    blind = log(len(model.classes_)) if joint and not votes else None
    lines = [
        ("penalty", f"{model.lam_:.3g}" + _constant(model)),
        ("risk", f"{model.risk_:.4g} ({low:.4g} to {high:.4g}), {about}"),
        ("solver", f"{model.n_iter_} iterations, gradient {model.gradient_norm_:.1e}"),
    ]
    if blind is not None and high >= blind:
        doubt = f"the risk may be {blind:.3g}, that of knowing nothing: too much noise"
        lines.insert(-1, ("warning", doubt))
    values = {
        "lam": model.lam_,
        "risk": model.risk_,
        "risk_interval": [low, high],
        "intercept_only": model.intercept_only_,
        "risk_of_knowing_nothing": blind,
        "iterations": model.n_iter_,
        "gradient": model.gradient_norm_,
    }
    return Report(lines, values)


def _constant(model: Any) -> str:
    if not model.intercept_only_:
        return ""
    return "; no feature is known to help: the model always predicts the larger class"


def _spread_report(model: Any) -> Report:
    lines = [
        ("penalty", f"{model.lam_:.3g}"),
        ("likelihood", f"{model.likelihood_:.4g} per record, of the corrupted labels"),
    ]
    values = {"lam": model.lam_, "likelihood": model.likelihood_, "iterations": model.n_iter_}
    return Report(lines, values)


def _ridge_report(model: Any) -> Report:
    lines = [
        ("penalty", f"{model.lam_:.3g}" + _constant(model)),
        ("risk", f"{model.risk_:.4g}, square loss, estimated without labels"),
    ]
    values = {
        "loss": "square",
        "lam": model.lam_,
        "risk": model.risk_,
        "intercept_only": model.intercept_only_,
    }
    return Report(lines, values)


def _boost_report(model: Any) -> Report:
    lines = [
        ("rounds", f"{model.rounds_} of {model.n_iter_}"),
        ("rado-risk", f"{model.rado_risk_:.6g}, logistic; {log(2):.6g} knows nothing"),
    ]
    values = {"loss": "logistic", "rounds": model.rounds_, "rado_risk": model.rado_risk_}
    return Report(lines, values)


def _moment_report(model: Any) -> Report:
    """Report the expected quality, and whether the largest class is known."""
    lines = [
        ("accuracy", f"{model.accuracy_:.3f} expected, estimated without labels"),
        ("risk", f"{model.risk_:.4g} expected (log loss), estimated without labels"),
    ]
    if not model.majority_known_:
        doubt = (
            "the noise hides which class is the largest: the model may do worse than always"
            " predicting that class"
        )
        lines.append(("warning", doubt))
    values = {
        "accuracy": model.accuracy_,
        "risk": model.risk_,
        "majority_known": model.majority_known_,
        "lam": model.lam_,
    }
    return Report(lines, values)


def _vote_report(model: Any) -> Report:
    trained = type(model.estimator_).__name__
    return Report([("estimator", trained)], {"estimator": trained})


_REPORTS: Mapping[str, Callable[[Any], Report]] = {
    "FactoredClassifier": _factored_report,
    "SpreadClassifier": _spread_report,
    "RadoRidge": _ridge_report,
    "RadoBoost": _boost_report,
    "VoteClassifier": _vote_report,
    "MomentClassifier": _moment_report,
}


def _of_operator(options: Options) -> Any:
    return _factored()(**options)


def _of_records(options: Options) -> Any:
    return _spread()(**options)


def _of_rados(options: Options) -> Any:
    """Return the learner of the square loss, which is the default, or of the logistic one."""
    learners = {"square": _ridge, "logistic": _boost}
    loss = options.get("loss", "square")
    if loss not in learners:
        raise ParameterError(f"rados are learnt from with loss {' or '.join(learners)}.")
    return learners[loss]()(**{name: value for name, value in options.items() if name != "loss"})


def _of_moments(options: Options) -> Any:
    return _moments()(**options)


def _of_votes(options: Options) -> Any:
    """Return the learner from soft labels, or from hard ones for an estimator that was given."""
    from suffice.learner.votes import VoteClassifier

    return VoteClassifier(**options) if "estimator" in options else _of_operator(options)


_OPERATOR = Learning(_of_operator, lambda _: ("loss", "penalty", "lam", *PASSES), rows=True)
_LEARNING: dict[str, Learning] = {
    "mean-operator": _OPERATOR,
    "label-responses": _OPERATOR,
    "responses": Learning(_of_records, lambda _: ("lam",)),
    "rados": Learning(
        _of_rados, lambda given: ("loss",) if given.get("loss") == "logistic" else ("loss", "lam")
    ),
    "moments": Learning(_of_moments),
    "votes": Learning(
        _of_votes,
        lambda given: ("estimator", "labels") if "estimator" in given else _OPERATOR.options(given),
        rows=True,
    ),
    "proportions": Learning(
        instead="proportions teach the class ratios of new sets: use suffice ratio (in Python,"
        " suffice.learner.weak learns classifiers from them)."
    ),
    "model": Learning(
        instead="this is a model, and fitted already: use suffice predict or suffice score."
    ),
}
