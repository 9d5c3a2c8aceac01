r"""The general path: a primal-dual interior-point method that knows the shape of a nest.

For what the fast path (``fista``) cannot certify. Write every measured or bounded row of a child as :math:`g_r' x_c`,
with a multiplier :math:`\lambda_{cr}`, and let :math:`\theta_s` be the multiplier of a column (the children sum to the
parent in cell s). A Newton step of Mehrotra's method [1]_ then solves

.. math::

    D\,\Delta x + G'\Delta\lambda + \Delta\theta = f_1, \qquad
    G\,\Delta x - E\,\Delta\lambda = f_2, \qquad \textstyle\sum_c \Delta x_c = f_3,

where D and E are diagonal. D is the weight of the measured cells plus the barrier of x >= 0; E is 1/weight for a
measured row, the inverse of the slack's barrier for a bounded one, and almost zero for an exact one. First x is
eliminated, entry by entry; then the rows of each child, with a small dense matrix
:math:`S_c = E_c + G D_c^{-1} G'`. What remains is one matrix with the size of the columns, to which each child adds its
part. The work is linear in the number of children.

Dependent rows need no special care: small proximal terms in D, and in E for exact rows, keep every matrix regular. They
are centred at the current point, so they do not move the solution [2]_. The unknowns are d = x - base, where base is
integer, so residuals are exact even where counts are in the billions.

References
----------
.. [1] Mehrotra, On the implementation of a primal-dual interior point method, SIAM Journal on Optimization 2, 1992.
.. [2] Schwan, Jiang, Kuhn & Jones, PIQP: a proximal interior-point quadratic programming solver, CDC 2023.
"""

from __future__ import annotations

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.blocks import Blocks, Point
from tallyveil.engine.estimate.nest import Nest
from tallyveil.engine.estimate.newton import Elimination, Newton, Quick

STEPS = 80
_GAP, _VIOLATION = 1e-9, 1e-9  # a solve ends when both are reached: relative, and in persons
_IDLE = 8  # or after so many steps in which nothing is less than ever before


def interior(
    blocks: Blocks, near: Floats, *, steps: int = STEPS, apart: float = 1.0, elimination: type[Elimination] = Quick
) -> Point:
    """Solve a nest, beginning near a table and ``apart`` from its bounds (``Nest.start``); the best point met."""
    nest = Nest(blocks, near)
    point = nest.start(near, apart)
    best, least, marks, since = point, np.inf, np.full(4, np.inf), 0
    for _ in range(steps):
        wrong = nest.residuals(point)
        merit = max(wrong.gap / _GAP, wrong.violation / _VIOLATION)
        if merit < least:
            best, least = point, merit
        pairs = wrong.complementarity if wrong.share * wrong.gap > 1e-3 * _GAP else np.inf  # or it falls for ever
        now = np.array([merit, wrong.violation, np.abs(wrong.stationary).max(), pairs])
        since = 0 if (now < marks).any() else since + 1
        marks = np.fmin(marks, now)
        if merit <= 1.0 or not np.isfinite(merit) or since > _IDLE:
            break
        try:
            newton = Newton(nest, point, elimination)
        except np.linalg.LinAlgError:
            break
        towards = newton.step(wrong, 0.0, None)
        reached = nest.complementarity(point.moved(towards, nest.longest(point, towards)))
        centring = (reached / wrong.complementarity) ** 3 * wrong.complementarity / nest.pairs
        towards = newton.step(wrong, centring, towards)
        point = point.moved(towards, 0.995 * nest.longest(point, towards))
    return Point(base=nest.base, d=best.d, rows=best.rows.dual * nest.unit, shared=best.shared.dual * nest.unit)
