"""kazan2022, budgets: Table 1, and the numbers of sections 1, 2.1, 2.3, 4.1 and 6."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.nouns.census_schemas import PERSONS_2020
from tallyveil.nouns.schema import Schema
from tallyveil.privacy import Geometric, epsilon_from_rho, implied_epsilon, rho_of_pure
from tallyveil.privacy.budget import text
from tallyveil.risk import Intruder, empirical_epsilon, noises_of
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import RHO, beside, bureau, paper_noise, rho_of, rounding
from tallyveil_papers.registry import Outcome, Setting

DELTA = Fraction(1, 10**10)
RIGHT_7 = 17.158  # erratum 7
# Table 1 as printed: the levels' shares, then for each query its number of cells and its share at each level.
LEVELS = {"us": "104/4099", "state": "1440/4099", "county": "447/4099", "tract": "687/4099",
          "block_group": "1256/4099", "block": "165/4099"}  # fmt: skip
QUERIES = {
    "total": (1, "", "3773/4097", "3126/4097", "1567/4102", "1705/4099", "5/4097"),
    "cenrace": (63, "52/4097", "6/4097", "10/4097", "4/2051", "3/4099", "9/4097"),
    "hispanic": (2, "26/4097", "6/4097", "10/4097", "5/4102", "3/4099", "5/4097"),
    "votingage": (2, "26/4097", "6/4097", "10/4097", "5/4102", "3/4099", "5/4097"),
    "hhinstlevels": (3, "26/4097", "6/4097", "10/4097", "5/4102", "3/4099", "5/4097"),
    "hhgq": (8, "26/4097", "6/4097", "10/4097", "5/4102", "3/4099", "5/4097"),
    "hispanic * cenrace": (126, "130/4097", "12/4097", "28/4097", "1933/4102", "1055/4099", "21/4097"),
    "votingage * cenrace": (126, "130/4097", "12/4097", "28/4097", "10/2051", "9/4099", "21/4097"),
    "votingage * hispanic": (4, "26/4097", "6/4097", "10/4097", "5/4102", "3/4099", "5/4097"),
    "votingage * hispanic * cenrace": (252, "26/241", "2/241", "101/4097", "67/4102", "24/4099", "71/4097"),
    "detailed": (2016, "189/241", "230/4097", "754/4097", "241/2051", "1288/4099", "3945/4097"),
}


def table_1(_: Setting) -> Outcome:
    """Table 1: the 2020 allocation."""
    plan = bureau()
    figures = [
        Figure(name="share of the level", at=level, ours=float(plan.levels[level]), published=float(Fraction(printed)))
        for level, printed in LEVELS.items()
    ]
    for query, (cells, *printed) in QUERIES.items():
        figures.append(
            Figure(name="cells", at=query, ours=float(PERSONS_2020.query(query).size), published=float(cells))
        )
        for level, share in zip(LEVELS, printed, strict=True):
            ours = plan.queries[level].get(query, Fraction(0))
            figures.append(Figure(name="share of the query", at=f"{query}@{level}", ours=float(ours),
                                  published=float(Fraction(share or 0))))  # fmt: skip
    figures += [
        Figure(name="sum of the level's shares (identity)", at=level, ours=float(sum(plan.queries[level].values())),
               again=1)
        for level in LEVELS
    ]  # fmt: skip
    rows: list[list[str | int | None]] = [["share of rho", None, *(text(plan.levels[level]) for level in LEVELS)]]
    for query in QUERIES:
        shares = (plan.queries[level].get(query) for level in LEVELS)
        rows.append([query, PERSONS_2020.query(query).size, *("" if one is None else text(one) for one in shares)])
    shown = pd.DataFrame(rows, columns=["query", "cells", *LEVELS]).astype({"cells": "Int64"})
    note = "A query that has no share at a level (the nation's total, which is exact) counts as 0."
    return Outcome(figures=figures, tables={"table 1": shown}, notes=[note])


def _epsilon_of_2020(name: str, at: str) -> Figure:
    """The 17.14 of sections 1 and 6: by Eq. 7 at the printed rho, and at the Bureau's exact one."""
    ours, exact = epsilon_from_rho(RHO, DELTA), epsilon_from_rho(bureau().budget, DELTA)
    return Figure(name=name, at=at, ours=ours, published=17.14, tolerance=rounding(2), as_printed=exact, again=RIGHT_7,
                  again_within=rounding(3))  # fmt: skip


def _at_another_delta(rho: Fraction) -> Figure:
    """Eq. 7 where the paper prints nothing, so that delta is seen to matter."""
    ours, again = epsilon_from_rho(rho, Fraction(1, 10**6)), plain_sums.exact_epsilon(float(rho), 1e-6)
    return Figure(name="exact epsilon", at=f"rho={float(rho)};delta=1e-6", ours=ours, again=again)


def section_1(_: Setting) -> Outcome:
    """Section 1: epsilon of the 2020 file, and the recommended one."""
    third = Figure(name="recommended epsilon, ln 3", ours=math.log(3), published=1.10, tolerance=rounding(2))
    figures = [_epsilon_of_2020("epsilon of the 2020 file", "rho=2.56;delta=1e-10"), third]
    return Outcome(figures=[*figures, _at_another_delta(RHO)])


def section_2_1(_: Setting) -> Outcome:
    """Section 2.1: conversions and tails."""
    where = "Section 2.1"
    rho = rho_of_pure(1)
    gaussian, geometric = paper_noise(Fraction(rho)), Geometric(z=Fraction(1))
    figures = [
        Figure(name="rho of a pure epsilon (Theorem 2)", at="epsilon=1", ours=rho, published=0.5),
        Figure(name="implied epsilon (the same, turned round)", at="rho=0.5", ours=implied_epsilon(rho), again=1),
        beside(where, "exact epsilon", "rho=0.5;delta=1e-10", epsilon_from_rho(rho, DELTA), digits=3),
        _at_another_delta(Fraction(1, 2)),
    ]
    for noise, name, at in (
        (gaussian, "discrete Gaussian", "rho=0.5;true=5"),
        (geometric, "geometric", "epsilon=1;true=5"),
    ):
        outside = 100 * float(noise.cdf(2 - 5) + noise.tail(8 - 5))
        figures.append(beside(where, f"{name} P[X*<=2 or >=8]", at, outside, digits=2))
    return Outcome(figures=figures)


def section_2_3(_: Setting) -> Outcome:
    """Section 2.3: the budget of 2020."""
    where, plan = "Section 2.3", bureau()
    ours, exact = epsilon_from_rho(RHO, DELTA), epsilon_from_rho(plan.budget, DELTA)
    at = "rho=2.56;delta=1e-10"
    block = RHO * plan.levels["block"]
    figures = [
        Figure(name="global rho (input)", ours=float(plan.budget), again=(542 / 339) ** 2,
               quote="a global rho of 2.56"),
        Figure(name="levels of the hierarchy", ours=float(len(plan.levels)), published=6),
        Figure(name="cells of the detailed histogram", ours=float(PERSONS_2020.cells), published=2016),
        beside(where, "exact epsilon", at, ours, digits=2, as_printed=exact, again=RIGHT_7, again_within=rounding(3)),
        beside(where, "implied epsilon", "rho=2.56", implied_epsilon(RHO), digits=2),
        beside(where, "rho of a block", "", float(block), digits=3),
        beside(where, "rho of the detailed query in a block", "", float(rho_of("block")), digits=3,
               again=plain_sums.RHO_1),
    ]  # fmt: skip
    for level in list(LEVELS)[1:]:
        figures.append(Figure(name="queries of a level", at=level, ours=float(len(plan.queries[level])), published=11))
    figures.append(
        Figure(name="queries of a level with a share", at="us", ours=float(len(plan.queries["us"])), again=10)
    )
    note = "Each level is said to have 11 queries. So it is, but that the nation's total is exact and takes no share."
    return Outcome(figures=figures, notes=[note])


def section_4_1(_: Setting) -> Outcome:
    """Section 4.1: cells of the query in 2020 and in 1940."""
    of_1940 = {"votingage": 2, "hispanic": 6, "hhgq": 8, "cenrace": 9}  # as printed
    schema = Schema(attributes={name: [str(i) for i in range(levels)] for name, levels in of_1940.items()})
    figures = [Figure(name="combinations in 2020", ours=float(PERSONS_2020.cells), published=2016)]
    for name, printed in (("hispanic", 2), ("votingage", 2), ("hhgq", 8), ("cenrace", 63)):
        figures.append(Figure(name="levels in 2020", at=name, ours=float(PERSONS_2020.query(name).size),
                              published=printed))  # fmt: skip
    figures.append(
        Figure(name="combinations in 1940 (input)", ours=float(schema.cells), again=864, quote="only 864 combinations")
    )
    notes = [
        "The levels of 1940 are the paper's, an input here: 2, 6, 8 and 9, whose product is 864.",
        "The 2018 test of TopDown had 192 on the same census: 6 races and 2 ethnicities.",
    ]
    return Outcome(figures=figures, notes=notes)


def section_6(_: Setting) -> Outcome:
    """Section 6: epsilons of the conclusion."""
    plan = bureau()
    block = RHO * plan.levels["block"]
    figures = [
        _epsilon_of_2020("epsilon of the 2020 file", "rho=2.56;delta=1e-10"),
        Figure(name="implied epsilon, all levels", ours=implied_epsilon(RHO), published=2.26, tolerance=rounding(2)),
        Figure(name="levels of the hierarchy", ours=float(len(plan.levels)), published=6),
        beside("Section 6", "implied epsilon, block level", "", implied_epsilon(block), digits=2),
        Figure(name="implied epsilon, detailed query of a block", ours=implied_epsilon(rho_of("block")), published=0.45,
               tolerance=rounding(2)),
    ]  # fmt: skip
    level = (542 / 339) ** 2 * 165 / 4099  # wide noise tells as one count of the level's whole rho: DG(1/rho)
    for words, queries, rho in (("detailed query", ["detailed"], level * 3945 / 4097), ("all queries", None, level)):
        found = empirical_epsilon(Intruder(prior="1/2").against(*noises_of(plan, "block", queries=queries)))
        figures.append(Figure(name=f"empirical epsilon of a block, Bureau's noise, {words}", at="p=1/2",
                              ours=found.implied_epsilon, again=math.sqrt(rho)))  # fmt: skip
    notes = [
        "0.45 is printed as the epsilon of the block level. The level's whole rho and that of its detailed query both "
        "give it.",
        "The paper expects a better bound between 0.45 and 2.26. With the noise of the 2020 file, which has twice the "
        "variance (erratum 9), a block's counts tell an intruder with p = 1/2 on average as much as one count would at "
        "the empirical epsilons above. That is no guarantee.",
    ]
    return Outcome(figures=figures, notes=notes)


def definitions(_: Setting) -> Outcome:
    """Definition 5 and Theorem 1, section 2.1: theorem 1 and Eq. 8."""
    noise = paper_noise(Fraction(1, 2))
    k = np.arange(-60, 61)
    has, not_ = noise.pmf(k - 1), noise.pmf(k)
    loss = noise.log_pmf(k - 1) - noise.log_pmf(k)  # Definition 3
    rows, figures = [], []
    for epsilon in (0.25, 1.0, 2.0):
        beyond = float(has[loss > epsilon + 1e-12].sum())
        delta = float(np.maximum(has - math.exp(epsilon) * not_, 0).sum())  # the smallest in Eq. 2
        rows.append({"epsilon": epsilon, "P[Z > epsilon]": beyond, "smallest delta of Eq. 2": delta})
        first = math.floor(epsilon + 0.5) + 1  # Z = (2 k - 1) / 2 is larger from this k on, the event of Eq. 2
        tails = [sum(plain_sums.mass(0.5, x - true) for x in range(first, 40)) for true in (1, 0)]
        again = tails[0] / (tails[0] - math.exp(epsilon) * tails[1])
        figures.append(Figure(name="P[Z > epsilon] over the smallest delta of Eq. 2", at=f"rho=0.5;epsilon={epsilon}",
                              ours=beyond / delta, again=again))  # fmt: skip
    weights = np.exp(-0.5 * (7.0 - np.arange(-60, 61)) ** 2)  # Eq. 8's sum as printed: over x, at x* = 7
    printed, ours = math.exp(-0.5 * (7.0 - 5.0) ** 2) / weights.sum(), float(noise.pmf(7 - 5))
    figures.append(Figure(name="P[X* = 7] (Eq. 8), summed over x*", at="rho=0.5;x=5", ours=ours, again=float(printed)))
    figures.append(Figure(name="P[X* = 7] (Eq. 8), summed over x as printed", at="rho=0.5;x=5", ours=float(printed)))
    notes = [
        "Theorem 1, second part: P[Z > epsilon] <= delta is enough for (epsilon, delta)-differential privacy, but not "
        "needed. The discrete Gaussian meets Eq. 2 with a delta far below P[Z > epsilon]: a ratio above 1 shows it.",
        "Eq. 8 sums over the wrong letter in its denominator. As all whole numbers are summed over, the value "
        "is the same.",
    ]
    return Outcome(figures=figures, tables={"theorem 1": pd.DataFrame(rows)}, notes=notes)
