r"""Are residuals exchangeable? What empirical privacy loss assumes, checked against replicates of the same area.

Pooling the residuals of all areas is right if each area's error has the same distribution. With several releases of
the same truth this can be tested: if it holds, replicates of one area differ as much as different areas do. A one-way
analysis of variance compares them, for the residual (an area whose error has a mean of its own: bias) and for its
absolute value (an area whose errors are larger or smaller: scale). With R replicates of each count and mean squares
:math:`M_b` between and :math:`M_w` within counts,

.. math:: F = \frac{M_b}{M_w}, \qquad \text{share} = \frac{(M_b - M_w)/R}{(M_b - M_w)/R + M_w}

As the design is balanced, F's distribution hardly depends on the residuals' own where counts are many.

Only counts that are not empty in the truth take part: those are in every replicate. One that is empty in the truth is
there only if a release put somebody in it, and would be chosen by its error.

The test does not see errors that depend on each other (siblings that must sum to their parent), nor different
distributions with the same mean and the same mean absolute value.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import fdtrc

from tallyveil._arrays import Floats
from tallyveil.errors import InputError
from tallyveil.evaluate.residuals import Residuals

_READING = {
    "residual": ("errors are centred alike", "some areas' errors have means of their own: bias by area"),
    "abs_residual": ("errors are equally large", "some areas' errors are larger than others': scale by area"),
}


def exchangeability(residuals: Residuals, *, alpha: float = 0.01) -> pd.DataFrame:
    """Whether areas' errors look like draws of one distribution.

    Columns ``compared`` (``residual``, ``abs_residual``), ``counts`` and ``replicates``, ``f``, ``p_value``,
    ``share_between`` (of the variance, between areas; 0 if exchangeable), ``reading`` in words. All residuals equal:
    ``f`` and ``p_value`` are missing, and the reading says why.

    Parameters
    ----------
    residuals
        Of two replicates or more.
    alpha
        Below which p-value the reading says that areas differ.
    """
    table = _by_count(residuals)
    rows = [
        {"compared": name, **_analysis(values, name, alpha)}
        for name, values in (("residual", table), ("abs_residual", np.abs(table)))
    ]
    return pd.DataFrame(rows)


def _by_count(residuals: Residuals) -> Floats:
    """Residuals of the counts that are not empty in the truth: one row each, one column for each replicate."""
    replicates = len(np.unique(residuals.replicate))
    if min(replicates, residuals.replicates) < 2:
        raise InputError(
            "exchangeability needs 2 replicates or more: with one, an area's bias cannot be told from its noise. "
            "Give several releases of the same truth."
        )
    kept = np.flatnonzero(residuals.true != 0)
    place = residuals.unit[kept].astype(np.int64) * residuals.rows + residuals.row[kept]
    times = np.unique(place, return_counts=True)[1]
    if len(times) < 2:
        raise InputError("fewer than 2 counts are not empty in the truth. Compare at a finer level or query.")
    partly = int((times != replicates).sum())
    if partly:
        raise InputError(
            f"{partly:,} of {len(times):,} counts are not in each of the {replicates} replicates. "
            "Compare whole counts: keep or leave out all replicates of a unit and row."
        )
    order = np.lexsort((residuals.replicate[kept], place))
    return residuals.value[kept][order].reshape(-1, replicates).astype(np.float64)


def _analysis(table: Floats, name: str, alpha: float) -> dict[str, object]:
    counts, replicates = table.shape
    means = table.mean(axis=1)
    between = replicates * float(((means - means.mean()) ** 2).sum()) / (counts - 1)
    within = float(((table - means[:, None]) ** 2).sum()) / (counts * (replicates - 1))
    found: dict[str, object] = {"counts": counts, "replicates": replicates}
    if within == 0:
        same = "all residuals are equal: nothing to compare" if between == 0 else "an area's replicates are all equal"
        share = 0.0 if between == 0 else 1.0
        return {**found, "f": np.nan, "p_value": np.nan, "share_between": share, "reading": same}
    f = between / within
    p_value = float(fdtrc(counts - 1, counts * (replicates - 1), f))
    extra = max(0.0, between - within) / replicates
    share = extra / (extra + within)
    alike, unlike = _READING[name]
    reading = alike if p_value >= alpha else f"{unlike} ({share:.1%} of the variance)"
    return {**found, "f": f, "p_value": p_value, "share_between": share, "reading": reading}
