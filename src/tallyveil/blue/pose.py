"""Which problem answers a request: one on the schema itself, or on a coarser one if that is too large or too fine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tallyveil.blue.coarser import coarsest
from tallyveil.blue.parts import check_reached
from tallyveil.blue.problem import Problem, problems_of
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import Query
from tallyveil.release.measurements import Measurements


def pose(
    measurements: Measurements,
    asked: Mapping[str, Sequence[Query]],
    *,
    areas: Sequence[Query] = (),
    facilities: Facilities | None = None,
    noise: bool = True,
) -> list[Problem]:
    """The problems that answer the queries of each level, and those of areas made of leaves.

    If groupings and zeros tie too many cells together, or if the measurements determine the requested counts but not
    all cells, the problem is posed on the coarsest schema that answers the request.
    """
    queries = [*(query for some in asked.values() for query in some), *areas]
    wanted = dict(asked)
    if areas:
        leaf = measurements.published.leaf
        wanted[leaf] = [*wanted.get(leaf, ()), *areas]
    problems = None
    try:
        problems = problems_of(measurements, queries, facilities=facilities, noise=noise)
        check_reached(problems, wanted)
        return problems
    except InputError:
        coarser = coarsest(measurements, queries)
        with suppress(InputError):
            if coarser is not None:
                summed = problems_of(measurements, queries, facilities=facilities, noise=noise, coarser=coarser)
                check_reached(summed, wanted)
                return summed
        if problems is None:
            raise
        return problems  # what they do not reach is refused where it is needed
