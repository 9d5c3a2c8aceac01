"""Read and write strategies as TOML files. Fractions are written as text, so nothing is rounded."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import tomli_w

from tallyveil._typed import Name, Number, Table, parse_toml, toml_file, typed
from tallyveil.errors import BudgetError, InputError, StrategyError
from tallyveil.privacy.budget import Number as Budget
from tallyveil.privacy.budget import exact, text
from tallyveil.privacy.constraints import constraint_from_toml
from tallyveil.privacy.strategy import Strategy

_SHARES = Mapping[str, Number]
_FIELDS = {
    "mechanism": Name, "accounting": Name, "epsilon": Number, "rho": Number, "levels": _SHARES, "queries": Table,
    "constraints": tuple[Table, ...], "delta": Number, "neighbours": Name, "only_child": bool,
    "check_constraints": bool, "rounding": Name, "passes": Mapping[str, tuple[tuple[Name, ...], ...]],
    "estimator": Name, "information_from": Name, "attributes": tuple[Name, ...], "groupings": Mapping[str, Name],
    "name": str,
}  # fmt: skip
_OPTIONAL = (
    *("accounting", "delta", "neighbours", "only_child", "check_constraints", "rounding", "passes"),
    *("estimator", "information_from", "attributes", "groupings", "name"),
)


def read_strategy(path: str | PathLike[str], *, epsilon: Budget | None = None, rho: Budget | None = None) -> Strategy:
    """Read a strategy from a TOML file. A budget passed here replaces the one in the file."""
    try:
        source = toml_file(path, "a strategy", error=StrategyError)
    except FileNotFoundError:
        raise StrategyError(f"{path}: no such file. Give a strategy's TOML file or a preset's name.") from None
    try:
        return strategy_from_toml(source, epsilon=epsilon, rho=rho)
    except InputError as problem:
        raise problem.located(path) from None


def strategy_from_toml(source: str, *, epsilon: Budget | None = None, rho: Budget | None = None) -> Strategy:
    """Read a strategy from TOML text. A budget passed here replaces the one in the text."""
    content = parse_toml(source, "a strategy", error=StrategyError)
    unknown = sorted(set(content) - set(_FIELDS))
    if unknown:
        raise StrategyError(f"unknown field {', '.join(map(repr, unknown))}. Known are {', '.join(sorted(_FIELDS))}.")
    missing = [name for name in ("mechanism", "levels", "queries") if name not in content]
    if missing:
        fields = f"fields {', '.join(map(repr, missing))} are" if len(missing) > 1 else f"field {missing[0]!r} is"
        raise StrategyError(f"{fields} missing. Start from a complete strategy: tallyveil presets write NAME -o FILE")
    table = {name: typed(_FIELDS[name], value, name, error=StrategyError) for name, value in content.items()}
    own: dict[str, Budget] = {name: table[name] for name in ("epsilon", "rho") if name in table}
    if table["mechanism"] not in ("geometric", "gaussian"):
        raise BudgetError(f'mechanism must be "geometric" or "gaussian". Got {table["mechanism"]!r} instead.')
    if not own and epsilon is None and rho is None:
        raise BudgetError("no budget. Give epsilon (geometric) or rho (gaussian).")
    strategy = Strategy(
        mechanism=table["mechanism"],
        **_budget_fields(table, own),
        levels=table["levels"],
        queries=_by_level(table["queries"], table["levels"]),
        constraints=tuple(map(constraint_from_toml, table.get("constraints", ()))),
        **{name: table[name] for name in _OPTIONAL if name in table},
    )
    return strategy.with_budget(epsilon=epsilon, rho=rho)


def strategy_to_toml(strategy: Strategy, *, budget: bool = True) -> str:
    """Write a strategy as TOML text, from which it can be read back unchanged."""
    table: dict[str, Any] = {"name": strategy.name} if strategy.name else {}
    table["mechanism"] = strategy.mechanism
    if strategy.accounting == "pld":
        table["accounting"] = strategy.accounting
    if budget:
        table |= {name: text(amount) for name, amount in strategy.budgets.items()}
    table |= {
        "delta": text(strategy.delta),
        "neighbours": strategy.neighbours,
        "only_child": strategy.only_child,
        "rounding": strategy.rounding,
    }
    if strategy.estimator != "topdown":
        table["estimator"] = strategy.estimator
    if strategy.information_from is not None:
        table["information_from"] = strategy.information_from
    if strategy.attributes:
        table["attributes"] = list(strategy.attributes)
    if not strategy.check_constraints:
        table["check_constraints"] = False
    if strategy.groupings:
        table["groupings"] = dict(strategy.groupings)
    if strategy.passes:
        table["passes"] = {level: [list(queries) for queries in passes] for level, passes in strategy.passes.items()}
    table["levels"] = _written(strategy.levels)
    per_level = {level: _written(queries) for level, queries in strategy.queries.items() if queries}
    first = next(iter(per_level.values()))
    table["queries"] = first if all(queries == first for queries in per_level.values()) else per_level
    if strategy.constraints:
        table["constraints"] = [constraint.as_toml() for constraint in strategy.constraints]
    return tomli_w.dumps(table)


def _budget_fields(table: Mapping[str, Any], own: Mapping[str, Budget]) -> dict[str, Any]:
    """Return the budget in the text, or 1 if it has none and is to be replaced."""
    if table.get("accounting") == "pld" and table["mechanism"] == "gaussian":
        if set(own) == {"rho"}:
            raise BudgetError(
                'accounting = "pld" takes the wanted epsilon, not rho, which follows from it. Give epsilon.'
            )
        calibrated = {"budget": exact(own["rho"], "rho"), "calibrated": True} if "rho" in own else {}
        return {"epsilon": own.get("epsilon", 1), **calibrated}
    wanted = "epsilon" if table["mechanism"] == "geometric" else "rho"
    if own and set(own) != {wanted}:
        by_pld = ' An epsilon that is wanted at delta needs accounting = "pld".' if wanted == "rho" else ""
        raise BudgetError(f'mechanism = "{table["mechanism"]}" takes {wanted}, not {" and ".join(own)}.{by_pld}')
    return {"budget": exact(own.get(wanted, 1), wanted)}


def _written(shares: Mapping[str, Any]) -> dict[str, str]:
    return {name: text(share) for name, share in shares.items()}


def _by_level(table: Mapping[str, Any], levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shares of each level: its own table, or else the shares for all levels, unless its share is 0."""
    own = {name: value for name, value in table.items() if isinstance(value, dict)}
    common = {name: value for name, value in table.items() if not isinstance(value, dict)}
    unknown = [name for name in own if name not in levels]
    if unknown:
        raise BudgetError(
            f"queries of unknown level {', '.join(map(repr, unknown))}. The levels are {', '.join(levels)}."
        )
    shared = {level: common for level, share in levels.items() if common and share not in (0, "0")}
    return {level: own.get(level, shared.get(level)) for level in levels if level in own or level in shared}
