r"""Exact sampling: noise that follows the integer distribution itself, as fast as the stream is generated.

The first word of a draw holds a sign and 63 bits of a uniform number U. The magnitude is the smallest m with
U < P[M <= m]. A table of thresholds determines it for all words except those equal to a threshold, about one in
2^63 / size. These need more bits of U and more digits of the threshold, as many as it takes.

If a table would be too large, the magnitude is ``b h + l``: h comes from a table of the same law on a grid of steps
b = 2^k, l is uniform below b, and the draw is accepted with probability f(b h + l) / f(b h) = exp(-gamma). This
rejection step is exact, and gamma is so small that nearly all draws are accepted.

A draw is a function of its words alone. :func:`draw_one` is that function, written in exact arithmetic to be readable.
The kernels give the same result for all words that need no more bits, and leave the others to it. docs/exactness.md
has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numba import int64, uint64
from numpy.typing import ArrayLike

from tallyveil._arrays import Integers
from tallyveil._compiled import compiled
from tallyveil.errors import InputError
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.stream_words import Stream, Words
from tallyveil.privacy.thresholds import (
    BITS,
    GUIDE,
    HalfGaussian,
    HalfGeometric,
    HalfLaw,
    Table,
    entries_needed,
    exp_floor,
    table,
)

LARGEST_TABLE = 1 << 15
_CHUNK = 1 << 14
_SIGN = 1 << BITS
_UNSETTLED = np.iinfo(np.int64).min
_MARGIN = 2.0**-44  # far above the rounding error of the compiled exp(-gamma), which is below 2^-49


def draw(
    noise: Geometric | DiscreteGaussian,
    stream: Stream,
    index: ArrayLike,
    *,
    level: int = 0,
    query: int = 0,
    replicate: int | range = 0,
) -> Integers:
    """Draw noise at some places. ``index`` is ``unit * cells + cell``, for any subset in any order.

    A range of replicates gives one row per replicate.
    """
    index = np.asarray(index)
    places = np.ascontiguousarray(index, dtype=np.int64)
    if (index.size and index.dtype.kind not in "iu") or index.ndim != 1 or (places < 0).any():
        raise InputError("the index of a draw is unit * cells + cell, 0 or more, in one dimension, and whole.")
    replicates = range(replicate, replicate + 1) if isinstance(replicate, int) else replicate
    how, out = sampler(noise), np.empty((len(replicates), len(places)), dtype=np.int64)
    together = max(1, _CHUNK // max(1, len(places)))  # replicates in a chunk
    for row in range(0, len(replicates), together):
        numbers = np.array(replicates[row : row + together], dtype=np.int64)
        for column in range(0, len(places), _CHUNK):
            part = places[column : column + _CHUNK]
            chunk = _draw_chunk(
                how,
                stream,
                index=np.tile(part, len(numbers)),
                replicate=np.repeat(numbers, len(part)),
                level=level,
                query=query,
            )
            out[row : row + together, column : column + _CHUNK] = chunk.reshape(len(numbers), -1)
    return out[0] if isinstance(replicate, int) else out


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Sampler:
    """How to draw a noise: a half law on a grid of steps 2^shift, its table, and the acceptance probability.

    With ``shift`` 0 the half law has two sides and is the law of the magnitude. Otherwise it has one side, and a draw
    is accepted with probability exp(-gamma), where gamma = slope l + curve l (2 b h + l).
    """

    law: HalfLaw
    table: Table
    shift: int = 0
    slope: Fraction = Fraction(0)
    curve: Fraction = Fraction(0)


@lru_cache(maxsize=256)
def sampler(noise: Geometric | DiscreteGaussian) -> Sampler:
    """Return the sampler of a noise."""
    if isinstance(noise, Geometric):
        law: HalfLaw = HalfGeometric(sides=2, z=noise.z)
    else:
        law = HalfGaussian(sides=2, s=noise.variance)
    if (entries := entries_needed(law)) <= LARGEST_TABLE:
        return Sampler(law=law, table=table(law))
    if entries > 1e14:
        raise InputError(f"{noise} is too wide to draw (standard deviation above 10^12). Use a larger budget.")
    if isinstance(noise, Geometric):
        shift = (int(1 / noise.z) >> 8).bit_length() - 1  # steps of 1/512 to 1/256 of the scale 1/z
        law = HalfGeometric(sides=1, z=noise.z * (1 << shift))
        return Sampler(law=law, table=table(law), shift=shift, slope=noise.z)
    shift = ((int(noise.variance) >> 16).bit_length() - 1) // 2  # steps of 1/512 to 1/256 of the standard deviation
    law = HalfGaussian(sides=1, s=noise.variance / (1 << 2 * shift))
    return Sampler(law=law, table=table(law), shift=shift, curve=1 / (2 * noise.variance))


def draw_one(how: Sampler, words: Iterator[int]) -> int:
    """Return one draw from its words, in exact arithmetic. This defines every draw."""
    while True:
        first = next(words)
        negative, uniform = bool(first & _SIGN), _Uniform(first & (_SIGN - 1), BITS, words)
        m = _smallest_above(uniform, how)
        if how.shift == 0:
            return -m if negative else m
        low = next(words) & ((1 << how.shift) - 1)
        keep = _Uniform(next(words), 64, words)
        gamma = how.slope * low + how.curve * low * ((m << how.shift + 1) + low)
        magnitude = (m << how.shift) + low
        if keep.is_below(lambda bits, gamma=gamma: exp_floor(gamma, bits)) and not (negative and magnitude == 0):  # type: ignore[misc]
            return -magnitude if negative else magnitude


def _smallest_above(uniform: _Uniform, how: Sampler) -> int:
    """Return the smallest m with U < P[M <= m], by doubling steps from a certain lower bound, then bisection."""

    def is_above(m: int) -> bool:
        return uniform.is_below(lambda bits: how.law.floor_of(m, bits))

    low = int(np.searchsorted(how.table.thresholds, np.uint64(uniform.value))) - 1  # U is not below its threshold
    step = 1
    while not is_above(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high


class _Uniform:
    """A uniform number in [0, 1) of which more bits are read when a comparison needs them."""

    def __init__(self, value: int, bits: int, words: Iterator[int]) -> None:
        self.value, self.bits, self._words = value, bits, words

    def is_below(self, floor: Callable[[int], int]) -> bool:
        """Whether it is less than the number whose first ``bits`` bits are ``floor(bits)``."""
        while self.value == (known := floor(self.bits)):
            self.value = self.value << 64 | next(self._words)
            self.bits += 64
        return self.value < known


def _draw_chunk(
    how: Sampler, stream: Stream, *, index: Integers, level: int, query: int, replicate: Integers
) -> Integers:
    tag = {"level": level, "query": query}
    words = stream.words(index, replicate=replicate, **tag)
    further = stream.further_words(index, replicate=replicate, **tag) if how.shift else None
    return settle(how, words, further, lambda i: stream.draw_words(int(index[i]), replicate=int(replicate[i]), **tag))


def settle(how: Sampler, words: Words, further: Words | None, all_words: Callable[[int], Iterator[int]]) -> Integers:
    """Return draws from their words: by kernels if these suffice, else draw ``i`` exactly from ``all_words(i)``."""
    out = np.empty(len(words), dtype=np.int64)
    if further is None:
        unsettled = _by_table(words, how.table.thresholds, how.table.guide, out)
    else:
        slope, curve = float(how.slope), float(how.curve)
        unsettled = _by_two_parts(words, further, how.table.thresholds, how.table.guide, how.shift, slope, curve, out)
    if unsettled:
        for i in np.flatnonzero(out == _UNSETTLED):
            out[i] = draw_one(how, all_words(int(i)))
    return out


@compiled
def _first_at_least(word, thresholds, guide):  # type: ignore[no-untyped-def]
    """Return the position of the first threshold that is not less than the word."""
    lead = word >> uint64(BITS - GUIDE)
    low, high = guide[lead], guide[lead + 1]
    while low < high:
        middle = (low + high) >> 1
        if thresholds[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _by_table(words, thresholds, guide, out):  # type: ignore[no-untyped-def]
    unsettled = 0
    for i in range(len(words)):
        word = words[i] & uint64(0x7FFFFFFFFFFFFFFF)
        m = _first_at_least(word, thresholds, guide)
        sign = -int64(words[i] >> uint64(63))
        value = (int64(m) ^ sign) - sign
        if thresholds[m] == word:
            value = _UNSETTLED
            unsettled += 1
        out[i] = value
    return unsettled


@compiled
def _by_two_parts(words, further, thresholds, guide, shift, slope, curve, out):  # type: ignore[no-untyped-def]
    """Make up to three attempts from nine words. A draw that they do not determine is unsettled."""
    unsettled = 0
    mask = (uint64(1) << uint64(shift)) - uint64(1)
    for i in range(len(words)):
        value = _UNSETTLED
        for attempt in range(3):
            first = words[i] if attempt == 0 else further[i, 3 * attempt - 1]
            word = first & uint64(0x7FFFFFFFFFFFFFFF)
            h = _first_at_least(word, thresholds, guide)
            if thresholds[h] == word:
                break
            low = int64(further[i, 3 * attempt] & mask)
            uniform = float(further[i, 3 * attempt + 1] >> uint64(11)) * 2.0**-53
            gamma = low * (slope + curve * ((int64(h) << int64(shift + 1)) + low))
            keep = _exp_of_minus(gamma)
            if abs(uniform - keep) < _MARGIN:
                break
            magnitude = (int64(h) << int64(shift)) + low
            negative = first >> uint64(63)
            if uniform < keep and not (negative and magnitude == 0):
                value = -magnitude if negative else magnitude
                break
        if value == _UNSETTLED:
            unsettled += 1
        out[i] = value
    return unsettled


@compiled
def _exp_of_minus(x):  # type: ignore[no-untyped-def]
    """exp(-x) for 0 <= x <= 1/16 by its series. It uses IEEE operations only; its error is provably below 2^-49."""
    total = 1.0
    for n in range(9, 0, -1):
        total = 1.0 - x / n * total
    return total
