r"""What is claimed given the counts above: a threshold on the released count of the target's unit, with or without n.

The intruder does not know n people of the unit, including the target: B others and the target T raise its count from k
to k + B + T. With f the noise of the unit and V the probability of the counts released above (``levels``), the
likelihood ratio at :math:`d = X_1^* - k` is

.. math:: \frac{\sum_b P[B = b]\, f(d - b - 1)\, V(k + b + 1)}{\sum_b P[B = b]\, f(d - b)\, V(k + b)}

The weights of :math:`m = b + T` in the two sums, :math:`P[B = m - 1] V(k + m)` and :math:`P[B = m] V(k + m)`, have the
ratio :math:`P[B = m - 1] / P[B = m]`, which rises with m whatever V is. Since f is log-concave, the likelihood ratio
rises with d, so a decision is a threshold. The ratio is an average of those with b others known, so the threshold lies
between the smallest and the largest of theirs. It is found by bisection.
"""

from __future__ import annotations

import math

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import log_ratio
from tallyveil.risk.target.several import Several

_TIE = 1e-10  # log odds this close to those needed count as a tie: sums of floats cannot tell more


def log_likelihood_ratio(several: Several, noise: CountNoise, d: Floats, log_values: Floats) -> Floats:
    """Logarithm of the ratio above; the first dimension of ``log_values`` has log V(k) to log V(k + n)."""
    rises = np.diff(log_values, axis=0)
    if several.others == 0:
        return np.asarray(log_ratio(noise, d) + rises[0])
    along = (-1, *[1] * (log_values.ndim - 1))
    away = d - np.arange(several.others + 1).reshape(along)
    weights = several.log_chances.reshape(along) + noise.log_pmf(away) + log_values[:-1]
    return _log_sum(weights + log_ratio(noise, away) + rises) - _log_sum(weights)


def thresholds(several: Several, noise: CountNoise, log_values: Floats) -> tuple[Floats, Floats]:
    """The smallest X1* - k that is claimed given the counts above: strictly, and with ties as claims."""
    odds = several.intruder.odds_needed
    needed = math.log(odds.numerator) - math.log(odds.denominator)
    known = _if_known(noise, needed - np.diff(log_values, axis=0))
    if several.others == 0:
        return known[0][0], known[1][0]
    b = np.arange(several.others + 1).reshape(-1, *[1] * (log_values.ndim - 1))
    # For geometric noise the ratio is constant up to d = 0 and from n on: claims there are always or never made.
    always, never = (-np.inf, np.inf) if isinstance(noise, DiscreteGaussian) else (0, several.others + 2)

    def smallest(given_b: Floats, least: float) -> Floats:
        low, high = (np.clip(end, always, never) for end in (given_b.min(axis=0), given_b.max(axis=0)))
        while (undecided := low < high).any():
            middle = np.floor((low + high) / 2)
            enough = log_likelihood_ratio(several, noise, middle, log_values) > least
            low, high = np.where(undecided & ~enough, middle + 1, low), np.where(undecided & enough, middle, high)
        return np.where(high <= always, -np.inf, np.where(high >= never, np.inf, high))

    return smallest(known[0] + b, needed + _TIE), smallest(known[1] + b, needed - _TIE)


def _log_sum(logs: Floats) -> Floats:
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))


def _if_known(noise: CountNoise, needed: Floats) -> tuple[Floats, Floats]:
    """The thresholds of an intruder who knows everybody but the target, where the count alone must give these odds."""
    if isinstance(noise, DiscreteGaussian):  # log odds of (2 d - 1) / 2 s
        s = float(noise.variance)
        return np.floor(s * (needed + _TIE) + 0.5) + 1, np.ceil(s * (needed - _TIE) + 0.5)
    z, (always, from_one, never) = float(noise.z), (-np.inf, 1.0, np.inf)  # -z for d <= 0, z from 1 on
    strict = np.where(needed + _TIE < -z, always, np.where(needed + _TIE < z, from_one, never))
    return strict, np.where(needed - _TIE <= -z, always, np.where(needed - _TIE <= z, from_one, never))
