"""Everything that a run must keep, computed from public inputs and invariants before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from tallyveil._arrays import Bools
from tallyveil.engine.carry_up import carried_limits
from tallyveil.engine.constraints import Exact, LevelLimits, declared_limits, possible_cells, translated_limits
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import TOTAL, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.strategy import Strategy


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLimits:
    """The bounds that a run must keep, and the units and cells that they are about.

    Attributes
    ----------
    published
        The spine of the data and of the release.
    optimised
        The optimised spine, if the run is on one.
    exact
        The answers published without noise, by query and level of the published spine.
    possible
        Which cells may hold anybody.
    declared
        The bounds declared for each level of the published spine, against which data and release are checked.
    own
        The same bounds on the spine that is measured.
    carried
        For each level of the measured spine all bounds that hold there, including those carried up from below.
    """

    published: Spine
    schema: Schema
    exact: Exact
    possible: Bools
    declared: Mapping[str, Sequence[LevelLimits]]
    own: Mapping[str, Sequence[LevelLimits]]
    carried: Mapping[str, Sequence[LevelLimits]]
    optimised: OptimisedSpine | None = None

    @property
    def measured(self) -> Spine:
        """The spine that is measured and solved on."""
        return self.published if self.optimised is None else self.optimised.spine

    @cached_property
    def sums_decide(self) -> bool:
        """Whether bounds that are consistent in every unit can always be kept all together.

        This is the case where every bounded query other than the total is bounded at one level only and, if there are
        several such queries, no two share an attribute and no cell is a structural zero. Then the bounds of a unit
        leave it a range of totals without gaps, only totals matter further up, and every total in the sum of the
        ranges can be reached.
        """
        levels: dict[str, set[str]] = {}
        for level, limits in self.own.items():
            for limit in limits:
                levels.setdefault(limit.query.name, set()).add(level)
        levels.pop(TOTAL, None)
        if any(len(names) > 1 for names in levels.values()):
            return False
        attributes = [{self._attribute(factor) for factor in self.schema.query(name).factors} for name in levels]
        disjoint = not any(first & second for first, second in combinations(attributes, 2))
        return len(levels) <= 1 or (disjoint and bool(self.possible.all()))

    def unit(self, level: str, position: int, *, owner: bool = False) -> str:
        """The level and code of a unit: the published code where it has one."""
        depth = self.measured.depth(level)
        if self.optimised is None or not (owner or self.optimised.keeps(level)):
            codes = self.measured.codes[depth]
        else:
            codes = self.published.codes[depth]
            position = position if owner else int(self.optimised.part_of[level][position])
        new = " of the optimised spine" if codes is not self.published.codes[depth] else ""
        return f"{level} {bytes(codes[position]).decode()!r}{new}"

    def _attribute(self, factor: str) -> str:
        grouping = self.schema.groupings.get(factor)
        return factor if grouping is None else grouping.of


def run_limits(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    exact: Exact,
    facilities: Facilities | None = None,
    optimised: OptimisedSpine | None = None,
) -> RunLimits:
    """The bounds that a run must keep; ``spine``, ``exact`` and ``facilities`` are those of the published units.

    Raises
    ------
    InputError
        Facilities are missing, or a constraint is about units that the optimised spine does not have.
    """
    declared = declared_limits(spine, schema, strategy, exact=exact, facilities=facilities)
    own = translated_limits(declared, optimised)
    possible = possible_cells(schema, strategy)
    measured = spine if optimised is None else optimised.spine
    return RunLimits(
        published=spine,
        optimised=optimised,
        schema=schema,
        exact=exact,
        possible=possible,
        declared=declared,
        own=own,
        carried=carried_limits(measured, schema, own, possible),
    )
