"""Reallocation: cap the share of the leaf level by a bound on risk, and give the rest to the levels above.

Section 4.3.3 of kazan2022 finds that the level above matters little to an intruder who knows all but one person of a
leaf, and suggests spending the budget there instead. So the whole budget stays the same, and the level's share is
capped at the largest one that, like every smaller one, keeps the bound (``choose``). What is freed goes to the levels
above in proportion to their shares.

The bound holds for units with the level's own share. Under the only-child rule, a leaf without siblings is measured
with its parent, which pays for both levels. Its counts have less noise, and moving budget up does not help it. Such
units have rows of their own in the table of risks, and ``holds_for`` says that the bound does not hold for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, text
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.allocation_tables import hierarchy_table, noise_table, risk_table
from tallyveil.risk.budget.choose import Choice, choose
from tallyveil.risk.budget.exposures import intruders_of
from tallyveil.risk.budget.searches import Measure
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pyarrow as pa

SHARE = 10**6  # a new share is a whole number of these parts, rounded down


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """A strategy before and after its reallocation.

    Attributes
    ----------
    before, after
        The two strategies. They are the same if the bound was kept already.
    level
        The level whose risk was bounded.
    choice
        The largest budget of the whole strategy with the shares before, from ``choose``.
    largest_share
        The largest share that the level may have at the strategy's budget.
    note, holds_for
        What was done, and for which units the bound holds, in words.
    noise
        For each level and its detailed and total counts: share, budget, variance and mean absolute noise.
    risk
        What an intruder learns, by prior, about units of the level, and about units that are measured with a parent.
    hierarchy
        How often a target is rightly claimed with the unit above and 27 siblings (detailed counts), if the target is
        alone in the unit above or with 10 others. Where sums would take too long, released counts are drawn. ``draws``
        and standard errors (``_se``) are missing where everything is summed.
    """

    before: Strategy
    after: Strategy
    level: str
    choice: Choice
    largest_share: Fraction
    note: str
    holds_for: str
    noise: pd.DataFrame
    risk: pd.DataFrame
    hierarchy: pd.DataFrame

    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables by name."""
        return {"noise": self.noise, "risk": self.risk, "hierarchy": self.hierarchy}

    def to_pandas(self) -> pd.DataFrame:
        """The table of risks; ``frames()`` has the others."""
        return self.risk

    def to_arrow(self) -> pa.Table:
        """The table of risks as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self.risk, preserve_index=False)

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys, with shares as fractions in text; ``frames()`` has the tables."""
        shares = {
            name: {"before": text(share), "after": text(self.after.levels[name])}
            for name, share in self.before.levels.items()
        }
        return {
            "note": self.note,
            "holds_for": self.holds_for,
            "largest_share": float(self.largest_share),
            "shares": shares,
        }


def allocate(
    strategy: Strategy,
    bound: Number,
    measure: Measure,
    priors: Iterable[Number | Intruder],
    *,
    level: str | None = None,
    queries: Iterable[str] | None = None,
    rise: bool = False,
    choice: Choice | None = None,
) -> Allocation:
    """Cap a level's share so that it keeps the bound, and give the rest to the levels above.

    By default ``level`` is the leaf level, and ``queries`` are all of its queries. A level that keeps the bound already
    stays as it is, unless ``rise`` is set: then its share rises to the largest, and those above fall in proportion.
    ``choice`` is the result of ``choose`` for the same question, if there is one already.

    >>> moved = allocate(Strategy.preset("pl94-2020-us-persons"), "1.05", "risk", ["1/50"], queries=["detailed"])
    >>> {name: round(float(share), 4) for name, share in moved.after.levels.items()}
    {'us': 0.0259, 'state': 0.3585, 'county': 0.1113, 'tract': 0.171, 'block_group': 0.3127, 'block': 0.0207}
    """
    levels = list(strategy.levels)
    level = levels[-1] if level is None else level
    intruders, asked = intruders_of(priors), None if queries is None else list(queries)
    if level not in levels:
        raise InputError(f"unknown level {level!r}. Known are {', '.join(levels)}.")
    if level == levels[0]:
        raise InputError(f"there is no level above {level!r} to give budget to. Name another level.")
    if choice is None:
        choice = choose(measure, bound, priors=intruders, strategy=strategy, level=level, queries=asked)
    if choice.value is None:
        raise InputError(f"no share of level {level!r} keeps the bound: {choice.reason}. Give another bound or prior.")
    # With a whole budget of choice.value, the level's own budget would be choice.value times its share.
    largest = Fraction(choice.value * strategy.levels[level] * SHARE / strategy.budget // 1, SHARE)
    after, note = _moved(strategy, level, largest, rise=rise)
    both = {"before": strategy, "after": after}
    tables = {
        "noise": [noise_table(plan, when) for when, plan in both.items()],
        "risk": [risk_table(plan, when, level, asked, intruders) for when, plan in both.items()],
        "hierarchy": [hierarchy_table(plan, when, level, intruders) for when, plan in both.items()],
    }
    return Allocation(
        before=strategy,
        after=after,
        level=level,
        choice=choice,
        largest_share=largest,
        note=note,
        holds_for=bounded_units(strategy, level),
        **{name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()},
    )


def _moved(strategy: Strategy, level: str, largest: Fraction, *, rise: bool) -> tuple[Strategy, str]:
    """The strategy with the largest share for the level and the rest for the levels above, and a note on it."""
    levels, now = list(strategy.levels), strategy.levels[level]
    above = levels[: levels.index(level)]
    room = sum((strategy.levels[name] for name in above), now)  # the shares of this level and of those above
    words = f"the share of {level!r} is {float(now):.4g}; the largest that keeps the bound is {float(largest):.4g}"
    if largest == 0:
        raise InputError(f"{words}: no budget is left for it. Give another bound.")
    if largest >= room:
        note = f"kept already: even with the shares of all levels above, {level!r} would keep the bound"
        if rise:
            raise InputError(f"{note}. There is no share to rise to: levels above need some.")
        return strategy, note
    if now <= largest and not rise:
        return strategy, f"kept already: {words}"
    shares = dict(strategy.levels)
    shares |= {name: shares[name] * (room - largest) / (room - now) for name in above} | {level: largest}
    name = f"{strategy.name} reallocated" if strategy.name else ""
    return replace(strategy, levels=shares, name=name), words


def bounded_units(strategy: Strategy, level: str) -> str:
    """The units of a level for which a bound on its noise holds, in words."""
    levels = list(strategy.levels)
    place = levels.index(level)
    above, below = place > 0, place < len(levels) - 1
    if not strategy.only_child or not (above or below):
        return f"every unit of level {level!r}"
    who = " and ".join(["siblings"] * above + ["several children"] * below)
    words = f"units of level {level!r} with {who}"
    if not above:
        return f"{words}; an only child is measured with it, at the budget of both levels"
    return (
        f"{words}; one that is its {levels[place - 1]}'s only child is measured with it, at the budget of both levels"
    )
