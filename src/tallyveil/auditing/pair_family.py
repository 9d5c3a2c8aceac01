"""A family of neighbouring datasets to search: one pair of each kind on which a fault might show.

Each kind has candidates in an order of preference: first the data as they are, then the data altered in one unit, such
as emptied. The first candidate that the mechanism's guarantee covers is used. Candidates that differ in an invariant or
break a constraint are not neighbours; a kind without any other candidate is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import final

from tallyveil.auditing.altered_data import Candidate
from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
from tallyveil.auditing.pair_kinds import added_or_removed, moved_or_changed
from tallyveil.errors import InputError
from tallyveil.evaluate.audit.pairs import NeighbourPair
from tallyveil.evaluate.audit.pairs_result import LeftOut
from tallyveil.evaluate.audit.views import views_of
from tallyveil.nouns.histogram import Histogram

TRIES = 100  # candidates of a kind


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PairFamily:
    """The pairs to search, the epsilon proven for all of them, and the kinds of pairs that were left out."""

    pairs: tuple[NeighbourPair, ...]
    proven: float
    left_out: tuple[LeftOut, ...]


def pair_family(people: Histogram, mechanism: TopDownRuns | SimpleRuns, *, query: str) -> PairFamily:
    """One pair of each kind that the mechanism's guarantee covers and that a query can tell apart."""
    people.schema.query(query)  # refuses a query that does not exist
    removing = mechanism.neighbours == "add-or-remove"
    kinds = added_or_removed(people) if removing else moved_or_changed(people)
    pairs, proven, left_out = [], [], []
    for name, candidates in kinds.items():
        try:
            pair, epsilon = _first_covered(name, candidates, mechanism, query=query)
        except InputError as refused:
            left_out.append(
                LeftOut(pair=name, reason=str(refused).partition(". ")[0].rstrip(".") + ".")
            )  # without the remedy
        else:
            pairs.append(pair)
            proven.append(epsilon)
    if removing:
        reason = "these are two steps of add-or-remove neighbours, one person removed and one added."
        left_out.append(LeftOut(pair="a person moves or changes an attribute", reason=reason))
    if not pairs:
        raise InputError(f"no pair of neighbours was found ({left_out[0].reason.rstrip('.')}). Name one with --move.")
    return PairFamily(pairs=tuple(pairs), proven=max(proven), left_out=tuple(left_out))


def _first_covered(
    name: str, candidates: Iterator[Candidate], mechanism: TopDownRuns | SimpleRuns, *, query: str
) -> tuple[NeighbourPair, float]:
    """The first candidate that the guarantee covers, and its epsilon; otherwise the error of the first one."""
    problem: InputError | None = None
    for people, neighbour, made in islice(candidates, TRIES):
        try:
            views_of(people, neighbour, query=query)
            proven = mechanism.proven(people, neighbour)
        except InputError as refused:
            problem = problem or refused
        else:
            return NeighbourPair(name=name, people=people, neighbour=neighbour, made=made), proven
    raise problem or InputError("the data have no such units or people.")
