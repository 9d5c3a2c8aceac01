"""A strategy as people name it on the command line: a preset or a file."""

from __future__ import annotations

from pathlib import Path

from tallyveil.errors import InputError
from tallyveil.privacy.presets import PRESETS
from tallyveil.privacy.strategy import Strategy


def find_strategy(name: str, *, epsilon: str | None = None, rho: str | None = None) -> Strategy:
    """The preset of this name, or the strategy in the file."""
    if name in PRESETS:
        return Strategy.preset(name, epsilon=epsilon, rho=rho)
    if not Path(name).exists():
        raise InputError(f"{name}: neither a file nor a preset. The presets are {', '.join(PRESETS)}.")
    return Strategy.read(name, epsilon=epsilon, rho=rho)
