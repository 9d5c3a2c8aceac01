"""The noise of a single count as it is named on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyveil.cli import options
from tallyveil.errors import InputError

if TYPE_CHECKING:
    from tallyveil.privacy import DiscreteGaussian, Geometric


def count_noise(
    mechanism: options.CountMechanism, *, rho: str | None, variance: str | None, epsilon: str | None
) -> Geometric | DiscreteGaussian:
    """The noise of one count, from its one parameter."""
    from tallyveil.privacy import DiscreteGaussian, Geometric
    from tallyveil.privacy.budget import exact

    if mechanism is options.CountMechanism.geometric:
        if epsilon is None or rho is not None or variance is not None:
            raise InputError("geometric noise has one parameter: --epsilon E. Leave --rho and --variance out.")
        return Geometric(z=exact(epsilon, "epsilon"))
    if epsilon is not None or (rho is None) == (variance is None):
        raise InputError("Gaussian noise has one parameter: --rho R or --variance V, one of them, and no --epsilon.")
    return DiscreteGaussian(variance=exact(variance, "variance") if variance else 1 / (2 * exact(rho or "", "rho")))
