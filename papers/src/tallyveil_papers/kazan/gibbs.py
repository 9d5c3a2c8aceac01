r"""The paper's Gibbs sampler of the two-level posterior (kazan2022, Eq. 26 to 35): a check on the exact sums.

The full conditional of x1 holds for x1 <= x2 (Eq. 26). A sampler that leaves the condition out has another stationary
distribution; the published Table 7 is near that one (erratum 8). How near, ``misfit`` says: draws of a chain depend on
each other, so the covariance of their shares is the chain's own (Kemeny & Snell, Finite Markov Chains, Theorem 4.6.1),

.. math:: n \operatorname{Cov}(\hat p_i, \hat p_j) \to \pi_i z_{ij} + \pi_j z_{ji} - \pi_i \delta_{ij} - \pi_i \pi_j,
   \qquad Z = (I - P + 1 \pi^\top)^{-1}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, gammaincc

from tallyveil._arrays import Floats, Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.risk.above.hierarchy import Hierarchy
from tallyveil.risk.target.intruder import Intruder


def gibbs(
    two: Hierarchy,
    released: int,
    above: int,
    siblings: int,
    *,
    draws: int = 10_000,
    seed: int = 0,
    condition: bool = True,
) -> Integers:
    """Draws of (x1, x2) given the three released counts, one after another.

    ``condition`` keeps x1 <= x2 when x1 is drawn; without it, x1 may exceed x2 until x2 is drawn again. The prior on
    the siblings is the flat one.
    """
    steps = Steps.of(two, released, above, siblings, condition=condition)
    uniform = np.random.default_rng(seed).random((draws, 2))
    drawn: Integers = _walk(np.cumsum(steps.x2_given_x1, axis=1), steps.has_given_x2, uniform)
    drawn += np.array([only_target_unknown(two).known, steps.x2[0]])
    return drawn


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The two steps of the sampler, as probabilities.

    Attributes
    ----------
    x2
        Counts of the unit above.
    x2_given_x1
        Their probabilities, for x1 = k and for x1 = k + 1 (Eq. 35).
    has_given_x2
        Probability that x1 = k + 1, for each of them (Eq. 30).
    """

    x2: Integers
    x2_given_x1: Floats
    has_given_x2: Floats

    @classmethod
    def of(cls, two: Hierarchy, released: int, above: int, siblings: int, *, condition: bool) -> Steps:
        """The steps given three released counts."""
        near, together = two.above[0], two.above[0].together
        if (
            len(two.above) != 1
            or near.prior is not None
            or not isinstance(two.noise, DiscreteGaussian)
            or not isinstance(near.noise, DiscreteGaussian)
            or not isinstance(together, DiscreteGaussian)
        ):
            raise InputError("the paper's sampler is for two levels, discrete Gaussians and the flat prior.")
        intruder = only_target_unknown(two)
        k, prior = intruder.known, float(intruder.prior)
        rho_1, rho_2, rho_y = (1 / (2 * float(noise.variance)) for noise in (two.noise, near.noise, together))
        rho = rho_2 + rho_y
        x1 = np.array([[k], [k + 1]])
        centre = (rho_2 * above + rho_y * (siblings + x1)) / rho
        reach = 39 / math.sqrt(2 * rho) + 2
        x2 = np.arange(max(k, math.floor(centre.min() - reach)), math.ceil(max(k + 1, centre.max()) + reach) + 1)
        logs = np.where(x2 >= x1, -rho * (x2 - centre) ** 2, -np.inf)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        log_odds = (math.log(prior) - math.log1p(-prior)) + (
            rho_1 * (2 * (released - k) - 1) + rho_y * (2 * (x2 - k - siblings) - 1)
        )
        has = expit(log_odds)
        if condition:
            has = np.where(x2 >= k + 1, has, 0.0)
        return cls(x2=x2, x2_given_x1=weights / weights.sum(axis=1, keepdims=True), has_given_x2=has)

    @property
    def transition(self) -> Floats:
        """Probabilities from each x2 to the next one."""
        return np.column_stack([1 - self.has_given_x2, self.has_given_x2]) @ self.x2_given_x1

    @property
    def stationary(self) -> Floats:
        """Probabilities of x2 in the long run."""
        to_has = self.x2_given_x1 @ self.has_given_x2  # of x1 = k and k + 1
        has = to_has[0] / (to_has[0] + 1 - to_has[1])
        shares: Floats = np.array([1 - has, has]) @ self.x2_given_x1
        return shares

    @property
    def covariance(self) -> Floats:
        """Of the shares of n draws in each x2, times n."""
        p, n = self.stationary, len(self.x2)
        z = p[:, None] * np.linalg.inv(np.eye(n) - self.transition + p)
        result: Floats = z + z.T - np.diag(p) - np.outer(p, p)
        return result


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Misfit:
    """How far the shares of a sampler's draws are from a chain's stationary distribution.

    ``expected`` and ``published`` are by x2, the last cell being all from there on; ``deviations`` are their
    differences in standard errors; ``statistic`` is a chi-square with ``df`` degrees of freedom.
    """

    statistic: float
    df: int
    p_value: float
    expected: Floats
    published: Floats
    deviations: Floats


def misfit(steps: Steps, published: Sequence[float], *, draws: int) -> Misfit:
    """Compare the shares of ``steps.x2``, in order, among a chain's draws with what its steps give in the long run.

    Cells beyond the last that expects 5 draws or more are merged with it.
    """
    p = steps.stationary
    cells = min(len(published), 1 + int(np.flatnonzero(p * draws >= 5)[-1]))
    merge = np.zeros((cells, len(p)))
    merge[np.minimum(np.arange(len(p)), cells - 1), np.arange(len(p))] = 1
    observed = merge[:, : len(published)] @ np.asarray(published, dtype=np.float64)
    off, covariance = observed - merge @ p, merge @ steps.covariance @ merge.T / draws
    statistic = float(off[:-1] @ np.linalg.solve(covariance[:-1, :-1], off[:-1]))  # shares sum to one: one cell less
    return Misfit(
        statistic=statistic,
        df=cells - 1,
        p_value=float(gammaincc((cells - 1) / 2, statistic / 2)),
        expected=merge @ p,
        published=observed,
        deviations=off / np.sqrt(np.diag(covariance)),
    )


@compiled
def _walk(cumulative: Floats, has_given_x2: Floats, uniform: Floats) -> Integers:
    """Draws of x1 - k and the place of x2, from x1 = k + 1 on."""
    drawn = np.empty(uniform.shape, dtype=np.int64)
    x1, last = 1, cumulative.shape[1] - 1
    for i in range(len(uniform)):
        place = np.searchsorted(cumulative[x1], uniform[i, 0], side="right")
        place = min(place, last)
        x1 = 1 if uniform[i, 1] < has_given_x2[place] else 0
        drawn[i, 0], drawn[i, 1] = x1, place
    return drawn


def only_target_unknown(two: Hierarchy) -> Intruder:
    """The intruder, who must know everyone but the target, as in the paper."""
    if not isinstance(two.intruder, Intruder):
        raise InputError("the paper's sampler is for an intruder who knows everyone but the target.")
    return two.intruder
