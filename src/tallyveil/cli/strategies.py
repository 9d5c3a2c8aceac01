"""A strategy as people name it on the command line: a preset or a file."""

from __future__ import annotations

from tallyveil.privacy.presets import PRESETS
from tallyveil.privacy.strategy import Strategy


def find_strategy(name: str, *, epsilon: str | None = None, rho: str | None = None) -> Strategy:
    """The preset of this name, or the strategy in the file."""
    if name in PRESETS:
        return Strategy.preset(name, epsilon=epsilon, rho=rho)
    return Strategy.read(name, epsilon=epsilon, rho=rho)
