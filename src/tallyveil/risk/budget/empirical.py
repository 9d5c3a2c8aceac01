"""The "empirical" epsilon that section 6 of kazan2022 asks for: the single count that would expose a target as much.

Composition adds up the budgets of all levels, but an intruder may learn far less. The empirical epsilon converts what
one intruder learns on average (the marginal posterior, Eq. 14) back into a budget: that of one noisy count, geometric
or discrete Gaussian, from which the same intruder would learn as much. If there are several such budgets, it is the
smallest, as for a discrete Gaussian count and a prior below 1/500 or above 499/500 (``posterior_budgets``). It is a
comparison, not a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact, text
from tallyveil.privacy.conversions import implied_epsilon
from tallyveil.privacy.sentences import NO_GUARANTEE
from tallyveil.risk.budget.exposures import unit_noises
from tallyveil.risk.budget.posterior_budgets import inverse_posterior
from tallyveil.risk.target.intruder import Exposure, Intruder

ASSUMPTIONS = (
    "the intruder knows all of the unit's people but the target",
    "their prior is the one given",
    "they use the counts given, each one higher if the target has the characteristics, and nothing else",
    "the noisy counts are released as they are, without post-processing",
    NO_GUARANTEE,
)


@final
@dataclass(frozen=True, kw_only=True)
class Empirical:
    """Budgets of a single count that would reveal as much to an intruder.

    Attributes
    ----------
    prior, marginal_posterior
        The intruder's prior, and their average posterior (Eq. 14).
    geometric_epsilon
        Epsilon of a geometric count, with ratio exp(-epsilon).
    gaussian_rho, implied_epsilon
        Rho of a discrete Gaussian count with variance 1/(2 rho), and sqrt(2 rho) for comparison (section 2.1). Rho is
        the smallest: for a prior below 1/500 or above 499/500, a larger rho may reveal as little.
    assumptions
        The assumptions of the figures, in words.
    """

    prior: Fraction
    marginal_posterior: float
    geometric_epsilon: float
    gaussian_rho: float
    implied_epsilon: float
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys."""
        names = ("marginal_posterior", "geometric_epsilon", "gaussian_rho", "implied_epsilon")
        figures = {name: getattr(self, name) for name in names}
        return {"prior": text(self.prior)} | figures | {"assumptions": list(self.assumptions)}


def empirical_epsilon(exposed: Exposure | float, prior: Number | None = None) -> Empirical:
    """The smallest budgets of a single count that exposes a target as much as this.

    ``exposed`` is an exposure, or a marginal posterior together with its ``prior`` (for example from a simulation after
    post-processing).

    >>> from tallyveil.privacy import DiscreteGaussian
    >>> single = empirical_epsilon(Intruder(prior="1/2").against(DiscreteGaussian(variance="5.04")))
    >>> round(single.gaussian_rho, 4), round(single.implied_epsilon, 4), round(single.geometric_epsilon, 4)
    (0.0992, 0.4454, 0.4421)
    """
    if isinstance(exposed, Exposure):
        if prior is not None:
            raise InputError("an exposure has its prior. Leave prior out.")
        intruder, posterior = exposed.intruder, exposed.marginal_posterior
    else:
        if prior is None:
            raise InputError("a marginal posterior needs the prior it belongs to. Give prior.")
        intruder, posterior = Intruder(prior=prior), float(exact(exposed, "marginal posterior"))
    before = Fraction(intruder.prior)
    if not before < Fraction(posterior) < 1:
        raise InputError(
            f"a marginal posterior must lie between the prior {text(before)} and 1. Got {posterior:.6g} instead."
        )
    geometric, rho = (
        inverse_posterior(unit_noises(mechanism), intruder, Fraction(posterior))
        for mechanism in ("geometric", "gaussian")
    )
    if geometric is None or rho is None:
        raise InputError(
            f"a marginal posterior of {posterior} is too close to the prior {text(before)} to be distinguished from it."
        )
    return Empirical(
        prior=before,
        marginal_posterior=posterior,
        geometric_epsilon=geometric,
        gaussian_rho=rho,
        implied_epsilon=implied_epsilon(rho),
    )


def implied_epsilon_of(marginal_posterior: float, prior: Number) -> float | None:
    """The implied epsilon of a single Gaussian count that reveals this much; 0 if no more than the prior, None if all.

    >>> round(implied_epsilon_of(0.52408, "1/2"), 2), implied_epsilon_of(0.49, "1/2"), implied_epsilon_of(1.0, "1/2")
    (0.45, 0.0, None)
    """
    intruder, wanted = Intruder(prior=prior), Fraction(marginal_posterior)
    if wanted >= 1:
        return None
    if wanted <= Fraction(intruder.prior):
        return 0.0
    rho = inverse_posterior(unit_noises("gaussian"), intruder, wanted)
    return 0.0 if rho is None else implied_epsilon(rho)
