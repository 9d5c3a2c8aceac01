"""Noise that is calibrated by privacy loss distribution uses the wanted (epsilon, delta), and never more."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from brute_loss import World, losses_of, optimised_worlds, worlds
from hypothesis import assume, given, settings
from lattice_loss import exact_delta_of

from tallyveil import Histogram, Schema, Spine, Strategy
from tallyveil.errors import BudgetError
from tallyveil.privacy import RunKey, account_of, epsilon_from_rho
from tallyveil.privacy.calibrate import calibrated
from tallyveil.privacy.loss import Loss
from tallyveil.privacy.loss_distribution import largest_delta
from tallyveil.privacy.neighbour_pairs import at_budget, differing_counts
from tallyveil.privacy.strategy_toml import strategy_from_toml, strategy_to_toml
from tallyveil.privacy.streams import measurement_stream

QUERIES = ("total", "age", "sex", "age * sex", "home", "detailed")


def random_strategy(seed: int, *, most_levels: int = 5, epsilons=("1", "2.5", "6", "17.14", "25")) -> Strategy:
    """Random levels, queries and budgets. Shares are twelfths, so that all losses lie on one lattice."""
    dice = random.Random(seed)

    def shares(names):
        cuts = sorted(dice.sample(range(1, 12), len(names) - 1))
        return {name: Fraction(b - a, 12) for name, a, b in zip(names, [0, *cuts], [*cuts, 12], strict=True)}

    levels = [f"level{i}" for i in range(dice.randint(1, most_levels))]
    return Strategy(
        mechanism="gaussian",
        accounting="pld",
        epsilon=dice.choice(epsilons),
        delta=dice.choice(["1e-3", "1e-6", "1e-10", "1e-12"]),
        neighbours=dice.choice(["replace-one", "add-or-remove"]),
        levels=shares(levels),
        queries={level: shares(dice.sample(QUERIES, dice.randint(1, 4))) for level in levels},
    )


def check_calibration(strategy: Strategy) -> None:
    """Without a spine, every count on two paths differs (one for add-or-remove neighbours)."""
    made = calibrated(strategy)
    times = 2 if strategy.neighbours == "replace-one" else 1
    counts: Counter = Counter()
    for level, level_share in made.levels.items():
        for share in made.queries[level].values():
            counts[Fraction(times, 2) / (made.budget * level_share * share)] += times
    used = exact_delta_of(counts, made.epsilon) / made.delta
    assert 0.98 <= used <= 1, f"uses {float(used)} of delta"
    assert made.budget > strategy.budget  # less noise than by zCDP


@pytest.mark.parametrize("seed", range(8))
def test_the_calibrated_noise_uses_at_least_98_percent_of_the_wanted_delta_and_never_more(seed):
    check_calibration(random_strategy(seed, most_levels=3, epsilons=("6", "17.14", "25")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 58))
def test_the_calibrated_noise_uses_at_least_98_percent_of_the_wanted_delta_in_dozens_of_strategies(seed):
    check_calibration(random_strategy(seed))


def check_world(world: World, *, epsilon: str, delta: str) -> None:
    """The same on a spine: the worst pair of all records, with the noise that is drawn, uses the wanted delta."""
    strategy = replace(world.strategy, accounting="pld", epsilon=epsilon, delta=delta, calibrated=False, constraints=())
    schema = Schema(attributes=world.schema.attributes, groupings=world.schema.groupings)  # every cell can exist
    world = replace(world, schema=schema)
    place = {"spine": world.spine, "schema": world.schema, "optimised": world.optimised}
    made = calibrated(strategy, **place)
    pairs = losses_of(replace(world, strategy=made)).signatures(most=10)
    assume(any(pairs))
    used = max(exact_delta_of(counts, made.epsilon) for counts in pairs if counts) / made.delta
    assert 0.98 <= used <= 1, f"uses {float(used)} of delta"
    account = account_of(made, **place)
    assert (account.accountant, account.epsilon) == ("pld", float(made.epsilon))
    assert account.pld_epsilon <= account.epsilon < account.zcdp_epsilon
    assert max([*account.within_level.values(), 0.0]) <= account.epsilon or made.neighbours == "add-or-remove"


@settings(max_examples=4)
@given(worlds(mechanisms=("gaussian",)) | optimised_worlds(mechanisms=("gaussian",)))
def test_the_worst_pair_of_records_on_the_measured_spine_uses_the_wanted_delta(world):
    check_world(world, epsilon="2", delta="1e-5")


@pytest.mark.slow
@settings(max_examples=150)
@given(worlds(mechanisms=("gaussian",)) | optimised_worlds(mechanisms=("gaussian",)))
def test_the_worst_pair_of_records_uses_the_wanted_delta_at_a_large_epsilon_where_noise_is_coarse(world):
    check_world(world, epsilon="20", delta="1e-8")


@settings(max_examples=60)
@given(worlds(mechanisms=("gaussian",)) | optimised_worlds(mechanisms=("gaussian",)))
def test_the_largest_sets_of_differing_counts_are_those_of_all_pairs_of_records(world):
    world = replace(world, strategy=replace(world.strategy, constraints=()))
    schema = Schema(attributes=world.schema.attributes, groupings=world.schema.groupings)  # every cell can exist
    world = replace(world, schema=schema)
    loss = Loss(strategy=world.strategy, spine=world.spine, schema=schema, optimised=world.optimised)
    ours = [Counter(dict(at_budget(counts, world.strategy.budget))) for counts in differing_counts(loss)]
    theirs = [counts for counts in losses_of(world).signatures(most=10_000) if counts]
    for counts in theirs:
        assert any(counts <= one for one in ours), f"{counts} is not covered"
    for counts in ours:
        assert counts in theirs, f"no pair of records differs in {counts}"


@pytest.mark.parametrize(
    ("counts", "epsilon"),
    [
        ({Fraction(4): 2}, "13/2"),
        ({Fraction(1, 10): 3, Fraction(1, 7): 1}, "43"),
        ({Fraction(3, 7): 2, Fraction(40): 3, Fraction(60): 4}, "13"),
        ({Fraction(1): 1}, "7/2"),  # an atom at epsilon itself
    ],
)
def test_delta_is_that_of_direct_convolution_and_one_more_count_is_noticed(counts, epsilon):
    exact, at = exact_delta_of(Counter(counts), Fraction(epsilon), tail=130), float(Fraction(epsilon))
    assert exact <= largest_delta(tuple(counts.items()), at) <= exact * 1.001
    irregular = tuple((variance * Fraction(1_000_003, 1_000_000 + 7 * i), n) for i, (variance, n) in
                      enumerate(counts.items()))  # fmt: skip
    assert largest_delta(irregular, at) == pytest.approx(exact, rel=2e-3)  # off the lattice, on a rounded grid
    assert largest_delta(tuple((variance, n + 1) for variance, n in counts.items()), at) > exact * 1.05


def test_delta_does_not_always_fall_with_the_variance_so_every_calibrated_rho_is_tested_itself():
    deltas = [exact_delta_of(Counter({Fraction(variance): 2}), Fraction(13, 2), tail=130) for variance in ("4", "4.08")]
    assert deltas[1] > 1.1 * deltas[0]  # wider noise, and easier to tell apart at this epsilon


def test_a_delta_far_below_what_floats_add_up_to_is_precise():
    counts = {Fraction(5): 4, Fraction(20): 8}
    exact = exact_delta_of(Counter(counts), Fraction(12), tail=130)
    assert 1e-35 < exact < 1e-25
    assert exact <= largest_delta(tuple(counts.items()), 12.0) <= exact * 1.001


def small_strategy(**fields) -> Strategy:
    return Strategy(
        **{"mechanism": "gaussian", "accounting": "pld", "epsilon": 4, "delta": "1e-6"} | fields,
        levels={"town": "1/3", "street": "1/3", "block": "1/3"},
        queries={level: {"total": "1/4", "detailed": "3/4"} for level in ("town", "street", "block")},
    )


def test_a_calibrated_strategy_keeps_its_rho_and_is_refused_where_it_is_too_large():
    made = calibrated(small_strategy())
    assert calibrated(made) == made
    assert strategy_from_toml(strategy_to_toml(made)) == made
    assert strategy_from_toml(strategy_to_toml(small_strategy())) == small_strategy()
    more = replace(made, budget=made.budget * Fraction(101, 100))
    with pytest.raises(BudgetError, match=r"gives epsilon 4 only at delta .* Leave rho out of the strategy"):
        calibrated(more)
    assert account_of(more).epsilon > 4  # an account says what holds, not what was wanted


def test_the_only_child_rule_changes_the_rho_of_coarse_noise():
    spine = Spine.from_columns({"street": ["a", "b"], "block": ["a1", "b1"]}, root="town")
    schema = Schema(attributes={"age": ["child", "adult"]})
    rhos = {
        rule: calibrated(small_strategy(epsilon=40, only_child=rule), spine=spine, schema=schema).budget
        for rule in (False, True)
    }
    assert rhos[True] != rhos[False]


def test_other_variances_give_another_stream_and_the_same_rho_the_same():
    spine = Spine.from_columns({"street": ["a", "b"], "block": ["a1", "b1"]}, root="town")
    schema = Schema(attributes={"age": ["child", "adult"]})
    people = Histogram.from_entries(spine, schema, unit=[0, 1], cell=[1, 0], count=[40, 7])
    by_pld = calibrated(small_strategy())
    by_zcdp = by_pld.with_accounting("zcdp")
    same = replace(by_zcdp, budget=by_pld.budget)  # the same measurement, accounted for differently
    words = [
        measurement_stream(RunKey.from_seed(1), people, plan).words(
            np.arange(4), level=0, query=0, replicate=np.zeros(4, dtype=np.int64)
        )
        for plan in (by_pld, by_zcdp, same)
    ]
    assert not np.array_equal(words[0], words[1])
    assert np.array_equal(words[0], words[2])


def test_what_is_not_calibrated_yet_has_the_rho_of_zcdp():
    plan = small_strategy()
    assert epsilon_from_rho(plan.budget, plan.delta) <= 4
    assert replace(plan, delta="1e-3").budget > plan.budget
    assert plan.with_budget(rho=2) == replace(plan, accounting="zcdp", epsilon=None, budget=2)
    assert plan.with_budget(epsilon=1).epsilon == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mechanism": "geometric"}, 'accounting = "pld" is for Gaussian noise'),
        ({"epsilon": None}, "needs the epsilon that is wanted at delta"),
        ({"accounting": "zcdp", "budget": 1}, "takes a rho and no epsilon"),
        ({"accounting": "rdp"}, 'accounting must be "zcdp" or "pld". Got'),
    ],
)
def test_fields_that_do_not_fit_the_accounting_are_refused(fields, words):
    with pytest.raises(BudgetError, match=words):
        small_strategy(**fields)


def test_an_epsilon_beyond_the_distribution_is_refused():
    with pytest.raises(BudgetError, match=r'rho is above 1,000. Use "zcdp"'):
        calibrated(small_strategy(epsilon=5000))


def test_the_preset_of_2020_needs_a_fifteenth_less_variance_for_its_own_epsilon():
    plan = Strategy.preset("pl94-2020-us-persons")
    made = calibrated(plan.with_accounting("pld"))
    assert float(made.epsilon) == 17.14355
    less = 1 - plan.budget / made.budget
    assert float(less) == pytest.approx(0.0665, abs=0.0001)
