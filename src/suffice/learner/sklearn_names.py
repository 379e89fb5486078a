"""Names of scikit-learn that have no public home, in one place, and our own error in their stead.

Nothing else of the package imports a name of scikit-learn that begins with an underscore, or from a
module that does.
"""

from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
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


class InvalidParameterError(ParameterError, _Refused):
    """A parameter of an estimator is outside its domain: ours, and scikit-learn's own."""


class OwnErrors(BaseEstimator):
    """Checks parameters as scikit-learn does, and raises errors of this library."""

    def _validate_params(self) -> None:
        try:
            super()._validate_params()
        except _Refused as error:
            raise InvalidParameterError(str(error)) from None
