r"""One level: an intruder who knows all of a unit's people but one (kazan2022, section 3.1).

The target has the characteristics or not; ``known`` others in the unit have them. The unit's count is released with
noise, and the intruder updates a prior p. With d = x* - known, the log odds of the likelihoods are

- discrete Gaussian, variance parameter s: :math:`(2d - 1) / 2s`, from Eq. 11 with :math:`s = 1/(2\rho)`;
- geometric, parameter z: z for :math:`d \ge 1`, -z for :math:`d \le 0` (Eq. 12).

Of several counts that the target would raise, they add (``evidence``). A decision is a threshold on them (Eq. 19). It
is found in ball arithmetic: no float decides it. What comes out is a fraction, and the logarithm of the odds needed is
none unless it is 0 (Lindemann); so there are no ties but at even odds, and there they are counted in whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from tallyveil._arrays import Bools, Floats
from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.privacy.thresholds import floor_of_log
from tallyveil.risk.target.evidence import CountNoise, Evidence


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

    An intruder who sees the unit's total too, where 44 others are:

    >>> noises = DiscreteGaussian(variance=5), DiscreteGaussian(variance=20)
    >>> both = Intruder(prior=1/2).against(*noises, known=[0, 44])
    >>> round(float(both.posterior([2, 49])), 3)
    0.628
    """

    prior: Number
    known: int = 0
    false_accusation: Number = 1
    miss: Number = 1

    def __post_init__(self) -> None:
        try:
            prior = exact(self.prior, "prior")
        except InputError:
            prior = Fraction(1)
        if prior >= 1:
            raise InputError(
                f"a prior is a probability strictly between 0 and 1, such as 1/2 or 0.1. Got {self.prior} instead."
            )
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "known", _known(self.known))
        for name in ("false_accusation", "miss"):
            object.__setattr__(self, name, exact(getattr(self, name), f"the cost {name}"))

    def against(self, noise: CountNoise, *more: CountNoise, known: Sequence[int] | None = None) -> Exposure:
        """What this intruder learns from the unit's count with this noise, and from more counts of the target.

        ``known`` says how many others each of several counts has; as many as have the characteristics by default.
        """
        evidence = Evidence(noises=(noise, *more))
        others = (self.known,) * len(evidence.noises) if known is None else tuple(map(_known, known))
        if len(others) != len(evidence.noises):
            raise InputError(
                f"known is given for {len(others)} counts, but there are {len(evidence.noises)}. Give one for each."
            )
        return Exposure(intruder=self, evidence=evidence, known=others)

    @property
    def odds_needed(self) -> Fraction:
        """The odds of the likelihoods above which the intruder claims the characteristics."""
        prior, cost, miss = (Fraction(number) for number in (self.prior, self.false_accusation, self.miss))
        return cost * (1 - prior) / (miss * prior)

    @property
    def log_prior_odds(self) -> float:
        """Logarithm of the prior odds."""
        prior = Fraction(self.prior)
        return math.log(prior.numerator) - math.log(prior.denominator - prior.numerator)


@final
@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What an intruder learns from noisy counts; figures are for a target who has the characteristics."""

    intruder: Intruder
    evidence: Evidence
    known: tuple[int, ...] = ()

    def posterior(self, released: ArrayLike) -> Floats:
        """Probability that the target has the characteristics, given the released count (Eq. 10 to 12).

        Of several counts, ``released`` has one in each place of its last dimension.
        """
        result: Floats = expit(self.log_odds(released))
        return result

    def log_odds(self, released: ArrayLike) -> Floats:
        """Logarithm of the posterior odds: exact where the posterior itself would round to 0 or 1."""
        numbers, noises = np.asarray(released, dtype=np.float64), self.evidence.noises
        if not (numbers == np.floor(numbers)).all():
            raise InputError(f"a released noisy count is a whole number. Got {released!r} instead.")
        if len(noises) == 1:
            numbers = numbers[..., None]
        elif numbers.shape[-1:] != (len(noises),):
            raise InputError(f"{len(noises)} counts were released. Give one number for each, in the last dimension.")
        d = numbers - np.array(self.known, dtype=np.float64)
        parts = [log_ratio(noise, d[..., i]) for i, noise in enumerate(noises)]
        return np.asarray(self.intruder.log_prior_odds + sum(parts))

    def ratio(self, released: ArrayLike) -> Floats:
        """Posterior over prior, R' (Eq. 13)."""
        return self.posterior(released) / float(self.intruder.prior)

    @cached_property
    def marginal_posterior(self) -> float:
        """The posterior averaged over what may be released (Eq. 14)."""
        return float(self.evidence.probabilities @ expit(self.intruder.log_prior_odds + self.evidence.logs()))

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.intruder.prior)

    @property
    def threshold(self) -> float:
        """The smallest released count at which the intruder claims the characteristics (of one count).

        Minus or plus infinity where they always or never do.
        """
        if len(self.evidence.noises) > 1:
            raise InputError("of several counts there is no one threshold: they are weighed together. Ask posterior().")
        (known,) = self.known
        if isinstance(self.evidence.noises[0], DiscreteGaussian):
            return known + 1 + self._claimed_from
        return {-1: -math.inf, 0: known + 1, 1: known + 1}.get(max(self._claimed_from, -1), math.inf)

    @property
    def right_decision(self) -> float:
        """Probability that the intruder claims the characteristics, rightly (Eq. 18 and 19)."""
        return min(self.evidence.above(self._claimed_from), 1.0)

    @property
    def tie(self) -> float:
        """Probability that claiming and not claiming cost the same; it counts as not claiming."""
        if self.intruder.odds_needed != 1 or self.evidence.rounding or self.evidence.offset.denominator != 1:
            return 0.0
        return self.evidence.at(-int(self.evidence.offset))

    @property
    def uncertain(self) -> float:
        """By how much ``right_decision`` may be off because a grid was rounded: 0 in all ordinary cases."""
        if not self.evidence.rounding:
            return 0.0
        near = np.abs(self.evidence.logs() - math.log(self.intruder.odds_needed)) <= 2 * self.evidence.rounding
        return float(self.evidence.probabilities[near].sum())

    def decided(self, logs: Floats) -> tuple[Bools, Bools]:
        """Whether the intruder claims the characteristics, and whether it is a tie, given logs of likelihood ratios."""
        if self.evidence.rounding:
            return logs > math.log(self.intruder.odds_needed), np.zeros(len(logs), dtype=np.bool_)
        place = np.rint(logs / float(self.evidence.step) - float(self.evidence.offset))  # whole, but for rounding
        tie = (place == -float(self.evidence.offset)) if self.tie else np.zeros(len(logs), dtype=np.bool_)
        return place >= self._claimed_from, tie

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

    @cached_property
    def _claimed_from(self) -> int:
        """The first point of the evidence's grid that is above the logarithm of the odds needed, strictly."""
        return floor_of_log(self.intruder.odds_needed, times=1 / self.evidence.step, plus=-self.evidence.offset) + 1


def log_ratio(noise: CountNoise, d: Floats) -> Floats:
    """Log of P[x* | the target has them] / P[x* | not], d being x* less the known others."""
    if isinstance(noise, DiscreteGaussian):
        return (2 * d - 1) / (2 * float(noise.variance))
    return np.where(d >= 1, 1.0, -1.0) * float(noise.z)


def _known(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InputError(f"known is how many others have the characteristics, 0 or more. Got {number!r} instead.")
    return int(number)
