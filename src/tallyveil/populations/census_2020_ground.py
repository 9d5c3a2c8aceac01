"""The ground of the synthetic 2020 census: units with codes, and how many persons live in households in each block.

Units are distributed from the top (counties to states, tracts to counties, ...), and each has at least one child. Codes
have the form of GEOIDs but do not name real places. Persons are distributed down the same tree by weights, so the
counts of all levels are consistent. The sizes of blocks and block groups follow Rhode Island (2010), and the numbers of
units the nation (2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tallyveil._arrays import Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.nouns.codes import Codes
from tallyveil.nouns.spine import Spine

NATION = 331_449_281  # resident population, 1 April 2020
# Units of the nation in 2020; a smaller population has proportionally fewer, of the same size.
UNITS = {"state": 51, "county": 3_143, "tract": 84_400, "block_group": 240_000, "block": 8_100_000}
# The most children of a parent, which the digits of the codes limit.
MOST = {"state": 99, "county": 999, "tract": 999_999, "block_group": 9, "block": 1_000}
DIGITS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}

# Skew of sizes: standard deviations of logarithms (normal), or shapes of gamma distributions (spread 1 / sqrt(shape)).
STATE_SPREAD = 1.0  # real states: 0.6 to 39.5 million, logarithms spread by 1.0
COUNTY_SPREAD = 1.35  # real counties: median 26,000, mean 105,000
COUNTIES_SHAPE = 4.0  # real states: 1 to 254 counties
TRACT_SPREAD = 0.30  # Rhode Island: tract totals have mean 4,314, sd 1,621
TRACT_GROWTH = 0.65  # a tract of twice as many block groups has 2^0.65 times the persons
GROUP_SPREAD = 0.35  # Rhode Island: block group totals have mean 1,291, sd 599
GROUP_GROWTH = 0.35  # a block group of twice as many blocks has 2^0.35 times the persons
BLOCKS_SHAPE = 2.4  # Rhode Island: blocks per block group have mean 30.9, sd 20.4
BLOCK_SPREAD = 0.82  # Rhode Island: block totals have median 21, sd 77, 95th percentile 153
EMPTY_SHARE = 0.306  # Rhode Island: 29.9% of blocks are empty, after group quarters are placed in some of these
EMPTY_GROWTH = 0.5  # block groups with many blocks have more empty ones: 23% on average, but 30% of all blocks
EMPTY_SHAPE = 3.0  # Rhode Island: the share of empty blocks has a standard deviation of 0.20


@dataclass(frozen=True, kw_only=True, eq=False)
class Ground:
    """A spine and the weights of its blocks. A block with weight 0 has no households."""

    spine: Spine
    weights: Floats

    def deal(self, rng: Generator, persons: int) -> Integers:
        """Return persons in households by block: at least one if the block has weight, otherwise none."""
        lived_in = (self.weights > 0).astype(np.int64)
        return lived_in + deal_down(rng, persons - int(lived_in.sum()), self.spine.first_child, self.weights)


def make_ground(rng: Generator, persons: int) -> Ground:
    """Generate the units for a number of persons, and the weights of their blocks."""
    number = {level: max(1, round(units * persons / NATION)) for level, units in UNITS.items()}
    states = rng.lognormal(0.0, STATE_SPREAD, number["state"])
    counties = _children(rng, "county", number, np.sqrt(states) * rng.gamma(COUNTIES_SHAPE, size=len(states)))
    county = _shared(states, counties, rng.lognormal(0.0, COUNTY_SPREAD, number["county"]))
    tracts = _children(rng, "tract", number, county)
    groups = _children(rng, "block_group", number, np.ones(number["tract"]))
    blocks = _children(rng, "block", number, rng.gamma(BLOCKS_SHAPE, size=number["block_group"]))
    first_child = (np.array([0, number["state"]], dtype=np.int64), counties, tracts, groups, blocks)
    spine = Spine(levels=("us", *UNITS), codes=_codes(first_child), first_child=first_child)
    return Ground(spine=spine, weights=_block_weights(rng, groups, blocks))


def deal_down(rng: Generator, total: int, first_child: tuple[Integers, ...], leaves: Floats) -> Integers:
    """Distribute a total down a tree, to each child with probability proportional to the weight of its leaves."""
    weights = [leaves]
    for bounds in first_child[:0:-1]:
        weights.append(np.add.reduceat(weights[-1], bounds[:-1]))
    counts = np.array([total], dtype=np.int64)
    for bounds, weight in zip(first_child, reversed(weights), strict=True):
        counts = _deal(rng, counts, bounds, weight)
    return counts


def _children(rng: Generator, level: str, number: dict[str, int], weights: Floats) -> Integers:
    """Return the children of each parent as bounds: at least one, and at most as many as the codes allow."""
    everybody = np.array([0, len(weights)], dtype=np.int64)
    sizes = np.ones(len(weights), dtype=np.int64)
    while (left := number[level] - int(sizes.sum())) > 0:
        room = np.where(sizes < MOST[level], weights, 0.0)
        sizes = np.minimum(sizes + _deal(rng, np.array([left]), everybody, room), MOST[level])
    return np.concatenate([[0], np.cumsum(sizes)])


def _shared(parents: Floats, bounds: Integers, children: Floats) -> Floats:
    """Split the weights of parents among their children in proportion to the weights of the children."""
    sums = np.add.reduceat(children, bounds[:-1])
    return children * np.repeat(parents / np.where(sums > 0, sums, 1.0), np.diff(bounds))


def _block_weights(rng: Generator, groups: Integers, blocks: Integers) -> Floats:
    tracts = np.diff(groups) ** TRACT_GROWTH * rng.lognormal(0.0, TRACT_SPREAD, len(groups) - 1)
    sizes = np.diff(blocks)
    group = _shared(tracts, groups, sizes**GROUP_GROWTH * rng.lognormal(0.0, GROUP_SPREAD, len(sizes)))
    growth = sizes**EMPTY_GROWTH
    mean = np.clip(EMPTY_SHARE * growth * (sizes.sum() / (growth * sizes).sum()), 0.001, 0.95)
    empty = np.repeat(rng.beta(EMPTY_SHAPE * mean, EMPTY_SHAPE * (1 - mean)), sizes)
    own = np.where(rng.random(blocks[-1]) < empty, 0.0, rng.lognormal(0.0, BLOCK_SPREAD, blocks[-1]))
    if not own.any():
        own[0] = 1.0  # somebody must live somewhere
    return _shared(group, blocks, own)


def _codes(first_child: tuple[Integers, ...]) -> tuple[Codes, ...]:
    """Return codes: the parent's code and the number of the unit among its siblings, from 1 (blocks: from 0)."""
    codes: list[Codes] = [np.array([b"us"])]
    number, width = np.zeros(1, dtype=np.int64), 0
    for (level, digits), bounds in zip(DIGITS.items(), first_child, strict=True):
        sizes = np.diff(bounds)
        rank = np.arange(bounds[-1]) - np.repeat(bounds[:-1], sizes) + (level != "block")
        number, width = np.repeat(number, sizes) * 10 ** (digits - width) + rank, digits
        codes.append(digit_text(number, digits))
    return tuple(codes)


def digit_text(numbers: Integers, width: int) -> Codes:
    """Return numbers as text of ``width`` digits, with leading zeros."""
    letters = np.empty((len(numbers), width), dtype=np.uint8)
    rest = numbers
    for place in range(width - 1, -1, -1):
        rest, letters[:, place] = np.divmod(rest, 10)
    letters += ord("0")
    return letters.view(f"S{width}").reshape(-1)


@compiled
def _deal(rng, totals, bounds, weights):  # type: ignore[no-untyped-def]
    """Distribute each parent's total to its children by weight: a multinomial draw, as a chain of binomials."""
    dealt = np.zeros(bounds[-1], np.int64)
    for parent in range(len(totals)):
        left, rest, last = totals[parent], 0.0, -1
        for child in range(bounds[parent], bounds[parent + 1]):
            rest += weights[child]
        for child in range(bounds[parent], bounds[parent + 1]):
            if left == 0:
                break
            if weights[child] > 0:
                dealt[child] = rng.binomial(left, min(1.0, weights[child] / rest)) if rest > 0 else 0
                left -= dealt[child]
                rest -= weights[child]
                last = child
        if last >= 0:
            dealt[last] += left  # the remainder that rounding of the weights leaves
    return dealt
