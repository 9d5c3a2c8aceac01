"""The equations of kazan2022 as plain sums, to confirm what the library computes.

This module uses neither the library nor constants of other modules: budgets and d are repeated from the paper.
"""

from __future__ import annotations

import math

import numpy as np

from tallyveil._arrays import Floats, Integers

RHO_1 = 2.56 * 165 / 4099 * 3945 / 4097  # the paper's block
RHO_2 = 2.56 * 1256 / 4099 * 1288 / 4099  # and block group
HALF = (542 / 339) ** 2 / 2.56 / 2  # the Bureau's exact rho over 2.56, and half of it: DG(1/rho) is DG(1/(2 rho/2))
OTHERS = 27


def law(rho: float) -> tuple[Integers, Floats]:
    """Integers and their probabilities under DG(1/(2 rho)) (Eq. 8), as far as a float can represent them."""
    reach = int(math.sqrt(700 / rho)) + 2
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-rho * k.astype(np.float64) ** 2)
    return k, weights / weights.sum()


def mass(rho: float, at: int | Integers) -> float:
    """Probability of one integer, or the total of several."""
    k, p = law(rho)
    return float(p[np.isin(k, at)].sum())


def variance(rho: float) -> float:
    """The sum of k^2 times its probability."""
    k, p = law(rho)
    return float(k**2 @ p)


def posterior(rho: float, x: int, prior: float) -> float:
    """Eq. 11 with k_1 = 0."""
    has, not_ = prior * math.exp(-rho * (x - 1) ** 2), (1 - prior) * math.exp(-rho * x**2)
    return has / (has + not_)


def average(rho: float, prior: float) -> float:
    """Eq. 14."""
    k, p = law(rho)
    return float(p @ (1 / (1 + (1 - prior) / prior * np.exp(-np.clip(rho * (2.0 * k + 1), -700, 700)))))  # x* = k + 1


def right(rho: float, prior: float) -> float:
    """Eq. 18: claimed where rho (2 x* - 1) > log((1 - p) / p)."""
    k, p = law(rho)
    return float(p[rho * (2 * k + 1) > math.log((1 - prior) / prior)].sum())


def exact_epsilon(rho: float, delta: float) -> float:
    """Eq. 7, the minimum over a grid of alphas."""
    a = 1 + np.geomspace(1e-4, 1e4, 400_001)
    return float((rho * a + np.log(1 - 1 / a) - np.log(a * delta) / (a - 1)).min())


def given(x1: int, x2: int, y: int, rho_1: float = RHO_1, rho_2: float = RHO_2, *, prior: float = 0.5) -> Floats:
    """Eq. 25 as a table: a row for x1 = 0 and for 1, a column for each x2 from 0 to 60."""
    has, above = np.arange(2)[:, None], np.arange(61)
    logs = -rho_1 * (x1 - has) ** 2 - rho_2 * (x2 - above) ** 2 - rho_1 / OTHERS * (y - above + has) ** 2
    joint = np.where(above >= has, np.where(has, prior, 1 - prior) * np.exp(logs), 0.0)
    result: Floats = joint / joint.sum()
    return result


def smallest_claimed(x2: int, y: int, *, prior: float = 0.5) -> int:
    """The smallest x1* with posterior odds of more than 1 (Eq. 25)."""
    below, above = given(0, x2, y, prior=prior).sum(axis=1)
    return math.floor(-math.log(above / below) / (2 * RHO_1)) + 1  # each step adds 2 rho_1 to the log odds at x1* = 0


def decided(
    count: int, rho_1: float = RHO_1, rho_2: float = RHO_2, *, prior: float = 0.5
) -> tuple[float, float, float]:
    """Eq. 18 with the level above: probabilities of a right claim, of a gain and of a loss."""
    (own, p), (above, q), (rest, r) = (_likely(rho) for rho in (rho_1, rho_2, rho_1 / OTHERS))
    own, above, rest = own + 1, above + count, rest + count - 1
    x2 = np.arange(max(0, above[0] - 12), above[-1] + 13 + int(4 / math.sqrt(rho_2)))
    near = np.exp(-rho_2 * (above[:, None] - x2) ** 2.0)
    sums = [(near * (x2 >= x1)) @ np.exp(-rho_1 / OTHERS * (rest[:, None] - x2 + x1) ** 2.0).T for x1 in (0, 1)]
    needed = math.log((1 - prior) / prior)
    claims = rho_1 * (2 * own[:, None, None] - 1) + np.log(sums[1] / sums[0]) > needed
    weight = np.einsum("i,j,k->ijk", p, q, r)
    alone = (rho_1 * (2 * own - 1) > needed)[:, None, None]
    return (
        float(weight[claims].sum()),
        float((weight * (claims & ~alone)).sum()),
        float((weight * (~claims & alone)).sum()),
    )


def _likely(rho: float) -> tuple[Integers, Floats]:
    k, p = law(rho)
    return k[p > 1e-13], p[p > 1e-13]


def decided_when_exact(count: int, rho_1: float = RHO_1) -> float:
    r"""Eq. 18 if the count above is practically exact (rho_2 = 100): x2* is x2, and only integers matter.

    With c = rho_1 / 27 the log odds are c L, L = 27 (2 x1* - 1) + 2 (x2 - y*) - 1. Where L is 0, the terms for x2 + 1
    and x2 - 1 decide, each exp(-rho_2) small; they are as exp(2 c (2 (y* - x2) + 1)) to 1, so x1* >= 1 is claimed, and
    x1* <= 0 is not. Where x2 = 1, x1 = 1 has no term at x2 = 0, and nothing is claimed.
    """
    (own, p), (rest, r) = law(rho_1), law(rho_1 / OTHERS)
    x1, y = (own + 1)[:, None], rest + count - 1
    whole = OTHERS * (2 * x1 - 1) + 2 * (count - y) - 1
    claims = (whole > 0) | ((whole == 0) & (x1 >= 1) & (count >= 2))
    return float(p @ claims @ r)
