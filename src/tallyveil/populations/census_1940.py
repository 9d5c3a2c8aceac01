"""A synthetic census the size of the United States of 1940: persons by enumeration district, county and state.

All parameters are fitted to sizes of the 1940 census that Petti & Flaxman published [1]_, never to results of a
mechanism; docs/populations_1940.md has the table. Persons are not drawn one by one: districts get sizes, the shares of
each unit are split among its children, and persons are multinomial counts with these shares.

.. [1] Petti & Flaxman, Differential privacy in the 2020 US census: what will it do?, Gates Open Research 3:1722, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tallyveil._arrays import Floats, Integers
from tallyveil.nouns.census_schemas import PERSONS_1940, TYPES_1940, UNITS_2020
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.nouns.spine import Spine
from tallyveil.populations.arguments import whole_number

# Published: the numbers of persons, states, counties and districts.
PERSONS, STATES, COUNTIES, DISTRICTS = 132_404_766, 51, 3_108, 134_858
# (normal score, persons), fitted to the published median, mean, standard deviation and 95th percentile of total counts.
# Between the median and the 95th percentile, also fitted to the 95th percentile of stratified counts.
STATE_SIZES = ((-2.5, 175_000), (0, 1_903_133), (1, 3_800_000), (1.645, 8_060_000), (2.5, 17_700_000))
COUNTY_SIZES = ((-3.6, 300), (-1.28, 6e3), (0, 18_400), (1, 4e4), (1.645, 122_710), (2.3, 527_000), (3.6, 4_520_000))
DISTRICT_SIZES = ((-4.5, 1), (-1.28, 318), (0, 865), (1, 1_408), (1.645, 2_342), (4.5, 20_000))
# Published: persons by race (white, black, aian, chinese, japanese, other_asian), and Hispanic persons.
BY_RACE, HISPANIC = (118_803_172, 12_663_581, 340_744, 142_490, 281_385, 173_394), 2_202_645
# Hispanic persons by race other than white, fitted to the number and median of non-empty stratified cells of states.
HISPANIC_BY_RACE = (59_500, 1_110, 665, 465, 14_600)
# How unevenly black, aian, chinese, japanese, other_asian and Hispanic persons are spread over units: the standard
# deviations of log weights, fitted to the number, median, mean and 95th percentile of non-empty stratified cells.
STATE_SPREAD = (1.27, 2.32, 1.02, 2.64, 2.14, 2.94)
COUNTY_SPREAD, COUNTY_MIXING = (1.64, 2.98, 1.53, 2.12, 3.94, 2.97), 1.0  # mixing: spread of a weight common to all six
DISTRICT_SPREAD, DISTRICT_MIXING = (2.21, 2.05, 1.58, 1.89, 3.25, 1.67), 0.49
URBAN = (-0.19, -0.23, -0.09, 0.02, 0.95, 0.15)  # exponent of the size of the county in its weight
BOTH = 0.75  # Hispanic persons of a race other than white have the weight (race x Hispanic) to this power
# Fitted so that the homogeneity index reaches 0: the share of districts (ports) where all groups live, and the largest
# share that is added to each group there.
PORT_DISTRICTS, PORT_SHARE = 2e-4, 0.02
# Share under 18 by race and of Hispanic persons, fitted to 0.306 of all persons. The odds decrease with the size of the
# county (an exponent, fitted to the 95th percentile of stratified counts of counties) and vary (not published).
MINORS, HISPANIC_MINORS = (0.294, 0.365, 0.45, 0.2, 0.33, 0.22), 0.42
MINORS_URBAN, MINORS_SPREAD = -0.107, 0.2
# Not published, but plausible for 1940 (2.5% of persons). For each type of group quarters: share of districts that have
# it, facilities besides the first, persons in each besides the first, share under 18.
QUARTERS_SHARE = (0.012, 0.006, 0.025, 0.005, 0.01, 0.06, 0.05)  # correctional, mental, elderly, military, ...
QUARTERS_MORE = (0.2, 0.1, 0.2, 0.5, 0.6, 4.0, 1.0)
QUARTERS_PERSONS = (160, 1_500, 130, 800, 180, 20, 50)
QUARTERS_MINORS = (0.02, 0.03, 0.2, 0.01, 0.1, 0.05, 0.1)
QUARTERS_MOST = 0.9  # largest share of the persons of a district
HOUSEHOLD_SIZE, HOUSEHOLD_SPREAD, HOUSEHOLD_MOST, VACANT = 3.7, 0.12, 99, 0.07  # vacant: per occupied unit
LEAST_DISTRICTS = 3  # so that even a village has counts to aggregate


def census_1940(*, persons: int = PERSONS, seed: int) -> Population:
    """Generate a synthetic 1940 census. The same seed gives the same population.

    A smaller population is a smaller country, not a sample. Its districts, counties and states are as large as those of
    the nation, and their numbers are proportional to ``persons`` (with at least one state and one county, and three
    districts if there are three persons). Races and ethnicities have the shares of the nation. Codes are numbers that
    do not name real places: 2 digits for a state, 6 for a county and 10 for a district.

    Parameters
    ----------
    persons
        The number of persons, from 1 to 132,404,766 (the nation). The total is exact.
    seed
        An integer, 0 or more.

    Examples
    --------
    >>> census_1940(persons=500, seed=7).people
    Histogram(us 1, state 1, county 1, enumdist 3; hhgq 8, votingage 2, hispanic 2, race 6)
    """
    persons = whole_number("persons", persons, least=1, most=PERSONS)
    rng = np.random.Generator(np.random.PCG64(whole_number("seed", seed, least=0, most=2**64 - 1)))
    land = _lay_out(persons, rng)
    groups = rng.multinomial(land.size, _shares(land, rng).T)  # districts x 12: ethnicity, race
    minors = rng.binomial(groups, _share_of_minors(land, rng))
    people, quarters = _move_to_quarters(np.stack([minors, groups - minors], axis=1), rng)
    return _population(land, people, quarters, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Land:
    spine: Spine
    size: Integers  # persons by district
    rank: Integers  # rank of each state by size

    def sizes(self, level: str) -> Integers:
        return np.add.reduceat(self.size, self.spine.leaves_under(level)[:-1])


def _lay_out(persons: int, rng: np.random.Generator) -> _Land:
    districts = min(persons, max(LEAST_DISTRICTS, round(DISTRICTS * persons / PERSONS)))
    counties, states = (max(1, round(units * persons / PERSONS)) for units in (COUNTIES, STATES))
    rank = rng.permutation(states)
    county_size = _quantiles(COUNTY_SIZES, counties)[::-1]
    state = _state_of_county(county_size, _quantiles(STATE_SIZES, states)[rank], rng)
    order = np.lexsort((rng.random(counties), state))
    state, in_county = state[order], _apportion(county_size[order], districts)
    county = np.arange(counties) - np.searchsorted(state, state)  # number of the county in its state
    number = np.arange(districts) - np.repeat(np.cumsum(in_county) - in_county, in_county)
    code = np.repeat((state + 1) * 10**8 + (county + 1) * 10**5, in_county) + number + 1
    text = np.char.zfill(code.astype("S10"), 10)
    spine = Spine.from_codes(text, lengths={"state": 2, "county": 6, "enumdist": 10}, root="us")
    size = _apportion(_quantiles(DISTRICT_SIZES, districts), persons)
    return _Land(spine=spine, size=rng.permutation(size), rank=rank)


def _state_of_county(counties: Floats, states: Floats, rng: np.random.Generator) -> Integers:
    """Assign counties, largest first, to states with probability proportional to their remaining size."""
    room = states * (counties.sum() / states.sum())
    chosen, empty = np.empty(len(counties), dtype=np.int64), np.ones(len(states), dtype=np.bool_)
    for i, (size, chance) in enumerate(zip(counties, rng.random(len(counties)), strict=True)):
        fits = np.where(room >= size, room, 0.0) if room.max() >= size else (room == room.max()).astype(np.float64)
        if np.count_nonzero(empty) == len(counties) - i:  # the last counties go to states that have none
            fits = empty.astype(np.float64)
        upto = np.cumsum(fits)
        chosen[i] = np.searchsorted(upto, chance * upto[-1], side="right")
        room[chosen[i]], empty[chosen[i]] = room[chosen[i]] - size, False
    return chosen


def _shares(land: _Land, rng: np.random.Generator) -> Floats:
    """Return the shares of the 12 groups (not Hispanic by race, then Hispanic by race) in each district."""
    hispanic = np.array([HISPANIC - sum(HISPANIC_BY_RACE), *HISPANIC_BY_RACE])
    share = np.concatenate([BY_RACE - hispanic, hispanic])[:, None] / PERSONS
    first, size = land.spine.first_child, land.sizes("county")
    share = _segregate(share, _state_weights(land.rank), land.sizes("state"), first[0])
    weights = _weights(COUNTY_SPREAD, COUNTY_MIXING, len(size), rng) + np.outer(URBAN, np.log(size))
    share = _segregate(share, weights, size, first[1])
    share = _segregate(share, _weights(DISTRICT_SPREAD, DISTRICT_MIXING, len(land.size), rng), land.size, first[2])
    where = share[7:].sum(axis=0)  # ports are where Hispanic persons of other races live
    ports = rng.choice(len(where), round(PORT_DISTRICTS * len(where)), replace=False, p=where / where.sum())
    each = PORT_SHARE * rng.random(len(ports))
    share[:, ports] = each + (1 - len(share) * each) * share[:, ports]
    return share


def _segregate(parent: Floats, weights: Floats, size: Integers, first: Integers) -> Floats:
    """Return shares of units that follow the log weights of 6 groups and average to the shares of their parents."""
    log = np.concatenate([np.zeros((1, len(size))), weights, BOTH * (weights[:5] + weights[5])])  # white: 0
    share: Floats = np.exp(log - log.max(axis=1, keepdims=True))
    of, wanted = np.repeat(np.arange(len(first) - 1), np.diff(first)), parent * np.add.reduceat(size, first[:-1])
    for _ in range(60):  # rake: groups to their totals, shares of a unit to a sum of 1
        total = np.add.reduceat(share * size, first[:-1], axis=1)
        share *= (wanted / total)[:, of]
        share /= share.sum(axis=0)
        if np.allclose(wanted, total, rtol=1e-3, atol=1e-3):
            break
    return share


def _state_weights(rank: Integers) -> Floats:
    """Return the weights of states. They do not depend on the seed, because there are so few states."""
    scores, by_size = _normal_scores(len(rank)), np.arange(1, len(rank) + 1)
    strides = np.sqrt([1.25, 2, 3, 5, 7, 11])[:, None]  # irrational, so the orders look independent
    order = np.argsort(np.argsort(by_size * strides % 1))[:, rank]
    return np.asarray(np.array(STATE_SPREAD)[:, None] * scores[order])


def _weights(spread: tuple[float, ...], mixing: float, units: int, rng: np.random.Generator) -> Floats:
    own = rng.permuted(np.tile(_normal_scores(units), (len(spread), 1)), axis=1)
    return np.asarray(np.array(spread)[:, None] * own + mixing * rng.permutation(_normal_scores(units)))


def _share_of_minors(land: _Land, rng: np.random.Generator) -> Floats:
    share, size = np.array([*MINORS, *[HISPANIC_MINORS] * 6]), land.sizes("county")
    urban = np.log(size) - np.average(np.log(size), weights=size)
    log = rng.normal(MINORS_URBAN * np.repeat(urban, np.diff(land.spine.first_child[2])), MINORS_SPREAD)
    odds = share / (1 - share) * np.exp(log)[:, None]
    return np.asarray(odds / (1 + odds))


def _move_to_quarters(residents: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return persons by district, type, age and group, and group quarters by district and type."""
    built = np.zeros((len(residents), len(TYPES_1940)), dtype=np.int64)
    people = np.zeros((*built.shape, *residents.shape[1:]), dtype=np.int32)
    people[:, 0] = residents
    room = np.floor(QUARTERS_MOST * residents.sum(axis=(1, 2))).astype(np.int64)
    for kind in range(1, len(TYPES_1940)):
        where = np.flatnonzero((rng.random(len(room)) < QUARTERS_SHARE[kind - 1]) & (room > 0))
        number = 1 + rng.poisson(QUARTERS_MORE[kind - 1], len(where))
        wanted = np.minimum(room[where], number + rng.poisson(QUARTERS_PERSONS[kind - 1] * rng.gamma(number)))
        young = np.minimum(rng.binomial(wanted, QUARTERS_MINORS[kind - 1]), people[where, 0, 0].sum(axis=1))
        old = np.minimum(wanted - young, people[where, 0, 1].sum(axis=1))
        for age, number_moved in enumerate((young, old)):
            people[where, kind, age] = _take(people[where, 0, age], number_moved, rng)
        people[:, 0] -= people[:, kind]
        room[where] -= young + old
        built[where, kind] = np.minimum(number, young + old)
    return people, built


def _take(people: NDArray[np.int32], wanted: Integers, rng: np.random.Generator) -> Integers:
    """Choose the wanted number of persons of each row at random, regardless of their group."""
    taken, rest = np.zeros(people.shape, dtype=np.int64), people.sum(axis=1, dtype=np.int64)
    for group in range(people.shape[1]):
        rest -= people[:, group]
        taken[:, group] = rng.hypergeometric(people[:, group], rest, wanted)
        wanted = wanted - taken[:, group]
    return taken


def _population(land: _Land, people: Integers, built: Integers, rng: np.random.Generator) -> Population:
    spine, residents = land.spine, people[:, 0].sum(axis=(1, 2))
    average = HOUSEHOLD_SIZE * np.exp(rng.normal(0, HOUSEHOLD_SPREAD, len(residents)))
    built[:, 0] = np.clip(np.rint(residents / average), -(-residents // HOUSEHOLD_MOST), residents)
    housing = np.column_stack([rng.poisson(VACANT * built[:, 0]), built[:, 0]])
    cells = Counts.from_dense(people.reshape(len(people), -1))
    return Population(
        people=Histogram(spine=spine, schema=PERSONS_1940, leaves=cells),
        facilities=Facilities(spine=spine, attribute="hhgq", types=TYPES_1940, leaves=Counts.from_dense(built)),
        housing=Histogram(spine=spine, schema=UNITS_2020, leaves=Counts.from_dense(housing)),
    )


def _normal_scores(units: int) -> Floats:
    return np.asarray(ndtri((np.arange(units) + 0.5) / units))


def _quantiles(knots: tuple[tuple[float, float], ...], units: int) -> Floats:
    """Return increasing sizes of units. Between the knots, log size is linear in the normal score."""
    score, size = np.array(knots).T
    return np.asarray(np.exp(np.interp(_normal_scores(units), score, np.log(size))))


def _apportion(weights: Floats, total: int) -> Integers:
    """Return integers of at least 1 that sum to the total and are nearly proportional (largest remainders)."""
    exact = weights / weights.sum() * (total - len(weights))
    number: Integers = np.floor(exact).astype(np.int64) + 1
    number[np.argsort(number - exact, kind="stable")[: total - number.sum()]] += 1
    return number
