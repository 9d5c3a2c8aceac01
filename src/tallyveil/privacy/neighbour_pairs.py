"""Which noises tell two neighbouring datasets apart: the counts that differ, for the pairs that matter.

Two records share the units above the one where their places part. In these, the counts of queries that distinguish the
records differ; below, all counts on both paths differ. A pair whose differing counts include those of another pair is
at least as easy to tell apart, whatever the scale of the noise, so only the largest sets of counts are kept. Paths
differ in which units have taken over the share of an only child. Constraints only reduce the set of pairs and are
ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from tallyveil.privacy.loss import Factors, Loss
from tallyveil.privacy.loss_distribution import Counts

Parameters = Counter[Fraction]  # variance parameters, or epsilons of geometric noise
Spans = tuple[int, ...]  # how many levels the unit of each level pays for, along a path


def differing_counts(loss: Loss) -> tuple[Counts, ...]:
    """Return the largest sets of counts that differ between neighbours, as variances at a budget of 1.

    The variances at another budget are these divided by it (:func:`at_budget`).

    >>> from tallyveil.privacy.strategy import Strategy
    >>> queries = {"us": {"total": "1/4", "age": "3/4"}}
    >>> plan = Strategy(mechanism="gaussian", budget=2, levels={"us": 1}, queries=queries)
    >>> differing_counts(Loss(strategy=plan))         # two counts of each query: replace-one neighbours
    (((Fraction(4, 3), 2), (Fraction(4, 1), 2)),)
    """
    budget = loss.strategy.budget
    return tuple(tuple((variance * budget, times) for variance, times in one) for one in noise_of_pairs(loss))


def noise_of_pairs(loss: Loss) -> tuple[Counts, ...]:
    """Return the largest sets of counts that differ between neighbours, by the parameter of their noise."""
    sets = {_as_counts(counts) for counts in _candidates(loss) if counts}
    kept: list[Parameters] = []
    for counts in sorted(map(_as_counter, sets), key=lambda one: (-one.total(), _as_counts(one))):
        if not any(counts <= larger for larger in kept):
            kept.append(counts)
    return tuple(map(_as_counts, kept))


def at_budget(counts: Counts, budget: Fraction) -> Counts:
    """Return the variances of counts at a budget."""
    return tuple((variance / budget, times) for variance, times in counts)


def _as_counts(counts: Parameters) -> Counts:
    return tuple(sorted(counts.items()))


def _as_counter(counts: Counts) -> Parameters:
    return Counter(dict(counts))


def _candidates(loss: Loss) -> Iterator[Parameters]:
    """Yield the counts that differ for every kind of pair."""
    if loss.spine is None:
        times = 2 if loss.strategy.neighbours == "replace-one" else 1
        for spans in loss.kinds_of_paths()[0]:
            yield Counter({v: times * n for v, n in _along(loss, spans, range(len(spans)), None).items()})
        return
    kinds, kind_of_leaf = loss.kinds_of_paths()
    depths = range(len(kinds[0]))
    if loss.strategy.neighbours == "add-or-remove":
        yield from (_along(loss, spans, depths, None) for spans in kinds)
        return
    ways = _ways_that_matter(loss)
    for depth, first, second in sorted(_parting(loss, kind_of_leaf, len(kinds))):
        below = _along(loss, kinds[first], depths[depth + 1 :], None)
        below += _along(loss, kinds[second], depths[depth + 1 :], None)
        for way in ways:
            shared = _along(loss, kinds[first], depths[: depth + 1], way)
            yield below + shared + shared


def _along(loss: Loss, spans: Spans, depths: Iterable[int], factors: Factors | None) -> Parameters:
    """Return the noise of the counts that differ on part of a path, in records that differ in these factors."""
    return Counter(noise.parameter for depth in depths for noise in loss.noises(depth, spans[depth], factors))


def _ways_that_matter(loss: Loss) -> list[Factors]:
    """Return ways in which two records can differ, one for each largest set of queries that distinguish them."""
    queries = loss.strategy.query_numbers()
    by_queries = {
        frozenset(query for query in queries if loss.distinguishes(query, factors)): factors
        for factors in loss.differences()
    }
    return [way for asked, way in by_queries.items() if not any(asked < other for other in by_queries)]


def _parting(loss: Loss, kind_of_leaf: np.ndarray, kinds: int) -> set[tuple[int, int, int]]:
    """Return the depths at which paths of two kinds part. Two records in one leaf part below it.

    In a unit where n and m children have paths of two kinds, and b children have both, n m - b pairs of different
    children have one each.
    """
    families = loss.measured.first_child
    found = {(len(families), kind, kind) for kind in np.unique(kind_of_leaf).tolist()}
    has = None  # which kinds there are below each unit
    for depth in reversed(range(len(families))):
        starts = families[depth][:-1]
        if has is None:
            parent = np.repeat(np.arange(len(starts)), np.diff(families[depth]))
            children = np.bincount(parent * kinds + kind_of_leaf, minlength=len(starts) * kinds).reshape(-1, kinds)
        else:
            children = np.add.reduceat(has.astype(np.int64), starts, axis=0)
        found |= {(depth, kind, kind) for kind in np.flatnonzero((children >= 2).any(axis=0)).tolist()}
        for first, second in combinations(range(kinds), 2):
            pairs = children[:, first] * children[:, second]
            if has is not None and pairs.any():
                pairs = pairs - np.add.reduceat((has[:, first] & has[:, second]).astype(np.int64), starts)
            if pairs.any():
                found.add((depth, first, second))
        has = children > 0
    return found
