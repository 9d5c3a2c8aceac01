r"""An intruder who does not know n people of a unit, including the target (suggested as future work by kazan2022).

Each of the n - 1 others has the characteristics with probability ``share``, independently, so the true count is
k + B + T with B binomial and T the target. With h the distribution of B plus noise and d = x* - k, the likelihood
ratio is

.. math:: h(d - 1) / h(d), \qquad h(d) = \sum_b P[B = b] f(d - b)

Binomials and both kinds of noise are log-concave, so h is too, and the ratio rises with d: a decision is a threshold.
The ratio is an average of those with b others known, so the threshold lies between that for no others and n - 1 above
it. In between, :math:`h(d-1) - q\,h(d)` is a sum of integers times exponentials of different fractions, which is 0
only if all the integers are 0 (Lindemann-Weierstrass). So every comparison is decided exactly. A tie needs even odds
q = 1, a share of 1/2 and an odd number of others. Then h is symmetric about a half, with one tie in the middle.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, repeat
from operator import mul
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_softmax, logsumexp

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.thresholds import ball_of, precision
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Exposure, Intruder, figures_as_json, log_ratio

MOST_UNKNOWN = 10_000  # beyond it, exact comparisons take minutes
_REACH = 39  # standard deviations; what lies beyond is no normal float


@final
@dataclass(frozen=True, kw_only=True)
class Several:
    """An intruder who does not know some others besides the target.

    Attributes
    ----------
    intruder
        Their prior, their costs, and the number of people they know who have the characteristics.
    others
        The number of people besides the target whom they do not know, n - 1.
    share
        Their probability that each of these has the characteristics; the prior by default.

    Examples
    --------
    >>> alone = Intruder(prior="1/5").against(noise := DiscreteGaussian(variance="5.04"))
    >>> many = Several(intruder=alone.intruder, others=20).against(noise)
    >>> round(alone.risk, 3), round(many.risk, 3)
    (1.127, 1.077)
    """

    intruder: Intruder
    others: int
    share: Number | None = None

    def __post_init__(self) -> None:
        if isinstance(self.others, bool) or not isinstance(self.others, int | np.integer) or self.others < 0:
            raise InputError(f"others is the number of further unknown people, 0 or more. Got {self.others!r} instead.")
        if self.others > MOST_UNKNOWN:
            raise InputError(
                f"{self.others:,} unknown others are too many to be summed over. Give {MOST_UNKNOWN:,} or fewer."
            )
        share = Fraction(self.intruder.prior) if self.share is None else exact(self.share, "share", zero=True)
        if not 0 < share < 1:
            raise InputError(
                f"a share must be strictly between 0 and 1. Got {self.share}. Count people who are certain in known."
            )
        object.__setattr__(self, "others", int(self.others))
        object.__setattr__(self, "share", share)

    def against(self, noise: CountNoise) -> SeveralExposure:
        """What this intruder learns from the count of the unit with this noise."""
        return SeveralExposure(several=self, noise=noise, alone=self.intruder.against(noise))

    @cached_property
    def weights(self) -> list[int]:
        """P[B = b] times the denominator of the share to the power of others, which are integers."""
        assert self.share is not None  # since __post_init__
        n, share = self.others, Fraction(self.share)
        has, not_ = (
            list(accumulate(repeat(number, n), mul, initial=1))
            for number in (share.numerator, share.denominator - share.numerator)
        )
        return [math.comb(n, b) * has[b] * not_[n - b] for b in range(n + 1)]

    @cached_property
    def chances(self) -> Floats:
        """P[B = b], each correctly rounded."""
        whole = sum(self.weights)
        return np.array([weight / whole for weight in self.weights])

    @cached_property
    def log_chances(self) -> Floats:
        """Logarithm of P[B = b], also where that underflows."""
        whole = math.log(sum(self.weights))
        pairs = zip(self.chances, self.weights, strict=True)
        return np.array([math.log(p) if p > 1e-300 else math.log(weight) - whole for p, weight in pairs])


@final
@dataclass(frozen=True, kw_only=True)
class SeveralExposure:
    """What an intruder who knows all but n people learns. Figures are for a target who has the characteristics.

    ``alone`` is what they would learn if they knew everybody but the target.
    """

    several: Several
    noise: CountNoise
    alone: Exposure

    def posterior(self, released: ArrayLike) -> Floats:
        """Probability that the target has the characteristics, given the released count."""
        result: Floats = expit(self.log_odds(released))
        return result

    def log_odds(self, released: ArrayLike) -> Floats:
        """Logarithm of the posterior odds: the odds with b others known, averaged over b."""
        counts, places = np.unique(np.asarray(released, dtype=np.float64), return_inverse=True)
        if not (counts == np.floor(counts)).all():
            raise InputError(f"a released noisy count must be a whole number. Got {released!r} instead.")
        d = counts[:, None] - self._known - np.arange(self.several.others + 1)
        weights = log_softmax(self.several.log_chances + self.noise.log_pmf(d), axis=1)
        given_b = self.several.intruder.log_prior_odds + log_ratio(self.noise, d)
        logs: Floats = logsumexp(weights + given_b, axis=1)[places].reshape(np.shape(released))
        return logs

    def ratio(self, released: ArrayLike) -> Floats:
        """Posterior over prior, R' (Eq. 13)."""
        return self.posterior(released) / float(self.several.intruder.prior)

    @cached_property
    def marginal_posterior(self) -> float:
        """The posterior averaged over the others and the released counts (Eq. 14)."""
        if self.several.others == 0:
            return self.alone.marginal_posterior
        posteriors, chances = self.posteriors()
        return float(chances @ posteriors)

    def posteriors(self) -> tuple[Floats, Floats]:
        """The posteriors of a target who has the characteristics, and the probability of each."""
        n, k = self.several.others, self._known
        if isinstance(self.noise, Geometric):  # the same posterior at k and below, and at k + 1 + n and above
            d, b = np.arange(n + 2), np.arange(n + 1)[:, None]
            mass = self.noise.pmf(d - 1 - b)
            mass[:, :1], mass[:, -1:] = self.noise.cdf(-1 - b), self.noise.tail(n - b)
            return self.posterior(k + d), self.several.chances @ mass
        reach = math.ceil(_REACH * math.sqrt(self.noise.variance)) + 1
        h = np.convolve(self.several.chances, self.noise.pmf(np.arange(-reach, reach + 1)))  # h(d - 1) is the mass at d
        with np.errstate(divide="ignore"):
            log_h = np.log(h)
        seen = np.flatnonzero(h[:-1])
        log_odds = log_h[seen] - log_h[seen + 1] + self.several.intruder.log_prior_odds
        return expit(log_odds), h[seen]

    @property
    def risk(self) -> float:
        """Average posterior over prior, R (Eq. 15)."""
        return self.marginal_posterior / float(self.several.intruder.prior)

    @cached_property
    def threshold(self) -> float:
        """The smallest released count at which the intruder claims the characteristics.

        Minus or plus infinity if they always or never do.
        """
        first = self.alone.threshold
        if math.isinf(first):  # what holds for every b holds for the average
            return first
        start = int(first)
        return start + bisect_left(range(self.several.others), True, key=lambda i: self._claims(start + i) > 0)

    @property
    def right_decision(self) -> float:
        """Probability that the intruder rightly claims the characteristics (Eq. 18, 19), averaged over the others."""
        return float(self.several.chances @ self._right(np.arange(self.several.others + 1)))

    def right_decision_given(self, others: int) -> float:
        """The same if this many of the others have the characteristics."""
        if not 0 <= others <= self.several.others:
            raise InputError(f"from 0 to {self.several.others} of the others have them. Got {others} instead.")
        return float(self._right(np.array([others]))[0])

    @cached_property
    def tie(self) -> float:
        """Probability of a released count at which both decisions cost the same; nothing is claimed there."""
        if math.isinf(self.threshold) or self._claims(int(self.threshold) - 1) != 0:
            return 0.0
        d = self.threshold - 1 - self._known
        return float(self.several.chances @ self.noise.pmf(d - 1 - np.arange(self.several.others + 1)))

    def as_json(self, released: int | None = None) -> dict[str, Any]:
        """The figures under their JSON keys; ``posterior`` and ``ratio`` where a released count is given."""
        return figures_as_json(self, released) | {
            "unknown": self.several.others,
            "share": text(Fraction(self.several.share or 0)),
        }

    @property
    def _known(self) -> int:
        return self.several.intruder.known

    def _right(self, others: Integers) -> Floats:
        if math.isinf(self.threshold):
            return np.full(len(others), 1.0 if self.threshold < 0 else 0.0)
        return self.noise.tail(self.threshold - self._known - 1 - others)

    def _claims(self, released: int) -> int:
        """Sign of h(d - 1) - q h(d), where q is the odds needed: 1 for a claim, 0 for a tie."""
        d, odds = released - self._known, self.several.intruder.odds_needed
        terms: defaultdict[int, int] = defaultdict(int)  # factor of f(m) by |m|
        for b, weight in enumerate(self.several.weights):
            terms[abs(d - 1 - b)] += odds.denominator * weight
            terms[abs(d - b)] -= odds.numerator * weight
        return _sign({_exponent(self.noise, m): factor for m, factor in terms.items() if factor})


def _exponent(noise: CountNoise, m: int) -> Fraction:
    """The exponent of f(m), without its sign."""
    return Fraction(m * m) / (2 * noise.variance) if isinstance(noise, DiscreteGaussian) else m * noise.z


def _sign(terms: dict[Fraction, int]) -> int:
    """Sign of the sum of factors, none of them 0, times exp(-exponent), with digits added until it is certain."""
    digits = 64
    while terms:
        digits *= 2
        with precision(digits):
            total = sum(factor * (-ball_of(exponent)).exp() for exponent, factor in terms.items())
            if total > 0 or total < 0:  # on the whole ball
                return 1 if total > 0 else -1
    return 0
