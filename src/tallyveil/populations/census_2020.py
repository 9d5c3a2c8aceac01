"""A synthetic census of 2020: people, housing, group quarters, places and tribal areas on six levels.

Everything is drawn as counts from a seed: first the ground (units, and persons in households by block), then housing
and group quarters, then the attributes of the persons. Nobody in it exists, and no code names a real place.
docs/populations_2020.md says to what it is fitted, and how well.
"""

from __future__ import annotations

import numpy as np
from numpy.random import PCG64, Generator

from tallyveil._arrays import Integers
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.census_schemas import PERSONS_2020, TYPES_2020, UNITS_2020
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.spine import Spine
from tallyveil.populations.arguments import whole_number
from tallyveil.populations.census_2020_ground import NATION, UNITS, make_ground
from tallyveil.populations.census_2020_people import Residents, segregate, settle

# Group quarters by type, from correctional to other_noninstitutional.
QUARTERS_SHARE = np.array([0.594, 0.040, 0.485, 0.027, 0.840, 0.100, 0.400]) / 100  # of persons in 2020; 2.5% in total
QUARTERS_SIZE = np.array([350.0, 13.0, 80.0, 25.0, 250.0, 220.0, 9.0])  # persons in a block that has the type
FACILITY_SIZE = np.array([210.0, 10.0, 60.0, 20.0, 75.0, 60.0, 7.0])  # persons in a facility
QUARTERS_SPREAD = 1.0  # standard deviation of the logarithms of sizes
LARGEST_QUARTERS = 20_000  # persons of a type in a block; the Bureau's bound is 99,999 per facility
QUARTERS_AT_MOST = 4  # at most a quarter of all persons, so that a village is not all prison

OCCUPIED = 0.3816  # share of persons besides the first of a block who begin a household: 2.55 persons per unit in 2020
OCCUPIED_CONCENTRATION = 60.0  # spread of household size between block groups
VACANT = 0.09  # vacant units per occupied unit; with EMPTY_VACANT, 9.7% of units are vacant, as in 2020
EMPTY_VACANT = 1.0  # vacant units per block without households
VACANT_SHAPE = 0.8  # spread between block groups: a few have most vacant units (seasonal homes)

PLACE_BLOCKS, PLACE_SPREAD = 45.0, 1.6  # median blocks in a place: about 32,000 places in the nation, as in 2020
GAP_BLOCKS = 26.0  # median blocks between places
PLACE_HOLES = 0.05  # share of the blocks inside a place that do not belong to it
TRIBAL_AREAS = 300  # in the nation
TRIBAL_STATES = 1 / 5  # share of the states that have tribal areas
TRIBAL_BLOCKS, TRIBAL_SPREAD = 60.0, 0.8  # median blocks in a tribal area


def census_2020(*, persons: int = NATION, seed: int) -> Population:
    """Generate a synthetic 2020 census of any size, from one person to the nation.

    A smaller population has fewer blocks, block groups, tracts, counties and states, each of the usual size.

    Parameters
    ----------
    persons
        The number of persons. The total is exact.
    seed
        The same seed gives the same population.

    Examples
    --------
    >>> village = census_2020(persons=2_000, seed=1)
    >>> village.people.spine
    Spine(us 1, state 1, county 1, tract 1, block_group 1, block 49)
    >>> village.people.total()
    2000
    """
    number = whole_number("persons", persons, least=1, most=NATION)
    key = whole_number("seed", seed, least=0)
    ground_rng, quarters_rng, housing_rng, areas_rng, people_rng = Generator(PCG64(key)).spawn(5)
    ground = make_ground(ground_rng, number)
    spine = ground.spine
    quarters = _quarters(quarters_rng, number, spine.size("block"))
    in_households = ground.deal(ground_rng, number - int(quarters[2].sum()))
    occupied, vacant = _housing(housing_rng, spine, in_households)
    tribal = _tribal_areas(areas_rng, spine)
    places = _places(areas_rng, spine)

    shares = segregate(people_rng, spine, np.add.reduceat(in_households, spine.first_child[-1][:-1]).astype(float))
    residents = _residents(in_households, occupied, quarters)
    leaves = settle(people_rng, spine, residents, shares, tribal.of_leaf >= 0)
    return Population(
        people=Histogram(spine=spine, schema=PERSONS_2020, leaves=leaves),
        facilities=_facilities(spine, occupied + vacant, quarters),
        housing=_housing_counts(spine, occupied, vacant),
        areas={"place": places, "tribal": tribal},
    )


def _quarters(rng: Generator, persons: int, blocks: int) -> tuple[Integers, Integers, Integers, Integers]:
    """Return group quarters as columns: block, type, persons and facilities, with one row per block and type."""
    rows = rng.poisson(QUARTERS_SHARE * persons / QUARTERS_SIZE)
    kind = np.repeat(np.arange(len(rows)), rows)
    mean = QUARTERS_SIZE[kind] * np.exp(-(QUARTERS_SPREAD**2) / 2)
    drawn = mean * rng.lognormal(0.0, QUARTERS_SPREAD, len(kind))
    size = np.clip(np.rint(drawn), 1, LARGEST_QUARTERS).astype(np.int64)
    key = rng.integers(blocks, size=len(kind)) * len(TYPES_2020) + kind + 1
    key, first = np.unique(key, return_index=True)  # one row per block and type: a second draw is dropped
    kept = first[np.cumsum(size[first]) <= persons // QUARTERS_AT_MOST]
    key = key[: len(kept)]
    further = 1 / FACILITY_SIZE - 1 / QUARTERS_SIZE  # share of persons besides the first of a row who begin a facility
    facilities = 1 + rng.binomial(size[kept] - 1, further[kind[kept]])
    return key // len(TYPES_2020), key % len(TYPES_2020), size[kept], facilities


def _housing(rng: Generator, spine: Spine, persons: Integers) -> tuple[Integers, Integers]:
    """Return occupied and vacant housing units by block. Occupied units are 1 to the number of persons, if any."""
    groups = spine.parents("block")
    number = spine.size("block_group")
    first = rng.beta(OCCUPIED_CONCENTRATION * OCCUPIED, OCCUPIED_CONCENTRATION * (1 - OCCUPIED), size=number)
    lived_in = persons > 0
    occupied = lived_in + rng.binomial(np.maximum(persons - 1, 0), first[groups])
    rate = rng.gamma(VACANT_SHAPE, 1 / VACANT_SHAPE, size=number)[groups]
    vacant = rng.poisson(rate * np.where(lived_in, VACANT * occupied, EMPTY_VACANT))
    return occupied, vacant


def _residents(
    in_households: Integers, occupied: Integers, quarters: tuple[Integers, Integers, Integers, Integers]
) -> Residents:
    """Return persons by block and type of home. Every household has an adult."""
    block, kind, persons, _ = quarters
    home = np.flatnonzero(in_households)
    return Residents(
        block=np.concatenate([home, block]),
        kind=np.concatenate([np.zeros(len(home), dtype=np.int64), kind]),
        persons=np.concatenate([in_households[home], persons]),
        surely_adults=np.concatenate([occupied[home], np.zeros(len(block), dtype=np.int64)]),
    )


def _facilities(spine: Spine, units: Integers, quarters: tuple[Integers, Integers, Integers, Integers]) -> Facilities:
    block, kind, _, number = quarters
    homes = np.flatnonzero(units)
    return Facilities.from_entries(
        spine,
        attribute="hhgq",
        types=TYPES_2020,
        unit=np.concatenate([homes, block]),
        kind=np.concatenate([np.zeros(len(homes), dtype=np.int64), kind]),
        count=np.concatenate([units[homes], number]),
    )


def _housing_counts(spine: Spine, occupied: Integers, vacant: Integers) -> Histogram:
    blocks = np.arange(len(occupied))
    return Histogram.from_entries(
        spine,
        UNITS_2020,
        unit=np.concatenate([blocks, blocks]),
        cell=np.repeat([0, 1], len(blocks)),
        count=np.concatenate([vacant, occupied]),
    )


def _places(rng: Generator, spine: Spine) -> Areas:
    """Return places: runs of adjacent blocks, cut only at state lines, with gaps between them and holes inside."""
    blocks = spine.size("block")
    pairs = 2 + blocks // 20  # more than enough to cover all blocks
    sizes = np.array([PLACE_BLOCKS, GAP_BLOCKS]) * rng.lognormal(0.0, PLACE_SPREAD, (pairs, 2))
    ends = np.cumsum(np.ceil(sizes).reshape(-1)).astype(np.int64)
    run = np.searchsorted(ends, np.arange(blocks), side="right")
    inside = (run % 2 == 0) & (rng.random(blocks) >= PLACE_HOLES)
    return _numbered(spine, np.where(inside, run, -1))


def _tribal_areas(rng: Generator, spine: Spine) -> Areas:
    """Return tribal areas: a few runs of blocks, in a few states."""
    blocks, states = spine.leaves_under("state"), spine.size("state")
    run = np.full(blocks[-1], -1, dtype=np.int64)
    number = round(TRIBAL_AREAS * blocks[-1] / UNITS["block"])
    with_areas = rng.permutation(states)[: max(1, round(states * TRIBAL_STATES))]
    sizes = np.ceil(rng.lognormal(np.log(TRIBAL_BLOCKS), TRIBAL_SPREAD, number)).astype(np.int64)
    for area, (state, size) in enumerate(zip(rng.choice(with_areas, number), sizes, strict=True)):
        start = rng.integers(blocks[state], max(blocks[state + 1] - size, blocks[state] + 1))
        run[start : min(start + size, blocks[state + 1])] = area
    return _numbered(spine, run)


def _numbered(spine: Spine, run: Integers) -> Areas:
    """Return areas from runs of blocks, split at state lines. A name is the state's code and five digits."""
    inside = np.flatnonzero(run >= 0)
    state = np.repeat(np.arange(spine.size("state")), np.diff(spine.leaves_under("state")))[inside]
    keys, number = np.unique(state * (run.max(initial=0) + 1) + run[inside], return_inverse=True)
    states = keys // (run.max(initial=0) + 1)
    rank = np.arange(len(keys)) - np.searchsorted(states, states) + 1
    of_leaf = np.full(len(run), -1, dtype=np.int32)
    of_leaf[inside] = number
    labels = spine.labels("state")
    names = tuple(f"{labels[s]}{r:05d}" for s, r in zip(states.tolist(), rank.tolist(), strict=True))
    return Areas(spine=spine, names=names, of_leaf=of_leaf)
