r"""An intruder who does not know n people of a unit, including the target, and sees several noisy counts of it.

Each unknown other is counted like the target with probability ``share``, so with B others every count is B + T higher.
(Where the hypotheses are two cells, the count of the other cell is as much lower.) For discrete Gaussian counts with
variances :math:`s_i` and :math:`w_i = 1/s_i`, everything is in one statistic, :math:`S = \sum_i w_i d_i`:

.. math:: P[x^* \mid B + T = m] \propto e^{S m - W m^2 / 2}, \qquad W = \sum_i w_i

With T = 1 and B = b, S is W (b + 1) plus a sum of weighted noises, whose distribution is that of ``Evidence``. The
posterior is averaged over both. Its log odds rise with S (all distributions are log-concave), so a decision is a
threshold on S, which is found in floating-point numbers. With even odds and a share of 1/2, everything is symmetric
about W n / 2, where there may be ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.risk.target.evidence import CountNoise, Evidence, weight_of
from tallyveil.risk.target.intruder import Exposure
from tallyveil.risk.target.several import Several, SeveralExposure

MOST_OTHERS = 1000
_NEAR = 1e-9  # of W, within which S is at the threshold
_POINTS = 20_001  # of S, between which log odds are interpolated (to about 1e-6)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SeveralCounts:
    """What an intruder who knows all but n people learns from several counts, for a target who is counted in them."""

    several: Several
    evidence: Evidence

    @cached_property
    def marginal_posterior(self) -> float:
        """The posterior averaged over the others and the released counts (Eq. 14)."""
        posteriors, chances = self.posteriors()
        return float(chances @ posteriors)

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.several.intruder.prior)

    @property
    def right_decision(self) -> float:
        """Probability that the intruder rightly claims the characteristics (Eq. 18), averaged over the others."""
        return self._beyond(_NEAR * self._whole if self._even else 0.0)

    @property
    def tie(self) -> float:
        """Probability of released counts at which both decisions cost the same; nothing is claimed there."""
        return self._beyond(-_NEAR * self._whole) - self.right_decision if self._even else 0.0

    def posteriors(self) -> tuple[Floats, Floats]:
        """Posteriors of a target who is counted, and the probability of each."""
        points = np.linspace(*self._range, _POINTS)
        odds = self._log_ratio(points) + self.several.intruder.log_prior_odds
        statistic = self._noise + self._whole * (1 + self._others)[:, None]
        chances = self.several.chances[:, None] * self.evidence.probabilities
        return expit(np.interp(statistic, points, odds)).ravel(), chances.ravel()

    @property
    def _even(self) -> bool:
        return self.several.intruder.odds_needed == 1 and self.several.share == Fraction(1, 2)

    @cached_property
    def _threshold(self) -> float:
        """The value of S above which the characteristics are claimed; infinite if beyond all values that occur."""
        if self._even:
            return self._whole * (self.several.others + 1) / 2
        needed, (low, high) = math.log(self.several.intruder.odds_needed), self._range
        if self._log_ratio(np.array([low]))[0] > needed:
            return -math.inf
        if self._log_ratio(np.array([high]))[0] <= needed:
            return math.inf
        return float(brentq(lambda s: float(self._log_ratio(np.array([s]))[0]) - needed, low, high, xtol=1e-12))

    def _beyond(self, margin: float) -> float:
        """Probability that S is more than this above the threshold."""
        tails = np.append(np.cumsum(self.evidence.probabilities[::-1])[::-1], 0.0)
        least = self._threshold + margin - self._whole * (1 + self._others)
        return min(1.0, float(self.several.chances @ tails[np.searchsorted(self._noise, least, side="right")]))

    @cached_property
    def _whole(self) -> float:
        """W."""
        return float(sum(map(weight_of, self.evidence.noises)))

    @cached_property
    def _noise(self) -> Floats:
        """Values of the sum of weighted noises: those of the evidence, which has W/2 added."""
        return self.evidence.logs() - self._whole / 2

    @cached_property
    def _others(self) -> Floats:
        return np.arange(self.several.others + 1, dtype=np.float64)

    @property
    def _range(self) -> tuple[float, float]:
        """All values of S for a target who is counted."""
        return float(self._noise[0] + self._whole), float(self._noise[-1] + self._whole * (1 + self.several.others))

    def _log_ratio(self, statistic: Floats) -> Floats:
        """Log of P[S | T = 1] / P[S | T = 0]."""
        with_target, without = (
            logsumexp(self.several.log_chances + statistic[:, None] * m - self._whole * m**2 / 2, axis=1)
            for m in (self._others + 1, self._others)
        )
        result: Floats = with_target - without
        return result


def exposure_of(several: Several, noises: Sequence[CountNoise]) -> Exposure | SeveralExposure | SeveralCounts:
    """What an intruder learns from some counts, whether or not they know everybody but the target.

    >>> from tallyveil.risk.target.intruder import Intruder
    >>> noises = [DiscreteGaussian(variance=5), DiscreteGaussian(variance=20)]
    >>> everybody, ten = (Several(intruder=Intruder(prior="1/2"), others=n) for n in (0, 10))
    >>> round(exposure_of(everybody, noises).risk, 3), round(exposure_of(ten, noises).risk, 3)
    (1.059, 1.037)
    """
    if several.others == 0:
        return several.intruder.against(*noises)
    if several.others > MOST_OTHERS:
        raise InputError(
            f"{several.others:,} unknown others are too many to be summed over. Give {MOST_OTHERS:,} or fewer."
        )
    if len(noises) == 1:
        return several.against(noises[0])
    if not all(isinstance(noise, DiscreteGaussian) for noise in noises):
        raise InputError(
            "several geometric counts with unknown others have no single statistic to sum over. Use one query at one "
            "level (--query detailed), or a strategy with Gaussian noise."
        )
    return SeveralCounts(several=several, evidence=Evidence(noises=tuple(noises)))
