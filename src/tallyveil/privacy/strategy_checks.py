"""Checks of the fields of a strategy: every level, query and factor that they name must exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tallyveil.errors import BudgetError, InputError, StrategyError
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Shares
from tallyveil.privacy.constraints import Constraint
from tallyveil.privacy.exactness import Exactness

if TYPE_CHECKING:
    from tallyveil.privacy.strategy import Strategy


def check_options(
    *, mechanism: object, neighbours: object, rounding: object, only_child: object, check_constraints: object
) -> None:
    """Refuse an option with a value that it cannot have."""
    if mechanism not in ("geometric", "gaussian"):
        raise BudgetError(f'mechanism must be "geometric" or "gaussian". Got {mechanism!r} instead.')
    if neighbours not in ("replace-one", "add-or-remove"):
        raise BudgetError(f'neighbours must be "replace-one" or "add-or-remove". Got {neighbours!r} instead.')
    for name, value in (("only_child", only_child), ("check_constraints", check_constraints)):
        if not isinstance(value, bool):
            raise StrategyError(f"{name} must be true or false. Got {value!r} instead.")
    if rounding not in ("margins", "cells"):
        raise StrategyError(f'rounding must be "margins" or "cells". Got {rounding!r} instead.')


def check_accounting(accounting: object, *, mechanism: str, epsilon: object, calibrated: object) -> None:
    """Refuse an accountant that does not exist or does not fit the mechanism and the fields."""
    if accounting not in ("zcdp", "pld"):
        raise BudgetError(f'accounting must be "zcdp" or "pld". Got {accounting!r} instead.')
    if accounting == "pld" and mechanism != "gaussian":
        raise BudgetError(
            'accounting = "pld" is for Gaussian noise: the epsilon of geometric noise is pure and needs no delta. Use '
            'mechanism = "gaussian", or leave out the accounting.'
        )
    if accounting == "pld" and epsilon is None:
        raise BudgetError('accounting = "pld" needs the epsilon that is wanted at delta, from which rho follows.')
    if accounting == "zcdp" and (epsilon is not None or calibrated):
        raise BudgetError('accounting = "zcdp" takes a rho and no epsilon, which follows from it. Use "pld" for one.')


def check_estimator(estimator: object, information_from: object, levels: Collection[str]) -> None:
    """Refuse an estimator that does not exist, and information from a level that does not exist or is not used."""
    if estimator not in ("topdown", "tree"):
        raise StrategyError(f'estimator must be "topdown" or "tree". Got {estimator!r} instead.')
    if information_from is None:
        return
    if estimator != "tree":
        raise StrategyError(
            f'information_from = "{information_from}" is for estimator = "tree"; "topdown" uses no information from '
            f"below. Leave it out, or choose the other estimator."
        )
    if information_from not in levels:
        raise StrategyError(
            f"information_from: unknown level {information_from!r}. The levels are {', '.join(levels)}."
        )


def check_levels(levels: Shares, queries: Mapping[str, Any]) -> None:
    """Refuse queries of a level that does not exist or has no share, and a share without queries."""
    unknown = [level for level in queries if level not in levels]
    if unknown:
        raise BudgetError(
            f"queries of unknown level {', '.join(map(repr, unknown))}. The levels are {', '.join(levels)}."
        )
    missing = [level for level, share in levels.items() if share and not queries.get(level)]
    if missing:
        raise BudgetError(
            f"level {', '.join(map(repr, missing))} has no queries. Give shares for it, or leave it out; a level that "
            f"invariants make exact has the share 0."
        )
    idle = [level for level, share in levels.items() if not share and queries.get(level)]
    if idle:
        raise BudgetError(
            f"level {idle[0]!r} has the share 0, but queries ({', '.join(queries[idle[0]])}). Give it a share, or take "
            f"its queries out."
        )


def check_factors(
    queries: Mapping[str, Iterable[str]], attributes: Collection[str], groupings: Mapping[str, str]
) -> None:
    """Refuse a grouping of an attribute that does not exist, and a query with an unknown factor."""
    for grouping, of in groupings.items():
        if of not in attributes:
            raise StrategyError(f"grouping {grouping!r} groups {of!r}, which is not among the attributes.")
    known = [*attributes, *groupings, TOTAL, DETAILED]
    for level, names in queries.items():
        for query in names:
            for factor in factors_of(query):
                if factor not in known:
                    raise StrategyError(
                        f"queries of level {level!r}: unknown factor {factor!r} in {query!r}. "
                        f"Known are {', '.join(known)}."
                    )


def check_passes(
    passes: Mapping[str, Iterable[Iterable[str]]], levels: Collection[str], queries: Mapping[str, Collection[str]]
) -> None:
    """Refuse passes of a level that does not exist, or over a query that is not measured there."""
    for level, level_passes in passes.items():
        if level not in levels:
            raise StrategyError(f"passes of unknown level {level!r}. The levels are {', '.join(levels)}.")
        for query in (query for names in level_passes for query in names):
            if query != "*" and query not in queries[level]:
                raise StrategyError(
                    f"passes of level {level!r}: query {query!r} is not measured there ({', '.join(queries[level])})."
                )


def check_constraint_levels(constraints: Iterable[Constraint], levels: Collection[str]) -> None:
    """Refuse a constraint at a level that does not exist."""
    for constraint in constraints:
        level = getattr(constraint, "level", None)
        if level is not None and level not in levels:
            raise StrategyError(
                f"constraint ({constraint.words()}): unknown level {level!r}. The levels are {', '.join(levels)}."
            )


def check_fit(strategy: Strategy, spine: Spine, schema: Schema) -> None:
    """Refuse a spine or schema for which the strategy was not made."""
    what = f"strategy {strategy.name!r}" if strategy.name else "the strategy"
    if tuple(strategy.levels) != spine.levels:
        raise StrategyError(
            f"{what} is for the levels {', '.join(strategy.levels)}; the data has {', '.join(spine.levels)}. "
            f"Rename the data's levels, or fit the strategy to them: tallyveil strategy --preset NAME --map NAMES."
        )
    if not set(strategy.known_attributes) <= set(schema.attributes):
        raise StrategyError(
            f"{what} is for the attributes {', '.join(strategy.known_attributes)}; "
            f"the data has {', '.join(schema.attributes)}. "
            f"Rename the data's attributes, or fit the strategy to them: tallyveil strategy --preset NAME --map NAMES."
        )
    for name, of in strategy.groupings.items():
        if name in schema.groupings and schema.groupings[name].of != of:
            raise StrategyError(
                f"{what} says that grouping {name!r} groups {of!r}; in the data it groups "
                f"{schema.groupings[name].of!r}. Correct one of them."
            )
    for query in strategy.query_numbers():
        try:
            schema.query(query)
        except InputError as problem:
            raise StrategyError(str(problem)) from None
    for constraint in strategy.constraints:
        try:
            constraint.check(spine, schema)
        except InputError as problem:
            raise StrategyError(f"constraint ({constraint.words()}): {problem}") from None


def check_unmeasured(levels: Shares, exact: Exactness) -> None:
    """Refuse a level that is not measured although its counts are not all exact."""
    for level, share in levels.items():
        if not share and not exact.fixes(level):
            raise StrategyError(
                f"the strategy has the share 0 for level {level!r}, but no invariant makes all its counts exact, so "
                f"nothing would say what they are. Give it a share, or declare the invariant detailed@{level}."
            )
