r"""kazan2022, Figure 6: right decisions where the odds are too close to even for floats (Eq. 18 and 25).

Where rho_2 is large, the log odds of some released counts are as small as 1e-47. ``Hierarchy.decision`` counts them as
wrong and reports their probability (``tie``). Here the sign of

.. math:: \sum_{x_2 \ge 0} e^{-\rho_2 (x_2^* - x_2)^2} \left( 1[x_2 \ge 1]\, e^{-\rho_1 (x_1^* - 1)^2 - \rho_1
   (y_1^* - x_2 + 1)^2 / d} - e^{-\rho_1 x_1^{*2} - \rho_1 (y_1^* - x_2)^2 / d} \right)

is computed in ball arithmetic, with increasing precision until it is certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import flint
import numpy as np

from tallyveil.privacy import DiscreteGaussian
from tallyveil.privacy.thresholds import ball_of, precision
from tallyveil.risk import Hierarchy
from tallyveil_papers.kazan.sampler import Released

NEAR = 1e-10  # log odds that Hierarchy.decision does not tell from 0
_MOST = 1 << 14  # binary digits


@final
@dataclass(frozen=True, kw_only=True)
class Settled:
    """Probability of a right decision, the part of it that was settled here, and that of all near-ties."""

    right_decision: float
    won: float
    near_ties: float


def settled(two: Hierarchy, count: int) -> Settled:
    """The library's decision with near-ties settled, for two levels, p = 1/2, and nobody else in the unit."""
    decision = two.decision([count])
    if not decision.tie:
        return Settled(right_decision=decision.right_decision, won=0.0, near_ties=0.0)
    released, won, near_ties = Released.of(two, count), 0.0, 0.0
    close = np.abs(released.chains(two, condition=True).posterior - 0.5) < 10 * NEAR
    for i, j, k in np.argwhere(close):
        counts = int(released.x1[i]), int(released.x2[j]), int(released.y[k])
        if abs(two.log_odds(counts[0], [counts[1:]])) <= NEAR:
            mass = float(released.mass[i, j, k])
            near_ties += mass
            won += mass if is_claimed(two, *counts) else 0.0
    return Settled(right_decision=decision.right_decision + won, won=won, near_ties=near_ties)


def is_claimed(two: Hierarchy, x1: int, x2: int, y: int) -> bool:
    """Whether X1 = 1 is certainly more probable than X1 = 0."""
    near = two.above[0]
    noises = (two.noise, near.noise, near.together)
    rhos = [1 / (2 * Fraction(noise.variance)) for noise in noises if isinstance(noise, DiscreteGaussian)]
    digits = 64
    while digits < _MOST:
        digits *= 2
        with precision(digits):
            ball = _difference(x1, x2, y, *rhos, digits=digits)
            if ball > 0 or ball < 0:
                return bool(ball > 0)
    raise AssertionError(f"{_MOST} digits do not settle the odds of {(x1, x2, y)}")


def _difference(x1: int, x2: int, y: int, rho_1: Fraction, rho_2: Fraction, rho_y: Fraction, *, digits: int) -> Any:
    """The sum above as a ball; the remaining terms, bounded by a geometric series, are its radius."""
    reach = math.isqrt(int(digits / rho_2)) + 2
    total = flint.arb(0)
    for above in range(max(0, x2 - reach), max(0, x2) + reach + 1):
        far = rho_2 * (x2 - above) ** 2
        if above >= 1:
            total += (-ball_of(far + rho_1 * (x1 - 1) ** 2 + rho_y * (y - above + 1) ** 2)).exp()
        total -= (-ball_of(far + rho_1 * x1**2 + rho_y * (y - above) ** 2)).exp()
    rest = 4 * (-ball_of(rho_2 * (reach + 1) ** 2)).exp() / (1 - (-ball_of(rho_2)).exp())
    return total + flint.arb(0, rest)
