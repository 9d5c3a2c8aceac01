"""kazan2022, section 6: an "empirical" epsilon over all levels and queries, before and after post-processing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import final

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from tallyveil import Histogram, Spine
from tallyveil.auditing.mechanism_runs import TopDownRuns
from tallyveil.populations import census_2020
from tallyveil.privacy import DiscreteGaussian
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.risk import Target, empirical_levels, empirical_release, noises_of
from tallyveil.risk.budget.empirical_levels import WITH_BELOW, without_invariants
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.target import most_common_other
from tallyveil.runs.batches import Execution
from tallyveil_papers.figure import Figure
from tallyveil_papers.kazan import plain_sums
from tallyveil_papers.kazan.facts import bureau
from tallyveil_papers.registry import Outcome, Setting
from tallyveil_papers.verdicts import judge, notes_of

ITEM = "kazan2022.empirical"
CHILDREN = (2, 2, 2, 2, 4)  # of the nation, a state, a county, a tract and a block group
RUNS = 100  # of each hypothesis, for each replicate
PERSONS = 6_000  # of the synthetic census whose first blocks are used
SEEN = {
    "before": "before post-processing",
    "after": "after post-processing",
    "after_cell": "after post-processing, counts of the cell alone",
}
WORDS = {True: "with invariants", False: "without invariants"}
SAME = 1e-4  # relative: a sum of many discrete Gaussians is close to a normal one


@final
@dataclass(frozen=True, kw_only=True)
class TargetFigures:
    """What measurements and releases reveal about the target: a row for each of ``before``, ``after``, ``after_cell``.

    Columns are those of :class:`tallyveil.risk.simulate.empirical_release.EmpiricalFigure`.
    """

    figures: pd.DataFrame


def section_6_empirical(setting: Setting) -> Outcome:
    """Section 6: an empirical epsilon of the 2020 strategy, with and without invariants, before and after TopDown."""
    table, runs = empirical_levels(bureau()), RUNS * setting.replicates
    figures = [figure for kept in WORDS for figure in _before(table, kept)]
    frames = []
    for kept, found in zip(WORDS, setting.map(simulated, list(WORDS), [setting.seed] * 2, [runs] * 2), strict=True):
        frames.append(found.figures.assign(invariants=kept))
        figures += _after(found.figures.set_index("seen"), WORDS[kept])
    people = small_census(setting.seed)
    target, labels = unique_target(people), people.schema.query("detailed").labels()
    words = {"cell": labels[target.cell], "other": labels[target.instead or 0], "runs": runs}
    tables = {"before post-processing": table, "one target": pd.concat(frames, ignore_index=True)}
    return Outcome(figures=figures, tables=tables, notes=notes_of(ITEM, **words))


def simulated(kept: bool, seed: int, runs: int) -> TargetFigures:
    """TopDown under two hypotheses: what is revealed about the target, with and without invariants."""
    people = small_census(seed)
    constraints = tuple(c for c in bureau().constraints if not isinstance(c, FacilityBounds))
    plan = replace(bureau(), constraints=constraints)
    strategy = plan if kept else without_invariants(plan)
    run = TopDownRuns(strategy=strategy, facilities=None, seed=seed, delta=float(strategy.delta))
    (found,) = empirical_release(
        run, people, unique_target(people), strategy=strategy, priors=["1/2"], runs=runs, execution=Execution(batch=50)
    )
    rows = [{"seen": name, **asdict(getattr(found, name))} for name in SEEN]
    return TargetFigures(figures=pd.DataFrame(rows))


def small_census(seed: int) -> Histogram:
    """A synthetic census of 2020 on a small tree in which nobody is an only child, so that all six levels count."""
    made = census_2020(persons=PERSONS, seed=seed).people
    codes = list(product(*(map(str, range(1, n + 1)) for n in CHILDREN)))
    names = made.spine.levels[1:]
    spine = Spine.from_columns(
        {name: ["".join(code[: i + 1]) for code in codes] for i, name in enumerate(names)}, root=made.spine.levels[0]
    )
    unit, few = made.leaves.unit(), made.leaves.unit() < len(codes)
    entries = {"unit": unit[few], "cell": made.leaves.cell[few], "count": made.leaves.count[few]}
    return Histogram.from_entries(spine, made.schema, **entries)


def unique_target(people: Histogram) -> Target:
    """The first person who is alone in a cell of a block, and the most common other cell of the block group."""
    first = int(np.flatnonzero(people.leaves.count == 1)[0])
    leaf, cell = int(people.leaves.unit()[first]), int(people.leaves.cell[first])
    return Target(leaf=leaf, cell=cell, instead=most_common_other(people, leaf=leaf, cell=cell))


def _before(table: pd.DataFrame, kept: bool) -> list[Figure]:
    """All six levels, within the paper's range; and the block level alone, below it because of the larger noise."""
    strategy = bureau() if kept else without_invariants(bureau())
    together = table[(table.invariants == kept) & (table.scope == WITH_BELOW)].set_index("level").implied_epsilon
    ours, at = float(together["us"]), f"p=1/2;{WORDS[kept]}"
    noises = {level: noises_of(strategy, level) for level in strategy.levels}
    again = as_one_count([noise for level in noises.values() for noise in level])
    found = [
        judge(f"{ITEM}.{bound}", ours, at=at, again=again, again_within=SAME * again) for bound in ("above", "below")
    ]
    if kept:
        block = as_one_count(noises["block"])
        found.append(Figure(name="empirical epsilon, block level alone", at=at, ours=float(together["block"]),
                            again=block, again_within=SAME * block))  # fmt: skip
    return found


def as_one_count(noises: Iterable[CountNoise]) -> float:
    """The implied epsilon of one count that reveals as much to an intruder with p = 1/2, by other means.

    The log likelihood ratio of many counts is close to normal, with variance I, the sum of 1/variance, and mean I/2.
    The posterior is averaged over it by quadrature, and Eq. 14 of one count is inverted as a plain sum.
    """
    information = sum(1 / float(noise.variance) for noise in noises if isinstance(noise, DiscreteGaussian))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    logs = information / 2 + math.sqrt(information) * nodes
    posterior = float((weights / weights.sum()) @ (1 / (1 + np.exp(-logs))))
    rho = brentq(lambda rho: plain_sums.average(rho, 0.5) - posterior, 1e-3, 10)
    return math.sqrt(2 * rho)


def _after(found: pd.DataFrame, words: str) -> list[Figure]:
    """One target: the measurements, the release, and the claim that post-processing adds no risk."""
    chance = 3 * float(found.marginal_posterior_se["after"])
    change = float(found.marginal_posterior["after"] - found.marginal_posterior["before"])
    at = f"p=1/2;{words}"
    return [
        *(
            Figure(name=f"empirical epsilon of one target, {name}", at=at, ours=float(found.implied_epsilon[seen]))
            for seen, name in SEEN.items()
        ),
        judge(f"{ITEM}.increase", change, at=at, chance=chance),
    ]
