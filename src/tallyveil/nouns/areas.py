"""Areas off the spine, such as places, districts and tribal areas. Each is made of whole leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import DataError
from tallyveil.nouns.codes import refuse_controls
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.spine import Spine


@dataclass(frozen=True, kw_only=True, eq=False)
class Areas:
    """Which area each leaf belongs to, if any.

    Examples
    --------
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="county")
    >>> towns = Areas.from_codes(spine, leaf=["3", "1"], area=["Troy", "Troy"])
    >>> towns.names, towns.of_leaf.tolist()
    (('Troy',), [0, -1, 0])
    >>> towns.tabulate(Counts.from_dense([[5], [7], [9]])).dense().tolist()
    [[14]]
    """

    spine: Spine
    names: tuple[str, ...]
    of_leaf: NDArray[np.int32]  # position in names, -1 for a leaf outside all areas

    def __post_init__(self) -> None:
        if len(self.of_leaf) != self.spine.size(self.spine.leaf):
            size = self.spine.size(self.spine.leaf)
            raise DataError(f"areas for {len(self.of_leaf):,} leaves, but the spine has {size:,}. Rebuild them.")
        refuse_controls("areas", self.names)
        self.of_leaf.flags.writeable = False

    @classmethod
    def from_codes(cls, spine: Spine, *, leaf: ArrayLike, area: ArrayLike) -> Areas:
        """Build the areas from pairs of a leaf code and an area name. A leaf may belong to only one area."""
        place = spine.locate(spine.leaf, leaf)
        names, number = np.unique(np.asarray(area, dtype=np.str_), return_inverse=True)
        of_leaf = np.full(spine.size(spine.leaf), -1, dtype=np.int32)
        of_leaf[place] = number
        clash = np.flatnonzero(of_leaf[place] != number)
        if len(clash):
            row = int(clash[0])
            code = bytes(spine.codes[-1][place[row]]).decode()
            raise DataError(
                f"row {row + 1:,}: {spine.leaf} {code!r} is in area {str(names[number[row]])!r} and in another. "
                f"Assign each {spine.leaf} to one area, or use one file for each kind of area."
            )
        return cls(spine=spine, names=tuple(map(str, names)), of_leaf=of_leaf)

    def sizes(self) -> Integers:
        """Return the number of leaves of each area."""
        return np.bincount(self.of_leaf[self.of_leaf >= 0], minlength=len(self.names))

    def tabulate(self, leaves: Counts) -> Counts:
        """Sum the counts of the leaves to counts of the areas."""
        order = np.argsort(self.of_leaf, kind="stable").astype(np.int64)
        bounds = np.searchsorted(self.of_leaf[order], np.arange(len(self.names) + 1)).astype(np.int64)
        return leaves.taken(order).summed(bounds)
