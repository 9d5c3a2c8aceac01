"""Answers to queries for places, with variances or all covariances, by whichever method a problem is solved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tallyveil._arrays import Bools, Floats
from tallyveil.blue.careful_figures import rows_of_places
from tallyveil.blue.decomposition import Marginal
from tallyveil.blue.downward import estimate_places
from tallyveil.blue.figures import covariance_from_dense_rows, covariance_of_rows, stacked_dense_rows
from tallyveil.blue.places import Places
from tallyveil.blue.problem import Problem
from tallyveil.errors import UndeterminedError
from tallyveil.nouns.schema import Query


def figures_of_places(problem: Problem, places: Places, queries: Sequence[Query]) -> Iterator[tuple[Floats, Floats]]:
    """For each query the answers (0 where none were asked for) and their variances, places x rows."""
    marginals = [problem.decomposition.marginal(query) for query in queries]
    if problem.with_care:
        found = rows_of_places(problem, places, stacked_dense_rows(marginals))
        variances = np.einsum("ptrr->ptr", found.covariance)
        for marginal, rows in _by_marginal(marginals):
            _refuse_unknown(marginal, found.unknown[:, :, rows])
            yield marginal.answers_of_dense(found.x[:, rows]), marginal.variances_of_dense(variances[:, :, rows])
        return
    joint = estimate_places(problem, places)
    for marginal in marginals:
        variances = marginal.variances(joint.V)
        yield np.zeros_like(variances) if joint.x is None else marginal.answers(joint.x), variances


def joint_figures(problem: Problem, places: Places, queries: Sequence[Query]) -> tuple[Floats, Floats]:
    """The answers to all queries, places x rows, and the covariances of all of them, place by place."""
    marginals = [problem.decomposition.marginal(query) for query in queries]
    if problem.with_care:
        found = rows_of_places(problem, places, stacked_dense_rows(marginals))
        parts = []
        for marginal, rows in _by_marginal(marginals):
            _refuse_unknown(marginal, found.unknown[:, :, rows])
            parts.append(marginal.answers_of_dense(found.x[:, rows]))
        covariance = covariance_from_dense_rows(problem.decomposition, marginals, found.covariance)
        return np.concatenate(parts, axis=1), covariance
    joint = estimate_places(problem, places)
    assert joint.x is not None
    covariance = covariance_of_rows(problem.decomposition, marginals, joint.V)
    one_by_one = joint.V[np.arange(len(joint.V)), np.arange(len(joint.V))]
    variances = np.concatenate([marginal.variances(one_by_one) for marginal in marginals], axis=1).reshape(-1)
    noisy = variances > 0  # elsewhere rounding may have left something
    answers = np.concatenate([marginal.answers(joint.x) for marginal in marginals], axis=1)
    return answers, np.where(noisy[:, None] & noisy, covariance, 0.0)


def _by_marginal(marginals: Sequence[Marginal]) -> Iterator[tuple[Marginal, slice]]:
    """Each query with its places among the stacked dense rows."""
    start = 0
    for marginal in marginals:
        yield marginal, slice(start, start + len(marginal.dense))
        start += len(marginal.dense)


def _refuse_unknown(marginal: Marginal, unknown: Bools) -> None:
    """Refuse a query of which rows are not determined for some place: places x subsets x dense rows."""
    if unknown[:, marginal.squares.any(axis=1)].any():
        raise UndeterminedError(
            f"what was measured does not determine {marginal.query.name} of an area or unit. Ask for coarser queries, "
            f"or save more measurements (protect --measurements all)."
        )
