r"""The elimination of a Newton step with 32 digits: for problems on which 16 do not suffice.

Where cells are not measured, nothing but the barrier z/x curves many directions. Its inverse stands in
:math:`S_c = E_c + G D_c^{-1} G'` beside the E of dependent rows, which may be 10^20 times smaller and decides how these
rows share a multiplier. In double precision that is lost, and refinement cannot bring it back. Here each number is
the unevaluated sum of two doubles [1]_, which is stored in a last axis of two.

References
----------
.. [1] Dekker, A floating-point technique for extending the available precision, Numerische Mathematik 18, 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallyveil._arrays import Floats
from tallyveil._compiled import compiled

if TYPE_CHECKING:
    from tallyveil.engine.estimate.nest import Nest, Place

_STIFF = 1e-28  # of the largest 1/D: the proximal term in E


class Twofold:
    """Entries, then the rows of each child, then columns and shared rows: eliminated in twofold precision."""

    proximal = 1e-13

    def __init__(self, nest: Nest, diagonal: Floats, at: Place) -> None:
        least = _STIFF * float(1.0 / diagonal[nest.open].min(initial=np.inf))
        cell, row = np.nonzero(nest.member.T)
        start = np.searchsorted(cell, np.arange(nest.member.shape[1] + 1))
        self.shape = (start, row, nest.open, diagonal, nest.count is not None, nest.children > 0, nest.cells > 0)
        self.factors = _factors(
            *self.shape, nest.rows.elasticity(at.rows, least), nest.shared.elasticity(at.shared, least), least
        )
        if not np.isfinite(self.factors[1]).all():
            raise np.linalg.LinAlgError("the matrix of the columns is singular")

    def solved(self, f1: Floats, f2: Floats, f3: Floats, f4: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Dx and the multipliers of the rows, columns and shared rows."""
        columns = self.shape[4]
        x, dual, border = _solved(*self.shape, *self.factors, f1, f2, np.concatenate([f3[: len(f3) * columns], f4]))
        first = len(f3) * columns
        return x, dual, border[:first] if columns else np.zeros(len(f3)), border[first:]


@compiled
def _add(a, b, c, d):  # type: ignore[no-untyped-def]
    """(a + b) + (c + d)."""
    high = a + c
    part = high - a
    low = (a - (high - part)) + (c - part)
    small = b + d
    part = small - b
    rest = (b - (small - part)) + (d - part)
    low += small
    total = high + low
    low = low - (total - high) + rest
    high = total + low
    return high, low - (high - total)


@compiled
def _times(a, b, c, d):  # type: ignore[no-untyped-def]
    """(a + b) (c + d), by the exact product of two doubles that are split in halves."""
    high = a * c
    big = 134217729.0 * a
    a1 = big - (big - a)
    big = 134217729.0 * c
    c1 = big - (big - c)
    a2, c2 = a - a1, c - c1
    low = ((a1 * c1 - high) + a1 * c2 + a2 * c1) + a2 * c2 + (a * d + b * c)
    total = high + low
    return total, low - (total - high)


@compiled
def _over(a, b, c, d):  # type: ignore[no-untyped-def]
    """(a + b) / (c + d), by long division."""
    first = a / c
    p, q = _times(c, d, first, 0.0)
    a, b = _add(a, b, -p, -q)
    second = a / c
    p, q = _times(c, d, second, 0.0)
    a, b = _add(a, b, -p, -q)
    high, low = _add(first, 0.0, second, 0.0)
    return _add(high, low, a / c, 0.0)


@compiled
def _plus(to, by):  # type: ignore[no-untyped-def]
    to[0], to[1] = _add(to[0], to[1], by[0], by[1])


@compiled
def _less(to, by, times):  # type: ignore[no-untyped-def]
    """``to`` -= ``by`` * ``times``."""
    p, q = _times(by[0], by[1], times[0], times[1])
    to[0], to[1] = _add(to[0], to[1], -p, -q)


@compiled
def _factor(a):  # type: ignore[no-untyped-def]
    """The first columns of L D L' in place (L below the diagonal, D on it) of a matrix with more rows than columns."""
    scale = np.empty(2)
    column = np.empty((a.shape[0], 2))
    for j in range(a.shape[1]):
        column[j:] = a[j:, j]
        for i in range(j + 1, a.shape[0]):
            if a[i, j, 0] != 0.0:
                scale[0], scale[1] = _over(a[i, j, 0], a[i, j, 1], a[j, j, 0], a[j, j, 1])
                a[i, j] = scale
                for k in range(j + 1, min(i + 1, a.shape[1])):
                    _less(a[i, k], scale, column[k])


@compiled
def _solve(a, y):  # type: ignore[no-untyped-def]
    """Solve L D L' y = y in place."""
    size = len(y)
    for i in range(size):
        for j in range(i):
            _less(y[i], a[i, j], y[j])
    for i in range(size):
        y[i, 0], y[i, 1] = _over(y[i, 0], y[i, 1], a[i, i, 0], a[i, i, 1])
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            _less(y[i], a[j, i], y[j])


@compiled
def _touched(s, c, start, row, columns, children, cells, rows, into):  # type: ignore[no-untyped-def]
    """The rows that an entry is in: of its child, then its column and the shared rows; and how many."""
    count = 0
    for i in range(start[s], start[s + 1]):
        into[count] = row[i]
        count += 1
    if columns:
        into[count] = rows + s
        count += 1
    for k in range(len(children)):
        if children[k, c] and cells[k, s]:
            into[count] = rows + columns * cells.shape[1] + k
            count += 1
    return count


@compiled
def _factors(  # type: ignore[no-untyped-def]
    start, row, open_, diagonal, columns, children, cells, give, shared_give, least
):
    """L D L' of each child's S = E + G D^-1 G', and of the matrix that remains for columns and shared rows."""
    (n, m), rows, border = open_.shape, give.shape[1], columns * open_.shape[1] + len(children)
    each, rest = np.zeros((n, rows, rows, 2)), np.zeros((border, border, 2))
    touched, inverse, scaled = np.empty(rows + 1 + len(children), np.int64), np.empty(2), np.empty(2)
    for k in range(border):
        rest[k, k, 0] = least if k < border - len(children) else shared_give[k - border + len(children)]
    for c in range(n):
        own = np.zeros((rows + border, rows, 2))
        for r in range(rows):
            own[r, r, 0] = give[c, r]
        for s in range(m):
            if open_[c, s]:
                inverse[0], inverse[1] = _over(1.0, 0.0, diagonal[c, s], 0.0)
                count = _touched(s, c, start, row, columns, children, cells, rows, touched)
                for i in range(count):
                    for j in range(i + 1):
                        if touched[j] < rows:
                            _plus(own[touched[i], touched[j]], inverse)
                        else:
                            _plus(rest[touched[i] - rows, touched[j] - rows], inverse)
        _factor(own)
        each[c] = own[:rows]
        for r in range(rows):
            for i in range(border):
                if own[rows + i, r, 0] != 0.0:
                    scaled[0], scaled[1] = _times(own[rows + i, r, 0], own[rows + i, r, 1], own[r, r, 0], own[r, r, 1])
                    for k in range(i + 1):
                        if own[rows + k, r, 0] != 0.0:
                            _less(rest[i, k], scaled, own[rows + k, r])
    _factor(rest)
    return each, rest


@compiled
def _solved(  # type: ignore[no-untyped-def]
    start, row, open_, diagonal, columns, children, cells, each, rest, f1, f2, f3
):
    """First what the children say of columns and shared rows, then these, then all unknowns of the children."""
    (n, m), rows = open_.shape, f2.shape[1]
    x, dual, border = np.zeros((n, m)), np.zeros((n, rows)), np.zeros((len(f3), 2))
    touched, one = np.empty(rows + 1 + len(children), np.int64), np.array([1.0, 0.0])
    entry, y, pulled = np.empty(2), np.empty((rows, 2)), np.empty((m, 2))
    border[:, 0] = -f3
    for last in range(2):
        for c in range(n):
            y[:, 0], y[:, 1] = -f2[c], 0.0
            for s in range(m):
                pulled[s, 0], pulled[s, 1] = f1[c, s], 0.0
                if open_[c, s]:
                    count = _touched(s, c, start, row, columns, children, cells, rows, touched)
                    for i in range(count):
                        if last and touched[i] >= rows:
                            _less(pulled[s], border[touched[i] - rows], one)
                    entry[0], entry[1] = _over(pulled[s, 0], pulled[s, 1], diagonal[c, s], 0.0)
                    for i in range(count):
                        if touched[i] < rows:
                            _plus(y[touched[i]], entry)
            _solve(each[c], y)
            dual[c] = y[:, 0]
            for s in range(m):
                if open_[c, s]:
                    count = _touched(s, c, start, row, columns, children, cells, rows, touched)
                    for i in range(count):
                        if touched[i] < rows:
                            _less(pulled[s], y[touched[i]], one)
                    entry[0], entry[1] = _over(pulled[s, 0], pulled[s, 1], diagonal[c, s], 0.0)
                    x[c, s] = entry[0]
                    for i in range(count):
                        if not last and touched[i] >= rows:
                            _plus(border[touched[i] - rows], entry)
        if not last:
            _solve(rest, border)
    return x, dual, border[:, 0].copy()
