r"""Clusters of residuals: groups within which errors are dependent, such as siblings under one parent.

A variance estimated from clusters, :math:`\sum_c s_c^2` with the contribution :math:`s_c` of cluster c, is itself
uncertain, especially if few clusters contribute or a few large ones dominate. Its distribution is approximately a
scaled chi-square with

.. math:: f = \frac{2}{q - 1/G}, \quad q = \frac{\sum_c s_c^4}{(\sum_c s_c^2)^2}, \qquad f \le G - 1

degrees of freedom for G clusters (Satterthwaite [1]_: the same mean and an estimate of the variance), and Student's
quantile with f degrees of freedom replaces the normal quantile. 1/q is the effective number of clusters.

References
----------
.. [1] Satterthwaite, An approximate distribution of estimates of variance components, Biometrics Bulletin 2, 1946.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.residuals import Residuals

ONE_CLUSTER = (
    "All residuals are in one cluster, so the variation between clusters is unknown: they are treated as independent."
)


class Clusters(NamedTuple):
    """The cluster of each residual, numbered from 0, and the number of further residuals of 0 in each cluster."""

    of: Integers
    zeros: Floats

    @property
    def number(self) -> int:
        """The number of clusters."""
        return len(self.zeros)

    def table(self, place: Integers, size: int, *, zero: int | None) -> csr_matrix:
        """The number of residuals by cluster and place, from the place of each residual (-1 for none) and that of 0."""
        inside = place >= 0
        row, column, count = self.of[inside], place[inside], np.ones(int(inside.sum()))
        if zero is not None and self.zeros.any():
            filled = np.flatnonzero(self.zeros)
            row, column = np.append(row, filled), np.append(column, np.full(len(filled), zero))
            count = np.append(count, self.zeros[filled])
        return csr_matrix((count, (row, column)), shape=(self.number, size))


class ClusteredResiduals(NamedTuple):
    """Residuals, the number of further ones that are 0, their clusters (None if independent), and a remark, if any."""

    value: NDArray[Any]
    zeros: int
    clusters: Clusters | None
    remark: str | None = None


def with_clusters(residuals: Residuals | ArrayLike, clusters: ArrayLike | None = None) -> ClusteredResiduals:
    """Residuals with these clusters; by default, those of Residuals are their (replicate, parent)."""
    if isinstance(residuals, Residuals):
        value, zeros = residuals.value, residuals.zeros
        cluster: ArrayLike | None = residuals.cluster if clusters is None else clusters
    else:
        value, zeros, cluster = np.asarray(residuals), 0, clusters
        if value.size == 0:
            value = value.astype(np.int64)
    if value.dtype.kind in "bu":
        value = value.astype(np.int64)
    if cluster is None:
        return ClusteredResiduals(value, zeros, None)
    names = np.asarray(cluster)
    if names.shape != value.shape:
        raise InputError(f"clusters must be one for each residual. Got {names.shape} for {value.shape} residuals.")
    if zeros and clusters is None and isinstance(residuals, Residuals):
        grouped = _with_zeros(residuals)
    else:
        of = _numbered(names)
        size = np.bincount(of)
        grouped = Clusters(of, zeros * size / max(len(of), 1))  # their clusters are unknown: split in proportion
    if grouped.number == 1:
        return ClusteredResiduals(value, zeros, None, ONE_CLUSTER if len(value) + zeros > 1 else None)
    if grouped.number == len(value) and not zeros:
        return ClusteredResiduals(value, zeros, None)  # each residual is a cluster
    return ClusteredResiduals(value, zeros, grouped)


def freedom(concentration: Floats, clusters: int) -> Floats:
    """Degrees of freedom f of a variance between clusters, from q (equation above)."""
    result: Floats = np.minimum(2 / np.maximum(concentration - 1 / clusters, 1e-12), max(clusters - 1, 1))
    return result


def _with_zeros(residuals: Residuals) -> Clusters:
    """Clusters including those with zeros only: possible cells of a unit that are not entries are zeros."""
    unit = np.tile(np.arange(residuals.units, dtype=np.int32), residuals.replicates)
    replicate = np.repeat(np.arange(residuals.replicates, dtype=np.int32), residuals.units)
    nothing = np.zeros(len(unit), dtype=np.int32)
    places = replace(residuals, unit=unit, replicate=replicate, row=nothing, true=nothing, released=nothing)
    number = _numbered(np.concatenate([residuals.cluster, places.cluster]))
    of, around = number[: len(residuals.cluster)], number[len(residuals.cluster) :]
    size = int(number.max(initial=-1)) + 1
    cells = np.bincount(around, minlength=size) * int(residuals.possible.sum())
    entries = np.bincount(of[residuals.possible[residuals.row]], minlength=size)
    return Clusters(of, (cells - entries).astype(np.float64))


def _numbered(names: NDArray[Any]) -> Integers:
    """Numbers of the clusters, from 0 without gaps."""
    if names.dtype.kind in "iu" and len(names) and names.min() >= 0 and names.max() < 4 * len(names):
        used = np.zeros(int(names.max()) + 1, dtype=np.bool_)
        used[names] = True
        number = np.cumsum(used)[names] - 1
    else:
        number = np.unique(names, return_inverse=True)[1]
    return np.asarray(number, dtype=np.int64)
