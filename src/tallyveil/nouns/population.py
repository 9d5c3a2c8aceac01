"""A synthetic census: people, and the public tables that accompany them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyveil._frozen import Frozen
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A synthetic population, which needs no protection, on its own spine.

    Attributes
    ----------
    people
        Counts of persons by unit and cell.
    facilities
        Households and group quarters by leaf and type, if the schema has such types.
    housing
        Vacant and occupied housing units by leaf.
    areas
        Areas off the spine, by kind (``"place"``, ``"tribal"``).
    """

    people: Histogram
    facilities: Facilities | None = None
    housing: Histogram | None = None
    areas: Mapping[str, Areas] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "areas", Frozen(self.areas))
