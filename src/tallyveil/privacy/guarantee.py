"""The guarantee of a budget or a strategy, as the figures that a certificate lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from tallyveil.nouns.histogram import Filter
from tallyveil.nouns.schema import DETAILED, Schema, factors_of
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_up
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import Bound, Constraint, FacilityBounds, StructuralZero, pinning
from tallyveil.privacy.conversions import epsilon_but_for_chance, epsilon_from_rho, implied_epsilon, rho_from_epsilon
from tallyveil.privacy.loss import OTHER, Loss
from tallyveil.privacy.pld import pld_delta, pld_epsilon
from tallyveil.privacy.strategy import REPORTING_DELTA, Strategy

if TYPE_CHECKING:
    from tallyveil.nouns.optimised_spine import OptimisedSpine

__all__ = ["OTHER", "Account", "Guarantee", "account_of", "account_of_epsilon", "account_of_rho", "guarantee_of"]
WITHOUT_SPINE = "without the only-child rule"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The figures of a privacy guarantee.

    Attributes
    ----------
    epsilon, rho, delta
        The guarantee: the largest loss between neighbouring datasets. For zero-concentrated differential privacy,
        epsilon is the one that rho implies at delta (Eq. 7 of kazan2022). Pure strategies have neither rho nor delta.
    accountant
        Which accountant epsilon is from: "pure", "zcdp" or "pld" (privacy loss distribution).
    zcdp_epsilon
        The epsilon that rho implies at delta, whichever accountant holds.
    implied_epsilon
        sqrt(2 rho), for comparison. It is not a guarantee (Theorem 2 of kazan2022).
    pld_epsilon, pld_reason
        The tighter epsilon from privacy loss distributions, or None and the reason why it cannot be computed.
    per_attribute
        For each attribute, the epsilon of what a release reveals about it to someone who knows all other attributes.
        These and the next are from rho, and at most the epsilon in all if the pairs of datasets are neighbours.
    within_level
        For each level, the epsilon of what a release reveals about where in a unit of that level a person lives, to
        someone who knows the unit.
    basis
        "without the only-child rule", if the rule applies but the figures were computed without a spine.
    """

    epsilon: float
    rho: float | None = None
    delta: float | None = None
    implied_epsilon: float | None = None
    accountant: str | None = None
    zcdp_epsilon: float | None = None
    pld_epsilon: float | None = None
    pld_reason: str | None = None
    per_attribute: dict[str, float] | None = None
    within_level: dict[str, float] | None = None
    basis: str | None = None

    @property
    def certain(self) -> float:
        """The epsilon that holds for every outcome, or for every one but for a chance of delta."""
        return self.epsilon if self.rho is None or self.delta is None else _certain(Fraction(self.rho), self.delta)

    def as_json(self) -> dict[str, Any]:
        """Return the figures under their JSON keys. Those of a strategy are omitted if there is none."""
        figures = asdict(self)
        if self.per_attribute is None:
            for name in (
                "accountant",
                "zcdp_epsilon",
                "pld_epsilon",
                "pld_reason",
                "per_attribute",
                "within_level",
                "basis",
            ):
                del figures[name]
        return figures


def account_of_rho(rho: Number, delta: Number = REPORTING_DELTA) -> Account:
    """Return the guarantee of rho-zCDP at a delta."""
    return Account(
        rho=rounded_up(exact(rho, "rho")),
        delta=float(exact_delta(delta)),
        epsilon=epsilon_from_rho(rho, delta),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of_epsilon(epsilon: Number, delta: Number = REPORTING_DELTA) -> Account:
    """Return the guarantee of the largest rho whose zCDP gives (epsilon, delta)."""
    rho = rho_from_epsilon(epsilon, delta)
    return Account(
        rho=rho,
        delta=float(exact_delta(delta)),
        epsilon=rounded_up(exact(epsilon, "epsilon")),
        implied_epsilon=implied_epsilon(rho),
    )


def account_of(
    strategy: Strategy,
    *,
    spine: Spine | None = None,
    schema: Schema | None = None,
    optimised: OptimisedSpine | None = None,
    delta: Number | None = None,
    pld: bool = True,
) -> Account:
    """Return the guarantee of a strategy: the largest loss of its noise over neighbouring datasets (see ``Loss``).

    Parameters
    ----------
    strategy
        The strategy that is measured.
    spine, schema
        The spine and schema of the data. Without them, the figures are those of a spine without only children.
    optimised
        The optimised spine, if the measurements are on it. ``spine`` is the published one.
    delta
        The delta at which epsilon is reported. By default, that of the strategy.
    pld
        Whether to compute ``pld_epsilon``. It is computed anyway if the strategy's accounting is by it.

    >>> figures = account_of(Strategy.preset("pl94-2020-us-persons"), pld=False)
    >>> round(figures.epsilon, 2), round(figures.within_level["state"], 2)
    (17.14, 13.05)
    """
    loss = Loss(strategy=strategy, spine=spine, schema=schema, optimised=optimised)
    return account_of_loss(loss, delta=delta, pld=pld)


def account_of_loss(loss: Loss, *, delta: Number | None = None, pld: bool = True) -> Account:
    """Return the guarantee of a loss, which knows how many records a person has (see :func:`account_of`)."""
    strategy, spine = loss.strategy, loss.spine
    if not strategy.calibrated:
        strategy = calibrated(strategy, spine=spine, schema=loss.schema, optimised=loss.optimised)
        loss = replace(loss, strategy=strategy)
    delta_ = exact_delta(strategy.delta if delta is None else delta)
    gaussian, whole = strategy.mechanism == "gaussian", loss.in_all()

    def from_rho(amount: Fraction) -> float:
        if amount == 0:
            return 0.0
        return epsilon_from_rho(amount, delta_) if gaussian else rounded_up(amount)

    by_pld = strategy.accounting == "pld"
    tight, reason = pld_epsilon(loss, delta_) if gaussian and (pld or by_pld) else (None, None)
    in_all = tight if by_pld and tight is not None else from_rho(whole)
    if by_pld and tight is not None and _holds_as_calibrated(loss, delta_):
        in_all = rounded_up(strategy.epsilon or Fraction(0))
        tight = min(tight, in_all)  # the search for it stops near the smallest
    most = in_all if strategy.neighbours == "replace-one" else math.inf
    return Account(
        epsilon=in_all,
        rho=rounded_up(whole) if gaussian else None,
        delta=float(delta_) if gaussian else None,
        implied_epsilon=(implied_epsilon(whole) if whole else 0.0) if gaussian else None,
        accountant="pure" if not gaussian else "pld" if by_pld and tight is not None else "zcdp",
        zcdp_epsilon=from_rho(whole) if gaussian else None,
        pld_epsilon=tight,
        pld_reason=reason,
        per_attribute={name: min(most, from_rho(amount)) for name, amount in loss.per_attribute().items()},
        within_level={level: min(most, from_rho(amount)) for level, amount in loss.within_level().items()},
        basis=WITHOUT_SPINE if spine is None and strategy.only_child else None,
    )


def _holds_as_calibrated(loss: Loss, delta: Fraction) -> bool:
    """Whether delta is that of the strategy, and the epsilon that it was calibrated to holds there."""
    wanted = loss.strategy.epsilon
    return wanted is not None and delta == loss.strategy.delta and pld_delta(loss, wanted) <= delta


@final
@dataclass(frozen=True, kw_only=True)
class ExactCounts:
    """Published counts of a query that have a single possible value, besides those of an ``ExactQuery``.

    Attributes
    ----------
    query, level
        What is counted, and for the units of which level.
    units
        In how many of the units, or ``"all"``.
    counts
        ``"all"`` if every count of the query is exact in these units; otherwise how many are, in all units together.
    source
        What fixes the counts: ``"people"`` (their number), ``"invariant"``, ``"bound"``, ``"zero"``, ``"facilities"``,
        or ``"follows"`` for several of these together.
    true
        Whether the counts equal those of the data. Otherwise they are fixed in the release, because the data are not
        compared with all constraints; the ones that also equal the data, if any, have an item of their own.
    """

    query: str
    level: str
    units: int | str
    counts: int | str
    source: str
    true: bool = True


@final
@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a run or a release promises, as facts; :mod:`tallyveil.privacy.sentences` puts them into words.

    Attributes
    ----------
    account, budget, neighbours
        The figures, the strategy's epsilon or rho, and its neighbours.
    record
        What a record is: ``"person"``, or ``"housing unit"`` for the presets of units.
    rows_per_person
        The most records of one person, where that was checked; None where nothing is known.
    levels, exact, exact_values
        The sizes of the published levels, coarse to fine; the queries that are exact, each with a published level; and
        other counts with a single possible value.
    invariants, constraints, unchecked
        What neighbours agree on and what they satisfy, in words; how many rules bind the release alone.
    filtered, stamps, seeded
        Which rows were counted in words, and whether it is public who they are; what the release is stamped with; and
        whether its own noise comes from a seed.
    """

    account: Account
    budget: Fraction
    neighbours: str
    record: str = "person"
    rows_per_person: int | None = None
    levels: Mapping[str, int]
    exact: Sequence[tuple[str, str]]
    exact_values: Sequence[ExactCounts] = ()
    invariants: Sequence[str]
    constraints: Sequence[str]
    unchecked: int = 0
    filtered: tuple[str, bool] | None
    stamps: Sequence[str]
    seeded: bool

    @property
    def whole(self) -> float:
        """The budget as a float, rounded up."""
        return rounded_up(self.budget)

    @property
    def certain(self) -> float:
        """The epsilon that holds for neighbours at every outcome, or at every one but for a chance of delta."""
        return self.account.certain

    @property
    def between_records(self) -> float:
        """The same for any two records of a person known to be in the data, which are two steps of add-or-remove."""
        if self.neighbours == "replace-one":
            return self.certain
        rho, delta = self.account.rho, self.account.delta
        return 2 * self.account.epsilon if rho is None or delta is None else _certain(2 * Fraction(rho), delta)

    @property
    def counted(self) -> str:
        """What the counts count."""
        return "people" if self.record == "person" and (self.rows_per_person or 1) == 1 else self.records

    @property
    def records(self) -> str:
        """What the records are, in the plural."""
        return "records" if self.record == "person" else f"{self.record}s"

    @property
    def hides_membership(self) -> bool:
        """Whether neighbours agree on how many people pass a filter, and it is not public who does."""
        return self.neighbours == "replace-one" and self.filtered is not None and not self.filtered[1]

    @property
    def unprotected(self) -> bool:
        """Whether more is exact than the number of people in all."""
        return bool(self.invariants) or any(one.true and one.source != "zero" for one in self.exact_values)

    @property
    def _everywhere(self) -> list[tuple[str, str]]:
        """The queries that are exact in every unit of a level, and equal to the data."""
        more = (one for one in self.exact_values if one.true and one.units == one.counts == "all")
        return [*self.exact, *((one.query, one.level) for one in more)]

    def fixes(self, query: str, level: str) -> bool:
        """Whether every count of a query in a level is exact, and equal to the data."""
        return (query, level) in self._everywhere

    def bare(self, attribute: str) -> bool:
        """Whether exact counts tell an attribute to someone who knows everybody else."""
        return any(query == DETAILED or attribute in factors_of(query) for query, _ in self._everywhere)

    def partly(self, attribute: str | None = None, *, within: str | None = None) -> bool:
        """Whether exact counts of some places tell an attribute, or a place in a unit of a level."""
        order = list(self.levels)
        some = (one for one in self.exact_values if one.true and one.source != "zero")
        if attribute is not None:
            return any(one.query == DETAILED or attribute in factors_of(one.query) for one in some)
        return any(order.index(one.level) > order.index(within or order[-1]) for one in some)

    def known_within(self, level: str) -> str | None:
        """The finest level down to which exact counts tell a person's place in a unit of a level, if any."""
        order = list(self.levels)
        finest = max((order.index(exact) for _, exact in self._everywhere), default=0)
        return (
            order[finest] if self.levels[order[finest]] > self.levels[level] and finest > order.index(level) else None
        )

    @classmethod
    def from_declared(cls, declared: Mapping[str, Any]) -> Guarantee:
        """What the declared part of a certificate promises."""
        figures, budget, kept = declared["guarantee"], declared["budget"], declared.get("filter")
        known = {field.name for field in fields(Account)} & set(figures)
        rules = [one["words"] for one in declared["constraints"] if one["source"] != "truth"]
        held = rules if figures["constraints"] else []
        return cls(
            account=Account(**{name: figures[name] for name in known}),
            budget=exact(budget["total"], "budget"),
            neighbours=figures["neighbours"],
            record=_record(declared["schema"]["attributes"]),
            rows_per_person=declared.get("rows_per_person"),
            levels={one["level"]: declared["spine"][one["level"]] for one in budget["levels"]},
            exact=[(one["query"], one["level"]) for one in budget["exact"]],
            exact_values=[ExactCounts(**one) for one in declared.get("exact_values", ())],
            invariants=[one["words"] for one in declared["constraints"] if one["source"] == "truth"],
            constraints=held,
            unchecked=len(rules) - len(held),
            filtered=None if kept is None else (kept["words"], kept["public"]),
            stamps=declared["stamps"],
            seeded=declared.get("seeded", any(stamp.startswith("seeded") for stamp in declared["stamps"])),
        )


def guarantee_of(
    loss: Loss,
    *,
    rows_per_person: int | None = None,
    filter: Filter | None = None,  # noqa: A002 (the noun's name)
    stamps: Sequence[str] = (),
    seeded: bool = False,
    exact_values: Sequence[ExactCounts] = (),
) -> Guarantee:
    """Return what a run will promise, from public inputs alone: the loss of its strategy on a spine and a schema."""
    strategy, spine, schema = loss.strategy, loss.spine, loss.schema
    assert spine is not None
    assert schema is not None
    held = constraints_in_words(strategy, schema)
    listed = {one.words() for one in strategy.constraints if source_of(strategy, one, schema) != "truth"}
    return Guarantee(
        account=account_of_loss(loss),
        budget=strategy.budget,
        neighbours=strategy.neighbours,
        record=_record(schema.attributes),
        rows_per_person=rows_per_person,
        levels={level: spine.size(level) for level in spine.levels},
        exact=strategy.exact_pairs(strategy.exactness(spine, schema)),
        exact_values=exact_values,
        invariants=invariants_in_words(strategy, schema),
        constraints=held,
        unchecked=len(listed - set(held)),
        filtered=None if filter is None else (filter.words(), filter.public),
        stamps=stamps,
        seeded=seeded,
    )


def invariants_in_words(strategy: Strategy, schema: Schema | None) -> list[str]:
    """What neighbours agree on besides the number of people, in words: invariants, and bounds that fix a value."""
    return [one.words() for one in strategy.constraints if source_of(strategy, one, schema) == "truth"]


def constraints_in_words(strategy: Strategy, schema: Schema | None) -> list[str]:
    """What neighbours must satisfy, in words: bounds and zeros that the data are checked against."""
    bounds = [
        c for c in strategy.constraints if strategy.check_constraints and source_of(strategy, c, schema) != "truth"
    ]
    listed = [*(constraint.words() for constraint in bounds), *([] if schema is None else zeros_in_words(schema))]
    return list(dict.fromkeys(listed))


def source_of(strategy: Strategy, constraint: Constraint, schema: Schema | None) -> str:
    """The source of a constraint; a bound that fixes a value of the data counts as an invariant."""
    if not isinstance(constraint, Bound | FacilityBounds) or not strategy.check_constraints:
        return constraint.source
    together = () if schema is None else pinning(strategy.constraints, schema)
    return "truth" if constraint.pins or constraint in together else constraint.source


def zeros_in_words(schema: Schema) -> list[str]:
    """The structural zeros of a schema, in words."""
    return [
        StructuralZero(cells={name: tuple(labels) for name, labels in zero.items()}).words() for zero in schema.zeros
    ]


def certain_of(loss: Loss, amount: Fraction) -> float:
    """Return the epsilon of a loss, in the strategy's unit, that holds but for a chance of its delta."""
    gaussian = loss.strategy.mechanism == "gaussian"
    return _certain(amount, float(loss.strategy.delta)) if gaussian else rounded_up(amount)


def _certain(rho: Fraction, delta: float) -> float:
    return epsilon_but_for_chance(rho, delta) if rho else 0.0


def _record(attributes: Iterable[str]) -> str:
    """What is counted: the schema of the Bureau's unit files has the one attribute h1."""
    return "housing unit" if list(attributes) == ["h1"] else "person"
