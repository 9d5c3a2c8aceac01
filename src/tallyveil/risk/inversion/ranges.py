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

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, eye_array

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.nouns.histogram import Histogram
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Invariant, StructuralZero
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.inversion.nests import Nest, nests, possible_cells

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

    >>> from tallyveil import Schema, Spine
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
    strategy = calibrated(strategy, spine=release.spine, schema=release.schema)
    _check_kind(strategy)
    possible = possible_cells(release.schema, strategy)
    rows: list[dict[str, object]] = []
    for nest in nests(release, strategy, possible):
        near = {"": _ranges(nest, 1 + SLACK), "unrounded_": _ranges(nest, 0.0)}
        for i, place in enumerate(nest.places):
            row: dict[str, object] = dict(zip(("level", "unit", "query", "cell"), place, strict=True))
            for number, prefix in enumerate(("", "sibling_")):
                for rounded, ranges in near.items():
                    row |= _columns(prefix + rounded, ranges[number][i], whole=not rounded)
            rows.append(row)
    return pd.DataFrame(rows)


def _ranges(nest: Nest, near: float) -> tuple[list[_Range | None], list[_Range | None]]:
    """Ranges of the measurements, and of their differences to the next sibling's, for estimates this near."""
    cells, sums, count = len(nest.released), nest.given.shape[0], len(nest.places)
    at_zero = np.flatnonzero(nest.released == 0)
    below = eye_array(cells, format="csr")[:, at_zero]  # the multipliers of cells at 0
    optimal = [-nest.weighted, nest.squared, -below, -nest.given.T]
    kept = [None, nest.given, None, None]
    blocks = [optimal, kept] if sums else [optimal[:3]]
    right = np.concatenate([np.zeros(cells), nest.given @ nest.released])
    bounds = [
        *[(None, None)] * count,
        *((max(0.0, value - near), value + near) for value in nest.released),
        *[(0, None)] * len(at_zero),
        *[(None, None)] * sums,
    ]
    matrix = block_array(_filled(blocks, (count, cells, len(at_zero), sums)), format="csr")

    def range_of(*signed: tuple[int, int]) -> _Range:
        goal = np.zeros(matrix.shape[1])
        for i, sign in signed:
            goal[i] = sign
        return _end(goal, matrix, right, bounds), -_end(-goal, matrix, right, bounds)

    pairs = enumerate(nest.siblings())
    return (
        [range_of((i, 1)) for i in range(count)],
        [None if other is None else range_of((i, 1), (other, -1)) for i, other in pairs],
    )


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


def _check_kind(strategy: Strategy) -> None:
    """Refuse what the conditions above do not cover."""
    if any(len(passes) > 1 for passes in strategy.passes.values()):
        raise InputError("a strategy with several passes is estimated in steps, which exact ranges do not cover.")
    if strategy.informed_levels:
        raise InputError(
            f'estimator = "tree" estimates {" and ".join(strategy.informed_levels)} from the levels below, too, which '
            f"exact ranges do not cover. Use the shares of cells at a bound."
        )
    other = [c for c in strategy.constraints if not isinstance(c, Invariant | StructuralZero)]
    if other:
        raise InputError(
            f"exact ranges cover invariants and structural zeros, and not this constraint: {other[0].words()}. "
            f"Use the shares of cells at a bound."
        )
