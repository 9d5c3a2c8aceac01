"""Noise at a budget of one, and what intruders learn at any budget: shared by the budget searches and the curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import get_args

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy import Mechanism, Strategy
from tallyveil.risk.budget.intervals import Noises, at_budget
from tallyveil.risk.target.attacks import Attack, noises_of
from tallyveil.risk.target.evidence import Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder


def intruders_of(priors: Iterable[Number | Intruder]) -> list[Intruder]:
    """A list of intruders; priors become intruders with equal costs."""
    intruders = [prior if isinstance(prior, Intruder) else Intruder(prior=prior) for prior in priors]
    if not intruders:
        raise InputError("no prior is given. Give one or more.")
    return intruders


def unit_noises(mechanism: Mechanism) -> Noises:
    """The noise of a single count at a budget of one: the paper's DG(1/(2 rho)), or geometric noise."""
    if mechanism not in get_args(Mechanism):
        raise InputError(f"unknown mechanism {mechanism!r}. Known are {', '.join(get_args(Mechanism))}.")
    return (DiscreteGaussian(variance=Fraction(1, 2)) if mechanism == "gaussian" else Geometric(z=Fraction(1)),)


def strategy_noises(
    strategy: Strategy,
    level: str | None = None,
    queries: Iterable[str] | None = None,
    *,
    attack: Attack | None = None,
    levels: Sequence[str] | None = None,
) -> Noises:
    """The noise of the counts of a level (by default the leaf level), or of several, at a whole budget of one."""
    whole = strategy.with_budget(**{strategy.unit: 1})
    if levels is None:
        levels = [list(strategy.levels)[-1] if level is None else level]
    asked = attack or Attack(queries=None if queries is None else tuple(queries))
    noises = [
        noise
        for name in levels
        for noise in noises_of(whole, name, attack=asked.kind, attribute=asked.attribute, queries=asked.queries)
    ]
    return tuple(noises)


def exposures(noises: Noises, intruders: Iterable[Intruder], budget: Number) -> list[Exposure]:
    """What each intruder learns at a budget, given the noise at a budget of one."""
    evidence = Evidence(noises=at_budget(noises, exact(budget, "budget")))
    return [Exposure(intruder=intruder, evidence=evidence) for intruder in intruders]
