"""The tree that least squares runs on: the levels that are measured, and one more where parts share an exact total.

On an optimised spine the parts of a state are siblings with one exact total. The state is then a stage of its own above
its parts: nothing is measured there, but its answers are known.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import InputError
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.spine import Spine


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """One level of the tree.

    Attributes
    ----------
    level
        The level of the spine; None for units that exist only because their parts share exact answers.
    size
        The number of units.
    first_child, child
        The children of unit ``u`` are ``child[first_child[u] : first_child[u + 1]]`` in the next stage; without
        ``child`` they are these numbers themselves. The last stage has neither.
    times
        How many siblings each of these children stands for, if alike children are listed once; for variances only.
    """

    level: str | None
    size: int
    first_child: Integers | None = None
    child: Integers | None = None
    times: Integers | None = None

    def children(self, units: Integers) -> tuple[Integers, Integers]:
        """The children of some units, one unit after another, and how many each has."""
        assert self.first_child is not None
        number = np.diff(self.first_child)[units]
        ends = np.cumsum(number)
        place = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
            self.first_child[units] - ends + number, number
        )
        return (place if self.child is None else self.child[place]), number

    def repeats(self, units: Integers) -> Integers:
        """How many siblings each of the ``children`` of some units stands for."""
        child, number = self.children(units)
        if self.times is None:
            return np.ones(len(child), np.int64)
        assert self.first_child is not None
        starts = self.first_child[units] - np.cumsum(number) + number
        return self.times[np.arange(len(child)) + np.repeat(starts, number)]

    @cached_property
    def single(self) -> Bools:
        """Which units have exactly one child."""
        assert self.first_child is not None
        single: Bools = np.diff(self.first_child) == 1
        return single


def stages_of(spine: Spine, optimised: OptimisedSpine | None, *, shared: Collection[str]) -> list[Stage]:
    """The stages from the root to the leaves; ``shared`` is the level whose parts share exact answers, if any."""
    sizes = [spine.size(level) for level in spine.levels]
    stages = [
        Stage(level=level, size=size, first_child=first)
        for level, size, first in zip(spine.levels, sizes, [*spine.first_child, None], strict=True)
    ]
    if not shared:
        return stages
    assert optimised is not None
    for level in shared:
        if spine.depth(level) != 1 or level not in optimised.part_of:
            raise InputError(
                f"the optimised spine splits or rebuilds units of level {level!r}, so their exact answers cannot be "
                f"used. Drop the invariant, or use the standard spine."
            )
    (level,) = shared
    owner, owners = optimised.part_of[level], optimised.standard.size(level)
    order = np.argsort(owner, kind="stable").astype(np.int64)
    first = np.searchsorted(owner[order], np.arange(owners + 1)).astype(np.int64)
    root = Stage(level=spine.levels[0], size=1, first_child=np.array([0, owners]))
    together = Stage(level=None, size=owners, first_child=first, child=order)
    return [root, together, *stages[1:]]
