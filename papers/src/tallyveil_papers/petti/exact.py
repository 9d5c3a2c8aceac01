"""What petti2020 says about TopDown itself: the noise, the split of the budget, the schema, invariants and bounds.

Nothing here depends on the population: the statements hold for any release, so they are checked on a release of the
setting's census.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil._arrays import Integers
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil.release.release import Release
from tallyveil_papers.figure import Figure
from tallyveil_papers.petti.census import Census, census_of
from tallyveil_papers.petti.compare import results
from tallyveil_papers.petti.noise import CHECKED, RUNS, drawn_figures, pairs, summed_moment
from tallyveil_papers.petti.noise import PERSONS as SMALL_RUN
from tallyveil_papers.petti.runs import STRATA
from tallyveil_papers.petti.topdown import released_at
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of, printed_cases

QUERIES = printed_cases("petti2020.setup.query_share")
LEVELS = tuple(printed_cases("petti2020.setup.level_share"))
BUDGETS_OF_TEXT = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0)  # Methods, "TopDown options", 1
SMALLEST = "0.25"  # the budget at which constraints are pressed hardest
PERSONS = 23  # whom the text adds to a large cell and to a small one
LARGE, SMALL = ("adult", "not_hispanic", "white"), ("minor", "hispanic", "aian")


def printed_variance(z: float) -> float:
    """The variance of G(z) as printed in "Step one": (1 - exp(-z))^2 / (2 exp(-z))."""
    return (1 - math.exp(-z)) ** 2 / (2 * math.exp(-z))


def compute_variance(_: Setting) -> Outcome:
    """The variance of the noise of each query, by definition and as printed."""
    figures = []
    for epsilon in (SMALLEST, "1", "8"):
        strategy = Strategy.preset("e2e-2018", epsilon=epsilon)
        for query in QUERIES:
            noise = _noise(strategy, "county", query)
            variance, printed = noise.actual_variance(), printed_variance(float(noise.z))
            figures.append(
                judge("petti2020.variance.variance", variance, at=f"z = {noise.z} (epsilon {epsilon}, {query})",
                      published=printed, tolerance=1e-9 * printed, as_printed=1 / variance,
                      again=summed_moment(float(noise.z), 2))
            )  # fmt: skip
    return Outcome(figures=figures, notes=notes_of("petti2020.variance"))


def compute_setup(setting: Setting) -> Outcome:
    """The split of the budget, the noise, the schema, invariants and bounds."""
    census = census_of(setting)
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    release = protect(
        census.population,
        Strategy.preset("e2e-2018", epsilon=SMALLEST),
        seed=setting.seed,
        measurements=[(query, level) for level, query in pairs()],
    )
    assert release.measurements is not None
    people, drawn = census.population.people, release.measurements
    held = [release.histogram] if setting.mdf is None else released_at(setting, float(SMALLEST))[0]
    bias = results(method="topdown", statistic="bias").groupby("level").homogeneity.max()
    budgets = pd.DataFrame({"epsilon": sorted(results(method="topdown").epsilon.unique())})
    return Outcome(
        figures=[
            *share_figures(strategy),
            *noise_figures(strategy),
            *schema_figures(),
            *held_figures(census, held),
            spread_figure(census, release),
            *drawn_figures(people, drawn, epsilon=SMALLEST, seed=setting.seed),
        ],
        tables={
            "homogeneity": pd.DataFrame({"level": bias.index, "largest index in the results": bias.to_numpy()}),
            "budgets": budgets.assign(in_the_results=True, in_the_text=budgets.epsilon.isin(BUDGETS_OF_TEXT)),
        },
        notes=notes_of("petti2020.setup", census=census.words(), epsilon=SMALLEST, runs=RUNS, persons=SMALL_RUN),
    )


def share_figures(strategy: Strategy) -> list[Figure]:
    """Four levels, a quarter each; three queries at each level."""
    figures = [judge("petti2020.setup.levels", len(strategy.levels))]
    for level in LEVELS:
        share = float(strategy.levels[level])
        figures.append(judge("petti2020.setup.level_share", share, case=level, at=level))
        for query in QUERIES:
            share = float(strategy.queries[level].get(query, Fraction(0)))
            figures.append(judge("petti2020.setup.query_share", share, case=query, at=f"{level}, {query}"))
    total = sum(spend.share for spend in strategy.spends())
    return [*figures, judge("petti2020.setup.all_shares", float(total))]


def noise_figures(strategy: Strategy) -> list[Figure]:
    """G(h/2) and G(s/2) at each level, at epsilon 1; the probability of 23 persons."""
    figures = []
    for level in LEVELS:
        for query, share in QUERIES.items():
            z, again = float(_noise(strategy, level, query).z), 1 / len(LEVELS) * share / 2
            figures.append(judge("petti2020.setup.z", z, case=query, at=f"{level}, {query}", again=again))
    noise = _noise(strategy, "enumdist", "detailed")
    ratio = math.exp(-float(noise.z))
    again = (1 - ratio) * ratio**PERSONS / (1 + ratio)
    return [*figures, judge("petti2020.setup.as_likely", float(noise.pmf([PERSONS])[0]), again=again)]


def schema_figures() -> list[Figure]:
    """The number of values of each attribute."""
    numbers = {name: len(labels) for name, labels in PERSONS_1940.attributes.items()}
    names = printed_cases("petti2020.setup.values")
    return [
        *(judge("petti2020.setup.values", numbers[name], case=name, at=name) for name in names),
        judge("petti2020.setup.strata", PERSONS_1940.query(STRATA).size),
        judge("petti2020.setup.types", numbers["hhgq"]),
    ]


def held_figures(census: Census, released: Sequence[Histogram]) -> list[Figure]:
    """What releases preserve: totals of the nation and the states, and at least one person per occupied household."""
    people, housing = census.population.people, census.population.housing
    figures = []
    for level in ("us", "state"):
        changed = sum(int((_totals(each, level) != _totals(people, level)).sum()) for each in released)
        figures.append(judge("petti2020.setup.totals", changed, at=level))
    if housing is not None:
        for level in LEVELS:
            occupied = housing.answer("h1", level=level).dense()[:, 1]
            fewer = sum(int((_totals(each, level) < occupied).sum()) for each in released)
            figures.append(judge("petti2020.setup.bounds", fewer, at=level))
    return figures


def spread_figure(census: Census, release: Release) -> Figure:
    """The noise of a large stratum and of a small one, over all districts: the mean of one's squares by the other's."""
    people, asked = census.population.people, release.measurements
    assert asked is not None
    query = people.schema.query(STRATA)
    true = people.answer(STRATA, level="enumdist").dense()
    squares = []
    for labels in (LARGE, SMALL):
        wanted = dict(zip(("votingage", "hispanic", "race"), labels, strict=True))
        places = [names.index(wanted[factor]) for factor, names in zip(query.factors, query.row_labels, strict=True)]
        row = int(np.ravel_multi_index(places, [len(names) for names in query.row_labels]))
        noisy = asked.ask("enumdist", STRATA, np.arange(len(true), dtype=np.int64) * query.size + row)
        squares.append((noisy - true[:, row]).astype(np.float64) ** 2)
    chance = CHECKED * math.sqrt(sum(values.var() / values.mean() ** 2 / len(values) for values in squares))
    ratio = float(squares[0].mean() / squares[1].mean())
    return judge("petti2020.setup.spread", ratio, at=f"enumdist, {len(true):,} of them", chance=chance)


def _totals(people: object, level: str) -> Integers:
    return np.asarray(people.answer("total", level=level).dense()[:, 0])  # type: ignore[attr-defined]


def _noise(strategy: Strategy, level: str, query: str) -> Geometric:
    noise = strategy.noise(level, query)
    assert isinstance(noise, Geometric)
    return noise
