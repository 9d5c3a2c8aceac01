"""The paper's Gibbs sampler of the two-level posterior (kazan2022, Eq. 26 to 35): a check on the exact sums.

The full conditional of x1 holds for x1 <= x2 (Eq. 26). A sampler that leaves the condition out has another stationary
distribution; the published Table 7 is near that one (erratum 8).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import InputError
from tallyveil.privacy.distributions import DiscreteGaussian
from tallyveil.risk.hierarchy import TwoLevels


def gibbs(
    two: TwoLevels,
    released: int,
    above: int,
    siblings: int,
    *,
    draws: int = 10_000,
    seed: int = 0,
    condition: bool = True,
) -> NDArray[np.int64]:
    """Draws of (x1, x2) given the three released counts, one after another.

    ``condition`` keeps x1 <= x2 when x1 is drawn; without it, x1 may exceed x2 until x2 is drawn again. The prior on
    the siblings is the flat one.
    """
    if two.prior is not None or not two.approximate or not isinstance(two.noise, DiscreteGaussian):
        raise InputError("the paper's sampler is for discrete Gaussians, its approximation and the flat prior.")
    if not isinstance(two.above, DiscreteGaussian):
        raise InputError("the paper's sampler is for discrete Gaussians, its approximation and the flat prior.")
    k, p = two.intruder.known, float(two.intruder.prior)
    rho_1, rho_2 = (1 / (2 * float(noise.variance)) for noise in (two.noise, two.above))
    rho_y = 1 / (2 * two.together.actual_variance())  # rho_1 / d where all siblings have the target's noise
    log_prior = np.log([1 - p, p])
    reach = math.ceil(39 / math.sqrt(2 * (rho_2 + rho_y)))
    rng = np.random.default_rng(seed)
    uniform = rng.random((draws, 2))
    out = np.empty((draws, 2), dtype=np.int64)
    x1 = k + 1
    for i in range(draws):
        centre = (rho_2 * above + rho_y * (siblings + x1)) / (rho_2 + rho_y)  # Eq. 35, truncated below at x1
        first = max(x1, math.floor(centre) - reach)
        x2s = np.arange(first, max(first, math.ceil(centre)) + reach + 1)
        x2 = int(x2s[_drawn(-(rho_2 + rho_y) * (x2s - centre) ** 2, uniform[i, 0])])
        x1s = np.array([k, k + 1])
        logs = log_prior - rho_1 * (released - x1s) ** 2 - rho_y * (siblings - x2 + x1s) ** 2  # Eq. 27
        if condition:
            logs = np.where(x1s <= x2, logs, -np.inf)
        x1 = int(x1s[_drawn(logs, uniform[i, 1])])
        out[i] = x1, x2
    return out


def _drawn(logs: NDArray[np.floating], uniform: float) -> int:
    weight = np.cumsum(np.exp(logs - logs.max()))
    return int(np.searchsorted(weight, uniform * weight[-1], side="right"))
