"""The share of the budget of each unit: that of its level, unless the only-child rule applies.

With that rule (2020), a unit with exactly one child takes over the share of the child, which would otherwise be spent
on measuring the same people twice. The child has no share and copies its parent. The shares along every path from the
root to a leaf sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.nouns.spine import Spine
from tallyveil.privacy.strategy import Strategy


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitShares:
    """The shares of the units of a level: unit ``u`` pays for ``spans[u]`` levels and has ``shares[spans[u]]``."""

    spans: NDArray[np.int8]
    shares: tuple[Fraction, ...]

    def of(self, unit: int) -> Fraction:
        """Return the share of one unit."""
        return self.shares[int(self.spans[unit])]


def unit_shares(strategy: Strategy, spine: Spine) -> dict[str, UnitShares]:
    """Return, for each level, the shares of its units.

    >>> spine = Spine.from_columns({"county": ["1", "2", "2"], "tract": ["1a", "2a", "2b"]}, root="state")
    >>> levels = {"state": "1/2", "county": "1/3", "tract": "1/6"}
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels=levels,
    ...                 queries={level: {"detailed": 1} for level in levels}, only_child=True)
    >>> county = unit_shares(plan, spine)["county"]
    >>> county.of(0), county.of(1)        # county 1 has one tract and pays for it
    (Fraction(1, 2), Fraction(1, 3))
    """
    spans = [np.ones(spine.size(level), dtype=np.int8) for level in spine.levels]
    if strategy.only_child:
        for depth in range(len(spine.levels) - 2, -1, -1):
            first_child = spine.first_child[depth]
            single = np.flatnonzero(np.diff(first_child) == 1)
            child = first_child[single]
            spans[depth][single] += spans[depth + 1][child]
            spans[depth + 1][child] = 0
    table = {}
    for depth, level in enumerate(spine.levels):
        below = [strategy.levels[name] for name in spine.levels[depth:]]
        sums = tuple(sum(below[:span], Fraction(0)) for span in range(len(below) + 1))
        spans[depth].flags.writeable = False
        table[level] = UnitShares(spans=spans[depth], shares=sums)
    return table
