"""What is known of a fitted model, for people and for programs: one report per learner."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any

from suffice.learner.operator.doubts import CONSTANT, MAJORITY_HIDDEN, doubts_of, risk_of_guess
from suffice.plain_text import listed

__all__ = ["REPORTS", "Report", "report_of"]


@dataclass(frozen=True)
class Report:
    """Holds what is known of a fitted model.

    Attributes
    ----------
    lines : list of (str, str)
        What people read: a heading and a text for each line.
    values : dict
        The same for programs, as plain JSON values.
    """

    lines: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def report_of(model: Any) -> Report:
    """Return the classes of a fitted model, and what the report of its learner says."""
    own = REPORTS[type(model).__name__](model)
    lines = [("classes", listed(model.classes_)), *own.lines]
    return Report(lines, {"classes": model.classes_.tolist(), **own.values})


def _factored_report(model: Any) -> Report:
    """Report the estimated risk, after what makes it doubtful."""
    low, high = (float(end) for end in model.risk_interval_)
    votes = any(guarantee.unit == "party" for guarantee in model.releases_[0].guarantees)
    about = "of the parties' votes" if votes else "estimated without labels"
    lines = [
        *(("warning", doubt) for doubt in doubts_of(model)),
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
    if not model.intercept_only_:
        return ""
    return f"; {CONSTANT}"


def _spread_report(model: Any) -> Report:
    lines = [
        ("penalty", f"{model.lam_:.3g}"),
        ("likelihood", f"{model.likelihood_:.4g} (mean log likelihood per randomised label)"),
    ]
    values = {"lam": model.lam_, "likelihood": model.likelihood_, "iterations": model.n_iter_}
    return Report(lines, values)


def _ridge_report(model: Any) -> Report:
    lines = [
        ("penalty", f"{model.lam_:.3g}" + _constant(model)),
        ("risk", _square_risk(model.risk_)),
    ]
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


def _square_risk(risk: float | None) -> str:
    if risk is None:
        return "unknown: the noise hides how much the model's scores vary"
    return f"{risk:.4g} (square loss), estimated without labels"


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
    "NoisyLabelClassifier": _noisy_label_report,
    "VoteClassifier": _vote_report,
}
