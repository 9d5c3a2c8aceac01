"""How often an intruder who uses the hierarchy is right: a sum over the released counts.

The evidence of the levels above does not depend on X1*, the released count of the target's unit. So a decision is a
threshold on X1* (kazan2022, Eq. 19; ``thresholds``), and the probability of a right decision is a sum over the other
released counts, and over the number of unknown others who have the characteristics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.risk.above.levels import AboveAndSiblings, log_values, matter
from tallyveil.risk.above.log_sums import log_product
from tallyveil.risk.above.released import CUTS, Released, all_released, drawn, likely, reach
from tallyveil.risk.above.thresholds import thresholds

if TYPE_CHECKING:
    from tallyveil.risk.above.hierarchy import Hierarchy

_LONGEST = 5.0  # approximate seconds for one decision; where a sum takes longer, released counts are drawn
_FEWEST = 30  # smallest number of sets of released counts that are drawn
_CELLS = 1 << 20  # pairs of released counts at a time
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
    """The decision figures, given the true counts of the unit and of the siblings at each level above.

    The counts of the units are those if none of the unknown others has the characteristics.
    """
    inner = NearestLevel(hierarchy, truths[0][1])
    for cut in (*CUTS, CUTS[0]):
        ways = [
            (likely(level.noise, count + inner.b, cut), likely(level.together, np.array([others]), cut))
            for level, (count, others) in zip(hierarchy.above, truths, strict=True)
        ]
        above, siblings, *upper = (len(values) for pair in ways for values, _ in pair)
        one_sum = inner.seconds(above, siblings)
        if exact := one_sum * math.prod(upper) <= _LONGEST:
            break
    if exact:
        rows = [inner.sums(*ways[0], pairs, weights) for weights, pairs in all_released(ways[1:], inner.chances, cut)]
    elif one_sum * draws <= _LONGEST:
        cases = drawn(ways[1:], inner.chances, draws, seed)
        rows = [inner.sums(*ways[0], pairs, weights) for weights, pairs in cases]
    else:
        draws = min(draws, max(_FEWEST, int(_LONGEST / inner.seconds())))
        rows = [inner.one(pairs, weights) for weights, pairs in drawn(ways, inner.chances, draws, seed)]
    table = np.array(rows)
    seen, right, gain, loss, tie = table.sum(axis=0).tolist()
    return Decision(
        right_decision=right,
        alone=inner.alone,
        gain=gain,
        loss=loss,
        tie=tie,
        truncation=max(0.0, 1 - seen),
        draws=None if exact else draws,
        **({} if exact else _standard_errors(draws * table[:, 1:])),
    )


class NearestLevel:
    """Sums over the released counts of the target's unit and of the nearest level, given the levels further up.

    ``b`` are the likely numbers of unknown others who have the characteristics, and ``chances`` their probabilities.
    Weights are those of each b.
    """

    def __init__(self, hierarchy: Hierarchy, others: int) -> None:
        self.hierarchy, self.near, self.several = hierarchy, hierarchy.above[0], hierarchy.several
        chances = self.several.chances
        tails = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]
        self.b = np.flatnonzero(np.minimum(*tails) > CUTS[0] / 2)
        self.chances = chances[self.b]
        exposed = self.several.against(hierarchy.noise)
        self.alone, self.alone_given = exposed.right_decision, [exposed.right_decision_given(int(b)) for b in self.b]
        noises = zip((self.near.noise, self.near.together), self.near.variances, strict=True)
        self.others = others
        wide = min(reach(noise, CUTS[0]) + 12 * math.sqrt(variance) for noise, variance in noises)
        self.low, self.high = max(0, math.floor(others - wide)), math.ceil(others + wide) + 1  # of the siblings

    def sums(self, above: Released, siblings: Released, upper: Sequence[AboveAndSiblings], weights: Floats) -> Floats:
        """The total probability of the sum, and the parts with a right claim, a gain, a loss and a tie."""
        total = np.zeros(5)
        if (some_b := np.flatnonzero(weights)).size < len(weights):  # b that was drawn: the counts that it makes likely
            seen = above[1][some_b].max(axis=0) > 0
            above = above[0][seen], above[1][:, seen]
        step = max(1, _CELLS // (len(above[0]) * (self.several.others + 1)))
        for start in range(0, len(siblings[0]), step):
            some = slice(start, start + step)
            found = self._thresholds(self._log_values(above[0], siblings[0][some], upper))
            for i in some_b.tolist():
                cells = self._figures(found, i)
                total += [weights[i] * float(above[1][i] @ cell @ siblings[1][0, some]) for cell in cells]
        return total

    def one(self, pairs: Sequence[AboveAndSiblings], weights: Floats) -> Floats:
        """The same given the released counts of all levels and b, whose weight alone is not 0."""
        (i,) = np.flatnonzero(weights).tolist()
        return float(weights[i]) * np.array(self._figures(self._thresholds(self.hierarchy.log_values(pairs)), i))

    def seconds(self, above: int = 0, siblings: int = 0) -> float:
        """Approximate seconds for one sum over this many released counts, or for one set of released counts if 0."""
        deviation = math.sqrt(min(self.near.variances))
        wide = self.high - self.low + 1 if above else int(10 * deviation + min(10 * deviation, self.others))
        unknown = self.several.others
        total = 3e-4 + above * siblings * (2e-7 + 6e-7 * unknown + 7.5e-11 * (unknown + 2) * wide)
        total += 1.5e-3 + 1e-5 * unknown if unknown else 0.0
        for level in self.hierarchy.above[1:]:
            wider = wide + 20 * math.sqrt(min(level.variances)) + 4
            total += 2e-4 + 2e-10 * wide * wider
            wide = int(wider)
        return total

    def _thresholds(self, log_values: Floats) -> tuple[Floats, Floats]:
        return thresholds(self.several, self.hierarchy.noise, log_values)

    def _figures(self, found: tuple[Floats, Floats], i: int) -> tuple[Floats, ...]:
        """The figures at each threshold if b is the i-th of the likely numbers."""
        claimed, or_tied = self.hierarchy.noise.tail(np.clip(found, -1e12, 1e12) - 1 - self.b[i])
        more = claimed - self.alone_given[i]
        return np.ones_like(more), claimed, np.maximum(more, 0), np.maximum(-more, 0), or_tied - claimed

    def _log_values(self, above: Integers, siblings: Integers, upper: Sequence[AboveAndSiblings]) -> Floats:
        """Log V(k) to log V(k + n) for each released count above (a row) and each of the siblings' sum (a column)."""
        k, n, near, rows = self.several.intruder.known, self.several.others + 1, self.near, len(above)
        while True:
            y = np.arange(self.low, self.high + 1)
            log_prior = near.log_prior(y)
            below, beyond = self.low > 0, True  # if the prior rules out all of these
            if not np.isneginf(log_prior).all():
                further = log_values(self.hierarchy.above[1:], k + self.low, k + self.high + n, upper)
                log_f = near.noise.log_pmf(np.arange(above[0] - k - n - self.high, above[-1] - k - self.low + 1))
                shifted = sliding_window_view(log_f, len(y))[:, ::-1]  # along y, from x2* - x1 at its smallest
                f = np.concatenate(
                    [shifted[n - m : n - m + rows] + further[m : m + len(y)] for m in range(n + 1)]
                )  # x1 = k + m
                log_g = near.together.log_pmf(np.arange(siblings[0] - self.high, siblings[-1] - self.low + 1))
                g = sliding_window_view(log_g, len(siblings))[::-1] + log_prior[:, None]
                sums = log_product(f, g)
                below = self.low > 0 and matter(f[:, :1] + g[:1], sums)
                beyond = matter(f[:, -1:] + g[-1:], sums)
            if not (below or beyond):
                return sums.reshape(n + 1, rows, -1)
            width = self.high - self.low + 1
            if width * ((n + 1) * rows + len(siblings)) > _WIDEST:
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
