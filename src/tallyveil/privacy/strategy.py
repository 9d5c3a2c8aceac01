r"""Strategies: a privacy budget and how it is divided by level, and by query within a level, as exact fractions.

By default, neighbouring datasets differ in one replaced record (replace-one). In each level one count decreases by 1
and another increases by 1, so a query has an L1 sensitivity of 2 and a squared L2 sensitivity of 2. With a budget of
:math:`\varepsilon_q` or :math:`\rho_q` for a query, the noise is therefore geometric with parameter
:math:`\varepsilon_q / 2`, or discrete Gaussian with variance :math:`2 / (2\rho_q) = 1/\rho_q`. For add-or-remove
neighbours one count changes by 1: the parameter is :math:`\varepsilon_q` and the variance :math:`1/(2\rho_q)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from os import PathLike
from typing import Any, Literal, final

from tallyveil._frozen import Frozen
from tallyveil.errors import BudgetError, StrategyError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import DETAILED, TOTAL, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number, Shares, exact, exact_delta, exact_shares, rescaled_shares
from tallyveil.privacy.constraints import Bound, Constraint, FacilityBounds, Invariant
from tallyveil.privacy.conversions import epsilon_from_rho, rho_from_epsilon
from tallyveil.privacy.exactness import Exactness
from tallyveil.privacy.noise import DiscreteGaussian, Geometric
from tallyveil.privacy.strategy_checks import (
    check_accounting,
    check_constraint_levels,
    check_estimator,
    check_factors,
    check_fit,
    check_levels,
    check_options,
    check_passes,
)

Mechanism = Literal["geometric", "gaussian"]
Neighbours = Literal["replace-one", "add-or-remove"]
Accounting = Literal["zcdp", "pld"]
Estimator = Literal["topdown", "tree"]
REPORTING_DELTA = Fraction(1, 10**10)
MOST_LEAF_ANSWERS = 3 * 10**7  # that the default strategy draws noise for, to inform the levels above


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One measurement of a strategy: its share of the budget and the noise that follows from it."""

    level: str
    query: str
    share: Fraction
    strategy: Strategy = field(repr=False, compare=False)

    @property
    def noise(self) -> Geometric | DiscreteGaussian:
        """The noise that follows from the share and the budget."""
        return self.strategy.noise(self.level, self.query)


@final
@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A privacy budget and its division over levels and queries.

    Attributes
    ----------
    mechanism
        ``"geometric"`` (pure differential privacy) or ``"gaussian"`` (zCDP, discrete Gaussian).
    budget
        The epsilon of a geometric strategy, or the rho of a Gaussian one.
    accounting, epsilon, calibrated
        ``"zcdp"``: rho is the budget, and epsilon at delta follows from it. ``"pld"`` (Gaussian strategies):
        ``epsilon`` at ``delta`` is what is wanted, and rho follows from the privacy loss distribution on the spine that
        is measured (``calibrate``). Until it is ``calibrated``, rho is the one that gives the same guarantee by zCDP.
    levels
        The share of each level, from coarse to fine. Shares sum to 1. A level may have the share 0, and no queries, if
        invariants make all its counts exact.
    queries
        The share of each query of each level. The shares of a level sum to 1.
    delta
        The delta at which epsilon is reported for a Gaussian strategy. It is part of the budget only if the accounting
        is by privacy loss distribution.
    neighbours
        Which datasets are neighbours: ``"replace-one"`` or ``"add-or-remove"``.
    only_child
        Whether a unit with one child takes over the share of that child (the 2020 rule).
    rounding, passes
        How TopDown rounds, and in which passes it solves a level.
    estimator, information_from
        ``"topdown"``: each level is estimated from its own measurements and the level above. ``"tree"``: from what the
        levels below say too, up from the level ``information_from`` (by default one level above the leaves). The noise
        is the same for both.
    constraints
        What every release must satisfy.
    check_constraints
        Whether the data are checked against the bounds before a run. If so, the guarantee covers neighbouring datasets
        that satisfy them. Otherwise the bounds are enforced only on the release, and the data are never compared with
        them.
    attributes, groupings
        The attributes for which it was made, and the attribute of each grouping. Attributes may be omitted; then they
        are those of the data (``known_attributes`` lists those that the queries name).
    name
        The name of the preset, if it is one.

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
    budget: Fraction = Fraction(0)
    levels: Shares
    queries: Mapping[str, Shares]
    accounting: Accounting = "zcdp"
    epsilon: Fraction | None = None
    calibrated: bool = False
    delta: Fraction = REPORTING_DELTA
    neighbours: Neighbours = "replace-one"
    only_child: bool = False
    rounding: str = "margins"
    passes: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    estimator: Estimator = "topdown"
    information_from: str | None = None
    constraints: tuple[Constraint, ...] = ()
    check_constraints: bool = True
    attributes: tuple[str, ...] = ()
    groupings: Mapping[str, str] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        check_options(
            mechanism=self.mechanism,
            neighbours=self.neighbours,
            rounding=self.rounding,
            only_child=self.only_child,
            check_constraints=self.check_constraints,
        )
        check_accounting(self.accounting, mechanism=self.mechanism, epsilon=self.epsilon, calibrated=self.calibrated)
        put(self, "delta", exact_delta(self.delta))
        if self.epsilon is not None:
            put(self, "epsilon", exact(self.epsilon, "epsilon"))
        if self.epsilon is not None and not self.calibrated:
            put(self, "budget", _zcdp_rho(self.epsilon, self.delta))
        put(self, "budget", exact(self.budget, self.unit))
        put(self, "levels", exact_shares("levels", self.levels, zero=True))
        put(self, "groupings", Frozen(dict(self.groupings)))
        put(self, "attributes", tuple(self.attributes))
        check_levels(self.levels, self.queries)
        # spelling follows the order of the levels, so the queries are put in that order first
        put(self, "queries", {level: self.queries.get(level, {}) for level in self.levels})
        check_factors(self.queries, self.known_attributes, self.groupings)
        put(self, "queries", self._checked_queries())
        put(self, "passes", Frozen({level: self._spelled_passes(passes) for level, passes in self.passes.items()}))
        check_passes(self.passes, self.levels, self.queries)
        put(self, "constraints", tuple(map(self._spelled_constraint, self.constraints)))
        check_constraint_levels(self.constraints, self.levels)
        check_estimator(self.estimator, self.information_from, self.levels)
        if self.neighbours == "add-or-remove" and any(map(self._fixes, self.constraints)):
            raise BudgetError(
                'neighbours = "add-or-remove" with an invariant: adding a person changes every exact count, so nothing '
                'would be protected. Drop the invariant, or use "replace-one".'
            )

    @classmethod
    def preset(cls, name: str, *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """Return a published strategy, with its own budget or another one (see ``tallyveil presets``)."""
        from tallyveil.privacy.presets import read_preset

        return read_preset(name, epsilon=epsilon, rho=rho)

    @classmethod
    def read(cls, path: str | PathLike[str], *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """Read a strategy from a TOML file. A budget passed here replaces the one in the file."""
        from tallyveil.privacy.strategy_toml import read_strategy

        return read_strategy(path, epsilon=epsilon, rho=rho)

    @classmethod
    def default(
        cls,
        spine: Spine,
        schema: Schema,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        invariants: Iterable[Invariant] = (),
        optimised: OptimisedSpine | None = None,
        accounting: Accounting = "zcdp",
    ) -> Strategy:
        """Return a strategy with equal shares for all levels, and for total, each attribute and detailed within them.

        Nothing is spent on what is exact (see ``Exactness``): the total of the root, which cannot change under
        replace-one neighbours, and whatever the invariants fix on the spine that is measured. The other queries of the
        level share it. If all counts of a level are exact, the other levels share its share.

        Levels are estimated from the levels below, too (``estimator = "tree"``): from the leaves up, or one level above
        them if the leaves have more than 30 million answers in all.

        >>> spine = Spine.from_columns({"block": ["1", "2"]}, root="town")
        >>> schema = Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
        >>> plan = Strategy.default(spine, schema, epsilon=1, invariants=[Invariant(query="age", level="block")])
        >>> {level: list(queries) for level, queries in plan.queries.items()}
        {'town': ['sex', 'detailed'], 'block': ['sex', 'detailed']}
        """
        kept = tuple(invariants)
        exact = Exactness(spine=spine, schema=schema, invariants=kept, optimised=optimised)
        names = dict.fromkeys(schema.query(name).name for name in (TOTAL, *schema.attributes, DETAILED))
        queries = {level: [name for name in names if not exact.holds(name, level)] for level in spine.levels}
        if not any(queries.values()):
            why = "; ".join(one.words() for one in kept) or "there is one unit and one cell"
            raise BudgetError(f"every count is exact ({why}), so there is nothing to measure. Drop an invariant.")
        return cls.proportional(
            **_budget_fields(epsilon, rho, accounting),
            levels={level: 1 if measured else 0 for level, measured in queries.items()},
            queries={level: dict.fromkeys(measured, 1) for level, measured in queries.items()},
            constraints=kept,
            attributes=tuple(schema.attributes),
            groupings={name: grouping.of for name, grouping in schema.groupings.items()},
            estimator="tree",
            information_from=_default_information(spine, queries, schema),
        )

    @classmethod
    def proportional(
        cls, *, levels: Mapping[str, Number], queries: Mapping[str, Mapping[str, Number]], **fields: Any
    ) -> Strategy:
        """Build a strategy from weights, which are rescaled to sum to 1."""
        return cls(
            levels=rescaled_shares("levels", levels, zero=True),
            queries={
                level: rescaled_shares(f"queries of level {level!r}", weights) for level, weights in queries.items()
            },
            **fields,
        )

    @property
    def unit(self) -> str:
        """The unit of the budget: epsilon or rho."""
        return "epsilon" if self.mechanism == "geometric" else "rho"

    @property
    def budgets(self) -> dict[str, Fraction]:
        """The budget by its name in a file: epsilon or rho, or the wanted epsilon and then the calibrated rho."""
        if self.epsilon is None:
            return {self.unit: self.budget}
        return {"epsilon": self.epsilon} | ({"rho": self.budget} if self.calibrated else {})

    def bounded_by(self, facilities: Facilities | None) -> Strategy:
        """Return the strategy with bounds that say whether these facilities were counted in the file of the people."""
        if facilities is None or not facilities.from_people:
            return self
        constraints = (replace(c, from_people=True) if isinstance(c, FacilityBounds) else c for c in self.constraints)
        return replace(self, constraints=tuple(constraints))

    def with_budget(self, *, epsilon: Number | None = None, rho: Number | None = None) -> Strategy:
        """Return the strategy with another budget. For a Gaussian strategy, an epsilon means the largest rho for it.

        That rho is the one of the strategy's accounting. A rho that is given is accounted for by zCDP.
        """
        if epsilon is not None and rho is not None:
            raise BudgetError("epsilon and rho are both given. Give one.")
        if epsilon is None and rho is None:
            return self
        if self.mechanism == "geometric":
            if rho is not None:
                raise BudgetError(f"rho {rho} for a geometric strategy: its budget is an epsilon. Give epsilon.")
            return replace(self, budget=exact(epsilon, "epsilon"))  # type: ignore[arg-type]
        if rho is not None:
            return replace(self, budget=exact(rho, "rho"), accounting="zcdp", epsilon=None, calibrated=False)
        assert epsilon is not None
        if self.accounting == "pld":
            return replace(self, epsilon=exact(epsilon, "epsilon"), calibrated=False)
        return replace(self, budget=Fraction(rho_from_epsilon(epsilon, self.delta)))

    def with_accounting(self, accounting: Accounting) -> Strategy:
        """Return the strategy with the same epsilon at delta by another accountant: with more or less noise.

        >>> plan = Strategy.preset("pl94-2020-us-persons").with_accounting("pld")
        >>> float(plan.epsilon), plan.calibrated          # calibrated when the spine is known
        (17.14355, False)
        """
        if accounting == self.accounting:
            return self
        if accounting == "pld":
            check_accounting(accounting, mechanism=self.mechanism, epsilon=1, calibrated=False)
            return replace(self, accounting="pld", epsilon=_same_epsilon(self.budget, self.delta))
        safe = _zcdp_rho(self.epsilon, self.delta) if self.epsilon is not None else self.budget
        return replace(self, accounting=accounting, epsilon=None, calibrated=False, budget=safe)

    def with_estimator(self, estimator: Estimator) -> Strategy:
        """Return the strategy with another estimator. What is measured, and the noise, stay the same."""
        if estimator == self.estimator:
            return self
        return replace(self, estimator=estimator, information_from=None)

    @property
    def information_level(self) -> str | None:
        """The finest level that informs the levels above it: that of the field, or one above the leaves."""
        if self.estimator == "topdown":
            return None
        levels = list(self.levels)
        return self.information_from or levels[max(0, len(levels) - 2)]

    @property
    def informed_levels(self) -> tuple[str, ...]:
        """The levels that the levels below inform: those between the root and the level of the information."""
        levels = tuple(self.levels)
        return () if self.information_level is None else levels[1 : levels.index(self.information_level)]

    def share(self, level: str, query: str) -> Fraction:
        """Return the share of a query at a level, as a fraction of the whole budget."""
        return self.levels[level] * self.queries[level][self.written(level, query)]

    def noise(self, level: str, query: str, *, level_share: Fraction | None = None) -> Geometric | DiscreteGaussian:
        """Return the noise of a query at a level. ``level_share`` replaces the level's share, for one unit."""
        place = level, query, level_share
        if place not in self._noises:
            self._noises[place] = self._noise(level, query, level_share)
        return self._noises[place]

    @cached_property
    def _noises(self) -> dict[tuple[str, str, Fraction | None], Geometric | DiscreteGaussian]:
        """The noises that were asked for: a run on a small tree asks a hundred times for a dozen of them."""
        return {}

    def _noise(self, level: str, query: str, level_share: Fraction | None) -> Geometric | DiscreteGaussian:
        measured = self.written(level, query)
        if self.epsilon is not None and not self.calibrated:
            raise StrategyError(
                'accounting = "pld": the noise depends on the spine that is measured. Calibrate the strategy first: '
                "tallyveil.privacy.calibrate.calibrated(strategy, spine=..., schema=...)."
            )
        share = (self.levels[level] if level_share is None else level_share) * self.queries[level][measured]
        changes = 2 if self.neighbours == "replace-one" else 1  # counts of one query that change, by 1 each
        if self.mechanism == "geometric":
            return Geometric(z=self.budget * share / changes)
        return DiscreteGaussian(variance=changes / (2 * self.budget * share))

    def spends(self) -> Iterator[Spend]:
        """Yield all measurements, level by level."""
        for level, queries in self.queries.items():
            for query in queries:
                yield Spend(level=level, query=query, share=self.share(level, query), strategy=self)

    def exact_pairs(self, exact: Exactness) -> tuple[tuple[str, str], ...]:
        """Return the queries, each with a level, that invariants make exact, whether they are measured or not."""
        return exact.pairs(query for queries in self.queries.values() for query in queries)

    @property
    def known_attributes(self) -> tuple[str, ...]:
        """The attributes for which it was made, or those that its queries name, in that order, if there are none."""
        if self.attributes:
            return self.attributes
        factors = (f for queries in self.queries.values() for q in queries for f in factors_of(q) if f != DETAILED)
        return tuple(dict.fromkeys(self.groupings.get(factor, factor) for factor in factors))

    def depends_on(self, query: str) -> frozenset[str]:
        """Return the attributes on which the answer to a query depends."""
        if query == DETAILED:
            return frozenset(self.known_attributes)
        return frozenset(self.groupings.get(factor, factor) for factor in factors_of(query))

    def spelled(self, query: str) -> str:
        """Return the canonical spelling of a query: its factors in the order of the strategy's attributes.

        >>> plan = Strategy(mechanism="geometric", budget=1, levels={"us": 1}, queries={"us": {"total": 1}},
        ...                 attributes=("age", "sex"))
        >>> plan.spelled("sex*age")
        'age * sex'
        """
        place = {name: position for position, name in enumerate(self.known_attributes)}
        factors = factors_of(query)
        ordered = sorted(factors, key=lambda factor: place.get(self.groupings.get(factor, factor), len(place)))
        return " * ".join(ordered) or TOTAL

    def query_numbers(self) -> dict[str, int]:
        """Return a number for each query, the same at all levels: its place in the noise stream.

        Numbers follow the alphabetical order of the queries' sorted factors, so they depend on no spelling or order.
        """
        names = {query for queries in self.queries.values() for query in queries}
        return {query: number for number, query in enumerate(sorted(names, key=_sorted_factors))}

    def canonical_bytes(self) -> Iterator[bytes]:
        """Yield bytes that depend on what is measured and how, but not on post-processing."""
        numbers = self.query_numbers()
        yield f"{self.mechanism} {self.budget} {self.neighbours} only child {self.only_child}".encode()
        for level in self.levels:
            yield f"{level} {self.levels[level]}".encode()
            for query in sorted(self.queries[level], key=_sorted_factors):
                yield f"{numbers[query]} {_sorted_factors(query)} {self.queries[level][query]}".encode()

    def check(self, spine: Spine, schema: Schema) -> None:
        """Refuse a spine or schema for which the strategy was not made."""
        check_fit(self, spine, schema)

    def exactness(self, spine: Spine, schema: Schema, *, optimised: OptimisedSpine | None = None) -> Exactness:
        """Return which queries the strategy's invariants make exact, so that measuring them tells nothing."""
        return Exactness(
            spine=spine,
            schema=schema,
            invariants=tuple(one for one in self.constraints if isinstance(one, Invariant)),
            same_people=self.neighbours == "replace-one",
            optimised=optimised,
        )

    def written(self, level: str, query: str) -> str:
        """Return a measured query of a level as the strategy spells it; the order of factors does not matter."""
        if level not in self.levels:
            raise StrategyError(f"unknown level {level!r}. The levels are {', '.join(self.levels)}.")
        if (spelled := self.spelled(query)) in self.queries[level]:
            return spelled
        raise StrategyError(f"query {query!r} is not measured at level {level!r} ({', '.join(self.queries[level])}).")

    def _checked_queries(self) -> Mapping[str, Shares]:
        """Return the shares by level and query, with each query in its canonical spelling."""
        checked = {}
        for level, share in self.levels.items():
            shares = exact_shares(f"queries of level {level!r}", self.queries[level]) if share else {}
            checked[level] = Frozen({self.spelled(query): share for query, share in shares.items()})
            if len(checked[level]) != len(shares):
                raise BudgetError(f"queries of level {level!r}: one is named twice ({', '.join(shares)}). Add them up.")
        return Frozen(checked)

    def _spelled_passes(self, passes: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(query if query == "*" else self.spelled(query) for query in names) for names in passes)

    def _fixes(self, constraint: Constraint) -> bool:
        """Whether adding a person always breaks the constraint: an invariant, or a fixed total."""
        if isinstance(constraint, Bound):
            whole = not constraint.units or constraint.level == next(iter(self.levels))
            return constraint.pins and self.check_constraints and constraint.query == TOTAL and whole
        return isinstance(constraint, Invariant)

    def _spelled_constraint(self, constraint: Constraint) -> Constraint:
        """Spell the query of an invariant. A bound keeps its spelling, because the names of its rows follow it."""
        if isinstance(constraint, Invariant):
            return replace(constraint, query=self.spelled(constraint.query))
        return constraint


def _default_information(spine: Spine, queries: Mapping[str, Iterable[str]], schema: Schema) -> str | None:
    """Return the level from which information is used by default: the leaves, or else one level above them (None)."""
    answers = spine.size(spine.leaf) * sum(schema.query(query).size for query in queries[spine.leaf])
    return spine.leaf if answers <= MOST_LEAF_ANSWERS else None


def _budget_fields(epsilon: Number | None, rho: Number | None, accounting: Accounting) -> dict[str, Any]:
    """Return the fields of a strategy with this budget. By privacy loss distribution, the noise is Gaussian."""
    if (epsilon is None) == (rho is None):
        raise BudgetError("give a budget: either epsilon (geometric noise) or rho (discrete Gaussian noise).")
    if accounting == "zcdp":
        return {"mechanism": "geometric" if rho is None else "gaussian", "budget": epsilon if rho is None else rho}
    wanted = epsilon if rho is None else _same_epsilon(exact(rho, "rho"), REPORTING_DELTA)
    return {"mechanism": "gaussian", "accounting": accounting, "epsilon": wanted}


@lru_cache(maxsize=64)  # every copy of a strategy that is not calibrated needs it
def _zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    return Fraction(rho_from_epsilon(epsilon, delta))


def _same_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return the epsilon that rho gives by zCDP, rounded down to six decimals (or digits, if it is below 1)."""
    epsilon = Fraction(epsilon_from_rho(rho, delta))
    unit = Fraction(1, 10**6)
    while 0 < epsilon < 10**5 * unit:
        unit /= 10
    return epsilon // unit * unit


def _sorted_factors(query: str) -> str:
    return " * ".join(sorted(factors_of(query)))
