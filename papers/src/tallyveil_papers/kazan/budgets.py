"""kazan2022, budgets: Table 1, and the numbers of sections 1, 2.1, 2.3, 4.1 and 6."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from tallyveil.nouns.census_schemas import PERSONS_1940_IPUMS, PERSONS_2020
from tallyveil.privacy import Geometric, epsilon_from_rho, implied_epsilon, rho_of_pure
from tallyveil.privacy.budget import text
from tallyveil.risk import Intruder, empirical_epsilon, noises_of
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.extract import extract_of
from tallyveil_papers.kazan.facts import RHO, beside, bureau, paper_noise, rho_of
from tallyveil_papers.petti.census import census_of
from tallyveil_papers.registry import Outcome, Setting, published
from tallyveil_papers.verdicts import judge, notes_of, printed_cases

DELTA = Fraction(1, 10**10)


def table_1(_: Setting) -> Outcome:
    """Table 1: the 2020 allocation."""
    plan, table = bureau(), published("kazan_reiter_2022_table1").set_index("query")
    levels, queries = list(table.columns[1:]), list(table.index[1:])
    shares = {query: {level: plan.queries[level].get(query) for level in levels} for query in queries}
    figures = [
        Figure(name="share of the level", at=level, ours=float(plan.levels[level]),
               published=float(Fraction(table.loc["share of rho", level])))
        for level in levels
    ]  # fmt: skip
    for query in queries:
        cells = float(PERSONS_2020.query(query).size)
        figures.append(Figure(name="cells", at=query, ours=cells, published=float(table.cells[query])))
        for level, ours in shares[query].items():
            share = table.loc[query, level]
            figures.append(Figure(name="share of the query", at=f"{query}@{level}", ours=float(ours or 0),
                                  published=0.0 if pd.isna(share) else float(Fraction(share))))  # fmt: skip
    for level in levels:
        total = float(sum(plan.queries[level].values()))
        figures.append(Figure(name="sum of the level's shares (identity)", at=level, ours=total, again=1))
    rows: list[list[str | int | None]] = [["share of rho", None, *(text(plan.levels[level]) for level in levels)]]
    for query in queries:
        printed = ("" if share is None else text(share) for share in shares[query].values())
        rows.append([query, PERSONS_2020.query(query).size, *printed])
    shown = pd.DataFrame(rows, columns=["query", "cells", *levels]).astype({"cells": "Int64"})
    return Outcome(figures=figures, tables={"table 1": shown}, notes=notes_of("kazan2022.table1"))


def _epsilon_of_2020(key: str) -> Figure:
    """The 17.14 of sections 1 and 6: by Eq. 7 at the printed rho, and at the Bureau's exact one."""
    return judge(key, epsilon_from_rho(RHO, DELTA), as_printed=epsilon_from_rho(bureau().budget, DELTA))


def _at_another_delta(rho: Fraction) -> Figure:
    """Eq. 7 at a delta for which the paper prints nothing, to show that delta matters."""
    ours, again = epsilon_from_rho(rho, Fraction(1, 10**6)), plain_sums.exact_epsilon(float(rho), 1e-6)
    return Figure(name="exact epsilon", at=f"rho={float(rho)};delta=1e-6", ours=ours, again=again)


def section_1(_: Setting) -> Outcome:
    """Section 1: epsilon of the 2020 file, and the recommended one."""
    recommended = judge("kazan2022.section1.recommended", math.log(3))
    return Outcome(figures=[_epsilon_of_2020("kazan2022.section1.epsilon"), recommended, _at_another_delta(RHO)])


def section_2_1(_: Setting) -> Outcome:
    """Section 2.1: conversions and tails."""
    where, rho = "Section 2.1", rho_of_pure(1)
    gaussian, geometric = paper_noise(Fraction(rho)), Geometric(z=Fraction(1))
    figures = [
        judge("kazan2022.section2.1.rho", rho),
        judge("kazan2022.section2.1.implied", implied_epsilon(rho)),
        beside(where, "exact epsilon", "rho=0.5;delta=1e-10", epsilon_from_rho(rho, DELTA)),
        _at_another_delta(Fraction(1, 2)),
    ]
    for noise, name, at in (
        (gaussian, "discrete Gaussian", "rho=0.5;true=5"),
        (geometric, "geometric", "epsilon=1;true=5"),
    ):
        outside = 100 * float(noise.cdf(2 - 5) + noise.tail(8 - 5))
        figures.append(beside(where, f"{name} P[X*<=2 or >=8]", at, outside))
    return Outcome(figures=figures)


def section_2_3(_: Setting) -> Outcome:
    """Section 2.3: the budget of 2020."""
    where, item, plan = "Section 2.3", "kazan2022.section2.3", bureau()
    ours, exact = epsilon_from_rho(RHO, DELTA), epsilon_from_rho(plan.budget, DELTA)
    figures = [
        judge(f"{item}.rho", float(plan.budget), again=(542 / 339) ** 2),
        judge(f"{item}.levels", float(len(plan.levels))),
        judge(f"{item}.cells", float(PERSONS_2020.cells)),
        beside(where, "exact epsilon", "rho=2.56;delta=1e-10", ours, as_printed=exact),
        beside(where, "implied epsilon", "rho=2.56", implied_epsilon(RHO)),
        beside(where, "rho of a block", "", float(RHO * plan.levels["block"])),
        beside(where, "rho of the detailed query in a block", "", float(rho_of("block")), again=plain_sums.RHO_1),
    ]
    for level, queries in plan.queries.items():
        if level != "us":
            figures.append(judge(f"{item}.queries", float(len(queries)), at=level))
    figures.append(judge(f"{item}.queries_of_the_nation", float(len(plan.queries["us"]))))
    return Outcome(figures=figures, notes=notes_of(item))


def section_4_1(setting: Setting) -> Outcome:
    """Section 4.1: cells of the query in 2020 and in 1940."""
    item = "kazan2022.section4.1"
    names = {name: "race" if name == "cenrace" else name for name in printed_cases(f"{item}.levels_in_1940")}
    read = [] if setting.ipums is None else [extract_of(setting.ipums)]
    return Outcome(
        figures=[
            judge(f"{item}.cells", float(PERSONS_2020.cells)),
            *(
                judge(f"{item}.levels", float(PERSONS_2020.query(name).size), case=name, at=name)
                for name in printed_cases(f"{item}.levels")
            ),
            *(
                judge(f"{item}.levels_in_1940", float(PERSONS_1940_IPUMS.query(ours).size), case=name, at=name)
                for name, ours in names.items()
            ),
            judge(f"{item}.cells_in_1940", float(PERSONS_1940_IPUMS.cells)),
            *(judge(f"{item}.counted", float(p.total()), again=float(census_of(setting).persons)) for p in read),
            *(judge(f"{item}.met", float((p.at("us").dense() > 0).sum())) for p in read),
        ],
        notes=notes_of(item),
    )


def section_6(_: Setting) -> Outcome:
    """Section 6: epsilons of the conclusion."""
    item, plan = "kazan2022.section6", bureau()
    figures = [
        _epsilon_of_2020(f"{item}.epsilon"),
        judge(f"{item}.implied", implied_epsilon(RHO)),
        judge(f"{item}.levels", float(len(plan.levels))),
        beside("Section 6", "implied epsilon, block level", "", implied_epsilon(RHO * plan.levels["block"])),
        judge(f"{item}.detailed", implied_epsilon(rho_of("block"))),
    ]
    level = (542 / 339) ** 2 * 165 / 4099  # wide noise tells as one count of the level's whole rho: DG(1/rho)
    for words, queries, rho in (("detailed query", ["detailed"], level * 3945 / 4097), ("all queries", None, level)):
        empirical = empirical_epsilon(Intruder(prior="1/2").against(*noises_of(plan, "block", queries=queries)))
        figures.append(Figure(name=f"empirical epsilon of a block, Bureau's noise, {words}", at="p=1/2",
                              ours=empirical.implied_epsilon, again=math.sqrt(rho)))  # fmt: skip
    return Outcome(figures=figures, notes=notes_of(item))


def definitions(_: Setting) -> Outcome:
    """Definition 5, Theorem 1 and Eq. 8 (section 2.1)."""
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
    return Outcome(figures=figures, tables={"theorem 1": pd.DataFrame(rows)}, notes=notes_of("kazan2022.definitions"))
