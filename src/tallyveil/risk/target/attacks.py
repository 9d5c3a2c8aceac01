"""Which noisy counts tell the intruder's two hypotheses apart (kazan2022, section 5.1).

- ``characteristics`` (Eq. 9), ``responded`` (Eq. 36), ``truthful`` (Eq. 38): the rows that count the target are one
  lower otherwise. Each query of the level has one such row.
- ``attribute`` (Eq. 37): the target is counted in one of two cells that differ in an attribute. Each query that depends
  on it has two such rows. (The equation puts the prior on the other cell than its text: erratum 11.)
- ``cell``: the same for two cells that differ in every attribute. Nothing in the unit could differ in more counts.

The paper looks at the detailed query alone, where the first three are the same. An intruder sees every query of the
level, and the evidence adds. With all of them, the first three compare a target who is counted in the unit with one who
is not counted there at all, so that the total tells something too; an intruder who knows that the target is there has
the last two to ask. A query that an invariant of the level answers exactly adds nothing to what it settles.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, get_args

from tallyveil.errors import InputError
from tallyveil.nouns.schema import DETAILED, TOTAL, factors_of
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy import Strategy

Attack = Literal["characteristics", "responded", "truthful", "attribute", "cell"]
TWO_CELLS = ("attribute", "cell")  # attacks that compare two cells of the unit


def noises_of(
    strategy: Strategy,
    level: str,
    *,
    attack: Attack = "characteristics",
    attribute: str | None = None,
    queries: Iterable[str] | None = None,
    level_share: Fraction | None = None,
) -> tuple[Geometric | DiscreteGaussian, ...]:
    """The noise of each count of a level that the attack's two hypotheses differ in, by one.

    ``queries`` restricts them (``["detailed"]`` is the paper's intruder); ``level_share`` is for units with another
    share of the level (the only-child rule).

    >>> plan = Strategy.preset("e2e-2018", epsilon=1)
    >>> len(noises_of(plan, "enumdist")), len(noises_of(plan, "enumdist", attack="attribute", attribute="hispanic"))
    (3, 4)
    """
    if attack not in get_args(Attack):
        raise InputError(f"unknown attack {attack!r}. Known are {', '.join(get_args(Attack))}.")
    if (attack == "attribute") != (attribute is not None):
        raise InputError(
            "the attack 'attribute' needs the attribute that is unknown (--attribute NAME); no other attack has one."
        )
    if attribute is not None and attribute not in strategy.known_attributes:
        raise InputError(f"unknown attribute {attribute!r}. Known are {', '.join(strategy.known_attributes)}.")
    if level not in strategy.levels:
        raise InputError(f"unknown level {level!r}. Known are {', '.join(strategy.levels)}.")
    asked = strategy.queries[level] if queries is None else [strategy.written(level, query) for query in queries]
    told = [query for query in dict.fromkeys(asked) if _tells(strategy, query, attack, attribute)]
    told = [query for query in told if not is_settled(strategy, query, settled_at(strategy, level))]
    times = 2 if attack in TWO_CELLS else 1
    return tuple(strategy.noise(level, query, level_share=level_share) for query in told for _ in range(times))


def settled_at(strategy: Strategy, level: str) -> frozenset[str]:
    """Factors that invariants settle in every unit of a level; ``"total"`` where they settle that the target is there.

    Those of the level and of levels below, whose sums are exact too; and of the root everybody's number, where
    neighbours are equally many.
    """
    levels = list(strategy.levels)
    finer = levels[levels.index(level) :]
    exact = [c.query for c in strategy.constraints if isinstance(c, Invariant) and c.level in finer]
    if strategy.neighbours == "replace-one" and level == levels[0]:
        exact.append(TOTAL)
    return settled_by(strategy, exact)


def settled_by(strategy: Strategy, queries: Iterable[str]) -> frozenset[str]:
    """Factors that exact answers settle, for somebody who knows all others; ``"total"`` with any of them."""
    known = list(queries)
    factors = {f for query in known for f in (strategy.known_attributes if query == DETAILED else factors_of(query))}
    return frozenset(factors | ({TOTAL} if known else set()))


def is_settled(strategy: Strategy, query: str, settled: frozenset[str]) -> bool:
    """Whether a query adds nothing, all its factors (or what they group) being settled."""
    factors = strategy.known_attributes if query == DETAILED else factors_of(query) or (TOTAL,)
    return all(factor in settled or strategy.groupings.get(factor) in settled for factor in factors)


def _tells(strategy: Strategy, query: str, attack: Attack, attribute: str | None) -> bool:
    depends = strategy.depends_on(query)
    return attribute in depends if attack == "attribute" else attack != "cell" or bool(depends)
