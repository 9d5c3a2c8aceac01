"""A second implementation of flaxman2019's mechanisms and loss, in numpy only, which confirms ours.

Noise is a difference of numpy's geometrics with success probability 1 - exp(-z). Where the distribution is
known (geometric and averaged noise) it is computed; raked noise is simulated. Nothing here calls the library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Floats, Integers

FINE = 50  # residuals are put together in steps of so small a part of the kernel's width


def noise(z: float, size: int | tuple[int, ...], rng: np.random.Generator, *, many: int = 1) -> Integers:
    """G(z), or the sum of ``many`` of them: a difference of negative binomials."""
    success = -math.expm1(-z)
    if many == 1:
        return np.asarray(rng.geometric(success, size) - rng.geometric(success, size))
    return np.asarray(rng.negative_binomial(many, success, size) - rng.negative_binomial(many, success, size))


def children_of(persons: int, mean: int, levels: int) -> int:
    """C = floor((N / mu)^(1/J)) (section 2.1).

    >>> children_of(1_000_000, 100, 3)
    21
    """
    return int((persons / mean) ** (1 / levels) + 1e-9)


def residuals_by_hand(
    name: str,
    *,
    epsilon: float,
    persons: int = 1_000_000,
    mean: int = 100,
    levels: int = 3,
    parts: int = 4,
    runs: int,
    rng: np.random.Generator,
) -> Floats:
    """Residuals of all finest areas, one row for each run (section 2.2)."""
    children = children_of(persons, mean, levels)
    areas = children**levels
    if name == "geometric":
        return noise(epsilon, (runs, areas), rng).astype(np.float64)
    if name == "averaged":
        return noise(epsilon / parts, (runs, areas), rng, many=parts) / parts
    truth = rng.multinomial(persons, np.full(areas, 1 / areas))
    z = epsilon / (levels + 1)
    raked = persons + noise(z, (runs, 1), rng).astype(np.float64)
    for level in range(1, levels + 1):
        exact = truth.reshape(children**level, -1).sum(axis=1)
        noisy = (exact + noise(z, (runs, len(exact)), rng)).reshape(runs, -1, children)
        sums = noisy.sum(axis=2, keepdims=True)  # where it is 0, which the paper does not speak of: equal parts
        share = np.where(sums == 0, 1 / children, noisy / np.where(sums == 0, 1, sums))
        raked = (share * raked[:, :, None]).reshape(runs, -1)
    return np.asarray(raked - truth)


class Law(NamedTuple):
    """Values and their probabilities."""

    value: Floats
    p: Floats

    def deviation(self) -> float:
        """The standard deviation, of a law symmetric about 0."""
        return math.sqrt(float(self.p @ self.value**2))


def law_of(name: str, epsilon: float, parts: int = 4) -> Law:
    """The distribution of one residual: Pr[G(z) = k] as printed, or the mean of several (by convolution)."""
    z = epsilon / (parts if name == "averaged" else 1)
    k = np.arange(-math.ceil(40 / z), math.ceil(40 / z) + 1)
    one = p = (1 - math.exp(-z)) * np.exp(-z * np.abs(k)) / (1 + math.exp(-z))
    if name == "averaged":
        size = 1 << math.ceil(math.log2(parts * len(k)))
        p = np.maximum(np.fft.irfft(np.fft.rfft(one, size) ** parts, size)[: parts * (len(k) - 1) + 1], 0)
        k = np.arange(-(len(p) // 2), len(p) // 2 + 1)
    return Law(k / (parts if name == "averaged" else 1), p)


def losses_by_hand(
    found: Law | Floats,
    *,
    bandwidth: float = 0.15,
    multiplier: float = 2.0,
    percentile: float = 95.0,
    points: int | None = None,
) -> Floats:
    """|log p(x)/p(x+1)| of the smoothed density, at the integers x in the range (or at ``points`` of them)."""
    if isinstance(found, Law):
        width, size = bandwidth * found.deviation(), np.abs(found.value)
        order = np.argsort(size, kind="stable")
        end = size[order][np.searchsorted(np.cumsum(found.p[order]), percentile / 100)]
        value, weight = found.value, found.p
    else:
        flat = found.ravel()
        width, end = bandwidth * float(flat.std(ddof=1)), np.percentile(np.abs(flat), percentile)
        steps, count = np.unique(np.round(flat * (FINE / width)), return_counts=True)
        value, weight = steps * (width / FINE), count.astype(np.float64)
    reach = multiplier * float(end)
    x = np.arange(math.ceil(-reach), reach, 1.0)[:-1]
    x = x if points is None or points > len(x) else x[np.linspace(0, len(x) - 1, points).astype(np.int64)]
    near = (weight > 0) & (np.abs(value) < reach + 12 * width + 2)
    here, there = (log_density(value[near], weight[near], at, width) for at in (x, x + 1))
    return np.abs(here - there)


def log_density(value: NDArray[Any], weight: NDArray[Any], x: Floats, width: float) -> Floats:
    """Logarithm of a sum of Gaussian kernels at each x, up to a constant; scaled by the nearest to avoid underflow."""
    power = -(((x[:, None] - value) / width) ** 2) / 2
    most = power.max(axis=1, keepdims=True)
    return np.asarray(most[:, 0] + np.log(np.exp(power - most) @ weight))


def errors_of_raked(
    counts: Sequence[tuple[int, int]], siblings: int, *, epsilon: float, runs: int, rng: np.random.Generator
) -> Floats:
    """Raked minus own count of one finest area: from the counts of it and its ancestors, and of their parents.

    ``counts`` has (own, parent's) of each level from the top down; a unit's siblings enter as a sum.
    """
    z = epsilon / (len(counts) + 1)
    raked = counts[0][1] + noise(z, runs, rng).astype(np.float64)
    for own, parents in counts:
        noisy = own + noise(z, runs, rng)
        others = parents - own + noise(z, runs, rng, many=siblings - 1)
        raked *= noisy / (noisy + others)
    return np.asarray(raked - counts[-1][0])
