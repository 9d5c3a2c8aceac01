"""One search for shares: the question, and the strategy with exact fractions that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from tallyveil._arrays import Bools, Floats
from tallyveil.allocation.budgets import with_least_budget
from tallyveil.allocation.goals import Goal
from tallyveil.allocation.model import Estimator, Model
from tallyveil.allocation.objective import Kind, Objective, PowerLaw, objective_of
from tallyveil.allocation.optimise import Room, goals_met, least_budget, least_error, unreached
from tallyveil.allocation.precision import Pair
from tallyveil.allocation.risk_bound import RiskBound
from tallyveil.allocation.shares import as_strategy, droppable
from tallyveil.engine.estimate.one_thread import one_thread
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy

SAFE = 0.999  # what of a bound or a budget is used before shares are rounded
SEARCHED = 1 << 19  # numbers in the covariances of a stage while shares are searched; results are predicted in full
TRIES = 6  # rounds between shares and the bound on risk


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is known, and what is wanted of the shares.

    Attributes
    ----------
    queries
        The queries that are predicted.
    weights, kind
        The objective; without weights, the least budget that meets the goals is sought.
    least
        The smallest share of a level.
    """

    spine: Spine
    schema: Schema
    queries: Sequence[str]
    facilities: Facilities | None
    optimised: OptimisedSpine | None
    estimator: Estimator
    least: Fraction
    goals: Sequence[Goal] = ()
    weights: Mapping[Pair, float] | None = None
    kind: Kind | None = None
    risk: RiskBound | None = None
    corrections: Mapping[Pair, PowerLaw] = field(default_factory=dict)

    def calibrated(self, strategy: Strategy) -> Strategy:
        """The strategy with the noise that it has on this spine."""
        return calibrated(strategy, spine=self.spine, schema=self.schema, optimised=self.optimised)

    def model(self, strategy: Strategy, *, most: int | None = None) -> Model:
        """The predicted variances of a strategy, as a function of its shares; ``most`` as for ``Model``."""
        plan = self.calibrated(strategy)
        if self.facilities is None:  # as if every type may be anywhere
            open_to_all = tuple(one for one in plan.constraints if not isinstance(one, FacilityBounds))
            plan = replace(plan, constraints=open_to_all)
        return Model(
            spine=self.spine,
            schema=self.schema,
            strategy=plan,
            queries=self.queries,
            facilities=self.facilities,
            optimised=self.optimised,
            estimator=self.estimator,
            most=most,
        )

    def objective(self, model: Model) -> Objective | None:
        """The objective; None if the budget itself is minimised."""
        if self.weights is None:
            return None
        return replace(objective_of(model, self.weights, self.kind), corrections=self.corrections)

    def with_needed_budget(self, strategy: Strategy, model: Model, shares: Floats) -> Strategy:
        """The strategy with the least budget that meets the goals with these shares."""
        needed = least_budget(model, self.goals, shares)
        return with_least_budget(strategy, needed, spine=self.spine, schema=self.schema, optimised=self.optimised)


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """A strategy with exact fractions; ``value`` is the logarithm of its objective or budget."""

    strategy: Strategy
    value: float
    gap: float | None


def search(question: Question, strategy: Strategy, *, may_drop: bool = False) -> Answer:
    """The best shares of a strategy's measurements. With ``may_drop``, measurements may end near zero."""
    with one_thread():
        return _search(question, strategy, may_drop=may_drop)


def _search(question: Question, strategy: Strategy, *, may_drop: bool) -> Answer:
    model, full = question.model(strategy, most=SEARCHED), question.model(strategy)
    objective = question.objective(model)
    leaf = np.array([level == question.spine.leaf for level, _ in model.pairs])
    most: float | None = None
    for attempt in range(TRIES):
        room = _room(question, strategy, leaf, may_drop=may_drop)
        shares, gap = _shares(question, model, objective, room, most)
        answer = _answer(question, strategy, full, objective, shares, gap)
        if question.risk is None:
            return answer
        plan = question.calibrated(answer.strategy)
        if not leaf.any() or question.risk.keeps(plan):
            return answer
        most = question.risk.largest(plan) * SAFE ** (attempt + 1)
    raise InputError("no shares that keep the bound on risk were found. Give a larger bound, or a smaller budget.")


def _room(question: Question, strategy: Strategy, leaf: Bools, *, may_drop: bool) -> Room:
    """Floors that leave each level its least share: for every query alike, or for the most detailed one alone."""
    spends = list(strategy.spends())
    floor = np.array([float(question.least) / len(strategy.queries[spend.level]) for spend in spends])
    if may_drop:
        floor = np.where(droppable(strategy) > 0, 0.0, float(question.least))
    return Room(floor=floor, capped=leaf)


def _shares(
    question: Question, model: Model, objective: Objective | None, room: Room, most: float | None
) -> tuple[Floats, float | None]:
    """The best shares, while the leaf level's budget is at most ``most``, and the gap where there is one."""
    budget, starts = float(model.strategy.budget), _starts(model)
    if question.goals:
        fixed = None if objective is None else budget * SAFE
        shares, _ = goals_met(model, question.goals, room, starts=starts, objective=objective, budget=fixed, most=most)
        return shares, None
    assert objective is not None
    if most is not None:
        room = replace(room, cap=most / budget)
        if most / budget <= float(question.least):
            raise InputError(
                f"the bound on risk leaves level {question.spine.leaf!r} a share of {most / budget:.2g}, and every "
                f"level keeps {float(question.least):g}. Give a larger bound, or a smaller least share."
            )
    found = least_error(model, objective, room, starts=starts, budget=budget)
    return found.shares, found.gap if _is_convex(model) else None


def _answer(
    question: Question,
    strategy: Strategy,
    model: Model,
    objective: Objective | None,
    shares: Floats,
    gap: float | None,
) -> Answer:
    """The strategy with these shares as fractions, and with the budget that it needs."""
    made = as_strategy(strategy, shares)
    rounded = np.array([float(spend.share) for spend in made.spends()])
    if objective is None:
        made = question.with_needed_budget(made, model, rounded)
        return Answer(strategy=made, value=float(np.log(float(question.calibrated(made).budget))), gap=gap)
    budget = float(question.calibrated(made).budget)
    if question.goals and least_budget(model, question.goals, rounded) > budget:  # a thinned tree promised too much
        raise InputError(unreached(question.goals, budget, None))
    value = objective.value(model, model.predict(rounded, budget))[0]
    return Answer(strategy=made, value=value, gap=gap)


def _starts(model: Model) -> list[Floats]:
    """Where searches start: near the strategy's own shares; where the problem is not convex, elsewhere too."""
    own = (model.shares + 1 / len(model.shares)) / 2
    if _is_convex(model):
        return [own]
    levels = list(model.strategy.levels)
    depth = np.array([levels.index(level) for level, _ in model.pairs])
    others = [np.power(slope, depth.astype(np.float64)) for slope in (0.3, 1.0, 3.0)]
    return [own, *(start / start.sum() for start in others)]


def _is_convex(model: Model) -> bool:
    """Whether every precision is proportional to its share, and estimates are the best ones."""
    alone = all(int(one.spans.max(initial=0)) <= 1 for tree in model.trees for one in tree.problem.stages)
    coarse = all(spend.noise.actual_variance() >= 1 for spend in model.strategy.spends())
    return model.strategy.mechanism == "gaussian" and model.estimator == "tree" and alone and coarse
