r"""Which measurements a release determines, bounds or hides: exactly, on small trees (kazan2022, section 6).

The paper notes that post-processing is either invertible, and then the risk is that of the measurements, or not.
TopDown estimates the children of a parent as the point x that is nearest to the measurements y in weighted least
squares, with x >= 0 and sums that are given. It is optimal if there are multipliers with

.. math:: \sum_q w_q A_q^T (A_q x - y_q) = \mu + C^T \lambda, \qquad \mu \ge 0, \quad \mu_i x_i = 0

where C are the sums that are given: the parent's counts, and exact counts. So a cell above 0 gives an equation, a cell
at 0 only an inequality, and the multiplier of a sum hides what is common to all its cells. For given active constraints
all this is linear in (y, mu, lambda), and the smallest and largest value of each measurement are two linear programs.

The released counts are not x but rounded: each is a floor or a ceiling. So x is an unknown within one person of them
(and ``SLACK`` more, since estimates are proven to be within 0.05 persons of the optimum). A released 0 may be an x of 0
with a multiplier, or an x below 1 without; both are allowed together. Ranges are therefore outer bounds: the true
measurement is never outside, and may be known better than they say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, csr_array, eye_array

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.privacy.constraints import Invariant, StructuralZero
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy

MOST = 2_000  # measurements; each takes eight linear programs
SLACK = 0.05  # persons between an estimate and the optimum (engine.estimate.problem.DISTANCE)
SAME = 1e-6  # a range narrower than this is a point
_Range = tuple[float, float]
DETERMINED, BOUNDED, HIDDEN = "determined", "bounded", "hidden"


def measurement_ranges(release: Histogram, strategy: Strategy) -> pd.DataFrame:
    """The smallest and largest value of every measurement that could have led to this release.

    Returns
    -------
    DataFrame
        A row for each measurement: ``level``, ``unit``, ``query``, ``cell``, ``low``, ``high`` and ``status``, and the
        same three with the prefix ``unrounded_``, if the released counts were the estimates before rounding. Ends are
        infinite where there is none. ``determined`` means that one whole number is left, ``hidden`` that any is. Below
        the root, the parent's counts hide every single measurement, so the same six columns with the prefix
        ``sibling_`` are about its difference to that of the next sibling (missing where there is none).

    >>> from tallyveil import Spine
    >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> people = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[3, 8, 2])
    >>> plan = Strategy(mechanism="gaussian", budget=1, levels={"town": "1/2", "block": "1/2"}, attributes=("age",),
    ...                 queries={"town": {"detailed": 1}, "block": {"detailed": 1}}, neighbours="add-or-remove")
    >>> found = measurement_ranges(people, plan)
    >>> found[["level", "unit", "cell", "status", "unrounded_status"]].values.tolist()[1:4]
    [['town', 'town', 'adult', 'bounded', 'determined'], ['block', '1', 'child', 'hidden', 'hidden'], \
['block', '1', 'adult', 'hidden', 'hidden']]
    """
    strategy.check(release.spine, release.schema)
    _check_kind(strategy)
    possible = possible_cells(release.schema, strategy)
    rows: list[dict[str, object]] = []
    for nest in _nests(release, strategy, possible):
        near = {"": nest.ranges(1 + SLACK), "unrounded_": nest.ranges(0.0)}
        for i, place in enumerate(nest.places):
            row: dict[str, object] = dict(zip(("level", "unit", "query", "cell"), place, strict=True))
            for number, prefix in enumerate(("", "sibling_")):
                for rounded, ranges in near.items():
                    row |= _columns(prefix + rounded, ranges[number][i], whole=not rounded)
            rows.append(row)
    return pd.DataFrame(rows)


def _columns(prefix: str, found: _Range | None, *, whole: bool) -> dict[str, object]:
    """A range and its status; a range of whole numbers is tightened."""
    if found is None:
        return {f"{prefix}low": math.nan, f"{prefix}high": math.nan, f"{prefix}status": None}
    low, high = (_up(found[0]), _down(found[1])) if whole else found
    return {f"{prefix}low": low, f"{prefix}high": high, f"{prefix}status": _status(low, high)}


def _status(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return HIDDEN
    return DETERMINED if high - low < SAME else BOUNDED


def _up(low: float) -> float:
    return low if math.isinf(low) else float(math.ceil(low - SAME))


def _down(high: float) -> float:
    return high if math.isinf(high) else float(math.floor(high + SAME))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Nest:
    """The children of one parent (or the root alone): measurements, cells, and the sums that are given.

    Attributes
    ----------
    places
        Level, unit, query and cell of each measurement.
    released
        The released count of each cell, child after child.
    weighted
        The transpose of the queries' matrices times their weights (cells x measurements).
    squared
        That times the queries' matrices (cells x cells).
    given
        The sums that are given (sums x cells).
    """

    places: list[tuple[str, str, str, str]]
    released: Floats
    weighted: csr_array
    squared: csr_array
    given: csr_array

    def ranges(self, near: float) -> tuple[list[_Range | None], list[_Range | None]]:
        """Ranges of the measurements, and of their differences to the next sibling's, for estimates this near."""
        cells, sums, count = len(self.released), self.given.shape[0], len(self.places)
        at_zero = np.flatnonzero(self.released == 0)
        below = eye_array(cells, format="csr")[:, at_zero]  # the multipliers of cells at 0
        optimal = [-self.weighted, self.squared, -below, -self.given.T]
        kept = [None, self.given, None, None]
        blocks = [optimal, kept] if sums else [optimal[:3]]
        right = np.concatenate([np.zeros(cells), self.given @ self.released])
        bounds = [
            *[(None, None)] * count,
            *((max(0.0, value - near), value + near) for value in self.released),
            *[(0, None)] * len(at_zero),
            *[(None, None)] * sums,
        ]
        matrix = block_array(_filled(blocks, (count, cells, len(at_zero), sums)), format="csr")

        def range_of(*signed: tuple[int, int]) -> _Range:
            goal = np.zeros(matrix.shape[1])
            for i, sign in signed:
                goal[i] = sign
            return _end(goal, matrix, right, bounds), -_end(-goal, matrix, right, bounds)

        pairs = enumerate(self._siblings())
        return (
            [range_of((i, 1)) for i in range(count)],
            [None if other is None else range_of((i, 1), (other, -1)) for i, other in pairs],
        )

    def _siblings(self) -> list[int | None]:
        """For each measurement, the same one of the next sibling, the first one following the last."""
        same: dict[tuple[str, str], list[int]] = {}
        for i, (_, _, query, cell) in enumerate(self.places):
            same.setdefault((query, cell), []).append(i)
        following = {i: each[(n + 1) % len(each)] for each in same.values() for n, i in enumerate(each)}
        return [None if following[i] == i else following[i] for i in range(len(self.places))]


def _filled(blocks: list[list[csr_array | None]], widths: tuple[int, ...]) -> list[list[csr_array]]:
    """The blocks with empty ones in place of None."""
    return [
        [
            csr_array((next(b.shape[0] for b in row if b is not None), width)) if block is None else block
            for block, width in zip(row, widths, strict=False)
        ]
        for row in blocks
    ]


def _end(goal: Floats, matrix: csr_array, right: Floats, bounds: list[tuple[float | None, float | None]]) -> float:
    """The smallest value of the goal; minus infinity if there is none."""
    found = linprog(goal, A_eq=matrix, b_eq=right, bounds=bounds, method="highs")
    if found.status in (3, 4):  # unbounded; HiGHS may not tell it from infeasible, which the released counts exclude
        return -math.inf
    if found.status != 0:
        raise InputError(f"these counts are not a release of this strategy ({found.message}) Check the strategy.")
    return float(found.fun)


def _nests(release: Histogram, strategy: Strategy, possible: Bools) -> Iterator[_Nest]:
    """The root, and then the children of each parent that has several and is not empty."""
    spine, shares = release.spine, unit_shares(strategy, release.spine)
    size = sum(
        release.schema.query(query).size * int((shares[level].spans > 0).sum())
        for level in spine.levels
        for query in strategy.queries[level]
    )
    if size > MOST:
        raise InputError(f"{size:,} measurements are too many for exact ranges; {MOST:,} are the most. Use the shares.")
    for depth, level in enumerate(spine.levels):
        tables = release.at(level).dense()
        if depth == 0:
            yield _nest(release, strategy, level, np.array([0]), tables, possible, None)
            continue
        above = release.at(spine.levels[depth - 1]).dense()
        first = spine.first_child[depth - 1]
        for parent in range(len(above)):
            children = np.arange(first[parent], first[parent + 1])
            yield _nest(release, strategy, level, children, tables, possible, above[parent])


def _nest(
    release: Histogram,
    strategy: Strategy,
    level: str,
    children: Integers,
    tables: Integers,
    possible: Bools,
    parent: Integers | None,
) -> _Nest:
    """One nest; cells that are impossible or empty in the parent are not estimated, and have no equation."""
    schema, codes = release.schema, release.spine.labels(level)
    used = np.flatnonzero(possible if parent is None else possible & (parent > 0))
    k, m = len(children), len(used)
    share = unit_shares(strategy, release.spine)[level]
    places: list[tuple[str, str, str, str]] = []
    cells: list[Integers] = []
    weights: list[float] = []
    for number, child in enumerate(children):
        if not share.of(int(child)):
            continue
        for query in strategy.queries[level]:
            asked = schema.query(query)
            weight = 1 / strategy.noise(level, query, level_share=share.of(int(child))).actual_variance()
            for row, label in enumerate(asked.labels()):
                places.append((level, codes[child], query, label))
                cells.append(number * m + np.flatnonzero(asked.row_of_cell[used] == row))
                weights.append(weight)
    ask = _rows(cells, k * m)
    weighted = csr_array(ask.T * np.array(weights))
    return _Nest(
        places=places,
        released=tables[children][:, used].astype(np.float64).ravel(),
        weighted=weighted,
        squared=csr_array(weighted @ ask),
        given=_rows(list(_given(strategy, schema, level, used, k, parent)), k * m),
    )


def _given(
    strategy: Strategy, schema: Schema, level: str, used: Integers, k: int, parent: Integers | None
) -> Iterator[Integers]:
    """The cells of each sum that is given: the parent's counts, and the exact counts of this level or of one below."""
    m, levels = len(used), list(strategy.levels)
    exact = {c.query for c in strategy.constraints if isinstance(c, Invariant) and level in _at_or_above(levels, c)}
    if parent is not None:
        yield from (np.arange(k) * m + i for i in range(m))
    elif strategy.neighbours == "replace-one":
        exact.add(TOTAL)
    for query in sorted(exact):
        row_of_cell = schema.query(query).row_of_cell[used]
        for row in np.unique(row_of_cell):
            for number in range(k):
                yield number * m + np.flatnonzero(row_of_cell == row)


def _at_or_above(levels: list[str], constraint: Invariant) -> list[str]:
    return levels[: levels.index(constraint.level) + 1]


def _rows(cells: list[Integers], width: int) -> csr_array:
    """A matrix of 0 and 1, one row for each set of cells."""
    row = np.repeat(np.arange(len(cells)), [len(each) for each in cells])
    column = np.concatenate(cells) if cells else np.zeros(0, dtype=np.int64)
    return csr_array(coo_array((np.ones(len(row)), (row, column)), shape=(len(cells), width)))


def possible_cells(schema: Schema, strategy: Strategy) -> Bools:
    """The cells that neither the schema nor the strategy rules out."""
    zeros = [zero.cells for zero in strategy.constraints if isinstance(zero, StructuralZero)]
    return Schema(attributes=schema.attributes, groupings=schema.groupings, zeros=[*schema.zeros, *zeros]).possible


def _check_kind(strategy: Strategy) -> None:
    """Refuse what the conditions above do not cover."""
    if any(len(passes) > 1 for passes in strategy.passes.values()):
        raise InputError("a strategy with several passes is estimated in steps, which exact ranges do not cover.")
    other = [c for c in strategy.constraints if not isinstance(c, Invariant | StructuralZero)]
    if other:
        raise InputError(
            f"exact ranges cover invariants and structural zeros, and not this constraint: {other[0].words()}. "
            f"Use the shares of cells at a bound."
        )
