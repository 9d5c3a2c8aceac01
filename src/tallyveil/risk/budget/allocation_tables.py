"""The tables of an allocation: the noise by level, and what an intruder learns without and with the level above."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pandas as pd

from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.budget import text
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.above.levels import Above
from tallyveil.risk.budget.curve import mean_abs
from tallyveil.risk.budget.exposures import exposures
from tallyveil.risk.target.attacks import noises_of
from tallyveil.risk.target.intruder import Intruder

SIBLINGS = 27  # the paper's d
COUNTS = (1, 11)  # people with the characteristics in the unit above: the target alone, or with 10 others


def noise_table(strategy: Strategy, when: str) -> pd.DataFrame:
    """Shares, budgets and noise of the detailed and total counts of each level."""
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


def risk_table(
    strategy: Strategy, when: str, level: str, queries: Sequence[str] | None, intruders: Sequence[Intruder]
) -> pd.DataFrame:
    """Risk of the level's units, and of units that are measured with a unit above under the only-child rule."""
    levels = list(strategy.levels)
    leaf = levels.index(level)
    rows = []
    for top in range(leaf, -1 if strategy.only_child else leaf - 1, -1):
        share = sum((strategy.levels[name] for name in levels[top : leaf + 1]), Fraction(0))
        asked = None if queries is None else [query for query in queries if query in strategy.queries[levels[top]]]
        if asked == []:
            continue
        noises = noises_of(strategy, levels[top], queries=asked, level_share=share)
        if not noises:  # invariants answer all queries
            continue
        for exposure in exposures(noises, intruders, 1):
            rows.append(
                {
                    "allocation": when,
                    "measured_at": levels[top],
                    "units": level if top == leaf else f"only {level} of a {levels[top]}",
                    "prior": text(Fraction(exposure.intruder.prior)),
                    "posterior": exposure.marginal_posterior,
                    "risk": exposure.risk,
                    "right_decision": exposure.right_decision,
                }
            )
    return pd.DataFrame(rows)


def hierarchy_table(strategy: Strategy, when: str, level: str, intruders: Sequence[Intruder]) -> pd.DataFrame:
    """Right decisions with the level above, which show whether its larger budget helps the intruder (section 4.3.3)."""
    levels = list(strategy.levels)
    parent = levels[levels.index(level) - 1]
    if any(DETAILED not in strategy.queries[name] for name in (level, parent)):
        return pd.DataFrame()
    own, upper = (strategy.noise(name, DETAILED) for name in (level, parent))
    rows = []
    for intruder in intruders:
        two = Hierarchy(intruder=intruder, noise=own, above=[Above(noise=upper, siblings=[own] * SIBLINGS)])
        for count in COUNTS:
            decision = two.decision([intruder.known + count])
            rows.append(
                {
                    "allocation": when,
                    "prior": text(Fraction(intruder.prior)),
                    "others_above": count - 1,
                    "right_decision": decision.right_decision,
                    "alone": decision.alone,
                    "gain": decision.gain,
                    "loss": decision.loss,
                    "truncation": decision.truncation,
                    "draws": decision.draws,
                    "right_decision_se": decision.right_decision_se,
                    "gain_se": decision.gain_se,
                    "loss_se": decision.loss_se,
                }
            )
    kinds = dict.fromkeys(
        ("draws", "right_decision_se", "gain_se", "loss_se"), float
    )  # missing values are not a number
    return pd.DataFrame(rows).astype(kinds)
