r"""One level: an intruder who knows everybody in a unit but one person (kazan2022, section 3.1).

The target has the characteristics or not, and ``known`` others in the unit have them. The count of the unit is released
with noise, and the intruder updates a prior p. With d = x* - known, the log likelihood ratio is

- discrete Gaussian, variance parameter s: :math:`(2d - 1) / 2s`, from Eq. 11 with :math:`s = 1/(2\rho)`;
- geometric, parameter z: z for :math:`d \ge 1`, -z for :math:`d \le 0` (Eq. 12).

The ratios of several counts that the target would raise add up (``evidence``). A decision is a threshold on their sum
(Eq. 19), which is found in ball arithmetic, so that rounding never decides. The sum is a fraction, and the logarithm of
the odds needed is not, unless it is 0 (Lindemann). So ties occur only at even odds, where they are counted in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, final

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
    """An intruder who knows everybody in a unit but the target.

    Attributes
    ----------
    prior
        Their prior probability that the target has the characteristics, strictly between 0 and 1.
    known
        The number of others in the unit who have them.
    false_accusation, miss
        The cost of a wrong claim, and of a missed one. Equal costs are the 0-1 loss of the paper (Eq. 16).

    Examples
    --------
    >>> exposed = Intruder(prior=1/2, known=0).against(DiscreteGaussian(variance="5.04"))
    >>> round(float(exposed.posterior(2)), 3), round(exposed.right_decision, 2)       # Table 3; section 4.2.3
    (0.574, 0.59)

    An intruder who also sees the total of the unit, which has 44 others:

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
        """What this intruder learns from the count of the unit with this noise, and from more counts of the target.

        ``known`` is the number of others in each of several counts, by default the number who have the characteristics.
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
        """The likelihood ratio above which the intruder claims the characteristics."""
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
    """What an intruder learns from noisy counts. Figures are for a target who has the characteristics."""

    intruder: Intruder
    evidence: Evidence
    known: tuple[int, ...] = ()

    def posterior(self, released: ArrayLike) -> Floats:
        """Probability that the target has the characteristics, given the released count (Eq. 10 to 12).

        The last dimension of ``released`` has one entry for each of several counts.
        """
        result: Floats = expit(self.log_odds(released))
        return result

    def log_odds(self, released: ArrayLike) -> Floats:
        """Logarithm of the posterior odds, which is exact where the posterior itself would round to 0 or 1."""
        numbers, noises = np.asarray(released, dtype=np.float64), self.evidence.noises
        if not (numbers == np.floor(numbers)).all():
            raise InputError(f"a released noisy count must be a whole number. Got {released!r} instead.")
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
        """The posterior averaged over the released counts (Eq. 14)."""
        return float(self.evidence.probabilities @ expit(self.intruder.log_prior_odds + self.evidence.logs()))

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.intruder.prior)

    @property
    def threshold(self) -> float:
        """The smallest released count at which the intruder claims the characteristics (for a single count).

        Minus or plus infinity if they always or never do.
        """
        if len(self.evidence.noises) > 1:
            raise InputError(
                "several counts have no single threshold, since they are weighed together. Use posterior()."
            )
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
        """Probability that claiming and not claiming have equal expected costs, which counts as not claiming."""
        if self.intruder.odds_needed != 1 or self.evidence.rounding or self.evidence.offset.denominator != 1:
            return 0.0
        return self.evidence.at(-int(self.evidence.offset))

    @property
    def uncertain(self) -> float:
        """Largest error of ``right_decision`` because a grid was rounded; 0 in all ordinary cases."""
        if not self.evidence.rounding:
            return 0.0
        near = np.abs(self.evidence.logs() - math.log(self.intruder.odds_needed)) <= 2 * self.evidence.rounding
        return float(self.evidence.probabilities[near].sum())

    def decided(self, logs: Floats) -> tuple[Bools, Bools]:
        """Whether the intruder claims the characteristics, and whether there is a tie, given log likelihood ratios."""
        if self.evidence.rounding:
            return logs > math.log(self.intruder.odds_needed), np.zeros(len(logs), dtype=np.bool_)
        place = np.rint(
            logs / float(self.evidence.step) - float(self.evidence.offset)
        )  # an integer, apart from rounding
        tie = (place == -float(self.evidence.offset)) if self.tie else np.zeros(len(logs), dtype=np.bool_)
        return place >= self._claimed_from, tie

    def as_json(self, released: int | None = None) -> dict[str, Any]:
        """The figures under their JSON keys; ``posterior`` and ``ratio`` where a released count is given."""
        return figures_as_json(self, released)

    @cached_property
    def _claimed_from(self) -> int:
        """The first point of the evidence's grid that is strictly above the logarithm of the odds needed."""
        return floor_of_log(self.intruder.odds_needed, times=1 / self.evidence.step, plus=-self.evidence.offset) + 1


def log_ratio(noise: CountNoise, d: Floats) -> Floats:
    """Log of P[x* | the target has them] / P[x* | not], where d is x* minus the known others."""
    if isinstance(noise, DiscreteGaussian):
        return (2 * d - 1) / (2 * float(noise.variance))
    return np.where(d >= 1, 1.0, -1.0) * float(noise.z)


def _known(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise InputError(
            f"known is the number of others who have the characteristics, 0 or more. Got {number!r} instead."
        )
    return int(number)


class _OfOneCount(Protocol):
    """What an intruder learns from one count."""

    def posterior(self, released: ArrayLike, /) -> Floats: ...
    def ratio(self, released: ArrayLike, /) -> Floats: ...
    @property
    def marginal_posterior(self) -> float: ...
    @property
    def risk(self) -> float: ...
    @property
    def threshold(self) -> float: ...
    @property
    def right_decision(self) -> float: ...
    @property
    def tie(self) -> float: ...


def figures_as_json(exposed: _OfOneCount, released: int | None = None) -> dict[str, Any]:
    """The figures under their JSON keys; ``posterior`` and ``ratio`` where a released count is given."""
    figures: dict[str, Any] = {}
    if released is not None:
        figures = {"posterior": float(exposed.posterior(released)), "ratio": float(exposed.ratio(released))}
    return figures | {
        "marginal_posterior": exposed.marginal_posterior,
        "risk": exposed.risk,
        "threshold": None if math.isinf(exposed.threshold) else int(exposed.threshold),
        "right_decision": exposed.right_decision,
        "tie": exposed.tie,
    }
