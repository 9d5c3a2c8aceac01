"""Attacks: which noisy counts tell the intruder's two hypotheses apart (kazan2022, section 5.1).

- ``characteristics`` (Eq. 9), ``responded`` (Eq. 36), ``truthful`` (Eq. 38): under the alternative, the rows that count
  the target are one lower. Each query of the level has one such row.
- ``attribute`` (Eq. 37): the target is counted in one of two cells that differ in an attribute. Each query that depends
  on the attribute has two such rows. (The equation puts the prior on the other cell than its text: erratum 11.)
- ``cell``: the same for two cells that differ in every attribute, so that as many counts as possible differ.

The paper considers the detailed query alone, for which the first three are the same. An intruder sees every query of
the level, and the evidence adds up. With all queries, the first three compare a target who is counted in the unit with
one who is not counted there at all, so that the total is informative too. An intruder who knows that the target is
there uses one of the last two. A query adds nothing about what an invariant of the level settles exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final, get_args

from tallyveil.errors import InputError
from tallyveil.nouns.schema import DETAILED, TOTAL, factors_of
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.target.evidence import CountNoise

AttackKind = Literal["characteristics", "responded", "truthful", "attribute", "cell"]


@final
@dataclass(frozen=True, kw_only=True)
class Attack:
    """What an intruder wants to know, and the queries that they use.

    Attributes
    ----------
    kind
        One of the attacks above.
    attribute
        The unknown attribute, for ``kind="attribute"`` only.
    queries
        The queries that are used; None for all queries of the level. ``("detailed",)`` is the paper's intruder.
    """

    kind: AttackKind = "characteristics"
    attribute: str | None = None
    queries: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.queries is not None:
            object.__setattr__(self, "queries", tuple(dict.fromkeys(self.queries)))
        if self.kind not in get_args(AttackKind):
            raise InputError(f"unknown attack {self.kind!r}. Known are {', '.join(get_args(AttackKind))}.")
        if (self.kind == "attribute") != (self.attribute is not None):
            raise InputError(
                "the attack 'attribute' needs the unknown attribute (--attribute NAME); no other attack has one."
            )

    @property
    def rows(self) -> int:
        """The number of rows of a query in which the hypotheses differ."""
        return 2 if self.kind in ("attribute", "cell") else 1

    def depends_on(self, strategy: Strategy, query: str) -> bool:
        """Whether the hypotheses differ in a query."""
        if self.kind == "attribute":
            return self.attribute in strategy.depends_on(query)
        return self.kind != "cell" or query != TOTAL


def noises_of(
    strategy: Strategy,
    level: str,
    *,
    attack: AttackKind = "characteristics",
    attribute: str | None = None,
    queries: Iterable[str] | None = None,
    level_share: Fraction | None = None,
) -> tuple[CountNoise, ...]:
    """The noise of each count of a level in which the attack's two hypotheses differ by one.

    ``attack``, ``attribute`` and ``queries`` are those of an :class:`Attack`. ``level_share`` is for units that have
    another share of the level (the only-child rule).

    >>> plan = Strategy.preset("e2e-2018", epsilon=1)
    >>> len(noises_of(plan, "enumdist")), len(noises_of(plan, "enumdist", attack="attribute", attribute="hispanic"))
    (3, 4)
    """
    asked = Attack(kind=attack, attribute=attribute, queries=None if queries is None else tuple(queries))
    if attribute is not None and attribute not in strategy.known_attributes:
        raise InputError(f"unknown attribute {attribute!r}. Known are {', '.join(strategy.known_attributes)}.")
    if level not in strategy.levels:
        raise InputError(f"unknown level {level!r}. Known are {', '.join(strategy.levels)}.")
    names = strategy.queries[level] if asked.queries is None else [strategy.written(level, q) for q in asked.queries]
    settled = settled_at(strategy, level)
    informative = [
        query
        for query in dict.fromkeys(names)
        if asked.depends_on(strategy, query) and not is_settled(strategy, query, settled)
    ]
    return tuple(
        strategy.noise(level, query, level_share=level_share) for query in informative for _ in range(asked.rows)
    )


def settled_at(strategy: Strategy, level: str) -> frozenset[str]:
    """Factors that invariants settle in every unit of a level; ``"total"`` where they settle that the target is there.

    These are the invariants of the level and of the levels below, whose sums are exact too. At the root, the number of
    all people is also exact under replace-one neighbours.
    """
    levels = list(strategy.levels)
    finer = levels[levels.index(level) :]
    exact = [c.query for c in strategy.constraints if isinstance(c, Invariant) and c.level in finer]
    if strategy.neighbours == "replace-one" and level == levels[0]:
        exact.append(TOTAL)
    return settled_by(strategy, exact)


def settled_by(strategy: Strategy, queries: Iterable[str]) -> frozenset[str]:
    """Factors that exact answers settle for someone who knows all others; any exact answer settles ``"total"``."""
    known = list(queries)
    factors = {f for query in known for f in _factors(strategy, query)}
    return frozenset(factors | ({TOTAL} if known else set()))


def is_settled(strategy: Strategy, query: str, settled: frozenset[str]) -> bool:
    """Whether a query adds nothing, because all its factors (or the attributes that they group) are settled."""
    factors = _factors(strategy, query) or (TOTAL,)
    return all(factor in settled or strategy.groupings.get(factor) in settled for factor in factors)


def _factors(strategy: Strategy, query: str) -> tuple[str, ...]:
    """The factors of a query. Those of the detailed query are all attributes, or itself where they are not declared."""
    return strategy.attributes if query == DETAILED and strategy.attributes else factors_of(query)
