"""Sums and products of exponentials in log space: fast where floats suffice, and exact where they underflow."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tallyveil._arrays import Floats

_CELLS = 1 << 21  # cells of an array that are held at a time
_BLOCK = 1 << 13  # longer inner products are spread over threads, which costs more than it saves
_SMALL = 1e-120  # sums of scaled terms below this are computed from logarithms


def log_product(a: Floats, b: Floats) -> Floats:
    """log(exp(a) @ exp(b)): a product of scaled matrices, or term by term where that is too small for a float.

    Few products are too small, because b is first divided by its middle column and a is multiplied by it, and columns
    are scaled to be near 1 where the middle row of a is largest.
    """
    middle = b[:, b.shape[1] // 2]
    a, b = a + middle, np.where(np.isneginf(middle)[:, None], b, b - _top(middle)[:, None])
    rows, most = _top(a.max(axis=1, keepdims=True)), a[len(a) // 2].argmax()
    columns = _top(np.maximum(b[most], b.max(axis=0) - 20)[None])
    scaled = _exp(a - rows) @ _exp(b - columns)
    small = scaled < _SMALL
    sums: Floats = np.log(np.where(small, 1.0, scaled)) + rows + columns
    i, j = np.nonzero(small)
    step = max(1, _CELLS // a.shape[1])
    for start in range(0, len(i), step):
        some = slice(start, start + step)
        sums[i[some], j[some]] = _log_sum(a[i[some]] + b[:, j[some]].T)
    return sums


def log_correlation(kernel: Floats, base: Floats) -> Floats:
    """Log V(x) from the kernel and the base of its terms, computed in the same way."""
    tops, rows = (_top(kernel.max()), _top(base.max())), len(kernel) - len(base) + 1
    one, two = _exp(kernel - tops[0]), _exp(base - tops[1])
    scaled = np.zeros(rows)
    for start in range(0, len(base), _BLOCK):
        block = two[start : start + _BLOCK]
        scaled += np.correlate(one[start : start + len(block) + rows - 1], block, mode="valid")[::-1]
    small = scaled < _SMALL
    sums: Floats = np.log(np.where(small, 1.0, scaled)) + sum(tops)
    windows, few = sliding_window_view(kernel, len(base))[::-1], np.flatnonzero(small)
    step = max(1, _CELLS // len(base))
    for start in range(0, len(few), step):
        some = few[start : start + step]
        sums[some] = _log_sum(windows[some] + base)
    return sums


def _exp(logs: Floats) -> Floats:
    """Exponentials, with 0 for terms that are negligible in any sum above ``_SMALL``: denormal products are slow."""
    return np.where(logs > -345, np.exp(logs), 0.0)


def _log_sum(rows: Floats) -> Floats:
    top = _top(rows.max(axis=1))
    with np.errstate(divide="ignore"):
        sums: Floats = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    return sums


def _top(logs: Floats) -> Floats:
    """The scale of logarithms: the largest, or 0 if it is minus infinity."""
    return np.where(np.isneginf(logs), 0.0, logs)
