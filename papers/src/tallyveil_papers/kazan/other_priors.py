"""kazan2022, two levels with the priors of section 4.2 other than 1/2, for which section 4.3 prints nothing.

Every figure is confirmed by a plain sum, so that a prior that is ignored with the level above is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import PRIORS
from tallyveil_papers.kazan.levels import TABLE_5, two_levels
from tallyveil_papers.registry import Outcome, Setting

OTHER_PRIORS = tuple(p for p in PRIORS if p != "1/2")
COUNTS = (1, 10)  # xi_2
TILES = ((-3, 30), (1, -30), (1, 0), (5, -30))  # x2* and y1* of Figure 4: corners, and the middle
NEGLECTED = 1e-7  # points: probabilities that the sums leave out


def compute_other_priors(_: Setting) -> Outcome:
    """Posteriors, thresholds and decisions with the level above."""
    return Outcome(figures=[*_posteriors(), *_posteriors_above(), *_thresholds(), *_decisions()])


def _posteriors() -> Iterator[Figure]:
    """Eq. 25 for the data of Table 5 (Table 6)."""
    x1, x2, y = TABLE_5
    for p in OTHER_PRIORS:
        again = plain_sums.given(*TABLE_5, prior=float(Fraction(p)))[1].sum()
        yield Figure(name="P[X1 = 1 | D], %", at=f"exact;p={p}", again=100 * float(again),
                     ours=100 * two_levels(prior=p).posterior(x1, [(x2, y)]))  # fmt: skip


def _posteriors_above() -> Iterator[Figure]:
    """The posterior of the count above, which depends on the prior through X1 (Table 7)."""
    x1, x2, y = TABLE_5
    for p in OTHER_PRIORS:
        above = two_levels(prior=p).above_posterior(x1, [(x2, y)])
        again = plain_sums.given(*TABLE_5, prior=float(Fraction(p))).sum(axis=0)
        for i in (0, 1):
            yield Figure(name="P[X2 = x2 | D], %", at=f"x2={i};exact;p={p}", ours=100 * float(above[i]),
                         again=100 * float(again[i]))  # fmt: skip


def _thresholds() -> Iterator[Figure]:
    """The smallest X1* that is claimed (Figure 4)."""
    for p in OTHER_PRIORS:
        for x2, y in TILES:
            again = plain_sums.smallest_claimed(x2, y, prior=float(Fraction(p)))
            yield Figure(name="smallest X1* that is claimed", at=f"X2*={x2};Y1*={y};p={p}", again=again,
                         ours=two_levels(prior=p).threshold([(x2, y)]))  # fmt: skip


def _decisions() -> Iterator[Figure]:
    """Right decisions, gains and losses by the true count above (Figures 4 and 5)."""
    for p in OTHER_PRIORS:
        for count in COUNTS:
            found = two_levels(prior=p).decision([count])
            again = plain_sums.decided(count, prior=float(Fraction(p)))
            shares = (("P[right decision]", found.right_decision), ("gain", found.gain), ("loss", found.loss))
            for (name, ours), hand in zip(shares, again, strict=True):
                yield Figure(name=f"{name}, %", at=f"xi2={count};exact;p={p}", ours=100 * ours, again=100 * hand,
                             again_within=NEGLECTED)  # fmt: skip
