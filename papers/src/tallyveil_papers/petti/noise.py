"""The noise that TopDown draws in petti2020: its variance and mean for each level and query, against G(z).

The noise is what a release's saved measurements add to the true answers. The declared variance follows from the shares
that the paper prints and the probabilities of G(z), and takes nothing from the library. The nation and the states have
too few counts to tell one variance from another, so the noise of many small runs is added to that of the release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.mechanisms.measure import measure
from tallyveil.nouns.histogram import Histogram
from tallyveil.populations import census_1940
from tallyveil.privacy.entropy import RunKey
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Measurements
from tallyveil_papers.figure import Figure
from tallyveil_papers.verdicts import judge, printed_cases

PERSONS, RUNS = 300, 400  # of the small runs
WHOLE_SUM = 40.0  # k z up to which moments are summed: beyond, exp(-40)
CHECKED = 4.0  # standard errors

Pair = tuple[str, str]  # a level and a query


def summed_moment(z: float, power: int) -> float:
    """The sum of k^power Pr[G(z) = k] for an even power, with the probabilities that the paper prints."""
    k = np.arange(1, math.ceil(WHOLE_SUM / z) + 1, dtype=np.float64)
    return float(2 * (k**power * (1 - math.exp(-z)) * np.exp(-z * k) / (1 + math.exp(-z))).sum())


def pairs() -> list[Pair]:
    """The levels and queries that the paper measures."""
    levels, queries = (printed_cases(f"petti2020.setup.{key}") for key in ("level_share", "query_share"))
    return [(level, query) for level in levels for query in queries]


def drawn_figures(people: Histogram, measurements: Measurements, *, epsilon: str, seed: int) -> list[Figure]:
    """The variance and the mean of the noise of every level and query: in these measurements, and in small runs."""
    sums = {pair: _sums(people, measurements, pair) for pair in pairs()}
    for small, drawn in _small_runs(epsilon, seed):
        sums = {pair: sums[pair] + _sums(small, drawn, pair) for pair in sums}
    return [figure for pair in sums for figure in _figures(pair, sums[pair], declared_z(pair, float(epsilon)))]


def declared_z(pair: Pair, epsilon: float) -> float:
    """The z of the noise by the printed shares: G(h/2) and G(s/2), where h and s are shares of a level's epsilon."""
    levels: Mapping[str, float] = printed_cases("petti2020.setup.level_share")
    return epsilon * levels[pair[0]] * printed_cases("petti2020.setup.query_share")[pair[1]] / 2


def _figures(pair: Pair, sums: Floats, z: float) -> Iterator[Figure]:
    n, total, squares = sums
    variance, fourth = summed_moment(z, 2), summed_moment(z, 4)
    at = f"{pair[0]}, {pair[1]}, {n:,.0f} counts"
    chance = CHECKED * math.sqrt((fourth / variance**2 - 1) / n)
    yield judge("petti2020.setup.drawn", squares / n / variance, case=pair[1], at=at, chance=chance)
    yield judge("petti2020.setup.drawn_mean", total / n / math.sqrt(variance), at=at, chance=CHECKED / math.sqrt(n))


def _sums(people: Histogram, measurements: Measurements, pair: Pair) -> Floats:
    """The number of counts, and the sums of their noise and of its square."""
    level, query = pair
    true = people.answer(query, level=level).dense().ravel()
    noise = (measurements.ask(level, query, np.arange(len(true), dtype=np.int64)) - true).astype(np.float64)
    return np.array([len(noise), noise.sum(), noise @ noise])


def _small_runs(epsilon: str, seed: int) -> Iterator[tuple[Histogram, Measurements]]:
    people, strategy = census_1940(persons=PERSONS, seed=seed).people, Strategy.preset("e2e-2018", epsilon=epsilon)
    for replicate in range(RUNS):
        yield people, measure(people, strategy, RunKey.from_seed(seed), replicate=replicate)
