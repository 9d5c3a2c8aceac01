"""Which problem answers a request: one on the schema itself, or on a coarser one if that is too large or too fine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from tallyveil.blue.coarser import coarsest
from tallyveil.blue.parts import check_reached
from tallyveil.blue.problem import NO_NOISE, Problem, available_queries, exact_pairs, problems_of
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import Query
from tallyveil.release.measurements import Measurements

WIDE = 1e5  # ratio of variances above which covariances lose digits that matter
HOPELESS = 1e11  # ratio of variances at which covariances are refused
MOST_STEPS = 20_000  # of the solution in square-root form, about a millisecond each
MOST_NUMBERS = 1 << 25  # of the estimates of leaves


def pose(
    measurements: Measurements,
    asked: Mapping[str, Sequence[Query]],
    *,
    areas: Sequence[Query] = (),
    facilities: Facilities | None = None,
    noise: bool = True,
) -> list[Problem]:
    """The problems that answer the queries of each level, and those of areas made of leaves.

    Problems that need care are solved in square-root form if the tree is not too large: those with variances of very
    different size, and those where some levels are measured so coarsely that they would be left out. Otherwise, if
    groupings and zeros tie too many cells together, or if the measurements determine the requested counts but not all
    cells, the problem is posed on the coarsest schema that answers the request.
    """
    queries = [*(query for some in asked.values() for query in some), *areas]
    wanted = dict(asked)
    if areas:
        leaf = measurements.published.leaf
        wanted[leaf] = [*wanted.get(leaf, ()), *areas]
    posed: list[Problem] | None = None
    with suppress(InputError):
        posed = problems_of(measurements, queries, facilities=facilities, noise=noise)
        if not loses(posed, measurements) and variance_ratio(measurements) <= WIDE:
            return posed  # what they do not determine is refused where it is needed
    with suppress(InputError):
        (careful,) = problems_of(measurements, queries, facilities=facilities, noise=noise, with_care=True)
        if affordable(careful):
            return [careful]
    if (ratio := variance_ratio(measurements)) > HOPELESS:
        raise InputError(
            f"the variances of the measurements differ by a factor of {ratio:.0e}, and a tree of this size is solved "
            f"with covariances, which would leave no correct digit. Estimate from more even shares."
        )
    with suppress(InputError):
        if posed is not None:
            check_reached(posed, wanted)
            return posed
    with suppress(InputError):
        coarser = coarsest(measurements, queries)
        if coarser is not None:
            summed = problems_of(measurements, queries, facilities=facilities, noise=noise, coarser=coarser)
            check_reached(summed, wanted)
            return summed
    if posed is None:
        return problems_of(measurements, queries, facilities=facilities, noise=noise)  # says why not
    return posed


def loses(problems: Sequence[Problem], measurements: Measurements) -> bool:
    """Whether levels are left out although something that was measured or is exact there matters."""
    schema = measurements.schema
    exact = exact_pairs(measurements)
    for problem in problems:
        for level in problem.dropped:
            names = [*available_queries(measurements, level), *(name for name, of in exact if of == level)]
            if any(problem.decomposition.marginal(schema.query(name)).gram.any() for name in names):
                return True
    return False


def variance_ratio(measurements: Measurements) -> float:
    """The largest variance of a measurement over the smallest."""
    variances = [
        max(float(measurements.variances(level, name)[span]), NO_NOISE)
        for level in measurements.spine.levels
        for name in available_queries(measurements, level)
        for span in np.unique(measurements.shares[level].spans).tolist()
        if span > 0
    ]
    return max(variances) / min(variances) if variances else 1.0


def affordable(problem: Problem) -> bool:
    """Whether the solution in square-root form takes half a minute at most, and its numbers fit into memory."""
    decomposition, sizes = problem.decomposition, [information.stage.size for information in problem.stages]
    cells, leaves = decomposition.dense_cells, sizes[-1]
    steps = len(decomposition.subsets) * (2 * sum(sizes[:-1]) + leaves / 10) * max(1.0, (cells / 12) ** 3)
    return steps <= MOST_STEPS and leaves * cells * decomposition.columns <= MOST_NUMBERS
