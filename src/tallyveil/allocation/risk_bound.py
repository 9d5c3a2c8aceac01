"""A bound on what an intruder learns from the noisy counts of a leaf, as the largest budget of the leaf level.

``risk.choose`` gives the largest budget of a strategy that keeps a bound with the shares that it has. Other shares of
the queries within the level give another one, though for Gaussian noise hardly so: all that counts is nearly the sum of
the precisions. So the search alternates between shares and the largest budget, and the result is checked itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.allocation import bounded_units
from tallyveil.risk.budget.choose import choose
from tallyveil.risk.budget.exposures import exposures, intruders_of
from tallyveil.risk.budget.searches import Measure
from tallyveil.risk.target.attacks import noises_of


@final
@dataclass(frozen=True, kw_only=True)
class RiskBound:
    """A measure of risk at the leaf level that must not exceed a bound, for each of some priors."""

    bound: Number
    measure: Measure = "risk"
    priors: Sequence[Number] = ("1/2",)

    def largest(self, strategy: Strategy) -> float:
        """The largest budget of the leaf level that keeps the bound with the level's shares, and every smaller one."""
        leaf = list(strategy.levels)[-1]
        choice = choose(self.measure, self.bound, priors=self.priors, strategy=strategy, level=leaf)
        if choice.value is None:
            raise InputError(f"no share of level {leaf!r} keeps the bound on risk: {choice.reason}. Give another.")
        return float(choice.value * strategy.levels[leaf])

    def figure(self, strategy: Strategy) -> float:
        """The largest value of the measure over the priors, for units with the leaf level's own share."""
        noises = noises_of(strategy, list(strategy.levels)[-1])
        found = exposures(noises, intruders_of(self.priors), 1)
        name = "marginal_posterior" if self.measure == "posterior" else self.measure
        return max(float(getattr(one, name)) for one in found)

    def keeps(self, strategy: Strategy) -> bool:
        """Whether a strategy keeps the bound, as every smaller budget does."""
        leaf = list(strategy.levels)[-1]
        return float(strategy.budget * strategy.levels[leaf]) <= self.largest(strategy)

    def as_json(self, before: Strategy, after: Strategy) -> dict[str, Any]:
        """The bound and what is reached, under their JSON keys."""
        leaf = list(after.levels)[-1]
        return {
            "measure": self.measure,
            "bound": float(exact(self.bound, "the bound on risk")),
            "priors": [text(exact(prior, "prior")) for prior in self.priors],
            "level": leaf,
            "before": self.figure(before),
            "after": self.figure(after),
            "holds_for": bounded_units(after, leaf),
        }
