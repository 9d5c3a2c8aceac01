r"""The privacy loss of a strategy: how well its noise lets an observer distinguish two neighbouring datasets.

Every measured count has independent noise. If a count differs by one between two datasets, its noise costs :math:`z`
(two-sided geometric with parameter :math:`z`; pure differential privacy) or :math:`1/(2\sigma^2)` (discrete Gaussian;
zero-concentrated differential privacy). The loss between two datasets is the sum of these costs over all measured
counts that differ. A declared figure is the largest loss over a set of pairs of datasets:

- *in all*: one record is replaced by any other (replace-one neighbours), or added (add-or-remove neighbours);
- *per attribute*: a record is replaced by one in the same place that differs in that attribute only;
- *within a level*: a record is replaced by one with the same attributes, in another place inside the same unit of the
  published spine.

The last two replace a record for either kind of neighbours, so two counts of a query differ. The largest loss follows
from the structure of the spine: the counts that differ lie on two paths of the measured spine, so it is enough to find
the costliest path below a unit. Constraints only reduce the set of pairs and are ignored here, so the figures are upper
bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from tallyveil._arrays import Integers
from tallyveil.errors import BudgetError
from tallyveil.nouns.schema import DETAILED, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.shares import unit_shares
from tallyveil.privacy.strategy import Strategy

if TYPE_CHECKING:
    from tallyveil.nouns.histogram import Histogram
    from tallyveil.nouns.optimised_spine import OptimisedSpine

AnyNoise = Geometric | DiscreteGaussian
Factors = frozenset[str]
OTHER = "*"  # all attributes that a strategy does not name
MOST_COMBINATIONS = 4096  # of ways in which two records can differ; beyond it, all factors are assumed to differ


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Loss:
    """The privacy loss of a strategy on the spine that is measured, as exact fractions of epsilon or rho.

    Attributes
    ----------
    strategy
        The strategy that is measured.
    spine, schema
        The published spine and the schema. Without them the figures ignore the only-child rule, and every query is
        assumed to distinguish any two records that differ in one of its attributes.
    optimised
        The optimised spine, if the measurements are on it.
    rows_per_person
        How many records a person has at most. All of them change together, and the losses are those of the person:
        by the triangle inequality, counts differ by K times as much at most, which costs K times the epsilon or K^2
        times the rho of one record, and does where all records are equal.
    """

    strategy: Strategy
    spine: Spine | None = None
    schema: Schema | None = None
    optimised: OptimisedSpine | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if self.rows_per_person > 1 and self.strategy.accounting == "pld":
            raise BudgetError(
                f'accounting = "pld" is for one record per person, but a person has up to {self.rows_per_person} here. '
                f'Use accounting = "zcdp".'
            )

    def in_all(self) -> Fraction:
        """Return the largest loss between neighbouring datasets.

        Two records in different children of a unit share its ancestors. In these, only the queries that distinguish the
        records differ; below them, all queries differ. The worst pair therefore parts as high as possible, at the first
        unit with two or more children.
        """
        if self.spine is None:
            return self._times * self.strategy.budget
        everything = self._costliest(None)
        if self.strategy.neighbours == "add-or-remove":
            return self._times * everything.at(0, 0)
        shared = max(
            sum((self._span_cost(depth, int(self._spans[depth][0]), factors) for depth in self._chain), Fraction(0))
            for factors in self.differences()
        )
        return self._times * 2 * (shared + everything.below(self._chain[-1], np.zeros(1, dtype=np.int64)))

    def per_attribute(self) -> dict[str, Fraction]:
        """Return, for each attribute, the largest loss between records in the same place that differ only in it.

        Without a schema, ``"*"`` means all attributes that the strategy does not name.
        """
        table = {}
        for name in self._attributes:
            losses = (2 * self._costliest(factors).at(0, 0) for factors in self._ways_to_differ(name))
            table[name] = self._times * max(losses, default=Fraction(0))
        return table

    def within_level(self) -> dict[str, Fraction]:
        """Return, for each level but the last, the largest loss between two places inside one of its units."""
        levels = tuple(self.strategy.levels)
        if self.spine is None:
            costs = [self._span_cost(depth, 1, None) for depth in range(len(levels))]
            below = {level: 2 * sum(costs[depth + 1 :], Fraction(0)) for depth, level in enumerate(levels[:-1])}
        else:
            everything = self._costliest(None)
            below = {level: 2 * self._parting_below(level, everything) for level in levels[:-1]}
        return {level: self._times * loss for level, loss in below.items()}

    @property
    def _times(self) -> int:
        """How many times the loss of one record a person's is: group privacy."""
        return self.rows_per_person if self.strategy.mechanism == "geometric" else self.rows_per_person**2

    @property
    def measured(self) -> Spine:
        """The spine whose units are measured."""
        assert self.spine is not None
        return self.spine if self.optimised is None else self.optimised.spine

    @cached_property
    def _spans(self) -> list[NDArray[np.int8]]:
        """The number of levels that each unit pays for, by level of the measured spine."""
        return [shares.spans for shares in unit_shares(self.strategy, self.measured).values()]

    @cached_property
    def _chain(self) -> range:
        """The depths from the root down to the first unit with two or more children."""
        if self.spine is None:
            return range(1)
        sizes = [self.measured.size(level) for level in self.measured.levels]
        forked = next((depth for depth, size in enumerate(sizes) if size > 1), len(sizes))
        return range(forked)

    @cached_property
    def _attributes(self) -> tuple[str, ...]:
        if self.schema is not None:
            return tuple(self.schema.attributes)
        measured = {query for queries in self.strategy.queries.values() for query in queries}
        unnamed = (OTHER,) if DETAILED in measured and not self.strategy.attributes else ()
        return (*self.strategy.known_attributes, *unnamed)

    @cached_property
    def _groupings(self) -> Mapping[str, str]:
        if self.schema is None:
            return self.strategy.groupings
        return {name: grouping.of for name, grouping in self.schema.groupings.items()}

    def _ways_to_differ(self, attribute: str) -> list[Factors]:
        """Return the largest sets of an attribute's factors that all distinguish some two of its labels."""
        groupings = [name for name, of in self._groupings.items() if of == attribute]
        if self.schema is None:
            return [frozenset([attribute, *groupings])]
        group_of = [self.schema.positions(name).tolist() for name in groupings]
        kinds: dict[tuple[int, ...], int] = {}
        for kind in zip(*group_of, strict=True) if group_of else ((),) * len(self.schema.attributes[attribute]):
            kinds[kind] = kinds.get(kind, 0) + 1
        ways = {
            frozenset([attribute, *(name for name, a, b in zip(groupings, first, second, strict=True) if a != b)])
            for first, second in combinations(kinds, 2)
        }
        if max(kinds.values()) > 1:
            ways.add(frozenset([attribute]))
        return [way for way in ways if not any(way < other for other in ways)]

    def differences(self) -> Iterator[Factors]:
        """Yield the sets of factors in which two records can differ; only the largest sets."""
        ways_by_attribute = [ways for ways in map(self._ways_to_differ, self._attributes) if ways]
        if np.prod([len(ways) for ways in ways_by_attribute], dtype=np.float64) > MOST_COMBINATIONS:
            ways_by_attribute = [[frozenset[str]().union(*ways)] for ways in ways_by_attribute]
        for combination in product(*ways_by_attribute):
            yield frozenset[str]().union(*combination)

    def distinguishes(self, query: str, factors: Factors | None) -> bool:
        """Whether a query distinguishes two records that differ in these factors. None means in different units."""
        if factors is None:
            return True
        asked = self._attributes if query == DETAILED else factors_of(query)
        return not factors.isdisjoint(asked)

    def noises(self, depth: int, span: int, factors: Factors | None) -> Iterator[AnyNoise]:
        """Yield the noise of one count of each query that differs, in a unit that pays for ``span`` levels."""
        level = list(self.strategy.levels)[depth]
        share = sum(list(self.strategy.levels.values())[depth : depth + span], Fraction(0))
        for query in self.strategy.queries[level] if span else ():
            if self.distinguishes(query, factors):
                yield self.strategy.noise(level, query, level_share=share)

    def _span_cost(self, depth: int, span: int, factors: Factors | None) -> Fraction:
        """Return the sum of the costs of these counts."""
        return sum((noise.loss for noise in self.noises(depth, span, factors)), Fraction(0))

    def _costliest(self, factors: Factors | None) -> _Costliest:
        """Return the cost of the costliest path down from every unit, with one count of each query that differs."""
        if self.spine is None:
            depths = range(len(self.strategy.levels))
            whole = sum((self._span_cost(depth, 1, factors) for depth in depths), Fraction(0))
            return _Costliest(values=[[whole]], rank=[np.zeros(1, dtype=np.int64)], first_child=())
        values: list[list[Fraction]] = []
        ranks: list[Integers] = []
        for depth in reversed(range(len(self.strategy.levels))):
            spans = self._spans[depth].astype(np.int64)
            if values:
                best = np.maximum.reduceat(ranks[0], self.measured.first_child[depth][:-1])
                below = values[0]
            else:
                best, below = np.zeros(len(spans), dtype=np.int64), [Fraction(0)]
            kind, kind_of_unit = np.unique(spans * len(below) + best, return_inverse=True)
            totals = [self._span_cost(depth, int(k) // len(below), factors) + below[int(k) % len(below)] for k in kind]
            rising = sorted(set(totals))
            place = np.array([rising.index(total) for total in totals], dtype=np.int64)
            values.insert(0, rising)
            ranks.insert(0, place[kind_of_unit.reshape(-1)])
        return _Costliest(values=values, rank=ranks, first_child=self.measured.first_child)

    def _parting_below(self, level: str, everything: _Costliest) -> Fraction:
        """Return the cost of the costliest path below the highest fork between leaves of one unit of a level."""
        assert self.spine is not None
        measured, bounds = self.measured, self.spine.leaves_under(level)
        position = np.arange(bounds[-1], dtype=np.int64)
        if self.optimised is not None:
            position[self.optimised.leaf] = np.arange(bounds[-1])
        first, last = (f.reduceat(position, bounds[:-1]) for f in (np.minimum, np.maximum))
        apart, worst = first < last, Fraction(0)
        for depth in reversed(range(len(measured.levels) - 1)):
            under = measured.leaves_under(measured.levels[depth])
            first_unit, last_unit = (np.searchsorted(under, leaf[apart], side="right") - 1 for leaf in (first, last))
            met = first_unit == last_unit
            worst = max(worst, everything.below(depth, first_unit[met]))
            apart[np.flatnonzero(apart)[met]] = False
        return worst

    def kinds_of_paths(self) -> tuple[list[tuple[int, ...]], Integers]:
        """Return the distinct sequences of spans (levels paid for) from the root to a leaf, and that of each leaf."""
        kind_of_unit = np.zeros(1, dtype=np.int64)
        if self.spine is None:
            return [(1,) * len(self.strategy.levels)], kind_of_unit
        kinds: list[tuple[int, ...]] = [(int(self._spans[0][0]),)]
        for depth in range(1, len(self._spans)):
            above = np.repeat(kind_of_unit, np.diff(self.measured.first_child[depth - 1]))
            width = len(self._spans) + 1
            keys, kind_of_unit = np.unique(above * width + self._spans[depth], return_inverse=True)
            kinds = [(*kinds[int(key) // width], int(key) % width) for key in keys]
            kind_of_unit = kind_of_unit.reshape(-1)
        return kinds, kind_of_unit


def loss_of(people: Histogram, strategy: Strategy, optimised: OptimisedSpine | None = None) -> Loss:
    """Return the privacy loss of measuring these people with a strategy, from what is public about them."""
    return Loss(
        strategy=strategy, spine=people.spine, schema=people.schema, optimised=optimised,
        rows_per_person=people.rows_per_person or 1,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class _Costliest:
    """The cost of the costliest path down from each unit. By level, ``rank`` indexes the increasing ``values``."""

    values: list[list[Fraction]]
    rank: list[Integers]
    first_child: tuple[Integers, ...]

    def at(self, depth: int, unit: int) -> Fraction:
        """Return the cost of the path down from a unit, including the unit."""
        return self.values[depth][int(self.rank[depth][unit])]

    def below(self, depth: int, units: Integers) -> Fraction:
        """Return the largest cost of the paths that start at a child of one of these units."""
        if depth + 1 >= len(self.values) or not len(units):
            return Fraction(0)
        best = np.maximum.reduceat(self.rank[depth + 1], self.first_child[depth][:-1])
        return self.values[depth + 1][int(best[units].max())]
