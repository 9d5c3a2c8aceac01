"""Which queries are exact at which level, so that measuring them would waste budget.

An invariant fixes more than the query and the level that it names: every coarser query, since its rows are sums of the
invariant's rows, and every coarser level, since parents are sums of their children. A finer level is fixed too if each
unit has only one unit of that level below it. Under replace-one neighbours the number of people in all is an invariant.
On an optimised spine, a level counts as fixed only if each of its units consists of whole published units.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import DETAILED, TOTAL, Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.constraints import Invariant

Pair = tuple[str, str]  # a query and a level


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Exactness:
    """The queries that invariants make exact, level by level.

    Attributes
    ----------
    spine, schema
        The published spine, and the schema.
    invariants
        The declared invariants.
    same_people
        Whether neighbours have the same number of people (replace-one), so that it is published exactly.
    optimised
        The optimised spine, if its units are measured.

    Examples
    --------
    >>> spine = Spine.from_columns({"county": ["1", "1", "2"], "tract": ["1a", "1b", "2a"]}, root="state")
    >>> schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    >>> exact = Exactness(spine=spine, schema=schema, invariants=(Invariant(query="age", level="county"),))
    >>> [(query, level) for level in spine.levels for query in ("total", "age", "sex") if exact.holds(query, level)]
    [('total', 'state'), ('age', 'state'), ('total', 'county'), ('age', 'county')]
    """

    spine: Spine
    schema: Schema
    invariants: tuple[Invariant, ...] = ()
    same_people: bool = True
    optimised: OptimisedSpine | None = None

    def holds(self, query: str, level: str) -> bool:
        """Whether the answer to a query is exact for every measured unit of a level."""
        wanted = self.schema.query(query)
        return any(
            self._consists_of(level, fixed) and self.schema.sums_up(wanted, known) for known, fixed in self._fixed
        )

    def pairs(self, measured: Iterable[str]) -> tuple[Pair, ...]:
        """The exact queries with their levels, among those measured, the invariants, their factors and the total."""
        invariants = [self.schema.query(one.query) for one in self.invariants]
        factors = [factor for query in invariants for factor in query.factors]
        names = {self.schema.query(name).name: name for name in (TOTAL, *factors, *(q.name for q in invariants))}
        names |= {self.schema.query(name).name: name for name in measured}
        return tuple((name, level) for level in self.spine.levels for name in names.values() if self.holds(name, level))

    def fixes(self, level: str) -> bool:
        """Whether every count of a level is exact."""
        return self.holds(DETAILED, level)

    @cached_property
    def _fixed(self) -> list[tuple[Query, str]]:
        fixed = [(self.schema.query(one.query), one.level) for one in self.invariants]
        return [*fixed, (self.schema.query(TOTAL), self.spine.levels[0])] if self.same_people else fixed

    def _consists_of(self, level: str, published: str) -> bool:
        """Whether each measured unit of a level consists of whole units of a published level."""
        if self.optimised is None:
            finer = self.spine.depth(level) > self.spine.depth(published)
            return not finer or self.spine.size(level) == self.spine.size(published)
        bounds = self.optimised.spine.leaves_under(level)
        unit_of_leaf = np.empty(int(bounds[-1]), dtype=np.int64)
        unit_of_leaf[self.optimised.leaf] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        starts = self.spine.leaves_under(published)[:-1]
        lowest, highest = (extreme.reduceat(unit_of_leaf, starts) for extreme in (np.minimum, np.maximum))
        return bool((lowest == highest).all())
