r"""The hierarchy: an intruder who also uses the counts of the units that contain the target's unit (kazan2022, 3.2).

The count of the target's unit, X1*, is released, and at each level above the count of the unit and the counts of the
siblings. **This intruder uses only the sum of the siblings' counts.** The posterior odds are those from the target's
own count times V(k + 1) / V(k), where V is the probability of the counts released above (``levels``). The paper samples
this posterior with a Gibbs sampler; here it is a sum. If the intruder does not know some others in the unit (a
``Several``), it is a sum over them too (``thresholds``). What they know of the siblings is the prior of an ``Above``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import expit, softmax

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.risk.above.decision import Decision, decide
from tallyveil.risk.above.levels import Above, AboveAndSiblings, log_values, terms
from tallyveil.risk.above.thresholds import log_likelihood_ratio, thresholds
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder
from tallyveil.risk.target.several import Several


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
    """An intruder, the noise of the target's unit, and the levels above it, nearest first.

    Examples
    --------
    The data of Table 5, with the paper's noise (erratum 8: 0.5033, and 12.94, 38.66, 29.79 % for the unit above):

    >>> from tallyveil.privacy import DiscreteGaussian
    >>> own, county = DiscreteGaussian(variance="5.04"), DiscreteGaussian(variance="2.0284")
    >>> above = Above(noise=county, siblings=[own] * 27, approximate=True)
    >>> two = Hierarchy(intruder=Intruder(prior="1/2"), noise=own, above=[above])
    >>> round(two.posterior(2, [(1, -1)]), 4)
    0.5033
    >>> (100 * two.above_posterior(2, [(1, -1)])[:3]).round(2).tolist()
    [12.94, 38.66, 29.79]
    """

    intruder: Intruder | Several
    noise: CountNoise
    above: Sequence[Above]

    def __post_init__(self) -> None:
        self.intruder.against(self.noise)  # refuses what is not noise
        if not self.above:
            raise InputError("a hierarchy needs at least one level above. Without any, use Intruder.against(noise).")
        object.__setattr__(self, "above", tuple(self.above))

    @cached_property
    def several(self) -> Several:
        """The intruder as one who does not know some others, even if these are nobody."""
        return self.intruder if isinstance(self.intruder, Several) else Several(intruder=self.intruder, others=0)

    def posterior(self, released: int, above: Sequence[AboveAndSiblings]) -> float:
        """Probability that the target has the characteristics (Eq. 25).

        ``above`` has the released count and the sum of the siblings' released counts at each level, nearest first.
        """
        return float(expit(self.log_odds(released, above)))

    def log_odds(self, released: int, above: Sequence[AboveAndSiblings]) -> float:
        """Logarithm of the posterior odds, which is exact where the posterior itself would round to 0 or 1."""
        self.intruder.against(self.noise).log_odds(released)  # refuses what is not a count
        d, intruder = np.array(released - self._known, dtype=np.float64), self.several.intruder
        added = log_likelihood_ratio(self.several, self.noise, d, self.log_values(above))
        return intruder.log_prior_odds + float(added)

    def evidence(self, above: Sequence[AboveAndSiblings]) -> float:
        """What the levels above add to the log odds of an intruder who knows everybody in the unit but the target."""
        if self.several.others:
            raise InputError(
                "with unknown others, what the levels above add depends on the count of the unit. Use log_odds()."
            )
        not_, has = self.log_values(above)
        return float(has - not_)

    def log_values(self, above: Sequence[AboveAndSiblings]) -> Floats:
        """Log probability of the counts released above, if the unit counts nobody but the known, one more, ..."""
        return log_values(self.above, self._known, self._known + self.several.others + 1, self._pairs(above))

    def threshold(self, above: Sequence[AboveAndSiblings]) -> float:
        """The smallest count of the target's unit at which the characteristics are claimed, given the counts above.

        Minus or plus infinity if they always or never are.
        """
        strict, _ = thresholds(self.several, self.noise, self.log_values(above))
        return self._known + float(strict)

    def above_posterior(self, released: int, above: Sequence[AboveAndSiblings]) -> Floats:
        """Probabilities that the nearest unit above has 0, 1, 2, ... people with the characteristics."""
        low, high, prior = self._known, self._known + self.several.others + 1, self.several.intruder.prior
        found = terms(self.above, low, high, self._pairs(above))
        unknown = np.convolve(self.several.chances, [1 - float(prior), float(prior)])  # people, the target included
        with np.errstate(divide="ignore"):
            own = softmax(np.log(unknown) + self.noise.log_pmf(released - np.arange(low, high + 1)) + found.log_values)
        shares = np.exp(found.each - found.log_values[:, None])
        return np.trim_zeros(np.concatenate([np.zeros(found.first), own @ shares]), "b")

    def decision(self, counts: Sequence[int], *, draws: int = 1000, seed: int = 0) -> Decision:
        """How often the target is rightly claimed, given the true counts of the units above, nearest first.

        With unknown others, figures are averages over how many of them have the characteristics, and ``counts`` are the
        true counts if none of them has: each count is as much higher as they are many.

        This is a sum over the released counts that leaves out a probability of 1e-12 per count, or of 1e-9 if the sum
        would take many seconds (``truncation``). If that is still too long, as for most hierarchies of four levels,
        ``draws`` sets of the upper levels' counts are drawn, with exact sums over those of the nearest level. If the
        noise is very wide, the counts of all levels are drawn, and fewer sets of them if each takes long.
        """
        return decide(self, self._truths(counts), draws=draws, seed=seed)

    @property
    def _known(self) -> int:
        return self.several.intruder.known

    def _pairs(self, above: Sequence[AboveAndSiblings]) -> list[AboveAndSiblings]:
        if len(above) != len(self.above):
            raise InputError(
                f"a count and the siblings' sum are needed at each of the {len(self.above)} levels above. "
                f"Got {len(above)}."
            )
        try:
            pairs = [(operator.index(count), operator.index(siblings)) for count, siblings in above]
        except TypeError:
            raise InputError(f"a released noisy count must be a whole number. Got {list(above)} instead.") from None
        for level, (_, siblings) in zip(self.above, pairs, strict=True):
            if siblings and not level.siblings:
                raise InputError(f"at a level without siblings, give 0 for their sum. Got {siblings} instead.")
        return pairs

    def _truths(self, counts: Sequence[int]) -> list[AboveAndSiblings]:
        """The true counts of the unit and of the siblings at each level."""
        if len(counts) != len(self.above):
            raise InputError(f"a true count is needed at each of the {len(self.above)} levels above. Got {counts!r}.")
        below, truths = self._known + 1, []
        for level, count in zip(self.above, counts, strict=True):
            if count > below and not level.siblings:
                raise InputError(
                    f"the unit above must have {below} with the characteristics, like the only unit below it. "
                    f"Got {count} instead."
                )
            if count < below:
                raise InputError(
                    f"the unit above must have {below} or more with the characteristics, like the unit below it. "
                    f"Got {count} instead."
                )
            truths.append((int(count), int(count) - below))
            below = int(count)
        return truths
