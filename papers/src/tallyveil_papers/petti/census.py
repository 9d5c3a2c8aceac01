"""The census that items of petti2020 are computed on: the real one, or a synthetic one of some size.

TopDown runs on the census of the setting. Sizes and samples take seconds even at the nation's size, so without an
extract of the real census they always run on a synthetic one of 132,404,766 persons: a smaller country has few states,
and no large county.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import final

from tallyveil.files import read_ipums_1940
from tallyveil.populations import Population, census_1940
from tallyveil.runs.progress import following_bytes
from tallyveil_papers.petti.releases import are_theirs
from tallyveil_papers.registry import Setting

LEVELS = {"state": "state", "county": "county", "enum_dist": "enumdist"}  # published spelling: ours
NATION = 132_404_766  # persons in 1940
NATION_SIZE = NATION  # of the synthetic census that sizes and samples are computed on
FEWEST_PERSONS = 1_000_000  # of a synthetic census that is compared; of smaller ones, invariants alone
FEWEST_FOR = {"epl": 10_000_000, "bias": 10_000_000}  # what hangs on how many units there are, and of which kinds
FEWEST_UNITS = 20  # of a level in a smaller country


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Census:
    """A census, whether it stands in for the real one, and whether the releases of it are those of the authors."""

    population: Population
    stand_in: bool
    their_releases: bool = False

    @property
    def persons(self) -> int:
        """The number of persons."""
        return self.population.people.total()

    @property
    def whole(self) -> bool:
        """Whether it has the nation's size, so that maxima and numbers of units can be compared."""
        return not self.stand_in or self.persons == NATION

    def has_persons(self, statistic: str) -> bool:
        """Whether it is large enough for a statistic to be compared."""
        return not self.stand_in or self.persons >= fewest_persons(statistic)

    def words(self) -> str:
        """Which census it is."""
        if self.stand_in:
            return f"synthetic census of {self.persons:,} persons"
        return "census of 1940, with the Bureau's releases" if self.their_releases else "census of 1940"

    def units(self, level: str) -> int:
        """The number of units of a level (published spelling)."""
        return self.population.people.spine.size(LEVELS[level])

    def has_enough(self, level: str) -> bool:
        """Whether a level has enough units to be compared: a smaller country may have one state."""
        return self.whole or self.units(level) >= FEWEST_UNITS


def fewest_persons(statistic: str) -> int:
    """The smallest synthetic census on which a statistic is compared: one where sound runs at seeds 1 to 3 pass."""
    return FEWEST_FOR.get(statistic, FEWEST_PERSONS)


def census_of(setting: Setting) -> Census:
    """The census of a setting, made or read once."""
    census = _census(setting.persons, setting.seed, None if setting.ipums is None else str(setting.ipums))
    return replace(census, their_releases=are_theirs(setting.mdf))


def nation_of(setting: Setting) -> Setting:
    """The setting at the nation's size; with an extract of the real census, the setting itself."""
    return setting if setting.ipums is not None else replace(setting, persons=NATION_SIZE)


@lru_cache(maxsize=2)  # the nation, and a smaller one
def _census(persons: int, seed: int, ipums: str | None) -> Census:
    if ipums is None:
        return Census(population=census_1940(persons=persons, seed=seed), stand_in=True)
    with following_bytes(Path(ipums)) as progress:
        read = read_ipums_1940(ipums, drop_orphans=True, progress=progress)  # as the Bureau did
    real = Population(people=read.people, facilities=read.facilities, housing=read.housing)
    return Census(population=real, stand_in=False)
