"""The optimised spine of 2020: the same leaves under different units, so that areas off the spine are more accurate.

Tribal areas and places cut across tracts and block groups, so their counts are sums of many noisy counts. The 2020 runs
therefore measured on a spine of their own [1]_:

1. Every unit of the level below the root (a state) is split into its leaves inside tribal areas and its leaves outside
   them. The units below it, down to tracts, are split in the same way.
2. In each part of a tract, the leaves with the same place, tribal area and types of group quarters form a group. Each
   group is cut, in the order of its leaves, into new block groups.

Afterwards the counts of the leaves are put back on the standard spine, on which everything is published. Levels keep
their names, so strategies still fit. Levels are recognised by their position: the second is split, and the last but one
is rebuilt. Whether a unit with one child takes over that child's share is part of the strategy (``only_child``).

**What it reveals.** The new spine is a function of its inputs, without noise. Places and tribal areas are geography,
but facilities are data about people: whether a block has a prison decides which block group it is in. In 2020 they were
invariants. Pass facilities only if they are public. Omit them if they are not, or if the counts are not of persons (as
in the 2020 run on housing units).

References
----------
.. [1] U.S. Census Bureau, Geographic Spines in the 2020 Census Disclosure Avoidance System, September 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Integers
from tallyveil.errors import DataError, InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.codes import Codes
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine, refuse_other_spine
from tallyveil.nouns.spine import Spine

FANOUT = 12  # the 2020 run added this to the square root of a tract's number of blocks
MOST_TYPES = 62  # a pattern of types is stored in the bits of one integer


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
        The standard spine, with at least four levels: a root, units to split, any levels between, block groups, leaves.
    tribal
        Tribal areas, along which the units below the root are split. If None, no unit is split.
    place
        Places, or county subdivisions where these matter more (the 2020 run used them in twelve states).
    facilities
        Facilities, if they are public. Leaves with different types of group quarters go to different block groups.
    household
        The type of facility that is not group quarters, and is ignored.

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
    shaping = {"places": place, "tribal areas": tribal, "facilities": facilities}
    _check_inputs(spine, shaping)
    inside = np.zeros(spine.size(spine.leaf), dtype=np.bool_) if tribal is None else tribal.of_leaf >= 0
    split = np.concatenate([np.flatnonzero(~inside), np.flatnonzero(inside)])  # leaves, part after part
    kinds = [areas.of_leaf[split] for areas in (place, tribal) if areas is not None]
    if facilities is not None and facilities.from_people:
        raise InputError("facilities counted in the file of the people are not public, and cannot shape a spine.")
    if facilities is not None:
        kinds.append(_quarters_patterns(facilities, household)[split])

    levels = spine.levels[1:-2]
    unit, starts = _split_units(spine, levels, split, inside[split])
    order, group_starts = _new_groups(kinds, starts[-1], len(split))
    leaf = split[order]
    parts = [_part_codes(spine.codes[1 + i][unit[i]], inside[split[starts[i]]]) for i in range(len(levels))]
    return OptimisedSpine(
        spine=_assembled(spine, parts, starts, group_starts, leaf),
        standard=spine,
        leaf=leaf,
        part_of={spine.levels[0]: np.zeros(1, np.int64), **dict(zip(levels, unit, strict=True)), spine.leaf: leaf},
        shaped_by=tuple(name for name, table in shaping.items() if table is not None),
    )


def _check_inputs(spine: Spine, shaping: Mapping[str, Areas | Facilities | None]) -> None:
    if len(spine.levels) < 4:
        raise DataError(
            f"a spine of {len(spine.levels)} levels ({', '.join(spine.levels)}) cannot be optimised. Give at least "
            f"4: a root, units to split, block groups and their leaves."
        )
    for what, table in shaping.items():
        if table is not None:
            refuse_other_spine(what, table.spine, spine, "given")


def _split_units(
    spine: Spine, levels: tuple[str, ...], split: Integers, inside: Bools
) -> tuple[list[Integers], list[Integers]]:
    """Return, for each level, the standard unit of every part and where the leaves of the part start in ``split``."""
    units, starts = [], []
    flag_changes = inside[1:] != inside[:-1]
    for level in levels:
        bounds = spine.leaves_under(level)
        of_leaf = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[split]
        start = np.append(0, 1 + np.flatnonzero((of_leaf[1:] != of_leaf[:-1]) | flag_changes))
        starts.append(start)
        units.append(of_leaf[start])
    return units, starts


def _quarters_patterns(facilities: Facilities, household: str) -> Integers:
    """Return the types of group quarters that each leaf has, as the bits of an integer."""
    if household not in facilities.types:
        raise DataError(
            f"household type {household!r} is not among the types of facilities "
            f"({', '.join(facilities.types)}). Name it with household=..."
        )
    if len(facilities.types) > MOST_TYPES:
        raise DataError(f"{len(facilities.types)} types of facilities exceed the limit of {MOST_TYPES}. Merge some.")
    bit = np.int64(1) << np.arange(len(facilities.types), dtype=np.int64)
    bit[facilities.types.index(household)] = 0
    sums = np.append(0, np.cumsum(bit[facilities.leaves.cell]))
    return np.diff(sums[facilities.leaves.start])


def _new_groups(kinds: list[NDArray[np.integer]], tract_starts: Integers, leaves: int) -> tuple[Integers, Integers]:
    """Return the leaves in the order of the new block groups, and where each block group starts.

    The Bureau's cutoff for a tract of n blocks is int(sqrt(n) + 12). It is tested after a block is counted, so a block
    group may have one block more. The block groups of a tract are numbered in the order of their first leaves.
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


def _assembled(
    standard: Spine, parts: list[Codes], starts: list[Integers], group_starts: Integers, leaf: Integers
) -> Spine:
    """Build the new spine from the codes of its parts and the leaves at which parts and block groups start."""
    tract = np.searchsorted(starts[-1], group_starts, side="right") - 1
    codes = (standard.codes[0], *parts, _numbered_codes(parts[-1], tract), standard.codes[-1][leaf])
    all_starts = [np.zeros(1, dtype=np.int64), *starts, group_starts, np.arange(len(leaf))]
    first_child = tuple(
        np.searchsorted(below, np.append(above, len(leaf))).astype(np.int64) for above, below in pairwise(all_starts)
    )
    return Spine(levels=standard.levels, codes=codes, first_child=first_child)


def _part_codes(codes: Codes, inside: Bools) -> Codes:
    return np.char.add(np.where(inside, b"1", b"0"), codes)


def _numbered_codes(parents: Codes, parent: Integers) -> Codes:
    """Return the codes of children: the parent's code and a number from 1, with as many digits as the largest needs."""
    first = np.searchsorted(parent, np.arange(len(parents)))
    rank = np.arange(len(parent)) - first[parent] + 1
    numbers = np.char.zfill(rank.astype("S"), len(str(rank.max())))
    return np.char.add(parents[parent], numbers)
