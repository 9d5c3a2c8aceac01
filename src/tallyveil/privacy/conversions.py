r"""Conversions between measures of privacy loss: epsilon, rho and delta.

The results are safe: an epsilon or a delta is never too small and a rho for a given epsilon never too large, because
every result is moved to the safe side by more than its rounding error.

References
----------
kazan2022
    Theorem 2 ("implied" epsilon), Theorem 3 and Eq. 7 ("exact" epsilon).
canonne2020
    Canonne, Kamath & Steinke, The Discrete Gaussian for Differential Privacy, NeurIPS 2020, Corollary 13.
bun2016
    Bun & Steinke, Concentrated Differential Privacy: Simplifications, Extensions and Lower Bounds, TCC 2016, Lemma 3.5
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from tallyveil.errors import BudgetError
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_down, rounded_up

_SLACK = 1e-12  # relative; the functions below err by less than 1e-13 of their terms


def rho_of_pure(epsilon: Number) -> float:
    """Return the rho of the zCDP that epsilon-differential privacy implies: epsilon^2 / 2 (Theorem 2 of kazan2022).

    >>> rho_of_pure(1)
    0.5
    """
    return rounded_up(exact(epsilon, "epsilon") ** 2 / 2)


def implied_epsilon(rho: Number) -> float:
    """Return sqrt(2 rho), the epsilon that implies this rho (Theorem 2 of kazan2022).

    It is for comparison and not a guarantee (section 2.1 of kazan2022).

    >>> round(implied_epsilon(2.56), 3)
    2.263
    """
    return math.sqrt(2 * exact(rho, "rho"))


def epsilon_from_rho(rho: Number, delta: Number) -> float:
    r"""Return the smallest epsilon that rho-zCDP implies at this delta (Eq. 7 of kazan2022), rounded up.

    .. math:: \varepsilon = \inf_{\alpha > 1} \rho\alpha + \log(1 - 1/\alpha) - \frac{\log(\alpha\delta)}{\alpha - 1}

    Any alpha gives a valid epsilon, so an imperfect minimum errs on the safe side. The result is never negative.

    >>> round(epsilon_from_rho(2.56, 1e-10), 3), round(epsilon_from_rho(0.5, 1e-10), 3)
    (17.158, 6.839)
    >>> round(epsilon_from_rho("293764/114921", 1e-10), 2)     # the 2020 redistricting file
    17.14
    """
    rho_, log_delta = rounded_up(exact(rho, "rho")), math.log(rounded_down(exact_delta(delta)))

    def epsilon(t: float) -> float:  # alpha = 1 + t: the terms of Eq. 7
        return rho_ * (1 + t) + math.log(t) - math.log1p(t) - (math.log1p(t) + log_delta) / t

    t = _minimum(epsilon)
    terms = rho_ * (1 + t) + abs(math.log(t)) + math.log1p(t) + (math.log1p(t) - log_delta) / t
    return max(0.0, epsilon(t) + _SLACK * terms)


def epsilon_but_for_chance(rho: Number, delta: Number) -> float:
    r"""Return an epsilon that the privacy loss of rho-zCDP exceeds with a probability of at most delta, rounded up.

    .. math:: P[L > \varepsilon] \le \inf_{\alpha > 1} e^{(\alpha-1)(\alpha\rho-\varepsilon)}
        = e^{-(\varepsilon-\rho)^2 / 4\rho}, \quad \varepsilon = \rho + 2 \sqrt{\rho \log(1/\delta)}

    This is Markov's inequality for the moments that zCDP bounds (Lemma 3.5 of bun2016). The epsilon of
    :func:`epsilon_from_rho` is smaller, since its delta is an expectation: the loss may exceed it with a probability of
    several times delta.

    >>> round(epsilon_but_for_chance(0.5, 1e-10), 3), round(epsilon_but_for_chance(0.001, 1e-10), 3)
    (7.286, 0.304)
    """
    rho_, log_odds = rounded_up(exact(rho, "rho", zero=True)), -math.log(rounded_down(exact_delta(delta)))
    return (rho_ + 2 * math.sqrt(rho_ * log_odds)) * (1 + _SLACK)


def delta_from_rho(rho: Number, epsilon: Number) -> float:
    r"""Return the smallest delta at which rho-zCDP gives this epsilon (Corollary 13 of canonne2020), rounded up.

    .. math:: \delta = \inf_{\alpha > 1} \frac{e^{(\alpha-1)(\alpha\rho-\varepsilon)}}{\alpha - 1} (1 - 1/\alpha)^\alpha

    >>> 0.99e-10 < delta_from_rho(2.56, 17.158) < 1.01e-10
    True
    """
    rho_, epsilon_ = rounded_up(exact(rho, "rho")), rounded_down(exact(epsilon, "epsilon", zero=True))

    def log_delta(t: float) -> float:  # alpha = 1 + t
        return t * ((1 + t) * rho_ - epsilon_) + t * math.log(t) - (1 + t) * math.log1p(t)

    t = _minimum(log_delta)
    terms = t * ((1 + t) * rho_ + epsilon_) + t * abs(math.log(t)) + (1 + t) * math.log1p(t)
    smallest = sys.float_info.min  # a delta of 0 would claim more than holds
    return max(smallest, math.exp(min(0.0, log_delta(t) + _SLACK * (1 + terms))))


def rho_from_epsilon(epsilon: Number, delta: Number) -> float:
    """Return the largest rho whose zCDP gives (epsilon, delta), rounded down. Inverts :func:`epsilon_from_rho`.

    >>> round(rho_from_epsilon(6.839, 1e-10), 3)
    0.5
    """
    wanted, delta_ = rounded_down(exact(epsilon, "epsilon")), exact_delta(delta)
    low, high = 0.0, 1.0
    while epsilon_from_rho(high, delta_) <= wanted:
        low, high = high, 2 * high
        if high > 1e15:
            raise BudgetError(f"epsilon {epsilon} is too large to convert to rho. Use a smaller epsilon.")
    while (middle := (low + high) / 2) not in (low, high) and high > 1e-300:
        low, high = (middle, high) if epsilon_from_rho(middle, delta_) <= wanted else (low, middle)
    return low


def _minimum(f: Callable[[float], float]) -> float:
    """Minimise a unimodal function on (0, inf) by golden-section search on log t over 120 decades.

    Both functions above are unimodal: log delta is convex in t, and epsilon is a convex function divided by t.
    """
    low, high = math.log(1e-60), math.log(1e60)
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    f_left, f_right = f(math.exp(left)), f(math.exp(right))
    while high - low > 1e-9:
        if f_left <= f_right:
            high, right, f_right = right, left, f_left
            left = high - ratio * (high - low)
            f_left = f(math.exp(left))
        else:
            low, left, f_left = left, right, f_right
            right = low + ratio * (high - low)
            f_right = f(math.exp(right))
    return math.exp((low + high) / 2)
