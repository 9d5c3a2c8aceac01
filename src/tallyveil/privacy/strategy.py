r"""The budget and how it is divided: by level, by query within level, as exact fractions that sum to one.

Replace-one neighbours are the default: one person's record is replaced by another. In each level one count goes down
and one goes up, so a query's answer moves by 2 in L1 and its square by 2 in L2. With a budget :math:`\varepsilon_q` or
:math:`\rho_q` for a query, noise is therefore geometric with parameter :math:`\varepsilon_q / 2`, or discrete Gaussian
with variance :math:`2 / (2\rho_q) = 1/\rho_q`. For add-or-remove neighbours one count moves by 1: parameter
:math:`\varepsilon_q` and variance :math:`1/(2\rho_q)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import Any, Literal, final

from tallyveil._frozen import Frozen
from tallyveil.errors import BudgetError, InputError, StrategyError
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number, exact, exact_delta, text
from tallyveil.privacy.constraints import Bound, Constraint, Invariant
from tallyveil.privacy.conversions import rho_from_epsilon
from tallyveil.privacy.noise import DiscreteGaussian, Geometric

Mechanism = Literal["geometric", "gaussian"]
Neighbours = Literal["replace-one", "add-or-remove"]
Shares = Mapping[str, Fraction]
REPORTING_DELTA = Fraction(1, 10**10)


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One measurement of the strategy: its share of the budget and the noise that goes with it."""

    level: str
    query: str
    share: Fraction
    noise: Geometric | DiscreteGaussian


@final
@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A budget, divided.

    Attributes
    ----------
    mechanism
        ``"geometric"`` (pure differential privacy) or ``"gaussian"`` (zCDP, discrete Gaussian).
    budget
        epsilon for geometric, rho for Gaussian.
    levels
        Share of each level, coarse to fine; they sum to 1.
    queries
        For each level the share of each query; they sum to 1.
    delta
        At which (epsilon, delta) is reported for a Gaussian strategy. It is not spent.
    neighbours
        ``"replace-one"`` or ``"add-or-remove"``.
    only_child
        Whether a unit with one child takes over that child's share (the 2020 rule).
    rounding, passes
        How TopDown rounds and in which passes it solves.
    constraints
        What must hold besides.
    check_constraints
        Whether the data are checked against the bounds before a run. Then the guarantee covers neighbouring datasets
        that satisfy them. If not, bounds are enforced on the release only, and the data are never compared with them.
    attributes, groupings
        The attributes it was made for, and which attribute each grouping groups. Attributes may be left out; then they
        are those of the data (``known_attributes`` lists the ones that the queries name).
    name
        The preset's name, if it is one.

    Examples
    --------
    >>> plan = Strategy(
    ...     mechanism="geometric", budget=1, levels={"us": "1/2", "state": "1/2"},
    ...     queries={"us": {"detailed": 1}, "state": {"total": "1/4", "detailed": "3/4"}},
    ... )
    >>> plan.noise("state", "total")        # 1 * 1/2 * 1/4, halved for replace-one neighbours
    Geometric(z=Fraction(1, 16))
    """

    mechanism: Mechanism
    budget: Fraction
    levels: Shares
    queries: Mapping[str, Shares]
    delta: Fraction = REPORTING_DELTA
    neighbours: Neighbours = "replace-one"
    only_child: bool = False
    rounding: str = "margins"
    passes: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    check_constraints: bool = True
    attributes: tuple[str, ...] = ()
    groupings: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.mechanism not in ("geometric", "gaussian"):
            raise BudgetError(f'mechanism must be "geometric" or "gaussian". Got {self.mechanism!r} instead.')
        if self.neighbours not in ("replace-one", "add-or-remove"):
            raise BudgetError(f'neighbours must be "replace-one" or "add-or-remove". Got {self.neighbours!r} instead.')
        for name in ("only_child", "check_constraints"):
            if not isinstance(getattr(self, name), bool):
                raise StrategyError(f"{name} must be true or false. Got {getattr(self, name)!r} instead.")
        if self.rounding not in ("margins", "cells"):
            raise StrategyError(f'rounding must be "margins" or "cells". Got {self.rounding!r} instead.')
        put(self, "budget", exact(self.budget, self.unit))
        put(self, "delta", exact_delta(self.delta))
        put(self, "levels", _shares("levels", self.levels))
        put(self, "groupings", Frozen(dict(self.groupings)))
        put(self, "attributes", tuple(self.attributes))
        self._check_levels()
        put(self, "queries", {level: self.queries[level] for level in self.levels})  # their order decides the spelling
        self._check_factors()
        put(self, "queries", self._checked_queries())
        put(self, "passes", self._checked_passes())
        put(self, "constraints", tuple(map(self._spelled_constraint, self.constraints)))
        for constraint in self.constraints:
            level = getattr(constraint, "level", None)
            if level is not None and level not in self.levels:
                raise StrategyError(
                    f"constraint ({constraint.words()}): unknown level {level!r}. "
                    f"The levels are {', '.join(self.levels)}."
                )
        if self.neighbours == "add-or-remove" and any(map(self._fixes, self.constraints)):
            raise BudgetError(
                'neighbours = "add-or-remove" with an invariant: adding a person changes every exact count, so nothing '
                'would be protected. Drop the invariant, or use "replace-one".'
            )

    @classmethod
    def preset(cls, name: str, *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """A published strategy by name, with its own budget or another (see ``tallyveil presets``)."""
        from tallyveil.privacy.presets import read_preset

        return read_preset(name, epsilon=epsilon, rho=rho)

    @classmethod
    def read(cls, path: str | PathLike[str], *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """A strategy from a TOML file."""
        from tallyveil.privacy.strategy_toml import read_strategy

        return read_strategy(path, epsilon=epsilon, rho=rho)

    @classmethod
    def default(
        cls, spine: Spine, schema: Schema, *, epsilon: Number | None = None, rho: Number | None = None
    ) -> Strategy:
        """Equal shares: for every level, and for total, each attribute and detailed within it.

        Under replace-one neighbours the root's total cannot change: it is exact at no cost and gets no share.
        """
        queries = dict.fromkeys(schema.query(name).name for name in (TOTAL, *schema.attributes, DETAILED))
        by_level = {level: dict.fromkeys(queries, 1) for level in spine.levels}
        del by_level[spine.levels[0]][TOTAL]
        mechanism, budget = _mechanism_and_budget(epsilon, rho)
        return cls.proportional(
            mechanism=mechanism,
            budget=budget,
            levels=dict.fromkeys(spine.levels, 1),
            queries=by_level,
            attributes=tuple(schema.attributes),
            groupings={name: grouping.of for name, grouping in schema.groupings.items()},
        )

    @classmethod
    def proportional(
        cls, *, levels: Mapping[str, Number], queries: Mapping[str, Mapping[str, Number]], **fields: Any
    ) -> Strategy:
        """A strategy from weights, which are rescaled to sum to one."""
        return cls(
            levels=_rescaled("levels", levels),
            queries={level: _rescaled(f"queries of level {level!r}", weights) for level, weights in queries.items()},
            **fields,
        )

    @property
    def unit(self) -> str:
        """What the budget is counted in: epsilon or rho."""
        return "epsilon" if self.mechanism == "geometric" else "rho"

    def with_budget(self, *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """The same shares of another budget. An epsilon for a Gaussian strategy means the largest rho for it."""
        if epsilon is not None and rho is not None:
            raise BudgetError("epsilon and rho are both given. Give one.")
        if epsilon is None and rho is None:
            return self
        if self.mechanism == "geometric":
            if rho is not None:
                raise BudgetError(f"rho {rho} for a geometric strategy: its budget is an epsilon. Give epsilon.")
            return replace(self, budget=exact(epsilon, "epsilon"))  # type: ignore[arg-type]
        largest = exact(rho, "rho") if rho is not None else Fraction(rho_from_epsilon(epsilon, self.delta))  # type: ignore[arg-type]
        return replace(self, budget=largest)

    def share(self, level: str, query: str) -> Fraction:
        """A query's share of the whole budget at a level."""
        return self.levels[level] * self.queries[level][self.written(level, query)]

    def noise(self, level: str, query: str, *, level_share: Fraction | None = None) -> Geometric | DiscreteGaussian:
        """The noise of a query at a level (for a unit with another share of the level, given that share)."""
        measured = self.written(level, query)
        share = (self.levels[level] if level_share is None else level_share) * self.queries[level][measured]
        changes = (
            2 if self.neighbours == "replace-one" else 1
        )  # counts of one query that a neighbour changes, by 1 each
        if self.mechanism == "geometric":
            return Geometric(z=self.budget * share / changes)
        return DiscreteGaussian(variance=changes / (2 * self.budget * share))

    def spends(self) -> Iterator[Spend]:
        """Every measurement, level by level."""
        for level, queries in self.queries.items():
            for query in queries:
                yield Spend(level=level, query=query, share=self.share(level, query), noise=self.noise(level, query))

    @property
    def known_attributes(self) -> tuple[str, ...]:
        """The attributes that it was made for, or else those that its queries name, in that order."""
        if self.attributes:
            return self.attributes
        factors = (f for queries in self.queries.values() for q in queries for f in factors_of(q) if f != DETAILED)
        return tuple(dict.fromkeys(self.groupings.get(factor, factor) for factor in factors))

    def depends_on(self, query: str) -> frozenset[str]:
        """The attributes that a query's answer depends on."""
        if query == DETAILED:
            return frozenset(self.known_attributes)
        return frozenset(self.groupings.get(factor, factor) for factor in factors_of(query))

    def spelled(self, query: str) -> str:
        """A query in the one spelling that this strategy uses: factors in the order of its attributes.

        >>> plan = Strategy(mechanism="geometric", budget=1, levels={"us": 1}, queries={"us": {"total": 1}},
        ...                 attributes=("age", "sex"))
        >>> plan.spelled("sex*age")
        'age * sex'
        """
        place = {name: at for at, name in enumerate(self.known_attributes)}
        factors = factors_of(query)
        ordered = sorted(factors, key=lambda factor: place.get(self.groupings.get(factor, factor), len(place)))
        return " * ".join(ordered) or TOTAL

    def query_numbers(self) -> dict[str, int]:
        """A number for each query, the same at all levels: its place in the noise stream.

        Numbers follow the queries' factors in alphabetical order, so they depend on no spelling and no order.
        """
        names = {query for queries in self.queries.values() for query in queries}
        return {query: number for number, query in enumerate(sorted(names, key=_sorted_factors))}

    def canonical_bytes(self) -> Iterator[bytes]:
        """What is measured and how (not what is done with it afterwards), as bytes that depend on nothing else."""
        numbers = self.query_numbers()
        yield f"{self.mechanism} {self.budget} {self.neighbours} only child {self.only_child}".encode()
        for level in self.levels:
            yield f"{level} {self.levels[level]}".encode()
            for query in sorted(self.queries[level], key=_sorted_factors):
                yield f"{numbers[query]} {_sorted_factors(query)} {self.queries[level][query]}".encode()

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine or schema that the strategy was not made for."""
        what = f"strategy {self.name!r}" if self.name else "the strategy"
        if tuple(self.levels) != spine.levels:
            raise StrategyError(
                f"{what} is for the levels {', '.join(self.levels)}; the data has {', '.join(spine.levels)}. "
                f"Rename the data's levels, or give a strategy for them."
            )
        if not set(self.known_attributes) <= set(schema.attributes):
            raise StrategyError(
                f"{what} is for the attributes {', '.join(self.known_attributes)}; "
                f"the data has {', '.join(schema.attributes)}. "
                f"Rename the data's attributes, or give a strategy for them."
            )
        for name, of in self.groupings.items():
            if name in schema.groupings and schema.groupings[name].of != of:
                raise StrategyError(
                    f"{what} says that grouping {name!r} groups {of!r}; in the data it groups "
                    f"{schema.groupings[name].of!r}. Correct one of them."
                )
        for query in self.query_numbers():
            try:
                schema.query(query)
            except InputError as problem:
                raise StrategyError(str(problem)) from None
        for constraint in self.constraints:
            try:
                constraint.check(spine, schema)
            except InputError as problem:
                raise StrategyError(f"constraint ({constraint.words()}): {problem}") from None

    def written(self, level: str, query: str) -> str:
        """A query of a level as the strategy writes it; the order of its factors does not matter."""
        if level not in self.levels:
            raise StrategyError(f"unknown level {level!r}. The levels are {', '.join(self.levels)}.")
        if (spelled := self.spelled(query)) in self.queries[level]:
            return spelled
        raise StrategyError(f"query {query!r} is not measured at level {level!r} ({', '.join(self.queries[level])}).")

    def _check_levels(self) -> None:
        unknown = [level for level in self.queries if level not in self.levels]
        if unknown:
            raise BudgetError(
                f"queries of unknown level {', '.join(map(repr, unknown))}. The levels are {', '.join(self.levels)}."
            )
        missing = [level for level in self.levels if level not in self.queries]
        if missing:
            raise BudgetError(
                f"level {', '.join(map(repr, missing))} has no queries. Give shares for it, or leave it out."
            )

    def _check_factors(self) -> None:
        known = {*self.known_attributes, *self.groupings}
        for grouping, of in self.groupings.items():
            if of not in self.known_attributes:
                raise StrategyError(f"grouping {grouping!r} groups {of!r}, which is not among the attributes.")
        for level, queries in self.queries.items():
            for query in queries:
                for factor in factors_of(query):
                    if factor not in known and factor != DETAILED:
                        raise StrategyError(
                            f"queries of level {level!r}: unknown factor {factor!r} in {query!r}. "
                            f"Known are {', '.join([*self.known_attributes, *self.groupings])}."
                        )

    def _checked_queries(self) -> Mapping[str, Shares]:
        """Shares by level and query, levels in order and each query in its one spelling."""
        checked = {}
        for level in self.levels:
            given = _shares(f"queries of level {level!r}", self.queries[level])
            checked[level] = Frozen({self.spelled(query): share for query, share in given.items()})
            if len(checked[level]) != len(given):
                raise BudgetError(f"queries of level {level!r}: one is named twice ({', '.join(given)}). Add them up.")
        return Frozen(checked)

    def _checked_passes(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        checked = {}
        for level, passes in self.passes.items():
            if level not in self.levels:
                raise StrategyError(f"passes of unknown level {level!r}. The levels are {', '.join(self.levels)}.")
            checked[level] = tuple(
                tuple(query if query == "*" else self.spelled(query) for query in one) for one in passes
            )
            for query in (query for one in checked[level] for query in one):
                if query != "*" and query not in self.queries[level]:
                    raise StrategyError(
                        f"passes of level {level!r}: query {query!r} is not measured there "
                        f"({', '.join(self.queries[level])})."
                    )
        return Frozen(checked)

    def _fixes(self, constraint: Constraint) -> bool:
        """Whether neighbours of which one has a person more cannot keep it: an invariant, or a total that is fixed."""
        if isinstance(constraint, Bound):
            whole = not constraint.units or constraint.level == next(iter(self.levels))
            return constraint.pins and self.check_constraints and constraint.query == TOTAL and whole
        return isinstance(constraint, Invariant)

    def _spelled_constraint(self, constraint: Constraint) -> Constraint:
        """An invariant in the strategy's spelling; a bound's rows follow the spelling of its query, so it stays."""
        if isinstance(constraint, Invariant):
            return replace(constraint, query=self.spelled(constraint.query))
        return constraint


def _mechanism_and_budget(epsilon: Number | None, rho: Number | None) -> tuple[Mechanism, Fraction]:
    if (epsilon is None) == (rho is None):
        raise BudgetError("give a budget: epsilon (geometric noise) or rho (discrete Gaussian noise), one of them.")
    if epsilon is not None:
        return "geometric", exact(epsilon, "epsilon")
    assert rho is not None
    return "gaussian", exact(rho, "rho")


def _sorted_factors(query: str) -> str:
    return " * ".join(sorted(factors_of(query)))


def _shares(what: str, shares: Mapping[str, Number]) -> Shares:
    table = {name: exact(share, f"share of {name!r} in {what}") for name, share in shares.items()}
    total = sum(table.values(), Fraction(0))
    if total != 1:
        listed = ", ".join(f"{name}={text(share)}" for name, share in table.items())
        raise BudgetError(
            f"shares of {what} sum to {total}, not 1 ({listed}). Rescale them, or use Strategy.proportional(...)."
        )
    return Frozen(table)


def _rescaled(what: str, weights: Mapping[str, Number]) -> Shares:
    table = {name: exact(weight, f"weight of {name!r} in {what}") for name, weight in weights.items()}
    total = sum(table.values(), Fraction(0))
    return {name: weight / total for name, weight in table.items()}
