"""Which learner takes which kind of release, and what is reported of a fitted model.

`fit` learns from releases of any kind, `model_of` returns the classifier of any model file. A new
kind of release needs one entry: `register_learner(kind, Learning(...))`. The command line reads the
same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import log
from typing import Any

from suffice.engines.engine import Progress
from suffice.errors import ParameterError
from suffice.learner.base import LinearModel, learner_name
from suffice.learner.operator import CONSTANT, MAJORITY_HIDDEN, risk_of_guess, warnings_of
from suffice.models.trees import ENOUGH_LABELS
from suffice.plain_text import listed
from suffice.releases.kinds import regression_words
from suffice.releases.release import Release


@dataclass(frozen=True)
class Report:
    """Holds what is known of a fitted model."""

    lines: list[tuple[str, str]] = field(default_factory=list)  # for people: heading and text
    values: dict[str, Any] = field(default_factory=dict)  # for programs: plain JSON values


def report_of(model: Any) -> Report:
    """Return the classes of a fitted model, and what the report of its learner says."""
    own = REPORTS[type(model).__name__](model)
    if not hasattr(model, "classes_"):
        return own
    lines = [("classes", listed(model.classes_)), *own.lines]
    return Report(lines, {"classes": model.classes_.tolist(), **own.values})


def _factored_report(model: Any) -> Report:
    """Report the estimated risk, after what makes it doubtful."""
    low, high = (float(end) for end in model.risk_interval_)
    votes = any(guarantee.unit == "party" for guarantee in model.releases_[0].guarantees)
    about = "of the parties' votes" if votes else "estimated without labels"
    lines = [
        *(("warning", doubt) for doubt in warnings_of(model)),
        ("penalty", f"{model.lam_:.3g}" + _constant(model)),
        ("risk", f"{model.risk_:.4g} ({low:.4g} to {high:.4g}), {about}"),
        ("solver", f"{model.n_iter_} iterations, gradient {model.gradient_norm_:.1e}"),
    ]
    values = {
        "lam": model.lam_,
        "risk": model.risk_,
        "risk_interval": [low, high],
        "intercept_only": model.intercept_only_,
        "majority_known": model.majority_known_,
        "risk_of_knowing_nothing": risk_of_guess(model),
        "iterations": model.n_iter_,
        "gradient": model.gradient_norm_,
    }
    return Report(lines, values)


def _constant(model: Any) -> str:
    return f"; {CONSTANT}" if model.intercept_only_ else ""


def _spread_report(model: Any) -> Report:
    lines = [
        ("penalty", f"{model.lam_:.3g}"),
        ("likelihood", f"{model.likelihood_:.4g} (mean log likelihood per randomised label)"),
    ]
    values = {"lam": model.lam_, "likelihood": model.likelihood_, "iterations": model.n_iter_}
    return Report(lines, values)


def _ridge_report(model: Any) -> Report:
    risk = "unknown: the noise hides how much the model's scores vary"
    if model.risk_ is not None:
        risk = f"{model.risk_:.4g} (square loss), estimated without labels"
    lines = [("penalty", f"{model.lam_:.3g}" + _constant(model)), ("risk", risk)]
    values = {
        "loss": "square",
        "lam": model.lam_,
        "risk": model.risk_,
        "intercept_only": model.intercept_only_,
        "probabilities": model.gives_probabilities,
    }
    return Report(lines + _no_probabilities(model), values)


def _no_probabilities(model: Any) -> list[tuple[str, str]]:
    """Say how to get probabilities, if a model of rados has none."""
    if model.gives_probabilities:
        return []
    remedy = "Add --rows TABLE with rows that need no labels (Python: rows=...)"
    return [("probabilities", f"none: the noise hides how much scores vary. {remedy}")]


def _boost_report(model: Any) -> Report:
    lines = [
        ("rounds", f"{model.rounds_} of {model.n_iter_}"),
        (
            "rado-risk",
            f"{model.rado_risk_:.6g} (logistic loss); a guess without the release: {log(2):.6g}",
        ),
    ]
    values = {
        "loss": "logistic",
        "rounds": model.rounds_,
        "rado_risk": model.rado_risk_,
        "probabilities": model.gives_probabilities,
    }
    return Report(lines + _no_probabilities(model), values)


def _moment_report(model: Any) -> Report:
    """Report the expected quality, and whether the largest class is known."""
    lines = []
    if model.accuracy_ is not None:
        low, high = model.accuracy_interval_
        text = f"{low:.2f} to {high:.2f} (90 % interval), estimated without labels"
        lines.append(("accuracy", text))
    if not model.majority_known_:
        lines.insert(0, ("warning", MAJORITY_HIDDEN))
    values = {
        "accuracy": model.accuracy_,
        "accuracy_interval": model.accuracy_interval_,
        "majority_known": model.majority_known_,
        "lam": model.lam_,
    }
    return Report(lines, values)


def _noisy_label_report(model: Any) -> Report:
    """Report the accuracy that held-out randomised labels tell, and whether rows tell labels."""
    trained = type(model.estimator_).__name__
    lines = [("estimator", trained)]
    if model.accuracy_ is not None:
        low, high = model.accuracy_interval_
        about = "estimated from randomised labels that were held out"
        lines.append(("accuracy", f"{model.accuracy_:.3f} ({low:.3f} to {high:.3f}), {about}"))
    values = {
        "estimator": trained,
        "settings": model.settings_,
        "accuracy": model.accuracy_,
        "accuracy_interval": model.accuracy_interval_,
    }
    return Report(lines, values)


def _vote_report(model: Any) -> Report:
    trained = type(model.estimator_).__name__
    return Report([("estimator", trained)], {"estimator": trained})


REPORTS: Mapping[str, Callable[[Any], Report]] = {
    "FactoredClassifier": _factored_report,
    "SpreadClassifier": _spread_report,
    "RadoRidge": _ridge_report,
    "RadoBoost": _boost_report,
    "MomentClassifier": _moment_report,
    "MomentRegressor": lambda model: Report(
        regression_words(model.to_release()), dict(model.to_release().details)
    ),
    "NoisyLabelClassifier": _noisy_label_report,
    "VoteClassifier": _vote_report,
}


Options = Mapping[str, Any]
# Where passes over public rows run (`suffice.engines.engine.Computing`).
PASSES = ("engine", "workers", "scheduler", "progress")


@dataclass(frozen=True)
class Learning:
    """Describes what is learnt from releases of one kind.

    Parameters
    ----------
    estimator : callable or None
        Returns the learner for the options that were set. None for a kind that no classifier
        learns from.
    options : callable
        Returns the names of the options that the learner takes, given those that were set. Those
        in `PASSES` say where public rows are read.
    rows : bool
        Whether the learner needs the public rows that the releases belong to.
    uses_rows : bool
        Whether the learner can use rows of the same population, though it needs none.
    report : callable
        Returns the `Report` of a fitted model.
    instead : str
        Of a kind without an estimator: what to use instead.
    defaults : callable
        Returns the options that are taken where none was set.
    """

    estimator: Callable[[Options], Any] | None = None
    options: Callable[[Options], Sequence[str]] = lambda _: ()
    rows: bool = False
    uses_rows: bool = False
    report: Callable[[Any], Report] = report_of
    instead: str = ""
    defaults: Callable[[Sequence[Release]], Options] = lambda _: {}

    def unused(self, rows: Any, options: Options) -> list[str]:
        """Return the names of the options that were set but that this kind does not take.

        None means that an option was not set. "rows" is listed too, if there are some that cannot
        be used.
        """
        if self.estimator is None:
            return []
        settings = _without_defaults(options)
        used = self.options(settings)
        extra = [] if self.rows or self.uses_rows or rows is None else ["rows"]
        return extra + [name for name in settings if name not in used]

    def fit(
        self,
        releases: Sequence[Release],
        rows: Any,
        options: Options,
        *,
        progress: Progress = None,
    ) -> Any:
        """Return the estimator, fitted to these releases and the rows that they need.

        Of ``options``, None means that one was not set. Raise if no classifier learns from this
        kind, or rows are needed and there are none.
        """
        if self.estimator is None:
            raise ParameterError(self.instead)
        if self.rows and rows is None:
            raise ParameterError(
                "These releases belong to public rows. Pass these rows with --rows (Python:"
                " rows=...)."
            )
        settings = _without_defaults(options) or dict(self.defaults(releases))
        if progress is not None and "progress" in self.options(settings):
            settings["progress"] = progress
        of_rows = ("sample_weight", *PASSES)
        passes = {name: settings.pop(name) for name in of_rows if name in settings}
        learner = self.estimator(settings)
        inputs = (releases,) if rows is None else (releases, rows)
        return learner.fit_release(*inputs, **passes)


def _without_defaults(options: Options) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def fit(
    releases: Release | Sequence[Release],
    rows: Any = None,
    *,
    progress: Progress = None,
    **options: Any,
) -> Any:
    """Return the classifier that the learner of this kind of release fits.

    Parameters
    ----------
    releases : Release or sequence of Release
        One release, or those of several owners.
    rows : array, table or path, optional
        The public rows that the releases belong to, where their kind needs them.
    progress : callable or None, default=None
        Called with the number of rows of each batch that was read, so that a caller can show how
        far the fit has come. Rows that stay in their files are read several times, and reported
        each time. Kinds that need no rows report nothing.
    **options
        Options of the learner, for example ``loss``, ``penalty`` and ``lam``. None means that an
        option was not set. Of kinds that need rows, ``engine``, ``workers`` and ``scheduler`` say
        where rows are read that do not fit into memory. ``sample_weight`` is for randomised labels
        and votes.

    Returns
    -------
    estimator
        The fitted classifier, for example a `FactoredClassifier`.

    Raises
    ------
    ParameterError
        If there is no release, no learner for its kind, or an option that the learner does not
        take.
    ForeignRowsError
        If the rows are not those that the releases belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from suffice.learner.fit import fit
    >>> from suffice.owner.mean_operator import MeanOperator
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> labels = (X[:, 0] > 0).astype(int)
    >>> owner = MeanOperator(epsilon=100.0, mechanism="laplace")
    >>> release = owner.release(X, labels, ledger=None)
    >>> batches = []
    >>> fit(release, X, loss="square", progress=batches.append)
    FactoredClassifier(loss='square')
    >>> sum(batches)
    100
    """
    several = [releases] if isinstance(releases, Release) else list(releases)
    if not several:
        raise ParameterError("There is no release to learn from. Pass at least one.")
    kind = several[0].kind
    learning = learning_from(kind)
    for name in learning.unused(rows, options):
        raise ParameterError(f"{name} cannot be used with {kind} releases. Remove {name}.")
    return learning.fit(several, rows, options, progress=progress)


def learning_from(kind: str) -> Learning:
    """Return what is learnt from releases of this kind."""
    if kind not in _LEARNING:
        raise ParameterError(
            f"There is no learner for releases of kind {kind}. Register one with register_learner."
        )
    return _LEARNING[kind]


def register_learner(kind: str, learning: Learning) -> None:
    """Let `fit` learn from releases of a new kind, for as long as the process lives."""
    if _LEARNING.get(kind, learning) != learning:
        raise ParameterError(
            f"Releases of kind {kind} have a learner already. Use another name for the kind."
        )
    _LEARNING[kind] = learning


def release_of(model: Any) -> Release:
    """Return the release that stores a fitted estimator in a file, or raise if it has none."""
    if not hasattr(model, "to_release"):
        raise ParameterError(
            f"A model of {type(model).__name__} cannot be stored in a file. Use it in Python."
        )
    stored: Release = model.to_release()
    return stored


def model_of(release: Release) -> LinearModel:
    """Return the fitted estimator of a model file, of the class that learnt it."""
    model: LinearModel = _class_of(learner_name(release)).from_release(release)
    return model


# Every name that a model file may have (`suffice.releases.kinds`), and the module of its class.
_MODULES = {
    "FactoredClassifier": "operator",
    "SpreadClassifier": "spread",
    "RadoRidge": "rados",
    "RadoBoost": "rados",
    "MomentClassifier": "moments",
    "MomentRegressor": "moments",
    "NoisyLabelClassifier": "noisy_labels",
}


def _class_of(name: str) -> Any:
    """Return the class of a learner; what it imports is loaded when it is needed."""
    return getattr(import_module(f"suffice.learner.{_MODULES[name]}"), name)


def _of_rados(options: Options) -> Any:
    """Return the learner of the square loss, which is the default, or of the logistic one."""
    learners = {"square": "RadoRidge", "logistic": "RadoBoost"}
    loss = options.get("loss", "square")
    if loss not in learners:
        raise ParameterError(
            f"Rados can be learnt from with loss {' or '.join(learners)} only. Choose one of them."
        )
    others = {name: value for name, value in options.items() if name != "loss"}
    return _class_of(learners[loss])(**others)


_OPERATOR = Learning(
    lambda options: _class_of("FactoredClassifier")(**options),
    lambda _: ("loss", "penalty", "lam", "class_weight", *PASSES),
    rows=True,
)


def _trees_if_enough(releases: Sequence[Release]) -> Options:
    """Return trees as the estimator where randomised labels count as enough exact ones.

    A label that is kept with probability a, and becomes each other one with b, counts as (a - b)^2
    exact ones (`suffice.owner.forecast.effective_labels`).
    """
    slopes = [release.arrays["channel"][0, :2] for release in releases]
    counted = sum(r.rows * (a - b) ** 2 for r, (a, b) in zip(releases, slopes, strict=True))
    return {"estimator": "hist-gradient-boosting"} if counted >= ENOUGH_LABELS else {}


def _of_each_row(module: str, name: str, *own_options: str, **settings: Any) -> Learning:
    """Return what is learnt from what is said of each row: the operator's learner, unless chosen.

    Where the caller chose an estimator, the class of this name trains it, and takes these options.
    """

    def estimator(options: Options) -> Any:
        if "estimator" in options:
            return getattr(import_module(f"suffice.learner.{module}"), name)(**options)
        return _class_of("FactoredClassifier")(**options)

    def taken(options: Options) -> Sequence[str]:
        own = own_options if "estimator" in options else _OPERATOR.options(options)
        return ("sample_weight", *own)

    return Learning(estimator, taken, rows=True, **settings)


_FITTED = Learning(
    instead="This file is a model that is already fitted. Use `suffice predict` or `suffice score`."
)
_LEARNING: dict[str, Learning] = {
    "mean-operator": _OPERATOR,
    "label-responses": _of_each_row(
        "noisy_labels",
        "NoisyLabelClassifier",
        "estimator",
        "class_weight",
        defaults=_trees_if_enough,
    ),
    "responses": Learning(
        lambda options: _class_of("SpreadClassifier")(**options),
        lambda _: ("lam", "class_weight"),
    ),
    "reports": Learning(
        lambda options: _class_of("SpreadClassifier")(**options), lambda _: ("lam",)
    ),
    "rados": Learning(
        _of_rados,
        lambda options: (
            ("loss", "class_weight")
            if options.get("loss") == "logistic"
            else ("loss", "lam", "class_weight")
        ),
        uses_rows=True,
    ),
    "moments": Learning(
        lambda options: _class_of("MomentClassifier")(**options), lambda _: ("class_weight",)
    ),
    "target-moments": Learning(lambda options: _class_of("MomentRegressor")(**options)),
    "target-operator": Learning(lambda options: _class_of("MomentRegressor")(**options)),
    "votes": _of_each_row(
        "votes", "VoteClassifier", "estimator", "labels", "class_weight", "progress"
    ),
    "proportions": Learning(
        instead="fit cannot use label proportions. Use `suffice ratio` (Python: ClassRatio) to"
        " estimate the class proportions of a new table. In Python, suffice.learner.weak learns"
        " classifiers from exact proportions."
    ),
    "model": _FITTED,
    "tree-model": _FITTED,
    "regression-model": _FITTED,
}
