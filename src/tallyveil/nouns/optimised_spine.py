"""The optimised spine of 2020: the same leaves under other units, chosen so that areas off the spine come out better.

Tribal areas and places cut across tracts and block groups, so their counts are sums of many noisy ones. The 2020 runs
therefore measured on units of their own [1]_:

1. every unit of the level below the root (a state) is split into its leaves inside tribal areas and those outside; the
   units below it, down to tracts, are cut along the same line;
2. in each part of a tract, leaves that agree in place, tribal area and the types of group quarters they have form a
   group, and the group, in the order of its leaves, is cut into new block groups.

Afterwards the leaves' counts go back to the standard spine, on which everything is published. Levels keep their names,
so strategies fit; they are known by position: the second is split, the last but one is rebuilt. That a unit with one
child takes over its share of the budget is the strategy's business (``only_child``).

**What it gives away.** The new spine is a function of its inputs, and it is not noised. Places and tribal areas are
geography, but facilities are data about people: whether a block has a prison decides which block group it is in. In
2020 they were invariants. So give facilities only if they are public; leave them out if they are not, or if what is
counted is not persons (the 2020 run on housing units did).

References
----------
.. [1] U.S. Census Bureau, Geographic Spines in the 2020 Census Disclosure Avoidance System, September 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil._frozen import Frozen
from tallyveil.errors import DataError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.codes import Codes
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine

FANOUT = 12  # what the 2020 run added to the root of a tract's number of blocks
MOST_TYPES = 62  # a pattern of types is kept in the bits of one number


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisedSpine:
    """A spine for measuring, with the way there and back.

    Attributes
    ----------
    spine
        The new spine. A part's code is 0 (outside tribal areas) or 1 (inside) and the standard unit's code; a new block
        group's is its tract part's code and a number; leaves keep their codes.
    standard
        The spine it was made from.
    leaf
        For each leaf of the new spine its position in the standard one.
    part_of
        For each level where every new unit lies inside one standard unit, the position of that unit: all levels but the
        block groups.
    shaped_by
        What the new units depend on: "places", "tribal areas", "facilities", or none of these.
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
        """The way between two spines with the same levels and the same leaves, as when they were read from files.

        >>> blocks = {"state": ["1"] * 3, "tract": ["1a"] * 3, "group": ["1a1"] * 3, "block": ["x", "y", "z"]}
        >>> standard = Spine.from_columns(blocks, root="us")
        >>> made = optimise_spine(standard, place=Areas.from_codes(standard, leaf=["x", "z"], area=["Troy", "Troy"]))
        >>> OptimisedSpine.from_spines(made.spine, standard).leaf.tolist()
        [0, 2, 1]
        """
        if spine.levels != standard.levels or spine.size(spine.leaf) != standard.size(standard.leaf):
            raise DataError(
                f"the spine that was measured ({spine}) has other levels or leaves than the published one "
                f"({standard}). Give both spines of one release."
            )
        leaf = standard.locate(standard.leaf, spine.codes[-1])
        levels = (*spine.levels[:-2], spine.leaf)  # block groups are made anew, and lie in no one unit
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
        """Whether the level has the standard units, in another order perhaps: none is split or rebuilt."""
        return level in self.part_of and len(self.part_of[level]) == self.standard.size(level)

    def moved(self, histogram: Histogram) -> Histogram:
        """Counts on the standard spine, put on the new one."""
        _refuse_other_spine("the counts", histogram.spine, self.standard, "standard")
        return replace(histogram, spine=self.spine, leaves=histogram.leaves.taken(self.leaf))

    def restored(self, histogram: Histogram) -> Histogram:
        """Counts on the new spine, put back on the standard one: each leaf's counts stay as they are."""
        _refuse_other_spine("the counts", histogram.spine, self.spine, "optimised")
        back = np.empty_like(self.leaf)
        back[self.leaf] = np.arange(len(back))
        return replace(histogram, spine=self.standard, leaves=histogram.leaves.taken(back))


def optimise_spine(
    spine: Spine,
    *,
    tribal: Areas | None = None,
    place: Areas | None = None,
    facilities: Facilities | None = None,
    household: str = "household",
) -> OptimisedSpine:
    """Build the optimised spine from public geography.

    Parameters
    ----------
    spine
        The standard spine, of four levels or more: a root, units to split, any levels between, block groups, leaves.
    tribal
        Tribal areas, along which the units below the root are split. None: nothing is split.
    place
        Places (or county subdivisions, where these matter more: the 2020 run took them in twelve states).
    facilities
        Facilities, if they are public. Leaves with other types of group quarters go to other block groups.
    household
        The type of facility that is no group quarters, and does not count.

    Examples
    --------
    >>> blocks = {"state": ["1"] * 4, "tract": ["1a"] * 4, "group": ["1a1"] * 4, "block": ["w", "x", "y", "z"]}
    >>> spine = Spine.from_columns(blocks, root="us")
    >>> tribal = Areas.from_codes(spine, leaf=["w"], area=["Pueblo"])
    >>> place = Areas.from_codes(spine, leaf=["x", "z"], area=["Troy", "Troy"])
    >>> made = optimise_spine(spine, tribal=tribal, place=place)
    >>> made
    OptimisedSpine(us 1, state 2, tract 2, group 3, block 4)
    >>> made.spine.labels("group"), made.spine.labels("block")
    (['01a1', '01a2', '11a1'], ['x', 'z', 'y', 'w'])
    >>> made.part_of["state"].tolist()
    [0, 0]
    """
    if len(spine.levels) < 4:
        raise DataError(
            f"a spine of {len(spine.levels)} levels ({', '.join(spine.levels)}) cannot be optimised. Give 4 or more: "
            f"a root, units to split, block groups and their leaves."
        )
    shaping = {"places": place, "tribal areas": tribal, "facilities": facilities}
    for what, given in shaping.items():
        if given is not None:
            _refuse_other_spine(what, given.spine, spine, "given")
    inside = np.zeros(spine.size(spine.leaf), dtype=np.bool_) if tribal is None else tribal.of_leaf >= 0
    split = np.concatenate([np.flatnonzero(~inside), np.flatnonzero(inside)])  # leaves, part after part
    levels = spine.levels[1:-2]
    unit, starts = _split_units(spine, levels, split, inside[split])

    kinds = [areas.of_leaf[split] for areas in (place, tribal) if areas is not None]
    if facilities is not None:
        kinds.append(_patterns(facilities, household)[split])
    order, group_starts = _new_groups(kinds, starts[-1], len(split))
    leaf = split[order]

    parts = [_flagged(spine.codes[1 + i][unit[i]], inside[split[starts[i]]]) for i in range(len(levels))]
    tract = np.searchsorted(starts[-1], group_starts, side="right") - 1
    codes = (spine.codes[0], *parts, _numbered(parts[-1], tract), spine.codes[-1][leaf])
    all_starts = [np.zeros(1, dtype=np.int64), *starts, group_starts, np.arange(len(leaf))]
    return OptimisedSpine(
        spine=Spine(levels=spine.levels, codes=codes, first_child=_first_children(all_starts, len(leaf))),
        standard=spine,
        leaf=leaf,
        part_of={
            spine.levels[0]: np.zeros(1, dtype=np.int64),
            **dict(zip(levels, unit, strict=True)),
            spine.leaf: leaf,
        },
        shaped_by=tuple(name for name, areas in shaping.items() if areas is not None),
    )


def _refuse_other_spine(what: str, theirs: Spine, mine: Spine, name: str) -> None:
    if theirs is not mine and theirs != mine:
        raise DataError(f"{what} are on another spine ({theirs}) than the {name} one ({mine}). Build them on that one.")


def _owners(spine: Spine, standard: Spine, level: str, leaf: Integers) -> Integers:
    """The standard unit that each unit of a level lies in."""
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


def _split_units(
    spine: Spine, levels: tuple[str, ...], split: Integers, inside: Bools
) -> tuple[list[Integers], list[Integers]]:
    """For each level the standard unit of every part, and where the part's leaves start in ``split``."""
    units, starts = [], []
    flag_changes = inside[1:] != inside[:-1]
    for level in levels:
        bounds = spine.leaves_under(level)
        of_leaf = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[split]
        start = np.append(0, 1 + np.flatnonzero((of_leaf[1:] != of_leaf[:-1]) | flag_changes))
        starts.append(start)
        units.append(of_leaf[start])
    return units, starts


def _patterns(facilities: Facilities, household: str) -> Integers:
    """For each leaf, which types of group quarters it has, as the bits of a number."""
    if household not in facilities.types:
        raise DataError(
            f"facility type {household!r}, which does not count, is not among the types "
            f"({', '.join(facilities.types)}). Name it with household=..."
        )
    if len(facilities.types) > MOST_TYPES:
        raise DataError(f"{len(facilities.types)} types of facilities are more than {MOST_TYPES}. Merge some.")
    bit = np.int64(1) << np.arange(len(facilities.types), dtype=np.int64)
    bit[facilities.types.index(household)] = 0
    sums = np.append(0, np.cumsum(bit[facilities.leaves.cell]))
    return np.diff(sums[facilities.leaves.start])


def _new_groups(kinds: list[NDArray[np.integer]], tract_starts: Integers, leaves: int) -> tuple[Integers, Integers]:
    """Leaves in the order of new block groups, and where each of these starts.

    The Bureau's cutoff for a tract of n blocks is int(sqrt(n) + 12), tested after a block is counted: groups have up to
    one block more. Block groups of a tract are numbered in the order of their first leaves.
    """
    sizes = np.diff(np.append(tract_starts, leaves))
    tract = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    most = (np.sqrt(sizes) + FANOUT).astype(np.int64) + 1
    by_kind = np.lexsort([*kinds, tract])  # stable: leaves of a kind stay in order
    new = np.zeros(leaves, dtype=np.bool_)
    new[0] = True
    for key in (*kinds, tract):
        arranged = key[by_kind]
        new[1:] |= arranged[1:] != arranged[:-1]
    kind_starts = np.flatnonzero(new)
    rank = np.arange(leaves) - np.repeat(kind_starts, np.diff(np.append(kind_starts, leaves)))
    starts = np.flatnonzero(rank % most[tract] == 0)  # by_kind does not move leaves between tracts

    runs = np.argsort(by_kind[starts], kind="stable")
    lengths = np.diff(np.append(starts, leaves))[runs]
    group_starts = np.cumsum(lengths) - lengths
    order = by_kind[np.arange(leaves) + np.repeat(starts[runs] - group_starts, lengths)]
    return order, group_starts


def _flagged(codes: Codes, inside: Bools) -> Codes:
    return np.char.add(np.where(inside, b"1", b"0"), codes)


def _numbered(parents: Codes, parent: Integers) -> Codes:
    """Codes of children: the parent's and a number from 1, of as many digits as the largest family needs."""
    first = np.searchsorted(parent, np.arange(len(parents)))
    rank = np.arange(len(parent)) - first[parent] + 1
    numbers = np.char.zfill(rank.astype("S"), len(str(rank.max())))
    return np.char.add(parents[parent], numbers)


def _first_children(starts: list[Integers], leaves: int) -> tuple[Integers, ...]:
    """Bounds of children, level by level, from the leaves at which units start."""
    return tuple(np.searchsorted(below, np.append(above, leaves)).astype(np.int64) for above, below in pairwise(starts))
