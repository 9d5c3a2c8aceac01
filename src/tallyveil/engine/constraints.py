"""Constraints as bounds on the rows of queries: as declared, as translated to another spine, and checked on counts.

A constraint is declared for the units of a level of the *published* spine. A run on that spine is solved with the same
bounds, carried up the tree (``carry_up``). A run on an optimised spine is solved on other units, so each constraint is
translated, or refused before any noise is drawn:

- Where a level has the standard units, perhaps in another order, the bounds are put into that order.
- The parts of a unit just below the root are siblings, so its bounds hold for them together (their ``owner``).
- The parts of units further down have different parents, and new block groups are not standard units. Enforcing the
  bounds of a standard unit on them would fix numbers that nothing declares, or fail to fix the declared ones.

Data and release are always checked on the published spine, against what was declared there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil._arrays import Bools, Integers
from tallyveil.engine.nests import UNLIMITED, Limits
from tallyveil.errors import InputError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import ALL, Bound, FacilityBounds, Invariant, StructuralZero
from tallyveil.privacy.strategy import Strategy

Bounds = tuple[Integers, Integers]
Exact = Mapping[tuple[str, str], Counts]
UNITS_AT_ONCE = 1 << 18  # units whose bounds are held in memory together


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelLimits:
    """Bounds on a query's rows for all units of a level.

    Attributes
    ----------
    of
        Returns the lower and upper bounds of some owners, given by position: two arrays, owners by rows.
    owners
        The number of owners.
    words
        The constraints that the bounds come from.
    owner
        The owner of each unit, where siblings are bounded together; otherwise each unit is its own owner.
    source
        ``"people"`` (their number, which is equal for neighbours), ``"invariant"``, ``"facilities"`` or ``"bound"``.
    """

    query: Query
    of: Callable[[Integers], Bounds]
    owners: int
    words: tuple[str, ...]
    owner: Integers | None = None
    source: str = "bound"

    @property
    def name(self) -> str:
        """The constraints in words."""
        return "; ".join(self.words)

    def all(self) -> Bounds:
        """Lower and upper bounds of all owners."""
        return self.of(np.arange(self.owners))

    def by_chunks(self) -> Iterator[tuple[int, Integers, Integers]]:
        """Lower and upper bounds of runs of owners, each with the position of its first owner."""
        for first in range(0, self.owners, UNITS_AT_ONCE):
            yield first, *self.of(np.arange(first, min(first + UNITS_AT_ONCE, self.owners)))

    def of_children(self, child: Integers) -> Limits:
        """The limits of the children of some nests, given by position."""
        if self.owner is None:
            (least, most), owner = self.of(child), np.arange(len(child))
        else:
            (least, most), owner = self.all(), self.owner[child]
        return Limits(name=self.name, row_of_cell=self.query.row_of_cell, least=least, most=most, owner=owner)


def declared_limits(
    spine: Spine, schema: Schema, strategy: Strategy, *, exact: Exact, facilities: Facilities | None = None
) -> dict[str, list[LevelLimits]]:
    """The bounds that a strategy declares for each level of the published spine; ``exact`` holds the invariants."""
    declared: dict[str, list[LevelLimits]] = {level: [] for level in spine.levels}
    invariants = {(schema.query(c.query).name, c.level) for c in strategy.constraints if isinstance(c, Invariant)}
    for (query, level), answers in exact.items():
        limits = _exact_limits(schema.query(query), answers, Invariant(query=query, level=level).words())
        declared[level].append(replace(limits, source="invariant" if (query, level) in invariants else "people"))
    for constraint in strategy.constraints:
        if isinstance(constraint, FacilityBounds):
            if facilities is None:
                raise InputError(
                    f"the strategy bounds persons by facilities ({constraint.words()}), but no facilities are given. "
                    f"Give the table of facilities, or take the constraint out of the strategy."
                )
            if facilities.spine is not spine and facilities.spine != spine:
                raise InputError(
                    f"the facilities are on another spine ({facilities.spine}) than the counts ({spine}). Build them "
                    f"on the spine of the counts."
                )
            declared[constraint.level].append(_facility_limits(constraint, facilities, schema))
        if isinstance(constraint, Bound):
            declared[constraint.level].append(_bound_limits(constraint, spine, schema))
    return declared


def translated_limits(
    declared: Mapping[str, Sequence[LevelLimits]], optimised: OptimisedSpine | None
) -> dict[str, list[LevelLimits]]:
    """The declared bounds as bounds on the units that are measured, which may be those of an optimised spine."""
    if optimised is None:
        return {level: list(limits) for level, limits in declared.items()}
    return {level: [_translated(limit, level, optimised) for limit in limits] for level, limits in declared.items()}


def possible_cells(schema: Schema, strategy: Strategy) -> Bools:
    """Which cells may hold anybody: those that neither the schema nor the strategy declares a structural zero."""
    possible = schema.possible.copy()
    for zero in strategy.constraints:
        if isinstance(zero, StructuralZero):
            possible &= Schema(attributes=schema.attributes, zeros=[dict(zero.cells)]).possible
    return possible


def check_counts(
    histogram: Histogram, limits: Mapping[str, Sequence[LevelLimits]], possible: Bools, *, whose: str
) -> None:
    """Refuse counts that break a constraint; the error names the unit and the constraint.

    ``limits`` are the ones declared for the levels of the histogram's own spine (``declared_limits``).
    """
    spine, schema = histogram.spine, histogram.schema
    closed = histogram.leaves.first_in(~possible)
    if closed is not None:
        unit, cell = closed[0], schema.query("detailed").labels()[closed[1]]
        code = bytes(spine.codes[-1][unit]).decode()
        raise InputError(f"{whose}: {spine.leaf} {code!r} counts people in {cell!r}, which a constraint says is empty.")
    for level, counts in histogram.by_level():
        for limit in limits[level]:
            query = limit.query
            answers = counts.merged(np.arange(counts.units + 1), query.row_of_cell, query.size)
            broken = _first_break(answers, limit)
            if broken is not None:
                unit, row, count, least, most = broken
                code = bytes(spine.codes[spine.depth(level)][unit]).decode()
                bounds = f"exactly {least:,}" if least == most else f"{least:,} to {most:,}"
                raise InputError(
                    f"{whose}: {level} {code!r} has {count:,} in {query.labels()[row]!r} of {query.name!r}, not "
                    f"{bounds} ({limit.name}). Correct the counts, the facilities or the constraint."
                )


def _first_break(answers: Counts, limit: LevelLimits) -> tuple[int, int, int, int, int] | None:
    """The first unit and row outside its bounds: unit, row, count, least and most."""
    for first, least, most in limit.by_chunks():
        table = answers.dense(first, first + len(least))
        broken = np.argwhere((table < least) | (table > most))
        if len(broken):
            unit, row = map(int, broken[0])
            return first + unit, row, int(table[unit, row]), int(least[unit, row]), int(most[unit, row])
    return None


def _exact_limits(query: Query, answers: Counts, words: str) -> LevelLimits:
    return LevelLimits(
        query=query, of=lambda units: (answers.taken(units).dense(),) * 2, owners=answers.units, words=(words,)
    )


def _facility_limits(constraint: FacilityBounds, facilities: Facilities, schema: Schema) -> LevelLimits:
    query = schema.query(constraint.attribute)
    if facilities.types != query.row_labels[0]:
        raise InputError(
            f"facilities are of the types {', '.join(facilities.types)}; attribute {constraint.attribute!r} has "
            f"{', '.join(query.row_labels[0])}. Give them the same labels in the same order."
        )
    built = facilities.at(constraint.level)
    least, most = (
        np.array([per_type.get(name, per_type.get(ALL, none)) for name in facilities.types], np.int64)
        for per_type, none in ((constraint.least, 0), (constraint.most, int(UNLIMITED)))
    )

    def of(units: Integers) -> Bounds:
        number = built.taken(units).dense()
        return _saturated_product(number, least), _saturated_product(number, most)

    return LevelLimits(query=query, of=of, owners=built.units, words=(constraint.words(),), source="facilities")


def _saturated_product(number: Integers, per_facility: Integers) -> Integers:
    """Products, or ``UNLIMITED`` where they would reach it."""
    large = number * per_facility.astype(np.float64) >= UNLIMITED
    return np.where(large, UNLIMITED, number * np.where(large, 0, per_facility))


def _bound_limits(constraint: Bound, spine: Spine, schema: Schema) -> LevelLimits:
    query = schema.query(constraint.query)
    least, most = constraint.limits(schema)
    applies = np.ones(spine.size(constraint.level), np.bool_)
    if constraint.units:
        applies[:] = False
        applies[spine.locate(constraint.level, list(constraint.units))] = True

    def of(units: Integers) -> Bounds:
        bounded = applies[units, None]
        return np.where(bounded, least, 0), np.where(bounded, most, UNLIMITED)

    return LevelLimits(query=query, of=of, owners=len(applies), words=(constraint.words(),))


def _translated(limit: LevelLimits, level: str, optimised: OptimisedSpine) -> LevelLimits:
    """Bounds on standard units as bounds on the units of an optimised spine."""
    units = optimised.part_of.get(level)
    if units is None:
        raise InputError(
            f"{limit.name}: the optimised spine rebuilds the level {level!r}, so its units are not measured as "
            f"published. Drop the constraint, or use the standard spine."
        )
    if optimised.keeps(level):
        return replace(limit, of=lambda owners: limit.of(units[owners]))
    if optimised.spine.depth(level) != 1:
        unit = int(np.argmax(np.bincount(units) > 1))
        code = bytes(optimised.standard.codes[optimised.standard.depth(level)][unit]).decode()
        raise InputError(
            f"{limit.name}: the optimised spine splits {level} {code!r} between units of the level above, so its parts "
            f"cannot be bounded together. Drop the constraint, or use the standard spine."
        )
    return replace(limit, owner=units)
