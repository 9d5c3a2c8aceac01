"""What petti2020 says of TopDown itself: the noise, the split of the budget, the schema. No people are needed."""

from __future__ import annotations

import math

import pandas as pd

from tallyveil.papers.petti_compare import results
from tallyveil.papers.registry import Figure, Item, Outcome, Setting
from tallyveil.privacy.distributions import Geometric
from tallyveil.privacy.strategy import Strategy
from tallyveil.schemas import PERSONS_1940, TYPES_1940

STRATA = "votingage * hispanic * race"
QUERIES = {"detailed": 0.1, "hhgq": 0.225, STRATA: 0.675}  # Methods, "TopDown options", 4
BUDGETS_OF_TEXT = (0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0)  # the same list, 1
TYPES_OF_TEXT, MAXIMUM_OF_TEXT = 6, 22  # Methods, "Step one"; Results, "Bias"


def printed_variance(z: float) -> float:
    """The variance of G(z) as printed in "Step one": (1 - exp(-z))^2 / (2 exp(-z))."""
    return (1 - math.exp(-z)) ** 2 / (2 * math.exp(-z))


def compute_variance(_: Setting) -> Outcome:
    """The variance of the noise of each query, by definition and as printed."""
    figures = []
    for epsilon in ("0.25", "1", "8"):
        strategy = Strategy.preset("e2e-2018", epsilon=epsilon)
        for query in QUERIES:
            noise = strategy.noise("county", query)
            assert isinstance(noise, Geometric)
            variance, printed = noise.actual_variance(), printed_variance(float(noise.z))
            figures.append(
                Figure(
                    name="variance of G(z)",
                    at=f"z = {noise.z} (epsilon {epsilon}, {query})",
                    ours=variance,
                    published=printed,
                    as_printed=1 / variance,
                    tolerance=1e-9 * printed,
                )
            )
    note = "Ours is the noise's own variance in persons squared; the printed formula gives its reciprocal."
    return Outcome(figures=figures, notes=[note])


def compute_setup(_: Setting) -> Outcome:
    """The split of the budget, and where text, results and released code differ."""
    strategy = Strategy.preset("e2e-2018", epsilon=1)
    figures = [
        Figure(name="share of a level", at=level, ours=float(share), published=0.25)
        for level, share in strategy.levels.items()
    ]
    figures += [
        Figure(name="share of a query", at=query, ours=float(strategy.queries["county"][query]), published=share)
        for query, share in QUERIES.items()
    ]
    strata = PERSONS_1940.query(STRATA).size
    figures.append(Figure(name="counts of a unit by age, race and ethnicity", ours=strata, published=24))
    budgets = sorted(results(method="topdown").epsilon.unique())
    bias = results(method="topdown", statistic="bias").groupby("level").homogeneity.max()
    figures += [
        Figure(
            name="cells of the detailed histogram",
            at="text: six types; released code: eight",
            ours=PERSONS_1940.cells,
            published=strata * TYPES_OF_TEXT,
            as_printed=PERSONS_1940.cells * TYPES_OF_TEXT / len(TYPES_1940),
        ),
        Figure(
            name="budgets",
            at="text: without 6; results: with 6",
            ours=len(budgets),
            published=len(BUDGETS_OF_TEXT),
            as_printed=len([budget for budget in budgets if budget != 6]),
        ),
        Figure(
            name="largest homogeneity index",
            at="text: 22; results: 23 in districts, 22 in counties",
            ours=strata - 1,
            published=MAXIMUM_OF_TEXT,
            as_printed=bias["county"],
        ),
    ]
    table = pd.DataFrame({"level": bias.index, "largest homogeneity in the results": bias.to_numpy()})
    return Outcome(figures=figures, tables={"homogeneity": table})


VARIANCE = Item(
    key="petti2020.variance",
    title="Variance of the noise",
    where='Methods, "Step one: Imprecise Histogram"',
    what="The variance of the two-sided geometric G(z) that each query gets, by definition and as printed.",
    calls=("Strategy.preset", "Strategy.noise", "privacy.Geometric.actual_variance"),
    tolerance="Exact, to rounding of floats.",
    compute=compute_variance,
    erratum=(
        "The paper prints (1 - exp(-z))^2 / (2 exp(-z)). The distribution it defines has the variance 2 exp(-z) / "
        "(1 - exp(-z))^2; the printed formula is consistent with its reciprocal."
    ),
)
SETUP = Item(
    key="petti2020.setup",
    title="How the budget is split, and what is counted",
    where='Methods, "Step one" and "TopDown options still to be selected"',
    what="Shares of levels and queries of the preset e2e-2018; cells, budgets and the homogeneity index.",
    calls=("Strategy.preset", "schemas.PERSONS_1940"),
    tolerance="Exact.",
    compute=compute_setup,
    erratum=(
        "The text has six household and group-quarters types (144 cells), the code that the Bureau released eight "
        "(192). Its list of budgets leaves out 6, which the results include. It calls 22 the largest homogeneity index "
        "of districts; the results have 23 there, and 22 is consistent with the counties'. It says that each term of "
        "the objective is weighted in proportion to the magnitude of its noise; the released code weights by one over "
        "the variance, as tallyveil does (not a figure, so not among those here)."
    ),
)
