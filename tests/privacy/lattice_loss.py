"""The delta of discrete Gaussians by direct convolution on the exact lattice of their losses: nothing is rounded.

A count with variance s that differs by one has the losses (2j + 1) / 2s. If the variances of all counts are fractions,
all losses are whole multiples of one number, so sums of losses are sums of whole numbers. Masses are added up one atom
at a time, without a transform; all are positive, so sums are precise. Nothing here uses the accounting of the library.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np


def exact_delta_of(counts: Counter[Fraction], epsilon: Fraction, *, tail: float = 60.0) -> float:
    """The hockey-stick divergence at exp(epsilon) of counts by variance, each with how often it differs.

    What is left out of each noise has a probability of about e^-tail.
    """
    halves = [1 / (2 * variance) for variance in counts]
    common = math.lcm(*(half.denominator for half in halves))
    unit = Fraction(math.gcd(*(int(half * common) for half in halves)), common)
    first, mass = 0, np.ones(1)
    for variance, times in counts.items():
        stride = int(1 / (2 * variance) / unit)
        reach = math.ceil(math.sqrt(2 * float(variance) * tail)) + 1
        j = np.arange(-reach, reach + 1)
        atoms = np.exp(-(j.astype(np.float64) ** 2) / (2 * float(variance)))
        atoms /= atoms.sum()
        for _ in range(times):
            grown = np.zeros(len(mass) + 4 * reach * stride)
            for place, atom in enumerate(atoms):
                start = 2 * place * stride
                grown[start : start + len(mass)] += atom * mass
            first += (1 - 2 * reach) * stride
            likely = np.flatnonzero(grown > math.exp(-tail))
            mass, first = grown[likely[0] : likely[-1] + 1], first + int(likely[0])
    above = np.arange(max(first, math.floor(epsilon / unit) + 1), first + len(mass))
    gap = above * float(unit) - float(epsilon)
    return float(np.sum(mass[above - first] * -np.expm1(-gap)))
