"""The noun of the optimised spine: a second spine on the same leaves, and the mapping between the two.

:mod:`tallyveil.nouns.spine_optimiser` builds it and explains why it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from tallyveil._arrays import Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisedSpine:
    """A spine to measure on, with the mapping to and from the standard spine.

    Attributes
    ----------
    spine
        The new spine. The code of a part is 0 (outside tribal areas) or 1 (inside), followed by the code of the
        standard unit. The code of a new block group is that of its part of a tract, followed by a number. Leaves keep
        their codes.
    standard
        The spine that it was made from.
    leaf
        For each leaf of the new spine, its position in the standard one.
    part_of
        For each level but the block groups, the position of the standard unit in which each new unit lies. A new block
        group may overlap several standard ones.
    shaped_by
        The inputs that the new units depend on: any of "places", "tribal areas" and "facilities".
    """

    spine: Spine
    standard: Spine
    leaf: Integers
    part_of: Mapping[str, Integers]
    shaped_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "part_of", Frozen(self.part_of))
        for array in (self.leaf, *self.part_of.values()):
            array.flags.writeable = False

    @classmethod
    def from_spines(cls, spine: Spine, standard: Spine, *, shaped_by: tuple[str, ...] = ()) -> OptimisedSpine:
        """Derive the mapping between two spines with the same levels and leaves, for example after reading them.

        >>> from tallyveil.nouns.areas import Areas
        >>> blocks = {"state": ["1"] * 3, "tract": ["1a"] * 3, "group": ["1a1"] * 3, "block": ["x", "y", "z"]}
        >>> standard = Spine.from_columns(blocks, root="us")
        >>> made = standard.optimised(place=Areas.from_codes(standard, leaf=["x", "z"], area=["Troy", "Troy"]))
        >>> OptimisedSpine.from_spines(made.spine, standard).leaf.tolist()
        [0, 2, 1]
        """
        if spine.levels != standard.levels or spine.size(spine.leaf) != standard.size(standard.leaf):
            raise DataError(
                f"the spine that was measured ({spine}) has other levels or leaves than the published one "
                f"({standard}). Give both spines of one release."
            )
        leaf = standard.locate(standard.leaf, spine.codes[-1])
        levels = (*spine.levels[:-2], spine.leaf)  # new block groups may overlap several standard ones
        return cls(
            spine=spine,
            standard=standard,
            leaf=leaf,
            part_of={level: _owners(spine, standard, level, leaf) for level in levels},
            shaped_by=shaped_by,
        )

    def __repr__(self) -> str:
        return f"OptimisedSpine({repr(self.spine).removeprefix('Spine(')}"

    def keeps(self, level: str) -> bool:
        """Whether the level has the standard units, possibly in another order: none is split or rebuilt."""
        return level in self.part_of and len(self.part_of[level]) == self.standard.size(level)

    def moved(self, histogram: Histogram) -> Histogram:
        """Move counts from the standard spine to the new one."""
        refuse_other_spine("the counts", histogram.spine, self.standard, "standard")
        return replace(histogram, spine=self.spine, leaves=histogram.leaves.taken(self.leaf))

    def restored(self, histogram: Histogram) -> Histogram:
        """Move counts from the new spine back to the standard one. The counts of each leaf do not change."""
        refuse_other_spine("the counts", histogram.spine, self.spine, "optimised")
        back = np.empty_like(self.leaf)
        back[self.leaf] = np.arange(len(back))
        return replace(histogram, spine=self.standard, leaves=histogram.leaves.taken(back))


def refuse_other_spine(what: str, theirs: Spine, mine: Spine, name: str) -> None:
    """Refuse a table that is not on this spine."""
    if theirs is not mine and theirs != mine:
        raise DataError(f"{what} are on another spine ({theirs}) than the {name} one ({mine}). Build them on that one.")


def _owners(spine: Spine, standard: Spine, level: str, leaf: Integers) -> Integers:
    """Return the standard unit in which each unit of a level lies."""
    bounds, mine = standard.leaves_under(level), spine.leaves_under(level)
    of_leaf = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[leaf]
    owner = of_leaf[mine[:-1]]
    wrong = np.flatnonzero(np.repeat(owner, np.diff(mine)) != of_leaf)
    if len(wrong):
        unit = bytes(spine.codes[spine.depth(level)][np.searchsorted(mine, wrong[0], side="right") - 1]).decode()
        raise DataError(
            f"{level} {unit!r} of the spine that was measured lies in two published ones. Give both spines of one "
            f"release."
        )
    return owner
