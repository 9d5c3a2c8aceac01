"""The largest budget such that it and every smaller one keep an intruder's risk at or below a bound.

There are three measures, each for a target who has the characteristics: ``risk`` (R, Eq. 15), ``posterior`` (the
marginal posterior, Eq. 14) and ``right_decision`` (Eq. 18 and 19). ``right_decision`` is not monotone in the budget
(section 4.2.3), nor are the other two for very small or very large priors (``posterior_budgets``). Windows of larger
budgets that meet the bound again are reported but not used, since a slightly smaller budget would break the bound.

The budget is the paper's rho of a single count (variance 1/(2 rho)), the epsilon of a geometric count, or that of a
whole strategy with its own shares and noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final, get_args

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.strategy import Mechanism, Strategy
from tallyveil.risk.budget.exposures import intruders_of, strategy_noises, unit_noises
from tallyveil.risk.budget.intervals import BudgetsTried
from tallyveil.risk.budget.searches import Measure, largest_by_decision, largest_by_posterior
from tallyveil.risk.target.intruder import Intruder


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """The largest budget that keeps a bound, and why it is not larger.

    Attributes
    ----------
    measure, bound, priors
        The measure that must not exceed the bound, for each of these priors.
    parameter
        ``"rho"`` or ``"epsilon"``.
    value
        The largest budget that keeps the bound with every smaller one, rounded down; None where there is none.
    reason
        Why it is not larger, or why there is none.
    binding_prior
        The prior for which the bound is reached first.
    windows
        Intervals of larger budgets that keep the bound again; they are not used.
    checked
        How it was verified: ``"exact"``, ``"monotone"`` (the measure rises with the budget: proven for geometric
        counts, found numerically for discrete Gaussian counts and priors from 1/500 to 499/500), or the number of
        budgets on which it was checked.
    """

    measure: Measure
    bound: Fraction
    priors: tuple[Fraction, ...]
    parameter: str
    value: Fraction | None
    reason: str
    binding_prior: Fraction | None
    windows: tuple[tuple[Fraction, Fraction], ...]
    checked: str

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys; a budget of 12 digits reads back as it is."""
        return {
            "measure": self.measure,
            "bound": float(self.bound),
            "priors": [text(prior) for prior in self.priors],
            self.parameter: None if self.value is None else float(self.value),
            "reason": self.reason,
            "windows": [[float(low), float(high)] for low, high in self.windows],
            "binding_prior": None if self.binding_prior is None else text(self.binding_prior),
            "checked": self.checked,
        }


def choose(
    measure: Measure,
    bound: Number,
    *,
    priors: Iterable[Number | Intruder],
    mechanism: Mechanism = "gaussian",
    strategy: Strategy | None = None,
    level: str | None = None,
    queries: Iterable[str] | None = None,
    progress: BudgetsTried = None,
) -> Choice:
    """The largest budget of a single count, or of a strategy, that keeps the bound with every smaller one.

    ``priors`` may also be intruders, with their costs. A ``strategy`` keeps its shares, and the evidence is that of the
    ``queries`` of a ``level`` (by default all queries of the leaf level; ``["detailed"]`` is the paper's intruder).
    ``progress`` is called with the number of budgets tried.

    >>> found = choose("right_decision", "0.29", priors=["1/5"])
    >>> round(float(found.value), 4), [(round(float(a), 4), round(float(b), 4)) for a, b in found.windows]
    (0.4621, [(0.5542, 1.3863)])
    >>> choose("right_decision", "0.29", priors=["1/2"]).value is None
    True
    """
    if strategy is None and (level is not None or queries is not None):
        raise InputError("a level and queries belong to a strategy. Give the strategy too, or leave them out.")
    noises = unit_noises(mechanism) if strategy is None else strategy_noises(strategy, level, queries)
    parameter = {"gaussian": "rho", "geometric": "epsilon"}[mechanism] if strategy is None else strategy.unit
    if measure not in get_args(Measure):
        raise InputError(f"unknown measure {measure!r}. Known are {', '.join(get_args(Measure))}.")
    if not noises:
        raise InputError(
            "invariants answer every query of this level, so no noise can keep a bound. Name another level."
        )
    intruders = intruders_of(priors)
    limit = exact(bound, "bound")
    if measure != "risk" and float(limit) >= 1:
        raise InputError(f"a bound on a probability must be less than 1. Got {bound} instead.")
    if measure == "right_decision":
        largest = largest_by_decision(noises, intruders, limit, parameter, progress)
    else:
        largest = largest_by_posterior(noises, intruders, measure, limit, parameter, progress)
    return Choice(
        measure=measure,
        bound=limit,
        priors=tuple(Fraction(intruder.prior) for intruder in intruders),
        parameter=parameter,
        value=largest.value,
        reason=largest.reason,
        binding_prior=largest.binding_prior,
        windows=largest.windows,
        checked=largest.checked,
    )
