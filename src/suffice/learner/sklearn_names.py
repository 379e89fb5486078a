"""Names of scikit-learn that have no public home, in one place, and our own error in their stead.

Nothing else of the package imports a name of scikit-learn that begins with an underscore, or from a
module that does.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as _Refused

from suffice.errors import ParameterError

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "OwnErrors",
    "StrOptions",
    "fit_context",
]


Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Return scikit-learn's decorator of ``fit``, which checks parameters, with its type."""
    decorate: Callable[[Method], Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return decorate


class InvalidParameterError(ParameterError, _Refused):  # type: ignore[misc]  # sklearn is untyped
    """A parameter of an estimator is outside its domain: ours, and scikit-learn's own."""


class OwnErrors(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Checks parameters as scikit-learn does, and raises errors of this library."""

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except _Refused as error:
            raise InvalidParameterError(str(error)) from None
