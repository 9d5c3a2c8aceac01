r"""Two levels: an intruder who also uses the count of the unit above and the sum of the siblings' (kazan2022, 3.2).

With X1 the target's unit, Y the siblings together and X2 = X1 + Y the unit above, each released with noise,

.. math:: P[x_1, y \mid D] \propto P[x_1]\, f_1(x_1^* - x_1)\, \pi(y)\, f_2(x_2^* - x_1 - y)\, g(y^* - y)

for y >= 0 (Eq. 22 to 25, with y for :math:`x_2 - x_1`). The paper samples this with Gibbs; it is a sum over y for each
of the two values of x1, and is summed here. The odds are those of the target's own count times W(k + 1)/W(k), W being
the sum over y of the last three factors, which depends on :math:`x_2^*` and :math:`y^*` alone; so the probability of a
right decision is a sum over released counts.

g is the noise of the siblings' sum, by convolution; ``approximate=True`` takes the paper's DG(d/(2 rho)) (Eq. 21).
:math:`\pi` is the prior on the siblings' true count: flat, as in the paper, or given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from tallyveil.errors import InputError
from tallyveil.privacy.distributions import DiscreteGaussian, Floats, Geometric, Noise
from tallyveil.privacy.sums import approximate_sum, sum_of_noise
from tallyveil.risk.intruder import Intruder

LogPrior = Callable[[NDArray[np.int64]], Floats]  # log weight of each count of the siblings; any constant may be added
_CUT = 1e-12  # probability of released counts that is left out of the sums over them
_TIE = 1e-10  # log odds nearer to 0 are taken as a tie


@final
@dataclass(frozen=True, kw_only=True)
class Decision:
    """How often an intruder who uses the hierarchy claims the characteristics of a target who has them.

    Attributes
    ----------
    right_decision
        Probability of the right claim (Eq. 18: strictly more probable than not).
    alone
        The same for an intruder who uses the target's unit alone.
    gain, loss
        Probability that the hierarchy turns a wrong decision into the right one, and the reverse.
    tie
        Probability that both answers are equally probable; counted as wrong.
    truncation
        Probability of the released counts that were left out of the sums.
    """

    right_decision: float
    alone: float
    gain: float
    loss: float
    tie: float
    truncation: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TwoLevels:
    """An intruder, the noise of the target's unit, of the unit above and of each sibling.

    Examples
    --------
    The data of Table 5, with the paper's noise (erratum 8: 0.5033, and 12.94, 38.66, 29.79 % for the unit above):

    >>> own, above = DiscreteGaussian(variance="5.04"), DiscreteGaussian(variance="2.0284")
    >>> two = TwoLevels(intruder=Intruder(prior="1/2"), noise=own, above=above, siblings=[own] * 27, approximate=True)
    >>> round(two.posterior(2, 1, -1), 4)
    0.5033
    >>> (100 * two.above_posterior(2, 1, -1)[:3]).round(2).tolist()
    [12.94, 38.66, 29.79]
    """

    intruder: Intruder
    noise: Geometric | DiscreteGaussian
    above: Geometric | DiscreteGaussian
    siblings: Sequence[Geometric | DiscreteGaussian]
    prior: LogPrior | None = None
    approximate: bool = False

    def __post_init__(self) -> None:
        if not self.siblings:
            raise InputError("two levels need at least one sibling. Without any, use Intruder.against(noise).")
        object.__setattr__(self, "siblings", tuple(self.siblings))
        if self.approximate and not all(isinstance(one, DiscreteGaussian) for one in self.siblings):
            raise InputError("the paper's approximation is for discrete Gaussian noise. Leave approximate out.")

    @cached_property
    def together(self) -> Noise:
        """The noise of the siblings' sum."""
        if self.approximate:
            return approximate_sum([one for one in self.siblings if isinstance(one, DiscreteGaussian)])
        return sum_of_noise(self.siblings)

    def posterior(self, released: int, above: int, siblings: int) -> float:
        """Probability that the target has the characteristics, given the three released counts (Eq. 25)."""
        own = float(self.intruder.against(self.noise).log_odds(released))
        return float(expit(own + self._log_weight_ratio(np.array([above]), siblings)[0]))

    def above_posterior(self, released: int, above: int, siblings: int) -> Floats:
        """Probabilities that the unit above has 0, 1, 2, ... people with the characteristics."""
        k, p = self.intruder.known, self.posterior(released, above, siblings)
        parts = []
        for x1, weight in ((k, 1 - p), (k + 1, p)):
            y, logs = self._log_terms(x1, above, siblings)
            parts.append((x1 + y, weight * np.exp(logs - logsumexp(logs))))
        whole = np.zeros(max(int(x[-1]) for x, _ in parts) + 1)
        for x, probability in parts:
            whole[x] += probability
        return np.trim_zeros(whole, "b")

    def decision(self, above_count: int) -> Decision:
        """How often the target is rightly claimed, the unit above having so many people with the characteristics.

        Exact sums over what may be released; those beyond a probability of 1e-12 are left out.
        """
        k = self.intruder.known
        others = above_count - k - 1
        if others < 0:
            raise InputError(f"the unit above has {k + 1} or more with the characteristics. Got {above_count} instead.")
        above, mass_above = _likely(self.above, above_count)
        siblings, mass_siblings = _likely(self.together, others)
        own, mass_own = _likely(self.noise, k + 1)
        log_own = self.intruder.against(self.noise).log_odds(own)
        alone = log_own > 0
        totals = dict.fromkeys(("right", "gain", "loss", "tie"), 0.0)
        for count, mass in zip(siblings, mass_siblings, strict=True):
            odds = log_own[:, None] + self._log_weight_ratio(above, int(count))
            claims, tie = odds > _TIE, np.abs(odds) <= _TIE
            probability = mass * mass_own[:, None] * mass_above
            totals["right"] += float(probability[claims].sum())
            totals["tie"] += float(probability[tie].sum())
            totals["gain"] += float(probability[claims & ~alone[:, None]].sum())
            totals["loss"] += float(probability[~claims & alone[:, None]].sum())
        seen = float(mass_own.sum() * mass_above.sum() * mass_siblings.sum())
        return Decision(
            right_decision=totals["right"],
            alone=float(mass_own[alone].sum()),
            gain=totals["gain"],
            loss=totals["loss"],
            tie=totals["tie"],
            truncation=max(0.0, 1 - seen),
        )

    def _log_weight_ratio(self, above: NDArray[np.int64], siblings: int) -> Floats:
        """Log W(k + 1) / W(k) for each released count above: what the hierarchy adds to the log odds."""
        k = self.intruder.known
        y, log_prior = self._counts(siblings)
        base = log_prior + self.together.log_pmf(siblings - y)
        has, not_ = (logsumexp(base + self.above.log_pmf(above[:, None] - x1 - y), axis=1) for x1 in (k + 1, k))
        return np.asarray(has - not_)

    def _log_terms(self, x1: int, above: int, siblings: int) -> tuple[NDArray[np.int64], Floats]:
        y, log_prior = self._counts(siblings)
        return y, log_prior + self.together.log_pmf(siblings - y) + self.above.log_pmf(above - x1 - y)

    def _counts(self, siblings: int) -> tuple[NDArray[np.int64], Floats]:
        """True counts of the siblings that matter, and the logarithm of their prior."""
        reach = math.ceil(39 * math.sqrt(self.together.actual_variance())) + 2
        y = np.arange(max(0, siblings - reach), max(0, siblings) + reach + 1)
        return y, np.zeros(len(y)) if self.prior is None else np.asarray(self.prior(y), dtype=np.float64)


def _likely(noise: Noise, count: int) -> tuple[NDArray[np.int64], Floats]:
    """Released counts that leave out a probability of ``_CUT`` in all, and the probability of each."""
    reach = int(-noise.quantile(_CUT / 2))
    eta = np.arange(-reach, reach + 1)
    return count + eta, noise.pmf(eta)
