r"""A test of exchangeability, the assumption of empirical privacy loss, by replicates of the same area.

Pooling the residuals of all areas is valid if the errors of all areas have the same distribution. Several releases of
the same truth allow a test: under the assumption, replicates of one area differ as much as different areas do. A
one-way analysis of variance compares them for the residual (which shows bias by area) and for its absolute value (which
shows scale by area). With R replicates of each count and mean squares
:math:`M_b` between and :math:`M_w` within counts,

.. math:: F = \frac{M_b}{M_w}, \qquad \text{share} = \frac{(M_b - M_w)/R}{(M_b - M_w)/R + M_w}

The design is balanced, so with many counts the distribution of F hardly depends on that of the residuals.

Only counts that are not empty in the truth are used, because they occur in every replicate. A count that is empty in
the truth occurs only if a release put somebody in it, so it would be selected by its error.

The test does not detect dependent errors (siblings that must sum to their parent), nor distributions that differ but
have the same mean and the same mean absolute value.
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
    """Test whether the errors of areas look like draws from one distribution.

    Columns ``compared`` (``residual``, ``abs_residual``), ``counts`` and ``replicates``, ``f``, ``p_value``,
    ``share_between`` (the share of the variance between areas; 0 if exchangeable), ``reading`` (in words). If all
    residuals are equal, ``f`` and ``p_value`` are missing, and the reading says why.

    Parameters
    ----------
    residuals
        Residuals of two or more replicates.
    alpha
        Significance level: below this p-value, the reading says that areas differ.
    """
    table = _by_count(residuals)
    rows = [
        {"compared": name, **_analysis(values, name, alpha)}
        for name, values in (("residual", table), ("abs_residual", np.abs(table)))
    ]
    return pd.DataFrame(rows)


def _by_count(residuals: Residuals) -> Floats:
    """Residuals of the counts that are not empty in the truth: a row per count, a column per replicate."""
    replicates = len(np.unique(residuals.replicate))
    if min(replicates, residuals.replicates) < 2:
        raise InputError(
            "exchangeability needs 2 replicates or more: with one, bias and noise of an area cannot be separated. "
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
    design: dict[str, object] = {"counts": counts, "replicates": replicates}
    if within == 0:
        same = "all residuals are equal: nothing to compare" if between == 0 else "an area's replicates are all equal"
        share = 0.0 if between == 0 else 1.0
        return {**design, "f": np.nan, "p_value": np.nan, "share_between": share, "reading": same}
    f = between / within
    p_value = float(fdtrc(counts - 1, counts * (replicates - 1), f))
    extra = max(0.0, between - within) / replicates
    share = extra / (extra + within)
    alike, unlike = _READING[name]
    reading = alike if p_value >= alpha else f"{unlike} ({share:.1%} of the variance)"
    return {**design, "f": f, "p_value": p_value, "share_between": share, "reading": reading}
