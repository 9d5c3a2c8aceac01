"""The counts that may be released at each level above, and their probabilities: all of them, or some that are drawn.

Probabilities are given for each number b of unknown others who have the characteristics, since every true count above
is that much higher.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.privacy.noise import Noise
from tallyveil.risk.above.levels import AboveAndSiblings

Released = tuple[Integers, Floats]  # counts that may be released, and their probabilities given each b (a row)
LARGEST = 1 << 53  # true count above
WIDEST = 1 << 26  # noise
CUTS = 1e-12, 1e-9  # probability of released counts that is left out of each sum; the second is for long sums


@lru_cache(maxsize=256)
def reach(noise: Noise, cut: float) -> int:
    """The largest noise that is likely, which leaves out a total probability of ``cut``."""
    return int(-noise.quantile(cut / 2))


def likely(noise: Noise, counts: Integers, cut: float) -> Released:
    """The released counts that are likely for any of consecutive true counts, and their probabilities for each.

    A total probability of ``cut`` is left out.
    """
    most = reach(noise, cut)
    if most > WIDEST or abs(int(counts[-1])) > LARGEST:
        raise InputError(
            f"a count of {counts[-1]:,} with noise of up to {most:,} is beyond what can be summed. Use a count up to "
            f"{LARGEST:,} and a larger budget."
        )
    released = np.arange(counts[0] - most, counts[-1] + most + 1)
    eta = released - counts[:, None]
    return released, np.where(np.abs(eta) <= most, noise.pmf(eta), 0.0)


def all_released(
    ways: Sequence[tuple[Released, Released]], chances: Floats, cut: float
) -> Iterator[tuple[Floats, list[AboveAndSiblings]]]:
    """All sets of released counts with their probabilities and each b, except the least probable of total ``cut``."""
    if not ways:
        yield chances, []
        return
    (above, siblings), upper = ways[0], ways[1:]
    weights = above[1][:, :, None] * siblings[1][:, None, :]
    whole = np.tensordot(chances, weights, axes=1)
    order = np.sort(whole, axis=None)
    least = order[np.searchsorted(np.cumsum(order), cut)]
    for i, j in np.argwhere(whole >= least):
        for further, pairs in all_released(upper, chances, cut):
            yield weights[:, i, j] * further, [(int(above[0][i]), int(siblings[0][j])), *pairs]


def drawn(
    ways: Sequence[tuple[Released, Released]], chances: Floats, draws: int, seed: int
) -> Iterator[tuple[Floats, list[AboveAndSiblings]]]:
    """Random sets of released counts and b, with the weight of each b, which is 0 for all but one."""
    rng = np.random.default_rng(seed)
    counts = [[rng.choice(values, draws, p=mass[0] / mass[0].sum()) for values, mass in pair] for pair in ways]
    which = rng.choice(len(chances), draws, p=chances / chances.sum())
    whole = math.prod(float(mass[0].sum()) for pair in ways for _, mass in pair) * float(chances.sum())
    for n, i in enumerate(which.tolist()):
        weights = np.where(np.arange(len(chances)) == i, whole / draws, 0.0)
        yield weights, [(int(above[n]) + i, int(siblings[n])) for above, siblings in counts]
