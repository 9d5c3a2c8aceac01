"""Which noisy counts tell the intruder's two hypotheses apart (kazan2022, section 5.1).

- ``characteristics`` (Eq. 9), ``responded`` (Eq. 36), ``truthful`` (Eq. 38): the rows that count the target are one
  lower otherwise. Each query of the level has one such row.
- ``attribute`` (Eq. 37): the target is counted in one of two cells that differ in an attribute. Each query that depends
  on it has two such rows. (The equation puts the prior on the other cell than its text: erratum 11.)
- ``cell``: the same for two cells that differ in every attribute. Nothing in the unit could differ in more counts.

The paper looks at the detailed query alone, where the first three are the same. An intruder sees every query of the
level, and the evidence adds. With all of them, the first three compare a target who is counted in the unit with one who
is not counted there at all, so that the total tells something too; an intruder who knows that the target is there has
the last two to ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, get_args

from tallyveil.errors import InputError
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
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
        raise InputError("the attack 'attribute' needs the attribute that is unknown; the others have none.")
    if attribute is not None and attribute not in strategy.attributes:
        raise InputError(f"unknown attribute {attribute!r}. Known are {', '.join(strategy.attributes)}.")
    if level not in strategy.levels:
        raise InputError(f"unknown level {level!r}. Known are {', '.join(strategy.levels)}.")
    asked = strategy.queries[level] if queries is None else [strategy.written(level, query) for query in queries]
    told = [query for query in dict.fromkeys(asked) if _tells(strategy, query, attack, attribute)]
    times = 2 if attack in TWO_CELLS else 1
    return tuple(strategy.noise(level, query, level_share=level_share) for query in told for _ in range(times))


def _tells(strategy: Strategy, query: str, attack: Attack, attribute: str | None) -> bool:
    depends = strategy.depends_on(query)
    return attribute in depends if attack == "attribute" else attack != "cell" or bool(depends)
