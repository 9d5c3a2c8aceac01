"""The guarantee of a budget or a strategy, as the figures that a certificate lists."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_up
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.conversions import epsilon_from_rho, implied_epsilon, rho_from_epsilon
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.pld import pld_delta, pld_epsilon
from tallyveil.privacy.strategy import REPORTING_DELTA, Strategy

if TYPE_CHECKING:
    from tallyveil.nouns.optimised_spine import OptimisedSpine

WITHOUT_SPINE = "without the only-child rule"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The figures of a privacy guarantee.

    Attributes
    ----------
    epsilon, rho, delta
        The guarantee: the largest loss between neighbouring datasets. For zero-concentrated differential privacy,
        epsilon is the one that rho implies at delta (Eq. 7 of kazan2022). Pure strategies have neither rho nor delta.
    accountant
        Which accountant epsilon is from: "pure", "zcdp" or "pld" (privacy loss distribution).
    zcdp_epsilon
        The epsilon that rho implies at delta, whichever accountant holds.
    implied_epsilon
        sqrt(2 rho), for comparison. It is not a guarantee (Theorem 2 of kazan2022).
    pld_epsilon, pld_reason
        The tighter epsilon from privacy loss distributions, or None and the reason why it cannot be computed.
    per_attribute
        For each attribute, the epsilon of what a release reveals about it to someone who knows all other attributes.
        These and the next are from rho, and at most the epsilon in all if the pairs of datasets are neighbours.
    within_level
        For each level, the epsilon of what a release reveals about where in a unit of that level a person lives, to
        someone who knows the unit.
    basis
        "without the only-child rule", if the rule applies but the figures were computed without a spine.
    """

    epsilon: float
    rho: float | None = None
    delta: float | None = None
    implied_epsilon: float | None = None
    accountant: str | None = None
    zcdp_epsilon: float | None = None
    pld_epsilon: float | None = None
    pld_reason: str | None = None
    per_attribute: dict[str, float] | None = None
    within_level: dict[str, float] | None = None
    basis: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the figures under their JSON keys. Those of a strategy are omitted if there is none."""
        figures = asdict(self)
        if self.per_attribute is None:
            for name in (
                "accountant",
                "zcdp_epsilon",
                "pld_epsilon",
                "pld_reason",
                "per_attribute",
                "within_level",
                "basis",
            ):
                del figures[name]
        return figures


def account_of_rho(rho: Number, delta: Number = REPORTING_DELTA) -> Account:
    """Return the guarantee of rho-zCDP at a delta."""
    return Account(
        rho=rounded_up(exact(rho, "rho")),
        delta=float(exact_delta(delta)),
        epsilon=epsilon_from_rho(rho, delta),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of_epsilon(epsilon: Number, delta: Number = REPORTING_DELTA) -> Account:
    """Return the guarantee of the largest rho whose zCDP gives (epsilon, delta)."""
    rho = rho_from_epsilon(epsilon, delta)
    return Account(
        rho=rho,
        delta=float(exact_delta(delta)),
        epsilon=rounded_up(exact(epsilon, "epsilon")),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of(
    strategy: Strategy,
    *,
    spine: Spine | None = None,
    schema: Schema | None = None,
    optimised: OptimisedSpine | None = None,
    delta: Number | None = None,
    pld: bool = True,
) -> Account:
    """Return the guarantee of a strategy: the largest loss of its noise over neighbouring datasets (see ``Loss``).

    Parameters
    ----------
    strategy
        The strategy that is measured.
    spine, schema
        The spine and schema of the data. Without them, the figures are those of a spine without only children.
    optimised
        The optimised spine, if the measurements are on it. ``spine`` is the published one.
    delta
        The delta at which epsilon is reported. By default, that of the strategy.
    pld
        Whether to compute ``pld_epsilon``. It is computed anyway if the strategy's accounting is by it.

    >>> figures = account_of(Strategy.preset("pl94-2020-us-persons"), pld=False)
    >>> round(figures.epsilon, 2), round(figures.within_level["state"], 2)
    (17.14, 13.05)
    """
    loss = Loss(strategy=strategy, spine=spine, schema=schema, optimised=optimised)
    return account_of_loss(loss, delta=delta, pld=pld)


def account_of_loss(loss: Loss, *, delta: Number | None = None, pld: bool = True) -> Account:
    """Return the guarantee of a loss, which knows how many records a person has (see :func:`account_of`)."""
    strategy, spine = loss.strategy, loss.spine
    if not strategy.calibrated:
        strategy = calibrated(strategy, spine=spine, schema=loss.schema, optimised=loss.optimised)
        loss = replace(loss, strategy=strategy)
    delta_ = exact_delta(strategy.delta if delta is None else delta)
    gaussian, whole = strategy.mechanism == "gaussian", loss.in_all()

    def from_rho(amount: Fraction) -> float:
        if amount == 0:
            return 0.0
        return epsilon_from_rho(amount, delta_) if gaussian else rounded_up(amount)

    by_pld = strategy.accounting == "pld"
    tight, reason = pld_epsilon(loss, delta_) if gaussian and (pld or by_pld) else (None, None)
    in_all = tight if by_pld and tight is not None else from_rho(whole)
    if by_pld and tight is not None and _holds_as_calibrated(loss, delta_):
        in_all = rounded_up(strategy.epsilon or Fraction(0))
        tight = min(tight, in_all)  # the search for it stops near the smallest
    most = in_all if strategy.neighbours == "replace-one" else math.inf
    return Account(
        epsilon=in_all,
        rho=rounded_up(whole) if gaussian else None,
        delta=float(delta_) if gaussian else None,
        implied_epsilon=(implied_epsilon(whole) if whole else 0.0) if gaussian else None,
        accountant="pure" if not gaussian else "pld" if by_pld and tight is not None else "zcdp",
        zcdp_epsilon=from_rho(whole) if gaussian else None,
        pld_epsilon=tight,
        pld_reason=reason,
        per_attribute={name: min(most, from_rho(amount)) for name, amount in loss.per_attribute().items()},
        within_level={level: min(most, from_rho(amount)) for level, amount in loss.within_level().items()},
        basis=WITHOUT_SPINE if spine is None and strategy.only_child else None,
    )


def _holds_as_calibrated(loss: Loss, delta: Fraction) -> bool:
    """Whether delta is that of the strategy, and the epsilon that it was calibrated to holds there."""
    wanted = loss.strategy.epsilon
    return wanted is not None and delta == loss.strategy.delta and pld_delta(loss, wanted) <= delta
