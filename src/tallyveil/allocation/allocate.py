"""``tv.allocate``: shares of the budget by level and query that serve a purpose, from public inputs alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tallyveil.allocation.goals import Goal, parse_goal
from tallyveil.allocation.model import Estimator, Model
from tallyveil.allocation.objective import Kind, PowerLaw, check_predicted, objective_of
from tallyveil.allocation.precision import Pair
from tallyveil.allocation.released import power_laws, released_squares
from tallyveil.allocation.result import Allocated
from tallyveil.allocation.risk_bound import RiskBound
from tallyveil.allocation.search import Answer, Question, search
from tallyveil.allocation.shares import droppable, parse_candidates, useful, with_candidates, without
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.constraints import FacilityBounds
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.budget.searches import Measure

if TYPE_CHECKING:
    import pandas as pd

LEAST = Fraction(1, 4)  # of an equal share, for each level
DROPPED = Fraction(2, 1000)  # a candidate with at most this share of its level is dropped
HELPFUL = 2e-3  # by which candidates must lower the logarithm of the objective, a tenth of a percent of the error
WORSE = 1e-4  # by which the objective may be worse for a dropped candidate, in logarithms


def allocate(
    spine: Spine,
    schema: Schema,
    strategy: Strategy,
    *,
    goals: Iterable[str] = (),
    weights: Mapping[str, Number] | None = None,
    objective: Kind | None = None,
    risk_bound: Number | None = None,
    risk_measure: Measure = "risk",
    priors: Sequence[Number] = ("1/2",),
    candidates: Sequence[str] = (),
    least: Number | None = None,
    estimator: Estimator = "tree",
    facilities: Facilities | None = None,
    optimised: OptimisedSpine | None = None,
    public_counts: Histogram | None = None,
    replicates: int = 4,
    seed: int = 0,
) -> Allocated:
    """Choose the shares of a strategy: least predicted error, or the least budget that meets goals.

    Nothing confidential is read: predicted variances depend on the units, the names and the noise alone.

    Parameters
    ----------
    spine, schema, strategy
        The units, the attributes, and the strategy to start from. Its shares are what gains are compared with.
    goals
        Such as ``"total@county within 20 in 95%"`` or ``"race@tract: CV under 10% above 500 people"``. Without weights,
        the budget is the least that meets all of them; with weights, it is the strategy's own.
    weights
        By ``"QUERY@LEVEL"``: what a mean squared error there counts. Without weights and goals, every measured query at
        every level counts the same, relative to its size.
    objective
        ``"sum"`` of weighted mean squared errors (the default with weights), or their weighted ``"geometric"`` mean.
    risk_bound, risk_measure, priors
        What an intruder may learn from the noisy counts of a leaf, as for ``risk.choose``.
    candidates
        Queries that may be measured too (``"QUERY"``, ``"QUERY@LEVEL"`` or ``"all"``). Measurements that end near zero
        are dropped, except the most detailed one of each level.
    least
        The smallest share of a level; by default a quarter of an equal share. Published counts sum to those of the
        level above, so a level with hardly any share spoils all levels below it, which predictions do not show.
    estimator
        For which estimates errors are predicted: ``"tree"`` for least squares over the whole tree (``tv.estimate``),
        or ``"topdown"`` for a unit's own measurements and its parent.
    facilities, optimised
        Public facilities, and the optimised spine, if it is measured.
    public_counts
        Counts that are declared public or synthetic. Releases of them at two budgets show what non-negativity does to
        errors, and the objective is corrected for it.
    replicates, seed
        The number of these releases at each budget, and the seed of the first.

    Examples
    --------
    >>> import tallyveil as tv
    >>> spine = tv.Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = tv.Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
    >>> plan = tv.Strategy.default(spine, schema, rho=1)
    >>> made = tv.allocate(spine, schema, plan, weights={"age@block": 1})
    >>> made.to_pandas()[["level", "query", "sd_before", "sd_after"]].round(2)
       level     query  sd_before  sd_after
    0   town       age       1.26      1.23
    1   town       sex       1.26      2.53
    2   town  detailed       1.41      2.60
    3   town     total       0.00      0.00
    4  block       age       1.60      0.98
    5  block       sex       1.60      2.88
    6  block  detailed       1.61      2.84
    7  block     total       1.54      1.22
    """
    _check_public(spine, public_counts)
    strategy.check(spine, schema)
    exactness = strategy.exactness(spine, schema, optimised=optimised)
    start = useful(strategy, exactness)
    wanted = [parse_goal(text, spine, schema) for text in goals]
    tried = parse_candidates(candidates, spine, schema)
    weighted = None if weights is None else _weights(weights, spine, schema)
    names = [schema.query(query).name for queries in strategy.queries.values() for query in queries]
    named = [query for _, query in [*(weighted or {}), *(goal.pair for goal in wanted), *tried]]
    question = Question(
        spine=spine,
        schema=schema,
        queries=list(dict.fromkeys([*names, *named])),
        facilities=facilities,
        optimised=optimised,
        estimator=estimator,
        least=_least(least, start),
        goals=wanted,
        kind=objective,
        risk=None if risk_bound is None else RiskBound(bound=risk_bound, measure=risk_measure, priors=priors),
    )
    base = question.model(start)
    for goal in wanted:
        check_predicted(base, *goal.pair)
    if weighted is None and not wanted:
        weighted = {pair: 1.0 for pair in base.places if pair[1] in names}
        question = replace(question, kind=objective or "geometric")
    if weighted is not None:
        weighted = dict(objective_of(base, weighted, question.kind).weights)
    laws = {} if public_counts is None else _laws(question, start, public_counts, replicates=replicates, seed=seed)
    question = replace(question, weights=weighted, corrections=laws)
    answer, dropped, notes = _answered(question, start, tried)
    return _result(question, strategy, answer, dropped, notes, public=public_counts, replicates=replicates, seed=seed)


def _check_public(spine: object, public_counts: object) -> None:
    """Refuse counts that nobody declared public."""
    if not isinstance(spine, Spine):
        raise InputError(
            f"allocate takes the spine of the units, not {type(spine).__name__}: shares are chosen from public inputs. "
            f"Pass people.spine; counts that are public or synthetic go to public_counts."
        )
    if public_counts is not None and not isinstance(public_counts, Histogram):
        raise InputError(f"public_counts must be a Histogram of public counts. Got {type(public_counts).__name__}.")


def _least(least: Number | None, strategy: Strategy) -> Fraction:
    levels = sum(1 for share in strategy.levels.values() if share)
    share = LEAST / levels if least is None else exact(least, "the least share")
    if share * levels >= 1:
        raise InputError(
            f"a least share of {least} for each of {levels} levels is all of the budget. Give a smaller one."
        )
    return share


def _weights(weights: Mapping[str, Number], spine: Spine, schema: Schema) -> dict[Pair, float]:
    """Weights by level and query from those by ``QUERY@LEVEL``."""
    found: dict[Pair, float] = {}
    for word, weight in weights.items():
        query, at, level = word.rpartition("@")
        if not at or not query.strip() or not level.strip():
            raise InputError(f'weight {word!r}: write it as QUERY@LEVEL, such as "total@county".')
        try:
            spine.depth(level.strip())
            pair = level.strip(), schema.query(query.strip()).name
            found[pair] = float(exact(weight, "the weight", zero=True))
        except InputError as problem:
            raise InputError(f"weight {word!r}: {problem}") from None
    if not found:
        raise InputError("no weights are given. Give one, or leave weights out.")
    return found


def _laws(
    question: Question, strategy: Strategy, people: Histogram, *, replicates: int, seed: int
) -> dict[Pair, PowerLaw]:
    """How released errors follow predicted ones on public counts, which may be on another spine of the same levels."""
    if replicates < 1:
        raise InputError(f"replicates must be 1 or more. Got {replicates} instead.")
    strategy.check(people.spine, people.schema)
    same = people.spine == question.spine
    model = replace(question, spine=people.spine, facilities=question.facilities if same else None).model(strategy)
    return power_laws(people, model, facilities=model.facilities, replicates=replicates, seed=seed)


def _answered(question: Question, start: Strategy, tried: Sequence[Pair]) -> tuple[Answer, tuple[Pair, ...], list[str]]:
    """The best shares of the fixed queries, or of candidates too, with what was dropped and what was gained by it."""
    fixed = search(question, start)
    exactness = start.exactness(question.spine, question.schema, optimised=question.optimised)
    wide = with_candidates(start, exactness, tried)
    if not tried:
        return fixed, (), []
    answer = search(question, wide, may_drop=True)
    small = {
        (spend.level, spend.query)
        for spend, may in zip(answer.strategy.spends(), droppable(answer.strategy), strict=True)
        if may and spend.share <= DROPPED * answer.strategy.levels[spend.level]
    }
    if small:
        again = search(question, without(wide, small), may_drop=True)
        answer, small = (again, small) if again.value <= answer.value + WORSE else (answer, set())
    if fixed.value <= answer.value + HELPFUL:
        note = "No candidate lowers the error: the fixed queries are kept."
        return fixed, tuple(pair for pair in _pairs(wide) if pair not in _pairs(fixed.strategy)), [note]
    what, factor = ("budget", 1.0) if question.weights is None else ("error", 0.5)
    less = -math.expm1(factor * (answer.value - fixed.value))
    note = f"Candidates lower the {what} by {less:.1%} against the best shares of the fixed queries."
    return answer, tuple(pair for pair in _pairs(wide) if pair not in _pairs(answer.strategy)), [note]


def _pairs(strategy: Strategy) -> list[Pair]:
    return [(spend.level, spend.query) for spend in strategy.spends()]


def _result(
    question: Question,
    before: Strategy,
    answer: Answer,
    dropped: tuple[Pair, ...],
    notes: Sequence[str],
    *,
    public: Histogram | None,
    replicates: int,
    seed: int,
) -> Allocated:
    """The strategies, the table of gains and losses, and sentences about them."""
    import pandas as pd

    name = f"{before.name} allocated" if before.name else ""
    after = replace(answer.strategy, name=name)
    models = [question.model(plan) for plan in (before, after)]
    table = _table(models)
    if public is not None:
        facilities = question.facilities if public.spine == question.spine else None
        pairs = [(str(row.level), str(row.query)) for row in table.itertuples()]
        for when, plan in (("before", before), ("after", after)):
            squares = released_squares(
                public, plan, pairs, facilities=facilities, replicates=replicates, seed=seed + 1000
            )
            table[f"released_{when}"] = [math.sqrt(squares[pair]) for pair in pairs]
    predictions = [model.predicted for model in models]
    reached = pd.DataFrame(
        [
            {
                "goal": goal.words(),
                **{
                    when: goal.figure(at) if goal.pair in at.places else None
                    for when, at in zip(("before", "after"), predictions, strict=True)
                },
                "met": goal.excess(predictions[1]) <= 0,
            }
            for goal in question.goals
        ],
        columns=["goal", "before", "after", "met"],
    )
    risk = None
    if question.risk is not None:
        risk = question.risk.as_json(question.calibrated(before), question.calibrated(after))
    return Allocated(
        before=before,
        after=after,
        predicted=table,
        goals=reached,
        gap=answer.gap,
        risk=risk,
        dropped=dropped,
        notes=(*_notes(question, before, models), *notes, *_risk_note(risk)),
        exactness=before.exactness(question.spine, question.schema, optimised=question.optimised),
    )


def _table(models: Sequence[Model]) -> pd.DataFrame:
    """The standard deviations of every level and query, before and after."""
    import pandas as pd

    squares = [model.mean_squares(model.predicted) for model in models]
    rows = []
    for level in models[0].strategy.levels:
        for query in dict.fromkeys(models[0].schema.query(name).name for name in models[0].queries):
            sds = [math.sqrt(of[level, query]) if (level, query) in of else math.nan for of in squares]
            change = sds[1] / sds[0] - 1 if sds[0] > 0 else math.nan
            rows.append({"level": level, "query": query, "sd_before": sds[0], "sd_after": sds[1], "change": change})
    return pd.DataFrame(rows)


def _notes(question: Question, plan: Strategy, models: Sequence[Model]) -> list[str]:
    """What was minimised or met, and what it gained, in sentences."""
    notes = []
    goals: Sequence[Goal] = question.goals
    if question.weights is None:
        words = "; ".join(goal.words() for goal in goals)
        was, now = (f"{float(model.strategy.budget):.4g}" for model in models)
        unit = models[1].strategy.unit
        notes.append(f"The least budget that meets these goals: {words}. It is {unit} {now}; before it was {was}.")
    else:
        kind = "geometric mean" if question.kind == "geometric" else "weighted sum"
        notes.append(f"Shares that minimise the {kind} of predicted mean squared errors of {_weighted(question)}.")
        objective = question.objective(models[1])
        assert objective is not None
        before, after = (objective.value(model, model.predicted)[0] for model in models)
        less = -math.expm1((after - before) / 2)
        notes.append(f"Its root is {abs(less):.1%} {'lower' if less >= 0 else 'higher'} than before.")
        if goals:
            notes.append(f"These goals are met at the same budget: {'; '.join(goal.words() for goal in goals)}.")
    if question.corrections:
        notes.append("Errors are corrected for non-negativity by simulations on counts that were declared public.")
    how = "least squares over the whole tree" if question.estimator == "tree" else "TopDown, before non-negativity"
    notes.append(f"Errors are predicted for {how}.")
    if question.facilities is None and any(isinstance(one, FacilityBounds) for one in plan.constraints):
        notes.append("No facilities were given, so errors are predicted as if every type could be in every unit.")
    return notes


def _weighted(question: Question) -> str:
    weights = question.weights or {}
    if len(set(weights.values())) == 1:
        if len(weights) > 6:
            return f"{len(weights)} levels and queries alike"
        return ", ".join(f"{query}@{level}" for level, query in weights)
    return ", ".join(f"{query}@{level} (weight {weight:g})" for (level, query), weight in weights.items())


def _risk_note(risk: dict[str, object] | None) -> list[str]:
    if risk is None:
        return []
    return [
        f"The bound on {str(risk['measure']).replace('_', ' ')} of {risk['bound']:g} is kept by {risk['holds_for']}: "
        f"{risk['after']:.4g}, before {risk['before']:.4g}."
    ]
