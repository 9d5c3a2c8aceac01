"""The largest budget such that it and every smaller one keep an intruder's risk at or below a bound.

Three measures, each for a target who has the characteristics: ``risk`` (R, Eq. 15), ``posterior`` (the marginal one,
Eq. 14) and ``right_decision`` (Eq. 18 and 19). The first two rise with the budget; the last does not (section 4.2.3):
windows above that keep the bound again are reported, not used, since a little less budget would break it.

A bound is kept where the measure is at it or below. The budget is the paper's rho of a single count (variance
1/(2 rho)), epsilon of a geometric one, or that of a whole strategy with its shares and its own noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, final, get_args

from scipy.optimize import brentq

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.distributions import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy import Mechanism, Strategy
from tallyveil.risk.attacks import noises_of
from tallyveil.risk.evidence import Evidence
from tallyveil.risk.intruder import Exposure, Intruder
from tallyveil.risk.kept import Noises, at_budget, kept

Measure = Literal["risk", "posterior", "right_decision"]
DIGITS = 12  # of a chosen budget
SMALLEST = (1e-6, 1e-4)  # of 1/variance, for one count and for several: none is sought below


@final
@dataclass(frozen=True, kw_only=True)
class Choice:
    """A budget that keeps a bound, and what was found around it.

    Attributes
    ----------
    measure, bound, priors
        What was to stay at or below the bound, for each of these priors.
    parameter
        ``"rho"`` or ``"epsilon"``.
    value
        The largest budget that keeps the bound with every smaller one, rounded down; None where there is none.
    reason
        Why it is not larger, or why there is none.
    binding_prior
        The prior that decides.
    windows
        Further budgets above that keep the bound, from and to: not used.
    checked
        ``"exact"``, ``"monotone"`` (the measure rises with the budget) or on how many budgets it was checked.
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
) -> Choice:
    """The largest budget of a single count, or of a strategy, that keeps the bound with every smaller one.

    ``priors`` may be intruders, with their costs. With a ``strategy``, its shares stay as they are, and the evidence is
    that of all ``queries`` of a ``level`` (all of the leaf level's if not given; ``["detailed"]`` is the paper's).

    >>> found = choose("right_decision", "0.29", priors=["1/5"])
    >>> round(float(found.value), 4), [(round(float(a), 4), round(float(b), 4)) for a, b in found.windows]
    (0.4621, [(0.5542, 1.3863)])
    >>> choose("right_decision", "0.29", priors=["1/2"]).value is None
    True
    """
    if strategy is None and (level is not None or queries is not None):
        raise InputError("a level and queries are a strategy's. Give the strategy too, or leave them out.")
    noises = unit_noises(mechanism) if strategy is None else of_strategy(strategy, level, queries)
    parameter = {"gaussian": "rho", "geometric": "epsilon"}[mechanism] if strategy is None else strategy.unit
    return choose_for(noises, measure, bound, priors=priors, parameter=parameter)


def choose_for(
    noises: Noises, measure: Measure, bound: Number, *, priors: Iterable[Number | Intruder], parameter: str
) -> Choice:
    """The same for counts of which the noise at a budget of one is given."""
    if measure not in get_args(Measure):
        raise InputError(f"unknown measure {measure!r}. Known are {', '.join(get_args(Measure))}.")
    intruders = intruders_of(priors)
    limit = exact(bound, "bound")
    if measure != "risk" and float(limit) >= 1:
        raise InputError(f"a bound on a probability is less than 1. Got {bound} instead.")
    find = _by_right_decision if measure == "right_decision" else _by_posterior
    found = find(noises, intruders, measure, limit, parameter)
    return Choice(
        measure=measure,
        bound=limit,
        priors=tuple(Fraction(one.prior) for one in intruders),
        parameter=parameter,
        **found,
    )


def intruders_of(priors: Iterable[Number | Intruder]) -> list[Intruder]:
    """Intruders as they are, priors as intruders with equal costs."""
    intruders = [one if isinstance(one, Intruder) else Intruder(prior=one) for one in priors]
    if not intruders:
        raise InputError("a bound is for one prior or more. Got none.")
    return intruders


def unit_noises(mechanism: Mechanism) -> Noises:
    """A single count's noise at a budget of one: the paper's DG(1/(2 rho)), or geometric with ratio exp(-epsilon)."""
    if mechanism not in get_args(Mechanism):
        raise InputError(f"unknown mechanism {mechanism!r}. Known are {', '.join(get_args(Mechanism))}.")
    return (DiscreteGaussian(variance=Fraction(1, 2)) if mechanism == "gaussian" else Geometric(z=Fraction(1)),)


def of_strategy(strategy: Strategy, level: str | None = None, queries: Iterable[str] | None = None) -> Noises:
    """The noise of a level's counts (the leaf level's if none is given) if the whole budget were one."""
    whole = strategy.with_budget(**{strategy.unit: 1})
    return noises_of(whole, list(strategy.levels)[-1] if level is None else level, queries=queries)


def exposures(noises: Noises, intruders: Iterable[Intruder], budget: Number) -> list[Exposure]:
    """What each intruder learns at a budget, the noise at a budget of one being given."""
    evidence = Evidence(noises=at_budget(noises, exact(budget, "budget")))
    return [Exposure(intruder=one, evidence=evidence) for one in intruders]


def inverse_posterior(noises: Noises, intruder: Intruder, wanted: Number) -> float | None:
    """The budget at which the marginal posterior is the wanted one; None where it is too small to be found.

    It rises with the budget, from the prior to 1.
    """
    limit = Fraction(wanted)
    unit = sum(float(noise.z**2 if isinstance(noise, Geometric) else 1 / noise.variance) for noise in noises)
    smallest = SMALLEST[len(noises) > 1]
    if isinstance(noises[0], Geometric):
        unit, smallest = math.sqrt(unit), math.sqrt(smallest)

    def above(log: float) -> float:
        [exposed] = exposures(noises, [intruder], float(f"{math.exp(log):.{DIGITS + 3}g}"))
        return float(Fraction(exposed.marginal_posterior) - limit)

    low, high = (math.log(factor / unit) for factor in (0.25, 4))
    while above(high) <= 0:
        low, high = high, high + math.log(4)
    while above(low) > 0:
        low, high = low - math.log(4), low
        if low < math.log(smallest / unit):
            return None
    return math.exp(brentq(above, low, high, xtol=1e-14, rtol=1e-14))


def _by_posterior(
    noises: Noises, intruders: Sequence[Intruder], measure: Measure, bound: Fraction, parameter: str
) -> dict[str, Any]:
    """Bisection: the marginal posterior rises with the budget."""
    limits = {one: bound * Fraction(one.prior) if measure == "risk" else bound for one in intruders}
    for intruder, limit in limits.items():
        prior = Fraction(intruder.prior)
        if limit <= prior:
            words = "R is above 1" if measure == "risk" else f"the average posterior is above the prior {text(prior)}"
            return _none(f"{words} at every {parameter}, so none keeps it at {text(bound)} or below", prior)
    if min(limits.values()) >= 1:
        raise InputError(f"a bound of {text(bound)} on R is never broken: R is at most 1/prior. Give a smaller bound.")

    def broken(budget: Number) -> list[Intruder]:
        found = exposures(noises, intruders, budget)
        return [one.intruder for one in found if Fraction(one.marginal_posterior) > limits[one.intruder]]

    # The likely one first: the smallest prior for R, the largest for the posterior. Then those that it does not keep.
    binding = min((one for one in intruders if limits[one] < 1), key=lambda one: limits[one] / Fraction(one.prior) ** 2)
    while True:
        prior = Fraction(binding.prior)
        root = inverse_posterior(noises, binding, limits[binding])
        if root is None:
            return _none(f"the bound is next to the prior: only a {parameter} too small to be of use keeps it", prior)
        others = [one for one in broken(root * (1 - 1e-9)) if one != binding]
        if not others:
            break
        binding = others[0]
    words = "R" if measure == "risk" else "the average posterior"
    return {
        "value": _rounded_down(root, lambda budget: not broken(budget)),
        "reason": f"{words} rises with {parameter}, and is {float(bound):.6g} there for prior {text(prior)}",
        "binding_prior": prior,
        "windows": (),
        "checked": "monotone",
    }


def _by_right_decision(
    noises: Noises, intruders: Sequence[Intruder], measure: Measure, bound: Fraction, parameter: str
) -> dict[str, Any]:
    """From the budgets that are kept: the first interval, if it starts at 0, and the windows above."""
    del measure
    intervals, checked = kept(noises, intruders, bound)
    rounded = ((_digits(low, ROUND_CEILING), _digits(high, ROUND_FLOOR)) for low, high in intervals if low > 0)
    windows = tuple((low, high) for low, high in rounded if low <= high)
    if not intervals or intervals[0][0] > 0:
        worst = min(intruders, key=lambda one: one.odds_needed)
        who = f"an intruder with prior {text(Fraction(worst.prior))}"
        if worst.odds_needed == 1:
            reason = f"{who} is at even odds, and right more often than {text(bound)} however small {parameter} is"
        else:
            reason = f"{who} claims a target before seeing anything: the smaller {parameter}, the more surely so"
        return _none(reason, Fraction(worst.prior), windows=windows, checked=checked)

    def rights(budget: Fraction) -> list[float]:
        return [one.right_decision for one in exposures(noises, intruders, budget)]

    value = _rounded_down(intervals[0][1], lambda budget: max(rights(budget)) <= bound)
    above = rights(value * (1 + Fraction(1, 10**5)))  # where the threshold falls, on the other side
    prior = Fraction(intruders[above.index(max(above))].prior)
    further = "; windows further up keep the bound again, but a smaller budget would break it" if windows else ""
    return {
        "value": value,
        "reason": f"just above, an intruder with prior {text(prior)} is right more often ({max(above):.4g}){further}",
        "binding_prior": prior,
        "windows": windows,
        "checked": checked,
    }


def _none(reason: str, prior: Fraction, **more: Any) -> dict[str, Any]:
    found = {"value": None, "reason": reason, "binding_prior": prior, "windows": (), "checked": "exact"}
    return found | more


def _rounded_down(budget: float, meets: Callable[[Fraction], bool]) -> Fraction:
    """A budget of few digits, no larger, that itself meets the bound."""
    value = _digits(budget, ROUND_FLOOR)
    for power in range(-DIGITS, 0):
        if meets(value):
            return value
        value = _digits(float(value) * (1 - 10.0**power), ROUND_FLOOR)
    raise AssertionError("unreachable: smaller budgets keep the bound")


def _digits(budget: float, rounding: str) -> Fraction:
    return Fraction(Context(prec=DIGITS, rounding=rounding).create_decimal(Decimal(repr(budget))))
