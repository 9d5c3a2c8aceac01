"""What petti2020 says of TopDown itself: the noise, the split of the budget, the schema, and what must hold.

Nothing here depends on who the people are: what is said of a release holds for any, so it is checked on one of the
setting's census.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil._arrays import Integers
from tallyveil.nouns.census_schemas import PERSONS_1940
from tallyveil.privacy.noise import Geometric
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil.release.release import Release
from tallyveil_papers.figure import Figure
from tallyveil_papers.petti.census import Census, census_of
from tallyveil_papers.petti.compare import results
from tallyveil_papers.petti.runs import STRATA
from tallyveil_papers.registry import Outcome, Setting

QUERIES = {"detailed": 0.1, "hhgq": 0.225, STRATA: 0.675}  # Methods, "TopDown options", 4
LEVELS_OF_TEXT = ("us", "state", "county", "enumdist")  # Methods, "TopDown algorithm"
BUDGETS_OF_TEXT = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0)  # Methods, "TopDown options", 1
LABELS_OF_TEXT = {"votingage": 2, "race": 6, "hispanic": 2}  # Methods, "Step one"
TYPES_OF_TEXT = 6  # the same place
TYPES_OF_CODE = 8  # in the code that the Bureau released (erratum 3)
SMALLEST = "0.25"  # the budget at which constraints are pressed hardest
PERSONS = 23  # whom the text adds to a large cell and to a small one
LARGE, SMALL = ("adult", "not_hispanic", "white"), ("minor", "hispanic", "aian")
WHOLE_SUM = 40.0  # k z up to which the variance is summed: beyond, exp(-40)
CHECKED = 4.0  # standard errors
QUOTES = {
    "invariant": "held the total population count at the national and state level invariant",
    "bound": "constrained the total count of people to be greater or equal to total count of occupied households "
    "at each geographic level",
    "23": "adding 23 people to the count of age 18 and older non-Hispanic Whites is just as likely as adding 23 people "
    "to the count of age under 18 Hispanic Native Americans",
    "variance": "the variance does not scale with the magnitude of count",
    "sum": "the entire algorithm achieves epsilon-DP for epsilon = sum of epsilon_i",
    "types": "household/group-quarters type (6 values)",
}


def printed_variance(z: float) -> float:
    """The variance of G(z) as printed in "Step one": (1 - exp(-z))^2 / (2 exp(-z))."""
    return (1 - math.exp(-z)) ** 2 / (2 * math.exp(-z))


def summed_variance(z: float) -> float:
    """The sum of k^2 Pr[G(z) = k], with the probabilities that the paper prints."""
    k = np.arange(1, math.ceil(WHOLE_SUM / z) + 1, dtype=np.float64)
    return float(2 * (k**2 * (1 - math.exp(-z)) * np.exp(-z * k) / (1 + math.exp(-z))).sum())


def compute_variance(_: Setting) -> Outcome:
    """The variance of the noise of each query, by definition and as printed."""
    figures = []
    for epsilon in (SMALLEST, "1", "8"):
        strategy = Strategy.preset("e2e-2018", epsilon=epsilon)
        for query in QUERIES:
            noise = _noise(strategy, "county", query)
            variance, printed = noise.actual_variance(), printed_variance(float(noise.z))
            figures.append(
                Figure(
                    name="variance of G(z)",
                    at=f"z = {noise.z} (epsilon {epsilon}, {query})",
                    ours=variance,
                    published=printed,
                    quote="variance (1 - exp(-z))^2 / (2 exp(-z))",
                    as_printed=1 / variance,
                    again=summed_variance(float(noise.z)),
                    tolerance=1e-9 * printed,
                )
            )
    note = (
        "Ours is the noise's own variance in persons squared, confirmed by summing the printed probabilities; what is "
        "published is the printed formula's value. One over ours gives that."
    )
    return Outcome(figures=figures, notes=[note])


def compute_setup(setting: Setting) -> Outcome:
    """The split of the budget, the noise, the schema, invariants and bounds."""
    census = census_of(setting)
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    release = protect(
        census.population,
        Strategy.preset("e2e-2018", epsilon=SMALLEST),
        seed=setting.seed,
        measurements=[(STRATA, "enumdist")],
    )
    bias = results(method="topdown", statistic="bias").groupby("level").homogeneity.max()
    budgets = pd.DataFrame({"epsilon": sorted(results(method="topdown").epsilon.unique())})
    return Outcome(
        figures=[
            *share_figures(strategy),
            *noise_figures(strategy),
            *schema_figures(),
            *held_figures(census, release),
            spread_figure(census, release),
        ],
        tables={
            "homogeneity": pd.DataFrame({"level": bias.index, "largest index in the results": bias.to_numpy()}),
            "budgets": budgets.assign(in_the_results=True, in_the_text=budgets.epsilon.isin(BUDGETS_OF_TEXT)),
        },
        notes=[
            f"Invariants, bounds and noise are checked on a release of a {census.words()} at epsilon {SMALLEST}.",
            "The number of households, which the text counts among the invariants, is an input here (the facilities).",
            "The text lists seven budgets, the results eight (with 6): table budgets.",
        ],
    )


def share_figures(strategy: Strategy) -> list[Figure]:
    """Four levels, a quarter each; three queries at each level."""
    figures = [Figure(name="levels", ours=len(strategy.levels), published=len(LEVELS_OF_TEXT))]
    for level in LEVELS_OF_TEXT:
        figures.append(Figure(name="share of a level", at=level, ours=float(strategy.levels[level]), published=0.25))
        figures += [
            Figure(
                name="share of a query",
                at=f"{level}, {query}",
                ours=float(strategy.queries[level].get(query, Fraction(0))),
                published=share,
            )
            for query, share in QUERIES.items()
        ]
    total = sum(spend.share for spend in strategy.spends())
    return [*figures, Figure(name="all shares together", ours=float(total), again=1.0, quote=QUOTES["sum"])]


def noise_figures(strategy: Strategy) -> list[Figure]:
    """G(h/2) and G(s/2) at each level, at epsilon 1; the probability of 23 persons."""
    figures = []
    for level in LEVELS_OF_TEXT:
        for query, share in QUERIES.items():
            z, quote = float(_noise(strategy, level, query).z), "G(h/2)" if query == "detailed" else "G(s_j/2)"
            budget = 1 / len(LEVELS_OF_TEXT) * share
            figures.append(Figure(name="z of the noise", at=f"{level}, {query}", ours=z, again=budget / 2, quote=quote))
    noise = _noise(strategy, "enumdist", "detailed")
    ratio = math.exp(-float(noise.z))
    figures.append(
        Figure(
            name=f"probability of {PERSONS} persons more",
            at="enumdist, detailed, whichever cell",
            ours=float(noise.pmf([PERSONS])[0]),
            again=(1 - ratio) * ratio**PERSONS / (1 + ratio),
            quote=QUOTES["23"],
        )
    )
    return figures


def schema_figures() -> list[Figure]:
    """How many values each attribute has."""
    schema = PERSONS_1940
    figures = [
        Figure(name="values", at=name, ours=len(schema.attributes[name]), published=number)
        for name, number in LABELS_OF_TEXT.items()
    ]
    figures.append(
        Figure(name="counts of a unit by age, race and ethnicity", ours=schema.query(STRATA).size, published=24)
    )
    types = Figure(
        name="values",
        at="hhgq (the text's six cannot be computed: a difference in print)",
        ours=len(schema.attributes["hhgq"]),
        published=TYPES_OF_TEXT,
        quote=QUOTES["types"],
        overstated=True,
        again=TYPES_OF_CODE,
    )
    return [*figures, types]


def held_figures(census: Census, release: Release) -> list[Figure]:
    """What a release keeps: totals of the nation and the states; persons for each occupied household."""
    people, housing = census.population.people, census.population.housing
    figures = []
    for level in ("us", "state"):
        changed = _totals(release.histogram, level) != _totals(people, level)
        figures.append(
            Figure(
                name="totals that changed", at=level, ours=int(changed.sum()), published=0, quote=QUOTES["invariant"]
            )
        )
    if housing is not None:
        for level in LEVELS_OF_TEXT:
            occupied = housing.answer("h1", level=level).dense()[:, 1]
            fewer = _totals(release.histogram, level) < occupied
            figures.append(
                Figure(
                    name="units with fewer persons than occupied households",
                    at=level,
                    ours=int(fewer.sum()),
                    published=0,
                    quote=QUOTES["bound"],
                )
            )
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
    return Figure(
        name="variance of the noise of white adults over that of American Indian minors, Hispanic",
        at=f"enumdist, {len(true):,} of them",
        ours=float(squares[0].mean() / squares[1].mean()),
        published=1.0,
        quote=QUOTES["variance"],
        tolerance=CHECKED * math.sqrt(sum(one.var() / one.mean() ** 2 / len(one) for one in squares)),
    )


def _totals(people: object, level: str) -> Integers:
    return np.asarray(people.answer("total", level=level).dense()[:, 0])  # type: ignore[attr-defined]


def _noise(strategy: Strategy, level: str, query: str) -> Geometric:
    noise = strategy.noise(level, query)
    assert isinstance(noise, Geometric)
    return noise
