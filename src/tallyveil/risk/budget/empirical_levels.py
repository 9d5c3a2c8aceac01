"""The empirical epsilon of a whole strategy before post-processing: level by level, and of all levels together.

The paper's figure is for the block level alone. An intruder sees the counts of every unit that contains the target, and
the evidence of all levels and queries adds up. Two bounds stand beside it (section 6 of kazan2022): the implied epsilon
of the leaf level, and that of all levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, rounded_up, text
from tallyveil.privacy.constraints import FacilityBounds, Invariant
from tallyveil.privacy.conversions import implied_epsilon
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.empirical import Empirical, empirical_epsilon
from tallyveil.risk.budget.exposures import intruders_of
from tallyveil.risk.target.attacks import Attack, noises_of
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder

ALONE, WITH_BELOW = "alone", "with levels below"
QUOTE = (
    "A better bound is likely somewhere between eps = 0.45, the implied eps at the Census block level, and eps = 2.26, "
    "the implied eps across all six levels."
)


@final
@dataclass(frozen=True, kw_only=True)
class Expected:
    """Where section 6 of kazan2022 expects the empirical epsilon: from the leaf level's to that of all levels."""

    low: float
    high: float

    @classmethod
    def of(cls, strategy: Strategy) -> Expected:
        """The implied epsilons of a strategy; the epsilons themselves where it is pure (Theorem 2).

        >>> found = Expected.of(Strategy.preset("pl94-2020-us-persons"))
        >>> round(found.low, 2), round(found.high, 2)
        (0.45, 2.26)
        """
        leaf = strategy.budget * list(strategy.levels.values())[-1]
        pure = strategy.mechanism == "geometric"
        low, high = (rounded_up(b) if pure else implied_epsilon(b) for b in (leaf, strategy.budget))
        return cls(low=low, high=high)

    def as_json(self) -> dict[str, Any]:
        """The bounds under their JSON keys, with the paper's words."""
        return {"low": self.low, "high": self.high, "quote": QUOTE}


def without_invariants(strategy: Strategy) -> Strategy:
    """The strategy without what it publishes exactly: its invariants, and its bounds from facilities."""
    kept = tuple(c for c in strategy.constraints if not isinstance(c, Invariant | FacilityBounds))
    return strategy if len(kept) == len(strategy.constraints) else replace(strategy, constraints=kept)


def empirical_levels(
    strategy: Strategy, *, priors: Iterable[Number | Intruder] = ("1/2",), attack: Attack | None = None
) -> pd.DataFrame:
    """Empirical epsilons of a strategy's measurements, with and without its invariants.

    For each prior there is a row for each level alone, and one for it together with the levels below, of which that of
    the root is for all levels. An exact count settles what it counts, so the noisy count of the same query adds nothing
    (``invariants`` is True); without the invariant, the noisy count is evidence. Only children are not considered.

    Returns
    -------
    DataFrame
        Columns ``prior``, ``invariants``, ``level``, ``scope``, ``counts`` (how many noisy counts are used),
        ``marginal_posterior``, ``implied_epsilon``, ``gaussian_rho`` and ``geometric_epsilon`` (see
        :class:`Empirical`). Figures are None where no count tells the hypotheses apart, or where the posterior is too
        near to the prior or to 1.

    >>> table = empirical_levels(Strategy.preset("e2e-2018", epsilon=1))
    >>> table = table[table.invariants & (table.scope == "with levels below")]
    >>> table[["level", "counts", "geometric_epsilon"]].round(2).values.tolist()
    [['us', 12, 0.18], ['state', 9, 0.16], ['county', 6, 0.13], ['enumdist', 3, 0.09]]
    """
    asked, intruders = attack or Attack(), intruders_of(priors)
    for query in asked.queries or ():
        if not any(strategy.spelled(query) in measured for measured in strategy.queries.values()):
            raise InputError(f"query {query!r} is not measured at any level. Name a query of the strategy.")
    rows = []
    bare = without_invariants(strategy)
    for plan in (strategy,) if bare is strategy else (strategy, bare):
        noises = {level: _noises(plan, level, asked) for level in plan.levels}
        if not any(noises.values()):
            raise InputError("no measured query tells the hypotheses of this attack apart. Name another attack.")
        names = list(noises)
        for i, level in enumerate(names):
            scopes = {ALONE: noises[level], WITH_BELOW: sum((noises[name] for name in names[i:]), ())}
            for scope, counts in scopes.items():
                for intruder in intruders:
                    place = {"invariants": plan is not bare or bare is strategy, "level": level, "scope": scope}
                    figures = _figures(intruder, counts)
                    rows.append({"prior": text(Fraction(intruder.prior)), **place, "counts": len(counts), **figures})
    return pd.DataFrame(rows)


def _noises(strategy: Strategy, level: str, attack: Attack) -> tuple[CountNoise, ...]:
    """The noise of the counts that the attack uses at a level; queries that are not measured there add nothing."""
    queries = attack.queries
    if queries is not None:
        queries = [query for query in queries if strategy.spelled(query) in strategy.queries[level]]
    return noises_of(strategy, level, attack=attack.kind, attribute=attack.attribute, queries=queries)


def _figures(intruder: Intruder, counts: tuple[CountNoise, ...]) -> dict[str, float | None]:
    names = ("marginal_posterior", "implied_epsilon", "gaussian_rho", "geometric_epsilon")
    found = empirical_or_none(intruder, counts)
    return {name: None if found is None else getattr(found, name) for name in names}


def empirical_or_none(intruder: Intruder, counts: tuple[CountNoise, ...]) -> Empirical | None:
    """The empirical epsilon of some counts; None if there are none, or if floats cannot tell."""
    try:
        return empirical_epsilon(intruder.against(*counts)) if counts else None
    except InputError:  # too near to the prior, or to 1
        return None
