"""Published strategies with their exact fractions, as TOML files next to this module."""

from __future__ import annotations

from importlib.resources import files

from tallyveil.errors import BudgetError, InputError
from tallyveil.privacy.budget import Number
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_from_toml

PRESETS = {
    "e2e-2018": "the 2018 end-to-end test, run on the 1940 census (petti2020); any epsilon",
    "pl94-2020-us-persons": "the 2020 redistricting file: persons, fifty states and the District of Columbia",
    "pl94-2020-pr-persons": "the 2020 redistricting file: persons, Puerto Rico",
    "pl94-2020-us-units": "the 2020 redistricting file: housing units, fifty states and the District of Columbia",
    "pl94-2020-pr-units": "the 2020 redistricting file: housing units, Puerto Rico",
}


def preset_text(name: str) -> str:
    """Return the TOML text of a preset."""
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}. Known are {', '.join(PRESETS)}.")
    return files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")


def read_preset(name: str, *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
    """Read a preset as a strategy. A budget passed here replaces the published one."""
    source = preset_text(name)
    try:
        return strategy_from_toml(source, epsilon=epsilon, rho=rho)
    except BudgetError as problem:
        raise problem.located(f"preset {name!r}") from None
