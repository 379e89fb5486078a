"""What the noise of a release did to a model: intervals, bounds, and the risk without labels."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suffice.errors import ParameterError
from suffice.learner.base import LinearModel
from suffice.learner.features import FeatureUnits
from suffice.learner.operator.bounds import NoiseBounds
from suffice.learner.operator.evidence import Evidence, interval, interval_above

__all__ = ["FiguredModel"]

_MOST_STORED = 500  # coefficients of which a model file states deviations
_LAPLACE_TAIL = 1.081  # ln 20 / sqrt 2 over 1.96: quantiles at 97.5 % of one variance


class FiguredModel(LinearModel):
    """A linear model that keeps what it was fitted on, and computes figures of its quality from it.

    A model file does not store what a model was fitted on: there the figures are missing.
    """

    loss: Any
    intercept_only_: bool
    _evidence: Evidence

    def theta_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of each weight of the model's own coordinates, to first order.

        See `coef_interval`.

        Parameters
        ----------
        level : float, default=0.95
            The confidence level.
        sampling : bool, default=False
            Whether the interval also covers what other labels of the same rows would give.

        Returns
        -------
        ndarray of shape (2, d) or (2, d, K)
            The lower and the upper ends.
        """
        fitted_deviations = self._fitted_evidence.deviations(sampling=sampling)
        deviations = np.zeros_like(self.theta_)
        # Of a constant only the intercept has a deviation.
        deviations[-len(fitted_deviations) :] = fitted_deviations
        return interval(self.theta_, deviations, level)

    def coef_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of each coefficient, in the units of ``coef_``, to first order.

        It covers the coefficient that exact labels would give. It does not cover how the penalty
        shrinks coefficients.

        Parameters
        ----------
        level : float, default=0.95
            The confidence level.
        sampling : bool, default=False
            Whether the interval also covers what other labels of the same rows would give.

        Returns
        -------
        ndarray of shape (2, 1, p) or (2, K, p)
            The lower and the upper ends.

        Raises
        ------
        ParameterError
            If the penalty has a 1-norm, or the noise is not known.
        AttributeError
            If the model was loaded from a file.
        """
        return interval(self.coef_, self.feature_deviations(sampling=sampling)[:-1].T, level)

    def intercept_interval(self, level: float = 0.95, *, sampling: bool = False) -> np.ndarray:
        """Return the interval of ``intercept_``, as `coef_interval` does of the coefficients.

        Parameters
        ----------
        level : float, default=0.95
            The confidence level.
        sampling : bool, default=False
            Whether the interval also covers what other labels of the same rows would give.

        Returns
        -------
        ndarray of shape (2, 1) or (2, K)
            The lower and the upper ends.
        """
        return interval(self.intercept_, self.feature_deviations(sampling=sampling)[-1], level)

    def feature_deviations(self, *, sampling: bool = False) -> np.ndarray:
        """Return the standard deviation of each coefficient and, last, of the intercept.

        Parameters
        ----------
        sampling : bool, default=False
            Whether it also covers what other labels of the same rows would give.

        Returns
        -------
        ndarray of shape (p + 1, 1) or (p + 1, K)
            In the units of ``coef_`` and ``intercept_``.
        """
        evidence = self._fitted_evidence
        basis = FeatureUnits(self.pipeline_).basis()
        if self.intercept_only_:  # only the intercept follows the noise
            basis = basis[:, -1:]
        deviations = evidence.deviations(sampling=sampling, basis=basis)
        return deviations.reshape(len(basis), -1)

    def stored_deviations(self) -> list[float] | None:
        """Return `feature_deviations` as a model file holds them, line by line.

        None if there are none, or more than 500: computing them takes longer than the fit.
        """
        if self.theta_.size > _MOST_STORED:
            return None
        try:
            deviations: list[float] = self.feature_deviations().ravel().tolist()
        except ParameterError:
            return None
        return deviations

    def noise_bounds(self, delta: float = 0.05) -> NoiseBounds:
        """Return bounds on how far the noise has moved the model and its risk.

        Patrini et al. 2016, Theorems 6 and 10, corrected (docs/errata.md). They hold for every data
        set, and are far too large for most.

        Parameters
        ----------
        delta : float, default=0.05
            The probability that a bound fails.

        Returns
        -------
        NoiseBounds
            All bounds; they hold together with probability 1 - delta.

        Raises
        ------
        ParameterError
            If the penalty is not l2, the operator was shrunk, or the noise is not known.
        AttributeError
            If the model was loaded from a file.
        """
        check_is_fitted(self)
        mechanism = "mixed"
        if len(self.releases_) == 1 and len(self.releases_[0].parts) == 1:
            mechanism = self.releases_[0].details["mechanism"]
        return self._fitted_evidence.bounds(mechanism, delta)

    @property
    def _fitted_evidence(self) -> Evidence:
        evidence: Evidence = self._from_fit("_evidence", "intervals")
        return evidence

    @property
    def coef_interval_(self) -> np.ndarray:
        """The interval at 95 % of each coefficient for the mechanism's noise."""
        return self._figure(self.coef_interval)

    @property
    def intercept_interval_(self) -> np.ndarray:
        """The interval at 95 % of the intercept for the mechanism's noise."""
        return self._figure(self.intercept_interval)

    @property
    def _tail(self) -> float:
        """How much farther 95 % of the noise reach than 95 % of Gaussian noise, at most.

        Along a direction, tails of Laplace and K-norm noise are taken as those of one Laplace
        variable; they are shorter where noise of several coordinates adds up.
        """
        mechanisms = {release.details["mechanism"] for release in self.releases_}
        return _LAPLACE_TAIL if mechanisms & {"laplace", "knorm", "mixed"} else 1.0

    @property
    def risk_(self) -> float:
        """The estimated risk on fresh labels of the same rows; not below that of any labels."""
        risk = self._figure(lambda: self._fitted_evidence.risk)[0]
        return max(risk, self._fitted_evidence.least_risk)

    @property
    def risk_interval_(self) -> np.ndarray:
        """The interval of the risk at 95 %; not below the risk that any labels give."""
        risk, deviation = self._figure(lambda: self._fitted_evidence.risk)
        least = self._fitted_evidence.least_risk
        return interval_above(risk, self._tail * deviation, 0.95, least)
