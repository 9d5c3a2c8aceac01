"""What a budget or a strategy guarantees, in the figures that a certificate lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from tallyveil.privacy.accounting import epsilon_from_rho, implied_epsilon, rho_from_epsilon
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_up
from tallyveil.privacy.distributions import DiscreteGaussian
from tallyveil.privacy.strategy import REPORTING_DELTA, Strategy

LARGEST_FOR_PLD = 1000  # rho; far beyond any use. At 10^9 the distribution would not fit into memory


@dataclass(frozen=True, kw_only=True)
class Account:
    """A guarantee.

    ``epsilon`` with ``delta`` is the guarantee (Eq. 7 of kazan2022), ``implied_epsilon`` a way to compare (Theorem 2),
    ``pld_epsilon`` the tighter figure from privacy loss distributions (None above a rho of 1000). ``per_attribute``:
    what the release tells about one attribute of a person (only queries that depend on it). ``within_level``: what it
    tells about where in a unit of that level the person lives (only levels below it). Pure strategies have no rho,
    delta, implied or pld epsilon.
    """

    epsilon: float
    rho: float | None = None
    delta: float | None = None
    implied_epsilon: float | None = None
    pld_epsilon: float | None = None
    per_attribute: dict[str, float] | None = None
    within_level: dict[str, float] | None = None

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys; what only a strategy has is left out without one."""
        figures = asdict(self)
        if self.per_attribute is None:
            for name in ("pld_epsilon", "per_attribute", "within_level"):
                del figures[name]
        return figures


def account_of_rho(rho: Number, delta: Number = REPORTING_DELTA) -> Account:
    """The guarantee of rho-zCDP at a delta."""
    return Account(
        rho=rounded_up(exact(rho, "rho")),
        delta=float(exact_delta(delta)),
        epsilon=epsilon_from_rho(rho, delta),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of_epsilon(epsilon: Number, delta: Number = REPORTING_DELTA) -> Account:
    """The largest rho whose zCDP gives (epsilon, delta)."""
    rho = rho_from_epsilon(epsilon, delta)
    return Account(
        rho=rho,
        delta=float(exact_delta(delta)),
        epsilon=rounded_up(exact(epsilon, "epsilon")),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of(strategy: Strategy, *, delta: Number | None = None, pld: bool = True) -> Account:
    """The guarantee of a whole strategy, by composition over its levels and queries.

    ``pld_epsilon`` is None without ``pld``, and for budgets beyond any use (rho above 1000): the distribution of the
    privacy loss grows with rho, and would take minutes and gigabytes.

    >>> figures = account_of(Strategy.preset("pl94-2020-us-persons"), pld=False)
    >>> round(figures.epsilon, 2), round(figures.within_level["state"], 2)
    (17.14, 13.05)
    """
    delta_ = exact_delta(strategy.delta if delta is None else delta)
    gaussian = strategy.mechanism == "gaussian"

    def epsilon(budget: Fraction) -> float:
        if budget == 0:
            return 0.0
        return epsilon_from_rho(budget, delta_) if gaussian else rounded_up(budget)

    def spent(counts: Callable[[str, str], bool]) -> Fraction:
        shares = (spend.share for spend in strategy.spends() if counts(spend.level, spend.query))
        return strategy.budget * sum(shares, Fraction(0))

    levels = list(strategy.levels)
    tightly = gaussian and pld and strategy.budget <= LARGEST_FOR_PLD
    return Account(
        epsilon=epsilon(strategy.budget),
        rho=rounded_up(strategy.budget) if gaussian else None,
        delta=float(delta_) if gaussian else None,
        implied_epsilon=implied_epsilon(strategy.budget) if gaussian else None,
        pld_epsilon=pld_epsilon(strategy, delta_) if tightly else None,
        per_attribute={
            name: epsilon(spent(lambda _, query, name=name: name in strategy.depends_on(query)))  # type: ignore[misc]
            for name in strategy.attributes
        },
        within_level={
            level: epsilon(spent(lambda at, _, below=levels[depth + 1 :]: at in below))  # type: ignore[misc]
            for depth, level in enumerate(levels[:-1])
        },
    )


def pld_epsilon(strategy: Strategy, delta: Number) -> float:
    """Epsilon of a Gaussian strategy from its privacy loss distribution (dp-accounting), pessimistic and rounded up.

    A replaced person changes two counts of each query by one, so each query is two discrete Gaussians of sensitivity 1
    (with add-or-remove neighbours, one).
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    counts = 2 if strategy.neighbours == "replace-one" else 1
    times: Counter[Fraction] = Counter()
    for spend in strategy.spends():
        assert isinstance(spend.noise, DiscreteGaussian)
        times[spend.noise.variance] += counts
    step = min(1e-3, implied_epsilon(strategy.budget) / 2000)  # of the loss; a coarser one errs upwards
    total = None
    for variance in sorted(times, reverse=True):  # the narrow distributions first: they compose faster
        sigma = math.nextafter(math.sqrt(variance), 0.0)
        one = pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=step, use_connect_dots=True)
        many = one.self_compose(times[variance])
        total = many if total is None else total.compose(many)
    assert total is not None
    return float(total.get_epsilon_for_delta(float(exact_delta(delta))))
