"""How often an intruder who uses the hierarchy is right: a sum over the released counts.

The evidence of the levels above does not depend on X1*, the released count of the target's unit. So a decision is a
threshold on X1* (kazan2022, Eq. 19), and the probability of a right decision is a sum over the other released counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Noise
from tallyveil.risk.above.levels import AboveAndSiblings, log_values, matter
from tallyveil.risk.above.log_sums import log_product

if TYPE_CHECKING:
    from tallyveil.risk.above.hierarchy import Hierarchy

Released = tuple[Integers, Floats]  # counts that may be released, and the probability of each
_CUTS = 1e-12, 1e-9  # probability of released counts that is left out of each sum; the second is for long sums
_TIE = 1e-10  # log odds this close to those needed count as a tie: sums of floats cannot tell more
_LONGEST = 5.0  # approximate seconds for one decision; where a sum takes longer, released counts are drawn
_FEWEST = 30  # smallest number of sets of released counts that are drawn
_CELLS = 1 << 20  # pairs of released counts at a time
_LARGEST = 1 << 53  # true count above
_WIDEST = 1 << 26  # largest range of true counts, times the number of released ones


@final
@dataclass(frozen=True, kw_only=True)
class Decision:
    """How often an intruder who uses the hierarchy claims the characteristics of a target who has them.

    Attributes
    ----------
    right_decision
        Probability of the right claim (Eq. 18: strictly more probable than not, or than the costs require).
    alone
        The same for an intruder who uses the target's unit alone.
    gain, loss
        Probability that the hierarchy turns a wrong decision into the right one, and the reverse.
    tie
        Probability that the odds equal those needed to within a factor of 1 + 1e-10, which floats cannot distinguish
        from a tie. It counts as wrong, so ``right_decision`` is too small by at most this much.
    truncation
        Probability of the released counts that were left out of the sums.
    draws
        The number of sets of released counts that were drawn, if a sum over all would take too long; otherwise None.
    right_decision_se, gain_se, loss_se, tie_se
        Standard errors of figures that were drawn; None for sums. If every draw gave the same figure, the standard
        error is 1 over the number of draws, since rarer outcomes would not have been seen.
    """

    right_decision: float
    alone: float
    gain: float
    loss: float
    tie: float
    truncation: float
    draws: int | None = None
    right_decision_se: float | None = None
    gain_se: float | None = None
    loss_se: float | None = None
    tie_se: float | None = None


def decide(hierarchy: Hierarchy, truths: Sequence[AboveAndSiblings], *, draws: int, seed: int) -> Decision:
    """The decision figures, given the true counts of the unit and of the siblings at each level above."""
    inner = NearestLevel(hierarchy, truths[0][1])
    for cut in (*_CUTS, _CUTS[0]):
        ways = [
            (_likely(level.noise, count, cut), _likely(level.together, others, cut))
            for level, (count, others) in zip(hierarchy.above, truths, strict=True)
        ]
        above, siblings, *upper = (len(values) for pair in ways for values, _ in pair)
        one_sum = inner.seconds(above, siblings)
        if exact := one_sum * math.prod(upper) <= _LONGEST:
            break
    if exact:
        cases = ((weight, *inner.sums(*ways[0], pairs)) for weight, pairs in _all(ways[1:], cut))
    elif one_sum * draws <= _LONGEST:
        cases = ((weight, *inner.sums(*ways[0], pairs)) for weight, pairs in _drawn(ways[1:], draws, seed))
    else:
        draws = min(draws, max(_FEWEST, int(_LONGEST / inner.seconds())))
        cases = ((weight, *inner.one(pairs)) for weight, pairs in _drawn(ways, draws, seed))
    table = np.array(list(cases))
    seen, right, gain, loss, tie = (table[:, 0] @ table[:, 1:]).tolist()
    return Decision(
        right_decision=right,
        alone=inner.alone,
        gain=gain,
        loss=loss,
        tie=tie,
        truncation=max(0.0, 1 - seen),
        draws=None if exact else draws,
        **({} if exact else _standard_errors(table[:, 2:])),
    )


class NearestLevel:
    """Sums over the released counts of the target's unit and of the nearest level, given the levels further up."""

    def __init__(self, hierarchy: Hierarchy, others: int) -> None:
        self.hierarchy, self.near, self.k = hierarchy, hierarchy.above[0], hierarchy.intruder.known
        self.alone = hierarchy.intruder.against(hierarchy.noise).right_decision
        noises = zip((self.near.noise, self.near.together), self.near.variances, strict=True)
        self.others = others
        reach = min(_reach(noise, _CUTS[0]) + 12 * math.sqrt(variance) for noise, variance in noises)
        self.low, self.high = max(0, math.floor(others - reach)), math.ceil(others + reach) + 1  # of the siblings

    def sums(self, above: Released, siblings: Released, upper: Sequence[AboveAndSiblings]) -> tuple[float, ...]:
        """The total probability of the sum, and the parts with a right claim, a gain, a loss and a tie."""
        total = np.zeros(5)
        step = max(1, _CELLS // len(above[0]))
        for start in range(0, len(siblings[0]), step):
            some = slice(start, start + step)
            cells = self._figures(self._evidence(above[0], siblings[0][some], upper))
            total += [float(above[1] @ cell @ siblings[1][some]) for cell in cells]
        return tuple(total.tolist())

    def one(self, pairs: Sequence[AboveAndSiblings]) -> tuple[float, ...]:
        """The same given the released counts of all levels."""
        return tuple(float(cell) for cell in self._figures(np.array(self.hierarchy.evidence(pairs))))

    def seconds(self, above: int = 0, siblings: int = 0) -> float:
        """Approximate seconds for one sum over this many released counts, or for one set of released counts if 0."""
        deviation = math.sqrt(min(self.near.variances))
        wide = self.high - self.low + 1 if above else int(10 * deviation + min(10 * deviation, self.others))
        total = 3e-4 + above * siblings * (2e-7 + 1.5e-10 * wide)
        for level in self.hierarchy.above[1:]:
            wider = wide + 20 * math.sqrt(min(level.variances)) + 4
            total += 2e-4 + 2e-10 * wide * wider
            wide = int(wider)
        return total

    def _figures(self, evidence: Floats) -> tuple[Floats, ...]:
        strict, lenient = thresholds(self.hierarchy, evidence)
        claimed, or_tied = self.hierarchy.noise.tail(np.clip([strict, lenient], -1e12, 1e12) - 1)
        more = claimed - self.alone
        return np.ones_like(more), claimed, np.maximum(more, 0), np.maximum(-more, 0), or_tied - claimed

    def _evidence(self, above: Integers, siblings: Integers, upper: Sequence[AboveAndSiblings]) -> Floats:
        """Log V(k + 1) / V(k) for each released count above (a row) and each of the siblings' sum (a column)."""
        k, near, rows = self.k, self.near, len(above)
        while True:
            y = np.arange(self.low, self.high + 1)
            log_prior = near.log_prior(y)
            below, beyond = self.low > 0, True  # if the prior rules out all of these
            if not np.isneginf(log_prior).all():
                further = log_values(self.hierarchy.above[1:], k + self.low, k + self.high + 1, upper)
                log_f = near.noise.log_pmf(np.arange(above[0] - k - 1 - self.high, above[-1] - k - self.low + 1))
                shifted = sliding_window_view(log_f, len(y))[:, ::-1]  # along y, from x2* - x1 at its smallest
                f = np.concatenate([shifted[1:] + further[:-1], shifted[:-1] + further[1:]])  # x1 = k, then k + 1
                log_g = near.together.log_pmf(np.arange(siblings[0] - self.high, siblings[-1] - self.low + 1))
                g = sliding_window_view(log_g, len(siblings))[::-1] + log_prior[:, None]
                sums = log_product(f, g)
                below = self.low > 0 and matter(f[:, :1] + g[:1], sums)
                beyond = matter(f[:, -1:] + g[-1:], sums)
            if not (below or beyond):
                return sums[rows:] - sums[:rows]
            width = self.high - self.low + 1
            if width * (2 * rows + len(siblings)) > _WIDEST:
                raise InputError(
                    f"the prior on the siblings is too far from their true count, {self.others}. Check the prior."
                )
            self.low, self.high = max(0, self.low - below * width), self.high + beyond * width


def _standard_errors(drawn: Floats) -> dict[str, float]:
    """Standard errors of the means of figures (columns) over the draws; figures lie between 0 and 1."""
    n = len(drawn)
    spread = drawn.std(axis=0, ddof=1) / math.sqrt(n)
    errors = np.where(np.ptp(drawn, axis=0) > 0, spread, 1 / n)
    return dict(zip(("right_decision_se", "gain_se", "loss_se", "tie_se"), errors.tolist(), strict=True))


def thresholds(hierarchy: Hierarchy, evidence: Floats) -> tuple[Floats, Floats]:
    """The smallest X1* - k that is claimed given the evidence above: strictly, and with ties as claims."""
    odds, noise = hierarchy.intruder.odds_needed, hierarchy.noise
    needed = math.log(odds.numerator) - math.log(odds.denominator) - evidence
    if isinstance(noise, DiscreteGaussian):  # log odds of (2 d - 1) / 2 s
        s = float(noise.variance)
        return np.floor(s * (needed + _TIE) + 0.5) + 1, np.ceil(s * (needed - _TIE) + 0.5)
    z, (always, from_one, never) = float(noise.z), (-np.inf, 1.0, np.inf)  # -z for d <= 0, z from 1 on
    strict = np.where(needed + _TIE < -z, always, np.where(needed + _TIE < z, from_one, never))
    return strict, np.where(needed - _TIE <= -z, always, np.where(needed - _TIE <= z, from_one, never))


@lru_cache(maxsize=256)
def _reach(noise: Noise, cut: float) -> int:
    return int(-noise.quantile(cut / 2))


def _likely(noise: Noise, count: int, cut: float) -> Released:
    """The likely released counts, which leave out a total probability of ``cut``, and the probability of each."""
    reach = _reach(noise, cut)
    if reach > _WIDEST or abs(count) > _LARGEST:
        raise InputError(
            f"a count of {count:,} with noise of up to {reach:,} is beyond what can be summed. Use a count up to "
            f"{_LARGEST:,} and a larger budget."
        )
    eta = np.arange(-reach, reach + 1)
    return count + eta, noise.pmf(eta)


def _all(ways: Sequence[tuple[Released, Released]], cut: float) -> Iterator[tuple[float, list[AboveAndSiblings]]]:
    """All sets of released counts with their probabilities, except the least probable, which sum to ``cut``."""
    if not ways:
        yield 1.0, []
        return
    (above, siblings), upper = ways[0], ways[1:]
    weights = np.multiply.outer(above[1], siblings[1])
    order = np.sort(weights, axis=None)
    least = order[np.searchsorted(np.cumsum(order), cut)]
    for i, j in np.argwhere(weights >= least):
        for weight, pairs in _all(upper, cut):
            yield float(weights[i, j]) * weight, [(int(above[0][i]), int(siblings[0][j])), *pairs]


def _drawn(
    ways: Sequence[tuple[Released, Released]], draws: int, seed: int
) -> Iterator[tuple[float, list[AboveAndSiblings]]]:
    """Random sets of released counts, with the weight of each."""
    rng = np.random.default_rng(seed)
    counts = [[rng.choice(values, draws, p=mass / mass.sum()) for values, mass in pair] for pair in ways]
    weight = math.prod(float(mass.sum()) for pair in ways for _, mass in pair) / draws
    for n in range(draws):
        yield weight, [(int(above[n]), int(siblings[n])) for above, siblings in counts]
