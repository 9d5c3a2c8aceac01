"""Budgets, accounting, distributions, exact noise and strategies."""

from tallyveil.privacy.account import Account, account_of, account_of_epsilon, account_of_rho
from tallyveil.privacy.accounting import (
    delta_from_rho,
    epsilon_from_rho,
    implied_epsilon,
    rho_from_epsilon,
    rho_of_pure,
)
from tallyveil.privacy.constraints import Bound, FacilityBounds, Invariant, StructuralZero
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.privacy.entropy import RunKey, Stream
from tallyveil.privacy.ledger import Ledger
from tallyveil.privacy.sampling import draw
from tallyveil.privacy.shares import UnitShares, unit_shares
from tallyveil.privacy.strategy import Spend, Strategy
from tallyveil.privacy.streams import measurement_stream
from tallyveil.privacy.sums import SumOfNoise, approximate_sum, sum_of_noise

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
