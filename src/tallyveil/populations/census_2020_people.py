"""The people of the synthetic 2020 census: counts by block, age, ethnicity and race.

The shares of eight groups (six races alone, two or more, hispanic) are segregated from level to level: down to block
groups, the logarithms of a unit's shares are normally distributed around those of its parent. The shares of a block are
a Dirichlet draw around those of its block group, with more variation in small blocks, which consist of a few
households. Its adults and minors are multinomial counts with these shares, and the persons of a group are assigned to
races by the shares of the tract.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.nouns.census_schemas import PERSONS_2020, RACES_2020, SINGLE_RACES_2020, TYPES_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.spine import Spine

# Percent of all persons in 2020: the six races alone and two or more (not hispanic), and hispanic.
GROUPS = np.array([57.84, 12.05, 0.52, 5.92, 0.19, 0.51, 4.09, 18.73])  # aian: 0.68 less those in tribal areas
GROUP_MINORS = np.array([18.1, 24.0, 27.0, 20.4, 27.0, 30.0, 36.0, 30.0]) / 100  # under 18 in 2020; of all 22.1%
TRIBAL_SHARE = 0.55  # share of persons in tribal areas who are aian
HISPANIC_RACES = np.array([20.3, 1.9, 2.4, 0.43, 0.11, 42.2])  # percent alone in 2020; the rest have two or more
# Relative frequencies of pairs of races (white+black, white+aian, ..., nhpi+other), rounded from 2020, and by how much
# each further race makes a combination rarer.
PAIRS = np.array([240, 315, 235, 20, 330, 35, 15, 4.5, 45, 4, 1.5, 6, 20, 20, 2.5])
HISPANIC_PAIRS = np.array([28, 35, 13, 3, 800, 6, 1.5, 0.6, 28, 1, 0.5, 47, 2, 9, 2])
FURTHER_RACE = 18.0

# Fitted to Rhode Island's non-empty cells per block, block group and tract.
SEGREGATION = {"state": 0.4, "county": 0.5, "tract": 0.8, "block_group": 0.3}  # spread of the logarithms of shares
BLOCK_CONCENTRATION = 150.0  # of the Dirichlet draw of a large block
PERSON_CONCENTRATION = 0.1  # per person of a small block: the members of a household are alike
RACE_CONCENTRATION = 100.0  # of the Dirichlet draw of races within a group, tract by tract

MINORS_CONCENTRATION = 5.0  # fitted to Rhode Island's share of blocks without children, by size

# By type of home, from household to other_noninstitutional: the weight of the neighbourhood in the shares of groups
# (the rest is the nation's), how groups are over-represented, and the share of residents who are minors.
LOCAL = np.array([1.0, 0.2, 0.4, 0.8, 0.6, 0.2, 0.1, 0.7])
TILT = np.ones((len(TYPES_2020), len(GROUPS)))
TILT[1] = [0.6, 3.2, 2.0, 0.25, 1.5, 1.0, 0.6, 1.1]
TILT[2] = [0.7, 2.5, 2.0, 0.3, 1.0, 1.0, 1.2, 1.0]
TILT[3] = [1.3, 1.1, 0.7, 0.5, 0.6, 0.5, 0.4, 0.4]
TILT[5] = [1.0, 1.1, 0.6, 1.7, 0.6, 0.9, 1.1, 0.6]
# In households, the share of persons other than the first of a household, such that 22.1% of all persons are minors.
TYPE_MINORS = np.array([0.371, 0.004, 0.85, 0.0, 0.15, 0.01, 0.005, 0.07])

CHUNK = 1 << 23  # rows that a kernel writes at once; it limits memory and does not affect the result


@dataclass(frozen=True, kw_only=True, eq=False)
class Residents:
    """Rows of persons in one block and type of home. ``surely_adults`` of them, the householders, are adults."""

    block: Integers
    kind: Integers
    persons: Integers
    surely_adults: Integers


def segregate(rng: Generator, spine: Spine, weights: Floats) -> Floats:
    """Return the shares of the groups by block group; weighted by persons, they average to those of the nation."""
    logs = np.log(_NATION)[None, :]
    for level, spread in SEGREGATION.items():
        first_child = spine.first_child[spine.depth(level) - 1]
        logs = np.repeat(logs, np.diff(first_child), axis=0)
        logs += rng.normal(0.0, spread, logs.shape)
    shares = np.exp(logs)
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(30):  # rake the average to the shares of the nation
        shares *= _NATION / (weights @ shares / weights.sum())
        shares /= shares.sum(axis=1, keepdims=True)
    return shares


def settle(rng: Generator, spine: Spine, residents: Residents, shares: Floats, tribal: Bools) -> Counts:
    """Return the counts of persons by block and cell."""
    groups, tracts = spine.parents("block"), spine.parents("block_group")
    races = _race_shares(rng, spine.size("tract"))
    most = np.minimum(residents.persons, PERSONS_2020.cells // len(TYPES_2020))
    pieces = []
    for rows in _chunks(most):
        block = residents.block[rows]
        pieces.append(
            _settle(
                rng,
                (block, residents.kind[rows], residents.persons[rows], residents.surely_adults[rows]),
                (groups[block], tracts[groups[block]], tribal[block]),
                (shares, races, _RACE_CELLS, _RACE_STARTS),
                (_NATION, LOCAL, TILT, TRIBAL_SHARE, BLOCK_CONCENTRATION, PERSON_CONCENTRATION),
                (_AGE_TILT, TYPE_MINORS, MINORS_CONCENTRATION),
                int(most[rows].sum()),
            )
        )
    unit, cell, count = (np.concatenate(column) for column in zip(*pieces, strict=True))
    pieces.clear()
    return Counts.from_entries(unit, cell, count, units=spine.size("block"), cells=PERSONS_2020.cells)


def _chunks(most: Integers) -> list[slice]:
    """Split the rows into runs that write at most about CHUNK entries each."""
    written = np.cumsum(most)
    ends = np.searchsorted(written, np.arange(CHUNK, written[-1] + CHUNK, CHUNK), side="left") + 1
    ends[-1] = len(most)
    return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True) if b > a]


def _combinations(pairs: Floats) -> Floats:
    """Return weights of the 57 combinations of races. Those of larger ones follow from the pairs they contain."""
    sets = [frozenset(race.split("+")) for race in RACES_2020[len(SINGLE_RACES_2020) :]]
    pair = dict(zip(sets[: len(pairs)], pairs, strict=True))
    return np.array(
        [sum(w for two, w in pair.items() if two <= races) / FURTHER_RACE ** (len(races) - 2) for races in sets]
    )


def _race_tables() -> tuple[NDArray[np.uint16], Integers, Floats]:
    """Return, over all groups: cells within a type and age, where each group starts, and shares within a group."""
    single = len(SINGLE_RACES_2020)
    two, hispanic_two = _combinations(PAIRS), _combinations(HISPANIC_PAIRS)
    two_cells, hispanic_cells = np.arange(single, 63), np.arange(63, 126)
    rest = 100 - HISPANIC_RACES.sum()
    hispanic = np.concatenate([HISPANIC_RACES, rest * hispanic_two / hispanic_two.sum()]) / 100
    first, second = np.argsort(-two, kind="stable"), np.argsort(-hispanic, kind="stable")  # most frequent first
    cells = np.concatenate([np.arange(single), two_cells[first], hispanic_cells[second]]).astype(np.uint16)
    starts = np.array([*range(single + 1), 63, 126], dtype=np.int64)
    return cells, starts, np.concatenate([np.ones(single), two[first] / two.sum(), hispanic[second]])


_RACE_CELLS, _RACE_STARTS, _RACE_SHARES = _race_tables()
_NATION: Floats = GROUPS / GROUPS.sum()
# The share of a group among minors (first row) and among adults, relative to its share among all.
_AGE_TILT: Floats = np.stack([GROUP_MINORS, 1 - GROUP_MINORS])
_AGE_TILT /= (_AGE_TILT @ _NATION)[:, None]


def _race_shares(rng: Generator, tracts: int) -> Floats:
    """Return weights of the races within each group, by tract. The kernel normalises them."""
    return rng.standard_gamma(np.broadcast_to(RACE_CONCENTRATION * _RACE_SHARES, (tracts, len(_RACE_SHARES))))


@compiled
def _split(rng, total, weights, first, last, dealt):  # type: ignore[no-untyped-def]
    """Draw multinomial counts with ``weights[first:last]`` into ``dealt[first:last]``."""
    rest, left, last_positive = 0.0, total, -1
    for i in range(first, last):
        rest += weights[i]
        dealt[i] = 0
    for i in range(first, last):
        if left == 0:
            return
        if weights[i] > 0:
            last_positive = i
            if rest > 0:
                dealt[i] = rng.binomial(left, min(1.0, weights[i] / rest))
                left -= dealt[i]
                rest -= weights[i]
    dealt[max(last_positive, first)] += left


@compiled
def _block_shares(rng, near, kind, tribal, persons, laws, base, shares):  # type: ignore[no-untyped-def]
    """Draw the shares of the groups in a row: Dirichlet around those of its neighbourhood and type."""
    nation, local, tilt, tribal_share, block_concentration, person_concentration = laws
    for g in range(len(base)):
        base[g] = (local[kind] * near[g] + (1 - local[kind]) * nation[g]) * tilt[kind, g]
    base /= base.sum()
    if tribal:
        base *= 1 - tribal_share
        base[2] += tribal_share
    concentration = 1 / (1 / block_concentration + 1 / (person_concentration * persons))
    for g in range(len(base)):
        shares[g] = rng.standard_gamma(concentration * base[g])
    drawn = shares.sum()
    if drawn > 0:
        shares /= drawn
    else:  # all draws underflowed
        shares[:] = base


@compiled
def _count_minors(rng, kind, others, shares, age):  # type: ignore[no-untyped-def]
    """Draw the number of minors among the others; in households it depends on the shares of the groups."""
    age_tilt, type_minors, concentration = age
    if kind > 0:
        return rng.binomial(others, type_minors[kind])
    mean = min(0.95, type_minors[0] * (shares * age_tilt[0]).sum())
    return rng.binomial(others, rng.beta(concentration * mean, concentration * (1 - mean)))


@compiled
def _settle(rng, rows, where, tables, laws, age, most):  # type: ignore[no-untyped-def]
    """Return the entries (block, cell, count) of rows of residents, in order."""
    block, kind, persons, surely_adults = rows
    group_of, tract_of, tribal = where
    group_shares, race_shares, race_cells, race_starts = tables
    unit_out, cell_out = np.empty(most, np.int32), np.empty(most, np.uint16)
    count_out = np.empty(most, np.int32)
    groups = group_shares.shape[1]
    base, shares, dealt = np.empty(groups), np.empty(groups), np.empty(groups, np.int64)
    dealt_races = np.empty(len(race_cells), np.int64)
    written = 0
    for row in range(len(block)):
        near = group_shares[group_of[row]]
        _block_shares(rng, near, kind[row], tribal[row], persons[row], laws, base, shares)
        minors = _count_minors(rng, kind[row], persons[row] - surely_adults[row], shares, age)
        for adult in (0, 1):
            _split(rng, persons[row] - minors if adult else minors, shares * age[0][adult], 0, groups, dealt)
            for g in range(groups):
                if dealt[g] > 0:
                    first, last = race_starts[g], race_starts[g + 1]
                    _split(rng, dealt[g], race_shares[tract_of[row]], first, last, dealt_races)
                    for i in range(first, last):
                        if dealt_races[i] > 0:
                            unit_out[written] = block[row]
                            cell_out[written] = (kind[row] * 2 + adult) * 126 + race_cells[i]
                            count_out[written] = dealt_races[i]
                            written += 1
    return unit_out[:written].copy(), cell_out[:written].copy(), count_out[:written].copy()
