"""Privacy budgets and conversions, exact noise, strategies, and the guarantee of a strategy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.privacy.bounds import Bound
    from tallyveil.privacy.constraints import FacilityBounds, Invariant, StructuralZero
    from tallyveil.privacy.conversions import (
        delta_from_rho,
        epsilon_from_rho,
        implied_epsilon,
        rho_from_epsilon,
        rho_of_pure,
    )
    from tallyveil.privacy.entropy import RunKey
    from tallyveil.privacy.guarantee import Account, account_of, account_of_epsilon, account_of_rho
    from tallyveil.privacy.ledger import Ledger
    from tallyveil.privacy.noise import DiscreteGaussian, Geometric
    from tallyveil.privacy.sampling import draw
    from tallyveil.privacy.shares import UnitShares, unit_shares
    from tallyveil.privacy.strategy import Spend, Strategy
    from tallyveil.privacy.stream_words import Stream
    from tallyveil.privacy.streams import measurement_stream
    from tallyveil.privacy.sums import SumOfNoise, approximate_sum, sum_of_noise

_HOME = {
    "Account": "guarantee",
    "Bound": "bounds",
    "DiscreteGaussian": "noise",
    "FacilityBounds": "constraints",
    "Geometric": "noise",
    "Invariant": "constraints",
    "Ledger": "ledger",
    "RunKey": "entropy",
    "Spend": "strategy",
    "Strategy": "strategy",
    "Stream": "stream_words",
    "StructuralZero": "constraints",
    "SumOfNoise": "sums",
    "UnitShares": "shares",
    "account_of": "guarantee",
    "account_of_epsilon": "guarantee",
    "account_of_rho": "guarantee",
    "approximate_sum": "sums",
    "delta_from_rho": "conversions",
    "draw": "sampling",
    "epsilon_from_rho": "conversions",
    "implied_epsilon": "conversions",
    "measurement_stream": "streams",
    "rho_from_epsilon": "conversions",
    "rho_of_pure": "conversions",
    "sum_of_noise": "sums",
    "unit_shares": "shares",
}
__all__ = [
    "Account",
    "Bound",
    "DiscreteGaussian",
    "FacilityBounds",
    "Geometric",
    "Invariant",
    "Ledger",
    "RunKey",
    "Spend",
    "Strategy",
    "Stream",
    "StructuralZero",
    "SumOfNoise",
    "UnitShares",
    "account_of",
    "account_of_epsilon",
    "account_of_rho",
    "approximate_sum",
    "delta_from_rho",
    "draw",
    "epsilon_from_rho",
    "implied_epsilon",
    "measurement_stream",
    "rho_from_epsilon",
    "rho_of_pure",
    "sum_of_noise",
    "unit_shares",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in _HOME:
        return getattr(import_module(f"tallyveil.privacy.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tallyveil.privacy' has no attribute {name!r}")
