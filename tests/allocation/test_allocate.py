"""Allocations: optimal, exact fractions, goals met with the least budget, bounds on risk kept, bad input refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import tallyveil as tv
from tallyveil.blue.accuracy import expected_accuracy
from tallyveil.errors import InputError
from tallyveil.mechanisms.measure import measure
from tallyveil.privacy import Invariant, RunKey
from tallyveil.privacy.strategy_toml import strategy_from_toml

SCHEMA = tv.Schema(attributes={"age": ["child", "adult"], "sex": ["f", "m"]})
NOBODY = tv.Schema(attributes={})


def tree(streets: int = 4, blocks: int = 3) -> tv.Spine:
    codes = [f"{s:02}" for s in range(streets) for _ in range(blocks)]
    columns = {"street": codes, "block": [f"{code}{i % blocks:02}" for i, code in enumerate(codes)]}
    return tv.Spine.from_columns(columns, root="town")


def plan_of(spine, schema=SCHEMA, **fields) -> tv.Strategy:
    return tv.Strategy.default(spine, schema, **(fields or {"rho": "1/2"}))


def sums_to_one(plan: tv.Strategy) -> bool:
    return sum(plan.levels.values()) == 1 and all(sum(of.values()) == 1 for of in plan.queries.values() if of)


def predicted(made) -> dict:
    return {(row.level, row.query): row for row in made.predicted.itertuples()}


# --- the optimum


@pytest.mark.parametrize("budget", [{"rho": "1/20"}, {"epsilon": "1/2"}])
def test_one_share_is_where_a_search_by_the_accuracy_table_finds_it(budget):
    spine = tree()
    plan = plan_of(spine, NOBODY, **budget)
    made = tv.allocate(spine, NOBODY, plan, weights={"total@street": 3, "total@block": 1}, least="1/1000")

    def cost(share):
        whole = Fraction(share).limit_denominator(10**6)
        table = expected_accuracy(
            spine, NOBODY, replace(plan, levels={"town": 0, "street": whole, "block": 1 - whole}), queries=["total"]
        ).set_index("level")
        return 3 * table.sd["street"] ** 2 + table.sd["block"] ** 2

    grid = min(np.linspace(0.002, 0.998, 40), key=cost)
    best = minimize_scalar(cost, bounds=(max(grid - 0.03, 0.001), min(grid + 0.03, 0.999)), method="bounded",
                           options={"xatol": 1e-5})  # fmt: skip
    assert cost(float(made.after.levels["street"])) == pytest.approx(best.fun, rel=2e-3)
    assert sums_to_one(made.after)
    assert made.after.levels["town"] == 0  # the total of the town is exact


def test_shares_of_levels_and_queries_are_those_of_a_general_solver_and_the_gap_proves_it():
    spine = tree(3, 2)
    plan = plan_of(spine, rho="1/10")
    pairs = [(spend.level, spend.query) for spend in plan.spends()]
    weights = {"age@street": 2, "total@block": 1, "detailed@block": 1}
    made = tv.allocate(spine, SCHEMA, plan, weights=weights, least="1/1000")

    def cost(logs):
        powers = np.exp(logs - logs.max())
        shares = 0.0003 + (1 - 0.0003 * len(powers)) * powers / powers.sum()
        of = {level: {} for level in plan.levels}
        for (level, query), share in zip(pairs, shares, strict=True):
            of[level][query] = Fraction(float(share)).limit_denominator(10**9)
        sums = {level: sum(some.values()) for level, some in of.items()}
        there = tv.Strategy.proportional(
            mechanism="gaussian", budget=plan.budget, levels=sums, queries=of, attributes=tuple(SCHEMA.attributes)
        )
        table = expected_accuracy(spine, SCHEMA, there, queries=["total", "age", "detailed"])
        sd = table.set_index(["level", "query"]).sd
        return np.log(sum(w * sd[key.split("@")[1], key.split("@")[0]] ** 2 for key, w in weights.items()))

    found = minimize(cost, np.zeros(len(pairs)), method="L-BFGS-B", options={"maxiter": 60})
    rows = predicted(made)
    ours = sum(w * rows[key.split("@")[1], key.split("@")[0]].sd_after ** 2 for key, w in weights.items())
    assert np.log(ours) <= found.fun + 2e-3
    assert 0 <= made.gap < 1e-4


def test_no_other_shares_are_better_by_more_than_the_gap():
    spine = tree()
    plan = plan_of(spine)
    made = tv.allocate(spine, SCHEMA, plan, objective="geometric")
    rng = np.random.default_rng(2)
    logs = np.log([row.sd_after for row in made.predicted.itertuples() if row.sd_after > 0]).mean()
    for _ in range(20):
        levels = {level: Fraction(int(x), 1000) for level, x in zip(plan.levels, rng.integers(50, 900, 3), strict=True)}
        other = tv.Strategy.proportional(
            mechanism="gaussian", budget=plan.budget, levels=levels, queries=dict(made.after.queries),
            attributes=plan.attributes,
        )  # fmt: skip
        table = expected_accuracy(spine, SCHEMA, other, queries=["total", "age", "sex", "detailed"])
        assert np.log(table.sd[table.sd > 0]).mean() >= logs - 1e-3


def test_every_level_and_query_is_in_the_table_winners_and_losers():
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine), weights={"total@block": 1})
    rows = predicted(made)
    assert set(rows) == {(level, q) for level in spine.levels for q in ("total", "age", "sex", "detailed")}
    assert rows["block", "total"].change < 0 < rows["street", "sex"].change
    assert np.isnan(rows["town", "total"].change)  # exact before and after
    table = expected_accuracy(spine, SCHEMA, made.after, queries=["total", "age", "sex", "detailed"])
    for row in table.itertuples():
        assert rows[row.level, row.query].sd_after == pytest.approx(row.sd, rel=1e-6)


def test_the_file_reads_back_as_the_strategy_and_says_how_it_was_made():
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine), weights={"age@block": 1})
    written = made.to_toml()
    assert strategy_from_toml(written) == made.after
    assert "# Shares that minimise the weighted sum of predicted mean squared errors of age@block." in written
    assert sum(Fraction(row["share"]) for row in made.shares()) == 1
    assert sum(Fraction(row["share_before"]) for row in made.shares()) == 1
    assert made.to_arrow().num_rows == len(made.to_pandas())


# --- goals


def coverage(spine, plan, size: float, *, query: str, level: str, replicates: int) -> float:
    """The share of estimates within some persons of the truth; nobody lives there, which changes no error."""
    people = tv.Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[0], count=[40])
    true = people.answer(query, level=level).dense().reshape(-1)
    inside = []
    for seed in range(replicates):
        noisy = measure(people, plan, RunKey.from_seed(seed))
        table = tv.estimate(noisy, levels=[level], queries=[query]).to_pandas()
        inside.append(np.abs(table.estimate.to_numpy() - true) <= size)
    return float(np.mean(inside))


def test_a_goal_is_met_in_simulations_and_missed_with_less():
    spine = tree(8, 6)
    made = tv.allocate(spine, SCHEMA, plan_of(spine), goals=["total@block within 30 in 95%"])
    assert made.goals.met.all()
    assert made.goals.after[0] == pytest.approx(95, abs=0.05)
    reached = coverage(spine, made.after, 30, query="total", level="block", replicates=80)  # 3,840 estimates
    assert 0.938 < reached < 0.962  # 0.95 with three standard errors of 0.004
    less = made.after.with_budget(rho=made.after.budget * Fraction(7, 10))
    assert coverage(spine, less, 30, query="total", level="block", replicates=80) < 0.925


GOALS = [
    ["total@block within 20 in 95%"],
    ["total@street within 12 in 90%", "age@block within 25 in 95%"],
    ["sex@street: CV under 10% above 200 people"],
    ["total@block: CV under 5% above 300 people", "detailed@street within 30 in 80%"],
]


@pytest.mark.parametrize("goals", GOALS)
def test_a_budget_that_is_five_percent_smaller_misses_the_goals_with_any_shares(goals):
    spine = tree(3, 4)
    made = tv.allocate(spine, SCHEMA, plan_of(spine), goals=goals)
    assert made.goals.met.all()
    assert sums_to_one(made.after)
    for part, met in ((Fraction(95, 100), False), (Fraction(102, 100), True)):
        other = made.before.with_budget(rho=made.after.budget * part)
        if met:
            again = tv.allocate(spine, SCHEMA, other, goals=goals, weights={"detailed@block": 1})
            assert again.goals.met.all()
            assert again.after.budget == other.budget
        else:
            with pytest.raises(
                InputError, match=r"no shares meet the goals .* at a budget of .* Leave the weights out"
            ):
                tv.allocate(spine, SCHEMA, other, goals=goals, weights={"detailed@block": 1})


def test_a_goal_that_is_met_already_needs_a_smaller_budget():
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine, rho=5), goals=["total@street within 50 in 95%"])
    assert made.after.budget < 5
    assert made.goals.before[0] > 95
    assert made.goals.met.all()


def test_geometric_noise_meets_goals_too():
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine, epsilon=1), goals=["age@block within 20 in 90%"])
    assert made.goals.met.all()
    assert made.after.unit == "epsilon"
    rows = predicted(made)
    table = expected_accuracy(spine, SCHEMA, made.after, queries=["age"]).set_index("level")
    assert rows["block", "age"].sd_after == pytest.approx(table.sd["block"], rel=1e-6)


def test_noise_calibrated_by_privacy_loss_distribution_meets_goals_after_calibration():
    spine = tree()
    plan = plan_of(spine, rho="1/2").with_accounting("pld")
    made = tv.allocate(spine, SCHEMA, plan, goals=["total@block within 10 in 95%"])
    assert made.after.accounting == "pld"
    assert not made.after.calibrated
    assert made.goals.met.all()
    assert made.goals.after[0] < 95.1


# --- risk, candidates, simulation


@pytest.mark.parametrize(("budget", "bound"), [({"rho": 1}, "1.1"), ({"epsilon": 2}, "1.1")])
def test_a_bound_on_risk_is_kept_and_the_scan_agrees(budget, bound):
    spine = tree(6, 4)
    plan = plan_of(spine, **budget)
    free = tv.allocate(spine, SCHEMA, plan, weights={"total@block": 1}, risk_bound="1.999")
    made = tv.allocate(spine, SCHEMA, plan, weights={"total@block": 1, "total@street": 1}, risk_bound=bound)
    assert free.risk["after"] > float(bound)  # it binds
    assert float(bound) * 0.98 < made.risk["after"] <= float(bound)
    people = tv.Histogram.from_entries(spine, SCHEMA, unit=[0, 1, 5], cell=[0, 1, 3], count=[1, 3, 9])
    scanned = tv.risk.scan(people, made.after, priors=["1/2"], levels=["block"])
    groups = scanned.groups
    assert (groups.posterior / 0.5).max() <= float(bound) + 1e-9
    assert sums_to_one(made.after)


def test_goals_that_need_more_risk_than_the_bound_are_refused_with_the_reason():
    spine = tree()
    with pytest.raises(InputError, match=r"no shares meet the goals .* while the leaf level keeps its bound on risk"):
        tv.allocate(spine, SCHEMA, plan_of(spine), goals=["total@block within 2 in 99%"], risk_bound="1.05")


def test_a_bound_that_leaves_no_share_is_refused():
    spine = tree()
    with pytest.raises(
        InputError, match=r"the bound on risk leaves level 'block' a share of .*, and every level keeps"
    ):
        tv.allocate(spine, SCHEMA, plan_of(spine, rho=500), risk_bound="1.01")


def test_candidates_that_help_are_measured_and_others_are_dropped():
    spine = tree()
    queries = {level: {"detailed": 1} for level in ("street", "block")} | {"town": {"detailed": 1}}
    plan = tv.Strategy(mechanism="gaussian", budget=Fraction(1, 2), queries=queries, attributes=("age", "sex"),
                       levels=dict.fromkeys(("town", "street", "block"), Fraction(1, 3)))  # fmt: skip
    fixed = tv.allocate(spine, SCHEMA, plan, weights={"age@block": 1})
    made = tv.allocate(spine, SCHEMA, plan, weights={"age@block": 1}, candidates=["all"])
    assert "age" in made.after.queries["block"]
    assert ("block", "sex") in made.dropped
    assert all("detailed" in of for of in made.after.queries.values())
    assert predicted(made)["block", "age"].sd_after < 0.8 * predicted(fixed)["block", "age"].sd_after
    assert any(note.startswith("Candidates lower the error by") for note in made.notes)


def test_candidates_that_do_not_help_leave_the_fixed_queries():
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine), candidates=["sex@street"], least="1/1000")
    assert "No candidate lowers the error: the fixed queries are kept." in made.notes


def test_simulations_on_public_counts_correct_the_objective_and_are_shown_beside_the_prediction():
    spine = tree(5, 4)
    rng = np.random.default_rng(1)
    counts = rng.poisson(1.0, (20, 4))
    unit, cell = np.nonzero(counts)
    public = tv.Histogram.from_entries(spine, SCHEMA, unit=unit, cell=cell, count=counts[unit, cell])
    plan = plan_of(spine, rho="1/5")
    weights = {"detailed@block": 1, "total@street": 1}
    made = tv.allocate(spine, SCHEMA, plan, weights=weights, public_counts=public, replicates=6)
    rows = predicted(made)
    assert rows["block", "detailed"].released_before < rows["block", "detailed"].sd_before  # zeros cannot be negative
    plain = tv.allocate(spine, SCHEMA, plan, weights=weights)
    assert made.after.levels["block"] < plain.after.levels["block"]  # released cells respond less to noise


# --- shapes that could break it


def test_every_level_keeps_a_quarter_of_an_equal_share_unless_told():
    """Published counts sum to those of the level above: a root of hardly any share would spoil all levels."""
    spine = tree()
    made = tv.allocate(spine, SCHEMA, plan_of(spine), weights={"total@block": 1})
    assert float(min(made.after.levels.values())) == pytest.approx(1 / (4 * len(spine.levels)), abs=1e-4)  # four digits


def test_one_level_one_label_and_totals_alone():
    alone = tv.Spine.from_columns({"town": ["t"]})
    one = tv.allocate(alone, SCHEMA, plan_of(alone), weights={"age@town": 1})
    assert one.after.levels == {"town": 1}
    assert sums_to_one(one.after)
    spine = tree()
    flat = tv.Schema(attributes={"age": ["anybody"], "sex": ["f", "m"]})
    assert sums_to_one(tv.allocate(spine, flat, plan_of(spine, flat), weights={"age@block": 1}).after)
    totals = tv.Strategy(mechanism="gaussian", budget=1, levels={"town": 0, "street": "1/2", "block": "1/2"},
                         queries={"street": {"total": 1}, "block": {"total": 1}},
                         constraints=(Invariant(query="detailed", level="town"),))  # fmt: skip
    made = tv.allocate(spine, NOBODY, replace(totals, constraints=()), weights={"total@street": 1}, least="1/20")
    assert made.after.levels["street"] > Fraction(9, 10)
    some = tv.allocate(spine, SCHEMA, totals, weights={"total@street": 1}, least="1/20")
    assert some.after.levels["street"] > Fraction(9, 10)


def test_a_query_that_nothing_determines_is_refused_and_missing_in_the_table():
    spine = tree()
    plan = tv.Strategy(mechanism="gaussian", budget=1, attributes=("age", "sex"),
                       levels={"town": "1/3", "street": "1/3", "block": "1/3"},
                       queries={"town": {"age": 1}, "street": {"age": 1}, "block": {"total": 1}})  # fmt: skip
    made = tv.allocate(spine, SCHEMA, plan, weights={"age@street": 1})
    rows = predicted(made)
    assert np.isnan(rows["block", "age"].sd_after)
    assert rows["block", "total"].sd_after > 0
    with pytest.raises(InputError, match="age@block is not determined by what the strategy measures"):
        tv.allocate(spine, SCHEMA, plan, weights={"age@block": 1})
    with pytest.raises(InputError, match="sex@street is not determined"):
        tv.allocate(spine, SCHEMA, plan, goals=["sex@street within 5 in 95%"])


def test_what_invariants_make_exact_gets_no_share():
    spine = tree()
    plan = replace(plan_of(spine), constraints=(Invariant(query="age", level="street"),))
    made = tv.allocate(spine, SCHEMA, plan)
    assert set(made.after.queries["street"]) == {"sex", "detailed"}
    assert set(made.after.queries["town"]) == {"sex", "detailed"}
    assert made.predicted.set_index(["level", "query"]).sd_after["street", "age"] == pytest.approx(0, abs=1e-6)
    whole = replace(plan, constraints=(Invariant(query="detailed", level="street"),))
    made = tv.allocate(spine, SCHEMA, whole, weights={"total@block": 1})
    assert (made.after.levels["street"], made.after.levels["block"]) == (0, 1)
    with pytest.raises(InputError, match="invariants make every count exact"):
        tv.allocate(spine, SCHEMA, replace(plan, constraints=(Invariant(query="detailed", level="block"),)))


def test_passes_forget_queries_that_are_no_longer_measured():
    spine = tree()
    plan = replace(plan_of(spine), passes={"street": [["age"], ["total"], ["*"]]},
                   constraints=(Invariant(query="age", level="street"),))  # fmt: skip
    made = tv.allocate(spine, SCHEMA, plan, weights={"total@block": 1})
    assert made.after.passes["street"] == (("*",),)


def test_only_children_and_an_optimised_spine_are_predicted_as_they_are_measured():
    codes = {"street": ["a", "b", "b", "c", "c"], "block": ["a1", "b1", "b2", "c1", "c2"]}
    spine = tv.Spine.from_columns(codes, root="town")
    plan = replace(plan_of(spine), only_child=True)
    made = tv.allocate(spine, SCHEMA, plan, weights={"age@block": 1, "total@street": 1})
    before, after = (
        expected_accuracy(spine, SCHEMA, one, queries=["age"]).set_index("level").sd["block"]
        for one in (plan, made.after)
    )
    assert predicted(made)["block", "age"].sd_after == pytest.approx(after, rel=1e-6)
    assert after < before
    assert made.gap is None  # not convex
    names = {"state": list("1111"), "county": list("aabb"), "tract": list("1234")}
    deep = tv.Spine.from_columns(names, root="us")
    tribal = tv.Areas.from_codes(deep, leaf=["1"], area=["t"])
    optimised = deep.optimised(tribal=tribal)
    plan = tv.Strategy.default(deep, SCHEMA, rho=1, optimised=optimised)
    made = tv.allocate(deep, SCHEMA, plan, weights={"total@tract": 1}, optimised=optimised)
    table = expected_accuracy(deep, SCHEMA, made.after, optimised=optimised, queries=["total"]).set_index("level")
    assert predicted(made)["tract", "total"].sd_after == pytest.approx(table.sd["tract"], rel=1e-6)


def test_the_estimator_decides_what_is_predicted():
    spine = tree()
    one = tv.allocate(spine, SCHEMA, plan_of(spine), weights={"age@street": 1})
    other = tv.allocate(spine, SCHEMA, plan_of(spine), weights={"age@street": 1}, estimator="topdown")
    assert predicted(one)["street", "age"].sd_before < predicted(other)["street", "age"].sd_before
    assert any("TopDown" in note for note in other.notes)


def test_a_zero_weight_counts_for_nothing_and_zero_weights_alone_are_refused():
    spine = tree()
    plan = plan_of(spine)
    one = tv.allocate(spine, SCHEMA, plan, weights={"age@block": 1, "sex@street": 0})
    assert one.after == tv.allocate(spine, SCHEMA, plan, weights={"age@block": 2}).after
    with pytest.raises(InputError, match="no level and query with an error has a weight above 0"):
        tv.allocate(spine, SCHEMA, plan, weights={"age@block": 0, "total@town": 1})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"goals": ["total@street"]}, r"goal 'total@street' is not understood. Write it as \"total@county within 20"),
        ({"goals": ["total@ward within 5 in 95%"]}, "goal 'total@ward within 5 in 95%': unknown level 'ward'"),
        ({"goals": ["race@street within 5 in 95%"]}, "goal 'race@street within 5 in 95%': .*race"),
        ({"goals": ["total@street within 0 in 95%"]}, "0 people is not above 0. Noise is never 0: allow some"),
        ({"goals": ["total@street within 5 in 100%"]}, "100% must be between 0% and 100%, and neither of them"),
        ({"goals": ["total@block: CV under 0.0001% above 1 people"]}, "no budget up to 10,000 meets the goals"),
        ({"weights": {"total": 1}}, "weight 'total': write it as QUERY@LEVEL"),
        ({"weights": {"total@ward": 1}}, "weight 'total@ward': unknown level 'ward'"),
        ({"weights": {"total@block": -1}}, "weight 'total@block': the weight must be 0 or more. Got -1 instead"),
        ({"weights": {}}, "no weights are given. Give one, or leave weights out"),
        ({"candidates": ["race"]}, "candidate 'race': .*race"),
        ({"candidates": ["age@ward"]}, "candidate 'age@ward': unknown level 'ward'"),
        ({"least": "1/3"}, "a least share of 1/3 for each of 3 levels is all of the budget. Give a smaller one"),
        ({"risk_bound": "0.5"}, "no share of level 'block' keeps the bound on risk: .*. Give another"),
        ({"public_counts": 3}, "public_counts must be a Histogram of public counts. Got int"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(options, words):
    spine = tree()
    with pytest.raises(InputError, match=words):
        tv.allocate(spine, SCHEMA, plan_of(spine), **options)


def test_counts_in_place_of_a_spine_are_refused():
    spine = tree()
    people = tv.Histogram.from_entries(spine, SCHEMA, unit=[0], cell=[0], count=[1])
    with pytest.raises(InputError, match=r"allocate takes the spine of the units, not Histogram: .* public inputs"):
        tv.allocate(people, SCHEMA, plan_of(spine))
