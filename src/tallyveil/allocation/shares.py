"""From floating-point shares to a strategy with exact fractions, and from a strategy to the one that is searched.

The search starts from a strategy without measurements of what is exact, and with candidates where there are any.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.allocation.precision import Pair
from tallyveil.errors import InputError
from tallyveil.nouns.schema import DETAILED, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.strategy import Strategy

LEVEL_PARTS = 10_000  # a level's share is a whole number of these parts
QUERY_PARTS = 1_000  # a query's share of its level


def useful(strategy: Strategy, exact: Exactness) -> Strategy:
    """The strategy without measurements of what is exact; what they had goes to the other queries of the level.

    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> plan = Strategy.proportional(mechanism="gaussian", budget=1, levels={"town": 1, "block": 1},
    ...                              queries={"town": {"total": 1, "age": 1}, "block": {"age": 1}})
    >>> dict(useful(plan, plan.exactness(spine, schema)).queries["town"])
    {'age': Fraction(1, 1)}
    """
    queries, levels = {}, dict(strategy.levels)
    for level, shares in strategy.queries.items():
        kept = {query: share for query, share in shares.items() if not exact.holds(query, level)}
        if not kept and shares and not exact.fixes(level):
            kept = dict(shares)  # something must be measured where not all is exact
        queries[level] = kept
        levels[level] = levels[level] if kept else Fraction(0)
    if not any(levels.values()):
        raise InputError("invariants make every count exact, so no shares are needed. Drop an invariant.")
    return _with(strategy, levels, queries)


def with_candidates(strategy: Strategy, exact: Exactness, candidates: Collection[Pair]) -> Strategy:
    """The strategy with candidate queries, which get an equal part of their level; what is exact is left out."""
    queries: dict[str, dict[str, Fraction]] = {level: dict(shares) for level, shares in strategy.queries.items()}
    for level, query in candidates:
        name = strategy.spelled(query)
        if strategy.levels[level] and name not in queries[level] and not exact.holds(query, level):
            queries[level][name] = Fraction(1, len(queries[level]) + 1)
    return _with(strategy, strategy.levels, queries)


def without(strategy: Strategy, dropped: Collection[Pair]) -> Strategy:
    """The strategy without some measurements."""
    queries = {
        level: {query: share for query, share in shares.items() if (level, query) not in dropped}
        for level, shares in strategy.queries.items()
    }
    return _with(strategy, strategy.levels, queries)


def parse_candidates(words: Sequence[str], spine: Spine, schema: Schema) -> list[Pair]:
    """Candidates written as QUERY, QUERY@LEVEL or ``all`` (every marginal of the attributes)."""
    found: list[Pair] = []
    for word in words:
        query, _, level = word.rpartition("@") if "@" in word else (word, "", "")
        names = every_marginal(schema) if query.strip() == "all" else [query.strip()]
        levels = [level.strip()] if level else list(spine.levels)
        try:
            for name in levels:
                spine.depth(name)
            found += [(place, schema.query(name).name) for place in levels for name in names]
        except InputError as problem:
            raise InputError(f"candidate {word!r}: {problem}") from None
    return list(dict.fromkeys(found))


def every_marginal(schema: Schema) -> list[str]:
    """All marginals of the attributes, the total first and all cells last."""
    names = list(schema.attributes)
    if len(names) > 6:
        raise InputError(f"{len(names)} attributes have {2 ** len(names)} marginals, too many to try. Name candidates.")
    subsets = sorted(range(2 ** len(names)), key=lambda bits: (bits.bit_count(), bits))
    texts = [" * ".join(name for i, name in enumerate(names) if bits >> i & 1) or "total" for bits in subsets]
    return list(dict.fromkeys(schema.query(text).name for text in texts))


def droppable(strategy: Strategy) -> Floats:
    """1 for measurements that may be dropped: all but the most detailed one of each level, which determines cells."""
    finest = {
        level: DETAILED if DETAILED in queries else max(queries, key=lambda name: len(strategy.depends_on(name)))
        for level, queries in strategy.queries.items()
        if queries
    }
    return np.array([float(spend.query != finest[spend.level]) for spend in strategy.spends()])


def as_strategy(strategy: Strategy, shares: Floats) -> Strategy:
    """The strategy with these shares of its measurements as exact fractions that sum to one."""
    sums: dict[str, float] = dict.fromkeys(strategy.levels, 0.0)
    queries: dict[str, dict[str, float]] = {level: {} for level in strategy.levels}
    for spend, share in zip(strategy.spends(), shares, strict=True):
        sums[spend.level] += float(share)
        queries[spend.level][spend.query] = float(share)
    measured = {level: share for level, share in sums.items() if queries[level]}
    levels = dict.fromkeys(strategy.levels, Fraction(0)) | whole_parts(measured, LEVEL_PARTS)
    within = {level: whole_parts(of, QUERY_PARTS) if of else {} for level, of in queries.items()}
    return _with(strategy, levels, within)


def whole_parts(shares: Mapping[str, float], parts: int) -> dict[str, Fraction]:
    """Shares as whole numbers of parts, at least one each, that sum to one: largest remainders first.

    >>> whole_parts({"a": 2, "b": 1, "c": 0.0001}, 100)
    {'a': Fraction(33, 50), 'b': Fraction(33, 100), 'c': Fraction(1, 100)}
    """
    total = sum(shares.values())
    free = parts - len(shares)
    if free < 0:
        raise InputError(f"{len(shares)} shares are more than the {parts:,} parts that they are rounded to. Drop some.")
    wanted = {name: max(0.0, share / total * parts - 1) for name, share in shares.items()}
    scale = free / sum(wanted.values()) if free else 0.0
    floors = {name: int(scale * share) for name, share in wanted.items()}
    order = sorted(wanted, key=lambda name: floors[name] - scale * wanted[name])
    for name in order[: free - sum(floors.values())]:
        floors[name] += 1
    return {name: Fraction(1 + floors[name], parts) for name in shares}


def _with(
    strategy: Strategy, levels: Mapping[str, Fraction], queries: Mapping[str, Mapping[str, Fraction]]
) -> Strategy:
    """The strategy with other shares, rescaled to sum to one; passes forget what is no longer measured."""
    whole = sum(levels.values(), Fraction(0))
    measured = {
        level: {query: share / sum(of.values(), Fraction(0)) for query, share in of.items()}
        for level, of in queries.items()
        if of
    }
    passes = {}
    for level, stages in strategy.passes.items():
        known = {*measured.get(level, {}), "*"}
        kept = tuple(names for stage in stages if (names := tuple(name for name in stage if name in known)))
        if kept and level in measured:
            passes[level] = kept
    return replace(
        strategy,
        levels={level: share / whole for level, share in levels.items()},
        queries=measured,
        passes=passes,
        calibrated=False,
    )
