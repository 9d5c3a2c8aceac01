r"""One level: an intruder who knows all of a unit's people but one (kazan2022, section 3.1).

The target has the characteristics or not; ``known`` others in the unit have them. The unit's count is released with
noise, and the intruder updates a prior p. With d = x* - known, the log odds of the likelihoods are

- discrete Gaussian, variance parameter s: :math:`(2d - 1) / 2s`, from Eq. 11 with :math:`s = 1/(2\rho)`;
- geometric, parameter z: z for :math:`d \ge 1`, -z for :math:`d \le 0` (Eq. 12).

Both rise with d, so a decision is a threshold (Eq. 19). It is found in ball arithmetic: no float decides it. An exact
tie needs :math:`s \log q` or z to be a logarithm of a fraction and itself a fraction, which only happens at 0
(Lindemann), where neither noise has a tie: for parameters that are fractions, as all here are, ties have probability 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.privacy.thresholds import floor_of_log

Floats = NDArray[np.float64]
Noise = Geometric | DiscreteGaussian
_REACH = 39  # standard deviations; what lies beyond is no normal float


@final
@dataclass(frozen=True, kw_only=True)
class Intruder:
    """Somebody who knows all of a unit's people but the target.

    Attributes
    ----------
    prior
        How probable it is to them that the target has the characteristics: strictly between 0 and 1.
    known
        How many others in the unit have them.
    false_accusation, miss
        What it costs to claim them wrongly, and to miss them. Equal costs are the 0-1 loss of the paper (Eq. 16).

    Examples
    --------
    >>> exposed = Intruder(prior=1/2, known=0).against(DiscreteGaussian(variance="5.04"))
    >>> round(float(exposed.posterior(2)), 3), round(exposed.right_decision, 2)       # Table 3; section 4.2.3
    (0.574, 0.59)
    """

    prior: Number
    known: int = 0
    false_accusation: Number = 1
    miss: Number = 1

    def __post_init__(self) -> None:
        prior = exact(self.prior, "prior")
        if prior >= 1:
            raise InputError(f"a prior is a probability strictly between 0 and 1. Got {self.prior} instead.")
        if isinstance(self.known, bool) or not isinstance(self.known, int | np.integer) or self.known < 0:
            raise InputError(
                f"known is how many others have the characteristics, 0 or more. Got {self.known!r} instead."
            )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "known", int(self.known))
        for name in ("false_accusation", "miss"):
            object.__setattr__(self, name, exact(getattr(self, name), f"the cost {name}"))

    def against(self, noise: Noise) -> Exposure:
        """What this intruder learns from the unit's count with this noise."""
        if not isinstance(noise, Geometric | DiscreteGaussian):
            raise InputError(f"noise is Geometric or DiscreteGaussian. Got a {type(noise).__name__} instead.")
        return Exposure(intruder=self, noise=noise)

    @property
    def odds_needed(self) -> Fraction:
        """The odds of the likelihoods above which the intruder claims the characteristics."""
        prior, cost, miss = (Fraction(number) for number in (self.prior, self.false_accusation, self.miss))
        return cost * (1 - prior) / (miss * prior)


@final
@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What an intruder learns from one noisy count; figures are for a target who has the characteristics."""

    intruder: Intruder
    noise: Noise

    def posterior(self, released: ArrayLike) -> Floats:
        """Probability that the target has the characteristics, given the released count (Eq. 10 to 12)."""
        result: Floats = expit(self.log_odds(released))
        return result

    def log_odds(self, released: ArrayLike) -> Floats:
        """Logarithm of the posterior odds: exact where the posterior itself would round to 0 or 1."""
        prior = Fraction(self.intruder.prior)
        log_odds = math.log(prior.numerator) - math.log(prior.denominator - prior.numerator)
        return log_odds + self._log_ratio(_whole(released) - self.intruder.known)

    def ratio(self, released: ArrayLike) -> Floats:
        """Posterior over prior, R' (Eq. 13)."""
        return self.posterior(released) / float(self.intruder.prior)

    @cached_property
    def marginal_posterior(self) -> float:
        """The posterior averaged over what may be released (Eq. 14)."""
        if isinstance(self.noise, Geometric):
            k, stays = (
                self.intruder.known,
                float(self.noise.tail(0)),
            )  # two posteriors: the noise lowers the count or not
            return float(stays * self.posterior(k + 1) + (1 - stays) * self.posterior(k))
        reach = math.ceil(_REACH * math.sqrt(self.noise.variance)) + 1
        eta = np.arange(-reach, reach + 1)
        return float(self.noise.pmf(eta) @ self.posterior(self.intruder.known + 1 + eta))

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.intruder.prior)

    @cached_property
    def threshold(self) -> float:
        """The smallest released count at which the intruder claims the characteristics.

        Minus or plus infinity where they always or never do.
        """
        odds = self.intruder.odds_needed
        if isinstance(self.noise, DiscreteGaussian):  # (2 d - 1) / 2 s > log odds: d above s log odds + 1/2, strictly
            return self.intruder.known + floor_of_log(odds, times=self.noise.variance, plus=Fraction(1, 2)) + 1
        if floor_of_log(odds, times=1 / self.noise.z, plus=Fraction(0)) >= 1:  # log odds >= z
            return math.inf
        if odds < 1 and floor_of_log(1 / odds, times=1 / self.noise.z, plus=Fraction(0)) >= 1:  # -log odds >= z
            return -math.inf
        return self.intruder.known + 1

    @property
    def right_decision(self) -> float:
        """Probability that the intruder claims the characteristics, rightly (Eq. 18 and 19)."""
        if math.isinf(self.threshold):
            return 1.0 if self.threshold < 0 else 0.0
        return float(self.noise.tail(self.threshold - self.intruder.known - 1))

    @property
    def tie(self) -> float:
        """Probability of an exact tie: 0, see above."""
        return 0.0

    def as_json(self, released: int | None = None) -> dict[str, Any]:
        """The figures under their JSON keys; ``posterior`` and ``ratio`` where a released count is given."""
        told: dict[str, Any] = {}
        if released is not None:
            told = {"posterior": float(self.posterior(released)), "ratio": float(self.ratio(released))}
        return told | {
            "marginal_posterior": self.marginal_posterior,
            "risk": self.risk,
            "threshold": None if math.isinf(self.threshold) else int(self.threshold),
            "right_decision": self.right_decision,
            "tie": self.tie,
        }

    def _log_ratio(self, d: Floats) -> Floats:
        """Log of P[x* | the target has them] / P[x* | not], d being x* less the known others."""
        if isinstance(self.noise, DiscreteGaussian):
            return (2 * d - 1) / (2 * float(self.noise.variance))
        return np.where(d >= 1, 1.0, -1.0) * float(self.noise.z)


def _whole(released: ArrayLike) -> Floats:
    numbers = np.asarray(released, dtype=np.float64)
    if not (numbers == np.floor(numbers)).all():
        raise InputError(f"a released noisy count is a whole number. Got {released!r} instead.")
    return numbers
