"""The general path: one nest written out, solved by methods that need no good conditioning, and judged by our bound.

The interior-point method of ``interior`` is started where the fast path stopped: first in double precision, then, if
its answer is not proved good enough, in twofold precision (``twofold``). Every answer is judged by ``proof``, and the
best one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.engine.estimate.blocks import Blocks, Point, blocks_of
from tallyveil.engine.estimate.interior import interior
from tallyveil.engine.estimate.one_thread import one_thread
from tallyveil.engine.estimate.proof import Found, judged
from tallyveil.engine.estimate.twofold import Twofold
from tallyveil.engine.nests import Limits, Nests

if TYPE_CHECKING:
    from tallyveil.engine.estimate.problem import Asked

_GOOD = 5e-7  # relative gap, and violation in persons, with which the search for a better answer ends


def solve_generally(
    nests: Nests, queries: Sequence[Asked], own: Asked, limits: Sequence[Limits], p: int, near: Floats
) -> Found:
    """Solve one nest, from the table where the fast path stopped.

    Each attempt starts from the best table so far, in which all residuals are small. An answer that is not certified is
    taken all the same: to end the run here would depend on the noise.
    """
    blocks = blocks_of(nests, queries, own, limits, p)
    best = Found(x=near, gap=np.inf, distance=np.inf, violation=np.inf)
    with one_thread(), np.errstate(all="ignore"):  # an attempt that overflows is judged like any other
        for attempt in _attempts():
            found = judged(blocks, attempt(blocks, best.x))
            if found.worst < best.worst:
                best = found
            if best.worst <= _GOOD:
                break
    return best


def _attempts() -> Iterator[Callable[[Blocks, Floats], Point]]:
    yield interior
    for apart in (100.0, 1.0, 1e4, 1e-2):  # almost always the first suffices
        yield partial(interior, apart=apart, elimination=Twofold)
