"""The state of petti2020's appendix, its noise, and EPL of many draws.

Washington State had 2,663 enumeration districts in 1940. Noise does not depend on the counts it is added to, so the
loss of the geometric mechanism can be computed on any state with as many districts.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers
from tallyveil.mechanisms import geometric
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.spine import Spine
from tallyveil.populations import census_1940
from tallyveil_papers.losses import largest
from tallyveil_papers.petti.census import census_of
from tallyveil_papers.petti.runs import STRATA
from tallyveil_papers.registry import Setting
from tallyveil_papers.verdicts import printed

DISTRICTS = round(printed("petti2020-appendix.figure_sa1.districts"))
PERSONS = 2_614_500  # a synthetic state of so many has 2,663 districts
WASHINGTON = b"53"
_PERSONS, _COUNTIES, _FILLED = 1_736_191, 39, 9_869  # of Washington: census of 1940; notebook 010, cell 9
RUNS = 300  # of ours, for a mean; fewer at the smallest budgets, where noise is wide
THEIRS = 100  # draws behind a row of Table SA1: not said; its equal rows differ as means of 30 to 260 do


class State(NamedTuple):
    """Washington, or a synthetic state with as many districts."""

    people: Histogram
    stand_in: bool

    def words(self) -> str:
        """Which state it is, for a chart."""
        return f"A synthetic state of {self.people.total():,} persons" if self.stand_in else "Washington State"


def state_of(setting: Setting) -> State:
    """The state of a setting, made or read once."""
    if setting.ipums is not None:
        return State(one_state(census_of(setting).population.people, WASHINGTON), False)
    return State(_synthetic(setting.seed), True)


@lru_cache(maxsize=2)
def _synthetic(seed: int) -> Histogram:
    return census_1940(persons=PERSONS, seed=seed).people


def one_state(people: Histogram, code: bytes) -> Histogram:
    """The people of one state, on a spine of their own."""
    spine = people.spine
    at = int(spine.locate("state", np.array([code]))[0])
    first, last = spine.leaves_under("state")[at : at + 2]
    columns = {
        level: np.repeat(spine.codes[spine.depth(level)], np.diff(spine.leaves_under(level)))[first:last]
        for level in spine.levels[1:]
    }
    unit = people.leaves.unit()
    inside = (unit >= first) & (unit < last)
    return Histogram.from_entries(
        Spine.from_columns(columns, root=spine.levels[0]),
        people.schema,
        unit=unit[inside] - first,
        cell=people.leaves.cell[inside],
        count=people.leaves.count[inside],
    )


def noise_of(people: Histogram, z: Fraction | float, *, seed: int, runs: int) -> Integers:
    """Residuals of district totals under G(z), one row for each run."""
    made = geometric(people, epsilon=2 * z, neighbours="replace-one", seed=seed, replicate=range(runs))
    truth = people.answer("total", level="enumdist").dense()
    return np.asarray((made.answer("total", level="enumdist") - truth)[:, :, 0])


class Losses(NamedTuple):
    """EPL of many draws: their statistics, and the sampling error of such statistics."""

    values: Floats

    def statistics(self) -> dict[str, float]:
        """The columns of Table SA1."""
        low, high = np.quantile(self.values, [0.025, 0.975])
        return {"epl_mean": float(self.values.mean()), "epl_2_5": float(low), "epl_97_5": float(high)}

    def errors(self, seed: int, beside: int = THEIRS) -> dict[str, float]:
        """Bootstrap standard errors of the difference between statistics of ``beside`` draws and of ours."""
        rng = np.random.default_rng(seed)
        squares = np.zeros(3)
        for size in (beside, len(self.values)):
            again = rng.choice(self.values, (600, size))
            low, high = np.quantile(again, [0.025, 0.975], axis=1)
            squares += np.array([again.mean(axis=1).var(), low.var(), high.var()])
        return dict(zip(("epl_mean", "epl_2_5", "epl_97_5"), np.sqrt(squares).tolist(), strict=True))

    def mean(self) -> float:
        """Of all draws."""
        return float(self.values.mean())


def losses_of(draws: Iterable[NDArray[Any]], **settings: Any) -> Losses:
    """EPL of each draw."""
    return Losses(np.array([largest(one, **settings) for one in draws]))


def strata_of(state: State) -> Integers:
    """True counts of the 24 cells of each district."""
    return np.asarray(state.people.answer(STRATA, level="enumdist").dense())


def state_in_words(state: State) -> str:
    """A note on the state: its size, and how it differs from Washington."""
    spine, districts = state.people.spine, state.people.spine.size("enumdist")
    counts = f"{state.people.total():,} persons in {districts:,} districts of {spine.size('county')} counties"
    if not state.stand_in:
        return f"Washington: {counts}."
    filled = np.count_nonzero(strata_of(state))
    return (
        f"A synthetic state stands in for Washington: {counts}. Its size was chosen to give Washington's 2,663 "
        f"districts; otherwise it resembles the nation, not Washington, which had {_PERSONS:,} persons in {_COUNTIES} "
        f"counties and {_FILLED:,} non-empty strata (notebook 010 of the authors). A district therefore has "
        f"{state.people.total() / districts:,.0f} persons here and {_PERSONS / DISTRICTS:,.0f} there, and "
        f"{filled / districts:.1f} strata that are not empty here and {_FILLED / DISTRICTS:.1f} there."
    )
