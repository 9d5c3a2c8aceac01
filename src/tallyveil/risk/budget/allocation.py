"""A budget moved up: the leaf level's share capped by a bound on risk, the rest given to the levels above.

Section 4.3.3 of kazan2022 finds that for an intruder who knows all but one person of a leaf, the level above matters
little, and suggests to spend there instead. So: keep the whole budget, cap the level's share at the largest that keeps
the bound with every smaller one (``choose``), and give what is freed to the levels above in proportion to their shares.

The bound holds for units with the level's own share. Under the only-child rule a leaf without siblings is measured with
its parent, which pays for both levels: its counts have less noise, and moving budget up does not help it. The table of
risks has such units in rows of their own, and ``holds_for`` says that the bound is not theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.budget import Number, text
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.budget.choose import Choice, choose
from tallyveil.risk.budget.curve import mean_abs
from tallyveil.risk.budget.exposures import exposures, intruders_of
from tallyveil.risk.budget.searches import Measure
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.intruder import Intruder

if TYPE_CHECKING:
    import pyarrow as pa

SHARE = 10**6  # a new share is a whole number of these parts, rounded down
SIBLINGS, COUNTS = 27, (1, 11)  # of the check with the level above: the paper's d, a target alone there or with 10


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """A strategy before and after.

    Attributes
    ----------
    before, after
        The strategies; the same where the bound was kept already.
    level
        The level whose risk was bounded.
    choice
        The largest budget of the whole strategy with the shares before, as ``choose`` finds it.
    largest_share
        The share that the level may have at the strategy's budget.
    note, holds_for
        What was done, and for which units the bound holds, in words.
    noise
        For each level and its detailed and total counts: share, budget, variance and mean absolute noise.
    risk
        For each prior what an intruder learns of units of the level, and of those whose parent pays for them too.
    hierarchy
        How often a target is rightly claimed with the unit above and 27 siblings (detailed counts), alone above or
        with 10 others there. Where sums are too long, released counts are drawn: ``draws`` and standard errors
        (``_se``) are missing where all is summed.
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
    """Cap a level's share so that the bound is kept there, and give the rest to the levels above.

    ``level`` is the leaf level by default, ``queries`` all of its. A level that keeps the bound already stays as it is,
    unless ``rise``: then its share rises to the largest, and those above fall in proportion. ``choice`` is what
    ``choose`` gave for the same question, if it was asked before.

    >>> found = allocate(Strategy.preset("pl94-2020-us-persons"), "1.05", "risk", ["1/50"], queries=["detailed"])
    >>> {name: round(float(share), 4) for name, share in found.after.levels.items()}
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
    # At a whole budget of choice.value, the level's own budget would be choice.value times its share.
    largest = Fraction(choice.value * strategy.levels[level] * SHARE / strategy.budget // 1, SHARE)
    after, note = _moved(strategy, level, largest, rise=rise)
    both = {"before": strategy, "after": after}
    tables = {
        "noise": [_noise(plan, when) for when, plan in both.items()],
        "risk": [_risk(plan, when, level, asked, intruders) for when, plan in both.items()],
        "hierarchy": [_with_above(plan, when, level, intruders) for when, plan in both.items()],
    }
    return Allocation(
        before=strategy,
        after=after,
        level=level,
        choice=choice,
        largest_share=largest,
        note=note,
        holds_for=holds_for(strategy, level),
        **{name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()},
    )


def _moved(strategy: Strategy, level: str, largest: Fraction, *, rise: bool) -> tuple[Strategy, str]:
    """The strategy with the level's share at its largest and the rest given to the levels above, and a note on it."""
    levels, now = list(strategy.levels), strategy.levels[level]
    above = levels[: levels.index(level)]
    room = sum((strategy.levels[name] for name in above), now)  # what this level and those above have together
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


def holds_for(strategy: Strategy, level: str) -> str:
    """For which units of a level a bound on its noise holds, in words."""
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


def _noise(strategy: Strategy, when: str) -> pd.DataFrame:
    rows = [
        {
            "allocation": when,
            "level": spend.level,
            "query": spend.query,
            "level_share": float(strategy.levels[spend.level]),
            f"level_{strategy.unit}": float(strategy.budget * strategy.levels[spend.level]),
            "variance": spend.noise.actual_variance(),
            "mean_abs": mean_abs(spend.noise),
        }
        for spend in strategy.spends()
        if spend.query in (DETAILED, TOTAL)
    ]
    return pd.DataFrame(rows)


def _risk(
    strategy: Strategy, when: str, level: str, queries: Sequence[str] | None, intruders: Sequence[Intruder]
) -> pd.DataFrame:
    """Rows for the level's units, and for those whose parents pay for them under the only-child rule."""
    levels = list(strategy.levels)
    leaf = levels.index(level)
    rows = []
    for top in range(leaf, -1 if strategy.only_child else leaf - 1, -1):
        share = sum((strategy.levels[name] for name in levels[top : leaf + 1]), Fraction(0))
        asked = None if queries is None else [query for query in queries if query in strategy.queries[levels[top]]]
        if asked == []:
            continue
        noises = noises_of(strategy, levels[top], queries=asked, level_share=share)
        if not noises:  # invariants answer all
            continue
        for exposed in exposures(noises, intruders, 1):
            rows.append(
                {
                    "allocation": when,
                    "measured_at": levels[top],
                    "units": level if top == leaf else f"only {level} of a {levels[top]}",
                    "prior": text(Fraction(exposed.intruder.prior)),
                    "posterior": exposed.marginal_posterior,
                    "risk": exposed.risk,
                    "right_decision": exposed.right_decision,
                }
            )
    return pd.DataFrame(rows)


def _with_above(strategy: Strategy, when: str, level: str, intruders: Sequence[Intruder]) -> pd.DataFrame:
    """Whether the larger budget above helps this intruder: the right decision of two levels (section 4.3.3)."""
    levels = list(strategy.levels)
    parent = levels[levels.index(level) - 1]
    if any(DETAILED not in strategy.queries[name] for name in (level, parent)):
        return pd.DataFrame()
    own, upper = (strategy.noise(name, DETAILED) for name in (level, parent))
    rows = []
    for intruder in intruders:
        two = Hierarchy(intruder=intruder, noise=own, above=[Above(noise=upper, siblings=[own] * SIBLINGS)])
        for count in COUNTS:
            found = two.decision([intruder.known + count])
            rows.append(
                {
                    "allocation": when,
                    "prior": text(Fraction(intruder.prior)),
                    "others_above": count - 1,
                    "right_decision": found.right_decision,
                    "alone": found.alone,
                    "gain": found.gain,
                    "loss": found.loss,
                    "truncation": found.truncation,
                    "draws": found.draws,
                    "right_decision_se": found.right_decision_se,
                    "gain_se": found.gain_se,
                    "loss_se": found.loss_se,
                }
            )
    kinds = dict.fromkeys(("draws", "right_decision_se", "gain_se", "loss_se"), float)  # missing: not a number
    return pd.DataFrame(rows).astype(kinds)
