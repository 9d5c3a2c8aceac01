"""Figures: single numbers of places, as weights in the decomposition, and their joint covariance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.decomposition import Decomposition, Marginal


def covariance_of_rows(decomposition: Decomposition, marginals: Sequence[Marginal], V: Floats) -> Floats:
    """The covariance of all rows of some queries of some places, query by query within each place.

    ``V`` is places x places x subsets x dense cells x dense cells. With weights w = w_D (x) w_1 (x) w_2 ... the
    covariance of two figures is the sum over subsets T of prod_i <w_i, v_i>_{T,i} times w_D' V_T v_D.
    """
    dense = stacked_dense_rows(marginals)
    return covariance_from_dense_rows(decomposition, marginals, dense @ V @ dense.T)


def stacked_dense_rows(marginals: Sequence[Marginal]) -> Floats:
    """The dense rows of some queries, query by query."""
    return np.concatenate([marginal.dense for marginal in marginals])


def covariance_from_dense_rows(
    decomposition: Decomposition, marginals: Sequence[Marginal], covariance: Floats
) -> Floats:
    """``covariance_of_rows`` from covariances of dense rows: places x places x subsets x dense rows x dense rows."""
    starts = np.cumsum([0, *(len(marginal.dense) for marginal in marginals)])
    dense = np.concatenate(
        [start + _places_of_rows(marginal)[0] for start, marginal in zip(starts, marginals, strict=False)]
    )
    parts = [
        np.concatenate([_label_weights(marginal)[i] for marginal in marginals])
        for i in range(len(decomposition.symmetric))
    ]
    places, rows = len(covariance), len(dense)
    out = np.zeros((places, rows, places, rows))
    for number, subset in enumerate(decomposition.subsets):
        inside = dict(zip(decomposition.kept, subset, strict=True))
        overlap = np.ones((rows, rows))
        for name, weights in zip(decomposition.symmetric, parts, strict=True):
            part = weights[:, 1:] if inside.get(name, False) else weights[:, :1]
            overlap *= part @ part.T
        for one in range(places):
            for other in range(places):
                out[one, :, other] += overlap * covariance[one, other, number][np.ix_(dense, dense)]
    return out.reshape(places * rows, places * rows)


def _label_weights(marginal: Marginal) -> list[Floats]:
    """For each symmetric attribute, the coordinates of the labels of each row of a query."""
    _, symmetric = _places_of_rows(marginal)
    sizes = [len(factor) for factor in marginal.factors]
    labels = np.unravel_index(symmetric, sizes) if sizes else ()
    return [factor[label] for factor, label in zip(marginal.factors, labels, strict=True)]


def _places_of_rows(marginal: Marginal) -> tuple[Integers, Integers]:
    """The dense row and the symmetric row of each row of a query."""
    place = np.empty(marginal.query.size, np.int64)
    place[marginal.rows.reshape(-1)] = np.arange(marginal.query.size)
    dense, symmetric = np.divmod(place, marginal.rows.shape[1])
    return dense, symmetric
