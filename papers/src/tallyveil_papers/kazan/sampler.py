r"""The paper's sampler (kazan2022, Eq. 26 to 35) for all released counts at once, with or without Eq. 26's condition.

It alternates between x1 and x2, so x1 alone is a chain with the two states 0 and 1, and everything follows from its two
transition probabilities: the share of draws with x1 = 1 in the long run, and, with that share's own variance,

.. math:: \pi (1 - \pi) \frac{1 + \lambda}{1 - \lambda} / n, \qquad \lambda = 1 - P[0 \to 1] - P[1 \to 0],

how often it is at least one half of n draws. :class:`tallyveil_papers.kazan.gibbs.Steps` has the same for one set of
counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, ndtr

from tallyveil._arrays import Floats, Integers
from tallyveil.privacy.noise import Noise
from tallyveil.risk import Hierarchy
from tallyveil_papers.kazan.gibbs import only_target_unknown

_CUT = 1e-9  # probability of released counts that is left out, for each count
_REACH = 9  # standard deviations of x2, given the rest, that are summed over


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Chains:
    """A chain for each x1* (first axis), x2* (second) and y1* (third); nobody else in the unit has the characteristics.

    ``to_has`` and ``to_not`` are the probabilities from x1 = 0 to 1 and back.
    """

    to_has: Floats
    to_not: Floats

    @classmethod
    def of(cls, two: Hierarchy, released: Integers, above: Integers, siblings: Integers, *, condition: bool) -> Chains:
        """The chains for all combinations of released counts."""
        near, prior = two.above[0], float(only_target_unknown(two).prior)
        variances = [float(noise.variance) for noise in (two.noise, near.noise, *near.siblings)]  # type: ignore[union-attr]
        rho_1, rho_2, rho_y = (1 / (2 * s) for s in (variances[0], variances[1], sum(variances[2:])))
        rho = rho_2 + rho_y
        centre = (rho_2 * above[:, None] + rho_y * siblings) / rho
        reach = math.ceil(_REACH / math.sqrt(2 * rho)) + 2
        low, high = max(0, math.floor(centre.min()) - reach), max(1, math.ceil(centre.max())) + reach
        x2 = np.arange(low, high + 1)
        given = [_normalised(x2, centre + x1 * rho_y / rho, rho, least=x1) for x1 in (0, 1)]  # Eq. 35
        log_odds = rho_1 * (2 * released - 1) + (rho_y * (2 * (x2 - siblings[:, None]) - 1))[..., None]
        step = expit(math.log(prior / (1 - prior)) + log_odds)  # Eq. 30: y1*, x2, x1*
        if condition:
            step[:, x2 < 1] = 0.0  # Eq. 26: x1 <= x2
        has = [(shares.transpose(1, 0, 2) @ step).transpose(2, 1, 0) for shares in given]
        return cls(to_has=has[0], to_not=1 - has[1])

    @property
    def posterior(self) -> Floats:
        """Share of draws with x1 = 1 in the long run."""
        return self.to_has / (self.to_has + self.to_not)

    def claimed(self, draws: int | None = None, *, strictly: bool = False) -> Floats:
        """Probability that at least (or strictly more than) half of the draws have x1 = 1; 0 or 1 in the long run."""
        share = self.posterior
        if draws is None:
            return (share > 0.5).astype(np.float64)
        stays = 1 - self.to_has - self.to_not
        deviation = np.sqrt(draws * share * (1 - share) * (1 + stays) / (1 - stays))
        result: Floats = ndtr((draws * share - draws / 2 + (-0.5 if strictly else 0.5)) / np.maximum(deviation, 1e-300))
        return result


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Released:
    """All possible releases for a target who is alone in the unit, up to a negligible part, with probabilities."""

    x1: Integers
    x2: Integers
    y: Integers
    mass: Floats

    @classmethod
    def of(cls, two: Hierarchy, count: int) -> Released:
        """Given the true count above, the target included."""
        near = two.above[0]
        ways = [(two.noise, 1), (near.noise, count), (near.together, count - 1)]
        etas = [_likely(noise) for noise, _ in ways]
        masses = [noise.pmf(eta) for (noise, _), eta in zip(ways, etas, strict=True)]
        x1, x2, y = (true + eta for (_, true), eta in zip(ways, etas, strict=True))
        return cls(x1=x1, x2=x2, y=y, mass=np.einsum("i,j,k->ijk", *masses))

    def chains(self, two: Hierarchy, *, condition: bool) -> Chains:
        """The sampler's chains for all these releases."""
        return Chains.of(two, self.x1, self.x2, self.y, condition=condition)


def sampled(two: Hierarchy, count: int, *, condition: bool, draws: int | None = None) -> tuple[float, float, float]:
    """Probabilities that the sampler's intruder is right, gains and loses by the level above (prior 1/2)."""
    released = Released.of(two, count)
    return shares(released, released.chains(two, condition=condition).claimed(draws))


def shares(released: Released, claimed: Floats) -> tuple[float, float, float]:
    """Probabilities of a right claim, of a gain and of a loss, against a claim from 1 on."""
    alone = (released.x1 >= 1)[:, None, None]
    right, gain = released.mass * claimed, released.mass * claimed * ~alone
    return float(right.sum()), float(gain.sum()), float((released.mass * (1 - claimed) * alone).sum())


def _normalised(x2: Integers, centre: Floats, rho: float, *, least: int) -> Floats:
    logs = np.where(x2 >= least, -rho * (x2 - centre[..., None]) ** 2, -np.inf)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    result: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return result


def _likely(noise: Noise) -> Integers:
    reach = int(-noise.quantile(_CUT / 2))
    return np.arange(-reach, reach + 1)
