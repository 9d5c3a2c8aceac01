"""petti2020's conjecture about 2020: finer tables have smaller counts, slightly less accuracy and more privacy loss.

The same synthetic people of 2020 are protected twice at each budget: with the tables of 2020 (six levels, 63 race
groups), and with tables as coarse as those of 1940 (four levels, six race groups). The split of the budget follows the
2018 test in both: equal shares of levels, and 10, 22.5 and 67.5% for the cells, the type of home and the strata. Errors
are those of the same counts, the 24 coarse strata of tracts; losses and sizes are those of each table's own strata.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd

from tallyveil.evaluate import epl, error, residuals
from tallyveil.nouns.census_schemas import PERSONS_2020, SINGLE_RACES_2020
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.populations import census_2020
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.protection.protect import protect
from tallyveil_papers.figure import Figure
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

PERSONS = 300_000  # at most; in a smaller country the conjecture is not judged
BUDGETS = ("0.5", "1", "2", "4")
LEAF = "tract"  # of the coarse tables: a fourth level, as the districts were
COARSE = Schema(
    attributes={**PERSONS_2020.attributes, "cenrace": SINGLE_RACES_2020},
    zeros=[{"hhgq": ["nursing"], "votingage": ["minor"]}],
)
STRATA = "votingage * hispanic * cenrace"


def compute_conjecture(setting: Setting) -> Outcome:
    """Compare the fine and the coarse tables at every budget."""
    people = _people(min(setting.persons, PERSONS), setting.seed)
    table = pd.concat([_at(people, budget, setting) for budget in BUDGETS], ignore_index=True)
    few = "the country is too small for tracts to be compared" if people.total() < PERSONS else ""
    return Outcome(
        figures=list(_figures(table, few)),
        tables={"fine and coarse": table},
        notes=notes_of("petti2020.conjecture", persons=people.total()),
    )


def coarsened(people: Histogram) -> Histogram:
    """The same people with four levels and six race groups: the first race of each combination."""
    spine, leaves = people.spine, people.leaves
    tracts = spine.leaves_under(LEAF)
    coarse = Spine.from_codes(spine.codes[spine.depth(LEAF)], lengths={"state": 2, "county": 5, LEAF: 11}, root="us")
    unit = np.repeat(np.arange(len(tracts) - 1), np.diff(tracts))[leaves.unit()]
    places = list(np.unravel_index(leaves.cell.astype(np.int64), PERSONS_2020.shape))
    first = [SINGLE_RACES_2020.index(race.split("+")[0]) for race in PERSONS_2020.attributes["cenrace"]]
    places[-1] = np.array(first)[places[-1]]
    cell = np.ravel_multi_index(tuple(places), COARSE.shape)
    return Histogram.from_entries(coarse, COARSE, unit=unit, cell=cell, count=leaves.count)


def strategy_of(people: Histogram, epsilon: str) -> Strategy:
    """The split of the 2018 test on the levels of these people, with state totals invariant."""
    levels = people.spine.levels
    queries = {"detailed": Fraction(1, 10), "hhgq": Fraction(9, 40), STRATA: Fraction(27, 40)}
    return Strategy(
        mechanism="geometric",
        budget=Fraction(epsilon),
        levels=dict.fromkeys(levels, Fraction(1, len(levels))),
        queries=dict.fromkeys(levels, queries),
        constraints=(Invariant(query="total", level="state"),),
    )


@lru_cache(maxsize=1)
def _people(persons: int, seed: int) -> Histogram:
    return census_2020(persons=persons, seed=seed).people


def _at(fine: Histogram, epsilon: str, setting: Setting) -> pd.DataFrame:
    """One row for each of the two tables."""
    rows = []
    truth = coarsened(fine)
    for name, people in (("fine", fine), ("coarse", truth)):
        released = [
            protect(people, strategy_of(people, epsilon), seed=setting.seed, replicate=k).histogram
            for k in range(setting.replicates)
        ]
        same = [coarsened(each) for each in released] if name == "fine" else released
        rows.append({"epsilon": float(epsilon), "tables": name, **_figures_of(people, released, truth, same)})
    return pd.DataFrame(rows)


def _figures_of(
    people: Histogram, released: Sequence[Histogram], truth: Histogram, same: Sequence[Histogram]
) -> dict[str, float | None]:
    errors = error(truth, list(same), levels=[LEAF], queries=[STRATA]).set_index("statistic").value
    own = people.answer(STRATA, level=LEAF).count
    loss = epl(residuals(people, list(released), level=LEAF, query=STRATA))
    return {"median_abs": errors["median_abs"], "rmse": errors["rmse"], "epl": loss.epl, "epl_low": loss.epl_low,
            "epl_high": loss.epl_high, "median_size": float(np.median(own[own > 0]))}  # fmt: skip


def _figures(table: pd.DataFrame, left_out: str) -> list[Figure]:
    fine, coarse = (table[table.tables == name].set_index("epsilon") for name in ("fine", "coarse"))

    def ratio(column: str, epsilon: float) -> float:
        return math.nan if left_out else float(fine[column][epsilon] / coarse[column][epsilon])

    figures = [
        judge(f"petti2020.conjecture.{key}", ratio(column, epsilon), at=f"epsilon {epsilon:g}", stand_in=True,
              left_out=left_out)
        for epsilon in fine.index
        for key, column in (("accuracy", "rmse"), ("loss", "epl"))
    ]  # fmt: skip
    size = ratio("median_size", fine.index[0])
    return [*figures, judge("petti2020.conjecture.size", size, stand_in=True, left_out=left_out)]
