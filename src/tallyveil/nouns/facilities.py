"""Counts of households and group quarters by leaf and type, from which bounds on counts of people are derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from tallyveil.errors import DataError
from tallyveil.nouns.codes import refuse_controls
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.spine import Spine


@dataclass(frozen=True, kw_only=True, eq=False)
class Facilities:
    """The number of facilities of each type in each leaf. They are released unchanged (invariant).

    Attributes
    ----------
    attribute
        The attribute whose labels are the types, such as ``"hhgq"``.
    types
        The types, equal to the labels of the attribute and in the same order.
    leaves
        The counts, as a table of leaves by types.
    from_people
        Whether they were counted in the confidential file of the people. Otherwise they are public.

    Examples
    --------
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> built = Facilities.from_entries(
    ...     spine, attribute="hhgq", types=["household", "prison"], unit=[0, 1, 1], kind=[0, 0, 1], count=[40, 2, 1]
    ... )
    >>> built.at("town").dense().tolist()
    [[42, 1]]
    """

    spine: Spine
    attribute: str
    types: tuple[str, ...]
    leaves: Counts
    from_people: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        if len(set(self.types)) != len(self.types):
            raise DataError(f"facility types {', '.join(self.types)} contain a duplicate. Name each type once.")
        refuse_controls("facility types", self.types)
        size = self.spine.size(self.spine.leaf)
        if (self.leaves.units, self.leaves.cells) != (size, len(self.types)):
            raise DataError(
                f"facilities are {self.leaves.units:,} units x {self.leaves.cells} types, but the spine has {size:,} "
                f"leaves and there are {len(self.types)} types. Build the facilities on this spine."
            )

    @classmethod
    def from_entries(
        cls,
        spine: Spine,
        *,
        attribute: str,
        types: Sequence[str],
        unit: ArrayLike,
        kind: ArrayLike,
        count: ArrayLike,
    ) -> Facilities:
        """Build the facilities from entries in any order: the leaf position, type number and count of each."""
        names = tuple(types)
        leaves = Counts.from_entries(
            unit, kind, count, units=spine.size(spine.leaf), cells=len(names), cell_name="type"
        )
        return cls(spine=spine, attribute=attribute, types=names, leaves=leaves)

    def at(self, level: str) -> Counts:
        """Return the facilities of every unit of a level, by type."""
        return self.leaves.summed(self.spine.leaves_under(level))
